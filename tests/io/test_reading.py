"""Plain tables and table-like exports: which column is what, and that nothing is misread or lost without a word."""

import io
import json
import random
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from commands import complaint, rows, run

import manyhands as mh
from files import read_table

EXPORTS = Path(__file__).parents[3] / "shared" / "data" / "exports"


def put(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def triples(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_frame().to_pylist())


# ------------------------------------------------------------------------------------------------ items and answers

ITEMS = "id,annotator,text,sentiment\n1,ann,good film,pos\n1,bob,good film,neg\n2,ann,dull,neg\n2,bob,dull,neg\n"


@pytest.mark.parametrize("named", [{}, {"task": "id"}, {"task": "id", "worker": "annotator"}])
def test_the_text_of_the_item_is_never_taken_for_the_answer(tmp_path, named):
    path = put(tmp_path / "ls.csv", ITEMS)
    with pytest.raises(ValueError, match=r"'text'.*label=….*'sentiment'"):
        mh.read(path, **named)
    with pytest.raises(ValueError, match="item"):
        mh.aggregate(read_table(path))
    assert mh.read(path, label="sentiment", **named).classes.tolist() == ["neg", "pos"]
    assert mh.read(path, kind="texts", **named).kind == "texts"


def test_the_command_line_asks_for_the_label_beside_a_text(tmp_path, capsys):
    path = put(tmp_path / "ls.csv", ITEMS)
    for command in ("aggregate", "describe"):
        assert "it is the item, not the answer; name the answer column with --label" in complaint(
            capsys, f"{command} {path} --task id"
        )
    run(f"aggregate {path} --task id --label sentiment -q")
    assert capsys.readouterr().out.splitlines()[0] == '"task","label","confidence","tied"'
    run(f"describe {path} --kind texts -q")
    assert "2 of them different" in capsys.readouterr().out


def test_a_text_that_no_two_workers_wrote_is_asked_about(tmp_path):
    path = put(
        tmp_path / "log.csv", "id,annotator,text,sentiment\n1,ann,good film,pos\n1,ann,good,pos\n2,bob,dull,neg\n"
    )
    with pytest.raises(ValueError, match="column 'text'"):
        mh.read(path)


@pytest.mark.parametrize("text", ["text", "transcript", "caption"])
def test_texts_that_differ_within_tasks_are_answers(tmp_path, text):
    path = put(tmp_path / "log.csv", f"task,worker,{text},clip\n1,ann,a cat,c1\n1,bob,a cart,c1\n2,ann,dog,c2\n")
    assert mh.read(path).kind == "texts"
    alone = put(tmp_path / "alone.csv", f"task,worker,{text}\n1,ann,a cat\n1,bob,a cat\n")
    assert mh.read(alone).kind == "texts"  # nothing else can be the answer


@pytest.mark.parametrize(
    "header",
    [
        "id,user,class",
        "id,user_id,category",
        "item,model,verdict",
        "example,judge_id,choice",
        "ID,User Name,Preference",
        "question_id,reviewer,label",
    ],
)
def test_names_that_logs_use_are_known(tmp_path, header):
    path = put(tmp_path / "log.csv", f"{header}\n1,a,x\n1,b,y\n2,a,y\n2,b,y\n")
    assert triples(mh.read(path)) == [(1, "a", "x"), (1, "b", "y"), (2, "a", "y"), (2, "b", "y")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,worker,label\n1,a,x\n2,b,y\n3,c,x\n", "'id'"),
        ("task,user,label\n1,a,x\n1,a,y\n2,b,y\n2,b,y\n", "'user'"),
        ("task,worker,category,mood\n1,a,x,p\n1,b,x,q\n2,a,y,p\n2,b,y,q\n", "'category'"),
        ("task,user,model,label\n1,a,m,x\n1,b,m,y\n", "'user'.*'model'"),
    ],
)
def test_weak_names_that_mean_something_else_are_rejected(tmp_path, content, message):
    path = put(tmp_path / "log.csv", content)
    with pytest.raises(ValueError, match=message):
        mh.read(path)


def test_what_judges_look_at_is_not_their_answer(tmp_path):
    rows = "item,response,judge,score\n1,hi there,j,3\n1,hi there,k,4\n2,so what,j,1\n2,so what,k,2\n"
    path = put(tmp_path / "log.csv", rows)
    with pytest.raises(ValueError, match="'response'"):
        mh.read(path)
    assert mh.read(path, kind="numeric").n_annotations == 4
    put(path, "item,response,judge\n1,yes,j\n1,yes,k\n2,no,j\n2,no,k\n")
    assert mh.read(path).classes.tolist() == ["no", "yes"]  # nothing else can be the answer


