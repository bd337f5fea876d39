"""The alternative-annotator test."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, false_discovery_control, multinomial, norm, ttest_1samp

import manyhands as mh
from manyhands.judges.replacement import benjamini_yekutieli, p_value

DATA = Path(__file__).parents[3] / "shared" / "data"
PANELS = ("10k_prompts", "cebab_stars", "framing", "lgbteen", "wax")


def rule_of_the_paper(humans: dict, judge: dict, epsilon: float, numbers: bool) -> tuple[float, float, dict]:
    """The published rule, written from its description: winning rate, advantage, and p-values."""

    def score(reply, others):
        if numbers:
            return -np.sqrt(np.mean([(reply - one) ** 2 for one in others]))
        return np.mean([reply == one for one in others])

    p, advantage = {}, []
    for person, reply in humans.items():
        d, wins = [], []
        for item, own in reply.items():
            others = [each[item] for other, each in humans.items() if other != person and item in each]
            if not others or item not in judge:
                continue
            machine, human = score(judge[item], others), score(own, others)
            wins.append(machine >= human)
            d.append(float(human >= machine) - float(machine >= human))
        if len(d) >= 30:
            p[person] = ttest_1samp(d, epsilon, alternative="less").pvalue
            advantage.append(np.mean(wins))
    rejected = false_discovery_control(list(p.values()), method="by") <= 0.05
    return float(rejected.mean()), float(np.mean(advantage)), p


def crowd(n: int, right: float, seed: int, people: int = 4) -> tuple[dict, dict]:
    """People who are right with .7, and a judge."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)

    def says(rate: float) -> dict:
        return dict(enumerate(np.where(rng.random(n) < rate, truth, rng.integers(0, 3, n)).tolist()))

    return {f"h{one}": says(0.7) for one in range(people)}, says(right)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("numbers", [False, True])
def test_the_published_rule(seed: int, numbers: bool) -> None:
    humans, judge = crowd(80, 0.65, seed)
    rng = np.random.default_rng(seed)
    humans = {name: {item: one for item, one in reply.items() if rng.random() < 0.8} for name, reply in humans.items()}
    rate, advantage, p = rule_of_the_paper(humans, judge, 0.1, numbers)
    outcome = mh.judges.replacement_test(
        humans, judge, kind="numeric" if numbers else "categorical", epsilon=0.1, test="t"
    )
    assert outcome.winning_rate == rate
    assert outcome.passed == (rate >= 0.5)
    assert outcome.advantage == pytest.approx(advantage, abs=1e-12)
    np.testing.assert_allclose(outcome.frame().column("p_value").to_numpy(), list(p.values()), atol=1e-9)


@pytest.mark.parametrize("name", PANELS)
def test_the_published_rule_on_panels(name: str) -> None:
    folder = DATA / f"judges_{name}"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    humans, judges = (_by_person(folder / f"{who}.csv.gz") for who in ("humans", "llms"))
    if name == "10k_prompts":
        humans = dict(list(humans.items())[:6])
    numbers = name in ("10k_prompts", "cebab_stars")
    judge = next(iter(judges.values()))
    if numbers:
        humans = {who: {item: float(one) for item, one in reply.items()} for who, reply in humans.items()}
        judge = {item: float(one) for item, one in judge.items()}
    rate, advantage, p = rule_of_the_paper(humans, judge, 0.15, numbers)
    kind = "numeric" if numbers else "categorical"
    outcome = mh.judges.replacement_test(humans, judge, kind=kind, epsilon=0.15, test="t")
    assert outcome.winning_rate == pytest.approx(rate, abs=1e-12)
    assert outcome.advantage == pytest.approx(advantage, abs=1e-12)
    np.testing.assert_allclose(outcome.frame().column("p_value").to_numpy(), list(p.values()), atol=1e-9)


