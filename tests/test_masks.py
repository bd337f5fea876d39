"""Masks: tables in all forms, votes and STAPLE against plain twins, properties, recovery."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from draws import SEEDS
from manyhands import _core
from manyhands.masks.base import packed_runs
from manyhands.table.regions import Runs, crosses_itself, filled, from_polygons, from_rle, runs_of, to_rle
from manyhands.testing import checks_of, common
from manyhands.testing import masks as of_masks
from oracles import masks as twin

SQUARE = np.zeros((4, 5), bool)
SQUARE[1:3, 1:4] = True
METHODS = [
    mh.masks.ShapeCrowd(),
    mh.masks.STAPLE(),
    mh.masks.STAPLE(asymmetry=1.0, smoothness=0.5),
    mh.masks.MaskVote(),
]


def drawn(seed: int, n_classes: int = 2, n_tasks: int = 3, n_workers: int = 4, shape: tuple[int, int] = (5, 6)):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=(n_tasks, *shape))
    rows = [(task, worker) for task in range(n_tasks) for worker in range(n_workers)]
    arrays = [np.where(rng.random(shape) < 0.3, rng.integers(n_classes, size=shape), truth[task]) for task, _ in rows]
    return [task for task, _ in rows], [worker for _, worker in rows], arrays


def test_all_forms_give_the_same_table(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    masks = mh.Masks.from_arrays(["a", "a"], ["u", "v"], [SQUARE, ~SQUARE])
    frame = masks.to_frame()
    frame.to_pandas().to_csv(tmp_path / "log.csv", index=False)
    masks.save(tmp_path / "masks.mh")
    rles = [json.loads(text) for text in frame.column("mask").to_pylist()]
    for other in (
        mh.Masks.from_frame(frame),
        mh.Masks.from_frame(pd.DataFrame({"task": ["a", "a"], "worker": ["v", "u"], "mask": [~SQUARE, SQUARE]})),
        mh.Masks.from_arrays(["a", "a"], ["u", "v"], (mask for mask in (SQUARE, ~SQUARE))),
        mh.Masks.from_arrays(["a", "a"], ["u", "v"], rles),
        mh.read(tmp_path / "log.csv", kind="masks"),
        pickle.loads(pickle.dumps(masks)),
        mh.load(tmp_path / "masks.mh"),
    ):
        assert other == masks
    assert repr(masks) == "<Masks: 2 masks of 1 task by 2 workers, 2 classes>"
    assert masks.describe().pixels.max == 14
    part = masks.select(workers=["v"])
    np.testing.assert_array_equal(part.mask(0), ~SQUARE)
    assert part != masks


def test_run_lengths_are_those_of_coco() -> None:
    assert to_rle(runs_of(SQUARE, ""), SQUARE.shape) == {"size": [4, 5], "counts": [5, 2, 2, 2, 2, 2, 5]}
    np.testing.assert_array_equal(from_rle({"size": [4, 5], "counts": "5220003"}, "it"), SQUARE)
    for bad, told in (
        ({"size": [4, 5], "counts": [3]}, "runs of 3 pixels in all"),
        ({"size": [4, 5], "counts": "~"}, "no run-lengths of COCO"),
        ("{", "no JSON"),
    ):
        with pytest.raises(ValueError, match=told):
            from_rle(bad, "it")


@given(SEEDS, st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_runs_are_the_mask(seed: int, n_classes: int) -> None:
    mask = np.random.default_rng(seed).integers(n_classes, size=(4, 7))
    runs = runs_of(mask, "it")
    np.testing.assert_array_equal(filled(runs, mask.shape, np.uint16), mask)
    np.testing.assert_array_equal(from_rle(to_rle(runs, mask.shape), "it"), mask)
    assert Runs.joined([runs]).sizes().tolist() == [int((mask > 0).sum())]


def test_polygons_hold_the_pixels_whose_centres_they_do() -> None:
    np.testing.assert_array_equal(from_polygons([[1, 1, 4, 1, 4, 3, 1, 3]], (4, 5), "it"), SQUARE)
    ring = from_polygons([[0, 0, 5, 0, 5, 4, 0, 4], [1, 1, 4, 1, 4, 3, 1, 3]], (4, 5), "it")
    np.testing.assert_array_equal(ring, ~SQUARE)
    y, x = np.mgrid[:20, :20] + 0.5
    triangle = from_polygons([[2.2, 3.1, 17.7, 6.3, 8.4, 18.9]], (20, 20), "it")
    corners = np.array([[2.2, 3.1], [17.7, 6.3], [8.4, 18.9]])
    sides = [
        (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) > 0
        for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    np.testing.assert_array_equal(triangle, np.all(sides, axis=0))
    assert crosses_itself(corners) is None
    with pytest.raises(ValueError, match="row 0 has a polygon that crosses itself at its sides 0 and 2"):
        mh.Masks.from_polygons([1], ["u"], [[[0, 0, 3, 3, 3, 0, 0, 3]]], (4, 4))
    with pytest.raises(ValueError, match="polygon of 2 points"):
        mh.Masks.from_polygons([1], ["u"], [[[0, 0, 3, 3]]], (4, 4))


@pytest.mark.parametrize(
    ("masks", "error", "told"),
    [
        ([SQUARE, SQUARE.T], ValueError, r"masks of task 'a' have shapes"),
        ([SQUARE, SQUARE * 0.5], ValueError, r"row 1 holds 0.5 at \(1, 1\)"),
        ([SQUARE, np.full((4, 5), np.nan)], ValueError, "row 1 holds nan"),
        ([SQUARE, np.full((4, 5), -1)], ValueError, "row 1 holds classes from -1 to -1"),
        ([SQUARE, np.full((4, 5), "x")], TypeError, "row 1 is an array of"),
        ([SQUARE, np.zeros(4)], ValueError, r"row 1 has shape \(4,\)"),
        ([SQUARE, np.zeros((0, 3))], ValueError, r"row 1 has shape \(0, 3\)"),
    ],
)
def test_bad_masks_are_named(masks: list, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        mh.Masks.from_arrays(["a", "a"], ["u", "v"], masks)


def test_a_missing_mask_is_set_aside_and_an_empty_one_is_not() -> None:
    with pytest.warns(mh.DataWarning, match="1 row"):
        masks = mh.Masks.from_arrays(["a", "b"], ["u", "u"], [np.zeros((2, 2)), None])
    assert (masks.n_tasks, masks.unlabelled.tolist(), masks.describe().n_empty) == (1, ["b"], 1)


# -------------------------------------------------------------------------------------------------- aggregators


@given(SEEDS, st.integers(2, 3))
@settings(deadline=None, max_examples=15)
def test_methods_match_their_twins(seed: int, n_classes: int) -> None:
    tasks, workers, arrays = drawn(seed, n_classes)
    masks = mh.Masks.from_arrays(tasks, workers, arrays)
    images = [np.stack(arrays[4 * task : 4 * task + 4]) for task in range(3)]
    for found, wanted in zip(mh.masks.MaskVote().fit(masks).masks_, images, strict=True):
        np.testing.assert_array_equal(found, twin.vote(wanted, masks.n_classes))
    for strength in (0.7, None):
        model = mh.masks.STAPLE(max_iter=3, tol=0.0, asymmetry=0.4, strength=strength)
        model.fit(masks)
        truth, recall = twin.staple(images, masks.n_classes, asymmetry=0.4, strength=strength, passes=3)
        np.testing.assert_allclose(model.recall_, recall, atol=1e-12)
        for found, wanted in zip(model.masks_, truth, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{model!r}-{name}")
        for model in METHODS
        for name, check in checks_of(of_masks.subject_of(model, {}), (*common.CHECKS, *of_masks.CHECKS))
    ],
)
def test_check_list(name: str, check) -> None:
    check()


def test_careless_and_loose_workers_are_told_apart() -> None:
    crowd = mh.simulate_masks(40, size=48, good=4, loose=2, tight=2, careless=2, seed=2)
    model = mh.masks.STAPLE().fit(crowd.masks)
    rates = {
        kind: (model.sensitivity_[crowd.kinds == kind].mean(), model.specificity_[crowd.kinds == kind].mean())
        for kind in ("good", "loose", "tight", "careless")
    }
    assert min(rates["good"]) > max(min(rates[kind]) for kind in ("loose", "tight", "careless"))
    assert rates["loose"][0] > rates["loose"][1]
    assert rates["tight"][0] < rates["tight"][1]
    vote = mh.masks.MaskVote().fit(crowd.masks)
    ours, theirs = (mh.metrics.mask_iou(one.masks_, crowd.truth) for one in (model, vote))
    assert ours > theirs
    assert ours > 0.9


@given(SEEDS)
@settings(deadline=None, max_examples=15)
def test_kernels_match_their_twins(seed: int) -> None:
    tasks, workers, arrays = drawn(seed, 3)
    masks = mh.Masks.from_arrays(tasks, workers, arrays)
    found = _core.mask_columns(packed_runs(masks))
    like = _core.shape_likeness(packed_runs(masks), most=0.8)
    said, at, pairs = found["said"], 0, 0
    for task in range(3):
        image = np.stack(arrays[4 * task : 4 * task + 4])
        known, places = twin.columns(image)
        part = slice(*found["column_starts"][task : task + 2])
        np.testing.assert_array_equal(said[at : at + known.size].reshape(known.shape), known)
        np.testing.assert_array_equal(found["pixels"][part], np.bincount(places))
        stretches = slice(*found["stretch_starts"][task : task + 2])
        ends = found["ends"][stretches]
        assert np.repeat(found["columns"][stretches], np.diff(ends, prepend=0)).tolist() == places
        far = np.concatenate([twin.distances(image, c, 0.8) for c in np.unique(image[image > 0])], axis=1)
        rows = slice(4 * task, 4 * task + 4)
        np.testing.assert_allclose(like["means"][rows], far.mean(axis=1), atol=1e-6)
        np.testing.assert_allclose(
            like["products"][pairs : pairs + 16].reshape(4, 4), far @ far.T / far.shape[1], atol=1e-6
        )
        middle = np.median(far, axis=0)
        np.testing.assert_allclose(like["spread"][rows], ((far - middle) ** 2).mean(axis=1), atol=1e-6)
        np.testing.assert_allclose(like["middle"][task], middle.mean(), atol=1e-6)
        assert like["disputed"][task] == (image != image[0]).any(axis=0).sum()
        assert like["marked"][task] == (image > 0).any(axis=0).sum()
        at, pairs = at + known.size, pairs + 16


@pytest.mark.parametrize("seed", [1, 2])
def test_shapes_match_their_twin(seed: int) -> None:
    crowd = mh.simulate_masks(4, size=20, good=3, loose=1, tight=0, careless=1, seed=seed)
    images = [np.stack([crowd.masks.mask(5 * task + row) for row in range(5)]).astype(int) for task in range(4)]
    model = mh.masks.ShapeCrowd(reach=0.4, max_iter=4, tol=0.0)
    model.fit(crowd.masks)
    truth, bias, noise, sure = twin.shapes(images, reach=0.4, strength=2.0, passes=4)
    for found, wanted in ((model.bias_, bias), (model.noise_, noise), (model.reliability_, sure)):
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    for found, wanted in zip(model.masks_, truth, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sizes", [(4, 3, 2, 1), (5, 5, 0, 0), (2, 3, 2, 3), (3, 0, 2, 5), (3, 0, 0, 0)])
def test_mean_outlines_are_above_votes(sizes: tuple[int, ...]) -> None:
    counts = dict(zip(("good", "loose", "tight", "careless"), sizes, strict=True))
    crowd = mh.simulate_masks(20, size=64, seed=3, **counts)
    model = mh.aggregate(crowd.masks)
    assert isinstance(model, mh.masks.ShapeCrowd)
    ours = mh.metrics.mask_iou(model.masks_, crowd.truth)
    for other in (mh.masks.MaskVote(), mh.masks.STAPLE()):
        assert ours > mh.metrics.mask_iou(other.fit(crowd.masks).masks_, crowd.truth)
    bias = {kind: model.bias_[crowd.kinds == kind].mean() for kind in ("good", "loose", "tight") if counts[kind]}
    assert abs(bias["good"]) < 0.06
    assert bias.get("tight", -1) < bias["good"] < bias.get("loose", 1)
    if counts["careless"]:
        assert model.reliability_[crowd.kinds == "good"].min() > model.reliability_[crowd.kinds == "careless"].max()


@given(SEEDS, st.integers(1, 5))
@settings(deadline=None, max_examples=10)
def test_margins_images_and_workers_change_nothing(seed: int, margin: int) -> None:
    crowd = mh.simulate_masks(4, size=16, careless=1, seed=seed % 1000)
    tasks, workers, _ = crowd.masks.table.columns()
    arrays = [crowd.masks.mask(row) for row in range(len(crowd.masks))]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(arrays))
    padded = [np.pad(arrays[row], margin) for row in order]
    renamed, images = rng.permutation(10), rng.permutation(4)
    one = mh.masks.ShapeCrowd(tol=1e-3).fit(crowd.masks)
    other = mh.masks.ShapeCrowd(tol=1e-3).fit(
        mh.Masks.from_arrays(images[tasks[order]], renamed[workers[order]], padded)
    )
    inner = (slice(margin, -margin),) * 2
    at = {task: place for place, task in enumerate(other.tasks_.tolist())}
    for task in range(4):
        np.testing.assert_array_equal(one.masks_[task], other.masks_[at[images[task]]][inner])
    who = {worker: place for place, worker in enumerate(other.workers_.tolist())}
    places = [who[worker] for worker in renamed.tolist()]
    np.testing.assert_allclose(one.bias_, other.bias_[places], atol=1e-6)


def test_smoothness_removes_specks() -> None:
    rng = np.random.default_rng(0)
    noisy = [SQUARE.repeat(5, 0).repeat(5, 1) ^ (rng.random((20, 25)) < 0.25) for _ in range(5)]
    masks = mh.Masks.from_arrays([0] * 5, range(5), noisy)
    truth = [SQUARE.repeat(5, 0).repeat(5, 1)]
    plain, smooth, learnt = (mh.masks.STAPLE(smoothness=s).fit(masks).masks_ for s in (0.0, 1.0, None))
    for each in (smooth, learnt):
        assert mh.metrics.mask_iou(each, truth) > mh.metrics.mask_iou(plain, truth) + 0.03


def test_who_marked_little_is_judged_like_the_crowd() -> None:
    crowd = mh.simulate_masks(30, size=32, good=4, loose=1, tight=1, careless=2, seed=4)
    tasks, workers, _ = crowd.masks.table.columns()
    # One of the careless has a single image.
    kept = np.flatnonzero((workers != 7) | (tasks == 0))
    arrays = [crowd.masks.mask(int(row)) for row in kept]
    model = mh.masks.STAPLE().fit(mh.Masks.from_arrays(tasks[kept], workers[kept], arrays))
    accuracy = np.array(model.workers_frame().column("accuracy").to_pylist())
    assert accuracy[6] < accuracy[7] < accuracy[:4].min()


def test_bad_settings_are_named() -> None:
    masks = mh.simulate_masks(2, size=8).masks
    for model, told in (
        (mh.masks.STAPLE(asymmetry=2), "asymmetry"),
        (mh.masks.STAPLE(strength=0), "strength"),
        (mh.masks.STAPLE(smoothness=-1), "smoothness"),
        (mh.masks.ShapeCrowd(reach=0), "reach"),
        (mh.masks.ShapeCrowd(strength=-1), "strength"),
    ):
        with pytest.raises(ValueError, match=told):
            model.fit(masks)
    with pytest.raises(ValueError, match="shapes"):
        mh.metrics.mask_iou([SQUARE], [SQUARE.T])


def test_classes_and_volumes() -> None:
    assert mh.metrics.mask_iou([[[0, 0]]], [[[0, 0]]]) == 1.0
    assert mh.metrics.mask_iou([[[1, 2]]], [[[1, 1]]]) == 0.25
    volume = np.zeros((3, 4, 5), int)
    volume[1, 1:3, 1:3] = 2
    masks = mh.Masks.from_arrays([0] * 3, range(3), [volume, volume, volume * 0])
    np.testing.assert_array_equal(mh.aggregate(masks).masks_[0], volume)