def test_scores_are_numbers_by_the_same_rule_everywhere(tmp_path):
    log = {"task": [1, 1, 2], "worker": ["a", "b", "a"], "score": [3, 5, 1]}
    path = put(tmp_path / "log.csv", "task,worker,score\n1,a,3\n1,b,5\n2,a,1\n")
    assert mh.read(path).kind == type(mh.aggregate(log))._kind == "numeric"
    assert mh.read(path, kind="categorical").classes.tolist() == [1, 3, 5]


# ------------------------------------------------------------------------------------------------------------ JSON


def test_a_list_beside_the_label_neither_multiplies_nor_drops_answers(tmp_path):
    rows = [
        {"task": 1, "worker": "a", "label": "x", "tokens": ["I", "am", "he"]},
        {"task": 1, "worker": "b", "label": "y", "tokens": ["I"]},
        {"task": 1, "worker": "c", "label": "y", "tokens": []},
    ]
    path = put(tmp_path / "log.jsonl", "\n".join(map(json.dumps, rows)))
    assert triples(mh.read(path)) == [(1, "a", "x"), (1, "b", "y"), (1, "c", "y")]
    with pytest.raises(TypeError, match=r"'tokens'.*kind='multilabel'"):
        mh.read(path, label="tokens")


def test_lists_of_labels_are_sets_and_an_empty_one_is_an_answer(tmp_path):
    rows = [{"task": 1, "worker": "a", "labels": ["x", "y"]}, {"task": 1, "worker": "b", "labels": []}]
    path = put(tmp_path / "log.json", rows)
    for kind in (None, "multilabel"):
        assert triples(mh.read(path, kind=kind)) == [(1, "a", ["x", "y"]), (1, "b", [])]


def test_rows_of_several_workers_keep_what_they_hold(tmp_path):
    rows = [
        {"item": 1, "annotators": ["a", "b"], "labels": ["x", "y"], "tokens": ["I"]},
        {"item": 2, "annotators": [], "labels": [], "tokens": ["he"]},
        {"item": 3, "annotators": ["a"], "labels": ["y"], "tokens": ["we", "go"]},
    ]
    path = put(tmp_path / "log.json", rows)
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert triples(mh.read(path)) == [(1, "a", "x"), (1, "b", "y"), (3, "a", "y")]
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert triples(mh.read(path, worker="annotators", label="labels"))[0] == (1, "a", "x")
    put(path, [rows[0] | {"labels": ["x"]}])
    with pytest.raises(ValueError, match=r"row 1.*'annotators'.*'labels'"):
        mh.read(path)


def test_lists_with_commas_are_taken_apart(tmp_path):
    content = {
        "1": {"text": "so", "task": "hate", "annotators": "Ann1,Ann2", "annotations": "0,1", "other": {"a": 1}},
        "2": {"text": "ok", "task": "hate", "annotators": "Ann2", "annotations": "1", "other": {"a": 2}},
    }
    wanted = [("1", "Ann1", "0"), ("1", "Ann2", "1"), ("2", "Ann2", "1")]
    assert triples(mh.read(put(tmp_path / "lewidi.json", content))) == wanted
    # A field that differs between rows, or of which there is one row, is the task.
    content["2"]["task"] = "irony"
    own = [("hate", "Ann1", "0"), ("hate", "Ann2", "1"), ("irony", "Ann2", "1")]
    assert triples(mh.read(put(tmp_path / "tasks.json", content))) == own
    del content["2"]
    assert triples(mh.read(put(tmp_path / "one.json", content))) == own[:2]
    table = put(tmp_path / "log.csv", 'item,annotators,annotations\n1,"Ann1, Ann2","0, 1"\n2,Ann2,1\n')
    assert [worker for _, worker, _ in triples(mh.read(table))] == ["Ann1", "Ann2", "Ann2"]
    broken = put(tmp_path / "broken.csv", 'item,annotators,annotations\n1,"Ann1,Ann2","0,1"\n2,"Ann1,Ann2",1\n')
    with pytest.raises(ValueError, match=r"row 2.*'annotators'.*'annotations'"):
        mh.read(broken)


def test_objects_keyed_by_workers_or_items(tmp_path, capsys):
    path = put(tmp_path / "judges.json", {"gpt": {"q1": "yes", "q2": "no"}, "llama": {"q1": "no", "q2": None}})
    with pytest.raises(ValueError, match=r"'gpt', 'llama' outside and 'q1', 'q2' inside; .*layout='by-worker'"):
        mh.read(path)
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        votes = mh.read(path, layout="by-worker")
    assert triples(votes) == [("q1", "gpt", "yes"), ("q1", "llama", "no"), ("q2", "gpt", "no")]
    with pytest.warns(mh.errors.DataWarning, match="1 row"):
        assert mh.read(path, layout="by-task").workers.tolist() == ["q1", "q2"]
    run(f"aggregate {path} --layout by-worker -q")
    assert '"q1"' in capsys.readouterr().out
    assert "--layout by-worker" in complaint(capsys, f"aggregate {path}")
    with pytest.raises(ValueError, match=r"layout='by-task'.*JSON"):
        mh.read(put(tmp_path / "rows.json", [{"task": 1, "worker": 1, "label": 1}]), layout="by-task")


