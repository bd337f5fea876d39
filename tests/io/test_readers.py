"""Readers of further tools: exact tables of hand-made samples, and an account of everything that is in them."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

import manyhands as mh
from manyhands._base.sources import Layout
from manyhands.cli import main
from manyhands.io.exports import READERS, Export, open_export, sources_to_read
from manyhands.io.exports.unsupported import UNSUPPORTED

SAMPLES = Path(__file__).parents[1] / "data" / "exports"


def export(source: Any, asked: str = "auto", **settings: Any) -> Export:
    found = open_export(sources_to_read(source, Layout(), asked), asked, **settings)
    assert isinstance(found, Export)
    return found


def rows(found: Export, question: str, *names: str) -> list[tuple[Any, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = found.columns(question)
    return list(zip(*(columns[name] for name in ("task", "worker", *names)), strict=True))


BOX = ("x1", "y1", "x2", "y2", "label")
SPAN = ("start", "end", "label", "text")

#: What each question of a sample holds, in rows of task, worker and answer; files by format.
TABLES: dict[str, tuple[str, dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]]] = {
    "zooniverse": (
        "zooniverse.csv",
        {
            "T0": (
                ("label",),
                [
                    ("101", "ann", "Yes"),
                    ("101", "bob", "Yes"),
                    ("101", "not-logged-in-f00d", "No"),
                    ("102", "ann", "No"),
                ],
            ),
            "T1": (
                ("labels",),
                [("101", "ann", ["eating", "moving"]), ("101", "bob", ["eating"]), ("102", "ann", [])],
            ),
            "T2.points": (
                BOX,
                [
                    ("101", "ann", 10.0, 20.0, None, None, "Eye"),
                    ("101", "bob", 11.0, 21.0, None, None, "Eye"),
                    ("101", "not-logged-in-f00d", None, None, None, None, None),
                ],
            ),
            "T2.boxes": (
                BOX,
                [
                    ("101", "ann", 5.0, 5.0, 25.0, 15.0, "Body"),
                    ("101", "bob", None, None, None, None, None),
                    ("101", "not-logged-in-f00d", None, None, None, None, None),
                ],
            ),
            "T3": (("value",), [("101", "ann", 0.5), ("101", "not-logged-in-f00d", 2.0)]),
            "T4": (("labels",), [("102", "bob", ["FOX", "OWL"])]),
        },
    ),
    "label-studio-rows": (
        "label_studio_rows.csv",
        {
            "mood": (
                ("label",),
                [
                    ("1", "ann@example.org", "good"),
                    ("1", "bob@example.org", "good"),
                    ("2", "ann@example.org", "bad"),
                    ("2", "bob@example.org", "good"),
                ],
            ),
            "aspects": (
                ("labels",),
                [
                    ("1", "ann@example.org", ["plot", "cast"]),
                    ("1", "bob@example.org", ["plot"]),
                    ("2", "ann@example.org", ["cast"]),
                ],
            ),
        },
    ),
    "label-studio-rows, JSON-MIN": (
        "label_studio_min.json",
        {
            "stars": (("value",), [(1, "1", 5), (1, "2", 4), (2, "1", 3)]),
            "box": (
                BOX,
                [
                    (1, "1", 20.0, 10.0, 80.0, 30.0, "dog"),
                    (1, "2", 22.0, 10.0, 82.0, 30.0, "dog"),
                    (2, "1", None, None, None, None, None),
                ],
            ),
        },
    ),
    "labelbox": (
        "labelbox.ndjson",
        {
            "weather": (
                ("label",),
                [
                    ("street.jpg", "ann@example.org", "sun"),
                    ("street.jpg", "bob@example.org", "rain"),
                    ("field.jpg", "ann@example.org", "sun"),
                ],
            ),
            "seen": (
                ("labels",),
                [("street.jpg", "ann@example.org", ["car", "tree"]), ("street.jpg", "bob@example.org", ["car"])],
            ),
            "boxes": (
                BOX,
                [
                    ("street.jpg", "ann@example.org", 10.0, 20.0, 40.0, 60.0, "car"),
                    ("street.jpg", "bob@example.org", 12.0, 20.0, 42.0, 60.0, "car"),
                    ("field.jpg", "ann@example.org", None, None, None, None, None),
                ],
            ),
        },
    ),
    "brat": (
        "brat",
        {
            "spans": (
                SPAN,
                [
                    ("letter", "ann", 0, 3, "Person", "Ann"),
                    ("letter", "ann", 13, 18, "Place", "Paris"),
                    ("note", "ann", None, None, None, None),
                    ("letter", "bob", 0, 3, "Person", "Ann"),
                    ("letter", "bob", 4, 8, "Plan", "goes"),
                    ("letter", "bob", 19, 24, "Plan", "today"),
                    ("note", "bob", 6, 10, "Place", "Rome"),
                ],
            )
        },
    ),
    "labelme": (
        "labelme",
        {
            "boxes": (
                BOX,
                [
                    ("a.jpg", "ann", 10.0, 10.0, 30.0, 30.0, "dog"),
                    ("b.jpg", "ann", None, None, None, None, None),
                    ("a.jpg", "bob", 12.0, 10.0, 32.0, 30.0, "dog"),
                    ("b.jpg", "bob", None, None, None, None, None),
                ],
            ),
            "points": (
                BOX,
                [
                    ("a.jpg", "ann", None, None, None, None, None),
                    ("b.jpg", "ann", 10.0, 5.0, None, None, "eye"),
                    ("a.jpg", "bob", None, None, None, None, None),
                    ("b.jpg", "bob", 12.0, 5.0, None, None, "eye"),
                ],
            ),
            "flags": (
                ("labels",),
                [("a.jpg", "ann", []), ("b.jpg", "ann", ["night"]), ("a.jpg", "bob", []), ("b.jpg", "bob", ["night"])],
            ),
            "shapes": (
                ("shape", "label"),
                [
                    ("b.jpg", "ann", "[(0.0, 0.0), (9.0, 9.0)]", "wire"),
                    ("b.jpg", "bob", "[(0.0, 0.0), (9.0, 9.0)]", "wire"),
                ],
            ),
        },
    ),
    "via": (
        "via/*.json",
        {
            "boxes": (
                BOX,
                [
                    ("a.jpg", "ann", 10.0, 10.0, 30.0, 30.0, "dog"),
                    ("b.jpg", "ann", None, None, None, None, None),
                    ("a.jpg", "bob", 12.0, 10.0, 32.0, 30.0, "dog"),
                    ("b.jpg", "bob", None, None, None, None, None),
                ],
            ),
            "light": (
                ("label",),
                [
                    ("a.jpg", "ann", "day"),
                    ("b.jpg", "ann", "night"),
                    ("a.jpg", "bob", "day"),
                    ("b.jpg", "bob", "night"),
                ],
            ),
            "seen": (
                ("labels",),
                [("a.jpg", "ann", ["sky"]), ("b.jpg", "ann", []), ("a.jpg", "bob", ["sky"]), ("b.jpg", "bob", [])],
            ),
        },
    ),
    "via, CSV": (
        "via/cy.csv",
        {
            "boxes": (
                BOX,
                [("a.jpg", "cy", 13.0, 10.0, 33.0, 30.0, "dog"), ("b.jpg", "cy", None, None, None, None, None)],
            ),
            "light": (("label",), [("a.jpg", "cy", "day"), ("b.jpg", "cy", "night")]),
        },
    ),
    "webanno-tsv2": (
        "webanno2",
        {
            "NamedEntity.value": (
                SPAN,
                [
                    ("letter.txt", "ann", 0, 7, "PER", "Ann Lee"),
                    ("letter.txt", "ann", 16, 21, "LOC", "Paris"),
                    ("letter.txt", "bob", 0, 3, "PER", "Ann"),
                    ("letter.txt", "bob", 4, 7, "PER", "Lee"),
                ],
            )
        },
    ),
    "inspect": (
        "inspect.json",
        {
            "score": (("label",), [(1, "judge_a", "C"), (1, "judge_b", "C"), (2, "judge_a", "I"), (2, "judge_b", "C")]),
            "score (number)": (("value",), [(1, "length", 0.5), (2, "length", 0.7)]),
        },
    ),
}


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize("name", TABLES)
def test_samples_of_further_tools_become_exact_tables(name: str) -> None:
    path, questions = TABLES[name]
    for asked in ("auto", name.partition(",")[0]):
        found = export(SAMPLES / path, asked)
        for question, (names, wanted) in questions.items():
            assert rows(found, question, *names) == wanted


#: What is dropped of each sample, whatever the question: the rest of its answers are in the tables above.
DROPPED = {
    "zooniverse.csv": {
        "marks of tools other than points and rectangles in task T2": 1,
        "answers to task T5 (drop-down lists are not supported)": 1,
        "survey choices with answers about the choice (the choice is read, the answers are not)": 1,
    },
    "label_studio_rows.csv": {},
    "label_studio_min.json": {},
    "labelbox.ndjson": {"masks (stored elsewhere, at an address)": 1},
    "brat": {"relations (only spans are read)": 1, "notes (only spans are read)": 1},
    "labelme": {"shapes of type 'mask' with 2 points (not supported)": 2},
    "via/*.json": {},
    "webanno2": {"values of POS.PosValue (not spans tagged B- and I-)": 2},
    "inspect.json": {"samples without a score": 1},
}


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize("path", DROPPED)
def test_what_a_reader_drops_is_counted(path: str) -> None:
    assert {part.what: part.count for part in export(SAMPLES / path).dropped} == DROPPED[path]


@pytest.mark.filterwarnings("ignore:.*fragments:manyhands.errors.DataWarning")
def test_dropped_parts_are_reported_where_answers_are_used() -> None:
    with pytest.warns(mh.errors.DataWarning, match=r"1 relations.*1 notes"):
        mh.read(SAMPLES / "brat")


def test_left_out_questions_of_zooniverse_are_skipped_answers() -> None:
    found = export(SAMPLES / "zooniverse.csv")
    assert found.left_out("T0") == {
        "skipped answers": 1,
        "marks of tools other than points and rectangles in task T2": 1,
        "answers to task T5 (drop-down lists are not supported)": 1,
    }
    gold = found.gold("T0")
    assert gold is not None
    assert gold.to_pydict() == {"task": ["102"], "label": ["No"]}
    assert [answer.seconds for answer in found.answers][:1] == [30.0]


def zooniverse(tmp_path: Path, change: Any) -> Export:
    import csv

    with (SAMPLES / "zooniverse.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    for number, row in enumerate(found):
        change(number, row)
    path = tmp_path / "changed.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    return export(path)


def test_zooniverse_workflows_and_edited_tasks_are_questions_of_their_own(tmp_path: Path) -> None:
    def other_workflow(number: int, row: dict[str, str]) -> None:
        row["workflow_name"] = "Traps" if number == 1 else row["workflow_name"]

    assert {"Cameras: T0", "Traps: T0"} <= set(zooniverse(tmp_path, other_workflow).questions)

    def edited(number: int, row: dict[str, str]) -> None:
        row["annotations"] = row["annotations"].replace("an animal?", "a fox?") if number == 1 else row["annotations"]

    assert {"T0 (Is there an animal?)", "T0 (Is there a fox?)"} <= set(zooniverse(tmp_path, edited).questions)


def test_zooniverse_marks_in_different_frames_are_in_different_images(tmp_path: Path) -> None:
    def second_frame(number: int, row: dict[str, str]) -> None:
        row["annotations"] = (
            row["annotations"].replace('"frame": 0', '"frame": 1') if number == 1 else row["annotations"]
        )

    points = rows(zooniverse(tmp_path, second_frame), "T2.points", "x1")
    assert points == [
        ("101#0", "ann", 10.0),
        ("101#1", "ann", None),
        ("101#0", "bob", None),
        ("101#1", "bob", 11.0),
        ("101#0", "not-logged-in-f00d", None),
        ("101#1", "not-logged-in-f00d", None),
    ]


def test_label_studio_rows_never_take_the_item_for_the_answer(tmp_path: Path) -> None:
    assert set(export(SAMPLES / "label_studio_rows.csv").questions) == {"mood", "aspects"}
    # All annotators agree: mood could be a field of the task as well as a result, and so could kind.
    head = "annotation_id,annotator,id,kind,lead_time,mood,text\n"
    agreed = tmp_path / "agreed.csv"
    agreed.write_text(head + "".join(f"{n},u{n % 2},{n // 2},film,1,good,text {n // 2}\n" for n in range(6)))
    with pytest.raises(ValueError, match=r"'kind'.*'mood'"):
        mh.read(agreed)
    assert mh.read(agreed, question="mood").n_annotations == 6
    agreed.write_text(head + "1,u,1,,1,,first\n2,v,2,,1,,second\n")
    with pytest.raises(ValueError, match="export"):
        mh.read(agreed)


def test_labelbox_lines_without_annotators_need_a_worker() -> None:
    path = SAMPLES / "labelbox_import.ndjson"
    with pytest.raises(ValueError, match="'mood'"):
        mh.read(path, question="mood")
    found = export(path, worker_from_file=True)
    assert rows(found, "mood", "label") == [("d1", "labelbox_import", "good"), ("d2", "labelbox_import", "bad")]
    # The last character of an entity belongs to it.
    assert rows(found, "spans", *SPAN) == [("d1", "labelbox_import", 0, 3, "person", None)]


def test_coco_of_via_has_ids_that_are_texts(tmp_path: Path) -> None:
    for worker, x in (("ann", 10), ("bob", 12)):
        content = {
            "info": {"description": "VIA"},
            "images": [{"id": 1, "file_name": "a.jpg", "width": 50, "height": 60}],
            "annotations": [{"id": 1, "image_id": "1", "category_id": 1, "bbox": [x, 10, 20, 20], "segmentation": []}],
            "categories": [{"id": 1, "name": "dog", "supercategory": "animal"}],
        }
        (tmp_path / f"{worker}.json").write_text(json.dumps(content))
    found = export(tmp_path)
    assert rows(found, "boxes", *BOX) == [
        ("a.jpg", "ann", 10.0, 10.0, 30.0, 30.0, "dog"),
        ("a.jpg", "bob", 12.0, 10.0, 32.0, 30.0, "dog"),
    ]


def test_labelbox_projects_and_equal_external_ids_are_kept_apart(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (SAMPLES / "labelbox.ndjson").read_text().splitlines()]
    lines[1]["data_row"]["external_id"] = "street.jpg"
    lines[1]["projects"] = {"p2": lines[1]["projects"]["p1"] | {"name": "Fields"}}
    path = tmp_path / "two.ndjson"
    path.write_text("\n".join(map(json.dumps, lines)))
    found = export(path)
    assert rows(found, "Streets: weather", "label") == [
        ("d1", "ann@example.org", "sun"),
        ("d1", "bob@example.org", "rain"),
    ]
    assert rows(found, "Fields: weather", "label") == [("d2", "ann@example.org", "sun")]


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_inspect_logs_of_other_tasks_and_models_are_about_other_items(tmp_path: Path) -> None:
    log = json.loads((SAMPLES / "inspect.json").read_text())
    for name, changed in (("first", {}), ("second", {"task": "exam"}), ("third", {"model": "other"})):
        (tmp_path / f"{name}.json").write_text(json.dumps(log | {"eval": log["eval"] | changed}))
    votes = mh.read([tmp_path / "first.json", tmp_path / "second.json"], question="score", format="inspect")
    assert votes.tasks.tolist() == ["exam / 1", "exam / 2", "quiz / 1", "quiz / 2"]
    votes = mh.read([tmp_path / "first.json", tmp_path / "third.json"], question="score", format="inspect")
    assert votes.n_tasks == 4
    again = mh.read([tmp_path / "first.json", SAMPLES / "inspect.json"], question="score", format="inspect")
    assert again.workers.tolist() == ["judge_a (first)", "judge_a (inspect)", "judge_b (first)", "judge_b (inspect)"]


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_equal_ids_and_names_of_different_items_are_rejected(tmp_path: Path) -> None:
    other = (SAMPLES / "label_studio_rows.csv").read_text().replace("good movie", "another movie")
    (tmp_path / "other.csv").write_text(other)
    with pytest.raises(mh.errors.FileFormatError, match="task '1'"):
        mh.read([SAMPLES / "label_studio_rows.csv", tmp_path / "other.csv"], question="mood")
    image = json.loads((SAMPLES / "labelme" / "ann" / "a.json").read_text()) | {"imageHeight": 7}
    (tmp_path / "a.json").write_text(json.dumps(image))
    with pytest.raises(mh.errors.FileFormatError, match=r"'a.jpg'"):
        mh.read([SAMPLES / "labelme" / "ann" / "a.json", tmp_path / "a.json"], question="boxes")
    images = json.loads((SAMPLES / "via" / "bob.json").read_text())
    images["a.jpg5"]["size"] = 99
    (tmp_path / "bob.json").write_text(json.dumps(images))
    with pytest.raises(mh.errors.FileFormatError, match=r"'a.jpg'.*5 bytes.*99 bytes"):
        mh.read([SAMPLES / "via" / "ann.json", tmp_path / "bob.json"], question="light")


def test_numbers_that_no_column_holds_are_written_as_text(tmp_path: Path) -> None:
    row = {"dataRow": {"id": 10**30}, "name": "mood", "answer": {"name": "good"}}
    path = tmp_path / "large.ndjson"
    path.write_text(json.dumps(row))
    assert export(path, worker_from_file=True).to_frame("mood").column("task").to_pylist() == [str(10**30)]


# --------------------------------------------------------------------------------------------- folders and archives


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_folders_of_documents_or_of_annotators(tmp_path: Path) -> None:
    by_worker = mh.read(SAMPLES / "brat")
    for worker in ("ann", "bob"):
        for document in ("letter", "note"):
            for ending in (".ann", ".txt"):
                target = tmp_path / "turned" / document / f"{worker}{ending}"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SAMPLES / "brat" / worker / f"{document}{ending}", target)
    by_document = mh.read(tmp_path / "turned")
    assert sorted(by_document.workers.tolist()) == ["ann", "bob"]
    assert by_document.describe().to_dict() == by_worker.describe().to_dict()
    assert mh.read(str(tmp_path / "turned" / "*" / "*")) == by_document


def test_files_whose_annotator_no_name_tells_are_rejected(tmp_path: Path) -> None:
    for image in ("a", "b"):
        for worker in ("ann", "bob"):
            shutil.copy(SAMPLES / "labelme" / worker / f"{image}.json", tmp_path / f"{image}-{worker}.json")
    with pytest.raises(ValueError, match="same item"):
        mh.read(tmp_path, question="boxes")


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_a_brat_file_without_its_text_is_named(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "brat" / "ann" / "letter.ann", tmp_path / "letter.ann")
    with pytest.raises(mh.errors.FileFormatError, match=r"letter\.txt"):
        mh.read(tmp_path / "letter.ann")


def packed(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tree(folder: Path, under: str = "") -> dict[str, str | bytes]:
    return {
        f"{under}{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize(
    ("sample", "question"),
    [("brat", None), ("labelme", "boxes"), ("webanno", None), ("webanno2", None), ("doccano", None), ("cvat", "tag")],
)
def test_an_archive_is_read_as_its_folder(sample: str, question: str | None, tmp_path: Path) -> None:
    archive = packed(tmp_path / "export.zip", tree(SAMPLES / sample) | {"image.png": b"\x89PNG", ".DS_Store": b"x"})
    assert mh.read(archive, question=question) == mh.read(SAMPLES / sample, question=question)


def test_tags_and_tables_in_archives_are_read(tmp_path: Path) -> None:
    tags = {"ann.conll": "The O\ncat B-X\n", "bob.conll": "The O\r\ncat O\r\n"}
    for name, content in tags.items():
        (tmp_path / name).write_bytes(content.encode())
    assert mh.read(packed(tmp_path / "tags.zip", dict(tags))) == mh.read(str(tmp_path / "*.conll"))
    table = "task,worker,label\n1,a,x\n1,b,y\n"
    (tmp_path / "log.csv").write_text(table)
    archive = packed(tmp_path / "log.zip", {"log.csv": table})
    assert mh.read(archive) == mh.read(tmp_path / "log.csv")
    assert mh.read(archive, out_of_core=tmp_path / "shards").n_annotations == 2


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning", "ignore::manyhands.errors.OverlapWarning")
def test_an_archive_is_never_overwritten_and_can_be_written_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = packed(tmp_path / "project.zip", {"project.json": (SAMPLES / "label_studio.json").read_bytes()})
    before = archive.read_bytes()
    asked = [str(archive), "--question", "mood", "-q"]
    assert main(["aggregate", *asked, "--save", str(archive)]) == 2
    assert "it is read in the same run" in capsys.readouterr().err
    back = tmp_path / "pre.json"
    assert main(["aggregate", *asked, "-o", str(tmp_path / "labels.csv"), "--preannotations", str(back)]) == 0
    assert json.loads(back.read_text())[0]["predictions"]
    assert archive.read_bytes() == before


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_archives_of_several_annotators_are_several_workers(tmp_path: Path) -> None:
    for job, worker in (("job1", "ann"), ("job2", "bob")):
        packed(tmp_path / f"{worker}.zip", {"annotations.xml": (SAMPLES / "cvat" / f"{job}.xml").read_bytes()})
    votes = mh.read([tmp_path / "ann.zip", tmp_path / "bob.zip"], question="tag")
    assert votes.workers.tolist() == ["ann", "bob"]
    assert mh.read(str(tmp_path / "*.zip"), question="tag") == votes
    assert mh.read(tmp_path, question="tag") == votes


def test_files_of_inception_that_no_annotator_wrote_are_no_workers(tmp_path: Path) -> None:
    files = tree(SAMPLES / "webanno", "annotation/")
    files["annotation/letter.txt/INITIAL_CAS.tsv"] = files["annotation/letter.txt/ann.tsv"]
    files["curation/letter.txt/CURATION_USER.tsv"] = files["annotation/letter.txt/bob.tsv"]
    found = export(packed(tmp_path / "project.zip", files))
    assert {answer.worker for answer in found.answers if answer.source == "worker"} == {"ann", "bob"}
    assert found.left_out() == {"initial annotations of documents (INITIAL_CAS)": 3}
    gold = found.gold()
    assert gold is not None
    assert gold.num_rows == 2


def test_a_project_with_other_files_is_read_and_says_what_is_left_out(tmp_path: Path) -> None:
    files = tree(SAMPLES / "webanno", "annotation/") | {
        "exportedproject.json": '{"name": "letters"}',
        "log.txt": "ran\n",
    }
    with pytest.warns(mh.errors.DataWarning, match=r"2 files.*2 other"):
        letters = mh.read(packed(tmp_path / "project.zip", files))
    assert letters.workers.tolist() == ["ann", "bob"]


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_folders_of_several_formats_must_be_chosen_from(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "doccano", tmp_path / "doccano")
    shutil.copytree(SAMPLES / "cvat", tmp_path / "cvat")
    with pytest.raises(ValueError, match=r"format=….*2 files.*2 files"):
        mh.read(tmp_path)
    assert mh.read(tmp_path, format="doccano").n_annotations == 4


def test_a_folder_of_tables_is_one_table(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"part{number}.csv").write_text(f"task,worker,label\n{number},a,x\n{number},b,y\n")
    assert mh.read(tmp_path).n_tasks == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="folder"):
        mh.read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"inner.zip": b"PK"}, "'inner.zip'"),
        ({"../evil.csv": "task,worker,label\n1,a,x\n"}, "archive"),
        ({"bomb.json": b"[" + b" " * (40 << 20) + b"]"}, "'bomb.json'"),
        ({"photo.png": b"\x89PNG"}, "'.png'"),
    ],
)
def test_unsafe_archives_are_rejected_by_name(files: dict[str, str | bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        mh.read(packed(tmp_path / "export.zip", files))


def test_archives_within_an_archive_are_dropped_aloud_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = packed(tmp_path / "export.zip", {"log.csv": "task,worker,label\n1,a,x\n1,b,x\n", "more.zip": b"PK"})
    with pytest.warns(mh.errors.DataWarning, match=r"1 archives.*'more\.zip'"):
        mh.read(path)
    assert main(["describe", str(path)]) == 0
    assert capsys.readouterr().err.count("dropped 1 archives") == 1


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    path = packed(tmp_path / "export.zip", {"log.csv": "task,worker,label\n" + "1,a,x\n" * 500})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(mh.errors.FileFormatError, match=r"log\.csv"):
        mh.read(path)
    path.write_bytes(b"PK not an archive")
    with pytest.raises(mh.errors.FileFormatError, match="zip"):
        mh.read(path)


# ------------------------------------------------------------------------------------- formats that are not read

#: A file of each format that is recognized and not read.
FOREIGN: dict[str, tuple[str, str]] = {
    "Labelbox export v1": ("a.json", '[{"ID": "c", "DataRow ID": "d", "Label": {}, "Created By": "ann"}]'),
    "a SuperAnnotate export": ("a.json", '{"metadata": {"name": "a"}, "instances": [], "tags": []}'),
    "a Scale AI task list": ("a.json", '[{"task_id": "1", "params": {}, "response": {}, "status": "completed"}]'),
    "a Supervisely annotation": (
        "a.json",
        '{"size": {}, "tags": [], "objects": [{"classTitle": "cat", "geometryType": "rectangle", "points": {}}]}',
    ),
    "a Datumaro dataset": ("a.json", '{"infos": {}, "categories": {}, "items": [{"id": "1", "annotations": []}]}'),
    "a V7 Darwin annotation": ("a.json", '{"version": "2.0", "item": {"name": "a", "slots": []}, "annotations": []}'),
    "a Dataturks export": ("a.json", '{"content": "x", "annotation": {"labels": ["a"]}, "extras": null}'),
    "a LightTag export": ("a.json", '{"examples": [{"content": "x", "metadata": {}, "annotations": []}]}'),
    "a tagtog annotation": ("a.json", '{"annotatable": {}, "anncomplete": true, "entities": [], "relations": []}'),
    "a UBIAI export": ("a.json", '[{"documentName": "a", "document": "x", "tokens": [], "relations": []}]'),
    "a Hasty export": (
        "a.json",
        '{"project_name": "a", "export_format_version": "1.1", "label_classes": [], "images": []}',
    ),
    "an Encord export": ("a.json", '[{"label_hash": "a", "data_hash": "b", "data_units": {}}]'),
    "a Kili export": ("a.json", '[{"externalId": "a", "content": "x", "labels": [{"jsonResponse": {}}]}]'),
    "a Diffgram export": ("a.json", '{"readme": {}, "label_map": {}, "attribute_groups_reference": []}'),
    "a FiftyOne dataset": ("a.json", '{"samples": [{"filepath": "a.jpg", "_id": {}}]}'),
    "the output of a human loop": ("a.json", '{"humanLoopName": "a", "humanAnswers": [], "inputContent": {}}'),
    "a UIMA CAS in JSON": ("a.json", '{"%TYPES": {}, "%FEATURE_STRUCTURES": []}'),
    "a UIMA CAS in XMI": ("a.xml", '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI"/>'),
    "a GATE document": ("a.xml", "<GateDocument/>"),
    "a VIA 3 project": (
        "a.json",
        '{"project": {}, "config": {}, "attribute": {}, "file": {}, "metadata": {}, "view": {}}',
    ),
    "a CVAT export of video tracks": ("a.xml", '<annotations><track id="0" label="car"/></annotations>'),
    "a Pascal VOC file": ("a.xml", "<annotation><object><bndbox/></object></annotation>"),
    "a YOLO label file": ("a.txt", "0 0.5 0.5 0.25 0.1\n1 0.2 0.2 0.1 0.1\n"),
    "a log of OpenAI Evals": ("a.jsonl", '{"run_id": "r", "event_id": 0, "sample_id": "s", "type": "match"}\n'),
}


def test_every_format_that_is_not_read_has_an_example() -> None:
    assert len(FOREIGN) == len(UNSUPPORTED)


@pytest.mark.parametrize("name", FOREIGN)
def test_formats_that_are_not_read_are_named_with_the_way_out(name: str, tmp_path: Path) -> None:
    file, content = FOREIGN[name]
    (tmp_path / file).write_text(content)
    with pytest.raises(mh.errors.FileFormatError, match=f"{name}"):
        mh.read(tmp_path / file)


@pytest.mark.parametrize("ending", [".xlsx", ".spacy", ".xmi", ".tar", ".rar"])
def test_endings_of_files_that_are_not_read_are_explained(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a{ending}").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"which is not read; \w+"):
        mh.read(tmp_path / f"a{ending}")


def test_readers_have_names_of_their_own() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)
    assert json.loads(json.dumps(names)) == names
