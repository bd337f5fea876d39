"""Skills from agreement and messages: kernels against their twins, recovery of the truth, and what is said in doubt."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from oracles import moments, skills
from oracles.em import Rows

#: Compiled code and NumPy differ by the order of sums, and iterations pass that on.
PARITY = 1e-9
#: Fits to exact products, after convergence to 1e-13.
EXACT = 1e-9

ONE_COIN = [
    mh.moments.OneCoinSpectral(),
    mh.moments.OneCoinSpectral(method="ratio"),
    mh.moments.OneCoinGradient(),
    mh.moments.MMSR(),
    mh.moments.MMSR(trim=0.2),
    mh.moments.MMSR(method="medians"),
]
KERNELS = ("spectral", "gradient", "ratio", "msr")


def run(module, name: str, n: int, pairs, values, weights, *, trim=None, **stop):
    """One of the kernels, in the core or among the twins, under one name for all."""
    if name == "ratio":
        stop["components"] = moments.components(n, pairs).astype(np.uint32)
    elif name == "msr":
        stop["trim"] = np.ones(n, np.uint32) if trim is None else trim
    return module.rank_one_fit(n, pairs, values, weights, method=name, **stop)


def all_pairs(n: int) -> np.ndarray:
    return np.array([(i, j) for i in range(n) for j in range(i + 1, n)], np.uint32).reshape(-1, 2)


def table(tasks, workers, labels, weights=None) -> mh.Annotations:
    """Annotations from codes, all sizes as they occur."""
    sizes = (int(max(codes)) + 1 for codes in (tasks, workers, labels))
    named = dict(zip(("n_tasks", "n_workers", "n_classes"), sizes, strict=True))
    return mh.Annotations.from_codes(tasks, workers, labels, weights=weights, **named)


@st.composite
def agreements(draw: st.DrawFn):
    """A sparse symmetric matrix near rank one."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = all_pairs(n)
    pairs = pairs[rng.random(len(pairs)) < draw(st.sampled_from([0.3, 0.7, 1.0]))]
    truth = rng.uniform(-0.4, 1.0, n)
    noise = draw(st.sampled_from([0.0, 0.05, 0.5])) * rng.standard_normal(len(pairs))
    values = np.clip(truth[pairs].prod(axis=1) + noise, -1, 1)
    trim = rng.integers(0, 3, n).astype(np.uint32)
    return n, np.ascontiguousarray(pairs), values, rng.uniform(0.5, 20.0, len(pairs)), trim


