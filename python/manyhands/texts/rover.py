"""Texts word by word: answers are aligned, and each place is a vote of workers who are judged by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_flag, check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, codes, encoded, numbers
from manyhands._base.iteration import iterate, largest_change
from manyhands._base.progress import Callback
from manyhands._base.values import as_objects
from manyhands.texts._network import EMPTY, Network
from manyhands.texts._shared import SharedErrors
from manyhands.texts.base import TextAggregator, TextFit, pack_texts, unpack_texts
from manyhands.texts.table import Texts
from manyhands.texts.words import LEVELS, Spelling, joined

if TYPE_CHECKING:
    import pyarrow as pa

#: Rates stay this far from 0 and 1.
_EDGE = 1e-6


@dataclass(frozen=True, kw_only=True)
class RoverFit(TextFit):
    """Texts word by word, and how workers read."""

    right: Array = field(metadata=numbers("m"))
    omitted: Array = field(metadata=numbers("m"))
    inserted: Array = field(metadata=numbers("m"))
    words: npt.NDArray[np.object_] = field(metadata=encoded("w", pack_texts, unpack_texts))
    word_tasks: npt.NDArray[np.int64] = field(metadata=codes("w", "n"))
    word_confidence: Array = field(metadata=numbers("w"))


class ROVER(TextAggregator, default=True):
    """Aligned texts, and in each place the word that workers who are mostly right agree on.

    The answers of a task are put side by side so that as few places as possible differ; the order of rows does not
    matter. A worker writes the word that belongs to a place with one probability, leaves it out with another, or else
    writes a wrong one; where nothing belongs, a worker inserts a word with a third. These rates are learnt with the
    probability of each reading, so that careless workers count for less, and who leaves words out is believed where
    they write one.

    Parameters
    ----------
    level
        What is aligned: ``"word"`` or ``"character"``. In scripts without spaces (Chinese, Japanese, Thai, Khmer, …)
        each letter is a word either way; marks and vowel signs stay with their letter.
    fold
        Whether words are the same that differ in case, punctuation or width only (NFKC, case folded, without
        punctuation and symbols). Each word is then written as most of those who wrote it did, punctuation that sticks
        to it included; punctuation between spaces is left out. False compares words as they are written.
    strength
        Imaginary words of each worker with the crowd's rates, so that who wrote little is judged like the crowd.
    max_iter, tol
        Stop either part after so many passes, or when no probability changes by as much as `tol`.

    Notes
    -----
    Alignment starts at the answer nearest to all others, adds the rest outwards, and then takes each out and puts it
    back until the number of differing places no longer falls.

    Rates of workers are learnt first, as if errors were independent: a wrong word is any of the vocabulary with the
    same probability, one over its effective size (the inverse of the chance that two words drawn from the log are
    the same). They are pulled to those of the crowd, which move too, so that this part has no objective. People
    mishear alike, though, and so with these rates three more things are learnt from the log: how many places are
    hard or easy for everybody (log-odds of being right shifted by -6, -4, -2, 0 or 2), how often wrong words of a
    place coincide, and how often nothing belongs; the word that belongs may be one that nobody wrote. Words and
    probabilities come from that part. It is EM, with leaps; `history_` is its objective, which never falls.

    Time O(D² L² + R D L S) a task to align D different answers of L words in S places, R a few rounds (compiled, one
    task a thread); a pass O(answers · places) at first, O(candidates) then. Memory 160 bytes a place and answer.

    References
    ----------
    J. G. Fiscus, "A post-processing system to yield reduced word error rates: recognizer output voting error reduction
    (ROVER)", ASRU (1997). A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the
    EM algorithm", Applied Statistics 28 (1979). R. Varadhan and C. Roland, "Simple and globally convergent methods for
    accelerating the convergence of any EM algorithm", Scandinavian Journal of Statistics 35 (2008).

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Texts.from_arrays([1, 1, 1], list("uvw"), ["the cat sat", "The cat sat.", "a cat sat there"])
    >>> model = mh.aggregate(texts)
    >>> model.texts_.tolist()
    ['The cat sat']
    >>> model.words_frame().column("word").to_pylist()
    ['The', 'cat', 'sat']
    """

    _fit_type: ClassVar[type[Fit]] = RoverFit
    _of_workers: ClassVar[Mapping[str, str]] = {"skill": "right", "omitted": "omitted", "inserted": "inserted"}

    def __init__(
        self,
        *,
        level: str = "word",
        fold: bool = True,
        strength: float = 10.0,
        max_iter: int = 100,
        tol: float = 1e-4,
    ) -> None:
        self.level = level
        self.fold = fold
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Texts, progress: Callback | None) -> TextFit:
        check_choice("level", self.level, LEVELS)
        check_flag("fold", self.fold)
        check_number("strength", self.strength, least=1e-6)
        check_stopping(self.max_iter, self.tol)
        spelling = Spelling.of(votes.answers.tolist(), self.level, self.fold)
        network = Network.of(votes, spelling)
        model = _Readers(network, votes.n_workers, float(self.strength), _one_of_all(spelling, votes))
        probabilities, n_iter, converged = model.run(self.max_iter, self.tol, progress)
        rates = model.rates(probabilities)
        history: list[float] = []
        if network.n_slots:
            shared = SharedErrors(network, rates, model.log_one)
            probabilities, history, settled = shared.run(probabilities, self.max_iter, self.tol, progress)
            converged = converged and settled
        warn_unless_converged(converged, self)
        course = {"history": np.array(history), "n_iter": n_iter + len(history), "converged": converged}
        return self._text(network, spelling, probabilities, rates, course)

    def _text(
        self,
        network: Network,
        spelling: Spelling,
        probabilities: Array,
        rates: tuple[Array, Array, Array],
        course: Mapping[str, Any],
    ) -> TextFit:
        """Write the chosen words of each task one after the other."""
        chosen = network.best(probabilities)
        sure = np.minimum(probabilities[chosen], 1.0)
        words = network.tokens[chosen] != EMPTY
        forms = network.written(chosen[words])
        n = len(network.starts) - 1
        of_slot = np.repeat(np.arange(n), np.diff(network.starts))
        written = as_objects([spelling.written[form] for form in forms])
        bounds = np.searchsorted(of_slot[words], np.arange(n + 1))
        texts = [joined(written[a:b]) for a, b in pairwise(bounds)]
        total, count = np.bincount(of_slot, sure, n), np.diff(network.starts)
        confidence = np.divide(total, count, out=np.ones(n), where=count > 0)
        right, omitted, inserted = rates
        return RoverFit(
            right=right,
            omitted=omitted,
            inserted=inserted,
            words=written,
            word_tasks=of_slot[words],
            word_confidence=sure[words],
            texts=as_objects(texts),
            confidence=np.minimum(confidence, 1.0),
            **course,
        )

    # ----------------------------------------------------------------------------------------------- results

    @property
    def right_(self) -> Array:
        """Probability that each worker writes the word that belongs to a place, (n_workers,)."""
        return self._fitted().fit_as(RoverFit).right

    @property
    def omitted_(self) -> Array:
        """Probability that each worker leaves out a word, (n_workers,)."""
        return self._fitted().fit_as(RoverFit).omitted

    @property
    def inserted_(self) -> Array:
        """Probability that each worker writes a word in a place of the task's where none belongs, (n_workers,)."""
        return self._fitted().fit_as(RoverFit).inserted

    def words_frame(self) -> pa.Table:
        """Return one row for each word, or letter, of the texts: task, word and the probability that it is right."""
        import pyarrow as pa

        now = self._fitted()
        fit = now.fit_as(RoverFit)
        words = pa.array([word.strip() or word for word in fit.words.tolist()], pa.string())
        tasks = now.tasks.take(fit.word_tasks).arrow()
        return arrow.table({"task": tasks, "word": words, "confidence": fit.word_confidence})


