"""Errors that workers share: places that are hard for everybody, and wrong words that coincide."""

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

#: What the log-odds that a worker is right may be shifted by in a place, for all workers alike.
LEVELS = (-6.0, -4.0, -2.0, 0.0, 2.0)
#: The variety of wrong words that counts as usual: at 100 they hardly coincide.
USUAL = 100.0
_VARIETIES = (1e-2, 1e4)
#: Shares of places stay this far from 0 and 1, and more than so many answers alike say no more.
_EDGE, _MOST = 1e-6, 1e6


class SharedErrors:
    """Probabilities of candidates where errors are shared, given each worker's usual rates; EM.

    Where a word belongs, the log-odds that workers are right are shifted by one of `LEVELS`, the same for all of
    them; what is lost goes to omissions and wrong words in proportion. Wrong words of a place are drawn from a
    distribution of its own, a Dirichlet over all words: the smaller its strength, the `variety`, the more of them
    coincide. The word that belongs may be one that nobody wrote. Words where nothing belongs are inserted
    independently: that several inserted the same one cannot be told from all others having left it out. Shares of
    levels, the share of places where nothing belongs and the variety are learnt.
    """

    def __init__(self, network: Network, rates: tuple[Array, Array, Array], log_one: float) -> None:
        self._network, self._log_one, self._one = network, log_one, math.exp(log_one)
        self._word = network.tokens != EMPTY
        self._empty = np.flatnonzero(~self._word)
        n = network.n_slots
        self._firsts = np.searchsorted(network.places, np.arange(n))
        counts = np.bincount(network.readings, network.weights, len(network.places)) * self._word
        total = np.bincount(network.places, counts, n)
        self._counts, self._of_count = _numbered(counts)
        self._lost, self._of_lost = _numbered(np.concatenate([(total[network.places] - counts)[self._word], total]))
        unseen = 1.0 - self._one * np.bincount(network.places, self._word, n)
        self._log_unseen = np.log(np.maximum(unseen, _EDGE))
        self._weigh(*rates)

    def _weigh(self, right: Array, omitted: Array, inserted: Array) -> None:
        """What answers say for each candidate at each level, for a word that nobody wrote, and for none."""
        net, n = self._network, self._network.n_slots
        who, silent = net.workers, ~self._word[net.readings]
        if_none = np.where(silent, np.log1p(-inserted)[who], np.log(inserted)[who] + self._log_one)
        self._for_none = np.bincount(net.slots, if_none * net.weights, n)[net.places[self._empty]]
        usual = np.log(right) - np.log1p(-right)
        wrong = np.log(np.maximum(1.0 - right - omitted, _EDGE)) - np.log1p(-right)
        left_out = np.log(omitted) - np.log1p(-right)
        for_words, for_unseen = [], []
        for level in LEVELS:
            log_right, log_not = -np.logaddexp(0.0, -usual - level), -np.logaddexp(0.0, usual + level)
            if_other = log_not[who] + np.where(silent, left_out[who], wrong[who])
            gain = np.where(silent, 0.0, log_right[who] - if_other)
            other = np.bincount(net.slots, if_other * net.weights, n)
            gained = np.bincount(net.readings, gain * net.weights, len(net.places))
            for_words.append((other[net.places] + gained)[self._word])
            for_unseen.append(other)
        self._for_words, self._for_unseen = np.array(for_words), np.array(for_unseen)

    def run(
        self, found: Array, max_iter: int, tol: float, progress: Callback | None
    ) -> tuple[Array, list[float], bool]:
        """Probabilities of candidates, the objective as it rose, and whether they settled, from first probabilities."""
        start = self._state(np.ones(len(LEVELS)), found[self._empty].sum(), USUAL)
        return accelerated_em(self._pass, start, found, max_iter=max_iter, tol=tol, progress=progress)

    def _state(self, levels: Array, nothing: float, variety: float) -> Array:
        """What is learnt as numbers without bounds: shares of levels and of places with nothing, and the variety."""
        share = min(max(float(nothing) / self._network.n_slots, _EDGE), 1.0 - _EDGE)
        return np.array([*np.log(levels / levels.sum()), math.log(share / (1.0 - share)), math.log(variety)])

    def _pass(self, state: Array) -> tuple[Array, float, Array]:
        """Probabilities under what was learnt, the logarithm of the density of all, and what is learnt from them."""
        net, word, of = self._network, self._word, self._network.places
        log_levels = state[:-2] - np.logaddexp.reduce(state[:-2])
        variety = min(max(math.exp(state[-1]), _VARIETIES[0]), _VARIETIES[1])
        shift = -np.logaddexp(0.0, state[-2]) + log_levels[:, None]
        apart, lost = self._coincidence(variety)
        alike = np.where(word, apart[self._of_count], 0.0)
        together = np.bincount(of, alike, net.n_slots)
        lost_words, lost_all = np.split(lost[self._of_lost], [int(word.sum())])
        words = self._for_words + shift + (self._log_one + (together[of] - alike)[word] - lost_words)
        unseen = self._for_unseen + shift + (self._log_unseen + together - lost_all)
        none = self._for_none - np.logaddexp(0.0, -state[-2])
        top = np.zeros(len(of))
        top[word], top[self._empty] = words.max(axis=0), none
        top = np.maximum(np.maximum.reduceat(top, self._firsts), unseen.max(axis=0))
        odds, beyond = np.exp(words - top[of[word]]), np.exp(unseen - top)
        chances = np.zeros(len(of))
        chances[word], chances[self._empty] = odds.sum(axis=0), np.exp(none - top[of[self._empty]])
        total = np.bincount(of, chances, net.n_slots) + beyond.sum(axis=0)
        objective = float((top + np.log(total)).sum() + log_levels.sum()) + _belief(variety)
        found: Array = chances / total[of]
        levels = (odds / total[of[word]]).sum(axis=1) + (beyond / total).sum(axis=1) + 1.0
        learnt = self._learn_variety(found, beyond.sum(axis=0) / total, variety)
        return found, objective, self._state(levels, found[self._empty].sum(), learnt)

    def _learn_variety(self, found: Array, unseen: Array, variety: float) -> float:
        """The likeliest variety of wrong words: a word is wrong where another belongs."""
        of, word = self._network.places, self._word
        belongs = np.bincount(of[word], found[word], self._network.n_slots) + unseen
        times = np.bincount(self._of_count[word], (belongs[of] - found)[word], len(self._counts))
        places = np.bincount(self._of_lost, np.concatenate([found[word], unseen]), len(self._lost))

        def gain(log: float) -> float:
            apart, lost = self._coincidence(math.exp(log))
            return float((times * apart).sum() - (places * lost).sum()) + _belief(math.exp(log))

        best = _highest(gain, *map(math.log, _VARIETIES))
        return math.exp(best) if gain(best) > gain(math.log(variety)) else variety

    def _coincidence(self, variety: float) -> tuple[Array, Array]:
        """What wrong words of each count, and of each total, enter with: logarithms of a Dirichlet-multinomial."""
        each, all_ = np.array([variety * self._one]), np.array([variety])
        return log_gamma(self._counts + each) - log_gamma(each), log_gamma(self._lost + all_) - log_gamma(all_)


def _belief(variety: float) -> float:
    """The logarithm of a Gamma density of the variety, as little as one answer says; its mode is `USUAL`."""
    return math.log(variety) - variety / USUAL


def _numbered(counts: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    """The different numbers among counts, and which of them each is."""
    values, number = np.unique(np.clip(counts, 0.0, _MOST), return_inverse=True)
    return values, number.reshape(-1).astype(np.int64)


def _highest(score: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one number is highest between two, to a hundredth, if it has one top: golden section."""
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
