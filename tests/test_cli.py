"""The command line: what it prints, what it writes, how it fails."""

import csv
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manyhands as mh
from manyhands.cli import COMMANDS, main
from manyhands.cli.methods import COMPARED, METHODS
from manyhands.simulate import simulate
from manyhands.table.io import write_table

COMMAND_NAMES = [command.__name__.rpartition(".")[2] for command in COMMANDS]
METHOD_NAMES = ["consensus", "hierarchical", "hierarchical-mace", "bayesian", "bayesian-one-coin"]
METHOD_NAMES += ["dawid-skene", "per-class", "one-coin", "majority", "agreement", "zero-based", "multispa", "mmsr"]


@pytest.fixture(scope="module")
def crowd():
    return simulate(300, 20, 3, ids="str", seed=1)


@pytest.fixture
def log(crowd, tmp_path, monkeypatch):
    """A folder to work in, with a log in CSV and Parquet and its truth."""
    monkeypatch.chdir(tmp_path)
    write_table(crowd.votes.to_frame(), "log.csv")
    write_table(crowd.votes.to_frame(), "log.parquet")
    write_table(pa.table({"task": crowd.votes.tasks, "label": crowd.truth}), "truth.csv")
    return tmp_path


def words(*arguments):
    """Split arguments as a shell does; no path here holds a space."""
    return " ".join(map(str, arguments)).split()


def run(*arguments):
    """Run a command in this process; it must succeed."""
    assert main(words(*arguments)) == 0


def complaint(capsys, *arguments):
    """Run a command that must fail as on bad input, and return its one line."""
    assert main(words(*arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("manyhands: error: ")
    return err.removeprefix("manyhands: error: ").strip()


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path, header, *lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])


def subprocess_of(*arguments, **settings):
    """Start the program with its output in pipes."""
    command = [sys.executable, "-m", "manyhands", *words(*arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **settings})


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
    assert pq.read_table("workers.parquet").equals(model.workers_frame())
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
        "hierarchical": mh.HierarchicalDawidSkene(),
        "hierarchical-mace": mh.HierarchicalMACE(),
        "bayesian": mh.BayesianDawidSkene(),
        "bayesian-one-coin": mh.BayesianDawidSkene(model="one-coin"),
        "dawid-skene": mh.DawidSkene(),
        "per-class": mh.DawidSkene(model="class"),
        "one-coin": mh.DawidSkene(model="one-coin"),
        "majority": mh.MajorityVote(),
        "agreement": mh.WeightedVote("agreement"),
        "multispa": mh.MultiSPA(),
        "mmsr": mh.MMSR(),
        "zero-based": mh.WeightedVote("zero-based"),
    }[method].fit(mh.read("log.csv"))
    confidence = [float(row["confidence"]) for row in rows("labels.csv")]
    np.testing.assert_allclose(confidence, model.posterior_.max(axis=1), rtol=1e-12)


def test_options_reach_the_fit(log):
    em = "aggregate log.csv --method dawid-skene -q"
    run(em, "--save m.mh --max-iter 7 --tol 0 --seed 5 --restarts 1 --accelerate -o l.csv")
    given = mh.load("m.mh").get_params()
    wanted = {"max_iter": 7, "tol": 0, "seed": 5, "restarts": 1, "accelerate": True}
    assert wanted.items() <= given.items()
    run(em, "--save m.mh --assignment hard --pseudo-count 0 -o l.csv")
    assert {"assignment": "hard", "pseudo_count": 0}.items() <= mh.load("m.mh").get_params().items()
    run("aggregate log.csv -q --save m.mh --method zero-based --max-iter 3 --tol 0.5 -o l.csv")
    assert {"n_iter": 3, "tol": 0.5}.items() <= mh.load("m.mh").get_params().items()
    run("aggregate log.csv -q --method majority --ties abstain -o l.csv")
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
    run(columns, "--weight", "sure")
    assert capfd.readouterr().out.splitlines()[1].startswith('1,"y"')
    run(columns, "--repeats", "first", "--weight", "sure", "--json")
    assert json.loads(capfd.readouterr().out)["n_annotations"] == 3
    assert main(words(columns, "--repeats error")) == 2
    assert "--repeats keep" in capfd.readouterr().err


