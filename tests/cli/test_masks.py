"""Masks on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv

import manyhands as mh
from manyhands.cli import main
from manyhands.masks.runs import from_rle, to_array


def test_masks_are_found_by_their_column(tmp_path: Path) -> None:
    crowd = mh.simulate(3, size=12, seed=1, kind="masks")
    log, out, workers = tmp_path / "log.csv", tmp_path / "out.csv", tmp_path / "workers.csv"
    pyarrow.csv.write_csv(crowd.log.to_frame(), log)
    main(["aggregate", str(log), "-o", str(out), "--workers", str(workers)])
    found = [from_rle(json.loads(text), "it") for text in pyarrow.csv.read_csv(out).column("mask").to_pylist()]
    for mine, wanted in zip(found, mh.aggregate(crowd.log).masks_, strict=True):
        np.testing.assert_array_equal(to_array(mine.runs, mine.shape, 2), wanted)
    assert "skill" in pyarrow.csv.read_csv(workers).column_names
