"""Max-margin votes and Crowd-SVM: parity with their twins, exact answers, recovery, settings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from categorical_logs import tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.testing.compare import never_falls
from manyhands.testing.crowds import crowd
from oracles import margin as plain
from oracles.em import Rows

#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-8


def coin_crowd(n_tasks: int, n_workers: int = 30, k: int = 3, per_task: int = 7, seed: int = 0):
    """Votes of workers with one accuracy each, from guessing to nearly perfect, with the truth and those."""
    rng = np.random.default_rng(seed)
    skill = np.concatenate([np.full(n_workers // 2, 1 / k), rng.uniform(0.6, 0.95, n_workers - n_workers // 2)])
    truth = rng.integers(0, k, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = np.concatenate([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    right = rng.random(len(tasks)) < skill[workers]
    labels = np.where(right, truth[tasks], (truth[tasks] + rng.integers(1, k, len(tasks))) % k)
    sizes = {"n_tasks": n_tasks, "n_workers": n_workers, "n_classes": k}
    return mh.Annotations.from_codes(tasks, workers, labels, **sizes), truth, skill


class TestMaxMarginVote:
    @given(votes=tables(), cost=st.sampled_from([0.01, 0.3, 5.0]), margin=st.sampled_from([0.5, 1.0]))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    def test_kernel_matches_its_twin(self, votes, cost, margin):
        options = {"cost": cost, "margin": margin, "max_iter": 3, "tol": 1e-9}
        got = votes.table.margin_fit(**options)
        wanted = plain.margin_fit(Rows.of(votes), **options)
        for name in ("weights", "answers", "history"):
            np.testing.assert_allclose(got[name], getattr(wanted, name), rtol=PARITY, atol=PARITY, err_msg=name)
        assert never_falls(got["history"])

    @pytest.mark.parametrize("cost", [0.01, 0.2, 2.0])
    def test_weights_are_those_of_a_support_vector_machine(self, cost):
        """Two classes: scikit-learn's, given the same answers."""
        from sklearn.svm import LinearSVC

        votes, _, _ = coin_crowd(120, n_workers=12, k=2)
        model = mh.categorical.MaxMarginVote(cost=cost, max_iter=2000, tol=1e-8).fit(votes)
        tasks, workers, labels = votes.codes()
        x = np.zeros((120, 12))
        np.add.at(x, (tasks, workers), 2.0 * labels - 1)
        machine = LinearSVC(loss="hinge", C=cost, fit_intercept=False, max_iter=10**6, tol=1e-10, random_state=0)
        machine.fit(x, model.labels_)
        np.testing.assert_allclose(model.weights_, machine.coef_[0], atol=2e-3 * np.abs(machine.coef_).max())

    def test_several_classes_minimise_the_loss(self):
        """No direction leads below the weights found, the answers being as they are."""
        votes, _, _ = coin_crowd(60, n_workers=10, k=4)
        model = mh.categorical.MaxMarginVote(cost=0.2, max_iter=2000, tol=1e-8).fit(votes)
        g, y = plain.indicators(Rows.of(votes)), model.labels_

        def objective(weights):
            return weights @ weights / 2 + 0.2 * sum(plain.lack(g[i] @ weights, y[i], 1.0) for i in range(60))

        assert model.objective_ == pytest.approx(-objective(model.weights_), rel=1e-12)
        rng = np.random.default_rng(0)
        for size in (1e-3, 1e-2, 0.1):
            for _ in range(30):
                step = size * rng.normal(size=10)
                assert objective(model.weights_ + step) >= objective(model.weights_) * (1 - 1e-7)

    def test_order_of_tasks_matters_no_more_than_tol(self):
        votes, _, _ = coin_crowd(200, n_workers=15)
        tasks, workers, labels = (codes.astype(int) for codes in votes.codes())
        order = np.random.default_rng(3).permutation(200)
        sizes = {"n_tasks": 200, "n_workers": 15, "n_classes": 3}
        moved = mh.Annotations.from_codes(order[tasks], workers, labels, **sizes)
        one, other = (mh.categorical.MaxMarginVote(max_iter=2000, tol=1e-8).fit(v) for v in (votes, moved))
        np.testing.assert_array_equal(other.labels_[order], one.labels_)
        np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-3 * np.abs(one.weights_).max())

    def test_weights_tell_the_able(self):
        errors, related = [], []
        for n_tasks in (60, 960):
            votes, truth, skill = coin_crowd(n_tasks)
            model = mh.categorical.MaxMarginVote().fit(votes)
            errors.append(np.mean(model.labels_ != truth))
            related.append(np.corrcoef(model.weights_, skill)[0, 1])
        assert related[0] < related[1]
        assert related[1] > 0.9
        majority = np.mean(mh.MajorityVote().fit(votes).labels_ != truth)
        assert errors[1] < 0.7 * majority

    def test_adversaries_vote_against(self):
        rng = np.random.default_rng(0)
        truth = np.arange(200) % 2
        skill = np.array([0.9, 0.9, 0.85, 0.8, 0.1])
        votes = np.where(rng.random((200, 5)) < skill, truth[:, None], 1 - truth[:, None])
        model = mh.categorical.MaxMarginVote().fit(mh.Annotations.from_dense(votes))
        assert model.weights_[4] < 0 < model.weights_[:4].min()
        # A task that only the adversary labelled goes to the other class.
        assert model.predict(mh.Annotations.from_arrays(["new"], [4], [0], classes=[0, 1])).tolist() == [1]

    def test_only_the_ratio_of_cost_and_margin_matters(self):
        votes, _, _ = coin_crowd(100)
        one, other = (
            mh.categorical.MaxMarginVote(cost=0.1).fit(votes),
            mh.categorical.MaxMarginVote(cost=0.5, margin=5.0).fit(votes),
        )
        np.testing.assert_allclose(other.weights_, 5 * one.weights_, rtol=1e-9)
        np.testing.assert_allclose(other.posterior_, one.posterior_, atol=1e-9)

    def test_probabilities_are_on_the_scale_of_log_odds(self):
        """Independent workers with even errors, as the probabilities assume: they say how often they are right."""
        votes, truth, _ = coin_crowd(3000, seed=2)
        model = mh.categorical.MaxMarginVote().fit(votes)
        assert mh.metrics.calibration_error(model.posterior_, truth) < 0.05
        assert model.scale_ > 0

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"cost": 0}, "cost.*0"),
            ({"margin": -1}, "margin.*0"),
            ({"max_iter": 0}, "max_iter.*1"),
        ],
    )
    def test_bad_settings(self, params, message):
        with pytest.raises(ValueError, match=message):
            mh.categorical.MaxMarginVote(**params).fit(mh.Annotations.from_dense([[0, 1]]))

    def test_an_early_end_warns(self):
        votes, _, _ = coin_crowd(60)
        with pytest.warns(mh.errors.ConvergenceWarning, match="MaxMarginVote.*max_iter=1"):
            mh.categorical.MaxMarginVote(max_iter=1).fit(votes)


