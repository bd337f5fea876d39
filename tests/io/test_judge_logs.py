"""Logs of LLM judges: those that tools wrote (tests/data/judge_logs/generate.py), and others by published schemas."""

from __future__ import annotations

import json
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import manyhands as mh
from manyhands.errors import DataWarning, FileFormatError, MissingColumnError
from manyhands.io.read import open_log
from manyhands.io.verdicts import verdicts_of

LOGS = Path(__file__).parents[1] / "data" / "judge_logs"
pytestmark = pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")

Rows = list[dict[str, Any]]


def paths(names: str) -> list[Path]:
    return [LOGS / name for name in names.split()]


def verdicts(names: str, **asked: Any) -> Rows:
    rows: Rows = open_log(paths(names), **asked).verdicts().to_pylist()
    return rows


def counted(rows: Rows, *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in columns) for row in rows)


# ------------------------------------------------------------------------------------------------------- counts

EVALS = "inspect_system-1.eval inspect_system-2.eval"
DEEPEVAL = "deepeval_judge-a.json deepeval_judge-b.json"

#: Verdicts by judge and label; those of Inspect are what `inspect_ai.log.read_eval_log` counts, both systems added.
LABELS: dict[str, tuple[str, dict[str, Any], dict[tuple[str, Any], int]]] = {
    "inspect, packed": (
        EVALS,
        {},
        {
            ("match", "C"): 19,
            ("match", "I"): 5,
            ("mockllm/judge-a", "C"): 12,
            ("mockllm/judge-a", "I"): 12,
            ("mockllm/judge-b", "C"): 10,
            ("mockllm/judge-b", "I"): 8,
            ("mockllm/judge-b", None): 6,
            ("mockllm/judge-c", "C"): 12,
            ("mockllm/judge-c", "I"): 12,
        },
    ),
    "inspect, JSON": (
        "inspect_system-1.json",
        {},
        {
            ("match", "C"): 6,
            ("mockllm/judge-a", "C"): 3,
            ("mockllm/judge-a", "I"): 3,
            ("mockllm/judge-b", "C"): 2,
            ("mockllm/judge-b", "I"): 3,
            ("mockllm/judge-b", None): 1,
            ("mockllm/judge-c", "C"): 4,
            ("mockllm/judge-c", "I"): 2,
        },
    ),
    "inspect, panel": (
        "inspect_panel.eval",
        {},
        {
            ("mockllm/judge-a", "C"): 3,
            ("mockllm/judge-a", "I"): 3,
            ("mockllm/judge-b", "C"): 2,
            ("mockllm/judge-b", "I"): 3,
            ("mockllm/judge-b", None): 1,
            ("mockllm/judge-c", "C"): 4,
            ("mockllm/judge-c", "I"): 2,
        },
    ),
    "otel": (
        "otel.jsonl",
        {},
        Counter(
            (service["value"]["stringValue"], said.get("gen_ai.evaluation.score.label", {}).get("stringValue"))
            for line in (LOGS / "otel.jsonl").read_text().splitlines()
            for part in json.loads(line)["resourceLogs"]
            for service in part["resource"]["attributes"]
            for scoped in part["scopeLogs"]
            for record in scoped["logRecords"]
            for said in [{one["key"]: one["value"] for one in record["attributes"]}]
        ),
    ),
    "mlflow": (
        "mlflow.jsonl",
        {},
        Counter(
            (one["source"]["source_id"], None if "error" in one["feedback"] else str(one["feedback"]["value"]))
            for line in (LOGS / "mlflow.jsonl").read_text().splitlines()
            for one in json.loads(line)["info"]["assessments"]
            if one["assessment_name"] == "correct" and "feedback" in one
        ),
    ),
    "deepeval": (
        DEEPEVAL,
        {},
        Counter(
            (metric["evaluationModel"], None if "error" in metric else "pass" if metric["success"] else "fail")
            for path in paths(DEEPEVAL)
            for case in json.loads(path.read_text())["testCases"]
            for metric in case["metricsData"]
        ),
    ),
    "promptfoo": (
        "promptfoo.json",
        {"question": "correct"},
        {
            ("openai:gpt-x", "pass"): 2,
            ("openai:gpt-x", "fail"): 1,
            ("anthropic:messages:cl-y", "fail"): 2,
            ("anthropic:messages:cl-y", None): 1,
        },
    ),
    "langfuse, version 2": (
        "langfuse_v2.json",
        {"question": "correct"},
        {("openai/gpt-x", "True"): 1, ("openai/gpt-x", "False"): 1, ("cl-y", "False"): 1, ("user-1", "True"): 1},
    ),
    "langfuse, version 3": (
        "langfuse_v3.json",
        {},
        {("openai/gpt-x", "True"): 1, ("user-1", "False"): 1},
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_every_verdict_of_a_log_is_read_once(name: str) -> None:
    files, asked, wanted = LABELS[name]
    rows = verdicts(files, **asked)
    assert counted(rows, "worker", "label") == Counter(wanted)
    for row in rows:
        assert (row["label"] is None) == bool(row.get("failure"))


def test_scores_are_the_numbers_of_the_log() -> None:
    wanted = {
        (case["name"], metric["evaluationModel"], metric["name"]): metric.get("score")
        for path in paths(DEEPEVAL)
        for case in json.loads(path.read_text())["testCases"]
        for metric in case["metricsData"]
    }
    rows = verdicts(DEEPEVAL, kind="numeric")
    assert {(row["task"], row["worker"], row["criterion"]): row["value"] for row in rows} == wanted
    wanted = {
        (path.parent.name, str(row["doc_id"]), f"{metric},{row['filter']}"): row[metric]
        for path in (LOGS / "lm_eval").glob("*/samples_squares_2*")
        for row in map(json.loads, path.read_text().splitlines())
        for metric in row["metrics"]
    }
    rows = verdicts("lm_eval", question="squares")
    assert {(row["system"], row["item"].split(" / ")[1], row["worker"]): row["value"] for row in rows} == wanted
    assert len(wanted) == 24


def test_tables_are_made_of_the_same_logs() -> None:
    votes = mh.read(paths(EVALS))
    assert votes.n_tasks == 24
    assert votes.n_annotations == 4 * 24 - 6
    assert votes.workers.tolist() == ["match", "mockllm/judge-a", "mockllm/judge-b", "mockllm/judge-c"]
    assert mh.read(LOGS / "mlflow.jsonl", question="clarity").n_annotations == 12
    assert mh.read(LOGS / "fastchat_pair.jsonl").n_annotations == 5
    assert mh.aggregate(mh.read(LOGS / "otel.jsonl", question="relevance")).labels_.tolist()


def test_failed_verdicts_are_reported_where_tables_are_made() -> None:
    with pytest.warns(DataWarning, match="6 verdicts that failed"):
        mh.read(paths(EVALS))


# ------------------------------------------------------------------------------------------------ what is known


def test_outputs_of_two_systems_and_epochs_share_their_item() -> None:
    rows = verdicts(EVALS)
    assert counted(rows, "system", "repeat") == Counter(
        {(f"mockllm/system-{place}", epoch): 24 for place in (1, 2) for epoch in (1, 2)}
    )
    assert len({row["task"] for row in rows}) == 24
    assert len({row["item"] for row in rows}) == 6
    failed = [row for row in rows if row["failure"]]
    assert {row["failure"] for row in failed} == {"grader_failed"}
    assert {row["family"] for row in failed} == {"mockllm"}
    assert {row["length"] for row in rows} <= {1, 2}


def test_the_votes_of_a_panel_are_its_judges(tmp_path: Path) -> None:
    rows = verdicts("inspect_panel.eval")
    assert [(row["task"], row["worker"], row["failure"]) for row in rows if row["failure"]] == [
        ("q4", "mockllm/judge-b", "grader_failed")
    ]
    assert {row["family"] for row in rows} == {"mockllm"}
    log = json.loads((LOGS / "inspect_system-1.json").read_text())
    for place, sample in enumerate(log["samples"]):
        panel = {"votes": ["C", None if place else "I"], "size": 2, "failures": []}
        sample["scores"] = {"jury": {"value": "C", "metadata": {"panel": panel}}}
    (tmp_path / "log.json").write_text(json.dumps(log))
    rows = open_log(tmp_path / "log.json").verdicts().to_pylist()
    assert counted(rows, "worker", "label") == Counter(
        {("jury [1]", "C"): 6, ("jury [2]", "I"): 1, ("jury [2]", None): 5}
    )
    log["samples"][0]["scores"] = {"jury": {"value": ["C", "I"]}}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.warns(DataWarning, match="1 scores that are lists"):
        assert mh.read(tmp_path / "log.json").n_tasks == 5


def test_evaluated_models_can_be_the_judges() -> None:
    log = open_log(paths(EVALS), format="inspect-answers")
    rows = log.verdicts().to_pylist()
    assert counted(rows, "worker", "repeat") == Counter(
        {(f"mockllm/system-{place}", epoch): 6 for place in (1, 2) for epoch in (1, 2)}
    )
    gold = log.gold()
    assert gold is not None
    assert dict(zip(*gold.to_pydict().values(), strict=True)) == {f"q{i}": str(i * i) for i in range(6)}
    log = open_log(LOGS / "lm_eval", format="lm-eval-answers")
    rows = log.verdicts().to_pylist()
    invalid = sum(
        row["filtered_resps"] == ["[invalid]"]
        for path in (LOGS / "lm_eval").glob("*/*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    )
    assert sum(row["failure"] is not None for row in rows) == invalid > 0
    gold = log.gold()
    assert gold is not None
    assert Counter(gold.column("criterion").to_pylist()) == {"squares": 6, "squares_mc": 6}


def test_choices_are_read_by_their_likelihood() -> None:
    log = open_log(LOGS / "lm_eval", format="lm-eval-answers", question="squares_mc")
    right = {(row["task"].split(" / ")[1], row["worker"]): row["label"] == "0" for row in log.verdicts().to_pylist()}
    wanted = {
        (str(row["doc_id"]), path.parent.name): row["acc"] == 1
        for path in (LOGS / "lm_eval").glob("*/samples_squares_mc*")
        for row in map(json.loads, path.read_text().splitlines())
    }
    assert right == wanted


def test_people_and_judges_stand_side_by_side_with_what_is_expected() -> None:
    log = open_log(LOGS / "mlflow.jsonl")
    rows = log.verdicts().to_pylist()
    assert counted(rows, "worker", "annotator_kind") == Counter(
        {("judge-a", "model"): 6, ("judge-b", "model"): 6, ("ann@example.org", "human"): 4}
    )
    assert [row["failure"] for row in rows if row["failure"]] == ["PARSE_ERROR: no verdict in the response"]
    gold = log.gold()
    assert gold is not None
    assert gold.column("label").to_pylist() == ["False", "True", "True", "False"]
    assert open_log(LOGS / "mlflow.jsonl", kind="numeric").gold() is None


def test_criteria_come_together_or_one_at_a_time() -> None:
    rows = verdicts(DEEPEVAL)
    assert counted(rows, "criterion") == Counter({("Faithfulness",): 12, ("Answer Relevancy",): 12})
    assert "criterion" not in verdicts(DEEPEVAL, question="Faithfulness")[0]
    with pytest.warns(DataWarning, match="kind='numeric'"):
        verdicts(DEEPEVAL)
    with pytest.raises(ValueError, match="pairwise"):
        verdicts(DEEPEVAL, kind="pairwise")
    with pytest.raises(ValueError, match="Nope"):
        verdicts(DEEPEVAL, question="Nope")


def test_runs_with_other_outputs_are_of_other_systems(tmp_path: Path) -> None:
    run = json.loads((LOGS / "deepeval_judge-a.json").read_text())
    for case in run["testCases"]:
        case["actualOutput"] += "."
    (tmp_path / "new.json").write_text(json.dumps(run))
    rows = open_log([LOGS / "deepeval_judge-a.json", tmp_path / "new.json"]).verdicts().to_pylist()
    assert counted(rows, "system") == Counter({("deepeval_judge-a",): 12, ("new",): 12})
    assert len({row["task"] for row in rows}) == 12
    assert len({row["item"] for row in rows}) == 6


def test_both_games_of_a_pair_are_read_in_the_order_they_were_shown() -> None:
    rows = verdicts("fastchat_pair.jsonl")
    said = [(row["worker"], row["task"], row["left"], row["winner"], row["repeat"]) for row in rows]
    assert said == [
        ("gpt-4", "81 / 1", "alpaca", "vicuna", 1),
        ("gpt-4", "81 / 1", "vicuna", "vicuna", 2),
        ("claude-v1", "81 / 1", "alpaca", "alpaca", 1),
        ("claude-v1", "81 / 1", "vicuna", "vicuna", 2),
        ("gpt-4", "81 / 2", "alpaca", "tie", 1),
        ("gpt-4", "81 / 2", "vicuna", None, 2),
    ]
    rows = verdicts("fastchat_single.jsonl")
    assert counted(rows, "system", "worker", "value") == Counter(
        {
            ("vicuna", "gpt-4", 7.0): 1,
            ("vicuna", "claude-v1", 6.0): 1,
            ("alpaca", "gpt-4", 3.5): 1,
            ("alpaca", "claude-v1", None): 1,
        }
    )


def test_preferences_between_two_outputs_name_the_winner() -> None:
    rows = verdicts("alpaca_eval.json")
    said = [(row["task"], row["worker"], row["winner"]) for row in rows]
    assert said == [
        ("Say hi.", "gpt4_turbo", "new"),
        ("Say hi.", "claude", "base"),
        ("Count.", "gpt4_turbo", "tie"),
        ("Count.", "claude", None),
        ("Sum.", "gpt4_turbo", "base"),
    ]
    assert [(row["left_length"], row["right_length"]) for row in rows[:3]] == [(2, 11), (2, 11), (1, 3)]


def test_graders_that_failed_are_not_fails() -> None:
    rows = verdicts("promptfoo.json")
    failed = [row for row in rows if row["failure"]]
    assert [(row["worker"], row["task"]) for row in failed] == [("anthropic:messages:cl-y", "openai:sys-1 / 1")]
    assert {row["family"] for row in rows} == {"openai", "anthropic", None}
    assert counted(rows, "criterion") == Counter({("correct",): 6, ("contains",): 3})
    log = json.loads((LOGS / "promptfoo.json").read_text())
    assert sum(len((row["gradingResult"] or {}).get("componentResults", [])) for row in log["results"]["results"]) == 9


# ------------------------------------------------------------------------------------------------------- tables

TABLE = (
    "item,judge,verdict,model,aspect,response_length,rationale,error\n"
    "q1,a,yes,m1,tone,10,fine,\nq1,b,,m1,tone,10,,timeout\nq2,a,no,m2,facts,20,,\nq2,b,N/A,m2,facts,20,,\n"
)


def test_tables_have_their_further_columns_by_known_names(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(TABLE)
    frame = open_log(tmp_path / "log.csv", abstain="N/A").verdicts()
    columns = ["task", "worker", "label", "criterion", "system", "length", "explanation", "failure"]
    assert frame.column_names == columns
    assert frame.column("label").to_pylist() == ["yes", None, "no", None]
    assert frame.column("failure").to_pylist() == [None, "timeout", None, "abstained"]
    assert frame.column("system").to_pylist() == ["m1", "m1", "m2", "m2"]
    by_name = open_log(tmp_path / "log.csv", abstain="N/A", system="aspect").verdicts()
    assert by_name.column("system").to_pylist() == ["tone", "tone", "facts", "facts"]
    parsed = pa.table({"item": ["q1", "q2"], "judge": ["a", "b"], "verdict": ["x", None]})
    assert verdicts_of(parsed).to_pylist() == [
        {"task": "q1", "worker": "a", "label": "x", "failure": None},
        {"task": "q2", "worker": "b", "label": None, "failure": "missing"},
    ]
    with pytest.raises(MissingColumnError) as raised:
        open_log(tmp_path / "log.csv", system="nope").verdicts()
    assert raised.value.parameter == "system"


def test_labels_are_folded_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("item,judge,verdict\n1,a,Yes\n1,b,yes \n2,a,Yes\n2,b,\n3,a,no\n")
    frame = open_log(tmp_path / "log.csv", fold_labels=True).verdicts()
    assert frame.column("label").to_pylist() == ["Yes", "Yes", "Yes", None, "no"]
    frame = open_log(tmp_path / "log.csv").verdicts()
    assert frame.column("label").to_pylist() == ["Yes", "yes ", "Yes", None, "no"]


def test_a_model_is_the_judge_where_no_other_column_is(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("item,model,score\n1,a,0.5\n1,b,\n2,a,3\n2,b,4\n")
    rows = open_log(tmp_path / "log.csv").verdicts().to_pylist()
    assert [(row["task"], row["worker"], row["value"]) for row in rows] == [
        (1, "a", 0.5),
        (1, "b", None),
        (2, "a", 3.0),
        (2, "b", 4.0),
    ]
    assert "system" not in rows[0]


@pytest.mark.parametrize(
    "codes", [("A", "B", "tie"), ("1", "2", "1.5"), ("model_a", "model_b", "tie"), ("x", "y", "draw")]
)
def test_preferences_may_be_coded_in_several_ways(tmp_path: Path, codes: tuple[str, str, str]) -> None:
    lines = "".join(f"{place},x,y,{code},j\n" for place, code in enumerate(codes))
    (tmp_path / "log.csv").write_text(f"question_id,model_a,model_b,preference,judge\n{lines}")
    rows = open_log(tmp_path / "log.csv").verdicts().to_pylist()
    assert [row["winner"] for row in rows] == ["x", "y", "tie"]
    assert [row["task"] for row in rows] == [0, 1, 2]


def test_contexts_are_the_tasks_of_preferences_without_tasks(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("left,right,winner,category\nx,y,x,math\nx,y,y,code\n")
    rows = open_log(tmp_path / "log.csv").verdicts().to_pylist()
    assert [row["task"] for row in rows] == ["math", "code"]
    assert len({row["worker"] for row in rows}) == 1


def test_a_column_per_judge_and_objects_by_judge_are_the_same_verdicts(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("item,a,b\nq1,yes,no\nq2,no,\n")
    keyed = {"a": {"q1": "yes", "q2": "no"}, "b": {"q1": "no", "q2": None}}
    (tmp_path / "keyed.json").write_text(json.dumps(keyed))
    turned = {item: {judge: said[item] for judge, said in keyed.items()} for item in ("q1", "q2")}
    (tmp_path / "turned.json").write_text(json.dumps(turned))
    frames = [
        open_log(tmp_path / "wide.csv", layout="wide").verdicts(),
        open_log(tmp_path / "keyed.json", layout="by-worker").verdicts(),
        open_log(tmp_path / "turned.json", layout="by-task").verdicts(),
        verdicts_of(keyed, layout="by-worker"),
        verdicts_of({"item": ["q1", "q2"], "a": ["yes", "no"], "b": ["no", None]}, layout="wide"),
    ]
    wanted = {("q1", "a", "yes"), ("q2", "a", "no"), ("q1", "b", "no"), ("q2", "b", None)}
    for frame in frames:
        assert {(row["task"], row["worker"], row["label"]) for row in frame.to_pylist()} == wanted
    numbers = verdicts_of({"item": [1, 2], "a": [0.5, 1.0], "b": [3, None]}, kind="numeric", layout="wide")
    assert numbers.column("value").to_pylist() == [0.5, 1.0, 3.0, None]


def test_ids_and_labels_have_the_types_of_other_tables(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("item,judge,verdict\n1,a,2\n10,b,3\n")
    frame = open_log(tmp_path / "log.csv").verdicts()
    votes = mh.read(tmp_path / "log.csv")
    assert sorted(frame.column("task").to_pylist()) == votes.tasks.tolist() == [1, 10]
    assert sorted(frame.column("label").to_pylist()) == votes.classes.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        ("item,judge,score\n1,a,inf\n", {"kind": "numeric"}, "infinite"),
        ("item,judge,verdict,length\n1,a,x,long\n", {}, "'long'"),
        ("item,judge,verdict\n,a,x\n1,b,y\n", {}, "task column 'item'"),
        ("sequence,worker,start,end,tag\nd,a,0,1,x\n", {}, "kind='sequences'"),
        ("item,judge,verdict\n1,a,x\n", {"kind": "texts"}, "kind='texts'"),
    ],
)
def test_tables_that_hold_no_verdicts_are_rejected(tmp_path: Path, text: str, asked: dict[str, Any], said: str) -> None:
    (tmp_path / "log.csv").write_text(text)
    log = open_log(tmp_path / "log.csv", **asked)
    with pytest.raises(ValueError, match=said):
        log.verdicts()


# ------------------------------------------------------------------------------------------------------ damages


def repacked(source: Path, target: Path, *, without: str = "", broken: str = "") -> Path:
    """Write an archive again without a member, or with a bit of a member's data turned over."""
    data = bytearray(source.read_bytes())
    with zipfile.ZipFile(source) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
    if broken:
        entry = entries[broken]
        data[entry.header_offset + 30 + len(broken) + entry.compress_size // 2] ^= 0xFF
        target.write_bytes(data)
        return target
    # Without zstandard, members cannot be copied by `zipfile`: the name is overwritten instead.
    target.write_bytes(bytes(data).replace(without.encode(), b"x" * len(without)))
    return target


def test_a_log_that_was_cut_off_is_named(tmp_path: Path) -> None:
    whole = (LOGS / "inspect_system-1.eval").read_bytes()
    for share in (0.0, 0.3, 0.99):
        cut = tmp_path / "cut.eval"
        cut.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(FileFormatError, match=r"cut\.eval"):
            mh.read(cut)
    text = (LOGS / "inspect_system-1.json").read_text()
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    with pytest.raises(FileFormatError, match=r"cut\.json"):
        mh.read(tmp_path / "cut.json")


def test_damaged_and_unfinished_logs_are_named(tmp_path: Path) -> None:
    source = LOGS / "inspect_system-1.eval"
    damaged = repacked(source, tmp_path / "damaged.eval", broken="samples/q1_epoch_1.json")
    with pytest.raises(FileFormatError, match="q1_epoch_1"):
        mh.read(damaged)
    headless = repacked(source, tmp_path / "headless.eval", without="header.json")
    with pytest.raises(FileFormatError, match="eval-retry"):
        mh.read(headless)
    log = json.loads((LOGS / "inspect_system-1.json").read_text())
    (tmp_path / "running.json").write_text(json.dumps(log | {"status": "started"}))
    with pytest.raises(FileFormatError, match="started"):
        mh.read(tmp_path / "running.json")
    (tmp_path / "stopped.json").write_text(json.dumps(log | {"status": "cancelled", "samples": log["samples"][:2]}))
    with pytest.warns(DataWarning, match="2 of 6 samples"):
        assert mh.read(tmp_path / "stopped.json").n_tasks == 2


def test_packed_logs_may_be_in_folders_and_archives(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for path in paths(EVALS):
            (tmp_path / "runs" / path.name).write_bytes(path.read_bytes())
            archive.write(path, path.name)
    for source in (tmp_path / "runs", tmp_path / "runs.zip", f"{tmp_path}/runs/*.eval"):
        assert mh.read(source) == mh.read(paths(EVALS))


#: A change to a log that leaves it of its format, and cannot be read: file, what is replaced, by what.
DAMAGES = {
    "mlflow": ("mlflow.jsonl", '"assessment_name"', '"assessment"'),
    "langfuse": ("langfuse_v2.json", '"name": "tone"', '"title": "tone"'),
    "lm-eval": ("lm_eval/dummy-1/samples_squares_2026-01-01T00-00-00.000000.jsonl", '"doc_id": 3', '"doc": 3'),
    "deepeval": ("deepeval_judge-a.json", '"score": 0.', '"score": "0.x'),
    "promptfoo": ("promptfoo.json", '"testIdx": 1', '"test": 1'),
    "fastchat": ("fastchat_pair.jsonl", '"g2_winner": "error"', '"g2_winner": "A"'),
    "alpaca-eval": ("alpaca_eval.json", "1.13", "11.3"),
    "inspect": ("inspect_system-1.json", '"id": "q3"', '"ident": "q3"'),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_logs_raise_errors_that_name_the_file(name: str, tmp_path: Path) -> None:
    source, old, new = DAMAGES[name]
    text = (LOGS / source).read_text()
    assert old in text
    path = tmp_path / Path(source).name
    path.write_text(text.replace(old, new))
    with pytest.raises(FileFormatError, match=path.name.replace(".", r"\.")):
        open_log(path).verdicts()


@pytest.mark.parametrize("name", ["mlflow", "langfuse", "lm-eval", "deepeval", "promptfoo", "otel", "fastchat"])
def test_a_format_that_was_asked_for_says_what_it_needs(name: str, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('[{"task": 1, "worker": "a", "label": "x"}]')
    with pytest.raises(ValueError, match=name):
        mh.read(tmp_path / "log.json", format=name)


#: Values in place of what a log has.
ODD = [None, True, -1, float("inf"), float("nan"), "", "x", [], {}, [1], {"a": 1}, 10**30]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as its holder and its key or number."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [spot for key, part in pairs for spot in [(value, key), *places(part)]]
    return []


@pytest.mark.parametrize("seed", range(4))
def test_odd_values_anywhere_are_read_as_they_are_or_rejected(seed: int, tmp_path: Path) -> None:
    """No error but typed ones, no verdict without an item and a judge, and none that failed without a reason."""
    draw = random.Random(seed)
    sources = [path for path in sorted(LOGS.rglob("*.json*")) if path.stat().st_size < 50_000]
    rejected = 0
    for _ in range(40):
        source = draw.choice(sources)
        lines = source.suffix == ".jsonl"
        documents = [json.loads(text) for text in (source.read_text().splitlines() if lines else [source.read_text()])]
        holder, key = draw.choice(places(documents))
        holder[key] = draw.choice(ODD)
        path = tmp_path / source.name
        path.write_text("\n".join(json.dumps(one) for one in documents))
        try:
            rows = open_log(path).verdicts().to_pylist()
        except (ValueError, TypeError):
            rows = []
            rejected += 1
        for row in rows:
            assert None not in (row["task"], row["worker"])
            verdict = next(row[name] for name in ("label", "value", "winner") if name in row)
            assert (verdict is None) == bool(row.get("failure"))
    assert 0 < rejected < 40
