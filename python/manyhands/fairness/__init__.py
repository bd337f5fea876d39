"""Whether groups fare alike, and answers and assignments for which they do.

:func:`gaps` measures; :func:`confusion` tells how workers err on each group; :func:`aggregate` answers with a stated
gap at the least loss; :func:`assign` shares tasks out so that no group is labelled much worse. Attributes are given,
never guessed.
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
