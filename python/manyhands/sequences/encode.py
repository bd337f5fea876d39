"""Conversion of token rows and span rows to annotations: tags per token for each worker and sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.checks import check_choice, plural, preview, warn_of_data
from manyhands._base.fitted import integers, offsets
from manyhands._base.limits import check_memory
from manyhands._base.names import Column, Names
from manyhands.errors import argument
from manyhands.sequences.tags import NO_TAG, Tags, Tokens, encode_tags, parse

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: Peak memory per token row while building a table, in bytes.
_ROW_BYTES = 64
_MOST_TOKENS = 2**32 - 2
#: Maximum length of a document of unknown length; longer ones are split at span boundaries.
_LONGEST = 1_000_000
#: If all spans start beyond this value, they are timestamps: seconds since 1970 are 1.7e9.
_LEAST_TIME = 10**8
_DIVIDE = "process fewer documents at a time"


@dataclass(frozen=True)
class Grid:
    """Tokens of all sequences: offset of each sequence, and start and end position of each token."""

    starts: Ints = field(metadata=offsets("N"))
    begins: Ints = field(metadata=integers("t"))
    ends: Ints = field(metadata=integers("t"))

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each sequence."""
        return np.diff(self.starts)

    def part(self, sequences: Ints) -> Grid:
        """Return the grid of a subset of sequences."""
        lengths = self.lengths[sequences]
        at = places(self.starts[sequences], lengths)
        return Grid(starts_of(lengths), self.begins[at], self.ends[at])

    def firsts(self) -> Bools:
        """Return a mask of the first token of each sequence."""
        first = np.zeros(len(self.begins) + 1, np.bool_)
        first[self.starts] = True
        return first[:-1]


@dataclass(frozen=True)
class Built:
    """Columns of a new table of sequences: sequence and worker of each annotation, grid and tag codes."""

    sequences: npt.NDArray[np.uint32]
    workers: npt.NDArray[np.uint32]
    sequence_names: Names
    worker_names: Names
    grid: Grid
    tags: Tags
    codes: Tokens