class TestKernels:
    @pytest.mark.parametrize("name", KERNELS)
    @settings(max_examples=40)
    @given(problem=agreements())
    def test_match_their_twins(self, name: str, problem) -> None:
        *given_, trim = problem
        found = run(_core, name, *given_, trim=trim, max_iter=6, tol=0.0)
        wanted = run(skills, name, *given_, trim=trim, max_iter=6, tol=0.0)
        np.testing.assert_allclose(found["vector"], wanted.vector, atol=PARITY, rtol=PARITY)
        np.testing.assert_allclose(found["history"], wanted.history, atol=PARITY, rtol=PARITY)
        assert (found["n_iter"], found["converged"]) == (wanted.n_iter, wanted.converged)

    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("truth", [[0.9, 0.8, 0.3, 0.6, 0.7, 0.5], [0.9, -0.8, 0.3, 0.6, -0.2, 0.9]])
    def test_recover_exact_products(self, name: str, truth: list[float]) -> None:
        x, pairs = np.array(truth), all_pairs(6)
        weights = np.full(15, 3.0) if name == "ratio" else np.arange(1.0, 16.0)
        found = run(_core, name, 6, pairs, x[pairs].prod(axis=1), weights, max_iter=20_000, tol=1e-13)
        assert found["converged"]
        np.testing.assert_allclose(found["vector"], x, atol=EXACT)

    def test_a_sparse_graph_with_an_odd_cycle_is_enough(self) -> None:
        x = np.array([0.9, 0.5, 0.7, 0.8, 0.4])
        pairs = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [3, 4]], np.uint32)
        for name in ("spectral", "gradient", "msr"):
            trim = np.zeros(5, np.uint32)
            found = run(_core, name, 5, pairs, x[pairs].prod(axis=1), np.ones(5), trim=trim, max_iter=50_000, tol=1e-13)
            np.testing.assert_allclose(found["vector"], x, atol=1e-7, err_msg=name)

    @settings(max_examples=30)
    @given(problem=agreements())
    def test_the_objective_never_falls_and_fits_agree(self, problem) -> None:
        *given_, _ = problem
        fits = [run(_core, name, *given_, max_iter=300, tol=0.0) for name in ("spectral", "gradient")]
        for fit in fits:
            assert np.isfinite(fit["vector"]).all()
            assert (np.diff(fit["history"]) >= -1e-13).all()
        assert np.abs(fits[1]["vector"]).max() <= 1.0

    def test_few_liars_cannot_move_a_reduced_mean(self) -> None:
        """Worker 5 claims anything: with one neighbour set aside on either side the others stay in their range."""
        x, pairs = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.5]), all_pairs(6)
        for claim in (-1.0, 0.0, 1.0):
            values = np.where((pairs == 5).any(axis=1), claim, x[pairs].prod(axis=1))
            found = run(_core, "msr", 6, pairs, values, np.ones(15), max_iter=2000, tol=1e-10)
            np.testing.assert_allclose(np.abs(found["vector"][:5]), x[:5], atol=0.02)

    @pytest.mark.parametrize("model", [*ONE_COIN, mh.moments.SpectralMetaLearner()], ids=str)
    @pytest.mark.parametrize("order", [(3, 1, 2, 0), (1, 0, 3, 2), (2, 3, 0, 1)], ids=str)
    def test_no_order_of_workers_decides_what_is_balanced(self, model, order: tuple[int, ...]) -> None:
        """Workers 0 and 2 against 1 and 3, as often right as wrong: rounding once chose who is skilled."""
        tasks, workers, labels = np.array([(0, 0, 0), (0, 1, 1), (0, 2, 0), (0, 3, 1), (1, 2, 1), (1, 3, 1)]).T
        answers = []
        for places in (np.arange(4), np.array(order)):
            with warnings.catch_warnings(action="ignore"):
                fit = model.fit(table(tasks, places[workers], labels))
            answers.append((fit.confusion_[places], fit.posterior_))
        for usual, moved in zip(*answers, strict=True):
            np.testing.assert_allclose(moved, usual, atol=PARITY)

    def test_refuse_what_cannot_be_used(self) -> None:
        pairs, one = np.array([[0, 1]], np.uint32), np.ones(1)
        for bad in (
            (2, np.array([[0, 2]], np.uint32), one, one),
            (2, pairs, np.array([np.nan]), one),
            (2, pairs, one, -one),
            (2, pairs, np.ones(2), one),
        ):
            for name in ("spectral", "gradient", "msr"):
                with pytest.raises(ValueError, match="pair"):
                    run(_core, name, *bad, trim=np.zeros(2, np.uint32), max_iter=5, tol=0.0)
        with pytest.raises(ValueError, match="trim"):
            run(_core, "msr", 2, pairs, one, one, trim=np.zeros(3, np.uint32), max_iter=5, tol=0.0)

    @settings(max_examples=30)
    @given(problem=agreements())
    def test_graph_knows_components_and_odd_cycles(self, problem) -> None:
        n, pairs, *_ = problem
        components, odd = _core.rank_one_graph(n, pairs)
        np.testing.assert_array_equal(components, moments.components(n, pairs))
        links = np.zeros((n, n))
        links[pairs[:, 0], pairs[:, 1]] = links[pairs[:, 1], pairs[:, 0]] = 1
        # A closed walk of odd length exists exactly where the component has an odd cycle.
        closed = [np.diag(np.linalg.matrix_power(links, length)) for length in range(1, 2 * n, 2)]
        np.testing.assert_array_equal(odd, np.sum(closed, axis=0) > 0)

    def test_pair_agreement_counts_equal_labels(self) -> None:
        rng = np.random.default_rng(0)
        codes = [rng.integers(0, size, 200) for size in (30, 7, 3)]
        votes = table(*codes, weights=rng.uniform(0.5, 2, 200))
        pairs = all_pairs(7)[::2].copy()
        wanted = skills.pair_agreement(Rows.of(votes), pairs)
        np.testing.assert_allclose(votes.table.pair_agreement(pairs), wanted, rtol=1e-12)