def _by_person(path: Path) -> dict[str, dict[str, str]]:
    outcome: dict[str, dict[str, str]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            outcome.setdefault(row["worker"], {})[row["task"]] = row["label"]
    return outcome


@pytest.mark.parametrize("counts", [(10, 5, 15), (0, 7, 33), (3, 0, 50), (0, 0, 40), (20, 20, 0)])
def test_the_score_test_maximizes_the_restricted_likelihood(counts: tuple[int, int, int]) -> None:
    epsilon, d = 0.1, np.repeat([1.0, -1.0, 0.0], counts)

    def loss(share: float) -> float:
        parts = np.array([share + epsilon, share, 1 - epsilon - 2 * share])
        return -float(np.where(np.array(counts) > 0, np.array(counts) * np.log(np.maximum(parts, 1e-300)), 0).sum())

    share = minimize_scalar(loss, bounds=(0, (1 - epsilon) / 2), method="bounded", options={"xatol": 1e-12}).x
    variance = 2 * share + epsilon - epsilon**2
    expected = norm.cdf((d.mean() + 0.5 / len(d) - epsilon) / np.sqrt(variance / len(d)))
    more, less, same = counts
    if not less:
        expected = max(expected, binom.cdf(more, len(d), epsilon))
    if not same:
        expected = max(expected, binom.cdf(more, len(d), (1 + epsilon) / 2))
    assert p_value(d, epsilon, "score") == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("n", "epsilon"), [(30, 0.1), (30, 0.2), (45, 0.15), (60, 0.1)])
def test_the_score_test_never_rejects_more_often_than_stated(n: int, epsilon: float) -> None:
    counts = np.array([(more, less, n - more - less) for more in range(n + 1) for less in range(n + 1 - more)])
    values = np.array([1.0, -1.0, 0.0])
    rejected = counts[[p_value(np.repeat(values, one), epsilon, "score") <= 0.05 for one in counts]]
    errors = [
        multinomial.pmf(rejected, n, [share + epsilon, share, 1 - epsilon - 2 * share]).sum()
        for share in np.linspace(0, (1 - epsilon) / 2, 40)
    ]
    assert max(errors) <= 0.05
    assert max(errors) > 0.04


@pytest.mark.parametrize(("shares", "test"), [((0.1, 0.0), "score"), ((0.25, 0.15), "score"), ((0.45, 0.35), "score")])
def test_annotators_who_are_epsilon_better_are_rejected_as_rarely_as_stated(shares: tuple, test: str) -> None:
    rng = np.random.default_rng(1)
    epsilon, n = shares[0] - shares[1], 60
    d = rng.choice([1.0, -1.0, 0.0], (2000, n), p=[*shares, 1 - sum(shares)])
    rejected = np.mean([p_value(row, epsilon, test) <= 0.05 for row in d])
    assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert rejected > 0.001


def test_the_t_test_rejects_too_often_where_differences_are_rare() -> None:
    rng = np.random.default_rng(2)
    d = rng.choice([1.0, 0.0], (2000, 60), p=[0.1, 0.9])
    by_t, by_score = (np.mean([p_value(row, 0.1, test) <= 0.05 for row in d]) for test in ("t", "score"))
    assert by_t > 0.07 > by_score


def test_clusters_keep_the_level() -> None:
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(40), 5)
    rejected = {True: 0, False: 0}
    for _ in range(500):
        d = rng.choice([1.0, -1.0, 0.0], 40, p=[0.3, 0.2, 0.5]).repeat(5)
        for reference in rejected:
            rejected[reference] += p_value(d, 0.1, "score", clusters.tolist() if reference else None) <= 0.05
    assert rejected[True] / 500 < 0.085
    assert rejected[False] / 500 > 0.12


def test_by_matches_scipy() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        p = rng.random(rng.integers(1, 12)) ** 3
        np.testing.assert_array_equal(benjamini_yekutieli(p, 0.05), false_discovery_control(p, method="by") <= 0.05)


def test_a_good_judge_passes_and_a_bad_one_does_not() -> None:
    humans, good = crowd(200, 0.95, 5)
    bad = crowd(200, 0.1, 5)[1]
    passed = mh.judges.replacement_test(humans, good, kind="categorical")
    assert passed.passed
    assert passed.low < passed.advantage < passed.high
    failed = mh.judges.replacement_test(humans, bad, kind="categorical", epsilon=0.1)
    assert not failed.passed
    assert failed.advantage < passed.advantage


