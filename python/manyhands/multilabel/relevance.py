"""PooledRelevance: one binary model per label, with worker skills pooled over labels."""

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
from manyhands._base.fitted import Fit, codes, numbers, part, texts
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.errors import GoldWarning
from manyhands.multilabel.anchoring import KnownSets, SetAnchor, learn
from manyhands.multilabel.base import Candidates, SetAggregator, SetFit, SetFitted
from manyhands.multilabel.design import Design
from manyhands.multilabel.patterns import first_patterns
from manyhands.multilabel.table import MultiLabels

if TYPE_CHECKING:
    import pyarrow as pa

#: True positives and false positives, in the order of the parameter arrays.
_KINDS = ("hits", "alarms")
_ONE_SIDED = (
    "Labels that workers gave to the tasks of gold are all right, or all wrong: gold corrects no other task. Add gold "
    "of other tasks."
)
#: Iterations with one pattern before several are initialized.
_PLAIN_PASSES = 20


@dataclass(frozen=True, kw_only=True)
class RelevanceFit(SetFit):
    """Estimated sets, and pooled true-positive and false-positive rates."""

    #: Keys of (worker, label) pairs in ascending order, and their true-positive and false-positive rates.
    pairs: npt.NDArray[np.int64] = field(metadata=codes("p"))
    rates: Array = field(metadata=numbers("2p"))
    centres: Array = field(metadata=numbers("2"))
    strengths: Array = field(metadata=numbers("2"))
    of_workers: Array = field(metadata=numbers("2m"))
    of_labels: Array = field(metadata=numbers("2k"))
    pattern_shares: Array = field(metadata=numbers("g"))
    patterns: Array = field(metadata=numbers("gk"))
    #: What known sets corrected, and what they contradict.
    anchor: SetAnchor | None = field(default=None, metadata=part(SetAnchor, optional=True))
    contradictions: tuple[str, ...] = field(default=(), metadata=texts())


