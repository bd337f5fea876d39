"""Tables of comparisons and rankings: what they take, refuse, hold, and give back."""

import pickle

import numpy as np
import pytest

import manyhands as mh
from manyhands.io.kinds import kind_by_columns

LOG = {
    "left": ["a", "b", "a", "c"],
    "right": ["b", "c", "c", "a"],
    "winner": ["a", "tie", "c", "a"],
    "worker": ["x", "y", "x", "y"],
    "lang": ["en", "en", "de", "de"],
    "times": [1.0, 2.0, 1.0, 3.0],
}


def games(**more):
    return mh.Comparisons.from_frame(LOG, **more)


def test_a_log_and_what_it_holds():
    table = games(context="lang", weight="times")
    assert repr(table) == "<Comparisons: 4 comparisons of 3 items by 2 workers, 1 tie, 2 contexts, weighted>"
    assert table.to_frame().to_pydict() == {
        "left": ["a", "a", "b", "c"],
        "right": ["b", "c", "c", "a"],
        "winner": ["a", "c", "tie", "a"],
        "worker": ["x", "x", "y", "y"],
        "context": ["en", "de", "en", "de"],
        "weight": [1.0, 1.0, 2.0, 3.0],
    }
    assert table.table.item_counts().tolist() == [[5.0, 4.0, 0.0], [3.0, 0.0, 2.0], [6.0, 1.0, 2.0]]
    assert table.labels_per_worker.tolist() == [2, 2]
    told = table.describe()
    assert (told.n_components, told.ties, told.fewest_per_item) == (1, 0.25, 2)
    assert told.to_dict()["n_contexts"] == 2
    assert "in 1 group of items" in str(told)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_every_frame_is_the_same_table(library):
    module = pytest.importorskip(library)
    frame = module.table(LOG) if library == "pyarrow" else module.DataFrame(LOG)
    assert mh.Comparisons.from_frame(frame, context="lang", weight="times") == games(context="lang", weight="times")


def test_words_of_arenas():
    log = {
        "model_a": ["x", "y", "x", "y", "x"],
        "model_b": ["y", "z", "z", "x", "y"],
        "winner": ["model_a", "model_b", "tie", "tie (bothbad)", "right"],
        "judge": ["j"] * 5,
    }
    _, _, outcomes, _, _ = mh.Comparisons.from_frame(log).codes()
    assert sorted(outcomes.tolist()) == [0, 1, 1, 2, 2]
    # An item of that name is meant where there is one.
    table = mh.Comparisons.from_arrays(["left", "right"], ["right", "left"], ["right", "right"])
    assert sorted(table.codes()[2].tolist()) == [0, 1]
    with pytest.raises(ValueError, match="winner"):
        mh.Comparisons.from_arrays(["left", "a"], ["right", "b"], ["right", "right"])


def test_numbers_as_names():
    table = mh.Comparisons.from_arrays([1, 2], [2, 3], [1, "tie"])
    assert table.items.tolist() == [1, 2, 3]
    assert table.to_frame().column("winner").to_pylist() == [1, None]


def test_names_on_one_side_only_are_fine():
    table = mh.Comparisons.from_arrays(["a", "a"], ["b", "c"], ["a", "c"])
    assert table.items.tolist() == ["a", "b", "c"]