@pytest.mark.parametrize("orient", ["records", "index", "columns", "list", "split by task"])
def test_frames_written_as_json_are_the_same_log(tmp_path, orient):
    rows = [{"task": "t", "worker": "a", "label": "x"}, {"task": "t", "worker": "b", "label": "y"}]
    forms = {
        "records": rows,
        "index": {str(place): row for place, row in enumerate(rows)},
        "columns": {name: {str(place): row[name] for place, row in enumerate(rows)} for name in rows[0]},
        "list": {name: [row[name] for row in rows] for name in rows[0]},
        "split by task": {"t": [{"worker": "a", "label": "x"}, {"worker": "b", "label": "y"}]},
    }
    path = put(tmp_path / "log.json", forms[orient])
    frame = mh.Annotations.from_frame({name: [row[name] for row in rows] for name in rows[0]})
    assert triples(mh.read(path)) == triples(frame)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085"])
def test_lines_of_json_end_at_newlines_only(tmp_path, mark):
    rows = [{"task": 1, "worker": "a", "label": f"x{mark}y"}, {"task": 1, "worker": "b", "label": "z"}]
    path = put(tmp_path / "log.jsonl", "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    assert mh.read(path).classes.tolist() == [f"x{mark}y", "z"]


def test_a_number_that_is_too_long_is_named_with_its_file(tmp_path):
    path = put(tmp_path / "log.json", '[{"task": ' + "1" * 5000 + "}]")
    with pytest.raises(mh.errors.FileFormatError, match=r"log.json"):
        mh.read(path)


def test_fields_that_are_not_used_may_be_of_any_type(tmp_path):
    rows = [{"task": 1, "worker": "a", "label": "x", "note": 5}, {"task": 1, "worker": "b", "label": "y", "note": "no"}]
    path = put(tmp_path / "log.json", rows)
    assert len(mh.read(path)) == 2
    with pytest.raises(TypeError, match=r"'note'.*5"):
        mh.read(path, label="note")


# ----------------------------------------------------------------------------------------------------------- files


def test_the_format_is_obeyed_whatever_the_ending(tmp_path, capsys):
    rows = "task,worker,label\n1,a,x\n1,b,y\n"
    table = put(tmp_path / "log.dat", rows)
    assert len(mh.read(table, format="csv")) == 2
    run(f"describe {table} --from csv -q")
    capsys.readouterr()
    document = put(tmp_path / "log.txt", [{"task": 1, "worker": "a", "label": "x"}])
    assert len(mh.read(document, format="json")) == 1
    assert len(mh.read(put(tmp_path / "log.export", document.read_text()))) == 1  # recognized by its content
    for ending in (".csv", ".parquet", ".jsonl", ".manifest", ".xml", ".conll"):
        assert ending in complaint(capsys, f"describe {table}")
    assert "say what it is with --from" in complaint(capsys, f"describe {table}")


def test_output_manifests_are_recognized_by_their_ending(tmp_path):
    line = {"source-ref": "s3://a.png", "labels": 1, "labels-metadata": {"type": "groundtruth/x"}}
    path = put(tmp_path / "output.manifest", json.dumps(line))
    for named in ("auto", "sagemaker"):
        with pytest.raises(mh.errors.FileFormatError, match="worker-re"):
            mh.read(path, format=named)


def test_the_kind_of_a_stream_is_inferred(monkeypatch, capsys):
    class Piped:
        buffer = io.BytesIO(b"task,worker,labels\n1,a,x|y\n1,b,x\n")

    monkeypatch.setattr(sys, "stdin", Piped)
    run("describe - --json")
    assert json.loads(capsys.readouterr().out)["n_empty"] == 0


def test_a_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileNotFoundError, match="input"):
        mh.read("-")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_name_their_workers(tmp_path, kind, capsys):
    for worker, label in (("ann", "x"), ("bob", "y")):
        (tmp_path / worker).mkdir()
        rows = (
            f"task,label\n1,{label}\n2,x\n"
            if kind == "csv"
            else [{"task": 1, "label": label}, {"task": 2, "label": "x"}]
        )
        put(tmp_path / worker / f"log.{kind}", rows)
    paths = [tmp_path / worker / f"log.{kind}" for worker in ("ann", "bob")]
    wanted = [(1, "ann", "x"), (1, "bob", "y"), (2, "ann", "x"), (2, "bob", "x")]
    assert triples(mh.read(paths, worker_from_file=True)) == wanted
    with pytest.raises(ValueError, match=r"worker=….*worker_from_file=True"):
        mh.read(paths, worker_from_file=True, worker="label")
    run(f"describe {paths[0]} {paths[1]} --worker-from-file -q")
    assert "workers            2" in capsys.readouterr().out


