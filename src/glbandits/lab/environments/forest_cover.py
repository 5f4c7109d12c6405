"""The forest cover problems of the SGD-TS paper, from the UCI Covertype data.

An arm is a cluster of forest patches. The reward is 1 if a patch has the cover type spruce/fir.
"""

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import as_file, files
from pathlib import Path
from threading import Lock
from typing import ClassVar, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.common.extras import needed_for
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import Rounds, chunk_lengths, stream
from glbandits.lab.environments.source_files import READ_ERRORS, FileVersion, file_version, open_unpacked

Shorts: TypeAlias = NDArray[np.int16]
Bytes: TypeAlias = NDArray[np.uint8]

ARMS = 32
SPRUCE_FIR = 1
"""The cover type with reward 1."""
QUANTITIES, WILDERNESSES, SOILS, COVERS = 10, 4, 40, 7
"""The number of quantitative columns, of one-hot columns for wilderness area and soil type, and of cover types."""
COLUMNS = QUANTITIES + WILDERNESSES + SOILS + 1
VERSIONS = {"clean": "54 features and a constant", "as-published": "54 features and the cover type"}
PART = "forest_cover_part.npz"
"""The sample of the data in the package. tools/make_forest_cover_part.py creates it."""

LOADING = Lock()
"""Only one thread loads the data; the others wait."""

# Random streams.
MEMBERS, NOISE = 0, 1


@dataclass(frozen=True, kw_only=True)
class ForestCover:
    """The arms are 32 clusters of forest patches, and the reward is 1 for cover type 1.

    Scenario 1 (d = 10): the features of an arm are the centroid of its cluster, the same in every round. The expected
    reward is the share of cover type 1 in the cluster.

    Scenario 2 (d = 55): in each round an arm has the features of a random member of its cluster. The reward is the
    label of that member. Regret is still computed from the cluster's share of cover type 1.

    The ten quantitative features are standardised. The 44 binary features are not. No norm is scaled.

    Args:
        scenario: 1 or 2.
        version: the last feature in scenario 2, after the 54 features of the data. "clean": a constant. "as-published":
            the cover type, from which the reward is computed. Scenario 1 is the same in both versions.
        data: the complete UCI file, plain, gzip or xz. None uses the sample in the package.
        clusters: an .npz file whose array `labels` is the cluster, 0 to 31, of each line of data. None runs KMeans.

    >>> problem = ForestCover(scenario=2)
    >>> [chunk.arms.shape for chunk in problem.rounds(horizon=8, seed=1)]
    [(8, 32, 55)]
    """

    scenario: int = 1
    version: str = "clean"
    data: str | os.PathLike[str] | None = None
    clusters: str | os.PathLike[str] | None = None
    noise: ClassVar[Noise] = NOISES["bernoulli"]
    """In scenario 2 the expected reward is a label, 0 or 1, so the reward is that label."""

    def __post_init__(self) -> None:
        check_int("scenario", self.scenario, at_least=1, at_most=2)
        lookup("version", self.version, VERSIONS)
        if self.data is None and self.clusters is not None:
            raise InvalidInput(f"clusters needs data, the file whose lines it labels; got only {self.clusters!r}")
        for name in ("data", "clusters"):
            path = getattr(self, name)
            if path is not None:
                object.__setattr__(self, name, file_version(name, path).path)

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return QUANTITIES if self.scenario == 1 else COLUMNS

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of at most 4 MB of features."""
        arms, noise = self._arms, self.noise
        members, noises = stream(seed, MEMBERS), stream(seed, NOISE)
        for length in chunk_lengths(horizon, ARMS * (self.dim + 2)):
            features, expected = arms.sample(length, members)
            yield Rounds(
                arms=features,
                counts=np.full(length, ARMS),
                expected=expected,
                noise=noise.draw(noises, length),
                payoffs=np.tile(arms.means, (length, 1)),
            )

    def means(self) -> Floats:
        """The share of cover type 1 in each cluster, from which regret is computed."""
        return self._arms.means.copy()

    def labels(self) -> Ints:
        """The cluster of each line of data.

        Save the labels to a file for `clusters`; without it, every process runs KMeans again.
        """
        if self.data is None:
            raise InvalidInput("labels needs data, the complete file; the sample in the package has fixed clusters")
        with LOADING:
            return _labels(*self._sources(self.data)).copy()

    def fingerprint(self) -> str:
        """A text with the settings and a hash of the data, independent of the file's path."""
        name = f"ForestCover(scenario=1, {ARMS} arms)"
        if self.scenario == 2:
            name = f"ForestCover(scenario=2, version={self.version!r}, {ARMS} arms)"
        return f"{name} sha256:{self._arms.digest}"

    def __identity__(self) -> str:
        return self.fingerprint()

    @property
    def _scenario_2_version(self) -> str | None:
        return None if self.scenario == 1 else self.version

    def _sources(self, data: str | os.PathLike[str]) -> tuple[str | None, FileVersion, FileVersion | None]:
        clusters = None if self.clusters is None else file_version("clusters", self.clusters)
        return self._scenario_2_version, file_version("data", data), clusters

    @property
    def _arms(self) -> "Centroids | Members":
        with LOADING:
            if self.data is None:
                return _arms_of_package(self._scenario_2_version)
            return _arms_of_file(*self._sources(self.data))


