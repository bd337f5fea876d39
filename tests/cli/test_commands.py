"""The other commands: what they print and write."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import complaint, rows, run

import manyhands as mh
from manyhands._base.estimator import Estimator
from manyhands._base.write import write_table
from manyhands.categorical.simulate import simulate
from manyhands.cli import main, method_names
from manyhands.cli.method_names import COMPARED, METHODS, methods_of


def test_workers_table(log, capsys):
    run("workers log.csv --worst 3 -q")
    table = mh.Consensus().fit(mh.read("log.csv")).workers_frame().to_pydict()
    order = np.argsort(table["skill"])
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[0] for line in lines if line.strip().startswith("w")][1:]  # below the head
    assert shown == [table["worker"][i] for i in order[:3]]
    assert f"{table['skill'][order[0]]:.3f}" in "".join(lines)


@pytest.mark.parametrize("key", ["skill", "information", "spammer_score", "n_answers"])
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
    write_table(simulate(100, 50, 2, labels_per_task=10).log.to_frame(), "log.csv")
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
    alpha = mh.agreement.krippendorff_alpha(crowd.log, resamples=30, seed=2)
    assert found["krippendorff-alpha"] == alpha.to_dict()
    assert found["cohen-kappa"]["value"] == mh.agreement.cohen_kappa(crowd.log).value
    run("agreement log.csv --level ordinal")
    text = capsys.readouterr().out
    assert f"{mh.agreement.krippendorff_alpha(crowd.log, level='ordinal').value:.3f}" in text
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
    alpha = mh.agreement.krippendorff_alpha(crowd.log, resamples=20)
    found = measures["krippendorff-alpha"]
    assert [float(found[name]) for name in ("value", "low", "high")] == [alpha.value, *alpha.interval]
    assert [row["class"] for row in rows("c.csv")] == crowd.log.classes.tolist()
    assert pq.read_table("t.parquet").equals(mh.agreement.by_task(crowd.log))
    assert "only one thing" in complaint(capsys, "agreement log.csv -o - --by-class -")
    assert "it is written in the same run" in complaint(capsys, "agreement log.csv -o m.csv --by-class m.csv")
    write_table(pa.table({"task": [1, 1], "worker": ["a", "b"], "value": [0.5, 1.5]}), "n.csv")
    assert "are for classes; the log holds numeric answers" in complaint(capsys, "agreement n.csv --by-task x.csv")


def test_compare(log, crowd, capsys):
    run("compare log.csv --evaluate truth.csv --json --set max_iter=50")
    found = json.loads(capsys.readouterr().out)
    assert [method["method"] for method in found["methods"]] == list(COMPARED)
    majority = mh.MajorityVote().fit(crowd.log)
    at = {name: COMPARED.index(name) for name in ("consensus", "majority", "agreement")}
    assert found["methods"][at["majority"]]["accuracy"] == mh.metrics.accuracy(majority.labels_, crowd.truth)
    agreement = np.array(found["agreement"])
    assert (np.diag(agreement) == 1).all()
    assert (agreement == agreement.T).all()
    weighted = mh.categorical.WeightedVote().fit(crowd.log)
    assert agreement[at["majority"], at["agreement"]] == np.mean(majority.labels_ == weighted.labels_)
    assert all(0 < method["held_out_loss"] < 2 for method in found["methods"])
    # Gold alone is what answers are measured by, not what they are given.
    run("compare log.csv --gold truth.csv --json --set max_iter=50 --methods consensus,majority")
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
    run("compare log.csv --methods all --held-out 0 --set max_iter=5 --json")
    found = json.loads(capsys.readouterr().out)
    assert list(found["left_out"]) == ["meta-learner"]
    assert "two classes" in found["left_out"]["meta-learner"]
    assert len(found["methods"]) == len(METHODS) - 1
    assert "two classes" in complaint(capsys, "compare log.csv --methods meta-learner")


def test_aggregators_without_a_name_go_by_that_of_their_class(monkeypatch):
    class NewSPAVote(mh.MajorityVote):
        """Somebody's next method."""

    with monkeypatch.context() as patched:
        patched.setattr(NewSPAVote, "__module__", "manyhands.categorical.voting")
        found = method_names.methods_of("categorical")["new-spa-vote"]
    assert found.parameters == ["ties", "seed"]
    assert found.about == "Somebody's next method."
    assert repr(found.build({"ties": "abstain", "tol": 1.0})) == "NewSPAVote(ties='abstain')"
    assert "new-spa-vote" not in method_names.methods_of("categorical")


