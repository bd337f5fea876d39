"""Simulated crowds: the makers against their definitions, the draws against the makers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core
from manyhands._simulate import SIMULATED
from manyhands.categorical import crowds

SIZES = [(1, 1), (1, 2), (7, 1), (5, 2), (40, 3), (12, 10)]


def columns(simulation):
    """The codes of a simulated log: tasks, workers, labels."""
    return tuple(column.astype(np.int64) for column in simulation.log.codes())


def truth_codes(simulation):
    return np.searchsorted(simulation.log.classes, simulation.truth)


def fits(hits, n, p):
    """Whether counts fit their probabilities: Bernstein's bound, broken less than once in a billion."""
    log = np.log(2e9)
    variance = n * p * (1 - p)
    return np.abs(hits - n * p) <= log / 3 + np.sqrt(log**2 / 9 + 2 * log * variance)


def confusion_counts(simulation):
    tasks, workers, labels = columns(simulation)
    counts = np.zeros(simulation.confusion.shape)
    np.add.at(counts, (workers, truth_codes(simulation)[tasks], labels), 1)
    return counts


def assert_follows(simulation):
    counts = confusion_counts(simulation)
    assert fits(counts, counts.sum(axis=-1, keepdims=True), simulation.confusion).all()


# --- the makers ---


