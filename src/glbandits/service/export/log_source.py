"""Open a log by its address: as `evaluation.open_log` does, or from the store of a service."""

import weakref
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glbandits.common.errors import InvalidInput
from glbandits.common.extras import needed_for
from glbandits.evaluation import Columns, open_log
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.readers.open_log import fixed_settings
from glbandits.evaluation.readers.payoff_table import add_payoffs
from glbandits.evaluation.readers.service_export import read_export

STORE_ENDINGS = (".sqlite", ".db")
SQLITE = b"SQLite format 3\0"
"""The first bytes of each SQLite file."""
POSTGRES = ("postgresql://", "postgres://")


def is_store(address: str) -> bool:
    """Whether an address is that of a service's store."""
    if address.endswith(STORE_ENDINGS) or address.startswith(POSTGRES):
        return True
    path = Path(address)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def open_log_or_store(
    address: str,
    columns: Columns,
    *,
    loop: str = "default",
    payoffs: Any = None,
    **settings: Any,
) -> Log:
    """Open a log by its address.

    Args:
        address: the path of a file or a folder, or the path or postgresql:// address of a service's store.
        columns: the meaning of the columns.
        loop: the loop of a service's store.
        payoffs: as in `open_log`.
        settings: arguments of the function that reads the log, such as arm_table and link.
    """
    if not is_store(address):
        return open_log(address, columns, payoffs=payoffs, **settings)
    own = fixed_settings("export", address, columns, settings) | {"payoffs": payoffs is None}
    log = _open_store_log(address, loop, own)
    return log if payoffs is None or payoffs is False else add_payoffs(log, payoffs)


def _open_store_log(address: str, loop: str, settings: dict[str, Any]) -> Log:
    """Export the log of a service's store to a temporary folder, and open it.

    The folder is removed when the log is garbage collected, and at exit.
    """
    with needed_for("the log of a service", "serve"):
        from glbandits.service.export.loop_export import check_loop, export_loop
        from glbandits.service.storage.open_store import open_existing_store

    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory())) / "log"
        with closing(open_existing_store(address)) as store:
            written = export_loop(store, loop, folder)
            check_loop(store, loop)
        if not written.rows:
            raise InvalidInput(
                f"loop {loop!r} of {address} has no settled decision. Wait until reward windows have closed, or name "
                "another loop"
            )
        log = read_export(folder, **settings)
        weakref.finalize(log, stack.pop_all().close)
    return log