def _one_of_all(spelling: Spelling, votes: Texts) -> float:
    """Probability that two words drawn from the log are the same."""
    texts = votes.codes()[2]
    of_text = np.repeat(np.bincount(texts, minlength=len(spelling.lengths)), spelling.lengths)
    counts = np.bincount(spelling.keys, of_text, spelling.n_keys)
    total = counts.sum()
    return float(((counts / total) ** 2).sum()) if total else 1.0


class _Readers:
    """Workers who read each place right, leave it out, or write something else; expectation and maximisation."""

    def __init__(self, network: Network, n_workers: int, strength: float, same: float) -> None:
        self._network, self._n_workers, self._strength = network, n_workers, strength
        #: Probability of one word among all that could be written by mistake.
        self.log_one = math.log(min(max(same, 1e-9), 0.5))
        self._nothing = network.tokens == EMPTY
        self._said_nothing = self._nothing[network.readings]
        self._empty = np.full(network.n_slots, -1, np.int64)
        self._empty[network.places[self._nothing]] = np.flatnonzero(self._nothing)
        self._rates: tuple[Array, Array, Array] | None = None

    def run(self, max_iter: int, tol: float, progress: Callback | None) -> tuple[Array, int, bool]:
        """Probabilities of candidates, passes made, and whether they settled."""
        net = self._network
        if not net.n_slots:
            return np.zeros(0), 1, True
        counts: Array = np.bincount(net.readings, net.weights, len(net.places)).astype(np.float64)
        total: Array = np.bincount(net.slots, net.weights, net.n_slots).astype(np.float64)
        found = _share(counts, total[net.places], np.bincount(net.places)[net.places])

        def step(_: int) -> float:
            nonlocal found
            before, found = found, self._probabilities(found)
            return largest_change(before, found)

        n_iter, converged = iterate(step, max_iter, tol, progress)
        return found, n_iter, converged

    def rates(self, found: Array) -> tuple[Array, Array, Array]:
        """Words right, left out and inserted, of each worker, each as a share of the places where that can happen."""
        net, silent = self._network, self._said_nothing
        if not net.n_slots:
            return tuple(np.full(self._n_workers, rate) for rate in (0.5, 0.25, 0.25))  # type: ignore[return-value]
        none = np.where(self._empty >= 0, found[self._empty], 0.0)[net.slots]
        said = found[net.readings]
        right = self._rate(np.where(silent, 0.0, said), 1.0 - none)
        omitted = self._rate(np.where(silent, 1.0 - said, 0.0), 1.0 - none)
        inserted = self._rate(np.where(silent, 0.0, none), none)
        # Something is left for wrong words.
        most = 1.0 - _EDGE
        scale = np.minimum(most / (right + omitted), 1.0)
        return right * scale, omitted * scale, inserted

    def _rate(self, events: Array, chances: Array) -> Array:
        net, m = self._network, self._n_workers
        happened = np.bincount(net.workers, events * net.weights, m)
        could = np.bincount(net.workers, chances * net.weights, m)
        crowd = (happened.sum() + 0.5) / (could.sum() + 1.0)
        rate: Array = (happened + self._strength * crowd) / (could + self._strength)
        return np.clip(rate, _EDGE, 1.0 - _EDGE)

    def _probabilities(self, found: Array) -> Array:
        net = self._network
        right, omitted, inserted = self.rates(found)
        wrong = np.maximum(1.0 - right - omitted, _EDGE)
        none = np.where(self._empty >= 0, found[self._empty], 0.0)
        share = float(np.clip(none.mean(), _EDGE, 1.0 - _EDGE))
        who, silent = net.workers, self._said_nothing
        # Where nothing belongs, and where another word belongs than was written; then the gain of the written one.
        if_none = np.where(silent, np.log1p(-inserted)[who], np.log(inserted)[who] + self.log_one)
        if_other = np.where(silent, np.log(omitted)[who], np.log(wrong)[who] + self.log_one)
        gain = np.where(silent, 0.0, np.log(right)[who] - if_other)
        all_none = np.bincount(net.slots, if_none * net.weights, net.n_slots) + math.log(share)
        all_other = np.bincount(net.slots, if_other * net.weights, net.n_slots) + math.log1p(-share) + self.log_one
        scores = all_other[net.places] + np.bincount(net.readings, gain * net.weights, len(net.places))
        scores = np.where(self._nothing, all_none[net.places], scores)
        top = np.full(net.n_slots, -np.inf)
        np.maximum.at(top, net.places, scores)
        odds = np.exp(scores - top[net.places])
        chances: Array = odds / np.bincount(net.places, odds, net.n_slots)[net.places]
        return chances


def _share(counts: Array, totals: Array, candidates: npt.NDArray[np.int64]) -> Array:
    """Shares of votes; even ones where all weigh nothing."""
    return np.divide(counts, totals, out=1.0 / candidates, where=totals > 0)
