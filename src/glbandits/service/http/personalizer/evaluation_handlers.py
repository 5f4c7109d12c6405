"""Handlers of offline evaluations. The estimators are passed in as `Site.evaluate_log`."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import closing
from socket import gethostname
from typing import Any

import msgspec

from glbandits.common.errors import GlbanditsError, InvalidInput
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.domain.policy_arguments import parse_arguments
from glbandits.service.http.http_messages import HttpError, Request, Response, as_datetime
from glbandits.service.http.personalizer.config_handlers import run_policy
from glbandits.service.http.personalizer.config_schemas import (
    EvaluationContract,
    EvaluationRecord,
    PolicyContract,
    PolicyReference,
    PolicyResult,
)
from glbandits.service.http.personalizer.iso8601 import as_microseconds
from glbandits.service.http.personalizer.schemas import check_ids
from glbandits.service.http.site import EvaluateLog, Site
from glbandits.service.runtime.background_process import Stopped, run_in_process
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store

log = logging.getLogger(__name__)

EVALUATION = "evaluation"
"""The kind of the documents in the store."""
NO_ESTIMATORS = "the server has no estimators; export the log and run `glb evaluate`"
MAX_EVALUATIONS = 10
"""Evaluations of a process that are running or waiting, at most."""
LONGEST = 24 * 60 * 60 * SECOND
"""Microseconds after which an evaluation counts as abandoned, also if its process is on another machine and cannot be
checked."""
ABANDONED = "the server ended before the evaluation finished; start it again"


class Worker(msgspec.Struct, frozen=True):
    """The process that runs an evaluation."""

    machine: str
    process: int

    def has_ended(self) -> bool:
        """Return whether the process has ended.

        False for other machines and containers, and on Windows.
        """
        if self.machine != gethostname() or sys.platform == "win32":
            return False
        try:
            os.kill(self.process, 0)  # signal 0 only checks that the process exists
        except OSError as error:
            return isinstance(error, ProcessLookupError)  # other errors: it runs as another user
        return False


class StoredEvaluation(msgspec.Struct, frozen=True):
    """A version of an evaluation.

    Documents are only added, so a deletion is a version without an evaluation.
    """

    id: str
    evaluation: EvaluationRecord | None
    worker: Worker | None = None
    """The process that runs the evaluation; None if none does."""


async def create(site: Site, request: Request, contract: EvaluationContract) -> Response:
    """Start an evaluation."""
    evaluation = await _start(site, request, contract, os.urandom(16).hex())
    location = f"{request.path.rstrip('/')}/{evaluation.id}".encode("latin-1")
    return Response(201, msgspec.json.encode(evaluation), headers=((b"location", location),))


async def create_named(site: Site, request: Request, contract: EvaluationContract) -> EvaluationRecord:
    """Start an evaluation with a given id, as in 2022-09-01-preview."""
    return await _start(site, request, contract, request.values["evaluation"])


async def _start(site: Site, request: Request, contract: EvaluationContract, evaluation_id: str) -> EvaluationRecord:
    loop_name = site.service.loop(request.loop_name).name
    if site.evaluate_log is None:
        raise HttpError(503, "OperationNotAllowed", NO_ESTIMATORS)
    check_ids("Evaluation", [evaluation_id])
    if not evaluation_id.isprintable():
        raise InvalidInput(f"Evaluation ids must have no control characters; got {evaluation_id[:40]!r}.")
    for policy in contract.policies:
        parse_arguments(policy.arguments)
    if len(site.tasks) >= MAX_EVALUATIONS:
        message = f"{MAX_EVALUATIONS} evaluations are running or waiting. Retry when one has finished."
        raise HttpError(429, "TooManyRequests", message, ((b"retry-after", b"60"),))
    evaluation = EvaluationRecord(
        id=evaluation_id,
        name=contract.name,
        start_time=contract.start_time,
        end_time=contract.end_time,
        job_id=evaluation_id,
        status="pending",
        creation_time=as_datetime(site.service.clock()),
    )
    pending = StoredEvaluation(evaluation_id, evaluation, Worker(gethostname(), os.getpid()))
    await _task(site, asyncio.to_thread(_save, site, loop_name, pending))
    _task(site, _finish(site, site.evaluate_log, loop_name, pending, evaluation, contract.policies))
    return evaluation


def _task(site: Site, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    site.tasks.add(task)  # the event loop keeps only a weak reference
    task.add_done_callback(site.tasks.discard)
    return task


async def _finish(
    site: Site,
    evaluate_log: EvaluateLog,
    loop_name: str,
    pending: StoredEvaluation,
    evaluation: EvaluationRecord,
    policies: list[PolicyContract],
) -> None:
    start, end = (as_microseconds(time) for time in (evaluation.start_time, evaluation.end_time))
    try:
        work = (_evaluate, evaluate_log, site.settings.store, loop_name, start, end, policies)
        results = await asyncio.get_running_loop().run_in_executor(site.evaluator, run_in_process, site.stopping, *work)
    except Stopped:
        finished = msgspec.structs.replace(evaluation, status="failed", failure=ABANDONED)
    except Exception as error:
        log.exception("Evaluation %r of loop %s failed", evaluation.id, loop_name)
        why = str(error) if isinstance(error, GlbanditsError) else "the server's log has the error"
        finished = msgspec.structs.replace(evaluation, status="failed", failure=why)
    else:
        best = max(results, key=lambda result: result.total_summary.average_reward, default=None)
        finished = msgspec.structs.replace(
            evaluation, status="completed", policy_results=results, optimal_policy=best.name if best else None
        )
    await asyncio.to_thread(_save_result, site, loop_name, pending, finished)


def _evaluate(
    evaluate_log: EvaluateLog, address: str, loop_name: str, start: int, end: int, policies: list[PolicyContract]
) -> list[PolicyResult]:
    with closing(open_store(address, durability="process")) as store:
        results: list[PolicyResult] = evaluate_log(store, loop_name, start=start, end=end, policies=policies)
        return results


def get(site: Site, request: Request) -> EvaluationRecord:
    """Return an evaluation, with results if it is completed."""
    return _find(site, request, request.values["evaluation"])


def list_all(site: Site, request: Request) -> list[EvaluationRecord]:
    """Return all evaluations, the oldest first."""
    loop_name = site.service.loop(request.loop_name).name
    return stored_evaluations(site.service.store, loop_name, site.service.clock)


def delete(site: Site, request: Request) -> None:
    """Delete an evaluation."""
    evaluation = _find(site, request, request.values["evaluation"])
    _save(site, request.loop_name, StoredEvaluation(evaluation.id, None))


def apply(site: Site, request: Request, reference: PolicyReference) -> None:
    """Replace the policy of the loop by one of an evaluation, and start a new model."""
    results = _find(site, request, reference.evaluation_id).policy_results
    arguments = [result.arguments for result in results if result.name == reference.policy_name]
    if not arguments:
        raise HttpError(404, "LearningSettingsNotFound", f"the evaluation has no policy {reference.policy_name!r}")
    run_policy(site.service.loop(request.loop_name), *parse_arguments(arguments[0]))


def _save(site: Site, loop_name: str, stored: StoredEvaluation) -> None:
    site.service.store.save_document(loop_name, EVALUATION, site.service.clock(), msgspec.json.encode(stored))


def _latest(store: EventStore, loop_name: str) -> tuple[dict[str, StoredEvaluation], int]:
    """Return the newest version of each evaluation by id, and the version of the newest document."""
    documents = store.documents(loop_name, EVALUATION)
    versions = [msgspec.json.decode(document.body, type=StoredEvaluation) for document in documents]
    return {stored.id: stored for stored in versions}, documents[-1].version if documents else 0


def _save_result(site: Site, loop_name: str, pending: StoredEvaluation, finished: EvaluationRecord) -> None:
    """Save the result of a pending evaluation, unless the evaluation was deleted or marked as failed meanwhile."""
    store, body = site.service.store, msgspec.json.encode(StoredEvaluation(pending.id, finished))
    while True:
        latest, version = _latest(store, loop_name)
        if latest[pending.id] != pending or store.save_documents(
            loop_name, site.service.clock(), {EVALUATION: body}, expected_versions={EVALUATION: version}
        ):
            return


def _find(site: Site, request: Request, evaluation_id: str) -> EvaluationRecord:
    for evaluation in list_all(site, request):
        if evaluation.id == evaluation_id:
            return evaluation
    raise HttpError(404, "EvaluationNotFound", f"there is no evaluation {evaluation_id!r}")


def end_abandoned(store: EventStore, loop_names: Iterable[str], clock: Callable[[], int]) -> None:
    """Mark pending evaluations as failed at the start of a server.

    Those of another running process stay pending.
    """
    for loop_name in loop_names:
        stored_evaluations(store, loop_name, clock, starting=True)


def stored_evaluations(
    store: EventStore, loop_name: str, clock: Callable[[], int], *, starting: bool = False
) -> list[EvaluationRecord]:
    """Return the evaluations of a loop, the oldest first.

    Pending ones whose process has ended become failed, and those that are older than `LONGEST`. `starting`: the server
    starts, see `end_abandoned`.
    """
    latest, version = _latest(store, loop_name)
    for stored in list(latest.values()):
        pending = stored.evaluation
        if (
            pending is not None
            and pending.status == "pending"
            and (as_microseconds(pending.creation_time) < clock() - LONGEST or _is_abandoned(stored.worker, starting))
        ):
            failed = StoredEvaluation(stored.id, msgspec.structs.replace(pending, status="failed", failure=ABANDONED))
            body = {EVALUATION: msgspec.json.encode(failed)}
            # If the worker has just finished it, there is a newer version, and nothing is saved.
            if store.save_documents(loop_name, clock(), body, expected_versions={EVALUATION: version}):
                version, latest[stored.id] = version + 1, failed
    return [stored.evaluation for stored in latest.values() if stored.evaluation is not None]


def _is_abandoned(worker: Worker | None, starting: bool) -> bool:
    if worker is None:
        return starting
    # After a restart this process may have the process id of the worker.
    restarted = starting and worker == Worker(gethostname(), os.getpid())
    return restarted or worker.has_ended()
