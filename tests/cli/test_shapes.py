"""How results are printed: alike in every command, as rows come, and what shells are told."""

import csv
import io
import json
import shutil
import subprocess

import pytest
from commands import complaint, run

import manyhands as mh
from manyhands.cli import compare, main
from manyhands.cli.console import Growing

#: A command line for each command with results, without what says how to print them.
COMMANDS = {
    "aggregate": "aggregate log.csv --method majority",
    "workers": "workers log.csv --method majority",
    "audit": "audit log.csv",
    "explain": "explain log.csv --id t290 --method majority",
    "report": "report log.csv --method majority --no-audit -o report.html",
    "describe": "describe log.csv",
    "agreement": "agreement log.csv",
    "compare": "compare log.csv --methods majority,agreement --held-out 0",
    "next": "next log.csv --budget 7 --ask all --method majority",
    "fairness": "fairness log.csv --attribute groups.csv --positive c1 --method majority",
    "import": "import export.json",
    "simulate": "simulate --tasks 5 --workers 5 --classes 2 -o drawn.csv",
    "shards": "shards describe log.shards",
    "bench": "bench --annotations 1000 --workers 20 --runs 1 --passes 2",
}


@pytest.fixture
def folder(log):
    rows = [{"id": 1, "text": "a", "label": ["x"]}, {"id": 2, "text": "b", "label": ["y"]}]
    (log / "export.json").write_text(json.dumps(rows))
    sides = [
        f"{row['task']},{'ab'[i % 2]}"
        for i, row in enumerate(csv.DictReader((log / "truth.csv").read_text().splitlines()))
    ]
    (log / "groups.csv").write_text("\n".join(["task,side", *sides]))
    return log


@pytest.mark.parametrize(("name", "file"), [("next", "batch.csv"), ("fairness", "gaps.csv"), ("workers", "w.csv")])
def test_csv_on_stdout_is_what_the_file_has(name, file, folder, capfd):
    run(COMMANDS[name], "--format csv -q")
    out = capfd.readouterr().out
    run(COMMANDS[name], "-q -o", file)
    capfd.readouterr()
    assert out == (folder / file).read_text()
    assert "choose one" in complaint(capfd, COMMANDS[name], "--format csv -o", file)
    found = list(csv.DictReader(io.StringIO(out)))
    assert found
    assert all(value is not None for row in found for value in row.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_csv_and_json(name, folder, capfd):
    if name == "shards":
        pytest.importorskip("duckdb")
        mh.read("log.csv", out_of_core="log.shards")
    run(COMMANDS[name], "--format json")
    found = json.loads(capfd.readouterr().out)
    assert found["manyhands"] == mh.__version__
    run(COMMANDS[name], "--json")
    assert set(json.loads(capfd.readouterr().out)) == set(found)
    if name == "simulate":
        assert "choose one" in complaint(capfd, COMMANDS[name], "--format csv")
        return
    run(COMMANDS[name], "--format csv -q")
    out, err = capfd.readouterr()
    head, *rows = list(csv.reader(io.StringIO(out)))
    assert rows
    assert {len(row) for row in rows} == {len(head)}
    assert err == ""
    run(COMMANDS[name], "--format csv")
    assert len(list(csv.reader(io.StringIO(capfd.readouterr().out)))) == len(rows) + 1  # a summary goes to stderr
    run(COMMANDS[name], "--format table")
    table = capfd.readouterr().out
    assert table
    assert table.splitlines()[0] != out.splitlines()[0]


def test_what_a_log_is_has_another_option(folder, capsys):
    assert "--from prodigy" in complaint(capsys, "aggregate export.json --format prodigy")
    assert "not of format 'prodigy'" in complaint(capsys, "aggregate export.json --from prodigy")
    assert "not allowed with" in complaint(capsys, "describe log.csv --json --format csv")


def test_csv_and_a_file_cannot_both_be_asked_for(folder, capsys):
    assert "choose one" in complaint(capsys, "aggregate log.csv --format csv -o labels.csv")
    assert not (folder / "labels.csv").exists()


def test_numbers_in_csv_have_all_digits(folder, crowd, capsys):
    run("agreement log.csv --format csv -q")
    rows = {row["measure"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert float(rows["fleiss-kappa"]["value"]) == mh.agreement.fleiss_kappa(crowd.log).value


def test_rows_of_a_comparison_are_printed_as_they_finish(folder, capsys):
    # The last method refuses three classes: what finished before it has been said by then.
    assert main(["compare", "log.csv", "--methods", "majority,agreement,meta-learner", "--held-out", "0"]) == 2
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines() if " ms" in line or " µs" in line] == ["majority", "agreement"]
    assert "two classes" in err


def test_large_logs_are_compared_by_fewer_methods(folder, capsys, monkeypatch):
    monkeypatch.setattr(compare, "LARGE", 1000)
    run("compare log.csv --held-out 0 --format csv --set max_iter=3")
    out, err = capsys.readouterr()
    assert [row["method"] for row in csv.DictReader(io.StringIO(out))] == list(compare.COMPARED_LARGE)
    assert "--methods consensus,hierarchical" in err
    run("compare log.csv --held-out 0 --format csv --methods majority")
    assert "as the log is large" not in capsys.readouterr().err


def test_growing_tables_keep_their_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    table = Growing(("name", "first", "a long second"), [["long name"], [9.999], [9.999]])
    table.row(("a", 0.5, 1.25))
    before = capsys.readouterr().out
    assert before.splitlines()[-1].split() == ["a", "0.500"]
    table.row(("long name", 12.5, 2.0))
    table.finish()
    lines = (before + capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 24
    assert [line.split() for line in lines if "1.250" in line or "2.000" in line] == [
        ["a", "1.250"],
        ["long", "name", "2.000"],
    ]


def test_help_is_in_groups(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    places = [text.index(part) for part in ("\nanswers:", "\n  aggregate ", "\nthe crowd:", "\n  describe ", "\nlogs:")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("ag", ["aggregate", "agreement"]),
        ("aggregate log.csv --method dawid-skene-s", ["dawid-skene-spectral"]),
        ("aggregate --outp", ["--output"]),
        ("describe log.csv --format j", ["json"]),
        ("completion z", ["zsh"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_complete(shell, words, wanted, tmp_path, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    run("completion", shell)
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    parts = ["manyhands", *words.split(" ")]
    ask = {
        "bash": f"source {script}; COMP_WORDS=({' '.join(parts)}); COMP_CWORD={len(parts) - 1}; _manyhands; "
        'printf "%s\\n" "${COMPREPLY[@]}"',
        "fish": f"source {script}; complete -C '{' '.join(parts)}'",
    }[shell]
    done = subprocess.run([shell, "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == wanted
    assert done.stderr == ""


def test_the_script_for_zsh_is_sound(tmp_path, capsys):
    run("completion zsh")
    text = capsys.readouterr().out
    assert "--method[how to aggregate]:value:(consensus " in text
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here")
    (tmp_path / "_manyhands").write_text(text)
    subprocess.run(["zsh", "-n", tmp_path / "_manyhands"], check=True)
    assert "leave out --format" in complaint(capsys, "completion zsh --json")
