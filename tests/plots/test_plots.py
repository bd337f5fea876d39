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
    assert ax.get_xlabel() == "share of the cases"
    assert ax.get_ylim() == (2.5, -0.5)  # the first option on top
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
        (lambda: mh.plots.coverage({}), ValueError, "curve"),
        (lambda: mh.plots.coverage({"a": [1, 2]}), TypeError, "'a'"),
        (lambda: mh.plots.workload([0.5, 0.5]), TypeError, "manyhands.defer.deferral_report"),
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


# ------------------------------------------------------------------------------------------------------- crowds

RATINGS = mh.Ratings.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], [0.5, 1.5, 2.5, 2.0])
CROWD = mh.simulate(150, 8, 3, labels_per_task=4, ids="str", seed=1)
GOLD = (CROWD.log.tasks, CROWD.truth)
MODEL = mh.DawidSkene().fit(CROWD.log)


def test_confusion_matrices_are_those_of_the_model():
    worker = CROWD.log.workers[2]
    ax = mh.plots.confusion(MODEL, worker)
    np.testing.assert_array_equal(ax.images[0].get_array(), MODEL.confusion_[2])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == MODEL.classes_.tolist()
    assert {text.get_text() for text in ax.texts} == {f"{value:.2f}" for value in MODEL.confusion_[2].ravel()}
    given = MODEL.workers_frame().column("n_answers").to_numpy()
    mean = (MODEL.confusion_ * given[:, None, None]).sum(axis=0) / given.sum()
    np.testing.assert_allclose(mh.plots.confusion(MODEL).images[0].get_array(), mean)


def test_labels_that_are_never_true_have_a_column():
    votes = mh.Annotations.from_dense([["a", "a", "?"], ["b", "b", "?"], ["a", "b", "b"]], abstain="?")
    model = mh.DawidSkene().fit(votes)
    ax = mh.plots.confusion(model)
    assert ax.images[0].get_array().shape == model.confusion_.shape[1:]
    assert ax.get_xticklabels()[-1].get_text() == ("abstained" if model.confusion_.shape[2] == 3 else "b")


def test_long_names_of_classes_are_turned():
    said, turned = [[0, 0], [1, 1]], [["short", "short"], ["longer", "longer"]]
    angles = [
        {tick.get_rotation() for tick in mh.plots.confusion(mh.DawidSkene().fit(votes)).get_xticklabels()}
        for votes in (mh.Annotations.from_dense(said), mh.Annotations.from_dense(turned))
    ]
    assert angles == [{0.0}, {45.0}]


def test_workers_by_skill_and_work():
    frame = mh.aggregate(CROWD.log).workers_frame()
    ax = mh.plots.workers(mh.aggregate(CROWD.log))
    points = ax.lines[0]
    assert points.get_xdata().tolist() == frame.column("n_answers").to_pylist()
    assert points.get_ydata().tolist() == frame.column("skill").to_pylist()
    assert len(ax.collections[0].get_segments()) == CROWD.log.n_workers  # their errors
    assert mh.plots.workers(MODEL, measure="spammer_score").get_ylabel() == "spammer score"
    assert mh.plots.workers(mh.aggregate(RATINGS)).get_ylabel() == "skill"


def test_reliability_is_that_of_the_metrics():
    found = mh.metrics.reliability(MODEL.posterior_, CROWD.truth, classes=MODEL.classes_, bins=5)
    ax = mh.plots.reliability({"em": MODEL, "vote": mh.MajorityVote().fit(CROWD.log)}, GOLD, bins=5)
    _, line, _ = ax.lines
    np.testing.assert_allclose(line.get_ydata(), found.accuracy[found.count > 0])
    np.testing.assert_allclose(line.get_xdata(), found.confidence[found.count > 0])
    error = mh.metrics.calibration_error(MODEL.posterior_, CROWD.truth, classes=MODEL.classes_, bins=5)
    assert f"em ({error:.3f})" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_histories():
    ax = mh.plots.history({"em": MODEL, "one": mh.DawidSkene(model="one-coin").fit(CROWD.log)})
    assert ax.lines[0].get_ydata().tolist() == MODEL.history_.tolist()
    assert ax.lines[0].get_xdata().tolist() == list(range(MODEL.n_iter_ + 1))
    assert mh.plots.history(MODEL).get_legend() is None


def test_epochs_of_learners():
    pytest.importorskip("torch")
    import torch

    votes = mh.simulate(40, 5, 3, seed=1).log
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    learner = mh.learn.CrowdLayer(torch.nn.Linear(4, 3), max_epochs=2, seed=0).fit(x, votes)
    ax = mh.plots.history(learner)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epoch", "loss")
    assert ax.lines[0].get_ydata().tolist() == learner.history_["loss"].tolist()
    assert mh.plots.confusion(learner).images
    with pytest.raises(ValueError, match="name"):
        mh.plots.history(learner, name="magic")