def test_several_logs_and_globs(log, crowd, capsys):
    table = crowd.votes.to_frame()
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


def test_correlation_of_errors_is_told_and_can_be_given(log, capsys):
    model = mh.Consensus().fit(mh.read("log.csv"))
    run("aggregate log.csv -o l.csv --json")
    found = json.loads(capsys.readouterr().out)
    names = ("correlation", "correlation_error", "discount")
    assert {name: found[name] for name in names} == {name: getattr(model, f"{name}_") for name in names}
    assert found["remarks"] == []
    run("aggregate log.csv -o l.csv --correlation 0.25")
    assert "correlated 0.25 on a task; confidences discounted for 0.25" in capsys.readouterr().out
    given = mh.Consensus(correlation=0.25).fit(mh.read("log.csv"))
    np.testing.assert_allclose([float(row["confidence"]) for row in rows("l.csv")], given.posterior_.max(axis=1))
    run("aggregate log.csv -o l.csv")
    assert f" ± {model.correlation_error_:.2f} on a task; confidences discounted for" in capsys.readouterr().out
    assert "correlation must be at most 1" in complaint(capsys, "aggregate log.csv -o l.csv --correlation 1.5")
    said = complaint(capsys, "aggregate log.csv -o l.csv --method majority --correlation 0.1")
    assert said.startswith("--correlation means nothing to majority; it goes with consensus")


def test_one_label_a_task_is_remarked_on(log, capsys):
    write_rows("thin.csv", ("task", "worker", "label"), (1, "a", "x"), (2, "b", "y"), (3, "a", "x"))
    run("aggregate thin.csv -o l.csv --json")
    found = json.loads(capsys.readouterr().out)
    assert "No task has labels of two workers" in found["remarks"][0]
    assert any("No task has labels of two workers" in said for said in found["warnings"])


def test_truth_of_some_tasks_and_of_others(log, crowd, capsys):
    known = list(zip(crowd.votes.tasks[:10], crowd.truth[:10], strict=True))
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
    gold = [(crowd.votes.tasks[i], wrong[truth[i]]) for i in range(5)]
    write_rows("gold.csv", ("task", "gold"), *gold)
    run("aggregate log.csv -o l.csv --gold gold.csv -q")
    found = {row["task"]: row for row in rows("l.csv")}
    assert [(task, found[task]["label"]) for task, _ in gold] == gold
    assert all(float(found[task]["confidence"]) == 1 for task, _ in gold)
    write_rows("gold.csv", ("task", "gold"), ("nowhere", "c0"))
    assert "nowhere" in complaint(capsys, "aggregate log.csv --gold gold.csv")
    said = complaint(capsys, "aggregate log.csv --gold gold.csv --method majority")
    assert said.startswith("--gold means nothing to majority; it goes with consensus, dawid-skene, per-class")


def test_saved_model_can_be_loaded(log):
    run("aggregate log.csv -o labels.csv --save model.mh -q")
    model = mh.load("model.mh")
    assert model.predict(mh.read("log.csv")).tolist() == [row["label"] for row in rows("labels.csv")]


def test_warnings_are_one_line_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows("log.csv", ("task", "worker", "label"), (1, "a", "x"), (1, "b", "y"), (2, "a", ""), (3, "a", "y"))
    run("aggregate log.csv --method dawid-skene --json --max-iter 1")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert [line.startswith("manyhands: warning: ") for line in lines] == [True, True]
    assert "1 task has no label at all" in lines[0]
    assert lines[1].endswith("raise --max-iter, or set --accelerate")
    found = json.loads(out)
    assert found["warnings"] == [line.removeprefix("manyhands: warning: ") for line in lines]
    assert found["n_unlabelled"] == 1
    assert "--missing drop" in complaint(capsys, "aggregate log.csv --missing error")


# ----------------------------------------------------------------------------------------- the other commands


