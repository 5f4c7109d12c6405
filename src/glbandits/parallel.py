"""Call a function with many arguments: in this process, on the cores of this machine, or on a Ray cluster."""

import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from joblib import Parallel, cpu_count, delayed

from glbandits.errors import InvalidInput, check_int, lookup

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class _Finished(NamedTuple):
    number: int
    """Index of the argument."""
    result: Any
    caught: list[Warning]
    """Warnings that the worker gave."""


def run_parallel(
    function: Callable[[Argument], Result], arguments: Sequence[Argument], *, jobs: int = -1, engine: str = "local"
) -> Iterator[tuple[int, Result]]:
    """Yield the index of each argument and the result of the function, in the order in which calls finish.

    One job of the local engine calls the function in this process. Otherwise the function and the arguments are
    pickled. Large arrays that the function holds, if it is a `partial` or a method, go to the workers once: through
    memory-mapped files (local) or the object store (Ray). Warnings of workers are given again here, each once.

    Args:
        function: is called once for each argument.
        arguments: of the calls.
        jobs: how many processes there are at once; -1 for one per core. A Ray cluster uses all of its cores.
        engine: "local", or "ray": the cluster that the variable RAY_ADDRESS names, or one on this machine.
    """
    check_engine(engine, jobs)
    if is_one_process(jobs, engine):
        yield from ((index, function(argument)) for index, argument in enumerate(arguments))
        return
    given = set[str]()
    for index, result, caught in ENGINES[engine](function, arguments, jobs):
        for warning in caught:
            if str(warning) not in given:
                given.add(str(warning))
                warnings.warn(warning, stacklevel=2)
        yield index, result


def check_engine(engine: str, jobs: int) -> None:
    """Refuse an unknown engine, one that is not installed, and a wrong number of processes."""
    lookup("engine", engine, ENGINES)
    workers(jobs)
    if engine == "ray":
        _import_ray()


def workers(jobs: int) -> int:
    """Return the number of processes that `jobs` asks for."""
    if check_int("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of processes, or -1 for one per core; got 0")
    return int(cpu_count()) if jobs == -1 else jobs


def is_one_process(jobs: int, engine: str) -> bool:
    """Return whether all work is done in this process."""
    return engine == "local" and workers(jobs) == 1


def in_processes(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    """Results in the order in which they finish: from this process for one job, from worker processes for more."""
    many = min(len(arguments), workers(jobs))
    if many <= 1:
        yield from (function(*values) for values in arguments)
        return
    results = Parallel(n_jobs=many, return_as="generator_unordered", batch_size=1)(
        delayed(function)(*values) for values in arguments
    )
    yield from results


def _call(function: Callable[[Any], Any], index: int, argument: Any) -> _Finished:
    """Call the function in a worker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            result = function(argument)
        except OSError as error:
            raise InvalidInput(
                f"a worker on {socket.gethostname()} cannot read a file: {error}. Put files where all nodes can read "
                "them, under the same absolute path."
            ) from None
    given = [warning.message for warning in caught if isinstance(warning.message, UserWarning)]
    return _Finished(index, result, list(given))


def _local(function: Callable[[Any], Any], arguments: Sequence[Any], jobs: int) -> Iterator[_Finished]:
    """Processes of this machine."""
    yield from in_processes(_call, [(function, *pair) for pair in enumerate(arguments)], jobs)


def _ray(function: Callable[[Any], Any], arguments: Sequence[Any], jobs: int) -> Iterator[_Finished]:
    """A Ray cluster: the one that the variable RAY_ADDRESS names, or one of `jobs` cores on this machine."""
    ray = _import_ray()
    started_here = not ray.is_initialized()
    if started_here:
        is_cluster = "RAY_ADDRESS" in os.environ  # it has its own number of cores
        cores = None if is_cluster or jobs == -1 else jobs
        ray.init(num_cpus=cores, include_dashboard=None if is_cluster else False, log_to_driver=False)
    try:
        remote: Any = ray.remote(num_cpus=1)(_call)
        shared = ray.put(function)
        waiting = [remote.remote(shared, *pair) for pair in enumerate(arguments)]
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            try:
                yield from ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
    finally:
        if started_here:
            ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise InvalidInput(
            "--engine ray needs Ray, which is in the extra [ray]: pip install 'glbandits[ray]'"
        ) from None
    return ray


ENGINES = {"local": _local, "ray": _ray}