def test_files(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("left,right,label,worker\n1,2,2,x\n2,3,tie,y\n3,1,1,x\n")
    table = mh.read(path, kind="pairwise")
    assert table.items.tolist() == [1, 2, 3]
    assert table.workers.tolist() == ["x", "y"]
    path.write_text("left,right,winner\n1,b,b\n1,c,1\n")
    mixed = mh.read(path, kind="pairwise")
    assert mixed.items.tolist() == ["1", "b", "c"]
    assert (mixed.n_workers, mixed.workers.tolist()) == (1, ["everybody"])
    table.save(tmp_path / "games.mh")
    assert mh.load(tmp_path / "games.mh", mh.Comparisons) == table
    full = games(context="lang", weight="times")
    full.save(tmp_path / "full.mh")
    assert mh.load(tmp_path / "full.mh") == full
    assert pickle.loads(pickle.dumps(full)) == full


def test_the_command_line_ranks(tmp_path, capsys):
    from manyhands.cli import main

    path, out = tmp_path / "log.csv", tmp_path / "ranks.csv"
    path.write_text("left,right,winner,worker\n" + "a,b,a,x\nb,c,b,y\na,c,a,x\nc,b,tie,y\n" * 3)
    assert main(["aggregate", str(path), "-o", str(out)]) in (0, None)
    assert out.read_text().splitlines()[0].startswith('"item","score","confidence","rank"')
    assert main(["describe", str(path)]) in (0, None)
    assert "comparisons" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"left": ["b", "b", "a", "c"]}, "item 'b'.*1.*4 rows.*row 0"),
        ({"winner": ["c", "tie", "c", "a"]}, "'c'.*row 0.*'a'.*'b'"),
        ({"winner": ["nobody", "tie", "c", "a"]}, "'nobody'"),
        ({"right": ["b", None, "c", "a"]}, "column 'right'.*row 1"),
        ({"worker": ["x", "", "x", "y"]}, "column 'worker'"),
        ({"winner": [None] * 4}, "nothing to aggregate"),
    ],
)
def test_what_cannot_be_is_named(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        mh.Comparisons.from_frame(LOG | change)


def test_missing_winners_are_set_aside():
    log = LOG | {"winner": ["a", None, "c", "a"]}
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert len(mh.Comparisons.from_frame(log)) == 3
    with pytest.raises(ValueError, match="missing='drop'"):
        mh.Comparisons.from_frame(log, missing="error")
    with pytest.raises(ValueError, match="length"):
        mh.Comparisons.from_arrays(["a"], ["b"], ["a"], weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        mh.Comparisons.from_arrays(["a"], ["b"], ["a"], weights=[np.nan])


def test_parts():
    table = games(context="lang", weight="times")
    part = table.select(items=["a", "c"])
    assert part.items.tolist() == ["a", "c"]
    assert part.contexts.tolist() == ["de"]
    assert part.weights.tolist() == [1.0, 3.0]
    assert table.select(workers=["y"], contexts=["de"]).to_frame().to_pydict()["winner"] == ["a"]
    assert table.without(["x"]).workers.tolist() == ["y"]
    with pytest.raises(ValueError, match="comparison"):
        table.select(items=["a"])
    with pytest.raises(ValueError, match="contexts"):
        games().select(contexts=["en"])


def test_kinds_are_told_by_columns():
    assert kind_by_columns(["left", "right", "label", "worker"]) == "pairwise"
    assert kind_by_columns(["model_a", "model_b", "winner"]) == "pairwise"
    assert kind_by_columns(["task", "worker", "item", "rank"]) == "rankings"
    assert kind_by_columns(["task", "worker", "label"]) == "categorical"
    assert isinstance(mh.aggregate(LOG), mh.pairwise.WorkerBradleyTerry)


# ---------------------------------------------------------------------------------------------------- rankings


def test_rankings_by_rows_and_by_lists(tmp_path):
    log = {
        "task": [1, 1, 1, 2, 2, 1],
        "worker": ["x", "x", "x", "x", "x", "y"],
        "item": ["a", "b", "c", "a", "c", "b"],
        "rank": [2, 1, 3, 1, 2, 1],
    }
    table = mh.Rankings.from_frame(log)
    assert table == mh.Rankings.from_lists([["b", "a", "c"], ["a", "c"], ["b"]], ["x", "x", "y"])
    assert repr(table) == "<Rankings: 3 rankings of 3 items by 2 workers>"
    assert table.lists() == [["a", "c"], ["b", "a", "c"], ["b"]]
    assert mh.Rankings.from_frame(table.to_frame()) == table
    assert table.describe().longest == 3
    assert table.select(workers=["y"]).items.tolist() == ["b"]
    assert table.labels_per_worker.tolist() == [2, 1]
    pairs = table.to_comparisons()
    assert (len(pairs), pairs.n_items) == (4, 3)
    table.save(tmp_path / "ranks.mh")
    assert mh.load(tmp_path / "ranks.mh") == table
    assert pickle.loads(pickle.dumps(table)) == table
    model = mh.pairwise.PlackettLuce().fit(table)
    model.save(tmp_path / "model.mh")
    assert (mh.load(tmp_path / "model.mh").scores_ == model.scores_).all()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rank": [1, 1, 2]}, "rankings"),
        ({"item": ["a", "a", "b"]}, "item 'a'"),
        ({"rank": [1, np.nan, 2]}, "column 'rank'.*row 1"),
        ({"item": ["a", None, "b"]}, "column 'item'"),
    ],
)
def test_what_cannot_be_a_ranking_is_named(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        mh.Rankings.from_frame({"task": [1, 1, 1], "item": ["a", "b", "c"], "rank": [1, 2, 3]} | change)


def test_lists_that_cannot_be_rankings():
    for lists, complaint in [([], "rankings"), ([["a"], []], "ranking 1"), ([["a", "a"]], "twice")]:
        with pytest.raises(ValueError, match=complaint):
            mh.Rankings.from_lists(lists)
    with pytest.raises(ValueError, match="weights"):
        mh.Rankings.from_frame({"task": [1, 1], "item": ["a", "b"], "rank": [1, 2], "w": [1, 2]}, weight="w")


def test_a_left_bias_that_was_not_learnt_is_not_reported(tmp_path, capsys):
    from manyhands._base.write import write_table
    from manyhands.cli import main

    crowd = mh.simulate(6, 4, 200, left_bias=1.0, seed=1, kind="pairwise")
    for model in (mh.pairwise.WorkerBradleyTerry(), mh.pairwise.BradleyTerry()):
        assert "left_bias" not in model.fit(crowd.log).workers_frame().column_names
    learnt = mh.pairwise.WorkerBradleyTerry(left_bias="worker").fit(crowd.log).workers_frame()
    assert min(learnt["left_bias"].to_pylist()) > 0.3
    write_table(crowd.log.to_frame(), tmp_path / "log.csv")
    command = ["workers", str(tmp_path / "log.csv"), "--kind", "pairwise", "-q", "--format", "csv"]
    assert main(command) == 0
    assert "left_bias" not in capsys.readouterr().out
    for whose in ("worker", "True"):
        assert main([*command, "--set", f"left_bias={whose}"]) == 0
        assert '"left_bias","left_bias_error"' in capsys.readouterr().out
    assert main([*command[:2], "--kind", "pairwise", "--method", "rank-centrality", "--set", "left_bias=worker"]) == 2
    assert "rank-centrality has no parameter 'left_bias'" in capsys.readouterr().err


def test_intervals_that_were_not_asked_for_are_unbounded():
    crowd = mh.simulate(6, 4, 200, seed=1, kind="pairwise")
    model = mh.pairwise.BradleyTerry(intervals="none").fit(crowd.log)
    assert (model.intervals_ == [-np.inf, np.inf]).all()
    assert (model.rank_intervals_ == [1, 6]).all()
    assert "(-inf, inf)" in type(model).intervals_.__doc__
