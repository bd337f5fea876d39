"""The kind of answers that a caller asks for, where the columns show another."""

from pathlib import Path

import pytest
from commands import complaint, run

import manyhands as mh
from manyhands.errors import MissingColumnError, ParameterError

LOG = "task,worker,label\na,1,3\na,2,4\nb,1,2\nb,2,2\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_labels_are_read_as_the_answers_of_the_kind_that_was_asked_for(path):
    frame = mh.read(path).to_frame()
    assert mh.read(path, kind="numeric").to_frame()["value"].to_pylist() == [3.0, 4.0, 2.0, 2.0]
    assert mh.read(path, kind="numeric", label="label").n_annotations == 4
    assert mh.read(path, kind="texts").to_frame()["text"].to_pylist() == ["3", "4", "2", "2"]
    assert mh.read(path, kind="multilabel").kind == "multilabel"
    assert mh.aggregate(frame, kind="numeric").values_.tolist() == mh.aggregate(path, kind="numeric").values_.tolist()
    assert mh.read(path).kind == "categorical"


def test_what_cannot_be_read_as_another_kind_says_which_column_lacks(path, capsys):
    with pytest.raises(MissingColumnError, match="left") as caught:
        mh.read(path, kind="pairwise")
    assert caught.value.parameter == "left"
    assert "--columns left=…" in complaint(capsys, f"describe {path} --kind pairwise")
    with pytest.raises(ParameterError, match="'numeric'") as wrong:
        mh.read(path, kind="numerik")
    assert wrong.value.parameter == "kind"


def test_commands_for_classes_read_values_as_classes(path, capsys):
    path.write_text(LOG.replace("label", "value"))
    assert "the log holds numeric answers" in complaint(capsys, f"audit {path}")
    run(f"audit {path} --kind categorical -q")
    run(f"compare {path} --kind categorical --methods majority -q")


def test_rows_are_the_required_columns_of_the_kind():
    rows = [("a", "x", "u"), ("a", "y", "u"), ("b", "x", "v")]
    assert (
        mh.aggregate(rows)
        .to_frame()
        .equals(mh.aggregate(mh.Annotations.from_arrays(*zip(*rows, strict=True))).to_frame())
    )
    rated = mh.aggregate([("a", "x", 1.0), ("a", "y", 3.0)], kind="numeric")
    assert rated.answers_.tolist() == [pytest.approx(2.0, abs=1e-6)]
    with pytest.raises(ValueError, match=r"row 1 .*\('a', 'y'\).*task, worker, label"):
        mh.aggregate([("a", "x", "u"), ("a", "y")])
    with pytest.raises(TypeError):
        mh.aggregate([1, 2])
