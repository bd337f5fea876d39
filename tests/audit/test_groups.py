"""Dependence, copies, groups and drift: twins, recovery, false alarms, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

import manyhands as mh
from manyhands.audit._rates import q_values
from manyhands.categorical._excess import beliefs, one_answer
from manyhands.testing.crowds import ODD
from oracles import audit_groups as oracle
from oracles.em import Rows

LEAGUE = np.array([0, 0, *[-1] * 10])


def crowd(seed=1, n_tasks=400, groups=LEAGUE, copying=0.8, per_task=6):
    """Workers of uneven skill, of whom some copy."""
    settings = {
        "crowd": "one-coin",
        "accuracy": (0.5, 0.9),
        "labels_per_task": per_task,
        "copying": copying,
        "seed": seed,
    }
    return mh.simulate(n_tasks, len(groups), 3, groups=groups, **settings).log


def shuffled(votes, seed=0, workers=True):
    """The same log with workers or tasks in another order of codes."""
    rng = np.random.default_rng(seed)
    frame = votes.to_frame().to_pydict()
    part = "worker" if workers else "task"
    names = sorted(set(frame[part]))
    new = dict(zip(names, [f"x{i:04}" for i in rng.permutation(len(names))], strict=True))
    frame[part] = [new[name] for name in frame[part]]
    return mh.Annotations.from_frame(frame), new


# ---------------------------------------------------------------------------------------------------- kernels


@pytest.fixture(scope="module")
def small():
    votes = crowd(n_tasks=40, groups=LEAGUE[:8], per_task=5)
    return votes, beliefs(votes), np.random.default_rng(3).random(votes.n_annotations).round(2)


def test_pairs_match_their_twin(small):
    votes, known, _ = small
    arguments = (known.posterior, known.confusion, known.strata)
    found = votes.table.pair_excess(*arguments, min_overlap=5, share=0.1, most=1.0)
    wanted = oracle.pair_excess(Rows.of(votes), *arguments, min_overlap=5, share=0.1)
    assert [tuple(pair) for pair in found["pairs"]] == sorted(wanted)
    assert found["n_tested"] == len(wanted)
    got = np.column_stack([found["counts"], found["chances"]])
    np.testing.assert_allclose(got, [wanted[pair] for pair in sorted(wanted)], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_drift_matches_its_twin(small, share):
    votes, known, when = small
    arguments = (known.posterior, known.confusion, known.strata, when)
    found = votes.table.answer_drift(*arguments, share=share)
    wanted = oracle.answer_drift(Rows.of(votes), *arguments, share)
    np.testing.assert_allclose(found["p"], [p for p, *_ in wanted], rtol=1e-8)
    assert found["at"].tolist() == [at for _, at, *_ in wanted]
    # With two classes to choose between on a task, two labels may be off by the same: then either is named.
    rates = [rates[what] for (*_, rates), what in zip(wanted, found["what"], strict=True)]
    np.testing.assert_allclose(found["shares"], rates, atol=1e-12)
    # An answer tells nothing where all gave the same.
    rows = list(zip(*votes.to_frame().to_pydict().values(), strict=True))
    disputed = {task for task, _, label in rows if {label} != {each for other, _, each in rows if other == task}}
    assert 0 < len(disputed) < votes.n_tasks
    counts = [sum(worker == own and task in disputed for task, own, _ in rows) for worker in votes.workers]
    assert found["told"].tolist() == counts


def test_who_never_could_agree_is_not_tested():
    """Where everybody gave another label, no pair could have agreed by chance."""
    rows = [(task, worker, worker) for task in range(4) for worker in range(3)]
    votes = mh.Annotations.from_arrays(*zip(*rows, strict=True))
    even = np.full((3, 3, 3), 1 / 3)
    found = votes.table.pair_excess(
        even[0, 0] + np.zeros((4, 3)), even, np.zeros(4, np.uint8), min_overlap=1, share=0.0, most=1.0
    )
    assert found["n_tested"] == 0


def test_threads_change_nothing():
    votes = crowd()
    known, when = beliefs(votes), np.random.default_rng(0).random(votes.n_annotations)
    arguments = (known.posterior, known.confusion, known.strata)
    threads, runs = mh.get_num_threads(), []
    try:
        for n in (1, 3):
            mh.set_num_threads(n)
            pairs = votes.table.pair_excess(*arguments, min_overlap=5, share=0.0, most=1.0)
            fit = mh.categorical.GroupDawidSkene([[0, 1], [3, 4, 5]]).fit(votes)
            runs.append(
                [
                    pairs["chances"],
                    votes.table.answer_drift(*arguments, when)["p"],
                    fit.posterior_,
                    fit.group_confusion_,
                ]
            )
    finally:
        mh.set_num_threads(threads)
    for one, three in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, three)


# ----------------------------------------------------------------------------------------------------- copies


def test_copies_are_found_with_their_evidence():
    votes = crowd()
    found = mh.audit.copies(votes)
    assert (len(found), found.workers.tolist(), found.redundant.shape) == (1, [0, 1], (1,))
    (row,) = found.frame().to_pylist()
    said = votes.to_frame().to_pandas().pivot(index="task", columns="worker", values="label")[[0, 1]].dropna()
    assert (row["worker"], row["other"], row["common"]) == (0, 1, len(said))
    assert row["agreements"] == (said[0] == said[1]).sum() > row["expected"]
    assert row["p_value"] <= row["q_value"] <= 0.05
    # A group of two who copy with probability 0.8 each share 0.64 of their answers.
    assert 0.4 < row["copied"] < 0.8
    assert votes.without(found).n_workers == 10


def test_names_and_order_of_workers_do_not_matter_to_copies():
    votes = crowd(seed=2)
    other, names = shuffled(votes)
    rows = mh.audit.copies(votes).frame().to_pylist()
    pairs = {frozenset((names[row["worker"]], names[row["other"]])) for row in rows}
    assert pairs == {frozenset((row["worker"], row["other"])) for row in mh.audit.copies(other).frame().to_pylist()}
    assert len(pairs) == 1


@pytest.mark.parametrize(
    "crowds",
    [
        {"crowd": "one-coin", "accuracy": (0.4, 0.95), "labels_per_task": 5},
        {"crowd": {"one-coin": 0.5, "spammers": 0.3, "naive": 0.2}, "labels_per_task": 7},
        {"crowd": "class-conditional", "labels_per_task": 4, "activity": 1.0},
        {"crowd": "confusers", "labels_per_task": 9, "prior": [0.8, 0.1, 0.1]},
    ],
    ids=["uneven", "spammers", "few labels", "rare classes"],
)
def test_independent_crowds_have_neither_copies_nor_groups(crowds):
    # At a rate of 5 % for copies, any pair at all is found in one crowd of twenty.
    found = 0
    for seed in range(10):
        votes = mh.simulate(300, 30, 3, seed=seed, **crowds).log
        found += bool(len(mh.audit.copies(votes, least=0.0)))
        assert not mh.audit.groups(votes).groups
    assert found <= 2


def test_rates_are_those_of_benjamini_and_hochberg():
    p = np.array([0.04, 0.001, 0.03])
    np.testing.assert_allclose(q_values(p, 10), [0.4 / 3, 0.01, 0.4 / 3])
    np.testing.assert_allclose(q_values(np.array([0.9, 0.2]), 10), 1.0)
    assert q_values(np.zeros(0), 0).shape == (0,)


def test_several_answers_of_one_worker_count_once_or_not_at_all():
    rows = [("t", "a", 0), ("t", "a", 0), ("t", "b", 0), ("t", "b", 1), ("u", "a", 1), ("u", "c", 1)]
    votes = mh.Annotations.from_arrays(*zip(*rows, strict=True), weights=[1, 2, 1, 1, 0, 1])
    kept = one_answer(votes)
    tasks, workers, labels = votes.codes()
    rows = zip(tasks[kept], workers[kept], labels[kept], strict=True)
    left = [(votes.tasks[t], votes.workers[w], votes.labels[x]) for t, w, x in rows]
    assert left == [("t", "a", 0), ("u", "c", 1)]


# ----------------------------------------------------------------------------------------------------- groups


def seed_paper(n_tasks=5000, seed=0, sharp=0.75):
    """SP's synthetic test: 40 workers in 5 groups, 3 classes, all label everything."""
    rng = np.random.default_rng(seed)
    truth, groups = rng.integers(0, 3, n_tasks), np.repeat(np.arange(5), 8)

    def drawn(given, skill):
        wrong = (given + rng.integers(1, 3, len(given))) % 3
        return np.where(rng.random(len(given)) < skill, given, wrong)

    latent = [drawn(truth, skill) for skill in (0.75, 0.7, 0.65, 0.6, 0.55)]
    said = np.stack([drawn(latent[group], rng.uniform(sharp, sharp + 0.15)) for group in groups], axis=1)
    return mh.Annotations.from_dense(said), truth, groups


