"""The twins of crowd-kit's MMSR and KOS: their surface, odd logs, and crowd-kit itself if it is installed."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


def log(rows):
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def random_log(seed, n_tasks=120, n_workers=12, n_classes=2, per_task=7, accuracy=(0.5, 0.95)):
    """Draw a log in which everybody meets everybody."""
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(0, n_classes, n_tasks), rng.uniform(*accuracy, n_workers)
    rows = []
    for task in range(n_tasks):
        for worker in rng.permutation(n_workers)[:per_task]:
            said = truth[task] if rng.random() < skill[worker] else rng.integers(0, n_classes)
            rows.append((f"t{task:03}", f"w{worker:02}", f"c{said}"))
    order = rng.permutation(len(rows))
    return log([rows[i] for i in order])


def quietly(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.IdentifiabilityWarning)
        return call()


ODD = {
    "one class": log([(1, "a", "x"), (1, "b", "x"), (2, "a", "x")]),
    "one worker": log([(1, "a", "x"), (2, "a", "y")]),
    "two workers": log([(1, "a", "x"), (1, "b", "x"), (2, "a", "y"), (2, "b", "x")]),
    "one row": log([(1, "a", "x")]),
    "tree": log([(1, "a", "x"), (1, "b", "x"), (2, "b", "y"), (2, "c", "y")]),
    "groups": log(
        [(t, w + g, "xy"[t % 2]) for g in "12" for t in (range(3) if g == "1" else range(3, 6)) for w in "abc"]
    ),
    "chance": log(
        [(t, w, y) for t, row in enumerate(["xxy", "xyx", "yxx", "yyy"]) for w, y in zip("abc", row, strict=True)]
    ),
    "repeats": log([(t, w, "xy"[t % 2]) for t in range(4) for w in "abc"] * 3),
    "categories": random_log(0, 20).astype("category"),
    "numbers": log([(t, w, t % 2) for t in range(6) for w in range(3)]),
    "booleans": log([(t, w, t % 2 == 0) for t in range(6) for w in range(3)]),
    "many classes": log([(t, w, t % 5) for t in range(20) for w in range(4)]),
}


class TestSurface:
    def test_constructors(self):
        defaults = {name: p.default for name, p in inspect.signature(twin.MMSR).parameters.items()}
        assert defaults == {"n_iter": 10000, "tol": 1e-10, "random_state": 0}
        defaults = {name: p.default for name, p in inspect.signature(twin.KOS).parameters.items()}
        assert defaults == {"n_iter": 100, "random_state": 0}
        assert repr(twin.KOS(5)) == "KOS(n_iter=5)"

    def test_results_have_names(self):
        data = random_log(1)
        model = twin.MMSR().fit(data)
        assert model.skills_.name == "skill"
        assert model.skills_.index.name == "worker"
        assert model.skills_.index.tolist() == sorted(data["worker"].unique())
        assert not hasattr(model, "labels_")
        scores, labels = model.predict_score(data), model.predict(data)
        assert (scores.index.name, scores.columns.name) == ("task", "label")
        assert (labels.name, labels.index.name) == ("agg_label", "task")
        assert labels.index.tolist() == sorted(data["task"].unique())
        np.testing.assert_allclose(scores.sum(axis=1), 1.0)
        assert (scores.idxmax(axis=1) == labels).all()
        pd.testing.assert_frame_equal(twin.MMSR().fit_predict_score(data), scores)
        pd.testing.assert_series_equal(twin.MMSR().fit_predict(data), labels)
        answer = twin.KOS().fit_predict(data)
        assert (answer.name, answer.index.name) == ("agg_label", "task")
        assert answer.dtype == data["label"].dtype

    def test_skills_are_log_odds(self):
        data = random_log(3, n_tasks=2000, accuracy=(0.2, 0.9))
        skills = twin.MMSR().fit(data).skills_
        # Drawn by random_log: a right answer, or one of both at random.
        rng = np.random.default_rng(3)
        rng.integers(0, 2, 2000)
        right = (1 + rng.uniform(0.2, 0.9, 12)) / 2
        np.testing.assert_allclose(1 / (1 + np.exp(-skills)), right, atol=0.05)

    def test_errors(self):
        with pytest.raises(mh.errors.NotFittedError, match="call fit"):
            twin.MMSR().predict(random_log(0))
        model = twin.MMSR().fit(random_log(0))
        with pytest.raises(ValueError, match=r"1 of 1 workers.*'z'"):
            model.predict(log([("t", "z", "c0")]))
        for cls in (twin.MMSR, twin.KOS):
            with pytest.raises(KeyError, match="'worker'"):
                cls().fit(random_log(0).drop(columns="worker"))
            with pytest.raises(ValueError, match="n_iter"):
                cls(n_iter=-1).fit(random_log(0))

    def test_refit_forgets(self):
        model = twin.MMSR()
        model.fit_predict(random_log(0))
        model.fit(random_log(1))
        assert not hasattr(model, "labels_")

    def test_missing_labels_are_set_aside(self):
        data = random_log(2)
        gaps = pd.concat([data, log([("t000", "w99", None)])], ignore_index=True)
        for cls in (twin.MMSR, twin.KOS):
            with pytest.warns(mh.errors.DataWarning, match="label"):
                found = cls().fit_predict(gaps)
            pd.testing.assert_series_equal(found, cls().fit_predict(data), check_dtype=False, check_index_type=False)

    @pytest.mark.parametrize("cls", [twin.MMSR, twin.KOS])
    @pytest.mark.parametrize("name", ODD)
    def test_odd_logs_are_answered(self, cls, name):
        data = ODD[name]
        labels = quietly(lambda: cls().fit_predict(data))
        assert labels.index.tolist() == sorted(data["task"].unique())
        assert labels.isin(data["label"].unique()).all()
        # Where all who answered a task agree and agree elsewhere too, there is no other answer.
        if name not in ("two workers", "chance", "categories"):
            first = data.groupby("task", observed=True)["label"].first()
            assert (labels == first).all()

    def test_the_order_of_rows_does_not_matter(self):
        data = random_log(4)
        shuffled = data.sample(frac=1, random_state=0)
        for cls in (twin.MMSR, twin.KOS):
            pd.testing.assert_series_equal(cls().fit_predict(shuffled), cls().fit_predict(data))

    def test_the_state_of_numpy_is_left_alone(self):
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        twin.KOS(random_state=7).fit(random_log(0))
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.filterwarnings("ignore")
class TestAgainstCrowdKit:
    """The same numbers from both libraries, and the failures that the migration page tells of."""

    @pytest.mark.parametrize("seed", range(3))
    def test_mmsr_ranks_workers_alike(self, peer, seed):
        data = random_log(seed)
        theirs, ours = peer.MMSR().fit(data), twin.MMSR().fit(data)
        assert np.corrcoef(ours.skills_, theirs.skills_[ours.skills_.index])[0, 1] > 0.9

    @pytest.mark.parametrize("seed", range(3))
    def test_kos_has_the_same_labels(self, peer, seed):
        data = random_log(seed, n_tasks=150, n_workers=20, per_task=9, accuracy=(0.6, 0.95))
        for n_iter in (10, 100):
            assert (twin.KOS(n_iter).fit_predict(data) == peer.KOS(n_iter).fit_predict(data)).mean() > 0.98

    @pytest.mark.parametrize(
        ("name", "error"),
        [("one class", ValueError), ("many classes", ValueError), ("tree", KeyError), ("categories", TypeError)],
    )
    def test_where_its_kos_fails(self, peer, name, error):
        with pytest.raises(error):
            peer.KOS().fit(ODD[name])

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("one class", ZeroDivisionError),
            ("two workers", ValueError),
            ("groups", ValueError),
            ("chance", ValueError),
            ("categories", AttributeError),
        ],
    )
    def test_where_its_mmsr_fails(self, peer, name, error):
        with pytest.raises(error):
            peer.MMSR().fit_predict(ODD[name])
