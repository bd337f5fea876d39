"""Answers of each task side by side: slots, and what each worker put into them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import counted
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands.texts.table import Texts
from manyhands.texts.words import Spelling

Codes = npt.NDArray[np.int64]

#: What a slot holds where an answer has no token for it; tokens are one more than their code.
EMPTY = 0
#: Most bytes for each slot and answer while a network is built and used.
_BYTES = 160


@dataclass(frozen=True)
class Network:
    """Slots of all tasks, and one reading for each slot and answer of its task."""

    #: Where the slots of each task begin, and the last end.
    starts: Codes
    #: Slot, worker, weight, candidate and written form (-1 for none) of each reading.
    slots: Codes
    workers: Codes
    weights: Array
    readings: Codes
    forms: Codes
    #: Slot of each candidate, and what it says: `EMPTY`, or a token; in this order.
    places: Codes
    tokens: Codes

    @classmethod
    def of(cls, votes: Texts, spelling: Spelling) -> Network:
        """Align the answers of each task; only what they say matters, neither their order nor who said it."""
        tasks, _, texts = votes.codes()
        rows, distinct = _sequences(spelling, texts)
        keys = tasks.astype(np.int64) * len(distinct) + rows
        pairs, of_pair, counts = np.unique(keys, return_inverse=True, return_counts=True)
        pair_tasks, sequences = np.divmod(pairs, len(distinct))
        lengths = np.array([len(sequence) for sequence in distinct], np.int64)[sequences]
        ends = np.cumsum(lengths)
        if len(ends) and ends[-1] >= 2**32:
            raise MemoryError("answers have more than 2**32 words or letters in all; aggregate parts of the tasks")
        tokens = np.concatenate([distinct[sequence] for sequence in sequences])
        offsets = np.searchsorted(pair_tasks, np.arange(votes.n_tasks + 1)).astype(np.uint32)
        starts = np.concatenate([[0], ends]).astype(np.uint32)
        found = _core.align_texts(offsets, starts, tokens, counts.astype(np.uint32))
        return cls._filled(votes, spelling, found, pair_tasks, lengths, tokens, of_pair.reshape(-1))

    @classmethod
    def _filled(
        cls,
        votes: Texts,
        spelling: Spelling,
        found: _core._Alignment,
        pair_tasks: Codes,
        lengths: Codes,
        tokens: npt.NDArray[np.uint32],
        of_pair: Codes,
    ) -> Network:
        """Spread the slots of distinct answers over all answers that say the same."""
        n_slots = found["n_slots"].astype(np.int64)
        tasks, workers, texts = votes.codes()
        total = int(n_slots[tasks].sum())
        check_memory(
            _BYTES * total, f"an alignment of {counted(votes.n_annotations, 'text')}", "aggregate parts of the tasks"
        )
        # Slots of each distinct answer on end, with what it says and the place of that in its text.
        begins = _begins(n_slots[pair_tasks])
        at = np.repeat(begins[:-1], lengths) + found["slots"]
        said, nth = np.full(begins[-1], EMPTY, np.int64), np.full(begins[-1], -1, np.int64)
        said[at] = tokens.astype(np.int64) + 1
        nth[at] = np.arange(len(tokens)) - np.repeat(_begins(lengths)[:-1], lengths)
        # The same of all answers.
        sizes = n_slots[tasks]
        answers = np.repeat(np.arange(len(tasks)), sizes)
        within = np.arange(total) - np.repeat(_begins(sizes)[:-1], sizes)
        source = begins[of_pair][answers] + within
        readings, place = said[source], nth[source]
        forms = np.full(total, -1, np.int64)
        filled = place >= 0
        forms[filled] = spelling.forms[spelling.starts[texts[answers[filled]]] + place[filled]]
        starts = _begins(n_slots)
        slots = starts[tasks[answers]] + within
        candidates, codes = np.unique(slots * (spelling.n_keys + 1) + readings, return_inverse=True)
        places, meant = np.divmod(candidates, spelling.n_keys + 1)
        weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
        return cls(
            starts,
            slots,
            workers.astype(np.int64)[answers],
            weights[answers],
            codes.reshape(-1),
            forms,
            places,
            meant,
        )

    @property
    def n_slots(self) -> int:
        """Number of slots of all tasks."""
        return int(self.starts[-1])

    def best(self, probabilities: Array) -> Codes:
        """The most probable candidate of each slot; of equal ones that which says nothing, then by letters."""
        top = np.zeros(self.n_slots)
        np.maximum.at(top, self.places, probabilities)
        near = np.flatnonzero(probabilities >= top[self.places] - 1e-9)
        _, first = np.unique(self.places[near], return_index=True)
        return near[first]

    def written(self, chosen: Codes) -> Codes:
        """The form in which most wrote each of the chosen candidates; -1 for one that says nothing."""
        told = np.full(len(self.places), False)
        told[chosen] = True
        rows = np.flatnonzero(told[self.readings] & (self.forms >= 0))
        n = int(self.forms.max(initial=-1)) + 1
        pairs, inverse = np.unique(self.readings[rows] * max(n, 1) + self.forms[rows], return_inverse=True)
        counts = np.bincount(inverse.reshape(-1), self.weights[rows], len(pairs))
        candidates, forms = np.divmod(pairs, max(n, 1))
        order = np.lexsort((forms, -np.round(counts, 9), candidates))
        found, first = np.unique(candidates[order], return_index=True)
        of_candidate = np.full(len(self.places), -1, np.int64)
        of_candidate[found] = forms[order][first]
        return of_candidate[chosen]


def _begins(lengths: Codes) -> Codes:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _sequences(spelling: Spelling, texts: Codes) -> tuple[Codes, list[npt.NDArray[np.uint32]]]:
    """Which sequence of tokens each answer is, and all of them in the order of their letters."""
    keys = spelling.keys.astype(np.uint32)
    spelt = [tuple(keys[a:b].tolist()) for a, b in zip(spelling.starts[:-1], spelling.starts[1:], strict=True)]
    distinct = sorted(set(spelt))
    rank = {sequence: code for code, sequence in enumerate(distinct)}
    of_text = np.array([rank[sequence] for sequence in spelt], np.int64)
    return of_text[texts], [np.array(sequence, np.uint32) for sequence in distinct]
