"""Panels of the logs that evaluation tools write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import manyhands as mh
from manyhands.cli import main

LOGS = Path(__file__).parents[1] / "data" / "judge_logs"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("files", "criteria", "systems", "judges"),
    [
        (["inspect_system-1.eval", "inspect_system-2.eval"], 1, 2, 4),
        (["inspect_panel.eval"], 1, 1, 3),
        (["deepeval_judge-a.json", "deepeval_judge-b.json"], 2, 1, 2),
        (["promptfoo.json"], 2, 2, 3),
        (["fastchat_pair.jsonl"], 1, 2, 2),
        (["fastchat_single.jsonl"], 1, 2, 2),
        (["alpaca_eval.json"], 1, 2, 2),
        (["lm_eval"], 2, 2, 4),
        (["mlflow.jsonl"], 1, 1, 2),
        (["langfuse_v2.json"], 1, 1, 2),
    ],
)
def test_every_log_makes_a_panel(files: list[str], criteria: int, systems: int, judges: int) -> None:
    panel = mh.judges.panel([LOGS / name for name in files])
    assert (len(panel.criteria), len(panel.systems), len(panel.judges)) == (criteria, systems, judges)
    json.dumps(panel.to_dict(), allow_nan=False)


@pytest.mark.filterwarnings("ignore")
def test_people_in_a_log_are_human_labels() -> None:
    panel = mh.judges.panel(LOGS / "mlflow.jsonl")
    assert panel.n_gold == 4
    assert panel.score.n_gold == 4


@pytest.mark.filterwarnings("ignore")
def test_the_truth_in_a_log_precedes_the_verdicts_of_people() -> None:
    panel = mh.judges.panel(LOGS / "mlflow.jsonl")
    # Two of the four expectations are true, and the person found all four outputs correct.
    assert panel.score.estimate < 0.9
    assert panel.score.n_gold == 4


@pytest.mark.filterwarnings("ignore")
def test_scores_are_chosen_by_their_kind() -> None:
    runs = [LOGS / "deepeval_judge-a.json", LOGS / "deepeval_judge-b.json"]
    shares, numbers = (mh.judges.panel(runs, kind=kind) for kind in ("categorical", "numeric"))
    assert shares.criteria == numbers.criteria == ["Answer Relevancy", "Faithfulness"]
    for panel in (shares, numbers):
        (failed,) = (row for row in panel.failures().to_pylist() if row["where"] == "everywhere" and row["n_failed"])
        assert (failed["criterion"], failed["judge"], failed["n_failed"]) == ("Faithfulness", "judge-b", 1)


@pytest.mark.filterwarnings("ignore")
def test_the_command_reads_logs_of_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [str(LOGS / f"inspect_system-{place}.eval") for place in (1, 2)]
    assert main(["judges", *logs, "--compare", "system", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert "mockllm/system-1" in json.dumps(content)
    assert main(["judges", str(LOGS / "mlflow.jsonl"), "--kind", "numeric", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["judges"]) >= 2
    assert mh.judges.panel(LOGS / "mlflow.jsonl", kind="numeric").n_gold == 0


@pytest.mark.filterwarnings("ignore")
def test_columns_of_an_export_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="system="):
        mh.judges.panel(LOGS / "mlflow.jsonl", system="model")
    with pytest.raises(ValueError, match="positive="):
        mh.judges.panel(LOGS / "otel.jsonl")
    assert mh.judges.panel(LOGS / "otel.jsonl", positive="relevant").judges == ["judge-a", "judge-b"]


@pytest.mark.filterwarnings("ignore")
def test_outputs_of_two_systems_for_one_input_are_compared() -> None:
    log = [LOGS / f"inspect_system-{place}.eval" for place in (1, 2)]
    gold = {"task": [f"q{q}" for q in range(6)] * 2, "system": [], "label": []}
    for place in (1, 2):
        gold["system"] += [f"mockllm/system-{place}"] * 6
        gold["label"] += ["C", "I", "C", "C", "I", "C" if place == 1 else "I"]
    difference = mh.judges.panel(log, gold=gold).difference("mockllm/system-1", "mockllm/system-2")
    assert difference.paired
    assert difference.n_gold == 6
    assert difference.low < 1 / 6 < difference.high


def test_a_log_that_was_cut_off_is_named(tmp_path: Path) -> None:
    part = tmp_path / "cut.eval"
    whole = (LOGS / "inspect_panel.eval").read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut\.eval"):
        mh.judges.panel(part)
