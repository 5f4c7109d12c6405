"""Several processes that answer at one address over one store, and the one that looks after them."""

import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import SimpleQueue
from types import FrameType
from typing import NamedTuple, Protocol

from glbandits.errors import GlbanditsError
from glbandits.serving.server_settings import Settings

log = logging.getLogger(__name__)

SAME_SIGNAL = 0.5
"""Seconds within which a second signal is the first one told twice."""
LOOK_EVERY = 0.5
"""Seconds after which a signal is seen at the latest."""


def is_another(told_at: float) -> bool:
    """Whether a signal that comes now is not the one of this time again.

    Who signals a group of processes signals each of them, and those that pass signals on do so too.
    """
    return time.monotonic() - told_at >= SAME_SIGNAL


class StartFailed(GlbanditsError):
    """A process ended before it took requests."""


class Place(NamedTuple):
    """Which of the processes one is."""

    number: int = 0
    parent: int | None = None
    """Who looks after it; without that one it ends. None: nobody does."""

    def orphaned(self) -> bool:
        """Whether its parent is gone."""
        return self.parent is not None and os.getppid() != self.parent


class Answer(Protocol):
    """Answers requests at a socket until a signal comes. A function of a module, so that a process can be given it."""

    def __call__(
        self, settings: Settings, listening: socket.socket, announce: Callable[[], None], place: Place
    ) -> None:
        """See above."""


def _begin(
    answer: Answer, settings: Settings, listening: socket.socket, ready: "SimpleQueue[int]", place: Place
) -> None:
    """What a process does."""
    # A group of its own: who presses Ctrl-C at a terminal signals the parent alone, which passes it on, once.
    os.setpgrp()
    answer(settings, listening, lambda: ready.put(place.number), place)


class Processes:
    """As many processes as the settings say; one that ends unasked is replaced.

    Args:
        answer: what each does.
        settings: of the server.
        listening: the socket that all accept from.
    """

    def __init__(self, answer: Answer, settings: Settings, listening: socket.socket) -> None:
        self._answer, self._settings, self._listening = answer, settings, listening
        self._context = multiprocessing.get_context("spawn")  # a fork would share locks and half-open files
        self._ready: SimpleQueue[int] = self._context.SimpleQueue()
        self._running: list[SpawnProcess] = []
        self._stopping, self._told_at = False, 0.0

    def run(self, announce: Callable[[], None]) -> None:
        """Start all, announce that they take requests, and look after them until a signal has ended them."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._running = [self._start(number) for number in range(self._settings.processes)]
            self._await_start()
            if not self._stopping:
                announce()
            while self._look():
                pass
        finally:
            self._signal_all(signal.SIGKILL)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, number: int) -> SpawnProcess:
        given = (self._answer, self._settings, self._listening, self._ready, Place(number, os.getpid()))
        process = self._context.Process(target=_begin, args=given, name=f"glb-{number}")
        process.start()
        return process

    def _await_start(self) -> None:
        started = set[int]()
        while len(started) < len(self._running) and not self._stopping:
            wait([process.sentinel for process in self._running], LOOK_EVERY / 10)
            while not self._ready.empty():
                started.add(self._ready.get())
            if not self._stopping and not all(process.is_alive() for process in self._running):
                raise StartFailed("a process ended before it took requests; its log says why")

    def _look(self) -> bool:
        """Wait for what happens next; whether any process runs, or should."""
        wait([process.sentinel for process in self._running if process.is_alive()], LOOK_EVERY)
        if self._stopping:
            return any(process.is_alive() for process in self._running)
        for number, process in enumerate(self._running):
            if not process.is_alive():
                log.error("process %d ended with %s; another takes its place", number, process.exitcode)
                self._running[number] = self._start(number)
        return True

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if not self._stopping:
            self._stopping, self._told_at = True, time.monotonic()
            self._signal_all(signal.SIGTERM)
        elif is_another(self._told_at):
            self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        for process in self._running:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, number)
