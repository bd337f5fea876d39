"""Exports with a damaged field: rejected by name, or counted as dropped, and never misread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import manyhands as mh
from manyhands._base.sources import Layout, Source, is_stream
from manyhands.io.exports import Export, open_export

SAMPLES = Path(__file__).parents[1] / "data" / "exports"


def damaged(tmp_path: Path, name: str, change: Any) -> Path:
    """Write a sample of JSON with a change."""
    content = json.loads((SAMPLES / name).read_text(encoding="utf-8"))
    change(content)
    path = tmp_path / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def export_of(*paths: Path) -> Export:
    export = open_export([Source(path, Layout()) for path in paths], "auto")
    assert isinstance(export, Export)
    return export


def test_a_choice_that_is_not_in_a_list_is_not_read_as_letters(tmp_path: Path) -> None:
    def change(tasks: Any) -> None:
        tasks[1]["annotations"][0]["result"][0]["value"]["choices"] = "bad"

    answers = export_of(damaged(tmp_path, "label_studio.json", change)).answers
    assert [one.said for one in answers if one.task == 12 and one.question == "mood" and one.status == "given"] == [
        "bad"
    ]


def test_a_list_in_place_of_a_number_is_rejected_with_its_file(tmp_path: Path) -> None:
    def change(tasks: Any) -> None:
        tasks[0]["annotations"][0]["result"][1]["value"]["rating"] = [4]

    with pytest.raises(mh.errors.FileFormatError, match=r"label_studio\.json.*task 11: \[4\]"):
        export_of(damaged(tmp_path, "label_studio.json", change))


def test_answers_without_a_worker_are_counted_in_sagemaker(tmp_path: Path) -> None:
    def change(objects: Any) -> None:
        del objects[1]["annotations"][0]["workerId"]
        objects[0]["annotations"].append(None)

    export = export_of(damaged(tmp_path, "sagemaker.json", change))
    assert export.left_out("category") == {"answers that are not objects": 1, "answers without a workerId": 1}
    assert len(export.answers) == 2


def test_marks_in_columns_that_no_header_names_are_rejected(tmp_path: Path) -> None:
    text = (SAMPLES / "webanno" / "letter.txt" / "ann.tsv").read_text(encoding="utf-8")
    path = tmp_path / "ann.tsv"
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("#T_SP")), encoding="utf-8")
    with pytest.raises(mh.errors.FileFormatError, match=r"ann\.tsv.*2 columns.*0"):
        export_of(path)


def test_two_answer_columns_of_one_name_are_rejected(tmp_path: Path) -> None:
    head, *rows = (SAMPLES / "mturk.csv").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "mturk.csv"
    path.write_text("\n".join([f"{head},Answer.label", *(f"{row},dog" for row in rows)]), encoding="utf-8")
    with pytest.raises(mh.errors.FileFormatError, match=r"mturk\.csv.*'Answer\.label'"):
        export_of(path)


def test_a_span_that_is_not_an_object_is_rejected(tmp_path: Path) -> None:
    first, *lines = (SAMPLES / "prodigy_spans.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join([json.dumps(json.loads(first) | {"spans": [None]}), *lines]), encoding="utf-8")
    with pytest.raises(mh.errors.FileFormatError, match=r"spans\.jsonl.*'spans'"):
        export_of(path)


def test_an_empty_cell_of_webanno_is_no_mark(tmp_path: Path) -> None:
    text = (SAMPLES / "webanno" / "letter.txt" / "bob.tsv").read_text(encoding="utf-8")
    path = tmp_path / "bob.tsv"
    path.write_text(text.replace("met\t_\t_", "met\t\t"), encoding="utf-8")
    (answer,) = export_of(path).answers
    assert answer.said == [(0, 3, "PER"), (12, 15, "PER")]


def test_responses_of_a_record_without_fields_are_counted(tmp_path: Path) -> None:
    def change(records: Any) -> None:
        del records[0]["fields"]

    export = export_of(damaged(tmp_path, "argilla_spans.json", change))
    assert export.left_out("names")["responses of records without fields"] == 2


def test_tables_that_cannot_be_made_name_the_file(tmp_path: Path) -> None:
    def change(records: Any) -> None:
        records[0]["id"] = ""

    export = export_of(damaged(tmp_path, "argilla_nested.json", change))
    with pytest.raises(ValueError, match=r"argilla_nested\.json.*task"), pytest.warns(mh.errors.DataWarning):
        export.table("tone")


def test_files_of_several_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text('[{"task": 1, "worker": "a", "label": "x"}]')
    with pytest.raises(ValueError, match=r"plain\.json.*label_studio"):
        export_of(tmp_path / "plain.json", SAMPLES / "label_studio.json")
    with pytest.raises(ValueError, match=r"mturk\.csv.*label_studio"):
        export_of(SAMPLES / "label_studio.json", SAMPLES / "mturk.csv")


def test_a_file_in_shared_memory_is_no_stream() -> None:
    assert not is_stream(Path("/dev/shm/ann.tsv"))
    assert is_stream(Path("/dev/stdin"))
    assert is_stream(Path("/dev/fd/3"))
