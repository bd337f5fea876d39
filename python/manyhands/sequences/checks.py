"""Checks that every sequence aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyhands.sequences.simulate import simulate
from manyhands.sequences.table import Sequences
from manyhands.testing.compare import SAME, assert_close, assert_probabilities, never_falls, require
from manyhands.testing.subject import Subject


@dataclass(frozen=True)
class SequenceLog:
    """A simulated log, generated on demand and optionally shuffled or renamed."""

    n_sequences: int
    n_workers: int
    n_types: int
    length: int = 8
    shuffled: bool = False
    renamed: bool = False

    def votes(self) -> Sequences:
        """The log as a table."""
        table = _simulate_log(self.n_sequences, self.n_workers, self.n_types, self.length)
        if not (self.shuffled or self.renamed):
            return table
        frame = table.to_frame().to_pydict()
        order = np.random.default_rng(3).permutation(len(frame["label"])) if self.shuffled else slice(None)
        columns = {name: np.array(column, object)[order].tolist() for name, column in frame.items()}
        if self.renamed:
            columns["worker"] = [self.n_workers - 1 - name for name in columns["worker"]]
            columns["sequence"] = [self.n_sequences - 1 - name for name in columns["sequence"]]
        return Sequences.from_frame(columns, scheme="bio")


@functools.cache
def _simulate_log(n_sequences: int, n_workers: int, n_types: int, length: int) -> Sequences:
    return simulate(
        n_sequences, n_workers, n_types, length=length, answers_per_task=min(3, n_workers), seed=n_sequences
    ).log


class SequenceSubject(Subject):
    """An aggregator of sequences."""

    @property
    def standard(self) -> SequenceLog:
        """Thirty sequences of two types of spans."""
        return SequenceLog(30, 6, 2)

    @property
    def other(self) -> SequenceLog:
        """A log with fewer, longer sequences and one more type."""
        return SequenceLog(15, 5, 3, length=11)

    @property
    def large(self) -> SequenceLog:
        """A log of several chunks."""
        return SequenceLog(1200, 40, 2, length=20)


def assert_sound(model: Any, votes: Sequences, what: str) -> None:
    """Check that probabilities are valid, transitions are legal and segments match the tags."""
    n, k = votes.n_tokens, len(votes.tags)
    assert_probabilities(model.posterior_, (n, k), f"{what}: posterior_")
    require(len(model.tags_) == n, f"{what}: tags_ has {len(model.tags_)} entries for {n} tokens")
    require(never_falls(model.history_), f"{what}: history_ falls")
    code = {name: i for i, name in enumerate(votes.tags.tolist())}
    tags = np.array([code[tag] for tag in model.tags_.tolist()])
    before = np.concatenate([[k], tags[:-1]])
    before[votes._grid.firsts()] = k
    require(votes._tags.legal()[before, tags].all(), f"{what}: tags_ contains an illegal transition")
    segments = model.spans_.to_pydict()
    marked = int((tags % 2 == 1).sum()) if votes._tags.spans else len(segments["start"])
    require(len(segments["start"]) == marked, f"{what}: {len(segments['start'])} segments for {marked} span starts")
    for name in ("probability", "start_probability", "end_probability"):
        probability = np.array(segments[name])
        require(((probability >= 0) & (probability <= 1)).all(), f"{what}: {name} of segments is outside [0, 1]")
        exact = np.array(segments["probability"])
        require((exact <= probability + SAME).all(), f"{what}: a span is more probable than its {name}")


def check_sound(subject: SequenceSubject) -> None:
    """Results are valid probabilities, legal tag sequences and matching segments."""
    for log in (subject.standard, subject.other):
        assert_sound(subject.fitted(log), log.votes(), "a simulated log")


def check_odd_tables(subject: SequenceSubject) -> None:
    """Edge cases give valid results: one token, one worker, no spans, full agreement, gaps."""
    one = Sequences.from_arrays([0], [0], ["u"], ["B-x"], scheme="bio")
    silent = Sequences.from_arrays([0] * 4, [0, 1] * 2, ["u", "u", "v", "v"], ["O", "O", "O", "O"], scheme="bio")
    alike = Sequences.from_arrays([0] * 4, [0, 1] * 2, ["u", "u", "v", "v"], ["B-x", "I-x"] * 2, scheme="bio")
    for what, votes in (("one token", one), ("no spans", silent), ("full agreement", alike)):
        model = subject.make(subject.standard).fit(votes)
        assert_sound(model, votes, what)
        if what != "one token":
            unanimous = votes.select(workers=["u"]).to_frame()["label"].to_pylist()
            require(model.tags_.tolist() == unanimous, f"{what}: tags_ differ from the unanimous tags")


def check_order_of_rows(subject: SequenceSubject) -> None:
    """The order of the rows does not change the result (bit for bit)."""
    before, after = subject.fitted(), subject.fitted(replace(subject.standard, shuffled=True))
    np.testing.assert_array_equal(before.posterior_, after.posterior_)
    require(before.spans_ == after.spans_, "spans_ depends on the order of the rows")


def check_renaming(subject: SequenceSubject) -> None:
    """Permuting sequence and worker ids permutes the results."""
    log = subject.standard
    before, after = subject.fitted(), subject.fitted(replace(log, renamed=True))
    k = before.posterior_.shape[1]
    reversed_rows = after.posterior_.reshape(log.n_sequences, -1, k)[::-1].reshape(-1, k)
    assert_close(reversed_rows, before.posterior_, 1e-6, "posterior_ after renaming")


CHECKS = (check_sound, check_odd_tables, check_order_of_rows, check_renaming)
SUBJECT = SequenceSubject
