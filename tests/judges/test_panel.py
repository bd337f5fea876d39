"""Scores of panels of judges, and what they rest on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import manyhands as mh
from manyhands.judges.estimates import Design, powered_mean, predict, score_of, wilson
from manyhands.judges.part import Features
from manyhands.judges.planning import inclusion, systematic
from manyhands.judges.student import student_tail

LEAST_COVERAGE = 0.925  # of 400 draws, three standard errors below .95 less .01


def log(
    n: int = 300, *, judges: int = 5, share: float = 0.4, shared: float = 0.4, missing: float = 0.0, seed: int = 0
) -> tuple[dict[str, list], np.ndarray]:
    """Verdicts pass and fail of judges whose errors share a factor, as columns, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < share
    factor = math.sqrt(shared) * rng.normal(size=(n, 1)) + math.sqrt(1 - shared) * rng.normal(size=(n, judges))
    reply = (2 * truth - 1)[:, None] + factor > 0
    there = rng.random(reply.shape) >= missing
    there[:, 0] |= ~there.any(axis=1)
    task, judge = np.nonzero(there)
    words = np.where(reply, "pass", "fail")[task, judge].tolist()
    columns = {"task": task.tolist(), "judge": [f"j{one}" for one in judge], "verdict": words}
    return columns, truth


def human(truth: np.ndarray, n: int, seed: int = 1) -> dict[int, str]:
    sample = np.random.default_rng(seed).choice(len(truth), n, replace=False)
    return {int(task): "pass" if truth[task] else "fail" for task in sample}


# ------------------------------------------------------------------------------------------------------- estimates


def test_a_simple_sample_is_prediction_powered_inference() -> None:
    rng = np.random.default_rng(0)
    n, many = 60, 900
    f = rng.random(n + many)
    y = (rng.random(n + many) < f).astype(float)[:n]
    at, of = f[:n], f[n:]
    part = powered_mean(y, at, of, Design.simple(n, many))
    weight = np.cov(y, at)[0, 1] / ((1 + n / many) * max(at.var(ddof=1), of.var()))
    weight = min(max(weight, 0.0), 1.0)
    variance = (y - weight * at).var(ddof=1) / n + weight**2 * of.var(ddof=1) / many
    ratio = min(1.0, variance / (y.var(ddof=1) / n))
    ratio += ratio * (1 - ratio) * 4 / (n + 4)
    assert part.weight == pytest.approx(weight, rel=1e-12)
    assert part.mean == pytest.approx(y.mean() + weight * (of.mean() - at.mean()), rel=1e-12)
    assert part.ratio == pytest.approx(ratio, rel=1e-12)
    assert part.n_simple == pytest.approx(n, rel=1e-12)
    score = score_of(y, at, of, Design.simple(n, many), share=True, bounds=(0, 1), what="share")
    from scipy.stats import norm, t

    low, high = wilson(part.mean, n / ratio * (norm.ppf(0.975) / t.ppf(0.975, n - 1)) ** 2)
    assert (score.low, score.high) == pytest.approx((low, high), rel=1e-9)
    assert score.worth_labels == pytest.approx(n / ratio)


def test_ridge_matches_least_squares_with_its_penalty() -> None:
    rng = np.random.default_rng(1)
    reference, others = rng.normal(size=(40, 4)), rng.normal(size=(10, 4))
    y = (rng.random(40) < 0.4).astype(float)
    design = Design.simple(40, 10)
    at, of = predict(reference, lambda slope: others @ slope, 10, y, design, (0.0, 1.0))
    fold = design.folds()
    expected, mean_of = np.zeros(40), np.zeros(10)
    for turn in range(10):
        train = fold != turn
        start = np.array([y[train].mean() * (1 - y[train].mean()), 0, 0, 0])
        x = reference[train] - reference[train].mean(axis=0)
        rows = np.vstack([x, np.diag(np.sqrt([3.0, 20, 20, 20]))])
        target = np.r_[y[train] - y[train].mean() - x @ start, np.zeros(4)]
        slope = start + np.linalg.lstsq(rows, target, rcond=None)[0]
        center = reference[train].mean(axis=0)
        expected[~train] = np.clip(y[train].mean() + (reference[~train] - center) @ slope, 0, 1)
        mean_of += np.clip(y[train].mean() + (others - center) @ slope, 0, 1) / 10
    np.testing.assert_allclose(at, expected, atol=1e-10)
    np.testing.assert_allclose(of, mean_of, atol=1e-10)


