"""Alignment of the answers of each task: slots, and the token of each answer in each slot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import plural
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands.texts.table import Texts
from manyhands.texts.words import Spelling

Codes = npt.NDArray[np.int64]

#: Marks a slot without a token; tokens are stored as code + 1.
EMPTY = 0
#: Peak memory per slot and answer, in bytes.
_BYTES = 160


@dataclass(frozen=True)
class Network:
    """Slots of all tasks, with one observation per slot and answer."""

    #: Offset of the slots of each task, plus the total.
    starts: Codes
    #: Slot, worker, weight, candidate and surface form (-1 if none) of each observation.
    slots: Codes
    workers: Codes
    weights: Array
    readings: Codes
    forms: Codes
    #: Slot of each candidate, and its token (or `EMPTY`); sorted in this order.
    places: Codes
    tokens: Codes

    @classmethod
    def of(cls, votes: Texts, spelling: Spelling) -> Network:
        """Align the answers of each task. The result does not depend on the order of answers or on workers."""
        tasks, _, texts = votes.codes()
        rows, distinct = _sequences(spelling, texts)
        keys = tasks.astype(np.int64) * len(distinct) + rows
        pairs, of_pair, counts = np.unique(keys, return_inverse=True, return_counts=True)
        pair_tasks, sequences = np.divmod(pairs, len(distinct))
        lengths = np.array([len(sequence) for sequence in distinct], np.int64)[sequences]
        ends = np.cumsum(lengths)
        if len(ends) and ends[-1] >= 2**32:
            raise MemoryError("answers contain more than 2**32 words or letters; aggregate fewer tasks at a time")
        tokens = np.concatenate([distinct[sequence] for sequence in sequences])
        offsets = np.searchsorted(pair_tasks, np.arange(votes.n_tasks + 1)).astype(np.uint32)
        starts = np.concatenate([[0], ends]).astype(np.uint32)
        alignment = _core.align_texts(offsets, starts, tokens, counts.astype(np.uint32))
        return cls._expand(votes, spelling, alignment, pair_tasks, lengths, tokens, of_pair.reshape(-1))

    @classmethod
    def _expand(
        cls,
        votes: Texts,
        spelling: Spelling,
        alignment: _core._Alignment,
        pair_tasks: Codes,
        lengths: Codes,
        tokens: npt.NDArray[np.uint32],
        of_pair: Codes,
    ) -> Network:
        """Expand the slots of distinct answers to all answers with the same tokens."""
        n_slots = alignment["n_slots"].astype(np.int64)
        tasks, workers, texts = votes.codes()
        total = int(n_slots[tasks].sum())
        check_memory(
            _BYTES * total,
            f"an alignment of {plural(votes.n_annotations, 'text')}",
            "aggregate fewer tasks at a time",
        )
        # Slots of each distinct answer, with its token and the index of the token in its text.
        begins = _begins(n_slots[pair_tasks])
        at = np.repeat(begins[:-1], lengths) + alignment["slots"]
        slot_tokens, token_index = np.full(begins[-1], EMPTY, np.int64), np.full(begins[-1], -1, np.int64)
        slot_tokens[at] = tokens.astype(np.int64) + 1
        token_index[at] = np.arange(len(tokens)) - np.repeat(_begins(lengths)[:-1], lengths)
        # The same for all answers.
        sizes = n_slots[tasks]
        answers = np.repeat(np.arange(len(tasks)), sizes)
        within = np.arange(total) - np.repeat(_begins(sizes)[:-1], sizes)
        source = begins[of_pair][answers] + within
        readings, place = slot_tokens[source], token_index[source]
        forms = np.full(total, -1, np.int64)
        has_token = place >= 0
        forms[has_token] = spelling.forms[spelling.starts[texts[answers[has_token]]] + place[has_token]]
        starts = _begins(n_slots)
        slots = starts[tasks[answers]] + within
        candidates, codes = np.unique(slots * (spelling.n_keys + 1) + readings, return_inverse=True)
        places, candidate_tokens = np.divmod(candidates, spelling.n_keys + 1)
        weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
        return cls(
            starts,
            slots,
            workers.astype(np.int64)[answers],
            weights[answers],
            codes.reshape(-1),
            forms,
            places,
            candidate_tokens,
        )

    @property
    def n_slots(self) -> int:
        """Total number of slots."""
        return int(self.starts[-1])

    def best(self, probabilities: Array) -> Codes:
        """Return the most probable candidate of each slot; ties go to the empty one, then to the smallest token."""
        top = np.zeros(self.n_slots)
        np.maximum.at(top, self.places, probabilities)
        near = np.flatnonzero(probabilities >= top[self.places] - 1e-9)
        _, first = np.unique(self.places[near], return_index=True)
        return near[first]

    def surface_forms(self, chosen: Codes) -> Codes:
        """Return the most frequent surface form of each chosen candidate; -1 if it is empty."""
        is_chosen = np.full(len(self.places), False)
        is_chosen[chosen] = True
        rows = np.flatnonzero(is_chosen[self.readings] & (self.forms >= 0))
        n = int(self.forms.max(initial=-1)) + 1
        pairs, inverse = np.unique(self.readings[rows] * max(n, 1) + self.forms[rows], return_inverse=True)
        counts = np.bincount(inverse.reshape(-1), self.weights[rows], len(pairs))
        candidates, forms = np.divmod(pairs, max(n, 1))
        order = np.lexsort((forms, -np.round(counts, 9), candidates))
        with_form, first = np.unique(candidates[order], return_index=True)
        of_candidate = np.full(len(self.places), -1, np.int64)
        of_candidate[with_form] = forms[order][first]
        return of_candidate[chosen]


def _begins(lengths: Codes) -> Codes:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _sequences(spelling: Spelling, texts: Codes) -> tuple[Codes, list[npt.NDArray[np.uint32]]]:
    """Return the index of each answer among the distinct token sequences, and these in sorted order."""
    keys = spelling.keys.astype(np.uint32)
    token_keys = [tuple(keys[a:b].tolist()) for a, b in zip(spelling.starts[:-1], spelling.starts[1:], strict=True)]
    distinct = sorted(set(token_keys))
    rank = {sequence: code for code, sequence in enumerate(distinct)}
    of_text = np.array([rank[sequence] for sequence in token_keys], np.int64)
    return of_text[texts], [np.array(sequence, np.uint32) for sequence in distinct]
