"""The twins of crowd-kit's classes: their surface, their numbers, and crowd-kit itself if it is installed."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.compat import crowdkit as twin
from manyhands.compat._absent import ABSENT

pd = pytest.importorskip("pandas")

CLASSES = [twin.MajorityVote, twin.Wawa, twin.ZeroBasedSkill, twin.DawidSkene, twin.OneCoinDawidSkene]
EM_CLASSES = [twin.DawidSkene, twin.OneCoinDawidSkene]
SKILL_CLASSES = [twin.Wawa, twin.ZeroBasedSkill]

PAGE = Path(__file__).parents[1] / "docs" / "migrating-from-crowd-kit.md"


def log(rows):
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def small_log():
    """Five tasks, four workers, three labels; rows deliberately not in sorted order."""
    return log(
        [
            ("t2", "w3", "b"),
            ("t2", "w1", "a"),
            ("t2", "w2", "b"),
            ("t1", "w2", "a"),
            ("t1", "w1", "a"),
            ("t1", "w4", "c"),
            ("t3", "w1", "c"),
            ("t3", "w3", "c"),
            ("t3", "w4", "a"),
            ("t5", "w4", "b"),
            ("t5", "w2", "b"),
            ("t5", "w1", "b"),
            ("t4", "w3", "a"),
            ("t4", "w1", "a"),
        ]
    )


def random_log(seed, n_tasks=60, n_workers=8, n_classes=3, density=0.6):
    """Draw a log in which workers meet all classes often, so that nothing rests on a handful of labels."""
    rng = np.random.default_rng(seed)
    tasks, workers = np.nonzero(rng.random((n_tasks, n_workers)) < density)
    truth, accuracy = rng.integers(0, n_classes, n_tasks), rng.uniform(0.4, 0.9, n_workers)
    right = rng.random(len(tasks)) < accuracy[workers]
    labels = np.where(right, truth[tasks], rng.integers(0, n_classes, len(tasks)))
    order = rng.permutation(len(tasks))
    return log(
        {
            "task": [f"t{i:02}" for i in tasks[order]],
            "worker": workers[order],
            "label": [f"c{i}" for i in labels[order]],
        }
    )


# --------------------------------------------------------------------------------------- a plain NumPy twin


class Plain:
    """Dawid–Skene as crowd-kit counts it: n_iter times an E-step and an M-step, from vote shares."""

    def __init__(self, data, n_iter, *, one_coin=False, true_labels=None, start=None, added=None):
        self.tasks, t = np.unique(data["task"], return_inverse=True)
        self.workers, w = np.unique(data["worker"], return_inverse=True)
        self.classes, y = np.unique(data["label"], return_inverse=True)
        n, m, k = len(self.tasks), len(self.workers), len(self.classes)
        seen = np.zeros((m, k), bool)
        seen[w, y] = True
        gold = {self.tasks.tolist().index(a): self.classes.tolist().index(b) for a, b in (true_labels or {}).items()}

        def clamp(q):
            for task, cls in gold.items():
                q[task] = np.arange(k) == cls
            return q

        def m_step(q, extra=0.0):
            counts = np.zeros((m, k, k))  # [worker, true, observed]
            np.add.at(counts, (w, slice(None), y), q[t])
            if one_coin:
                right = counts[:, range(k), range(k)].sum(axis=1) / counts.sum(axis=(1, 2))
                matrices = np.repeat(((1 - right) / max(k - 1, 1))[:, None, None], k, 1).repeat(k, 2)
                matrices[:, range(k), range(k)] = right[:, None]
                return np.clip(matrices, 1e-10, 1 - 1e-10)
            counts = np.where(seen[:, None, :], np.maximum(counts + extra, 1e-10), 0)
            return counts / counts.sum(axis=2, keepdims=True)

        q = np.zeros((n, k))
        np.add.at(q, (t, y), 1)
        q = clamp(q / q.sum(axis=1, keepdims=True))
        prior = q.mean(axis=0)
        confusion = m_step(q, 0.0 if added is None else added) if start is None else start
        self.log_likelihood = []
        for _ in range(n_iter):
            with np.errstate(divide="ignore"):
                logs = np.tile(np.log(np.maximum(prior, 1e-10)), (n, 1))
                np.add.at(logs, t, np.log(confusion)[w, :, y])
            self.log_likelihood.append(np.logaddexp.reduce(logs, axis=1).sum() / len(t))
            q = np.exp(logs - logs.max(axis=1, keepdims=True))
            q = clamp(q / q.sum(axis=1, keepdims=True))
            prior, confusion = q.mean(axis=0), m_step(q)
        self.posterior, self.prior, self.confusion = q, prior, confusion

    def check(self, model, atol=1e-7):
        probas = model.probas_.loc[list(self.tasks), list(self.classes)]
        np.testing.assert_allclose(probas.to_numpy(), self.posterior, atol=atol)
        np.testing.assert_allclose(model.priors_[list(self.classes)].to_numpy(), self.prior, atol=atol)
        for (worker, label), row in model.errors_.iterrows():
            m, y = self.workers.tolist().index(worker), self.classes.tolist().index(label)
            np.testing.assert_allclose(row[list(self.classes)].to_numpy(), self.confusion[m, :, y], atol=atol)


# -------------------------------------------------------------------------------------------------- surface


class TestSurface:
    @pytest.mark.parametrize(
        ("cls", "expected"),
        [
            (twin.MajorityVote, {"default_skill": None, "on_missing_skill": "error"}),
            (twin.Wawa, {}),
            (
                twin.ZeroBasedSkill,
                {
                    "n_iter": 100,
                    "lr_init": 1.0,
                    "lr_steps_to_reduce": 20,
                    "lr_reduce_factor": 0.5,
                    "eps": 1e-5,
                },
            ),
            (twin.DawidSkene, {"n_iter": 100, "tol": 1e-5, "initial_error_strategy": None}),
            (twin.OneCoinDawidSkene, {"n_iter": 100, "tol": 1e-5, "initial_error_strategy": None}),
        ],
    )
    def test_constructor(self, cls, expected):
        parameters = inspect.signature(cls).parameters
        assert {name: p.default for name, p in parameters.items()} == expected
        assert list(parameters) == list(expected)
        assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
        assert cls(*expected.values()).get_params() == expected

    @pytest.mark.parametrize(
        ("cls", "arguments", "methods"),
        [
            (twin.MajorityVote, ["data", "skills"], ["fit", "fit_predict", "fit_predict_proba"]),
            *(
                (cls, ["data"], ["fit", "predict", "predict_proba", "fit_predict", "fit_predict_proba"])
                for cls in SKILL_CLASSES
            ),
            (
                twin.DawidSkene,
                ["data", "true_labels", "initial_error"],
                ["fit", "fit_predict", "fit_predict_proba"],
            ),
            (twin.OneCoinDawidSkene, ["data"], ["fit", "fit_predict", "fit_predict_proba"]),
        ],
    )
    def test_methods(self, cls, arguments, methods):
        for method in methods:
            parameters = inspect.signature(getattr(cls(), method)).parameters
            assert list(parameters) == arguments
            assert all(p.default is None for name, p in parameters.items() if name != "data")

    @pytest.mark.parametrize("cls", CLASSES)
    def test_axes_have_names(self, cls):
        model = cls()
        labels = model.fit_predict(small_log())
        assert labels is model.labels_
        assert (labels.name, labels.index.name) == ("agg_label", "task")
        probas = model.fit_predict_proba(small_log())
        assert probas is model.probas_
        assert (probas.index.name, probas.columns.name) == ("task", "label")
        assert probas.columns.tolist() == ["a", "b", "c"]
        assert probas.to_numpy().dtype == np.float64
        if cls is not twin.DawidSkene:
            assert (model.skills_.name, model.skills_.index.name) == ("skill", "worker")
            assert model.skills_.dtype == float
        if cls in EM_CLASSES:
            assert (model.priors_.name, model.priors_.index.name) == ("prior", "label")
            assert list(model.errors_.index.names) == ["worker", "label"]
            assert (model.errors_.columns.tolist(), model.errors_.columns.name) == (["a", "b", "c"], None)
            assert type(model.loss_history_) is list
            assert all(type(x) is float for x in model.loss_history_)

    @pytest.mark.parametrize("cls", CLASSES)
    def test_nothing_is_known_before_fit(self, cls):
        names = ("labels_", "probas_", "skills_", "priors_", "errors_", "loss_history_")
        assert not any(hasattr(cls(), name) for name in names)

    @pytest.mark.parametrize("cls", SKILL_CLASSES)
    def test_fit_learns_skills_and_predict_the_rest(self, cls):
        model = cls()
        with pytest.raises(mh.NotFittedError, match=cls.__name__):
            model.predict(small_log())
        assert model.fit(small_log()) is model
        assert not hasattr(model, "labels_")
        assert model.predict(small_log()) is model.labels_
        model.fit(small_log())
        assert not hasattr(model, "labels_")  # refitting forgets

    @pytest.mark.parametrize("cls", EM_CLASSES)
    def test_order_is_that_of_the_rows(self, cls):
        data = small_log()
        model = cls().fit(data)
        assert model.labels_.index.tolist() == model.probas_.index.tolist() == ["t2", "t1", "t3", "t5", "t4"]
        pairs = data[["worker", "label"]].drop_duplicates()
        assert model.errors_.index.tolist() == list(pairs.itertuples(index=False, name=None))

    @pytest.mark.parametrize("cls", [twin.MajorityVote, *SKILL_CLASSES])
    def test_order_of_votes_is_sorted(self, cls):
        model = cls()
        labels = model.fit_predict(small_log())
        assert labels.index.tolist() == model.probas_.index.tolist() == ["t1", "t2", "t3", "t4", "t5"]
        assert model.skills_.index.tolist() == ["w1", "w2", "w3", "w4"]

    @pytest.mark.parametrize("cls", CLASSES)
    @pytest.mark.parametrize(
        "labels",
        [
            np.array([0, 1, 2], np.int8),
            np.array([0.5, 1.0, 2.0]),
            np.array([0.0, 1.0, 2.0]),
            np.array(["a", "b", "c"], object),
            pd.array(["a", "b", "c"], dtype="string"),
            pd.array([0, 1, 2], dtype="Int64"),
            pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).tz_localize("Europe/Berlin"),
        ],
        ids=["int8", "float", "whole-float", "object", "string", "Int64", "zoned-time"],
    )
    def test_dtypes_are_those_of_the_columns(self, cls, labels):
        data = small_log()
        expected = cls().fit_predict(data)
        codes = data["label"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
        data["label"] = pd.Series(labels[codes])
        got = cls().fit_predict(data)
        assert got.dtype == data["label"].dtype
        assert got.index.dtype == data["task"].dtype
        assert got.tolist() == pd.Series(labels)[expected.map({"a": 0, "b": 1, "c": 2})].tolist()

    @pytest.mark.parametrize("cls", CLASSES)
    def test_booleans(self, cls):
        data = log({"task": [1, 1, 1, 2, 2], "worker": list("abcab"), "label": [True, True, False, False, False]})
        model = cls()
        assert model.fit_predict(data).to_dict() == {1: True, 2: False}
        assert model.labels_.dtype == model.probas_.columns.dtype == bool

    @pytest.mark.parametrize("cls", CLASSES)
    def test_categories(self, cls):
        plain, model = cls(), cls()
        plain.fit_predict(small_log())
        model.fit_predict(small_log().astype("category"))
        pd.testing.assert_series_equal(model.labels_, plain.labels_)
        pd.testing.assert_frame_equal(model.probas_, plain.probas_)
        if cls in EM_CLASSES:
            pd.testing.assert_frame_equal(model.errors_, plain.errors_)

    @pytest.mark.parametrize("cls", EM_CLASSES)
    @pytest.mark.parametrize("name", ["task", "worker", "label"])
    def test_labels_may_be_called_as_the_columns_are(self, cls, name):
        data = log([(1, "a", name), (1, "b", name), (2, "a", "z"), (2, "b", "z")])
        assert cls().fit_predict(data).to_dict() == {1: name, 2: "z"}

    @pytest.mark.parametrize("cls", CLASSES)
    def test_input_is_left_alone(self, cls):
        data = small_log().assign(extra=1)
        before = data.copy()
        cls().fit_predict(data)
        pd.testing.assert_frame_equal(data, before)

    @pytest.mark.parametrize("cls", CLASSES)
    def test_empty_log(self, cls):
        model = cls()
        empty = log({"task": np.zeros(0, int), "worker": np.zeros(0), "label": np.zeros(0, object)})
        labels, probas = model.fit_predict(empty), model.fit_predict_proba(empty)
        assert probas.shape == (0, 0)
        # As crowd-kit has them.
        none = pd.RangeIndex(0)
        kind = float if cls in EM_CLASSES else object
        pd.testing.assert_series_equal(labels, pd.Series(np.zeros(0, kind), none, name="agg_label"))
        if cls in EM_CLASSES:
            assert probas.index.equals(none)
            pd.testing.assert_frame_equal(model.errors_, pd.DataFrame())
            pd.testing.assert_series_equal(model.priors_, pd.Series(np.zeros(0), none, name="prior"))
            assert model.loss_history_ == []
        else:
            pd.testing.assert_index_equal(probas.index, pd.Index([], dtype=int, name="task"))
            pd.testing.assert_index_equal(probas.columns, pd.Index([], dtype=object, name="label"))
        if cls is not twin.DawidSkene:
            by_worker = pd.Index([], dtype=float, name="worker")
            pd.testing.assert_series_equal(model.skills_, pd.Series(np.zeros(0), by_worker, name="skill"))

    @pytest.mark.parametrize("cls", CLASSES)
    def test_one_row(self, cls):
        model = cls()
        assert model.fit_predict(log([("t", "w", "a")])).to_dict() == {"t": "a"}
        assert model.fit_predict_proba(log([("t", "w", "a")])).to_numpy().tolist() == [[1.0]]

    @pytest.mark.parametrize("cls", CLASSES)
    def test_clone(self, cls):
        base = pytest.importorskip("sklearn.base")
        model = cls() if cls in (twin.MajorityVote, twin.Wawa) else cls(n_iter=7)
        model.fit(small_log())
        copy = base.clone(model)
        assert copy.get_params() == model.get_params()
        assert not hasattr(copy, "skills_")
        assert not hasattr(copy, "probas_")


class TestBadInput:
    @pytest.mark.parametrize("cls", CLASSES)
    @pytest.mark.parametrize("column", ["task", "worker", "label"])
    def test_missing_column(self, cls, column):
        with pytest.raises(KeyError, match=f"no column '{column}'; the columns are"):
            cls().fit(small_log().drop(columns=column))

    @pytest.mark.parametrize("cls", CLASSES)
    def test_other_frames(self, cls):
        polars = pytest.importorskip("polars")
        with pytest.raises(TypeError, match="polars's DataFrame"):
            cls().fit(polars.DataFrame({"task": [1], "worker": [1], "label": [1]}))

    @pytest.mark.parametrize("cls", CLASSES)
    @pytest.mark.parametrize("column", ["task", "worker"])
    def test_missing_ids(self, cls, column):
        data = small_log()
        data.loc[3, column] = None
        with pytest.raises(ValueError, match=f"{column} column.*first at row 3"):
            cls().fit(data)

    @pytest.mark.parametrize("cls", CLASSES)
    @pytest.mark.parametrize("absent", [None, float("nan"), ""])
    def test_missing_labels_count_for_nothing(self, cls, absent):
        gaps = [("t9", "w9", absent), ("t1", "w9", absent), ("t1", "w3", absent)]
        data = log([*gaps, *small_log().itertuples(index=False)])
        model, expected = cls(), cls()
        with pytest.warns(mh.DataWarning, match="3 rows without a label.*'t9'"):
            model.fit_predict(data)
        expected.fit_predict(small_log())
        # The rows without a label may still name a task first.
        pd.testing.assert_series_equal(model.labels_.sort_index(), expected.labels_.sort_index())
        pd.testing.assert_frame_equal(model.probas_.sort_index(), expected.probas_.sort_index())
        if cls is not twin.DawidSkene:
            pd.testing.assert_series_equal(model.skills_.sort_index(), expected.skills_.sort_index())
        if cls in EM_CLASSES:
            pd.testing.assert_frame_equal(model.errors_.sort_index(), expected.errors_.sort_index())
            assert model.loss_history_ == pytest.approx(expected.loss_history_)

    @pytest.mark.parametrize("cls", EM_CLASSES)
    def test_negative_iterations(self, cls):
        with pytest.raises(ValueError, match="n_iter must be at least 0, not -1"):
            cls(n_iter=-1).fit(small_log())


class TestLazyPandas:
    def test_import_does_not_load_pandas(self):
        code = "import sys, manyhands.compat.crowdkit; print('pandas' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"

    def test_without_pandas_the_extra_is_named(self, monkeypatch):
        data = small_log()
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"manyhands\[frames\]"):
            twin.MajorityVote().fit(data)


# --------------------------------------------------------------------------------------------------- voting


class TestMajorityVote:
    def test_shares_labels_and_skills(self):
        model = twin.MajorityVote().fit(small_log())
        assert model.labels_.to_dict() == {"t1": "a", "t2": "b", "t3": "c", "t4": "a", "t5": "b"}
        third = 1 / 3
        expected = [[2 * third, 0, third], [third, 2 * third, 0], [third, 0, 2 * third], [1, 0, 0], [0, 1, 0]]
        np.testing.assert_allclose(model.probas_.to_numpy(), expected)
        # w1 is outvoted on t2; w4 on t1 and t3, but not on t5.
        assert model.skills_.to_dict() == pytest.approx({"w1": 0.8, "w2": 1.0, "w3": 1.0, "w4": third})

    def test_weighted(self):
        skills = pd.Series({"w4": 3.0, "w3": 1.0, "w2": 1.0, "w1": 1.0})
        model = twin.MajorityVote().fit(small_log(), skills)
        assert model.labels_.to_dict() == {"t1": "c", "t2": "b", "t3": "a", "t4": "a", "t5": "b"}
        np.testing.assert_allclose(model.probas_.loc["t1"], [2 / 5, 0, 3 / 5])
        # skills_ are the agreement with this outcome, not the skills given.
        assert model.skills_.to_dict() == pytest.approx({"w1": 2 / 5, "w2": 2 / 3, "w3": 2 / 3, "w4": 1.0})

    def test_integer_workers_in_any_order(self):
        data = log([(1, 30, "a"), (1, 10, "b"), (1, 20, "b")])
        assert twin.MajorityVote().fit_predict(data, pd.Series({30: 3.0, 20: 1.0, 10: 1.0})).tolist() == ["a"]

    @given(st.permutations(range(14)))
    @settings(max_examples=20, deadline=None)
    def test_row_order_does_not_matter(self, order):
        tied = log([("t6", "w1", "b"), ("t6", "w2", "a"), ("t7", "w1", "c"), ("t7", "w3", "b")])
        data = pd.concat([tied, small_log()], ignore_index=True)
        shuffled = data.iloc[[*(14 + i for i in range(4)), *order]]
        for cls in (twin.MajorityVote, *SKILL_CLASSES):
            model, other = cls(), cls()
            model.fit_predict(data)
            other.fit_predict(shuffled)
            pd.testing.assert_series_equal(model.labels_, other.labels_)
            pd.testing.assert_frame_equal(model.probas_, other.probas_)
        assert twin.MajorityVote().fit_predict(data)[["t6", "t7"]].tolist() == ["a", "b"]

    def test_sums_that_differ_by_rounding_are_a_tie(self):
        # 0.1 + 0.2 + 0.3 exceeds 0.6 in floating point, so that b would win by rounding alone.
        data = log([("t", w, "b") for w in "xyz"] + [("t", "w", "a")])
        skills = pd.Series({"w": 0.6, "x": 0.1, "y": 0.2, "z": 0.3})
        assert 0.1 + 0.2 + 0.3 > 0.6
        assert twin.MajorityVote().fit_predict(data, skills).tolist() == ["a"]

    def test_repeats_count_twice(self):
        data = log([(1, w, "x") for w in "aabc"] + [(2, "a", "y"), (2, "b", "x"), (2, "c", "x")])
        assert twin.MajorityVote().fit(data).skills_.to_dict() == pytest.approx({"a": 2 / 3, "b": 1, "c": 1})

    def test_no_weight_is_a_tie_of_all(self):
        data = log([(1, "a", "y"), (1, "b", "y"), (2, "c", "x")])
        model = twin.MajorityVote().fit(data, pd.Series({"a": 0.0, "b": 0.0, "c": 1.0}))
        assert model.probas_.to_numpy().tolist() == [[0.5, 0.5], [1.0, 0.0]]
        assert model.labels_.to_dict() == {1: "x", 2: "x"}

    def test_missing_skill_is_an_error(self):
        with pytest.raises(ValueError, match="no skill is known for 3 of 4 workers, such as 'w2'"):
            twin.MajorityVote().fit(small_log(), pd.Series({"w1": 1.0, "w3": np.nan}))

    def test_missing_skill_is_a_value(self):
        model = twin.MajorityVote(default_skill=3.0, on_missing_skill="value")
        assert model.fit_predict(small_log(), pd.Series({"w1": 1.0, "w2": 1.0, "w3": 1.0}))["t3"] == "a"
        np.testing.assert_allclose(model.probas_.loc["t3"], [3 / 5, 0, 2 / 5])

    def test_missing_skill_is_left_out(self):
        model = twin.MajorityVote(on_missing_skill="ignore")
        model.fit(small_log(), pd.Series({"w1": 1.0, "w3": np.nan}))
        assert model.skills_.to_dict() == {"w1": 1.0}
        assert model.labels_.to_dict() == {"t1": "a", "t2": "a", "t3": "c", "t4": "a", "t5": "b"}
        with pytest.raises(ValueError, match="2 tasks, such as 't2', have no worker with a known skill"):
            model.fit(small_log()[1:], pd.Series({"w4": 1.0}))
        with pytest.raises(ValueError, match="5 tasks"):
            model.fit(small_log(), pd.Series([], dtype=float))

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"on_missing_skill": "guess"}, "'error', 'ignore', 'value', not 'guess'"),
            ({"on_missing_skill": "value"}, "'value' needs one"),
            ({"default_skill": 0.5}, "on_missing_skill='error' does not go with default_skill=0.5"),
        ],
    )
    def test_bad_parameters(self, params, message):
        skills = pd.Series({"w1": 1.0, "w2": 1.0, "w3": 1.0, "w4": 1.0})
        with pytest.raises(ValueError, match=message):
            twin.MajorityVote(**params).fit(small_log(), skills)
        twin.MajorityVote(**params).fit(small_log())  # of no consequence without skills

    def test_one_skill_a_worker(self):
        with pytest.raises(ValueError, match="worker 'w1' more than once"):
            twin.MajorityVote().fit(small_log(), pd.Series([1.0, 2.0], index=["w1", "w1"]))


class TestWawa:
    def test_by_hand(self):
        # The majority is a on t1 and t2; w3 agrees on one of three (t3 is a tie, which goes to a).
        tasks, workers = (
            ["t1", "t1", "t1", "t2", "t2", "t3", "t3"],
            ["w1", "w2", "w3", "w1", "w3", "w1", "w3"],
        )
        data = log({"task": tasks, "worker": workers, "label": list("aabaaab")})
        model = twin.Wawa()
        assert model.fit_predict(data).to_dict() == {"t1": "a", "t2": "a", "t3": "a"}
        assert model.skills_.to_dict() == pytest.approx({"w1": 1.0, "w2": 1.0, "w3": 1 / 3})
        np.testing.assert_allclose(model.probas_["a"], [2 / (2 + 1 / 3), 1, 1 / (1 + 1 / 3)])

    @pytest.mark.parametrize("cls", SKILL_CLASSES)
    def test_predict_is_a_vote_by_skill(self, cls):
        model = cls().fit(small_log())
        other = log([("new", "w4", "z"), ("new", "w1", "y"), ("old", "w4", "z")])
        assert model.predict(other).to_dict() == {"new": "y", "old": "z"}
        expected = twin.MajorityVote().fit_predict_proba(other, model.skills_)
        pd.testing.assert_frame_equal(model.predict_proba(other), expected)
        with pytest.raises(ValueError, match="no skill is known for 1 of 1 workers, such as 'w5'"):
            model.predict(log([("new", "w5", "z")]))


class TestZeroBasedSkill:
    def test_rounds(self):
        data, agreement = small_log(), np.array([0.8, 1, 1, 1 / 3])
        start = 1 / 3 + 0.25
        assert twin.ZeroBasedSkill(n_iter=0, eps=0.25).fit(data).skills_.tolist() == [start] * 4
        # Equal skills give the majority vote, which the moved skills confirm in the second round.
        first = start + 0.5 * (agreement - start)
        model = twin.ZeroBasedSkill(n_iter=1, lr_init=0.5, eps=0.25).fit(data)
        np.testing.assert_allclose(model.skills_, first)
        second = first + 0.5 * (agreement - first)
        model = twin.ZeroBasedSkill(n_iter=2, lr_init=0.5, eps=0.25).fit(data)
        np.testing.assert_allclose(model.skills_, second)

    def test_steps_shrink(self):
        rates = {}
        for factor in (1.0, 0.0):
            model = twin.ZeroBasedSkill(n_iter=9, lr_init=0.5, lr_steps_to_reduce=3, lr_reduce_factor=factor)
            rates[factor] = model.fit(small_log()).skills_["w2"]
        start = 1 / 3 + 1e-5
        assert rates[1.0] == pytest.approx(1 - (1 - start) * 0.5**9)
        assert rates[0.0] == pytest.approx(1 - (1 - start) * 0.5**2)

    def test_settles_on_the_agreement(self):
        model = twin.ZeroBasedSkill()
        model.fit_predict(small_log())
        expected = twin.MajorityVote().fit(small_log(), model.skills_).skills_
        pd.testing.assert_series_equal(model.skills_, expected)


# ---------------------------------------------------------------------------------------------- Dawid–Skene


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
        expected = [[2 / 3, 0], [1, 1], [1 / 3, 1]]  # (w1, x), (w2, x), (w1, y); columns are the true class
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
        logs = logs.groupby("task", sort=False).sum() + np.log(now.priors_)
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
        assert model.skills_.index.tolist() == random_log(6)["worker"].unique().tolist()


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
        with pytest.warns(mh.DataWarning) as caught:
            model = twin.DawidSkene().fit(data, pd.Series({"t5": "aa"}))
        assert len(caught) == 1
        expected = twin.DawidSkene().fit(small_log(), pd.Series({"t5": "aa"}))
        pd.testing.assert_frame_equal(model.probas_, expected.probas_)

    def test_contradictions_and_other_types(self):
        with pytest.raises(ValueError, match="task 't1' two different classes"):
            twin.DawidSkene().fit(small_log(), pd.Series(["a", "b"], index=["t1", "t1"]))
        with pytest.raises(TypeError, match="1, which does not compare with labels such as 'a'"):
            twin.DawidSkene().fit(small_log(), pd.Series({"t1": 1}))
        twice = twin.DawidSkene().fit(small_log(), pd.Series(["a", "a"], index=["t1", "t1"]))
        once = twin.DawidSkene().fit(small_log(), pd.Series({"t1": "a"}))
        pd.testing.assert_frame_equal(twice.probas_, once.probas_)


def history(data, seed=0):
    """Draw counts of past answers by all workers of a log."""
    workers, classes = sorted(set(data["worker"])), sorted(set(data["label"]))
    index = pd.MultiIndex.from_product([workers, classes], names=["worker", "label"])
    counts = np.random.default_rng(seed).integers(1, 9, (len(index), len(classes)))
    counts = counts + 20.0 * np.tile(np.eye(len(classes)), (len(workers), 1))
    return pd.DataFrame(counts, index, classes)


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
            (lambda f: f.rename_axis(["who", "label"]), "indexed by worker and label, not by 'who', 'label'"),
            (lambda f: f.drop(columns="c1"), "no column for the class 'c1'"),
            (lambda f: f.drop(index=3, level="worker"), r"no row for 3 pairs .* such as \(3, 'c0'\)"),
            (lambda f: f / 1000, "do not sum to 1"),
            (lambda f: f - 100, "finite numbers of at least 0"),
            (lambda f: f * np.nan, "finite numbers of at least 0"),
            (lambda f: pd.concat([f, f[:1]]), r"two rows for \(0, 'c0'\)"),
        ],
    )
    def test_bad_frames(self, change, message):
        data = random_log(9)
        with pytest.raises(ValueError, match=message):
            twin.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=change(history(data)))

    def test_bad_strategy(self):
        data = random_log(9)
        with pytest.raises(ValueError, match="'assign', 'addition' or None, not 'guess'"):
            twin.DawidSkene(initial_error_strategy="guess").fit(data, initial_error=history(data))


class TestAbsent:
    @pytest.mark.parametrize("name", ABSENT)
    def test_what_has_no_twin_is_told_of(self, name):
        with pytest.raises(ImportError, match=f"{name} of crowd-kit has no twin .* There are GLAD, KOS"):
            getattr(twin, name)
        listed = PAGE.read_text(encoding="utf-8").split("## What has no twin")[1].split("```")[0]
        assert f"`{name}`" in listed

    def test_importing_it_says_what_to_do(self):
        with pytest.raises(ImportError, match="keep crowd-kit's for comparisons of pairs"):
            from manyhands.compat.crowdkit import BradleyTerry  # noqa: F401

    def test_other_names_are_just_not_there(self):
        assert not hasattr(twin, "Majority")


def test_the_migration_page_tells_the_truth():
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 20
    assert outcome.failed == 0


# ------------------------------------------------------------------------------------------------ crowd-kit


@pytest.fixture(scope="module")
def peer():
    """Import crowd-kit, with the scikit-learn check that fails in newer versions taken out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("crowdkit", reason="crowd-kit is not installed: nothing to compare with")
        from crowdkit import aggregation
        from crowdkit.aggregation.classification import wawa, zero_based_skill
    patch = pytest.MonkeyPatch()
    for module in (wawa, zero_based_skill):
        patch.setattr(module, "check_is_fitted", lambda *args, **kwargs: None)
    yield aggregation
    patch.undo()


