"""Sessions of other kinds, each with a Python and a Spark of its own: a cluster, Connect, and what is killed there."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from spark_logs import needs_java, run_apart

pytestmark = pytest.mark.spark


def test_a_cluster_whose_executors_are_killed(tmp_path: Path) -> None:
    needs_java()
    said = run_apart("spark_cluster.py", str(tmp_path))
    assert [line.split()[0] for line in said.splitlines()] == ["undisturbed", "early", "mid", "late", "answers"]
    assert pq.read_table(tmp_path / "answers").num_rows == 40_000


def test_connect_goes_on_after_its_driver_was_killed(tmp_path: Path) -> None:
    needs_java()
    run_apart("spark_connect.py", str(tmp_path), "die", expect=-signal.SIGKILL)
    run_apart("spark_connect.py", str(tmp_path), "live")
    assert pq.read_table(tmp_path / "answers").num_rows == 120
