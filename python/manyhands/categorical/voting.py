"""Votes: each task goes to the class with most of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import COUNTS, MOST_COUNT, check_choice, check_number, countable
from manyhands._base.estimator import Array
from manyhands._base.fitted import numbers, setting
from manyhands._base.names import Names, sequence
from manyhands._base.progress import Callback
from manyhands.categorical._confusion import JudgedByPosterior
from manyhands.categorical._posterior import Posterior, Winners
from manyhands.categorical._streamed import StreamedPosterior, VotePosterior
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.shards.passes import Part
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

_TIES = ("lowest", "random", "abstain")
_RULES = ("agreement", "zero-based")


class _Voting(Aggregator):
    """Common to voting methods: how a posterior of vote shares becomes a `ClassFit`."""

    _fit_type: ClassVar[type[ClassFit]]

    def _bytes(self, votes: Annotations) -> int:
        return 8 * votes.n_tasks * votes.n_classes  # estimates of workers are computed on access

    def _needs_memory(self) -> str | None:
        return None

    def _result_of(
        self,
        votes: Annotations,
        by: Array | None = None,
        n_iter: int = 1,
        converged: bool = True,
        **learnt: Any,
    ) -> ClassFit:
        """Workers are judged by the shares themselves."""
        shares: Array | StreamedPosterior
        if votes.in_shards:
            shares = VotePosterior(votes.passes, by)
            totals = np.zeros(votes.n_classes)
            vote = shares.of_part

            def count(part: Part, *, counts: Array, classes: Array) -> float:
                classes += vote(part).sum(axis=0)
                return 0.0

            votes.passes.add(count, np.zeros(0), totals)
        else:
            shares, totals = votes.table.vote_shares(by)
        return self._fit_type.of(
            posterior=shares,
            confusion=JudgedByPosterior(votes.passes, shares),
            prior=totals / votes.n_tasks,
            history=np.zeros(0),
            n_iter=n_iter,
            converged=converged,
            **learnt,
        )


@dataclass(frozen=True, kw_only=True)
class VoteFit(ClassFit):
    """Shares of votes, and how ties are broken: later `set_params` do not change the answers of a fitted model."""

    ties: str = field(metadata=setting(str))
    seed: int = field(metadata=setting(int))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where ties are broken in an unknown way."""
        check_choice("ties", self.ties, _TIES)
        check_number("seed", self.seed, least=0, whole=True)

    def decide(self, posterior: Posterior) -> Winners:
        """The winning class of each task."""
        won = super().decide(posterior)
        return _break_ties(posterior, won, self.seed) if self.ties == "random" else won


@dataclass(frozen=True, kw_only=True)
class WeightedVoteFit(ClassFit):
    """Shares of weighted votes."""

    weights: Array = field(metadata=numbers("m"))


class MajorityVote(_Voting):
    """Majority vote: the class with the most votes.

    Every annotation has one vote (or its weight). The posterior is the vote shares, and :attr:`tied_` shows which tasks
    had no single winner.

    Parameters
    ----------
    ties : str, default "lowest"
        Which class wins a tie: the one with the ``"lowest"`` code (the first in sorted order, whatever the order of
        rows), one of the tied at ``"random"``, or none (``"abstain"``: the label is None).
    seed : int, default 0
        Seed of random ties.

    Notes
    -----
    One pass: O(annotations + tasks · classes) time; memory for the result.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [0, 1, -1]])
    >>> model = mh.MajorityVote().fit(votes)
    >>> model.labels_.tolist(), model.tied_.tolist()
    ([0, 0], [False, True])
    >>> mh.MajorityVote(ties="abstain").fit(votes).labels_.tolist()
    [0, None]
    """

    _fit_type: ClassVar[type[ClassFit]] = VoteFit

    def __init__(self, *, ties: str = "lowest", seed: int = 0) -> None:
        self.ties = ties
        self.seed = seed

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_choice("ties", self.ties, _TIES)
        check_number("seed", self.seed, least=0, whole=True)
        return self._result_of(votes, ties=self.ties, seed=self.seed)

    def _named(self, won: Winners) -> npt.NDArray[Any]:
        labels = super()._named(won)
        if self._fitted().fit_as(VoteFit).ties == "abstain":
            labels = labels.astype(object)
            labels[won.tied] = None
        return labels

    def _frame(self, tasks: Names, won: Winners) -> pa.Table:
        """Return task, label, confidence and whether it was a tie; the label of an abstention is null."""
        frame = super()._frame(tasks, won)
        if self._fitted().fit_as(VoteFit).ties != "abstain":
            return frame
        import pyarrow as pa
        import pyarrow.compute as pc

        column = frame.column("label")
        return frame.set_column(1, "label", pc.if_else(pa.array(won.tied), pa.scalar(None, column.type), column))

    def _frames(self) -> Iterator[pa.Table]:
        # Ties are broken by one stream of random numbers, in the order of all tasks.
        return iter([self.to_frame()]) if self._fitted().fit_as(VoteFit).ties == "random" else super()._frames()

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        return table.vote_shares()[0]


def _break_ties(posterior: Posterior, won: Winners, seed: int) -> Winners:
    tied_rows = np.flatnonzero(won.tied)
    rows = posterior.rows(tied_rows)
    best = rows >= rows.max(axis=1, keepdims=True) * (1 - 1e-12)
    draw = np.where(best, np.random.default_rng(seed).random(rows.shape), -1.0)
    draw_winners = draw.argmax(axis=1)
    codes, confidence = won.codes.copy(), won.confidence.copy()
    codes[tied_rows], confidence[tied_rows] = draw_winners, rows[np.arange(len(rows)), draw_winners]
    return Winners(codes, won.tied, confidence)