def test_groups_and_what_they_answer_are_recovered():
    votes, truth, _ = seed_paper(2000)
    found = mh.audit.groups(votes)
    assert found.groups == [list(range(8 * j, 8 * j + 8)) for j in range(5)]
    assert len(found) == 5
    assert found.found.all()
    assert (found.frame()["p_value"].to_numpy() < 0.01).all()
    model = mh.categorical.GroupDawidSkene().fit(votes)
    assert model.groups_ == found.groups
    right = mh.metrics.accuracy(model.labels_, truth)
    assert right > mh.metrics.accuracy(mh.DawidSkene().fit(votes).labels_, truth)
    assert right > mh.metrics.accuracy(mh.MajorityVote().fit(votes).labels_, truth)
    diagonal = np.einsum("gkk->gk", model.group_confusion_).mean(axis=1)
    np.testing.assert_allclose(diagonal, [0.75, 0.7, 0.65, 0.6, 0.55], atol=0.06)


def test_names_and_order_of_workers_do_not_matter_to_groups():
    votes, _, _ = seed_paper(300)
    other, names = shuffled(votes)
    wanted = {frozenset(names[w] for w in group) for group in mh.audit.groups(votes).groups}
    assert {frozenset(group) for group in mh.audit.groups(other).groups} == wanted
    assert len(wanted) == 5


