"""Table of sequence annotations: token tags or document spans by worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base.checks import plural
from manyhands._base.columns import Columns, columns_of, joined_ids
from manyhands._base.description import Fact, Spread
from manyhands._base.frames import WELL_KNOWN, known_among, names_of, one_known
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Names
from manyhands._base.task_table import Answers, Payload
from manyhands.sequences.encode import Built, Grid, Ints, build_spans, build_tokens, places, starts_of
from manyhands.sequences.spans import PLACES, holds_spans, readers_of, span_columns
from manyhands.sequences.tags import NO_TAG, Scheme, Tags, Tokens
from manyhands.texts.words import token_offsets

if TYPE_CHECKING:
    import pyarrow as pa

Gaps = Literal["error", "outside", "unsaid"]


class Sequences(Answers):
    """Immutable, sparse table of sequence annotations: each worker's tags of the tokens of a sequence.

    Use it for named entities, spans in text, or other ordered data such as video frames. Build it with
    :meth:`from_frame`, :meth:`from_spans` or :meth:`from_conll`, or read a file with :func:`manyhands.read` and
    ``kind="sequences"``. Sequences are the tasks; ids are as in :class:`~manyhands.Annotations`.

    Span tags are read in any of the usual schemes and stored as BIO: ``O`` outside, ``B-x`` for the first token of a
    span of type x, ``I-x`` for the following tokens. Other labels are token classes, which may follow each other in any
    order. An ``I-x`` without a preceding ``B-x`` or ``I-x`` becomes ``B-x``, with a warning. A *reading* is one
    worker's annotation of one sequence. Nested or overlapping spans need one sequence per layer: see `layer` of
    :meth:`from_spans`.

    Memory: 2 bytes per token of each reading, 16 per token of each sequence and 8 per reading, plus names.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1, 1, 1] * 2, "position": [0, 1, 2] * 2, "worker": ["ann"] * 3 + ["bob"] * 3,
    ...        "label": ["O", "B-PER", "I-PER", "O", "B-PER", "O"]}
    >>> mh.Sequences.from_frame(log)
    <Sequences: 2 readings of 1 sequence (3 tokens) by 2 workers, spans of 1 type>
    """

    __slots__ = ("_codes", "_grid", "_offsets", "_tags")
    spec: ClassVar[KindSpec] = KindSpec(
        word="sequences",
        required=("sequence", "position", "worker", "label"),
        optional=("start", "end", "tag", "layer"),
        numbers=frozenset({"position", *PLACES}),
        settings=("scheme", "outside", "gaps", "repeats"),
        telling=(("sequence", "position"), ("sequence", *PLACES)),
        parts=("grid", "tags", "offsets", "codes"),
        makers=("from_frame", "from_spans", "from_conll"),
        unit="span",
        note="Spans come from the most probable tagging of each document. Spans that all workers miss are missing.",
    )
    _table: _core.CodeTable
    _grid: Grid
    _tags: Tags
    #: Start offset of the tags of each reading, and all tags. The compiled table stores the reading numbers.
    _offsets: Ints
    _codes: Tokens

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        sequence: str | Iterable[str] | None = None,
        position: str | None = None,
        worker: str | Iterable[str] | None = None,
        label: str | None = None,
        scheme: Scheme = "auto",
        outside: Any = "O",
        gaps: Gaps = "error",
        repeats: Literal["error", "first", "last"] = "error",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns: one row per tag.

        A frame with start and end columns instead of positions contains spans and is read by :meth:`from_spans`.

        Parameters
        ----------
        frame : DataFrame, Arrow table or mapping of columns
            The log. Any object with the Arrow PyCapsule interface works.
        sequence : str or list of str, optional
            Column of sequence ids, as for :meth:`Annotations.from_frame`; several columns form one id.
        position : str, optional
            Column of whole numbers that order the tokens of a sequence. Its tokens are the positions with a tag.
        worker : str or list of str, optional
            Column of worker ids; several columns form one id.
        label : str, optional
            Column of tags. Rows without a tag are missing answers.
        scheme : {"auto", "bio", "bilou", "bioes", "io", "classes"}, default "auto"
            Tagging scheme: ``"bio"`` (including IOB1), ``"bilou"``, ``"bioes"``, ``"io"`` (types only; adjacent equal
            types form one span) or ``"classes"`` (no spans). ``"auto"`` detects it.
        outside : str or int, default "O"
            Tag of tokens outside all spans.
        gaps : {"error", "outside", "unsaid"}, default "error"
            Treatment of tokens that some workers of a sequence tagged and others did not: raise, treat them as
            ``"outside"`` all spans, or as missing answers (``"unsaid"``). The last two warn with a count.
        repeats : {"error", "first", "last"}, default "error"
            Treatment of several tags of one worker for the same token: raise, or keep the first or last row.

        Returns
        -------
        Sequences
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"doc": ["a"] * 4, "pos": [0, 1, 0, 1], "worker": [1, 1, 2, 2], "tag": ["B", "I", "B", "O"]}
        >>> mh.Sequences.from_frame(log, sequence="doc", position="pos", label="tag").tags.tolist()
        ['O', 'B', 'I']
        """
        arguments = {"sequence": sequence, "position": position, "worker": worker, "label": label}
        columns_named = {role: name for role, name in arguments.items() if name is not None}
        roles_needed = cls._needed(names_of(frame), columns_named)
        columns = columns_of(frame, dict.fromkeys(roles_needed) | columns_named, cls.spec.numbers)
        return cls._of_columns(columns, scheme=scheme, outside=outside, gaps=gaps, repeats=repeats)

    @classmethod
    def _needed(cls, names: Sequence[str], named: Collection[str]) -> tuple[str, ...]:
        spans = holds_spans(names, named)
        labelled = not spans and one_known(names, "label") is not None
        label_role = "label" if labelled or "label" in named else "tag"
        has_labels = label_role in named or not spans or bool(known_among(names, WELL_KNOWN[label_role]))
        return ("sequence", *(PLACES if spans else ("position",)), "worker", *((label_role,) if has_labels else ()))

    @classmethod
    def from_arrays(cls, sequences: Any, positions: Any, workers: Any, labels: Any, **settings: Any) -> Self:
        """Build a table from four columns of equal length; for the settings, see :meth:`from_frame`."""
        return cls._of_arrays(settings, sequences=sequences, positions=positions, workers=workers, labels=labels)

    @classmethod
    def _of_columns(
        cls,
        columns: Columns,
        *,
        scheme: str = "auto",
        outside: Any = "O",
        gaps: str = "error",
        repeats: str = "error",
    ) -> Self:
        ids = columns.ids
        if "position" not in columns.others:
            begins, ends = (columns.others[role][0] for role in PLACES)
            document = joined_ids("sequence", [ids[role] for role in ("sequence", "layer") if role in ids])
            tags = ids.get("label", ids.get("tag"))
            built = build_spans(document, begins, ends, ids["worker"], tags, readers=None, lengths=None, tokens=None)
            return cls._of_built(built)
        ((position, what),) = columns.others["position"]
        # Files and the command line use the default of other kinds ("keep") unless the caller chose a value.
        built = build_tokens(
            ids["sequence"],
            (position, what),
            ids["worker"],
            ids["label"] if "label" in ids else ids["tag"],
            scheme=scheme,
            outside=outside,
            gaps=gaps,
            repeats="error" if repeats == "keep" else repeats,
        )
        return cls._of_built(built)

    @classmethod
    def from_spans(
        cls,
        *columns: Any,
        document: Any = None,
        start: Any = None,
        end: Any = None,
        worker: Any = None,
        tag: Any = None,
        layer: Any = None,
        readers: Any = None,
        lengths: Mapping[Any, int] | None = None,
        texts: Mapping[Any, str] | None = None,
        tokens: Mapping[Any, Iterable[tuple[int, int]]] | None = None,
    ) -> Self:
        """Build a table from spans: one row per span that a worker marked in a document.

        A worker with a span in a document has annotated the whole document. A row without start and end means that the
        worker annotated the document and marked no span.

        Parameters
        ----------
        *columns : frame, or up to five columns
            A frame, in which `document`, `start`, `end`, `worker`, `tag` and `layer` name columns; or the first five of
            these as columns, in this order.
        document, worker : str or column
            Document ids and worker ids.
        start, end : str or column
            First position of the span, from 0, and its end (exclusive): token numbers, or character offsets if `texts`
            or `tokens` is passed.
        tag : str or column, optional
            Type of the span; None if there is only one type.
        layer : str or column, optional
            Layer of the span, for overlapping or nested spans. Each layer of a document becomes a sequence named
            ``document / layer``. The tag column can serve as layer.
        readers : frame or pair of columns, optional
            Documents and workers that annotated them. Required if workers without spans have no row.
        lengths : mapping of document id to int, optional
            Number of tokens of each document. By default, a document ends with its last span; beyond position
            1,000,000, each interval between span boundaries counts as one token (with a warning).
        texts : mapping of document id to str, optional
            Text of each document. Tokens are its words and punctuation marks, positions are character offsets, and a
            span covers the tokens that it touches.
        tokens : mapping of document id to list of (start, end), optional
            Character offsets of the tokens of each document, instead of `texts`.

        Returns
        -------
        Sequences
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> marks = mh.Sequences.from_spans(
        ...     ["a", "a", "b"], [0, 4, 2], [2, 5, 3], ["ann", "bob", "bob"], ["PER", "LOC", "PER"],
        ...     lengths={"a": 6, "b": 4})
        >>> marks
        <Sequences: 3 readings of 2 sequences (10 tokens) by 2 workers, spans of 2 types>
        """
        columns_named = {"document": document, "start": start, "end": end, "worker": worker, "tag": tag}
        span_roles = span_columns(columns, columns_named, layer)
        if sum(one is not None for one in (lengths, texts, tokens)) > 1:
            raise ValueError("pass only one of lengths, texts and tokens: each defines the tokens of a document")
        cut = None if tokens is None else {name: [(a, b) for a, b in one] for name, one in tokens.items()}
        if texts is not None:
            cut = {name: token_offsets(text) for name, text in texts.items()}
        pairs = None if readers is None else readers_of(readers)
        document_ids = span_roles.ids["document"]
        if "layer" in span_roles.ids:
            if pairs is not None:
                raise ValueError("readers= and layer= cannot be combined: include the layer in the document id")
            of, names = document_ids.encode()
            document_ids = joined_ids("document", [document_ids, span_roles.ids["layer"]])
            sizes: Mapping[Any, Any] = lengths or cut or {}
            layered = dict(zip(document_ids.names().values.tolist(), names.values[of].tolist(), strict=True))
            layer_sizes = {full: sizes[name] for full, name in layered.items() if name in sizes}
            lengths, cut = (layer_sizes if lengths is not None else None), (layer_sizes if cut is not None else None)
        built = build_spans(
            document_ids,
            span_roles.others["start"][0],
            span_roles.others["end"][0],
            span_roles.ids["worker"],
            span_roles.ids.get("tag"),
            readers=pairs,
            lengths=lengths,
            tokens=cut,
        )
        return cls._of_built(built)

    @classmethod
    def from_conll(cls, source: Any, **settings: Any) -> Self:
        """Read CoNLL files: one token per line, an empty line after each sequence.

        Parameters
        ----------
        source : path or mapping of worker id to path
            One file per worker, with the tags in the last column; or one file with words in the first column and one
            column of tags per worker (``?`` for a missing tag). Lines starting with ``-DOCSTART-`` or ``#`` are
            skipped. Sequences are numbered from 0, as are the workers of a single file.
        **settings
            `scheme`, `outside` and `gaps` of :meth:`from_frame`.

        Returns
        -------
        Sequences
            The table.
        """
        from manyhands.sequences.conll import read_columns

        return cls.from_arrays(*read_columns(source), **settings)

    @classmethod
    def _of_built(cls, built: Built) -> Self:
        n = len(built.sequences)
        names = (built.sequence_names, built.worker_names)
        sizes = (len(names[0]), len(names[1]))
        table = cls._compiled(built.sequences, built.workers, Payload(np.arange(n), n), None, *sizes)
        offsets = starts_of(built.grid.lengths[built.sequences])
        return cls(table, *names, built.grid, built.tags, offsets, built.codes)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.CodeTable:
        """Compiled table of reading numbers (read-only)."""
        return self._table

    @property
    def sequences(self) -> npt.NDArray[Any]:
        """Sequence ids, in code order; the same as :attr:`tasks`."""
        return self._tasks.values

    @property
    def n_tokens(self) -> int:
        """Total number of tokens."""
        return len(self._grid.begins)

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each sequence, shape (n_tasks,)."""
        return self._grid.lengths

    @property
    def positions(self) -> Ints:
        """Start position of each token, sequence after sequence, shape (n_tokens,)."""
        return self._grid.begins

    @property
    def tags(self) -> npt.NDArray[Any]:
        """All tags, in code order."""
        return self._tags.names.values

    @property
    def types(self) -> npt.NDArray[Any]:
        """Span types, or token classes if there are no spans."""
        return self._tags.types.values

    def readings(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], Ints, Tokens]:
        """Return sequence and worker of every reading, the offsets of their tags, and all tag codes, as new arrays.

        Readings are sorted by sequence, then by worker. Code 65,535 marks tokens without a tag.
        """
        sequences, workers, readings = self._table.columns()
        lengths = self._grid.lengths[sequences]
        return sequences, workers, starts_of(lengths), self._codes[places(self._offsets[readings], lengths)]

    def to_frame(self) -> pa.Table:
        """Return the tags as an Arrow table with columns sequence, position, worker and label; no row if no tag."""
        sequences, workers, _, codes = self.readings()
        lengths = self._grid.lengths[sequences]
        present = codes != NO_TAG
        sequence_rows, worker_rows = (np.repeat(part, lengths)[present] for part in (sequences, workers))
        return arrow.table(
            {
                "sequence": arrow.take(self._tasks.arrow(), sequence_rows),
                "position": self._grid.begins[places(self._grid.starts[sequences], lengths)][present],
                "worker": arrow.take(self._workers.arrow(), worker_rows),
                "label": arrow.take(self._tags.names.arrow(), codes[present]),
            }
        )

    def spans(self) -> pa.Table:
        """Return the marked spans (or runs of a class) as an Arrow table: sequence, worker, start, end, tag."""
        sequences, workers, offsets, codes = self.readings()
        first = np.zeros(len(codes) + 1, np.bool_)
        first[offsets] = True
        begins, ends, types = runs(self._tags, codes, first[:-1])
        reading = np.searchsorted(offsets, begins, side="right") - 1
        shift = self._grid.starts[sequences[reading]] - offsets[reading]
        return arrow.table(
            {
                "sequence": arrow.take(self._tasks.arrow(), sequences[reading]),
                "worker": arrow.take(self._workers.arrow(), workers[reading]),
                "start": self._grid.begins[begins + shift],
                "end": self._grid.ends[ends - 1 + shift],
                "tag": arrow.take(self._tags.types.arrow(), types),
            }
        )

    def _facts(self) -> Iterable[Fact]:
        _, _, offsets, codes = self.readings()
        first = np.zeros(len(codes) + 1, np.bool_)
        first[offsets] = True
        begins, ends, types = runs(self._tags, codes, first[:-1])
        counts = np.bincount(types, minlength=len(self._tags.types))
        spans = dict(zip(map(str, self.types.tolist()), counts.tolist(), strict=True))
        length = float((ends - begins).mean()) if len(begins) else float("nan")
        per_type = ", ".join(f"{name or 'of no type'} {n:,}" for name, n in spans.items())
        mean_length = f", {length:.2f} tokens long on average" if len(begins) else ""
        missing = int((codes == NO_TAG).sum())
        tags = len(codes) - missing
        yield Fact("n_annotations", self.n_annotations, "readings")
        yield Fact("n_tasks", self.n_tasks, "sequences")
        yield Fact("n_tokens", self.n_tokens, "tokens")
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("n_tags", tags, "tags", f"{tags:,} ({missing:,} tokens of readings have none)")
        yield Fact("n_unsaid", missing)
        yield Fact("lengths", Spread.of(self.lengths), "sequence length")
        yield Fact("labels_per_task", Spread.of(self.labels_per_task), "per sequence")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), "per worker")
        yield Fact("spans", spans, "spans", f"{len(begins):,}{mean_length} ({per_type})")
        yield Fact("span_length", length)

    def __repr__(self) -> str:
        readings, sequences = plural(self.n_annotations, "reading"), plural(self.n_tasks, "sequence")
        tokens, workers = plural(self.n_tokens, "token"), plural(self.n_workers, "worker")
        types = len(self._tags.types)
        content = f"spans of {plural(types, 'type')}" if self._tags.spans else plural(types, "class", "classes")
        return f"<Sequences: {readings} of {sequences} ({tokens}) by {workers}, {content}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._tags.types, self._tags.spans, self.n_tokens)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.readings(), self._grid.starts, self._grid.begins, self._grid.ends)

    def _parts_for(self, tasks: Names) -> tuple[Any, ...]:
        return self._grid.part(self._tasks.match(tasks)), self._tags, self._offsets, self._codes

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        raise NotImplementedError  # `to_frame` has one row per token

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        _, _, _, codes = self.readings()
        grid = {"starts": self._grid.starts, "begins": self._grid.begins, "ends": self._grid.ends}
        spans = np.array([self._tags.spans], np.bool_)
        return {"codes": codes, "spans": spans} | grid | persist.pack_names("types", self._tags.types)

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        types = content.names("types")
        starts, begins = content.array("starts", np.int64, ndim=1), content.array("begins", np.int64, ndim=1)
        ends = content.array("ends", np.int64, shape=begins.shape)
        tags = Tags(types, bool(content.array("spans", np.bool_, shape=(1,))[0]))
        codes = content.array("codes", np.uint16, ndim=1)
        sound = len(starts) == len(tasks) + 1 and starts[0] == 0 and starts[-1] == len(begins)
        sound = sound and bool((np.diff(starts) > 0).all()) and bool((begins < ends).all())
        if not sound or not (task_codes < len(tasks)).all() or (np.diff(task_codes.astype(np.int64)) < 0).any():
            raise content.damaged("the token offsets do not match the sequences")
        grid = Grid(starts, begins, ends)
        offsets = starts_of(grid.lengths[task_codes])
        if offsets[-1] != len(codes) or not ((codes < len(tags)) | (codes == NO_TAG)).all():
            raise content.damaged("the tags do not match the annotations")
        n = len(task_codes)
        return Payload(np.arange(n), n, (grid, tags, offsets, codes))


def runs(tags: Tags, codes: Tokens, first: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Return the start, end (exclusive) and type of each span, or run of a class, on the axis of all tokens."""
    begins = tags.begins(codes, first)
    types = tags.types_of(codes)
    starts = np.flatnonzero(begins)
    # A span ends where another one starts, outside all spans, and at the end of a sequence.
    stops = np.concatenate([begins | (types < 0) | first, [True]])
    at = np.flatnonzero(stops)
    ends = at[np.searchsorted(at, starts, side="right")]
    return starts, ends, types[starts]