def test_files_without_annotators_point_to_their_names(tmp_path):
    line = {"text": "a", "label": "INSULT", "answer": "accept", "_input_hash": 1, "_task_hash": 2}
    paths = [put(tmp_path / f"{name}.jsonl", json.dumps(line)) for name in ("ann", "bob")]
    with pytest.raises(ValueError, match="worker_from_file=True"):
        mh.read(paths)
    assert mh.read(paths, worker_from_file=True).workers.tolist() == ["ann", "bob"]


def test_paths_are_read_and_other_things_are_explained(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,label\n1,a,x\n1,b,x\n2,a,y\n")
    assert mh.aggregate(path).labels_.tolist() == mh.aggregate(str(path)).labels_.tolist() == ["x", "y"]
    assert mh.MajorityVote().fit(path).labels_.tolist() == ["x", "y"]
    for odd in ([[0, 1], [1, 1]], 3):
        with pytest.raises(TypeError, match=r"from_dense.*mh\.read"):
            mh.aggregate(odd)


# ------------------------------------------------------------------------------------------------------ wide tables


def test_wide_tables_with_odd_columns_are_rejected_by_name(tmp_path, capsys):
    twice = put(tmp_path / "twice.csv", "item,ann,ann\n1,x,y\n2,x,x\n")
    with pytest.raises(ValueError, match="'ann'"):
        mh.read(twice, layout="wide")
    gold = put(tmp_path / "gold.csv", "item,ann,bob,Gold\n1,x,y,x\n2,x,x,x\n")
    with pytest.raises(ValueError, match=r"'Gold'.*worker=.*'ann'.*'bob'"):
        mh.read(gold, layout="wide")
    assert "name the columns of workers with --worker: 'ann', 'bob'" in complaint(
        capsys, f"describe {gold} --layout wide"
    )
    assert mh.read(gold, layout="wide", worker=["ann", "bob"]).workers.tolist() == ["ann", "bob"]
    assert mh.read(gold, layout="wide", worker=["ann", "Gold"]).workers.tolist() == ["Gold", "ann"]
    with pytest.raises(ValueError, match="'truth'"):
        mh.Annotations.from_dense({"ann": ["x"], "truth": ["y"]})
    with pytest.raises(ValueError, match="column 'cy'"):
        mh.read(gold, layout="wide", worker=["ann", "cy"])


# ------------------------------------------------------------------------------------------------ tables of platforms

HIT = "HITId,WorkerId,AssignmentStatus,Input.a"
UNITS = "_unit_id,_worker_id,_tainted,_trust,topic,mood,why"


def sheet(path: Path, header: str, *rows: str) -> Path:
    return put(path, "\n".join([header, *rows]) + "\n")


def test_rows_that_lack_approve_and_reject_are_read(tmp_path):
    path = sheet(
        tmp_path / "b.csv", f"{HIT},Answer.q,Approve,Reject", "h1,w1,Approved,u,cat", "h1,w2,Approved,u,dog,,no"
    )
    with pytest.warns(mh.errors.DataWarning, match="rejected"):
        assert triples(mh.read(path)) == [("h1", "w1", "cat")]
    broken = sheet(tmp_path / "c.csv", f"{HIT},Answer.q,Approve,Reject", "h1,w1,Approved,u", "h1,w2,Approved,u,dog,,")
    with pytest.raises(mh.errors.FileFormatError, match=r"line 2.*4 fields.*7"):
        mh.read(broken)


def test_ticked_boxes_of_mturk_are_sets(tmp_path, capsys):
    rows = ["h1,w1,Approved,u,a|b", "h1,w2,Approved,u,b", "h2,w1,Approved,v,a", "h2,w2,Approved,v,"]
    path = sheet(tmp_path / "b.csv", f"{HIT},Answer.q", *rows)
    with pytest.warns(mh.errors.DataWarning, match="1 answers.*3 answers"):
        votes = mh.read(path)
    assert triples(votes) == [("h1", "w1", ["a", "b"]), ("h1", "w2", ["b"]), ("h2", "w1", ["a"])]
    with pytest.warns(mh.errors.DataWarning, match="1 answers"):
        assert mh.read(path, kind="categorical").classes.tolist() == ["a", "b"]


def test_kind_sets_is_obeyed_where_combinations_do_not_show_it(tmp_path, capsys):
    path = sheet(tmp_path / "b.csv", f"{HIT},Answer.q", "h1,w1,Approved,u,a|b", "h1,w2,Approved,u,c")
    assert mh.read(path).classes.tolist() == ["a|b", "c"]
    assert mh.read(path, kind="multilabel").labels.tolist() == ["a", "b", "c"]
    run(f"describe {path} --kind multilabel -q")
    assert "labels             3" in capsys.readouterr().out


def test_buttons_with_a_column_each_are_one_question(tmp_path):
    header = f"{HIT},Answer.mood.good,Answer.mood.bad,Answer.tags.x,Answer.tags.y,Answer.on"
    rows = ["h1,w1,Approved,u,true,false,true,true,yes", "h1,w2,Approved,u,false,true,false,true,no"]
    path = sheet(tmp_path / "b.csv", header, *rows, "h2,w1,Approved,v,false,false,false,false,no")
    with pytest.raises(ValueError, match=r"'on'.*'mood'.*'tags'"):
        mh.read(path)
    with pytest.warns(mh.errors.DataWarning, match="1 answers"):
        assert triples(mh.read(path, question="mood")) == [("h1", "w1", "good"), ("h1", "w2", "bad")]
    with pytest.warns(mh.errors.DataWarning, match="1 answers"):
        assert triples(mh.read(path, label="Answer.tags")) == [("h1", "w1", ["x", "y"]), ("h1", "w2", ["y"])]


def test_several_items_of_a_hit_can_be_one_question(tmp_path):
    header = "HITId,WorkerId,AssignmentStatus,Input.text_1,Input.text_2,Answer.ok_1,Answer.ok_2"
    path = sheet(tmp_path / "b.csv", header, "h1,w1,Approved,s,t,yes,no", "h1,w2,Approved,s,t,yes,yes")
    wanted = [("h1 / 1", "w1", "yes"), ("h1 / 1", "w2", "yes"), ("h1 / 2", "w1", "no"), ("h1 / 2", "w2", "yes")]
    assert triples(mh.read(path, question="ok_*")) == wanted
    assert triples(mh.read(path, question="ok_2")) == [("h1", "w1", "no"), ("h1", "w2", "yes")]


def test_a_label_that_is_not_a_number_keeps_a_question_one_of_classes(tmp_path):
    path = sheet(
        tmp_path / "b.csv", f"{HIT},Answer.q", "h1,w1,Approved,u,1", "h1,w2,Approved,u,nan", "h2,w1,Approved,v,inf"
    )
    assert mh.read(path).kind == "categorical"


def test_crowdflower_needs_no_gold_to_have_questions(tmp_path, capsys):
    rows = ["1,7,false,1,pets,good,so", "1,8,false,1,pets,bad,", "2,7,false,1,cars,good,", "2,9,true,1,cars,good,no"]
    path = sheet(tmp_path / "f.csv", UNITS, *rows)
    with pytest.raises(ValueError, match=r"'mood'.*'why'"):
        mh.read(path)
    for named in ({"question": "mood"}, {"label": "mood"}):
        with pytest.warns(mh.errors.DataWarning, match="rejected"):
            assert triples(mh.read(path, **named)) == [("1", "7", "good"), ("1", "8", "bad"), ("2", "7", "good")]
    run(f"describe {path} --label mood -q")
    assert "annotations        3" in capsys.readouterr().out
    assert "name two questions" in complaint(capsys, f"describe {path} --label mood --question why")


def test_ticked_boxes_of_crowdflower_are_sets(tmp_path):
    rows = ['1,7,false,1,pets,"a\nb",', "1,8,false,1,pets,b,", "2,7,false,1,cars,a,"]
    votes = mh.read(sheet(tmp_path / "f.csv", UNITS, *rows))
    assert triples(votes) == [("1", "7", ["a", "b"]), ("1", "8", ["b"]), ("2", "7", ["a"])]


def test_toloka_as_the_site_writes_it(tmp_path):
    header = "INPUT:left\tINPUT:right\tINPUT:doc\tOUTPUT:result\tASSIGNMENT:worker_id\tASSIGNMENT:status"
    rows = ["a\tb\tx\tYES\tw1\tAPPROVED", "\t\t\t\t\t", "a\tb\tx\tNO\tw2\tAPPROVED", "", "a\tc\ty\tNO\tw1\tREJECTED"]
    with pytest.warns(mh.errors.DataWarning, match="1.*2 answers"):
        votes = mh.read(sheet(tmp_path / "t.tsv", header, *rows))
    assert triples(votes) == [("a / b", "w1", "YES"), ("a / b", "w2", "NO")]


#: Real exports: what is asked besides, and how many answers they hold, counted in the file.
COUNTED = {
    "mturk/Batch_short_rows.csv": ("--question Q1", "answers            45"),
    "crowdflower/f_without_gold.csv": ("--label rellist", "answers            60"),
    "toloka/assignments_without_task_id.tsv": ("--question result", "annotations        40"),
    "judges/gpt3-crowd-comparisons.csv": ("", "comparisons        2,139"),
}


@pytest.mark.skipif(not EXPORTS.is_dir(), reason="real exports are not at hand")
@pytest.mark.parametrize("name", COUNTED)
def test_real_tables_are_read_whole(name, capsys):
    asked, counts = COUNTED[name]
    run(f"describe {EXPORTS / name} {asked} -q")
    assert counts in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------------- spelling

MESSY = "task,worker,label\n1,a,Yes\n1,b,yes \n1,c,Yes\n2,a,no\n2,b,NO\n2,c,no\n3,a,may  be\n3,b,Maybe\n"


def test_labels_that_differ_by_case_or_blanks_are_named_and_can_be_merged(tmp_path, capsys):
    path = put(tmp_path / "log.csv", MESSY)
    with pytest.warns(mh.errors.DataWarning, match="'NO'.*'no'.*'Yes'.*'yes '.*fold_labels=True"):
        votes = mh.read(path)
    assert votes.n_classes == 6
    merged = mh.read(path, fold_labels=True)
    assert merged.classes.tolist() == ["Maybe", "Yes", "may be", "no"]
    assert merged.describe().agreement > votes.describe().agreement
    run(f"describe {path} -q")
    out, err = capsys.readouterr()
    assert "'yes ' 12.5%" in out
    assert "--fold-labels" in err
    run(f"describe {path} --fold-labels -q")
    assert "classes            4" in capsys.readouterr().out
    votes = mh.read(path, fold_labels=True, classes=["YES", "No", "maybe"], abstain="MAY BE")
    assert votes.classes.tolist() == ["YES", "No", "maybe"]
    assert votes.n_annotations == 8


def test_folding_is_rejected_where_it_has_no_meaning(tmp_path):
    path = put(tmp_path / "log.csv", "task,worker,value\n1,a,2\n1,b,3\n")
    with pytest.raises(TypeError, match="fold_labels=…"):
        mh.read(path, fold_labels=True)


def test_workers_that_look_alike_are_hinted_at(tmp_path, capsys):
    names = ["ann", "ann ", "\u200bann", "\u0430nn", "Ann", "bob"]
    log = {"task": [1] * 6, "worker": names, "label": ["x"] * 6}
    found = mh.Annotations.from_frame(log).describe()
    assert found.n_workers == 6
    assert [sorted(group) for group in found.look_alikes] == [sorted(names[:5])]
    assert "look-alikes        workers 'Ann', 'ann', 'ann '" in str(found)
    assert "'\\u0430nn'" in str(found) or "and 1 more" in str(found) or "\\u200bann" in str(found)
    assert "look-alikes" not in str(mh.Annotations.from_frame(log | {"worker": [*"abcdef"]}).describe())


def test_repeats_that_count_are_in_the_summary(tmp_path, capsys):
    path = put(tmp_path / "log.csv", "task,worker,label\n1,a,x\n1,a,x\n1,b,y\n")
    run(f"aggregate {path} -o {tmp_path / 'found.csv'}")
    assert "repeats  1 further answer by a worker to the same task, all counted (--repeats first or last)" in (
        capsys.readouterr().out
    )
    run(f"aggregate {path} -o {tmp_path / 'found.csv'} --repeats first")
    assert "further answer" not in capsys.readouterr().out
    for asked in ("", f"--shards {tmp_path / 'shards'}"):
        run(f"aggregate {path} --json -o {tmp_path / 'found.csv'} {asked}")
        assert json.loads(capsys.readouterr().out)["n_repeats"] == 1


# ------------------------------------------------------------------------------------------- a column for each label

FLAGS = "id,text,rater_id,joy,anger,neutral\n1,so,a,1,0,0\n1,so,b,1,1,0\n2,ok,a,0,0,0\n2,ok,b,0,0,1\n"


def test_columns_of_labels_are_sets(tmp_path, capsys):
    path = put(tmp_path / "emotions.csv", FLAGS)
    votes = mh.read(path, kind="multilabel", labels=["joy", "anger", "neutral"])
    assert triples(votes) == [(1, "a", ["joy"]), (1, "b", ["joy", "anger"]), (2, "a", []), (2, "b", ["neutral"])]
    assert votes.labels.tolist() == ["joy", "anger", "neutral"]  # in the order of the columns
    frame = read_table(path)
    assert mh.MultiLabels.from_frame(frame, labels=["joy", "anger", "neutral"]).n_annotations == 4
    run(f"describe {path} --kind multilabel --columns labels=joy,anger,neutral -q")
    assert "answers            4, 1 of them empty" in capsys.readouterr().out
    assert "item" in complaint(capsys, f"describe {path}")
    for odd, shown in (("2", "'2'"), ("", "no value")):
        put(path, FLAGS.replace("1,so,a,1", f"1,so,a,{odd}"))
        with pytest.raises(ValueError, match=f"'joy'.*{shown}.*row 0.*1.*0"):
            mh.read(path, kind="multilabel", labels=["joy", "anger", "neutral"])


# ------------------------------------------------------------------------------------------------ winners and dates


def test_an_order_is_read_of_files_that_name_their_workers(tmp_path, capsys):
    for worker in ("ann", "bob"):
        put(tmp_path / f"{worker}.log", "id,label,at\n1,x,1\n2,y,2\n3,x,3\n")
    paths = f"{tmp_path / 'ann.log'} {tmp_path / 'bob.log'}"
    run(f"audit {paths} --order at --worker-from-file --from csv -q -o {tmp_path / 'found.csv'}")
    assert [row["worker"] for row in rows(tmp_path / "found.csv")] == ["ann", "bob"]


def test_two_names_for_a_worker_are_rejected(tmp_path):
    path = put(tmp_path / "judges.json", {"gpt": {"q1": "yes"}, "llama": {"q1": "no"}})
    with pytest.raises(ValueError, match=r"layout='by-worker'.*worker_from_file=True"):
        mh.read(path, layout="by-worker", worker_from_file=True)


@pytest.mark.parametrize(
    ("one", "two", "tie"),
    [
        ("A", "B", "tie"),
        ("a", "b", "Tie"),
        ("1", "2", "1.5"),
        ("model_a", "model_b", "tie (bothbad)"),
        ("output_1", "output_2", "draw"),
        ("[[A]]", "[[B]]", "tie"),
        ("Left", "RIGHT", "equal"),
    ],
)
def test_winners_are_called_by_the_conventions_of_judges(tmp_path, one, two, tie):
    rows = f"model_a,model_b,winner,judge\nx,y,{one},j\nx,y,{two},k\ny,z,{tie},j\n"
    games = mh.read(put(tmp_path / "games.csv", rows))
    assert games.to_frame().column("winner").to_pylist() == ["x", "tie", "y"]


def test_winners_that_may_mean_either_side_are_mapped_by_the_caller(tmp_path, capsys):
    path = put(tmp_path / "games.csv", "model_a,model_b,winner\nx,y,0\nx,y,1\ny,z,1\n")
    with pytest.raises(ValueError, match=r"0,.*1,.*winners=…"):
        mh.read(path)
    games = mh.read(path, kind="pairwise", winners={0: "left", 1: "right"})
    assert sorted(games.to_frame().column("winner").to_pylist()) == ["x", "y", "z"]
    run(f"describe {path} --winners 0=left,1=right -q")
    capsys.readouterr()
    assert "--winners" in complaint(capsys, f"describe {path}")
    with pytest.raises(ValueError, match=r"winners\['0'\] must be"):
        mh.read(path, kind="pairwise", winners={0: "up"})
    named = mh.Comparisons.from_arrays(["a", "b"], ["b", "a"], ["a", "a"])  # an item's name means the item
    assert named.to_frame().column("winner").to_pylist() == ["a", "a"]


DATED = "task,worker,label,Date\n"


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("9.11.2025", "30.11.2025"),
        ("11/09/2025 11:00 AM", "11/30/2025 1:00 PM"),
        ("2025/11/09", "2025/11/30"),
        ("30-11-2025 09:00", "30-11-2025 10:30:15"),
        ("Sat Oct 07 03:19:21 PDT 2017", "Sat Dec 09 03:19:21 PST 2017"),
        ("05.05.2025", "06.06.2025"),
    ],
)
def test_dates_whose_order_is_clear_are_read(first, later):
    from manyhands.categorical.timestamps import as_numbers

    low, high = as_numbers([first, later], "order")
    assert low < high


