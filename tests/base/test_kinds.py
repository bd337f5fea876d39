"""Room for kinds: what a new table and a new estimator get from their bases, and the forms of results."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands._base import persist
from manyhands._base.estimator import Estimator, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, numbers
from manyhands._base.kind import KindSpec
from manyhands._base.table import Records
from manyhands._base.task_table import Answers, Parsed, Payload
from manyhands.categorical._confusion import JudgedByPosterior, Matrices, OneCoin
from manyhands.categorical._posterior import Candidates, DensePosterior
from manyhands.categorical.base import Aggregator, best_of


def toy_kind() -> tuple[type[Answers], type[Estimator]]:
    """A kind of answers, marks from 0 to 9, with an estimator of their means: what a new kind must write."""

    class Marks(Answers):
        __slots__ = ()
        spec = KindSpec(word="marks", required=("task", "worker", "mark"), numbers=frozenset({"weight", "mark"}))

        @classmethod
        def from_arrays(cls, tasks, workers, marks):
            return cls._of_arrays({}, tasks=tasks, workers=workers, marks=marks)

        @classmethod
        def _parsed(cls, columns):
            marks, what = columns.only("mark")
            return Parsed({what: len(marks)}, lambda ids: Payload(np.asarray(marks), 10))

        def _said(self, said):
            return {"mark": said}

        def _packed(self, said):
            return {"marks": said}

        @classmethod
        def _unpacked(cls, content, task_codes, tasks):
            return Payload(content.array("marks", np.uint32, shape=task_codes.shape), 10)

    @dataclass(frozen=True, kw_only=True)
    class MarkFit(Fit):
        mean: np.ndarray = field(metadata=numbers("n"))

    class MeanMark(TaskEstimator[Marks, MarkFit, TaskFitted[MarkFit]]):
        __module__ = "manyhands.toys"
        _kind = "marks"
        _fit_type = MarkFit
        _fitted_type = TaskFitted

        def _as_table(self, answers):
            return answers

        def _fit(self, votes, progress):
            tasks, _, said = votes.table.columns()
            mean = np.bincount(tasks, said) / votes.labels_per_task
            return MarkFit(mean=mean, history=np.zeros(0), remarks=("Nobody is judged.",))

    class Marker(MeanMark):
        __module__ = "manyhands.toys"

    return Marks, Marker


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.setattr(persist, "_READERS", dict(persist._READERS))
    monkeypatch.setattr(Estimator, "_bases", dict(Estimator._bases))
    monkeypatch.setattr(Records, "_kinds", dict(Records._kinds))
    return toy_kind()


def test_a_table_of_another_kind_has_what_tables_have(kind, tmp_path):
    Marks, _ = kind
    marks = Marks.from_arrays(["a", "a", "b"], ["x", "y", "x"], [3, 5, 9])
    assert (len(marks), marks.n_tasks, marks.n_workers) == (3, 2, 2)
    assert repr(marks) == "<Marks: 3 marks of 2 tasks by 2 workers>"
    assert marks.to_frame().to_pydict() == {"task": ["a", "a", "b"], "worker": ["x", "y", "x"], "mark": [3, 5, 9]}
    part = marks.select(workers=["y"])
    assert isinstance(part, Marks)
    assert (part.tasks.tolist(), part.unlabelled.tolist()) == (["a"], ["b"])
    assert marks.without(["y"]).labels_per_task.tolist() == [1, 1]
    assert marks.sample(per_task=1).labels_per_task.tolist() == [1, 1]
    marks.save(tmp_path / "marks.mh")
    again = mh.load(tmp_path / "marks.mh", Marks)
    assert again.to_frame().equals(marks.to_frame())


def test_an_estimator_of_another_kind_has_what_estimators_have(kind, tmp_path):
    Marks, Marker = kind
    marks = Marks.from_arrays(["a", "a", "b"], ["x", "y", "x"], [3, 5, 9])
    with pytest.raises(mh.errors.NotFittedError):
        _ = Marker().tasks_
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="Nobody is judged"):
        model = Marker().fit(marks)
    assert model._fitted().fit.mean.tolist() == [4.0, 9.0]
    model.save(tmp_path / "marker.mh")
    again = mh.load(tmp_path / "marker.mh", Marker)
    assert again.remarks_ == model.remarks_ == ("Nobody is judged.",)
    assert again._fitted().fit.mean.tolist() == [4.0, 9.0]
    assert (again.tasks_.tolist(), again.workers_.tolist()) == (["a", "b"], ["x", "y"])


def test_kinds_are_found_by_name(kind):
    _, Marker = kind
    assert mh.categorical.all_aggregators("marks") == [Marker]
    assert Marker not in mh.categorical.all_aggregators()
    assert all(issubclass(found, Aggregator) for found in mh.categorical.all_aggregators(kind="categorical"))
    with pytest.raises(ValueError, match=r"kind.*'categorical'.*'marks'.*'pictures'"):
        mh.categorical.all_aggregators("pictures")


def test_a_file_of_a_kind_that_is_not_known_is_refused(tmp_path):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(persist, "_READERS", dict(persist._READERS))
        patched.setattr(Estimator, "_bases", dict(Estimator._bases))
        toy_kind()[0].from_arrays(["a"], ["x"], [3]).save(tmp_path / "marks.mh")
    with pytest.raises(mh.errors.FileFormatError, match="'marks'"):
        mh.load(tmp_path / "marks.mh")


def test_posteriors_say_the_same_in_either_form():
    votes = mh.simulate(60, 8, 7, labels_per_task=4, seed=3).log
    sparse = mh.categorical.SparseOneCoin().fit(votes)._fitted().fit.posterior
    assert isinstance(sparse, Candidates)
    dense = DensePosterior(sparse.dense())
    some = np.array([59, 3, 3, 0])
    np.testing.assert_array_equal(sparse.rows(some), dense.rows(some))
    mine, theirs = vars(sparse.winners()), vars(dense.winners())
    for name in mine:
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12)
    assert sparse.winners().of(some).codes.tolist() == sparse.winners().codes[some].tolist()


def test_workers_are_the_same_in_either_form():
    accuracy, prior = np.array([0.2, 0.5, 0.9]), np.array([0.5, 0.25, 0.25])
    one_coin = OneCoin(accuracy, 3)
    full = Matrices(one_coin.matrices())
    n_labels = np.array([3, 40, 500])
    for mine, theirs in zip(one_coin.worth(prior, n_labels), full.worth(prior, n_labels), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    np.testing.assert_allclose(one_coin.spammer_scores(), full.spammer_scores(), rtol=1e-12)


def test_matrices_are_made_once_and_when_asked_for(monkeypatch):
    votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]])
    model = mh.MajorityVote().fit(votes)
    confusion = model._fitted().fit.confusion
    assert isinstance(confusion, JudgedByPosterior)
    assert confusion._made is None
    assert model.confusion_ is model.confusion_


@pytest.mark.parametrize("model", [mh.DawidSkene, mh.BayesianDawidSkene])
def test_a_model_of_candidates_is_a_start(model):
    votes = mh.simulate(60, 8, 4, labels_per_task=4, seed=3).log
    fitted = mh.categorical.SparseOneCoin().fit(votes)
    for start in (mh.categorical.SparseOneCoin(), fitted):
        assert np.isfinite(model(init=start, tol=0.0, max_iter=2).fit(votes).posterior_).all()


def test_the_best_run_is_the_first_of_the_highest():
    runs = [{"history": np.array(course), "name": i} for i, course in enumerate(([9.0, 1.0], [3.0], [0.0, 3.0], [2.0]))]
    assert best_of(iter(runs))["name"] == 1
