"""Methods for sequences: votes, models of workers against their twins, exports, real data."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands import _core
from manyhands._base.names import Names
from manyhands.sequences.crowd import as_tokens
from manyhands.sequences.design import _of_spans, kinds_of_cells, steps_read
from manyhands.sequences.tags import Tags
from manyhands.testing import aggregator_checks
from manyhands.testing.compare import assert_close
from oracles import sequences as oracle

SHARED = Path(__file__).parents[3] / "shared" / "data"

THREE = {
    "sequence": [1] * 12,
    "position": [0, 1, 2, 3] * 3,
    "worker": ["a"] * 4 + ["b"] * 4 + ["c"] * 4,
    "label": ["B-PER", "I-PER", "O", "B-LOC", "B-PER", "I-PER", "O", "O", "O", "B-PER", "O", "B-PER"],
}


# -------------------------------------------------------------------------------------------------------------- votes


def test_token_vote_is_the_most_common_tag() -> None:
    model = mh.sequences.TokenVote().fit(mh.Sequences.from_frame(THREE))
    assert model.tags_[:3].tolist() == ["B-PER", "I-PER", "O"]
    assert model.tags_[3] == "B-PER"  # all tags of the last token are as common; B-PER is more so elsewhere
    found = model.spans_.to_pylist()[0]
    assert (found["start"], found["end"], found["tag"]) == (0, 2, "PER")
    assert found["probability"] == found["start_probability"] == pytest.approx(2 / 3)
    assert found["end_probability"] == pytest.approx(1.0)
    frame = model.to_frame()
    assert frame.column_names == ["sequence", "position", "label", "confidence"]
    assert frame["confidence"].to_pylist()[0] == pytest.approx(2 / 3)
    told = model.workers_frame().to_pydict()
    assert told["n_spans"] == [2, 1, 2]
    assert told["precision"] == [0.5, 1.0, 0.5]
    assert told["recall"] == [0.5, 0.5, 0.5]


def test_tags_that_lost_their_beginning_begin() -> None:
    log = THREE | {"label": ["B-x", "I-x", "I-x", "O", "O", "B-x", "I-x", "O", "O", "O", "B-x", "O"]}
    model = mh.sequences.TokenVote().fit(mh.Sequences.from_frame(log))
    assert model.tags_.tolist() == ["O", "B-x", "I-x", "O"]


def test_spans_need_a_quorum_and_overlap() -> None:
    seqs = mh.Sequences.from_frame(THREE)
    all_of = mh.sequences.SpanVote(quorum=1.0, overlap=0.5).fit(seqs).spans_.to_pylist()
    assert [(one["start"], one["end"]) for one in all_of] == [(0, 2)]
    assert all_of[0]["probability"] == pytest.approx(2 / 3)
    assert not mh.sequences.SpanVote(quorum=1.0, overlap=1.0).fit(seqs).spans_.num_rows
    assert mh.sequences.SpanVote(quorum=0.3).fit(seqs).spans_.num_rows == 2
    with pytest.raises(ValueError, match=r"quorum.*1"):
        mh.sequences.SpanVote(quorum=2).fit(seqs)
    classes = mh.Sequences.from_frame(THREE | {"label": ["p", "q"] * 6})
    with pytest.raises(ValueError, match="SpanVote"):
        mh.sequences.SpanVote().fit(classes)
    assert mh.sequences.TokenVote().fit(classes).spans_.num_rows == 4


# ------------------------------------------------------------------------------------------------------------ exports


def test_exports(tmp_path: Path) -> None:
    texts = {1: "Ann Lee of Rome"}
    seqs = mh.Sequences.from_spans([1, 1], [0, 0], [7, 7], ["u", "v"], ["PER", "PER"], texts=texts)
    model = mh.sequences.TokenVote().fit(seqs)
    path = tmp_path / "out.conll"
    model.to_conll(path, words={1: ["Ann", "Lee", "of", "Rome"]}, scheme="bilou")
    assert path.read_text() == "Ann\tB-PER\nLee\tL-PER\nof\tO\nRome\tO\n\n"
    assert mh.Sequences.from_conll({"u": path}).spans()["end"].to_pylist() == [2]
    (one,) = model.to_json()
    assert (one["spans"][0]["start"], one["spans"][0]["end"]) == (0, 7)
    (doc,) = model.to_spacy(texts)
    assert doc["spans"] == [{"start": 0, "end": 7, "label": "PER", "score": 1.0}]
    assert doc["text"][0:7] == "Ann Lee"
    with pytest.raises(ValueError, match=r"4 tokens.*1 words"):
        model.to_conll(path, words={1: ["Ann"]})
    with pytest.raises(KeyError, match=r"words.*sequence 1"):
        model.to_conll(path, words={})
    for word in ("", "Ann Lee"):
        with pytest.raises(ValueError, match=f"'{word}'.*sequence 1"):
            model.to_conll(path, words={1: [word, "Lee", "of", "Rome"]})
    model.save(tmp_path / "model.mh")
    again = mh.load(tmp_path / "model.mh")
    assert again.spans_ == model.spans_
    assert again.to_frame() == model.to_frame()
    np.testing.assert_array_equal(again.posterior_, model.posterior_)


# -------------------------------------------------------------------------------------------------- models of workers

MODELS = {
    "vote": mh.sequences.TokenVote,
    "spans": mh.sequences.SpanVote,
    "tokens": mh.sequences.TokenDawidSkene,
    "hmm": mh.sequences.HMMCrowd,
    "cm": lambda: mh.sequences.BSC(worker="cm"),
    "seq": mh.sequences.BSC,
    "plain": lambda: mh.sequences.BSC(learn_prior=False),
    "consensus": mh.sequences.SequenceConsensus,
}


def _checks():
    for name, make in MODELS.items():
        skip = {"interrupt": "it does not iterate"} if name in ("vote", "spans") else {}
        for check, run in aggregator_checks(make(), skip=skip):
            yield pytest.param(run, id=f"{name}-{check}")


@pytest.mark.parametrize("check", list(_checks()))
def test_checks(check) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
        warnings.simplefilter("ignore", mh.errors.OverlapWarning)
        check()


def test_all_methods_are_checked() -> None:
    assert {type(make()) for make in MODELS.values()} == set(mh.categorical.all_aggregators("sequences"))


@pytest.mark.parametrize("spans", [True, False])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_decoding_agrees_with_all_chains(length: int, spans: bool) -> None:
    rng = np.random.default_rng(length)
    k = 3
    legal = Tags(Names(np.array(["x"] if spans else list("xyz"), object)), spans).legal()
    steps = np.where(legal, rng.normal(size=legal.shape), -np.inf)
    starts = np.arange(0, 5 * length, length, dtype=np.uint32)
    evidence = rng.normal(size=(4 * length, k), scale=2.0)
    found = _core.sequence_decode(starts, evidence, steps, spans)
    seen = 0
    for first in starts[:-1]:
        rows = evidence[first : first + length]
        chains, weights = oracle.all_chains(rows, steps)
        assert_close(
            found["posterior"][first : first + length], oracle.marginals(chains, weights, k), 1e-9, "posterior"
        )
        best = chains[int(weights.argmax())]
        assert tuple(found["codes"][first : first + length].tolist()) == best
        for span in oracle.spans_of(best, spans):
            assert (found["starts"][seen], found["ends"][seen], found["types"][seen]) == (
                first + span[0],
                first + span[1],
                span[2],
            )
            wanted = oracle.span_probabilities(chains, weights, span, spans)
            got = [found[name][seen] for name in ("probability", "start_probability", "end_probability")]
            assert_close(got, wanted, 1e-9, f"{span}")
            seen += 1
    assert seen == len(found["starts"])


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize(("learn", "variational"), [(True, True), (False, True), (False, False)])
def test_fits_agree_with_their_twin(contexts: bool, learn: bool, variational: bool) -> None:
    votes = mh.simulate(12, 4, 2, length=7, answers_per_task=3, seed=4, kind="sequences").log
    model = mh.sequences.BSC(worker="seq" if contexts else "cm", learn_prior=learn, max_iter=6, tol=0.0)
    if not variational:
        if contexts:
            pytest.skip("EM is offered for confusion matrices")
        model = mh.sequences.HMMCrowd(max_iter=6, tol=0.0)
    model.fit(votes)
    cells, first = kinds_of_cells(votes._tags, 6 if contexts else 1, False)
    first = first if variational else 0.1 * first
    before = oracle.steps_read(votes)
    settings = {"contexts": contexts, "learn": learn, "variational": variational, "n_iter": 6}
    twin = oracle.fit(votes, cells, first, steps_before=before, **settings)
    assert_close(model.history_, twin["history"], 1e-8, "history_")
    assert_close(model.posterior_, twin["posterior"], 1e-8, "posterior_")
    possible = np.broadcast_to(cells >= 0, twin["concentration"].shape)
    assert_close(model._fitted().fit.concentration[possible], twin["concentration"][possible], 1e-8, "concentration")
    assert_close(model._fitted().fit.steps, twin["steps"], 1e-8, "steps")


def test_the_default_agrees_with_its_reference() -> None:
    votes = mh.simulate(15, 5, 2, length=9, answers_per_task=3, skill=0.7, seed=5, kind="sequences").log
    model = mh.sequences.SequenceConsensus().fit(votes)
    k, starts, legal = len(votes.tags), votes._grid.starts, votes._tags.legal()
    tokens = as_tokens(votes)
    consensus = mh.Consensus().fit(tokens)
    prior, confusion = consensus._fitted().fit.hierarchical()
    # Hierarchical Dawid-Skene: one E-step under its parameters.
    logs = np.tile(np.log(prior), (votes.n_tokens, 1))
    task, worker, label = tokens.codes()[:3]
    np.add.at(logs, task, np.log(confusion[worker, :, label]))
    hierarchical = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    shares = oracle.Rows(votes, True).shares()
    skene = mh.DawidSkene(max_iter=200, tol=1e-6).fit(tokens).posterior_
    anchor = oracle.legal_maximum(shares + skene + hierarchical, legal, starts)
    cells, first = kinds_of_cells(votes._tags, k + 1, False)
    chain = oracle.fit(
        votes,
        cells,
        first,
        steps_before=oracle.steps_read(votes),
        contexts=True,
        learn=True,
        variational=True,
        n_iter=1,
        start=np.eye(k)[anchor],
        first_rounds=30,
    )
    codes = oracle.legal_maximum(shares + hierarchical + chain["posterior"], legal, starts)
    np.testing.assert_array_equal(model.tags_, votes.tags[codes])
    tempered = np.concatenate(
        [oracle.sweep(chain["evidence"][a:b] / (1 + 0.5 * 2), chain["log_steps"])[0] for a, b in pairwise(starts)]
    )
    assert_close(model.posterior_, (shares + consensus.posterior_ + tempered) / 3, 1e-8, "posterior_")
    assert (model.predict(votes) == model.tags_).all()


def test_long_spans_with_uneven_ends_do_not_grow() -> None:
    """A chain drifts to the union of all marks where ends and visibility differ; the default stays near the truth."""
    scores = []
    for seed in (0, 1, 2):
        drawn = mh.simulate(
            80,
            12,
            1,
            length=80,
            spans=1.5,
            span_length=12.0,
            skill=0.8,
            jitter=2.0,
            visibility=0.2,
            seed=seed,
            kind="sequences",
        )
        truth = drawn.truth.readings()[3] > 0
        models = (mh.sequences.SequenceConsensus(), mh.sequences.TokenDawidSkene(), mh.sequences.BSC())
        marked = [model.fit(drawn.log).tags_ != "O" for model in models]
        scores.append([2 * (marks & truth).sum() / (marks.sum() + truth.sum()) for marks in marked])
    default, tokens, chain = np.mean(scores, axis=0)
    assert default > chain + 0.05
    assert default > tokens - 0.02


@pytest.mark.parametrize("wrong", [-0.5, np.inf, np.nan])
def test_steps_that_are_no_counts_are_refused(monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    fit = _core.sequence_fit

    def changed(*args: object, steps: np.ndarray, **settings: object) -> object:
        steps = steps.copy()
        steps.flat[1] = wrong
        return fit(*args, steps=steps, **settings)

    votes = mh.simulate(20, 5, seed=0, kind="sequences").log
    monkeypatch.setattr(_core, "sequence_fit", changed)
    with pytest.raises(ValueError, match="priors"):
        mh.sequences.HMMCrowd().fit(votes)


def test_a_new_beginning_is_right_only_where_no_span_goes_on() -> None:
    begin, inside, other = 1, 2, 3
    assert not _of_spans(begin, begin, inside, 5)[1]
    assert _of_spans(other, begin, inside, 5)[1]
    assert _of_spans(0, begin, inside, 5)[1]


def test_steps_of_classes_are_those_of_readers() -> None:
    log = {"sequence": [1] * 8, "position": [0, 1, 2, 3] * 2, "worker": [1] * 4 + [2] * 4}
    votes = mh.Sequences.from_frame(log | {"label": ["a", "a", "b", "c", "a", "a", "a", "c"]}, scheme="classes")
    assert_close(steps_read(votes), oracle.steps_read(votes), 1e-12, "steps")


def test_many_types_do_no_harm() -> None:
    """A type that is seldom read is judged by what is usual, and not by imaginary steps to all others."""
    found = []
    for seed in (0, 1):
        drawn = mh.simulate(50, 15, 14, answers_per_task=3, seed=seed, kind="sequences")
        models = (mh.sequences.BSC(max_iter=60, tol=1e-4), mh.sequences.HMMCrowd(), mh.sequences.SpanVote())
        found.append([mh.metrics.span_scores(model.fit(drawn.log), drawn.truth).f1 for model in models])
    bsc, chain, vote = np.mean(found, axis=0)
    assert bsc > vote + 0.02
    assert chain > vote - 0.03


def test_gaps_are_no_evidence() -> None:
    log = {name: list(column) for name, column in THREE.items()}
    log["label"][9] = None
    with pytest.warns(mh.errors.DataWarning):
        seqs = mh.Sequences.from_frame(log, gaps="unsaid")
    for make in MODELS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mh.errors.ConvergenceWarning)
            model = make().fit(seqs)
        assert np.isfinite(model.posterior_).all()


def test_tags_of_a_token_without_answers_are_equally_likely() -> None:
    log = {name: column[:4] for name, column in THREE.items()} | {"label": ["B-PER", None, "O", "B-PER"]}
    with pytest.warns(mh.errors.DataWarning):
        model = mh.sequences.TokenVote().fit(mh.Sequences.from_frame(log, gaps="unsaid"))
    np.testing.assert_allclose(model.posterior_[1], 1 / len(model.classes_))


def test_skilled_workers_are_believed() -> None:
    """With more sequences the tags come nearer to the truth, and nearer than the vote's."""
    drawn = mh.simulate(300, 12, 2, length=15, answers_per_task=4, skill=0.7, spread=0.2, seed=2, kind="sequences")
    scores = {
        name: mh.metrics.span_scores(MODELS[name]().fit(drawn.log), drawn.truth).f1
        for name in ("vote", "tokens", "hmm", "seq")
    }
    assert scores["seq"] > scores["vote"] + 0.05
    assert scores["seq"] >= scores["tokens"] - 0.02
    model = mh.sequences.BSC().fit(drawn.log)
    told = np.array([model.confusion_[w, 0, 0] for w in range(12)])
    assert np.corrcoef(told, drawn.skills)[0, 1] > 0.9
    assert_close(model.transitions_.sum(axis=1), np.ones(5), 1e-9, "rows of transitions_")
    assert model.transitions_[0, 2] == model.start_[2] == 0
    again = model.predict(drawn.log)
    assert (again == model.tags_).all()
    few = drawn.log.select(workers=[0, 1])
    assert len(model.predict(few)) == few.n_tokens


