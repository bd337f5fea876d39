"""Export of aggregated sequences to CoNLL, JSON and spaCy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from manyhands._base.atomic import atomic_write
from manyhands.sequences.tags import format_tags

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.sequences.base import SequenceFitted


def write_conll(
    now: SequenceFitted, path: str | os.PathLike[str], words: Mapping[Any, Any] | None, scheme: str
) -> None:
    """Write one token per line; see `SequenceAggregator.to_conll`."""
    grid = now.grid
    tags = format_tags(now.tags, now.fit.codes, grid.firsts(), scheme)
    names = now.tasks.values.tolist()
    with atomic_write(path) as part, open(part, "w", encoding="utf-8", newline="\n") as file:
        for name, (first, last) in zip(names, pairwise(grid.starts.tolist()), strict=True):
            word_list = grid.begins[first:last].tolist() if words is None else list(_of(words, name, "words"))
            if len(word_list) != last - first:
                raise ValueError(f"sequence {name!r} has {last - first} tokens, but {len(word_list)} words were passed")
            for word, tag in zip(word_list, tags[first:last].tolist(), strict=True):
                text = str(word)
                if not text or any(mark.isspace() for mark in text):
                    raise ValueError(f"the word {text!r} of sequence {name!r} is empty or contains whitespace")
                file.write(f"{text}\t{tag}\n")
            file.write("\n")


def as_json(now: SequenceFitted, span_table: pa.Table) -> list[dict[str, Any]]:
    """Return one dictionary per sequence; see `SequenceAggregator.to_json`."""
    frame = span_table.to_pydict()
    names = now.tasks.values.tolist()
    spans: dict[Any, list[dict[str, Any]]] = {name: [] for name in names}
    columns = [name for name in frame if name != "sequence"]
    for row, name in enumerate(frame["sequence"]):
        spans[name].append({column: frame[column][row] for column in columns})
    return [{"sequence": name, "spans": spans[name]} for name in names]


def as_spacy(now: SequenceFitted, span_table: pa.Table, texts: Mapping[Any, str]) -> list[dict[str, Any]]:
    """Return one dictionary per sequence with its text; see `SequenceAggregator.to_spacy`."""
    ends = now.grid.ends[now.grid.starts[1:] - 1]
    documents = []
    for one, end in zip(as_json(now, span_table), ends.tolist(), strict=True):
        text = _of(texts, one["sequence"], "texts")
        if len(text) < end:
            raise ValueError(
                f"the text of sequence {one['sequence']!r} has {len(text)} characters, but its tokens end at {end}"
            )
        spans = [
            {"start": span["start"], "end": span["end"], "label": str(span["tag"]), "score": span["probability"]}
            for span in one["spans"]
        ]
        documents.append({"text": text, "spans": spans, "meta": {"sequence": one["sequence"]}})
    return documents


def _of(entries: Mapping[Any, Any], name: Any, what: str) -> Any:
    if name not in entries:
        raise KeyError(f"{what} has no entry for sequence {name!r}")
    return entries[name]
