"""Texts: tables, words, alignment and its twin, aggregators, measures, recovery, real data."""

from __future__ import annotations

import gzip
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from draws import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands import _core, metrics
from manyhands.testing import aggregator_checks
from manyhands.testing.compare import never_falls
from manyhands.texts._chi import upper_quantiles
from manyhands.texts._network import EMPTY, Network
from manyhands.texts._shared import LEVELS, SharedErrors, _maximize
from manyhands.texts.nearest import Blocks, _squares
from manyhands.texts.rover import _WorkerRates
from manyhands.texts.words import Spelling, fold_token, join_tokens, tokens_of
from oracles import texts as twin

SHARED = Path(__file__).parents[3] / "shared" / "data"
LOG = {"task": [1, 1, 2], "worker": ["a", "b", "a"], "text": ["the cat", "The cat.", "dog"]}
METHODS = [
    mh.texts.ROVER(),
    mh.texts.ROVER(level="character", fold=False),
    mh.texts.ClosestToCentre(),
    mh.texts.RASA(),
    mh.texts.HRRASA(distance="levenshtein"),
]


# ------------------------------------------------------------------------------------------------------- tables


def test_all_forms_give_the_same_table(tmp_path: Path) -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    texts = mh.Texts.from_frame(LOG)
    pd.DataFrame(LOG).to_csv(tmp_path / "log.csv", index=False)
    texts.save(tmp_path / "texts.mh")
    for other in (
        mh.Texts.from_frame(pd.DataFrame(LOG)),
        mh.Texts.from_frame(pa.table(LOG)),
        mh.Texts.from_arrays(LOG["task"], LOG["worker"], LOG["text"]),
        mh.read(tmp_path / "log.csv", kind="texts"),
        pickle.loads(pickle.dumps(texts)),
        mh.load(tmp_path / "texts.mh"),
    ):
        assert other == texts
    assert repr(texts) == "<Texts: 3 texts, 3 of them different, to 2 tasks by 2 workers>"
    assert texts.describe().n_distinct == 3
    assert texts.select(workers=["b"]).to_frame().column("text").to_pylist() == ["The cat."]
    assert mh.aggregate(LOG).texts_.tolist() == ["The cat", "dog"]


def test_a_text_beside_a_label_is_what_was_labelled() -> None:
    assert isinstance(mh.aggregate(LOG | {"label": ["x", "x", "y"]}), mh.Consensus)


def test_texts_that_say_nothing_are_set_aside_and_counted() -> None:
    log = LOG | {"text": ["the cat", "  ", ""]}
    with pytest.warns(mh.errors.DataWarning, match="2 rows"):
        texts = mh.Texts.from_frame(log)
    assert texts.unlabelled.tolist() == [2]
    with pytest.raises(ValueError, match="column 'text'"):
        mh.Texts.from_frame(log, missing="error")
    with pytest.raises(TypeError, match=r"3, a.*row 1"):
        mh.Texts.from_frame(LOG | {"text": ["a", 3, "b"]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the  cat\n sat", [" the", " cat", " sat"]),
        ("我爱 you 们", [" 我", "爱", " you", " 们"]),
        ("don't", [" don't"]),
        ("ก้าว", [" ก้", "า", "ว"]),
        ("", []),
    ],
)
def test_words_of_any_script(text: str, words: list[str]) -> None:
    assert tokens_of(text, "word") == words
    assert join_tokens(words) == " ".join(text.split())


def test_pictures_alone_are_words() -> None:
    texts = mh.Texts.from_arrays([1] * 3, list("abc"), ["👍🏽 Ok!", "👍🏽 ok", "👍 ok"])
    assert mh.aggregate(texts).texts_.tolist() == ["👍🏽 ok"]
    assert [fold_token(word) for word in ("$5", "...", "ok👍", "+", "\u0301☂")] == ["5", "", "ok", "", "\u0301☂"]