def test_dates_that_can_be_read_in_two_ways_are_asked_about(tmp_path, capsys):
    rows = "".join(
        f"{task},{worker},{label},{1 + task:02}.11.2025\n" for task in range(6) for worker, label in ("ax", "by")
    )
    path = put(tmp_path / "log.csv", DATED + rows)
    said = complaint(capsys, f"audit {path} --order Date")
    assert "'01.11.2025', in which the day or the month may come first" in said
    assert "--dates day-first" in said
    run(f"audit {path} --order Date --dates day-first -q")
    capsys.readouterr()
    put(path, DATED + "1,a,x,31.1.2025\n1,b,y,1.31.2025\n")
    assert "some dates must have the day first and others the month" in complaint(capsys, f"audit {path} --order Date")
    put(path, DATED + "1,a,x,soon\n1,b,y,later\n")
    assert "must hold numbers, dates or times, not 'soon'; write times as" in complaint(
        capsys, f"audit {path} --order Date"
    )
    put(path, DATED + "1,a,x,31.31.2025\n1,b,y,31.1.2025\n")
    assert "the month" in complaint(capsys, f"audit {path} --order Date")


# ------------------------------------------------------------------------------------------------------- accounting


def reported(caught: Any) -> int:
    """Rows and answers that warnings report as dropped."""
    total = 0
    for warning in caught:
        for part in re.findall(r"(?:dropped|[Ss]et aside) ([^;]*)", str(warning.message)):
            total += sum(
                int(count.replace(",", "")) for count in re.findall(r"(\d[\d,]*) (?:rows?|[a-z ]*answers?)", part)
            )
    return total