def test_workers_table(log, capsys):
    run("workers log.csv --worst 3 -q")
    table = mh.Consensus().fit(mh.read("log.csv")).workers_frame().to_pydict()
    order = np.argsort(table["accuracy"])
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[0] for line in lines if line.strip().startswith("w")][1:]  # below the head
    assert shown == [table["worker"][i] for i in order[:3]]
    assert f"{table['accuracy'][order[0]]:.3f}" in "".join(lines)


@pytest.mark.parametrize("key", ["accuracy", "information", "spammer_score", "n_labels"])
def test_workers_order(key, log, capsys):
    run("workers", "log.csv", "--sort", key, "-o", "w.csv", "-q")
    values = [float(row[key]) for row in rows("w.csv")]
    assert len(values) == 20
    assert values == sorted(values, reverse=True)
    run("workers", "log.csv", "--sort", key, "--best", "2", "--json")
    assert [row[key] for row in json.loads(capsys.readouterr().out)["workers"]] == values[:2]
    run("workers", "log.csv", "--sort", key, "--worst", "2", "-o", "w.parquet", "-q")
    assert pq.read_table("w.parquet").column(key).to_pylist() == values[:-3:-1]


def test_workers_of_a_large_crowd_are_cut_off_on_screen_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(simulate(100, 50, 2, labels_per_task=10).votes.to_frame(), "log.csv")
    run("workers log.csv")
    assert "20 more workers are not shown" in capsys.readouterr().out
    run("workers log.csv -o w.csv")
    assert "not shown" not in capsys.readouterr().out
    assert len(rows("w.csv")) == 50


def test_describe(log, capsys):
    run("describe log.parquet")
    text = capsys.readouterr().out
    assert text.startswith(str(mh.read("log.parquet").describe()))
    run("describe log.csv --json")
    found = json.loads(capsys.readouterr().out)
    assert found["n_annotations"] == 1500
    assert found["labels_per_task"]["median"] == 5
    assert set(found["class_shares"]) == {"c0", "c1", "c2"}


def test_agreement(log, crowd, capsys):
    run("agreement log.csv --json --resamples 30 --seed 2")
    found = json.loads(capsys.readouterr().out)["agreement"]
    assert list(found) == ["krippendorff-alpha", "fleiss-kappa", "gwet-ac1", "cohen-kappa", "scott-pi"]
    alpha = mh.agreement.krippendorff_alpha(crowd.votes, resamples=30, seed=2)
    assert found["krippendorff-alpha"] == alpha.to_dict()
    assert found["cohen-kappa"]["value"] == mh.agreement.cohen_kappa(crowd.votes).value
    run("agreement log.csv --level ordinal")
    text = capsys.readouterr().out
    assert f"{mh.agreement.krippendorff_alpha(crowd.votes, level='ordinal').value:.3f}" in text
    assert "gwet-ac2" in text
    assert "classes that are numbers" in complaint(capsys, "agreement log.csv --level ratio")
    assert "between 0 and 1" in complaint(capsys, "agreement log.csv --confidence 95")
    write_table(pa.table({"task": [1, 2], "worker": ["a", "b"], "label": ["x", "y"]}), "thin.csv")
    run("agreement thin.csv")
    assert "no task has two labels" in capsys.readouterr().out


def test_compare(log, crowd, capsys):
    run("compare log.csv --evaluate truth.csv --json --max-iter 50")
    found = json.loads(capsys.readouterr().out)
    assert [method["method"] for method in found["methods"]] == list(COMPARED)
    majority = mh.MajorityVote().fit(crowd.votes)
    at = {name: COMPARED.index(name) for name in ("consensus", "majority", "agreement")}
    assert found["methods"][at["majority"]]["accuracy"] == mh.metrics.accuracy(majority.labels_, crowd.truth)
    agreement = np.array(found["agreement"])
    assert (np.diag(agreement) == 1).all()
    assert (agreement == agreement.T).all()
    weighted = mh.WeightedVote().fit(crowd.votes)
    assert agreement[at["majority"], at["agreement"]] == np.mean(majority.labels_ == weighted.labels_)
    assert all(0 < method["held_out_loss"] < 2 for method in found["methods"])
    # Gold alone is what answers are measured by, not what they are given.
    run("compare log.csv --gold truth.csv --json --max-iter 50 --methods consensus,majority")
    again = json.loads(capsys.readouterr().out)["methods"]
    assert [method["accuracy"] for method in again] == [
        found["methods"][at[name]]["accuracy"] for name in ("consensus", "majority")
    ]
    run("compare log.csv --gold truth.csv --evaluate truth.csv --json --methods consensus --held-out 0")
    (told,) = json.loads(capsys.readouterr().out)["methods"]
    assert told["accuracy"] == 1
    assert "held_out_loss" not in told
    run("compare log.csv --methods majority,one-coin")
    text = capsys.readouterr().out
    assert "one-coin" in text
    assert "accuracy" not in text
    heading = [line.split()[-1] for line in text.splitlines()[1:4]]
    assert heading == ["same", "as", "majority"]  # in several lines: "same label / as / majority"
    assert "must be some of" in complaint(capsys, "compare log.csv --methods majority,magic")


