"""Reading logs from files: CSV (plain or compressed), Parquet and exports of platforms, one file, many, or stdin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from manyhands._base.building import Missing, Repeats, build, build_soft
from manyhands._base.checks import check_choice, listed
from manyhands._base.columns import spread
from manyhands._base.data_checks import checked_order
from manyhands._base.frames import WELL_KNOWN, known_among, one_known
from manyhands._base.sources import Layout, PathLike, Source, enough_memory
from manyhands._base.streams import batches, column_names, read_columns, read_roles
from manyhands._base.table import Records
from manyhands.categorical.dense import build_dense
from manyhands.categorical.table import Annotations
from manyhands.categorical.timestamps import Array, Dates, as_numbers, ranks, without_ranks
from manyhands.io.exports import Export, opened, sources_to_read
from manyhands.io.exports.files import distinct_names
from manyhands.io.kinds import check_inferred, kind_by_columns, table_of
from manyhands.io.shown import shown_in_files, shown_in_frame
from manyhands.sequences.encode import TIMES

if TYPE_CHECKING:
    import pyarrow as pa

#: How the answers of a log are arranged.
Layouts = Literal["long", "wide", "by-worker", "by-task"]


@overload
def read(
    source: PathLike | Iterable[PathLike],
    *,
    kind: Literal["categorical"] | None = ...,
    format: str = ...,
    layout: Layouts = ...,
    question: str | None = ...,
    predictions: bool = ...,
    show: str | None = ...,
    worker_from_file: bool = ...,
    task: str | Iterable[str] | None = ...,
    worker: str | Iterable[str] | None = ...,
    label: str | None = ...,
    weight: str | None = ...,
    confidence: str | None = ...,
    probabilities: Iterable[str] | None = ...,
    repeats: Repeats = ...,
    missing: Missing = ...,
    classes: Iterable[Any] | None = ...,
    abstain: Any = ...,
    ordered: bool = ...,
    labels_as_text: bool = ...,
    fold_labels: bool = ...,
    delimiter: str | None = ...,
    encoding: str | None = ...,
    header: bool = ...,
) -> Annotations: ...
@overload
def read(source: PathLike | Iterable[PathLike], *, kind: str, **settings: Any) -> Any: ...
def read(
    source: PathLike | Iterable[PathLike],
    *,
    kind: str | None = None,
    format: str = "auto",
    layout: Layouts = "long",
    question: str | None = None,
    predictions: bool = False,
    show: str | None = None,
    worker_from_file: bool = False,
    task: str | Iterable[str] | None = None,
    worker: str | Iterable[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    confidence: str | None = None,
    probabilities: Iterable[str] | None = None,
    repeats: Repeats = "keep",
    missing: Missing = "drop",
    classes: Iterable[Any] | None = None,
    abstain: Any = None,
    ordered: bool = False,
    labels_as_text: bool = False,
    fold_labels: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    out_of_core: PathLike | None = None,
    memory: str | int = "4GB",
    **others: Any,
) -> Any:
    """Read a log of annotations from files: a table, or the export of a labelling platform.

    Parameters
    ----------
    source
        A path, a glob such as ``"logs/*.parquet"``, a folder or a zip archive, or several of these. Of a folder or an
        archive, all files of one format are read. The ending says what a file is:
        ``.csv``, ``.tsv`` or ``.txt`` (also with ``.gz``, ``.bz2``, ``.zst``, ``.lz4``), ``.parquet`` or
        ``.pq``, ``.json``, ``.jsonl``, ``.ndjson``, ``.manifest``, ``.xml``, ``.conll``, ``.bio`` or ``.iob``. Under
        another ending, `format` says it. ``"-"`` is the standard input; it and pipes are recognized by their content.
    kind
        What the answers are: ``"categorical"``, or ``"numeric"`` for :class:`~manyhands.Ratings`, …. By default what an
        export says, and classes for a table, unless it lacks a column of tasks or labels and has others that tell of
        another kind. A column called ``text`` is taken for answers only if workers wrote different texts for a task.
    format
        The platform an export comes from, such as ``"label-studio"``; by default inferred from its fields. See
        docs/labeling-tools.md for all. ``"csv"``, ``"parquet"`` and ``"json"`` are plain rows, whatever the column
        names.
    layout
        ``"long"``, one answer per row, or ``"wide"``, one task per row and one worker per column, as for
        :meth:`Annotations.from_dense`; `worker` then lists the columns of workers, by default all but the task. JSON
        objects of objects are ``"by-worker"``, ``{worker: {task: label}}``, or ``"by-task"``,
        ``{task: {worker: label}}``.
    question
        Which question of an export is meant, where it has several.
    predictions
        Whether predictions of models that an export holds count as answers of workers.
    show
        The column, or the field of an export, with what a task shows to workers: a text, or the address of an image. It
        is in :attr:`~manyhands.Annotations.shown` of the table, next to tasks in files that the command line writes,
        and in reports. ``"auto"`` takes the field that an export's platform shows.
    worker_from_file
        Whether each file holds the answers of one worker, who is called by the name of the file, or by the parts of its
        path that tell it from the others.
    task, worker, label, weight, confidence, repeats, missing, classes, abstain, ordered, fold_labels
        As for :meth:`Annotations.from_frame`; other kinds take those that their own ``from_frame`` has. Several columns
        in a list are one id together: ``worker=["judge", "prompt"]``.
    probabilities
        Columns of probabilities, one a class, in place of labels, as for :meth:`Annotations.from_soft`.
    labels_as_text
        Whether labels are names, whatever they look like: ``2`` and ``2.50`` stay text. Otherwise a column of numbers
        with fractions is refused, since scores are no classes.
    delimiter
        What separates the fields of a CSV file. By default a comma, or a tab for ``.tsv``; a first line without any
        shows whether it is a semicolon, a tab or a bar.
    encoding
        The encoding of CSV files, such as ``"latin-1"``. By default UTF-8, or UTF-16 if its byte order mark is there.
    header
        Whether the first line of a CSV file names the columns. Otherwise they are called ``"1"``, ``"2"`` and so on.
    out_of_core
        A directory for a log of classes that does not fit in memory: it is encoded there in shards, about 5 bytes an
        annotation beside the names of the tasks, and the table that comes back stays on disk. What goes through
        annotations shard by shard takes it as any other (the default, votes, Dawid–Skene and its Bayesian and
        hierarchical kin, agreement); all else says so before it starts. A directory that holds these files already,
        read with the same settings, is opened. Needs DuckDB: ``pip install 'manyhands[scale]'``.
    memory
        What encoding out of core may take, beside the names of workers and labels, such as ``"4GB"``.
    **others
        What the ``from_frame`` of another kind takes besides, such as ``value=`` for numbers.

    Returns
    -------
    Annotations
        The table, or that of the kind that was asked for.

    Notes
    -----
    Fields of a CSV file are read as text; a column becomes integers only if every value is one in plain form, so that
    ``007`` and ``7`` stay two ids. An empty field is missing; ``NA`` or ``null`` are names like any other.

    Where a column is text in one file and numbers in another, all of it is treated like the text of a CSV file.

    Only the needed columns are read, a batch of rows at a time. Time and memory are linear in the size of the file. A
    column of text of which most rows repeat others is held as a code of 4 bytes a row and its distinct values, others
    as their text, until the table is made: docs/scale.md has figures. What comes from a pipe is held whole beside it.
    """
    written = Layout(delimiter, encoding, header)
    check_choice("layout", layout, get_args(Layouts))
    if kind == "ordinal":
        kind, ordered = "categorical", True
    if worker_from_file and worker is not None:
        raise ValueError("worker= names a column of workers, and worker_from_file=True names them by files; choose one")
    given = {
        "task": task,
        "worker": worker,
        "label": label,
        "weight": weight,
        "confidence": confidence,
        "classes": classes,
        "abstain": abstain,
        "ordered": ordered or None,
        "fold_labels": fold_labels or None,
        **others,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    defaults = {"repeats": repeats, "missing": missing}
    sources = sources_to_read(source, written, format)
    if out_of_core is not None:
        plain = layout == "long" and probabilities is None and kind in (None, "categorical")
        if not plain or question or predictions or worker_from_file or show is not None:
            raise ValueError("out of core, a log of classes has a row for each label: a table in CSV or Parquet files")
        from manyhands.io.shards import encode_files

        return encode_files(sources, asked | defaults, out_of_core, memory=memory, labels_as_text=labels_as_text)
    with enough_memory(listed([str(one.path) for one in sources])):
        workers = distinct_names([one.path for one in sources]) if worker_from_file else None
        if layout == "wide":
            if workers is not None:
                raise ValueError("worker_from_file=True is for files of one worker, and a wide table has several")
            return _read_wide(sources, asked, show)
        if probabilities is not None:
            soft = _read_soft(sources, [*probabilities], asked, workers)
            return soft if show is None else shown_in_files(sources, soft, asked.get("task"), show)
        document = opened(sources, format, asked, layout=layout, worker_from_file=worker_from_file)
        if isinstance(document, Export):
            return of_export(document, kind, question, predictions, asked, defaults, show)
        if question is not None or predictions:
            raise ValueError("question= and predictions= are for exports of platforms; this is a table")
        names = column_names(sources[0]) if document is None else document.column_names
        table = table_of(kind or kind_by_columns(names, [*asked]))
        if document is None:
            made = _read_rows(table, sources, asked, defaults, labels_as_text, workers)
        else:
            columns, settings = _sorted_out(table, asked, defaults)
            columns |= {} if workers is None else {"worker": WELL_KNOWN["worker"][0]}
            maker: Any = table
            made = maker.from_frame(document, **columns, **settings)
        if kind is None:
            check_inferred(made, names, asked)
        if show is None:
            return made
        task = asked.get("task", asked.get("sequence"))
        return (
            shown_in_files(sources, made, task, show)
            if document is None
            else shown_in_frame(document, made, task, show)
        )


def _sorted_out(
    table: type[Records], asked: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns by role and settings of what was asked of a kind; what means nothing to it is refused."""
    known = (*table._roles, *table._options, *table._settings)
    for name in asked:
        if name not in known:
            hint = "; is the log of another kind? (kind=…)" if table is Annotations else ""
            raise TypeError(f"{name}= does not apply to {table._kind} answers, which take {', '.join(known)}{hint}")
    settings = {name: asked.get(name, defaults.get(name)) for name in table._settings}
    settings = {name: value for name, value in settings.items() if name in asked or name in defaults}
    return {name: value for name, value in asked.items() if name not in table._settings}, settings


