"""The twins of crowd-kit's classes: their surface, and what they refuse."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from crowdkit_logs import EM_CLASSES, SKILL_CLASSES, log, small_log

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


CLASSES = [twin.MajorityVote, twin.Wawa, twin.ZeroBasedSkill, twin.DawidSkene, twin.OneCoinDawidSkene]


PAGE = Path(__file__).parents[2] / "docs" / "migrating-from-crowd-kit.md"


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
        parameters = inspect.signature(cls().fit).parameters
        assert list(parameters) == arguments
        assert all(p.default is None for name, p in parameters.items() if name != "data")
        assert all(callable(getattr(cls, method)) for method in methods)

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
        with pytest.raises(mh.errors.NotFittedError, match=cls.__name__):
            model.predict(small_log())
        assert model.fit(small_log()) is model
        assert not hasattr(model, "labels_")
        assert model.predict(small_log()) is model.labels_
        model.fit(small_log())
        assert not hasattr(model, "labels_")  # refitting forgets

    @pytest.mark.parametrize("cls", CLASSES)
    def test_order_of_results_is_sorted(self, cls):
        model = cls()
        labels = model.fit_predict(small_log())
        assert labels.index.tolist() == model.probas_.index.tolist() == ["t1", "t2", "t3", "t4", "t5"]
        if cls in EM_CLASSES:
            assert model.errors_.index.is_monotonic_increasing
        if cls is not twin.DawidSkene:
            assert model.skills_.index.tolist() == ["w1", "w2", "w3", "w4"]

    @pytest.mark.parametrize("cls", CLASSES)
    def test_an_empty_log_raises(self, cls):
        with pytest.raises(ValueError, match="rows"):
            cls().fit(small_log()[:0])

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
        with pytest.raises(KeyError, match=f"column '{column}'"):
            cls().fit(small_log().drop(columns=column))

    @pytest.mark.parametrize("cls", CLASSES)
    def test_other_frames(self, cls):
        polars = pytest.importorskip("polars")
        with pytest.raises(TypeError, match=r"polars\.DataFrame"):
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
        with pytest.warns(mh.errors.DataWarning, match=r"3 rows.*'t9'"):
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
        with pytest.raises(ValueError, match=r"n_iter.*0, not -1"):
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


class TestAbsent:
    @pytest.mark.parametrize("name", twin._ABSENT)
    def test_what_has_no_twin_is_told_of(self, name):
        with pytest.raises(AttributeError, match=f"{name}.*GLAD.*HRRASA"):
            getattr(twin, name)
        assert not hasattr(twin, name)
        listed = PAGE.read_text(encoding="utf-8").split("## Names without a counterpart")[1].split("```")[0]
        assert f"`{name}`" in listed

    def test_other_names_are_just_not_there(self):
        assert not hasattr(twin, "Majority")


@pytest.mark.parametrize("name", ["migrating-from-crowd-kit.md", "crowd-kit-differences.md"])
def test_the_pages_on_crowd_kit_tell_the_truth(name):
    outcome = doctest.testfile(str(PAGE.parent / name), module_relative=False, encoding="utf-8")
    assert outcome.attempted
    assert outcome.failed == 0
