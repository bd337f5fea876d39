"""No file is lost: neither by encoding out of core, nor by outputs, nor by two processes at once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shard_logs import write_shards

import manyhands as mh
from manyhands._base import atomic
from manyhands._base.write import write_table
from manyhands.categorical.shards.claim import Claim, write_manifest
from manyhands.categorical.shards.directory import open_directory
from manyhands.categorical.shards.votes import open_shards
from manyhands.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")

LOG = {"task": [1, 1, 2, 2], "worker": ["a", "b", "a", "b"], "label": ["x", "x", "y", "x"]}


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their relative names."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def encoders(log: Path) -> dict[str, Any]:
    """All ways to write shards to a directory."""
    return {
        "read": lambda path: mh.read(log, out_of_core=path),
        "batches": lambda path: mh.Annotations.from_batches([LOG], out_of_core=path),
        "simulate": lambda path: mh.simulate(20, 4, 2, out_of_core=path),
        "command": lambda path: main(["describe", str(log), "--shards", str(path), "-q"]),
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    write_table(pa.table(LOG), path)
    return path


# ---------------------------------------------------------------------------------------------------- out of core

FOREIGN = {
    "journal/a.md": "dear",
    "monday.tasks": "milk",
    "00000.shard": "a shard of glass",
    "names.mh": "mh = Mary and Henry",
    "manifest.json": '{"name": "a web application"}',
    "spill.txt": "spilt milk",
    ".part-list": "parts",
    "data-0123456789abcdef0123456789abcdef/x": "x",
}


@pytest.mark.parametrize("how", ["read", "batches", "simulate", "command"])
@pytest.mark.parametrize("name", FOREIGN)
def test_encoding_deletes_no_foreign_file(
    tmp_path: Path, log: Path, how: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    (notes / name).parent.mkdir(parents=True)
    (notes / name).write_text(FOREIGN[name])
    top = name.split("/")[0]
    if how == "command":
        assert encoders(log)[how](notes) == 2
        assert top in capsys.readouterr().err
    else:
        with pytest.raises((FileExistsError, mh.errors.FileFormatError), match=top.replace(".", r"\.")):
            encoders(log)[how](notes)
    assert content(notes) == {name: FOREIGN[name].encode()}


@pytest.mark.parametrize("how", ["read", "batches", "simulate"])
def test_encoding_deletes_no_shards_of_another_log(tmp_path: Path, log: Path, how: str) -> None:
    write_shards(mh.simulate(30, 5, 3, seed=1).log, tmp_path / "shards")
    before = content(tmp_path / "shards")
    with pytest.raises(FileExistsError, match="shards"):
        encoders(log)[how](tmp_path / "shards")
    assert content(tmp_path / "shards") == before


def test_what_a_killed_encoder_left_is_deleted_by_name_only(tmp_path: Path) -> None:
    path = tmp_path / "shards"
    left = path / f"data-{'0' * 32}"
    left.mkdir(parents=True)
    (left / "00000.shard").write_text("half")
    write_manifest(path, {"unfinished": left.name})
    with pytest.raises(FileNotFoundError, match="finished"):
        open_shards(path)
    found: Any = mh.Annotations.from_batches([LOG], out_of_core=path)
    assert found.in_memory() == mh.Annotations.from_frame(LOG)
    assert sorted(entry.name for entry in path.iterdir()) == sorted([open_directory(path).folder.name, "manifest.json"])
    # With a file of the user's among it, nothing is touched.
    other = tmp_path / "other"
    other.mkdir()
    write_manifest(other, {"unfinished": left.name})
    (other / "thesis.tex").write_text("precious")
    before = content(other)
    with pytest.raises(FileExistsError, match=r"thesis\.tex"):
        mh.Annotations.from_batches([LOG], out_of_core=other)
    assert content(other) == before


@pytest.mark.parametrize("folder", ["..", "/etc", "data-0", "../data-" + "0" * 32, 7, None])
def test_a_crafted_manifest_names_no_other_folder(tmp_path: Path, folder: Any) -> None:
    for state in ("unfinished", "folder"):
        write_manifest(tmp_path, {state: folder})
        before = content(tmp_path)
        with pytest.raises(FileExistsError, match=r"manifest\.json"):
            mh.Annotations.from_batches([LOG], out_of_core=tmp_path)
        with pytest.raises(mh.errors.FileFormatError, match=r"manifest\.json"):
            open_shards(tmp_path)
        assert content(tmp_path) == before


def test_a_failed_encoding_leaves_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing"):
        mh.Annotations.from_batches([LOG, LOG | {"worker": [None, "b", "a", "b"]}], out_of_core=tmp_path / "shards")
    assert not list((tmp_path / "shards").iterdir())


def test_a_second_encoder_is_rejected_or_waits(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "shards"
    with Claim(path) as claim:
        (claim.folder / "00000.shard").write_text("being written")
        before = content(path)
        for how in ("batches", "simulate"):
            with pytest.raises(FileExistsError, match="writing"):
                encoders(log)[how](path)
        code = f"import manyhands as mh; print(mh.read({str(log)!r}, out_of_core={str(path)!r}).n_tasks)"
        command = [sys.executable, "-W", "always", "-u", "-c", code]
        second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        assert "waiting until it has finished" in second.stderr.readline()
        assert content(path) == before
    out, _ = second.communicate(timeout=60)
    assert out == "2\n"
    assert second.returncode == 0


def test_processes_that_encode_one_log_at_once_all_answer(tmp_path: Path, log: Path) -> None:
    code = f"import manyhands as mh; print(mh.read({str(log)!r}, out_of_core={str(tmp_path / 'shards')!r}).n_tasks)"
    runs = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE) for _ in range(4)]
    assert [run.communicate(timeout=120)[0] for run in runs] == [b"2\n"] * 4


# ------------------------------------------------------------------------------------------------------ manifests


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    write_shards(mh.simulate(30, 5, 3, seed=1, ids="str").log, tmp_path / "shards", n_shards=2)
    return tmp_path / "shards"


def test_a_manifest_that_was_changed_is_rejected(shards: Path) -> None:
    path = shards / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"numbered": false', '"numbered": true'))
    with pytest.raises(mh.errors.FileFormatError, match="not what was written"):
        open_shards(shards)


def test_wrong_types_in_a_manifest_are_named(shards: Path) -> None:
    path = shards / "manifest.json"
    sound = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("format", "version", "checksum")}
    for wrong in (None, True, -1, 1.5, "1", [], {}, 2**70):
        for name in sound:
            if name == "source" and wrong in (None, "1"):
                continue
            if wrong == "1" and name == "names":
                continue
            if wrong is True and name in ("numbered", "weighted"):
                continue
            if wrong == [] and name == "shards":
                continue
            write_manifest(shards, sound | {name: wrong})
            with pytest.raises(mh.errors.FileFormatError, match=r"manifest\.json"):
                open_shards(shards)
        for name in sound["shards"][0]:
            if wrong == "1" and name == "names":
                continue
            first = sound["shards"][0] | {name: wrong}
            write_manifest(shards, sound | {"shards": [first, *sound["shards"][1:]]})
            with pytest.raises(mh.errors.FileFormatError, match=r"shards\[0\]"):
                open_shards(shards)
    write_manifest(shards, sound)
    assert open_shards(shards).n_tasks == 30


def test_shards_of_version_1_can_be_read(shards: Path) -> None:
    wanted = open_shards(shards).in_memory()
    manifest = json.loads((shards / "manifest.json").read_text())
    folder = shards / manifest.pop("folder")
    for path in folder.iterdir():
        path.rename(shards / path.name)
    del manifest["checksum"]
    (shards / "manifest.json").write_text(json.dumps(manifest | {"version": 1}))
    assert open_shards(shards).in_memory() == wanted
    manifest["n_tasks"] = "many"
    (shards / "manifest.json").write_text(json.dumps(manifest | {"version": 1}))
    with pytest.raises(mh.errors.FileFormatError, match="n_tasks"):
        open_shards(shards)


# ---------------------------------------------------------------------------------------------------- large ids


@pytest.mark.parametrize("role", ["task", "worker", "label"])
def test_ids_of_all_64_bits_are_encoded_as_in_memory(tmp_path: Path, role: str) -> None:
    hashes = pa.array(np.array([2**64 - 1, 2**63, 5, 2**63], np.uint64))
    table = pa.table(LOG | {role: hashes})
    pq.write_table(table, tmp_path / "log.parquet")
    wanted = mh.read(tmp_path / "log.parquet")
    found: Any = mh.read(tmp_path / "log.parquet", out_of_core=tmp_path / "shards")
    assert found.in_memory() == wanted
    batches: Any = mh.Annotations.from_batches([table.slice(2, 1), table], out_of_core=tmp_path / "other")
    assert batches.tasks.tolist() == wanted.tasks.tolist()


def test_ids_that_do_not_fit_those_before_are_named(tmp_path: Path) -> None:
    large = LOG | {"task": np.array([2**63, 1, 2, 3], np.uint64)}
    with pytest.raises(TypeError, match="'task'"):
        mh.Annotations.from_batches([LOG, large], out_of_core=tmp_path)


# --------------------------------------------------------------------------------------------------------- outputs


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of more tasks than a page holds, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_table(mh.simulate(600, 8, 2, labels_per_task=2, seed=1).log.to_frame(), "log-tasks.csv")
    return tmp_path / "log-tasks.csv"


def test_a_report_does_not_overwrite_its_input(wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = wide.read_bytes()
    command = ["report", "log-tasks.csv", "--no-audit", "-q", "-o"]
    assert main([*command, "log.html"]) == 2
    assert "'log-tasks.csv': it is read in the same run" in capsys.readouterr().err
    # Nor any other file of such a name, unless an earlier page of the same name has made it.
    Path("x-tasks.csv").write_text("mine")
    assert main([*command, "x.html"]) == 2
    assert "'x-tasks.csv'" in capsys.readouterr().err
    assert Path("x-tasks.csv").read_text() == "mine"
    assert main([*command, "y.html"]) == 0
    first = Path("y-tasks.csv").read_bytes()
    assert main([*command, "y.html"]) == 0
    assert Path("y-tasks.csv").read_bytes() == first
    assert wide.read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["log-tasks.csv", "x-tasks.csv", "y-tasks.csv", "y.html"]


def test_a_report_follows_no_planted_link(wide: Path) -> None:
    Path("victim").write_text("mine")
    for number in (os.getpid(), 0):
        Path(f".r.html.{number}").symlink_to("victim")
    assert main(["report", wide.name, "--no-audit", "-q", "-o", "r.html"]) == 0
    assert Path("victim").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    votes = mh.Annotations.from_frame(LOG)
    model = mh.MajorityVote().fit(votes)
    writers = {
        "votes.mh": votes.save,
        "labels.parquet": model.to_parquet,
        "labels.csv": lambda path: write_table(model.to_frame(), path),
        "page.html": lambda path: model.report(path, audit=False),
    }
    for name, write in writers.items():
        path = tmp_path / name
        path.touch()
        path.chmod(mode)
        write(path)
        assert path.stat().st_size > 0
        assert stat.S_IMODE(path.stat().st_mode) == mode, name


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic.atomic_write(tmp_path / "new") as part:
            part.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_no_output_replaces_an_input(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("mine")
    (tmp_path / "link.csv").symlink_to(path)
    with atomic.protecting_inputs():
        atomic.protect([path])
        for name in ("log.csv", "link.csv", "./log.csv"):
            with pytest.raises(ValueError, match="read"), atomic.atomic_write(tmp_path / name):
                pass
    with atomic.atomic_write(path) as part:
        part.write_text("replaced")
    assert path.read_text() == "replaced"


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_preannotations_do_not_replace_their_export(tmp_path: Path) -> None:
    sample = Path(__file__).parents[1] / "data" / "exports" / "label_studio.json"
    path = tmp_path / "export.json"
    path.write_bytes(sample.read_bytes())
    model = mh.MajorityVote().fit(mh.read(path, question="mood"))
    with pytest.raises(ValueError, match="export"):
        mh.io.preannotate(path, model, path, question="mood")
    assert path.read_bytes() == sample.read_bytes()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are UTF-8 there")
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".csv.gz", ".html"])
def test_an_output_whose_name_is_not_utf8_is_written(tmp_path: Path, log: Path, ending: str) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9" + ending.encode())
    command = ["report", "--no-audit"] if ending == ".html" else ["aggregate"]
    assert main([command[0], str(log), *command[1:], "-q", "-o", name]) == 0
    assert Path(name).stat().st_size > 0


def test_long_names_get_temporary_names_that_fit(tmp_path: Path) -> None:
    path = tmp_path / ("字" * 80 + ".csv.gz")
    with atomic.atomic_write(path) as part:
        assert part.name.endswith(".csv.gz")
        part.write_text("x")
    assert path.read_text() == "x"


# ------------------------------------------------------------------------------------------------ places of spans


def test_times_of_documents_are_not_taken_for_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "document,worker,start,end,label\nd1,a,{0},{1},x\nd1,b,{0},{1},y\n"
    for begin, end in ((1_700_000_000, 1_700_000_050), ("2024-01-01 10:00", "2024-01-01 10:05")):
        path = tmp_path / "log.csv"
        path.write_text(rows.format(begin, end))
        with pytest.raises(ValueError, match=r"'start'.*kind='categorical' and task='document'"):
            mh.read(path)
        assert main(["describe", str(path)]) == 2
        assert "--kind categorical and --task document" in capsys.readouterr().err
        assert mh.read(path, kind="categorical", task="document").n_classes == 2


def test_spans_far_apart_take_no_token_for_each_place() -> None:
    far = 10**12
    spans = (["d", "d", "d", "e"], [2, far, far, 1], [4, far + 9, far + 5, 3], ["a", "a", "b", "b"], ["X"] * 4)
    with pytest.warns(mh.errors.DataWarning, match=r"1 document.*1,000,000.*'d'"):
        votes = mh.Sequences.from_spans(*spans)
    assert votes.lengths.tolist() == [5, 3]
    assert votes.positions.tolist() == [0, 2, 4, far, far + 5, 0, 1, 2]
    with pytest.raises(ValueError, match="table"):
        mh.Sequences.from_spans(["d"], [0], [5], ["a"], lengths={"d": far})


def test_too_many_places_are_rejected_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyhands._base.limits.free_memory", lambda: 1 << 20)
    with pytest.raises(MemoryError, match="900,000 tokens"):
        mh.Sequences.from_spans(["d"], [0], [900_000], ["a"])
