"""Pictures show the numbers they were given."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import manyhands as mh

pytest.importorskip("matplotlib")

CURVE = mh.defer.Curve(np.array([0, 0.5, 1]), np.array([0.9, 0.88, 0.7]))


def test_a_line_for_each_curve_with_its_area():
    ax = mh.plots.coverage({"gate": CURVE, "other": mh.defer.Curve(CURVE.coverage, CURVE.accuracy - 0.1)})
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0.9, 0.88, 0.7], pytest.approx([0.8, 0.78, 0.6])]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["gate (0.840)", "other (0.740)"]


def test_one_curve_needs_no_name():
    assert mh.plots.coverage(CURVE).get_legend().get_texts()[0].get_text() == "area 0.840"


def test_bars_and_bounds_of_a_workload():
    correct = np.ones((4, 3))
    report = mh.defer.deferral_report([0, 2, 2, 1], correct, lower=[0, 0.1, 0.5], upper=[0.5, 0.2, 0.5])
    ax = mh.plots.workload(report)
    assert [bar.get_width() for bar in ax.patches] == report.shares.tolist()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == report.options
    ends = [[tuple(end) for end in part] for part in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends, [[(0, 0), (0.5, 0)], [(0.1, 1), (0.2, 1)], [(0.5, 2), (0.5, 2)]], atol=1e-12)


def test_pictures_go_into_the_axes_given(tmp_path):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert mh.plots.coverage(CURVE, ax=ax) is ax
    ax.figure.savefig(tmp_path / "coverage.png")
    assert (tmp_path / "coverage.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mh.plots.coverage({}), ValueError, "no curve to draw"),
        (lambda: mh.plots.coverage({"a": [1, 2]}), TypeError, "what is named 'a' did not"),
        (lambda: mh.plots.workload([0.5, 0.5]), TypeError, "comes from manyhands.defer.deferral_report, not list"),
    ],
)
def test_what_is_no_curve_and_no_report(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import manyhands as mh\n"
        "try: mh.plots.coverage(mh.defer.Curve([0, 1], [0.5, 0.5]))\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "manyhands[plot]" in done.stdout
