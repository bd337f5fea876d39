"""Known labels from files, matched with logs of other types."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import manyhands as mh
from manyhands._base.write import write_table
from manyhands.categorical.gold import read_gold
from manyhands.metrics import match_gold


def log_of(tasks, labels):
    return mh.Annotations.from_arrays(tasks, ["w"] * len(tasks), labels, classes=[*dict.fromkeys(labels)])


def truth_in(tmp_path, ending, tasks, labels, names=("task", "label")):
    path = tmp_path / f"truth.{ending}"
    write_table(pa.table([tasks, labels], names=list(names)), path)
    return path


FORMS = {
    "integers": ([3, 1, 2], [0, 1, 0]),
    "text": (["3", "1", "2"], ["0", "1", "0"]),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("theirs", FORMS)
@pytest.mark.parametrize("ours", FORMS)
def test_integers_and_text_meet(ours, theirs, ending, tmp_path):
    votes = log_of(*FORMS[ours])
    path = truth_in(tmp_path, ending, *FORMS[theirs])
    tasks, labels = read_gold(path, votes)
    assert (tasks.tolist(), labels.tolist()) == FORMS[ours]
    index, truth = match_gold(votes.tasks, (tasks, labels))
    assert index.tolist() == [0, 1, 2]
    assert truth.tolist() == [FORMS[ours][1][i] for i in (1, 2, 0)]


def test_ids_with_leading_zeros_are_others(tmp_path):
    votes = log_of([7, 8], ["x", "y"])
    (tmp_path / "truth.csv").write_text("task,label\n007,x\n8,y\n")
    tasks, _ = read_gold(tmp_path / "truth.csv", votes)
    assert tasks.tolist() == ["007", 8]
    with pytest.raises(ValueError, match="'007'"):
        match_gold(votes.tasks, (tasks, tasks))


@pytest.mark.parametrize(
    ("known", "written"),
    [
        ([True, False], ["True", "false"]),
        ([0.5, 2.0], ["0.50", "2"]),
        ([1.5, 2.5], ["1.5", "2.5"]),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_other_types_from_text(known, written, tmp_path):
    votes = log_of(["s", "t"], known)
    path = truth_in(tmp_path, "csv", ["s", "t"], written)
    assert read_gold(path, votes)[1].tolist() == known


def test_what_the_log_does_not_know_is_left_as_it_is(tmp_path):
    votes = log_of([1, 2], [0, 1])
    (tmp_path / "truth.csv").write_text("task,label\n1,0\nnew,1\n2,other\n")
    tasks, labels = read_gold(tmp_path / "truth.csv", votes)
    assert tasks.tolist() == [1, "new", 2]
    assert labels.tolist() == [0, 1, "other"]


def test_columns(tmp_path):
    votes = log_of(["s", "t"], ["x", "y"])

    def read(names, *columns, **settings):
        path = tmp_path / "truth.csv"
        write_table(pa.table(list(columns), names=list(names)), path)
        return read_gold(path, votes, **settings)[1].tolist()

    tasks, right, wrong = ["s", "t"], ["x", "y"], ["y", "x"]
    assert read(("item", "answer"), tasks, right) == right
    assert read(("task", "label", "truth"), tasks, wrong, right) == right
    assert read(("task", "label", "truth"), tasks, wrong, right, label="label") == wrong
    assert read(("thing", "said"), tasks, right, like=("thing", "said")) == right
    with pytest.raises(ValueError, match=r"truth\.csv"):
        read(("task", "said"), tasks, right)
    with pytest.raises(ValueError, match="columns"):
        read(("task", "label", "answer"), tasks, right, wrong)


def test_missing_values(tmp_path):
    votes = log_of(["s", "t"], ["x", "y"])
    path = truth_in(tmp_path, "parquet", ["s", "t", "u"], ["x", None, ""])
    tasks, labels = read_gold(path, votes)
    assert (tasks.tolist(), labels.tolist()) == (["s"], ["x"])
    path = truth_in(tmp_path, "parquet", ["s"], pa.array([None], pa.string()))
    with pytest.raises(ValueError, match="label"):
        read_gold(path, votes)
    path = truth_in(tmp_path, "parquet", ["s", None], ["x", "y"])
    with pytest.raises(ValueError, match="row 1"):
        read_gold(path, votes)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_gold(tmp_path / "absent.csv", votes)


def test_identical_repeats_and_blanks_are_taken(tmp_path):
    """As in an export of all answers, where some tasks have a known answer beside each of them."""
    votes = log_of(["s", "t", "u"], ["x", "y", "x"])
    (tmp_path / "truth.tsv").write_text("task\tGOLDEN:result\nt\ty\ns\t\nt\ty\nu\tx\n\t\nu\tx\n")
    tasks, labels = read_gold(tmp_path / "truth.tsv", votes, label="GOLDEN:result")
    assert (tasks.tolist(), labels.tolist()) == (["t", "u"], ["y", "x"])
    assert match_gold(votes.tasks, (tasks, labels))[0].tolist() == [1, 2]
    path = truth_in(tmp_path, "parquet", [7, 7, 3], ["x", "x", "y"])
    tasks, labels = read_gold(path, log_of([3, 7], ["x", "y"]))
    assert (tasks.tolist(), labels.tolist()) == ([7, 3], ["x", "y"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_repeats_that_contradict_each_other_are_refused(ending, tmp_path):
    votes = log_of(["s", "t"], ["x", "y"])
    path = truth_in(tmp_path, ending, ["s", "t", "s", "t"], ["x", "y", "x", "x"])
    with pytest.raises(ValueError, match=rf"truth\.{ending}.*task 't'.*'y'.*'x'"):
        read_gold(path, votes)


DAY = dt.date(2020, 1, 2)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["2020-01-02", "b"], [DAY, dt.date(2021, 1, 1)]),
        ([DAY, dt.date(2021, 1, 1)], ["2020-01-02", "2021-01-01"]),
        ([DAY, dt.date(2021, 1, 1)], [DAY, dt.date(2021, 1, 1)]),
    ],
)
def test_dates_and_their_text_meet(ours, theirs, tmp_path):
    votes = log_of(ours, ["x", "y"])
    path = truth_in(tmp_path, "parquet", theirs, ["x", "y"])
    tasks, _ = read_gold(path, votes)
    assert tasks.tolist()[0] == ours[0]
    assert match_gold(votes.tasks, read_gold(path, votes), unknown="ignore")[0].tolist()[
        0
    ] == votes.tasks.tolist().index(ours[0])


def test_integers_of_unlike_width_meet(tmp_path):
    votes = log_of([1, 2], ["x", "y"])
    path = truth_in(tmp_path, "parquet", pa.array([1, 2**63 + 5], pa.uint64()), ["x", "y"])
    tasks, labels = read_gold(path, votes)
    assert tasks.tolist() == [1, 2**63 + 5]
    assert match_gold(votes.tasks, (tasks, labels), unknown="ignore")[0].tolist() == [0]
    path = truth_in(tmp_path, "parquet", pa.array([2, 1], pa.uint64()), ["x", "y"])
    assert read_gold(path, votes)[0].dtype == np.int64


def test_a_name_that_is_known_is_not_taken_for_one_that_prints_alike(tmp_path):
    votes = log_of([1, "1", 2], ["x", "y", "x"])
    path = truth_in(tmp_path, "csv", ["1", "2"], ["y", "x"])
    assert read_gold(path, votes)[0].tolist() == ["1", 2]
    path = truth_in(tmp_path, "parquet", [1, 2], ["x", "x"])
    assert read_gold(path, votes)[0].tolist() == [1, 2]


def test_columns_are_found_in_capitals_too(tmp_path):
    votes = log_of(["s", "t"], ["x", "y"])
    path = truth_in(tmp_path, "csv", ["s", "t"], ["x", "y"], names=("Task ID", "Ground Truth"))
    assert read_gold(path, votes)[1].tolist() == ["x", "y"]


def test_a_label_without_a_task_is_named_by_its_row(tmp_path):
    votes = log_of(["s", "t"], ["x", "y"])
    path = truth_in(tmp_path, "parquet", ["s", "t", None], ["x", None, "y"])
    with pytest.raises(ValueError, match="row 2"):
        read_gold(path, votes)


@pytest.mark.parametrize("gold", [{}, ([], []), {"task": [], "label": []}], ids=["mapping", "pair", "frame"])
def test_empty_gold_is_named(gold):
    log = mh.Annotations.from_arrays(["a", "a", "b"], ["x", "y", "x"], ["p", "q", "p"])
    with pytest.raises(ValueError, match="gold is empty"):
        mh.aggregate(log, gold=pa.table(gold) if "task" in gold else gold)


def test_gold_as_columns_is_named():
    log = mh.Annotations.from_arrays(["a", "a", "b"], ["x", "y", "x"], ["p", "q", "p"])
    with pytest.raises(ValueError, match="dict of columns"):
        mh.aggregate(log, gold={"task": ["a", "b"], "label": ["p", "q"]})
