"""MACE and GLAD: parity with their twins, recovery, the objective, and settings that do what they say."""

from __future__ import annotations

import numpy as np
import pytest
from categorical_logs import tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.testing.compare import never_falls
from oracles import competence as plain
from oracles.em import Rows

#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-8


def mace_crowd(n_tasks: int, n_workers: int = 30, k: int = 4, per_task: int = 6, seed: int = 0):
    """Votes drawn from MACE itself, with the truth, how probably workers know, and what they say otherwise."""
    rng = np.random.default_rng(seed)
    know, spam = rng.beta(2, 2, n_workers), rng.dirichlet(np.ones(k), n_workers)
    truth = rng.integers(0, k, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    spammed = (rng.random(len(tasks))[:, None] > np.cumsum(spam, axis=1)[workers]).sum(axis=1).clip(0, k - 1)
    labels = np.where(rng.random(len(tasks)) < know[workers], truth[tasks], spammed)
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": k}
    return mh.Annotations.from_codes(tasks, workers, labels, **sizes), truth, know, spam


def glad_crowd(n_tasks: int, n_workers: int = 40, k: int = 3, per_task: int = 10, seed: int = 0):
    """Votes drawn from GLAD itself, with the truth, abilities and eases."""
    rng = np.random.default_rng(seed)
    ability, ease = rng.normal(1, 1, n_workers), rng.normal(1, 1, n_tasks)
    truth = rng.integers(0, k, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    right = rng.random(len(tasks)) < 1 / (1 + np.exp(-ability[workers] * np.exp(ease[tasks])))
    labels = np.where(right, truth[tasks], (truth[tasks] + rng.integers(1, k, len(tasks))) % k)
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": k}
    return mh.Annotations.from_codes(tasks, workers, labels, **sizes), truth, ability, ease


class TestMACE:
    @given(votes=tables(), vb=st.booleans(), prior=st.sampled_from([0.01, 0.5, 3.0]), seed=st.integers(0, 9))
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    def test_kernel_matches_its_twin_from_any_start(self, votes, vb, prior, seed):
        rng = np.random.default_rng(seed)
        m, k = votes.n_workers, votes.n_classes
        start = (rng.random(m), rng.dirichlet(np.ones(k), m))
        options = {"variational": vb, "competence": (prior, 2 * prior), "strategy": 3 * prior, "max_iter": 9}
        got = votes.table.mace_fit(*start, **options, tol=0.0)
        wanted = plain.mace_fit(Rows.of(votes), *start, **options)
        for name in ("posterior", "know", "strategies", "history"):
            np.testing.assert_allclose(got[name], getattr(wanted, name), rtol=PARITY, atol=PARITY, err_msg=name)
        assert never_falls(got["history"])

    @pytest.mark.parametrize("method", ["vb", "em"])
    def test_recovers_its_own_parameters(self, method):
        errors = []
        for n_tasks in (150, 2400):
            votes, truth, know, spam = mace_crowd(n_tasks)
            model = mh.categorical.MACE(method=method, strategy_prior=1.0, max_iter=500).fit(votes)
            errors.append(np.sqrt(np.mean((model.competence_ - know) ** 2)))
        # Sixteen times the data: a quarter of the error.
        assert errors[1] < 0.5 * errors[0]
        # 480 labels a worker: 0.023 even if it were known which of them were spam.
        assert errors[1] < 0.04
        sure = know < 0.8  # others hardly ever spam
        assert np.abs(model.spam_ - spam)[sure].mean() < 0.03
        assert mh.metrics.accuracy(model.labels_, truth) > 0.9
        assert mh.metrics.accuracy(model.labels_, truth) > mh.metrics.accuracy(
            mh.MajorityVote().fit(votes).labels_, truth
        )

    def test_thin_workers_are_where_it_pays(self):
        """Workers of five labels on eight classes: two parts of a model against sixty-four cells of a matrix."""
        votes, truth, _, _ = mace_crowd(400, n_workers=400, k=8, per_task=5, seed=3)
        score = {
            model: mh.metrics.accuracy(model.fit(votes).labels_, truth)
            for model in (mh.categorical.MACE(), mh.DawidSkene(max_iter=1000))
        }
        mace, dawid_skene = score.values()
        assert mace > dawid_skene

    def test_parameters_make_the_confusion(self):
        votes, _, _, _ = mace_crowd(200)
        model = mh.categorical.MACE().fit(votes)
        know, spam = model.competence_, model.spam_
        made = know[:, None, None] * np.eye(4) + (1 - know)[:, None, None] * spam[:, None, :]
        np.testing.assert_allclose(model.confusion_, made, atol=1e-12)
        np.testing.assert_allclose(spam.sum(axis=1), 1.0)
        one = mh.categorical.MACE().fit(mh.Annotations.from_dense([[0, 0]]))
        assert one.competence_.tolist() == [1.0, 1.0]
        assert one.spam_.tolist() == [[1.0], [1.0]]

    def test_restarts_differ_and_the_best_wins(self):
        votes, _, _, _ = mace_crowd(60, seed=5)
        model = mh.categorical.MACE(restarts=5)
        starts = model._starts(votes)
        assert len(starts) == 6
        assert len({start[0].tobytes() for start in starts}) == 6
        alone = mh.categorical.MACE().fit(votes).objective_
        assert model.fit(votes).objective_ >= alone
        other = mh.categorical.MACE(restarts=5, seed=1)._starts(votes)
        assert not np.array_equal(other[1][0], starts[1][0])

    def test_smoothing_smooths(self):
        votes, _, _, _ = mace_crowd(60)
        sharp, smooth = (mh.categorical.MACE(method="em", smoothing=s, max_iter=2000).fit(votes) for s in (0.0, 20.0))
        even = np.abs(smooth.spam_ - 0.25).mean(), np.abs(sharp.spam_ - 0.25).mean()
        assert even[0] < 0.5 * even[1]
        assert np.abs(smooth.competence_ - 0.5).mean() < np.abs(sharp.competence_ - 0.5).mean()

    def test_ten_thousand_labels_on_a_task(self):
        rng = np.random.default_rng(0)
        labels = (rng.random(20_000) < 0.3).astype(int)
        votes = mh.Annotations.from_codes(
            np.repeat([0, 1], 10_000), np.tile(np.arange(10_000), 2), labels, n_tasks=2, n_workers=10_000, n_classes=2
        )
        for method in ("vb", "em"):
            model = mh.categorical.MACE(method=method, max_iter=5, tol=0.0).fit(votes)
            assert np.isfinite(model.posterior_).all()
            assert np.isfinite(model.history_).all()

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"method": "gibbs"}, "method.*'vb'.*'em'"),
            ({"max_iter": 0}, "max_iter.*1"),
            ({"smoothing": -1}, "smoothing.*0"),
            ({"competence_prior": (0.5, 0.0)}, "competence_prior.*0"),
            ({"strategy_prior": 0.0}, "strategy_prior.*0"),
            ({"restarts": -1}, "restarts.*0"),
        ],
    )
    def test_bad_settings(self, params, message):
        with pytest.raises(ValueError, match=message):
            mh.categorical.MACE(**params).fit(mh.Annotations.from_dense([[0, 1]]))
        with pytest.raises(TypeError, match="pair"):
            mh.categorical.MACE(competence_prior=0.5).fit(mh.Annotations.from_dense([[0, 1]]))

    def test_an_early_end_warns(self):
        votes, _, _, _ = mace_crowd(60)
        with pytest.warns(mh.errors.ConvergenceWarning, match="MACE.*max_iter=2"):
            mh.categorical.MACE(max_iter=2).fit(votes)


