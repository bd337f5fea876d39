"""Reading logs from files: CSV (plain or compressed), Parquet and exports of platforms, one file, many, or stdin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from manyhands._base.building import Missing, Repeats
from manyhands._base.sources import PathLike
from manyhands.io.log import Layouts, open_log


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
    task, worker, label, repeats, missing
        As for :meth:`Annotations.from_frame`; other kinds take those that their own ``from_frame`` has. Several columns
        in a list are one id together: ``worker=["judge", "prompt"]``.
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
        read with the same settings, is opened. Needs DuckDB, the extra ``scale``.
    memory
        What encoding out of core may take, beside the names of workers and labels, such as ``"4GB"``.
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
    column of text of which most rows repeat others is held as a code of 4 bytes a row and its distinct values, others
    as their text, until the table is made: docs/scale.md has figures. What comes from a pipe is held whole beside it.
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
