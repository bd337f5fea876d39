"""Experts whose skill changes: what they answered lately counts for more."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyhands._base.checks import check_number, preview
from manyhands._base.estimator import Array, Progress
from manyhands._train.batch import CrowdData
from manyhands._train.checkpoint import Owner
from manyhands._train.probabilities import PSEUDO
from manyhands._train.settings import setting
from manyhands.categorical._priors import row_pseudo
from manyhands.defer.data import CaseData, align, true_classes
from manyhands.defer.deferral import Deferral
from manyhands.defer.gate import AnchoredGate

HalfLife = float | Literal["auto"] | None

#: Half-lives that ``"auto"`` tries: the time that the answers span, divided by powers of two.
_HALVINGS = 10
#: Latest answers of each expert that it looks at.
_LATEST = 2_000
#: How much more likely, in logarithms, answers must be with a half-life than with none: what noise would gain.
_GAIN = 3.0
#: Pseudo-counts of answers with which an expert begins, as accurate as the experts together.
_START = 2.0


class PresentSkill(Deferral):
    """Base of the methods that judge experts by their answers class by class, and may judge them as they are now.

    With a half-life, an answer counts half as much as one that the same expert gave a half-life later.
    """

    _settings: ClassVar[Sequence[inspect.Parameter]] = [setting("half_life", None, "HalfLife"), *Deferral._settings]
    _saved_state: ClassVar[dict[str, bool]] = Deferral._saved_state | {
        "_counts": False,
        "_latest": False,
        "_half_life": False,
    }

    half_life: HalfLife
    #: Answers of each expert by class and answer, as they count now, (n_experts, n_classes, n_classes).
    _counts: Array
    #: When each expert answered last, (n_experts,).
    _latest: Array
    _half_life: float | None
    #: Of cases, while training.
    _times: Array | None = None
    _recency: Tensor | None = None

    def _check(self) -> None:
        super()._check()
        if self.half_life is not None and self.half_life != "auto":
            check_number("half_life", self.half_life, least=0)
            if not self.half_life > 0:
                raise ValueError(f"half_life must be above 0, not {self.half_life}")

    def fit(
        self,
        X: Any,
        y: Any,
        votes: Any,
        *,
        tasks: Any = None,
        times: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on cases whose true class is known, and on what experts answered to some of them.

        Parameters
        ----------
        X, y, votes, tasks, resume, overwrite, progress
            See :meth:`Deferral.fit`.
        times
            When each row of X was answered, as a number in the unit of `half_life`: a time, or its place in the order.
        """
        if (times is None) != (self.half_life is None):
            raise ValueError(
                "half_life= needs times= of the cases, which say what was answered when"
                if times is None
                else "times= mean nothing without half_life=, the time after which an answer counts half"
            )

        def data() -> CaseData:
            case_data = CaseData(X, y, votes, tasks)
            self._times = None if times is None else as_times(times, len(case_data))
            return case_data

        return self._fit(data, resume=resume, overwrite=overwrite, progress=progress)

    def _owner(self, data: CrowdData) -> Owner:
        owner = super()._owner(data)
        if self._times is None:
            return owner
        digest = hashlib.blake2b(self._times.tobytes()).hexdigest()
        return replace(owner, settings=owner.settings | {"times": digest})

    def _judge_experts(self, data: CrowdData) -> None:
        super()._judge_experts(data)
        self._half_life, self._recency = None, None
        if self._times is None:
            vars(self).pop("_counts", None)
            return
        assert data.truth is not None
        cases, experts, labels = (column.astype(np.int64) for column in data.votes.codes())
        truth, times = data.truth.numpy(), self._times
        half_life = self.half_life
        if half_life == "auto":
            half_life = best_half_life(times[cases], experts, labels == truth[cases])
        self._half_life = half_life
        shape = len(self._workers), len(self._classes), len(self._classes)
        self._counts, self._latest = np.zeros(shape), np.full(shape[0], -np.inf)
        self._count(times[cases], experts, truth[cases], labels)
        # Routers learn from cases, weighted by how much they inform about the present; half the weight is half the
        # rate.
        trained = data.samples.numpy()
        weights = decay(times[trained].max(), times, half_life)
        self._recency = torch.from_numpy(weights / weights[trained].mean()).float()

    def _count(self, times: Array, experts: Any, truth: Any, labels: Any) -> None:
        """Add answers to those that count, and judge the experts by them."""
        latest = self._latest.copy()
        np.maximum.at(latest, experts, times)
        self._counts = self._counts * decay(latest, self._latest, self._half_life)[:, None, None]
        m, k, _ = self._counts.shape
        weights = decay(latest[experts], times, self._half_life)
        key = (experts * k + truth) * k + labels
        self._counts += np.bincount(key, weights, minlength=m * k * k).reshape(m, k, k)
        self._latest = latest
        counts = self._counts + row_pseudo(PSEUDO, k)
        self._take_confusion(counts / counts.sum(axis=2, keepdims=True))

    def _case_weights(self, tasks: Tensor) -> Tensor | None:
        """How much cases inform about the present, (n,), 1 on average; None where all count alike."""
        return None if self._recency is None else self._recency[tasks.cpu()].to(tasks.device)

    def _after_training(self, data: CrowdData) -> None:
        super()._after_training(data)
        # As large as the data, and of training only.
        self._times = self._recency = None

    def observe(self, y: Any, votes: Any, *, times: Any, tasks: Any = None) -> Self:
        """Take further answers of the experts into account, so that decisions by accuracy are by their present skill.

        Nothing is trained: classifier, models of experts and most gates stay as they are, and an anchored gate is moved
        to the present accuracies. Thresholds have to be calibrated again.

        Parameters
        ----------
        y
            The true class of each case.
        votes
            Answers of experts of ``fit`` to these cases.
        times
            When each case was answered, as in ``fit``. Answers older than those known count as much less.
        tasks
            Name of each case among the tasks of the votes. None if the tasks are numbers of cases.
        """
        self._fitted()
        if not hasattr(self, "_counts"):
            raise ValueError("this team takes skills for constant; fit it with half_life= and times= to follow them")
        n = len(y)
        codes, names = true_classes(y, n)
        answers = align(votes, names, n, tasks)
        experts, classes = self._workers.match(answers.expert_names), self._classes.match(answers.classes)
        for what, codes_here, all_names in (
            ("experts", experts, answers.expert_names.values),
            ("classes", classes, answers.classes.values),
        ):
            if (codes_here < 0).any():
                raise ValueError(f"this team does not know the {what} {preview(all_names[codes_here < 0].tolist())}")
        truth = self._classes.match(names)[codes]
        at = as_times(times, n)[answers.rows]
        self._count(at, experts[answers.experts], truth[answers.rows], classes[answers.labels])
        for part in self._parts_or_fail().values():
            if isinstance(part, AnchoredGate):
                part.accuracy.copy_(self._expert_accuracy)
        self._calibration = {}
        return self

    @property
    def half_life_(self) -> float | None:
        """The half-life of an answer, the one chosen if it was ``"auto"``; None where answers count for good."""
        self._fitted()
        return self._half_life


