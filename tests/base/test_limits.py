"""How much memory may still be taken: the machine's, the process's and the container's limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import FEW_THREADS, PATIENCE

import manyhands as mh
from manyhands._base import limits

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")


def group(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def container(tmp_path: Path, membership: str) -> list[int]:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(membership)
    return list(limits._of_container(tmp_path, tmp_path / "groups"))


def test_a_container_within_a_container_leaves_the_least_of_both(tmp_path):
    stat = "anon 5\ninactive_file 30\nslab 7"
    group(tmp_path / "groups", {"memory.stat": stat})  # the top has no limit
    group(tmp_path / "groups/outer", {"memory.max": 1000, "memory.current": 900, "memory.stat": stat})
    group(tmp_path / "groups/outer/inner", {"memory.max": 500, "memory.current": 100, "memory.stat": stat})
    assert container(tmp_path, "0::/outer/inner\n") == [430, 130]


def test_a_container_without_a_limit_leaves_all(tmp_path):
    group(tmp_path / "groups/one", {"memory.max": "max", "memory.current": 100, "memory.stat": "inactive_file 1"})
    assert container(tmp_path, "0::/one\n") == []


def test_the_first_kind_of_control_groups_is_known(tmp_path):
    files = {"memory.limit_in_bytes": 700, "memory.usage_in_bytes": 300}
    group(tmp_path / "groups/memory", files | {"memory.stat": "inactive_file 0\ntotal_inactive_file 50"})
    # The path is that of the host: within the container only the top is there.
    membership = "12:cpuset:/docker/abc\n9:cpu,memory:/docker/abc\n0::/\n"
    assert container(tmp_path, membership) == [450]


def test_without_control_groups_nothing_is_said(tmp_path):
    assert list(limits._of_container(tmp_path, tmp_path)) == []
    assert list(limits._of_machine(tmp_path)) == []


def run(code: str, *, limit: str, gigabytes: float) -> str:
    """What code prints in a process that is allowed so much memory."""
    setup = f"import resource; resource.setrlimit(resource.{limit}, ({int(gigabytes * 2**30)},) * 2)\n"
    program, environment = [sys.executable, "-c", setup + code], os.environ | FEW_THREADS
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@LINUX
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_the_process_are_known(limit):
    free = int(run("from manyhands._base import limits; print(limits.free_memory())", limit=limit, gigabytes=4))
    # What the machine itself has left may be less than the limit leaves.
    assert min(2 * 2**30, limits.free_memory() / 2) < free < 4 * 2**30


def test_constructors_ask_whether_there_is_room(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 2**30)
    one = np.zeros(1, np.int64)
    for sizes in ({"n_tasks": 2**31, "n_workers": 1}, {"n_tasks": 1, "n_workers": 2**31}):
        with pytest.raises(MemoryError, match=r"16.0.*1.0"):
            mh.Annotations.from_codes(one, one, one, **sizes, n_classes=2)
    monkeypatch.setattr(limits, "free_memory", lambda: 2**23)
    columns = np.zeros(4_000_000, np.int64)
    with pytest.raises(MemoryError, match=r"4,000,000 annotations.*1 task"):
        mh.Annotations.from_arrays(columns, columns, columns)
    monkeypatch.setattr(limits, "free_memory", lambda: None)  # nobody knows: try
    assert len(mh.Annotations.from_arrays(columns, columns, columns)) == 4_000_000
