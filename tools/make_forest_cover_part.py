"""Create the part of the forest cover data that is shipped with the package.

python tools/make_forest_cover_part.py COVTYPE CLUSTERS1 CLUSTERS2 CLUSTERS2_WITH_LABEL OUT

COVTYPE is the whole UCI file (plain, gzip or xz). The next three are .npz files whose `labels` give each line's
cluster, 0 to 31: by KMeans of the ten standardised quantities, of the 54 features, and of these with the cover type.
OUT is src/glbandits/lab/environments/forest_cover_part.npz.

The part has the centroids, every cluster's share of cover type 1 in the whole file, the whole file's mean and standard
deviation, and MEMBERS random members of each cluster of scenario 2 (all, if it has fewer). Their share of type 1 equals
the cluster's share, rounded, so that the mean reward of an arm is the one that regret uses. The same files give the
same part.
"""

import argparse
import sys
from dataclasses import fields
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.lab.environments.forest_cover import (
    VERSIONS,
    Members,
    Patches,
    centroids,
    members,
    read_labels,
    read_patches,
)

MEMBERS = 300


def main() -> None:
    """Read the files, and write the part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("covtype", "clusters1", "clusters2", "clusters2_with_label", "out"):
        parser.add_argument(name, metavar=name.upper())
    arguments = parser.parse_args()
    patches, rng = read_patches(arguments.covtype), np.random.default_rng(1)
    centre, spread = patches.scale()
    fixed = centroids(patches, read_labels(arguments.clusters1, len(patches)))
    part: dict[str, Any] = {"centre": centre, "spread": spread}
    part |= {"centroids": fixed.features, "centroids.means": fixed.means}
    report("scenario 1", fixed.means)
    for version, path in zip(VERSIONS, (arguments.clusters2, arguments.clusters2_with_label), strict=True):
        every = members(patches, read_labels(path, len(patches)), version)
        rows = sample_rows(every, rng)
        sampled = every.patches.take(np.concatenate(rows))
        part |= {f"{version}.{field.name}": getattr(sampled, field.name) for field in fields(Patches)}
        part |= {f"{version}.sizes": np.array([len(r) for r in rows]), f"{version}.means": every.means}
        report(f"scenario 2, {version}, {len(sampled)} members", every.means)
    np.savez_compressed(arguments.out, **part)


def sample_rows(every: Members, rng: np.random.Generator) -> list[Ints]:
    """Draw random rows of each cluster with the cluster's share of type 1."""
    rows = []
    for cluster in np.split(np.arange(len(every.patches)), np.cumsum(every.sizes)[:-1]):
        rewards = every.patches.take(cluster).rewards()
        count = min(MEMBERS, len(cluster))
        paying = round(rewards.mean() * count)
        ones = rng.choice(cluster[rewards == 1], paying, replace=False)
        rows.append(np.sort(np.append(ones, rng.choice(cluster[rewards == 0], count - paying, replace=False))))
    return rows


def report(label: str, means: Floats) -> None:
    """Print a summary of the part."""
    sys.stdout.write(f"{label}: means {means.min():.5f} to {means.max():.5f}\n")


if __name__ == "__main__":
    main()
