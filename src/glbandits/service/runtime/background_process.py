"""Run a long computation in a process of low priority that ends with the server."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Result = TypeVar("Result")

POLL, STOP_SECONDS = 0.1, 5.0
"""Seconds between two checks whether to stop, and seconds for the process to end then, before it is killed."""


class Stopped(Exception):
    """The computation was cancelled, because the server is stopping."""


def run_in_process(stop: threading.Event, work: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a new process of low priority, and return its result. Blocks.

    The function, its arguments and its result must be picklable. Raises the exception of the function, Stopped soon
    after `stop` was set, and RuntimeError if the process dies.
    """
    if stop.is_set():
        raise Stopped
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, work, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        while not receiver.poll(POLL):
            if stop.is_set():
                raise Stopped
        result: Result | Exception = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended with exit code {process.exitcode}") from None
    finally:
        receiver.close()
        process.terminate()
        process.join(STOP_SECONDS)
        process.kill()
    if isinstance(result, Exception):
        raise result
    return result


def _work(sender: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and sends SIGTERM
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # exits in order, so that temporary files are deleted
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(10)
    os.environ.setdefault("GLBANDITS_COMPILE", "now")
    try:
        result = work(*arguments)
    except Exception as error:
        error.add_note(traceback.format_exc())
        result = error
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # no temporary files are left
    sender.send(result)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
