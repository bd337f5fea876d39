"""Sequences and spans: tables from all forms, schemes of tags, what is refused."""

from __future__ import annotations

import pickle
import unicodedata
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands._base.names import Names
from manyhands._base.write import write_table
from manyhands.sequences.tags import Tags, format_tags
from manyhands.texts.words import token_offsets

LOG: dict[str, list[Any]] = {
    "sequence": ["a"] * 6 + ["b"] * 2,
    "position": [0, 1, 2, 0, 1, 2, 5, 7],
    "worker": ["u", "u", "u", "v", "v", "v", "v", "v"],
    "label": ["B-PER", "I-PER", "O", "O", "B-LOC", "B-LOC", "O", "B-PER"],
}
SPANS = {
    "document": ["a", "a", "a", "b"],
    "start": [0, 1, 2, 1],
    "end": [2, 2, 3, 2],
    "worker": ["u", "v", "v", "v"],
    "tag": ["PER", "LOC", "LOC", "PER"],
}


def shuffled(log: dict[str, list[Any]], seed: int = 1) -> dict[str, list[Any]]:
    order = np.random.default_rng(seed).permutation(len(log["worker"]))
    return {name: [column[i] for i in order] for name, column in log.items()}


def test_all_forms_give_the_same_table(tmp_path: Path) -> None:
    pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    seqs = mh.Sequences.from_frame(LOG)
    path = tmp_path / "log.csv"
    pd.DataFrame(LOG).to_csv(path, index=False)
    seqs.save(tmp_path / "seqs.mh")
    same = [
        mh.Sequences.from_frame(shuffled(LOG)),
        mh.Sequences.from_frame(pd.DataFrame(LOG)),
        mh.Sequences.from_frame(pl.DataFrame(LOG)),
        mh.Sequences.from_frame(pa.table(LOG)),
        mh.Sequences.from_arrays(LOG["sequence"], LOG["position"], LOG["worker"], LOG["label"]),
        mh.Sequences.from_frame(seqs.to_frame()),
        mh.read(path, kind="sequences"),
        mh.Sequences._as_table(LOG),
        pickle.loads(pickle.dumps(seqs)),
        mh.load(tmp_path / "seqs.mh"),
    ]
    for other in same:
        assert other == seqs
    assert seqs.kind == "sequences"
    assert seqs.tags.tolist() == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert seqs.positions.tolist() == [0, 1, 2, 5, 7]
    assert seqs.lengths.tolist() == [3, 2]
    assert mh.Sequences.from_frame(LOG | {"label": ["O"] * 8}) != seqs
    marked = seqs.spans().to_pydict()
    assert marked["sequence"] == ["a", "a", "a", "b"]
    assert list(zip(marked["start"], marked["end"], marked["tag"], strict=True)) == [
        (0, 2, "PER"),
        (1, 2, "LOC"),
        (2, 3, "LOC"),
        (7, 8, "PER"),
    ]
    told = seqs.describe()
    assert (told.n_tags, told.n_unsaid, told.spans) == (8, 0, {"LOC": 2, "PER": 2})
    assert "spans" in str(told)


def test_spans_and_tokens_agree() -> None:
    spans = mh.Sequences.from_spans(SPANS, lengths={"a": 3, "b": 2})
    columns = [SPANS[name] for name in ("document", "start", "end", "worker", "tag")]
    assert spans == mh.Sequences.from_spans(*columns, lengths={"a": 3, "b": 2})
    tokens = LOG | {"position": [0, 1, 2, 0, 1, 2, 0, 1]}
    assert spans == mh.Sequences.from_frame(tokens)
    # Documents end where their spans do, unless their lengths are told.
    assert mh.Sequences.from_spans(SPANS).lengths.tolist() == [3, 2]
    read = mh.Sequences.from_spans(SPANS, lengths={"a": 4, "b": 4, "c": 2}, readers=(["b", "c"], ["u", "w"]))
    assert (read.n_annotations, read.n_tokens, read.n_workers) == (5, 10, 3)
    nothing = {
        name: [*column, extra]
        for (name, column), extra in zip(SPANS.items(), ["b", None, None, "u", None], strict=True)
    }
    assert mh.Sequences.from_spans(nothing).n_annotations == 4