def starts_of(lengths: Ints) -> Ints:
    """Return the offsets of consecutive runs of these lengths, plus the total."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def places(starts: Ints, lengths: Ints) -> Ints:
    """Return all indices of runs with these starts and lengths."""
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(starts, lengths) + within


def whole_numbers(data: Any, what: str) -> tuple[Ints, Bools]:
    """Return a column of integers and a mask of missing rows."""
    numbers = checks.checked_values(data, what)
    absent = np.isnan(numbers)
    values = np.where(absent, 0, numbers)
    bad = (values != np.round(values)) | (np.abs(values) > 2**53)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} contains {values[row]:g} at row {row}; positions must be whole numbers")
    return values.astype(np.int64), absent


# ------------------------------------------------------------------------------------------------------ rows of tokens


def build_tokens(
    sequences: Column,
    position: tuple[Any, str],
    workers: Column,
    labels: Column,
    *,
    scheme: str,
    outside: Any,
    gaps: str,
    repeats: str,
) -> Built:
    """Build annotations from one row per token and worker; see `Sequences.from_frame`."""
    check_choice("gaps", gaps, ("error", "outside", "unsaid"))
    check_choice("repeats", repeats, ("error", "first", "last"))
    at, absent = whole_numbers(*position)
    sizes = {"sequences": len(sequences), "positions": len(at), "workers": len(workers), "labels": len(labels)}
    checks.check_sizes(sizes, "(sequence, position, worker, label)")
    checks.refuse_missing_ids(sequences, workers, needs="a sequence and a worker")
    if absent.any():
        raise ValueError(f"{position[1]} is missing at row {int(np.argmax(absent))}; every token needs a position")
    check_memory(_ROW_BYTES * len(at), f"a table of {len(at):,} tags", "build it from fewer sequences at a time")
    missing = labels.missing()
    if missing is not None and missing.all():
        raise ValueError(f"{labels.what} is missing in all rows: there is nothing to aggregate")
    rows, parsed = _parse_labels(labels, missing, scheme, outside)
    (sequence, sequence_names), (worker, worker_names) = sequences.encode(), workers.encode()
    order = np.lexsort((at, worker, sequence))
    sequence, worker, at, rows = sequence[order], worker[order], at[order], rows[order]
    again = (np.diff(sequence.astype(np.int64)) == 0) & (np.diff(worker.astype(np.int64)) == 0) & (np.diff(at) == 0)
    if again.any():
        keep = _one_of(again, repeats, (sequence_names, worker_names), (sequence, worker, at))
        sequence, worker, at, rows = sequence[keep], worker[keep], at[keep], rows[keep]
    grid, token = _grid(sequence, at, len(sequence_names))
    opens = np.concatenate([[True], (np.diff(sequence) != 0) | (np.diff(worker.astype(np.int64)) != 0)])
    reading = np.cumsum(opens) - 1
    of, by = sequence[opens], worker[opens]
    lengths = grid.lengths[of]
    offsets = starts_of(lengths)
    full = np.full(int(offsets[-1]), -1, np.int64)
    full[offsets[reading] + token - grid.starts[of][reading]] = rows
    fills_gaps = _check_gaps(full, offsets, gaps, (sequence_names, worker_names), (of, by), grid)
    first = np.zeros(len(full) + 1, np.bool_)
    first[offsets] = True
    tags, codes = encode_tags(parsed, full, first[:-1], labels.what)
    if fills_gaps:
        if not tags.spans:
            raise ValueError(f"{argument('gaps', 'outside')} requires span tags: token classes have no outside tag")
        codes = np.where(codes == NO_TAG, 0, codes).astype(np.uint16)
    return Built(of.astype(np.uint32), by.astype(np.uint32), sequence_names, worker_names, grid, tags, codes)


def _parse_labels(labels: Column, missing: Bools | None, scheme: str, outside: Any) -> tuple[Ints, Any]:
    rows = np.full(len(labels), -1, np.int64)
    present = slice(None) if missing is None else ~missing
    if missing is not None:
        labels.filter(~missing)
    codes, names = labels.encode()
    rows[present] = codes
    return rows, parse(names, scheme, outside)


def _one_of(again: Bools, repeats: str, names: tuple[Names, Names], rows: tuple[Any, Any, Ints]) -> Bools:
    """Return which duplicate tags are kept; `again` marks rows whose next row has the same token and worker."""
    if repeats == "error":
        first = int(np.argmax(again))
        sequence, worker = (one.values[[int(part[first])]].tolist()[0] for one, part in zip(names, rows, strict=False))
        raise ValueError(
            f"worker {worker!r} tagged position {int(rows[2][first])} of sequence {sequence!r} more than once "
            f"({int(again.sum()):,} such rows); pass {argument('repeats', 'first')} or 'last', or use one sequence per "
            "annotation layer"
        )
    return np.concatenate([~again, [True]]) if repeats == "last" else np.concatenate([[True], ~again])


def _grid(sequence: npt.NDArray[Any], at: Ints, n: int) -> tuple[Grid, Ints]:
    """Return the annotated tokens in order, and the token of each row."""
    order = np.lexsort((at, sequence))
    new = np.concatenate([[True], (np.diff(sequence[order]) != 0) | (np.diff(at[order]) != 0)])
    token = np.empty(len(at), np.int64)
    token[order] = np.cumsum(new) - 1
    begins = at[order][new]
    if len(begins) > _MOST_TOKENS:
        raise ValueError(f"{len(begins):,} tokens exceed the limit of one table; split the sequences")
    starts = starts_of(np.bincount(sequence[order][new], minlength=n))
    return Grid(starts, begins, begins + 1), token


def _check_gaps(
    full: Ints, offsets: Ints, gaps: str, names: tuple[Names, Names], of: tuple[Any, Any], grid: Grid
) -> bool:
    """Raise or warn about tokens that a worker skipped in an annotated sequence; return whether to fill them."""
    holes = full < 0
    if not holes.any():
        return False
    place = int(np.argmax(holes))
    reading = int(np.searchsorted(offsets, place, side="right")) - 1
    sequence, worker = (one.values[[int(part[reading])]].tolist()[0] for one, part in zip(names, of, strict=True))
    at = int(grid.begins[grid.starts[of[0][reading]] + place - offsets[reading]])
    n = int((np.add.reduceat(holes, offsets[:-1]) > 0).sum())
    some = (
        f"{plural(int(holes.sum()), 'token')} in {plural(n, 'reading')} of {len(offsets) - 1:,} "
        f"(first position {at} of sequence {sequence!r} by worker {worker!r})"
    )
    if gaps == "error":
        raise ValueError(
            f"workers tagged different tokens of the same sequence: no tag for {some}; if such tokens are outside all "
            f"spans, pass {argument('gaps', 'outside')}; if the worker was not asked about them, pass "
            f"{argument('gaps', 'unsaid')}"
        )
    warn_of_data(f"no tag for {some}: treated as {'outside all spans' if gaps == 'outside' else 'not asked about'}")
    return gaps == "outside"


# ------------------------------------------------------------------------------------------------------- rows of spans


class OverlapError(ValueError):
    """Raised if spans of one worker overlap in a single layer; `what` names the spans."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; put nested and overlapping spans into layers with layer=, such as the tag column")
        self.what = what


