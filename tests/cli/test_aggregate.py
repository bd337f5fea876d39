"""The command line: the program, and what `aggregate` prints and writes."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from commands import complaint, rows, run, subprocess_of, words, write_rows

import manyhands as mh
from manyhands._base.verdict import Doubts
from manyhands._base.write import write_table
from manyhands.cli import COMMANDS, _parser, main

COMMAND_NAMES = [command.__name__.rpartition(".")[2].rstrip("_") for command in COMMANDS]


METHOD_NAMES = ["consensus", "hierarchical", "hierarchical-mace", "bayesian", "bayesian-one-coin"]


METHOD_NAMES += ["dawid-skene", "per-class", "one-coin", "majority", "agreement", "zero-based", "multispa", "mmsr"]


# ------------------------------------------------------------------------------------------------ the program


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    shown = text.partition("\nexample")[2]
    n_shown = shown.count(f"  manyhands {command} ")
    assert n_shown > 0
    assert shown.startswith("s:" if n_shown > 1 else ":")
    assert "--json" in text
    for line in shown.splitlines():
        if line.startswith("  manyhands "):
            arguments = shlex.split(re.split(" [|>] ", line)[0])[1:]
            assert callable(_parser().parse_args(arguments).run), line


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"manyhands {mh.__version__}\n"


def test_module_runs_and_starts_light():
    code = (
        "import sys, manyhands.cli as c\n"
        "try: c.main(['aggregate', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyarrow', 'rich', 'pandas', 'polars', 'scipy'} & set(sys.modules)\n"
        "print(*heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    process = subprocess_of("--version")
    assert process.communicate()[0] == f"manyhands {mh.__version__}\n"


# -------------------------------------------------------------------------------------------------- aggregate


def test_aggregate_writes_what_the_library_finds(log, capsys):
    run("aggregate log.csv -o labels.csv --workers workers.parquet")
    model = mh.Consensus().fit(mh.read("log.csv"))
    found = rows("labels.csv")
    assert [row["task"] for row in found] == model.tasks_.tolist()
    assert [row["label"] for row in found] == model.labels_.tolist()
    np.testing.assert_equal(pq.read_table("workers.parquet").to_pydict(), model.workers_frame().to_pydict())
    out, err = capsys.readouterr()
    assert "300 tasks" in out
    assert "labels.csv, workers.parquet" in out
    assert "reading" in out
    assert err == ""


def test_formats_and_pipes_hold_the_same_labels(log, capfdbinary):
    run("aggregate log.parquet -o labels.parquet -q")
    run("aggregate log.csv -o labels.csv -q")
    assert capfdbinary.readouterr() == (b"", b"")
    run("aggregate log.csv")
    out, err = capfdbinary.readouterr()
    assert out == (log / "labels.csv").read_bytes()
    assert b"1,500 annotations" in err
    run("aggregate log.csv -o - --quiet")
    assert capfdbinary.readouterr() == (out, b"")
    labels = pq.read_table("labels.parquet").column("label").to_pylist()
    assert labels == [row["label"] for row in rows("labels.csv")]


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_methods_are_those_of_the_library(method, log):
    run("aggregate", "log.csv", "--method", method, "-o", "labels.csv", "-q")
    model = {
        "consensus": mh.Consensus(),
        "hierarchical": mh.categorical.HierarchicalDawidSkene(),
        "hierarchical-mace": mh.categorical.HierarchicalMACE(),
        "bayesian": mh.BayesianDawidSkene(),
        "bayesian-one-coin": mh.BayesianDawidSkene(model="one-coin"),
        "dawid-skene": mh.DawidSkene(),
        "per-class": mh.DawidSkene(model="class"),
        "one-coin": mh.DawidSkene(model="one-coin"),
        "majority": mh.MajorityVote(),
        "agreement": mh.categorical.WeightedVote("agreement"),
        "multispa": mh.moments.MultiSPA(),
        "mmsr": mh.moments.MMSR(),
        "zero-based": mh.categorical.WeightedVote("zero-based"),
    }[method].fit(mh.read("log.csv"))
    confidence = [float(row["confidence"]) for row in rows("labels.csv")]
    np.testing.assert_allclose(confidence, model.posterior_.max(axis=1), rtol=1e-12)


def test_options_reach_the_fit(log):
    em = "aggregate log.csv --method dawid-skene -q"
    run(em, "--save m.mh --set max_iter=7 --set tol=0 --set seed=5 --set restarts=1 --set accelerate=True -o l.csv")
    given = mh.load("m.mh").get_params()
    wanted = {"max_iter": 7, "tol": 0, "seed": 5, "restarts": 1, "accelerate": True}
    assert wanted.items() <= given.items()
    run(em, "--save m.mh --set assignment=hard --set pseudo_count=0 -o l.csv")
    assert {"assignment": "hard", "pseudo_count": 0}.items() <= mh.load("m.mh").get_params().items()
    run("aggregate log.csv -q --save m.mh --method zero-based --set n_iter=3 --set tol=0.5 -o l.csv")
    assert {"n_iter": 3, "tol": 0.5}.items() <= mh.load("m.mh").get_params().items()
    run("aggregate log.csv -q --method majority --set ties=abstain -o l.csv")
    abstained = {row["task"] for row in rows("l.csv") if row["label"] == ""}
    model = mh.MajorityVote().fit(mh.read("log.csv"))
    assert abstained == set(model.tasks_[model.tied_])
    assert abstained


def test_threads(log):
    before = mh.get_num_threads()
    try:
        run("aggregate log.csv -o l.csv -q --threads 1")
        assert mh.get_num_threads() == 1
    finally:
        mh.set_num_threads(before)


def test_columns_weights_repeats(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    lines = [("1", "a", "x", 1), ("1", "b", "y", 5), ("1", "b", "x", 1), ("2", "a", "y", 1)]
    write_rows("log.csv", ("thing", "who", "said", "sure"), *lines)
    columns = "aggregate log.csv --task thing --worker who --label said -q --method majority"
    run(columns)
    assert capfd.readouterr().out.splitlines()[1].startswith('1,"x"')
    run(columns, "--columns", "weight=sure")
    assert capfd.readouterr().out.splitlines()[1].startswith('1,"y"')
    run(columns, "--repeats", "first", "--columns", "weight=sure", "--json")
    assert json.loads(capfd.readouterr().out)["n_annotations"] == 3
    assert main(words(columns, "--repeats error")) == 2
    assert "--repeats keep" in capfd.readouterr().err


def test_several_logs_and_globs(log, crowd, capsys):
    table = crowd.log.to_frame()
    write_table(table.slice(0, 700), "part1.csv")
    write_table(table.slice(700), "part2.csv")
    run("aggregate part1.csv part2.csv -o one.csv -q")
    run("aggregate part*.csv -o two.csv -q")
    run("aggregate log.csv -o three.csv -q")
    one, two, three = ((log / f"{name}.csv").read_bytes() for name in ("one", "two", "three"))
    assert one == two == three


def test_delimiter(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("task\tworker\tlabel\n1\ta\tx\n1\tb\tx\n")
    run("aggregate", "log.csv", "--delimiter", r"\t", "--json")
    assert json.loads(capsys.readouterr().out)["labels"][0]["label"] == "x"


def test_json_is_one_object(log, capsys):
    run("aggregate log.csv --json --evaluate truth.csv")
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    sizes = {"n_annotations": 1500, "n_tasks": 300, "n_workers": 20, "n_classes": 3, "n_unlabelled": 0}
    assert sizes.items() <= found.items()
    assert found["method"] == "consensus"
    assert found["converged"] is True
    assert set(found["seconds"]) == {"reading", "fitting", "writing"}
    assert found["warnings"] == []
    assert len(found["labels"]) == 300
    run("aggregate log.csv --json -o labels.csv --method majority")
    found = json.loads(capsys.readouterr().out)
    assert "labels" not in found
    assert found["files"] == ["labels.csv"]
    assert found["objective"] is None  # a vote has none, and NaN is no JSON


def test_evaluation_is_the_metrics(log, crowd, capsys):
    run("aggregate log.csv -o l.csv --json --evaluate truth.csv")
    scores = json.loads(capsys.readouterr().out)["evaluation"]
    model = mh.Consensus().fit(mh.read("log.csv"))
    assert scores["n_tasks"] == 300
    assert scores["accuracy"] == mh.metrics.accuracy(model.labels_, crowd.truth)
    assert scores["balanced_accuracy"] == mh.metrics.balanced_accuracy(model.labels_, crowd.truth)
    named = {"classes": model.classes_}
    assert scores["log_loss"] == mh.metrics.log_loss(model.posterior_, crowd.truth, **named)
    assert scores["calibration_error"] == mh.metrics.calibration_error(model.posterior_, crowd.truth, **named)
    assert scores["confidence"] == pytest.approx(model.posterior_.max(axis=1).mean(), rel=1e-12)
    run("aggregate log.csv -o l.csv --evaluate truth.csv")
    stated = f"accuracy {scores['accuracy']:.4f} at a mean confidence of {scores['confidence']:.4f}, balanced"
    assert stated in capsys.readouterr().out


def test_summary_states_what_to_trust_and_how_many_answers_to_review(log, capsys):
    run("aggregate log.csv -o l.csv")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("answers")]
    confidence = mh.Consensus().fit(mh.read("log.csv")).posterior_.max(axis=1)
    assert f"{confidence.mean():.0%}".replace("%", " %") in line
    n_review, below = re.search(r"review the (\d+) with a confidence below (\d\.\d\d) in l\.csv", line).groups()
    assert (confidence < float(below)).sum() == int(n_review)
    doubts = 1 - confidence
    assert doubts[confidence < float(below)].sum() >= doubts.sum() / 2
    assert doubts[confidence < float(below) - 0.01].sum() < doubts.sum() / 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("boxes", "objects are expected to be correct"),
        ("multilabel", "answers are expected to be correct in every label"),
        ("sequences", "tokens are expected to be correct"),
        ("texts", "The mean confidence of the 100 texts is"),
        ("numeric", ""),
    ],
)
def test_summary_states_what_a_confidence_of_the_kind_means(kind, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(f"simulate --kind {kind} -o log.csv -q")
    run("aggregate log.csv -o labels.csv")
    out = capsys.readouterr().out
    assert words in out
    assert ("half of the" in out) == bool(words)
    # Several boxes in an image are one answer.
    assert "repeats" not in out


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        ([1.0, 1.0], (0, 0.0)),
        ([], (0, 0.0)),
        ([0.5, 0.905, 0.905], (1, 0.51)),
        ([0.9] * 4, (4, 0.91)),
        ([0.0], (1, 0.01)),
    ],
)
def test_doubts_count_the_answers_below_a_bound(confidence, expected):
    doubts = Doubts()
    for one in confidence:
        doubts.add([one])
    assert doubts.half() == pytest.approx(expected)
    np.testing.assert_allclose(doubts.mean(), np.mean(confidence) if confidence else np.nan)


def test_correlation_of_errors_is_told_and_can_be_given(log, capsys):
    model = mh.Consensus().fit(mh.read("log.csv"))
    run("aggregate log.csv -o l.csv --json")
    found = json.loads(capsys.readouterr().out)
    names = ("correlation", "correlation_error", "discount")
    assert {name: found[name] for name in names} == {name: getattr(model, f"{name}_") for name in names}
    assert found["remarks"] == []
    run("aggregate log.csv -o l.csv --set correlation=0.25")
    assert "correlation 0.25 on a task; votes on a task are discounted by 0.25" in capsys.readouterr().out
    given = mh.Consensus(correlation=0.25).fit(mh.read("log.csv"))
    np.testing.assert_allclose([float(row["confidence"]) for row in rows("l.csv")], given.posterior_.max(axis=1))
    run("aggregate log.csv -o l.csv")
    assert f" ± {model.correlation_error_:.2f} on a task; votes on a task are discounted" in capsys.readouterr().out
    assert "correlation must be at most 1" in complaint(capsys, "aggregate log.csv -o l.csv --set correlation=1.5")
    said = complaint(capsys, "aggregate log.csv -o l.csv --method majority --set correlation=0.1")
    assert "majority has no parameter 'correlation'; it is a parameter of consensus" in said


def test_one_label_a_task_is_remarked_on(log, capsys):
    write_rows("thin.csv", ("task", "worker", "label"), (1, "a", "x"), (2, "b", "y"), (3, "a", "x"))
    run("aggregate thin.csv -o l.csv --json")
    found = json.loads(capsys.readouterr().out)
    assert "No task has labels of two workers" in found["remarks"][0]
    assert any("No task has labels of two workers" in said for said in found["warnings"])


def test_truth_of_some_tasks_and_of_others(log, crowd, capsys):
    known = list(zip(crowd.log.tasks[:10], crowd.truth[:10], strict=True))
    write_rows("some.csv", ("task", "winner", "truth"), *((t, "?", c) for t, c in known), ("nowhere", "?", "c0"))
    run("aggregate log.csv -o l.csv --evaluate some.csv")
    assert "over 10 tasks (1 more are not in the log)" in capsys.readouterr().out
    assert "no worker named any of its classes ('?')" in complaint(
        capsys, "aggregate log.csv --evaluate some.csv --truth-label winner"
    )


def test_truth_that_no_worker_named_counts_as_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows("log.csv", ("task", "worker", "label"), (1, "a", "x"), (1, "b", "x"), (2, "a", "y"), (2, "b", "y"))
    write_rows("truth.csv", ("task", "label"), (1, "x"), (2, "z"))
    run("aggregate log.csv -o l.csv --json --evaluate truth.csv")
    out, err = capsys.readouterr()
    said = "no worker named 'z', so 50.0% of the tasks with truth cannot be right"
    assert err == f"manyhands: warning: truth.csv: {said}\n"
    scores = json.loads(out)["evaluation"]
    assert scores["accuracy"] == 0.5
    assert scores["log_loss"] > 15  # one of two tasks had the truth at probability 0


def test_gold_is_held_fixed(log, crowd, capsys):
    truth = crowd.truth.copy()
    wrong = {"c0": "c1", "c1": "c2", "c2": "c0"}
    gold = [(crowd.log.tasks[i], wrong[truth[i]]) for i in range(5)]
    write_rows("gold.csv", ("task", "gold"), *gold)
    run("aggregate log.csv -o l.csv --gold gold.csv -q")
    found = {row["task"]: row for row in rows("l.csv")}
    assert [(task, found[task]["label"]) for task, _ in gold] == gold
    assert all(float(found[task]["confidence"]) == 1 for task, _ in gold)
    assert "gold" in capsys.readouterr().err  # five wrong classes contradict the log
    write_rows("gold.csv", ("task", "gold"), ("nowhere", "c0"))
    assert "nowhere" in complaint(capsys, "aggregate log.csv --gold gold.csv")
    said = complaint(capsys, "aggregate log.csv --gold gold.csv --method majority")
    assert said.startswith("majority does not take --gold; methods that do are consensus, dawid-skene, per-class")


def test_saved_model_can_be_loaded(log):
    run("aggregate log.csv -o labels.csv --save model.mh -q")
    model = mh.load("model.mh")
    assert model.predict(mh.read("log.csv")).tolist() == [row["label"] for row in rows("labels.csv")]


def test_warnings_are_one_line_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows("log.csv", ("task", "worker", "label"), (1, "a", "x"), (1, "b", "y"), (2, "a", ""), (3, "a", "y"))
    run("aggregate log.csv --method dawid-skene --json --set max_iter=1")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert [line.startswith("manyhands: warning: ") for line in lines] == [True, True]
    assert "1 task has no label at all" in lines[0]
    assert lines[1].endswith("raise max_iter, or set accelerate=True")
    found = json.loads(out)
    assert found["warnings"] == [line.removeprefix("manyhands: warning: ") for line in lines]
    assert found["n_unlabelled"] == 1
    assert "--missing drop" in complaint(capsys, "aggregate log.csv --missing error")
