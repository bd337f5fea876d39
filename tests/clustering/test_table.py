"""The table of same or different: what it takes, what it refuses, parts and files."""

import pickle

import numpy as np
import pandas as pd
import pytest

import manyhands as mh
from manyhands._base import data_checks as checks
from manyhands.cli import main

LOG = {
    "left": ["a", "b", "c", "a"],
    "right": ["b", "a", "a", "d"],
    "worker": ["u", "v", "u", "u"],
    "same": [True, True, False, True],
}


def test_pairs_have_no_order():
    table = mh.Similarities.from_frame(LOG)
    assert (len(table), table.n_pairs, table.n_items, table.n_workers) == (4, 3, 4, 2)
    turned = mh.Similarities.from_frame(LOG | {"left": LOG["right"], "right": LOG["left"]})
    assert table == turned
    shuffled = {name: [column[i] for i in (2, 0, 3, 1)] for name, column in LOG.items()}
    assert table == mh.Similarities.from_frame(shuffled)
    assert table.labels_per_pair.tolist() == [2, 1, 1]
    assert table != mh.Similarities.from_frame(LOG | {"same": [True, True, True, True]})
    assert table != "something else"


@pytest.mark.parametrize(
    "words",
    [
        [1, 1, 0, 1],
        [1.0, 1.0, 0.0, 1.0],
        ["same", "Same ", "DIFFERENT", "same"],
        ["yes", "y", "no", "true"],
        np.array([True, True, False, True]),
        pd.Series(["match", "match", "mismatch", "match"], dtype="category"),
        ["1", "1", "0", "1"],
    ],
    ids=str,
)
def test_answers_may_be_words(words):
    assert mh.Similarities.from_frame(LOG | {"same": words}) == mh.Similarities.from_frame(LOG)


def test_columns_may_be_named():
    frame = pd.DataFrame(LOG).rename(columns={"left": "x", "right": "y", "worker": "who", "same": "verdict"})
    table = mh.Similarities.from_frame(frame, left="x", right="y", worker="who", same="verdict")
    assert table == mh.Similarities.from_frame(LOG)
    assert mh.Similarities.from_arrays(*LOG.values()) == table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"same": [True, True, "maybe", True]}, "'maybe'.*row 2"),
        ({"same": [0, 1, 2, 1]}, "2.*row 2"),
        ({"right": ["b", "a", "a", "a"]}, "item 'a'.*row 3"),
        ({"left": ["a", None, "c", "a"]}, "left column 'left' is missing .* row 1"),
        ({"worker": ["u", "v"]}, "length"),
        ({name: [] for name in LOG}, "no annotations"),
    ],
    ids=["word", "number", "itself", "missing", "lengths", "empty"],
)
def test_what_cannot_be_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        mh.Similarities.from_frame(LOG | change)


def test_missing_answers_are_set_aside():
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        table = mh.Similarities.from_frame(LOG | {"same": ["yes", None, "no", "yes"]})
    assert (len(table), table.n_workers) == (3, 1)
    with pytest.raises(ValueError, match="missing='drop'"):
        mh.Similarities.from_frame(LOG | {"same": ["yes", None, "no", "yes"]}, missing="error")


def test_repeats():
    log = {"left": ["a", "b"], "right": ["b", "a"], "worker": ["u", "u"], "same": [True, False]}
    assert len(mh.Similarities.from_frame(log)) == 2
    assert mh.Similarities.from_frame(log, repeats="first").to_frame()["same"].to_pylist() == [True]
    assert mh.Similarities.from_frame(log, repeats="last").to_frame()["same"].to_pylist() == [False]
    with pytest.raises(ValueError, match=r"worker 'u'.*'a'.*'b'"):
        mh.Similarities.from_frame(log, repeats="error")


def test_description():
    found = mh.Similarities.from_frame(LOG).describe()
    assert (found.n_pairs, found.asked, found.same, found.agreement, found.n_components) == (3, 0.5, 0.75, 1.0, 1)
    assert "3, 50.00% of all" in str(found)
    alone = mh.Similarities.from_arrays(["a"], ["b"], ["u"], [True]).describe()
    assert alone.to_dict()["agreement"] is None
    assert "no pair has two answers" in str(alone)


def test_commands_take_such_logs(tmp_path, capsys):
    pd.DataFrame(LOG).to_csv(tmp_path / "log.csv", index=False)
    for command, shown in (("describe", "50.00% of all"), ("aggregate", "confidence"), ("workers", "recall")):
        assert main([command, str(tmp_path / "log.csv")]) in (0, None)
        assert shown in capsys.readouterr().out


def test_parts():
    table = mh.Similarities.from_frame(LOG)
    part = table.select(items=["a", "b"])
    assert (part.items.tolist(), part.n_pairs, len(part)) == (["a", "b"], 1, 2)
    part = table.without(["u"])
    assert (part.items.tolist(), part.workers.tolist()) == (["a", "b"], ["v"])
    with pytest.raises(ValueError, match="annotation"):
        table.select(items=["b", "c"])
    with pytest.raises(KeyError, match="'z'"):
        table.select(items=["z"])


def test_files_and_pickles(tmp_path):
    table = mh.Similarities.from_arrays(*LOG.values(), weights=[1.0, 2.0, 0.5, 1.0])
    table.save(tmp_path / "pairs.mh")
    assert mh.load(tmp_path / "pairs.mh", mh.Similarities) == table
    assert pickle.loads(pickle.dumps(table)) == table
    assert repr(table) == "<Similarities: 4 answers on 3 pairs of 4 items by 2 workers, weighted>"
    assert repr(mh.Similarities.from_frame(LOG)) == "<Similarities: 4 answers on 3 pairs of 4 items by 2 workers>"
    pd.DataFrame(LOG).to_csv(tmp_path / "log.csv", index=False)
    assert mh.read(tmp_path / "log.csv", kind="clustering") == mh.Similarities.from_frame(LOG)


def test_a_file_with_odd_pairs_is_refused(tmp_path):
    table = mh.Similarities.from_frame(LOG)
    table._left = table._right
    with pytest.raises(ValueError, match="pair"):
        table.save(tmp_path / "pairs.mh")


def test_a_file_with_a_third_answer_is_rejected(tmp_path):
    table = mh.Similarities.from_frame(LOG)
    pairs, workers, same = table.codes()
    table._table = checks.made_table(pairs, workers, same * 2, None, table.n_pairs, table.n_workers, 3)
    with pytest.raises(ValueError, match=r"2.*row 0"):
        table.save(tmp_path / "pairs.mh")
