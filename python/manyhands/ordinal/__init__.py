"""Methods for classes that have an order, such as grades: near mistakes are likelier than far ones.

Tables with ``ordered=True`` are taken by :func:`manyhands.aggregate` with :class:`OrdinalConsensus`. Answers are
decided by expected loss, :func:`decide`: the most probable class, the median, or the class nearest to the mean.
"""

from manyhands.ordinal.consensus import OrdinalConsensus
from manyhands.ordinal.crowd import OrdinalCrowd
from manyhands.ordinal.cumulative import CumulativeDawidSkene
from manyhands.ordinal.decisions import DECISIONS, decide

__all__ = ["DECISIONS", "CumulativeDawidSkene", "OrdinalConsensus", "OrdinalCrowd", "decide"]
