"""The table of sequences: who gave which token of a sequence what tag, or marked which spans of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base.checks import counted
from manyhands._base.columns import Columns, columns_of, joined_ids
from manyhands._base.description import Fact, Spread
from manyhands._base.frames import WELL_KNOWN, known_among, names_of, one_known
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Names
from manyhands._base.task_table import Answers, Payload
from manyhands.sequences.encode import Built, Grid, Ints, build_spans, build_tokens, places, starts_of
from manyhands.sequences.spans import PLACES, holds_spans, readers_of, span_columns
from manyhands.sequences.tags import UNSAID, Scheme, Tags, Tokens
from manyhands.texts.words import places_of_tokens

if TYPE_CHECKING:
    import pyarrow as pa

Gaps = Literal["error", "outside", "unsaid"]
#: What counts as a token of a text: a word, or one sign.


class Sequences(Answers):
    """An immutable, sparse table of readings: what a worker said of a sequence, a tag for each of its tokens.

    A sequence is a sentence or a document of words, or anything else that comes in an order, such as frames of a film.
    Tags say where spans begin and go on, in any of the usual schemes, and are kept as BIO: ``O`` outside, ``B-x`` for
    the first token of a span of type x, ``I-x`` further inside. Labels that are no such tags are classes of tokens, any
    of which may follow any other. A tag ``I-x`` that nobody began becomes ``B-x``, which a warning counts.

    Layers, such as nested entities, are sequences of their own: see `layer` of :meth:`from_spans`.

    Made by one of the constructors below or by :func:`manyhands.read` with ``kind="sequences"``. Ids are those of
    :class:`~manyhands.Annotations`; sequences are its tasks.

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
    )
    _file_kind: ClassVar[str] = "sequences"
    _table: _core.CodeTable
    _grid: Grid
    _tags: Tags
    #: Readings, which the table holds numbers of: where the tags of each begin, and all tags.
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
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns: a row for each tag.

        A frame that has no positions but starts and ends holds spans, and is read as by :meth:`from_spans`.

        Parameters
        ----------
        frame
            The log. Anything with the Arrow PyCapsule interface will do.
        sequence, worker
            Columns of ids, as for :meth:`Annotations.from_frame`; several in a list are one id together.
        position
            Column of whole numbers that order the tokens of a sequence. Those that somebody tagged are its tokens.
        label
            Column of tags. A row without one says nothing of its token.
        scheme
            How tags are written: ``"bio"`` (IOB1 too), ``"bilou"``, ``"bioes"``, ``"io"`` (types alone; equal ones side
            by side are one span) or ``"classes"`` (no spans); ``"auto"`` goes by their looks.
        outside
            The tag of tokens that are in no span.
        gaps
            What a token means that one reader of a sequence tagged and another did not: an ``"error"`` (the default,
            since it cannot be told), a token ``"outside"`` all spans, or one that the other said nothing of
            (``"unsaid"``); the latter two with a warning that counts them.
        repeats
            What to do with a worker's further tags of the same token: an ``"error"``, or only the ``"first"`` or
            ``"last"`` row.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"doc": ["a"] * 4, "pos": [0, 1, 0, 1], "worker": [1, 1, 2, 2], "tag": ["B", "I", "B", "O"]}
        >>> mh.Sequences.from_frame(log, sequence="doc", position="pos", label="tag").tags.tolist()
        ['O', 'B', 'I']
        """
        given = {"sequence": sequence, "position": position, "worker": worker, "label": label}
        named = {role: name for role, name in given.items() if name is not None}
        needed = cls._needed(names_of(frame), named)
        columns = columns_of(frame, dict.fromkeys(needed) | named, cls.spec.numbers)
        return cls._of_columns(columns, scheme=scheme, outside=outside, gaps=gaps, repeats=repeats)

    @classmethod
    def _needed(cls, names: Sequence[str], named: Collection[str]) -> tuple[str, ...]:
        spans = holds_spans(names, named)
        labelled = not spans and one_known(names, "label") is not None
        said = "label" if labelled or "label" in named else "tag"
        asked = said in named or not spans or bool(known_among(names, WELL_KNOWN[said]))
        return ("sequence", *(PLACES if spans else ("position",)), "worker", *((said,) if asked else ()))

    @classmethod
    def from_arrays(cls, sequences: Any, positions: Any, workers: Any, labels: Any, **settings: Any) -> Self:
        """Build a table from four columns of equal length; settings are those of :meth:`from_frame`."""
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
            said = ids.get("label", ids.get("tag"))
            built = build_spans(document, begins, ends, ids["worker"], said, readers=None, lengths=None, tokens=None)
            return cls._of_built(built)
        ((position, what),) = columns.others["position"]
        # Read from files and the command line, the rule for repeats is that of other kinds unless somebody chose.
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
        """Build a table from spans: a row for each that a worker marked in a document.

        A worker who marked something in a document read all of it. A row with neither start nor end says that a worker
        read the document and marked nothing.

        Parameters
        ----------
        *columns
            Either a frame, of which `document`, `start`, `end`, `worker`, `tag` and `layer` name columns, or the first
            five of these themselves, in that order: ids and whole numbers.
        document, worker
            Which document, and who marked the span.
        start, end
            Its first place, counted from 0, and the first one behind it: tokens, or characters where `texts` or
            `tokens` are given.
        tag
            Its type; None where there is only one.
        layer
            What tells apart spans that may overlap: each layer of a document is a sequence of its own, called
            ``document / layer``. The column of tags will do.
        readers
            Who read what, in two columns, document and worker: a frame, or a pair of columns. Needed where readers who
            marked nothing have no row.
        lengths
            Number of tokens of each document. By default a document ends where its last span does; if that is beyond
            1,000,000, what lies between two borders of spans is one token (with a warning).
        texts
            The text of each document: tokens are its words and signs, places are characters, and a token is in a span
            that touches it.
        tokens
            In place of `texts`, the first character of each token and the first behind it, for each document.

        Examples
        --------
        >>> import manyhands as mh
        >>> marks = mh.Sequences.from_spans(
        ...     ["a", "a", "b"], [0, 4, 2], [2, 5, 3], ["ann", "bob", "bob"], ["PER", "LOC", "PER"],
        ...     lengths={"a": 6, "b": 4})
        >>> marks
        <Sequences: 3 readings of 2 sequences (10 tokens) by 2 workers, spans of 2 types>
        """
        named = {"document": document, "start": start, "end": end, "worker": worker, "tag": tag}
        given = span_columns(columns, named, layer)
        if sum(one is not None for one in (lengths, texts, tokens)) > 1:
            raise ValueError("give one of lengths, texts and tokens: each says what the tokens of a document are")
        cut = None if tokens is None else {name: [(a, b) for a, b in one] for name, one in tokens.items()}
        if texts is not None:
            cut = {name: places_of_tokens(text) for name, text in texts.items()}
        pairs = None if readers is None else readers_of(readers)
        document_ids = given.ids["document"]
        if "layer" in given.ids:
            if pairs is not None:
                raise ValueError("readers= and layer= do not go together: name the layer as part of the document")
            of, names = document_ids.encode()
            document_ids = joined_ids("document", [document_ids, given.ids["layer"]])
            sizes: Mapping[Any, Any] = lengths or cut or {}
            layered = dict(zip(document_ids.names().values.tolist(), names.values[of].tolist(), strict=True))
            known = {full: sizes[name] for full, name in layered.items() if name in sizes}
            lengths, cut = (known if lengths is not None else None), (known if cut is not None else None)
        built = build_spans(
            document_ids,
            given.others["start"][0],
            given.others["end"][0],
            given.ids["worker"],
            given.ids.get("tag"),
            readers=pairs,
            lengths=lengths,
            tokens=cut,
        )
        return cls._of_built(built)

    @classmethod
    def from_conll(cls, source: Any, **settings: Any) -> Self:
        """Read tags in columns, a token a line and an empty line after each sequence, as of the CoNLL tasks.

        Parameters
        ----------
        source
            A file for each worker, as a mapping from workers to paths, whose last column holds tags; or one file whose
            first column holds words and each other one the tags of a worker, ``?`` where they said nothing. Lines that
            begin with ``-DOCSTART-`` or ``#`` are skipped. Sequences are numbered from 0, workers of one file too.
        **settings
            `scheme`, `outside` and `gaps`, as for :meth:`from_frame`.
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
        """The compiled table of codes and numbers of readings: frozen."""
        return self._table

    @property
    def sequences(self) -> npt.NDArray[Any]:
        """Names of the sequences, in code order; the same as :attr:`tasks`."""
        return self._tasks.values

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return len(self._grid.begins)

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each sequence, (n_tasks,)."""
        return self._grid.lengths

    @property
    def positions(self) -> Ints:
        """Where each token begins, those of one sequence after the other, (n_tokens,)."""
        return self._grid.begins

    @property
    def tags(self) -> npt.NDArray[Any]:
        """All tags that a token can have, in code order."""
        return self._tags.names.values

    @property
    def types(self) -> npt.NDArray[Any]:
        """Types of spans, or classes of tokens where there are no spans."""
        return self._tags.types.values

    def readings(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], Ints, Tokens]:
        """Sequence and worker of every reading, where the tags of each begin, and all tags by codes: fresh arrays.

        Readings are in the order of sequences, and of workers within them; 65,535 stands for a token not asked about.
        """
        sequences, workers, readings = self._table.columns()
        lengths = self._grid.lengths[sequences]
        return sequences, workers, starts_of(lengths), self._codes[places(self._offsets[readings], lengths)]

    def to_frame(self) -> pa.Table:
        """Return the tags as an Arrow table: sequence, position, worker, label; tokens not asked about have no row."""
        sequences, workers, _, codes = self.readings()
        lengths = self._grid.lengths[sequences]
        said = codes != UNSAID
        of, by = (np.repeat(part, lengths)[said] for part in (sequences, workers))
        return arrow.table(
            {
                "sequence": arrow.take(self._tasks.arrow(), of),
                "position": self._grid.begins[places(self._grid.starts[sequences], lengths)][said],
                "worker": arrow.take(self._workers.arrow(), by),
                "label": arrow.take(self._tags.names.arrow(), codes[said]),
            }
        )

    def spans(self) -> pa.Table:
        """Return what was marked as an Arrow table: sequence, worker, start, end, tag; runs of classes likewise."""
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
        marked = ", ".join(f"{name or 'of no type'} {n:,}" for name, n in spans.items())
        long = f", {length:.2f} tokens long on average" if len(begins) else ""
        unsaid = int((codes == UNSAID).sum())
        tags = len(codes) - unsaid
        yield Fact("n_annotations", self.n_annotations, "readings")
        yield Fact("n_tasks", self.n_tasks, "sequences")
        yield Fact("n_tokens", self.n_tokens, "tokens")
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("n_tags", tags, "tags", f"{tags:,} ({unsaid:,} tokens of readings have none)")
        yield Fact("n_unsaid", unsaid)
        yield Fact("lengths", Spread.of(self.lengths), "sequence length")
        yield Fact("labels_per_task", Spread.of(self.labels_per_task), "per sequence")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), "per worker")
        yield Fact("spans", spans, "spans", f"{len(begins):,}{long} ({marked})")
        yield Fact("span_length", length)

    def __repr__(self) -> str:
        readings, sequences = counted(self.n_annotations, "reading"), counted(self.n_tasks, "sequence")
        tokens, workers = counted(self.n_tokens, "token"), counted(self.n_workers, "worker")
        types = len(self._tags.types)
        said = f"spans of {counted(types, 'type')}" if self._tags.spans else counted(types, "class", "classes")
        return f"<Sequences: {readings} of {sequences} ({tokens}) by {workers}, {said}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._tags.types, self._tags.spans, self.n_tokens)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.readings(), self._grid.starts, self._grid.begins, self._grid.ends)

    def _parts_for(self, tasks: Names) -> tuple[Any, ...]:
        return self._grid.part(self._tasks.match(tasks)), self._tags, self._offsets, self._codes

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        raise NotImplementedError  # `to_frame` has a row a token

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
            raise content.damaged("its tokens are not those of its sequences")
        grid = Grid(starts, begins, ends)
        offsets = starts_of(grid.lengths[task_codes])
        if offsets[-1] != len(codes) or not ((codes < len(tags)) | (codes == UNSAID)).all():
            raise content.damaged("its tags are not those of its readings")
        n = len(task_codes)
        return Payload(np.arange(n), n, (grid, tags, offsets, codes))


def runs(tags: Tags, codes: Tokens, first: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Spans, or runs of a class, in a line of tokens: first token, the one behind the last, type."""
    begins = tags.begins(codes, first)
    types = tags.types_of(codes)
    starts = np.flatnonzero(begins)
    # Behind the last token of a span something else begins, or nothing is.
    stops = np.concatenate([begins | (types < 0) | first, [True]])
    at = np.flatnonzero(stops)
    ends = at[np.searchsorted(at, starts, side="right")]
    return starts, ends, types[starts]