def test_answers_of_every_kind() -> None:
    rng = np.random.default_rng(6)
    people = ("ann", "bob", "eve", "judge")

    def spans(shift):
        return [(int(s), int(s) + 3, "x") for s in rng.integers(0, 3, 2) + 10 * np.arange(2) + shift]

    pieces = {
        "multilabel": lambda wrong: set(rng.choice(list("abcd"), 2)) if wrong else {"a", "b"},
        "texts": lambda wrong: "some other words here" if wrong else "the quick brown fox",
        "sequences": lambda wrong: spans(5) if wrong else [(0, 3, "x"), (10, 13, "x")],
        "boxes": lambda wrong: [(5.0, 5.0, 9.0, 9.0, "x")] if wrong else [(0.0, 0.0, 4.0, 4.0, "x")],
    }
    for kind, make in pieces.items():
        for judge_errs, passes in ((0.05, True), (0.95, False)):
            answers = {
                name: {item: make(rng.random() < (judge_errs if name == "judge" else 0.3)) for item in range(80)}
                for name in people
            }
            machine = answers.pop("judge")
            outcome = mh.judges.replacement_test(answers, machine, kind=kind, epsilon=0.1)
            assert outcome.passed is passes, (kind, judge_errs)


def test_tables_and_frames_give_the_same_as_mappings() -> None:
    humans, judge = crowd(60, 0.8, 7)
    expected = mh.judges.replacement_test(humans, judge, kind="categorical")
    rows = [(item, name, one) for name, reply in humans.items() for item, one in reply.items()]
    task, worker, label = (list(column) for column in zip(*rows, strict=True))
    frame = pa.table({"task": task, "worker": worker, "label": label})
    table = mh.Annotations.from_frame(frame)
    of_judge = pa.table({"task": list(judge), "label": list(judge.values())})
    for people, machine in ((frame, of_judge), (table, judge), (frame, {"gpt": judge})):
        outcome = mh.judges.replacement_test(people, machine, kind="categorical")
        assert (outcome.advantage, outcome.winning_rate) == (expected.advantage, expected.winning_rate)
    texts = mh.Texts.from_frame({"task": task, "worker": worker, "text": [f"answer {one}" for one in label]})
    words = {item: f"answer {one}" for item, one in judge.items()}
    assert mh.judges.replacement_test(texts, words).kind == "texts"
    ratings = mh.Ratings.from_frame({"task": task, "worker": worker, "value": label})
    assert mh.judges.replacement_test(ratings, judge).kind == "numeric"


def test_boxes_and_spans_of_tables() -> None:
    rows = [(f"i{item}", who, item % 7 + 0.1 * w) for item in range(40) for w, who in enumerate(("a", "b", "c"))]
    columns = {"task": [r[0] for r in rows], "worker": [r[1] for r in rows], "label": ["car"] * len(rows)}
    columns |= {name: [r[2] + extra for r in rows] for name, extra in (("x1", 0), ("y1", 0), ("x2", 9), ("y2", 9))}
    boxes = mh.Boxes.from_frame(columns)
    machine = {
        f"i{item}": [(item % 7 + 0.1, item % 7 + 0.1, item % 7 + 9.1, item % 7 + 9.1, "car")] for item in range(40)
    }
    outcome = mh.judges.replacement_test(boxes, machine)
    assert outcome.kind == "boxes"
    assert outcome.passed


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"judge": {"zzz": 1}}, "no item"),
        ({"min_items": 500}, "500"),
        ({"test": "z"}, "z"),
        ({"epsilon": 2}, "epsilon"),
        ({"kind": "words"}, "words"),
        ({"judge": {"x": {0: 1}, "y": {0: 1}}}, "x"),
        ({"humans": 3}, "int"),
        ({"humans": {"a": {}, "b": {}}}, "humans has no answers"),
    ],
)
def test_bad_input_is_named(change: dict, match: str) -> None:
    humans, judge = crowd(40, 0.8, 8)
    settings = {"humans": humans, "judge": judge} | change
    with pytest.raises((ValueError, TypeError), match=match):
        mh.judges.replacement_test(settings.pop("humans"), settings.pop("judge"), **settings)


def test_annotators_with_few_items_are_named() -> None:
    humans, judge = crowd(60, 0.8, 9)
    humans["late"] = {0: 1, 1: 2}
    outcome = mh.judges.replacement_test(humans, judge, kind="categorical")
    assert any("late" in remark for remark in outcome.warnings)
    assert "late" not in outcome.frame().column("annotator").to_pylist()
