"""One model a label, with skills of workers pooled over labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.checks import check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, codes, numbers
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.multilabel.base import Candidates, SetAggregator, SetFit, SetFitted
from manyhands.multilabel.design import Design
from manyhands.multilabel.patterns import first_patterns
from manyhands.multilabel.table import MultiLabels

if TYPE_CHECKING:
    import pyarrow as pa

#: Hits and false alarms, as the arrays of what was learnt have them.
_KINDS = ("hits", "alarms")
#: Passes with one pattern before several begin: enough for probabilities to settle.
_PLAIN_PASSES = 20


@dataclass(frozen=True, kw_only=True)
class RelevanceFit(SetFit):
    """Sets by pooled rates of hits and false alarms."""

    #: Pairs of worker and label as one number, ascending, and their rates of hits and of false alarms.
    pairs: npt.NDArray[np.int64] = field(metadata=codes("p"))
    rates: Array = field(metadata=numbers("2p"))
    centres: Array = field(metadata=numbers("2"))
    strengths: Array = field(metadata=numbers("2"))
    of_workers: Array = field(metadata=numbers("2m"))
    of_labels: Array = field(metadata=numbers("2k"))
    pattern_shares: Array = field(metadata=numbers("g"))
    patterns: Array = field(metadata=numbers("gk"))


class PooledRelevance(SetAggregator, default=True):
    """A binary Dawid–Skene for each label, whose workers are judged over all labels.

    Worker ``m`` says label ``l`` with one probability where it is true of a task (recall), and with another where
    it is not. The logit of each is what the crowd, the worker and the label have in general, summed; the rate of a
    worker with a label is Beta-distributed around that with a strength that is learnt, as the spread of workers and of
    labels is. A worker who seldom met a label is so judged by what they do with others, and by what others do with it.

    A label may be true of a task only if somebody said it there. Whoever answered the task and did not say it said no.

    Parameters
    ----------
    patterns
        How many patterns tasks are of. Within a pattern labels are independent; with several, a label makes those more
        probable that go with it. 1 takes all labels to be independent.
    threshold
        The probability from which on a label is taken; ``"f1"`` for the one of each label that has the greatest
        expected F1 under the probabilities found.
    max_iter, tol
        Stop after so many passes, or when no probability changes by as much as `tol`. Sets and probabilities settle in
        about ten passes. Strengths, and what workers and labels add, take hundreds where workers do with all labels
        alike: give a `tol` of 1e-5 where these numbers are wanted.
    seed
        Seed of where several patterns begin; one has no use for it.

    Notes
    -----
    Rates follow from expected counts, pooled rates by steps of Newton's method on expected draws from them, strength by
    Minka's fixed point. Patterns are a mixture of independent labels, each with five imaginary tasks that are like all;
    they begin with k-means on the probabilities that a single one gives. There is no objective that both halves of a
    step improve, so `history_` is empty.

    Time per pass O(rows + candidates · patterns), where a row is an answer to a task times a label that somebody said
    of that task (a candidate): labels that nobody said cost nothing, each worker's no to them is a count. Memory 4
    bytes a row, 16 a candidate, 150 a pair of worker and label that met, and while the rows are laid out 40 bytes each.

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
    Statistics 28 (1979). T. P. Minka, "Estimating a Dirichlet distribution" (2000). Z. C. Lipton, C. Elkan and
    B. Narayanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", ECML PKDD (2014).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"task": [1, 1, 1, 2, 2, 2], "worker": ["a", "b", "c"] * 2,
    ...        "labels": ["cat|dog", "cat", "cat", "", "dog", "dog"]}
    >>> model = mh.aggregate(mh.MultiLabels.from_frame(log))
    >>> model.label_sets_.tolist()
    [('cat',), ('dog',)]
    """

    _fit_type: ClassVar[type[Fit]] = RelevanceFit

    def __init__(
        self,
        *,
        patterns: int = 1,
        threshold: float | str = "f1",
        max_iter: int = 200,
        tol: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.patterns = patterns
        self.threshold = threshold
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def _fit(self, votes: MultiLabels, progress: Callback | None) -> SetFit:
        check_stopping(self.max_iter, self.tol)
        if self.threshold != "f1":
            check_number("threshold", self.threshold, least=0, most=1)
        check_number("patterns", self.patterns, least=1, most=1000, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        design, tol, start = Design.of(votes), float(self.tol), np.zeros(0)
        if self.patterns > 1:
            plain = _core.relevance_fit(design, start, max_iter=_PLAIN_PASSES, tol=tol)
            start = first_patterns(design, plain["posterior"], plain["prior"], int(self.patterns), int(self.seed))
        found = _core.relevance_fit(design, start, max_iter=self.max_iter, tol=tol, progress=progress)
        warn_unless_converged(found["converged"], self)
        kinds = [found["hits"], found["alarms"]]
        candidates = Candidates(design.tasks, design.labels.astype(np.int64), found["posterior"])
        return RelevanceFit(
            pairs=design.pairs,
            rates=np.stack([kind["rates"] for kind in kinds]),
            centres=np.array([kind["centre"] for kind in kinds]),
            strengths=np.array([kind["strength"] for kind in kinds]),
            of_workers=np.stack([kind["workers"] for kind in kinds]),
            of_labels=np.stack([kind["labels"] for kind in kinds]),
            pattern_shares=found["pattern_shares"],
            patterns=found["patterns"],
            candidates=candidates,
            prior=found["prior"],
            thresholds=self._chosen(candidates, votes.n_labels),
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
        )

    def _chosen(self, candidates: Candidates, n_labels: int) -> Array:
        if isinstance(self.threshold, str):
            return best_thresholds(candidates, n_labels)
        return np.full(n_labels, float(self.threshold))

    # ----------------------------------------------------------------------------------------------- results

    @property
    def strengths_(self) -> Array:
        """Imaginary answers that pooled rates count for: of hits, and of false alarms."""
        return self._fitted().fit_as(RelevanceFit).strengths

    @property
    def pattern_shares_(self) -> Array:
        """Share of the tasks that are of each pattern, (patterns,)."""
        return self._fitted().fit_as(RelevanceFit).pattern_shares

    @property
    def patterns_(self) -> Array:
        """Share of the tasks of each pattern that each label is true of, (patterns, n_labels)."""
        return self._fitted().fit_as(RelevanceFit).patterns

    def _skills(self) -> Columns:
        # With a label of the ordinary kind.
        fit = self._fitted().fit_as(RelevanceFit)
        recall, alarms = (_logistic(fit.centres[i] + fit.of_workers[i]) for i in range(2))
        return {"skill": (recall + 1 - alarms) / 2, "recall": recall, "specificity": 1 - alarms}

    def labels_frame(self) -> pa.Table:
        """Return one row a label: share of the tasks, recall and specificity of ordinary workers, threshold."""
        now = self._fitted()
        fit = now.fit_as(RelevanceFit)
        hits, alarms = (_logistic(fit.centres[i] + fit.of_labels[i]) for i in range(2))
        columns = {"label": now.labels.arrow(), "share": fit.prior, "recall": hits, "specificity": 1 - alarms}
        return arrow.table(columns | {"threshold": fit.thresholds})

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, answers: Any) -> npt.NDArray[np.object_]:
        """Sets of tasks, old or new, from answers of workers as they were learnt, as tuples of names.

        A worker who was not seen in ``fit`` counts as an ordinary one. A label that was not in the inventory is an
        error.
        """
        now = self._fitted()
        table = MultiLabels._as_table(answers)
        return self._expected(now, table).above(now.fit.thresholds).named(table.n_tasks, now.labels)

    def _expected(self, now: SetFitted, table: MultiLabels) -> Candidates:
        """Probabilities of the candidates of another table, by this model's codes of labels."""
        fit, design, k = now.fit_as(RelevanceFit), Design.of(table), len(now.labels)
        codes = self._codes_of(now, table)
        workers = now.workers.match(table._workers)[design.pair_workers]
        labels = codes[design.pair_labels]
        keys = workers * k + labels
        place = np.minimum(np.searchsorted(fit.pairs, keys), max(len(fit.pairs) - 1, 0))
        met = (workers >= 0) & (fit.pairs[place] == keys) if len(fit.pairs) else np.zeros(len(keys), np.bool_)
        rates = []
        for kind in range(len(_KINDS)):
            added = np.where(workers >= 0, fit.of_workers[kind][workers], 0.0)
            pooled = _logistic(fit.centres[kind] + added + fit.of_labels[kind][labels])
            rates.append(np.where(met, fit.rates[kind][place] if len(fit.pairs) else 0.0, pooled))
        # Labels of the other table may be fewer, and in another order.
        known = replace(
            design,
            labels=codes[design.labels].astype(np.uint32),
            pair_labels=labels.astype(np.uint32),
            sizes=(*design.sizes[:2], k),
        )
        found = _core.relevance_posterior(known, rates[0], rates[1], fit.pattern_shares, fit.patterns)
        order = np.lexsort((codes[design.labels], design.tasks))
        return Candidates(design.tasks[order], codes[design.labels][order], found[order])


def _logistic(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def best_thresholds(candidates: Candidates, n_labels: int) -> Array:
    """The threshold of greatest expected F1 for each label; 1 for a label that nobody said.

    Of a label taken where its probability is among the k largest, F1 is about twice their sum over k and the sum of
    all.
    """
    thresholds = np.ones(n_labels)
    order = np.lexsort((-candidates.probabilities, candidates.labels))
    labels, found = candidates.labels[order], candidates.probabilities[order]
    bounds = np.searchsorted(labels, np.arange(n_labels + 1))
    for label, (first, last) in enumerate(pairwise(bounds.tolist())):
        if first < last:
            sums = np.cumsum(found[first:last])
            best = int(np.argmax(sums / (np.arange(1, last - first + 1) + sums[-1])))
            thresholds[label] = found[first + best]
    return thresholds
