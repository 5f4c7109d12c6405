"""Write docs/results.md, docs/claims.md and their images from results of the paper.

    glb paper all --out out/paper && python tools/write_results.py out/paper docs

`make results` does both.
"""

import shutil
import sys
from pathlib import Path

from glbandits.lab.paper.paper_summary import FILE, read_summary
from glbandits.lab.report.markdown_pages import claims_page, results_page

IMAGES = "images"
FIGURES = ("paper-figure-paper", "paper-figure-fresh", "cost")


def main(results: Path, docs: Path) -> None:
    """Write the pages, the summary from which they are generated, and their images."""
    summary = read_summary(results / FILE)
    shutil.copyfile(results / FILE, docs / "results.json")
    (docs / "results.md").write_text(results_page(summary, IMAGES), encoding="utf-8")
    (docs / "claims.md").write_text(claims_page(summary), encoding="utf-8")
    for name in (*FIGURES, *(experiment.name for experiment in summary.experiments)):
        shutil.copyfile(results / "figures" / f"{name}.png", docs / IMAGES / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
