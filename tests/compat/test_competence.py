"""The twins of crowd-kit's MACE, GLAD, GoldMajorityVote and measures of a log; and crowd-kit, if it is installed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")

#: Sums in another order, and crowd-kit's additions of 1e-8 and 1e-6.
SAME = 1e-6


def log(rows):
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def random_log(seed, n_tasks=80, n_workers=10, n_classes=3, per_task=5):
    """Draw a log whose first tasks name all workers and classes in sorted order."""
    rng = np.random.default_rng(seed)
    truth, skill = np.arange(n_tasks) % n_classes, rng.uniform(0.4, 0.95, n_workers)
    rows = [(f"t{k:03}", f"w{w:02}", f"c{k}") for k in range(n_classes) for w in range(n_workers)]
    for task in range(n_classes, n_tasks):
        for worker in sorted(rng.permutation(n_workers)[:per_task]):
            said = truth[task] if rng.random() < skill[worker] else rng.integers(0, n_classes)
            rows.append((f"t{task:03}", f"w{worker:02}", f"c{said}"))
    return log(rows)


def truth_of(data):
    tasks = sorted(data["task"].unique())
    return pd.Series([f"c{int(task[1:]) % 3}" for task in tasks], index=tasks)


MODELS = [twin.MACE, twin.GLAD]


class TestSurface:
    def test_constructors(self):
        defaults = {name: p.default for name, p in inspect.signature(twin.MACE).parameters.items()}
        assert defaults == {
            "n_restarts": 10,
            "n_iter": 50,
            "method": "vb",
            "smoothing": 0.1,
            "default_noise": 0.5,
            "alpha": 0.5,
            "beta": 0.5,
            "random_state": 0,
            "verbose": 0,
        }
        defaults = {name: p.default for name, p in inspect.signature(twin.GLAD).parameters.items()}
        assert defaults == {
            "n_iter": 100,
            "tol": 1e-5,
            "silent": True,
            "labels_priors": None,
            "alphas_priors_mean": None,
            "betas_priors_mean": None,
            "m_step_max_iter": 25,
            "m_step_tol": 1e-2,
        }

    @pytest.mark.parametrize("cls", MODELS)
    def test_results_have_names(self, cls):
        data = random_log(0)
        model = cls().fit(data)
        assert (model.labels_.name, model.labels_.index.name) == ("agg_label", "task")
        assert (model.probas_.index.name, model.probas_.columns.name) == ("task", "label")
        np.testing.assert_allclose(model.probas_.sum(axis=1), 1.0)
        assert (model.probas_.idxmax(axis=1) == model.labels_).all()
        pd.testing.assert_series_equal(cls().fit_predict(data), model.labels_)
        pd.testing.assert_frame_equal(cls().fit_predict_proba(data), model.probas_)
        assert (model.labels_ == truth_of(data)).mean() > 0.8

    def test_what_is_learnt(self):
        data = random_log(1)[::-1]
        mace = twin.MACE().fit(data)
        assert mace.spamming_.shape == (10, 2)
        assert mace.thetas_.shape == (10, 3)
        np.testing.assert_allclose(mace.spamming_.sum(axis=1), 1.0)
        np.testing.assert_allclose(mace.thetas_.sum(axis=1), 1.0)
        glad = twin.GLAD().fit(data)
        assert (glad.alphas_.name, glad.alphas_.index.name) == ("alpha", "worker")
        assert (glad.betas_.name, glad.betas_.index.name) == ("beta", "task")
        assert glad.alphas_.index.tolist() == sorted(data["worker"].unique())
        assert glad.betas_.index.tolist() == sorted(data["task"].unique())
        assert (np.diff(glad.loss_history_) >= -1e-12).all()

    def test_mace_has_restarts_that_differ_and_smoothing_that_smooths(self):
        data = random_log(2, n_tasks=12)
        one, ten = (twin.MACE(n_restarts=n, n_iter=2).fit(data) for n in (1, 10))
        assert not np.array_equal(one.thetas_, ten.thetas_)
        rough, smooth = (twin.MACE(method="em", smoothing=s).fit(data) for s in (1e-3, 50.0))
        assert np.abs(smooth.thetas_ - 1 / 3).mean() < 0.2 * np.abs(rough.thetas_ - 1 / 3).mean()

    @pytest.mark.parametrize("cls", MODELS)
    def test_the_order_of_rows_does_not_matter(self, cls):
        data = random_log(3)
        shuffled = cls().fit(data.sample(frac=1, random_state=0))
        pd.testing.assert_frame_equal(shuffled.probas_, cls().fit(data).probas_)

    def test_mace_survives_many_labels(self):
        many = log([(t, w, "xy"[(t + (w % 5 == 0)) % 2]) for t in range(3) for w in range(3000)])
        for method in ("vb", "em"):
            assert np.isfinite(twin.MACE(1, 5, method).fit(many).probas_.to_numpy()).all()

    def test_glad_priors(self):
        data = random_log(4)
        prior = pd.Series({"c2": 0.2, "c0": 0.2, "c1": 0.2, "never": 0.4})
        model = twin.GLAD(labels_priors=prior).fit(data)
        assert model.probas_.columns.tolist() == prior.index.tolist()
        means = pd.Series(2.0, index=data["worker"].unique())
        able = twin.GLAD(alphas_priors_mean=means).fit(data)
        assert able.alphas_.mean() > twin.GLAD().fit(data).alphas_.mean()
        with pytest.raises(ValueError, match=r"alphas_priors_mean.*'w00'"):
            twin.GLAD(alphas_priors_mean=means.drop("w00")).fit(data)
        with pytest.raises(ValueError, match="n_iter"):
            twin.GLAD(n_iter=-1).fit(data)
        assert len(twin.GLAD(n_iter=0).fit(data).labels_) == data["task"].nunique()


class TestGoldMajorityVote:
    def test_skills_are_shares_of_right_answers(self):
        data, truth = random_log(0), truth_of(random_log(0))[::4]
        model = twin.GoldMajorityVote().fit(data, truth)
        known = data[data["task"].isin(truth.index)]
        right = known["label"].to_numpy() == truth[known["task"]].to_numpy()
        expected = pd.Series(right, index=known["worker"]).groupby(level=0).mean()
        np.testing.assert_allclose(model.skills_, expected)
        assert (model.skills_.name, model.skills_.index.name) == ("skill", "worker")
        assert not hasattr(model, "labels_")
        probas = model.predict_proba(data)
        pd.testing.assert_frame_equal(probas, twin.MajorityVote().fit_predict_proba(data, model.skills_))
        pd.testing.assert_frame_equal(twin.GoldMajorityVote().fit_predict_proba(data, truth), probas)
        pd.testing.assert_series_equal(twin.GoldMajorityVote().fit_predict(data, truth), model.labels_)

    def test_workers_without_gold(self):
        data = log([(1, "a", "x"), (2, "a", "y"), (2, "b", "y")])
        model = twin.GoldMajorityVote().fit(data, pd.Series({1: "x"}))
        assert model.skills_.to_dict() == {"a": 1.0}
        assert model.predict(data[:2]).to_dict() == {1: "x", 2: "y"}
        with pytest.raises(ValueError, match=r"1 of 2 workers.*'b'"):
            model.predict(data)

    def test_several_rows_of_one_task(self):
        """Figures of crowd-kit 1.4.2."""
        data = log([(1, "a", "x"), (1, "b", "y"), (2, "a", "x"), (2, "b", "x"), (3, "a", "y"), (3, "b", "x")])
        once, twice, either = (
            twin.GoldMajorityVote().fit(data, pd.Series(labels, index=[1] * len(labels)))
            for labels in (["x"], ["x", "x"], ["x", "y"])
        )
        assert once.skills_.to_dict() == twice.skills_.to_dict() == {"a": 1.0, "b": 0.0}
        assert either.skills_.to_dict() == {"a": 1.0, "b": 1.0}
        assert twice.predict(data).to_dict() == {1: "x", 2: "x", 3: "y"}

    def test_a_class_that_nobody_named_is_nobodys_right_answer(self):
        data = log([(1, "a", "x"), (2, "a", "y"), (1, "b", "y")])
        model = twin.GoldMajorityVote().fit(data, pd.Series({1: "z", 2: "y", 3: "x", 4: None}))
        assert model.skills_.to_dict() == {"a": 0.5, "b": 0.0}

    def test_before_fit(self):
        with pytest.raises(mh.errors.NotFittedError, match="call fit"):
            twin.GoldMajorityVote().predict(random_log(0))


class TestMeasures:
    def test_alpha(self):
        data = random_log(0)
        assert twin.alpha_krippendorff(data) == pytest.approx(mh.agreement.krippendorff_alpha(data).value, abs=1e-14)
        steps = {"c0": 0, "c1": 1, "c2": 2}
        by_square = twin.alpha_krippendorff(data, lambda a, b: (steps[a] - steps[b]) ** 2 / 4)
        numbers = data.assign(label=data["label"].map(steps))
        assert by_square == pytest.approx(mh.agreement.krippendorff_alpha(numbers, level="interval").value)
        assert twin.alpha_krippendorff(log([(1, "a", "x"), (1, "b", "x"), (2, "a", "y")])) == 1.0
        with pytest.raises(ZeroDivisionError, match="labels"):
            twin.alpha_krippendorff(log([(1, "a", "x"), (2, "b", "y")]))
        with pytest.raises(ZeroDivisionError, match="distance"):
            twin.alpha_krippendorff(data, lambda a, b: 0.0)
        with pytest.raises(ValueError, match="worker"):
            twin.alpha_krippendorff(log([(1, "a", "x"), (1, "a", "y")]))

    def test_figures_of_crowd_kit(self):
        """Printed by crowd-kit 1.4.2 with nltk 3.9 and pandas 2.3."""
        data = log([(1, "a", "x"), (1, "b", "y"), (2, "a", "x"), (2, "b", "x"), (3, "a", "y"), (3, "b", "x")])
        repeated = log([(1, "a", "x"), (1, "a", "y"), (1, "b", "x"), (2, "a", "x"), (2, "b", "y")])
        skills = pd.Series({"a": 0.8, "b": 0.7})
        assert twin.alpha_krippendorff(repeated) == pytest.approx(-0.3333333333333335, rel=ROUNDING)
        alpha = twin.alpha_krippendorff(data, lambda a, b: 0.0 if a == b else (0.3 if a < b else 0.7))
        assert alpha == pytest.approx(-0.25, rel=ROUNDING)
        by_task = {1: 0.6315789473684211, 2: 0.903225806451613, 3: 0.3684210526315788}
        assert twin.consistency(data, skills, by_task=True).to_dict() == pytest.approx(by_task, rel=ROUNDING)
        assert twin.consistency(data, skills) == pytest.approx(0.6344086021505376, rel=ROUNDING)
        assert twin.consistency(repeated) == pytest.approx(0.5833333333333333, rel=ROUNDING)
        entropy = {1: 0.6881388137135884, 2: 0.5623351446188083, 3: 0.6881388137135884}
        assert twin.uncertainty(data, skills, aggregate=False).to_dict() == pytest.approx(entropy, rel=ROUNDING)
        by_worker = twin.uncertainty(data, skills, compute_by="worker", aggregate=False)
        assert by_worker.to_dict() == pytest.approx({"a": 0.6730116670092563, "b": 0.6842317651303003}, rel=ROUNDING)
        assert twin.uncertainty(repeated) == pytest.approx(0.6648306744273791, rel=ROUNDING)

    def test_consistency_of_impossible_answers_is_nought(self):
        data = log([(1, "a", "x"), (1, "b", "y"), (2, "a", "x")])
        sure = pd.Series({"a": 1.0, "b": 1.0})
        assert twin.consistency(data, sure, by_task=True).to_dict() == {1: 0.0, 2: 1.0}
        assert twin.consistency(data, sure) == 0.5

    def test_consistency_of_many_answers(self):
        many = log([(1, w, "xy"[w % 3 == 0]) for w in range(9000)])
        skills = pd.Series(0.6, index=range(9000))
        assert twin.consistency(many, skills) == pytest.approx(1.0)

    def test_uncertainty(self):
        data = log([("X", "A", "yes"), ("X", "B", "no"), ("X", "C", "maybe"), ("Y", "A", "yes")])
        by_task = twin.uncertainty(data, aggregate=False)
        assert by_task.to_dict() == pytest.approx({"X": np.log(3), "Y": 0.0})
        assert twin.uncertainty(data) == pytest.approx(np.log(3) / 2)
        by_worker = twin.uncertainty(data, compute_by="worker", aggregate=False)
        assert by_worker.index.name == "worker"
        assert by_worker.to_dict() == pytest.approx({"A": 0.0, "B": 0.0, "C": 0.0})

    def test_errors(self):
        data = random_log(0)
        with pytest.raises(ValueError, match=r"compute_by.*label"):
            twin.uncertainty(data, compute_by="label")
        with pytest.raises(ValueError, match=r"skill.*'w00'"):
            twin.uncertainty(data, pd.Series({"w01": 1.0}))
        for measure in (twin.alpha_krippendorff, twin.consistency, twin.uncertainty):
            for column in ("task", "worker", "label"):
                with pytest.raises(KeyError, match=f"no column '{column}'"):
                    measure(data.drop(columns=column))
            with pytest.raises(TypeError, match="DataFrame"):
                measure({"task": [1]})
        with pytest.raises(ValueError, match=r"'w03'.*4, not"):
            twin.consistency(data, pd.Series(np.where(np.arange(10) == 3, 4.0, 0.5), sorted(data["worker"].unique())))
        for measure in (twin.consistency, twin.uncertainty):
            with pytest.raises(ValueError, match="DawidSkene"):
                measure(data, aggregator=twin.DawidSkene())
        with pytest.raises(ValueError, match="rows"):
            twin.uncertainty(data[:0])


#: A few roundings of sums in another order.
ROUNDING = 1e-12


@pytest.mark.filterwarnings("ignore")
class TestAgainstCrowdKit:
    @pytest.mark.parametrize("method", ["vb", "em"])
    def test_mace_answers_alike(self, peer, method):
        data = random_log(0, n_tasks=200)
        theirs, ours = (library.MACE(method=method).fit_predict(data) for library in (peer, twin))
        assert (ours == theirs[ours.index]).mean() > 0.9

    def test_glad_ends_at_the_same_summit(self, peer):
        data = random_log(0, n_tasks=9, n_workers=6)
        theirs = peer.GLAD(n_iter=8, tol=-np.inf, m_step_tol=1e-4)
        expected = theirs.fit_predict_proba(data)
        ours = twin.GLAD(n_iter=5000, tol=1e-14)
        got = ours.fit_predict_proba(data)
        np.testing.assert_allclose(got.loc[expected.index, expected.columns], expected, atol=1e-2)
        np.testing.assert_allclose(ours.alphas_[theirs.alphas_.index], theirs.alphas_, atol=2e-2)
        np.testing.assert_allclose(ours.betas_[theirs.betas_.index], theirs.betas_, atol=2e-2)

    def test_gold_majority_vote(self, peer):
        data, truth = random_log(0), truth_of(random_log(0))[::4]
        theirs, ours = peer.GoldMajorityVote(), twin.GoldMajorityVote()
        expected, got = theirs.fit_predict_proba(data, truth), ours.fit_predict_proba(data, truth)
        pd.testing.assert_series_equal(ours.skills_, theirs.skills_, check_like=True)
        pd.testing.assert_frame_equal(got, expected, check_like=True)

    def test_measures(self, peer):
        from crowdkit.metrics import data as measures

        data = random_log(6)
        assert twin.alpha_krippendorff(data) == pytest.approx(measures.alpha_krippendorff(data), rel=ROUNDING)
        uneven = log([("t", "w", "c0"), *data.iloc[5:].itertuples(index=False)])
        assert twin.alpha_krippendorff(uneven) == pytest.approx(measures.alpha_krippendorff(uneven), rel=ROUNDING)
        apart = {("c0", "c1"): 0.2, ("c0", "c2"): 1.0, ("c1", "c2"): 0.6}

        def distance(a, b):
            return 0.0 if a == b else apart[min(a, b), max(a, b)]

        assert twin.alpha_krippendorff(data, distance) == pytest.approx(measures.alpha_krippendorff(data, distance))
        skills = pd.Series(np.linspace(0.3, 0.9, 10), sorted(data["worker"].unique()))
        assert twin.consistency(data) == pytest.approx(measures.consistency(data), rel=ROUNDING)
        by_task = measures.consistency(data, skills, by_task=True)
        pd.testing.assert_series_equal(twin.consistency(data, skills, by_task=True), by_task, atol=0, rtol=ROUNDING)
        assert twin.uncertainty(data) == pytest.approx(measures.uncertainty(data), rel=ROUNDING)
        for by in ("task", "worker"):
            theirs = measures.uncertainty(data, skills, compute_by=by, aggregate=False)
            ours = twin.uncertainty(data, skills, compute_by=by, aggregate=False)
            pd.testing.assert_series_equal(ours, theirs, atol=0, rtol=ROUNDING)
        learnt = measures.uncertainty(data, aggregator=peer.MajorityVote())
        assert twin.uncertainty(data, aggregator=twin.MajorityVote()) == pytest.approx(learnt)
