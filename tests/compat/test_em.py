"""The twins of crowd-kit's EM: their numbers, against a plain twin in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from crowdkit_logs import EM_CLASSES, Plain, history, log, random_log, small_log
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


class TestDawidSkene:
    @pytest.mark.parametrize("n_iter", [0, 1, 2, 3, 8])
    @pytest.mark.parametrize("one_coin", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_as_a_plain_twin(self, n_iter, one_coin, seed):
        data = random_log(seed, n_classes=2 + seed % 3)
        cls = twin.OneCoinDawidSkene if one_coin else twin.DawidSkene
        model = cls(n_iter=n_iter, tol=0).fit(data)
        Plain(data, n_iter, one_coin=one_coin).check(model)
        assert len(model.loss_history_) == n_iter

    def test_by_hand(self):
        # Shares: t1 is x; t2 is half x, half y. w1: t1 x, t2 y; w2: t1 x, t2 x.
        data = log([("t1", "w1", "x"), ("t1", "w2", "x"), ("t2", "w1", "y"), ("t2", "w2", "x")])
        start = twin.DawidSkene(n_iter=0).fit(data)
        assert start.probas_.to_numpy().tolist() == [[1, 0], [0.5, 0.5]]
        assert start.priors_.to_dict() == {"x": 0.75, "y": 0.25}
        expected = [[2 / 3, 0], [1 / 3, 1], [1, 1]]  # (w1, x), (w1, y), (w2, x); columns are the true class
        np.testing.assert_allclose(start.errors_.to_numpy(), expected, atol=1e-9)
        # t1: x 3/4 · 2/3, y 1/4 · 0; t2: x 3/4 · 1/3, y 1/4 · 1.
        once = twin.DawidSkene(n_iter=1).fit(data)
        np.testing.assert_allclose(once.probas_.to_numpy(), [[1, 0], [0.5, 0.5]], atol=1e-9)
        # Likelihood of t1: 3/4 · 2/3; of t2: 3/4 · 1/3 + 1/4; per annotation, of four.
        assert once.loss_history_ == pytest.approx([np.log(0.5 * 0.5) / 4])

    def test_posteriors_one_iteration_on_are_those_of_the_errors(self):
        data = random_log(3)
        now, then = (twin.DawidSkene(n_iter=n, tol=0).fit(data) for n in (4, 5))
        logs = data.join(np.log(now.errors_), on=["worker", "label"]).drop(columns=["worker", "label"])
        logs = logs.groupby("task").sum() + np.log(now.priors_)
        expected = np.exp(logs.to_numpy())
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(then.probas_.to_numpy(), expected, atol=1e-9)

    def test_loss_is_the_log_likelihood_of_the_errors(self):
        data = random_log(4)
        for n_iter in (1, 6):
            model = twin.DawidSkene(n_iter=n_iter, tol=0).fit(data)
            logs = data.join(np.log(model.errors_), on=["worker", "label"]).drop(columns=["worker", "label"])
            logs = logs.groupby("task").sum() + np.log(model.priors_)
            expected = np.logaddexp.reduce(logs.to_numpy(), axis=1).sum() / len(data)
            assert model.loss_history_[-1] == pytest.approx(expected, abs=1e-8)

    @given(st.integers(0, 10**6), st.sampled_from(EM_CLASSES), st.booleans())
    @settings(max_examples=40, deadline=None)
    def test_loss_never_falls_and_rows_sum_to_one(self, seed, cls, with_truth):
        rng = np.random.default_rng(seed)
        data = random_log(seed, *rng.integers(2, 9, 2), rng.integers(1, 5), rng.uniform(0.3, 1))
        if not len(data):
            return
        truth = {"true_labels": data.drop_duplicates("task")[:2].set_index("task")["label"]}
        model = cls(n_iter=30, tol=0).fit(data, **(truth if with_truth and cls is twin.DawidSkene else {}))
        assert (np.diff(model.loss_history_) > -1e-9).all()
        np.testing.assert_allclose(model.probas_.sum(axis=1), 1, atol=1e-12)
        assert model.priors_.sum() == pytest.approx(1)
        if cls is twin.DawidSkene:
            sums = model.errors_.groupby("worker").sum()
            np.testing.assert_allclose(sums.to_numpy(), 1, atol=1e-9)

    def test_stops_at_its_tolerance(self):
        data = random_log(5)
        loose, tight, forced = (
            len(twin.DawidSkene(n_iter=60, tol=tol).fit(data).loss_history_) for tol in (1e-3, 1e-7, -1.0)
        )
        assert 1 < loose < tight < forced == 60

    def test_one_coin_errors_follow_from_skills(self):
        model = twin.OneCoinDawidSkene().fit(random_log(6))
        for (worker, label), row in model.errors_.iterrows():
            skill = model.skills_[worker]
            expected = [skill if label == true else (1 - skill) / 2 for true in row.index]
            np.testing.assert_allclose(row, expected)
        assert model.skills_.index.tolist() == sorted(random_log(6)["worker"].unique())


class TestTrueLabels:
    @pytest.mark.parametrize("n_iter", [0, 1, 4])
    def test_as_a_plain_twin(self, n_iter):
        data = random_log(7)
        truth = {"t00": "c1", "t07": "c0", "t12": "c2"}
        model = twin.DawidSkene(n_iter=n_iter, tol=0).fit(data, pd.Series(truth))
        Plain(data, n_iter, true_labels=truth).check(model)
        assert model.labels_[list(truth)].to_dict() == truth
        assert (model.probas_.loc[list(truth)].max(axis=1) == 1).all()

    def test_unknown_tasks_and_gaps_are_passed_over(self):
        data = random_log(8)
        plain = twin.DawidSkene().fit(data)
        model = twin.DawidSkene().fit(data, pd.Series({"elsewhere": "c1", "t00": None, "t01": np.nan}))
        pd.testing.assert_frame_equal(model.probas_, plain.probas_)
        assert model.loss_history_ == plain.loss_history_

    def test_a_class_that_nobody_named(self):
        data = small_log()
        model = twin.DawidSkene().fit(data, pd.Series({"t5": "aa"}))
        assert model.probas_.columns.tolist() == ["a", "aa", "b", "c"]
        assert model.labels_["t5"] == "aa"
        assert model.priors_["aa"] >= 0.2
        assert model.errors_.index.tolist() == twin.DawidSkene().fit(data).errors_.index.tolist()

    def test_a_class_that_nobody_named_beside_missing_labels(self):
        data = log([*small_log().itertuples(index=False), ("t1", "w3", None)])
        with pytest.warns(mh.errors.DataWarning) as caught:
            model = twin.DawidSkene().fit(data, pd.Series({"t5": "aa"}))
        assert len(caught) == 1
        expected = twin.DawidSkene().fit(small_log(), pd.Series({"t5": "aa"}))
        pd.testing.assert_frame_equal(model.probas_, expected.probas_)

    def test_contradictions_and_other_types(self):
        with pytest.raises(ValueError, match="task 't1'"):
            twin.DawidSkene().fit(small_log(), pd.Series(["a", "b"], index=["t1", "t1"]))
        with pytest.raises(TypeError, match=r"1, which.*'a'"):
            twin.DawidSkene().fit(small_log(), pd.Series({"t1": 1}))
        twice = twin.DawidSkene().fit(small_log(), pd.Series(["a", "a"], index=["t1", "t1"]))
        once = twin.DawidSkene().fit(small_log(), pd.Series({"t1": "a"}))
        pd.testing.assert_frame_equal(twice.probas_, once.probas_)


def as_confusion(frame, n_classes):
    return frame.to_numpy().reshape(-1, n_classes, n_classes).transpose(0, 2, 1)


class TestInitialError:
    @pytest.mark.parametrize("n_iter", [0, 1, 3])
    def test_assign(self, n_iter):
        data = random_log(9)
        counts = history(data)
        shares = as_confusion(counts, 3)
        shares = shares / shares.sum(axis=2, keepdims=True)
        model = twin.DawidSkene(n_iter, 0, "assign").fit(data, initial_error=counts)
        Plain(data, n_iter, start=shares).check(model)
        as_probabilities = counts / counts.groupby("worker").sum()
        same = twin.DawidSkene(n_iter, 0, "assign").fit(data, initial_error=as_probabilities)
        pd.testing.assert_frame_equal(model.probas_, same.probas_)

    @pytest.mark.parametrize("n_iter", [0, 1, 3])
    def test_addition(self, n_iter):
        data = random_log(9)
        counts = history(data)
        model = twin.DawidSkene(n_iter, 0, "addition").fit(data, initial_error=counts)
        Plain(data, n_iter, added=as_confusion(counts, 3)).check(model)

    def test_addition_takes_a_part_and_strangers(self):
        data = random_log(9)
        counts = history(data)
        full = counts.copy()
        full.loc[4:] = 0.0
        part = counts.loc[:3]
        stranger = pd.concat({99: counts.loc[0]}, names=["worker", "label"])
        model, expected = (
            twin.DawidSkene(2, 0, "addition").fit(data, initial_error=frame)
            for frame in (pd.concat([stranger, part]), full)
        )
        pd.testing.assert_frame_equal(model.probas_, expected.probas_)

    def test_frame_is_left_alone_and_columns_may_be_shuffled(self):
        data = random_log(9)
        counts = history(data)
        before = counts.copy()
        model = twin.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=counts)
        pd.testing.assert_frame_equal(counts, before)
        shuffled = counts[["c2", "c0", "c1"]].iloc[::-1].assign(other=0.0)
        same = twin.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=shuffled)
        pd.testing.assert_frame_equal(model.probas_, same.probas_)

    def test_is_not_used_without_a_strategy(self):
        data = random_log(9)
        plain = twin.DawidSkene().fit(data)
        model = twin.DawidSkene().fit(data, initial_error=history(data))
        pd.testing.assert_frame_equal(model.probas_, plain.probas_)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: f.rename_axis(["who", "label"]), "'who'.*'label'"),
            (lambda f: f.drop(columns="c1"), "class 'c1'"),
            (lambda f: f.drop(index=3, level="worker"), r"3 pairs.*\(3, 'c0'\)"),
            (lambda f: f / 1000, "do not sum to 1"),
            (lambda f: f - 100, "finite"),
            (lambda f: f * np.nan, "finite"),
            (lambda f: pd.concat([f, f[:1]]), r"\(0, 'c0'\)"),
        ],
    )
    def test_bad_frames(self, change, message):
        data = random_log(9)
        with pytest.raises(ValueError, match=message):
            twin.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=change(history(data)))

    def test_bad_strategy(self):
        data = random_log(9)
        with pytest.raises(ValueError, match=r"'assign', 'addition'.*'guess'"):
            twin.DawidSkene(initial_error_strategy="guess").fit(data, initial_error=history(data))
