"""A log is opened once to sniff it and once to read it, an archive once altogether, whoever asks."""

import ctypes
import os
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run

import manyhands as mh

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="opens are counted with inotify")

CSV = "task,worker,label\na,1,x\na,2,y\nb,1,x\nb,2,x\n"
_OPEN, _CLOSE = 0x20, 0x18


def opens(path: Path, work: Callable[[], object]) -> int:
    """Count how often a file is opened while `work` runs."""
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    # With the closing events between them, the kernel does not merge several openings into one event.
    assert libc.inotify_add_watch(watch, os.fsencode(path), _OPEN | _CLOSE) > 0
    try:
        work()
        events = os.read(watch, 1 << 16)
    finally:
        os.close(watch)
    return sum(bool(struct.unpack_from("iI", events, at)[1] & _OPEN) for at in range(0, len(events), 16))


def log_of(folder: Path, name: str) -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"task": ["a", "a"], "worker": [1, 2], "label": ["x", "y"]}), path)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("log.csv", CSV)
    elif path.suffix == ".json":
        path.write_text('[{"task": "a", "worker": 1, "label": "x"}, {"task": "a", "worker": 2, "label": "x"}]')
    else:
        path.write_text(CSV)
    return path


@pytest.mark.parametrize(("name", "most"), [("log.csv", 2), ("log.parquet", 2), ("log.json", 1), ("log.zip", 1)])
@pytest.mark.parametrize("command", ["aggregate {} -q -o {}.out.csv", "describe {} -q", "audit {} -q"])
def test_a_log_is_opened_at_most_twice(name, most, command, tmp_path):
    path = log_of(tmp_path, name)
    assert opens(path, lambda: run(command.format(path, path))) <= most
    assert opens(path, lambda: mh.read(path)) <= most
    assert opens(path, lambda: mh.aggregate(path)) <= most
