"""Audit workers: quality, spammers, colluders, copies, factions and drift.

Each function returns a :class:`Finding`: the flagged workers, the evidence on every worker, and warnings about what the
log cannot show. Pass it to :meth:`manyhands.Annotations.without` to leave the flagged workers out.
"""

from manyhands.audit.colluders import Collusion, colluders
from manyhands.audit.copies import Copies, copies
from manyhands.audit.dependence import Dependence, dependence
from manyhands.audit.drift import drift
from manyhands.audit.effective import EffectiveNumber
from manyhands.audit.groups import Groups, groups
from manyhands.audit.result import Finding
from manyhands.audit.review import Review, review
from manyhands.audit.spammers import spammers
from manyhands.audit.worth import Worth, worth

__all__ = [
    "Collusion",
    "Copies",
    "Dependence",
    "EffectiveNumber",
    "Finding",
    "Groups",
    "Review",
    "Worth",
    "colluders",
    "copies",
    "dependence",
    "drift",
    "groups",
    "review",
    "spammers",
    "worth",
]