@pytest.mark.parametrize("kind", crowds.CROWDS)
@pytest.mark.parametrize(("n_workers", "n_classes"), SIZES)
def test_every_crowd_is_made_of_distributions(kind, n_workers, n_classes):
    confusion = crowds.CROWDS[kind](n_workers, n_classes, seed=3)
    assert confusion.shape == (n_workers, n_classes, n_classes)
    assert confusion.dtype == np.float64
    assert (confusion >= 0).all()
    np.testing.assert_allclose(confusion.sum(axis=-1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(confusion, crowds.CROWDS[kind](n_workers, n_classes, seed=3))


@pytest.mark.parametrize("kind", sorted(set(crowds.CROWDS) - {"naive", "colluders"}))
def test_seeds_matter(kind):
    a, b = (crowds.CROWDS[kind](20, 5, seed=seed) for seed in (0, 1))
    assert (a != b).any()


def test_one_coin_has_one_rate_and_even_mistakes():
    confusion = crowds.one_coin(300, 4, accuracy=(0.5, 0.9))
    rates = confusion[:, 0, 0]
    assert ((rates >= 0.5) & (rates <= 0.9)).all()
    assert np.ptp(rates) > 0.3
    for m, k, label in itertools.product(range(5), range(4), range(4)):
        assert confusion[m, k, label] == pytest.approx(rates[m] if k == label else (1 - rates[m]) / 3)
    few_good = crowds.one_coin(300, 4, accuracy=(0.5, 0.9), shape=(1, 9))
    assert few_good[:, 0, 0].mean() == pytest.approx(0.54, abs=0.02)


def test_class_conditional_rows_have_the_asked_mean_and_spread():
    confusion = crowds.class_conditional(4000, 3, skill=0.6, concentration=10)
    np.testing.assert_allclose(confusion.mean(axis=0), np.where(np.eye(3), 0.6, 0.2), atol=0.02)
    # The variance of a Dirichlet's entry is p (1 - p) / (concentration + 1).
    np.testing.assert_allclose(confusion.var(axis=0), np.where(np.eye(3), 0.24, 0.16) / 11, atol=0.003)
    # Rows of one label each, whose frequencies are the mean.
    extreme = crowds.class_conditional(4000, 3, skill=0.6, concentration=1e-8)
    np.testing.assert_allclose(extreme.max(axis=-1), 1)
    np.testing.assert_allclose(extreme.mean(axis=0), np.where(np.eye(3), 0.6, 0.2), atol=0.05)
    np.testing.assert_array_equal(crowds.class_conditional(5, 3, skill=1), np.tile(np.eye(3), (5, 1, 1)))


def test_flippers_have_one_wrong_class_each_chosen_evenly():
    confusion = crowds.flippers(2000, 4, skill=0.7, spread=0.01)
    diagonal = confusion.diagonal(axis1=1, axis2=2)
    np.testing.assert_array_equal(diagonal, np.repeat(diagonal[:, :1], 4, axis=1))
    assert diagonal[:, 0].mean() == pytest.approx(0.7, abs=0.002)
    assert diagonal[:, 0].std() == pytest.approx(0.01, abs=0.002)
    flips = (confusion > 0) & ~np.eye(4, dtype=bool)
    assert (flips.sum(axis=-1) == 1).all()
    assert fits(flips.sum(axis=0), 2000, np.where(np.eye(4), 0, 1 / 3)).all()


def test_flippers_of_two_classes_name_the_other():
    confusion = crowds.flippers(200, 2, skill=0.3, spread=0)
    np.testing.assert_allclose(confusion, np.broadcast_to([[0.3, 0.7], [0.7, 0.3]], confusion.shape))


def test_hammer_spammers_guess_evenly():
    label = crowds.hammer_spammers(3, 4, skill=0.6, spread=0)
    np.testing.assert_allclose(label, np.broadcast_to(np.where(np.eye(4), 0.7, 0.1), (3, 4, 4)))
    rows = crowds.hammer_spammers(500, 4, skill=0.6, per="class").reshape(-1, 4)
    right = rows.max(axis=-1) == 1
    np.testing.assert_array_equal(rows[~right], 0.25)
    assert fits(right.sum(), 2000, 0.6)
    workers = crowds.hammer_spammers(2000, 4, skill=0.6, per="worker")
    hammers = (workers == np.eye(4)).all(axis=(1, 2))
    assert ((workers == 0.25).all(axis=(1, 2)) == ~hammers).all()
    assert fits(hammers.sum(), 2000, 0.6)


def test_confusers_mix_up_pairs_only():
    confusion = crowds.confusers(2, 5, skill=0.8, spread=0, similar=[(3, 0), (1, 2)])
    expected = np.eye(5)
    for a, b in [(0, 3), (1, 2)]:
        expected[[a, b], [a, b]] = 0.8
        expected[[a, b], [b, a]] = 0.2
    np.testing.assert_allclose(confusion, np.broadcast_to(expected, (2, 5, 5)))


def test_neighbours_stray_one_step():
    confusion = crowds.neighbours(30, 6, skill=0.6)
    classes = np.arange(6)
    distance = np.abs(classes[:, None] - classes)
    assert (confusion[:, distance > 1] == 0).all()
    np.testing.assert_allclose(confusion[:, 2, 1], confusion[:, 2, 3])
    np.testing.assert_allclose(confusion[:, 0, 1], 1 - confusion[:, 0, 0])


def test_adversaries_permute_names_and_leave_none_in_place():
    confusion = crowds.adversary(200, 5, skill=0.9)
    names = confusion.argmax(axis=-1)
    assert (np.sort(names, axis=1) == np.arange(5)).all()
    assert (names != np.arange(5)).all()
    assert len(np.unique(names, axis=0)) > 10
    assert confusion.max(axis=-1).mean() == pytest.approx(0.9, abs=0.01)


def test_spammers_ignore_the_truth():
    confusion = crowds.spammers(30, 4)
    np.testing.assert_array_equal(confusion, np.repeat(confusion[:, :1], 4, axis=1))
    for concentration in (1e-3, 1e-300):
        favourites = crowds.spammers(2000, 4, concentration=concentration)[:, 0]
        assert favourites.max(axis=-1).mean() > 0.99
        assert fits(np.bincount(favourites.argmax(axis=-1)), 2000, 0.25).all()
    assert crowds.spammers(200, 4, concentration=1e6).max() == pytest.approx(0.25, abs=0.01)


def test_naive_workers_give_one_label():
    np.testing.assert_array_equal(crowds.naive(2, 3, answer=2)[..., 2], 1)


def test_kappa_is_what_was_asked():
    prior = np.array([0.6, 0.3, 0.1])
    joint = prior[:, None] * crowds.kappa(5, 3, kappa=(0.2, 0.9), prior=prior, seed=1)
    # Any weights of disagreement give the same kappa: plain, linear and quadratic are tried.
    steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    values = []
    for weights in (steps > 0, steps, steps**2):
        chance = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
        values.append(1 - (weights * joint).sum(axis=(1, 2)) / (weights * chance).sum(axis=(1, 2)))
    np.testing.assert_allclose(values[0], values[1])
    np.testing.assert_allclose(values[0], values[2])
    assert ((values[0] >= 0.2) & (values[0] <= 0.9)).all()
    assert np.ptp(values[0]) > 0.1


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        ("one-coin", {"accuracy": 1.2}, "accuracy is 1.2"),
        ("one-coin", {"accuracy": (0.9, 0.5)}, "accuracy is"),
        ("one-coin", {"shape": (0, 1)}, "shape is"),
        ("class-conditional", {"skill": -1}, "skill is -1"),
        ("class-conditional", {"concentration": 0}, "concentration is 0"),
        ("flippers", {"skill": float("nan")}, "skill is nan"),
        ("flippers", {"spread": -0.1}, "spread is -0.1"),
        ("hammer-spammer", {"per": "day"}, "per is 'day'"),
        ("confusers", {"similar": [(0, 3)]}, r"similar has \(0, 3\)"),
        ("confusers", {"similar": [(0, 1), (1, 2)]}, "partner"),
        ("spammers", {"concentration": float("inf")}, "concentration is inf"),
        ("naive", {"answer": 3}, "answer is 3"),
        ("colluders", {"wrong": 2}, "wrong is 2"),
        ("kappa", {"prior": [0.5, 0.5]}, "prior"),
        ("kappa", {"prior": [0.5, 0.5, 0.5]}, "prior"),
    ],
)
def test_makers_name_what_is_wrong(kind, options, part):
    with pytest.raises(ValueError, match=part):
        crowds.CROWDS[kind](2, 3, **options)
    with pytest.raises(ValueError, match=part):
        mh.simulate(10, 2, 3, crowd=kind, labels_per_task=1, **options)


