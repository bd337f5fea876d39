"""Messages that pass between tasks and workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, plural
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._agreement import Mask, certain
from manyhands.categorical._confusion import JudgedByPosterior
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: The outcome is doubtful where labels agree with it, corrected for chance, less than this.
_LEAST_AGREEMENT = 0.1


@dataclass(frozen=True, kw_only=True)
class MessageFit(ClassFit):
    """Classes, and how far workers can be relied on."""

    weights: Array = field(metadata=numbers("m"))


class KOS(Aggregator):
    """Iterative message passing between tasks and workers (Karger, Oh and Shah).

    Message passing: a task sends to each of its workers the sum of the other workers' answers, a worker sends to each
    of its tasks how well it did on its other tasks, and so on. A task's scores are the sum of its labels, each counting
    its worker's last message. For crowds drawn at random this needs no more labels than an oracle that knows who is
    reliable, up to a constant factor.

    With more than two classes, each class is a binary question against the rest, and a worker is equally reliable in
    all of them: a label counts 1 for its class and ``-1 / (K - 1)`` for the others.

    Parameters
    ----------
    max_iter : int, default 20
        Rounds of messages.
    seed : int, default 0
        Seed of the first messages, drawn from a normal distribution of mean 1 and variance 1. They depend on nothing
        else but the codes of task and worker.

    Notes
    -----
    The method assumes that answers are as good for one class as for the other. Busy workers who repeat one answer agree
    with each other, which messages take for skill; where labels hardly agree with the outcome, :attr:`remarks_` report
    it.

    Messages are rescaled in every round, each group of connected workers by itself, so that no number of rounds
    overflows. In a group without cycles messages die out; its votes count alike then, and :attr:`remarks_` report it.

    ``labels_`` are the classes of highest score. Scores have no scale; for ``posterior_`` they are multiplied by one
    positive number and exponentiated: the number that best takes (least squares, counted by labels) the workers'
    weights to their chance-corrected agreement with the labels. ``confusion_`` judges workers by that posterior, and
    ``predict`` uses it as Dawid–Skene would, so that it need not repeat ``posterior_``. There is no objective.

    Time O(annotations) a round whatever the number of classes; memory at most 16 bytes per annotation and the scores.

    References
    ----------
    D. R. Karger, S. Oh and D. Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011; "Budget-optimal
    task allocation for reliable crowdsourcing systems", Operations Research 62 (2014).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 100, 2, crowd="hammer-spammer", labels_per_task=7, seed=1)
    >>> model = mh.categorical.KOS().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    _fit_type: ClassVar[type[Fit]] = MessageFit
    _skipped_checks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("renaming_tasks", "renaming_workers"), "messages start from draws that follow the codes"),
        "predict_repeats_fit": "labels are the signs of messages, predictions go by the accuracies found",
    }

    def __init__(self, *, max_iter: int = 20, seed: int = 0) -> None:
        self.max_iter = max_iter
        self.seed = seed

    @property
    def weights_(self) -> Array:
        """How far each worker can be relied on, (n_workers,): negative for worse than chance; without scale."""
        return self._fitted().fit_as(MessageFit).weights

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        if votes.n_classes == 1:
            return MessageFit(**vars(certain(votes)), weights=np.ones(votes.n_workers))
        table = votes.table
        scores, weights, silent = table.kos_fit(n_iter=self.max_iter, seed=self.seed, progress=progress)
        scale, doubts = _log_odds_scale(votes, scores, weights)
        scores *= scale
        scores -= scores.max(axis=1, keepdims=True)
        posterior = np.exp(scores, out=scores)
        posterior /= posterior.sum(axis=1, keepdims=True)
        return MessageFit.of(
            weights=weights,
            posterior=posterior,
            confusion=JudgedByPosterior(table, posterior),
            prior=posterior.mean(axis=0),
            history=np.zeros(0),
            n_iter=self.max_iter,
            remarks=(*_silence(silent), *doubts),
        )


def _log_odds_scale(votes: Annotations, scores: Array, weights: Array) -> tuple[float, tuple[str, ...]]:
    """The positive number that takes weights of workers to their chance-corrected agreement with the winners."""
    k = votes.n_classes
    winners, _ = _core.winners(scores)
    agree, total = votes.table.worker_agreement(winners.astype(np.int32))
    fitted = float(np.sum(weights * (k * agree - total))) / (k - 1)
    size = float(np.sum(total * weights**2))
    # However little workers agree with the outcome, the outcome stays what it is.
    largest = float(np.abs(scores).max())
    least = 1e-3 / largest if largest > 0 else 1.0
    doubts: tuple[str, ...] = ()
    if k * agree.sum() - total.sum() < _LEAST_AGREEMENT * (k - 1) * total.sum():
        doubts = (
            "The labels agree with the outcome hardly more often than chance would have it: messages may have followed "
            "workers who repeat one answer, and not those who are right.",
        )
    return (max(fitted / size, least) if size > 0 else least), doubts


def _silence(silent: Mask) -> tuple[str, ...]:
    if not silent.any():
        return ()
    return (
        f"Between {plural(int(silent.sum()), 'worker')} and their tasks there are no cycles along which messages "
        "could go on: their votes count alike.",
    )
