"""Pictures of docs/auditing.md, from the curves that audit.py and audit_groups.py wrote: those that are there.

python benches/audit_pictures.py [--curves results/audit.json] [--folder ../docs/images]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

import harness

ROOT = harness.HERE.parent
#: How ways to fuse are drawn: name in the legend, colour, dashes. Colours can be told apart by the colour-blind.
LINES = {
    "MV": ("majority", "#999999", "-"),
    "DS": ("Dawid–Skene", "#0072b2", "-"),
    "M-MSR": ("M-MSR", "#56b4e9", "--"),
    "reputation": ("reputation, left out", "#e69f00", ":"),
    "hard": ("the same, hard penalty", "#cc79a7", ":"),
    "as one": ("found, counted as one", "#009e73", "-"),
    "trusted": ("the same, one is trusted", "#d55e00", "--"),
}
TITLES = {
    "simulated": "simulated: 60 workers, 3 classes",
    "bluebird": "Bluebird",
    "dog": "Dog",
    "web": "Web",
    "sentence_polarity": "sentence polarity",
}


def colluders(curves: dict[str, Any]) -> Any:
    names = [name for name in TITLES if name in curves]
    columns = 3
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(9, 2.7 * rows), sharey=True, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        share = [100 * x for x in curves[name]["share"]]
        for way, (label, colour, dashes) in LINES.items():
            axis.plot(share, curves[name][way], dashes, color=colour, label=label, linewidth=1.6)
        axis.set_title(TITLES[name], fontsize=9)
        axis.set_xlabel("colluders, % of workers", fontsize=8)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy", fontsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    spare = axes.flat[-1] if len(names) < axes.size else figure
    spare.legend(handles, labels, loc="center", fontsize=8, frameon=False)
    return figure


def spammers(curves: dict[str, Any]) -> Any:
    figure, axis = plt.subplots(figsize=(4.5, 2.7))
    rows = curves["spammers"]
    share = [100 * row["share"] for row in rows]
    names = (("majority", "#999999", "-"), ("Dawid–Skene", "#0072b2", "-"), ("spammers left out", "#d55e00", "--"))
    for place, (name, colour, dashes) in enumerate(names):
        axis.plot(share, [row["accuracy"][place] for row in rows], dashes, color=colour, label=name, linewidth=1.6)
    axis.set_ylabel("accuracy", fontsize=8)
    axis.set_xlabel("spammers, % of workers", fontsize=8)
    axis.legend(fontsize=8, frameon=False, loc="lower left")
    return figure


def groups(curves: dict[str, Any]) -> Any:
    figure, axis = plt.subplots(figsize=(4.5, 2.7))
    rows = curves["groups"]
    names = (("majority", "#999999", "-"), ("Dawid–Skene", "#0072b2", "-"), ("group vote", "#009e73", "--"),
             ("group Dawid–Skene", "#d55e00", "-"))  # fmt: skip
    for name, colour, dashes in names:
        axis.plot([row["tasks"] for row in rows], [row[name] for row in rows], dashes, color=colour, label=name,
                  linewidth=1.6)  # fmt: skip
    axis.set_xscale("log")
    ticks = [row["tasks"] for row in rows]
    axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axis.minorticks_off()
    axis.set_ylim(0.73, 0.87)
    axis.set_yticks([0.75, 0.8, 0.85])
    axis.set_ylabel("accuracy", fontsize=8)
    axis.set_xlabel("tasks, each answered by 40 workers in five groups", fontsize=8)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def by_share(figure: Any) -> Any:
    """All axes from 0 to 1, and in steps of a fifth of the workers."""
    for axis in figure.axes:
        axis.set_ylim(-0.02, 1.02)
        axis.set_yticks([0, 0.5, 1])
        axis.set_xticks(range(0, int(axis.dataLim.x1) + 1, 20) if axis.lines else [])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=harness.RESULTS / "audit.json")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    curves = json.loads(given.curves.read_text())
    # Letters as letters, and no date nor random ids: the same curves give the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "manyhands", "font.family": "sans-serif"})
    given.folder.mkdir(parents=True, exist_ok=True)
    pictures = {"colluders": by_share(colluders(curves))} if TITLES.keys() & curves.keys() else {}
    pictures |= {"spammers": by_share(spammers(curves))} if "spammers" in curves else {}
    pictures |= {"groups": groups(curves)} if "groups" in curves else {}
    for name, figure in pictures.items():
        for axis in figure.axes:
            axis.grid(alpha=0.3, linewidth=0.5)
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        path = given.folder / f"audit-{name}.svg"
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
