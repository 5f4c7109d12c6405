"""Offline evaluations. What they compute is handed in: the service itself knows no estimators."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable
from socket import gethostname

import msgspec

from glbandits.errors import GlbanditsError, InvalidInput
from glbandits.serving.domain.policy_arguments import parse_arguments
from glbandits.serving.http.http_messages import HttpError, Request, Response
from glbandits.serving.http.personalizer.config_handlers import run_policy
from glbandits.serving.http.personalizer.config_schemas import (
    Evaluation,
    EvaluationContract,
    PolicyContract,
    PolicyReference,
)
from glbandits.serving.http.personalizer.iso8601 import as_microseconds, as_time
from glbandits.serving.http.personalizer.schemas import check_ids
from glbandits.serving.http.site import EvaluateLog, Site
from glbandits.serving.storage.event_store import EventStore

log = logging.getLogger(__name__)

EVALUATION = "evaluation"
"""The kind of the documents."""
NO_ESTIMATORS = "this server was started without estimators; export the log and run `glb evaluate`"
ABANDONED = "the server ended before the evaluation did; begin it again"


class Worker(msgspec.Struct, frozen=True):
    """The process that is at work on an evaluation."""

    machine: str
    process: int

    def gone(self) -> bool:
        """Whether it has ended. Of another machine or container that is not known; nor on Windows."""
        if self.machine != gethostname() or sys.platform == "win32":
            return False
        try:
            os.kill(self.process, 0)  # which asks, and does nothing to it
        except OSError as error:
            return isinstance(error, ProcessLookupError)  # else it runs, and is somebody else's
        return False


class StoredEvaluation(msgspec.Struct, frozen=True):
    """A version of an evaluation. Documents are only ever added, so a deleted one is a version that says so."""

    id: str
    evaluation: Evaluation | None
    worker: Worker | None = None
    """Who is at work on it; None if nobody is."""


async def create(site: Site, request: Request, asked: EvaluationContract) -> Response:
    """Begin an evaluation."""
    evaluation = await _begin(site, request, asked, os.urandom(16).hex())
    location = f"{request.path.rstrip('/')}/{evaluation.id}".encode("latin-1")
    return Response(201, msgspec.json.encode(evaluation), headers=((b"location", location),))


async def create_named(site: Site, request: Request, asked: EvaluationContract) -> Evaluation:
    """Begin an evaluation under an id, as 2022-09-01-preview has it."""
    return await _begin(site, request, asked, request.values["evaluation"])


async def _begin(site: Site, request: Request, asked: EvaluationContract, evaluation_id: str) -> Evaluation:
    loop = site.service.loop(request.loop_name).name
    if site.evaluate_log is None:
        raise HttpError(503, "OperationNotAllowed", NO_ESTIMATORS)
    check_ids("Evaluation", [evaluation_id])
    if not evaluation_id.isprintable():
        raise InvalidInput(f"Evaluation ids must have no control characters; got {evaluation_id[:40]!r}.")
    for policy in asked.policies:
        parse_arguments(policy.arguments)
    evaluation = Evaluation(
        id=evaluation_id,
        name=asked.name,
        start_time=asked.start_time,
        end_time=asked.end_time,
        job_id=evaluation_id,
        status="pending",
        creation_time=as_time(site.service.clock()),
    )
    pending = StoredEvaluation(evaluation_id, evaluation, Worker(gethostname(), os.getpid()))
    await asyncio.to_thread(_save, site, loop, pending)
    running = asyncio.create_task(_finish(site, site.evaluate_log, loop, evaluation, asked.policies))
    site.tasks.add(running)  # the event loop itself would let go of it
    running.add_done_callback(site.tasks.discard)
    return evaluation


async def _finish(
    site: Site, evaluate_log: EvaluateLog, loop: str, evaluation: Evaluation, policies: list[PolicyContract]
) -> None:
    start, end = (as_microseconds(time) for time in (evaluation.start_time, evaluation.end_time))
    try:
        results = await asyncio.to_thread(
            evaluate_log, site.service.store, loop, start=start, end=end, policies=policies
        )
    except Exception as error:
        log.exception("evaluation %r of loop %r failed", evaluation.id, loop)
        why = str(error) if isinstance(error, GlbanditsError) else "the server's log says why"
        done = msgspec.structs.replace(evaluation, status="failed", failure=why)
    else:
        best = max(results, key=lambda result: result.total_summary.average_reward, default=None)
        done = msgspec.structs.replace(
            evaluation, status="completed", policy_results=results, optimal_policy=best.name if best else None
        )
    await asyncio.to_thread(_save, site, loop, StoredEvaluation(evaluation.id, done))


def get(site: Site, request: Request) -> Evaluation:
    """An evaluation, and its results when they are there."""
    return _find(site, request, request.values["evaluation"])


def list_all(site: Site, request: Request) -> list[Evaluation]:
    """All evaluations, the oldest first."""
    loop = site.service.loop(request.loop_name).name
    return stored_evaluations(site.service.store, loop, site.service.clock)


def delete(site: Site, request: Request) -> None:
    """Forget an evaluation."""
    evaluation = _find(site, request, request.values["evaluation"])
    _save(site, request.loop_name, StoredEvaluation(evaluation.id, None))


def apply(site: Site, request: Request, wanted: PolicyReference) -> None:
    """Run a policy that was evaluated."""
    results = _find(site, request, wanted.evaluation_id).policy_results
    arguments = [result.arguments for result in results if result.name == wanted.policy_name]
    if not arguments:
        raise HttpError(404, "LearningSettingsNotFound", f"the evaluation has no policy {wanted.policy_name!r}")
    run_policy(site.service.loop(request.loop_name), *parse_arguments(arguments[0]))


def _save(site: Site, loop: str, stored: StoredEvaluation) -> None:
    site.service.store.save_document(loop, EVALUATION, site.service.clock(), msgspec.json.encode(stored))


def _find(site: Site, request: Request, evaluation_id: str) -> Evaluation:
    for evaluation in list_all(site, request):
        if evaluation.id == evaluation_id:
            return evaluation
    raise HttpError(404, "EvaluationNotFound", f"there is no evaluation {evaluation_id!r}")


def end_abandoned(store: EventStore, loops: Iterable[str], clock: Callable[[], int]) -> None:
    """Let evaluations that are pending fail before a server runs, but for those of another that does."""
    for loop in loops:
        stored_evaluations(store, loop, clock, starting=True)


def stored_evaluations(
    store: EventStore, loop: str, clock: Callable[[], int], *, starting: bool = False
) -> list[Evaluation]:
    """The evaluations of a loop, the oldest first. Those that nobody works on any more fail when they are read."""
    documents = store.documents(loop, EVALUATION)
    versions = [msgspec.json.decode(document.body, type=StoredEvaluation) for document in documents]
    latest = {stored.id: stored for stored in versions}
    version = documents[-1].version if documents else 0
    for stored in list(latest.values()):
        pending = stored.evaluation
        if pending is not None and pending.status == "pending" and _is_abandoned(stored.worker, starting):
            failed = StoredEvaluation(stored.id, msgspec.structs.replace(pending, status="failed", failure=ABANDONED))
            body = {EVALUATION: msgspec.json.encode(failed)}
            # The last deed of the worker may have been to finish: then there is a newer version, and nothing is saved.
            if store.save_documents(loop, clock(), body, after={EVALUATION: version}):
                version, latest[stored.id] = version + 1, failed
    return [stored.evaluation for stored in latest.values() if stored.evaluation is not None]


def _is_abandoned(worker: Worker | None, starting: bool) -> bool:
    if worker is None:
        return starting
    if not starting:
        return worker.gone()
    # The number of this process may have been that of the worker before a restart.
    return worker.machine != gethostname() or worker.process == os.getpid() or worker.gone()
