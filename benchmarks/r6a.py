"""Reading simulated R6A files, relative to decompressing them."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import best_seconds
from glbandits import Uniform
from glbandits.lab import read_events, replay_r6a, write_simulated_news
from glbandits.lab.environments import news

EVENTS = 100_000
CHUNK = 2**20


def report() -> None:
    """Print events and megabytes per second, and the ratio to decompression."""
    with TemporaryDirectory() as folder:
        files = write_simulated_news(folder, days=1, events_per_day=EVENTS)
        size = decompress(files[0])

        def build() -> None:
            news._read_table.cache_clear()
            news.News(files=files).length()

        seconds = best_seconds(
            {
                "decompressing": lambda: decompress(files[0]),
                "reading": lambda: read(files[0]),
                "News": build,
                "replay, uniform": lambda: replay_r6a(Uniform(), files, seed=1),
            },
            repeats=15,
        )
    print(f"R6A files: {EVENTS:.0e} simulated events, {size / 1e6:.0f} MB of text (best of 15, CPU seconds)")
    for name, value in seconds.items():
        print(f"  {name:16s} {EVENTS / value / 1e6:6.2f} million events/s  {size / value / 1e6:7.0f} MB/s")
    print(f"  decompressing / reading  {seconds['decompressing'] / seconds['reading']:6.2f}   (wanted: at least 0.25)")


def decompress(path: Path) -> int:
    """Count the bytes of text in a gzip file, 1 MB at a time."""
    size = 0
    with gzip.open(path) as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
    return size


def read(path: Path) -> int:
    """Count the events in a file."""
    return sum(len(events) for events in read_events([path]))
