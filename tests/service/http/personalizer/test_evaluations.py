"""Evaluations: begun, finished, failed, deleted, applied. What they compute is not tested here."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import gethostname
from typing import Any

import msgspec
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.http.http_messages import as_datetime
from glbandits.service.http.personalizer import evaluation_handlers
from glbandits.service.http.personalizer.config_schemas import (
    EvaluationRecord,
    PolicyContract,
    PolicyResult,
    PolicyResultSummary,
)
from glbandits.service.http.personalizer.evaluation_handlers import (
    ABANDONED,
    EVALUATION,
    LONGEST,
    MAX_EVALUATIONS,
    StoredEvaluation,
    Worker,
    end_abandoned,
)
from glbandits.service.runtime.background_process import run_in_process
from glbandits.service.storage.event_store import EventStore
from tests.service.http.personalizer.personalizer_site import PREVIEW, V1, Site

ASKED = {
    "name": "first",
    "startTime": "2023-11-14T00:00:00Z",
    "endTime": "2023-11-15T00:00:00Z",
    "policies": [{"name": "floored", "arguments": "optimist:floor=0.1"}],
}
PATH = f"{V1}/evaluations"


def result(name: str, arguments: str, reward: float) -> PolicyResult:
    total = PolicyResultSummary(
        time_stamp=as_datetime(0),
        ips_estimator_numerator=reward,
        ips_estimator_denominator=1,
        snips_estimator_denominator=1,
        average_reward=reward,
    )
    return PolicyResult(name=name, arguments=arguments, policy_source="Custom", summary=[], total_summary=total)


class Estimators:
    """Stands for what the command line hands in."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.error = error

    def __call__(
        self, store: EventStore, loop: str, *, start: int, end: int, policies: Sequence[PolicyContract]
    ) -> list[PolicyResult]:
        assert store.summary(loop)
        self.calls.append((loop, start, end))
        if self.error is not None:
            raise self.error
        return [result("Online", "", 0.2), *(result(policy.name, policy.arguments, 0.3) for policy in policies)]


def sleep(*_: Any, **__: Any) -> list[PolicyResult]:
    """Called in another process, so it is a function of a module."""
    time.sleep(600)
    return []