def build_spans(
    documents: Column,
    start: tuple[Any, str],
    end: tuple[Any, str],
    workers: Column,
    tags: Column | None,
    *,
    readers: tuple[Column, Column] | None,
    lengths: Mapping[Any, int] | None,
    tokens: Mapping[Any, list[tuple[int, int]]] | None,
) -> Built:
    """Build annotations from one row per span and worker; see `Sequences.from_spans`."""
    (begin, no_begin), (stop, no_stop) = whole_numbers(*start), whole_numbers(*end)
    sizes = {"documents": len(documents), "starts": len(begin), "ends": len(stop), "workers": len(workers)}
    checks.check_sizes(sizes | ({} if tags is None else {"tags": len(tags)}), "(document, start, end, worker)")
    checks.refuse_missing_ids(documents, workers, needs="a document and a worker")
    if (no_begin != no_stop).any():
        row = int(np.argmax(no_begin != no_stop))
        raise ValueError(f"row {row} has only one of start and end; leave both empty for a document without spans")
    (of_rows, names), (by_rows, worker_names) = documents.encode(), workers.encode()
    document, worker = of_rows.astype(np.int64), by_rows.astype(np.int64)
    there = ~no_begin
    _check_spans(document, begin, stop, there, names)
    kinds, types = _types(tags, there)
    pairs = np.stack([document, worker])
    if readers is not None:
        checks.check_sizes({"documents": len(readers[0]), "workers": len(readers[1])}, "(document, worker)")
        checks.refuse_missing_ids(*readers, needs="a document and a worker")
        document, names, more_documents = _merge_names(document, names, readers[0])
        worker, worker_names, more_workers = _merge_names(worker, worker_names, readers[1])
        pairs = np.stack([np.concatenate([document, more_documents]), np.concatenate([worker, more_workers])])
    if lengths is None and tokens is None:
        refuse_times(begin[there], start[1])
    grid = _grid_of(names, document[there], (begin[there], stop[there]), lengths, tokens)
    keys, reading = np.unique(pairs[0] * len(worker_names) + pairs[1], return_inverse=True)
    of, by = keys // len(worker_names), keys % len(worker_names)
    offsets = starts_of(grid.lengths[of])
    check_memory(8 * int(offsets[-1]), f"{int(offsets[-1]):,} tags", "take a part of the documents at a time")
    first, last = _token_range(grid, document[there], begin[there], stop[there], names)
    codes = _fill_codes(offsets, reading[: len(document)][there], first, last, kinds, (of, by, names, worker_names))
    return Built(of.astype(np.uint32), by.astype(np.uint32), names, worker_names, grid, Tags(types), codes)


def _check_spans(document: Ints, begin: Ints, stop: Ints, there: Bools, names: Names) -> None:
    bad = there & ((begin < 0) | (stop <= begin))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"the span from {begin[row]} to {stop[row]} of document {_name(names, document[row])!r} (row {row}) is "
            "empty or negative: start must be >= 0 and end > start (end is exclusive)"
        )


