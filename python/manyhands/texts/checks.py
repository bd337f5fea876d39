"""Checks that every text aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

from functools import cache

import numpy as np

import manyhands as mh
from manyhands.testing.common import check_order_of_rows, check_renaming
from manyhands.testing.compare import require
from manyhands.testing.subject import Subject, TaskLog


class TextLog(TaskLog):
    """A simulated log of texts."""

    table = mh.Texts


@cache
def simulate_log(n_tasks: int, n_workers: int, each: int, seed: int = 0) -> TextLog:
    """Simulate a log of typical workers."""
    log = mh.simulate(n_tasks, n_workers, answers_per_task=each, words=6, vocabulary=60, seed=seed, kind="texts").log
    tasks, workers, text_codes = log.codes()
    return TextLog(tasks.astype(np.int64), workers.astype(np.int64), log.answers[text_codes].tolist())


def edge_cases() -> dict[str, TextLog]:
    """Logs with edge cases."""
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
        return simulate_log(30, 8, 4)

    @property
    def other(self) -> TextLog:
        """A log with fewer tasks and fewer texts per task."""
        return simulate_log(12, 6, 3, seed=5)

    @property
    def large(self) -> TextLog:
        """A log with enough tasks for several threads."""
        return simulate_log(1500, 40, 4, seed=2)


def check_sound(subject: TextSubject) -> None:
    """Each task has one text, with a confidence between 0 and 1, including edge cases."""
    for name, log in {"an ordinary log": subject.standard, **edge_cases()}.items():
        votes, model = log.votes(), subject.fitted(log)
        require(len(model.texts_) == votes.n_tasks, f"{name}: {len(model.texts_)} texts for {votes.n_tasks} tasks")
        require(all(isinstance(text, str) for text in model.texts_), f"{name}: texts_ contains a non-string")
        confidence = model.confidence_
        require(((confidence >= 0) & (confidence <= 1)).all(), f"{name}: a confidence is outside [0, 1]")
        for column in model.workers_frame().columns[1:]:
            values = column.to_numpy()
            sound = np.isfinite(values).all() or np.isnan(values).all()
            require(sound, f"{name}: workers_frame contains non-finite values")


def check_full_agreement(subject: TextSubject) -> None:
    """Unanimous texts are kept."""
    require(
        subject.fitted(edge_cases()["full agreement"]).texts_.tolist() == ["a b", "c"], "unanimous texts are changed"
    )


CHECKS = (check_sound, check_full_agreement, check_order_of_rows, check_renaming)
SUBJECT = TextSubject