def test_characters_become_tokens() -> None:
    text = {1: "Ann Lee, of Rome."}
    seqs = mh.Sequences.from_spans([1, 1], [0, 5], [7, 16], ["u", "v"], ["PER", "LOC"], texts=text)
    assert seqs.n_tokens == 6
    found = seqs.spans().to_pydict()
    # A span takes whole tokens: it begins with the word that it touches.
    assert list(zip(found["start"], found["end"], strict=True)) == [(0, 7), (4, 16)]
    by_tokens = mh.Sequences.from_spans(
        [1, 1],
        [0, 5],
        [7, 16],
        ["u", "v"],
        ["PER", "LOC"],
        tokens={1: [(0, 3), (4, 7), (7, 8), (9, 11), (12, 16), (16, 17)]},
    )
    assert by_tokens == seqs


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Ann's 2 cats.", ["Ann", "'", "s", "2", "cats", "."]),
        ("北京大学 in Rome", ["北", "京", "大", "学", "in", "Rome"]),
        ("cafe\u0301s, naïve", ["cafe\u0301s", ",", "naïve"]),
        ("हिन्दी है", ["हिन्दी", "है"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("👍\ufe0f ok", ["👍\ufe0f", "ok"]),
    ],
)
def test_tokens_of_any_script(text: str, tokens: list[str]) -> None:
    assert [text[a:b] for a, b in token_offsets(text)] == tokens
    marks = mh.Sequences.from_spans([1], [0], [len(tokens[0])], ["u"], ["x"], texts={1: text})
    assert marks.spans().to_pydict()["end"] == [len(tokens[0])]


@given(st.text("aZ7_ \n.é北ไี\u0301ही👍\u200d\ufe0f\ue000", max_size=12))
@settings(max_examples=100)
def test_tokens_are_in_order_and_leave_out_spaces_only(text: str) -> None:
    places = token_offsets(text)
    assert [a for a, _ in places] == sorted({a for a, _ in places})
    assert all(a < b for a, b in places)
    assert all(b <= c for (_, b), (c, _) in pairwise(places))
    left = set(range(len(text))) - {i for a, b in places for i in range(a, b)}
    # A mark that stands on nothing is no token either.
    assert all(text[i].isspace() or unicodedata.category(text[i])[0] == "M" or text[i] == "\u200d" for i in left)


def test_layers_are_sequences_of_their_own() -> None:
    nested = {
        "document": [1, 1, 1],
        "start": [0, 2, 0],
        "end": [4, 3, 4],
        "worker": ["u", "u", "v"],
        "tag": ["ORG", "LOC", "ORG"],
    }
    with pytest.raises(ValueError, match=r"0–3 and.*layer="):
        mh.Sequences.from_spans(nested)
    apart = mh.Sequences.from_spans(nested, layer="tag", lengths={1: 5})
    assert apart.sequences.tolist() == ["1 / LOC", "1 / ORG"]
    assert apart.lengths.tolist() == [5, 5]


