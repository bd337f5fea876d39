"""Methods for sequences: votes, models of workers against their twins, exports, real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyhands as mh

THREE = {
    "sequence": [1] * 12,
    "position": [0, 1, 2, 3] * 3,
    "worker": ["a"] * 4 + ["b"] * 4 + ["c"] * 4,
    "label": ["B-PER", "I-PER", "O", "B-LOC", "B-PER", "I-PER", "O", "O", "O", "B-PER", "O", "B-PER"],
}


# -------------------------------------------------------------------------------------------------------------- votes


def test_token_vote_is_the_most_common_tag() -> None:
    model = mh.sequences.TokenVote().fit(mh.Sequences.from_frame(THREE))
    assert model.labels_[:3].tolist() == ["B-PER", "I-PER", "O"]
    assert model.labels_[3] == "B-PER"  # all tags of the last token are as common; B-PER is more so elsewhere
    found = model.segments_.to_pylist()[0]
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
    assert model.labels_.tolist() == ["O", "B-x", "I-x", "O"]


def test_spans_need_a_quorum_and_overlap() -> None:
    seqs = mh.Sequences.from_frame(THREE)
    all_of = mh.sequences.SpanVote(quorum=1.0, overlap=0.5).fit(seqs).segments_.to_pylist()
    assert [(one["start"], one["end"]) for one in all_of] == [(0, 2)]
    assert all_of[0]["probability"] == pytest.approx(2 / 3)
    assert not mh.sequences.SpanVote(quorum=1.0, overlap=1.0).fit(seqs).segments_.num_rows
    assert mh.sequences.SpanVote(quorum=0.3).fit(seqs).segments_.num_rows == 2
    with pytest.raises(ValueError, match="quorum must be at most 1"):
        mh.sequences.SpanVote(quorum=2).fit(seqs)
    classes = mh.Sequences.from_frame(THREE | {"label": ["p", "q"] * 6})
    with pytest.raises(ValueError, match="SpanVote needs spans"):
        mh.sequences.SpanVote().fit(classes)
    assert mh.sequences.TokenVote().fit(classes).segments_.num_rows == 4


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
    with pytest.raises(ValueError, match="has 4 tokens, and 1 words are given"):
        model.to_conll(path, words={1: ["Ann"]})
    with pytest.raises(KeyError, match="words has nothing for sequence 1"):
        model.to_conll(path, words={})
    model.save(tmp_path / "model.mh")
    again = mh.load(tmp_path / "model.mh")
    assert again.segments_ == model.segments_
    assert again.to_frame() == model.to_frame()
    np.testing.assert_array_equal(again.posterior_, model.posterior_)
