"""Boxes on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv

import manyhands as mh
from manyhands.cli import main


def test_boxes_are_found_by_their_columns(tmp_path: Path) -> None:
    crowd = mh.simulate(4, seed=1, kind="boxes")
    log, out, workers = tmp_path / "log.csv", tmp_path / "out.csv", tmp_path / "workers.csv"
    pyarrow.csv.write_csv(crowd.log.to_frame(), log)
    main(["aggregate", str(log), "-o", str(out), "--workers", str(workers)])
    found, wanted = pyarrow.csv.read_csv(out), mh.aggregate(crowd.log).to_frame()
    assert found.column_names == wanted.column_names
    np.testing.assert_allclose(found.column("x2"), wanted.column("x2"))
    assert "false_positives" in pyarrow.csv.read_csv(workers).column_names
