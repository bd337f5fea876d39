"""Pictures, drawn with Matplotlib (the extra ``plot``), which is imported when the first is asked for.

Of a fitted model: :func:`confusion` (of several: :func:`confusions`), :func:`workers`, :func:`reliability`,
:func:`history`. Of a log: :func:`agreement` of workers two by two, :func:`budget` for what fewer labels would do. Of
teams that defer: :func:`coverage` and :func:`workload`. Of labels bought: :func:`replay`; of groups that fare
differently: :func:`gaps`.

Each draws into `ax`, axes of Matplotlib, or into new ones, and returns them: set titles, colors and files as usual.
"""

from manyhands.plots.collecting import gaps, replay
from manyhands.plots.crowds import agreement, budget, confusion, confusions, history, reliability, workers
from manyhands.plots.teams import coverage, workload

__all__ = [
    "agreement",
    "budget",
    "confusion",
    "confusions",
    "coverage",
    "gaps",
    "history",
    "reliability",
    "replay",
    "workers",
    "workload",
]