def test_letters_keep_their_marks() -> None:
    assert tokens_of("e\u0301 a", "character") == ["e\u0301", " ", "a"]
    spelt = Spelling.of(["Café!", "CAFE\u0301"])
    assert spelt.keys.tolist() == [0, 0]
    assert Spelling.of(["Café!", "CAFE\u0301"], fold=False).n_keys == 2


# -------------------------------------------------------------------------------------------------------- twins

SEQUENCES = st.sets(st.lists(st.integers(0, 3), max_size=6).map(tuple), min_size=1, max_size=5)


@given(SEQUENCES, st.data())
@settings(deadline=None, max_examples=60)
def test_alignment_matches_its_twin(sequences: set[tuple[int, ...]], data: st.DataObject) -> None:
    texts = sorted(sequences)
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(texts), max_size=len(texts)))
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.uint32)
    tokens = np.array([token for text in texts for token in text], np.uint32)
    found = _core.align_texts(np.array([0, len(texts)], np.uint32), starts, tokens, np.array(counts, np.uint32))
    places, n_slots, cost = twin.align_texts(texts, counts)
    assert found["slots"].tolist() == [place for row in places for place in row]
    assert (found["n_slots"].tolist(), found["costs"].tolist()) == ([n_slots], [cost])


@given(SEQUENCES, SEQUENCES)
@settings(deadline=None, max_examples=30)
def test_edits_match_their_twin(one: set[tuple[int, ...]], other: set[tuple[int, ...]]) -> None:
    pairs = list(zip(sorted(one), sorted(other), strict=False))
    a, b = zip(*pairs, strict=True)

    def flat(texts):
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.uint32)
        return starts, np.array([token for text in texts for token in text], np.uint32)

    assert _core.edit_counts(*flat(a), *flat(b)).tolist() == [twin.edits(*pair) for pair in pairs]


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_a_pass_of_rover_matches_its_twin(seed: int) -> None:
    texts = mh.simulate(6, 4, answers_per_task=3, words=4, vocabulary=12, seed=seed, kind="texts").log
    network = Network.of(texts, Spelling.of(texts.answers.tolist()))
    readers = _WorkerRates(network, texts.n_workers, 2.0, 0.1)
    start = np.bincount(network.readings) / np.bincount(network.slots)[network.places]
    found = readers._probabilities(start)
    slots = _slots(network)
    none = [
        next((start[c] for c in np.flatnonzero(network.places == s) if not network.tokens[c]), 0.0)
        for s in range(len(slots))
    ]
    wanted = twin.reading_pass(slots, readers.rates(start), float(np.mean(none)), 0.1)
    for code, chance in enumerate(found):
        token = int(network.tokens[code]) or None
        assert chance == pytest.approx(wanted[network.places[code]][token], abs=1e-9)


def _slots(network: Network) -> list[list[tuple[int, int | None]]]:
    """What each worker put into each slot."""
    slots: list[list[tuple[int, int | None]]] = [[] for _ in range(network.n_slots)]
    for slot, worker, code in zip(network.slots, network.workers, network.readings, strict=True):
        slots[slot].append((int(worker), int(network.tokens[code]) or None))
    return slots


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_shared_errors_match_their_twin(seed: int) -> None:
    texts = mh.simulate(6, 4, answers_per_task=3, words=4, vocabulary=12, seed=seed, kind="texts").log
    network = Network.of(texts, Spelling.of(texts.answers.tolist()))
    rng = np.random.default_rng(seed)
    right, inserted = rng.uniform(0.5, 0.9, 4), rng.uniform(0.05, 0.3, 4)
    rates = right, (1 - right) * rng.uniform(0.2, 0.8, 4), inserted
    shared = SharedErrors(network, rates, math.log(0.05))
    shares = rng.dirichlet(np.ones(len(LEVELS)))
    state = shared._state(shares, 0.3 * network.n_slots, 4.0)
    found, objective, after = shared._pass(state)
    wanted, log = twin.shared_pass(_slots(network), rates, 0.05, levels=LEVELS, shares=shares, nothing=0.3, variety=4.0)
    for code, chance in enumerate(found):
        token = int(network.tokens[code]) or None
        assert chance == pytest.approx(wanted[network.places[code]][token], abs=1e-9)
    belief = math.log(4.0) - 4.0 / 100.0
    assert objective == pytest.approx(log + np.log(shares).sum() + belief, rel=1e-9)
    assert shared._pass(after)[1] >= objective - 1e-9


