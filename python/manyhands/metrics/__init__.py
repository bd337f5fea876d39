"""Measures of labels, posteriors and estimated workers.

Labels are compared with :func:`accuracy` and :func:`balanced_accuracy`, those of ordered classes also with
:func:`absolute_error` and :func:`quadratic_kappa`; posteriors with :func:`log_loss`,
:func:`brier`, :func:`calibration_error` and :func:`reliability`; workers with :func:`confusion_error`,
:func:`skill_error` and :func:`skill_rank_correlation`. :func:`skill`, :func:`information`, :func:`capacity` and
:func:`spammer_score` sum a confusion matrix up in one number a worker; :func:`worth` gives the first three with
errors, and :func:`dominance` tells whether the crowd names each class by its name. :func:`match_gold` finds the
tasks whose truth is known. Scores of items are compared with :func:`kendall` and :func:`spearman`, and what a model
expects of comparisons with :func:`comparison_log_loss`. Numbers are
compared by :func:`rmse`, :func:`mae` and :func:`correlation`, their intervals by :func:`coverage`. Texts are
compared by :func:`word_error_rate` and :func:`character_error_rate`, masks by
:func:`mask_iou` and :func:`mask_dice`, boxes by :func:`box_scores` and :func:`box_iou`, spans by :func:`span_scores`,
sets of labels by :func:`set_scores`, clusters by :func:`adjusted_rand`.

Shapes: N tasks, M workers, K classes. Confusion matrices are ``confusion[worker, true, observed]``.
Nothing here changes its input.
"""

from manyhands.metrics.boxes import BoxScores, box_iou, box_scores
from manyhands.metrics.labels import accuracy, balanced_accuracy
from manyhands.metrics.matching import match_gold
from manyhands.metrics.numbers import correlation, coverage, mae, rmse
from manyhands.metrics.orders import absolute_error, quadratic_kappa
from manyhands.metrics.probabilities import Reliability, brier, calibration_error, log_loss, reliability
from manyhands.metrics.rankings import comparison_log_loss, kendall, spearman
from manyhands.metrics.regions import mask_dice, mask_iou
from manyhands.metrics.sets import SetScores, adjusted_rand, set_scores
from manyhands.metrics.spans import SpanScores, span_scores
from manyhands.metrics.texts import character_error_rate, word_error_rate
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

__all__ = [
    "BoxScores",
    "Reliability",
    "SetScores",
    "SpanScores",
    "Worth",
    "absolute_error",
    "accuracy",
    "adjusted_rand",
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
    "dominance",
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