def _name(names: Names, code: Any) -> Any:
    return names.values[[int(code)]].tolist()[0]


def _types(tags: Column | None, there: Bools) -> tuple[Ints, Names]:
    """Return the type of each span and all types; a single unnamed type if there are no tags."""
    if tags is None or not there.any():
        return np.zeros(int(there.sum()), np.int64), Names(np.array([""], object))
    absent = tags.missing()
    if absent is not None and (absent & there).any():
        raise ValueError(f"{tags.what} is missing at row {int(np.argmax(absent & there))}; every span needs a tag")
    tags.filter(there)
    codes, names = tags.encode()
    return codes.astype(np.int64), names


def _merge_names(codes: Ints, names: Names, more: Column) -> tuple[Ints, Names, Ints]:
    """Merge the names of two columns and return the codes of both."""
    more_codes, more_names = more.encode()
    together = names.joined(more_names)
    return together.match(names)[codes], together, together.match(more_names)[more_codes]


def refuse_times(begin: npt.NDArray[Any], what: str) -> None:
    """Raise if span positions look like timestamps: no text is long enough for all spans to start there."""
    if len(begin) and begin.min() >= _LEAST_TIME:
        raise ValueError(
            f"{what} seems to contain timestamps (from {begin.min():.0f} on) instead of span positions; "
            f"{advice_on_times()}"
        )


def advice_on_times() -> str:
    """Advice for logs of documents with timestamps."""
    return (
        f"if each row is an answer about a document, pass {argument('kind', 'categorical')} and "
        f"{argument('task', 'document')} (with the name of that column); "
        "if the rows are spans, count positions from the start of each document"
    )


def _grid_of(
    names: Names,
    document: Ints,
    spans: tuple[Ints, Ints],
    lengths: Mapping[Any, int] | None,
    tokens: Mapping[Any, Any] | None,
) -> Grid:
    """Return the tokens of each document: as passed, or as many as its length, or up to its last span."""
    document_names = names.values.tolist()
    entries = lengths if tokens is None else tokens
    if entries is not None:
        lacking = [name for name in document_names if name not in entries]
        if lacking:
            raise KeyError(f"lengths or tokens has no entry for document {lacking[0]!r} ({len(lacking):,} missing)")
    if tokens is not None:
        cut = [np.asarray(tokens[name], np.int64).reshape(-1, 2) for name in document_names]
        _check_not_empty(names, np.array([len(one) for one in cut]))
        bounds = np.concatenate(cut)
        return Grid(starts_of(np.array([len(one) for one in cut])), bounds[:, 0].copy(), bounds[:, 1].copy())
    if lengths is None:
        sizes = np.ones(len(document_names), np.int64)
        np.maximum.at(sizes, document, spans[1])
    else:
        sizes = whole_numbers(np.array([lengths[name] for name in document_names], float), "lengths")[0]
        _check_not_empty(names, sizes)
    long = sizes > _LONGEST if lengths is None else np.zeros(len(sizes), np.bool_)
    whole = np.where(long, 0, sizes)
    if float(whole.sum(dtype=float)) > _MOST_TOKENS:
        raise ValueError(f"{whole.sum(dtype=float):,.0f} tokens exceed the limit of one table; {_DIVIDE}")
    check_memory(40 * int(whole.sum()), f"{int(whole.sum()):,} tokens", _DIVIDE)
    begins = places(np.zeros(len(sizes), np.int64), whole)
    if not long.any():
        return Grid(starts_of(sizes), begins, begins + 1)
    warn_of_data(
        f"{plural(int(long.sum()), 'document')} with spans beyond position {_LONGEST:,} and unknown text or length "
        f"({preview(names.take(np.flatnonzero(long)).values.tolist())}): each interval between span boundaries counts "
        "as one token there"
    )
    return _with_intervals(np.repeat(np.arange(len(sizes)), whole), begins, long, document, spans)


