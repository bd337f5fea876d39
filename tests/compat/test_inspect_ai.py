"""The extension of Inspect: fusing scorers, and measuring them, alone and within an evaluation."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import manyhands as mh
from manyhands.errors import DataWarning

ROOT = Path(__file__).parents[2]


def test_the_entry_point_names_the_extension() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == {"manyhands": "manyhands.compat.inspect_ai"}
    assert (ROOT / "python" / "manyhands" / "compat" / "inspect_ai.py").is_file()
    assert project["optional-dependencies"]["inspect"]


scorer = pytest.importorskip("inspect_ai.scorer", reason="Inspect is not installed (extra inspect)")
extension = import_module("manyhands.compat.inspect_ai")
Score, SampleScore = scorer.Score, scorer.SampleScore
# Of the libraries that Inspect imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")


def scores(*values: Any) -> list[Any]:
    return [Score.unscored(reason="grader_failed") if value is None else Score(value=value) for value in values]


def crowd(n_samples: int, n_judges: int, *, copies: int = 0, accuracy: float = 0.8, seed: int = 0) -> list[Any]:
    """Samples with the votes of judges, the first of which repeat each other."""
    draw = random.Random(seed)
    samples = []
    for place in range(n_samples):
        truth = draw.choice("CI")
        other = "I" if truth == "C" else "C"
        shared = truth if draw.random() < accuracy else other
        votes = [shared if j < copies else truth if draw.random() < accuracy else other for j in range(n_judges)]
        fused = extension.fuse()(scores(*votes))
        samples.append(SampleScore(score=fused, sample_id=place, sample_metadata={"human": truth}))
    return samples


def test_votes_are_fused_and_kept() -> None:
    fused = extension.fuse()(scores("C", "I", "C", None))
    assert fused.value == "C"
    panel = fused.metadata["panel"]
    assert panel["votes"] == ["C", "I", "C", None]
    assert panel["size"] == 4
    assert [one["index"] for one in panel["failures"]] == [3]
    assert panel["confidence"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("values", "reason"), [(("C", "I"), "tie"), ((None, None), "no_verdict"), (("C", "C", "I"), "low_confidence")]
)
def test_what_is_not_decided_is_unscored(values: tuple[Any, ...], reason: str) -> None:
    fused = extension.fuse(min_confidence=0.9)(scores(*values))
    assert math.isnan(fused.value)
    assert fused.reason == reason
    assert fused.metadata["panel"]["votes"] == list(values)


def test_a_fitted_panel_weighs_its_judges(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = []
    for task in range(500):
        truth = draw.choice("CI")
        for judge, accuracy in (("good", 0.95), ("poor", 0.7), ("worse", 0.7)):
            rows.append((task, judge, truth if draw.random() < accuracy else "CI".replace(truth, "")))
    model = mh.DawidSkene().fit(mh.Annotations.from_arrays(*map(list, zip(*rows, strict=True))))
    model.save(tmp_path / "panel")
    reduce = extension.fuse(model=str(tmp_path / "panel"), judges=["good", "poor", "worse"])
    fused = reduce(scores("C", "I", "I"))
    assert fused.value == "C"
    votes = mh.Annotations.from_arrays([0, 0, 0], ["good", "poor", "worse"], ["C", "I", "I"])
    chances = dict(zip(model.classes_.tolist(), model.predict_proba(votes)[0].tolist(), strict=True))
    assert fused.metadata["panel"]["confidence"] == pytest.approx(chances["C"])
    assert reduce(scores(None, None, "I")).value == "I"
    with pytest.raises(ValueError, match="'P'"):
        reduce(scores("P", "I", "I"))
    with pytest.raises(ValueError, match="2 scorers"):
        reduce(scores("C", "I"))


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match="judges"):
        extension.fuse(model="panel")
    with pytest.raises(ValueError, match="min_confidence"):
        extension.fuse(min_confidence=2)
    with pytest.raises(TypeError, match=r"0\.5"):
        extension.fuse()(scores(0.5, 0.7))


def test_copies_lower_the_number_of_judges() -> None:
    alone = extension.effective_judges(gold="human")(crowd(400, 5, seed=2))
    copied = extension.effective_judges(gold="human")(crowd(400, 5, copies=4, seed=2))
    assert alone["judges"] == copied["judges"] == 5
    assert alone["effective_judges_low"] <= 5.0
    assert alone["effective_judges"] > 4
    assert copied["effective_judges"] < 2.2
    for result in (alone, copied):
        assert result["effective_judges_low"] <= result["effective_judges"] <= result["effective_judges_high"]
    bound = extension.effective_judges()(crowd(400, 5, seed=2))
    assert bound["effective_judges_high"] <= 5.0


def test_alpha_is_that_of_the_library() -> None:
    samples = crowd(200, 4, seed=3)
    result = extension.krippendorff_alpha()(samples)
    rows = [
        (task, judge, vote)
        for task, one in enumerate(samples)
        for judge, vote in enumerate(one.score.metadata["panel"]["votes"])
    ]
    votes = mh.Annotations.from_arrays(*map(list, zip(*rows, strict=True)))
    assert result["krippendorff_alpha"] == pytest.approx(float(mh.agreement.krippendorff_alpha(votes)))
    assert result["krippendorff_alpha_low"] < result["krippendorff_alpha"] < result["krippendorff_alpha_high"]
    lists = [SampleScore(score=Score(value=one.score.metadata["panel"]["votes"])) for one in samples]
    theirs = scorer.krippendorff_alpha()(lists)
    assert result["krippendorff_alpha"] == pytest.approx(theirs)
    assert extension.krippendorff_alpha()(lists)["krippendorff_alpha"] == pytest.approx(theirs)


def test_panels_without_votes_or_samples_have_no_number() -> None:
    for metric, name in ((extension.effective_judges, "effective_judges"), (extension.krippendorff_alpha, None)):
        with pytest.warns(DataWarning, match="one epoch"):
            result = metric()([SampleScore(score=Score(value="C")) for _ in range(5)])
        assert math.isnan(result[name or "krippendorff_alpha"])
        assert math.isnan(next(iter(metric()([]).values())))
    with pytest.warns(DataWarning, match="'nobody'"):
        extension.effective_judges(gold="nobody")(crowd(50, 3))


EVALUATION = """
import json
import random
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import model_graded_qa, multi_scorer, scorer
from inspect_ai.solver import generate

