"""What every aggregator of texts is held to, beyond what all estimators are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import manyhands as mh
from manyhands.testing.common import clone
from manyhands.testing.compare import SAME, assert_close, require
from manyhands.testing.subject import Subject
from manyhands.texts.base import TextAggregator


@dataclass(frozen=True, eq=False)
class TextLog:
    """Made-up texts: codes of tasks and workers, texts, weights or None."""

    tasks: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int64]
    texts: list[str]
    weights: npt.NDArray[np.float64] | None = None

    def votes(self) -> mh.Texts:
        """The texts as ``fit`` takes them."""
        return mh.Texts.from_arrays(self.tasks, self.workers, self.texts, self.weights)

    def reordered(self, seed: int) -> TextLog:
        """The same rows in another order."""
        order = np.random.default_rng(seed).permutation(len(self.tasks))
        return TextLog(self.tasks[order], self.workers[order], [self.texts[row] for row in order])


@cache
def drawn(n_tasks: int, n_workers: int, each: int, seed: int = 0) -> TextLog:
    """A crowd of ordinary writers."""
    log = mh.simulate(n_tasks, n_workers, answers_per_task=each, words=6, vocabulary=60, seed=seed, kind="texts").log
    tasks, workers, said = log.codes()
    return TextLog(tasks.astype(np.int64), workers.astype(np.int64), log.answers[said].tolist())


def odd_logs() -> dict[str, TextLog]:
    """Logs at the edges of what a log can be."""
    one, two, three = np.zeros(1, np.int64), np.arange(2), np.arange(3)
    same = np.zeros(3, np.int64)
    return {
        "one text": TextLog(one, one, ["a b"]),
        "one task": TextLog(same, three, ["a b", "a c", "a b"]),
        "one worker": TextLog(three, same, ["a", "b", "c"]),
        "nothing in common": TextLog(same, three, ["a", "b c", "d e f"]),
        "full agreement": TextLog(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), ["a b", "a b", "c", "c"]),
        "punctuation only": TextLog(np.zeros(2, np.int64), two, ["...", "!"]),
        "repeats": TextLog(same, np.array([0, 0, 1]), ["a b", "a b", "a c"]),
        "weights of zero": TextLog(same, three, ["a", "b", "c"], np.zeros(3)),
        "other scripts": TextLog(same, three, ["我爱你们", "我爱你", "我爱 你们"]),
        "surrogates and marks": TextLog(same, three, ["e\u0301 👍🏽", "é 👍", "\ud800 é"]),
        "one long text": TextLog(same, three, ["x " * 400, "x " * 390, "y"]),
    }


class TextSubject(Subject):
    """An aggregator of texts."""

    @property
    def standard(self) -> TextLog:
        """Thirty tasks, four texts each."""
        return drawn(30, 8, 4)

    @property
    def other(self) -> TextLog:
        """Fewer tasks, and texts."""
        return drawn(12, 6, 3, seed=5)

    @property
    def large(self) -> TextLog:
        """Enough tasks for several threads."""
        return drawn(1500, 40, 4, seed=2)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Frames."""
        return {"to_frame": model.to_frame, "workers_frame": model.workers_frame}


def check_sound(subject: TextSubject) -> None:
    """One text a task, confidences between 0 and 1, whatever the log."""
    for name, log in {"an ordinary log": subject.standard, **odd_logs()}.items():
        votes, model = log.votes(), subject.fitted(log)
        require(len(model.texts_) == votes.n_tasks, f"{name}: {len(model.texts_)} texts of {votes.n_tasks} tasks")
        require(all(isinstance(text, str) for text in model.texts_), f"{name}: a text is none")
        sure = model.confidence_
        require(((sure >= 0) & (sure <= 1)).all(), f"{name}: a confidence is not between 0 and 1")
        for column in model.workers_frame().columns[1:]:
            values = column.to_numpy()
            sound = np.isfinite(values).all() or np.isnan(values).all()
            require(sound, f"{name}: what is known of workers is not finite")


def check_full_agreement(subject: TextSubject) -> None:
    """Where all write the same, it is the text."""
    require(subject.fitted(odd_logs()["full agreement"]).texts_.tolist() == ["a b", "c"], "agreement is not kept")


def check_order_of_rows(subject: TextSubject) -> None:
    """Ten shuffles of the rows change nothing, to the last bit."""
    before = subject.fitted()
    for seed in range(10):
        after = subject.fitted(subject.standard.reordered(seed))
        require(after.texts_.tolist() == before.texts_.tolist(), "texts_ depend on the order of rows")
        np.testing.assert_array_equal(after.confidence_, before.confidence_)


def check_renaming(subject: TextSubject) -> None:
    """Exchanging the names of tasks or workers exchanges what is found of them."""
    log, before = subject.standard, subject.fitted()
    for part in ("tasks", "workers"):
        codes = getattr(log, part)
        order = np.random.default_rng(1).permutation(int(codes.max()) + 1)
        after = subject.fitted(replace(log, **{part: order[codes]}))
        place = order if part == "tasks" else np.arange(len(before.tasks_))
        require(after.texts_[place].tolist() == before.texts_.tolist(), f"texts_ change with the names of {part}")
        assert_close(after.confidence_[place], before.confidence_, SAME, f"confidence_, {part} renamed")


CHECKS = (check_sound, check_full_agreement, check_order_of_rows, check_renaming)


def subject_of(estimator: TextAggregator, skip: Mapping[str, str]) -> TextSubject:
    """The subject of the checks of an aggregator of texts."""
    return TextSubject(repr(estimator), lambda _: clone(estimator), {**estimator._skipped_checks, **skip})