def _with_intervals(of: Ints, begins: Ints, long: Bools, document: Ints, spans: tuple[Ints, Ints]) -> Grid:
    """Return the grid, with the tokens of long documents running from one span boundary to the next."""
    in_long = long[document]
    first = np.flatnonzero(long)
    borders = np.stack(
        [
            np.concatenate([first, document[in_long], document[in_long]]),
            np.concatenate([np.zeros(len(first), np.int64), spans[0][in_long], spans[1][in_long]]),
        ]
    )
    document_of, place = np.unique(borders, axis=1)
    goes_on = document_of[1:] == document_of[:-1]  # no token starts at the last boundary of a document
    of = np.concatenate([of, document_of[:-1][goes_on]])
    ends = np.concatenate([begins + 1, place[1:][goes_on]])
    begins = np.concatenate([begins, place[:-1][goes_on]])
    order = np.lexsort((begins, of))
    return Grid(starts_of(np.bincount(of, minlength=len(long))), begins[order], ends[order])


def _check_not_empty(names: Names, sizes: Ints) -> None:
    empty = np.flatnonzero(sizes < 1)
    if len(empty):
        names_listed = preview(names.take(empty).values.tolist())
        raise ValueError(f"{plural(len(empty), 'document')} without tokens ({names_listed}): remove them")


def _token_range(grid: Grid, document: Ints, begin: Ints, stop: Ints, names: Names) -> tuple[Ints, Ints]:
    """Return the first and last token that each span touches, relative to its document."""
    ends = grid.ends[grid.starts[1:] - 1]
    outside = np.flatnonzero(stop > ends[document])
    if len(outside):
        row = outside[0]
        raise ValueError(
            f"the span from {begin[row]} to {stop[row]} exceeds document {_name(names, document[row])!r}, which "
            f"ends at {ends[document[row]]} ({plural(len(outside), 'such span')})"
        )
    if float(ends.sum(dtype=float)) > 2.0**62:
        raise ValueError(f"{plural(len(ends), 'document')} with positions up to {ends.max():,}: {_DIVIDE}")
    # All documents on one axis: each document starts after the end of the previous one.
    shift = starts_of(ends + 1)[:-1]
    of = np.repeat(np.arange(len(ends)), grid.lengths)
    first = np.searchsorted(grid.ends + shift[of], begin + shift[document], side="right")
    last = np.searchsorted(grid.begins + shift[of], stop + shift[document], side="left") - 1
    nothing = np.flatnonzero(last < first)
    if len(nothing):
        row = nothing[0]
        raise ValueError(
            f"the span from {begin[row]} to {stop[row]} of document {_name(names, document[row])!r} touches no token: "
            "check the positions"
        )
    return first - grid.starts[document], last - grid.starts[document]


def _fill_codes(offsets: Ints, reading: Ints, first: Ints, last: Ints, kinds: Ints, who: tuple[Any, ...]) -> Tokens:
    """Return the tags of all annotations; raise if spans of one worker overlap, drop duplicate spans with a warning."""
    codes = np.zeros(int(offsets[-1]), np.uint16)
    if not len(reading):
        return codes
    rows = np.unique(np.stack([reading, first, last, kinds]), axis=1)
    twice = len(reading) - rows.shape[1]
    if twice:
        warn_of_data(f"{plural(twice, 'duplicate span')} of the same worker: each span counts once")
    reading, first, last, kinds = rows
    crossing = np.flatnonzero((reading[1:] == reading[:-1]) & (first[1:] <= last[:-1]))
    if len(crossing):
        of, by, names, worker_names = who
        row = int(crossing[0])
        raise OverlapError(
            f"spans of worker {_name(worker_names, by[reading[row]])!r} in document {_name(names, of[reading[row]])!r} "
            f"overlap: tokens {first[row]}–{last[row]} and {first[row + 1]}–{last[row + 1]} ({len(crossing):,} such "
            "pairs)"
        )
    lengths = last - first + 1
    codes[places(offsets[reading] + first, lengths)] = np.repeat(2 + 2 * kinds, lengths)
    codes[offsets[reading] + first] = 1 + 2 * kinds
    return codes
