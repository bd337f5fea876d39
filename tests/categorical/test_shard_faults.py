"""Logs in shards: plain words for what is damaged or does not fit, and runs that go on after they were killed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shard_logs import METHODS, ORDER, close, write_shards

import manyhands as mh
from manyhands import _core
from manyhands._base import atomic, limits
from manyhands._base.sources import Layout, Source
from manyhands._base.write import write_table
from manyhands.categorical.shards import encoder
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import _is_of, open_directory, unpacked_names
from manyhands.categorical.shards.encoder import Encoder, memory_of
from manyhands.categorical.shards.journal import Journal
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.shards.summary import Summary
from manyhands.categorical.shards.votes import open_shards
from manyhands.cli import main
from manyhands.io.shards import _common

pytestmark = pytest.mark.filterwarnings(
    "ignore::manyhands.errors.OverlapWarning",
    "ignore::manyhands.errors.ConvergenceWarning",
    "ignore::manyhands.errors.GoldWarning",
)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[mh.Annotations, mh.Annotations]:
    votes = mh.simulate(3000, 40, 3, labels_per_task=(1, 6), seed=2).log
    return votes, write_shards(votes, tmp_path_factory.mktemp("crowd"), n_shards=5)


# ------------------------------------------------------------------------------------------------ what it refuses


def test_others_say_so_before_they_start(crowd: tuple[mh.Annotations, mh.Annotations]) -> None:
    shards = crowd[1]
    refused = [
        mh.categorical.GLAD(),
        mh.categorical.MACE(),
        mh.DawidSkene(init="spectral"),
        mh.DawidSkene(init=np.zeros((3000, 3))),
        mh.BayesianDawidSkene(method="gibbs"),
        mh.BayesianDawidSkene(init=mh.MajorityVote()),
    ]
    for model in refused:
        with pytest.raises(TypeError, match=r"in_memory.*DawidSkene"):
            model.fit(shards)
    for call in (mh.agreement.cohen_kappa, mh.audit.spammers, mh.DawidSkene().fit(crowd[0]).predict):
        with pytest.raises(TypeError, match="in_memory"):
            call(shards)


def test_a_fitted_start_goes_through_shards(crowd: tuple[mh.Annotations, mh.Annotations]) -> None:
    start = mh.DawidSkene(max_iter=3, tol=0).fit(crowd[0])
    model, found = (mh.DawidSkene(init=start, max_iter=3, tol=0).fit(votes) for votes in crowd)
    close(model, found)


def test_missing_and_mistyped_ids(tmp_path: Path) -> None:
    good = {"task": ["a"], "worker": ["x"], "label": [1]}
    with pytest.raises(ValueError, match=r"worker column 'worker' is missing.*row 0"):
        mh.Annotations.from_batches([good, {**good, "worker": [None]}], out_of_core=tmp_path / "a")
    with pytest.raises(TypeError, match="large_string"):
        mh.Annotations.from_batches([good, {**good, "task": [7]}], out_of_core=tmp_path / "b")
    with pytest.raises(TypeError, match="integers"):
        mh.Annotations.from_batches([{**good, "task": [b"\xff"]}], out_of_core=tmp_path / "c")
    with pytest.raises(ValueError, match="no annotations"):
        mh.Annotations.from_batches([], out_of_core=tmp_path / "d")
    with pytest.raises(ValueError, match="task 'a'"):
        mh.Annotations.from_batches([good, good], out_of_core=tmp_path / "e", repeats="error")
    with pytest.raises(ValueError, match=r"missing.*missing='drop'"):
        mh.Annotations.from_batches([good, {**good, "label": [None]}], out_of_core=tmp_path / "f", missing="error")
    with pytest.raises(ValueError, match="not both"):
        mh.Annotations.from_batches([good], out_of_core=tmp_path / "g", weight="w", confidence="c")
    # None of them left anything that looks like a log.
    assert not list(tmp_path.glob("*/manifest.json"))
    with pytest.raises(FileNotFoundError, match="directory"):
        open_shards(tmp_path / "a")


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match=r"thesis\.tex"):
        mh.Annotations.from_batches([{"task": [1], "worker": [1], "label": [1]}], out_of_core=tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_shards(mh.simulate(300, 10, 3, seed=1, ids="str").log, tmp_path / "shards", n_shards=3)
    return tmp_path / "shards"


def file_of(directory: Path, name: str) -> Path:
    return directory / name if name == "manifest.json" else open_directory(directory).folder / name


@pytest.mark.parametrize("name", ["00001.shard", "00001.tasks", "names.mh", "manifest.json"])
def test_every_damage_is_told(directory: Path, name: str) -> None:
    def used() -> None:
        votes = open_shards(directory)
        mh.MajorityVote().fit(votes).to_parquet(directory.parent / "labels.parquet")

    path, rng = file_of(directory, name), np.random.default_rng(3)
    content = path.read_bytes()
    for at in rng.integers(0, len(content), 12).tolist():
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(mh.errors.FileFormatError, match=name.replace(".", r"\.")):
            used()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(mh.errors.FileFormatError):
        used()
    path.unlink()
    with pytest.raises(OSError, match=r"manifest|No such file"):
        used()
    path.write_bytes(content)
    used()


def test_a_forged_header_is_refused_though_its_checksum_fits(directory: Path) -> None:
    path = file_of(directory, "00001.shard")
    content = path.read_bytes()
    header = np.frombuffer(content[:128], np.uint64)
    assert header[8:10].tolist() == [1, 4], "short tasks take a byte each, the answers of a small crowd four bytes each"

    def read(**words: int) -> None:
        changed = header.copy()
        for name, number in words.items():
            changed[int(name[1:])] = number
        changed[15] = zlib.crc32(changed[:15].tobytes())
        path.write_bytes(changed.tobytes() + content[128:])
        mh.MajorityVote().fit(open_shards(directory))

    read()
    # Labels, classes, workers, tasks, the width of lengths and of cells, the length of the file.
    for words in ({"w6": 1 << 16}, {"w7": 0}, {"w4": 9}, {"w2": 0}, {"w8": 3}, {"w9": 8}, {"w12": len(content) - 64}):
        with pytest.raises(mh.errors.FileFormatError, match=r"00001\.shard"):
            read(**words)


def test_shards_of_another_log_are_noticed(directory: Path, tmp_path: Path) -> None:
    write_shards(mh.simulate(3000, 10, 3, seed=2, ids="str").log, tmp_path / "other", n_shards=3)
    for name in ("00000.shard", "00002.tasks", "names.mh"):
        path = file_of(directory, name)
        shutil.copy(path, tmp_path / "kept")
        shutil.copy(file_of(tmp_path / "other", name), path)
        if name != "names.mh":
            assert len(open_directory(directory).check()) == 1
        with pytest.raises(mh.errors.FileFormatError, match="log"):
            mh.MajorityVote().fit(open_shards(directory)).to_frame()
        shutil.copy(tmp_path / "kept", path)
    manifest = (directory / "manifest.json").read_text()
    for old, new in (('"version": 2', '"version": 7'), ("manyhands shards", "something else"), ('"names"', '"manes"')):
        (directory / "manifest.json").write_text(manifest.replace(old, new))
        with pytest.raises(mh.errors.FileFormatError):
            open_shards(directory)


def test_memory_is_an_amount() -> None:
    assert memory_of("1.5 GiB") == 3 << 29
    assert memory_of(7) == 7
    for wrong in ("", "GB", "many", "4XB"):
        with pytest.raises(ValueError, match="memory"):
            memory_of(wrong)


def test_a_pass_wants_what_fits_the_shard(crowd: tuple[mh.Annotations, mh.Annotations]) -> None:
    shard = crowd[1].passes.part(0).shard
    factors, prior = _core.em_factors(np.full((39, 3, 3), 1 / 3), np.full(3, 1 / 3))
    with pytest.raises(ValueError, match=r"40 workers.*39"):
        shard.em_answers(factors, prior)
    with pytest.raises(ValueError, match="shard"):
        _core.Shard(np.zeros(256, np.uint8))


# ---------------------------------------------------------------------------------------- killed, and begun again


class Stopped(Exception):
    """Stands for the end of the process."""


@pytest.mark.filterwarnings("ignore::manyhands.errors.GoldWarning")  # these gold labels are arbitrary
@pytest.mark.parametrize("method", ["full", "bayes", "default", "leaps"])
def test_a_stopped_fit_goes_on_with_the_same_bits(tmp_path: Path, method: str) -> None:
    votes = mh.simulate(400, 12, 3, seed=5).log
    gold = dict(zip(votes.tasks[:20].tolist(), [0, 1] * 10, strict=True))
    shards = write_shards(votes, tmp_path / "shards", n_shards=3)
    wanted = METHODS[method](gold).fit(shards)
    passes = wanted.n_iter_
    made: list[int] = []

    class Counted(Journal):
        def keep(self, *given: Any) -> None:
            super().keep(*given)
            made.append(1)
            if len(made) == stop:
                raise Stopped

    for stop in (1, passes // 2, passes):
        table = shards.passes.but(journal=Counted(tmp_path / f"journal-{stop}"))
        made.clear()
        with pytest.raises(Stopped):
            METHODS[method](gold).fit(mh.Annotations.from_shards(table))
        n_before = len(list((tmp_path / f"journal-{stop}").iterdir()))
        assert n_before == stop
        stop = 0
        made.clear()
        found = METHODS[method](gold).fit(mh.Annotations.from_shards(table))
        for name in ("posterior_", "confusion_", "prior_", "history_"):
            assert (getattr(found, name) == getattr(wanted, name)).all()
        # What was made was not made again.
        assert n_before + len(made) == len(list(table.journal.path.iterdir()))


KILLED = """
import os, signal, sys
from manyhands.categorical.shards import directory, journal
def dying(original, left):
    def call(self, *given, **how):
        found = original(self, *given, **how)
        left.append(1)
        if len(left) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call
