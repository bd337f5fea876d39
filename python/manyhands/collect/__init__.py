"""Choose which label to buy next, from which worker, and when to stop.

:func:`next_labels` chooses a batch of tasks, and workers where they may be chosen; :func:`stopping` finds those that
need no more; :func:`labels_needed` estimates how many labels an accuracy would take; a :class:`Campaign` requests and
takes answers, label by label; :func:`replay` shows what a policy would have cost on a log that is there.
:func:`promise` keeps the answers that can be delivered at a tested error rate, and plans the rest.
"""

from manyhands.collect.batch import next_labels
from manyhands.collect.campaign import Campaign
from manyhands.collect.decisions import Request
from manyhands.collect.guarantee import Promise, promise
from manyhands.collect.needed import LabelsNeeded, labels_needed
from manyhands.collect.replay import Replay, replay
from manyhands.collect.stop import Stopping, stopping

__all__ = [
    "Campaign",
    "LabelsNeeded",
    "Promise",
    "Replay",
    "Request",
    "Stopping",
    "labels_needed",
    "next_labels",
    "promise",
    "replay",
    "stopping",
]
