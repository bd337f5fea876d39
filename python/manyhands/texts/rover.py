"""ROVER: align the texts of a task and vote on each word, weighted by worker error rates."""

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
from manyhands._base.fitted import Fit, codes, custom, numbers
from manyhands._base.iteration import iterate, largest_change
from manyhands._base.progress import Callback
from manyhands._base.values import as_objects
from manyhands.texts._network import EMPTY, Network
from manyhands.texts._shared import SharedErrors
from manyhands.texts.base import TextAggregator, TextFit, pack_texts, unpack_texts
from manyhands.texts.table import Texts
from manyhands.texts.words import LEVELS, Spelling, join_tokens

if TYPE_CHECKING:
    import pyarrow as pa

#: Rates are clipped to [_EDGE, 1 - _EDGE].
_EDGE = 1e-6


@dataclass(frozen=True, kw_only=True)
class RoverFit(TextFit):
    """Estimated texts and words, and error rates of workers."""

    right: Array = field(metadata=numbers("m"))
    omitted: Array = field(metadata=numbers("m"))
    inserted: Array = field(metadata=numbers("m"))
    words: npt.NDArray[np.object_] = field(metadata=custom("w", pack_texts, unpack_texts))
    word_tasks: npt.NDArray[np.int64] = field(metadata=codes("w", "n"))
    word_confidence: Array = field(metadata=numbers("w"))


