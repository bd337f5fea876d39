"""The table of numbers as users make it: from frames, arrays and files, with names, refusals and parts."""

import pickle

import numpy as np
import pytest

import manyhands as mh
from manyhands.cli import main
from manyhands.io.kinds import kind_by_columns

LOG = {"task": ["b", "a", "a", "b"], "worker": [1, 1, 2, 2], "value": [2.5, 1.0, -3.0, 0.0]}


def test_rows_are_sorted_and_named() -> None:
    ratings = mh.Ratings.from_frame(LOG)
    assert (ratings.kind, ratings.n_dims, len(ratings)) == ("numeric", 1, 4)
    assert ratings.to_frame().to_pydict() == {
        "task": ["a", "a", "b", "b"],
        "worker": [1, 2, 1, 2],
        "value": [1.0, -3.0, 2.5, 0.0],
    }
    assert mh.Ratings.from_arrays(*LOG.values()) == ratings
    assert ratings != mh.Ratings.from_arrays(LOG["task"], LOG["worker"], [0, 0, 0, 0])


def test_points_have_several_numbers() -> None:
    log = {"task": [1, 1], "worker": ["u", "v"], "x": [1, 2], "y": [3, 4]}
    points = mh.Ratings.from_frame(log, value=["x", "y"])
    assert points.dimensions.tolist() == ["x", "y"]
    assert points.values.tolist() == [[1, 3], [2, 4]]
    assert points.to_frame().to_pydict() == log
    assert mh.Ratings.from_arrays(log["task"], log["worker"], [[1, 3], [2, 4]]) == points


def test_files_hold_the_same_table(tmp_path) -> None:
    ratings = mh.Ratings.from_frame(LOG | {"weight": [1, 2, 3, 4]}, weight="weight")
    for ending in ("csv", "parquet"):
        path = tmp_path / f"log.{ending}"
        frame = ratings.to_frame().to_pandas()
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
        assert mh.read(path, kind="numeric", weight="weight") == ratings
        assert mh.read(path, kind="numeric", value=["value"], weight="weight", repeats="first") == ratings
    ratings.save(tmp_path / "ratings.mh")
    for again in (mh.load(tmp_path / "ratings.mh"), pickle.loads(pickle.dumps(ratings)), ratings.select()):
        assert again == ratings
        assert isinstance(again, mh.Ratings)


def test_parts() -> None:
    ratings = mh.Ratings.from_frame(LOG)
    part = ratings.without([1])
    assert part.to_frame().to_pydict() == {"task": ["a", "b"], "worker": [2, 2], "value": [-3.0, 0.0]}
    assert ratings.select(tasks=["b"]).values.tolist() == [2.5, 0.0]


def test_rows_without_a_value_are_set_aside() -> None:
    with pytest.warns(mh.errors.DataWarning, match="2 rows.*1 task"):
        ratings = mh.Ratings.from_arrays(["a", "a", "b"], ["x", "y", "x"], [1.0, None, float("nan")])
    assert (len(ratings), ratings.unlabelled.tolist()) == (1, ["b"])
    with pytest.raises(ValueError, match=r"1.*2 rows.*row 1"):
        mh.Ratings.from_arrays([1, 1], [1, 2], [0.5, None], missing="error")


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([1.0, float("inf"), 2.0], ValueError, "values.*inf.*row 1"),
        (["1", "2", "x"], TypeError, "values"),
        ([1.0, 2.0], ValueError, "3 tasks.*3 workers.*2 values"),
        ([None, None, None], ValueError, "there is nothing to aggregate"),
    ],
)
def test_bad_values_are_named(values: list, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        mh.Ratings.from_arrays([1, 1, 2], ["x", "y", "x"], values)


def test_repeats() -> None:
    log = {"task": [1, 1, 1], "worker": ["x", "x", "y"], "value": [3, 4, 5]}
    assert mh.Ratings.from_frame(log, repeats="first").values.tolist() == [3, 5]
    assert mh.Ratings.from_frame(log, repeats="last").values.tolist() == [4, 5]
    with pytest.raises(ValueError, match=r"worker 'x'.*task 1"):
        mh.Ratings.from_frame(log, repeats="error")


def test_other_kinds_take_their_own_columns_only(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("task,worker,value\n1,a,0.5\n")
    with pytest.raises(TypeError, match="classes=…"):
        mh.read(path, kind="numeric", classes=[1, 2])
    with pytest.raises(TypeError, match=r"value=….*kind='numeric'"):
        mh.read(path, kind="categorical", value="value")
    assert mh.read(path, value="value").kind == mh.read(path).kind == "numeric"
    with pytest.raises(ValueError, match="kind"):
        mh.read(path, kind="letters")


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["task", "worker", "label"], "categorical"),
        (["task", "worker", "value"], "numeric"),
        (["item", "rater", "Score"], "numeric"),
        (["task", "worker", "rating"], "categorical"),
        (["task", "worker", "label", "value"], "categorical"),
        (["doc", "start", "end", "worker", "tag"], "sequences"),
        # When somebody began and was done.
        (["task", "sentence", "worker", "label", "start", "end"], "categorical"),
        (["image", "worker", "x", "y", "w", "h"], "boxes"),
    ],
)
def test_columns_tell_the_kind(columns: list[str], kind: str) -> None:
    assert kind_by_columns(columns) == kind


def test_aggregate_says_what_it_cannot_do() -> None:
    votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]])
    with pytest.raises(ValueError, match=r"categorical.*numeric"):
        mh.aggregate(votes, kind="numeric")
    assert np.array_equal(mh.aggregate(votes).labels_, mh.Consensus().fit(votes).labels_)


def test_ratings_are_described(tmp_path, capsys) -> None:
    ratings = mh.Ratings.from_frame(LOG)
    found = ratings.describe()
    assert (found.n_tasks, found.values["value"].mean, found.values["value"].max) == (2, 0.125, 2.5)
    path = tmp_path / "log.csv"
    path.write_text("task,worker,value\n1,a,0.5\n1,b,1.5\n")
    assert main(["describe", str(path)]) == 0
    assert "mean 1, median 1" in capsys.readouterr().out
