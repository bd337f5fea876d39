"""Pictures of what labels cost, and of how groups fare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from manyhands._base.checks import preview
from manyhands.collect import Replay
from manyhands.fairness import Gaps
from manyhands.plots._look import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def replay(runs: Replay | Mapping[str, Replay], *, ax: Axes | None = None) -> Axes:
    """Accuracy against labels bought, a line for each policy, with a band of one deviation where there are seeds.

    Parameters
    ----------
    runs
        What :func:`manyhands.collect.replay` returns, or several of them by name. The dashed line is the accuracy that
        all of the log gives.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> run = mh.collect.Replay("entropy", np.array([10, 20]), np.array([[0.7, 0.8]]), whole=0.85)
    >>> mh.plots.replay(run).get_legend().get_texts()[0].get_text()
    'entropy'
    """
    replays = {runs.policy: runs} if isinstance(runs, Replay) else dict(runs)
    wrong = [name for name, run in replays.items() if not isinstance(run, Replay)]
    if wrong or not replays:
        raise TypeError(f"runs come from manyhands.collect.replay; what is named {preview(wrong)} did not")
    ax = axes(ax)
    for name, run in replays.items():
        mean, spread = (run.curve.column(column).to_numpy() for column in ("accuracy", "deviation"))
        (line,) = ax.plot(run.labels, mean, marker=".", label=name)
        if spread.any():
            ax.fill_between(run.labels, mean - spread, mean + spread, color=line.get_color(), alpha=0.2)
    ax.axhline(max(run.whole for run in replays.values()), linestyle="--", color="grey", linewidth=1)
    ax.set(xlabel="labels bought", ylabel="accuracy")
    ax.legend()
    return ax


def gaps(found: Gaps, *, ax: Axes | None = None) -> Axes:
    """Gaps of the aggregate, and of predictions where there are some, with their intervals.

    Parameters
    ----------
    found
        What :func:`manyhands.fairness.gaps` returns.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.
    """
    ax = axes(ax)
    parts = {"aggregate": found.aggregate} | ({} if found.predictions is None else {"predictions": found.predictions})
    for shift, (name, measures) in enumerate(parts.items()):
        gap, low, high = (
            np.array([getattr(one, what) for one in measures.values()]) for what in ("gap", "low", "high")
        )
        # An interval of draws need not hold the gap of the counts.
        away = np.maximum([gap - low, high - gap], 0.0)
        ax.errorbar(gap, np.arange(len(gap)) + 0.2 * shift, xerr=away, fmt="o", capsize=3, label=name)
    ax.set_yticks(range(len(found.aggregate)), [name.replace("_", " ") for name in found.aggregate])
    ax.axvline(0, color="grey", linewidth=1)
    ax.set(xlabel=f"gap between {', '.join(map(str, found.groups))}")
    ax.legend()
    return ax
