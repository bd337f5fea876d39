"""What a log leaves open is said, whatever the method."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands.testing.crowds import STANDARD, of_rows

METHODS = [
    mh.MajorityVote(),
    mh.DawidSkene(),
    mh.categorical.HierarchicalDawidSkene(),
    mh.categorical.MACE(),
    mh.Consensus(),
]
on_methods = pytest.mark.parametrize("model", METHODS, ids=lambda model: type(model).__name__)


def grid(tasks: range, workers: range) -> list[tuple[int, int, int]]:
    """Everybody labels everything, and mostly the same."""
    return [(i, m, (i + (i * m % 5 == 4)) % 2) for i in tasks for m in workers]


def remarks(model: mh.Consensus, rows: list[tuple[int, int, int]]) -> tuple[str, ...]:
    """What is remarked on without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(of_rows(np.array(rows)).votes()).remarks_


@on_methods
def test_one_label_a_task_is_warned_of(model) -> None:
    votes = of_rows(np.array([(i, i % 4, i % 2) for i in range(20)])).votes()
    with pytest.warns(mh.errors.OverlapWarning, match="labels"):
        model.fit(votes)
    assert any("cannot be compared" in remark for remark in model.remarks_)


def test_a_worker_who_repeats_himself_overlaps_with_nobody() -> None:
    votes = of_rows(np.array([(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 0)])).votes()
    with pytest.warns(mh.errors.OverlapWarning, match="labels"):
        mh.MajorityVote().fit(votes)


@on_methods
def test_groups_that_share_no_task_are_warned_of(model) -> None:
    votes = of_rows(np.array(grid(range(10), range(4)) + grid(range(10, 18), range(4, 8)))).votes()
    with pytest.warns(mh.errors.OverlapWarning, match=r"2 groups.*56"):
        model.fit(votes)
    assert any("2 groups" in remark for remark in model.remarks_)


@on_methods
def test_a_few_labels_apart_are_only_remarked_on(model) -> None:
    (remark,) = remarks(model, [*grid(range(30), range(4)), (30, 4, 0)])
    assert remark.startswith("The workers fall into 2 groups")


@on_methods
def test_many_repeats_are_warned_of(model) -> None:
    votes = STANDARD.repeated().votes()
    with pytest.warns(mh.errors.OverlapWarning, match=r"67 times.*267 annotations"):
        model.fit(votes)
    assert any("counts as if another worker had given it" in remark for remark in model.remarks_)
    rid = mh.Annotations.from_frame(STANDARD.repeated().columns(), repeats="first")
    assert model.fit(rid).remarks_ == ()


@on_methods
def test_a_few_repeats_are_only_remarked_on(model) -> None:
    (remark,) = remarks(model, [*grid(range(10), range(4)), (0, 0, 0)])
    assert remark.startswith("Workers answered a task again once in 41 annotations")


@on_methods
def test_ordinary_logs_are_not_remarked_on(model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(STANDARD.votes()).remarks_ == ()


def test_remarks_on_the_log_are_saved(tmp_path: Path) -> None:
    model = mh.MajorityVote().fit(of_rows(np.array([*grid(range(10), range(4)), (0, 0, 0)])).votes())
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh").remarks_ == model.remarks_ != ()


def test_groups_are_counted_by_their_labels() -> None:
    rows = np.array([*grid(range(3), range(2)), (3, 2, 0), (4, 3, 0), (4, 4, 0)])
    assert sorted(of_rows(rows).votes().table.group_counts().tolist()) == [1, 2, 6]
    assert STANDARD.votes().table.group_counts().tolist() == [200]
