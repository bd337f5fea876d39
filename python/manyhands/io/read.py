"""Reading logs from files: CSV (plain or compressed), Parquet and exports of platforms, one file, many, or stdin."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from manyhands._base import arrow
from manyhands._base.building import Missing, Repeats, build, build_soft
from manyhands._base.checks import check_choice, preview
from manyhands._base.columns import spread
from manyhands._base.data_checks import checked_order
from manyhands._base.frames import WELL_KNOWN, one_known
from manyhands._base.sources import Layout, PathLike, Source, enough_memory
from manyhands._base.spelling import did_you_mean
from manyhands._base.streams import batches, column_names, find_columns, read_columns, read_roles
from manyhands._base.table import Records
from manyhands.categorical.dense import build_dense
from manyhands.categorical.table import Annotations
from manyhands.categorical.timestamps import Array, Dates, as_numbers, ranks, without_ranks
from manyhands.errors import DataWarning, MissingColumnError, argument
from manyhands.io.exports import Export, open_export, sources_to_read
from manyhands.io.exports.export import CANNOT, as_column
from manyhands.io.exports.files import distinct_names
from manyhands.io.kinds import check_inferred, kind_by_columns, table_of, with_answer
from manyhands.io.shown import shown_in_files, shown_in_frame
from manyhands.io.verdicts import (
    check_kind,
    extra_columns,
    melt,
    verdict_frame,
    verdicts_of,
    wanted_columns,
    wide_columns,
)
from manyhands.sequences.encode import advice_on_times

if TYPE_CHECKING:
    import pyarrow as pa


#: How the answers of a log are arranged.
Layouts = Literal["long", "wide", "by-worker", "by-task"]
#: What a wide table and columns of probabilities take besides the columns of tasks and workers.
_WIDE = ("classes", "abstain", "ordered", "fold_labels")
_SOFT = ("abstain", "ordered")


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
    repeats: Repeats = "keep",
    missing: Missing = "drop",
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    out_of_core: PathLike | None = None,
    memory: str | int = "4GB",
    **others: Any,
) -> Any:
    """Read a log of annotations from files: a table, or the export of a labeling platform.

    Parameters
    ----------
    source : path or sequence of path
        A path, a glob such as ``"logs/*.parquet"``, a folder or a zip archive, or several of these. Of a folder or an
        archive, all files of one format are read. The ending specifies what a file is:
        ``.csv``, ``.tsv`` or ``.txt`` (also with ``.gz``, ``.bz2``, ``.zst``, ``.lz4``), ``.parquet`` or
        ``.pq``, ``.json``, ``.jsonl``, ``.ndjson``, ``.manifest``, ``.xml``, ``.conll``, ``.bio`` or ``.iob``. For
        another ending, pass `format`. ``"-"`` is the standard input; it and pipes are recognized by their content.
    kind : str or None, default None
        What the answers are: ``"categorical"``, or ``"numeric"`` for :class:`~manyhands.Ratings`, …. By default the
        kind of the export, and classes for a table, unless it lacks a column of tasks or labels and has others that
        indicate another kind. A column called ``text`` is taken for answers only if workers wrote different texts for a
        task.
    format : str, default "auto"
        The platform an export comes from, such as ``"label-studio"``; by default inferred from its fields. See
        docs/labeling-tools.md for all. ``"csv"``, ``"parquet"`` and ``"json"`` are plain rows, whatever the column
        names.
    layout
        ``"long"``, one answer per row, or ``"wide"``, one task per row and one worker per column, as for
        :meth:`Annotations.from_dense`; `worker` then lists the columns of workers, by default all but the task. JSON
        objects of objects are ``"by-worker"``, ``{worker: {task: label}}``, or ``"by-task"``,
        ``{task: {worker: label}}``.
    question : str or None, default None
        Which question of an export is meant, where it has several.
    predictions : bool, default False
        Whether predictions of models that an export holds count as answers of workers.
    show : str or None, default None
        The column, or the field of an export, with what a task shows to workers: a text, or the address of an image. It
        is in :attr:`~manyhands.Annotations.shown` of the table, next to tasks in files that the command line writes,
        and in reports. ``"auto"`` takes the field that an export's platform shows.
    worker_from_file : bool, default False
        Whether each file holds the answers of one worker, who is called by the name of the file, or by the parts of its
        path that distinguishes it from the others.
    task, worker, label, repeats, missing
        As for :meth:`Annotations.from_frame`; other kinds take those that their own ``from_frame`` has. Several columns
        in a list are one id together: ``worker=["judge", "prompt"]``.
    delimiter : str or None, default None
        What separates the fields of a CSV file. By default a comma, or a tab for ``.tsv``; a first line without any
        shows whether it is a semicolon, a tab or a bar.
    encoding : str or None, default None
        The encoding of CSV files, such as ``"latin-1"``. By default UTF-8, or UTF-16 if its byte order mark is there.
    header : bool, default True
        Whether the first line of a CSV file names the columns. Otherwise they are called ``"1"``, ``"2"`` and so on.
    out_of_core : path or None, default None
        A directory for a log of classes that does not fit in memory: it is encoded there in shards, about 5 bytes per
        annotation next to the names of the tasks, and the table that comes back stays on disk. What goes through
        annotations shard by shard takes it as any other (the default, votes, Dawid–Skene and its Bayesian and
        related models, agreement); all else raises an error before it starts. A directory that holds these files
        already, read with the same settings, is opened. Needs DuckDB, the extra ``scale``.
    memory : str or int, default "4GB"
        What encoding out of core may take, next to the names of workers and labels, such as ``"4GB"``.
    **others
        What else the ``from_frame`` of the kind takes: columns and settings such as ``weight="w"``, ``classes=[…]``,
        ``abstain=``, ``ordered=True`` and ``fold_labels=True`` for classes, ``value=`` for numbers. Two more for
        classes: ``probabilities=[…]`` names columns of probabilities, one per class, in place of labels, as for
        :meth:`Annotations.from_soft`; ``labels_as_text=True`` keeps ``2`` and ``2.50`` as text, where a column of
        numbers with fractions raises otherwise, since scores are not classes.

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
    column of text of which most rows repeat others is held as a code of 4 bytes per row and its distinct values, others
    as their text, until the table is made: docs/scale.md has figures. What comes from a pipe is held whole next to it.
    """
    log = open_log(
        source,
        kind=kind,
        format=format,
        layout=layout,
        question=question,
        predictions=predictions,
        show=show,
        worker_from_file=worker_from_file,
        task=task,
        worker=worker,
        label=label,
        repeats=repeats,
        missing=missing,
        delimiter=delimiter,
        encoding=encoding,
        header=header,
        **others,
    )
    return log.read() if out_of_core is None else log.encode(out_of_core, memory)


def open_log(source: PathLike | Iterable[PathLike], **asked: Any) -> Log:
    """Open a log for reading; the parameters are those of :func:`manyhands.read`."""
    return Log(source, **asked)


class Log:
    """Files that hold a log, opened and sniffed once; see :func:`manyhands.read` for the parameters.

    Attributes
    ----------
    sources : list of Source
        The files.
    inferred : bool
        Whether the kind of answers follows from the columns, because the caller named none.
    """

    def __init__(
        self,
        source: PathLike | Iterable[PathLike],
        *,
        kind: str | None = None,
        format: str = "auto",
        layout: str = "long",
        question: str | None = None,
        predictions: bool = False,
        show: str | None = None,
        worker_from_file: bool = False,
        probabilities: Iterable[str] | None = None,
        repeats: str = "keep",
        missing: str = "drop",
        ordered: bool = False,
        fold_labels: bool = False,
        labels_as_text: bool = False,
        delimiter: str | None = None,
        encoding: str | None = None,
        header: bool = True,
        **asked: Any,
    ) -> None:
        layout_given = Layout(delimiter, encoding, header)
        check_choice("layout", layout, get_args(Layouts))
        if kind == "ordinal":
            kind, ordered = "categorical", True
        if kind is not None:
            table_of(kind)
        asked |= {"ordered": ordered or None, "fold_labels": fold_labels or None}
        self.asked = {name: value for name, value in asked.items() if value is not None}
        if worker_from_file and "worker" in self.asked:
            raise ValueError(
                f"{argument('worker')} names a column of workers, and {argument('worker_from_file', True)} "
                "names them by files; choose one"
            )
        self.inferred = kind is None
        self._kind, self._format, self._layout = kind, format, layout
        self._question, self._predictions, self._show = question, predictions, show
        self._probabilities = None if probabilities is None else [*probabilities]
        self._defaults = {"repeats": repeats, "missing": missing}
        self._as_text, self._worker_from_file = labels_as_text, worker_from_file
        self.sources = sources_to_read(source, layout_given, format)

    @cached_property
    def document(self) -> Export | pa.Table | None:
        """The export of a platform, or the table of a document; None for tables with one answer per row."""
        return open_export(
            self.sources, self._format, self.asked, layout=self._layout, worker_from_file=self._worker_from_file
        )

    @property
    def names(self) -> list[str]:
        """The columns of a log that is not an export."""
        document: Any = self.document
        names: list[str] = column_names(self.sources[0]) if document is None else document.column_names
        return names

    @cached_property
    def kind(self) -> str:
        """What the answers are: the kind that was asked for, or the one that the columns show."""
        if self._layout == "wide" or self._probabilities is not None:
            return "categorical"
        if self._kind is not None:
            return self._kind
        if not isinstance(self.document, Export):
            return kind_by_columns(self.names, [*self.asked])
        kind_found = self.document.questions[self._question_of(self.document)]
        if kind_found not in Records._kinds:
            raise ValueError(f"the export holds {kind_found}: {CANNOT}")
        return kind_found

    def needed_memory(self) -> int | None:
        """Bytes that reading takes, roughly; None where that cannot be determined beforehand."""
        sizes = [one.needed_memory() for one in self.sources]
        # Text, codes and the table.
        return None if None in sizes else 2 * sum(filter(None, sizes))

    def read(self) -> Any:
        """Return the table."""
        with enough_memory(preview([str(one.path) for one in self.sources])):
            if self._layout == "wide":
                return self._read_wide()
            if self._probabilities is not None:
                return self._shown(self._read_soft(self._probabilities))
            if isinstance(self.document, Export):
                return self._read_export(self.document)
            if self._question is not None or self._predictions:
                raise ValueError(
                    f"{argument('question')} and {argument('predictions')} are for exports of platforms; this "
                    "is a table"
                )
            table = table_of(self.kind)
            if not self.inferred:
                self.asked = with_answer(table, self.names, self.asked)
            columns, settings = self._sorted_out(table)
            if self.document is None:
                answers = self._read_rows(table, columns, settings)
            else:
                columns |= {"worker": WELL_KNOWN["worker"][0]} if self._worker_from_file else {}
                maker: Any = table
                try:
                    answers = maker.from_frame(self.document, **columns, **settings)
                except MissingColumnError as error:
                    raise _with_advice(error, self.document) from None
            if self.inferred:
                check_inferred(answers, self.names, self.asked)
            return self._shown(answers)

    def encode(self, directory: PathLike, memory: str | int) -> Annotations:
        """Encode a log of classes in shards on disk, and return the table that reads them."""
        plain = self._layout == "long" and self._probabilities is None and self._kind in (None, "categorical")
        if not plain or self._question or self._predictions or self._worker_from_file or self._show is not None:
            raise ValueError("out of core, a log of classes has a row for each label: a table in CSV or Parquet files")
        from manyhands.io.shards import encode_files

        columns = self.asked | self._defaults
        return encode_files(self.sources, columns, directory, memory=memory, labels_as_text=self._as_text)

    def read_in_order(self, order: str, dates: Dates | None = None) -> tuple[Annotations, Array]:
        """Read a log of classes, and when its annotations were made: numbers, dates or times, also as text.

        Parameters
        ----------
        order : str
            The column.
        dates : str or None, default None
            Whether days or months come first in dates such as 10.11.2025.

        Returns
        -------
        votes : Annotations
            The log.
        when : ndarray of shape (n_annotations,)
            Ranks in that order, equal for equal times, aligned with ``votes.to_frame()``.
        """
        if any(one.kind == "document" for one in self.sources):
            raise ValueError(
                f"{self.sources[0]} is a document, and the order is a column of a table in CSV or Parquet files"
            )
        columns_wanted = spread({role: self.asked.get(role) for role in Annotations.spec.required} | {"order": order})
        settings: dict[str, Any] = self._defaults | {
            "abstain": self.asked.get("abstain"),
            "fold_labels": self.asked.get("fold_labels", False),
        }
        with enough_memory(preview([str(one.path) for one in self.sources])):
            read = self._roles(columns_wanted, weak=Annotations._weak)
            when = read.ids["order"]
            moments = ranks(as_numbers(when.data, when.what, dates))
            ids = (read.ids[role] for role in Annotations.spec.required)
            votes = Annotations(*build(*ids, weights=(moments, when.what), confidence=None, classes=None, **settings))
            votes._check_guesses(read)
        return without_ranks(votes)

    def verdicts(self) -> pa.Table:
        """Return the verdicts of judges with all that is known of them, a row each, failed ones included.

        Columns are ``task``, ``worker``, the verdict (``label``, ``value``, or ``left``, ``right`` and ``winner``), and
        of ``criterion``, ``system``, ``item``, ``repeat``, ``cluster``, ``position``, ``length``, ``family``,
        ``annotator_kind``, ``when``, ``explanation`` and ``failure`` those that the log has. All criteria of an export
        are there unless a question was chosen.
        """
        with enough_memory(preview([str(one.path) for one in self.sources])):
            document = None if self._layout == "wide" else self.document
            if isinstance(document, Export):
                question = self._question_of(document) if self._question or "label" in self.asked else None
                odd = [name for name in self.asked if name != "label"]
                if odd:
                    raise ValueError(f"{argument(odd[0])} names a column, and {document.name} is an export")
                kind = None if self._kind is None else check_kind(self._kind)
                columns = document.verdict_columns(question, kind, predictions=self._predictions)
                return arrow.table({name: as_column(values) for name, values in columns.items()})
            if self._layout == "wide":
                source = self._wide_source()
                kind = check_kind(self._kind or "categorical")
                wide = read_columns(source, list(dict.fromkeys(column_names(source))))
                return verdict_frame(melt(wide, kind, self.asked, text=source.kind == "csv"), kind, self.asked)
            kind = check_kind(self.kind)
            if document is not None:
                worker_column = {"worker": WELL_KNOWN["worker"][0]} if self._worker_from_file else {}
                return verdicts_of(document, kind=kind, **self.asked, **worker_column)
            columns_wanted = wanted_columns(self.names, kind, self.asked)
            if self._worker_from_file:
                columns_wanted.pop("worker", None)
            matches = find_columns(self.sources[0], columns_wanted, weak=True)
            extras = extra_columns(self.names, self.asked, matches.values())
            read = self._roles(spread({**columns_wanted, **extras}), ["value"], raw=[*extras], weak=True)
            if read.guesses:
                table: Any = table_of(kind)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DataWarning)
                    table._made(self._roles(spread(columns_wanted), ["value"], weak=True))
            return verdict_frame(read, kind, self.asked)

    def gold(self) -> pa.Table | None:
        """Return the truth that an export holds for its verdicts, by task and criterion; None where it holds none."""
        if self._layout == "wide" or not isinstance(self.document, Export):
            return None
        question = self._question_of(self.document) if self._question or "label" in self.asked else None
        columns = self.document.known(question, None if self._kind is None else check_kind(self._kind))
        return None if columns is None else arrow.table({name: as_column(data) for name, data in columns.items()})

    # ------------------------------------------------------------------------------------------- parts of reading

    def _roles(self, wanted: Any, numbers: Iterable[str] = (), **settings: Any) -> Any:
        """The columns of the files by role; a file may be one worker's."""
        workers = distinct_names([one.path for one in self.sources]) if self._worker_from_file else None
        return read_roles(self.sources, wanted, numbers=[*numbers], as_text=self._as_text, workers=workers, **settings)

    def _sorted_out(self, table: type[Records]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Columns by role and settings of what was asked for; raise for what the kind does not have."""
        accepted = (*table.spec.roles, *table.spec.settings)
        for name in self.asked:
            if name not in accepted:
                raise TypeError(_does_not_apply(name, table, accepted))
        options = self._defaults | self.asked
        settings = {name: options[name] for name in table.spec.settings if name in options}
        return {name: value for name, value in self.asked.items() if name not in table.spec.settings}, settings

    def _shown(self, made: Any) -> Any:
        """The table with what its tasks show, if that was asked for."""
        if self._show is None:
            return made
        task = self.asked.get("task", self.asked.get("sequence"))
        if self._probabilities is not None or self.document is None:
            return shown_in_files(self.sources, made, task, self._show)
        return shown_in_frame(self.document, made, task, self._show)

    def _read_rows(self, table: type[Records], columns: dict[str, Any], settings: dict[str, Any]) -> Any:
        """Read a table of any kind from files with one answer per row."""
        names = column_names(self.sources[0])
        roles_needed = table._needed(names, columns)
        for role in table.spec.if_there:
            there = one_known(names, role) if role not in columns else None
            columns |= {} if there is None else {role: there}
        if table.spec.word == "sequences" and "start" in roles_needed:
            _reject_dates(self.sources[0], columns.get("start") or one_known(names, "start"))
        columns_wanted = spread({role: columns.get(role) for role in roles_needed} | columns)
        read = self._roles(columns_wanted, table.spec.numbers, raw=table.spec.raw, weak=table._weak)
        return table._made(read, **settings)

    def _read_soft(self, names: list[str]) -> Annotations:
        """Read a table of classes from columns of probabilities."""
        for name in self.asked:
            if name not in ("task", "worker", *_SOFT):
                raise ValueError(
                    f"{argument(name)} cannot be combined with probabilities, which have one column per class"
                )
        columns_wanted = spread({"task": self.asked.get("task"), "worker": self.asked.get("worker")})
        columns_wanted |= {
            ("probability", place): (f"probability of {name!r}", name) for place, name in enumerate(names)
        }
        read = self._roles(columns_wanted, ("probability",))
        columns = [data for data, _ in read.others["probability"]]
        parts = build_soft([read.ids["task"], read.ids["worker"]], columns, names, self.asked.get("abstain"))
        return Annotations(*parts, ordered=checked_order(self.asked.get("ordered", False), parts[3], given=True))

    def _read_wide(self) -> Annotations:
        """Read a table of classes from a file with a task per row and a worker per column, and what its tasks show."""
        for name in self.asked:
            if name not in ("task", "worker", *_WIDE):
                raise ValueError(f"{argument(name)} means nothing to a wide table, where each worker has a column")
        source, show = self._wide_source(), self._show
        names = column_names(source)
        task, workers = wide_columns(names, self.asked, show)
        columns_wanted = [*([] if task is None else [task]), *workers]
        settings = {name: self.asked[name] for name in _WIDE if name in self.asked}
        ordered = settings.pop("ordered", False)
        parts = build_dense(read_columns(source, columns_wanted), task=task, chosen="worker" in self.asked, **settings)
        wide = Annotations(*parts, ordered=checked_order(ordered, parts[3], given="classes" in settings))
        if show is None:
            return wide
        # By the same reading as the labels, so that ids have the same type.
        columns = [show] if task is None else list(dict.fromkeys((task, show)))
        records: Annotations = shown_in_frame(read_columns(source, columns), wide, task, show)
        return records

    def _wide_source(self) -> Source:
        """The file of a wide table."""
        if self._worker_from_file:
            raise ValueError(
                f"{argument('worker_from_file', True)} is for files of one worker, and a wide table has several"
            )
        if len(self.sources) > 1 or self.sources[0].kind == "document":
            raise ValueError("a wide table is read from one CSV or Parquet file")
        return self.sources[0]

    def _question_of(self, export: Export) -> str:
        """The question of an export that was asked for; a label that was named is the question."""
        label = self.asked.get("label")
        return export.question(self._question) if label is None else export.question_named(label, self._question)

    def _read_export(self, found: Export) -> Any:
        """Make the table of an export's question, in the kind that was asked for."""
        question = self._question_of(found)
        if self._kind is not None:
            found = found.as_kind(question, self._kind, sep=self.asked.get("sep"))
        table = Records._kinds.get(found.questions[question])
        accepted = () if table is None else table.spec.settings
        extra = [name for name in self.asked if name not in (*accepted, "label")]
        if extra:
            raise ValueError(
                f"{argument(extra[0])} names a column, and {found.name} is an export, whose fields have their "
                "places; if it is "
                f"a table after all, read it with {argument('format', 'csv')}, 'parquet' or 'json'"
            )
        options = self._defaults | self.asked
        settings = {name: options[name] for name in accepted if name in options}
        return found.table(question, predictions=self._predictions, show=self._show, **settings)


def _does_not_apply(name: str, table: type[Records], known: Iterable[str]) -> str:
    """Return that a kind does not take a parameter, and which kinds do."""
    kinds = [
        kind
        for kind, other in Records._kinds.items()
        if name in (*other.spec.roles, *other.spec.settings) and kind != table.spec.word
    ]
    listing = ", ".join(known)
    near = did_you_mean(name, (*table.spec.roles, *table.spec.settings))
    hint = f"; pass {argument('kind', kinds[0])}" if kinds else near
    return f"{argument(name)} does not apply to {table.spec.word} answers, which take {listing}{hint}"


def _with_advice(error: MissingColumnError, table: pa.Table) -> MissingColumnError:
    """Add what to do if the answers are objects inside a column, as in JSON of tools that are not known."""
    import pyarrow as pa

    def nested(kind: pa.DataType) -> bool:
        return pa.types.is_struct(kind) or (pa.types.is_nested(kind) and nested(kind.value_type))

    inside = [field.name for field in table.schema if not pa.types.is_map(field.type) and nested(field.type)]
    if not inside:
        return error
    advice = (
        f"{error}. Column {inside[0]!r} holds objects: make one row per answer first, as docs/labeling-tools.md shows "
        'under "Your tool is not listed"'
    )
    return MissingColumnError(advice, error.parameter)


def _reject_dates(source: Source, start: str | None) -> None:
    """Reject a table of documents in which starts are dates or times, by its first row: its rows are not spans."""
    if start is None or start not in column_names(source) or source.kind == "parquet":
        return
    values = next((batch.column(0).drop_null() for batch in batches(source, [start])), None)
    value = "" if values is None or not len(values) else values[0].as_py()
    if re.search(r"\d[-:/.]\d+[-:/.]\d", value):
        raise ValueError(
            f"{source}: column {start!r} holds {value!r}, which is not a place in a text; {advice_on_times()}"
        )
