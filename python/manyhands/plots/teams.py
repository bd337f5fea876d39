"""Pictures of teams of people and classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from manyhands._base.checks import preview
from manyhands.defer import Curve, DeferralReport
from manyhands.plots._look import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def coverage(curves: Curve | Mapping[str, Curve], *, ax: Axes | None = None) -> Axes:
    """Accuracy of a team against the share of cases its classifier answers, a line for each curve.

    Parameters
    ----------
    curves
        What :func:`manyhands.defer.coverage_accuracy` returns, or several of them by name; the legend gives the area
        under each (AUC-CAC).
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> curve = mh.defer.Curve(coverage=[0, 0.5, 1], accuracy=[0.9, 0.88, 0.7])
    >>> ax = mh.plots.coverage({"gate": curve})  # ax.figure.savefig("coverage.png")
    >>> ax.get_legend().get_texts()[0].get_text()
    'gate (0.840)'
    """
    by_label = {"": curves} if isinstance(curves, Curve) else dict(curves)
    if not by_label:
        raise ValueError("no curve to draw: pass one, or a mapping from names to curves")
    wrong = [name for name, curve in by_label.items() if not isinstance(curve, Curve)]
    if wrong:
        raise TypeError(f"curves come from manyhands.defer.coverage_accuracy; what is named {preview(wrong)} did not")
    ax = axes(ax)
    for name, curve in by_label.items():
        label = f"{name} ({curve.area:.3f})" if name else f"area {curve.area:.3f}"
        ax.plot(curve.coverage, curve.accuracy, marker=".", label=label)
    ax.set(xlabel="coverage: share of cases the classifier answers", ylabel="accuracy of the team", xlim=(0, 1))
    ax.legend()
    return ax


def workload(report: DeferralReport, *, ax: Axes | None = None) -> Axes:
    """Share of the cases that each option answers, a bar each, with the bounds it was to keep.

    Parameters
    ----------
    report
        What :func:`manyhands.defer.deferral_report` returns.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> report = mh.defer.deferral_report([0, 1, 1, 1], [[1, 0], [1, 1], [1, 0], [0, 1]], upper=[0.5, 1.0])
    >>> ax = mh.plots.workload(report)
    >>> [float(bar.get_width()) for bar in ax.patches]
    [0.25, 0.75]
    """
    if not isinstance(report, DeferralReport):
        raise TypeError(f"report comes from manyhands.defer.deferral_report, not {type(report).__name__}")
    ax = axes(ax)
    at = np.arange(len(report.options))
    ax.barh(at, report.shares)
    middle = (report.lower + report.upper) / 2
    ax.errorbar(middle, at, xerr=middle - report.lower, fmt="none", ecolor="black", capsize=4, label="bounds")
    ax.set_yticks(at, report.options)
    ax.set(xlabel="share of the cases", ylim=(len(at) - 0.5, -0.5))
    ax.legend()
    return ax
