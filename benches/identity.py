"""Hashes of what every method answers on the shared logs, to compare two commits bit by bit.

Run it once with each commit's package (``PYTHONPATH=<checkout>/python python benches/identity.py --out a.json``), then
``python benches/identity.py --compare a.json b.json``. Every aggregator of a kind, with its default parameters, is
fitted to the first rows of each log; those that are quick there also to whole logs (``LARGE`` rows), and the default,
the majority vote and Dawid–Skene to whole logs of any size. Each public attribute of a fitted model whose name ends in
``_`` is hashed by its bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import manyhands as mh

DATA = Path(__file__).parents[2] / "shared" / "data"
#: Rows of a log that every method is fitted to, and that the few quick ones are fitted to.
SOME, MANY = 1500, 200_000
#: Rows of a log that every method is fitted to that took less than ``QUICK`` seconds on its first rows.
LARGE, QUICK = 50_000, 0.3
#: Attributes that are computed by resampling or refitting at every access, or that describe the run.
LEFT_OUT = {"elapsed_", "seconds_"}
NUMERIC = ("affect_anger", "affect_fear", "affect_joy", "affect_valence", "movie_reviews", "politeness_wiki")
GAMES = {"left": "left", "right": "right", "winner": "label", "worker": "worker"}
PAIRWISE = dict.fromkeys(("age_pairs", "convarg", "wmt15_ranking"), GAMES) | {
    "music_sim_pairs": GAMES | {"context": "task"}
}
TEXTS = ("crowdwsa_t1", "crowdwsa_t2", "crowdspeech_dev_clean")
ORDERED = {"web": None, "metaphor_novelty": None, "s_rel": None, "adult3": ["G", "P", "R", "X", "B"]}
EXPORTS = (
    "cvat/compare_annotations.xml",
    "label-studio/evalme_test_bbox.json",
    "label-studio/data_obb.json",
    "prodigy/presto_distortion_part.jsonl",
)
#: Kinds whose name is another at an earlier commit.
EARLIER = {
    "categorical": "classes",
    "ordinal": "classes",
    "numeric": "numbers",
    "pairwise": "comparisons",
    "clustering": "similarities",
    "multilabel": "sets",
}


def rows(name: str, most: int | None) -> pd.DataFrame:
    folder = DATA / name
    path = next(path for path in sorted(folder.iterdir()) if path.name.startswith(("labels.", "humans.")))
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        return frame if most is None else frame.head(most)
    return pd.read_csv(path, dtype=str, keep_default_na=False, nrows=most)


def tables(most: int | None) -> Iterator[tuple[str, str, Any]]:
    """Yield name, kind and table of each log."""
    other = {*NUMERIC, *PAIRWISE, *TEXTS, "medical_re", "uds_wordsense", "ner_mturk"}
    for folder in sorted(path for path in DATA.iterdir() if path.is_dir()):
        name = folder.name
        if not any(path.name.startswith(("labels.", "humans.")) for path in folder.iterdir()) or name in other:
            continue
        log = rows(name, most)
        yield name, "categorical", mh.Annotations.from_frame(log, task="task", worker="worker", label="label")
        if name in ORDERED:
            classes = ORDERED[name] or sorted(set(log.label))
            yield f"{name} ordered", "ordinal", mh.Annotations.from_frame(log, classes=classes, ordered=True)
    for name in NUMERIC:
        yield name, "numeric", mh.Ratings.from_frame(rows(name, most).astype({"value": float}))
    for name, columns in PAIRWISE.items():
        yield name, "pairwise", mh.Comparisons.from_frame(rows(name, most), **columns)
    dots = pd.read_csv(DATA / "mturk_dots" / "rankings.csv")
    dots = dots[dots.instance == dots.instance[0]]
    yield "mturk_dots", "rankings", mh.Rankings.from_lists(dots.order.str.split(">"), weights=dots["count"])
    for name in TEXTS:
        log = rows(name, most and most // 3)
        yield name, "texts", mh.Texts.from_frame(log, task="task", worker="worker", text="label")
        yield f"{name} objects", "objects", mh.Objects.from_frame(log, task="task", worker="worker", answer="label")
    melodies = rows("music_sim_pairs", most)
    melodies["same"] = ~((melodies.label == melodies.left) | (melodies.label == melodies.right))
    melodies["left"] = melodies.task + " / " + melodies.left
    melodies["right"] = melodies.task + " / " + melodies.right
    yield (
        "music_sim_pairs same",
        "clustering",
        mh.Similarities.from_frame(melodies[["left", "right", "worker", "same"]]),
    )
    for name in ("medical_re", "uds_wordsense"):
        log = rows(name, most)
        log["label"] = log.label.str.split("|")
        yield name, "multilabel", mh.MultiLabels.from_frame(log, task="task", worker="worker", labels="label")
    tokens = rows("ner_mturk", most and most * 4)
    tokens[["document", "position"]] = tokens.task.str.rsplit("/", n=1, expand=True)
    tokens["position"] = tokens.position.astype(int)
    columns = {"sequence": "document", "position": "position", "worker": "worker", "label": "label"}
    yield "ner_mturk", "sequences", mh.Sequences.from_frame(tokens, **columns, gaps="outside", repeats="first")
    yield "discs", "masks", discs()
    for name in EXPORTS:
        path = DATA / "exports" / name
        if path.exists():
            table = mh.read(path)
            yield name, type(table).__name__.lower(), table


def discs() -> Any:
    """Draw masks of discs that workers outline unevenly: no shared log has masks."""
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[:32, :32]
    tasks, workers, masks = [], [], []
    for task, (y, x, radius) in enumerate(zip(*rng.uniform(8, 24, (2, 20)), rng.uniform(4, 8, 20), strict=True)):
        for worker in range(5):
            dy, dx, wider = rng.normal(0, 0.5 + worker / 2, 3)
            tasks.append(task)
            workers.append(worker)
            masks.append((rows - y - dy) ** 2 + (columns - x - dx) ** 2 < max(radius + wider, 1) ** 2)
    return mh.Masks.from_arrays(tasks, workers, masks)


def methods(kind: str) -> list[type[Any]]:
    """Return the aggregators of a kind, whatever this commit calls it."""
    listed = mh.categorical.all_aggregators if hasattr(mh, "categorical") else mh.all_aggregators
    for name in (kind, EARLIER.get(kind, kind)):
        try:
            return list(dict.fromkeys(listed(name)))
        except ValueError:
            continue
    return []


def digest(value: Any) -> str:
    """Hash a value by its bits; -0.0 is 0.0, and all NaN are one."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        value = np.where(np.isnan(value), np.nan, value + 0.0)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        content = str((value.dtype.kind, value.shape)).encode() + np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.ndarray | list | tuple):
        content = "|".join(digest(item) for item in value).encode()
    elif isinstance(value, int | float | str | bool | bytes | np.generic) or value is None:
        content = repr(value).encode()
    elif isinstance(value, dict):
        content = "|".join(f"{digest(key)}:{digest(item)}" for key, item in value.items()).encode()
    elif isinstance(value, set | frozenset):
        content = "|".join(sorted(map(digest, value))).encode()
    elif hasattr(value, "column_names"):
        return digest([value.column(name).to_pylist() for name in value.column_names])
    elif hasattr(value, "matrices"):
        return digest(value.matrices())
    else:
        return "other"
    return hashlib.sha256(content).hexdigest()[:16]


