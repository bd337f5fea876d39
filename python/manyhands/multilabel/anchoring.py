"""Known sets that correct the default: each label that a worker gave to a task is a question of two classes.

The correction is that of known classes (`manyhands.categorical.anchoring`), with the yes and no of each worker to each
candidate label as votes, pooled over labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural, preview
from manyhands._base.estimator import Array
from manyhands._base.fitted import distributions, number, numbers, part
from manyhands.categorical.anchoring import FULL_AT, Anchor, KnownVotes, fit_anchor
from manyhands.metrics.matching import match_answers
from manyhands.multilabel.base import Candidates
from manyhands.multilabel.design import Design
from manyhands.multilabel.table import MultiLabels

Ints = npt.NDArray[np.int64]

#: How far errors are taken to coincide: a log of sets does not show it.
_DEPENDENCE = 0.5
#: Pseudo-counts of a worker's rates without gold, next to known candidates.
_PSEUDO = 10.0


@dataclass(frozen=True)
class KnownSets:
    """Known sets of some tasks: places of the tasks, and keys task · n_labels + label of all their true labels."""

    tasks: Ints
    keys: Ints
    n_labels: int

    @classmethod
    def of(cls, answers: MultiLabels, gold: Any) -> Self | None:
        """Match known sets to the tasks of a table."""
        if gold is None:
            return None
        tasks, sets = match_answers(answers.tasks, gold, "labels")
        label_lists = [_members(one) for one in sets]
        flat = [label for one in label_lists for label in one]
        codes = {name: code for code, name in enumerate(answers.labels.tolist())}
        unknown = [label for label in dict.fromkeys(flat) if label not in codes]
        if unknown:
            raise ValueError(
                f"gold has {plural(len(unknown), 'label')} that no worker named: {preview(unknown, 3)}; add them with "
                "inventory= when the table is made, or correct the spelling"
            )
        task = np.repeat(tasks, [len(one) for one in label_lists])
        keys = task * len(codes) + np.array([codes[label] for label in flat], np.int64)
        return cls(tasks, np.unique(keys), len(codes))

    def true(self, candidates: Candidates) -> npt.NDArray[np.bool_]:
        """Whether each candidate is in the known set of its task."""
        return np.isin(candidates.tasks * self.n_labels + candidates.labels, self.keys)

    def settle(self, candidates: Candidates) -> Candidates:
        """Candidates with those of known tasks certain, and with known labels that no worker gave."""
        of_gold = np.isin(candidates.tasks, self.tasks)
        keys = candidates.tasks * self.n_labels + candidates.labels
        probabilities = np.where(of_gold, self.true(candidates), candidates.probabilities).astype(np.float64)
        more = np.setdiff1d(self.keys, keys)
        keys = np.concatenate([keys, more])
        order = np.argsort(keys, kind="stable")
        keys, probabilities = keys[order], np.concatenate([probabilities, np.ones(len(more))])[order]
        return Candidates(keys // self.n_labels, keys % self.n_labels, probabilities)


def _members(labels: Any) -> list[Any]:
    """Labels of a set: of a list, a tuple, a set, or text in which bars separate them."""
    if isinstance(labels, str):
        return [one.strip() for one in labels.split("|") if one.strip()]
    if isinstance(labels, list | tuple | set | frozenset | np.ndarray):
        return list(labels)
    return [labels]


@dataclass(frozen=True)
class YesNoAnchor(Anchor):
    """A correction of two classes in a fit whose labels are others."""

    intercepts: Array = field(metadata=numbers("22"))
    evidence: Array = field(metadata=numbers("2m22"))
    confusion: Array = field(metadata=distributions("m22"))
    shares: Array = field(metadata=distributions("2"))


@dataclass(frozen=True)
class SetAnchor:
    """What known sets taught: the correction of candidates, and how workers answered known ones."""

    #: Weights of the components of the correction, of two classes: not in the set, and in it.
    of_votes: YesNoAnchor = field(metadata=part(YesNoAnchor))
    #: Candidates in and not in the known sets, by worker, and how many of them the worker gave, (2, n_workers).
    n_candidates: Array = field(metadata=numbers("2m", least=0))
    n_chosen: Array = field(metadata=numbers("2m", least=0))
    #: Known tasks that each worker answered, and the number of these tasks.
    tasks: Array = field(metadata=numbers("m", least=0))
    n_known: float = field(metadata=number(least=0))

    def correct(self, design: Design, probabilities: Array) -> Array:
        """Probabilities of the candidates of a design."""
        votes = votes_of(design)
        rows = np.stack([1.0 - probabilities, probabilities], axis=1)
        posterior = np.tensordot(self.of_votes.weights, self.of_votes.of_known(votes, rows), 1)
        share: Array = posterior[:, 1] / posterior.sum(axis=1)
        return share

    def rates(self, recall: Array, alarms: Array) -> tuple[Array, Array]:
        """Recall and rate of false alarms of workers, updated by known candidates."""
        rates = (self.n_chosen + _PSEUDO * np.stack([recall, alarms])) / (self.n_candidates + _PSEUDO)
        return rates[0], rates[1]

    def carried_over(self, workers: Ints) -> SetAnchor:
        """The same for a table whose worker m was worker workers[m] in fit, or is new at -1."""
        return replace(
            self, of_votes=self.of_votes.carried_over(workers, self.n_candidates.sum(axis=0).astype(np.int64) + 1)
        )


def votes_of(design: Design) -> KnownVotes:
    """Each answer to a task as a yes or no to each of its candidates; classes are not known."""
    starts = design.starts.astype(np.int64)
    n_rows = starts[1:] - starts[:-1]
    pair, yes = (design.rows // 2).astype(np.int64), (design.rows % 2).astype(np.int64)
    return KnownVotes(
        row=np.repeat(np.arange(len(n_rows)), n_rows),
        code=design.pair_workers.astype(np.int64)[pair] * 2 + yes,
        weight=np.ones(len(pair)),
        classes=np.zeros(len(n_rows), np.int64),
        n_workers=design.sizes[1],
        n_classes=2,
    )


def learn(answers: MultiLabels, design: Design, candidates: Candidates, known: KnownSets) -> SetAnchor | None:
    """Learn a correction of candidates from known sets; None where all known candidates are in sets, or none is."""
    of_known = np.flatnonzero(np.isin(candidates.tasks, known.tasks))
    classes = known.true(candidates).astype(np.int64)
    m = design.sizes[1]
    few = replace(votes_of(design), classes=classes).some(of_known)
    if len(np.unique(few.classes)) < 2:
        return None
    p = candidates.probabilities
    rows = np.stack([1.0 - p, p], axis=1)
    anchor = fit_anchor(few, rows[of_known], np.array([1.0 - p.mean(), p.mean()]), _DEPENDENCE)
    # Candidates of a task are not independent: tasks count.
    trust = min(1.0, len(known.tasks) / FULL_AT)
    weights = trust * anchor.weights + (1.0 - trust) * np.eye(4)[0]
    worker, yes = few.code // 2, few.code % 2
    true = few.classes[few.row] == 1
    n_candidates = np.stack([np.bincount(worker[kind], minlength=m) for kind in (true, ~true)]).astype(np.float64)
    n_chosen = np.stack([np.bincount(worker[kind], yes[kind], m) for kind in (true, ~true)]).astype(np.float64)
    tasks, workers, _ = answers.codes()
    n_tasks = np.bincount(workers[np.isin(tasks, known.tasks)], minlength=m).astype(np.float64)
    of_votes = YesNoAnchor(**(vars(anchor) | {"weights": weights}))
    return SetAnchor(of_votes, n_candidates, n_chosen, n_tasks, float(len(known.tasks)))