class ROVER(TextAggregator, default=True):
    """Align the texts of each task and select the most probable word in each slot.

    The default for texts. Use it for transcripts, translations and captions whose words appear in the same order.
    Answers are weighted by the error rates of their workers.

    Parameters
    ----------
    level : {"word", "character"}, default "word"
        Unit of the alignment. In scripts without spaces (Chinese, Japanese, Thai, Khmer, …), each letter is a word
        at both levels; combining marks and vowel signs stay with their letter.
    fold : bool, default True
        Treat words as equal if they differ only in case, punctuation or width (NFKC, case folding, no punctuation and
        symbols). Each word is then written in its most frequent form, including attached punctuation; punctuation
        between spaces is dropped. False compares words exactly.
    strength : float, default 10.0
        Prior strength of worker rates: pseudo-count of words with the average rates, for workers with few words.
    max_iter : int, default 100
        Maximum number of iterations of each of the two stages.
    tol : float, default 1e-4
        Change of the probabilities at which a stage has converged.

    Notes
    -----
    Time per task O(D² L² + R D L S) to align D distinct answers of L words in S slots with R refinement rounds
    (compiled, one task per thread). Time per iteration O(answers · slots) in the first stage, O(candidates) in the
    second. Memory 160 bytes per slot and answer.

    Alignment starts from the answer nearest to all others, adds the rest by distance, and then realigns each answer
    until the number of differing slots no longer decreases. The order of rows does not matter.

    In a slot with a true word, a worker writes it, omits it, or writes a wrong word; in an empty slot, a worker may
    insert a word. The first stage estimates these rates assuming independent errors. A wrong word is uniform over the
    effective vocabulary (the inverse of the probability that two words drawn from the log are equal). Worker rates are
    shrunk toward the average rates, which are re-estimated, so this stage has no objective.

    Because workers tend to mishear alike, the second stage estimates three more things by EM, given these rates: the
    share of slots that are hard or easy for all workers (log-odds of the true word shifted by -6, -4, -2, 0 or 2), how
    often wrong words of a slot coincide, and how often a slot is empty. The true word may be one that no worker wrote.
    Words and probabilities come from this stage. EM is accelerated by extrapolation (SQUAREM); `history_` is its
    objective and never decreases.

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
        model = _WorkerRates(network, votes.n_workers, float(self.strength), _repeat_probability(spelling, votes))
        probabilities, n_iter, converged = model.run(self.max_iter, self.tol, progress)
        rates = model.rates(probabilities)
        history: list[float] = []
        if network.n_slots:
            shared = SharedErrors(network, rates, model.log_one)
            probabilities, history, stage_converged = shared.run(probabilities, self.max_iter, self.tol, progress)
            converged = converged and stage_converged
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
        """Join the selected words of each task."""
        selected = network.best(probabilities)
        word_confidence = np.minimum(probabilities[selected], 1.0)
        words = network.tokens[selected] != EMPTY
        forms = network.surface_forms(selected[words])
        n = len(network.starts) - 1
        of_slot = np.repeat(np.arange(n), np.diff(network.starts))
        word_forms = as_objects([spelling.tokens[form] for form in forms])
        bounds = np.searchsorted(of_slot[words], np.arange(n + 1))
        texts = [join_tokens(word_forms[a:b]) for a, b in pairwise(bounds)]
        total, count = np.bincount(of_slot, word_confidence, n), np.diff(network.starts)
        confidence = np.divide(total, count, out=np.ones(n), where=count > 0)
        right, omitted, inserted = rates
        return RoverFit(
            right=right,
            omitted=omitted,
            inserted=inserted,
            words=word_forms,
            word_tasks=of_slot[words],
            word_confidence=word_confidence[words],
            texts=as_objects(texts),
            confidence=np.minimum(confidence, 1.0),
            **course,
        )

    # ----------------------------------------------------------------------------------------------- results

    @property
    def right_(self) -> Array:
        """Probability that each worker writes the true word of a slot, shape (n_workers,)."""
        return self._fitted().fit_as(RoverFit).right

    @property
    def omitted_(self) -> Array:
        """Probability that each worker omits a true word, shape (n_workers,)."""
        return self._fitted().fit_as(RoverFit).omitted

    @property
    def inserted_(self) -> Array:
        """Probability that each worker inserts a word in an empty slot, shape (n_workers,)."""
        return self._fitted().fit_as(RoverFit).inserted

    def words_frame(self) -> pa.Table:
        """Return one row per word (or letter) of the texts: task, word and probability that it is correct."""
        import pyarrow as pa

        now = self._fitted()
        fit = now.fit_as(RoverFit)
        words = pa.array([word.strip() or word for word in fit.words.tolist()], pa.string())
        tasks = now.tasks.take(fit.word_tasks).arrow()
        return arrow.table({"task": tasks, "word": words, "confidence": fit.word_confidence})


def _repeat_probability(spelling: Spelling, votes: Texts) -> float:
    """Probability that two words drawn from the log are equal."""
    texts = votes.codes()[2]
    of_text = np.repeat(np.bincount(texts, minlength=len(spelling.lengths)), spelling.lengths)
    counts = np.bincount(spelling.keys, of_text, spelling.n_keys)
    total = counts.sum()
    return float(((counts / total) ** 2).sum()) if total else 1.0


class _WorkerRates:
    """EM-style estimation of the rates at which workers write, omit and insert words."""

    def __init__(self, network: Network, n_workers: int, strength: float, same: float) -> None:
        self._network, self._n_workers, self._prior_strength = network, n_workers, strength
        #: Log-probability of a specific wrong word.
        self.log_one = math.log(min(max(same, 1e-9), 0.5))
        self._nothing = network.tokens == EMPTY
        self._observed_empty = self._nothing[network.readings]
        self._empty = np.full(network.n_slots, -1, np.int64)
        self._empty[network.places[self._nothing]] = np.flatnonzero(self._nothing)
        self._rates: tuple[Array, Array, Array] | None = None

    def run(self, max_iter: int, tol: float, progress: Callback | None) -> tuple[Array, int, bool]:
        """Return candidate probabilities, the number of iterations and whether they converged."""
        net = self._network
        if not net.n_slots:
            return np.zeros(0), 1, True
        counts: Array = np.bincount(net.readings, net.weights, len(net.places)).astype(np.float64)
        total: Array = np.bincount(net.slots, net.weights, net.n_slots).astype(np.float64)
        probabilities = _share(counts, total[net.places], np.bincount(net.places)[net.places])

        def step(_: int) -> float:
            nonlocal probabilities
            before, probabilities = probabilities, self._probabilities(probabilities)
            return largest_change(before, probabilities)

        n_iter, converged = iterate(step, max_iter, tol, progress)
        return probabilities, n_iter, converged

    def rates(self, probabilities: Array) -> tuple[Array, Array, Array]:
        """Return the rates of correct, omitted and inserted words of each worker."""
        net, is_empty = self._network, self._observed_empty
        if not net.n_slots:
            return tuple(np.full(self._n_workers, rate) for rate in (0.5, 0.25, 0.25))  # type: ignore[return-value]
        empty_probability = np.where(self._empty >= 0, probabilities[self._empty], 0.0)[net.slots]
        token_probability = probabilities[net.readings]
        right = self._rate(np.where(is_empty, 0.0, token_probability), 1.0 - empty_probability)
        omitted = self._rate(np.where(is_empty, 1.0 - token_probability, 0.0), 1.0 - empty_probability)
        inserted = self._rate(np.where(is_empty, 0.0, empty_probability), empty_probability)
        # Leave some probability for wrong words.
        max_total = 1.0 - _EDGE
        scale = np.minimum(max_total / (right + omitted), 1.0)
        return right * scale, omitted * scale, inserted

    def _rate(self, events: Array, chances: Array) -> Array:
        net, m = self._network, self._n_workers
        event_counts = np.bincount(net.workers, events * net.weights, m)
        opportunity_counts = np.bincount(net.workers, chances * net.weights, m)
        mean_rate = (event_counts.sum() + 0.5) / (opportunity_counts.sum() + 1.0)
        rate: Array = (event_counts + self._prior_strength * mean_rate) / (opportunity_counts + self._prior_strength)
        return np.clip(rate, _EDGE, 1.0 - _EDGE)

    def _probabilities(self, probabilities: Array) -> Array:
        net = self._network
        right, omitted, inserted = self.rates(probabilities)
        wrong = np.maximum(1.0 - right - omitted, _EDGE)
        empty_probability = np.where(self._empty >= 0, probabilities[self._empty], 0.0)
        share = float(np.clip(empty_probability.mean(), _EDGE, 1.0 - _EDGE))
        who, is_empty = net.workers, self._observed_empty
        # Log-likelihood of each answer if the slot is empty, and if another word is true; gain if its word is true.
        if_none = np.where(is_empty, np.log1p(-inserted)[who], np.log(inserted)[who] + self.log_one)
        if_other = np.where(is_empty, np.log(omitted)[who], np.log(wrong)[who] + self.log_one)
        gain = np.where(is_empty, 0.0, np.log(right)[who] - if_other)
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
    """Return vote shares, uniform if all weights are zero."""
    return np.divide(counts, totals, out=1.0 / candidates, where=totals > 0)
