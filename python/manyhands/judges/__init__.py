"""Panels of LLM judges: scores with valid intervals from a few human labels, and what is wrong with each judge.

:func:`panel` measures a panel: the score of each system, differences, its effective number of judges, biases,
failures, and which items people should label next. :func:`replacement_test` asks if a judge may replace annotators.
"""

from manyhands.judges.estimates import Difference, Score
from manyhands.judges.panel import Panel, panel
from manyhands.judges.planning import NextLabels
from manyhands.judges.replacement import Replacement, replacement_test
from manyhands.judges.soft import SoftMeasures, soft_measures

__all__ = [
    "Difference",
    "NextLabels",
    "Panel",
    "Replacement",
    "Score",
    "SoftMeasures",
    "panel",
    "replacement_test",
    "soft_measures",
]
