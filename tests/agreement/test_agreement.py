"""Agreement: brute force, invariants, intervals, and what is undefined or refused."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.agreement import (
    Agreement,
    agreement_ratio,
    by_class,
    by_task,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    gwet_ac2,
    krippendorff_alpha,
    pairwise,
    scott_pi,
)
from manyhands.cli import main
from oracles import agreement as plain
from oracles.em import Rows

#: The simulation whose figures docs/agreement.md has.
_SPEC = importlib.util.spec_from_file_location(
    "agreement_coverage", Path(__file__).parents[2] / "benches" / "agreement_coverage.py"
)


agreement_coverage = importlib.util.module_from_spec(_SPEC)


_SPEC.loader.exec_module(agreement_coverage)


#: Sums in another order.
SAME = 1e-10


def simulated(seed: int = 0, n_tasks: int = 300) -> mh.Annotations:
    return mh.simulate(n_tasks, 8, 3, labels_per_task=3, seed=seed).log


# ----------------------------------------------------------------------------------------------- brute force


@st.composite
def logs(draw: st.DrawFn) -> mh.Annotations:
    """Small logs, ragged, with repeats; numbers as classes, some unused."""
    n_tasks, n_workers, n_classes = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    row = st.tuples(st.integers(0, n_tasks - 1), st.integers(0, n_workers - 1), st.integers(0, n_classes - 1))
    rows = np.array(draw(st.lists(row, min_size=1, max_size=25)))
    numbers = np.array([0.0, 1.0, 2.5, 7.0])[:n_classes]
    return mh.Annotations.from_arrays(rows[:, 0], rows[:, 1], numbers[rows[:, 2]], classes=numbers)


def near(found: Agreement, wanted: float) -> None:
    assert np.isnan(found.value) == np.isnan(wanted), (found, wanted)
    assert np.isnan(wanted) or found.value == pytest.approx(wanted, abs=1e-8)
    assert bool(found.reason) == bool(np.isnan(found.value))


@given(votes=logs())
@settings(max_examples=80)
def test_coefficients_of_labels_match_brute_force(votes):
    tasks, k = plain.labels_by_task(Rows.of(votes)), votes.n_classes
    ranks, numbers = np.arange(k), votes.classes
    near(krippendorff_alpha(votes), plain.alpha(tasks, "nominal", ranks))
    near(krippendorff_alpha(votes, level="interval"), plain.alpha(tasks, "quadratic", numbers))
    near(krippendorff_alpha(votes, level="ratio"), plain.alpha(tasks, "ratio", numbers))
    near(krippendorff_alpha(votes, level="ordinal"), plain.ordinal_alpha(tasks, k))
    for weights in (None, "linear", "quadratic"):
        near(fleiss_kappa(votes, weights=weights), plain.fleiss(tasks, weights or "nominal", ranks))
        ac = gwet_ac1(votes) if weights is None else gwet_ac2(votes, weights=weights)
        near(ac, plain.gwet(tasks, weights or "nominal", ranks))


@given(votes=logs())
@settings(max_examples=80)
def test_classes_and_tasks_match_brute_force(votes):
    tasks = plain.labels_by_task(Rows.of(votes))
    rows = by_class(votes).to_pylist()
    assert [row["class"] for row in rows] == votes.classes.tolist()
    for place, row in enumerate(rows):
        wanted = plain.one_class(tasks, place)
        named = wanted.pop("confused_with")
        assert row["confused_with"] == (None if named is None else votes.classes[named])
        for name, value in wanted.items():
            assert (row[name] is None) == bool(np.isnan(value)), name
            assert row[name] is None or row[name] == pytest.approx(value, abs=1e-9), name
    for row, said in zip(by_task(votes).to_pylist(), tasks, strict=True):
        shares = np.array([said.count(label) for label in set(said)]) / len(said)
        equal = [a == b for a, b in combinations(said, 2)]
        assert (row["n_answers"], row["n_distinct"]) == (len(said), len(set(said)))
        assert row["agreement"] == (pytest.approx(np.mean(equal)) if equal else None)
        assert row["entropy"] == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-12)


def test_abstentions_are_missing_in_parts():
    votes = mh.Annotations.from_dense([["a", "a", "?"], ["b", "?", "?"], ["a", "b", "b"]], abstain="?")
    assert by_task(votes).column("n_answers").to_pylist() == [2, 1, 3]
    assert by_class(votes).column("n_answers").to_pylist() == [3, 3]
    assert by_class(votes).column("kappa").to_pylist()[0] == pytest.approx(fleiss_kappa(votes).value)  # of two classes


@given(votes=logs(), weights=st.sampled_from([None, "linear", "quadratic"]), min_overlap=st.integers(1, 3))
@settings(max_examples=80)
def test_coefficients_of_workers_match_brute_force(votes, weights, min_overlap):
    met = {pair: said for pair, said in plain.meetings(Rows.of(votes)).items() if len(said) >= min_overlap}
    for coefficient, measure in (("cohen", cohen_kappa), ("scott", scott_pi)):
        wanted = [
            plain.kappa(met[pair], weights or "nominal", np.arange(votes.n_classes), shared=coefficient == "scott")
            for pair in sorted(met)
        ]
        table = pairwise(votes, coefficient=coefficient, weights=weights, min_overlap=min_overlap)
        np.testing.assert_allclose(table.column("agreement").to_numpy(), wanted, atol=1e-8)
        assert table.column("overlap").to_pylist() == [len(met[pair]) for pair in sorted(met)]
        options = {"weights": weights, "min_overlap": min_overlap}
        for average in ("overlap", "even"):
            pooled = plain.pooled_kappa(
                list(met.values()),
                weights or "nominal",
                np.arange(votes.n_classes),
                shared=coefficient == "scott",
                even=average == "even",
            )
            near(measure(votes, average=average, **options), pooled)
        for pair in met:
            by_name = tuple(votes.workers[list(pair)])
            near(measure(votes, by_name, weights=weights), wanted[sorted(met).index(pair)])


@given(votes=logs(), weights=st.sampled_from([None, "quadratic"]), corrected=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_ratios_match_brute_force(votes, weights, corrected, seed):
    answers = np.random.default_rng(seed).integers(0, votes.n_classes, votes.n_tasks)
    rows, model = Rows.of(votes), votes.n_workers
    rows = replace(
        rows,
        tasks=np.append(rows.tasks, range(votes.n_tasks)),
        workers=np.append(rows.workers, np.full(votes.n_tasks, model)),
        labels=np.append(rows.labels, answers),
    )
    parts: tuple[list[float], list[float]] = ([], [])
    ranks = np.arange(votes.n_classes)
    for pair, met in plain.meetings(rows).items():
        if not np.isnan(plain.kappa(met, weights or "nominal", ranks)):
            kappa = plain.kappa(met, weights or "nominal", ranks)
            published = 1 / (1 + np.exp(-kappa))
            squashed = plain.squashed_kappa(met, weights or "nominal", ranks) if corrected else published
            parts[model in pair].append(squashed)
    wanted = np.mean(parts[1]) / np.mean(parts[0]) if all(parts) else np.nan
    options = {"weights": weights, "corrected": corrected, "min_overlap": 1}
    near(agreement_ratio(votes, votes.classes[answers], **options), wanted)


# ------------------------------------------------------------------------------------------------ invariants


def all_of(votes: mh.Annotations, **options) -> dict[str, Agreement]:
    return {
        "alpha": krippendorff_alpha(votes, **options),
        "ordinal": krippendorff_alpha(votes, level="ordinal", **options),
        "fleiss": fleiss_kappa(votes, **options),
        "quadratic": fleiss_kappa(votes, weights="quadratic", **options),
        "ac1": gwet_ac1(votes, **options),
        "cohen": cohen_kappa(votes, min_overlap=1, **options),
        "scott": scott_pi(votes, average="even", min_overlap=1, **options),
        "ratio": agreement_ratio(votes, mh.MajorityVote().fit(votes).labels_, min_overlap=1, **options),
    }


@given(seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_names_of_tasks_and_workers_do_not_matter(seed):
    votes = simulated(seed % 7, 60)
    tasks, workers, labels = votes.codes()
    rng = np.random.default_rng(seed)
    moved = all_of(mh.Annotations.from_arrays(rng.permutation(60)[tasks], rng.permutation(8)[workers], labels))
    for name, found in all_of(votes).items():
        assert moved[name].value == pytest.approx(found.value, abs=1e-9), name


def test_perfect_agreement_is_one_and_chance_is_nought():
    truth = np.arange(400) % 3
    agreed = mh.Annotations.from_dense(np.repeat(truth[:, None], 4, axis=1))
    assert all(found.value == pytest.approx(1.0) for found in all_of(agreed).values())
    guessed = mh.Annotations.from_dense(np.random.default_rng(0).integers(0, 3, (4000, 4)))
    for name, found in all_of(guessed).items():
        if name != "ratio":  # the majority is made of the same votes
            assert abs(found.value) < 0.03, name


def test_alpha_grows_with_skill():
    values = [krippendorff_alpha(noisy(p)).value for p in (0.5, 0.7, 0.9)]
    assert values == sorted(values)
    # Right with probability p, else one of two others: alpha estimates the squared correlation ((3p - 1) / 2)².
    np.testing.assert_allclose(values, [((3 * p - 1) / 2) ** 2 for p in (0.5, 0.7, 0.9)], atol=0.03)


def noisy(p: float) -> mh.Annotations:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, (3000, 1))
    wrong = rng.random((3000, 4)) > p
    return mh.Annotations.from_dense(np.where(wrong, (truth + rng.integers(1, 3, (3000, 4))) % 3, truth))


# ------------------------------------------------------------------------------------------------- intervals


class TestIntervals:
    def test_seeded_and_the_same_on_any_number_of_threads(self):
        votes = simulated()
        before = mh.get_num_threads()
        try:
            found = []
            for n_threads in (1, 3):
                mh.set_num_threads(n_threads)
                found.append(all_of(votes, resamples=40, seed=3))
        finally:
            mh.set_num_threads(before)
        assert found[0] == found[1]
        assert all_of(votes, resamples=40, seed=4) != found[0]

    def test_the_seed_is_zero_unless_chosen(self):
        votes = simulated()
        assert all_of(votes, resamples=40) == all_of(votes, resamples=40, seed=0)

    def test_none_unless_asked_for(self):
        found = krippendorff_alpha(simulated())
        assert found.interval is None
        assert found.confidence is None

    def test_holds_the_value_and_widens_with_confidence(self):
        votes = simulated()
        for name, narrow in all_of(votes, resamples=300, confidence=0.5).items():
            wide = all_of(votes, resamples=300, confidence=0.99)[name]
            assert wide.interval[0] < narrow.interval[0] < narrow.value < narrow.interval[1] < wide.interval[1], name

    @pytest.mark.parametrize(("n_tasks", "n_workers"), [(3000, 50), (2000, 200)])
    def test_hold_the_value_where_workers_share_few_tasks(self, n_tasks, n_workers):
        """Where a bootstrap over tasks has an interval that lies beside the value."""
        votes = mh.simulate(n_tasks, n_workers, 4, labels_per_task=5, seed=0).log
        for measure in (cohen_kappa, scott_pi):
            for weights in (None, "quadratic"):
                found = measure(votes, weights=weights, resamples=20)
                low, high = found.interval
                assert low < found.value < high
                assert found.value - low == pytest.approx(high - found.value, rel=0.1)

    def test_the_average_over_pairs_does_not_depend_on_how_many_tasks_they_share(self):
        """Workers of equal skill on few common tasks, where the plain mean of the kappas of pairs is far too low."""
        confusion = np.full((30, 3, 3), 0.075) + 0.775 * np.eye(3)
        long, short = (
            mh.simulate(n_tasks, confusion=confusion, prior=[0.5, 0.3, 0.2], labels_per_task=4, seed=3).log
            for n_tasks in (20_000, 400)
        )
        for measure in (cohen_kappa, scott_pi):
            found = measure(short, resamples=50)
            assert found.interval[0] < measure(long).value < found.interval[1]
            plain_mean = np.nanmean(pairwise(short, coefficient=found_name(measure)).column("agreement").to_numpy())
            assert plain_mean < found.interval[0]

    def test_cover_what_they_should(self):
        """Of 50 intervals at 90 %, at least 37 hold what the same workers would come to on endlessly many tasks.

        Of right intervals fewer do in one case of 3,500, and all coefficients share the 50 logs. A bootstrap over tasks
        has none for Scott's pi.
        """
        found = agreement_coverage.coverage(50, 50, 8, n_tasks=1_000, confidence=0.9)
        few = {name: share for name, (_, _, share, _) in found.items() if 50 * share < 37}
        assert not few
        # Nor do they hold it by being wide.
        assert np.mean([share for _, _, share, _ in found.values()]) < 0.97

    def test_is_students_interval_of_a_mean_where_the_coefficient_is_one(self):
        """Classes are even, so that chance does not vary and pi is linear in the share of tasks at odds."""
        rng = np.random.default_rng(0)
        odd = rng.random(200) < 0.3
        votes = mh.Annotations.from_dense([row for one in odd for row in ([[0, one], [1, not one]])])
        found = scott_pi(votes, (0, 1), resamples=400, confidence=0.9)
        error = np.std(np.repeat(odd, 2), ddof=1) / np.sqrt(400) / 0.5
        assert found.value == pytest.approx(1 - odd.mean() / 0.5)
        width = 1.6487 * error / (1 - found.value)  # Student's quantile at 399 degrees of freedom
        ends = 1 - (1 - found.value) * np.exp([width, -width])
        np.testing.assert_allclose(found.interval, ends, rtol=0.01)

    def test_groups_of_uneven_size_count_by_their_size(self):
        """100 groups of 150 tasks: some of two, some of one, and on average the error of 150 groups of one."""
        votes = simulated(0, 150)
        single = krippendorff_alpha(votes, resamples=150).interval
        grouped = [krippendorff_alpha(votes, resamples=100, seed=seed).interval for seed in range(40)]
        assert np.ptp(np.mean(grouped, axis=0)) == pytest.approx(np.ptp(single), rel=0.05)
        assert krippendorff_alpha(votes, resamples=10**6).interval == pytest.approx(single, rel=1e-9)

    def test_perfect_agreement_is_not_certain(self):
        """Of 100 tasks without disagreement, up to 3.6 % may have some: 97.5 % of samples would show one then."""
        votes = mh.Annotations.from_dense(np.repeat(np.arange(100)[:, None] % 2, 2, axis=1))
        missed = 1 - 0.025**0.01
        for found in (fleiss_kappa(votes, resamples=10), scott_pi(votes, (0, 1), resamples=10)):
            assert found.value == 1.0
            np.testing.assert_allclose(found.interval, (1 - missed / 0.5, 1.0), atol=1e-9)
        for name, found in all_of(votes, resamples=10).items():
            assert name == "ratio" or found.interval[0] < 0.97, name
            assert name == "ratio" or found.interval[1] == 1.0, name

    def test_too_few_tasks_for_an_interval_say_so(self):
        votes = mh.Annotations.from_dense([[0, 0], [1, 0]])
        found = cohen_kappa(votes, (0, 1), resamples=10)
        assert found.value == 0.0
        assert found.interval is None
        assert "too few tasks for an interval" in found.reason
        assert found.to_dict()["interval"] is None

    @given(votes=logs(), resamples=st.integers(2, 30), confidence=st.floats(0.01, 0.999), seed=st.integers(0, 9))
    @settings(max_examples=80)
    def test_always_holds_the_value_and_is_finite(self, votes, resamples, confidence, seed):
        for name, found in all_of(votes, resamples=resamples, confidence=confidence, seed=seed).items():
            if found.interval is None:
                assert found.reason, name
                continue
            assert found.interval[0] <= found.value <= found.interval[1], name
            assert np.isfinite(found.interval).all(), name
            assert found.interval[1] <= 1 or name == "ratio", name


def found_name(measure) -> str:
    return {cohen_kappa: "cohen", scott_pi: "scott"}[measure]


# ------------------------------------------------------------------------------------ undefined, and errors


class TestUndefined:
    def test_one_label_a_task(self):
        votes = mh.Annotations.from_arrays([1, 2, 3], ["a", "b", "a"], [0, 1, 1])
        for name, found in all_of(votes, resamples=5).items():
            assert np.isnan(found.value), name
            assert found.n_tasks == (0 if name != "ratio" else 3), name
            assert found.interval is None
            assert found.to_dict()["value"] is None
        assert krippendorff_alpha(votes).reason == "no task has two labels"
        assert cohen_kappa(votes).reason == "no two workers share 2 tasks (min_overlap)"

    def test_one_class(self):
        votes = mh.Annotations.from_dense(np.zeros((3, 2), int))
        for found in all_of(votes).values():
            assert np.isnan(found.value)
            assert "are equal" in found.reason
        # Where there is a choice, agreement on one class is agreement to Gwet alone.
        with_choice = mh.Annotations.from_dense(np.zeros((3, 2), int), classes=[0, 1])
        assert gwet_ac1(with_choice).value == 1.0
        assert np.isnan(fleiss_kappa(with_choice).value)

    def test_pairs_that_cannot_disagree(self):
        votes = mh.Annotations.from_dense([[0, 0, 0], [0, 0, 1], [-1, -1, 1]])
        assert np.isnan(pairwise(votes, min_overlap=2).column("agreement").to_numpy()).tolist() == [True, False, False]
        # The first two, who always say 0, cannot disagree; with the third they do on one of two tasks, as by chance.
        found = cohen_kappa(votes, average="even", min_overlap=2)
        assert (found.n_pairs, found.value) == (3, 0.0)

    def test_value_as_a_number(self):
        found = krippendorff_alpha(simulated())
        assert float(found) == found.value


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda v: krippendorff_alpha(v, level="numeric"), "level.*'nominal'"),
            (lambda v: fleiss_kappa(v, weights="cubic"), "weights.*'linear'.*'quadratic'"),
            (lambda v: gwet_ac2(v, weights=None), "gwet_ac1"),
            (lambda v: cohen_kappa(v, average="best"), "average"),
            (lambda v: cohen_kappa(v, (1,)), "workers"),
            (lambda v: cohen_kappa(v, (1, 1)), "workers"),
            (lambda v: cohen_kappa(v, min_overlap=0), "min_overlap.*1"),
            (lambda v: krippendorff_alpha(v, resamples=-1), "resamples.*0"),
            (lambda v: krippendorff_alpha(v, resamples=1), "resamples.*0.*2"),
            (lambda v: cohen_kappa(v, (0, 1), min_overlap=0), "min_overlap.*1"),
            (lambda v: krippendorff_alpha(v, resamples=5, confidence=95), "0.*1,.*0.95"),
            (lambda v: agreement_ratio(v, [0, 1]), "2 labels for 300 tasks"),
            (lambda v: agreement_ratio(v, {0: 9}), "9,"),
            (lambda v: pairwise(v, coefficient="fleiss"), "coefficient"),
        ],
    )
    def test_bad_arguments(self, call, message):
        with pytest.raises(ValueError, match=message):
            call(simulated())

    @pytest.mark.parametrize("setting", [{"resamples": 2.5}, {"resamples": 5, "seed": 1.5}])
    def test_counts_are_whole(self, setting: dict[str, float]) -> None:
        votes = mh.Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], list("abab"))
        with pytest.raises(TypeError, match="number"):
            krippendorff_alpha(votes, **setting)

    def test_classes_that_are_not_numbers(self):
        votes = mh.Annotations.from_dense([["a", "b"]], missing="")
        with pytest.raises(TypeError, match=r"level='interval'.*'a'"):
            krippendorff_alpha(votes, level="interval")
        below = mh.Annotations.from_arrays([1, 1], [1, 2], [-1.0, 2.0])
        with pytest.raises(ValueError, match="0, not -1"):
            krippendorff_alpha(below, level="ratio")

    def test_unknown_worker(self):
        with pytest.raises(KeyError, match="'nobody'"):
            cohen_kappa(mh.Annotations.from_arrays([1, 1], ["a", "b"], [0, 1]), ("a", "nobody"))


class TestWeights:
    def test_confidences_are_left_aside_with_a_warning(self):
        votes = simulated()
        tasks, workers, labels = votes.codes()
        sure = np.random.default_rng(0).uniform(0.5, 1, len(tasks))
        unsure = mh.Annotations.from_arrays(tasks, workers, labels, confidence=sure)
        assert unsure.weights is not None
        for measure in (krippendorff_alpha, fleiss_kappa, gwet_ac1, cohen_kappa, scott_pi):
            with pytest.warns(mh.errors.DataWarning, match="confidences"):
                found = measure(unsure, resamples=10)
            assert found == measure(votes, resamples=10)

    def test_an_answer_in_fractions_is_its_most_probable_label(self):
        judged = {"task": [1, 1, 2, 2], "worker": list("abab"), "x": [0.5, 0.6, 0.1, 0.2], "y": [0.3, 0.1, 0.6, 0.7]}
        judged["z"] = [0.2, 0.3, 0.3, 0.1]
        votes = mh.Annotations.from_soft(judged, ["x", "y", "z"])
        assert votes.n_annotations > 4
        with pytest.warns(mh.errors.DataWarning, match="weight"):
            found = krippendorff_alpha(votes)
        assert (found.value, found.n_tasks, found.n_pairs) == (1.0, 2, 2)

    def test_no_warning_without_weights(self):
        krippendorff_alpha(simulated())  # warnings are errors


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_confidences_are_left_aside_with_one_warning(self, capsys):
        votes = simulated()
        tasks, workers, labels = votes.codes()
        sure = np.random.default_rng(0).uniform(0.5, 1, len(tasks)).round(3)
        rows = [f"{t},{w},c{y},{s}" for t, w, y, s in zip(tasks, workers, labels, sure, strict=True)]
        Path("log.csv").write_text("task,worker,label,sure\n" + "\n".join(rows))
        assert main(["agreement", "log.csv", "--columns", "confidence=sure", "--resamples", "20"]) in (0, None)
        found = capsys.readouterr()
        assert f"{krippendorff_alpha(votes).value:.3f}" in found.out
        assert found.err.count("ignores weights and confidences") == 1

    def test_intervals_lie_around_their_values(self, capsys):
        """The commands of the README, on a smaller log of the same make: two workers share ten tasks."""
        simulate = "simulate --tasks 1200 --workers 50 --classes 4 --seed 0 -o log.parquet"
        assert main(simulate.split()) in (0, None)
        capsys.readouterr()
        assert main(["agreement", "log.parquet", "--resamples", "50", "--json"]) in (0, None)
        measures = json.loads(capsys.readouterr().out)["agreement"]
        assert len(measures) == 5
        for name, found in measures.items():
            low, high = found["interval"]
            assert low < found["value"] < high, name

    def test_an_interval_that_cannot_be_had_leaves_its_place_empty(self, capsys):
        Path("log.csv").write_text("task,worker,label\n1,a,x\n1,b,x\n2,a,y\n2,b,x\n")
        assert main(["agreement", "log.csv", "--resamples", "10"]) in (0, None)
        out = capsys.readouterr().out
        assert "too few tasks for an interval" in out
        assert len({len(line.split()) for line in out.splitlines() if line.strip().startswith(("cohen", "gwet"))}) == 1


def test_any_frame_will_do():
    import pandas as pd

    votes = simulated()
    frame = pd.DataFrame(dict(zip(("task", "worker", "label"), votes.codes(), strict=True)))
    assert krippendorff_alpha(frame).value == krippendorff_alpha(votes).value


@given(votes=logs())
@settings(max_examples=30)
def test_nothing_exceeds_one(votes):
    for name, found in all_of(votes).items():
        assert np.isnan(found.value) or found.value <= 1 + SAME or name == "ratio"