def test_compare_fits_the_columns_there_are(log, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    command = "compare log.csv --evaluate truth.csv --methods consensus,majority,bayesian-one-coin --set max_iter=20"
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
    assert "'restarts'" in complaint(capsys, "compare log.csv --methods majority --set restarts=2")


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
    assert mh.read("log.parquet") == wanted.log
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
    table = simulate(50, 10, 3, **settings).log.to_frame()
    assert pq.read_table("log.parquet").to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        ("numeric", "--tasks 40 --workers 6 --set answers_per_task=4",
            lambda: mh.simulate(40, 6, answers_per_task=4, seed=3, kind="numeric").log),
        ("pairwise", "--items 8 --workers 5 --comparisons 90 --set ties=0.3",
            lambda: mh.simulate(8, 5, 90, ties=0.3, seed=3, kind="pairwise").log),
        ("rankings", "--items 8 --workers 5 --rankings 60 --set length=4",
            lambda: mh.simulate(8, 5, 60, length=4, seed=3, kind="rankings").log),
        ("clustering", "--items 30 --workers 5 --clusters 3 --set pairs=60",
            lambda: mh.simulate(30, 5, 3, pairs=60, seed=3, kind="clustering").log),
        ("multilabel", "--tasks 30 --workers 6 --labels 4",
            lambda: mh.simulate(30, 6, 4, seed=3, kind="multilabel").log),
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
        ("--kind numeric --tasks 5 --workers 5 --classes 2", "--classes does not apply to numeric answers"),
        (
            "--kind multilabel --tasks 5 --workers 5 --labels 2 --density 0.5",
            "--density does not apply to multilabel answers",
        ),
        ("--kind numeric --tasks 5 --workers 5 --set skill=2", "--set skill= does not apply to numeric answers"),
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
    run("bench --annotations 2e3 --workers 20 --classes 2 --runs 1 --passes 3 --json")
    found = json.loads(capsys.readouterr().out)
    assert found["n_annotations"] == 2000
    assert found["threads"] == mh.get_num_threads()
    assert len(found["steps"]) == 6
    assert all(step["seconds"] > 0 for step in found["steps"])
    run("bench --annotations 1000 --workers 20 --runs 1 --passes 2")
    text = capsys.readouterr().out
    assert "dawid-skene, one of 2 passes" in text
    assert "1,000 annotations" in text
    assert "--labels-per-task 5 is more than" in complaint(capsys, "bench --workers 3")


def test_the_kind_of_a_log_is_found_or_asked_for(tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("task,worker,value\n1,a,0.5\n1,b,1.5\n")
    assert main(["aggregate", str(log), "--kind", "categorical", "--label", "value"]) == 2
    assert "numbers with fractions" in capsys.readouterr().err
    log.write_text("task,worker,label\n1,a,x\n1,b,x\n")
    assert main(["aggregate", str(log), "--columns", "value=label", "--kind", "categorical"]) == 2
    assert "pass --kind numeric" in capsys.readouterr().err


def test_methods_of_all_kinds_are_public():
    for kind in Estimator._bases:
        assert all(name.replace("-", "").isalpha() for name in methods_of(kind)), kind


def test_methods_are_listed_with_the_default_marked(capsys):
    run("methods --kind pairwise")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* worker-bradley-terry ")
    assert [line.split()[0] for line in lines[1:-1]] == ["bradley-terry", "crowd-bt", "rank-centrality"]
    run("methods --kind ordinal")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* ordinal-consensus ")
    assert {line.split()[0] for line in lines[1:-1]} == {
        "cumulative-dawid-skene",
        "ordinal-crowd",
        "minimax-entropy-ordinal",
    }
    run("methods --json")
    listed = json.loads(capsys.readouterr().out)["methods"]
    assert {row["kind"] for row in listed} == {*method_names.BY_KIND, "ordinal"}
    assert sorted(row["method"] for row in listed) == sorted(
        name for methods in method_names.BY_KIND.values() for name in methods
    )
    assert all(row["about"] for row in listed)
    assert "max_iter" in next(row for row in listed if row["method"] == "glad")["parameters"]
    assert "'numeric'" in complaint(capsys, "methods --kind numbrs")


@pytest.mark.parametrize("command", ["aggregate", "explain", "report", "next", "agreement", "workers", "fairness"])
def test_help_fits_a_screen_and_the_rest_is_under_help_all(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    texts = []
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            main([command, option])
        texts.append(capsys.readouterr().out)
    assert len(texts[0].splitlines()) <= 60
    assert "--encoding" not in texts[0]
    assert "--encoding" in texts[1]
    assert "--columns" in texts[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1e6", 1_000_000),
        ("0.5", 0.5),
        ("True", True),
        ("true", True),
        ("inf", float("inf")),
        ("None", None),
        ("(2, 1)", (2, 1)),
        ("worker", "worker"),
        ("'5'", "5"),
        ("a=b", "a=b"),
    ],
)
def test_values_of_parameters(text, value):
    name, parsed = method_names.setting(f"left-bias={text}")
    assert name == "left_bias"
    assert parsed == value
    assert type(parsed) is type(value)


def test_columns_of_several_roles(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("page,line,who,x,y\n1,1,a,0.9,0.1\n1,1,b,0.2,0.8\n1,2,a,0.4,0.6\n")
    run("aggregate log.csv --columns task=page,line,worker=who,probabilities=x,y --json")
    found = json.loads(capsys.readouterr().out)
    assert (found["n_tasks"], found["n_workers"], found["n_classes"]) == (2, 2, 2)


def test_the_help_of_aggregate_fits_on_a_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["aggregate", "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 60