@pytest.mark.parametrize(("hard", "wrong", "variety"), [(0.0, 0.25, (30, 1e4)), (0.15, 0.1, (0.1, 10))])
def test_probabilities_of_words_are_about_right(hard: float, wrong: float, variety: tuple[float, float]) -> None:
    """Words that mislead everybody make the model less sure, and nothing else does."""
    crowd = mh.simulate(400, 20, wrong=wrong, omitted=0, inserted=0, spread=0.5, hard=hard, seed=3, kind="texts")
    model = mh.aggregate(crowd.log)
    assert never_falls(model.history_)
    assert len(model.history_) > 5
    frame = model.words_frame()
    sure = frame.column("confidence").to_numpy()
    words = frame.column("word").to_pylist()
    true = [word for text in crowd.truth for word in text.split()]
    assert len(words) == len(true)  # nobody left out a word, or added one
    right = np.array([word == other for word, other in zip(words, true, strict=True)])
    assert abs(sure.mean() - right.mean()) < (0.03 if hard else 0.01)
    loss = -np.log(np.maximum(np.where(right, sure, 1 - sure), 1e-9)).mean()
    network = Network.of(crowd.log, Spelling.of(crowd.log.answers.tolist()))
    readers = _WorkerRates(network, 20, 10.0, 0.01)
    alone = readers.run(100, 1e-4, None)[0]
    first = alone[network.best(alone)]
    apart = -np.log(np.maximum(np.where(right, first, 1 - first), 1e-9)).mean()
    assert loss < (0.6 if hard else 1.05) * apart
    shared = SharedErrors(network, readers.rates(alone), readers.log_one)
    state = shared._state(np.ones(len(LEVELS)), 0.0, 100.0)
    for _ in range(20):
        state = shared._pass(state)[2]
    assert variety[0] < math.exp(state[-1]) < variety[1]


@given(SEEDS)
@settings(deadline=None, max_examples=10)
def test_distances_to_a_centre_need_no_centre(seed: int) -> None:
    texts = mh.simulate(4, 5, answers_per_task=4, words=3, vocabulary=9, seed=seed, kind="texts").log
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(len(texts.answers), 3))
    blocks = Blocks.of(texts, lambda _: points, None)
    weights = rng.random(texts.n_annotations) + 0.1
    away, _ = blocks.from_center(weights)
    tasks, _, said = texts.codes()
    for task in range(texts.n_tasks):
        here = tasks == task
        np.testing.assert_allclose(away[here], twin.centre_distances(points[said[here]], weights[here]), atol=1e-9)


def test_no_rate_of_a_worker_is_certain() -> None:
    texts = mh.Texts.from_arrays([1] * 3, list("abc"), ["the cat sat", "the cat", "the cat"])
    network = Network.of(texts, Spelling.of(texts.answers.tolist()))
    readers = _WorkerRates(network, texts.n_workers, 1e-12, 0.1)
    right, omitted, inserted = readers.rates(np.where(network.tokens == EMPTY, 1.0, network.places < 2))
    assert right == pytest.approx([1 - 2e-6] * 3, abs=1e-9)
    assert omitted == pytest.approx([1e-6] * 3, abs=1e-9)
    assert inserted == pytest.approx([1 - 1e-6, 1e-6, 1e-6], abs=1e-9)


