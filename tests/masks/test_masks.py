"""Masks: tables in all forms, votes and STAPLE against plain twins, properties, recovery."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from draws import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from manyhands.masks import checks as of_masks
from manyhands.masks.base import packed_runs
from manyhands.masks.runs import MOST_CLASSES, ParsedMask, Runs, from_polygons, from_rle, runs_of, to_array, to_rle
from manyhands.testing import checks_of, common
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


def pixels(drawn: ParsedMask) -> np.ndarray:
    return to_array(drawn.runs, drawn.shape, 3)


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
    np.testing.assert_array_equal(pixels(from_rle({"size": [4, 5], "counts": "5220003"}, "it")), SQUARE)


def test_runs_alternate_and_the_first_is_background() -> None:
    for counts, wanted in (([0, 2, 1, 1], [1, 1, 0, 1]), ([1, 1, 1, 1], [0, 1, 0, 1])):
        np.testing.assert_array_equal(pixels(from_rle({"size": [4, 1], "counts": counts}, "it")).ravel(), wanted)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size": [4, 5], "counts": [3]}, "3 pixels"),
        ({"size": [4, 5], "counts": "~"}, "COCO.*character 0"),
        ({"size": [4, 5], "counts": "o"}, "COCO.*character 1"),
        ({"size": [-4, -5], "counts": [20]}, "size"),
        ({"size": ["4", 5], "counts": [20]}, "size"),
        ({"size": [4, 5], "counts": [25, -5]}, "counts"),
        ({"size": [4, 5], "counts": [9.5, 10.5]}, "counts"),
        ({"size": [4, 5], "counts": [9, 11], "values": [1]}, "1 values.*2"),
        ({"size": [4, 5], "counts": [9, 11], "values": [0, -1]}, "values"),
        ({"size": [1 << 30, 1 << 30], "counts": [3]}, "3 pixels"),
        (
            {"size": [(1 << 40) + 1, 1], "counts": [3]},
            "1.*1,099,511,627,776",
        ),
        ({"size": [1 << 40, 1], "counts": [3]}, "3 pixels"),
        (
            {"size": [1, 1], "counts": [(1 << 40) + 1]},
            "0.*1,099,511,627,776",
        ),
        ({"size": [1, 1], "counts": [1 << 40]}, "1,099,511,627,776 pixels"),
        ({"size": [1, 2], "counts": [1, 1], "values": [0, MOST_CLASSES]}, "values"),
        ({"size": [1, 1], "counts": [1, 1], "values": [0, MOST_CLASSES - 1]}, "2 pixels"),
        ("{", "JSON"),
    ],
)
def test_bad_run_lengths_are_named(given: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        from_rle(given, "it")


@given(SEEDS, st.integers(1, 4), st.sampled_from([(4, 7), (1, 1), (9, 30), (130, 3)]))
@settings(deadline=None, max_examples=30)
def test_runs_are_the_mask(seed: int, n_classes: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    # Some in larger patches, so that there are runs of all lengths.
    mask = rng.integers(n_classes, size=shape) * np.repeat(rng.integers(2, size=shape[0]), shape[1]).reshape(shape)
    for each in (mask, mask.astype(np.uint8), mask.astype(float), np.asfortranarray(mask)):
        runs = runs_of(each, "it")
        assert [list(run) for run in zip(*(part.tolist() for part in runs), strict=True)] == twin.runs(mask)
    np.testing.assert_array_equal(to_array(runs, mask.shape, 3), mask)
    if n_classes == 2:
        np.testing.assert_array_equal(to_array(runs, mask.shape, 2), mask > 0)
        np.testing.assert_array_equal(runs_of(mask > 0, "it"), runs)
    rle, (lengths, values) = to_rle(runs, mask.shape), twin.coco(mask)
    if values[0] and max(values) == 1:
        lengths, values = [0, *lengths], [0, *values]
    assert rle["counts"] == lengths
    assert rle.get("values", values) == values
    np.testing.assert_array_equal(pixels(from_rle(rle, "it")), mask)
    if max(values) == 1:
        text = {"size": rle["size"], "counts": twin.coco_text(rle["counts"])}
        np.testing.assert_array_equal(pixels(from_rle(text, "it")), mask)
    assert Runs.joined([runs]).sizes().tolist() == [int((mask > 0).sum())]


@pytest.mark.parametrize("text", [b"p", b"\xff", b"/", b"5p"])
def test_characters_that_coco_never_writes_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=f"COCO at character {len(text) - 1}"):
        _core.coco_counts(text)


@pytest.mark.parametrize("size", [[], [1] * 17, [-1, -1], [1 << 40, 1 << 40]])
def test_an_image_has_some_dimensions_and_no_more_pixels_than_can_be_counted(size: list[int]) -> None:
    with pytest.raises(ValueError, match="size"):
        _core.coco_runs(np.array([1]), np.array([0], np.uint16), size)


def test_volumes_go_to_run_lengths_and_back() -> None:
    volume = np.random.default_rng(0).integers(3, size=(3, 4, 5))
    rle = to_rle(runs_of(volume, "it"), volume.shape)
    np.testing.assert_array_equal(pixels(from_rle(json.dumps(rle), "it")), volume)


def test_polygons_hold_the_pixels_whose_centres_they_do() -> None:
    np.testing.assert_array_equal(pixels(from_polygons([[1, 1, 4, 1, 4, 3, 1, 3]], (4, 5), "it")), SQUARE)
    ring = pixels(from_polygons([[0, 0, 5, 0, 5, 4, 0, 4], [1, 1, 4, 1, 4, 3, 1, 3]], (4, 5), "it"))
    np.testing.assert_array_equal(ring, ~SQUARE)
    assert not pixels(from_polygons([], (4, 5), "it")).any()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("turned", range(5))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_corner_on_a_side_crosses_nothing(axis: int, turned: int, sign: int) -> None:
    ring = np.roll([[0, 0], [4, 0], [4, 3], [2, 0], [0, 3]], turned, axis=0)[:, [axis, 1 - axis]] * float(sign)
    assert _core.crossing_sides(np.ascontiguousarray(ring)) is None


def test_shapes_are_put_together_with_a_number_for_each_mask_and_image() -> None:
    tasks, workers, arrays = drawn(0, 3)
    runs = packed_runs(mh.Masks.from_arrays(tasks, workers, arrays))
    sound = [np.full(len(tasks), 0.25), np.zeros(len(tasks)), np.ones(3)]
    _core.shape_masks(runs, *sound, most=0.8)
    for at in range(3):
        for wrong in (sound[at][1:], np.append(sound[at][1:], np.nan)):
            with pytest.raises(ValueError, match="bias"):
                _core.shape_masks(runs, *sound[:at], wrong, *sound[at + 1 :], most=0.8)


@given(SEEDS, st.integers(3, 9))
@settings(deadline=None, max_examples=30)
def test_polygons_match_their_twins(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    # Corners by their angle do not cross; shuffled, they mostly do. Some are beyond the image.
    angles, far = np.sort(rng.uniform(0, 2 * np.pi, (2, n)), axis=1), rng.uniform(1, 7, (2, n))
    rings = [5 + np.stack([np.cos(a) * r, np.sin(a) * r], axis=1) for a, r in zip(angles, far, strict=True)]
    for ring in (*rings, rng.permutation(rings[0]), rng.uniform(0, 9, (n, 2))):
        assert _core.crossing_sides(np.ascontiguousarray(ring)) == twin.crossing(ring)
    starts = np.array([0, n, 2 * n])
    begins, ends, classes = _core.polygon_runs(starts, np.concatenate(rings), 9, 8)
    assert (classes == 1).all()
    np.testing.assert_array_equal(to_array((begins, ends, classes), (9, 8), 2), twin.inside(rings, 9, 8))


@pytest.mark.parametrize(
    ("polygon", "error", "told"),
    [
        ([0, 0, 3, 3, 3, 0, 0, 3], ValueError, "row 0.*0.*2"),
        ([0, 0, 3, 3], ValueError, "2 points"),
        ([0, 0, 3, 3, 1], ValueError, r"\(5,\)"),
        ([[0, 0, 1], [1, 2, 3]], ValueError, r"\(2, 3\)"),
        ([0, 0, 3, np.nan, 3, 0], ValueError, "finite"),
        ([0, 0, 3, 1e300, 3, 0], ValueError, "billion"),
        (["a", "b"], TypeError, "numbers"),
    ],
)
def test_bad_polygons_are_named(polygon: list, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        mh.Masks.from_polygons([1], ["u"], [[polygon]], (4, 4))


def test_sizes_and_missing_polygons() -> None:
    ring = [0, 0, 3, 0, 3, 2]
    for shape in ((4,), (4.5, 4), (-4, 4), 4, None):
        with pytest.raises(ValueError, match="shape"):
            mh.Masks.from_polygons([1], ["u"], [[ring]], shape)
    with pytest.raises(ValueError, match="polygons"):
        mh.Masks.from_polygons([1], ["u"], [ring], (4, 4))
    with pytest.raises(TypeError, match="row 0"):
        mh.Masks.from_polygons([1], ["u"], [3], (4, 4))
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert mh.Masks.from_polygons([1, 1], ["u", "v"], [[ring], None], (4, 4)).n_annotations == 1


@pytest.mark.parametrize(
    ("masks", "error", "told"),
    [
        ([SQUARE, SQUARE.T], ValueError, "task 'a'"),
        ([SQUARE, SQUARE * 0.5], ValueError, r"row 1.*0.5.*\(1, 1\)"),
        ([SQUARE, np.full((4, 5), np.nan)], ValueError, "row 1.*nan"),
        ([SQUARE, np.full((4, 5), -1)], ValueError, "row 1.*-1.*-1"),
        ([SQUARE, np.full((4, 5), "x")], TypeError, "row 1"),
        ([SQUARE, np.zeros(4)], ValueError, r"row 1.*\(4,\)"),
        ([SQUARE, np.zeros((0, 3))], ValueError, r"row 1.*\(0, 3\)"),
        ([SQUARE, [[0, 1], [1]]], ValueError, "row 1"),
        ([SQUARE, np.full((4, 5), 1 << 16)], ValueError, "row 1.*65536"),
    ],
)
def test_bad_masks_are_named(masks: list, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        mh.Masks.from_arrays(["a", "a"], ["u", "v"], masks)


def test_a_missing_mask_is_set_aside_and_an_empty_one_is_not() -> None:
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        masks = mh.Masks.from_arrays(["a", "b"], ["u", "u"], [np.zeros((2, 2)), None])
    assert (masks.n_tasks, masks.unlabelled.tolist(), masks.describe().n_empty) == (1, ["b"], 1)


def test_black_and_white_is_told_of_and_classes_nobody_gave_change_nothing() -> None:
    crowd = mh.simulate(4, size=16, careless=1, seed=1, kind="masks")
    tasks, workers, _ = crowd.log.table.columns()
    arrays = [crowd.log.mask(row) for row in range(len(crowd.log))]
    with pytest.warns(mh.errors.DataWarning, match="255"):
        white = mh.Masks.from_arrays(tasks, workers, [np.where(mask, 255, 0).astype(np.uint8) for mask in arrays])
    assert white == crowd.log
    sparse = mh.Masks.from_arrays(tasks, workers, [9 * mask for mask in arrays])
    for method in (mh.masks.STAPLE, mh.masks.ShapeCrowd, mh.masks.MaskVote):
        for one, nine in zip(method().fit(crowd.log).masks_, method().fit(sparse).masks_, strict=True):
            np.testing.assert_array_equal(9 * one, nine)
    recall = mh.masks.STAPLE().fit(sparse).class_recall_
    np.testing.assert_array_equal(recall[:, [0, 9]], mh.masks.STAPLE().fit(crowd.log).class_recall_)


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
        np.testing.assert_allclose(model.class_recall_, recall, atol=1e-12)
        for found, wanted in zip(model.masks_, truth, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{model!r}-{name}")
        for model in METHODS
        for name, check in checks_of(of_masks.SUBJECT.of(model, {}), (*common.CHECKS, *of_masks.CHECKS))
    ],
)
def test_check_list(name: str, check) -> None:
    check()


def test_weights_of_masks_are_votes() -> None:
    upper, lower = np.zeros((2, 4, 4), np.int64)
    upper[:2], lower[1:] = 1, 1
    for weights, first, share in (
        ([1.0, 1.0, 5.0], lower, 5 / 7),
        ([2.0, 2.0, 3.0], upper, 4 / 7),
        ([0.0] * 3, upper, 2 / 3),
    ):
        masks = mh.Masks.from_arrays([0] * 3, list("abc"), [upper, upper, lower], weights=weights)
        votes = mh.masks.MaskVote().fit(masks)
        np.testing.assert_array_equal(votes.masks_[0], first > 0)
        assert votes.confidence_[0] == pytest.approx(share)


def test_careless_and_loose_workers_are_told_apart() -> None:
    crowd = mh.simulate(40, size=48, good=4, loose=2, tight=2, careless=2, seed=2, kind="masks")
    model = mh.masks.STAPLE().fit(crowd.log)
    rates = {
        kind: (model.recall_[crowd.kinds == kind].mean(), model.specificity_[crowd.kinds == kind].mean())
        for kind in ("good", "loose", "tight", "careless")
    }
    assert min(rates["good"]) > max(min(rates[kind]) for kind in ("loose", "tight", "careless"))
    assert rates["loose"][0] > rates["loose"][1]
    assert rates["tight"][0] < rates["tight"][1]
    vote = mh.masks.MaskVote().fit(crowd.log)
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
        np.testing.assert_allclose(like["thickness"][task], twin.thickness(image), atol=1e-12)
        assert like["disputed"][task] == (image != image[0]).any(axis=0).sum()
        assert like["marked"][task] == (image > 0).any(axis=0).sum()
        at, pairs = at + known.size, pairs + 16


def test_distances_in_large_masks_match_their_twin() -> None:
    """Beyond a reach of 126 pixels, squares of distances are no longer small numbers."""
    image = np.zeros((3, 330, 320), np.int64)
    image[:, 12:318, 10:310] = 1
    image[1, 160:163, 150:153] = 0
    image[2, 20:23, 14] = 0
    masks = mh.Masks.from_arrays([0] * 3, [0, 1, 2], list(image))
    like = _core.shape_likeness(packed_runs(masks), most=0.8)
    far = twin.distances(image, 1, 0.8)
    assert 0.8 * twin.thickness(image) > 140
    np.testing.assert_allclose(like["means"], far.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(like["products"].reshape(3, 3), far @ far.T / far.shape[1], atol=1e-6)


@pytest.mark.parametrize(("seed", "size"), [(1, 20), (2, 20), (3, 28), (4, 12)])
def test_shapes_match_their_twin(seed: int, size: int) -> None:
    crowd = mh.simulate(4, size=size, good=3, loose=1, tight=0, careless=1, seed=seed, kind="masks")
    images = [np.stack([crowd.log.mask(5 * task + row) for row in range(5)]).astype(int) for task in range(4)]
    model = mh.masks.ShapeCrowd(reach=0.4, max_iter=4, tol=0.0)
    model.fit(crowd.log)
    truth, bias, noise, sure = twin.shapes(images, reach=0.4, strength=2.0, passes=4)
    for found, wanted in ((model.bias_, bias), (model.noise_, noise), (model.reliability_, sure)):
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    for found, wanted in zip(model.masks_, truth, strict=True):
        np.testing.assert_array_equal(found, wanted)


def gains(draws: range, **counts: int) -> np.ndarray:
    """By how much the default's IoU is above that of votes and of STAPLE, (draws, 2)."""
    found = []
    for seed in draws:
        crowd = mh.simulate(20, size=48, seed=seed, **counts, kind="masks")
        models = (mh.aggregate(crowd.log), mh.masks.MaskVote().fit(crowd.log), mh.masks.STAPLE().fit(crowd.log))
        ours, *others = (mh.metrics.mask_iou(model.masks_, crowd.truth) for model in models)
        found.append([ours - other for other in others])
    return np.array(found)