def assert_same(mine, theirs, atol):
    """Compare two results by name: with pandas 3 crowd-kit's order depends on that of the rows."""
    assert mine.index.names == theirs.index.names
    if isinstance(mine, pd.Series):
        pd.testing.assert_series_equal(mine, theirs, check_like=True, atol=atol, rtol=0)
        return
    assert mine.columns.name == theirs.columns.name
    # The columns of crowd-kit's errors_ are objects, whatever the labels are.
    exact = "equiv" if theirs.columns.dtype != object else False
    pd.testing.assert_frame_equal(mine, theirs, check_column_type=exact, check_like=True, atol=atol, rtol=0)


@pytest.mark.filterwarnings("ignore")
class TestAgainstCrowdKit:
    """The same frames through both libraries, on data without ties where ties would differ."""

    # Few rounds and small steps, so that skills are still on their way when the last round ends.
    VOTERS = (("MajorityVote", {}), ("Wawa", {}), ("ZeroBasedSkill", {"n_iter": 12, "lr_init": 0.6}))

    @pytest.mark.parametrize(("name", "params"), VOTERS)
    @pytest.mark.parametrize("seed", range(5))
    def test_votes(self, peer, name, params, seed):
        # Rows sorted by label make crowd-kit break ties as we do, with any pandas.
        data = random_log(seed).sort_values(["label", "task"])
        mine, theirs = getattr(twin, name)(**params), getattr(peer, name)(**params)
        assert_same(mine.fit_predict(data), theirs.fit_predict(data), 0)
        assert_same(mine.probas_, theirs.probas_, 1e-12)
        assert_same(mine.skills_, theirs.skills_, 1e-12)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("on_missing", ["ignore", "value"])
    def test_votes_by_skill(self, peer, seed, on_missing):
        data = random_log(seed)
        skills = pd.Series(np.random.default_rng(seed).uniform(0.1, 1, 8)).drop(2)
        params = {"on_missing_skill": on_missing, "default_skill": 0.4 if on_missing == "value" else None}
        mine, theirs = twin.MajorityVote(**params), peer.MajorityVote(**params)
        assert_same(mine.fit_predict(data, skills), theirs.fit_predict(data, skills), 0)
        assert_same(mine.probas_, theirs.probas_, 1e-12)
        assert_same(mine.skills_, theirs.skills_, 1e-12)

    @pytest.mark.parametrize(("name", "params"), VOTERS[1:])
    def test_prediction_for_other_tasks(self, peer, name, params):
        data = random_log(1).sort_values(["label", "task"])
        other = random_log(2, n_tasks=20)
        mine, theirs = (getattr(library, name)(**params).fit(data) for library in (twin, peer))
        assert_same(mine.predict_proba(other), theirs.predict_proba(other), 1e-12)

    @pytest.mark.parametrize("name", ["DawidSkene", "OneCoinDawidSkene"])
    @pytest.mark.parametrize("n_iter", [0, 1, 2, 10])
    @pytest.mark.parametrize("seed", range(3))
    def test_em(self, peer, name, n_iter, seed):
        data = random_log(seed)
        mine = getattr(twin, name)(n_iter, tol=-np.inf).fit(data)
        theirs = getattr(peer, name)(n_iter, tol=-np.inf).fit(data)
        if n_iter:  # before that crowd-kit's order is not the log's
            assert mine.labels_.index.tolist() == theirs.labels_.index.tolist()
            assert_same(mine.labels_, theirs.labels_, 0)
        assert mine.errors_.index.tolist() == theirs.errors_.index.tolist()
        assert len(mine.loss_history_) == len(theirs.loss_history_) == n_iter
        for part in ("probas_", "priors_", "errors_"):
            assert_same(getattr(mine, part), getattr(theirs, part), 1e-7)
        if name == "OneCoinDawidSkene":
            assert_same(mine.skills_, theirs.skills_, 1e-7)

    @pytest.mark.parametrize("n_iter", [0, 1, 5])
    def test_true_labels(self, peer, n_iter):
        data, truth = random_log(3), pd.Series({"t01": "c2", "t02": "c0", "elsewhere": "c1"})
        mine, theirs = (
            library.DawidSkene(n_iter, tol=-np.inf).fit(data, true_labels=truth) for library in (twin, peer)
        )
        assert_same(mine.probas_, theirs.probas_, 1e-7)
        assert_same(mine.errors_, theirs.errors_, 1e-7)

    @pytest.mark.parametrize("strategy", ["assign", "addition"])
    @pytest.mark.parametrize("n_iter", [1, 5])
    def test_initial_error(self, peer, strategy, n_iter):
        data = random_log(3)
        mine, theirs = (
            library.DawidSkene(n_iter, -np.inf, strategy).fit(data, initial_error=history(data))
            for library in (twin, peer)
        )
        assert_same(mine.probas_, theirs.probas_, 1e-7)
        assert_same(mine.errors_, theirs.errors_, 1e-7)

    @pytest.mark.parametrize(
        "labels",
        [np.array([0, 1, 2], np.int8), np.array([0.5, 1.0, 2.0]), np.array([2, 1, 0])],
        ids=["int8", "float", "int"],
    )
    def test_dtypes(self, peer, labels):
        data = random_log(2)
        data["label"] = labels[data["label"].str[1:].astype(int).to_numpy()]
        mine, theirs = (library.DawidSkene(5, tol=-np.inf).fit(data) for library in (twin, peer))
        assert mine.errors_.index.dtypes.equals(theirs.errors_.index.dtypes)
        for part in ("labels_", "probas_", "priors_", "errors_"):
            assert_same(getattr(mine, part), getattr(theirs, part), 1e-7)

    def test_nothing_it_has_goes_unmentioned(self, peer):
        assert set(peer.__all__) - {"base"} - set(twin.__all__) - set(ABSENT) == set()

    @pytest.mark.parametrize("name", ["MajorityVote", "Wawa", "DawidSkene", "OneCoinDawidSkene", "KOS"])
    def test_empty_logs(self, peer, name):
        empty = log({"task": np.zeros(0, int), "worker": np.zeros(0), "label": np.zeros(0, object)})
        mine, theirs = getattr(twin, name)(), getattr(peer, name)()
        pd.testing.assert_series_equal(mine.fit_predict(empty), theirs.fit_predict(empty))
        for part, same in (("probas_", "frame"), ("errors_", "frame"), ("priors_", "series")):
            if getattr(theirs, part, None) is not None:
                compare = getattr(pd.testing, f"assert_{same}_equal")
                compare(
                    getattr(mine, part), getattr(theirs, part), **({"check_dtype": False} if same == "frame" else {})
                )

    def test_metrics_of_crowd_kit_take_the_twins(self, peer):
        from crowdkit.metrics.data import consistency

        data = random_log(1)
        skills = twin.MajorityVote().fit(data).skills_
        mine, theirs = (consistency(data, skills, library.MajorityVote()) for library in (twin, peer))
        assert 0 < mine < 1
        assert mine == pytest.approx(theirs, abs=0.05)  # ties


