"""Models of crowds in which groups of workers share their answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import (
    check_between,
    check_number,
    check_stopping,
    plural,
    preview,
    warn_unless_converged,
)
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, codes, numbers
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands.categorical._confusion import JudgedByPosterior
from manyhands.categorical._excess import beliefs, one_answer, pair_excess
from manyhands.categorical._groups import PSEUDO_COUNT, Grouping, find_groups, fit_layers
from manyhands.categorical._priors import class_pseudo, row_pseudo
from manyhands.categorical.base import Aggregator, ClassFit, fit_of
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import Annotations

Codes = npt.NDArray[np.int64]

#: A table takes no weight below this but none.
_LEAST_WEIGHT = 1e-30


@dataclass(frozen=True, kw_only=True)
class GroupFit(ClassFit):
    """Classes, and the group of each worker."""

    codes: npt.NDArray[np.uint32] = field(metadata=codes("m", "m", dtypes=(np.uint32,)))


class _Grouped(Aggregator):
    """What models of groups share: who is in which."""

    _fit_type: ClassVar[type[Fit]]

    groups: Any
    rate: float
    min_overlap: int

    def _group_codes(self, votes: Annotations) -> tuple[Codes, tuple[str, ...]]:
        """The group of each worker, given or found, and what is doubtful about it."""
        check_between("rate", self.rate, such_as=0.01)
        check_number("min_overlap", self.min_overlap, least=1, whole=True)
        if self.groups is not None:
            return given_groups(votes, self.groups), ()
        if not one_answer(votes).any():
            nothing = "No worker has one answer to a task that counts: whether workers depend on each other is unknown."
            return np.arange(votes.n_workers), (nothing,)
        current = beliefs(votes)
        pairs = pair_excess(current, min_overlap=int(self.min_overlap), share=0.0, most=1.0)
        groups = find_groups(current, pairs, rate=float(self.rate))
        return groups.codes, (*current.remarks, *none_found(groups, votes))

    def _doubts(self, votes: Annotations) -> Doubts:
        alone = 0 if self.groups is None else votes.n_workers - sum(len(group) for group in self.groups)
        summary = (
            f"{alone:,} of {plural(votes.n_workers, 'worker')} {'is' if alone == 1 else 'are'} in none of the groups"
        )
        return super()._doubts(votes) + Doubts(quiet=(f"{summary} given: each answers alone.",) if alone else ())

    @property
    def groups_(self) -> list[list[Any]]:
        """The groups of more than one worker, as lists of their names, in the order of the table."""
        now = self._fitted()
        return named_groups(now.fit_as(GroupFit).codes.astype(np.int64), now.workers.values)

    def _known_codes(self, known: npt.NDArray[np.int64]) -> Codes:
        """Groups of the workers of another table; who was not seen in fit is a group of one."""
        codes = self._fitted().fit_as(GroupFit).codes.astype(np.int64)
        strangers = codes.max() + 1 + np.arange(len(known))
        here: Codes = np.where(known < 0, strangers, codes[known])
        return here


def none_found(found: Grouping, votes: Annotations) -> tuple[str, ...]:
    """What to say where there was nothing to find groups by."""
    if found.n_pairs or votes.n_workers < 2:
        return ()
    return ("No two workers share enough tasks on which others differ: whether they depend on each other is unknown.",)


def named_groups(codes: Codes, workers: npt.NDArray[Any]) -> list[list[Any]]:
    """The groups of more than one, as lists of names."""
    order = np.argsort(codes, kind="stable")
    parts = np.split(workers[order], np.flatnonzero(np.diff(codes[order])) + 1)
    return [part.tolist() for part in parts if len(part) > 1]


def given_groups(votes: Annotations, groups: Any) -> Codes:
    """Group of each worker from lists of names; a worker in none is a group of one."""
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Collection):
        raise TypeError(f"groups must be lists of workers, such as [['ann', 'bob'], ['eve', 'kim']], not {groups!r}")
    codes = np.full(votes.n_workers, -1, np.int64)
    for number, group in enumerate(groups):
        if isinstance(group, str | bytes) or not isinstance(group, Collection):
            raise TypeError(f"each of the groups must be a list of workers, not {group!r}")
        names = list(group)
        found = votes._workers.find(names)
        if (found < 0).any():
            missing = [name for name, code in zip(names, found, strict=True) if code < 0]
            raise ValueError(f"groups name {preview(missing)}, not among the workers of the log")
        if (codes[found] >= 0).any() or len(np.unique(found)) < len(found):
            twice = [name for name, code in zip(names, found, strict=True) if codes[code] >= 0 or names.count(name) > 1]
            raise ValueError(f"groups name {preview(twice)} more than once; a worker is in one group")
        codes[found] = number
    alone = codes < 0
    codes[alone] = len(codes) + np.arange(alone.sum())
    return np.unique(codes, return_inverse=True)[1]


@dataclass(frozen=True, kw_only=True)
class LayersFit(GroupFit):
    """Classes, and confusion matrices of members and of groups."""

    members: Array = field(metadata=numbers("mkk"))
    answers: Array = field(metadata=numbers("gkk"))


class GroupDawidSkene(_Grouped):
    """Dawid–Skene in two layers: groups of workers who share an answer, and workers who err given their group's.

    Workers who copy from one another, talk, or had the same training are not independent witnesses. Here group ``j``
    has one latent answer to each task, ``l`` for a task of class ``k`` with probability ``group_confusion_[j, k, l]``;
    its members answer given that one, by their own matrices, independently of one another. Given the class, groups are
    independent. A worker in no group is a group of one, in which the class itself takes the place of the group's
    answer: without groups the model is plain :class:`DawidSkene`.

    Parameters
    ----------
    groups
        Lists of workers by name; who is in none is alone, and `remarks_` specifies how many. None to find them, as
        :func:`manyhands.audit.groups` does.
    rate, min_overlap
        How groups are found, see :func:`manyhands.audit.groups`.
    pseudo_count, class_pseudo_count
        Pseudo-counts in each row of workers' and groups' matrices, and of the class prior, as in :class:`DawidSkene`.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.

    Notes
    -----
    EM from the matrices of a `HierarchicalDawidSkene`, in which the members of a group share one vote on each task, and
    groups that are right four times in five; the penalized log-likelihood never falls. So even most of the workers, if
    they are named as a group, do not take the place of the truth. ``confusion_`` holds workers' matrices over both
    layers. In ``predict_proba`` a worker not seen before is the average one, alone.

    Time per pass O(annotations · classes + groups on tasks · classes²); memory: eight copies of the matrices. Finding
    groups costs what :func:`manyhands.audit.groups` does.

    References
    ----------
    A. Jaffe, E. Fetaya, B. Nadler, T. Jiang and Y. Kluger, "Unsupervised ensemble learning with dependent
    classifiers", AISTATS (2016). P. A. Traganitis and G. B. Giannakis, "Identifying dependent annotators in
    crowdsourcing", Asilomar Conference on Signals, Systems and Computers (2022).

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> league = np.repeat([0, 1, 2, 3, 4, 5], [5, 1, 1, 1, 1, 1])
    >>> crowd = mh.simulate(500, 10, 3, crowd="one-coin", labels_per_task=10, groups=league, copying=0.8, seed=1)
    >>> model = mh.categorical.GroupDawidSkene().fit(crowd.log)
    >>> model.groups_
    [[0, 1, 2, 3, 4]]
    """

    _fit_type: ClassVar[type[Fit]] = LayersFit

    def __init__(
        self,
        groups: Collection[Collection[Any]] | None = None,
        *,
        rate: float = 0.01,
        min_overlap: int = 10,
        pseudo_count: float | tuple[float, float] | npt.ArrayLike = PSEUDO_COUNT,
        class_pseudo_count: float | npt.ArrayLike = 0.0,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> None:
        self.groups = groups
        self.rate = rate
        self.min_overlap = min_overlap
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.max_iter = max_iter
        self.tol = tol

    @property
    def group_confusion_(self) -> Array:
        """How groups answer given the class, (n_groups, n_classes true, n_classes latent); the identity for one worker.

        Groups are in the order of their first workers, those of one worker among them.
        """
        return self._fitted().fit_as(LayersFit).answers

    @property
    def members_(self) -> Array:
        """How workers answer given their group's answer, (n_workers, n_classes latent, n_classes observed)."""
        return self._fitted().fit_as(LayersFit).members

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        k = votes.n_classes
        codes, remarks = self._group_codes(votes)
        start = HierarchicalDawidSkene()._fit(_a_vote_a_group(votes, codes), None)
        layers = fit_layers(
            votes.table,
            codes,
            start.confusion.matrices(),
            start.prior,
            pseudo=row_pseudo(self.pseudo_count, k),
            class_pseudo=class_pseudo(self.class_pseudo_count, k),
            max_iter=self.max_iter,
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(layers["converged"], self)
        learned = {"codes": codes.astype(np.uint32), "members": layers["workers"], "answers": layers["answers"]}
        return fit_of(layers, remarks, kind=LayersFit, **learned)

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(LayersFit)
        codes = self._known_codes(known)
        used, codes = np.unique(codes, return_inverse=True)
        k, n = len(self.prior_), len(fit.answers)
        answers = np.broadcast_to(np.eye(k), (len(used), k, k)).copy()
        answers[used < n] = fit.answers[used[used < n]]
        # A group of which one member is left still answers as the group, and a stranger as the average worker.
        members = self._carried_over(self.confusion_, known)
        shared = np.isin(fit.codes[known], np.flatnonzero(np.bincount(fit.codes.astype(np.int64)) > 1)) & (known >= 0)
        lone = np.bincount(codes)[codes] == 1
        members[shared & ~lone] = fit.members[known[shared & ~lone]]
        answers[codes[lone]] = np.eye(k)
        return table.grouped_posterior(codes.astype(np.uint32), members, answers, self.prior_)


def _a_vote_a_group(votes: Annotations, codes: Codes) -> Annotations:
    """The same answers, with weights by which all members of a group on a task count for one."""
    tasks, workers, labels = votes.codes()
    together = (np.bincount(codes) > 1)[codes[workers]]
    if not together.any():
        return votes
    weights = np.ones(len(tasks)) if votes.weights is None else votes.weights.copy()
    where, who = tasks[together].astype(np.int64), workers[together]
    _, place = np.unique(where * len(codes) + codes[who], return_inverse=True)
    # Rows are sorted by task and worker: who answered again is one member all the same.
    fresh = np.ones(len(who), np.bool_)
    fresh[1:] = (where[1:] != where[:-1]) | (who[1:] != who[:-1])
    shared = weights[together] / np.bincount(place, fresh)[place]
    weights[together] = np.where(shared >= _LEAST_WEIGHT, shared, 0.0)
    table = made_table(tasks, workers, labels, weights, votes.n_tasks, votes.n_workers, votes.n_classes)
    return Annotations(table, votes._tasks, votes._workers, votes._classes, votes._unlabelled)


class GroupVote(_Grouped):
    """Majority vote of groups: each group of workers has one vote, which goes to the label most of its members gave.

    Workers who copy from one another cannot outvote others. A group that is divided divides its vote, and weighs as
    much as the heaviest of its members; a worker in no group votes as in :class:`MajorityVote`.

    Parameters
    ----------
    groups
        Lists of workers by name; who is in none is alone, and `remarks_` specifies how many. None to find them, as
        :func:`manyhands.audit.groups` does.
    rate, min_overlap
        How groups are found, see :func:`manyhands.audit.groups`.

    Notes
    -----
    The posterior is the shares of the votes. Time O(annotations · log annotations), memory some 60 bytes per
    annotation, a number for each class, group and task it voted on, and the result; finding groups costs what
    :func:`manyhands.audit.groups` does.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    >>> mh.categorical.GroupVote([[0, 1, 2]]).fit(votes).labels_.tolist()
    [0, 1]
    """

    _fit_type: ClassVar[type[Fit]] = GroupFit

    def __init__(
        self, groups: Collection[Collection[Any]] | None = None, *, rate: float = 0.01, min_overlap: int = 10
    ) -> None:
        self.groups = groups
        self.rate = rate
        self.min_overlap = min_overlap

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        codes, remarks = self._group_codes(votes)
        shares = _group_shares(votes.table, codes, votes.n_classes)
        return GroupFit.of(
            codes=codes.astype(np.uint32),
            posterior=shares,
            confusion=JudgedByPosterior(votes.table, shares),
            prior=shares.mean(axis=0),
            history=np.zeros(0),
            n_iter=1,
            converged=True,
            remarks=remarks,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        return _group_shares(table, self._known_codes(known), len(self.prior_))


def _group_shares(table: _core.Table, codes: Codes, k: int) -> Array:
    """Shares of the votes of groups, (n_tasks, k); even where no worker has any weight."""
    tasks, workers, labels = table.columns()
    tasks, who = tasks.astype(np.int64), codes[workers]
    weights = table.weights()
    weight = np.ones(len(tasks)) if weights is None else weights
    together = (np.bincount(codes) > 1)[who]
    shares = np.zeros((table.n_tasks, k))
    alone = ~together
    np.add.at(shares, (tasks[alone], labels[alone]), weight[alone])
    if together.any():
        n = len(codes)
        ballots, place = np.unique(tasks[together] * n + who[together], return_inverse=True)
        answer_shares = np.zeros((len(ballots), k))
        np.add.at(answer_shares, (place, labels[together]), weight[together])
        best = answer_shares == answer_shares.max(axis=1, keepdims=True)
        # All answers of each member; a group weighs as much as the heaviest of them.
        answers, member = np.unique(place * n + workers[together], return_inverse=True)
        heaviest = np.zeros(len(ballots))
        np.maximum.at(heaviest, answers // n, np.bincount(member, weight[together]))
        np.add.at(shares, ballots // n, best * (heaviest / best.sum(axis=1))[:, None])
    shares[shares.sum(axis=1) == 0] = 1.0
    totals: Array = shares / shares.sum(axis=1, keepdims=True)
    return totals