@pytest.mark.parametrize("sizes", [(4, 3, 2, 1), (5, 5, 0, 0), (2, 3, 2, 3), (3, 0, 2, 5)])
def test_mean_outlines_are_above_votes(sizes: tuple[int, ...]) -> None:
    counts = dict(zip(("good", "loose", "tight", "careless"), sizes, strict=True))
    assert (gains(range(3), **counts) > 0.005).all()
    crowd = mh.simulate(20, size=48, seed=3, **counts, kind="masks")
    model = mh.aggregate(crowd.log)
    assert isinstance(model, mh.masks.ShapeCrowd)
    bias = {kind: model.bias_[crowd.kinds == kind].mean() for kind in ("good", "loose", "tight") if counts[kind]}
    assert abs(bias["good"]) < 0.06
    assert bias.get("tight", -1) < bias["good"] < bias.get("loose", 1)
    if counts["careless"]:
        assert model.reliability_[crowd.kinds == "good"].min() > model.reliability_[crowd.kinds == "careless"].max()


def test_three_equal_workers_are_no_worse_than_their_votes() -> None:
    found = gains(range(10), good=3, loose=0, tight=0, careless=0)
    # There is nothing to learn, and single draws differ by .004 either way: two standard errors of the mean of ten.
    assert (found.mean(axis=0) > -0.003).all()


