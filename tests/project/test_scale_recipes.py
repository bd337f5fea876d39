"""Recipes of docs/spark.md for other engines run as they are typed, and give the bits that files give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from shard_logs import write_shards

import manyhands as mh
from manyhands.categorical.shards.directory import open_directory
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.shards.votes import open_shards

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def recipe(engine: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if f"class On{engine}" in block)
    return str(found)


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mh.Annotations:
    monkeypatch.chdir(tmp_path)
    crowd = mh.simulate(200, 15, 3, labels_per_task=5, seed=2)
    write_shards(crowd.log, tmp_path / "shards", n_shards=4)
    return open_shards(tmp_path / "shards")


def same_as_files(engine: type[Sharded], plain: mh.Annotations) -> None:
    there = mh.Annotations.from_shards(engine(open_directory("shards/")))
    gold = {3: 1, 150: 0}
    for model in (
        mh.MajorityVote(),
        mh.categorical.WeightedVote(),
        mh.DawidSkene(max_iter=5, tol=0, restarts=1, gold=gold),
        mh.Consensus(protected=3, max_iter=1, gold=gold),
    ):
        wanted, found = (type(model)(**model.get_params()).fit(votes) for votes in (plain, there))
        assert found.n_iter_ == wanted.n_iter_
        for name in ("prior_", "confusion_", "posterior_"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), name)


@pytest.mark.filterwarnings("ignore::manyhands.errors.ConvergenceWarning")
def test_dask(shards: mh.Annotations) -> None:
    pytest.importorskip("dask", reason="Dask is not installed: its recipe is not tried")
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(recipe("Dask"), names)
    labels = pq.read_table("labels.parquet").column("label").to_pylist()
    assert labels == mh.aggregate(shards).labels_.tolist()
    same_as_files(names["OnDask"], shards)


@pytest.mark.filterwarnings("ignore")
def test_ray(shards: mh.Annotations) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: its recipe is not tried")
    import ray

    names: dict[str, Any] = {"__name__": "recipe"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        exec(recipe("Dask").partition("votes = ")[0] + recipe("Ray"), names)
        same_as_files(names["OnRay"], shards)
    finally:
        ray.shutdown()