class TestGLAD:
    @given(votes=tables(), seed=st.integers(0, 9))
    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    def test_kernel_matches_its_twin_from_any_start(self, votes, seed):
        rng = np.random.default_rng(seed)
        prior = rng.dirichlet(np.full(votes.n_classes, 5.0))
        start = (prior, rng.normal(1, 1, votes.n_workers), rng.normal(0, 1, votes.n_tasks))
        got = votes.table.glad_fit(*start, max_iter=5, tol=0.0)
        wanted = plain.glad_fit(Rows.of(votes), *start, max_iter=5)
        for name in ("posterior", "ability", "ease", "accuracy", "history"):
            np.testing.assert_allclose(got[name], getattr(wanted, name), rtol=1e-7, atol=1e-7, err_msg=name)
        assert never_falls(got["history"])

    def test_ends_where_the_gradient_is_nought(self):
        """At the end no ability and no ease can be moved to advantage, classes being summed out."""
        votes, _, _, _ = glad_crowd(40, n_workers=10, per_task=5)
        model = mh.categorical.GLAD(max_iter=20_000, tol=1e-15).fit(votes)
        rows, prior = Rows.of(votes), np.full(3, 1 / 3)

        def objective(ability, ease):
            x = ability[rows.workers] * np.exp(ease[rows.tasks])
            right, wrong = -np.logaddexp(0, -x), -np.logaddexp(0, x) - np.log(2)
            joint = np.tile(np.log(prior), (40, 1))
            said = np.where(rows.labels[:, None] == np.arange(3), right[:, None], wrong[:, None])
            np.add.at(joint, rows.tasks, said)
            fit = np.logaddexp.reduce(joint, axis=1).sum()
            return fit - ((ability - 1) ** 2).sum() / 2 - ((ease - 1) ** 2).sum() / 2

        assert model.objective_ == pytest.approx(objective(model.ability_, model.ease_), rel=1e-10)
        for i in range(10):
            step = 1e-4 * np.eye(10)[i]
            up, down = (objective(model.ability_ + s * step, model.ease_) for s in (1, -1))
            assert abs(up - down) / 2e-4 < 1e-3
        for i in range(40):
            step = 1e-4 * np.eye(40)[i]
            up, down = (objective(model.ability_, model.ease_ + s * step) for s in (1, -1))
            assert abs(up - down) / 2e-4 < 1e-3

    def test_recovers_its_own_parameters(self):
        """With more labels of every worker and of every task: a task's ease is a parameter too, and needs its own."""
        errors, related = [], []
        for n_tasks, per_task in ((100, 8), (1600, 32)):
            votes, _, ability, ease = glad_crowd(n_tasks, per_task=per_task)
            model = mh.categorical.GLAD(max_iter=1000).fit(votes)
            errors.append(np.sqrt(np.mean((model.ability_ - ability) ** 2)))
            related.append(np.corrcoef(model.ease_, ease)[0, 1])
        assert errors[1] < 0.5 * errors[0]
        assert np.corrcoef(model.ability_, ability)[0, 1] > 0.98
        assert related[0] + 0.1 < related[1]
        assert related[1] > 0.87

    def test_beats_the_majority_on_its_own_data(self):
        votes, truth, _, _ = glad_crowd(1600, per_task=5)
        majority = mh.MajorityVote().fit(votes)
        model = mh.categorical.GLAD().fit(votes)
        assert mh.metrics.accuracy(model.labels_, truth) > mh.metrics.accuracy(majority.labels_, truth) + 0.01

    def test_predicts_what_it_fitted(self):
        votes, _, _, _ = glad_crowd(200)
        model = mh.categorical.GLAD(max_iter=2000, tol=1e-12).fit(votes)
        # Eases found anew from the prior mean may end at another summit on a task or two.
        off = np.abs(model.predict_proba(votes) - model.posterior_).max(axis=1)
        assert np.quantile(off, 0.97) < 1e-4

    def test_hard_tasks_and_adversaries_are_told(self):
        rng = np.random.default_rng(2)
        truth = np.arange(300) % 2
        hard = np.arange(300) < 100
        rows = []
        for task in range(300):
            for worker in range(8):
                p = 0.1 if worker == 7 else (0.55 if hard[task] else 0.95)
                rows.append((task, worker, truth[task] if rng.random() < p else 1 - truth[task]))
        model = mh.categorical.GLAD(max_iter=500).fit(mh.Annotations.from_arrays(*np.array(rows).T))
        assert model.ability_[7] < 0 < model.ability_[:7].min()
        assert model.ease_[hard].mean() < model.ease_[~hard].mean() - 0.2

    def test_class_prior_counts(self):
        votes = mh.Annotations.from_dense([[0, 1], [0, 1]])
        even = mh.categorical.GLAD(max_iter=5, tol=0.0).fit(votes)
        np.testing.assert_allclose(even.posterior_, 0.5)
        likely = mh.categorical.GLAD(class_prior=[0.2, 0.8], max_iter=5, tol=0.0).fit(votes)
        assert (likely.posterior_[:, 1] > 0.5).all()
        np.testing.assert_allclose(likely.prior_, [0.2, 0.8])

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"class_prior": [1.0]}, r"class_prior.*\(1,\).*\(2,\)"),
            ({"class_prior": [0.5, 0.6]}, "sum to one"),
            ({"class_prior": [0.0, 1.0]}, "positive"),
            ({"class_prior": [1.5, -0.5]}, "positive"),
            ({"max_iter": 0}, "max_iter.*1"),
            ({"ease_mean": float("inf")}, "ease_mean"),
        ],
    )
    def test_bad_settings(self, params, message):
        with pytest.raises(ValueError, match=message):
            mh.categorical.GLAD(**params).fit(mh.Annotations.from_dense([[0, 1]]))

    def test_an_early_end_warns(self):
        votes, _, _, _ = glad_crowd(60)
        with pytest.warns(mh.errors.ConvergenceWarning, match="GLAD.*max_iter=2"):
            mh.categorical.GLAD(max_iter=2).fit(votes)