@dataclass(frozen=True, kw_only=True, eq=False)
class Patches:
    """Lines of the file.

    The one-hot columns for wilderness area and soil type are stored as indices.
    """

    quantities: Shorts
    """The quantitative columns as in the file, (patches, 10)."""
    wilderness: Bytes
    """The wilderness area, 0 to 3, (patches,)."""
    soil: Bytes
    """The soil type, 0 to 39, (patches,)."""
    cover: Bytes
    """The cover type, 1 to 7, (patches,)."""

    def __len__(self) -> int:
        return len(self.cover)

    def take(self, rows: Ints) -> "Patches":
        """Return these rows, in this order."""
        return Patches(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def rewards(self) -> Floats:
        """The reward of each patch: 1 for spruce/fir, else 0."""
        return np.where(self.cover == SPRUCE_FIR, 1.0, 0.0)

    def scale(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the quantities, or 1 for a deviation of 0.

        Computed from sums of integers, so that the result is the same on every machine.
        """
        integers, count = self.quantities.astype(np.int64), len(self)
        sums, squares = integers.sum(axis=0).tolist(), (integers * integers).sum(axis=0).tolist()
        spread = [math.sqrt(count * square - s * s) / count for s, square in zip(sums, squares, strict=True)]
        return np.array([s / count for s in sums]), np.array([deviation or 1.0 for deviation in spread])

    def features(self, centre: Floats, spread: Floats, version: str | None) -> Floats:
        """The features of each patch in a version of scenario 2; in scenario 1 if it is None."""
        features = np.zeros((len(self), QUANTITIES if version is None else COLUMNS))
        features[:, :QUANTITIES] = (self.quantities - centre) / spread
        if version is not None:
            rows = np.arange(len(self))
            features[rows, QUANTITIES + self.wilderness.astype(np.int64)] = 1.0
            features[rows, QUANTITIES + WILDERNESSES + self.soil.astype(np.int64)] = 1.0
            features[:, -1] = self.cover if version == "as-published" else 1.0
        return features


@dataclass(frozen=True, kw_only=True, eq=False)
class Centroids:
    """The arms of scenario 1: cluster centroids."""

    features: Floats
    means: Floats

    def sample(self, rounds: int, _: np.random.Generator) -> tuple[Floats, Floats]:
        """Return features and expected rewards of the arms in this number of rounds."""
        return np.tile(self.features, (rounds, 1, 1)), np.tile(self.means, (rounds, 1))

    @cached_property
    def digest(self) -> str:
        """A hash of features and means."""
        return _digest(self.features, self.means)


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """The arms of scenario 2: random members of clusters."""

    version: str
    patches: Patches
    """The members, sorted by cluster."""
    sizes: Ints
    """The number of patches in each cluster."""
    means: Floats
    """The share of cover type 1 among all members of each cluster, including members that are not in `patches`."""
    centre: Floats
    spread: Floats

    def sample(self, rounds: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return features and expected rewards of the arms in this number of rounds."""
        starts = np.cumsum(self.sizes) - self.sizes
        patches = self.patches.take((starts + rng.integers(0, self.sizes, (rounds, ARMS))).ravel())
        features = patches.features(self.centre, self.spread, self.version)
        return features.reshape(rounds, ARMS, COLUMNS), patches.rewards().reshape(rounds, ARMS)

    @cached_property
    def digest(self) -> str:
        """A hash of patches, sizes, means and scale."""
        patches = (getattr(self.patches, field.name) for field in fields(Patches))
        return _digest(*patches, self.sizes, self.means, self.centre, self.spread)


def read_patches(path: str) -> Patches:
    """Read the UCI file: 55 comma-separated integers per line; plain, gzip or xz."""
    try:
        with open_unpacked(path) as lines, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
            table = np.loadtxt(lines, np.int16, comments=None, delimiter=",", ndmin=2)
    except (*READ_ERRORS, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as a table of integers: {error}. Is the file complete?") from None
    if not table.size or table.shape[1] != COLUMNS:
        raise InvalidInput(f"{path} must have lines of {COLUMNS} integers; got a table of shape {table.shape}")
    areas, soils = table[:, QUANTITIES : QUANTITIES + WILDERNESSES], table[:, QUANTITIES + WILDERNESSES : -1]
    cover = table[:, -1]
    valid = _is_one_hot(areas) & _is_one_hot(soils) & (cover >= 1) & (cover <= COVERS)
    if not valid.all():
        raise InvalidInput(
            f"{path}, row {valid.argmin() + 1}: columns 11 to 14 (wilderness area) and 15 to 54 (soil type) must each "
            f"have one 1 and otherwise 0, and column 55 must be a cover type from 1 to {COVERS}"
        )
    return Patches(
        quantities=table[:, :QUANTITIES].copy(),
        wilderness=areas.argmax(axis=1).astype(np.uint8),
        soil=soils.argmax(axis=1).astype(np.uint8),
        cover=cover.astype(np.uint8),
    )


def _is_one_hot(columns: Shorts) -> Bools:
    """Return whether each row has one 1 and otherwise 0."""
    one_hot: Bools = ((columns == 0) | (columns == 1)).all(axis=1) & (columns.sum(axis=1) == 1)
    return one_hot


def read_labels(path: str, patches: int) -> Ints:
    """Read the cluster of each patch from the array `labels` in an .npz file."""
    requirement = f"{path} must be an .npz file with labels, {patches} integers from 0 to {ARMS - 1}"
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            labels = arrays["labels"]
    except (*READ_ERRORS, KeyError, ValueError, TypeError, AttributeError, BadZipFile) as error:
        raise InvalidInput(f"{requirement}; it cannot be read as one ({error})") from None
    if labels.shape != (patches,) or labels.dtype.kind not in "iu":
        raise InvalidInput(f"{requirement}, one for each line of data; got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= ARMS:
        raise InvalidInput(f"{requirement}; got {labels.min()} to {labels.max()}")
    return _check_clusters(labels, f"labels in {path}")


def centroids(patches: Patches, labels: Ints) -> Centroids:
    """Return the arms of scenario 1."""
    order, sizes = _by_cluster(labels)
    starts = np.cumsum(sizes) - sizes
    centre, spread = patches.scale()
    raw = np.add.reduceat(patches.quantities[order].astype(np.int64), starts) / sizes[:, np.newaxis]
    return Centroids(features=(raw - centre) / spread, means=_means(patches, labels))


def members(patches: Patches, labels: Ints, version: str) -> Members:
    """Return the arms of scenario 2."""
    order, sizes = _by_cluster(labels)
    centre, spread = patches.scale()
    means = _means(patches, labels)
    return Members(version=version, patches=patches.take(order), sizes=sizes, means=means, centre=centre, spread=spread)


def _means(patches: Patches, labels: Ints) -> Floats:
    return np.bincount(labels, patches.rewards(), ARMS) / np.bincount(labels, minlength=ARMS)


def _by_cluster(labels: Ints) -> tuple[Ints, Ints]:
    return np.argsort(labels, kind="stable"), np.bincount(labels, minlength=ARMS)


@cache
def _arms_of_package(version: str | None) -> Centroids | Members:
    """Load the arms from the package: of scenario 1 if version is None, else of scenario 2."""
    with as_file(files("glbandits.lab.environments") / PART) as path, np.load(path, allow_pickle=False) as part:
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
def _arms_of_file(version: str | None, data: FileVersion, clusters: FileVersion | None) -> Centroids | Members:
    """Load the arms from a user's file: of scenario 1 if version is None, else of scenario 2."""
    patches, labels = _patches(data), _labels(version, data, clusters)
    return centroids(patches, labels) if version is None else members(patches, labels, version)


@cache
def _patches(data: FileVersion) -> Patches:
    return read_patches(data.path)


@cache
def _labels(version: str | None, data: FileVersion, clusters: FileVersion | None) -> Ints:
    patches = _patches(data)
    return _kmeans(patches, version, data.path) if clusters is None else read_labels(clusters.path, len(patches))


def _kmeans(patches: Patches, version: str | None, path: str) -> Ints:
    """Cluster the patches by their features.

    Uses one thread. With more threads, the order of sums and therefore the labels might change.
    """
    with needed_for("clusters=None, which runs KMeans,", "lab", alternative="set clusters to an .npz file with labels"):
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits
    if len(patches) < ARMS:
        raise InvalidInput(f"{path} must have at least {ARMS} lines, one for each cluster; got {len(patches)}")
    features = patches.features(*patches.scale(), version)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it warns of empty clusters; _check_clusters raises
        labels = KMeans(n_clusters=ARMS, random_state=1, n_init=10).fit_predict(features)
    return _check_clusters(labels, f"labels by KMeans of {path}")


def _check_clusters(labels: NDArray[np.integer], source: str) -> Ints:
    """Return the labels. Raises InvalidInput if a cluster is empty."""
    empty = np.flatnonzero(np.bincount(labels, minlength=ARMS) == 0).tolist()
    if empty:
        raise InvalidInput(f"each of the {ARMS} clusters needs a member; {source} have none in clusters {empty}")
    return labels.astype(np.int64)


def _digest(*arrays: NDArray[np.generic]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()