SCHEMES = {
    "bio": ["B-x", "I-x", "B-x", "O", "B-y"],
    "iob1": ["I-x", "I-x", "B-x", "O", "I-y"],
    "bilou": ["B-x", "L-x", "U-x", "O", "U-y"],
    "bioes": ["B_x", "E_x", "S_x", "O", "S_y"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_schemes_are_told_by_their_looks(scheme: str) -> None:
    labels = SCHEMES[scheme]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seqs = mh.Sequences.from_arrays([1] * 5, range(5), ["u"] * 5, labels)
    assert seqs.to_frame()["label"].to_pylist() == ["B-x", "I-x", "B-x", "O", "B-y"]


def test_types_alone_and_classes() -> None:
    io = mh.Sequences.from_arrays([1] * 4, range(4), ["u"] * 4, ["x", "x", "O", "y"])
    assert io.to_frame()["label"].to_pylist() == ["B-x", "I-x", "O", "B-y"]
    numbers = mh.Sequences.from_arrays([1] * 4, range(4), ["u"] * 4, [0, 1, 1, 0], scheme="io", outside=0)
    assert numbers.to_frame()["label"].to_pylist() == ["O", "B-1", "I-1", "O"]
    classes = mh.Sequences.from_arrays([1] * 4, range(4), ["u"] * 4, ["walk", "run", "run", "walk"])
    assert repr(classes) == "<Sequences: 1 reading of 1 sequence (4 tokens) by 1 worker, 2 classes>"
    assert classes.spans()["end"].to_pylist() == [1, 3, 4]


@given(
    st.lists(st.sampled_from(["O", "x", "y"]), min_size=1, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
@settings(max_examples=60)
def test_schemes_carry_the_same_spans(kinds: list[str], breaks: list[bool]) -> None:
    before, bio = "O", []
    for kind, new in zip(kinds, breaks, strict=False):
        bio.append("O" if kind == "O" else f"B-{kind}" if new or before != kind else f"I-{kind}")
        before = kind
    n = len(bio)
    seqs = mh.Sequences.from_arrays([1] * n, range(n), ["u"] * n, bio, scheme="bio")
    first = np.zeros(n, np.bool_)
    first[0] = True
    codes = seqs.readings()[3]
    for scheme in ("bilou", "bioes"):
        again = mh.Sequences.from_arrays(
            [1] * n, range(n), ["u"] * n, format_tags(seqs._tags, codes, first, scheme), scheme=scheme
        )
        assert again == seqs


def test_legal_tags() -> None:
    tags = Tags(Names(np.array(["x", "y"], object)))
    legal = tags.legal()
    names = [*tags.names.values.tolist(), "start"]
    refused = {(names[i], names[j]) for i, j in zip(*np.nonzero(~legal), strict=True)}
    others = ["O", "B-x", "I-x", "start"]
    assert refused == {(a, "I-y") for a in others} | {(a, "I-x") for a in ["O", "B-y", "I-y", "start"]}
    assert Tags(tags.types, spans=False).legal().all()


def test_spans_that_nobody_began_begin() -> None:
    with pytest.warns(mh.errors.DataWarning, match="2 tags"):
        seqs = mh.Sequences.from_arrays([1] * 5, range(5), ["u"] * 5, ["I-x", "B-x", "O", "B-x", "I-y"])
    assert seqs.to_frame()["label"].to_pylist() == ["B-x", "B-x", "O", "B-x", "B-y"]


def test_gaps_are_refused_or_counted() -> None:
    short = {name: column[:5] + column[6:] for name, column in LOG.items()}
    with pytest.raises(ValueError, match=r"1 token.*1 reading.*'v'"):
        mh.Sequences.from_frame(short)
    with pytest.warns(mh.errors.DataWarning, match="outside"):
        outside = mh.Sequences.from_frame(short, gaps="outside")
    assert outside == mh.Sequences.from_frame(LOG | {"label": [*LOG["label"][:5], "O", *LOG["label"][6:]]})
    with pytest.warns(mh.errors.DataWarning, match="asked"):
        unsaid = mh.Sequences.from_frame(short, gaps="unsaid")
    assert unsaid.describe().n_unsaid == 1
    with pytest.warns(mh.errors.DataWarning):
        empty = mh.Sequences.from_frame(LOG | {"label": [*LOG["label"][:5], None, *LOG["label"][6:]]}, gaps="unsaid")
    assert empty == unsaid


@pytest.mark.parametrize(
    ("change", "settings_", "told"),
    [
        ({"position": [0, 1, 1, 0, 1, 2, 5, 7]}, {}, "worker 'u'.*position 1.*sequence 'a'"),
        ({"position": [0, 1, 2.5, 0, 1, 2, 5, 7]}, {}, "2.5.*row 2"),
        ({"label": [None] * 8}, {}, "there is nothing to aggregate"),
        ({"worker": [None, *LOG["worker"][1:]]}, {}, "sequence"),
        ({"label": ["B-x", "I-x", "O", "B-x", "Ix", "O", "O", "O"]}, {}, "'Ix'.*'bio'"),
        ({"label": ["B-x", "X"] * 4}, {"scheme": "bio"}, "'X'.*'bio'"),
        ({}, {"scheme": "xml"}, "scheme"),
        ({}, {"gaps": "ignore"}, "gaps"),
        ({"sequence": [], "position": [], "worker": [], "label": []}, {}, "there are no annotations"),
    ],
)
def test_bad_tokens_are_named(change: dict[str, Any], settings_: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        mh.Sequences.from_frame(LOG | change, **settings_)


@pytest.mark.parametrize(
    ("change", "settings_", "error", "told"),
    [
        (
            {"end": [9, 2, 3, 2]},
            {"lengths": {"a": 3, "b": 2}},
            ValueError,
            "0.*9.*document 'a'.*3",
        ),
        ({"start": [2, 1, 2, 1]}, {}, ValueError, "2.*document 'a'"),
        ({"start": [-1, 1, 2, 1]}, {}, ValueError, "from -1 to 2"),
        ({"start": [None, 1, 2, 1]}, {}, ValueError, "row 0"),
        ({"tag": [None, "x", "x", "x"]}, {}, ValueError, "span"),
        ({}, {"lengths": {"a": 3}}, KeyError, "document 'b'"),
        ({}, {"lengths": {"a": 3, "b": 2}, "texts": {}}, ValueError, "lengths"),
        (
            {"end": [3, 2, 3, 2], "worker": ["u", "u", "v", "v"]},
            {},
            ValueError,
            "worker 'u'.*document 'a'",
        ),
    ],
)
def test_bad_spans_are_named(
    change: dict[str, Any], settings_: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        mh.Sequences.from_spans(SPANS | change, **settings_)
    with pytest.raises(TypeError, match="missing: end"):
        mh.Sequences.from_spans([1], [0], worker=["u"])


def test_conll_files(tmp_path: Path) -> None:
    (tmp_path / "u").write_text("-DOCSTART- O\n\nAnn B-PER\nwent O\n\nRome B-LOC\n")
    (tmp_path / "v").write_text("Ann\tNNP\tB-PER\nwent\tVB\tI-PER\n\nRome\tNN\tO\n\n")
    seqs = mh.Sequences.from_conll({"u": tmp_path / "u", "v": tmp_path / "v"})
    assert (seqs.n_tasks, seqs.n_tokens, seqs.n_annotations) == (2, 3, 4)
    (tmp_path / "all").write_text("Ann B-PER B-PER ?\nwent O I-PER ?\n\nRome B-LOC O B-LOC\n")
    both = mh.Sequences.from_conll(tmp_path / "all")
    assert both.n_annotations == 5
    assert both.select(workers=[0, 1]).spans().drop_columns("worker") == seqs.spans().drop_columns("worker")
    (tmp_path / "all").write_text("Ann B-PER O ?\nwent ?\n")
    with pytest.raises(ValueError, match=r"line 2.*2 columns.*4"):
        mh.Sequences.from_conll(tmp_path / "all")
    (tmp_path / "v").write_text("Ann B-PER\n\nRome B-LOC\n")
    with pytest.raises(ValueError, match=r"sequence 0 has 1 tokens.*'u'"):
        mh.Sequences.from_conll({"u": tmp_path / "u", "v": tmp_path / "v"})


def test_parts_keep_tags_and_tokens() -> None:
    seqs = mh.Sequences.from_frame(LOG)
    part = seqs.select(workers=["v"])
    assert (part.n_annotations, part.n_tokens, part.tags.tolist()) == (2, 5, seqs.tags.tolist())
    only = seqs.select(tasks=["b"])
    assert (only.positions.tolist(), only.n_workers) == ([5, 7], 1)
    assert seqs.sample(per_task=1).n_annotations == 2


@pytest.mark.parametrize("said", ["tag", "label", "kind", None])
def test_files_of_spans_are_read_as_spans(said: str | None, tmp_path: Path) -> None:
    columns = {"document": ["a", "a", "b"], "start": [0, 4, 2], "end": [2, 5, 3], "worker": ["u", "v", "v"]}
    if said is not None:
        columns[said] = ["PER", "LOC", "PER"]
    path = tmp_path / "spans.csv"
    write_table(pa.table(columns), path)
    wanted = mh.Sequences.from_spans(columns, tag=said)
    named = {"tag": said} if said == "kind" else {}
    assert mh.read(path, **named) == wanted
    assert mh.Sequences.from_frame(columns, label=said) == wanted


def test_layers_of_files_lie_apart(tmp_path: Path) -> None:
    columns = {"document": ["a", "a"], "start": [0, 1], "end": [2, 3], "worker": ["u", "u"], "level": ["x", "y"]}
    path = tmp_path / "spans.csv"
    write_table(pa.table(columns), path)
    assert mh.read(path, layer="level").sequences.tolist() == ["a / x", "a / y"]
    with pytest.raises(ValueError, match="overlap"):
        mh.read(path)


def test_files_of_tags_are_read_by_their_ending(tmp_path: Path) -> None:
    both, ann, bob = tmp_path / "both.conll", tmp_path / "ann.bio", tmp_path / "bob.bio"
    both.write_text("EU B-ORG O\nrejects O O\n\nPeter B-PER ?\n", encoding="utf-8")
    ann.write_text("EU B-ORG\nrejects O\n\nPeter B-PER\n", encoding="utf-8")
    bob.write_text("EU O\nrejects O\n\nPeter B-PER\n", encoding="utf-8")
    assert mh.read(both) == mh.Sequences.from_conll(both)
    assert mh.read([ann, bob]) == mh.Sequences.from_conll({"ann": ann, "bob": bob})
    odd = tmp_path / "odd.txt"
    odd.write_bytes(both.read_bytes())
    assert mh.read(odd, format="conll") == mh.read(both)
    (tmp_path / "more").mkdir()
    again = tmp_path / "more" / "ann.bio"
    again.write_bytes(ann.read_bytes())
    assert mh.read([ann, again]).workers.tolist() == ["ann", "more/ann"]


def test_a_scheme_that_is_named_is_not_guessed() -> None:
    labels, places = ["B-x", "I-x", "O"], ([1] * 3, range(3), ["u"] * 3)
    guessed, named, plain = (
        mh.Sequences.from_arrays(*places, labels, scheme=scheme) for scheme in ("auto", "classes", "io")
    )
    assert guessed.spans()["tag"].to_pylist() == ["x"]
    assert set(named.tags) == set(labels)
    assert not named._tags.spans
    assert plain.spans()["tag"].to_pylist() == ["B-x", "I-x"]


@pytest.mark.parametrize("outside", [True, 1.5, None])
def test_what_is_outside_is_a_tag(outside: object) -> None:
    with pytest.raises(TypeError, match="outside"):
        mh.Sequences.from_arrays([1] * 2, range(2), ["u"] * 2, [0, 1], outside=outside)