def test_thin_objects_are_voted_on() -> None:
    rng, roots = np.random.default_rng(0), np.zeros((40, 40), bool)
    roots[::6, 3:37] = True
    arrays = [roots ^ (rng.random(roots.shape) < 0.1) for _ in range(10)] + [np.roll(roots, 1, 0) for _ in range(2)]
    masks = mh.Masks.from_arrays([0] * 6 + [1] * 6, [*range(6)] * 2, arrays)
    model, vote = mh.aggregate(masks), mh.masks.MaskVote().fit(masks)
    for one, other in zip(model.masks_, vote.masks_, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.confidence_, vote.confidence_)


def test_the_middle_worker_is_right_unless_there_are_two_groups() -> None:
    rng, y, x = np.random.default_rng(1), *(np.mgrid[:60, :60] - 30)
    far = np.hypot(y, x)

    def found(radii: list[float]) -> tuple[np.ndarray, float]:
        tasks, workers = np.divmod(np.arange(10 * len(radii)), len(radii))
        arrays = [far < radii[worker] + 0.3 * rng.standard_normal() for worker in workers]
        model = mh.aggregate(mh.Masks.from_arrays(tasks, workers, arrays))
        return model.bias_, float(np.sqrt(np.mean([mask.sum() for mask in model.masks_]) / np.pi))

    # By degrees, two of them near one another: the middle one is 18.
    bias, radius = found([14.0, 16.0, 18.0, 20.0, 22.0, 22.3, 15.0])
    assert abs(bias[2]) < 0.06
    assert radius == pytest.approx(18, abs=1)
    # Five exact ones, and five who draw wide and less exactly: nobody is in the middle.
    bias, radius = found([18.0, 18.1, 17.9, 18.0, 18.1, 22.0, 22.8, 21.5, 22.4, 23.0])
    assert np.abs(bias[:5]).max() < 0.03
    assert radius == pytest.approx(18, abs=0.5)