def test_groups_of_one_are_plain_dawid_and_skene():
    votes = crowd()
    start = mh.categorical.HierarchicalDawidSkene().fit(votes)
    plain = mh.DawidSkene(init=(start.prior_, start.confusion_), max_iter=200, tol=1e-9).fit(votes)
    alone = mh.categorical.GroupDawidSkene([], max_iter=200, tol=1e-9).fit(votes)
    np.testing.assert_allclose(alone.posterior_, plain.posterior_, atol=1e-3)
    assert alone.groups_ == []


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([[0, 99]], ValueError, "99,"),
        ([[0, 1], [1, 2]], ValueError, "1 more than once"),
        ([[0, 0]], ValueError, "groups.*0,.*0"),
        ([0, 1], TypeError, "workers"),
        ("ab", TypeError, "workers"),
        (iter([[0, 1]]), TypeError, "workers"),
        ([iter([0, 1])], TypeError, "workers"),
    ],
)
def test_bad_groups_are_named(groups, error, message):
    for model in (mh.categorical.GroupDawidSkene(groups), mh.categorical.GroupVote(groups)):
        with pytest.raises(error, match=message):
            model.fit(crowd())


def test_groups_that_leave_workers_out_leave_them_alone():
    model = mh.categorical.GroupVote([[0, 1], [5]]).fit(crowd())
    assert model.groups_ == [[0, 1]]


def test_bluebird_has_no_copies_and_ducks_has_camps(shared_data):
    assert len(mh.audit.copies(mh.read(shared_data / "bluebird" / "labels.csv"))) == 0
    assert len(mh.audit.groups(mh.read(shared_data / "ducks" / "labels.csv"))) >= 1


def test_who_stands_against_camps_is_no_camp():
    league = np.repeat([0, 1, -1], [4, 4, 4])
    votes = mh.simulate(400, 12, 3, crowd="one-coin", labels_per_task=12, groups=league, copying=0.7, seed=1).log
    assert mh.audit.groups(votes).groups == [[0, 1, 2, 3], [4, 5, 6, 7]]


# ------------------------------------------------------------------------------------------ dependence, drift


def test_dependence_is_measured_or_not_told():
    independent = mh.audit.dependence(mh.simulate(2000, 30, 3, labels_per_task=8, seed=1).log)
    assert independent.correlation < 3 * independent.error
    assert not independent.cannot_tell
    league = mh.audit.dependence(crowd(groups=np.repeat([0, 1, -1], [5, 5, 10]), n_tasks=1000))
    assert league.correlation > 3 * league.error
    assert league.probability > 0.9
    blind = mh.audit.dependence(mh.simulate(30, 6, 2, labels_per_task=2, seed=1).log)
    assert blind.cannot_tell
    assert "cannot tell" in repr(blind)
    assert blind.remarks


def tiring(seed, workers=(3,), n_tasks=400):
    """A log as a frame in which some workers say the first class only, from the middle on."""
    votes = mh.simulate(n_tasks, 12, 3, crowd="one-coin", accuracy=(0.65, 0.85), labels_per_task=6, seed=seed).log
    log = votes.to_frame().to_pydict()
    for i in range(len(log["task"]) // 2, len(log["task"])):
        if log["worker"][i] in workers:
            log["label"][i] = 0
    return log


def test_drift_is_found_where_it_is():
    log = tiring(1)
    found = mh.audit.drift(log)
    assert found.workers.tolist() == [3]
    row = next(row for row in found.frame().to_pylist() if row["worker"] == 3)
    assert abs(row["after"] / row["n_answers"] - 0.5) < 0.1
    # The same log with its rows in any order, and a column that tells it.
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(log["task"]))
    mixed = {name: [column[i] for i in rows] for name, column in log.items()} | {"time": rows.tolist()}
    assert mh.audit.drift(mixed, order="time").frame().equals(found.frame())
    assert 3 not in mh.audit.drift(mixed).workers
    days = {**mixed, "time": np.datetime64("2024-01-01T00:00:00", "us") + rows.astype("timedelta64[s]")}
    assert mh.audit.drift(days, order="time").frame().equals(found.frame())
    # As a table, which has no order of its own.
    votes = mh.Annotations.from_frame(log)
    assert mh.audit.drift(votes, np.arange(votes.n_annotations)).workers.tolist() == [3]