class TestCrowdSVM:
    @given(
        votes=tables(), cost=st.sampled_from([0.05, 1.0]), alpha=st.sampled_from([0.3, 1.0]), seed=st.integers(0, 2**40)
    )
    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    def test_kernel_matches_its_twin(self, votes, cost, alpha, seed):
        options = {"cost": cost, "margin": 1.0, "variance": 2.0, "pseudo_count": alpha}
        options |= {"draws": 3, "burn_in": 1, "seed": seed}
        got = votes.table.crowd_svm_fit(**options)
        wanted = plain.crowd_svm_fit(Rows.of(votes), **options)
        for name, part in zip(("posterior", "confusion", "weights"), wanted, strict=True):
            np.testing.assert_allclose(got[name], part, rtol=1e-7, atol=1e-7, err_msg=name)

    def test_draws_are_from_the_posterior(self):
        """Two classes: all answers listed, weights integrated on a grid.

        Exchanging the classes and the weights' signs changes nothing, so that only matrices tell anything: what a
        worker says depends on which tasks are of one class.
        """
        labels = [0, 1, 1, 0, 0, 0]
        sizes = {"n_tasks": 3, "n_workers": 2, "n_classes": 2}
        votes = mh.Annotations.from_codes([0, 0, 1, 1, 2, 2], [0, 1] * 3, labels, **sizes)
        cost, margin, variance = 0.7, 1.0, 1.5
        rows, axis = Rows.of(votes), np.linspace(-6, 6, 61)
        g, grid = plain.indicators(rows), np.array(list(product(axis, repeat=2)))
        exact, total = np.zeros((2, 2, 2)), 0.0
        for answers in product(range(2), repeat=3):
            counts = np.ones((2, 2, 2))  # one imaginary label a cell
            mass = 1.0
            for task, worker, label in zip(rows.tasks, rows.workers, rows.labels, strict=True):
                row = counts[worker, answers[task]]
                mass *= row[label] / row.sum()
                row[label] += 1
            ahead = np.array([(g[i, y] - g[i, 1 - y]) @ grid.T for i, y in enumerate(answers)])
            losses = np.maximum(margin - ahead, 0.0).sum(axis=0)
            mass *= np.exp(-2 * cost * losses - (grid**2).sum(axis=1) / (2 * variance)).sum()
            exact += mass * counts / counts.sum(axis=2, keepdims=True)
            total += mass
        model = mh.categorical.CrowdSVM(cost=cost, margin=margin, variance=variance, draws=20_000, burn_in=100).fit(
            votes
        )
        # Some thousand independent draws of numbers that vary by 0.25: a standard error below 0.006.
        np.testing.assert_allclose(model.confusion_, exact / total, atol=0.02)

    def test_recovers_confusions_and_classes(self):
        errors = []
        for n_tasks in (80, 1280):
            made = mh.simulate(n_tasks, 20, 3, labels_per_task=6, seed=1)
            model = mh.categorical.CrowdSVM().fit(made.log)
            errors.append(np.abs(model.confusion_ - made.confusion).mean())
            right = np.mean(model.labels_ == made.truth)
        assert errors[1] < 0.5 * errors[0]
        assert right >= np.mean(mh.MajorityVote().fit(made.log).labels_ == made.truth)

    def test_seeds_differ(self):
        votes = crowd().votes()
        one, other = mh.categorical.CrowdSVM(seed=1).fit(votes), mh.categorical.CrowdSVM(seed=2).fit(votes)
        assert not np.array_equal(one.posterior_, other.posterior_)

    def test_a_small_cost_leaves_dawid_and_skene(self):
        """Without margins the answers are those of Bayesian Dawid–Skene."""
        votes = mh.simulate(600, 20, 3, labels_per_task=6, seed=4).log
        model = mh.categorical.CrowdSVM(cost=1e-6).fit(votes)
        other = mh.BayesianDawidSkene(pseudo_count=(1.0, 2.0)).fit(votes)  # one imaginary label a cell
        assert np.mean(model.labels_ == other.labels_) > 0.97
        assert np.abs(model.confusion_ - other.confusion_).mean() < 0.03

    def test_a_task_without_labels_is_open(self):
        votes = mh.Annotations.from_codes([0, 0], [0, 1], [1, 1], n_tasks=2, n_workers=2, n_classes=2)
        model = mh.categorical.CrowdSVM(draws=5).fit(votes)
        np.testing.assert_allclose(model.posterior_[1], 0.5)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"cost": 0.0}, "cost.*0"),
            ({"variance": -1}, "variance.*0"),
            ({"pseudo_count": 0}, "pseudo_count.*0"),
            ({"draws": 0}, "draws.*1"),
            ({"burn_in": -1}, "burn_in.*0"),
            ({"seed": -1}, "seed.*0"),
        ],
    )
    def test_bad_settings(self, params, message):
        with pytest.raises(ValueError, match=message):
            mh.categorical.CrowdSVM(**params).fit(mh.Annotations.from_dense([[0, 1]]))
