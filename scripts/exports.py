"""Take every sample export to labels, workers and a report through the command line alone, and print the times.

``python scripts/exports.py [folder]`` writes what it makes to the folder, by default one that is deleted again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "tests" / "data" / "exports"

#: Arguments that name a sample, by platform; and whether its answers are classes, of which there are reports.
EXPORTS: dict[str, tuple[list[str], bool]] = {
    "label-studio": (["label_studio.json", "--question", "mood"], True),
    "label-studio, stars": (["label_studio.json", "--question", "stars"], False),
    "prodigy": (["prodigy.jsonl"], True),
    "doccano": (["doccano/*.jsonl"], True),
    "argilla": (["argilla.json"], True),
    "mturk": (["mturk.csv"], True),
    "crowdflower": (["crowdflower.csv"], True),
    "toloka": (["toloka.tsv"], True),
    "sagemaker": (["sagemaker.json"], True),
    "cvat": (["cvat/*.xml", "--question", "tag"], True),
    "phoenix": (["phoenix.jsonl"], True),
    "json": (["plain.json"], True),
    "lists": (["lists.jsonl"], True),
    "wide": (["wide.csv", "--layout", "wide"], True),
    "arena": (["arena.csv"], False),
    "label-studio, spans": (["label_studio_spans.json"], False),
    "prodigy, spans": (["prodigy_spans.jsonl"], False),
    "doccano, spans": (["doccano_spans/*.jsonl"], False),
    "argilla, spans": (["argilla_spans.json"], False),
    "webanno": (["webanno/*/*.tsv"], False),
    "zooniverse": (["zooniverse.csv", "--question", "T0"], True),
    "label-studio, CSV": (["label_studio_rows.csv", "--question", "mood"], True),
    "label-studio, JSON-MIN": (["label_studio_min.json", "--question", "box"], False),
    "labelbox": (["labelbox.ndjson", "--question", "weather"], True),
    "brat": (["brat"], False),
    "labelme": (["labelme", "--question", "boxes"], False),
    "via": (["via/*.json", "--question", "light"], True),
    "webanno, TSV 2": (["webanno2"], False),
    "inspect": (["inspect.json", "--question", "score"], True),
}


def command(*arguments: str) -> float:
    """Run a command, which must succeed; returns the processor time it took, in seconds."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "manyhands", *arguments, "-q"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"manyhands {' '.join(arguments)}: {done.stderr.strip()}")
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def taken(name: str, folder: Path) -> tuple[float, float | None]:
    """Take an export to its files; returns the seconds of labels with workers, and of the report."""
    (path, *options), of_classes = EXPORTS[name]
    stem = folder / name.replace(", ", "-")
    log = [str(SAMPLES / path), *options]
    answers, workers = f"{stem}-labels.parquet", f"{stem}-workers.csv"
    labels = command("aggregate", *log, "-o", answers, "--workers", workers)
    made = [Path(answers), Path(workers)]
    report = None
    if of_classes:
        report = command("report", *log, "-o", f"{stem}.html")
        made.append(Path(f"{stem}.html"))
    for file in made:
        if not file.stat().st_size:
            raise SystemExit(f"{file} is empty")
    return labels, report


def main(folder: Path) -> None:
    """Take all of them, and print a row each."""
    print(f"{'export':<22}{'labels, workers':>16}{'report':>10}   (seconds of processor time)")
    for name in EXPORTS:
        labels, report = taken(name, folder)
        print(f"{name:<22}{labels:>16.2f}{'–' if report is None else f'{report:.2f}':>10}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
