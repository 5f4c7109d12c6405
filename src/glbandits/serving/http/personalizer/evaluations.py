"""Offline evaluations. What they compute is handed in: the service itself knows no estimators."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable
from socket import gethostname
from typing import NamedTuple

import msgspec

from glbandits.errors import GlbanditsError, InvalidInput
from glbandits.serving.http.http_messages import NO_CONTENT, HttpError, Request, Response
from glbandits.serving.http.personalizer.config_handlers import parse_arguments, run_policy
from glbandits.serving.http.personalizer.config_schemas import (
    Evaluation,
    EvaluationContract,
    PolicyContract,
    PolicyReference,
)
from glbandits.serving.http.personalizer.iso8601 import as_microseconds, as_time
from glbandits.serving.http.personalizer.schemas import check_ids, decode
from glbandits.serving.http.site import EvaluateLog, Site
from glbandits.serving.storage.event_store import EventStore

log = logging.getLogger(__name__)

EVALUATION = "evaluation"
"""The kind of the documents."""
ABANDONED = "the server ended before the evaluation did; begin it again"

_contract = msgspec.json.Decoder(EvaluationContract)
_reference = msgspec.json.Decoder(PolicyReference)


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

    def is_another(self) -> bool:
        """Whether it runs on this machine, and is not this process, whose number it may have had before a restart."""
        return self.machine == gethostname() and self.process != os.getpid() and not self.gone()


class Kept(msgspec.Struct, frozen=True):
    """A version of an evaluation. Documents are only ever added, so a deleted one is a version that says so."""

    id: str
    evaluation: Evaluation | None
    worker: Worker | None = None
    """Who is at work on it; None if nobody is."""


async def create(site: Site, request: Request) -> Response:
    """Begin an evaluation."""
    evaluation = await _begin(site, request, os.urandom(16).hex())
    place = f"{request.path.rstrip('/')}/{evaluation.id}".encode("latin-1")
    return Response(201, msgspec.json.encode(evaluation), headers=((b"location", place),))


async def create_named(site: Site, request: Request) -> Response:
    """Begin an evaluation under an id, as 2022-09-01-preview has it."""
    return Response(200, msgspec.json.encode(await _begin(site, request, request.values["evaluation"])))


async def _begin(site: Site, request: Request, evaluation_id: str) -> Evaluation:
    loop = site.service.loop(request.loop_name).name
    if site.evaluate_log is None:
        raise HttpError(
            503,
            "OperationNotAllowed",
            "this server was started without estimators; export the log and run `glb evaluate`",
        )
    asked = decode(request.body, _contract)
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
    await _keep(site, loop, Kept(evaluation_id, evaluation, Worker(gethostname(), os.getpid())))
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
    await _keep(site, loop, Kept(evaluation.id, done))


async def get(site: Site, request: Request) -> Response:
    """An evaluation, and its results when they are there."""
    return Response(200, msgspec.json.encode(await _find(site, request, request.values["evaluation"])))


async def list_all(site: Site, request: Request) -> Response:
    """All evaluations, the oldest first."""
    return Response(200, msgspec.json.encode(list((await _kept(site, request)).values())))


async def delete(site: Site, request: Request) -> Response:
    """Forget an evaluation."""
    evaluation = await _find(site, request, request.values["evaluation"])
    await _keep(site, request.loop_name, Kept(evaluation.id, None))
    return NO_CONTENT


async def apply(site: Site, request: Request) -> Response:
    """Run a policy that was evaluated."""
    wanted = decode(request.body, _reference)
    results = (await _find(site, request, wanted.evaluation_id)).policy_results
    arguments = [result.arguments for result in results if result.name == wanted.policy_name]
    if not arguments:
        raise HttpError(404, "LearningSettingsNotFound", f"the evaluation has no policy {wanted.policy_name!r}")
    await run_policy(site.service.loop(request.loop_name), *parse_arguments(arguments[0]))
    return NO_CONTENT


async def _keep(site: Site, loop: str, kept: Kept) -> None:
    body = msgspec.json.encode(kept)
    await asyncio.to_thread(site.service.store.save_document, loop, EVALUATION, site.service.clock(), body)


async def _kept(site: Site, request: Request) -> dict[str, Evaluation]:
    loop = site.service.loop(request.loop_name).name
    return await asyncio.to_thread(kept_evaluations, site.service.store, loop, site.service.clock)


async def _find(site: Site, request: Request, evaluation_id: str) -> Evaluation:
    found = (await _kept(site, request)).get(evaluation_id)
    if found is None:
        raise HttpError(404, "EvaluationNotFound", f"there is no evaluation {evaluation_id!r}")
    return found


class _Latest(NamedTuple):
    """The last version of each evaluation of a loop, by their ids, the oldest first; and the number of the newest."""

    version: int
    kept: dict[str, Kept]


def _latest(store: EventStore, loop: str) -> _Latest:
    documents = store.documents(loop, EVALUATION)
    versions = (msgspec.json.decode(one.body, type=Kept) for one in documents)
    return _Latest(documents[-1].version if documents else 0, {kept.id: kept for kept in versions})


def kept_evaluations(store: EventStore, loop: str, clock: Callable[[], int]) -> dict[str, Evaluation]:
    """The evaluations of a loop by their ids, the oldest first. Those whose process was killed fail at this look."""
    version, latest = _latest(store, loop)
    for kept in [one for one in latest.values() if one.worker is not None and one.worker.gone()]:
        ended = Kept(kept.id, _abandoned(kept.evaluation))
        # Its last deed may have been to finish: then there is another version, and the next look sees that.
        if store.save_documents(loop, clock(), {EVALUATION: msgspec.json.encode(ended)}, after={EVALUATION: version}):
            version, latest[kept.id] = version + 1, ended
    return {name: kept.evaluation for name, kept in latest.items() if kept.evaluation is not None}


def end_abandoned(store: EventStore, loops: Iterable[str], clock: Callable[[], int]) -> None:
    """Let evaluations that are pending fail before a server runs, but for those of another that does."""
    for loop in loops:
        for kept in _latest(store, loop).kept.values():
            if kept.evaluation is None or kept.evaluation.status != "pending":
                continue
            if kept.worker is None or not kept.worker.is_another():
                ended = Kept(kept.id, _abandoned(kept.evaluation))
                store.save_document(loop, EVALUATION, clock(), msgspec.json.encode(ended))


def _abandoned(evaluation: Evaluation | None) -> Evaluation | None:
    return None if evaluation is None else msgspec.structs.replace(evaluation, status="failed", failure=ABANDONED)