@pytest.fixture(autouse=True)
def same_process_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate in a thread, so that tests are fast and estimators need not be picklable."""
    monkeypatch.setattr(evaluation_handlers, "run_in_process", lambda _, work, *arguments: work(*arguments))


def finished(site: Site, path: str) -> Any:
    async def wait() -> Any:
        while (reply := (await site.ask_async("GET", path)).json())["status"] == "pending":
            await asyncio.sleep(0.001)
        return reply

    return site.run(asyncio.wait_for(wait(), 10))


def test_an_evaluation_runs_and_is_applied_and_deleted(tmp_path: Path) -> None:
    estimators = Estimators()
    with Site(tmp_path, evaluate_log=estimators) as site:
        reply = site.ask("POST", PATH, ASKED)
        begun, path = reply.json(), reply.headers["location"]
        assert (reply.status_code, path) == (201, f"{PATH}/{begun['id']}")
        assert (begun["status"], begun["name"], begun["startTime"]) == ("pending", "first", "2023-11-14T00:00:00Z")
        done = finished(site, path)
        assert (done["status"], done["optimalPolicy"]) == ("completed", "floored")
        assert [one["name"] for one in done["policyResults"]] == ["Online", "floored"]
        assert done["policyResults"][1]["totalSummary"]["averageReward"] == 0.3
        assert estimators.calls == [("default", 1_699_920_000_000_000, 1_700_006_400_000_000)]
        assert site.ask("GET", PATH).json() == [done]
        apply = f"{PREVIEW}/configurations/applyFromEvaluation"
        wanted = {"evaluationId": done["id"], "policyName": "floored"}
        assert site.ask("POST", apply, wanted).status_code == 204
        assert site.service.loop("default").configuration.settings["floor"] == 0.1
        missing = site.refusal("POST", apply, wanted | {"policyName": "other"})
        assert missing == (404, "LearningSettingsNotFound", "the evaluation has no policy 'other'")
        assert site.ask("DELETE", path).status_code == 204
        assert site.refusal("GET", path)[:2] == (404, "EvaluationNotFound")
        assert site.refusal("DELETE", path)[:2] == (404, "EvaluationNotFound")
        assert site.ask("GET", PATH).json() == []


def test_a_named_evaluation_of_another_loop(tmp_path: Path) -> None:
    estimators = Estimators()
    with Site(tmp_path, evaluate_log=estimators) as site:
        base, version = "/loops/shop/personalizer/evaluations", "?api-version=2022-09-01-preview"
        assert site.ask("PUT", f"{base}/mine%2F1{version}", ASKED).status_code == 200
        assert finished(site, f"{base}/mine%2F1{version}")["id"] == "mine/1"
        assert estimators.calls[0][0] == "shop"
        assert site.ask("GET", PATH).json() == []


def test_a_failed_evaluation_has_a_reason(tmp_path: Path) -> None:
    estimators = Estimators(InvalidInput("there are no decisions in these dates"))
    with Site(tmp_path, evaluate_log=estimators) as site:
        done = finished(site, site.ask("POST", PATH, ASKED).headers["location"])
        assert (done["status"], done["failure"]) == ("failed", "there are no decisions in these dates")
        estimators.error = RuntimeError("secret")
        done = finished(site, site.ask("POST", PATH, ASKED).headers["location"])
        assert (done["status"], done["failure"]) == ("failed", "the server's log has the error")


def test_pending_evaluations_fail_at_the_next_start(tmp_path: Path) -> None:
    go_on = threading.Event()

    def wait(*_: Any, **__: Any) -> list[PolicyResult]:
        go_on.wait(10)
        return []

    with Site(tmp_path, evaluate_log=wait) as site:
        path = site.ask("POST", PATH, ASKED).headers["location"]
        gone = site.ask("POST", PATH, ASKED).headers["location"]
        assert site.ask("DELETE", gone).status_code == 204
        end_abandoned(site.service.store, ("shop", "default"), site.service.clock)
        ended = site.ask("GET", path).json()
        assert (ended["status"], ended["failure"]) == (
            "failed",
            "the server ended before the evaluation finished; start it again",
        )
        assert site.ask("GET", PATH).json() == [ended]
        versions = len(site.service.store.documents("default", EVALUATION))
        end_abandoned(site.service.store, ("shop", "default"), site.service.clock)
        assert len(site.service.store.documents("default", EVALUATION)) == versions
        go_on.set()


def test_one_evaluation_runs_at_a_time_and_few_wait(tmp_path: Path) -> None:
    go_on, started = threading.Event(), list[str]()

    def wait(_: EventStore, loop_name: str, **__: Any) -> list[PolicyResult]:
        started.append(loop_name)
        go_on.wait(60)
        return []

    async def first_start() -> None:
        while not started:
            await asyncio.sleep(0.01)

    with Site(tmp_path, evaluate_log=wait) as site:
        paths = [site.ask("POST", PATH, ASKED).headers["location"] for _ in range(MAX_EVALUATIONS)]
        status, code, message = site.refusal("POST", PATH, ASKED)
        assert (status, code) == (429, "TooManyRequests")
        assert message == "10 evaluations are running or waiting. Retry when one has finished."
        site.run(asyncio.wait_for(first_start(), 60))
        assert len(started) == 1
        go_on.set()
        assert [finished(site, path)["status"] for path in paths] == ["completed"] * MAX_EVALUATIONS
        assert site.ask("POST", PATH, ASKED).status_code == 201


def test_shutdown_stops_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_handlers, "run_in_process", run_in_process)
    with Site(tmp_path, evaluate_log=sleep) as site:
        paths = [site.ask("POST", PATH, ASKED).headers["location"] for _ in range(2)]
        began = time.monotonic()
        site.run(site.site.close())
        assert time.monotonic() - began < 30
        for path in paths:
            ended = site.ask("GET", path).json()
            assert (ended["status"], ended["failure"]) == ("failed", ABANDONED)


def test_result_of_a_deleted_evaluation_is_not_saved(tmp_path: Path) -> None:
    go_on = threading.Event()

    def wait(*_: Any, **__: Any) -> list[PolicyResult]:
        go_on.wait(10)
        return []

    with Site(tmp_path, evaluate_log=wait) as site:
        path = site.ask("POST", PATH, ASKED).headers["location"]
        assert site.ask("DELETE", path).status_code == 204
        go_on.set()
        site.run(site.site.close())
        assert site.refusal("GET", path)[:2] == (404, "EvaluationNotFound")


class TestAWorkerThatWasKilled:
    """One of several processes began an evaluation, and was killed; another one is asked."""

    @pytest.fixture
    def site(self, tmp_path: Path) -> Iterator[Site]:
        with Site(tmp_path, evaluate_log=Estimators()) as site:
            yield site

    @staticmethod
    def begin(site: Site, worker: Worker | None) -> EvaluationRecord:
        pending = EvaluationRecord(
            id="theirs",
            name="first",
            start_time=as_datetime(0),
            end_time=as_datetime(1),
            job_id="theirs",
            status="pending",
            creation_time=as_datetime(site.now),
        )
        body = msgspec.json.encode(StoredEvaluation("theirs", pending, worker))
        site.service.store.save_document("default", EVALUATION, 0, body)
        return pending

    @staticmethod
    def ended_process() -> int:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process.pid

    def test_evaluation_of_an_ended_process_has_failed(self, site: Site) -> None:
        self.begin(site, Worker(gethostname(), self.ended_process()))
        ended = site.ask("GET", f"{PATH}/theirs").json()
        assert (ended["status"], ended["failure"]) == ("failed", ABANDONED)
        versions = site.service.store.documents("default", EVALUATION)
        assert len(versions) == 2
        assert site.ask("GET", PATH).json() == [ended]
        assert site.service.store.documents("default", EVALUATION) == versions

    def test_evaluation_of_a_running_process_stays_pending(self, site: Site) -> None:
        for worker in (Worker(gethostname(), os.getppid()), Worker("elsewhere.example", self.ended_process()), None):
            self.begin(site, worker)
            assert site.ask("GET", f"{PATH}/theirs").json()["status"] == "pending"

    def test_start_leaves_an_evaluation_of_another_machine_for_a_day(self, site: Site) -> None:
        self.begin(site, Worker("elsewhere.example", os.getpid()))
        end_abandoned(site.service.store, ("default",), site.service.clock)
        assert site.ask("GET", f"{PATH}/theirs").json()["status"] == "pending"
        site.now += LONGEST + 1
        ended = site.ask("GET", f"{PATH}/theirs").json()
        assert (ended["status"], ended["failure"]) == ("failed", ABANDONED)

    def test_a_result_saved_meanwhile_stays(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        pending = self.begin(site, Worker(gethostname(), 0))

        def finish_and_end(_: Worker) -> bool:
            done = msgspec.structs.replace(pending, status="completed")
            body = msgspec.json.encode(StoredEvaluation("theirs", done))
            site.service.store.save_document("default", EVALUATION, 0, body)
            return True

        monkeypatch.setattr(Worker, "has_ended", finish_and_end)
        site.ask("GET", f"{PATH}/theirs")
        assert site.ask("GET", f"{PATH}/theirs").json()["status"] == "completed"


def test_a_new_evaluation_has_this_process_as_worker(tmp_path: Path) -> None:
    with Site(tmp_path, evaluate_log=Estimators()) as site:
        finished(site, site.ask("POST", PATH, ASKED).headers["location"])
        documents = site.service.store.documents("default", EVALUATION)
        workers = [msgspec.json.decode(document.body, type=StoredEvaluation).worker for document in documents]
        assert workers == [Worker(gethostname(), os.getpid()), None]


def test_invalid_evaluations_are_refused(tmp_path: Path) -> None:
    policy = {"name": "p", "arguments": "optimist"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": ""}, "should have between 1 and 256 characters"),
        ({"endTime": ASKED["startTime"]}, "startTime of an evaluation should be before its endTime"),
        ({"startTime": "yesterday"}, "Invalid RFC3339 encoded datetime"),
        ({"policies": [policy, policy]}, "names of the policies of an evaluation must be unique"),
        ({"policies": [{"name": str(k), "arguments": "optimist"} for k in range(11)]}, "at most 10 policies; got 11"),
        ({"policies": [{"name": "p", "arguments": "--cb_explore_adf"}]}, "unknown policy '--cb_explore_adf'"),
        ({"enableOfflineExperimentation": True}, "enableOfflineExperimentation is not offered"),
    ]
    with Site(tmp_path, evaluate_log=Estimators()) as site:
        for changed, wanted in wrong:
            status, code, message = site.refusal("POST", PATH, ASKED | changed)
            assert (status, code) == (400, "InvalidEvaluationContract")
            assert wanted in message
        assert site.ask("GET", PATH).json() == []


def test_ids_with_control_characters_are_refused(tmp_path: Path) -> None:
    with Site(tmp_path, evaluate_log=Estimators()) as site:
        for name in ("%00", "a%0A2026-11-15%20ERROR%20forged", "a%1B[2J"):
            status, code, message = site.refusal("PUT", f"{PREVIEW}/evaluations/{name}", ASKED)
            assert (status, code) == (400, "InvalidEvaluationContract")
            assert "Evaluation ids must have no control characters; got '" in message
            assert message.isprintable()
        assert site.ask("GET", PATH).json() == []


def test_without_estimators_evaluations_are_refused(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        status, code, message = site.refusal("POST", PATH, ASKED)
        assert (status, code) == (503, "OperationNotAllowed")
        assert message == "the server has no estimators; export the log and run `glb evaluate`"
        assert site.ask("GET", PATH).json() == []