from manyhands.compat.inspect_ai import effective_judges, fuse, krippendorff_alpha

NAMES = ["a", "b", "c"]

def model(name, seed):
    draw = random.Random(seed)
    def output(*_):
        reply = ModelOutput.from_content(f"mockllm/{name}", f"GRADE: {draw.choice('CCI')}")
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return reply
    return get_model(f"mockllm/{name}", custom_outputs=output, memoize=False)

@scorer(metrics=[effective_judges(), krippendorff_alpha()])
def jury():
    graders = [model_graded_qa(model=model(name, seed)) for seed, name in enumerate(NAMES)]
    return multi_scorer(graders, reducer=fuse(judges=NAMES))

samples = [Sample(id=place, input="?", target="!") for place in range(12)]
task = Task(dataset=samples, solver=generate(), scorer=jury())
(log,) = eval(task, model=model("system", 9), log_dir=sys.argv[1], display="none", max_samples=1, log_format="eval")
if log.status != "success":
    sys.exit(log.error.message)
metrics = {name.rpartition("/")[2]: one.value for score in log.results.scores for name, one in score.metrics.items()}
votes = [[one.id, one.scores["jury"].metadata["panel"]["votes"]] for one in log.samples]
print(json.dumps([log.location, metrics, votes]))
"""


def test_an_evaluation_reports_the_panel_and_its_log_is_read(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", EVALUATION, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert process.returncode == 0, process.stderr[-2000:]
    location, metrics, panels = json.loads(process.stdout.splitlines()[-1])
    result = {name: value for name, value in metrics.items() if "alpha" in name or "judges" in name}
    assert result["krippendorff_alpha_low"] <= result["krippendorff_alpha"] <= result["krippendorff_alpha_high"]
    assert 1 <= result["effective_judges"] <= result["effective_judges_high"] <= 3
    rows = mh.io.open_log(location).verdicts().to_pylist()
    votes = {(row["task"], row["worker"]): row["label"] for row in rows}
    assert votes == {
        (sample, name): vote for sample, labels in panels for name, vote in zip("abc", labels, strict=True)
    }
    assert len(votes) == 36
