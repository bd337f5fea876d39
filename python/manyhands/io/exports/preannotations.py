"""Answers written back to the platform an export came from, as predictions that annotators see and confirm."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manyhands._base.atomic import atomic_write, same_file
from manyhands._base.checks import check_choice, plural, preview
from manyhands._base.sources import Layout, PathLike, Source, is_stream, sources_of
from manyhands._base.streams import column_names, read_columns
from manyhands.errors import FileFormatError
from manyhands.io.exports import argilla, label_studio
from manyhands.io.exports.documents import json_or_lines, text_of
from manyhands.io.exports.export import Export
from manyhands.io.exports.files import export_files

_PLATFORMS = (label_studio, argilla)
#: Kinds of answers that both platforms take, and the column of a model's frame that has them.
_COLUMNS: Mapping[str, str] = {"categorical": "label", "numeric": "value", "multilabel": "labels"}


def preannotate(
    export: PathLike,
    model: Any,
    path: PathLike,
    *,
    question: str | None = None,
    format: str = "auto",
    name: str = "manyhands",
) -> int:
    """Write a model's answers as pre-annotations for Label Studio, or as suggestions for Argilla.

    Parameters
    ----------
    export : path
        The export that the answers were made from, which has the tasks' content and the names of controls.
    model
        A fitted aggregator of classes, numbers or sets; its tasks are those of the export.
    path : path
        The file to write: ``.json``; for Argilla also ``.jsonl``, a record per line.
    question : str or None, default None
        Which question was answered, where the export has several.
    format : str, default "auto"
        ``"label-studio"`` or ``"argilla"``; by default inferred from the fields of the export.
    name : str, default "manyhands"
        Who made the predictions: ``model_version`` in Label Studio, ``agent`` in Argilla.

    Returns
    -------
    int
        How many tasks were written: those of the export that the model answered.

    Notes
    -----
    A task of Label Studio is written with its ``id`` and ``data`` and one prediction, whose ``score`` is the
    confidence; its annotations are left out. A record of Argilla is written with its ``id`` and fields and one
    suggestion, nested or flat as the export is. Numbers have no score, and are rounded where all workers answered in
    whole numbers: stars are whole. Time and memory are linear in the size of the export.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.read("project-1.json", question="mood")  # doctest: +SKIP
    >>> mh.io.preannotate("project-1.json", mh.aggregate(votes), "pre.json", question="mood")  # doctest: +SKIP
    2
    """
    return Preannotations(export, question=question, format=format).write(model, path, name=name)


class Preannotations:
    """An export to which answers can be written back.

    Parameters
    ----------
    export, question, format
        As in :func:`preannotate`.
    """

    def __init__(self, export: PathLike, *, question: str | None = None, format: str = "auto") -> None:
        check_choice("format", format, ("auto", *(platform.NAME for platform in _PLATFORMS)))
        if is_stream(Path(export)):
            raise ValueError("pre-annotations need the export again, and a stream can be read only once; name a file")
        sources = sources_of(export, Layout())
        if len(sources) > 1:
            raise ValueError(f"{str(export)!r} holds {len(sources)} files, and pre-annotations are written for one")
        (source,) = sources
        self._path = Path(export)
        self._rows, where = _rows(source), str(source)
        matching = [
            platform for platform in _PLATFORMS if format in ("auto", platform.NAME) and platform.knows(self._rows)
        ]
        if not matching:
            names = preview([platform.NAME for platform in _PLATFORMS])
            raise ValueError(
                f"{where} is not an export of {format if format != 'auto' else names}: pre-annotations need one"
            )
        self.format = matching[0].NAME
        read_export = Export.of(str(source.path), matching[0].answers(export_files([source])))
        self._question = read_export.question(question)
        self._kind = read_export.questions[self._question]
        if self._kind not in _COLUMNS:
            raise ValueError(
                f"{where}: answers to {self._question!r} are {self._kind}; pre-annotations are {', '.join(_COLUMNS)}"
            )
        values = [answer.said for answer in read_export.answers if answer.question == self._question]
        self._whole = self._kind == "numeric" and all(value is None or float(value).is_integer() for value in values)
        self._template = _Template(self._rows, self._question, where) if self.format == label_studio.NAME else None

    def check(self, path: PathLike) -> None:
        """Reject a name for the file that its platform does not know, or that is the export itself."""
        if same_file(Path(path), self._path):
            raise ValueError(f"cannot write {str(path)!r}: it is the export that the answers are written back to")
        endings = (".json",) if self.format == label_studio.NAME else (".json", ".jsonl")
        if Path(path).suffix.lower() not in endings:
            raise ValueError(f"cannot write {str(path)!r}: {self.format} takes files ending in {' or '.join(endings)}")

    def write(self, model: Any, path: PathLike, *, name: str = "manyhands") -> int:
        """Write the answers; returns how many tasks they are."""
        self.check(path)
        answers = self._answers(model)
        make = self._argilla if self._template is None else self._label_studio
        rows = enumerate(self._rows, 1 if self._template is not None else 0)
        tasks = ((row.get("id", number), row) for number, row in rows if isinstance(row, Mapping))
        new_lines = [make(row, task, *answers[str(task)], name) for task, row in tasks if str(task) in answers]
        if not new_lines:
            raise ValueError(
                f"no task of the export is among the {plural(len(answers), 'task')} that were answered, such as "
                f"{next(iter(answers), None)!r}; was the model fitted to this export?"
            )
        with atomic_write(path) as part:
            texts = [json.dumps(record, ensure_ascii=False, allow_nan=False, default=str) for record in new_lines]
            lines = Path(path).suffix.lower() == ".jsonl"
            part.write_text("\n".join(texts) + "\n" if lines else "[\n" + ",\n".join(texts) + "\n]\n", "utf-8")
        return len(new_lines)

    def _answers(self, model: Any) -> dict[str, tuple[Any, float | None]]:
        """Answer and confidence by task; those that were left open are left out."""
        frame, column = model.to_frame(), _COLUMNS[self._kind]
        if column not in frame.column_names or "task" not in frame.column_names:
            raise TypeError(f"answers to {self._question!r} are {self._kind}; {type(model).__name__} gives others")
        tasks, values = frame.column("task").to_pylist(), frame.column(column).to_pylist()
        # The reliability of a number is relative to the spread of all of them, which is not a score of one answer.
        scored = "confidence" in frame.column_names and self._kind != "numeric"
        sure = frame.column("confidence").to_pylist() if scored else [None] * len(tasks)
        values = [round(value) for value in values] if self._whole else values
        triples = zip(tasks, values, sure, strict=True)
        return {str(task): (answer, score) for task, answer, score in triples if answer is not None}

    def _label_studio(self, row: Mapping[str, Any], task: Any, said: Any, score: float | None, name: str) -> Any:
        assert self._template is not None
        prediction = {"model_version": name, "result": [self._template.region(said)]}
        return {
            "id": task,
            "data": row["data"],
            "predictions": [prediction | ({} if score is None else {"score": score})],
        }

    def _argilla(self, row: Mapping[str, Any], task: Any, said: Any, score: float | None, name: str) -> Any:
        if "fields" in row:
            fields_kept = {key: row[key] for key in ("fields", "metadata") if row.get(key)}
            suggestion = {"value": said, "score": score, "agent": name}
            return {"id": task, **fields_kept, "suggestions": {self._question: suggestion}}
        questions = argilla.flat_questions(row)
        fields_kept = {
            key: value
            for key, value in row.items()
            if key not in ("id", "status", "_server_id") and not key.startswith(tuple(f"{one}." for one in questions))
        }
        ours = f"{self._question}.suggestion"
        return {"id": task, **fields_kept, ours: said, f"{ours}.score": score, f"{ours}.agent": name}


def _rows(source: Source) -> list[Any]:
    """All records of an export, parsed."""
    if source.kind == "document":
        return json_or_lines(text_of(source.path, source.content()), str(source))
    names = column_names(source)
    rows: list[Any] = read_columns(source, names).to_pylist() if argilla.flat_questions(dict.fromkeys(names)) else []
    return rows


class _Template:
    """How a project of Label Studio writes answers to a question."""

    def __init__(self, rows: list[Any], question: str, where: str) -> None:
        regions = [region for region in _regions(rows) if str(region.get("from_name", "label")) == question]
        whole = next((region for region in regions if "to_name" in region), None)
        if whole is None:
            raise FileFormatError(f"{where}: no answer to {question!r} names what it is about (to_name)")
        self._control = {name: whole[name] for name in ("from_name", "to_name", "type")}
        self._type = str(whole["type"])
        # A path through a taxonomy is one label here, and a list there.
        choices = [one for region in regions for one in _choices(region, self._type)]
        self._paths = {label_studio.choice_name(one): one for one in choices if isinstance(one, list)}

    def region(self, said: Any) -> dict[str, Any]:
        """An answer as a region of a result."""
        if self._type.lower() in label_studio.CHOICES:
            labels = said if isinstance(said, list) else [said]
            return self._control | {"value": {self._type: [self._paths.get(label, label) for label in labels]}}
        return self._control | {"value": {self._type: said}}


def _regions(rows: list[Any]) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        for name in ("annotations", "completions", "predictions"):
            for one in (row.get(name) if isinstance(row, Mapping) else None) or []:
                for region in (one.get("result") if isinstance(one, Mapping) else None) or []:
                    if isinstance(region, Mapping):
                        yield region


def _choices(region: Mapping[str, Any], kind: str) -> list[Any]:
    value = region.get("value")
    choices = value.get(kind) if isinstance(value, Mapping) else None
    return choices if isinstance(choices, list) else []