def logs(seed: int) -> dict[str, tuple[str, str, int]]:
    """Logs of random answers, some of them blank, rejected or repeated: content, question, and how many there are."""
    rng = random.Random(seed)
    rows = [
        (f"t{rng.randrange(6)}", f"w{rng.randrange(4)}", rng.choice(["x", "y", "x|y", "", ""]), rng.random() < 0.2)
        for _ in range(40)
    ]
    plain = [(task, worker, label) for task, worker, label, _ in rows]
    mturk = [f"{t},{w},{'Rejected' if no else 'Approved'},u,{said}" for t, w, said, no in rows]
    units = [f'{t},{w},{str(no).lower()},1,z,"{said}",'.replace("|", "\n") for t, w, said, no in rows]
    toloka = [f"{t}\t{said}\t{w}\t{'REJECTED' if no else 'APPROVED'}" for t, w, said, no in rows]
    workers = {
        task: [(w, said) for t, w, said in plain if t == task] for task in sorted({task for task, _, _ in plain})
    }
    several = [
        {"item": task, "annotators": [w for w, _ in given], "labels": [said or None for _, said in given]}
        for task, given in workers.items()
    ]
    n = len(rows)
    return {
        "log.csv": ("\n".join(["task,worker,label", *map(",".join, plain)]), "", n),
        "log.tsv": ("\n".join(["task\tworker\tlabel", *map("\t".join, plain)]), "", n),
        "log.jsonl": (
            "\n".join(json.dumps(dict(zip(("id", "user", "class"), row, strict=True))) for row in plain),
            "",
            n,
        ),
        "lists.json": (json.dumps([*several, {"item": "t9", "annotators": [], "labels": []}]), "", n + 1),
        "mturk.csv": ("\n".join([f"{HIT},Answer.q", *mturk]), "q", n),
        "crowdflower.csv": ("\n".join([UNITS, *units]), "mood", n),
        "toloka.tsv": (
            "\n\t\t\t\n".join(["INPUT:a\tOUTPUT:q\tASSIGNMENT:worker_id\tASSIGNMENT:status", *toloka]),
            "q",
            n,
        ),
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", logs(0))
def test_every_answer_is_in_the_table_or_reported(tmp_path, name, seed):
    content, question, n = logs(seed)[name]
    path = put(tmp_path / name, content + "\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        votes = mh.read(path, question=question or None)
    assert votes.n_annotations + reported(caught) == n


@pytest.mark.parametrize(("n_singles", "is_warned"), [(5, True), (40, False)])
def test_classes_that_look_like_sets_are_pointed_out(n_singles: int, is_warned: bool) -> None:
    """Many combinations of few labels are sets; names that merely hold a bar are not."""
    names = [f"a{i % n_singles}|b{i // n_singles % n_singles}" for i in range(25)]
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        mh.Annotations.from_arrays(list(range(25)) * 2, ["u"] * 25 + ["v"] * 25, names * 2)
    assert any("looks like sets of labels" in str(note.message) for note in notes) == is_warned


def test_answers_inside_objects_point_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews = [{"by": "ann", "verdict": "ok"}, {"by": "bob", "verdict": "bad"}]
    path = put(tmp_path / "tool.json", [{"doc": "d1", "reviews": reviews}, {"doc": "d2", "reviews": reviews}])
    with pytest.raises(mh.errors.MissingColumnError, match="'reviews' holds objects") as error:
        mh.read(path, task="doc")
    assert error.value.parameter == "worker"
    assert "Your tool is not listed" in complaint(capsys, "aggregate", path, "--task", "doc")
    flat = put(tmp_path / "flat.json", [{"doc": "d1", "verdict": "ok"}])
    with pytest.raises(mh.errors.MissingColumnError) as error:
        mh.read(flat, task="doc")
    assert "holds objects" not in str(error.value)