# --- the draws ---


@pytest.mark.parametrize("kind", crowds.CROWDS)
def test_labels_follow_the_crowd(kind):
    prior = [0.5, 0.3, 0.2]
    simulation = mh.simulate(20_000, 6, 3, crowd=kind, labels_per_task=3, prior=prior, seed=5)
    assert simulation.log.n_annotations == 60_000
    assert_follows(simulation)
    assert fits(np.bincount(simulation.truth), 20_000, np.array(prior)).all()
    np.testing.assert_array_equal(simulation.prior, prior)
    assert (simulation.crowd == kind).all()


def test_a_given_number_of_distinct_workers_labels_each_task():
    simulation = mh.simulate(3000, 9, 2, labels_per_task=4)
    tasks, workers, _ = columns(simulation)
    assert (np.bincount(tasks) == 4).all()
    assert len(np.unique(tasks * 9 + workers)) == len(tasks)
    assert fits(np.bincount(workers), 3000, 4 / 9).all()


def test_a_range_of_labels_per_task():
    simulation = mh.simulate(8000, 9, 2, labels_per_task=(1, 4))
    counts = np.bincount(np.bincount(columns(simulation)[0]), minlength=5)
    assert counts[0] == 0
    assert fits(counts[1:], 8000, 0.25).all()


def test_five_labels_unless_told_or_too_few_workers():
    assert mh.simulate(10, 50, 2).log.n_annotations == 50
    assert mh.simulate(10, 3, 2).log.n_annotations == 30


def test_density_leaves_out_tasks_without_labels_and_keeps_workers_without():
    p = np.array([0.0, 0.02, 0.1, 0.3])
    simulation = mh.simulate(5000, 4, 3, density=p)
    votes = simulation.log
    tasks, workers, _ = columns(simulation)
    assert votes.n_tasks == len(simulation.truth) == len(np.unique(tasks)) < 5000
    assert fits(votes.n_tasks, 5000, 1 - np.prod(1 - p))
    assert votes.n_workers == len(simulation.confusion) == 4
    assert fits(np.bincount(workers, minlength=4), 5000, p).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([votes.tasks, votes.unlabelled])), np.arange(5000))
    assert_follows(simulation)
    assert mh.simulate(50, 4, 3, density=1).log.n_annotations == 200


def test_truth_stays_with_its_task_when_others_are_left_out():
    # Everyone is always right, so the labels themselves say what the truth must be.
    truth = np.arange(4000) % 7
    simulation = mh.simulate(confusion=np.tile(np.eye(7), (5, 1, 1)), truth=truth, density=0.1)
    tasks, _, labels = columns(simulation)
    np.testing.assert_array_equal(truth_codes(simulation)[tasks], labels)
    np.testing.assert_array_equal(truth[simulation.log.tasks], simulation.truth)


def test_pairs_are_labelled_as_given():
    pairs = ([3, 1, 1, 3], [0, 2, 1, 0])
    simulation = mh.simulate(5, 4, 2, pairs=pairs)
    tasks, workers, _ = columns(simulation)
    np.testing.assert_array_equal(simulation.log.tasks, [1, 3])
    got = sorted(zip(simulation.log.tasks[tasks], workers, strict=True))
    assert got == sorted(zip(*pairs, strict=True))