def _read_rows(
    table: type[Records],
    sources: list[Source],
    asked: Mapping[str, Any],
    defaults: Mapping[str, Any],
    as_text: bool,
    workers: list[str] | None,
) -> Any:
    """Read a table of any kind from files with one answer per row."""
    columns, settings = _sorted_out(table, asked, defaults)
    names = column_names(sources[0])
    needed = table._needed(names, columns)
    for role in table._if_there:
        there = one_known(names, role) if role not in columns else None
        columns |= {} if there is None else {role: there}
    wanted = spread({role: columns.get(role) for role in needed} | columns)
    if table._kind == "sequences" and "start" in needed:
        _refuse_dates(sources[0], columns.get("start") or one_known(names, "start"))
    columns_read = read_roles(
        sources,
        wanted,
        numbers=table._numbers,
        raw=table._raw,
        as_text=as_text,
        weak=table._weak,
        workers=workers,
    )
    return table._made(columns_read, **settings)


def _refuse_dates(source: Source, start: str | None) -> None:
    """Reject a table of documents in which starts are dates or times, by its first row: its rows are no spans."""
    if start is None or start not in column_names(source) or source.kind == "parquet":
        return
    values = next((batch.column(0).drop_null() for batch in batches(source, [start])), None)
    value = "" if values is None or not len(values) else values[0].as_py()
    if re.search(r"\d[-:/.]\d+[-:/.]\d", value):
        raise ValueError(f"{source}: column {start!r} holds {value!r}, which is not a place in a text; {TIMES}")