@pytest.mark.filterwarnings("ignore")
class TestClaims:
    """What the migration page says of crowd-kit, whatever the version of pandas."""

    @pytest.fixture(autouse=True)
    def known_version(self, peer):
        import crowdkit

        if crowdkit.__version__ != "1.4.2":
            pytest.skip(f"the page speaks of crowd-kit 1.4.2, not {crowdkit.__version__}")

    def test_its_loss_falls_while_the_likelihood_rises(self, peer):
        data = log([(0, 0, 0), (0, 1, 1), (1, 0, 0), (2, 0, 0), (3, 0, 1), (3, 1, 0), (3, 2, 0), (4, 2, 0)])
        model = peer.DawidSkene().fit(data)
        assert np.round(model.loss_history_, 3).tolist() == [-0.643, -0.64, -0.652]
        assert model.labels_[3] == 0
        assert model.probas_.loc[3, 1] == pytest.approx(0.29, abs=0.005)
        plain = Plain(data, 100)
        assert (np.diff(plain.log_likelihood) > -1e-9).all()
        assert plain.posterior[3, 1] > 0.99

    def test_its_bound_is_positive(self, peer):
        model = peer.OneCoinDawidSkene().fit(log([(1, "a", "x"), (1, "b", "y"), (2, "a", "x")]))
        assert model.loss_history_[-1] > 0

    def test_its_missing_labels(self, peer):
        labels = ["x", "x", None, "y", "y", None, None]
        data = log({"task": [1, 1, 1, 2, 2, 2, 3], "worker": list("abcabca"), "label": labels})
        majority = peer.MajorityVote().fit(data)
        assert sorted(majority.labels_.index) == [1, 2]
        assert majority.skills_["c"] == 0
        assert 3 in peer.DawidSkene().fit(data).labels_.index
        assert peer.OneCoinDawidSkene().fit(data).skills_.round(2).to_dict() == {
            "a": 0.83,
            "b": 1.0,
            "c": 0.5,
        }

    def test_its_categories(self, peer):
        data = small_log().astype("category")
        for name in ("MajorityVote", "Wawa", "ZeroBasedSkill", "DawidSkene", "OneCoinDawidSkene"):
            with pytest.raises(AttributeError, match="BinOp"):
                getattr(peer, name)().fit(data)

    def test_its_column_names(self, peer):
        for name in ("DawidSkene", "OneCoinDawidSkene"):
            with pytest.raises(ValueError, match="columns overlap"):
                getattr(peer, name)().fit(log([(1, "a", "task"), (1, "b", "other")]))

    def test_its_initial_error(self, peer):
        data = random_log(3)
        counts = history(data)
        peer.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=counts)
        assert counts.to_numpy().max() <= 1
        counts = history(data).drop(columns="c1")
        model = peer.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=counts)
        assert model.probas_["c1"].isna().all()

    def test_its_repeats(self, peer):
        data = log([(1, w, "x") for w in "aabc"] + [(2, "a", "y"), (2, "b", "x"), (2, "c", "x")])
        assert peer.MajorityVote().fit(data).skills_["a"] == 0.5
