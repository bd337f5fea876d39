"""Measures of labels, posteriors and estimated workers.

Labels are compared with :func:`accuracy` and :func:`balanced_accuracy`, those of ordered classes also with
:func:`absolute_error` and :func:`quadratic_kappa`; posteriors with :func:`log_loss`,
:func:`brier`, :func:`calibration_error` and :func:`reliability`; workers with :func:`confusion_error`,
:func:`skill_error` and :func:`skill_rank_correlation`. :func:`skill`, :func:`information`, :func:`capacity` and
:func:`spammer_score` summarize a confusion matrix in one number per worker; :func:`worth` gives the first three with
standard errors, and :func:`dominance` checks whether classes can be identified. :func:`detection` compares workers
that an audit flagged with known ones. :func:`f_divergence` and :func:`f_information` compare distributions,
:func:`anchor_points` finds samples of certain class.
:func:`match_gold` aligns known answers with tasks. Scores of items are compared with :func:`kendall` and
:func:`spearman`, and what a model expects of comparisons with :func:`comparison_log_loss`. Numbers are
compared by :func:`rmse`, :func:`mae` and :func:`correlation`, their intervals by :func:`coverage`. Texts are
compared by :func:`word_error_rate` and :func:`character_error_rate`, masks by
:func:`mask_iou` and :func:`mask_dice`, boxes by :func:`box_scores` and :func:`box_iou`, spans by :func:`span_scores`,
sets of labels by :func:`set_scores`, clusters by :func:`adjusted_rand`.

Shapes: N tasks, M workers, K classes. Confusion matrices are ``confusion[worker, true, observed]``.
Nothing here changes its input.
"""

from typing import TYPE_CHECKING, Any

from manyhands.metrics.anchors import AnchorPoints, anchor_points
from manyhands.metrics.detection import Detection, detection
from manyhands.metrics.divergences import f_divergence, f_information
from manyhands.metrics.labels import accuracy, balanced_accuracy
from manyhands.metrics.matching import match_gold
from manyhands.metrics.probabilities import Reliability, brier, calibration_error, log_loss, reliability
from manyhands.metrics.workers import (
    Worth,
    capacity,
    confusion_error,
    dominance,
    information,
    skill,
    skill_error,
    skill_rank_correlation,
    spammer_score,
    worth,
)

if TYPE_CHECKING:
    # For editors and type checkers; at run time `__getattr__` imports them.
    from manyhands.boxes.metrics import BoxScores as BoxScores
    from manyhands.boxes.metrics import box_iou as box_iou
    from manyhands.boxes.metrics import box_scores as box_scores
    from manyhands.clustering.metrics import adjusted_rand as adjusted_rand
    from manyhands.masks.metrics import mask_dice as mask_dice
    from manyhands.masks.metrics import mask_iou as mask_iou
    from manyhands.multilabel.metrics import SetScores as SetScores
    from manyhands.multilabel.metrics import set_scores as set_scores
    from manyhands.numeric.metrics import correlation as correlation
    from manyhands.numeric.metrics import coverage as coverage
    from manyhands.numeric.metrics import mae as mae
    from manyhands.numeric.metrics import rmse as rmse
    from manyhands.ordinal.metrics import absolute_error as absolute_error
    from manyhands.ordinal.metrics import quadratic_kappa as quadratic_kappa
    from manyhands.pairwise.metrics import comparison_log_loss as comparison_log_loss
    from manyhands.pairwise.metrics import kendall as kendall
    from manyhands.pairwise.metrics import spearman as spearman
    from manyhands.sequences.metrics import SpanScores as SpanScores
    from manyhands.sequences.metrics import span_scores as span_scores
    from manyhands.texts.metrics import character_error_rate as character_error_rate
    from manyhands.texts.metrics import word_error_rate as word_error_rate

__all__ = [
    "AnchorPoints",
    "BoxScores",
    "Detection",
    "Reliability",
    "SetScores",
    "SpanScores",
    "Worth",
    "absolute_error",
    "accuracy",
    "adjusted_rand",
    "anchor_points",
    "balanced_accuracy",
    "box_iou",
    "box_scores",
    "brier",
    "calibration_error",
    "capacity",
    "character_error_rate",
    "comparison_log_loss",
    "confusion_error",
    "correlation",
    "coverage",
    "detection",
    "dominance",
    "f_divergence",
    "f_information",
    "information",
    "kendall",
    "log_loss",
    "mae",
    "mask_dice",
    "mask_iou",
    "match_gold",
    "quadratic_kappa",
    "reliability",
    "rmse",
    "set_scores",
    "skill",
    "skill_error",
    "skill_rank_correlation",
    "spammer_score",
    "span_scores",
    "spearman",
    "word_error_rate",
    "worth",
]

# Metrics of other kinds live with their kind, which imports this package; so they are imported when asked for.
_OF_KINDS = {
    "BoxScores": "manyhands.boxes.metrics",
    "SetScores": "manyhands.multilabel.metrics",
    "SpanScores": "manyhands.sequences.metrics",
    "absolute_error": "manyhands.ordinal.metrics",
    "adjusted_rand": "manyhands.clustering.metrics",
    "box_iou": "manyhands.boxes.metrics",
    "box_scores": "manyhands.boxes.metrics",
    "character_error_rate": "manyhands.texts.metrics",
    "comparison_log_loss": "manyhands.pairwise.metrics",
    "correlation": "manyhands.numeric.metrics",
    "coverage": "manyhands.numeric.metrics",
    "kendall": "manyhands.pairwise.metrics",
    "mae": "manyhands.numeric.metrics",
    "mask_dice": "manyhands.masks.metrics",
    "mask_iou": "manyhands.masks.metrics",
    "quadratic_kappa": "manyhands.ordinal.metrics",
    "rmse": "manyhands.numeric.metrics",
    "set_scores": "manyhands.multilabel.metrics",
    "span_scores": "manyhands.sequences.metrics",
    "spearman": "manyhands.pairwise.metrics",
    "word_error_rate": "manyhands.texts.metrics",
}


def __getattr__(name: str) -> Any:
    if name in _OF_KINDS:
        from importlib import import_module

        return getattr(import_module(_OF_KINDS[name]), name)
    raise AttributeError(f"module 'manyhands.metrics' has no attribute {name!r}")