def _read_soft(
    sources: list[Source], names: list[str], asked: Mapping[str, Any], workers: list[str] | None
) -> Annotations:
    """Read a table of classes from columns of probabilities."""
    for name in asked:
        if name not in ("task", "worker", "abstain", "ordered"):
            raise ValueError(f"{name}= means nothing beside probabilities=, which give each class a column")
    wanted = spread({"task": asked.get("task"), "worker": asked.get("worker")})
    wanted |= {("probability", place): (f"probability of {name!r}", name) for place, name in enumerate(names)}
    read = read_roles(sources, wanted, numbers=("probability",), workers=workers)
    columns = [data for data, _ in read.others["probability"]]
    parts = build_soft([read.ids["task"], read.ids["worker"]], columns, names, asked.get("abstain"))
    return Annotations(*parts, ordered=checked_order(asked.get("ordered", False), parts[3], given=True))


#: Settings that a wide table takes.
_WIDE = ("classes", "abstain", "ordered", "fold_labels")


def _read_wide(sources: list[Source], asked: Mapping[str, Any], show: str | None) -> Annotations:
    """Read a table of classes from a file with a task per row and a worker per column, and what its tasks show."""
    for name in asked:
        if name not in ("task", "worker", *_WIDE):
            raise ValueError(f"{name}= means nothing to a wide table, where each worker has a column")
    if len(sources) > 1 or sources[0].kind == "document":
        raise ValueError("a wide table is read from one CSV or Parquet file")
    names = column_names(sources[0])
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{sources[0]}: several columns are called {twice!r}; each worker needs a column of its own")
    task = asked.get("task") or next(iter(known_among(names, (*WELL_KNOWN["task"], "id"))), None)
    chosen = asked.get("worker")
    chosen = [chosen] if isinstance(chosen, str) else chosen
    workers = [name for name in names if name not in (task, show)] if chosen is None else chosen
    wanted = [*([] if task is None else [task]), *workers]
    for name in wanted if show is None else [*wanted, show]:
        if name not in names:
            role = "task" if name == task else "shown" if name == show else "worker"
            raise KeyError(f"no {role} column {name!r}; the columns are {listed(names, 20)}")
    settings = {name: asked[name] for name in _WIDE if name in asked}
    ordered = settings.pop("ordered", False)
    parts = build_dense(read_columns(sources[0], wanted), task=task, chosen=chosen is not None, **settings)
    wide = Annotations(*parts, ordered=checked_order(ordered, parts[3], given="classes" in settings))
    if show is None:
        return wide
    # By the same reading as the labels, so that ids have the same type.
    columns = [show] if task is None else list(dict.fromkeys((task, show)))
    shown: Annotations = shown_in_frame(read_columns(sources[0], columns), wide, task, show)
    return shown