def attributes(model: Any) -> dict[str, str]:
    """Hash the public results of a fitted model."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_") and name not in LEFT_OUT]
    hashes = {}
    for name in names:
        try:
            hashes[name] = digest(getattr(model, name))
        except Exception as error:
            hashes[name] = type(error).__name__
    return hashes


def fit_hashes(cls: type[Any] | None, table: Any) -> dict[str, str]:
    """Fit and hash, or name the exception."""
    settings: dict[str, Any] = {"distance": "levenshtein"} if type(table) is mh.Objects else {}
    if cls is not None and cls.__name__ == "WeightedMean":
        settings["weights"] = {worker: 1 + len(str(worker)) for worker in table.workers.tolist()}
    try:
        return attributes(mh.aggregate(table) if cls is None else cls(**settings).fit(table))
    except Exception as error:
        return {"raised": f"{type(error).__name__}"}


def record(seconds: float, only: set[str], allowed: dict[str, list[str]] | None) -> dict[str, dict[str, Any]]:
    """Fit all methods to the first rows of all logs, quick ones to more, the default and few others to whole logs.

    ``allowed`` holds the methods that the other commit fitted to each log, so that both fit the same.
    """
    entries: dict[str, dict[str, Any]] = {}
    end = time.process_time() + seconds
    for most, suffix in ((SOME, ""), (LARGE, " large"), (MANY, " whole")):
        for name, kind, table in tables(most):
            if only and kind not in only:
                continue
            classes = methods(kind)
            if suffix == " whole":
                classes = [cls for cls in classes if cls.__name__ in ("MajorityVote", "DawidSkene", "Mean", "Median")]
            if allowed is not None:
                classes = [cls for cls in classes if cls.__name__ in allowed.get(name + suffix, [])]
            elif suffix == " large":
                quick = entries.get(name, {})
                classes = [cls for cls in classes if quick[cls.__name__]["seconds"] < QUICK]
            of_log = entries.setdefault(name + suffix, {})
            for cls in [None, *classes]:
                if time.process_time() > end:
                    return entries
                start = time.process_time()
                hashes: dict[str, Any] = fit_hashes(cls, table)
                of_log["default" if cls is None else cls.__name__] = hashes | {"seconds": time.process_time() - start}
    return entries


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print how many attributes agree, under which new names, and each that does not."""
    same = alone = 0
    renamed: dict[tuple[str, str], int] = {}
    differing: dict[tuple[str, str], list[str]] = {}
    raising: dict[tuple[str, str], list[str]] = {}
    for log in before:
        for method in before[log]:
            one, other = before[log][method], after.get(log, {}).get(method)
            if other is None:
                alone += 1
                continue
            for name, value in one.items():
                if name == "seconds":
                    continue
                if name == "raised" and other.get(name) == value:
                    raising.setdefault((method, value), []).append(log)
                elif other.get(name) == value:
                    same += 1
                elif again := [new for new in other if other[new] == value and len(value) == 16 and new not in one]:
                    renamed[name, again[0]] = renamed.get((name, again[0]), 0) + 1
                else:
                    differing.setdefault((method, name if name in other else f"{name} (missing after)"), []).append(log)
    print(f"{same:,} attributes have the same bits; {alone:,} fits were made with the first commit only")
    for (name, new), count in sorted(renamed.items()):
        print(f"{count:,} more as {new}, formerly {name}")
    for (method, name), logs in sorted(differing.items()):
        print(f"{method}.{name}: {len(logs)} logs: {', '.join(logs[:6])}")
    for (method, value), logs in sorted(raising.items()):
        print(f"{method} raises {value} before and after: {len(logs)} logs: {', '.join(logs[:3])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--fits-of", type=Path, help="result of the other commit: fit the same methods")
    args = parser.parse_args()
    allowed = args.fits_of and {log: list(fits) for log, fits in json.loads(args.fits_of.read_text()).items()}
    if args.compare:
        compare(*(json.loads(path.read_text()) for path in args.compare))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.monotonic()
        entries = record(args.seconds, set(filter(None, args.kinds.split(","))), allowed)
    args.out.write_text(json.dumps(entries, indent=1))
    print(f"{sum(map(len, entries.values()))} fits in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
