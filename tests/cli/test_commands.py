"""The other commands: what they print and write."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manyhands as mh
from commands import complaint, rows, run
from manyhands.cli import main, methods
from manyhands.cli.methods import COMPARED, METHODS, methods_of
from manyhands.estimator import Estimator
from manyhands.simulate import simulate
from manyhands.table.io import write_table


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


def test_agreement_goes_to_files(log, crowd, capsys):
    run("agreement log.csv -o m.csv --by-class c.csv --by-task t.parquet --resamples 20")
    assert "wrote" in capsys.readouterr().out
    measures = {row["measure"]: row for row in rows("m.csv")}
    alpha = mh.agreement.krippendorff_alpha(crowd.votes, resamples=20)
    found = measures["krippendorff-alpha"]
    assert [float(found[name]) for name in ("value", "lower", "upper")] == [alpha.value, *alpha.interval]
    assert [row["class"] for row in rows("c.csv")] == crowd.votes.classes.tolist()
    assert pq.read_table("t.parquet").equals(mh.agreement.by_task(crowd.votes))
    assert "only one thing" in complaint(capsys, "agreement log.csv -o - --by-class -")
    assert "it is written in the same run" in complaint(capsys, "agreement log.csv -o m.csv --by-class m.csv")
    write_table(pa.table({"task": [1, 1], "worker": ["a", "b"], "value": [0.5, 1.5]}), "n.csv")
    assert "are for classes; the log holds numbers" in complaint(capsys, "agreement n.csv --by-task x.csv")


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


def test_aggregators_without_a_name_go_by_that_of_their_class(monkeypatch):
    class NewSPAVote(mh.MajorityVote):
        """Somebody's next method."""

    with monkeypatch.context() as patched:
        patched.setattr(NewSPAVote, "__module__", "manyhands.aggregators.voting")
        found = methods.methods_of("classes")["new-spa-vote"]
    assert found.options == {"seed": "seed", "ties": "ties"}
    assert repr(found.build({"ties": "abstain", "tol": 1.0})) == "NewSPAVote(ties='abstain')"
    assert "new-spa-vote" not in methods.methods_of("classes")


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


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        ("numbers", "--tasks 40 --workers 6 --set ratings_per_task=4", lambda: mh.simulate_ratings(
            40, 6, ratings_per_task=4, seed=3).ratings),
        ("comparisons", "--items 8 --workers 5 --comparisons 90 --set ties=0.3", lambda: mh.simulate_comparisons(
            8, 5, 90, ties=0.3, seed=3).games),
        ("rankings", "--items 8 --workers 5 --rankings 60 --set length=4", lambda: mh.simulate_rankings(
            8, 5, 60, length=4, seed=3).rankings),
        ("similarities", "--items 30 --workers 5 --clusters 3 --set pairs=60", lambda: mh.simulate_similarities(
            30, 5, 3, pairs=60, seed=3).answers),
        ("sets", "--tasks 30 --workers 6 --labels 4", lambda: mh.simulate_multilabels(30, 6, 4, seed=3).answers),
    ],
)  # fmt: skip
def test_simulate_draws_other_kinds(kind, arguments, wanted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(f"simulate --kind {kind} --seed 3 -o log.csv --truth truth.csv", arguments)
    assert "log.csv, truth.csv" in capsys.readouterr().out
    assert mh.read("log.csv", kind=kind).n_annotations == wanted().n_annotations
    assert mh.aggregate(mh.read("log.csv", kind=kind)).workers_.tolist() == wanted().workers.tolist()
    assert rows("truth.csv")
    run(f"aggregate log.csv --kind {kind} -q -o found.csv")
    assert rows("found.csv")


def test_simulate_refuses_what_a_kind_does_not_have(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, told in (
        ("--kind numbers --tasks 5", "needs --workers"),
        ("--tasks 5 --workers 2", "needs --classes"),
        ("--kind numbers --tasks 5 --workers 5 --classes 2", "--classes means nothing to a log of numbers"),
        ("--kind sets --tasks 5 --workers 5 --labels 2 --density 0.5", "--density means nothing to a log of sets"),
        ("--kind numbers --tasks 5 --workers 5 --set skill=2", "--set skill= means nothing"),
    ):
        assert main(["simulate", *arguments.split()]) != 0
        assert told in capsys.readouterr().err


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


def test_the_kind_of_a_log_is_found_or_asked_for(tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("task,worker,value\n1,a,0.5\n1,b,1.5\n")
    assert main(["aggregate", str(log), "--kind", "classes", "--label", "value"]) == 2
    assert "numbers with fractions" in capsys.readouterr().err
    log.write_text("task,worker,label\n1,a,x\n1,b,x\n")
    assert main(["aggregate", str(log), "--value", "label", "--kind", "classes"]) == 2
    assert "--value means nothing to a log of classes; say --kind numbers" in capsys.readouterr().err


def test_methods_of_all_kinds_are_public():
    for kind in Estimator._bases:
        assert all(name.replace("-", "").isalpha() for name in methods_of(kind)), kind