@given(SEEDS, st.integers(1, 5))
@settings(deadline=None, max_examples=10)
def test_margins_images_and_workers_change_nothing(seed: int, margin: int) -> None:
    crowd = mh.simulate(4, size=16, careless=1, seed=seed % 1000, kind="masks")
    tasks, workers, _ = crowd.log.table.columns()
    arrays = [crowd.log.mask(row) for row in range(len(crowd.log))]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(arrays))
    padded = [np.pad(arrays[row], margin) for row in order]
    renamed, images = rng.permutation(10), rng.permutation(4)
    one = mh.masks.ShapeCrowd(tol=1e-3).fit(crowd.log)
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
    crowd = mh.simulate(30, size=32, good=4, loose=1, tight=1, careless=2, seed=4, kind="masks")
    tasks, workers, _ = crowd.log.table.columns()
    # One of the careless has a single image.
    kept = np.flatnonzero((workers != 7) | (tasks == 0))
    arrays = [crowd.log.mask(int(row)) for row in kept]
    model = mh.masks.STAPLE().fit(mh.Masks.from_arrays(tasks[kept], workers[kept], arrays))
    accuracy = np.array(model.workers_frame().column("skill").to_pylist())
    assert accuracy[6] < accuracy[7] < accuracy[:4].min()


def test_bad_settings_are_named() -> None:
    masks = mh.simulate(2, size=8, kind="masks").log
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


@pytest.mark.parametrize("setting", ["repeats", "missing"])
def test_settings_of_tables_are_checked(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}"):
        mh.Masks.from_arrays([1], ["u"], [SQUARE], **{setting: "all"})
