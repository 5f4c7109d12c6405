"""Forest cover: an arm is a cluster of patches of real forest, and a patch of spruce and fir pays 1."""

import gzip
import lzma
import math
import os
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TextIO, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from glbandits.environments.noise import NOISES, Noise
from glbandits.environments.synthetic import CHUNK_SIZE, ROUND_OVERHEAD
from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.records import Floats, Ints, Rounds

Shorts: TypeAlias = NDArray[np.int16]
Bytes: TypeAlias = NDArray[np.uint8]

ARMS = 32
SPRUCE_FIR = 1
"""The cover type that pays."""
QUANTITIES, WILDERNESSES, SOILS, COVERS = 10, 4, 40, 7
"""Columns of numbers, of wilderness areas and of soil types (one of each is 1), and cover types in the last column."""
COLUMNS = QUANTITIES + WILDERNESSES + SOILS + 1
VERSIONS = {"clean": "54 features and a constant", "as-published": "54 features and the cover type"}
PART = "forest_cover_part.npz"
"""The part that comes with the package; tools/make_forest_cover_part.py makes it."""

DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""What reading a packed file raises if a part of it is missing or changed."""
LOADING = Lock()
"""Runs in threads wait here for the first of them to read the file."""

# The parts of a run are drawn from streams of their own.
MEMBERS, NOISE = 0, 1


@dataclass(frozen=True, kw_only=True)
class ForestCover:
    """The paper's forest cover problems: 32 clusters of patches are the arms, a patch of cover type 1 pays 1.

    Scenario 1: an arm is the centroid of its cluster, the same in every round (d = 10), and pays 1 with a chance of the
    cluster's share of type 1. Scenario 2: an arm shows a random member of its cluster in each round (d = 55), and pays
    that member's own label; regret is still counted with the cluster's share.

    The ten quantities are standardised, the 44 binary features are not, and no norm is scaled.

    Args:
        scenario: 1 or 2.
        version: what scenario 2 shows beside the 54 features: "clean" a constant, "as-published" the cover type itself,
            which the reward is made of. Scenario 1 is the same in both.
        data: the whole UCI file, plain, gzip or xz. None takes the part that comes with the package.
        clusters: an .npz file whose `labels` are the cluster, 0 to 31, of each line of data. None runs KMeans.

    >>> problem = ForestCover(scenario=2)
    >>> [piece.arms.shape for piece in problem.rounds(horizon=8, seed=1)]
    [(8, 32, 55)]
    """

    scenario: int = 1
    version: str = "clean"
    data: str | os.PathLike[str] | None = None
    clusters: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check_int("scenario", self.scenario, at_least=1, at_most=2)
        lookup("version", self.version, VERSIONS)
        if self.data is None and self.clusters is not None:
            raise InvalidInput(f"clusters needs data, the file whose lines it labels; got {self.clusters!r} alone")
        for name in ("data", "clusters"):
            path = getattr(self, name)
            if path is not None:
                object.__setattr__(self, name, _file(name, path).path)

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return QUANTITIES if self.scenario == 1 else COLUMNS

    @property
    def noise(self) -> Noise:
        """Bernoulli: where the expected reward is a label, the reward is that label."""
        return NOISES["bernoulli"]

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of one run, in pieces of at most 4 MB of features."""
        arms, noise = self._arms, self.noise
        picks, noises = (self._stream(seed, part) for part in (MEMBERS, NOISE))
        longest = max(1, CHUNK_SIZE // (ARMS * (self.dim + 2) + ROUND_OVERHEAD))
        for start in range(0, horizon, longest):
            length = min(longest, horizon - start)
            features, expected = arms.show(length, picks)
            yield Rounds(
                arms=features,
                counts=np.full(length, ARMS),
                expected=expected,
                noise=noise.draw(noises, length),
                values=np.tile(arms.means, (length, 1)),
            )

    def means(self) -> Floats:
        """What regret is counted with: the share of cover type 1 in each cluster."""
        return self._arms.means.copy()

    def labels(self) -> Ints:
        """The cluster of each line of data. Save them for `clusters`, or KMeans runs again in every process."""
        if self.data is None:
            raise InvalidInput("labels needs data, the whole file: of the part in the package the clusters are fixed")
        with LOADING:
            return _labels(*self._sources(self.data)).copy()

    def fingerprint(self) -> str:
        """The problem and a hash of the data that it really uses, wherever they were read from."""
        name = f"ForestCover(scenario=1, {ARMS} arms)"
        if self.scenario == 2:
            name = f"ForestCover(scenario=2, version={self.version!r}, {ARMS} arms)"
        return f"{name} sha256:{self._arms.digest}"

    def _stream(self, seed: int, part: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))

    @property
    def _shown(self) -> str | None:
        return None if self.scenario == 1 else self.version

    def _sources(self, data: str | os.PathLike[str]) -> tuple[str | None, "File", "File | None"]:
        clusters = None if self.clusters is None else _file("clusters", self.clusters)
        return self._shown, _file("data", data), clusters

    @property
    def _arms(self) -> "Centroids | Members":
        with LOADING:
            return _part(self._shown) if self.data is None else _whole(*self._sources(self.data))