# ------------------------------------------------------------------------------------------------- measures, real data


def test_scores_of_spans() -> None:
    truth = {"sequence": [1, 1, 2], "start": [0, 5, 0], "end": [2, 9, 3], "tag": ["x", "y", "x"]}
    found = {"sequence": [1, 1], "start": [0, 5], "end": [2, 7], "tag": ["x", "y"]}
    strict = mh.metrics.span_scores(found, truth)
    assert (strict.precision, strict.recall, strict.n_matched) == (0.5, pytest.approx(1 / 3), 1)
    loose = mh.metrics.span_scores(found, truth, relaxed=True)
    assert (loose.precision, loose.recall) == (1.0, 0.5)
    assert mh.metrics.span_scores(found, truth, sequences=[1]).recall == 0.5
    nothing = {name: [] for name in truth}
    assert np.isnan(mh.metrics.span_scores(nothing, nothing).f1)
    assert mh.metrics.span_scores(nothing, truth).f1 == 0.0
    with pytest.raises(ValueError, match="at row"):
        mh.metrics.span_scores(truth | {"end": [0, 9, 3]}, truth)
    with pytest.raises(ValueError, match="3 workers"):
        mh.metrics.span_scores(mh.Sequences.from_frame(THREE), truth)


def test_agreement_of_spans() -> None:
    seqs = mh.Sequences.from_frame(THREE)
    # a and b share one span of three, a and c none of four, b and c none of three.
    assert mh.agreement.span_agreement(seqs).value == pytest.approx(2 / 10)
    assert mh.agreement.span_agreement(seqs, tolerance=1).value == pytest.approx(6 / 10)
    drawn = mh.simulate(60, 6, 2, seed=3, kind="sequences").log
    found = mh.agreement.span_agreement(drawn, resamples=20)
    assert found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]
    alone = mh.Sequences.from_arrays([1], [0], ["u"], ["B"], scheme="bio")
    assert np.isnan(mh.agreement.span_agreement(alone).value)


