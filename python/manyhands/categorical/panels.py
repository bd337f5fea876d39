"""Panels of annotators whose errors coincide, and what is known of workers' accuracies then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_number, plural
from manyhands._base.estimator import Array
from manyhands._base.fitted import number, numbers, part, setting, texts
from manyhands.categorical._calibration import CORRELATION, discount, error_correlation, probability_of_correlation
from manyhands.categorical._passes import expected_counts
from manyhands.categorical._posterior import Posterior
from manyhands.categorical._priors import Told
from manyhands.categorical.anchoring import FULL_AT, Anchor, KnownSkills, contradictions, fit_anchor, known_votes
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations
from manyhands.errors import GoldWarning

if TYPE_CHECKING:
    import pyarrow as pa

#: A panel by its layout: at most that many workers, who gave at least this share of all possible answers.
_MOST_WORKERS, _LEAST_DENSITY = 30, 0.5
#: The correlation of errors of a panel, and the number of workers from which a log shows it.
_LEAST_CORRELATION, _ENOUGH_WORKERS = 0.1, 6
#: Standard errors by which logs of fewer workers must exclude it.
_MARGIN = 2.0
#: Votes of a panel together count as one.
PANEL_DISCOUNT = 1.0
#: Standard deviation of what errors that all workers share hide of a worker's accuracy.
_SYSTEMATIC = 0.07
#: Bounds of the pseudo-counts that estimates without gold count for.
_LEAST_ANSWERS, _MOST_ANSWERS = 2.0, 500.0


def looks_like_panel(votes: Annotations, correlation: float, error: float) -> bool:
    """Whether the same few workers answered most tasks, and the log does not show that they err independently.

    With three to five workers hardly any log can show that, so that it must be beyond doubt. From six on the estimate
    decides: with two standard errors as a margin, half of the logs of six independent workers would be panels.
    """
    margin = _MARGIN if votes.n_workers < _ENOUGH_WORKERS else 0.0
    return (
        2 <= votes.n_workers <= _MOST_WORKERS
        and votes.n_annotations >= _LEAST_DENSITY * votes.n_workers * votes.n_tasks
        and correlation + margin * error >= _LEAST_CORRELATION
    )


@dataclass(frozen=True)
class Agreement:
    """How well each worker's answers agree with the posterior of unlabeled tasks, and with known classes."""

    #: Mean posterior of a worker's own labels, over unlabeled tasks.
    share: Array = field(metadata=numbers("m", least=0))
    #: Labels that it is a mean over.
    n_labels: Array = field(metadata=numbers("m", least=0))
    known: KnownSkills | None = field(default=None, metadata=part(KnownSkills, optional=True))

    @classmethod
    def of(cls, counts: Array, known: KnownSkills | None) -> Agreement:
        """Of expected counts, (n_workers, n_classes, n_labels), in which known classes are certain."""
        right, total = np.einsum("mkk->m", counts), counts.sum(axis=(1, 2))
        if known is not None:
            right, total = np.maximum(right - known.right, 0.0), np.maximum(total - known.seen, 0.0)
        # Workers who answered known tasks only are estimated from the others.
        crowd = right.sum() / max(total.sum(), 1e-9)
        has_weight = total > 1e-9
        share = np.where(has_weight, np.divide(right, total, out=np.zeros_like(right), where=has_weight), crowd)
        return cls(np.clip(share, 0.0, 1.0), total, known)

    def skills(self, worth: metrics.Worth, dependent: float) -> metrics.Worth:
        """Measures of workers whose errors may coincide.

        Where errors are independent, the estimates of the EM members hold. Where they coincide completely, the answers
        of the whole panel count as one vote, and accuracy is the mean posterior of a worker's own labels. The truth
        lies between: half the distance is one standard error, next to what shared errors hide. Known classes are a Beta
        update of that.

        Parameters
        ----------
        worth
            Measures by the confusion matrices of the fit, with errors that hold for independent workers.
        dependent : float
            How far errors are taken to coincide, from 0 to 1.
        """
        n_known = 0.0 if self.known is None else float(self.known.seen.max(initial=0.0))
        mixed = max(dependent, min(1.0, n_known / FULL_AT))
        distance = self.share - worth.skill
        skill = worth.skill + mixed * distance
        error = np.sqrt(worth.skill_error**2 + (0.5 * mixed * distance) ** 2 + (_SYSTEMATIC * dependent) ** 2)
        if self.known is not None:
            mean = np.clip(skill, 0.01, 0.99)
            strength = mean * (1 - mean) / np.maximum(error, 1e-9) ** 2 - 1
            strength = np.clip(strength, _LEAST_ANSWERS, _MOST_ANSWERS)
            total = strength + self.known.seen
            updated = (strength * mean + self.known.right) / total
            tested = self.known.seen > 0
            skill = np.where(tested, updated, skill)
            error = np.where(tested, np.sqrt(updated * (1 - updated) / (total + 1)), error)
        wider = np.divide(error, worth.skill_error, out=np.ones_like(error), where=worth.skill_error > 0)
        wider = np.maximum(wider, 1.0)
        return worth._replace(
            skill=skill,
            skill_error=error,
            information_error=worth.information_error * wider,
            capacity_error=worth.capacity_error * wider,
        )


