"""A folder with a log and its truth, for the command line."""

import pyarrow as pa
import pytest

from manyhands._base.write import write_table
from manyhands.categorical.simulate import simulate


@pytest.fixture(scope="module")
def crowd():
    return simulate(300, 20, 3, ids="str", seed=1)


@pytest.fixture
def log(crowd, tmp_path, monkeypatch):
    """A folder to work in, with a log in CSV and Parquet and its truth."""
    monkeypatch.chdir(tmp_path)
    write_table(crowd.log.to_frame(), "log.csv")
    write_table(crowd.log.to_frame(), "log.parquet")
    write_table(pa.table({"task": crowd.log.tasks, "label": crowd.truth}), "truth.csv")
    return tmp_path