class TestRecovery:
    @pytest.mark.parametrize("model", ONE_COIN, ids=repr)
    @pytest.mark.parametrize("k", [2, 4])
    def test_error_falls_with_the_number_of_tasks(self, model, k: int) -> None:
        confusion = mh.categorical.crowds.one_coin(25, k, accuracy=(0.45, 0.9), seed=4)
        errors = []
        for n in (500, 4000, 32_000):
            crowd = mh.simulate(n, confusion=confusion, labels_per_task=8, seed=n)
            skill = model.fit(crowd.log).skills_
            errors.append(np.abs(skill - (k * crowd.accuracy - 1) / (k - 1)).mean())
        # Eight times the tasks: √8 = 2.8 times less error, with room for chance.
        assert errors[0] > 1.7 * errors[1] > 1.7**2 * errors[2], errors
        assert errors[2] < 0.02

    @pytest.mark.parametrize("balance", [-0.5, 0.0, 0.3])
    def test_meta_learner_finds_sensitivity_specificity_and_balance(self, balance: float) -> None:
        confusion = mh.categorical.crowds.class_conditional(20, 2, seed=2)
        prior = np.array([1 - balance, 1 + balance]) / 2
        errors, off = [], []
        for n in (2000, 16_000, 128_000):
            crowd = mh.simulate(n, confusion=confusion, prior=prior, labels_per_task=8, seed=n)
            model = mh.moments.SpectralMetaLearner().fit(crowd.log)
            errors.append(np.abs(model.confusion_ - confusion).mean())
            off.append(abs(model.prior_[1] - prior[1]))
        assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2], errors
        assert errors[2] < 0.01
        assert off[2] < 0.02

    def test_moments_are_what_the_meta_learner_takes_them_for(self) -> None:
        """Cov = v v, third central moment = -2 b / sqrt(1 - b²) v v v, on moments without noise."""
        confusion = mh.categorical.crowds.class_conditional(5, 2, seed=1)
        for b in (-0.6, 0.0, 0.4):
            prior = np.array([1 - b, 1 + b]) / 2
            exact = mh.moments.Moments.exact(prior, confusion, order=3)
            answers = np.array([-1, 1]) - (exact.first @ [-1, 1])[:, None]
            v = np.sqrt(1 - b**2) * (confusion[:, 0, 0] + confusion[:, 1, 1] - 1)
            covariance = np.einsum("pab,pa,pb->p", exact.pair_joint, *answers[exact.pairs.T])
            np.testing.assert_allclose(covariance, v[exact.pairs].prod(axis=1), atol=1e-12)
            third = np.einsum("tabc,ta,tb,tc->t", exact.triple_joint, *answers[exact.triples.T])
            np.testing.assert_allclose(third, -2 * b / np.sqrt(1 - b**2) * v[exact.triples].prod(axis=1), atol=1e-12)

    def test_messages_tell_hammers_from_spammers(self) -> None:
        for k in (2, 5):
            kinds = [
                mh.categorical.crowds.one_coin(20, k, accuracy=0.95),
                mh.categorical.crowds.one_coin(40, k, accuracy=1 / k),
            ]
            crowd = mh.simulate(3000, confusion=np.concatenate(kinds), labels_per_task=7, seed=k)
            model = mh.categorical.KOS().fit(crowd.log)
            majority = mh.metrics.accuracy(mh.MajorityVote().fit(crowd.log).labels_, crowd.truth)
            assert mh.metrics.accuracy(model.labels_, crowd.truth) > majority + 0.05
            hammer = crowd.accuracy > 0.8
            assert model.weights_[hammer].min() > model.weights_[~hammer].max()

    def test_inverted_workers_are_used_not_ignored(self) -> None:
        good = mh.categorical.crowds.one_coin(14, 2, accuracy=0.8)
        crowd = mh.simulate(2000, confusion=np.concatenate([good, 1 - good[:6]]), labels_per_task=9, seed=0)
        majority = mh.metrics.accuracy(mh.MajorityVote().fit(crowd.log).labels_, crowd.truth)
        for model in (*ONE_COIN, mh.moments.SpectralMetaLearner(), mh.categorical.KOS()):
            accuracy = mh.metrics.accuracy(model.fit(crowd.log).labels_, crowd.truth)
            assert accuracy > max(0.95, majority + 0.1), model
            right = np.einsum("mkk->m", model.confusion_) / 2
            assert right[14:].max() < 0.4 < 0.6 < right[:14].min()

    def test_colluders_deceive_all_but_the_robust(self) -> None:
        """Six of twenty copy from each other: their agreement looks like skill."""
        rng = np.random.default_rng(1)
        truth, lie = rng.integers(0, 3, (2, 1000))
        right = rng.random((1000, 14)) < rng.uniform(0.5, 0.8, 14)
        honest = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, (1000, 14))) % 3)
        votes = mh.Annotations.from_dense(np.column_stack([honest, np.repeat(lie[:, None], 6, axis=1)]))

        def accuracy(model) -> float:
            return float(np.mean(model.fit(votes).labels_ == truth))

        assert accuracy(mh.moments.MMSR()) > 0.95
        assert accuracy(mh.moments.MMSR(trim=6)) > 0.95
        for fooled in (
            mh.moments.OneCoinSpectral(),
            mh.moments.OneCoinGradient(),
            mh.categorical.KOS(),
            mh.moments.MMSR(trim=0),
        ):
            assert accuracy(fooled) < 0.5

    def test_medians_hold_up_to_almost_half_of_colluding_adversaries(self) -> None:
        """Eighteen of forty agree on a wrong class for nine tasks in ten, and are right in the others."""
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, 2000)
        accuracy = rng.uniform(0.6, 0.95, 22)
        honest = np.where(rng.random((2000, 22)) < accuracy, truth[:, None], 1 - truth[:, None])
        adversaries = np.repeat(np.where(rng.random(2000) < 0.9, 1 - truth, truth)[:, None], 18, axis=1)
        votes = mh.Annotations.from_dense(np.column_stack([honest, adversaries]))
        model = mh.moments.MMSR(method="medians").fit(votes)
        assert np.abs(model.skills_[:22] - (2 * accuracy - 1)).max() < 0.1
        assert (model.skills_[22:] < 0).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trimmed = mh.moments.MMSR().fit(votes)
        assert np.abs(trimmed.skills_[:22] - (2 * accuracy - 1)).mean() > 0.5