def test_activity_shares_out_the_work():
    weights = np.array([5.0, 3.0, 2.0, 0.0])
    simulation = mh.simulate(5000, 4, 2, labels_per_task=1, activity=weights)
    assert fits(np.bincount(columns(simulation)[1], minlength=4), 5000, weights / 10).all()
    zipf = np.sort(np.bincount(columns(mh.simulate(50_000, 20, 2, labels_per_task=1, activity=1))[1]))[::-1]
    shares = 1 / np.arange(1, 21)
    assert fits(zipf, 50_000, shares / shares.sum()).all()


def test_truth_may_be_given_as_numbers_or_names():
    truth = np.array([2, 0, 1, 1, 0])
    by_number = mh.simulate(n_workers=3, n_classes=4, truth=truth)
    np.testing.assert_array_equal(by_number.truth, truth)
    np.testing.assert_allclose(by_number.prior, [0.4, 0.4, 0.2, 0])
    assert by_number.log.n_classes == 4
    names = np.array(["ant", "bee", "cow"])
    by_name = mh.simulate(n_workers=3, truth=names[truth])
    assert list(by_name.log.classes) == list(names)
    assert list(by_name.truth) == list(names[truth])
    same = mh.simulate(n_workers=3, n_classes=3, truth=truth)
    np.testing.assert_array_equal(columns(same)[2], columns(by_name)[2])


def test_string_ids_are_in_the_order_of_the_numbers():
    number, name = (mh.simulate(120, 11, 3, ids=ids, density=0.3, seed=4) for ids in ("int", "str"))
    for a, b in zip(columns(number), columns(name), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [int(task[1:]) for task in name.log.tasks] == list(number.log.tasks)
    assert list(name.log.workers[[0, 10]]) == ["w00", "w10"]
    assert list(name.log.classes) == ["c0", "c1", "c2"]
    assert list(name.truth) == [f"c{c}" for c in number.truth]


def test_mixtures_split_the_workers():
    simulation = mh.simulate(100, 10, 3, crowd={"hammer-spammer": 0.7, "adversary": 0.25, "naive": 0.05})
    names, counts = np.unique(simulation.crowd, return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"hammer-spammer": 7, "adversary": 3}
    assert (simulation.confusion[:7].argmax(axis=-1) == np.arange(3)).all()
    assert (simulation.confusion[7:].argmax(axis=-1) != np.arange(3)).all()


@given(
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda s: sum(s) > 0.1),
    n_workers=st.integers(1, 1000),
)
def test_shares_become_whole_numbers(shares, n_workers):
    from manyhands.categorical.simulate import _split

    shares = np.array(shares) / sum(shares)
    counts = np.array(list(_split(dict(zip(list(crowds.CROWDS), shares, strict=False)), n_workers).values()))
    assert counts.sum() == n_workers
    assert (np.abs(counts - shares * n_workers) < 1 + 1e-6).all()


def labels_by_worker(simulation):
    """The labels of a log in which everyone labels everything, of shape (n_workers, n_tasks)."""
    tasks, workers, labels = columns(simulation)
    dense = np.empty((simulation.log.n_workers, simulation.log.n_tasks), dtype=int)
    dense[workers, tasks] = labels
    return dense


def test_colluders_are_wrong_together():
    simulation = mh.simulate(5000, 12, 3, crowd={"one-coin": 0.5, "colluders": 0.5}, labels_per_task=12)
    np.testing.assert_array_equal(simulation.groups, [-1] * 6 + [0] * 6)
    labels = labels_by_worker(simulation)
    assert (labels[6:] == labels[6]).all()
    assert fits((labels[6] != simulation.truth).sum(), 5000, 0.9)
    assert (labels[:6] != labels[0]).any(axis=1)[1:].all()
    assert_follows(simulation)


def test_groups_copy_their_first_worker():
    confusion = crowds.class_conditional(5, 3, seed=2)
    groups = [7, -1, 3, 7, 3]
    full = mh.simulate(20_000, confusion=confusion, groups=groups, labels_per_task=5)
    labels = labels_by_worker(full)
    assert (labels[0] == labels[3]).all()
    assert (labels[2] == labels[4]).all()
    np.testing.assert_array_equal(full.confusion, confusion[[0, 1, 2, 0, 2]])
    assert_follows(full)
    half = mh.simulate(20_000, confusion=confusion, groups=groups, copying=0.5, labels_per_task=5)
    np.testing.assert_allclose(half.confusion[3], (confusion[0] + confusion[3]) / 2)
    assert_follows(half)
    # Both copy a quarter of the time; else they agree by chance, as their matrices say.
    pair = np.einsum("kl,kl->k", confusion[0], confusion[3])
    alone = np.einsum("kl,kl->k", confusion[0], confusion[0])
    chance = 0.25 + (0.25 * alone + 0.5 * pair).mean()
    labels = labels_by_worker(half)
    assert fits((labels[0] == labels[3]).sum(), 20_000, chance)


