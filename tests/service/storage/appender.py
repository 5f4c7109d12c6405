"""A process that appends events under load until it is killed, and prints which were acknowledged.

    python -m tests.service.storage.appender

It reads addresses of stores, a line each. For each it forks a child that writes there and prints a line for every
receipt, after it has it. Forking saves the imports: a kill takes a tenth of a second.
"""

import asyncio
import itertools
import os
import sys
import threading
import time

from glbandits.service.domain.errors import StoreError
from glbandits.service.runtime.batch_writer import BatchWriter
from glbandits.service.storage import sqlite_store
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import decision, metric, reward

SENDERS = 4
IN_FLIGHT = 8
UNITS = 20
"""Units that the tasks of a process share."""
TIMEOUT = 60.0


async def append_for_ever(address: str) -> None:
    """Append decisions, their rewards and their metrics from several tasks."""
    store = open_store(address, durability="process")
    threading.Thread(target=_tidy, args=(store,), daemon=True).start()
    writer = BatchWriter(store)
    await asyncio.gather(*(_send(writer, sender) for sender in range(SENDERS)))


def _tidy(store: EventStore) -> None:
    while True:
        store.maintain()
        time.sleep(0.01)


async def _send(writer: BatchWriter, sender: int) -> None:
    for turn in itertools.count():
        names = [f"{os.getpid()}-{sender}-{turn}-{i}" for i in range(IN_FLIGHT)]
        made = [decision(name, request=bytes(500), unit=f"{os.getpid()}-{turn % UNITS}") for name in names]
        submitted = [(f"d {each.event_id}", writer.submit(each, TIMEOUT)) for each in made]
        try:
            for name in names:
                submitted.append((f"r {name}", writer.submit(reward(name), TIMEOUT)))
                submitted += [(f"m {name}", writer.submit(metric(name, "ms"), TIMEOUT)) for _ in range(2)]
        except StoreError:  # the store is away: the decisions wait, the rewards are refused
            await asyncio.sleep(0.1)
        for line, receipt in submitted:
            try:
                await receipt
            except StoreError as error:
                if "unknown" in str(error):
                    continue
                line = f"refused-{line}"
            # One short write to a pipe arrives whole or not at all.
            os.write(1, f"{line}\n".encode())


def main() -> None:
    """Fork a writer for each line."""
    sqlite_store.RESTART_PAGES = 50  # so that the write-ahead log of a short life restarts
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            asyncio.run(append_for_ever(line.rstrip("\n")))
            return
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