what = {"add": directory.Writer, "keep": journal.Journal}[sys.argv[1]]
setattr(what, sys.argv[1], dying(getattr(what, sys.argv[1]), []))
from manyhands.cli import main
sys.exit(main(sys.argv[3:]))
"""


def test_a_killed_command_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(mh.simulate(300, 12, 3, seed=6).log.to_frame(), log)
    command = ["aggregate", str(log), "--out-of-core", "--memory", "1GB", "--json", "-q"]
    runs = [("none", 0, "a"), ("add", 1, "b"), ("keep", 2, "b"), ("keep", 12, "b"), ("none", 0, "b")]
    for what, after, name in runs:
        options = [*command, "--shards", str(tmp_path / name), "-o", str(tmp_path / f"{name}.parquet")]
        start = [sys.executable, "-c", KILLED, what, str(after)] if after else [sys.executable, "-m", "manyhands"]
        done = subprocess.run([*start, *options], capture_output=True, text=True, check=False)
        assert done.returncode == (-9 if after else 0), done.stderr
        assert (tmp_path / f"{name}.parquet").exists() is (after == 0)
    a, b = (pq.read_table(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.equals(b)
    assert not (open_directory(tmp_path / "b").folder / "journal").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_log_that_would_not_fit_is_encoded_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    log = tmp_path / f"log.{ending}"
    write_table(mh.simulate(300, 12, 3, seed=6).log.to_frame(), log)
    found = []
    for free in (10**9, 1000):
        monkeypatch.setattr(limits, "free_memory", lambda free=free: free)
        assert main(["aggregate", str(log), "-o", str(tmp_path / f"{free}.parquet")]) == 0
        assert ("encoded on disk (--out-of-core)" in capsys.readouterr().err) is (free == 1000)
        assert (tmp_path / f"log.{ending}.shards").exists() is (free == 1000)
        found.append(pq.read_table(tmp_path / f"{free}.parquet"))
    assert found[0].drop_columns("confidence").equals(found[1].drop_columns("confidence"))
    np.testing.assert_allclose(*(table["confidence"].to_numpy() for table in found), rtol=0, atol=ORDER)


# ----------------------------------------------------------------------------------------------- a disk that fills


def full(after: int) -> Callable[..., Any]:
    original, left = atomic.atomic_write, [after]

    def write(path: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return original(path)

    return write


def test_a_full_disk_while_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = {"task": list(range(50)) * 2, "worker": ["a"] * 50 + ["b"] * 50, "label": [0, 1] * 50}
    monkeypatch.setattr(Encoder, "_target", lambda *_: 20)
    for after in (0, 3, 11):
        with monkeypatch.context() as patch:
            patch.setattr(atomic, "atomic_write", full(after))
            with pytest.raises(OSError, match="No space left"):
                mh.Annotations.from_batches([log], out_of_core=tmp_path / "shards")
        assert not (tmp_path / "shards" / "manifest.json").exists()
    found: Any = mh.Annotations.from_batches([log], out_of_core=tmp_path / "shards")
    assert found.in_memory() == mh.Annotations.from_frame(log)


def test_a_full_disk_for_the_journal_costs_only_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = write_shards(mh.simulate(100, 8, 3, seed=7).log, tmp_path / "shards", n_shards=2)
    wanted = mh.DawidSkene(max_iter=5, tol=0).fit(shards)
    monkeypatch.setattr(atomic, "atomic_write", full(2))
    with pytest.warns(mh.errors.DataWarning, match="written"):
        found = mh.DawidSkene(max_iter=5, tol=0).fit(shards.resumable())
    assert (found.posterior_ == wanted.posterior_).all()


def test_a_full_disk_while_sorting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")

    class Full(duckdb.IOException):  # type: ignore[misc, name-defined]
        pass

    class Connection:
        def register(self, *_: Any) -> None:
            raise duckdb.IOException("Could not write file: No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: Connection())
    with pytest.raises(OSError, match="No space left on device"):
        mh.Annotations.from_batches([{"task": [1], "worker": [1], "label": [1]}], out_of_core=tmp_path)


def test_duckdb_is_imported_where_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import sys, manyhands; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"manyhands\[scale\]"):
        mh.Annotations.from_batches([{"task": [1], "worker": [1], "label": [1]}], out_of_core=tmp_path)
    assert encoder.ROWS == 1 << 22


def test_too_little_memory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("task,worker,label\n1,a,x\n")
    with pytest.raises(ValueError, match=r"memory.*256 MB.*255 MB"):
        mh.read(tmp_path / "log.csv", out_of_core=tmp_path / "shards", memory="255MiB")


def test_the_lock_of_a_directory_is_closed(tmp_path: Path) -> None:
    with Claim(tmp_path / "shards") as claim:
        lock = claim._lock
        assert lock is not None
        os.fstat(lock)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(lock)


def test_a_shard_is_checked_once(crowd: tuple[mh.Annotations, mh.Annotations], monkeypatch: Any) -> None:
    passes = Sharded(crowd[1].passes.directory)
    checks: list[bool] = []
    read = type(passes.directory).read

    def noted(self: Any, index: int, *, check: bool) -> Any:
        checks.append(check)
        return read(self, index, check=check)

    monkeypatch.setattr(type(passes.directory), "read", noted)
    passes.part(0), passes.part(0)
    assert checks == [True, False]


@pytest.mark.parametrize(("value", "fits"), [(0, True), (2**63 - 1, True), (2**63, False), (-1, False), (True, False)])
def test_sizes_fit_the_core(value: Any, fits: bool) -> None:
    assert _is_of(value, "int") == fits


class Damaged(Exception):
    """What a content of `Given` raises."""


class Given:
    """A content that holds given arrays."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays = {name.replace("_", "."): array for name, array in arrays.items()}

    def array(self, name: str, *_: Any, **__: Any) -> Any:
        return self.arrays[name]

    def damaged(self, what: str) -> Damaged:
        return Damaged(what)


def test_groups_of_workers_begin_with_their_first() -> None:
    with pytest.raises(Damaged, match="groups"):
        Summary.unpacked(Given(x_groups=np.array([0, 2, 0], np.uint32)), "x", 3, 2)


def test_names_beyond_their_buffer_are_damage() -> None:
    offsets = pa.py_buffer(np.array([0, 100, 2], np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("name", column.type)])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], names=["name"]))
    with pytest.raises(Damaged, match="'x'"):
        unpacked_names(Given(x_arrow=np.frombuffer(sink.getvalue(), np.uint8)), "x")


def test_numbers_in_one_file_and_text_in_another_are_read_as_text_is() -> None:
    sources = [Source(Path(name), Layout()) for name in ("one.parquet", "two.parquet")]
    assert _common("task", [pa.int64(), pa.string()], sources) == ("large_string", True)
    assert _common("task", [pa.string(), pa.large_string()], sources) == ("large_string", False)