class TestMessages:
    @pytest.mark.parametrize("k", [2, 3])
    @pytest.mark.parametrize("n_iter", [0, 1, 9])
    def test_match_their_twin(self, k: int, n_iter: int) -> None:
        for seed in range(4):
            rng = np.random.default_rng(seed)
            codes = [rng.integers(0, size, 60) for size in (20, 8, k)]  # with repeats
            votes = table(*codes, weights=rng.uniform(0.5, 2, 60) if seed % 2 else None)
            if votes.n_classes < 2:
                continue
            found = votes.table.kos_fit(n_iter=n_iter, seed=seed)
            wanted = skills.kos_fit(Rows.of(votes), n_iter=n_iter, seed=seed)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, atol=PARITY, rtol=PARITY)

    def test_many_rounds_and_many_labels_do_not_overflow(self) -> None:
        crowd = mh.simulate(300, 200, 2, crowd="one-coin", labels_per_task=150, seed=0)
        model = mh.categorical.KOS(max_iter=2000).fit(crowd.log)
        assert np.isfinite(model.weights_).all()
        assert mh.metrics.accuracy(model.labels_, crowd.truth) > 0.99

    def test_a_weak_group_is_not_lost_beside_a_strong_one(self) -> None:
        """Messages of the first group grow faster by orders of magnitude in every round."""
        strong = mh.simulate(200, 50, 2, crowd="one-coin", labels_per_task=50, seed=0)
        weak = mh.simulate(60, 6, 2, crowd="one-coin", labels_per_task=4, seed=1, accuracy=0.9)
        columns = [
            np.concatenate([a, b + shift])
            for a, b, shift in zip(strong.log.codes(), weak.log.codes(), (200, 50, 0), strict=True)
        ]
        model = mh.categorical.KOS(max_iter=500).fit(table(*columns))
        assert np.abs(model.weights_[50:]).min() > 1e-3
        assert np.mean(model.labels_[200:] == weak.truth) > 0.95

    def test_labels_are_the_highest_scores(self) -> None:
        crowd = mh.simulate(500, 30, 4, labels_per_task=4, seed=3)
        model = mh.categorical.KOS(max_iter=12, seed=5).fit(crowd.log)
        scores, weights, silent = crowd.log.table.kos_fit(n_iter=12, seed=5)
        np.testing.assert_array_equal(model.posterior_.argmax(axis=1), scores.argmax(axis=1))
        np.testing.assert_array_equal(np.argsort(model.posterior_, axis=1), np.argsort(scores, axis=1))
        np.testing.assert_array_equal(model.weights_, weights)
        assert not silent.any()

    def test_renaming_classes_renames_the_answer(self) -> None:
        crowd = mh.simulate(100, 10, 3, labels_per_task=4, seed=3)
        tasks, workers, labels = crowd.log.codes()
        order = np.array([2, 0, 1])
        renamed = table(tasks, workers, order[labels])
        before, after = mh.categorical.KOS().fit(crowd.log), mh.categorical.KOS().fit(renamed)
        np.testing.assert_allclose(after.posterior_[:, order], before.posterior_, atol=1e-9)

    def test_a_tree_falls_back_to_votes_and_says_so(self) -> None:
        votes = mh.Annotations.from_arrays([1, 1, 2, 2, 2], ["a", "b", "b", "c", "d"], list("xxyxy"))
        model = mh.categorical.KOS()
        with pytest.warns(mh.errors.IdentifiabilityWarning, match="cycles"):
            model.fit(votes)
        assert model.labels_.tolist() == ["x", "y"]
        assert len(model.remarks_) == 1


