"""Who is in the crowd: workers whose answers say nothing, or say what they agreed on, found and named.

Each function returns a :class:`Finding`: the workers that were found, the evidence on every worker, and what could not
be told. :meth:`manyhands.Annotations.without` takes it and leaves the annotations of these workers out.
"""

from manyhands.audit.colluders import Collusion, colluders
from manyhands.audit.result import Finding
from manyhands.audit.spammers import spammers
from manyhands.audit.worth import Worth, worth

__all__ = ["Collusion", "Finding", "Worth", "colluders", "spammers", "worth"]
