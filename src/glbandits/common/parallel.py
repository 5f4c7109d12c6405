"""Call a function with many arguments: in this process, in threads, in worker processes, or on Ray."""

import os
import re
import signal
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.common.extras import needed_for

with needed_for("glbandits.common.parallel", "lab"):
    from joblib import Parallel, cpu_count, delayed

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class _FinishedCall(NamedTuple):
    argument_index: int
    result: Any
    user_warnings: list[Warning]


def run_parallel(
    function: Callable[[Argument], Result],
    arguments: Iterable[Argument],
    *,
    jobs: int = -1,
    engine: str = "local",
    threads: bool = False,
) -> Iterator[tuple[int, Result]]:
    """Yield the index of each argument and its result, in the order in which calls finish.

    An iterator of arguments is advanced when a worker will soon be free, and in another thread.

    With one local job the function is called in this process. Otherwise the function and the arguments are pickled.
    Large arrays inside the function (a `partial` or a bound method) are sent to the workers once: through memory-mapped
    files (local; a worker that changes one has its own copy) or the object store (Ray). Warnings of workers are issued
    again in this process, each once.

    An error of a call is raised here, and the call is not repeated. Ray itself repeats calls whose process died.

    Args:
        function: called once for each argument.
        arguments: one for each call.
        jobs: number of workers, -1 for one per core. A Ray cluster uses all of its cores.
        engine: "local", or "ray" for the cluster at RAY_ADDRESS, or else a new one on this machine.
        threads: whether local workers are threads, for a function that releases the GIL. `joblib.parallel_config`
            then chooses another backend.
    """
    check_engine(engine, jobs)
    if is_one_process(jobs, engine):
        yield from (_indexed(function, *pair) for pair in enumerate(arguments))
        return
    if threads and engine == "local":
        calls = (delayed(_indexed)(function, *pair) for pair in enumerate(arguments))
        yield from Parallel(n_jobs=worker_count(jobs), prefer="threads", return_as="generator_unordered")(calls)
        return
    issued = set[str]()
    for index, result, worker_warnings in ENGINES[engine](function, arguments, jobs):
        for warning in worker_warnings:
            if str(warning) not in issued:
                issued.add(str(warning))
                warnings.warn(warning, stacklevel=2)
        yield index, result


def check_engine(engine: str, jobs: int) -> None:
    """Raise if the engine is unknown or not installed, or if `jobs` is invalid."""
    lookup("engine", engine, ENGINES)
    worker_count(jobs)
    if engine == "ray":
        _import_ray()


def worker_count(jobs: int) -> int:
    """Return the number of workers for `jobs`, which is -1 for one per core."""
    if check_int("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of parallel workers, or -1 for one per core; got 0", field="jobs")
    return int(cpu_count()) if jobs == -1 else jobs


def is_one_process(jobs: int, engine: str, calls: int | None = None) -> bool:
    """Return whether all calls run in this process, one after another."""
    return engine == "local" and (calls == 1 or worker_count(jobs) == 1)


def _indexed(function: Callable[[Any], Any], index: int, argument: Any) -> tuple[int, Any]:
    return index, function(argument)


def _call(function: Callable[[Any], Any], index: int, argument: Any) -> _FinishedCall:
    """Call the function in a worker, and collect its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            result = function(argument)
        except (FileNotFoundError, PermissionError) as error:
            raise InvalidInput(
                f"a worker on {socket.gethostname()} cannot read a file: {error}. Put files where all nodes can read "
                "them, under the same absolute path."
            ) from None
    user_warnings = [warning.message for warning in caught if isinstance(warning.message, UserWarning)]
    return _FinishedCall(index, result, list(user_warnings))


def _local(function: Callable[[Any], Any], arguments: Iterable[Any], jobs: int) -> Iterator[_FinishedCall]:
    """Run the calls in processes on this machine; a single one in this process."""
    processes = worker_count(jobs)
    if isinstance(arguments, Sized):
        processes = min(len(arguments), processes)
    if processes <= 1:
        yield from (_call(function, *pair) for pair in enumerate(arguments))
        return
    workers = Parallel(n_jobs=processes, backend="loky", return_as="generator_unordered", batch_size=1, mmap_mode="c")
    try:
        yield from workers(delayed(_call_in_worker)(function, *pair) for pair in enumerate(arguments))
    except BrokenProcessPool as error:
        codes = re.search(r"exit codes of the workers are \{(.*)\}", str(error))
        raise InvalidInput(
            f"a worker process died ({codes[1] if codes else 'exit code unknown'}): the code that it ran crashed or "
            "ended the process, or memory was full. Use jobs=1 to find out which, or fewer jobs to save memory"
        ) from error


def _call_in_worker(function: Callable[[Any], Any], index: int, argument: Any) -> _FinishedCall:
    """Call the function in a process that Ctrl-C ends at once, without a traceback. The main process reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _call(function, index, argument)


def _ray(function: Callable[[Any], Any], arguments: Iterable[Any], jobs: int) -> Iterator[_FinishedCall]:
    """Run the calls on the Ray cluster at RAY_ADDRESS, or else on a new local one. Submit two calls for each core."""
    ray = _import_ray()
    started_here = not ray.is_initialized()
    if started_here:
        is_cluster = "RAY_ADDRESS" in os.environ  # the cluster has its own number of cores
        cores = None if is_cluster or jobs == -1 else jobs
        ray.init(num_cpus=cores, include_dashboard=None if is_cluster else False, log_to_driver=False)
    try:
        remote: Any = ray.remote(num_cpus=1)(_call)
        shared = ray.put(function)
        waiting, pending = enumerate(arguments), list[Any]()
        while True:
            most = 2 * max(int(ray.cluster_resources().get("CPU", 1)), 1)
            pending += [remote.remote(shared, *pair) for pair in islice(waiting, max(most - len(pending), 0))]
            if not pending:
                return
            ready, pending = ray.wait(pending, num_returns=1)
            try:
                yield from ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
    finally:
        if started_here:
            ray.shutdown()


def _import_ray() -> Any:
    with needed_for("engine 'ray'", "ray"):
        import ray
    return ray


ENGINES = {"local": _local, "ray": _ray}