@pytest.mark.skipif(not (SHARED / "ner_mturk").is_dir(), reason="needs shared/data/ner_mturk beside the checkout")
def test_entities_of_a_real_crowd() -> None:
    pd = pytest.importorskip("pandas")
    labels = pd.read_parquet(SHARED / "ner_mturk" / "labels.parquet").astype(str)
    gold = pd.read_csv(SHARED / "ner_mturk" / "gold.csv.gz", keep_default_na=False).assign(worker="gold")
    tables = []
    for frame in (labels, gold):
        parts = frame["task"].str.rsplit("/", n=1)
        frame = frame.assign(document=parts.str[0], position=parts.str[1].astype(int))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mh.errors.DataWarning)
            tables.append(mh.Sequences.from_frame(frame[["document", "position", "worker", "label"]]))
    seqs, truth = tables
    test = [name for name in truth.sequences.tolist() if name.startswith("test/")]
    vote, best = (
        mh.metrics.span_scores(model.fit(seqs), truth, sequences=test).f1
        for model in (mh.sequences.TokenVote(), mh.sequences.BSC())
    )
    default = mh.metrics.span_scores(mh.aggregate(seqs), truth, sequences=test).f1
    assert vote == pytest.approx(0.631, abs=0.01)
    assert best > vote + 0.11
    assert default > vote + 0.09


def test_more_spans_than_fit_are_not_simulated() -> None:
    assert mh.simulate(2, 6, length=10, spans=5, seed=1, kind="sequences").log.n_tokens == 20
    with pytest.raises(ValueError, match="spans"):
        mh.simulate(2, 6, length=10, spans=6, seed=1, kind="sequences")


def test_many_types_are_warned_of_before_a_long_fit(monkeypatch):
    monkeypatch.setattr("manyhands.sequences.crowd._MANY_CELLS", 10)
    votes = mh.Sequences.from_spans(["d", "d"], [0, 0], [1, 2], ["a", "b"], ["X", "Y"])
    with pytest.warns(mh.errors.DataWarning, match="worker='cm'"):
        mh.sequences.BSC(max_iter=2, tol=0).fit(votes)