class TestDoubt:
    def fit(self, model, votes):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(votes)
        assert all(issubclass(w.category, mh.errors.IdentifiabilityWarning) for w in caught)
        # One of the method's own, beside what is said of any log without overlap.
        assert len([w for w in caught if w.category is mh.errors.IdentifiabilityWarning]) <= 1
        assert bool(caught) == bool(model.remarks_)
        return model

    @pytest.mark.parametrize("model", [*ONE_COIN, mh.moments.SpectralMetaLearner()], ids=repr)
    def test_settings_that_all_share_are_checked(self, model) -> None:
        votes = mh.simulate(20, 5, 2, seed=0).log
        for name in ("min_overlap", "max_iter"):
            wrong = type(model)(**model.get_params() | {name: -1})
            with pytest.raises(ValueError, match=name):
                wrong.fit(votes)

    @pytest.mark.parametrize("model", [*ONE_COIN, mh.moments.SpectralMetaLearner()], ids=repr)
    def test_nothing_is_said_of_a_clear_case(self, model) -> None:
        crowd = mh.simulate(3000, 20, 2, crowd="one-coin", labels_per_task=7, seed=0)
        assert self.fit(model, crowd.log).remarks_ == ()

    @pytest.mark.parametrize("model", [*ONE_COIN, mh.moments.SpectralMetaLearner()], ids=repr)
    def test_separate_groups_are_turned_each_by_itself(self, model) -> None:
        parts = [mh.simulate(800, 8, 2, crowd="one-coin", labels_per_task=6, seed=seed) for seed in (0, 1)]
        columns = [
            np.concatenate([a, b + shift])
            for a, b, shift in zip(*(part.log.codes() for part in parts), (800, 8, 0), strict=True)
        ]
        found = self.fit(model, table(*columns))
        assert any("2 groups" in remark for remark in found.remarks_)
        truth = np.concatenate([part.truth for part in parts])
        assert np.mean(found.labels_ == truth) > 0.9

    @pytest.mark.parametrize("model", [*ONE_COIN, mh.moments.SpectralMetaLearner()], ids=repr)
    def test_workers_without_partners_are_judged_by_the_others(self, model) -> None:
        crowd = mh.simulate(600, 10, 2, crowd="one-coin", labels_per_task=6, seed=3)
        tasks, workers, labels = (codes.astype(int) for codes in crowd.log.codes())
        # Three newcomers on forty tasks each: one right, one wrong, one on tasks that nobody else saw.
        extra = [
            (np.arange(40), np.full(40, 10), crowd.truth[:40]),
            (np.arange(40), np.full(40, 11), 1 - crowd.truth[:40]),
            (600 + np.arange(40), np.full(40, 12), np.arange(40) % 2),
        ]
        columns = [np.concatenate(parts) for parts in zip((tasks, workers, labels), *extra, strict=True)]
        fresh = type(model)(**{**model.get_params(), "min_overlap": 60.0})
        found = self.fit(fresh, table(*columns))
        assert any("3 workers share too few" in remark for remark in found.remarks_)
        right = np.einsum("mkk->m", found.confusion_) / 2
        assert right[10] > 0.75
        assert right[11] < 0.25
        assert 0.5 < right[12] < 0.95
        assert found.labels_[600:].tolist() == [i % 2 for i in range(40)]

    def test_two_sides_are_reported(self) -> None:
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, 400)
        # One of workers 0 and 1 with one of workers 2 and 3: no odd cycle.
        workers = np.concatenate([rng.integers(0, 2, 400), rng.integers(2, 4, 400)])
        tasks = np.tile(np.arange(400), 2)
        votes = table(tasks, workers, np.where(rng.random(800) < 0.85, truth[tasks], 1 - truth[tasks]))
        for model in ONE_COIN:
            assert any("two sides" in remark for remark in self.fit(model, votes).remarks_)

    def test_a_divided_crowd_is_doubtful(self) -> None:
        good = mh.categorical.crowds.one_coin(6, 2, accuracy=0.85)
        crowd = mh.simulate(500, confusion=np.concatenate([good, 1 - good]), labels_per_task=12, seed=0)
        for model in (mh.moments.OneCoinSpectral(), mh.moments.OneCoinGradient(), mh.moments.MMSR()):
            assert any("exchanged" in remark for remark in self.fit(model, crowd.log).remarks_)

    def test_balance_from_the_majority_where_triples_are_few(self) -> None:
        crowd = mh.simulate(300, 10, 2, labels_per_task=2, prior=[0.7, 0.3], seed=0)
        model = self.fit(mh.moments.SpectralMetaLearner(), crowd.log)
        assert any("majority vote" in remark for remark in model.remarks_)

    def test_exceptions_name_the_thing_and_the_remedy(self) -> None:
        votes = mh.simulate(20, 5, 3, seed=0).log
        with pytest.raises(ValueError, match=r"two classes.*OneCoinSpectral.*MultiSPA"):
            mh.moments.SpectralMetaLearner().fit(votes)
        for model, match in (
            (mh.moments.OneCoinSpectral(method="power"), "method"),
            (mh.moments.OneCoinSpectral(min_overlap=-1.0), "min_overlap"),
            (mh.moments.OneCoinGradient(max_partners=0), "max_partners"),
            (mh.moments.MMSR(max_iter=0), "max_iter"),
            (mh.moments.MMSR(trim=0.5), "0.5"),
            (mh.moments.MMSR(trim=-1), "trim"),
            (mh.moments.MMSR(method="medians", trim=2), "trim=2 contradicts method='medians'"),
            (mh.moments.MMSR(method="mean"), "method"),
            (mh.categorical.KOS(max_iter=0), "max_iter"),
            (mh.categorical.KOS(seed=-1), "seed"),
        ):
            with pytest.raises(ValueError, match=match):
                model.fit(votes)
        with pytest.raises(TypeError, match="trim"):
            mh.moments.MMSR(trim="much").fit(votes)

    def test_too_few_iterations_warn(self) -> None:
        votes = mh.simulate(200, 10, 2, seed=0).log
        with pytest.warns(mh.errors.ConvergenceWarning, match="OneCoinGradient.*max_iter=2"):
            mh.moments.OneCoinGradient(max_iter=2).fit(votes)