@pytest.mark.parametrize("model", [mh.texts.RASA, mh.texts.HRRASA], ids=lambda model: model.__name__)
def test_weights_of_workers_match_their_twin(model) -> None:
    log = mh.simulate(12, 5, answers_per_task=4, words=4, vocabulary=9, seed=3, kind="texts").log
    rows = log.to_frame()
    texts = mh.Texts.from_frame(rows.append_column("w", [np.random.default_rng(0).random(len(rows)) + 0.5]), weight="w")
    points = np.random.default_rng(1).normal(size=(len(texts.answers), 2))
    tasks, workers, codes = texts.codes()
    quantiles = upper_quantiles(0.1, texts.labels_per_worker)
    fitted = model(lambda _: points, alpha=0.2, max_iter=7, tol=0.0).fit(texts)
    counts = np.asarray(texts.weights)
    weights, of_answers = twin.worker_weights(
        tasks, workers, points[codes], counts, quantiles, local=model is mh.texts.HRRASA, n_iter=7
    )
    np.testing.assert_allclose(fitted.weights_, weights, rtol=1e-9)
    # Confidence follows from the distance of the chosen text to the center, and from the mean of all distances.
    for task in range(texts.n_tasks):
        here = tasks == task
        away = twin.centre_distances(points[codes[here]], of_answers[here])
        spread = np.average(away, weights=of_answers[here])
        assert fitted.confidence_[task] == pytest.approx(1 / (1 + away.min() + spread), rel=1e-9)
        assert fitted.texts_[task] == texts.answers[codes[here][np.argmin(away)]]


def test_squares_of_all_pairs_are_filled() -> None:
    points, one = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 1, 1])
    assert _squares(points, one, one[::-1]).tolist() == [25.0, 0.0, 25.0]


def test_quantiles_are_those_of_scipy() -> None:
    chi2 = pytest.importorskip("scipy.stats").chi2
    degrees = np.array([1, 2, 3, 10, 11, 300, 301, 5000])
    for share in (0.025, 0.3, 0.9):
        np.testing.assert_allclose(upper_quantiles(share, degrees), chi2.isf(share, degrees), rtol=1e-9)


@pytest.mark.parametrize("top", [-1.5, 0.3, 2.0, 4.9])
def test_the_highest_point_is_found_to_a_hundredth(top: float) -> None:
    calls = []

    def score(x: float) -> float:
        calls.append(x)
        return -((x - top) ** 2)

    assert _maximize(score, -2.0, 5.0) == pytest.approx(top, abs=0.01)
    assert all(-2.0 < x < 5.0 for x in calls)


# -------------------------------------------------------------------------------------------------- aggregators


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{model!r}-{name}")
        for model in METHODS
        for name, check in aggregator_checks(model)
    ],
)
def test_check_list(name: str, check) -> None:
    check()


def test_words_come_with_probabilities(tmp_path: Path) -> None:
    texts = mh.Texts.from_arrays([1] * 4, list("abcd"), ["the cat sat", "The cat sat.", "a bat sat", "the cat"])
    model = mh.texts.ROVER().fit(texts)
    frame = model.words_frame()
    assert frame.column("word").to_pylist() == ["the", "cat", "sat"]
    sure = frame.column("confidence").to_numpy()
    assert ((sure > 0.5) & (sure <= 1)).all()
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh").words_frame().equals(frame)
    assert [*model.workers_frame().column_names] == [
        "worker",
        "n_answers",
        "skill",
        "skill_error",
        "omitted",
        "inserted",
    ]


def test_bad_settings_are_named() -> None:
    texts = mh.Texts.from_frame(LOG)
    for model, error, told in (
        (mh.texts.ROVER(level="line"), ValueError, "level"),
        (mh.texts.ROVER(strength=0), ValueError, "strength"),
        (mh.texts.RASA(alpha=2), ValueError, "alpha"),
        (mh.texts.RASA(3), TypeError, "embedding"),
        (mh.texts.RASA(len, distance="words"), ValueError, "embedding=.*distance="),
        (mh.texts.RASA(lambda texts: np.zeros((1, 2))), ValueError, r"\(1, 2\).*3 texts"),
        (mh.texts.RASA(lambda texts: np.full((3, 2), np.nan)), ValueError, "'The cat.'"),
        (mh.texts.ClosestToCentre(distance="metres"), ValueError, "distance"),
    ):
        with pytest.raises(error, match=told):
            model.fit(texts)