def test_workers_who_agree_stand_together():
    rng = np.random.default_rng(0)
    camps = rng.integers(0, 2, (2, 60))
    said = np.array([camps[worker % 2] ^ (rng.random(60) < 0.05) for worker in range(6)]).T
    votes = mh.Annotations.from_dense(said)
    ax = mh.plots.agreement(votes)
    order = [int(tick.get_text()) for tick in ax.get_xticklabels()]
    assert [worker % 2 for worker in order] in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    shown = ax.images[0].get_array()
    table = mh.agreement.pairwise(votes).to_pylist()
    for row in table:
        at = order.index(row["worker"]), order.index(row["other"])
        assert shown[at] == shown[at[::-1]] == row["agreement"]
    assert shown.mask.diagonal().all()


def test_budgets_keep_so_many_labels_of_each_task():
    models = {"vote": mh.MajorityVote(), "em": MODEL}
    ax = mh.plots.budget(models, CROWD.log, GOLD, per_task=[1, 2, 4], repeats=2)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 4]
    full = mh.metrics.accuracy(mh.MajorityVote().fit(CROWD.log).labels_, CROWD.truth)
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(full)  # all labels, whatever was drawn
    assert ax.lines[0].get_ydata()[0] < full
    assert [band.get_linewidth().tolist() for band in ax.collections] == [[0.0], [0.0]]  # shades without borders
    again = mh.plots.budget(models, CROWD.log, GOLD, per_task=[1, 2, 4], repeats=2)
    assert again.lines[1].get_ydata().tolist() == ax.lines[1].get_ydata().tolist()
    assert mh.plots.budget(mh.MajorityVote(), CROWD.log, GOLD, repeats=1).lines[0].get_xdata().tolist() == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mh.plots.confusion(mh.DawidSkene()), mh.errors.NotFittedError, "fit"),
        (lambda: mh.plots.confusion(MODEL, "nobody"), KeyError, "no worker 'nobody'"),
        (lambda: mh.plots.confusion(mh.aggregate(RATINGS)), TypeError, "confusion"),
        (lambda: mh.plots.reliability(mh.aggregate(RATINGS), GOLD), TypeError, "probabilities"),
        (lambda: mh.plots.reliability({}, GOLD), ValueError, "model"),
        (lambda: mh.plots.workers(CROWD.log), TypeError, "workers"),
        (lambda: mh.plots.workers(MODEL, measure="magic"), ValueError, "measure"),
        (lambda: mh.plots.history(mh.MajorityVote().fit(CROWD.log)), ValueError, "objective"),
        (lambda: mh.plots.history(MODEL, name="loss"), ValueError, "for learners"),
        (lambda: mh.plots.agreement(CROWD.log, min_overlap=10**6), ValueError, "workers"),
        (lambda: mh.plots.budget(CROWD, CROWD.log, GOLD), TypeError, "CategoricalSimulation"),
        (lambda: mh.plots.budget(MODEL, CROWD.log, GOLD, per_task=[0]), ValueError, "numbers"),
    ],
)
def test_what_cannot_be_drawn(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_too_many_workers_for_a_matrix():
    n = 600
    votes = mh.Annotations.from_arrays(np.repeat([0, 1], n), np.tile(np.arange(n), 2), np.zeros(2 * n, int))
    with pytest.raises(ValueError, match=r"show.*500"):
        mh.plots.agreement(votes)


def test_all_pictures_have_one_look(tmp_path):
    drawn = [
        mh.plots.confusion(MODEL),
        mh.plots.workers(MODEL),
        mh.plots.reliability(MODEL, GOLD),
        mh.plots.history(MODEL),
        mh.plots.agreement(CROWD.log),
        mh.plots.coverage(CURVE),
    ]
    for number, ax in enumerate(drawn):
        width, height = ax.figure.get_size_inches()
        assert 5 <= width <= 6 and 4 <= height <= 5  # noqa: PT018  a size
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        ax.figure.savefig(tmp_path / f"{number}.png")


def test_curves_of_replays_with_their_bands():
    run = mh.collect.Replay("entropy", np.array([10, 20]), np.array([[0.7, 0.8], [0.8, 0.9]]), whole=0.95)
    ax = mh.plots.replay({"chosen": run})
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([0.75, 0.85])
    assert ax.lines[1].get_ydata()[0] == 0.95
    assert len(ax.collections) == 1
    with pytest.raises(TypeError, match="replay"):
        mh.plots.replay({"wrong": CURVE})


def test_gaps_with_their_intervals():
    crowd = mh.simulate(100, 5, 2, labels_per_task=3, seed=0)
    gold = (crowd.log.tasks, crowd.truth)
    found = mh.fairness.gaps(crowd.log, gold, attribute=[0, 1] * 50, predictions=gold, workers=False)
    ax = mh.plots.gaps(found)
    assert ax.get_yticklabels()[0].get_text() == "demographic parity"
    assert ax.lines[0].get_xdata().tolist() == [gap.gap for gap in found.aggregate.values()]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["aggregate", "predictions"]