class WeightedVote(_Voting):
    """Weighted vote: workers count by a weight, given or learned from the crowd.

    Parameters
    ----------
    weights : str or mapping, default "agreement"
        ``"agreement"``: each worker's share of labels that agree with the majority vote (known as Wawa).
        ``"zero-based"``: start from equal skills; vote, and move each worker's skill towards their agreement with the
        outcome, again and again with shrinking steps (zero-based skill). Or a mapping from every worker to a weight.
    n_iter : int, default 100
        Rounds of ``"zero-based"``.
    learning_rate, rate_decay, decay_every
        Its step size, the factor by which that shrinks, and the number of rounds between two such steps.
    initial_skill : float, default 0.5
        Its first skill of every worker.
    tol : float, default 0.0
        It stops when no skill moves by more than this.

    Notes
    -----
    One pass over the annotations a round, two for ``"agreement"``. Ties go to the lowest class code.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 1]])
    >>> mh.categorical.WeightedVote().fit(votes).weights_.round(2).tolist()
    [1.0, 1.0, 0.33]
    """

    _fit_type: ClassVar[type[ClassFit]] = WeightedVoteFit

    def __init__(
        self,
        weights: str | Mapping[Any, float] = "agreement",
        *,
        n_iter: int = 100,
        learning_rate: float = 1.0,
        rate_decay: float = 0.5,
        decay_every: int = 20,
        initial_skill: float = 0.5,
        tol: float = 0.0,
    ) -> None:
        self.weights = weights
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.rate_decay = rate_decay
        self.decay_every = decay_every
        self.initial_skill = initial_skill
        self.tol = tol

    @property
    def weights_(self) -> Array:
        """The weight of each worker, (n_workers,)."""
        return self._fitted().fit_as(WeightedVoteFit).weights

    def _iterations(self) -> int | None:
        return self.n_iter if isinstance(self.weights, str) and self.weights == "zero-based" else 1

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        rounds, converged = 1, True
        if isinstance(self.weights, Mapping):
            weights = _weights_of(votes, self.weights)
        elif not isinstance(self.weights, str) or self.weights not in _RULES:
            raise ValueError(
                f"weights must be 'agreement', 'zero-based' or a mapping from workers to weights, not {self.weights!r}"
            )
        elif self.weights == "agreement":
            weights = _agreement(votes)
        else:
            weights, rounds, converged = self._zero_based(votes, progress)
        return self._result_of(votes, weights, rounds, converged, weights=weights)

    def _zero_based(self, votes: Annotations, progress: Callback | None) -> tuple[Array, int, bool]:
        check_number("n_iter", self.n_iter, least=1, whole=True)
        check_number("decay_every", self.decay_every, least=1, whole=True)
        for name in ("learning_rate", "rate_decay", "initial_skill", "tol"):
            check_number(name, getattr(self, name), least=0)
        skills = np.full(votes.n_workers, float(self.initial_skill))
        rate = self.learning_rate
        for n_iter in range(1, self.n_iter + 1):
            if n_iter % self.decay_every == 0:
                rate *= self.rate_decay
            change = rate * (_agreement(votes, skills) - skills)
            skills = skills + change
            if np.abs(skills).max() > MOST_COUNT:
                raise ValueError(f"with learning_rate={self.learning_rate:g} skills run away; it should be at most 1")
            if progress is not None:
                progress(n_iter, float("nan"))
            if np.abs(change).max() <= self.tol:
                return skills, n_iter, True
        return skills, self.n_iter, False

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        return table.vote_shares(self._carried_over(self._fitted().fit_as(WeightedVoteFit).weights, known))[0]


def _agreement(votes: Annotations, weights: Array | None = None) -> Array:
    """Share of each worker's labels that name the winner of the (weighted) vote."""
    if votes.in_shards:
        sums = np.zeros((votes.n_workers, 2))
        vote = VotePosterior(votes.passes, weights).of_part

        def count(part: Part, *, counts: Array, classes: Array) -> float:
            winners = _core.winners(vote(part))[0].astype(np.int32)
            counts[part.shard.who()] += np.stack(part.shard.table().worker_agreement(winners), axis=1)
            return 0.0

        votes.passes.add(count, sums, np.zeros(0))
        agree, total = sums.T
    else:
        winners = _core.winners(votes.table.vote_shares(weights)[0])[0].astype(np.int32)
        agree, total = votes.table.worker_agreement(winners)
    return np.divide(agree, total, out=np.zeros_like(agree), where=total > 0)


def _weights_of(votes: Annotations, weights: Mapping[Any, float]) -> Array:
    position = sequence(weights).match(votes._workers) if len(weights) else np.full(votes.n_workers, -1)
    if (position < 0).any():
        missing = votes.workers[position < 0].tolist()
        first_missing = ", ".join(repr(w) for w in missing[:3]) + (", …" if len(missing) > 3 else "")
        raise ValueError(f"weights lack {len(missing):,} of {votes.n_workers:,} workers ({first_missing})")
    values = np.array(list(weights.values()), np.float64)[position]
    if not np.isfinite(values).all():
        worker = votes.workers.tolist()[int(np.argmax(~np.isfinite(values)))]
        raise ValueError(f"the weight of worker {worker!r} is not finite")
    bad = ~countable(np.abs(values))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"the weight of worker {votes.workers.tolist()[at]!r}, {values[at]:g}, must be {COUNTS}, but for its sign"
        )
    return values