@pytest.mark.parametrize(
    "pattern",
    [
        {"labels_per_task": 3},
        {"labels_per_task": (0, 9), "activity": 1.5},
        {"density": 0.1},
        {"density": np.linspace(0, 0.5, 40)},
        {"pairs": (np.arange(100_000) % 30_000, np.arange(100_000) % 40)},
    ],
)
def test_threads_do_not_change_a_bit_and_seeds_do(pattern):
    def draw(seed, threads):
        mh.set_num_threads(threads)
        return mh.simulate(30_000, 40, 3, crowd={"flippers": 0.5, "colluders": 0.5}, copying=0.8, seed=seed, **pattern)

    before = _core.get_num_threads()
    try:
        one, two, other = draw(1, 1), draw(1, 2), draw(2, 2)
    finally:
        mh.set_num_threads(before)
    np.testing.assert_array_equal(one.truth, two.truth)
    for a, b in zip(columns(one), columns(two), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(one.truth) != len(other.truth) or (one.truth != other.truth).any()
    assert not np.array_equal(columns(one)[2], columns(other)[2])


@settings(max_examples=40, deadline=None)
@given(
    n_tasks=st.integers(1, 300),
    n_workers=st.integers(1, 20),
    n_classes=st.integers(1, 6),
    kind=st.sampled_from(sorted(crowds.CROWDS)),
    ids=st.sampled_from(["int", "str"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_everything_is_aligned(n_tasks, n_workers, n_classes, kind, ids, seed):
    simulation = mh.simulate(n_tasks, n_workers, n_classes, crowd=kind, ids=ids, seed=seed)
    votes = simulation.log
    assert (votes.n_tasks, votes.n_workers, votes.n_classes) == (n_tasks, n_workers, n_classes)
    assert simulation.truth.shape == (n_tasks,)
    assert np.isin(simulation.truth, votes.classes).all()
    assert simulation.confusion.shape == (n_workers, n_classes, n_classes)
    counts = confusion_counts(simulation)
    assert (counts[simulation.confusion == 0] == 0).all()
    assert f"{n_tasks:,} tasks" in repr(simulation)


def test_accuracy_and_repr():
    simulation = mh.simulate(
        1000, 3, 2, confusion=[[[0.9, 0.1], [0.3, 0.7]]] * 3, prior=[0.25, 0.75], labels_per_task=2
    )
    np.testing.assert_allclose(simulation.accuracy, 0.75)
    assert repr(simulation) == (
        "CategoricalSimulation(2,000 annotations: 1,000 tasks × 3 workers, 2 classes; "
        "crowd: 3 given; mean accuracy 0.75)"
    )
    with pytest.raises(AttributeError):
        simulation.seed = 1


EYE = np.tile(np.eye(2), (3, 1, 1))


@pytest.mark.parametrize(
    ("error", "arguments", "part"),
    [
        (TypeError, {"truth": [0, 1], "n_tasks": None, "n_classes": None}, "n_classes"),
        (TypeError, {"n_tasks": 2.5}, "n_tasks is 2.5"),
        (ValueError, {"n_tasks": 0}, "n_tasks is 0"),
        (ValueError, {"n_classes": 70_000}, "n_classes is 70000"),
        (TypeError, {"seed": "x"}, "seed is 'x'"),
        (ValueError, {"seed": -1}, "seed is -1"),
        (ValueError, {"crowd": "martians"}, "crowd.*'one-coin'.*'martians'"),
        (ValueError, {"crowd": {"flippers": 0.5}}, "crowd"),
        (ValueError, {"crowd": {}}, "crowd"),
        (TypeError, {"crowd": {"flippers": 0.5, "naive": 0.5}, "skill": 0.3}, "one crowd"),
        (TypeError, {"confusion": EYE, "skill": 0.3}, "crowd"),
        (TypeError, {"skil": 0.3}, "skil"),
        (ValueError, {"confusion": EYE[:2]}, "n_workers is 3"),
        (ValueError, {"confusion": EYE[0]}, "confusion"),
        (ValueError, {"confusion": EYE * 0.9}, "worker 0.*class 0"),
        (ValueError, {"confusion": EYE * np.nan}, "worker 0.*class 0"),
        (ValueError, {"prior": [1.0]}, "prior"),
        (ValueError, {"prior": [0.9, 0.9]}, "prior"),
        (ValueError, {"truth": [0, 1]}, "n_tasks is 10"),
        (ValueError, {"truth": [0, 2] * 5}, "task 1.*2"),
        (ValueError, {"truth": [0, 2**16 - 1] * 5, "n_classes": None}, "0.*65534"),
        (ValueError, {"truth": ["a"] * 10}, "n_classes.*2,"),
        (ValueError, {"truth": ["a"] * 10, "confusion": EYE}, "truth.*1 classes"),
        (TypeError, {"truth": [0.5] * 10}, "truth"),
        (ValueError, {"truth": []}, "truth"),
        (ValueError, {"labels_per_task": 4}, "labels_per_task is 4"),
        (ValueError, {"labels_per_task": 0}, "labels_per_task is 0"),
        (ValueError, {"labels_per_task": (3, 2)}, "3 to 2 labels"),
        (TypeError, {"labels_per_task": 1, "density": 0.5}, "labels_per_task"),
        (ValueError, {"density": 1.5}, "worker 0.*1.5"),
        (ValueError, {"density": [0.5, 0.5]}, "density"),
        (ValueError, {"density": 0.0}, "no annotations"),
        (ValueError, {"pairs": ([0], [3])}, "workers from 3 to 3"),
        (ValueError, {"pairs": ([-1], [0])}, "tasks from -1 to -1"),
        (ValueError, {"pairs": ([0, 1], [0])}, "2 tasks and 1 workers"),
        (TypeError, {"pairs": ([0.5], [0])}, "pairs"),
        (ValueError, {"activity": [1, 2]}, "activity"),
        (ValueError, {"activity": -1}, "activity is -1"),
        (ValueError, {"activity": [1, -2, 3]}, "worker 1.*-2"),
        (ValueError, {"activity": [1, 0, 0], "labels_per_task": 2}, "1 workers"),
        (ValueError, {"activity": 1, "density": 0.5}, "activity"),
        (ValueError, {"groups": [0, 0]}, "groups"),
        (ValueError, {"groups": [0, 0, -2]}, "-1"),
        (ValueError, {"groups": [0, 0, 0], "copying": 1.5}, "copying is 1.5"),
        (ValueError, {"copying": float("nan")}, "copying is nan"),
        (ValueError, {"ids": "float"}, "ids is 'float'"),
    ],
)
def test_bad_arguments_are_named(error, arguments, part):
    with pytest.raises(error, match=part):
        mh.simulate(**({"n_tasks": 10, "n_workers": 3, "n_classes": 2} | arguments))


def test_a_log_too_large_for_memory_is_refused():
    with pytest.raises(ValueError, match="GB"):
        mh.simulate(2**32 - 1, 100_000, 1, labels_per_task=100_000)


def test_rankings_recover_what_they_were_drawn_from():
    slopes = np.r_[np.full(8, 2.0), 0.0, -2.0]
    crowd = mh.simulate(12, slopes, 1500, length=4, seed=1, kind="rankings")
    assert len(crowd.log) == 1500
    assert {len(one) for one in crowd.log.lists()} == {4}
    model = mh.aggregate(crowd.log)
    assert mh.metrics.kendall(model.scores_, crowd.truth) > 0.9
    assert np.corrcoef(model.slopes_, slopes)[0, 1] > 0.95
    assert mh.simulate(12, slopes, 1500, length=4, seed=1, kind="rankings").log == crowd.log
    assert "1,500 rankings of 12 items by 10 workers" in repr(crowd)
    assert len(mh.simulate(3, 2, 5, kind="rankings").log.lists()[0]) == 3
    for odd in ({"length": 1}, {"length": 13}):
        with pytest.raises(ValueError, match="length"):
            mh.simulate(12, 3, 10, **odd, kind="rankings")


@pytest.mark.parametrize("kind", SIMULATED)
def test_every_kind_has_sizes_of_its_own(kind):
    crowd = mh.simulate(kind=kind, seed=1)
    assert crowd.log.n_annotations > 0
    assert crowd.log.kind == kind
    assert crowd.truth is not None