class PooledRelevance(SetAggregator, default=True):
    """Binary Dawid–Skene per label, with hierarchical worker skills pooled over labels.

    The default for sets of labels. A worker with few answers for a label is judged by other labels and other workers.
    Only labels that at least one worker gave to a task can be true; all other labels of an answer count as a no.

    Parameters
    ----------
    patterns : int, default 1
        Number of label patterns (mixture components) of tasks. Labels are independent within a pattern; several
        patterns model labels that occur together.
    threshold : float or "f1", default "f1"
        Probability from which a label is selected. ``"f1"`` maximizes the expected F1 per label.
    gold : mapping, pair, frame or path, optional
        Known sets of some tasks, as lists or as text in which bars separate labels: they correct the probabilities of
        all other candidates. A random sample of the tasks is best; 20 to 300 are enough.
    max_iter : int, default 200
        Maximum number of iterations.
    tol : float, default 0.01
        Change of the probabilities at which the fit has converged, usually after about ten iterations. Prior strengths
        and worker and label effects converge more slowly; use 1e-5 if you need them.
    seed : int, default 0
        Random seed of the initialization with several patterns.

    Notes
    -----
    Time per iteration O(rows + candidates · patterns), where a row is an answer to a task times a label that a worker
    gave to that task (a candidate). Labels without a candidate cost nothing. Memory: 4 bytes per row, 16 per candidate
    and 150 per (worker, label) pair that occurs, plus 40 bytes per row while the arrays are built.

    Worker ``m`` gives label ``l`` with one probability if it is true (recall) and with another if it is not. The logit
    of each is a sum of an intercept, a worker effect and a label effect; the rate of each (worker, label) pair is
    Beta-distributed around it with an estimated prior strength. Rates follow from expected counts, effects from Newton
    steps, and strengths from Minka's fixed point. Patterns are a mixture of independent labels with a pseudo-count of
    five average tasks each, initialized by k-means on the probabilities with one pattern. `history_` is empty because
    the updates do not share an objective.

    With gold, each candidate of a known task is a known answer to a question of yes and no, and the correction is that
    of :class:`~manyhands.Consensus`, pooled over labels: the model itself, two ridge regressions on the votes of each
    worker whose priors state that the model is right, and rates from gold alone, weighted by how well they predict
    held-out candidates. Cost: at most twelve regressions on 2,000 candidates, and 60 bytes per row.

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
    _data_parameters: ClassVar[tuple[str, ...]] = ("gold",)

    def __init__(
        self,
        *,
        patterns: int = 1,
        threshold: float | str = "f1",
        gold: Any = None,
        max_iter: int = 200,
        tol: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.patterns = patterns
        self.threshold = threshold
        self.gold = gold
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def _fit(self, votes: MultiLabels, progress: Callback | None) -> SetFit:
        check_stopping(self.max_iter, self.tol)
        if self.threshold != "f1":
            check_number("threshold", self.threshold, least=0, most=1)
        check_number("patterns", self.patterns, least=1, most=1000, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        gold = KnownSets.of(votes, self.gold)
        design, tol, start = Design.of(votes), float(self.tol), np.zeros(0)
        if self.patterns > 1:
            initial_fit = _core.relevance_fit(design, start, max_iter=_PLAIN_PASSES, tol=tol)
            start = first_patterns(
                design, initial_fit["posterior"], initial_fit["prior"], int(self.patterns), int(self.seed)
            )
        result = _core.relevance_fit(design, start, max_iter=self.max_iter, tol=tol, progress=progress)
        warn_unless_converged(result["converged"], self)
        kinds = [result["hits"], result["alarms"]]
        candidates = Candidates(design.tasks, design.labels.astype(np.int64), result["posterior"])
        anchor: SetAnchor | None = None
        contradictions: tuple[str, ...] = ()
        if gold is not None:
            anchor = learn(votes, design, candidates, gold)
            if anchor is None:
                contradictions = (_ONE_SIDED,)
            else:
                corrected = anchor.correct(design, candidates.probabilities)
                candidates = replace(candidates, probabilities=corrected)
            candidates = gold.settle(candidates)
        return RelevanceFit(
            anchor=anchor,
            contradictions=contradictions,
            pairs=design.pairs,
            rates=np.stack([kind["rates"] for kind in kinds]),
            centres=np.array([kind["centre"] for kind in kinds]),
            strengths=np.array([kind["strength"] for kind in kinds]),
            of_workers=np.stack([kind["workers"] for kind in kinds]),
            of_labels=np.stack([kind["labels"] for kind in kinds]),
            pattern_shares=result["pattern_shares"],
            patterns=result["patterns"],
            candidates=candidates,
            prior=result["prior"],
            thresholds=self._label_thresholds(candidates, votes.n_labels),
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    def _label_thresholds(self, candidates: Candidates, n_labels: int) -> Array:
        if isinstance(self.threshold, str):
            return best_thresholds(candidates, n_labels)
        return np.full(n_labels, float(self.threshold))

    # ----------------------------------------------------------------------------------------------- results

    @property
    def strengths_(self) -> Array:
        """Prior strengths (pseudo-counts) of pooled true-positive and false-positive rates."""
        return self._fitted().fit_as(RelevanceFit).strengths

    @property
    def pattern_shares_(self) -> Array:
        """Share of tasks with each pattern, shape (patterns,)."""
        return self._fitted().fit_as(RelevanceFit).pattern_shares

    @property
    def patterns_(self) -> Array:
        """Share of tasks with each label, per pattern, shape (patterns, n_labels)."""
        return self._fitted().fit_as(RelevanceFit).patterns

    def _skills(self) -> Columns:
        # Rates for an average label.
        fit = self._fitted().fit_as(RelevanceFit)
        recall, alarms = (_logistic(fit.centres[i] + fit.of_workers[i]) for i in range(2))
        if fit.anchor is not None:
            recall, alarms = fit.anchor.rates(recall, alarms)
        return {"skill": (recall + 1 - alarms) / 2, "recall": recall, "specificity": 1 - alarms}

    def workers_frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table: the columns of every aggregator, and ``n_gold`` with gold."""
        frame, anchor = super().workers_frame(), self._fitted().fit_as(RelevanceFit).anchor
        return frame if anchor is None else frame.append_column("n_gold", [anchor.tasks.astype(np.int64)])

    @property
    def n_gold_(self) -> int:
        """Number of known tasks that a worker answered and that corrected others; 0 without gold."""
        anchor = self._fitted().fit_as(RelevanceFit).anchor
        return 0 if anchor is None else int(anchor.n_known)

    def _loud(self, fit: SetFit) -> list[tuple[tuple[str, ...], type[Warning]]]:
        assert isinstance(fit, RelevanceFit)
        return [*super()._loud(fit), (fit.contradictions, GoldWarning)]

    def labels_frame(self) -> pa.Table:
        """Return one row per label: share of tasks, recall and specificity of an average worker, threshold."""
        now = self._fitted()
        fit = now.fit_as(RelevanceFit)
        hits, alarms = (_logistic(fit.centres[i] + fit.of_labels[i]) for i in range(2))
        columns = {"label": now.labels.arrow(), "share": fit.prior, "recall": hits, "specificity": 1 - alarms}
        return arrow.table(columns | {"threshold": fit.thresholds})

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, answers: Any) -> npt.NDArray[np.object_]:
        """Return the label sets of new or old tasks, using the fitted worker parameters.

        Parameters
        ----------
        answers : MultiLabels or anything that converts to it
            Answers to the tasks. Workers that were not in ``fit`` count as average. Labels that were not in ``fit``
            raise.

        Returns
        -------
        ndarray of shape (n_tasks,)
            Sets, as tuples of label names.
        """
        now = self._fitted()
        table = MultiLabels._as_table(answers)
        return self._expected(now, table).above(now.fit.thresholds).label_tuples(table.n_tasks, now.labels)

    def _expected(self, now: SetFitted, table: MultiLabels) -> Candidates:
        """Candidate probabilities of another table, in this model's label codes."""
        fit, design, k = now.fit_as(RelevanceFit), Design.of(table), len(now.labels)
        codes = self._codes_of(now, table)
        workers = now.workers.match(table._workers)[design.pair_workers]
        labels = codes[design.pair_labels]
        keys = workers * k + labels
        place = np.minimum(np.searchsorted(fit.pairs, keys), max(len(fit.pairs) - 1, 0))
        pair_in_fit = (workers >= 0) & (fit.pairs[place] == keys) if len(fit.pairs) else np.zeros(len(keys), np.bool_)
        rates = []
        for kind in range(len(_KINDS)):
            worker_effects = np.where(workers >= 0, fit.of_workers[kind][workers], 0.0)
            pooled = _logistic(fit.centres[kind] + worker_effects + fit.of_labels[kind][labels])
            rates.append(np.where(pair_in_fit, fit.rates[kind][place] if len(fit.pairs) else 0.0, pooled))
        # The other table may have fewer labels, in another order.
        recoded_design = replace(
            design,
            labels=codes[design.labels].astype(np.uint32),
            pair_labels=labels.astype(np.uint32),
            sizes=(*design.sizes[:2], k),
        )
        probabilities = _core.relevance_posterior(recoded_design, rates[0], rates[1], fit.pattern_shares, fit.patterns)
        if fit.anchor is not None:
            anchor = fit.anchor.carried_over(now.workers.match(table._workers))
            probabilities = anchor.correct(design, probabilities)
        order = np.lexsort((codes[design.labels], design.tasks))
        return Candidates(design.tasks[order], codes[design.labels][order], probabilities[order])


def _logistic(x: Array) -> Array:
    probabilities: Array = 1 / (1 + np.exp(-x))
    return probabilities


def best_thresholds(candidates: Candidates, n_labels: int) -> Array:
    """Return the threshold with the greatest expected F1 for each label; 1 for labels without candidates.

    If a label is selected where its probability is among the k largest, its F1 is approximately twice their sum,
    divided by k plus the sum of all probabilities.
    """
    thresholds = np.ones(n_labels)
    order = np.lexsort((-candidates.probabilities, candidates.labels))
    labels, probabilities = candidates.labels[order], candidates.probabilities[order]
    bounds = np.searchsorted(labels, np.arange(n_labels + 1))
    for label, (first, last) in enumerate(pairwise(bounds.tolist())):
        if first < last:
            sums = np.cumsum(probabilities[first:last])
            best = int(np.argmax(sums / (np.arange(1, last - first + 1) + sums[-1])))
            thresholds[label] = probabilities[first + best]
    return thresholds