@dataclass(frozen=True)
class Dependence:
    """What is taken of the errors on one task, and what was estimated."""

    #: What confidences are divided by, per further vote on a task.
    discount: float = field(metadata=number(least=0))
    #: Correlation of errors, and its standard error.
    estimate: Array = field(metadata=numbers("2"))
    #: Whether the workers are taken for a panel, whose votes together count as one; whether the caller chose so.
    panel: bool = field(metadata=setting(bool))
    declared: bool = field(metadata=setting(bool))
    #: The discount otherwise: for a panel, of a log without the layout of one; else of a panel.
    otherwise: float = field(metadata=number(least=0))
    #: The probability that errors are correlated, from even odds: how far skills and their standard errors follow it.
    #: Confidences start from odds of three to one, which is the safe side for them but not for these errors.
    evidence: float = field(metadata=number(least=0))

    @property
    def degree(self) -> float:
        """How far errors are taken to coincide, from 0 to 1."""
        return min(1.0, self.discount / CORRELATION)


def check_panel(panel: Any, correlation: Any) -> None:
    """Raise where parameters about the dependence of errors are no such or contradict each other."""
    if panel is not None and not isinstance(panel, (bool, np.bool_)):
        raise TypeError(f"panel must be True, False or None, not {panel!r}")
    if correlation is not None:
        check_number("correlation", correlation, least=0, most=1)
        if panel:
            raise ValueError("panel=True makes all votes on a task count as one; leave out correlation=, or panel=")


def settle_dependence(
    votes: Annotations, panel: bool | None, correlation: float | None, crowd: tuple[Any, Array, Array, Array]
) -> Dependence:
    """Decide how far errors coincide, with posterior, class prior, crowd prior and expected counts of a model."""
    if correlation is not None:
        estimate_given = np.array([float(correlation), 0.0])
        degree = min(1.0, float(correlation) / CORRELATION)
        return Dependence(float(correlation), estimate_given, False, True, PANEL_DISCOUNT, degree)
    estimate = error_correlation(votes.passes, *crowd)
    usual = discount(*estimate)
    is_panel = looks_like_panel(votes, *estimate) if panel is None else bool(panel)
    discounts = (PANEL_DISCOUNT, usual) if is_panel else (usual, PANEL_DISCOUNT)
    evidence = 1.0 if is_panel else probability_of_correlation(*estimate, odds=1.0)
    return Dependence(discounts[0], np.array(estimate), is_panel, panel is not None, discounts[1], evidence)


@dataclass(frozen=True, kw_only=True)
class AnchoredFit(ClassFit):
    """A default for classes: how far errors coincide, and what known classes corrected."""

    dependence: Dependence = field(metadata=part(Dependence))
    agreement: Agreement = field(metadata=part(Agreement))
    anchor: Anchor | None = field(default=None, metadata=part(Anchor, optional=True))
    #: Where known classes contradict the unlabeled data.
    contradictions: tuple[str, ...] = field(default=(), metadata=texts())


