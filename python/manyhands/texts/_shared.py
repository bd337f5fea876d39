"""Shared errors: slots that are hard for all workers, and wrong words that coincide."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands._base.iteration import accelerated_em
from manyhands._base.progress import Callback
from manyhands._base.special import log_gamma
from manyhands.texts._network import EMPTY, Network

#: Shifts of the log-odds of a correct word in a slot, common to all workers.
LEVELS = (-6.0, -4.0, -2.0, 0.0, 2.0)
#: Prior mode of the concentration of wrong words; at 100 they rarely coincide.
USUAL = 100.0
_VARIETIES = (1e-2, 1e4)
#: Bounds of slot shares, and maximum count of equal answers that is distinguished.
_EDGE, _MOST = 1e-6, 1e6


class SharedErrors:
    """EM for the probabilities of candidates under shared errors, given the rates of each worker.

    In slots with a true word, the log-odds of a correct word are shifted by one of `LEVELS`, common to all workers; the
    remaining mass goes to omissions and wrong words in proportion. Wrong words of a slot follow a Dirichlet-multinomial
    over all words; the smaller its concentration (`variety`), the more of them coincide. The true word may be one that
    no worker wrote. Words in slots without a true word are inserted independently, because several identical insertions
    cannot be distinguished from omissions by all others. The shares of levels, the share of slots without a true word
    and the concentration are estimated.
    """

    def __init__(self, network: Network, rates: tuple[Array, Array, Array], log_one: float) -> None:
        self._network, self._log_one, self._one = network, log_one, math.exp(log_one)
        self._word = network.tokens != EMPTY
        self._empty = np.flatnonzero(~self._word)
        n = network.n_slots
        self._firsts = np.searchsorted(network.places, np.arange(n))
        counts = np.bincount(network.readings, network.weights, len(network.places)) * self._word
        total = np.bincount(network.places, counts, n)
        self._counts, self._of_count = _distinct_counts(counts)
        self._lost, self._of_lost = _distinct_counts(
            np.concatenate([(total[network.places] - counts)[self._word], total])
        )
        unseen = 1.0 - self._one * np.bincount(network.places, self._word, n)
        self._log_unseen = np.log(np.maximum(unseen, _EDGE))
        self._set_log_likelihoods(*rates)

    def _set_log_likelihoods(self, right: Array, omitted: Array, inserted: Array) -> None:
        """Compute log-likelihoods of each candidate at each level, of an unobserved word, and of no word."""
        net, n = self._network, self._network.n_slots
        who, is_empty = net.workers, ~self._word[net.readings]
        if_none = np.where(is_empty, np.log1p(-inserted)[who], np.log(inserted)[who] + self._log_one)
        self._for_none = np.bincount(net.slots, if_none * net.weights, n)[net.places[self._empty]]
        usual = np.log(right) - np.log1p(-right)
        wrong = np.log(np.maximum(1.0 - right - omitted, _EDGE)) - np.log1p(-right)
        left_out = np.log(omitted) - np.log1p(-right)
        for_words, for_unseen = [], []
        for level in LEVELS:
            log_right, log_not = -np.logaddexp(0.0, -usual - level), -np.logaddexp(0.0, usual + level)
            if_other = log_not[who] + np.where(is_empty, left_out[who], wrong[who])
            gain = np.where(is_empty, 0.0, log_right[who] - if_other)
            other = np.bincount(net.slots, if_other * net.weights, n)
            gain_sums = np.bincount(net.readings, gain * net.weights, len(net.places))
            for_words.append((other[net.places] + gain_sums)[self._word])
            for_unseen.append(other)
        self._for_words, self._for_unseen = np.array(for_words), np.array(for_unseen)

    def run(
        self, probabilities: Array, max_iter: int, tol: float, progress: Callback | None
    ) -> tuple[Array, list[float], bool]:
        """Return candidate probabilities, the objective per iteration and whether EM converged."""
        start = self._state(np.ones(len(LEVELS)), probabilities[self._empty].sum(), USUAL)
        return accelerated_em(self._pass, start, probabilities, max_iter=max_iter, tol=tol, progress=progress)

    def _state(self, levels: Array, nothing: float, variety: float) -> Array:
        """Pack the parameters as unbounded numbers: shares of levels, share of empty slots, concentration."""
        share = min(max(float(nothing) / self._network.n_slots, _EDGE), 1.0 - _EDGE)
        return np.array([*np.log(levels / levels.sum()), math.log(share / (1.0 - share)), math.log(variety)])

    def _pass(self, state: Array) -> tuple[Array, float, Array]:
        """EM iteration: return candidate probabilities, the log-posterior density and the updated parameters."""
        net, word, of = self._network, self._word, self._network.places
        log_levels = state[:-2] - np.logaddexp.reduce(state[:-2])
        variety = min(max(math.exp(state[-1]), _VARIETIES[0]), _VARIETIES[1])
        shift = -np.logaddexp(0.0, state[-2]) + log_levels[:, None]
        log_counts, log_totals = self._coincidence(variety)
        coincidence = np.where(word, log_counts[self._of_count], 0.0)
        together = np.bincount(of, coincidence, net.n_slots)
        lost_words, lost_all = np.split(log_totals[self._of_lost], [int(word.sum())])
        words = self._for_words + shift + (self._log_one + (together[of] - coincidence)[word] - lost_words)
        unseen = self._for_unseen + shift + (self._log_unseen + together - lost_all)
        log_empty = self._for_none - np.logaddexp(0.0, -state[-2])
        top = np.zeros(len(of))
        top[word], top[self._empty] = words.max(axis=0), log_empty
        top = np.maximum(np.maximum.reduceat(top, self._firsts), unseen.max(axis=0))
        odds, unobserved_odds = np.exp(words - top[of[word]]), np.exp(unseen - top)
        chances = np.zeros(len(of))
        chances[word], chances[self._empty] = odds.sum(axis=0), np.exp(log_empty - top[of[self._empty]])
        total = np.bincount(of, chances, net.n_slots) + unobserved_odds.sum(axis=0)
        objective = float((top + np.log(total)).sum() + log_levels.sum()) + _log_prior(variety)
        probabilities: Array = chances / total[of]
        levels = (odds / total[of[word]]).sum(axis=1) + (unobserved_odds / total).sum(axis=1) + 1.0
        new_variety = self._estimate_variety(probabilities, unobserved_odds.sum(axis=0) / total, variety)
        return probabilities, objective, self._state(levels, probabilities[self._empty].sum(), new_variety)

    def _estimate_variety(self, probabilities: Array, unseen: Array, variety: float) -> float:
        """Maximize over the concentration of wrong words; a word is wrong if another one is the true word."""
        of, word = self._network.places, self._word
        belongs = np.bincount(of[word], probabilities[word], self._network.n_slots) + unseen
        times = np.bincount(self._of_count[word], (belongs[of] - probabilities)[word], len(self._counts))
        places = np.bincount(self._of_lost, np.concatenate([probabilities[word], unseen]), len(self._lost))

        def gain(log: float) -> float:
            log_counts, log_totals = self._coincidence(math.exp(log))
            return float((times * log_counts).sum() - (places * log_totals).sum()) + _log_prior(math.exp(log))

        best = _maximize(gain, *map(math.log, _VARIETIES))
        return math.exp(best) if gain(best) > gain(math.log(variety)) else variety

    def _coincidence(self, variety: float) -> tuple[Array, Array]:
        """Return the Dirichlet-multinomial log-terms of wrong words, per distinct count and per distinct total."""
        each, all_ = np.array([variety * self._one]), np.array([variety])
        return log_gamma(self._counts + each) - log_gamma(each), log_gamma(self._lost + all_) - log_gamma(all_)


def _log_prior(variety: float) -> float:
    """Log-density of a Gamma prior of the concentration with mode `USUAL` and the weight of one observation."""
    return math.log(variety) - variety / USUAL


def _distinct_counts(counts: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the distinct counts, and the index of each count among them."""
    values, number = np.unique(np.clip(counts, 0.0, _MOST), return_inverse=True)
    return values, number.reshape(-1).astype(np.int64)


def _maximize(score: Callable[[float], float], low: float, high: float) -> float:
    """Maximize a unimodal function on an interval by golden-section search, to 0.01."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = score(a), score(b)
    while high - low > 1e-2:
        if at_a >= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = score(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = score(b)
    return (low + high) / 2.0