def of_export(
    found: Export,
    kind: str | None,
    question: str | None,
    predictions: bool,
    asked: Mapping[str, Any],
    defaults: Mapping[str, Any],
    show: str | None = None,
) -> Any:
    """Make the table of an export's question; a label that was named is the question."""
    asked = dict(asked)
    if "label" in asked:
        question = found.question_named(asked.pop("label"), question)
    if kind is not None:
        found = found.as_kind(question, kind, sep=asked.get("sep"))
    held = found.questions[found.question(question)]
    table = Records._kinds.get(held)
    settings = {} if table is None else _sorted_out(table, asked, defaults)[1]
    named = [name for name in asked if name not in settings]
    if named:
        raise ValueError(
            f"{named[0]}= names a column, and {found.name} is an export, whose fields have their places; if it is a "
            "table after all, read it with format='csv', 'parquet' or 'json'"
        )
    return found.table(question, predictions=predictions, show=show, **settings)


def read_in_order(
    source: PathLike | Iterable[PathLike],
    order: str,
    *,
    layout: Layout,
    format: str = "auto",
    worker_from_file: bool = False,
    dates: Dates | None = None,
    labels_as_text: bool = False,
    **settings: Any,
) -> tuple[Annotations, Array]:
    """Read a log with a column that says when annotations were made: numbers, dates or times, also as text.

    Parameters
    ----------
    source
        As in :func:`read`.
    order
        The column.
    layout
        How CSV files are written.
    format, worker_from_file
        As in :func:`read`.
    dates
        Whether days or months come first in dates such as 10.11.2025.
    labels_as_text
        As in :func:`read`.
    **settings
        Columns of ids, and ``repeats``, ``missing`` and ``abstain``, as in :func:`read`.

    Returns
    -------
    votes : Annotations
        The log.
    when : ndarray of shape (n_annotations,)
        Ranks in that order, equal for equal times, aligned with ``votes.to_frame()``.
    """
    wanted = spread({role: settings.pop(role) for role in ("task", "worker", "label")} | {"order": order})
    sources = sources_to_read(source, layout, format)
    if any(one.kind == "document" for one in sources):
        raise ValueError(f"{sources[0]} is a document, and the order is a column of a table in CSV or Parquet files")
    workers = distinct_names([one.path for one in sources]) if worker_from_file else None
    with enough_memory(listed([str(one.path) for one in sources])):
        read = read_roles(sources, wanted, numbers=(), as_text=labels_as_text, weak=Annotations._weak, workers=workers)
        when = read.ids["order"]
        moments = ranks(as_numbers(when.data, when.what, dates))
        ids = (read.ids[role] for role in Annotations._roles)
        votes = Annotations(*build(*ids, weights=(moments, when.what), confidence=None, classes=None, **settings))
        votes._check_guesses(read)
    return without_ranks(votes)


def read_table(path: PathLike, columns: Iterable[str] | None = None, delimiter: str | None = None) -> pa.Table:
    """Read some columns of a CSV or Parquet file, CSV fields as text."""
    source = Source(path, Layout(delimiter))
    return read_columns(source, column_names(source) if columns is None else list(columns))