class Anchored(Aggregator):
    """Base of the defaults for classes: known classes correct their answers, and errors of workers may coincide."""

    if TYPE_CHECKING:
        gold: Any
        panel: bool | None

    @property
    def correlation_(self) -> float:
        """Correlation of the errors on one task, as estimated from the log or given."""
        return float(self._dependence.estimate[0])

    @property
    def correlation_error_(self) -> float:
        """Standard error of `correlation_`: 0 where it was given, 1 where the log does not determine it."""
        return float(self._dependence.estimate[1])

    @property
    def discount_(self) -> float:
        """Discount of confidences: 1 for a panel, whose votes together count as one; see the class for others."""
        return self._dependence.discount

    @property
    def panel_(self) -> bool:
        """Whether workers were taken for a panel: the same few on most tasks, with errors that coincide."""
        return self._dependence.panel

    @property
    def n_gold_(self) -> int:
        """Number of known tasks that corrected the answers; 0 without gold."""
        anchor = self._fitted().fit_as(AnchoredFit).anchor
        return 0 if anchor is None else int(anchor.n_known)

    @property
    def assumption_(self) -> str:
        """What was assumed about errors on the same task, and how to assume the opposite; in a sentence."""
        used, n = self._dependence, len(self._fitted().workers)
        crowd = plural(n, "worker")
        if used.panel:
            why = "as declared" if used.declared else "since the same few answer most tasks and errors may coincide"
            return (
                f"all votes on a task count as one ({crowd} taken for a panel, {why}); if errors are independent, pass "
                f"panel=False: the discount is then {used.otherwise:.2f}"
            )
        return (
            f"votes on a task are discounted by {used.discount:.2f} (1 is one vote per task); for a fixed panel of "
            "annotators with the same blind spots, such as LLM judges, pass panel=True"
        )

    @property
    def _dependence(self) -> Dependence:
        return self._fitted().fit_as(AnchoredFit).dependence

    @property
    def _agreement(self) -> Agreement:
        return self._fitted().fit_as(AnchoredFit).agreement

    def _worker_measures(self) -> metrics.Worth:
        return self._agreement.skills(super()._worker_measures(), self._dependence.evidence)

    def workers_frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table: the columns of every aggregator, and ``n_gold`` with gold.

        ``skill`` and ``skill_error`` take into account that errors may coincide. Where they do, ``skill`` is the mean
        posterior of the worker's own labels, and ``skill_error`` covers half the distance to the estimate for
        independent workers. Known classes update it: ``n_gold`` is the number of the worker's answers to known tasks.
        """
        frame = super().workers_frame()
        gold_skills = self._agreement.known
        if gold_skills is None:
            return frame
        return frame.append_column("n_gold", arrow.from_numpy(np.rint(gold_skills.seen).astype(np.int64)))

    def _clamped(self) -> Any:
        return None

    def _loud(self, fit: ClassFit) -> list[tuple[tuple[str, ...], type[Warning]]]:
        assert isinstance(fit, AnchoredFit)
        return [*super()._loud(fit), (fit.contradictions, GoldWarning)]


def learnt_from(
    known: Told, votes: Annotations, default: Posterior, confusion: Array, prior: Array, dependence: Dependence
) -> tuple[Anchor | None, tuple[str, ...]]:
    """Correct the default by known classes: what to correct it with, and what they contradict."""
    if known.tasks is None or known.classes is None:
        return None, ()
    if len(np.unique(known.classes)) == 1 < votes.n_classes:
        name = votes.classes[known.classes[:1]].tolist()[0]
        return None, (
            f"Gold has one class only, {name!r} ({plural(len(known.classes), 'label')}): it counts in the skills of "
            "workers and corrects no other answer. Add gold labels of other classes.",
        )
    gold_votes = known_votes(votes.passes, known.tasks, known.classes)
    rows = default.rows(known.tasks)
    anchor = fit_anchor(gold_votes, rows, prior, dependence.degree) if votes.n_classes > 1 else None
    skills = KnownSkills.of(gold_votes.counts())
    accuracy = metrics.skill(confusion, prior)
    remarks = contradictions(skills, accuracy, votes.labels_per_worker, votes._workers, rows, gold_votes.classes)
    return anchor, remarks


def agreement_of(known: Told, posterior: Any) -> Agreement:
    """How well workers agree with posteriors in which known classes are certain, and with known classes."""
    counts = expected_counts(known.held, posterior)
    if known.tasks is None or known.classes is None:
        return Agreement.of(counts, None)
    gold_votes = known_votes(known.held, known.tasks, known.classes)
    return Agreement.of(counts, KnownSkills.of(gold_votes.counts()))
