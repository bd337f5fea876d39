"""Bad and odd logs of numbers, orders, comparisons, rankings, sameness and sets on the command line."""

import json
import math

import pytest
from commands import complaint, rows, run

NUMBERS, GAMES = "task,worker,value", "left,right,winner,worker"
TAGS = "sequence,position,worker,label"
RANKS, PAIRS, GRADES = "task,item,rank,worker", "left,right,same,worker", "task,worker,label"
#: What is refused: a header, rows, what is asked besides, and what the one line says.
REFUSED = {
    "infinite value": (NUMBERS, "a,1,1 a,2,inf", "", "'value' holds inf at row 1; values must be finite"),
    "text for a number": (NUMBERS, "a,1,1 a,2,many", "", "invalid value 'many'"),
    "no value at all": (NUMBERS, "a,1, a,2,nan", "", "missing (null, NaN or empty) in 2 of 2 rows, first at row 0"),
    "nobody rated": ("task,value", "a,1 b,2", "--kind numeric", "name it with --worker"),
    "an item beside itself": (GAMES, "a,b,a,1 b,b,b,2", "", "item 'b' is compared with itself in 1 of 2 rows"),
    "a winner of another pair": (GAMES, "a,b,c,1 b,c,c,2", "", "'c' at row 0"),
    "a winner on no side": (GAMES, "a,b,z,1 b,c,c,2", "", "'z'"),
    "one item only": (GAMES, "a,,a,1 b,c,c,2", "", "column 'right' is missing (null, NaN or empty) in 1 of 2 rows"),
    "weight NaN": (
        GAMES + ",w",
        "a,b,a,1,nan b,c,c,2,1",
        "--columns weight=w",
        "'w' holds nan at row 0",
    ),
    "infinite weight": (GAMES + ",w", "a,b,a,1,inf b,c,c,2,1", "--columns weight=w", "'w' holds inf at row 0"),
    "no winner at all": (GAMES, "a,b,,1 b,c,,2", "", "missing (null, NaN or empty) in 2 of 2 rows"),
    "ranked twice": (RANKS, "1,a,1,x 1,a,2,x", "", "item 'a' is ranked twice"),
    "one place for two": (RANKS, "1,a,1,x 1,b,1,x", "", "(row 1)"),
    "infinite rank": (RANKS, "1,a,1,x 1,b,inf,x", "", "'rank' holds inf at row 1"),
    "no rank": (RANKS, "1,a,1,x 1,b,,x", "", "'rank' is missing at row 1"),
    "same as itself": (PAIRS, "a,a,1,x a,b,0,x", "", "item 'a'"),
    "neither same nor not": (PAIRS, "a,b,maybe,x a,c,0,x", "", "contains 'maybe' at row 0"),
    "names without an order": (GRADES, "a,1,good a,2,bad", "--ordered", "needs the order of 'bad', 'good'"),
    "a class not named": (GRADES, "a,1,hi a,2,low", "--ordered --classes low,high", "'hi' is not among the given"),
    "a token without a tag": (
        TAGS,
        "a,0,x,B a,1,x,O a,0,y,B",
        "",
        "--gaps unsaid",
    ),
    "gaps of other kinds": (
        NUMBERS,
        "a,1,1 a,2,2",
        "--gaps unsaid",
        "pass --kind sequences",
    ),
}
#: What is taken, though it is odd: a header, rows, what is asked besides, the answers, and what is warned of.
TAKEN = {
    "missing values": (NUMBERS, "a,1,1 a,2, b,1,nan b,2,3 b,3,4 c,2,5 c,3,6", "", 3, "set aside 2 rows without a"),
    "one rating a task": (NUMBERS, "a,1,1 b,2,2 c,3,4", "", 3, "No task has more than one rating"),
    "one task": (NUMBERS, "a,1,1 a,2,2", "", 1, ""),
    "the largest numbers": (NUMBERS, "a,1,1e308 a,2,-1e308 b,1,1e308 b,2,1", "", 2, ""),
    "a constant worker": (NUMBERS, "a,1,5 a,2,1 a,3,2 b,1,5 b,2,4 b,3,5 c,1,5 c,2,8 c,3,9", "", 3, ""),
    "nobody differs": (NUMBERS, "a,1,5 a,2,5 b,1,5 b,2,5 c,1,5 c,2,5", "", 3, ""),
    "contradictions": (GAMES, "a,b,a,1 a,b,b,1 b,c,c,1 c,a,a,1", "", 3, ""),
    "names on one side": (GAMES, "a,x,a,1 b,x,x,2 a,y,a,1 b,y,b,1", "", 4, ""),
    "no winner": (GAMES, "a,b,,1 b,c,c,2", "", 2, "set aside 1 row without a winner"),
    "apart": (GAMES, "a,b,a,1 c,d,c,2", "", 4, "2 groups"),
    "only ties": (GAMES, "a,b,tie,1 b,c,tie,2", "", 3, ""),
    "rankings of one": (RANKS, "1,a,1,x 2,b,1,x", "", 2, "2 groups"),
    "same and not": (PAIRS, "a,b,1,x a,b,0,x a,c,0,y b,c,1,y", "", 3, ""),
    "no answer": (PAIRS, "a,b,,x a,c,0,x b,c,1,x", "", 2 + 1, "set aside 1 row without an answer"),
    "empty sets": ("task,worker,labels", "a,1,x|y a,2, b,1,x", "--kind multilabel", 2, ""),
    "one set a task": (
        "task,worker,labels",
        "a,1,x|y b,2,x",
        "--kind multilabel",
        2,
        "No task has labels of two workers",
    ),
    "one grade a task": (GRADES, "a,1,1 b,2,2 c,3,3", "--ordered", 3, "No task has labels of two workers"),
    "gaps that are none": (TAGS, "a,0,x,B a,1,x,O a,0,y,B", "--gaps unsaid", 2, "not asked about"),
    "other separators": ("task,worker,labels", "a,1,x+y a,2,y b,1,x", "--sep +", 2, ""),
    "a constant grader": (GRADES, "a,1,1 a,2,2 b,1,1 b,2,3 c,1,1 c,2,1", "--ordered", 3, ""),
}


