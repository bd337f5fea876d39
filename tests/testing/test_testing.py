"""The shipped check-list holds for an aggregator that lives elsewhere, and each fault is caught by its check."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import types
import unittest
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import manyhands as mh
from manyhands._base.estimator import Estimator, Parameters
from manyhands._base.progress import reporting
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.checks import ClassSubject
from manyhands.errors import NotFittedError
from manyhands.pairwise import checks as comparisons
from manyhands.pairwise import checks_rankings as rankings
from manyhands.testing import (
    Crowd,
    Subject,
    aggregator_checks,
    check_aggregator,
    checks_of,
    common,
    compare,
    run_checks,
)
from manyhands.testing.crowds import STANDARD


class SmoothShares(Aggregator):
    """Shares of the votes, each task with some imaginary ones that are shared out as the whole crowd's are."""

    def __init__(self, pseudo_count: float = 1.0, max_iter: int = 3) -> None:
        self.pseudo_count = pseudo_count
        self.max_iter = max_iter

    def _fit(self, votes: mh.Annotations, progress: Callable[[int, float], object] | None) -> ClassFit:
        tasks, workers, labels = votes.codes()
        weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
        counts = self._counts(tasks, labels, weights, (votes.n_tasks, votes.n_classes))
        posterior = np.full(counts.shape, 1 / votes.n_classes)
        for step in range(self.max_iter):
            prior = posterior.mean(axis=0)
            posterior = self._shares(counts, prior)
            if progress is not None:
                progress(step + 1, float("nan"))
        confusion = np.full((votes.n_workers, votes.n_classes, votes.n_classes), 1 / votes.n_classes)
        np.add.at(confusion, (workers, slice(None), labels), weights[:, None] * posterior[tasks])
        return ClassFit.of(
            posterior, confusion / confusion.sum(axis=2, keepdims=True), prior, np.zeros(0), self.max_iter
        )

    def _counts(self, tasks: np.ndarray, labels: np.ndarray, weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        counts = np.zeros(shape)
        np.add.at(counts, (tasks, labels), weights)
        return counts

    def _shares(self, counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
        counted = counts + self.pseudo_count * prior
        return counted / counted.sum(axis=1, keepdims=True)

    def _posterior(self, table: Any, known: np.ndarray) -> np.ndarray:
        tasks, _, labels = table.columns()
        weights = np.ones(len(tasks)) if table.weights() is None else table.weights()
        return self._shares(self._counts(tasks, labels, weights, (table.n_tasks, len(self._classes))), self.prior_)


def test_a_sound_aggregator_passes() -> None:
    assert check_aggregator(SmoothShares()) == {}


def test_an_unsound_aggregator_does_not() -> None:
    with pytest.raises(AssertionError, match=r"Remembers.*refit_forgets"):
        check_aggregator(Remembers())


# ----------------------------------------------------------------------------------------------------- faults


class NotesTheFirstTask(SmoothShares):
    def _fit(self, votes, progress):
        found = super()._fit(votes, progress)
        return replace(found, history=found.posterior.rows(np.array([0])).max(axis=1))


class DividesByNothing(SmoothShares):
    def workers_frame(self):
        frame = super().workers_frame()
        return frame.append_column("rate", [np.full(frame.num_rows, np.inf)])


class Remembers(SmoothShares):
    _before = 1.0

    def fit(self, votes, *, progress=False):
        given, self.pseudo_count = self.pseudo_count, self.pseudo_count * self._before
        super().fit(votes, progress=progress)
        self._before, self.pseudo_count = len(self.tasks_), given
        return self


class SumsToMore(SmoothShares):
    def _shares(self, counts, prior):
        return super()._shares(counts, prior) * 1.001


class FirstWorkerCountsTwice(SmoothShares):
    def _fit(self, votes, progress):
        tasks, workers, labels = votes.codes()
        weights = (1.0 if votes.weights is None else votes.weights) * np.where(workers == 0, 2.0, 1.0)
        sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
        return super()._fit(mh.Annotations.from_codes(tasks, workers, labels, weights=weights, **sizes), progress)


class FirstTaskIsKnown(SmoothShares):
    def _shares(self, counts, prior):
        shares = super()._shares(counts, prior)
        shares[0] = np.eye(counts.shape[1])[shares[0].argmax()]
        return shares


class FirstClassIsFavoured(SmoothShares):
    def _shares(self, counts, prior):
        return super()._shares(counts + np.eye(len(prior))[0], prior)


class CutsByThreads(SmoothShares):
    def _shares(self, counts, prior):
        return super()._shares(counts, prior) * (1 + 1e-15 * (mh.get_num_threads() - 1))


class ChangesItsParameter(SmoothShares):
    def fit(self, votes, *, progress=False):
        self.pseudo_count = float(self.pseudo_count) + 1.0
        return super().fit(votes, progress=progress)


class KeepsACopy(SmoothShares):
    def __init__(self, pseudo_count: Any = (1.0,), max_iter: int = 3) -> None:
        super().__init__(list(pseudo_count), max_iter)

    def _shares(self, counts, prior):
        counted = counts + self.pseudo_count[0] * prior
        return counted / counted.sum(axis=1, keepdims=True)


class MultipliesFactors(SmoothShares):
    def _shares(self, counts, prior):
        with np.errstate(all="ignore"):
            powers = prior * 2.0**counts
            return powers / powers.sum(axis=1, keepdims=True)


class DrawsGlobally(SmoothShares):
    def _counts(self, *given):
        return super()._counts(*given) + np.random.random() / 100  # noqa: NPY002


class CountsRepeatsOnce(SmoothShares):
    def _counts(self, tasks, labels, weights, shape):
        return super()._counts(tasks, labels, np.minimum(weights, 1.0), shape).clip(max=1.0)


class ForgetsInFiles(SmoothShares):
    _seen = -1.0

    def fit(self, votes, *, progress=False):
        super().fit(votes, progress=progress)
        self._seen = float(len(self.tasks_))
        return self

    @property
    def seen_(self) -> float:
        self._fitted()
        return self._seen


class ShowsTooMuch(SmoothShares):
    seen_ = property(lambda self: 0.0)


class SaysNothing(SmoothShares):
    def _fit(self, votes, progress):
        return super()._fit(votes, lambda step, objective: progress and progress(str(step), objective))


class HidesExceptions(SmoothShares):
    def fit(self, votes, *, progress=False):
        with contextlib.suppress(Exception):
            super().fit(votes, progress=progress)
        return self


class IgnoresInterrupts(SmoothShares):
    def _fit(self, votes, progress):
        for _ in range(40 if self.max_iter > 1000 else 0):
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(0.01)
        return SmoothShares(self.pseudo_count, 3)._fit(votes, progress)


class PredictsAfresh(SmoothShares):
    def _posterior(self, table, known):
        return np.full((table.n_tasks, len(self._classes)), 1 / len(self._classes))


class PredictionLearns(SmoothShares):
    def _posterior(self, table, known):
        self._fitted().fit.prior[:] = np.roll(self.prior_, 1)
        return super()._posterior(table, known)


class NeedsTwoWorkers(SmoothShares):
    def _fit(self, votes, progress):
        if votes.n_workers < 2:
            raise ZeroDivisionError("no pairs")
        return super()._fit(votes, progress)


class ReturnsNothing(SmoothShares):
    def fit(self, votes, *, progress=False):
        super().fit(votes, progress=progress)


class CannotBePickled(SmoothShares):
    def fit(self, votes, *, progress=False):
        self._why = lambda: None
        return super().fit(votes, progress=progress)


class NamesTheFirstClass(SmoothShares):
    """Probabilities are right, labels are not."""

    @property
    def labels_(self):
        return np.full(len(self.posterior_), self.classes_[0])


class GuessesUnused(SmoothShares):
    def _shares(self, counts, prior):
        return super()._shares(counts + 100.0 * (counts.sum(axis=0) == 0), prior)


@pytest.mark.parametrize(
    ("faulty", "check", "said"),
    [
        (Remembers, "refit_forgets", "_ of a second fit differs"),
        (SumsToMore, "probabilities", "rows of posterior_ do not sum to one"),
        (FirstWorkerCountsTwice, "renaming_workers", "posterior_, workers renamed differs"),
        (FirstTaskIsKnown, "renaming_tasks", "posterior_, tasks renamed differs"),
        (FirstClassIsFavoured, "renaming_classes", "posterior_, classes renamed differs"),
        (FirstClassIsFavoured, "renaming_classes_untied", "posterior_, classes renamed differs"),
        (NamesTheFirstClass, "renaming_classes", "labels_, classes renamed"),
        (CutsByThreads, "threads", r"\w+_ of fits on one thread and on several differs"),
        (NotesTheFirstTask, "renaming_tasks", "history_, tasks renamed differs"),
        (DividesByNothing, "extreme_weights", "rate of a worker is not finite"),
        (ChangesItsParameter, "input_unchanged", "a parameter changed"),
        (KeepsACopy, "params", "does not keep pseudo_count"),
        (MultipliesFactors, "extreme_weights", "weights: largest: .*posterior_ holds numbers that are not finite"),
        (DrawsGlobally, "seed_repeats", r"\w+_ of two fits of one seed differs"),
        (CountsRepeatsOnce, "repeats_count_twice", "counts once"),
        (ForgetsInFiles, "save_and_load", "seen_ of a loaded model differs"),
        (ShowsTooMuch, "before_fit", "seen_ before fit raises no NotFittedError"),
        (SaysNothing, "progress", "progress received '1'"),
        (HidesExceptions, "failing_progress", "raises no Enough"),
        (IgnoresInterrupts, "interrupt", "went on to its end after Ctrl-C"),
        (PredictsAfresh, "predict_repeats_fit", "predict_proba of the same table differs"),
        (PredictionLearns, "predict_leaves_the_fit", "prior_ of a model before and after prediction differs"),
        (NeedsTwoWorkers, "odd_tables", "one worker: ZeroDivisionError: no pairs"),
        (ReturnsNothing, "fit_returns_itself", "does not return the estimator itself"),
        (CannotBePickled, "pickle", "ickle"),
        (GuessesUnused, "unused_class", "a class that no worker named"),
    ],
)
def test_a_fault_is_caught_by_its_check(faulty: type[Aggregator], check: str, said: str) -> None:
    checks = dict(aggregator_checks(faulty()))
    with pytest.raises(AssertionError, match=f"(?s){faulty.__name__}.*{check}.*{said}"):
        checks[check]()


# ------------------------------------------------------------------------------------------ skips and entries


class TwoClassesOnly(FirstWorkerCountsTwice):
    _most_classes = 2
    _skipped_checks = {"renaming_workers": "the first worker is the expert"}  # noqa: RUF012

    def _fit(self, votes, progress):
        if votes.n_classes > 2:
            raise ValueError("two classes only")
        return super()._fit(votes, progress)


def test_what_cannot_be_asked_is_skipped_with_its_reason() -> None:
    skip = {"predict_repeats_fit": "it weighs the first worker", "extreme_weights": "twice the largest is too much"}
    skipped = check_aggregator(TwoClassesOnly(), skip=skip)
    assert skipped == {
        **skip,
        "renaming_workers": "the first worker is the expert",
        "unused_class": "it takes no class more",
    }
    with pytest.raises(unittest.SkipTest, match="expert"):
        dict(aggregator_checks(TwoClassesOnly()))["renaming_workers"]()
    with pytest.raises(AssertionError, match="predict_repeats_fit"):
        dict(aggregator_checks(TwoClassesOnly()))["predict_repeats_fit"]()


def test_a_check_that_does_not_exist_cannot_be_skipped() -> None:
    with pytest.raises(ValueError, match="'renaming'"):
        check_aggregator(SmoothShares(), skip={"renaming": "why not"})


@pytest.mark.parametrize("wrong", [SmoothShares, 3, "SmoothShares"])
def test_what_is_no_aggregator_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="aggregator"):
        check_aggregator(wrong)


def test_parameters_may_name_the_workers_of_a_crowd() -> None:
    def make(crowd: Crowd) -> mh.categorical.WeightedVote:
        return mh.categorical.WeightedVote({worker: 1.0 + i % 2 for i, worker in enumerate(crowd.workers)})

    assert check_aggregator(make) == {}


def test_files_of_others_classes_need_them_imported(tmp_path: Path) -> None:
    code = "import sys, manyhands as mh; mh.load(sys.argv[1])"
    SmoothShares().fit(STANDARD.votes()).save(tmp_path / "model.mh")
    assert type(mh.load(tmp_path / "model.mh")) is SmoothShares
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model.mh")], capture_output=True, text=True)
    assert done.returncode != 0
    assert "it names no estimator of this version, nor one that was imported" in done.stderr


# ------------------------------------------------------------------------------------- another kind of answer


class Mean(Parameters):
    """The mean of numbers a task: an estimator with other results, and nothing of classes."""

    _values: np.ndarray | None = None

    def __init__(self, shrink: float = 0.0, max_iter: int = 2) -> None:
        self.shrink = shrink
        self.max_iter = max_iter

    def _iterations(self) -> int:
        return self.max_iter

    def fit(self, votes: tuple[np.ndarray, np.ndarray], *, progress: Any = False) -> Self:
        tasks, numbers = votes[0], np.array(votes[1])
        with reporting(progress, self.max_iter, "Mean") as callback:
            for step in range(self.max_iter):
                values = np.bincount(tasks, numbers) / (np.bincount(tasks) + self.shrink)
                if callback is not None:
                    callback(step + 1, 0.0)
        self._values = values
        return self

    @property
    def values_(self) -> np.ndarray:
        if self._values is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._values

    @property
    def n_iter_(self) -> int:
        return self.max_iter if self.values_ is not None else 0

    def save(self, path: str) -> None:
        np.save(path, self.values_)


@dataclass(frozen=True)
class Numbers:
    n_tasks: int

    def votes(self) -> Any:
        return np.arange(self.n_tasks).repeat(3).tolist(), np.linspace(0.0, 1.0, 3 * self.n_tasks).tolist()


class NumberSubject(Subject):
    standard, other, large = Numbers(20), Numbers(7), Numbers(20_000)

    def answers(self, model: Mean, votes: Any) -> dict[str, Callable[[], Any]]:
        return {"doubled": lambda: 2 * model.values_}


def test_common_checks_serve_other_kinds() -> None:
    skip = {"save_and_load": "its files are not manyhands files", "contract": "it has no frames"}
    assert run_checks(checks_of(NumberSubject("Mean", lambda _: Mean(), skip), common.CHECKS)) == skip


def test_common_checks_catch_faults_of_other_kinds() -> None:
    class Drifts(Mean):
        def fit(self, votes, *, progress=False):
            super().fit(votes, progress=progress)
            self._values = self._values + getattr(self, "_offset", 0.0)
            self._offset = 1.0
            return self

    with pytest.raises(AssertionError, match=r"Drifts.*refit_forgets.*values_"):
        run_checks(checks_of(NumberSubject("Drifts", lambda _: Drifts()), common.CHECKS))


class NegativeErrors(mh.numeric.Mean):
    errors_ = property(lambda self: super().errors_ - 1e3)


class NoFirstItem(mh.pairwise.PlackettLuce):
    ranks_ = property(lambda self: super().ranks_ + 1)


class LosesASegment(mh.sequences.TokenVote):
    spans_ = property(lambda self: super().spans_.slice(1))


@pytest.mark.parametrize(
    ("faulty", "check", "message"),
    [
        (NegativeErrors, "odd_tables", "errors are negative"),
        (NoFirstItem, "finite", "rank 1"),
        (LosesASegment, "sound", "segments for"),
    ],
)
def test_faults_of_models_of_other_kinds_are_caught(faulty: type[Any], check: str, message: str) -> None:
    dict(aggregator_checks(faulty.__mro__[1]()))[check]()
    with pytest.raises(AssertionError, match=rf"{faulty.__name__}\(.*fails the check {check}: .*{message}"):
        dict(aggregator_checks(faulty()))[check]()


def test_equal_numbers_are_close_at_a_tolerance_of_zero() -> None:
    compare.assert_close([0.5, 2.0], [0.5, 2.0], 0.0, "equal numbers")
    with pytest.raises(AssertionError, match="other numbers"):
        compare.assert_close([0.5, 2.0], [0.5, 2.0001], 0.0, "other numbers")


def test_logs_of_the_check_lists_are_what_their_names_say() -> None:
    for log in (*comparisons.ODD.values(), *rankings.ODD.values()):
        votes = log.votes()
        assert (votes.n_items, votes.n_workers) == (len(log.items), len(log.workers))
    wins = comparisons.ODD["one always wins, one always loses"].columns()
    assert "i0" in wins["left"] + wins["right"]
    assert {"i0"} == {won for *pair, won in zip(*list(wins.values())[:3], strict=True) if "i0" in pair}
    assert "i2" not in wins["winner"]
    assert all(len(set(ranking)) == 4 for ranking in rankings.lists(6, 3, 20, 4).lists)
    subject = ClassSubject("SmoothShares", lambda _: SmoothShares())
    assert len(subject.other.classes) == len(subject.standard.classes) + 1
    assert len(subject.other.tasks) < len(subject.standard.tasks)


# ------------------------------------------------------------------------------------------------ its page


def test_the_page_does_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing-an-aggregator.md").read_text(encoding="utf-8")
    aggregator, _, checked, each, skips, crowds, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    # Classes can be pickled that are found in a module.
    module = types.ModuleType("smooth")
    monkeypatch.setitem(sys.modules, "smooth", module)
    names = vars(module)
    names["mh"] = mh
    for block in (aggregator, checked, each, skips, crowds):
        exec(block, names)
    # The tables name every check, and nothing else.
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(name for name, _ in aggregator_checks(names["SmoothShares"]()))


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("numeric", "shift_and_scale"),
        ("sequences", "odd_tables"),
        ("texts", "full_agreement"),
        ("masks", "padding"),
        ("boxes", "agreement"),
    ],
)
def test_the_list_follows_the_kind_of_the_aggregator(kind: str, own: str) -> None:
    names = [name for name, _ in aggregator_checks(Estimator._defaults[kind]())]
    assert own in names
    assert "renaming_classes" not in names
    assert len(names) > len(common.CHECKS)