@pytest.mark.parametrize("model", [mh.texts.ClosestToCentre(), mh.texts.RASA(), mh.texts.HRRASA()], ids=str)
def test_answers_of_little_weight_count_little(model) -> None:
    texts = mh.Texts.from_arrays([1, 1, 1], list("uvw"), ["a b c", "x y z", "x y z"], weights=[0.9, 0.01, 0.01])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
        assert model.fit(texts).texts_.tolist() == ["a b c"]


def test_careless_writers_are_found_and_count_for_less() -> None:
    crowd = mh.simulate(
        300, 12, answers_per_task=6, wrong=0.08, omitted=0.05, inserted=0.05, spread=0.8, seed=1, kind="texts"
    )
    model = mh.aggregate(crowd.log)
    assert np.corrcoef(model.right_, crowd.right)[0, 1] > 0.95
    assert np.abs(model.right_ - crowd.right).max() < 0.05
    assert np.abs(model.omitted_ - crowd.omitted).max() < 0.05
    assert metrics.word_error_rate(model.texts_, crowd.truth) < 0.01
    for near in (mh.texts.ClosestToCentre(), mh.texts.RASA(), mh.texts.HRRASA()):
        found = near.fit(crowd.log)
        assert metrics.word_error_rate(found.texts_, crowd.truth) < 0.2
    weights = mh.texts.RASA().fit(crowd.log).weights_
    assert np.corrcoef(np.log(weights), crowd.right)[0, 1] > 0.7


def test_more_writers_leave_fewer_errors() -> None:
    rates = []
    for each in (1, 3, 9):
        crowd = mh.simulate(100, 20, answers_per_task=each, spread=0.3, seed=4, kind="texts")
        rates.append(metrics.word_error_rate(mh.aggregate(crowd.log).texts_, crowd.truth))
    assert rates[0] > 0.1 > rates[1] > rates[2]
    assert rates[2] < 0.005


# ----------------------------------------------------------------------------------------------------- measures


def test_error_rates() -> None:
    assert metrics.word_error_rate(["a b c"], ["a x c d"]) == pytest.approx(0.5)
    assert metrics.word_error_rate(["", "a"], ["", "b"], average="text") == 0.5
    assert metrics.word_error_rate(["a"], ["A."], fold=False) == 1.0
    assert metrics.character_error_rate(["ab c"], ["ab  d"]) == 0.25
    for given_, error, told in (
        ((["a"], []), ValueError, "texts has 1 .*0"),
        (("a", ["a"]), TypeError, "texts"),
        (([None], ["a"]), TypeError, "texts.*None.*index 0"),
    ):
        with pytest.raises(error, match=told):
            metrics.word_error_rate(*given_)


def _read(name: str):
    folder = SHARED / name
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    pd = pytest.importorskip("pandas")
    path = next(folder.glob("labels.csv*"))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        log = pd.read_csv(file, dtype=str, keep_default_na=False)
    gold = pd.read_csv(folder / "gold.csv", dtype=str, keep_default_na=False).set_index("task").label
    return mh.Texts.from_frame(log, task="task", worker="worker", text="label"), gold


@pytest.mark.parametrize(
    ("name", "most"), [("crowdwsa_t1", 0.508), ("crowdwsa_t2", 0.525), ("crowdspeech_dev_clean", 0.0605)]
)
def test_real_texts(name: str, most: float) -> None:
    texts, gold = _read(name)
    model = mh.aggregate(texts)
    assert metrics.word_error_rate(model.texts_, gold[model.tasks_]) < most