def test_workers_who_stay_the_same_do_not_drift():
    found = sum(len(mh.audit.drift(tiring(seed, workers=()))) > 0 for seed in range(20))
    assert found <= 3


def test_hard_tasks_that_come_late_are_no_drift():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 600)
    easy = np.where(np.arange(600) < 300, 0.95, 0.5)[:, None]
    said = np.where(rng.random((600, 8)) < easy, truth[:, None], rng.integers(0, 3, (600, 8)))
    votes = mh.Annotations.from_dense(said)
    assert len(mh.audit.drift(votes, votes.codes()[0])) == 0


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (None, ValueError, "order"),
        ("time", ValueError, "order"),
        ([1.0, 2.0], ValueError, "number"),
        (["a"] * 2400, TypeError, "dates"),
        ([float("nan")] * 2400, ValueError, "no value"),
    ],
)
def test_bad_orders_are_named(order, error, message):
    with pytest.raises(error, match=message):
        mh.audit.drift(mh.Annotations.from_frame(tiring(1)), order)


def test_a_missing_order_column_is_named():
    with pytest.raises(ValueError, match="column 'when'"):
        mh.audit.drift(tiring(1), order="when")


# -------------------------------------------------------------------------------------------------- odd logs


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
@pytest.mark.parametrize("name", [*ODD, "no overlap", "two workers"])
def test_odd_logs_are_told_about(name):
    if name == "no overlap":
        votes = mh.Annotations.from_arrays(range(60), np.arange(60) % 4, np.arange(60) % 3)
    elif name == "two workers":
        votes = mh.Annotations.from_dense(np.random.default_rng(0).integers(0, 2, (50, 2)))
    else:
        votes = ODD[name].votes()
    copies, groups = mh.audit.copies(votes), mh.audit.groups(votes)
    assert len(copies) == len(groups) == 0
    assert copies.frame().num_rows == 0
    assert groups.frame().num_rows == votes.n_workers
    drift = mh.audit.drift(votes, np.arange(votes.n_annotations))
    assert len(drift) == 0
    dependence = mh.audit.dependence(votes)
    assert np.isfinite([dependence.correlation, dependence.error, dependence.probability]).all()
    if name in ("no overlap", "two workers", "one worker"):
        assert "cannot be detected" in " ".join(copies.remarks)
        assert dependence.cannot_tell
    for found in (copies, groups, drift, dependence):
        assert isinstance(repr(found), str)


@pytest.mark.parametrize("audit", [mh.audit.copies, mh.audit.groups])
@pytest.mark.parametrize("settings", [{"rate": 0.0}, {"rate": 1.0}, {"min_overlap": 0}, {"min_overlap": 2.5}])
def test_bad_settings_are_refused(audit, settings):
    with pytest.raises((TypeError, ValueError), match=next(iter(settings))):
        audit(crowd(), **settings)


def test_a_share_of_all_answers_is_refused():
    with pytest.raises(ValueError, match="least"):
        mh.audit.copies(crowd(), least=1.0)
    with pytest.raises(ValueError, match="least"):
        mh.audit.drift(tiring(1), least=1.0)


def test_progress_is_reported_by_worker():
    steps: list[int] = []
    mh.audit.copies(crowd(), progress=lambda step, _: steps.append(step))
    assert max(steps) == 12


def test_of_each_set_of_copies_all_but_one_are_redundant():
    league = [-1, 0, 0, 1, 1, 1, *[-1] * 8]
    settings = {"crowd": "one-coin", "accuracy": (0.6, 0.9), "labels_per_task": 10}
    crowd = mh.simulate(400, len(league), 3, groups=league, copying=0.95, seed=1, **settings)
    found = mh.audit.copies(crowd.log)
    assert found.workers.tolist() == [1, 2, 3, 4, 5]
    redundant = set(found.redundant.tolist())
    assert (len(redundant & {1, 2}), len(redundant & {3, 4, 5}), len(redundant)) == (1, 2, 3)