def as_times(times: Any, n: int) -> Array:
    """Times of cases as numbers, (n,)."""
    values = np.asarray(times)
    if values.dtype.kind not in "iuf":
        raise TypeError(
            f"times must be numbers, in the unit of half_life, not {values.dtype}; make dates days since one"
        )
    if values.shape != (n,):
        raise ValueError(f"times must be one for each of {n} cases, not of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"times must be finite; that of case {int(np.argmin(np.isfinite(values)))} is not")
    return values.astype(np.float64)


def decay(now: Array | float, then: Array, half_life: float | None) -> Array:
    """What is left at one time of what counted one at another: no more than all of it."""
    if half_life is None:
        return np.ones(np.broadcast(now, then).shape)
    with np.errstate(invalid="ignore"):
        age = np.where(np.isneginf(then), 0.0, now - then)
    return np.asarray(2.0 ** -(np.maximum(age, 0.0) / half_life))


def best_half_life(times: Array, experts: npt.NDArray[np.int64], right: npt.NDArray[np.bool_]) -> float | None:
    """The half-life with which earlier answers of experts predict best whether the next is right; None for none.

    Each answer is predicted by the share of right ones among the expert's earlier answers, as they count then. O(half-
    lives × answers), of which the latest 2,000 of each expert are looked at.
    """
    span = float(np.ptp(times)) if len(times) else 0.0
    if span <= 0:
        return None
    half_lives = np.append(span * 2.0 ** -np.arange(_HALVINGS), np.inf)
    order = np.lexsort((times, experts))
    times, experts, right = times[order], experts[order], right[order]
    first = np.flatnonzero(np.diff(experts, prepend=-1))
    number = np.diff(np.append(first, len(experts)))
    first, number = first + np.maximum(number - _LATEST, 0), np.minimum(number, _LATEST)
    start = float(right.mean())
    hits = np.full((len(first), len(half_lives)), _START * start)
    total = np.full_like(hits, _START)
    gain = np.zeros(len(half_lives))
    for step in range(int(number.max())):
        who = np.flatnonzero(number > step)
        at = first[who] + step
        if step:
            weights = 2.0 ** -((times[at] - times[at - 1])[:, None] / half_lives)
            hits[who] = weights * (hits[who] - _START * start) + _START * start
            total[who] = weights * (total[who] - _START) + _START
        chance = hits[who] / total[who]
        gain += np.log(np.where(right[at][:, None], chance, 1 - chance).clip(1e-12)).sum(axis=0)
        hits[who] += right[at][:, None]
        total[who] += 1
    best = int(gain.argmax())
    return float(half_lives[best]) if gain[best] > gain[-1] + _GAIN else None
