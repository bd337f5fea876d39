"""The default of every kind on the logs of its kind that lie beside the repository: it runs, and answers are finite."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manyhands as mh

DATA = Path(__file__).parents[3] / "shared" / "data"
pd = pytest.importorskip("pandas")
#: Rows of the log that are taken: the first, as they come.
MOST = 4000
GAMES = {"left": "left", "right": "right", "winner": "label", "worker": "worker"}
#: Log, kind, and its columns by role.
LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"affect_{name}": ("numeric", {}) for name in ("anger", "fear", "joy", "valence")},
    "movie_reviews": ("numeric", {}),
    "politeness_wiki": ("numeric", {}),
    "web": ("ordered", {}),
    "metaphor_novelty": ("ordered", {}),
    "s_rel": ("ordered", {}),
    "adult3": ("ordered", {"classes": ["G", "P", "R", "X", "B"]}),
    "uds_duration": ("ordered", {"classes": "classes.txt"}),
    "age_pairs": ("pairwise", GAMES),
    "convarg": ("pairwise", GAMES),
    "wmt15_ranking": ("pairwise", GAMES),
    "music_sim_pairs": ("pairwise", GAMES | {"context": "task"}),
    "medical_re": ("multilabel", {"labels": "label"}),
    "uds_wordsense": ("multilabel", {"labels": "label"}),
    "mturk_dots": ("rankings", {}),
}


def table(name: str) -> Any:
    kind, columns = LOGS[name]
    folder = DATA / name
    if not folder.exists():
        pytest.skip(f"no ../shared/data/{name} beside the checkout")
    if kind == "rankings":
        log = pd.read_csv(folder / "rankings.csv")
        log = log[log.instance == log.instance[0]]
        return mh.Rankings.from_lists(log.order.str.split(">"), weights=log["count"])
    path: Path = next(path for path in sorted(folder.iterdir()) if path.name.startswith("labels."))
    if kind == "multilabel":
        answers = mh.read(path, kind="multilabel", **columns)
        return answers.select(tasks=np.arange(answers.n_tasks) < MOST // 8)
    log = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, nrows=MOST, dtype=str)
    log = log.head(MOST)
    if kind == "numeric":
        return mh.Ratings.from_frame(log.astype({"value": float}))
    if kind == "ordered":
        classes = columns.get("classes", sorted(set(log.label)))
        if classes == "classes.txt":
            classes = (folder / classes).read_text().split()[1::2]
        return mh.Annotations.from_frame(log, classes=classes, ordered=True)
    return mh.Comparisons.from_frame(log, **columns)


@pytest.mark.parametrize("name", LOGS)
def test_the_default_runs(name: str) -> None:
    answers = table(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(answers)
    found = model.to_frame()
    assert found.num_rows == (answers.n_items if hasattr(answers, "n_items") else answers.n_tasks)
    for frame in (found, model.workers_frame(), model.tasks_frame()):
        for name_of_column, column in zip(frame.column_names, frame.columns, strict=True):
            # NaN where a method has no estimate.
            if str(column.type) == "double" and name_of_column not in ("confidence", "skill", "skill_error"):
                assert np.isfinite(column.drop_null().to_numpy()).all()
    if hasattr(answers, "labels_per_task"):
        assert model.tasks_frame().column("n_answers").to_pylist() == answers.labels_per_task.tolist()


def test_sameness_of_melodies() -> None:
    """Ties of the comparisons are what says "as near": a weak reading, but one that runs."""
    folder = DATA / "music_sim_pairs"
    if not folder.exists():
        pytest.skip("no ../shared/data/music_sim_pairs beside the checkout")
    log = pd.read_csv(folder / "labels.csv", dtype=str)
    log["same"] = ~((log.label == log.left) | (log.label == log.right))
    log["left"], log["right"] = log.task + " / " + log.left, log.task + " / " + log.right
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(mh.Similarities.from_frame(log[["left", "right", "worker", "same"]]))
    assert np.isfinite(model.to_frame().column("confidence").to_numpy()).all()