def write(folder, header, lines):
    (folder / "log.csv").write_text("\n".join([header, *lines.split(" ")]) + "\n")


@pytest.mark.parametrize("name", REFUSED)
def test_bad_logs_are_refused_in_one_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    header, lines, asked, told = REFUSED[name]
    write(tmp_path, header, lines)
    assert told in complaint(capsys, "aggregate log.csv -o found.csv", asked)
    assert not (tmp_path / "found.csv").exists()


@pytest.mark.parametrize("name", TAKEN)
def test_odd_logs_have_finite_answers(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    header, lines, asked, n, told = TAKEN[name]
    write(tmp_path, header, lines)
    run("aggregate log.csv -q -o found.csv", asked)
    err = capsys.readouterr().err
    assert told in err
    assert all(line.startswith("manyhands: warning: ") for line in err.splitlines())
    assert "encountered" not in err  # what NumPy says is not for users
    found = rows("found.csv")
    assert len(found) == n
    numbers = {"value", "score", "error", "low", "high", "confidence"}
    assert all(math.isfinite(float(row[column])) for row in found for column in numbers & set(row))


@pytest.mark.parametrize("command", ["compare", "audit"])
def test_what_is_for_classes_says_so(command, tmp_path, capsys):
    write(tmp_path, GAMES, "a,b,a,1 b,c,c,2")
    assert f"{command} is for answers that are classes; the log holds pairwise answers" in complaint(
        capsys, command, tmp_path / "log.csv"
    )


def test_agreement_of_spans(tmp_path, capsys):
    write(tmp_path, "document,start,end,worker,tag", "a,0,2,x,T a,0,2,y,T b,0,2,x,T b,0,3,y,T")
    run("agreement", tmp_path / "log.csv", "--json")
    found = json.loads(capsys.readouterr().out)["agreement"]
    assert [found[name]["value"] for name in ("spans", "spans-1-off")] == [0.5, 1.0]