def test_compare_runs_every_method_that_takes_the_log(log, capsys):
    run("compare log.csv --methods all --held-out 0 --max-iter 5 --json")
    found = json.loads(capsys.readouterr().out)
    assert list(found["left_out"]) == ["meta-learner"]
    assert "two classes" in found["left_out"]["meta-learner"]
    assert len(found["methods"]) == len(METHODS) - 1
    assert "two classes" in complaint(capsys, "compare log.csv --methods meta-learner")


def test_compare_fits_the_columns_there_are(log, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    command = "compare log.csv --evaluate truth.csv --methods consensus,majority,bayesian-one-coin --max-iter 20"
    run(command)
    wide = capsys.readouterr().out.splitlines()
    table = wide[: next(i for i, line in enumerate(wide) if line.startswith("log"))]
    assert 60 < max(map(len, table)) <= 110
    monkeypatch.setenv("COLUMNS", "50")
    run(command)
    narrow = capsys.readouterr().out.splitlines()
    table = narrow[: next(i for i, line in enumerate(narrow) if line.startswith("log"))]
    assert max(map(len, table)) <= 50
    # Cut into parts, with the methods in each of them; no number is broken.
    parts = [line.split() for line in table if "bayesian-one-coin" in line]
    assert len(parts) > 1
    scores = [cell for part in parts for cell in part[1:]]
    numbers = [cell for line in wide if "bayesian-one-coin" in line for cell in line.split()[1:]]
    assert len(scores) == len(numbers)
    assert scores[-5:] == numbers[-5:]  # behind the time, which differs


def test_compare_tells_the_time_of_each_method_once(log, capsys):
    run("compare log.csv --methods majority,one-coin --held-out 0.1")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("time")]
    assert [part.rsplit(" ", 2)[0] for part in line.removeprefix("time").strip().split(", ")] == [
        "reading",
        "fitting",
        "held out",
    ]


def test_compare_refuses(log, capsys):
    assert "--held-out must be below 1" in complaint(capsys, "compare log.csv --held-out 1")
    assert "--restarts" in complaint(capsys, "compare log.csv --methods majority --restarts 2")