def test_clusters_strata_and_weights_match_their_formulas() -> None:
    rng = np.random.default_rng(2)
    y, strata, clusters = rng.random(30), np.repeat([0, 1], 15), np.arange(30) // 3
    design = Design(np.ones(30), strata, clusters, np.repeat([0, 1], [100, 300]), np.arange(30, 430))
    shares = np.array([115, 315]) / 430
    squares = []
    for stratum in (0, 1):
        mine = strata == stratum
        sums = np.array([(y[mine] - y[mine].mean())[clusters[mine] == c].sum() for c in np.unique(clusters[mine])])
        squares.append(float((sums**2).sum()))
    # Ten clusters of three in two strata; a cluster more for each, with the variance of all ten.
    parts = [share**2 * (one + sum(squares) / 8) / 15**2 for share, one in zip(shares, squares, strict=True)]
    variance, freedom = design.variance(y)
    assert variance == pytest.approx(sum(parts), rel=1e-12)
    assert freedom == pytest.approx(sum(parts) ** 2 / sum(one**2 / 4 for one in parts), rel=1e-12)
    alone = Design.simple(30, 0).variance(y)
    assert alone == pytest.approx((y.var(ddof=1) / 30, 29), rel=1e-12)
    apart = Design(np.ones(30), np.arange(30), np.arange(30), np.zeros(0, int), np.zeros(0, int)).variance(y)
    assert apart == pytest.approx((y.var(ddof=1) / 30, 29), rel=1e-12)
    weights = design.balanced()
    assert weights.sum() == pytest.approx(1)
    assert weights @ y == pytest.approx(shares @ [y[:15].mean(), y[15:].mean()])


def test_predictions_of_oversampled_items_do_not_shift_the_score() -> None:
    rng = np.random.default_rng(4)
    strata = np.repeat([0, 1], [900, 300])
    y = rng.random(1200) + 3 * strata
    chance = np.where(y > 2, 0.4, 0.05)
    for weighted in (False, True):
        if weighted:
            rows = np.flatnonzero(rng.random(1200) < chance)
            weights, groups = 1 / chance[rows], 0 * strata
        else:
            rows = np.concatenate([rng.choice(900, 60, False), 900 + rng.choice(300, 150, False)])
            weights, groups = np.ones(len(rows)), strata
        rest = np.setdiff1d(np.arange(1200), rows)
        design = Design(weights, groups[rows], rows, groups[rest], rest)
        assert not design.even
        one = powered_mean(y[rows], y[rows], y[rest], design)
        # Perfect predictions leave as much of the error of the labels as their weight lacks of one.
        assert one.weight > 0.9
        assert one.mean - y.mean() == pytest.approx((1 - one.weight) * (one.gold - y.mean()), abs=1e-12)


def test_few_clusters_are_no_sharper_than_a_simple_sample() -> None:
    # Clusters whose means are almost equal by chance: four of them cannot show that labels count for more.
    y = np.tile([1.0, 1, 0, 0, 0], 4)
    y[0] = 0.0
    n, few = len(y), np.arange(20) // 5
    apart = Design.simple(n, 100)
    together = Design(np.ones(n), 0 * few, few, np.zeros(100, int), 4 + np.arange(100))
    at, of = np.full(n, 0.4), np.full(100, 0.4)
    assert together.variance(y)[0] < apart.variance(y)[0] / 3
    for share in (True, False):
        one, other = (score_of(y, at, of, one, share=share, bounds=(0, 1), what="") for one in (apart, together))
        assert (other.low, other.high) == pytest.approx((one.low, one.high))
    unequal = np.repeat([1.0, 0, 0, 1], 5)
    wide = score_of(unequal, at, of, together, share=True, bounds=(0, 1), what="")
    assert wide.high - wide.low > 0.85
    strata = Design(np.ones(n), few % 2, np.arange(n), np.repeat([0, 1], 50), n + np.arange(100))
    assert powered_mean(np.repeat([1.0, 0, 1, 0], 5), at, of, strata).n_most == math.inf


