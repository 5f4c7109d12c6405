"""Make the part of the forest cover data that comes with the package.

python tools/make_forest_cover_part.py COVTYPE CLUSTERS1 CLUSTERS2 CLUSTERS2_WITH_LABEL OUT

COVTYPE is the whole UCI file (plain, gzip or xz). The next three are .npz files whose `labels` give each line's
cluster, 0 to 31: by KMeans of the ten standardised quantities, of the 54 features, and of these with the cover type.
OUT is src/glbandits/environments/forest_cover_part.npz.

The part contains the centroids, every cluster's share of cover type 1 in the complete file, the mean and standard
deviation of the complete file, and MEMBERS random members of each cluster of scenario 2 (all, if it has fewer). Their
share of cover type 1 is that of the cluster, rounded, so that the mean reward of an arm is the value that regret uses.
The same files give the same part.
"""

import argparse
import sys
from dataclasses import fields
from typing import Any

import numpy as np

from glbandits.environments.forest_cover import (
    VERSIONS,
    Members,
    Patches,
    centroids,
    members,
    read_labels,
    read_patches,
)
from glbandits.records import Floats, Ints

MEMBERS = 300


def main() -> None:
    """Read the files, and write the part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("covtype", "clusters1", "clusters2", "clusters2_with_label", "out"):
        parser.add_argument(name, metavar=name.upper())
    given = parser.parse_args()
    patches, rng = read_patches(given.covtype), np.random.default_rng(1)
    centre, spread = patches.scale()
    fixed = centroids(patches, read_labels(given.clusters1, len(patches)))
    part: dict[str, Any] = {"centre": centre, "spread": spread}
    part |= {"centroids": fixed.features, "centroids.means": fixed.means}
    report("scenario 1", fixed.means)
    for version, path in zip(VERSIONS, (given.clusters2, given.clusters2_with_label), strict=True):
        every = members(patches, read_labels(path, len(patches)), version)
        rows = kept(every, rng)
        few = every.patches.take(np.concatenate(rows))
        part |= {f"{version}.{field.name}": getattr(few, field.name) for field in fields(Patches)}
        part |= {f"{version}.sizes": np.array([len(r) for r in rows]), f"{version}.means": every.means}
        report(f"scenario 2, {version}, {len(few)} members", every.means)
    np.savez_compressed(given.out, **part)


def kept(every: Members, rng: np.random.Generator) -> list[Ints]:
    """Rows to keep of each cluster, in order: at random, but as many of type 1 as their share says."""
    rows = []
    for cluster in np.split(np.arange(len(every.patches)), np.cumsum(every.sizes)[:-1]):
        rewards = every.patches.take(cluster).rewards()
        count = min(MEMBERS, len(cluster))
        paying = round(rewards.mean() * count)
        ones = rng.choice(cluster[rewards == 1], paying, replace=False)
        rows.append(np.sort(np.append(ones, rng.choice(cluster[rewards == 0], count - paying, replace=False))))
    return rows


def report(what: str, means: Floats) -> None:
    """Say what came out."""
    sys.stdout.write(f"{what}: means {means.min():.5f} to {means.max():.5f}\n")


if __name__ == "__main__":
    main()