class File(NamedTuple):
    """A file as it is now: once changed, it is another one, and is read again."""

    path: str
    changed: int
    size: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Patches:
    """Lines of the file, packed: each patch has one wilderness area and one soil type."""

    quantities: Shorts
    """As in the file, (patches, 10)."""
    wilderness: Bytes
    """0 to 3, (patches,)."""
    soil: Bytes
    """0 to 39, (patches,)."""
    cover: Bytes
    """The cover type, 1 to 7, (patches,)."""

    def __len__(self) -> int:
        return len(self.cover)

    def take(self, rows: Ints) -> "Patches":
        """These rows, in this order."""
        return Patches(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def pays(self) -> Floats:
        """The 0/1 label of each patch."""
        return np.where(self.cover == SPRUCE_FIR, 1.0, 0.0)

    def scale(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the quantities. Sums of whole numbers are the same on every machine."""
        numbers, count = self.quantities.astype(np.int64), len(self)
        sums, squares = numbers.sum(axis=0).tolist(), (numbers * numbers).sum(axis=0).tolist()
        spread = [math.sqrt(count * square - s * s) / count for s, square in zip(sums, squares, strict=True)]
        return np.array([s / count for s in sums]), np.array([one or 1.0 for one in spread])

    def features(self, centre: Floats, spread: Floats, version: str | None) -> Floats:
        """What an arm shows of each patch: the standardised quantities alone, or all of this version of scenario 2."""
        shown = np.zeros((len(self), QUANTITIES if version is None else COLUMNS))
        shown[:, :QUANTITIES] = (self.quantities - centre) / spread
        if version is not None:
            rows = np.arange(len(self))
            shown[rows, QUANTITIES + self.wilderness.astype(np.int64)] = 1.0
            shown[rows, QUANTITIES + WILDERNESSES + self.soil.astype(np.int64)] = 1.0
            shown[:, -1] = self.cover if version == "as-published" else 1.0
        return shown


@dataclass(frozen=True, kw_only=True, eq=False)
class Centroids:
    """Scenario 1: the arms are the means of their clusters' members."""

    features: Floats
    means: Floats

    def show(self, rounds: int, _: np.random.Generator) -> tuple[Floats, Floats]:
        """Features and expected rewards of the arms in so many rounds."""
        return np.tile(self.features, (rounds, 1, 1)), np.tile(self.means, (rounds, 1))

    @cached_property
    def digest(self) -> str:
        """A hash of all that is here."""
        return _digest(self.features, self.means)


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """Scenario 2: each arm shows a random member of its cluster."""

    version: str
    patches: Patches
    """Cluster by cluster."""
    sizes: Ints
    """How many of the patches each cluster has."""
    means: Floats
    """Over all members, also those that are not here."""
    centre: Floats
    spread: Floats

    def show(self, rounds: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Features and expected rewards of the arms in so many rounds."""
        starts = np.cumsum(self.sizes) - self.sizes
        seen = self.patches.take((starts + rng.integers(0, self.sizes, (rounds, ARMS))).ravel())
        features = seen.features(self.centre, self.spread, self.version)
        return features.reshape(rounds, ARMS, COLUMNS), seen.pays().reshape(rounds, ARMS)

    @cached_property
    def digest(self) -> str:
        """A hash of all that is here."""
        patches = (getattr(self.patches, field.name) for field in fields(Patches))
        return _digest(*patches, self.sizes, self.means, self.centre, self.spread)


def read_patches(path: str) -> Patches:
    """Read the UCI file: 55 whole numbers with commas on each line, in a plain file, gzip or xz."""
    try:
        with _text(path) as lines, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
            table = np.loadtxt(lines, np.int16, comments=None, delimiter=",", ndmin=2)
    except DAMAGE as damage:
        raise InvalidInput(f"cannot read {path}: {damage}. Is the file whole?") from None
    except ValueError as wrong:
        raise InvalidInput(_first_fault(path) or f"cannot read {path}: {wrong}") from None
    if not table.size:
        raise InvalidInput(f"{path} must have a line of {COLUMNS} whole numbers for each patch; it is empty")
    if table.shape[1] != COLUMNS:
        raise InvalidInput(_first_fault(path) or f"{path} must have {COLUMNS} columns; got {table.shape[1]}")
    areas, soils = table[:, QUANTITIES : QUANTITIES + WILDERNESSES], table[:, QUANTITIES + WILDERNESSES : -1]
    cover = table[:, -1]
    one_of_each = all(a.min() == 0 and a.max() == 1 and (a.sum(axis=1) == 1).all() for a in (areas, soils))
    if not (one_of_each and cover.min() >= 1 and cover.max() <= COVERS):
        raise InvalidInput(_first_fault(path) or f"{path} is not a forest cover file")
    return Patches(
        quantities=table[:, :QUANTITIES].copy(),
        wilderness=areas.argmax(axis=1).astype(np.uint8),
        soil=soils.argmax(axis=1).astype(np.uint8),
        cover=cover.astype(np.uint8),
    )


def read_labels(path: str, patches: int) -> Ints:
    """Read the cluster of each patch from `labels` in an .npz file."""
    needed = f"{path} must be an .npz file with labels, {patches} whole numbers from 0 to {ARMS - 1}"
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            labels = arrays["labels"]
    except KeyError:
        raise InvalidInput(f"{needed}; it has no labels") from None
    except (OSError, EOFError, ValueError, TypeError, AttributeError, BadZipFile, zlib.error) as wrong:
        raise InvalidInput(f"{needed}; it cannot be read as one ({wrong})") from None
    if labels.shape != (patches,) or labels.dtype.kind not in "iu":
        raise InvalidInput(f"{needed}, one for each line of data; got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= ARMS:
        raise InvalidInput(f"{needed}; got {labels.min()} to {labels.max()}")
    return _with_members(labels, f"labels in {path}")


def centroids(patches: Patches, labels: Ints) -> Centroids:
    """The arms of scenario 1."""
    order, sizes = _by_cluster(labels)
    starts = np.cumsum(sizes) - sizes
    centre, spread = patches.scale()
    raw = np.add.reduceat(patches.quantities[order].astype(np.int64), starts) / sizes[:, np.newaxis]
    return Centroids(features=(raw - centre) / spread, means=_means(patches, labels))


def members(patches: Patches, labels: Ints, version: str) -> Members:
    """The arms of scenario 2."""
    order, sizes = _by_cluster(labels)
    centre, spread = patches.scale()
    means = _means(patches, labels)
    return Members(version=version, patches=patches.take(order), sizes=sizes, means=means, centre=centre, spread=spread)


def _means(patches: Patches, labels: Ints) -> Floats:
    return np.bincount(labels, patches.pays(), ARMS) / np.bincount(labels, minlength=ARMS)


def _by_cluster(labels: Ints) -> tuple[Ints, Ints]:
    return np.argsort(labels, kind="stable"), np.bincount(labels, minlength=ARMS)


@cache
def _part(version: str | None) -> Centroids | Members:
    """From the package. No version: scenario 1."""
    with as_file(files("glbandits.environments") / PART) as path, np.load(path, allow_pickle=False) as part:
        if version is None:
            return Centroids(features=part["centroids"], means=part["centroids.means"])
        return Members(
            version=version,
            patches=Patches(**{field.name: part[f"{version}.{field.name}"] for field in fields(Patches)}),
            sizes=part[f"{version}.sizes"],
            means=part[f"{version}.means"],
            centre=part["centre"],
            spread=part["spread"],
        )


@cache
def _whole(version: str | None, data: File, clusters: File | None) -> Centroids | Members:
    """From the user's file. No version: scenario 1."""
    patches, labels = _patches(data), _labels(version, data, clusters)
    return centroids(patches, labels) if version is None else members(patches, labels, version)


@cache
def _patches(data: File) -> Patches:
    return read_patches(data.path)


@cache
def _labels(version: str | None, data: File, clusters: File | None) -> Ints:
    patches = _patches(data)
    return _kmeans(patches, version, data.path) if clusters is None else read_labels(clusters.path, len(patches))


def _kmeans(patches: Patches, version: str | None, path: str) -> Ints:
    """Cluster the features that arms show. On one thread: with more, the order of sums and so the labels may change."""
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise InvalidInput(
            "clusters=None runs KMeans and needs scikit-learn, which is in the extra [lab]: "
            "pip install 'glbandits[lab]', or give clusters, an .npz file with labels"
        ) from None
    if len(patches) < ARMS:
        raise InvalidInput(f"{path} must have at least {ARMS} lines, one for each cluster; got {len(patches)}")
    features = patches.features(*patches.scale(), version)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it tells of empty clusters, and so do we
        found = KMeans(n_clusters=ARMS, random_state=1, n_init=10).fit_predict(features)
    return _with_members(found, f"labels by KMeans of {path}")


def _with_members(labels: NDArray[np.integer], source: str) -> Ints:
    """The labels, if they leave no cluster empty."""
    empty = np.flatnonzero(np.bincount(labels, minlength=ARMS) == 0).tolist()
    if empty:
        raise InvalidInput(f"each of the {ARMS} clusters needs a member; {source} leave none to clusters {empty}")
    return labels.astype(np.int64)


def _file(name: str, path: str | os.PathLike[str]) -> File:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"{name} must be the path of a file; got {repr(path)[:40]}")
    plain = os.fspath(path)
    if not Path(plain).is_file():
        raise InvalidInput(f"{name} must be a file; there is none at {plain}")
    state = Path(plain).stat()
    return File(plain, state.st_mtime_ns, state.st_size)


def _text(path: str) -> TextIO:
    """The lines of a file, whatever it is packed with."""
    with Path(path).open("rb") as file:
        start = file.read(6)
    # What is no text becomes a sign that is no number, and is refused with its line.
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rt", encoding="ascii", errors="replace")
    if start == b"\xfd7zXZ\x00":
        return lzma.open(path, "rt", encoding="ascii", errors="replace")
    return Path(path).open(encoding="ascii", errors="replace")


def _first_fault(path: str) -> str | None:
    """Where the file first goes wrong, and how. Slow, and called only for a file that is refused."""
    try:
        with _text(path) as lines:
            for number, line in enumerate(lines, start=1):
                fault = _fault(line) if line.strip("\r\n") else None
                if fault is not None:
                    return f"{path}, line {number}: {fault}"
    except DAMAGE as damage:
        return f"cannot read {path}: {damage}. Is the file whole?"
    return None


def _fault(line: str) -> str | None:
    cells = line.strip().split(",")
    if len(cells) != COLUMNS:
        return f"{COLUMNS} columns are needed; got {len(cells)}"
    row = []
    for column, cell in enumerate(cells, start=1):
        try:
            row.append(int(np.int16(int(cell))))
        except (ValueError, OverflowError):
            return f"column {column} must be a whole number of at most 32767; got {cell.strip()[:40]!r}"
    for what, first, last in (
        ("wilderness area", QUANTITIES, QUANTITIES + WILDERNESSES),
        ("soil type", QUANTITIES + WILDERNESSES, COLUMNS - 1),
    ):
        if sorted(row[first:last]) != [0] * (last - first - 1) + [1]:
            return f"columns {first + 1} to {last} must be one 1 and else 0, for the {what}; got {row[first:last]}"
    if not 1 <= row[-1] <= COVERS:
        return f"column {COLUMNS} must be a cover type from 1 to {COVERS}; got {row[-1]}"
    return None


def _digest(*arrays: NDArray[np.generic]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()