@pytest.mark.parametrize(
    "shape", ["share", "rare", "missing", "useless", "clusters", "strata", "unequal", "paired", "mean"]
)
def test_intervals_contain_the_truth_as_often_as_they_claim(shape: str) -> None:
    rng = np.random.default_rng(3)
    n, many, hits, gain = 40, 600, [], []
    columns, truth = log(many, share=0.1 if shape == "rare" else 0.4, missing=0.3 * (shape == "missing"), seed=5)
    if shape == "paired":
        more, other = log(many, share=0.55, seed=6)
        task = columns["task"] + more["task"]
        system = ["a"] * len(columns["task"]) + ["b"] * len(more["task"])
        columns = {name: columns[name] + more[name] for name in columns} | {"task": task, "system": system}
    if shape == "clusters":
        columns["cluster"] = [one // 4 for one in columns["task"]]
    if shape == "useless":
        columns["verdict"] = rng.choice(["pass", "fail"], len(columns["task"])).tolist()
    panel = mh.judges.panel(columns)
    part = next(iter(panel._parts.values()))
    values = truth.astype(float)
    strata = (rng.random(many) < np.where(truth, 0.5, 0.1)).astype(int) if shape == "strata" else np.zeros(many, int)
    doubt = np.sqrt(np.maximum(part.consensus * (1 - part.consensus), 0.0025))
    chance = inclusion(0.5 / many + 0.5 * doubt / doubt.sum(), n)
    for _ in range(400):
        if shape == "paired":
            rows = rng.choice(many, n, replace=False)
            d = values[rows] - other[rows]
            rest = np.setdiff1d(np.arange(many), rows)
            design = Design.simple(n, many - n)
            at, of = predict(
                part.features.rows(2 * rows) - part.features.rows(2 * rows + 1),
                lambda slope, rest=rest: (
                    part.features.times(slope)[2 * rest] - part.features.times(slope)[2 * rest + 1]
                ),
                many - n,
                d,
                design,
                (-1.0, 1.0),
            )
            from manyhands.judges.estimates import difference_of

            one = difference_of(d, at, of, design, ("a", "b"), 1.0)
            goal = float((values - other).mean())
        else:
            rows = rng.choice(many, n, replace=False)
            if shape == "clusters":
                rows = np.flatnonzero(np.isin(np.arange(many) // 4, rng.choice(many // 4, n // 4, replace=False)))
            if shape == "strata":
                rows = np.concatenate([rng.choice(np.flatnonzero(strata == one), n // 2, False) for one in (0, 1)])
            if shape == "unequal":
                rows = systematic(chance, rng)
            rest = np.setdiff1d(np.arange(many), rows)
            weights = 1 / chance[rows] if shape == "unequal" else np.ones(n)
            clusters = part.data.clusters
            design = Design(weights, strata[rows], clusters[rows], strata[rest], clusters[rest])
            at, of = predict(
                part.features.rows(rows),
                lambda slope, rest=rest: part.features.times(slope)[rest],
                many - n,
                values[rows],
                design,
                (0.0, 1.0),
            )
            one = score_of(values[rows], at, of, design, share=shape != "mean", bounds=(0.0, 1.0), what="")
            goal = float(values.mean())
            gain.append((one.high - one.low) / (one.gold_only[2] - one.gold_only[1]))
        hits.append(one.low <= goal <= one.high)
    assert np.mean(hits) >= LEAST_COVERAGE
    if gain:
        assert np.mean(gain) < (1.01 if shape == "useless" else 0.95)
        assert np.quantile(gain, 0.95) < 1.05


def test_useless_judges_leave_the_interval_of_people_alone() -> None:
    columns, truth = log(400, seed=7)
    rng = np.random.default_rng(0)
    columns["verdict"] = rng.choice(["pass", "fail"], len(columns["task"])).tolist()
    score = mh.judges.panel(columns, gold=human(truth, 60)).score
    low, high = score.gold_only[1:]
    assert score.high - score.low <= 1.05 * (high - low)
    assert score.worth_labels < 75


def test_one_class_in_gold_has_an_interval() -> None:
    columns, truth = log(300, share=0.02, seed=8)
    reference = dict.fromkeys(np.flatnonzero(~truth)[:40].tolist(), "fail")
    score = mh.judges.panel(columns, gold=reference).score
    assert score.low <= 0.0 < score.high < 0.15


def test_few_labels_leave_judges_out() -> None:
    columns, truth = log(200, seed=1)
    score = mh.judges.panel(columns, gold=human(truth, 8)).score
    assert score.worth_labels == pytest.approx(8)
    assert score.warnings
    assert score.high - score.low > 0.3


# ------------------------------------------------------------------------------------------------------- the panel


def test_a_panel_states_everything() -> None:
    columns, truth = log(400, judges=6, seed=2)
    panel = mh.judges.panel(columns, gold=human(truth, 80))
    score = panel.score
    assert score.low < truth.mean() < score.high
    assert 80 < score.worth_labels <= score.most_labels * 1.05
    number = panel.effective_judges
    assert number.measured
    assert 1 <= number.low < number.high < 6
    frame = panel.judges_frame().to_pydict()
    assert frame["judge"] == [f"j{one}" for one in range(6)]
    truth_of = {f"j{one}": [] for one in range(6)}
    for task, judge, reply in zip(columns["task"], columns["judge"], columns["verdict"], strict=True):
        truth_of[judge].append((reply == "pass") == truth[task])
    right = np.array([np.mean(truth_of[judge]) for judge in frame["judge"]])
    inside = (np.array(frame["low"]) <= right) & (right <= np.array(frame["high"]))
    assert inside.sum() >= 5
    assert np.abs(np.array(frame["skill"]) - right).max() < 0.15
    fused = panel.fused_frame().to_pydict()
    best = np.array([one == "pass" for one in fused["verdict"]])
    assert (best == truth).mean() > right.max() - 0.02
    assert sum(fused["human"]) == 80
    confusion = panel.confusion("j0").to_pydict()
    assert sum(sum(confusion[name]) for name in ("pass", "fail", "(failed)")) == 80
    json.dumps(panel.to_dict(), allow_nan=False)


def test_forms_of_verdicts_and_gold_give_the_same_score(tmp_path: Path) -> None:
    columns, truth = log(150, seed=3)
    gold = human(truth, 50)
    expected = mh.judges.panel(columns, gold=gold).score
    by_judge: dict[str, dict[int, str]] = {}
    for task, judge, reply in zip(columns["task"], columns["judge"], columns["verdict"], strict=True):
        by_judge.setdefault(judge, {})[task] = reply
    pair = list(gold), list(gold.values())
    frame = pa.table({"task": pair[0], "label": pair[1]})
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "log.csv")
    pyarrow.csv.write_csv(frame, tmp_path / "gold.csv")
    table = mh.Annotations.from_frame(columns)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for log_, reference in [
        (pa.table(columns), pair),
        (by_judge, frame),
        (rows, gold),
        (table, gold),
        (tmp_path / "log.csv", str(tmp_path / "gold.csv")),
    ]:
        outcome = mh.judges.panel(log_, gold=reference).score
        assert (outcome.estimate, outcome.low, outcome.high) == pytest.approx(
            (expected.estimate, expected.low, expected.high)
        )


@pytest.mark.parametrize(
    ("of_judges", "of_people"),
    [
        (("Pass", "fail "), ("pass", "FAIL")),
        ((True, False), (1, 0)),
        (("true", "False"), (True, False)),
        ((1, 0), ("1", "0")),
    ],
)
def test_one_class_in_several_spellings(of_judges: tuple, of_people: tuple) -> None:
    columns, truth = log(120, seed=3)
    gold = human(truth, 50)
    expected = mh.judges.panel(columns, gold=gold)
    columns["verdict"] = [of_judges[one == "fail"] for one in columns["verdict"]]
    panel = mh.judges.panel(columns, gold={task: of_people[one == "fail"] for task, one in gold.items()})
    assert panel.score.estimate == pytest.approx(expected.score.estimate)
    accuracy = panel.judges_frame().column("accuracy").to_pylist()
    assert accuracy == expected.judges_frame().column("accuracy").to_pylist()


def test_systems_are_compared_in_pairs() -> None:
    one, good = log(250, share=0.45, seed=4)
    other, better = log(250, share=0.75, seed=5)
    columns = {name: one[name] + other[name] for name in one}
    columns["system"] = ["v1"] * len(one["task"]) + ["v2"] * len(other["task"])
    sample = np.random.default_rng(0).choice(250, 60, replace=False).tolist()
    gold = pa.table(
        {
            "task": sample * 2,
            "system": ["v1"] * 60 + ["v2"] * 60,
            "label": ["pass" if good[t] else "fail" for t in sample]
            + ["pass" if better[t] else "fail" for t in sample],
        }
    )
    panel = mh.judges.panel(columns, gold=gold)
    outcome = panel.difference("v2", "v1")
    goal = better.mean() - good.mean()
    assert outcome.paired
    assert outcome.n_gold == 60
    assert outcome.low < goal < outcome.high
    back = panel.difference("v1", "v2")
    assert (back.estimate, back.low, back.high) == pytest.approx(
        (-outcome.estimate, -outcome.high, -outcome.low), abs=1e-9
    )
    scores = panel.scores().to_pylist()
    assert [row["system"] for row in scores] == ["v1", "v2"]
    assert scores[0]["low"] < good.mean() < scores[0]["high"]
    assert scores[1]["low"] < better.mean() < scores[1]["high"]
    keep = np.r_[np.arange(30), 60 + np.arange(30, 60)]
    apart = mh.judges.panel(columns, gold=gold.take(keep)).difference("v2", "v1")
    assert not apart.paired
    assert apart.high - apart.low > outcome.high - outcome.low
    assert apart.low < goal < apart.high


def test_scores_and_human_labels_of_both_kinds() -> None:
    rng = np.random.default_rng(6)
    quality = rng.normal(size=400)
    scores = np.clip(np.round(5 + 2 * (quality[:, None] + 0.7 * rng.normal(size=(400, 4)))), 0, 10)
    grades = np.clip(np.round(5 + 2 * quality), 0, 10)
    task, judge = (grid.ravel() for grid in np.indices(scores.shape))
    columns = {"task": task, "judge": judge, "score": scores.ravel()}
    sample = rng.choice(400, 60, replace=False)
    panel = mh.judges.panel(columns, gold=(sample, grades[sample]), scale=(0, 10))
    assert panel.score.low < grades.mean() < panel.score.high
    assert panel.score.worth_labels > 90
    frame = panel.judges_frame().to_pydict()
    assert min(frame["correlation"]) > 0.6
    assert panel.effective_judges.measured
    assert panel.fused_frame().column_names == ["task", "value", "error", "n_verdicts", "human"]
    passes = np.where(quality > 0.5, "pass", "fail")
    share = mh.judges.panel(columns, gold=(sample, passes[sample])).score
    assert share.what == "share of 'pass'"
    assert share.low < (quality > 0.5).mean() < share.high
    assert 0 <= share.low < share.high <= 1


def test_a_model_in_gold_is_what_was_judged() -> None:
    columns, truth = log(100, seed=9)
    columns["model"] = ["new"] * len(columns["task"])
    more = {name: list(values) for name, values in columns.items()}
    more["model"] = ["old"] * len(more["task"])
    both = {name: columns[name] + more[name] for name in columns}
    gold = {"task": list(range(30)) * 2, "model": ["new"] * 30 + ["old"] * 30}
    gold["label"] = ["pass" if one else "fail" for one in truth[:30]] * 2
    panel = mh.judges.panel(both, gold=pa.table(gold))
    assert panel.systems == ["new", "old"]
    assert panel.difference("new", "old").estimate == pytest.approx(0, abs=1e-9)


def test_preferences_count_for_both_systems() -> None:
    rng = np.random.default_rng(7)
    n = 200
    winner = rng.choice(["A", "B", "tie"], n, p=[0.5, 0.35, 0.15])
    reply = np.where(rng.random((3, n)) < 0.8, winner, rng.choice(["A", "B", "tie"], (3, n)))
    columns = {
        "task": np.tile(np.arange(n), 3),
        "judge": np.repeat(["x", "y", "z"], n),
        "model_a": ["new"] * (3 * n),
        "model_b": ["old"] * (3 * n),
        "winner": reply.ravel(),
    }
    sample = rng.choice(n, 50, replace=False)
    gold = {
        "task": sample,
        "model_a": ["new"] * 50,
        "model_b": ["old"] * 50,
        "winner": winner[sample],
    }
    panel = mh.judges.panel(columns, gold=pa.table(gold))
    rate = np.mean(np.where(winner == "A", 1.0, np.where(winner == "tie", 0.5, 0.0)))
    rows = {row["system"]: row for row in panel.scores().to_pylist()}
    assert rows["new"]["low"] < rate < rows["new"]["high"]
    assert rows["new"]["estimate"] + rows["old"]["estimate"] == pytest.approx(1, abs=0.02)


def test_a_comparison_counts_once_for_the_effective_number() -> None:
    rng = np.random.default_rng(8)
    truth = rng.random(120) < 0.5
    reply = truth ^ (rng.normal(size=(4, 120)) + rng.normal(size=120) > 1.2)
    pairs = {
        "task": np.tile(np.arange(120), 4),
        "judge": np.repeat(list("wxyz"), 120),
        "model_a": ["new"] * 480,
        "model_b": ["old"] * 480,
        "winner": np.where(reply.ravel(), "A", "B"),
    }
    gold = {"task": np.arange(60), "model_a": ["new"] * 60, "model_b": ["old"] * 60}
    of_pairs = mh.judges.panel(pairs, gold=pa.table(gold | {"winner": np.where(truth[:60], "A", "B")}))
    classes = {name: pairs[name] for name in ("task", "judge")} | {"label": np.where(reply.ravel(), "A", "B")}
    of_classes = mh.judges.panel(classes, gold=(np.arange(60), np.where(truth[:60], "A", "B")))
    assert of_pairs.effective_judges.n_tasks == of_classes.effective_judges.n_tasks
    assert of_pairs.effective_judges.low == pytest.approx(of_classes.effective_judges.low, rel=0.1)


def test_many_criteria_in_one_call() -> None:
    one, truth = log(120, seed=8)
    two, other = log(120, share=0.7, seed=9)
    columns = {name: one[name] + two[name] for name in one}
    columns["criterion"] = ["safe"] * len(one["task"]) + ["helpful"] * len(two["task"])
    gold = {
        "task": list(range(40)) * 2,
        "criterion": ["safe"] * 40 + ["helpful"] * 40,
        "label": ["pass" if one else "fail" for one in [*truth[:40], *other[:40]]],
    }
    panel = mh.judges.panel(columns, gold=pa.table(gold))
    assert panel.criteria == ["helpful", "safe"]
    rows = panel.scores().to_pylist()
    alone = mh.judges.panel(one, gold={t: "pass" if truth[t] else "fail" for t in range(40)}).score
    assert rows[1]["criterion"] == "safe"
    assert rows[1]["estimate"] == pytest.approx(alone.estimate)
    assert panel["safe"].score == alone
    assert panel.judges_frame().num_rows == 10
    with pytest.raises(ValueError, match="helpful"):
        panel.score  # noqa: B018


def test_next_labels_are_drawn_with_the_probabilities_that_they_state() -> None:
    columns, truth = log(200, seed=10)
    gold = human(truth, 30)
    counts, chances = np.zeros(200), np.zeros(200)
    for seed in range(150):
        outcome = mh.judges.panel(columns, gold=gold, seed=seed).next_labels(40)
        assert len(outcome) == 40
        rows = outcome.frame.to_pydict()
        assert not set(rows["task"]) & set(gold)
        counts[rows["task"]] += 1
        chances[rows["task"]] = rows["probability"]
    visited = counts > 0
    error = np.sqrt(chances[visited] * (1 - chances[visited]) / 150)
    assert np.abs(counts[visited] / 150 - chances[visited]).max() < 4.5 * error.max()
    assert outcome.half_width_after < outcome.half_width
    assert np.ptp(chances[visited]) > 0.05


def test_labels_drawn_with_unequal_probabilities_stay_unbiased() -> None:
    columns, truth = log(400, seed=11)
    first = human(truth, 30)
    middle = []
    for seed in range(60):
        sample = mh.judges.panel(columns, gold=first, seed=seed).next_labels(60).frame.to_pydict()
        gold = {
            "task": [*first, *sample["task"]],
            "label": [*first.values(), *("pass" if truth[t] else "fail" for t in sample["task"])],
            "probability": [None] * 30 + sample["probability"],
        }
        score = mh.judges.panel(columns, gold=pa.table(gold)).score
        middle.append(score.low <= truth.mean() <= score.high)
    assert np.mean(middle) > 0.9


def test_soft_labels_follow_the_population() -> None:
    rng = np.random.default_rng(12)
    columns, truth = log(200, seed=12)
    rows = [
        (task, f"{group}{person}", group, "pass" if rng.random() < rate * (0.3 + 0.7 * truth[task]) else "fail")
        for task in range(100)
        for group, rate in (("strict", 0.4), ("mild", 0.9))
        for person in range(3)
    ]
    task, who, group, label = (list(column) for column in zip(*rows, strict=True))
    gold = pa.table({"task": task, "annotator": who, "group": group, "label": label})
    panel = mh.judges.panel(columns, gold=gold)
    assert panel.classes == ["fail", "pass"]
    strict = panel.soft_labels({"strict": 1.0, "mild": 0.0})[:, 1]
    mild = panel.soft_labels({"strict": 0.0, "mild": 1.0})[:, 1]
    assert np.allclose(panel.soft_labels_.sum(axis=1), 1)
    assert mild.mean() - strict.mean() > 0.2
    reply = 0.65 * (0.3 + 0.7 * truth)
    assert np.corrcoef(panel.soft_labels_[:, 1], reply)[0, 1] > 0.6


# --------------------------------------------------------------------------------------------- what is wrong with them


def test_biases_are_found_where_they_are() -> None:
    columns, truth = log(600, judges=4, seed=13)
    rng = np.random.default_rng(0)
    length = rng.lognormal(5, 1, 600)
    columns["length"] = [float(length[t]) for t in columns["task"]]
    columns["position"] = rng.integers(1, 3, len(columns["task"])).tolist()
    long = length > np.median(length)
    for row, (task, judge) in enumerate(zip(columns["task"], columns["judge"], strict=True)):
        if judge == "j1" and rng.random() < 0.5:
            columns["verdict"][row] = "pass" if long[task] else "fail"
    rows = mh.judges.panel(columns, gold=human(truth, 100)).biases().to_pylist()
    outcome = {(row["bias"], row["judge"]) for row in rows if row["found"] and row["judge"] != "(all)"}
    assert ("length", "j1") in outcome
    assert not any(bias == "position" for bias, _ in outcome)
    effect = {row["judge"]: row["effect"] for row in rows if row["bias"] == "length"}
    assert effect["j1"] > 0.05 > abs(effect["j3"])


def test_the_row_of_all_judges_compares_verdicts_with_human_labels() -> None:
    rng = np.random.default_rng(18)
    task, judge = (grid.ravel() for grid in np.indices((200, 3)))
    quality, length = rng.normal(size=200), rng.lognormal(5, 1, 600)
    scores = quality[task] + 0.3 * np.log2(length) + rng.normal(size=600)
    gold = np.arange(0, 200, 2)
    panel = mh.judges.panel(
        {"task": task, "judge": judge, "score": scores, "length": length}, gold=(gold, quality[gold])
    )
    rows = {row["judge"]: row for row in panel.biases().to_pylist()}
    labeled = task % 2 == 0
    from scipy.stats import linregress

    line = linregress(np.log2(length)[labeled], (scores - quality[task])[labeled])
    assert rows["(all)"]["n"] == 300
    assert rows["(all)"]["effect"] == pytest.approx(line.slope)


def test_features_of_items_are_those_of_all_items() -> None:
    rng = np.random.default_rng(19)
    item, judge = (grid.ravel() for grid in np.indices((12, 3)))
    features = Features(item, judge, rng.normal(size=36), rng.normal(size=12), 3)
    slope = rng.normal(size=4)
    for items in (np.arange(12), np.array([7, 0, 3])):
        np.testing.assert_allclose(features.rows(items) @ slope, features.times(slope)[items])


def test_every_measure_of_a_judge_has_its_interval() -> None:
    rng = np.random.default_rng(17)
    quality = rng.normal(size=300)
    task, judge = (grid.ravel() for grid in np.indices((300, 3)))
    scores = quality[task] + 0.5 * judge + rng.normal(size=900)
    sample = rng.choice(300, 60, replace=False)
    columns = {"task": task, "judge": judge, "score": scores}
    row = mh.judges.panel(columns, gold=(sample, quality[sample])).judges_frame().to_pylist()[1]
    mine = scores.reshape(300, 3)[sample, 1]
    from scipy.stats import pearsonr, sem, t

    expected = pearsonr(mine, quality[sample])
    assert row["correlation"] == pytest.approx(expected.statistic)
    assert (row["low"], row["high"]) == pytest.approx(tuple(expected.confidence_interval()))
    off = mine - quality[sample]
    half = t.ppf(0.975, 59) * sem(off**2)
    assert row["error"] == pytest.approx(math.sqrt((off**2).mean()))
    assert row["error_low"] == pytest.approx(math.sqrt((off**2).mean() - half))
    assert row["error_high"] == pytest.approx(math.sqrt((off**2).mean() + half))
    columns, truth = log(300, seed=18)
    row = mh.judges.panel(columns, gold=human(truth, 60)).judges_frame().to_pylist()[0]
    for name in ("true_positive_rate", "true_negative_rate"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    for name, value in row.items():
        if isinstance(value, float) and not name.endswith(("low", "high", "error")):
            assert {f"{name}_low", f"{name}_error", "low"} & set(row), name


def test_a_judge_that_favors_its_own_family_is_found() -> None:
    rng = np.random.default_rng(14)
    rows = []
    for task in range(300):
        for system in ("gpt-5", "claude-4"):
            good = rng.random() < 0.5
            for judge in ("gpt-4o", "claude-3", "llama-3"):
                lift = 0.35 if judge == "gpt-4o" and system == "gpt-5" else 0.0
                rows.append((task, system, judge, int(rng.random() < (0.75 if good else 0.25) + lift * (not good))))
    task, system, judge, reply = (list(column) for column in zip(*rows, strict=True))
    panel = mh.judges.panel({"task": task, "system": system, "judge": judge, "label": reply})
    outcome = {row["judge"]: row for row in panel.biases().to_pylist() if row["bias"] == "own family"}
    assert outcome["gpt-4o"]["found"]
    assert outcome["gpt-4o"]["effect"] > 0.1
    assert not outcome["llama-3"]["found"]
    assert panel.judges_frame().column("family").to_pylist() == ["anthropic", "openai", "meta"]


def test_failures_are_counted_and_located() -> None:
    columns, truth = log(200, seed=15)
    for row, (task, judge) in enumerate(zip(columns["task"], columns["judge"], strict=True)):
        if judge == "j2" and truth[task] and task % 2:
            columns["verdict"][row] = "error" if task % 4 == 1 else None
    panel = mh.judges.panel(columns, gold=human(truth, 80))
    rows = panel.failures().to_pylist()
    everywhere = {row["judge"]: row["n_failed"] for row in rows if row["where"] == "everywhere"}
    assert everywhere["j2"] == panel.n_failed > 20
    assert everywhere["j0"] == 0
    where = {row["where"]: row["share"] for row in rows if row["judge"] == "j2"}
    assert where["human label fail"] == 0 < 0.3 < where["human label pass"]
    assert all(row["share"] == row["n_failed"] / row["n"] for row in rows)


def test_drift_is_found() -> None:
    columns, _ = log(500, seed=16, share=0.5)
    columns["time"] = [f"2026-{1 + t // 50:02d}-01" for t in columns["task"]]
    for row, (task, judge) in enumerate(zip(columns["task"], columns["judge"], strict=True)):
        if judge == "j3" and task >= 250:
            columns["verdict"][row] = "pass"
    rows = mh.judges.panel(columns).drift().to_pylist()
    assert [row["judge"] for row in rows if row["found"]] == ["j3"]
    with pytest.raises(ValueError, match="time"):
        mh.judges.panel(log(50)[0]).drift()


# --------------------------------------------------------------------------------------------------------- bad input


def test_without_gold_the_rest_is_stated() -> None:
    columns, _ = log(100)
    panel = mh.judges.panel(columns)
    for ask in (lambda: panel.score, panel.scores, lambda: panel.soft_labels_):
        with pytest.raises(ValueError, match="gold="):
            ask()
    assert panel.effective_judges.low == 1
    assert not panel.effective_judges.measured
    assert panel.judges_frame().column("accuracy").null_count == 5
    assert len(panel.next_labels(20)) == 20
    assert panel.to_dict()["scores"] is None


def test_gold_for_unknown_items() -> None:
    columns, truth = log(60)
    with pytest.raises(ValueError, match="999"):
        mh.judges.panel(columns, gold={999: "pass"})
    with pytest.warns(UserWarning, match="999"):
        panel = mh.judges.panel(columns, gold=human(truth, 30) | {999: "pass"})
    assert panel.n_gold == 30


def test_one_judge_and_judges_that_are_alike() -> None:
    columns, truth = log(100, judges=1)
    with pytest.warns(UserWarning, match="one judge"):
        panel = mh.judges.panel(columns, gold=human(truth, 40))
    assert panel.effective_judges is None
    assert panel.score.low < truth.mean() < panel.score.high
    same = {name: columns[name] * 3 for name in columns}
    same["judge"] = [f"j{place // 100}" for place in range(300)]
    with pytest.warns(UserWarning, match="same verdict"):
        panel = mh.judges.panel(same, gold=human(truth, 40))
    assert panel.effective_judges.estimate == pytest.approx(1, abs=1e-6)
    right = {name: list(column) for name, column in same.items()}
    right["verdict"] = ["pass" if truth[task] else "fail" for task in same["task"]]
    with pytest.warns(UserWarning, match="same verdict"):
        panel = mh.judges.panel(right, gold=human(truth, 40))
    # They are never wrong, so errors do not show it: one opinion all the same.
    assert panel.effective_judges.high == 1


def test_strata_without_human_labels_are_named() -> None:
    columns, truth = log(90, seed=3)
    columns["stratum"] = ["abc"[task % 3] for task in columns["task"]]
    gold = {task: "pass" if truth[task] else "fail" for task in range(60) if task % 3 != 2}
    with pytest.warns(UserWarning, match=r"1 stratum without a human label \(30 items\)"):
        panel = mh.judges.panel(columns, gold=gold)
    assert panel.score.low < panel.score.high
    assert not [remark for remark in mh.judges.panel(columns).warnings if "stratum" in remark]


def test_a_judge_that_failed_everywhere() -> None:
    columns, truth = log(80, seed=2)
    columns["verdict"] = [
        None if judge == "j4" else reply for judge, reply in zip(columns["judge"], columns["verdict"], strict=True)
    ]
    with pytest.warns(UserWarning, match="j4"):
        panel = mh.judges.panel(columns, gold=human(truth, 40))
    assert math.isfinite(panel.score.estimate)
    assert panel.judges_frame().to_pylist()[4]["n_verdicts"] == 0
    assert panel.effective_judges.n == 4
    with pytest.warns(UserWarning, match="j4"):
        assert mh.judges.panel(columns).effective_judges.n == 4
    columns["verdict"] = [None] * len(columns["task"])
    with pytest.raises(ValueError, match="no verdict"):
        mh.judges.panel(columns)


@pytest.mark.parametrize(
    ("change", "settings", "match"),
    [
        ({"score": [1, 2, 11]}, {"scale": (0, 10)}, "11"),
        ({"score": ["1", "2", "good"]}, {"kind": "numeric"}, "good"),
        ({"label": ["red", "blue", "red"]}, {}, "positive"),
        ({"label": ["red", "blue", "red"]}, {"positive": "green"}, "green"),
        ({"label": ["red", "blue", "red"]}, {"values": {"red": 1}}, "blue"),
        ({"label": ["pass", "fail", "pass"]}, {"judge": "grader"}, "grader"),
        ({"label": ["pass", "fail", "pass"]}, {"kind": "words"}, "words"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": {"a": "pass", "b": None, "c": "maybe"}}, "maybe"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": pa.table({"task": ["a", "a"], "label": ["pass"] * 2})}, "'a'"),
        ({"label": ["pass", "fail", "pass"], "system": ["x", "y", "x"]}, {"gold": {"a": "pass"}}, "system"),
        ({"text": ["pass", "fail", "pass"]}, {}, "verdict"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": {"a": "good", "b": "bad"}}, "good"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": {}}, "empty"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": pa.table({"task": [], "label": []})}, "empty"),
        ({"label": ["pass", "fail", "pass"]}, {"gold": {"a": None, "b": ""}}, "2 rows and no label"),
        ({"label": ["pass", "0.5", "pass"]}, {}, "mix numbers, such as '0.5', and texts, such as 'pass'"),
    ],
)
def test_bad_input_is_named(change: dict, settings: dict, match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        mh.judges.panel({"task": ["a", "b", "c"], "judge": ["x", "y", "x"]} | change, **settings)


def test_mixed_scales_and_repeats_are_remarked() -> None:
    rng = np.random.default_rng(3)
    task = np.tile(np.arange(30), 2)
    score = np.r_[rng.uniform(1, 5, 30), rng.uniform(10, 100, 30)]
    with pytest.warns(UserWarning, match="several scales"):
        mh.judges.panel({"task": task, "judge": np.repeat(["x", "y"], 30), "score": score})
    truth, noise = rng.uniform(1, 5, 60), rng.normal(0, 0.5, (3, 60))
    scores = {"x": truth + noise[0], "y": 20 * (truth + noise[1]), "z": truth + noise[2]}
    with pytest.warns(UserWarning, match="several scales"):
        panel = mh.judges.panel({name: dict(enumerate(each)) for name, each in scores.items()})
    # No judge counts for more because its numbers are larger, and none has an error in units that are not its own.
    value = panel.fused_frame()["value"].to_numpy()
    assert np.corrcoef(value, truth)[0, 1] > max(np.corrcoef(each, truth)[0, 1] for each in scores.values())
    with pytest.warns(UserWarning, match="several scales"):
        panel = mh.judges.panel(
            {name: dict(enumerate(each)) for name, each in scores.items()}, gold=dict(enumerate(truth[:30]))
        )
    assert all(row["bias"] is None and row["error"] is None for row in panel.judges_frame().to_pylist())
    columns, _ = log(30)
    twice = {name: column + column[:7] for name, column in columns.items()}
    with pytest.warns(UserWarning, match="7 verdicts"):
        mh.judges.panel(twice)


def test_repeated_verdicts_are_not_further_items() -> None:
    columns, truth = log(120, seed=4)
    gold = human(truth, 50)
    once = mh.judges.panel(columns, gold=gold).judges_frame().to_pylist()[0]
    twice = {name: column * 4 for name, column in columns.items()}
    with pytest.warns(UserWarning, match="repeat"):
        row = mh.judges.panel(twice, gold=gold).judges_frame().to_pylist()[0]
    assert row["n_gold"] == once["n_gold"] == 50
    assert row["accuracy"] == once["accuracy"]
    for name in ("bias_low", "bias_high"):
        assert row[name] == pytest.approx(once[name])
    assert (row["low"], row["high"]) == pytest.approx(wilson(once["accuracy"], 50))


@pytest.mark.parametrize("t", [-3.0, 0.0, 0.7, 2.1, 40.0])
@pytest.mark.parametrize("freedom", [1, 4, 29, 500])
def test_the_tail_of_student(t: float, freedom: float) -> None:
    from scipy.stats import t as student

    assert student_tail(t, freedom) == pytest.approx(student.sf(t, freedom), rel=1e-9, abs=1e-15)
