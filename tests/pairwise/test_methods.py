"""Models of comparisons and rankings: the check-list, their twins, recovery, intervals, real data."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands.pairwise import BradleyTerry, CrowdBT, PlackettLuce, RankCentrality, WorkerBradleyTerry
from manyhands.pairwise._intervals import score_intervals
from manyhands.pairwise.base import crowd_average
from manyhands.testing import aggregator_checks
from oracles import pairwise as twins

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

MODELS = {
    "plain": BradleyTerry(),
    "rao-kupper with a bias": BradleyTerry(ties="rao-kupper", left_bias=True),
    "half": BradleyTerry(ties="half", intervals="none"),
    "bootstrap": BradleyTerry(intervals="bootstrap", n_resamples=5),
    "slopes": WorkerBradleyTerry(tol=1e-4),
    "slopes and biases": WorkerBradleyTerry(left_bias="worker", tol=1e-4, intervals="none"),
    "crowd": CrowdBT(tol=1e-12),
    "centrality": RankCentrality(),
}


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{which}-{name}")
        for which, model in MODELS.items()
        for name, check in aggregator_checks(model)
    ],
)
def test_comparison_models_keep_the_list(name, check):
    check()


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{model!r}-{name}")
        for model in (PlackettLuce(tol=1e-4), PlackettLuce(workers=False))
        for name, check in aggregator_checks(model)
    ],
)
def test_ranking_models_keep_the_list(check):
    check()


# ------------------------------------------------------------------------------------------------------- twins


@pytest.fixture(scope="module")
def small():
    return mh.simulate(6, [1.0, 1.5, 0.5, 1.0], 250, ties=0.4, left_bias=0.3, seed=5, kind="pairwise").log


@pytest.mark.parametrize("ties", ["half", "davidson", "rao-kupper"])
@pytest.mark.parametrize("bias", [False, True])
def test_bradley_terry_is_its_twin(small, ties, bias):
    model = BradleyTerry(ties=ties, left_bias=bias, prior=2.0, tol=1e-6).fit(small)
    free = [bias, ties != "half"]
    where = np.flatnonzero([True] * 6 + free)

    def objective(x):
        point = np.zeros(8)
        point[where] = x
        return twins.penalised(small, point, ties, 2.0, free)

    found = twins.climb(objective, np.zeros(len(where)))
    np.testing.assert_allclose(model.scores_, found[:6], atol=1e-6)
    assert model.objective_ == pytest.approx(objective(found), abs=1e-6)
    if bias:
        assert model.left_bias_ == pytest.approx(found[6], abs=1e-6)
    if ties != "half":
        parameter = np.exp(found[-1]) if ties == "davidson" else np.sqrt(1 + np.exp(found[-1]))
        assert model.tie_ == pytest.approx(parameter, abs=1e-5)
    # With few items standard errors are exact: those of the model are the inverse of its second derivatives.
    inverse = np.linalg.inv(-twins.derivatives(objective, found)[1])
    own = np.sqrt(np.diag(inverse)[:6] - 2.0**2 / 6)
    assert (model.errors_ >= own - 1e-4).all()


def test_slopes_are_their_twin(small):
    model = WorkerBradleyTerry(slope_spread=0.7, prior=2.0, tol=1e-7, intervals="none").fit(small)

    def objective(x):
        return twins.penalised(
            small, np.r_[x[:6], 0.0, x[6]], "davidson", 2.0, [False, True], slopes=x[7:], spread=(0.7, np.nan)
        )

    start = np.r_[model.scores_, np.log(model.tie_), model.slopes_]
    average = np.r_[np.zeros(7), np.ones(4)]
    found = twins.climb(objective, start, average)
    np.testing.assert_allclose(start, found, atol=2e-5)
    assert model.slopes_.mean() == pytest.approx(1.0, abs=1e-12)


def test_crowd_bt_is_its_twin(small):
    model = CrowdBT(max_iter=400, tol=1e-13).fit(small)
    scores, reliability = twins.crowd_bt(small, 0.1, 4.0, 1.0, 400)
    np.testing.assert_allclose(model.reliability_, reliability, atol=2e-4)
    np.testing.assert_allclose(model.scores_, scores, atol=2e-3)


def test_rank_centrality_is_its_twin(small):
    np.testing.assert_allclose(RankCentrality().fit(small).scores_, twins.rank_centrality(small, 0.5), atol=1e-6)


def test_plackett_luce_is_its_twin():
    rng = np.random.default_rng(0)
    lists = [rng.permutation(5)[: rng.integers(1, 6)].tolist() for _ in range(60)]
    votes = mh.Rankings.from_lists(lists, workers=rng.integers(0, 3, 60), weights=rng.integers(1, 4, 60))
    model = PlackettLuce(workers=False, prior=2.0, tol=1e-7).fit(votes)
    found = twins.climb(lambda x: twins.plackett_luce(votes, x, np.ones(3), 2.0), np.zeros(5))
    np.testing.assert_allclose(model.scores_, found, atol=1e-6)
    with_workers = PlackettLuce(slope_spread=0.5, prior=2.0, tol=1e-7).fit(votes)

    def objective(x):
        return twins.plackett_luce(votes, x[:5], x[5:], 2.0) - 0.5 * ((x[5:] - 1) ** 2).sum() / 0.5**2

    start = np.r_[with_workers.scores_, with_workers.slopes_]
    np.testing.assert_allclose(start, twins.climb(objective, start, np.r_[np.zeros(5), np.ones(3)]), atol=2e-5)


# ---------------------------------------------------------------------------------------------------- recovery


def test_scores_slopes_ties_and_bias_are_recovered():
    """Errors fall with the root of the comparisons."""
    slopes = np.r_[np.full(14, 1.0), np.zeros(3), np.full(3, -1.0)]
    slopes = slopes / slopes.mean()
    found = []
    for n in (5_000, 80_000):
        crowd = mh.simulate(20, slopes, n, ties=0.5, left_bias=0.2, seed=3, kind="pairwise")
        model = WorkerBradleyTerry(left_bias=True, intervals="none").fit(crowd.log)
        errors = (model.scores_ - crowd.truth, model.slopes_ - slopes, model.tie_ - 0.5, model.left_bias_ - 0.2)
        found.append([float(np.sqrt(np.mean(np.square(error)))) for error in errors])
    few, many = np.array(found)
    assert (many < [0.05, 0.15, 0.03, 0.05]).all()
    assert (many[:2] < 0.5 * few[:2]).all()


def test_bad_workers_do_little_harm():
    """14 good workers, 3 who guess, 3 who mean the opposite; 30 items, 6,000 comparisons."""
    slopes = [1.0] * 14 + [0.0] * 3 + [-1.0] * 3
    found = []
    for seed in range(10):
        crowd = mh.simulate(30, slopes, 6000, seed=seed, kind="pairwise")
        models = (BradleyTerry(intervals="none"), WorkerBradleyTerry(intervals="none"), CrowdBT())
        found.append([mh.metrics.kendall(model.fit(crowd.log).scores_, crowd.truth) for model in models])
    plain, slopes_, reliability = np.mean(found, axis=0)
    assert slopes_ > 0.92 > 0.91 > plain
    assert reliability > plain + 0.03


def test_plackett_luce_recovers_scores_and_finds_guessers():
    rng = np.random.default_rng(1)
    scores, lists, workers = np.linspace(-1.5, 1.5, 8), [], []
    for worker in range(12):
        for _ in range(60):
            slope = 0.0 if worker >= 9 else 1.0
            shown = rng.permutation(8)[:4]
            lists.append(shown[np.argsort(-(slope * scores[shown] + rng.gumbel(size=4)))].tolist())
            workers.append(worker)
    model = mh.aggregate(mh.Rankings.from_lists(lists, workers))
    assert isinstance(model, PlackettLuce)
    assert mh.metrics.kendall(model.scores_, scores) > 0.9
    assert model.slopes_[9:].max() < 0.4 < model.slopes_[:9].min()


def test_the_spread_of_alike_workers_is_none():
    games = mh.simulate(30, 40, 20_000, seed=0, kind="pairwise").log
    model = WorkerBradleyTerry(intervals="none").fit(games)
    assert model.slope_spread_ < 0.15
    plain = BradleyTerry(intervals="none").fit(games)
    np.testing.assert_allclose(model.scores_, plain.scores_, atol=0.03)


# --------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("model", [BradleyTerry(), WorkerBradleyTerry()], ids=["plain", "slopes"])
def test_intervals_cover(model):
    """Of scores, by 25 workers alike; 40 items in 40 logs: 1,600 intervals of 95 %."""
    covered, placed = [], []
    for seed in range(40):
        crowd = mh.simulate(40, 25, 3000, ties=0.3, seed=seed, kind="pairwise")
        fitted = model.fit(crowd.log)
        low, high = fitted.intervals_.T
        covered.append((low <= crowd.truth) & (crowd.truth <= high))
        best, worst = fitted.rank_intervals_.T
        true = np.argsort(np.argsort(-crowd.truth)) + 1
        placed.append((best <= true) & (true <= worst))
    assert 0.93 < np.mean(covered) < 0.985
    assert np.mean(placed) > 0.95


def test_intervals_by_workers_reach_as_far_as_students_t():
    alone = {"model": np.zeros(2), "components": np.zeros(2, np.int64), "prior": 1.0, "level": 0.95, "offset": 0.0}
    for clusters, quantile in ((("workers", 5), 2.7764), (("comparisons", 5), 1.9600)):
        errors, intervals = score_intervals(np.zeros(2), clustered=np.full(2, 0.8), clusters=clusters, **alone)
        np.testing.assert_allclose(errors, 1.0)  # 0.8 · 5 / 4
        np.testing.assert_allclose(intervals, [[-quantile, quantile]] * 2, rtol=1e-4)


def test_workers_with_favourites_widen_intervals():
    """Each worker sees items a little differently: comparisons are then not independent, and only clusters tell."""
    rng = np.random.default_rng(0)
    covered = {"sandwich": [], "comparisons": []}
    for _ in range(20):
        scores = rng.normal(size=15)
        scores -= scores.mean()
        own = scores + rng.normal(0, 0.7, (30, 15))
        left = rng.integers(0, 15, 6000)
        right = (left + rng.integers(1, 15, 6000)) % 15
        by = rng.integers(0, 30, 6000)
        chance = 1 / (1 + np.exp(own[by, right] - own[by, left]))
        winner = np.where(rng.random(6000) < chance, left, right)
        # What a crowd of such workers sees on average is flatter than what each sees.
        truth = scores * 0.92
        for name, workers in (("sandwich", by), ("comparisons", None)):
            fitted = BradleyTerry().fit(mh.Comparisons.from_arrays(left, right, winner, workers))
            low, high = fitted.intervals_.T
            covered[name].append((low <= truth) & (truth <= high))
    assert np.mean(covered["sandwich"]) > 0.88 > 0.75 > np.mean(covered["comparisons"])


def test_items_that_always_won_have_wide_intervals():
    games = mh.Comparisons.from_arrays(
        ["a"] * 3 + ["b", "c"] * 40, ["b"] * 3 + ["c", "b"] * 40, ["a"] * 3 + ["b", "b"] * 20 + ["c", "c"] * 20
    )
    model = BradleyTerry().fit(games)
    low, high = model.intervals_[0]
    assert np.isfinite([low, high]).all()
    assert model.ranks_[0] == 1
    assert low < 0 < 2 < high


def test_errors_of_many_items_say_how_exact_they_are():
    crowd = mh.simulate(400, 30, 8000, seed=0, kind="pairwise")
    model = BradleyTerry().fit(crowd.log)
    assert 0 < model.error_of_errors_ < 0.1
    few = crowd.log.select(items=np.arange(50))
    assert BradleyTerry().fit(few).error_of_errors_ == 0.0
    assert (BradleyTerry(seed=1).fit(crowd.log).errors_ != model.errors_).any()


# --------------------------------------------------------------------------------------------- what is undetermined


def test_groups_that_never_meet_are_named():
    games = mh.Comparisons.from_arrays(["a", "a", "x", "z"], ["b", "b", "y", "x"], ["a", "b", "x", "z"])
    for model in (BradleyTerry(), CrowdBT(), RankCentrality()):
        with pytest.warns(mh.errors.IdentifiabilityWarning, match=r"2 groups.*3 items.*'a'"):
            model.fit(games)
        assert model.components_.tolist() == [0, 0, 1, 1, 1]
        assert "components_" in model.remarks_[0]
    assert "component" in model.to_frame().column_names


def test_few_workers_are_said_and_not_warned_of(recwarn):
    games = mh.simulate(4, 3, 600, kind="pairwise").log
    model = mh.aggregate(games)
    assert not recwarn.list
    assert "3 workers are too few" in model.remarks_[0]


def test_predictions_know_workers_and_sides():
    crowd = mh.simulate(5, [1.0, 1.0, 1.0, -1.0], 4000, left_bias=1.0, seed=0, kind="pairwise")
    model = WorkerBradleyTerry(left_bias="worker").fit(crowd.log)
    best, worst = int(np.argmax(crowd.truth)), int(np.argmin(crowd.truth))
    average, good, bad, stranger = (
        model.predict_proba(best, worst, workers=who)[0] for who in (None, [0], [3], ["nobody"])
    )
    assert good[0] > average[0] > bad[0]
    np.testing.assert_array_equal(stranger, average)
    assert model.predict_proba(best, best)[0, 0] > 0.6
    assert len(model.predict_proba([best, worst], [worst, best])) == 2
    with pytest.raises(KeyError, match="77"):
        model.predict_proba(77, best)
    with pytest.raises(ValueError, match=r"2 items.*has 1"):
        model.predict_proba([0, 1], [2])


def test_predictions_of_equal_workers_follow_from_scores_alone():
    crowd = mh.simulate(5, 4, 400, seed=0, kind="pairwise")
    model = BradleyTerry(ties="half").fit(crowd.log)
    lead = model.scores_[0] - model.scores_[1]
    first, second = model.items_[:2].tolist()
    for workers in (None, crowd.log.workers[0], "nobody"):
        chances = model.predict_proba([first], [second], workers=workers)
        np.testing.assert_allclose(chances, [[1 / (1 + np.exp(-lead)), 1 / (1 + np.exp(lead)), 0.0]], rtol=1e-12)
    assert model.workers_frame().column("skill").to_pylist() == [1.0] * 4


def test_a_worker_who_is_not_named_is_drawn_from_the_crowd():
    crowd = mh.simulate(5, [1.5, 1.0, 0.5, -1.0], 4000, seed=0, kind="pairwise")
    model = WorkerBradleyTerry().fit(crowd.log)
    left, right = [0, 1, 2], [3, 4, 0]
    each = [model.predict_proba(left, right, workers=worker) for worker in model.workers_.tolist()]
    weights = crowd.log.labels_per_worker / crowd.log.labels_per_worker.sum()
    np.testing.assert_allclose(model.predict_proba(left, right), np.tensordot(weights, each, 1), rtol=1e-12)
    mixed = model.predict_proba(left, right, workers=[0, "nobody", 3])
    np.testing.assert_array_equal(mixed[1], model.predict_proba(left, right)[1])
    np.testing.assert_array_equal(mixed[2], each[3][2])


def test_many_workers_are_averaged_in_groups():
    rng = np.random.default_rng(0)
    n_answers, slopes, biases = rng.integers(1, 50, 1000), rng.normal(1, 0.5, 1000), rng.normal(0, 0.1, 1000)
    weights, group_slopes, group_biases = crowd_average(n_answers, slopes, biases)
    assert len(weights) <= 64
    assert weights.sum() == pytest.approx(1.0)
    exact = np.average(1 / (1 + np.exp(-(2 * slopes + biases))), weights=n_answers)
    assert weights @ (1 / (1 + np.exp(-(2 * group_slopes + group_biases)))) == pytest.approx(exact, abs=1e-3)
    assert [len(part) for part in crowd_average(n_answers, np.ones(1000), np.zeros(1000))] == [1, 1, 1]


@pytest.mark.skipif(not (DATA / "age_pairs").is_dir(), reason="needs shared/data/age_pairs beside the checkout")
def test_predictions_without_workers_are_no_worse_than_without_slopes():
    pd = pytest.importorskip("pandas")
    log = pd.read_csv(DATA / "age_pairs" / "labels.csv", dtype=str, keep_default_na=False)
    rows = np.random.default_rng(0).permutation(len(log))
    parts = [log.iloc[half].reset_index(drop=True) for half in np.array_split(rows, 2)]
    first, second = (
        mh.Comparisons.from_frame(part[["worker", "left", "right", "label"]], winner="label") for part in parts
    )
    plain, default = (
        mh.metrics.comparison_log_loss(model.fit(first), second)
        for model in (BradleyTerry(intervals="none"), WorkerBradleyTerry(intervals="none"))
    )
    assert default < plain


def test_bad_settings_are_named():
    games = mh.simulate(3, 2, 30, kind="pairwise").log
    for model, complaint in [
        (BradleyTerry(ties="toss"), "ties"),
        (BradleyTerry(prior=0.0), "prior.*0"),
        (BradleyTerry(level=1.0), "level.*0.*1"),
        (BradleyTerry(intervals="exact"), "intervals"),
        (BradleyTerry(n_resamples=1), "n_resamples.*2"),
        (WorkerBradleyTerry(slope_spread=-1.0), "slope_spread.*0"),
        (CrowdBT(link=0), "link.*0"),
        (RankCentrality(prior=0), "prior.*0"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            model.fit(games)
    with pytest.raises(TypeError, match="left_bias"):
        WorkerBradleyTerry(left_bias="workers").fit(games)
    with pytest.raises(TypeError, match="Comparisons"):
        BradleyTerry().fit(3)


def test_leaderboards_are_on_the_scale_of_elo():
    crowd = mh.simulate([0.0, np.log(10)], 12, 20_000, seed=0, kind="pairwise")
    table = mh.pairwise.leaderboard(crowd.log)
    ratings = table.column("rating").to_pylist()
    assert ratings[0] - ratings[1] == pytest.approx(400, abs=30)
    assert np.mean(ratings) == pytest.approx(1000)
    assert table.column("item").to_pylist() == [1, 0]
    log = crowd.log.to_frame().to_pydict()
    games = mh.Comparisons.from_arrays(
        log["left"], log["right"], log["winner"], log["worker"], contexts=["en", "de"] * 10_000
    )
    by_context = mh.pairwise.leaderboard(games, by_context=True)
    assert by_context.column("context").to_pylist() == ["overall"] * 2 + ["de"] * 2 + ["en"] * 2
    assert sum(by_context.column("wins").to_pylist()[2:]) == 20_000
    with pytest.raises(ValueError, match="contexts"):
        mh.pairwise.leaderboard(crowd.log, by_context=True)


# ---------------------------------------------------------------------------------------------------- measures


def test_rank_correlations_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 257):
        a, b = rng.integers(0, 8, n) + 0.0, rng.integers(0, 8, n) + 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = stats.kendalltau(a, b).statistic, stats.spearmanr(a, b).statistic
        np.testing.assert_allclose((mh.metrics.kendall(a, b), mh.metrics.spearman(a, b)), wanted, atol=1e-12)


def test_log_loss_of_comparisons_by_hand():
    games = mh.Comparisons.from_arrays(["a", "b"], ["b", "a"], ["a", "tie"])
    model = BradleyTerry(ties="half").fit(games)
    p = model.predict_proba("a", "b")[0, 0]
    wanted = -(np.log(p) + 0.5 * np.log(p) + 0.5 * np.log(1 - p)) / 2
    assert mh.metrics.comparison_log_loss(model, games) == pytest.approx(wanted)


# --------------------------------------------------------------------------------------------------- real data


def test_convincing_arguments_are_ranked_as_published():
    """Mean rank correlation within the 32 groups, whose published scores run the other way."""
    folder = DATA / "convarg"
    if not folder.exists():
        pytest.skip("no ../shared/data/convarg beside the checkout")
    pandas = pytest.importorskip("pandas")
    log, ranking = pandas.read_csv(folder / "labels.csv.gz"), pandas.read_csv(folder / "ranking.csv")
    group = log.task + "/"
    log = log.assign(left=group + log.left, right=group + log.right)
    log["label"] = np.where(log.label == "tie", "tie", group + log.label)
    games = mh.Comparisons.from_frame(log[["left", "right", "label", "worker"]])
    with pytest.warns(mh.errors.IdentifiabilityWarning, match="32 groups"):
        model = mh.aggregate(games)
    score = dict(zip(model.items_, model.scores_, strict=True))
    found = []
    for task, part in ranking.groupby("task"):
        mine = [score[f"{task}/{item}"] for item in part.item]
        found.append(mh.metrics.spearman(mine, part.score))
    assert max(found) < 0
    assert -np.mean(found) > 0.909


def test_dots_are_counted():
    """Rankings of four pictures by their dots: the crowd as a whole is right four times of four."""
    folder = DATA / "mturk_dots"
    if not folder.exists():
        pytest.skip("no ../shared/data/mturk_dots beside the checkout")
    pandas = pytest.importorskip("pandas")
    rankings, gold = pandas.read_csv(folder / "rankings.csv"), pandas.read_csv(folder / "gold.csv")
    for instance, order in zip(gold.instance, gold.order, strict=True):
        part = rankings[rankings.instance == instance]
        model = PlackettLuce().fit(mh.Rankings.from_lists(part.order.str.split(">"), weights=part["count"]))
        assert model.to_frame().column("item").to_pylist() == order.split(">")