def test_simulate_writes_a_log_with_its_truth(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = "--tasks 1e2 --workers 10 --classes 3 --seed 4"
    run(
        "simulate",
        sizes,
        "--labels-per-task",
        4,
        "-o",
        "log.parquet",
        "--truth",
        "truth.csv",
        "--confusion",
        "c.csv",
    )
    assert "400 annotations" in capsys.readouterr().out
    wanted = simulate(100, 10, 3, labels_per_task=4, seed=4)
    assert mh.read("log.parquet") == wanted.votes
    assert [(int(row["task"]), int(row["label"])) for row in rows("truth.csv")] == list(enumerate(wanted.truth))
    for row in rows("c.csv")[::17]:
        place = int(row["worker"]), int(row["class"]), int(row["label"])
        assert float(row["probability"]) == pytest.approx(wanted.confusion[place], rel=1e-12)
    run("aggregate log.parquet --evaluate truth.csv -o l.csv --json")
    assert json.loads(capsys.readouterr().out)["evaluation"]["n_tasks"] == 100


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ("--crowd flippers --set skill=0.9", {"crowd": "flippers", "skill": 0.9}),
        ("--crowd kappa --set kappa=0.3,0.4", {"crowd": "kappa", "kappa": (0.3, 0.4)}),
        ("--crowd naive --set answer=1", {"crowd": "naive", "answer": 1}),
        ("--crowd hammer-spammer --set per=worker", {"crowd": "hammer-spammer", "per": "worker"}),
        (
            "--crowd one-coin=0.5,colluders=0.5 --copying 0.5",
            {"crowd": {"one-coin": 0.5, "colluders": 0.5}, "copying": 0.5},
        ),
        ("--labels-per-task 1-3 --activity 1", {"labels_per_task": (1, 3), "activity": 1.0}),
        ("--density 0.5 --prior 0.7,0.2,0.1", {"density": 0.5, "prior": [0.7, 0.2, 0.1]}),
        ("--ids str", {"ids": "str"}),
    ],
)
def test_simulate_options(arguments, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(
        "simulate",
        "--tasks 50 --workers 10 --classes 3 -q -o log.parquet",
        arguments,
    )
    table = simulate(50, 10, 3, **settings).votes.to_frame()
    assert pq.read_table("log.parquet").to_pydict() == table.to_pydict()


def test_simulate_pipes(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("simulate --tasks 5 --workers 5 --classes 2")
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == '"task","worker","label"'
    assert len(out.splitlines()) == 26
    assert "25 annotations" in err


def test_bench(capsys):
    run("bench --annotations 2e3 --workers 20 --classes 2 --repeats 1 --passes 3 --json")
    found = json.loads(capsys.readouterr().out)
    assert found["n_annotations"] == 2000
    assert found["threads"] == mh.get_num_threads()
    assert len(found["steps"]) == 6
    assert all(step["seconds"] > 0 for step in found["steps"])
    run("bench --annotations 1000 --workers 20 --repeats 1 --passes 2")
    text = capsys.readouterr().out
    assert "dawid-skene, one of 2 passes" in text
    assert "1,000 annotations" in text
    assert "--labels-per-task 5 is more than" in complaint(capsys, "bench --workers 3")


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "required: COMMAND (see manyhands --help)"),
        ("magic", "invalid choice: 'magic'"),
        ("aggregate", "required: LOG (see manyhands aggregate --help)"),
        ("aggregate absent.csv", "there is no file 'absent.csv'"),
        ("aggregate absent*.csv", "no file matches 'absent*.csv'"),
        ("aggregate .", "is a folder"),
        ("aggregate log.csv --evaluate absent.csv", "there is no file 'absent.csv'"),
        ("aggregate log.csv --gold absent.csv", "there is no file 'absent.csv'"),
        (
            "aggregate log.csv --task thing",
            "no task column 'thing'; the columns are 'task', 'worker', 'label'",
        ),
        ("aggregate log.csv --weight sure", "no weight column 'sure'"),
        ("aggregate log.csv --method magic", "invalid choice: 'magic'"),
        ("aggregate log.csv --meth majority", "unrecognized arguments: --meth majority"),
        ("aggregate log.csv --max-iter 0", "--max-iter: must be at least 1, not 0"),
        ("aggregate log.csv --max-iter 1.5", "--max-iter: must be a whole number, not '1.5'"),
        ("aggregate log.csv --tol -1", "--tol: "),
        ("aggregate log.csv --tol nan", "--tol: must be a finite number"),
        ("aggregate log.csv --seed -1", "--seed: "),
        ("aggregate log.csv --threads 1000000", "--threads: must be at most"),
        ("aggregate log.csv --method majority --restarts 2", "--restarts means nothing to majority"),
        ("aggregate log.csv -o labels.txt.doc", "cannot tell what kind of file 'labels.txt.doc' is"),
        ("aggregate log.csv -o absent/labels.csv", "there is no folder 'absent'"),
        ("aggregate log.csv --save absent/m.mh", "there is no folder 'absent'"),
        ("aggregate log.csv --workers .", "cannot tell what kind"),
        ("aggregate log.csv -o log.csv", "it is read in the same run"),
        ("aggregate log.csv -o l.csv --workers l.csv", "it is written in the same run"),
        ("aggregate log.csv -o - --json", "cannot both go to stdout"),
        (
            "aggregate log.csv --evaluate odd.csv --truth-task id --truth-label id",
            "cannot be both task and label; name another with --truth-label",
        ),
        ("aggregate log.csv --weight label", "cannot be both label and weight; name another with --weight"),
        ("aggregate log.csv --confidences task", "cannot be both task and confidence; name another with --confidences"),
        ("aggregate log.csv --evaluate odd.csv", "name it with --truth-task; the columns are 'id', 'b'"),
        ("aggregate odd.csv", "odd.csv: no column has a well-known name for the task: name it with --task"),
        ("aggregate empty.csv", "'empty.csv': Empty CSV file"),
        ("aggregate bare.csv", "there are no annotations"),
        ("aggregate broken.parquet", "cannot read 'broken.parquet'"),
        ("describe log.txt.doc", "there is no file"),
        ("describe odd.doc", "cannot tell what kind of file 'odd.doc' is"),
        ("workers log.csv --worst 2 --best 2", "not allowed with"),
        ("workers log.csv --worst 0", "--worst: must be at least 1"),
        ("simulate --tasks 5 --workers 5", "required: --classes"),
        ("simulate --tasks 5 --workers 5 --classes 2 --crowd magic", "crowd is 'magic'"),
        (
            "simulate --tasks 5 --workers 5 --classes 2 --crowd a=b",
            "must be a kind, or kinds with their shares",
        ),
        ("simulate --tasks 5 --workers 5 --classes 2 --set skill", "must be NAME=VALUE"),
        ("simulate --tasks 5 --workers 5 --classes 2 --prior 1,x", "must be numbers"),
        ("simulate --tasks 5 --workers 5 --classes 2 --labels-per-task 6", "6"),
        ("simulate --tasks 5 --workers 5 --classes 2 --json", "cannot both go to stdout"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, said, log, capsys):
    (log / "odd.csv").write_text("id,b\n1,2\n")
    (log / "odd.doc").write_text("id,b\n1,2\n")
    (log / "empty.csv").write_text("")
    (log / "bare.csv").write_text("task,worker,label\n")
    (log / "broken.parquet").write_bytes((log / "log.parquet").read_bytes()[:-20])
    before = sorted(log.iterdir())
    assert said in complaint(capsys, arguments)
    assert sorted(log.iterdir()) == before


def test_paths_are_checked_before_the_log_is_read(log, capsys, monkeypatch):
    monkeypatch.setattr(mh, "read", lambda *_, **__: pytest.fail("read too early"))
    complaint(capsys, "aggregate log.csv -o absent/l.csv")
    complaint(capsys, "aggregate log.csv --method majority --restarts 1")


def test_names_cannot_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows("log.csv", ("task", "worker", "label"), (1, "[red]ev\x1b[31ml\n", "x"), (1, "b", "y"))
    run("workers log.csv")
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert r"[red]ev\x1b[31ml\n" in text


def test_bugs_keep_their_traceback(log, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    with pytest.raises(KeyError, match="the worker"):
        main(words("--traceback aggregate truth.csv"))
    monkeypatch.setattr(mh, "read", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(words("describe log.csv"))


def test_output_is_whole_or_absent(log, monkeypatch, capsys):
    (log / "labels.csv").write_text("old")

    def fail(table, path):
        path.write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setattr("manyhands.table.io.write_table", fail)
    before = sorted(log.iterdir())
    assert complaint(capsys, "aggregate log.csv -o labels.csv") == "no space left on device"
    assert (log / "labels.csv").read_text() == "old"
    assert sorted(log.iterdir()) == before


# -------------------------------------------------------------------------------------------------- processes


def test_no_progress_bar_in_a_pipe(log):
    process = subprocess_of("aggregate log.csv -o l.csv", env={**os.environ, "FORCE_COLOR": "1"})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == ""
    assert "300 tasks" in out
    process = subprocess_of("aggregate log.csv --json")
    out, err = process.communicate(timeout=60)
    assert len(json.loads(out)["labels"]) == 300
    assert err == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_progress_bar_on_a_terminal(log):
    import pty

    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess_of("aggregate log.csv -o l.csv", stderr=slave, env=environ)
    os.close(slave)
    shown = b""
    with suppress(OSError):  # what Linux says at the end
        while chunk := os.read(master, 1 << 16):
            shown += chunk
    os.close(master)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"fitting" in shown
    assert "━".encode() in shown
    assert "━" not in out


def test_bad_input_of_a_process(log):
    process = subprocess_of("aggregate absent.csv")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (2, "", "manyhands: error: there is no file 'absent.csv'\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_reader_that_goes_away(log):
    with subprocess_of("simulate --tasks 200000 --workers 5 --classes 2 -q") as process:
        assert process.stdout.readline() == '"task","worker","label"\n'
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_reader_of_a_table_that_goes_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(simulate(6000, 3000, 2, labels_per_task=3, seed=1).votes.to_frame(), "log.csv")
    with subprocess_of("workers log.csv --method majority --best 3000") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


def closing(number):
    """Settings of a process one of whose standard streams is closed, not merely sent elsewhere."""
    return {("stdin", "stdout", "stderr")[number]: None, "preexec_fn": lambda: os.close(number)}


@pytest.mark.skipif(os.name == "nt", reason="Windows closes no streams of a child")
@pytest.mark.parametrize("number", [0, 2])
def test_closed_streams_that_nothing_depends_on_do_no_harm(number, log):
    process = subprocess_of("describe log.csv -q", **closing(number))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == f"{mh.read('log.csv').describe()}\n"
    process = subprocess_of("aggregate log.csv -o labels.csv", **closing(number))
    process.communicate(timeout=60)
    assert process.returncode == 0
    run("aggregate log.csv -o again.csv -q")
    # Nothing that was said went into the file, which might have got the stream's number.
    assert (log / "labels.csv").read_bytes() == (log / "again.csv").read_bytes()
    process = subprocess_of("aggregate absent.csv", **closing(number))
    process.communicate(timeout=60)
    assert process.returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="Windows closes no streams of a child")
def test_closed_stdout_is_no_place_for_results(log):
    for command in ("describe log.csv", "aggregate log.csv", "workers log.csv", "describe log.csv --json"):
        process = subprocess_of(command, **closing(1))
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2
        assert err.splitlines()[-1].startswith("manyhands: error: ")
        assert "stdout is closed" in err
        assert "Traceback" not in err
    process = subprocess_of("aggregate log.csv -o labels.csv", **closing(1))
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert len(rows("labels.csv")) == 300


def announcing(place):
    """Return a program that is the command line, but prints a line when it comes to a place in it."""
    return f"""if True:
        import signal, sys, time, manyhands as mh, manyhands.table.io
        from manyhands.cli import main
        fit = mh.Consensus._fit
        def fitting(*arguments):
            print("there", flush=True)
            return fit(*arguments)
        def writing(table, path):
            path.write_text("half")
            print("there", flush=True)
            time.sleep(60)
        {place}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.exit(main(sys.argv[1:]))
    """


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize(("number", "code", "said"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
@pytest.mark.parametrize("place", ["mh.Consensus._fit = fitting", "mh.table.io.write_table = writing"])
def test_signals_leave_nothing_behind(log, place, number, code, said):
    endless = "--tol 0 --max-iter 1000000000" if "fit" in place else ""
    # A parent in the background may have SIGINT ignored, and children inherit that.
    command = [sys.executable, "-c", announcing(place), *words("aggregate log.csv -o labels.csv", endless)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    before = sorted(log.iterdir())
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout.readline() == "there\n"
            process.send_signal(getattr(signal, number))
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == code
    assert err == f"manyhands: {said}\n"
    assert sorted(log.iterdir()) == before


def test_a_handler_of_the_callers_own_stays(log):
    def own(*_):
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        run("describe log.csv -q")
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    run("describe log.csv -q")
    assert signal.getsignal(signal.SIGTERM) == before
