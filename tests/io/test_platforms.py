"""Exports that can be misread: what stands for two things, what no table can hold, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import manyhands as mh
from manyhands._base.sources import Layout, Source, expand
from manyhands.io.exports import Export, open_export


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def jsonl(path: Path, *rows: Any) -> Path:
    return written(path, "\n".join(map(json.dumps, rows)))


def export(*paths: Path, **settings: Any) -> Export:
    found = open_export([Source(path, Layout()) for path in expand(paths)], "auto", **settings)
    assert isinstance(found, Export)
    return found


def read(source: Any, **settings: Any) -> Any:
    return mh.read(source, **settings)


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*table.to_frame().to_pydict().values(), strict=True))


def frame(found: Export, question: str | None = None) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = found.to_frame(question).to_pydict()
    return columns


# ------------------------------------------------------------------------------------------------------------ JSON


def test_a_key_that_comes_twice_is_rejected_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", '{"task": 1, "worker": "a", "label": "x", "label": "y"}\n{"task": 2}\n')
    with pytest.raises(mh.errors.FileFormatError, match=r"line 1 of.*'label'"):
        read(path)


def test_a_number_of_thousands_of_digits_names_its_file(tmp_path: Path) -> None:
    path = written(tmp_path / "log.json", f'[{{"task": {"9" * 5000}, "worker": "a", "label": "x"}}]')
    with pytest.raises(mh.errors.FileFormatError, match=r"log.json"):
        read(path)
    lines = written(tmp_path / "log.jsonl", f'{{"task": {"9" * 5000}}}\n{{"task": 1}}\n')
    with pytest.raises(mh.errors.FileFormatError, match="line 1 of"):
        read(lines)


# ---------------------------------------------------------------------------------------------------- Label Studio


def region(question: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"from_name": question, "to_name": "t", "type": kind, "value": value} | more


def box(x: float = 10, label: Any = "car", **more: Any) -> dict[str, Any]:
    labels = label if isinstance(label, list) else [label]
    value = {"x": x, "y": 10, "width": 20, "height": 20, "rectanglelabels": labels}
    sizes = {"original_width": 200, "original_height": 200}
    return region("box", "rectanglelabels", value, **(sizes | more))


def studio(path: Path, *tasks: tuple[Any, dict[str, Any]], **more: Any) -> Path:
    """Tasks, each with its data and the regions of its annotators, by worker."""
    rows = [
        {"data": data, "annotations": [{"completed_by": who, "result": result} for who, result in by.items()]} | more
        for data, by in tasks
    ]
    return written(path, [{"id": number} | row for number, row in enumerate(rows, 1)])


def choice(label: Any) -> list[dict[str, Any]]:
    return [region("mood", "choices", {"choices": label if isinstance(label, list) else [label]})]


def prefers(side: str) -> list[dict[str, Any]]:
    return [region("better", "pairwise", {"selected": side})]


@pytest.mark.parametrize("fields", [("text1", "text2"), ("Answer A", "Answer B"), ("left_image", "right_image")])
def test_pairwise_items_are_named_by_their_content(fields: tuple[str, str], tmp_path: Path) -> None:
    one, other = fields
    path = studio(
        tmp_path / "pairs.json",
        ({one: "foo", other: "bar", "n": 3}, {"1": prefers("left"), "2": prefers("left")}),
        ({one: "bar", other: "foo", "n": 4}, {"1": prefers("right"), "2": prefers("right")}),
    )
    table = read(path)
    assert sorted(table.items.tolist()) == ["bar", "foo"]
    scores = dict(zip(table.items.tolist(), mh.aggregate(table).scores_, strict=True))
    assert scores["foo"] > scores["bar"]


def test_models_are_the_items_where_a_pair_has_both_models_and_texts(tmp_path: Path) -> None:
    data = {"prompt": "?", "model_a": "gpt", "model_b": "llama", "text_a": "x", "text_b": "y"}
    assert sorted(read(studio(tmp_path / "arena.json", (data, {"1": prefers("left")}))).items) == ["gpt", "llama"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"query": "foo", "image": "bar"}, "task 1.*'query'.*'image'"),
        ({"text1": "a", "text2": "b", "head1": "c", "head2": "d"}, "'text1'.*'text2'"),
    ],
)
def test_pairwise_answers_of_unknown_items_are_rejected_with_the_choices(
    data: dict[str, str], reason: str, tmp_path: Path
) -> None:
    path = studio(tmp_path / "pairs.json", (data, {"1": prefers("left") + choice("good")}))
    with pytest.raises(ValueError, match=reason):
        read(path, question="better")
    assert read(path, question="mood").n_annotations == 1
    assert frame(export(path), "better")["left"] == ["1 / left"]


def test_comparisons_of_an_item_with_itself_are_counted(tmp_path: Path) -> None:
    same, other = {"text1": "a", "text2": "a"}, {"text1": "a", "text2": "b"}
    path = studio(tmp_path / "pairs.json", (same, {"1": prefers("left")}), (other, {"1": prefers("left")}))
    with pytest.warns(mh.errors.DataWarning, match=r"1 comparisons.*1 answer"):
        assert read(path).n_annotations == 1


def test_tasks_without_ids_do_not_run_into_one_another(tmp_path: Path) -> None:
    for name, who in (("p1", "u"), ("p2", "v")):
        task = {"data": {"text": name}, "annotations": [{"completed_by": who, "result": choice(name)}]}
        written(tmp_path / f"{name}.json", [task])
    assert rows_of(read(str(tmp_path / "*.json"))) == [("p1#1", "u", "p1"), ("p2#1", "v", "p2")]


def test_one_id_of_two_tasks_is_rejected_where_files_are_of_two_projects(tmp_path: Path) -> None:
    studio(tmp_path / "p1.json", ({"text": "foo"}, {"1": choice("a")}))
    studio(tmp_path / "p2.json", ({"text": "bar"}, {"2": choice("b")}))
    with pytest.raises(mh.errors.FileFormatError, match="task 1"):
        read(str(tmp_path / "*.json"))
    # Addresses are signed anew for every export.
    for name in ("p1", "p2"):
        studio(tmp_path / f"{name}.json", ({"image": f"s3://b/1.jpg?sign={name}"}, {name: choice("a")}))
    assert read(str(tmp_path / "*.json")).n_workers == 2


def test_boxes_of_several_images_or_pages_are_not_pooled(tmp_path: Path) -> None:
    images = studio(tmp_path / "images.json", ({}, {"1": [box(to_name="one"), box(50, to_name="two")], "2": []}))
    assert sorted(read(images).tasks) == ["1 / one", "1 / two"]
    table = read(images)
    assert (table.n_workers, table.n_annotations) == (2, 4)
    pages = studio(tmp_path / "pages.json", ({}, {"1": [box(item_index=0), box(50, item_index=1)]}))
    assert sorted(read(pages).tasks) == ["1 / 0", "1 / 1"]


def test_an_object_that_was_renamed_is_not_another(tmp_path: Path) -> None:
    path = studio(tmp_path / "e.json", ({}, {"1": [box(to_name="img")], "2": [box(to_name="image")]}))
    assert read(path).tasks.tolist() == [1]
    pages = studio(tmp_path / "pages.json", ({}, {"1": [box(item_index=1)], "2": []}), ({"n": 2}, {"1": [], "2": []}))
    assert sorted(read(pages).tasks) == ["1 / 1", "2 / 0"]


def test_boxes_in_pixels_and_in_per_cent_do_not_mix(tmp_path: Path) -> None:
    bare: dict[str, Any] = {"original_width": None, "original_height": None}
    path = studio(tmp_path / "boxes.json", ({}, {"1": [box()]}), ({}, {"1": [box(**bare)]}))
    with pytest.raises(ValueError, match=r"1 of 2 regions.*'original_width'"):
        read(path)
    # The size of an image is that of its other regions.
    same = studio(tmp_path / "same.json", ({}, {"1": [box()], "2": [box(**bare)]}))
    assert read(same).boxes.tolist() == [[20, 20, 60, 60]] * 2


def test_a_region_with_two_labels_counts_for_both(tmp_path: Path) -> None:
    path = studio(tmp_path / "boxes.json", ({}, {"1": [box(label=["cat", "dog"])]}))
    assert frame(export(path))["label"] == ["cat", "dog"]
    span = region("ner", "labels", {"start": 0, "end": 3, "labels": ["PER", "ORG"]})
    spans = studio(tmp_path / "spans.json", ({"text": "Rex barks"}, {"1": [span]}))
    assert frame(export(spans))["label"] == ["PER", "ORG"]


def test_an_annotator_by_number_and_by_address_is_one_worker(tmp_path: Path) -> None:
    by = [1, {"id": 1, "email": "ann@example.org"}]
    tasks = [
        {"id": number, "data": {}, "annotations": [{"completed_by": who, "result": choice("a")}]}
        for number, who in enumerate(by)
    ]
    assert read(written(tmp_path / "e.json", tasks)).workers.tolist() == ["ann@example.org"]


def test_answers_about_a_region_are_not_those_of_the_task(tmp_path: Path) -> None:
    of_region = region("mood", "choices", {"choices": ["dirty"]}, id="r1")
    typed = region("words", "textarea", {"text": ["STOP"], "x": 10, "y": 10, "width": 20, "height": 20}, id="r2")
    path = studio(tmp_path / "e.json", ({}, {"1": [box(id="r1"), of_region, typed], "2": choice("clean")}))
    found = export(path)
    assert frame(found, "mood")["label"] == ["clean"]
    assert found.left_out("mood") == {"answers about a single region (not supported)": 1}
    with pytest.raises(ValueError, match=r"'words'.*1 answers"):
        found.table("words")


def test_labels_of_a_bare_rectangle_are_its_labels(tmp_path: Path) -> None:
    place = {"x": 10, "y": 10, "width": 20, "height": 20}
    bare = region("shape", "rectangle", place, id="r1", original_width=100, original_height=100)
    named = region("label", "labels", place | {"labels": ["sign"]}, id="r1")
    found = export(studio(tmp_path / "e.json", ({}, {"1": [bare, named]})))
    assert found.questions == {"shape": "boxes"}
    assert frame(found)["label"] == ["sign"]


def test_paths_of_a_taxonomy_and_masks_are_not_joined_into_one_name(tmp_path: Path) -> None:
    paths = [["a", "b / c"], ["a / b", "c"]]
    tasks: list[Any] = [({}, {"1": [region("kind", "taxonomy", {"taxonomy": [path]})]}) for path in paths]
    assert read(studio(tmp_path / "e.json", *tasks)).classes.tolist() == ['"a / b" / c', 'a / "b / c"']
    ring = [[0, 0], [50, 0], [50, 50], [0, 50]]
    for name, labels in {"a": ["b / c", "x"], "a / b": ["c", "x"]}.items():
        drawn = [
            region(
                "m", "polygonlabels", {"points": ring, "polygonlabels": [label]}, original_width=9, original_height=9
            )
            for label in labels
        ]
        studio(tmp_path / "masks" / f"{name[-1]}.json", ({"name": name}, {name: drawn}), id=name)
    assert read(str(tmp_path / "masks" / "*.json")).n_tasks == 4


def test_a_region_without_a_place_is_rejected(tmp_path: Path) -> None:
    value = {"y": 1, "width": 1, "height": 1, "rectanglelabels": ["car"]}
    with pytest.raises(mh.errors.FileFormatError, match=r"'x'.*None"):
        export(studio(tmp_path / "e.json", ({}, {"1": [region("box", "rectanglelabels", value)]})))


def test_regions_of_other_kinds_drafts_and_relations_are_counted(tmp_path: Path) -> None:
    result = [*choice("a"), region("when", "datetime", {"datetime": "2026-01-01"}), {"type": "relation"}]
    draft = {"result": choice("b")}
    found = export(studio(tmp_path / "e.json", ({}, {"1": result}), drafts=[draft, {"result": []}]))
    assert found.left_out("mood") == {"relations (not supported)": 1, "drafts (not submitted)": 1}
    assert {(part.what, part.question) for part in found.dropped} >= {("datetime regions (not supported)", "when")}


def test_completions_of_a_model_are_not_label_studio(tmp_path: Path) -> None:
    rows = [{"task": 1, "worker": "a", "label": "x", "completions": "text"}]
    assert rows_of(read(written(tmp_path / "log.json", rows))) == [(1, "a", "x")]


def test_completions_of_old_versions_are_read(tmp_path: Path) -> None:
    old = {"aggregated_completed_by": [103], "result": [choice("bad")]}
    tasks = [
        {"id": 1, "completions": [old, {"completed_by": 7, "result": choice("good")}]},
        {"id": 2, "completions": []},
    ]
    assert rows_of(read(written(tmp_path / "old.json", tasks))) == [(1, "103", "bad"), (1, "7", "good")]


# --------------------------------------------------------------------------------------------------------- Prodigy


def prodigy(task: Any, worker: Any, **more: Any) -> dict[str, Any]:
    return {"_input_hash": task, "_annotator_id": worker, "answer": "accept", "_view_id": "choice"} | more


def options(*texts: str) -> list[dict[str, Any]]:
    return [{"id": place, "text": text} for place, text in enumerate(texts)]


def test_sessions_named_by_the_time_are_not_workers(tmp_path: Path) -> None:
    kind = {"options": options("a", "b")}
    ann = jsonl(tmp_path / "ann.jsonl", *(prodigy(n, f"2024-04-23_14-00-4{n}", accept=[0], **kind) for n in range(3)))
    bob = jsonl(tmp_path / "bob.jsonl", prodigy(1, "talk-2024-05-02_14-07-49", accept=[1], **kind))
    with pytest.raises(ValueError, match=r"'2024-04-23_14-00-40'.*worker_from_file=True"):
        read([ann, bob])
    assert frame(export(ann))["worker"] == [f"2024-04-23_14-00-4{n}" for n in range(3)]
    found = export(ann, bob, worker_from_file=True)
    assert set(frame(found)["worker"]) == {"ann", "bob"}
    named = jsonl(tmp_path / "named.jsonl", prodigy(1, "cy", accept=[1], **kind))
    with pytest.warns(mh.errors.DataWarning, match="1 answer"):
        assert read([bob, named]).workers.tolist() == ["cy", "unknown"]


def test_other_options_about_one_input_are_another_question(tmp_path: Path) -> None:
    design, drug = options("trial", "review"), options("ketamine", "other")
    path = jsonl(
        tmp_path / "log.jsonl",
        *(prodigy(1, who, accept=[0], options=design) for who in "ab"),
        *(prodigy(1, who, accept=[1], options=drug) for who in "ab"),
    )
    assert export(path).questions == {"choice: trial, …": "categorical", "choice: ketamine, …": "categorical"}
    assert rows_of(read(path, question="choice: ketamine, …")) == [(1, "a", "other"), (1, "b", "other")]


def test_options_that_differ_by_input_stay_one_question(tmp_path: Path) -> None:
    first, later = options("a", "b"), options("a", "b", "c")
    lines = [prodigy(1, "u", accept=[0], options=first), prodigy(2, "u", accept=[2], options=later)]
    path = jsonl(tmp_path / "log.jsonl", *lines)
    assert rows_of(read(path)) == [(1, "u", "a"), (2, "u", "c")]
    other = [prodigy(1, "v", accept=[1], options=later[1:])]
    assert len(rows_of(read(jsonl(tmp_path / "more.jsonl", *lines, *other)))) == 3
    # Ids stay where texts cannot tell options apart.
    same = [{"id": "x", "text": "yes"}, {"id": "y", "text": "yes"}]
    assert rows_of(read(jsonl(tmp_path / "same.jsonl", prodigy(1, "u", accept=["y"], options=same)))) == [(1, "u", "y")]


def test_options_of_each_input_are_one_question(tmp_path: Path) -> None:
    quiz = [prodigy(n, who, accept=[0], options=options(f"a{n}", f"b{n}")) for n in range(12) for who in "uv"]
    assert export(jsonl(tmp_path / "quiz.jsonl", *quiz)).questions == {"choice": "categorical"}
    twice = [
        prodigy(n, "u", accept=[0], options=options(f"{one}{n}", "none")) for n in range(250) for one in ("a", "b")
    ]
    with pytest.raises(mh.errors.FileFormatError, match="200 questions"):
        read(jsonl(tmp_path / "many.jsonl", *twice))


def test_choices_without_their_options_are_choices(tmp_path: Path) -> None:
    assert rows_of(read(jsonl(tmp_path / "log.jsonl", prodigy(1, "u", accept=["spam"])))) == [(1, "u", "spam")]


def test_images_of_prodigy_are_not_a_question_of_accepting(tmp_path: Path) -> None:
    square = {"type": "rect", "x": 1, "y": 2, "width": 3, "height": 4, "label": "car"}
    ring = {"type": "polygon", "points": [[0, 0], [4, 0], [4, 4]], "label": "road"}
    line = prodigy(1, "u", _view_id="image_manual", spans=[square, ring], width=9, height=9)
    found = export(jsonl(tmp_path / "log.jsonl", line, prodigy(2, "u", _view_id="image_manual")))
    assert found.questions == {"boxes": "boxes", "masks": "masks"}
    assert found.columns("boxes")["x2"] == [4.0, None]


def test_texts_typed_next_to_a_choice_are_counted(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "log.jsonl", prodigy(1, "u", accept=[0], options=options("a"), user_input="unsure"), {"x": 1}
    )
    wanted = {"lines without '_input_hash'": 1, "texts typed next to another answer ('user_input')": 1}
    assert export(path).left_out() == wanted
    typed = jsonl(tmp_path / "typed.jsonl", prodigy(1, "u", user_input="hello", _view_id="text_input"))
    assert export(typed).questions == {"user_input": "texts"}


# ---------------------------------------------------------------------------------------------------- CVAT and COCO


def cvat(path: Path, *images: str, size: str = 'width="9" height="9"') -> Path:
    """Images, each its content; one that begins with attributes has a blank first."""
    parts = [
        f'<image id="{place}" {size} {attributes}>{content}</image>'
        for place, (attributes, _, content) in enumerate(one.partition("|") for one in images)
    ]
    return written(path, f"<annotations>{''.join(parts)}</annotations>")


CAR = '<box label="car" xtl="1" ytl="1" xbr="4" ybr="4"/>'


def test_equal_names_of_files_in_two_folders_are_two_workers(tmp_path: Path) -> None:
    drawn = [cvat(tmp_path / who / "annotations.xml", f'name="a.png"|{CAR}') for who in ("ann", "bob")]
    table = read(drawn)
    assert table.workers.tolist() == ["ann", "bob"]
    assert mh.aggregate(table).to_frame().num_rows == 1
    content = {"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "bbox": [0, 0, 1, 1]}]}
    coco_files = [written(tmp_path / "coco" / who / "instances_default.json", content) for who in ("ann", "bob")]
    assert read(coco_files).workers.tolist() == ["ann", "bob"]
    line = {"id": 1, "text": "x", "label": ["a"]}
    lines = [jsonl(tmp_path / "doccano" / who / "all.jsonl", line) for who in ("ann", "bob")]
    assert read(lines).workers.tolist() == ["ann", "bob"]


def test_several_files_of_one_worker_are_reported(tmp_path: Path) -> None:
    for part in (1, 2):
        studio(tmp_path / f"{part}.json", ({"text": part}, {"ann": choice("a")}), id=part)
    with pytest.warns(mh.errors.DataWarning, match=r"2 files.*'ann'.*worker_from_file=True"):
        read(str(tmp_path / "*.json"))


def test_images_of_one_name_in_several_subsets_are_several_tasks(tmp_path: Path) -> None:
    both = [f'name="a.png" subset="{one}" task_id="{n}"|{CAR}' for n, one in enumerate(("Train", "Test"))]
    assert sorted(read(cvat(tmp_path / "ann.xml", *both)).tasks) == ["Test / a.png", "Train / a.png"]
    split = [cvat(tmp_path / "split" / f"{place}.xml", one) for place, one in enumerate(both)]
    assert sorted(read(split).tasks) == ["Test / a.png", "Train / a.png"]
    tasks = [f'name="a.png" subset="Train" task_id="{n}"|{CAR}' for n in (7, 8)]
    assert sorted(read(cvat(tmp_path / "t.xml", *tasks)).tasks) == ["Train / 7 / a.png", "Train / 8 / a.png"]
    # Names stay names where they are enough.
    assert read(cvat(tmp_path / "one.xml", both[0])).tasks.tolist() == ["a.png"]
    with pytest.raises(mh.errors.FileFormatError, match=r"'a.png'"):
        read(cvat(tmp_path / "twice.xml", f'name="a.png"|{CAR}', f'name="a.png"|{CAR}'))


def test_several_tags_of_an_image_are_a_set(tmp_path: Path) -> None:
    one, two = '<tag label="cat"/>', '<tag label="cat"/><tag label="outdoor"/>'
    table = read([cvat(tmp_path / f"{n}.xml", f'name="a"|{tags}') for n, tags in enumerate((one, two))], question="tag")
    assert isinstance(table, mh.MultiLabels)
    assert table.n_annotations == 2


def test_attributes_of_two_tags_are_two_questions(tmp_path: Path) -> None:
    tags = "".join(
        f'<tag label="{t}"><attribute name="color">{c}</attribute></tag>' for t, c in (("a", "x"), ("b", "y"))
    )
    found = export(cvat(tmp_path / "a.xml", f'name="a"|{tags}'))
    assert set(found.questions) == {"tag", "a.color", "b.color"}


def test_shapes_without_a_table_are_counted_and_are_not_nothing(tmp_path: Path) -> None:
    cuboid = '<cuboid label="car" xtl1="1"/><skeleton label="p"><points label="nose" points="1,1"/></skeleton>'
    noted = '<box label="car" xtl="1" ytl="1" xbr="4" ybr="4"><attribute name="n">1</attribute></box>'
    ann = cvat(tmp_path / "ann.xml", f'name="a"|{cuboid}', 'name="b"|')
    bob = cvat(tmp_path / "bob.xml", f'name="a"|{CAR}', f'name="b"|{noted}')
    found = export(ann, bob)
    wanted = {"cuboid shapes (not supported)": 1, "skeleton shapes (not supported)": 1}
    assert found.left_out("boxes") == wanted | {"attributes of shapes (not supported)": 1}
    rows = frame(found, "boxes")
    assert list(zip(rows["worker"], rows["task"], strict=True)) == [("ann", "b"), ("bob", "a"), ("bob", "b")]


def test_ellipses_of_cvat_are_masks(tmp_path: Path) -> None:
    path = cvat(tmp_path / "a.xml", 'name="a"|<ellipse label="car" cx="4.5" cy="4.5" rx="4" ry="1.6"/>')
    mask = read(path).mask(0)
    assert (mask.any(axis=1).sum(), mask.any(axis=0).sum()) == (3, 8)


def test_masks_of_images_without_a_size_are_counted(tmp_path: Path) -> None:
    ring = '<polygon label="car" points="1,1;4,1;4,3"/>'
    found = export(cvat(tmp_path / "a.xml", f'name="a"|{ring}{CAR}', size=""))
    assert found.left_out("boxes") == {"masks of images without width and height": 1}
    images = [{"id": 1, "file_name": "a"}]
    ones = [{"image_id": 1, "bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 0, 1, 1]], "category_id": 1}]
    found = export(written(tmp_path / "a.json", {"images": images, "annotations": ones}))
    assert found.left_out("boxes") == {"segmentations of images without width and height": 1}


@pytest.mark.parametrize("side", ['xtl="nan"', "", 'xtl="left"'])
def test_a_side_of_a_box_that_is_not_a_number_is_rejected(side: str, tmp_path: Path) -> None:
    with pytest.raises(mh.errors.FileFormatError, match="xtl"):
        read(cvat(tmp_path / "a.xml", f'name="a"|<box label="car" {side} ytl="1" xbr="4" ybr="4"/>'))


def coco(path: Path, *annotations: dict[str, Any], images: Any = None, categories: Any = ()) -> Path:
    images = [{"id": 1, "file_name": "a.png", "width": 9, "height": 9}] if images is None else images
    ones = [{"image_id": 1} | one for one in annotations]
    return written(path, {"images": images, "annotations": ones, "categories": list(categories)})


def test_captions_and_keypoints_are_offered_and_boxes_that_are_not_there_are_not(tmp_path: Path) -> None:
    texts = export(coco(tmp_path / "captions.json", {"caption": "a dog", "category_id": 0}))
    assert texts.questions == {"captions": "texts"}
    category = {"id": 1, "name": "person", "keypoints": ["nose", "ear"]}
    body = {"keypoints": [1, 2, 2, 0, 0, 0, 3, 4, 1], "category_id": 1, "attributes": {"pose": "sits"}}
    points = export(coco(tmp_path / "points.json", body, categories=[category]))
    assert points.questions == {"keypoints": "boxes"}
    assert frame(points)["label"] == ["person / nose", "person / 3"]
    assert points.left_out() == {"attributes of annotations (not supported)": 1}
    whole = export(coco(tmp_path / "whole.json", {"category_id": 1}, categories=[category]))
    assert whole.questions == {"category": "categorical"}


def test_images_that_are_listed_twice_do_not_double_their_boxes(tmp_path: Path) -> None:
    image = {"id": 1, "file_name": "a.png"}
    car = {"bbox": [0, 0, 1, 1]}
    assert read(coco(tmp_path / "a.json", car, images=[image, image])).n_annotations == 1
    with pytest.raises(mh.errors.FileFormatError, match=r"images.*1"):
        read(coco(tmp_path / "b.json", car, images=[image, image | {"file_name": "b.png"}]))
    with pytest.raises(mh.errors.FileFormatError, match=r"'a.png', 1 and 2"):
        read(coco(tmp_path / "c.json", car, images=[image, image | {"id": 2}]))


# --------------------------------------------------------------------------------------------- WebAnno and CoNLL

HEAD = "#FORMAT=WebAnno TSV 3.3\n"
ENTITY = "#T_SP=ner.type.NamedEntity|value\n"


def webanno(path: Path, *tokens: str, header: str = ENTITY) -> Path:
    """Words with their cells; they are one blank apart."""
    lines, at = [], 0
    for place, (word, *cells) in enumerate((token.split("/") for token in tokens), 1):
        units = len(word.encode("utf-16-le")) // 2
        lines.append("\t".join([f"1-{place}", f"{at}-{at + units}", word, *cells]))
        at += units + 1
    return written(path, HEAD + header + "\n\n#Text=…\n" + "\n".join(lines) + "\n")


def spans(found: Export, question: str | None = None) -> list[tuple[Any, ...]]:
    columns = frame(found, question)
    return list(zip(*(columns[name] for name in ("worker", "start", "end", "label")), strict=True))


def test_an_annotator_without_a_mark_in_a_layer_read_the_document(tmp_path: Path) -> None:
    files = [
        webanno(tmp_path / "doc" / "ann.tsv", "Rex/NAME", "barks/_"),
        webanno(tmp_path / "doc" / "bob.tsv", "Rex", "barks", header=""),
    ]
    assert spans(export(*files)) == [("ann", 0, 3, "NAME"), ("bob", None, None, None)]
    assert read(files).n_annotations == 2


def test_a_document_has_one_name_inside_and_outside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    webanno(tmp_path / "doc" / "ann.tsv", "Rex/NAME")
    monkeypatch.chdir(tmp_path / "doc")
    assert frame(export(Path("ann.tsv")))["task"] == ["doc"]


def test_lines_of_webanno_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = webanno(tmp_path / "doc" / "ann.tsv", "a\u2028b/NAME", "c/_")
    assert spans(export(path)) == [("ann", 0, 3, "NAME")]


def test_two_texts_of_equal_lengths_are_not_one_document(tmp_path: Path) -> None:
    files = [webanno(tmp_path / "doc" / f"{who}.tsv", f"{word}/NAME") for who, word in (("ann", "Rex"), ("bob", "Sue"))]
    with pytest.raises(ValueError, match="document 'doc'"):
        read(files)


def test_relations_and_links_take_their_columns_and_are_counted(tmp_path: Path) -> None:
    header = (
        "#T_SP=a.Frame|kind|ROLE_a.Frame:arg_a.Link|a.Frame\n"
        "#T_RL=a.Dependency|type|BT_a.POS\n"
        "#T_SP=ner.type.NamedEntity|value\n"
    )
    path = webanno(tmp_path / "d" / "ann.tsv", "Rex/act/agent/1-2/subj/1-2/NAME", "barks/_/_/_/_/_/_", header=header)
    found = export(path)
    assert spans(found, "NamedEntity.value") == [("ann", 0, 3, "NAME")]
    assert spans(found, "Frame.kind") == [("ann", 0, 3, "act")]
    assert found.left_out("Frame.kind") == {"links between spans (not supported)": 1, "relations (not supported)": 1}


def test_parts_of_tokens_are_marked_too(tmp_path: Path) -> None:
    path = webanno(tmp_path / "d" / "ann.tsv", "snowball/_")
    path.write_text(path.read_text("utf-8") + "1-1.1\t0-4\tsnow\tTHING\n", "utf-8")
    assert spans(export(path)) == [("ann", 0, 4, "THING")]


def test_words_of_workers_are_compared(tmp_path: Path) -> None:
    ann = written(tmp_path / "ann.conll", "The O\ncat B-A\n\nDogs B-A\nbark O\n")
    bob = written(tmp_path / "bob.conll", "The O\ncat O\n\nI O\nslept O\n")
    with pytest.raises(ValueError, match=r"token 0 of sequence 1 is.*'ann'"):
        read([ann, bob])
    same = [written(tmp_path / who / "tags.conll", ann.read_text()) for who in ("ann", "bob")]
    assert sorted(read(same).workers) == ["ann", "bob"]


def test_a_number_sign_is_a_token_where_it_has_a_tag(tmp_path: Path) -> None:
    path = written(tmp_path / "ann.conll", "# sent_id = 1\na O\n# B-X\nb O\n\n# B-X\n1 I-X\n")
    assert read(path).lengths.tolist() == [3, 2]


# --------------------------------------------------------------------------------------------------------- doccano


def test_a_span_that_ends_in_the_blanks_of_its_text_is_read(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "ann.jsonl", {"id": 1, "text": "by Ann Lee \n", "label": [[3, 11, "NAME"]]})
    assert read(path).spans().to_pylist()[0]["end"] == 10
    blank = {"id": 2, "text": "a  b ", "label": [[1, 3, "X"], [0, 1, "Y"], [4, 5, "Z"]]}
    with pytest.warns(mh.errors.DataWarning, match="2 spans"):
        assert [row["tag"] for row in read(jsonl(tmp_path / "bob.jsonl", blank)).spans().to_pylist()] == ["Y"]
    beyond = jsonl(tmp_path / "eve.jsonl", {"id": 1, "text": "ab ", "label": [[0, 4, "X"]]})
    with pytest.raises(ValueError, match=r"0 to 4 goes.*3 characters"):
        read(beyond)


DOCCANO: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "labels": ({"id": 1, "text": "x", "labels": ["a"]}, {"label": "categorical"}),
    "no id": ({"text": "some text", "label": [[0, 4, "A"]]}, {"spans": "sequences"}),
    "entities and cats": (
        {"id": 1, "text": "some text", "entities": [[0, 4, "A"]], "cats": ["ask"]},
        {"spans": "sequences", "cats": "categorical"},
    ),
    "texts by users": ({"id": 1, "text": "x", "annotations": [{"text": "y", "user": 1}]}, {"text": "texts"}),
    "boxes": (
        {
            "id": 1,
            "filename": "a.png",
            "bbox": [{"x": 1, "y": 2, "width": 3, "height": 4, "label": "A"}],
            "Comments": [],
        },
        {"bbox": "boxes"},
    ),
}


@pytest.mark.parametrize("name", DOCCANO)
def test_variants_of_doccano_are_read(name: str, tmp_path: Path) -> None:
    row, questions = DOCCANO[name]
    found = export(jsonl(tmp_path / "ann.jsonl", row))
    assert found.questions == questions
    assert not found.dropped


def test_tables_of_doccano_are_read(tmp_path: Path) -> None:
    old = written(tmp_path / "old.csv", "annotation_approver,id,label,text,user\n,1,5,x,1\n,1,6,x,2\n")
    assert rows_of(read(old)) == [("1", "1", "5"), ("1", "2", "6")]
    new = written(tmp_path / "ann.csv", "id,data,label\n1,x,a#b\n2,y,\n")
    assert export(new).columns()["labels"] == [["a", "b"], []]


def test_a_log_with_users_is_not_doccano(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "x", "user": who, "label": label} for who, label in (("a", ["x"]), ("b", ["y"]))]
    with pytest.raises(TypeError, match=r"'label'.*kind='multilabel'"):
        read(jsonl(tmp_path / "log.jsonl", *rows))


def test_documents_without_ids_are_the_same_where_their_text_is(tmp_path: Path) -> None:
    for who, label in (("ann", "a"), ("bob", "b")):
        jsonl(tmp_path / f"{who}.jsonl", {"text": "one", "label": [label]}, {"text": "two", "label": [label]})
    assert read(str(tmp_path / "*.jsonl")).tasks.tolist() == ["one", "two"]


def test_lines_without_ids_among_others_are_counted(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "ann.jsonl", {"id": 1, "text": "x", "label": ["a"]}, {"text": "y", "label": ["b"]})
    assert export(path).left_out() == {"lines without 'id'": 1}


def test_who_marked_nothing_at_all_is_a_reader_next_to_others(tmp_path: Path) -> None:
    jsonl(tmp_path / "ann.jsonl", {"id": 1, "text": "Rex barks", "label": []})
    jsonl(tmp_path / "bob.jsonl", {"id": 1, "text": "Rex barks", "label": [[0, 3, "NAME"]]})
    assert read(str(tmp_path / "*.jsonl")).n_annotations == 2


def test_one_id_of_two_texts_is_rejected(tmp_path: Path) -> None:
    for who in ("ann", "bob"):
        jsonl(tmp_path / f"{who}.jsonl", {"id": 1, "text": f"text of {who}", "label": ["a"]})
    with pytest.raises(mh.errors.FileFormatError, match="task 1"):
        read(str(tmp_path / "*.jsonl"))


# ----------------------------------------------------------------------------------- Argilla, Phoenix, SageMaker


def record(name: Any, fields: dict[str, Any], **responses: Any) -> dict[str, Any]:
    given = {question: [{"user_id": "u", "value": value}] for question, value in responses.items()}
    return {"id": name, "fields": fields, "responses": given}


def ranking(*items: str) -> list[dict[str, Any]]:
    return [{"value": item, "rank": place} for place, item in enumerate(items, 1)]


def test_rankings_of_two_records_are_not_pooled_by_the_names_of_places(tmp_path: Path) -> None:
    path = written(
        tmp_path / "e.json",
        [record("r1", {"text": "?"}, rank=ranking("a", "b")), record("r2", {}, rank=ranking("b", "a"))],
    )
    with pytest.raises(ValueError, match=r"'rank'.*'a'"):
        read(path)
    assert len(frame(export(path))["item"]) == 4
    told = [record(n, {"a": f"text {n}", "b": "other"}, rank=ranking("a", "b")) for n in (1, 2)]
    assert read(written(tmp_path / "told.json", told)).lists() == [["text 1", "other"], ["text 2", "other"]]
    assert read(written(tmp_path / "one.json", [record(1, {}, rank=ranking("a", "b"))])).lists() == [["a", "b"]]


def test_records_of_two_files_are_told_apart_or_rejected(tmp_path: Path) -> None:
    for name in ("p1", "p2"):
        one = record(name, {"text": name}, tone=name)
        written(tmp_path / f"{name}.json", [{key: one[key] for key in ("fields", "responses")}])
    with pytest.warns(mh.errors.DataWarning, match="2 files"):
        assert read(str(tmp_path / "*.json")).tasks.tolist() == ["p1#0", "p2#0"]
    for name in ("p1", "p2"):
        written(tmp_path / f"{name}.json", [record("r1", {"text": name}, tone=name)])
    with pytest.raises(mh.errors.FileFormatError, match="task 'r1'"):
        read(str(tmp_path / "*.json"))


def test_responses_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = written(
        tmp_path / "e.json", [record(1, {}, tone=None), record(2, {}, tone={"x": 1}), record(3, {}, tone="a"), 5]
    )
    wanted = {"responses without a value": 1, "responses of another kind (not supported)": 1}
    assert export(path).left_out() == wanted | {"records that are not objects": 1}


def phoenix(span: Any, **more: Any) -> dict[str, Any]:
    return {"span_id": span, "annotator_kind": "HUMAN", "user_id": "ann", "name": "ok", "result": {"label": "a"}} | more


def test_rows_of_phoenix_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    rows = [phoenix(1), phoenix(None), {"annotator_kind": "HUMAN"}, phoenix(2, result={"explanation": "none"})]
    found = export(jsonl(tmp_path / "e.jsonl", *rows))
    assert found.left_out() == {"rows without 'span_id'": 2, "annotations without a label or a score": 1}


def test_people_without_a_name_are_not_one_worker_in_silence(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "e.jsonl", phoenix(1), phoenix(1, user_id=None), phoenix(2, user_id=None))
    with pytest.warns(mh.errors.DataWarning, match="2 answers"):
        read(path)


def sagemaker(*contents: Any, task: str = "0", **more: Any) -> dict[str, Any]:
    ones = [
        {"workerId": f"w{n}", "annotationData": {"content": json.dumps(content)}} for n, content in enumerate(contents)
    ]
    return {"datasetObjectId": task, "annotations": ones} | more


def test_every_answer_of_sagemaker_is_read_or_counted(tmp_path: Path) -> None:
    ticked = {"pet": {"cat": True, "dog": False}}
    drawn = {"box": {"boundingBoxes": [{"left": 1, "top": 2, "width": 3, "height": 4, "label": "A"}]}}
    marked = {"ner": {"entities": [{"startOffset": 0, "endOffset": 3, "label": "NAME"}]}}
    other = {"pet": {"polygons": [{"vertices": []}]}}
    row = sagemaker(ticked, drawn, marked, other, {"pet": {"label": None}}, dataObject={"content": "Rex barks"})
    found = export(written(tmp_path / "e.json", [row]))
    assert found.questions == {"pet": "categorical", "box": "boxes", "ner": "sequences"}
    assert frame(found, "pet")["label"] == ["cat"]
    assert found.left_out("pet") == {"answers of another kind (not supported)": 2}


def test_responses_of_workers_are_read_by_folder(tmp_path: Path) -> None:
    for place, label in enumerate("xy"):
        answer = {"workerId": f"w{place}", "answerContent": {"q": {"label": label}}, "timeSpentInSeconds": 4}
        written(tmp_path / str(place) / "2026.json", {"answers": [answer]})
    assert rows_of(read(str(tmp_path / "*" / "*.json"))) == [("0", "w0", "x"), ("1", "w1", "y")]


def test_objects_without_ids_do_not_run_into_one_another(tmp_path: Path) -> None:
    for name in ("p1", "p2"):
        row = sagemaker({"q": {"label": name}})
        del row["datasetObjectId"]
        written(tmp_path / f"{name}.json", [row])
    with pytest.warns(mh.errors.DataWarning, match="2 files"):
        assert read(str(tmp_path / "*.json")).tasks.tolist() == ["p1#0", "p2#0"]
