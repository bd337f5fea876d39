"""Whether groups fare alike, and answers and assignments for which they do.

:func:`gaps` measures; :func:`confusion` estimates each worker's confusion matrix per group; :func:`aggregate` keeps a
stated gap at the least loss; :func:`assign` distributes tasks so that no group is labeled much worse. Attributes are
given, never guessed.
"""

from manyhands.fairness.answers import FairAnswers, aggregate
from manyhands.fairness.assignment import FairAssignment, assign
from manyhands.fairness.conditioned import Conditioned, confusion
from manyhands.fairness.gaps import MEASURES, Gap, Gaps, gaps

__all__ = [
    "MEASURES",
    "Conditioned",
    "FairAnswers",
    "FairAssignment",
    "Gap",
    "Gaps",
    "aggregate",
    "assign",
    "confusion",
    "gaps",
]
