"""Who is in the crowd: workers whose answers say nothing, or say what they agreed on, found and named.

Each function returns a :class:`Finding`: the workers that were found, the evidence on every worker, and what could not
be told. :meth:`manyhands.Annotations.without` takes it and leaves the annotations of these workers out.
"""

from manyhands.audit.colluders import Collusion, colluders
from manyhands.audit.copies import Copies, copies
from manyhands.audit.dependence import Dependence, dependence
from manyhands.audit.drift import drift
from manyhands.audit.groups import Groups, groups
from manyhands.audit.result import Finding
from manyhands.audit.review import Review, review
from manyhands.audit.spammers import spammers
from manyhands.audit.worth import Worth, worth

__all__ = [
    "Collusion",
    "Copies",
    "Dependence",
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
