"""Logs in shards: the same table, the same answers, and plain words for what is damaged or does not fit."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_logs import METHODS, ORDER, close, fresh, write_shards

import manyhands as mh
from manyhands._base.description import Spread
from manyhands.categorical.shards.encoder import Encoder

pytestmark = pytest.mark.filterwarnings(
    "ignore::manyhands.errors.OverlapWarning", "ignore::manyhands.errors.ConvergenceWarning"
)
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def names_of(kind: str, n: int) -> list[Any]:
    return {
        "text": [f"id {i}" for i in range(n)],
        "signs": ["ä" * (i % 3) + chr(0x1F600 + i) for i in range(n)],
        "numbers": [i - n // 2 for i in range(n)],
        "dates": [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(n)],
    }[kind]


@st.composite
def logs(draw: st.DrawFn) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """A small log as columns, and how it is to be read."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m, k, rows = draw(st.tuples(*(st.integers(low, high) for low, high in ((1, 12), (1, 6), (1, 4), (1, 60)))))
    tasks = names_of(draw(st.sampled_from(["text", "signs", "numbers", "dates"])), n)
    workers = names_of(draw(st.sampled_from(["text", "numbers", "signs"])), m)
    labels = names_of(draw(st.sampled_from(["text", "numbers"])), k)
    log: dict[str, list[Any]] = {
        "task": [tasks[i] for i in rng.integers(0, n, rows)],
        "worker": [workers[i] for i in rng.integers(0, m, rows)],
        "label": [labels[i] for i in rng.integers(0, k, rows)],
    }
    how: dict[str, Any] = {"repeats": draw(st.sampled_from(["keep", "first", "last"]))}
    if draw(st.booleans()):
        log["w"] = rng.choice([0.0, 0.5, 1.0, 3.0], rows).tolist()
        how["weight"] = "w"
    if k > 1 and draw(st.booleans()) and set(log["label"]) != {labels[0]}:
        how["abstain"] = labels[0]
    if draw(st.booleans()):
        log["label"][0] = None
    return log, how


def frames(log: dict[str, list[Any]], size: int) -> Iterator[pa.Table]:
    table = pa.table(log)
    return (table.slice(first, size) for first in range(0, len(table), size))


# ------------------------------------------------------------------------------------------------- the same log


@quick
@given(given_log=logs(), size=st.integers(1, 30), rows=st.integers(1, 25))
@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_batches_give_the_table_that_a_frame_gives(
    tmp_path: Path, given_log: tuple[dict[str, list[Any]], dict[str, Any]], size: int, rows: int
) -> None:
    log, how = given_log
    try:
        whole = mh.Annotations.from_frame(pa.table(log), **how)
    except ValueError:  # all labels are missing, or abstentions
        with pytest.raises(ValueError, match=r"label|abstention"):
            mh.Annotations.from_batches(frames(log, size), out_of_core=fresh(tmp_path), **how)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "_target", lambda *_: rows)
        found = mh.Annotations.from_batches(frames(log, size), out_of_core=fresh(tmp_path), **how)
    assert found.in_shards
    assert found.in_memory() == whole
    assert found.tasks.tolist() == whole.tasks.tolist()
    assert found.unlabelled.tolist() == whole.unlabelled.tolist()
    assert found.describe() == whole.describe() or np.isnan(whole.describe().agreement)
    assert found.labels_per_task.tolist() == whole.labels_per_task.tolist()
    assert pickle.loads(pickle.dumps(found)).in_memory() == whole


@pytest.mark.parametrize("in_shards", [False, True])
def test_describe_works_where_only_abstentions_are_left(tmp_path: Path, in_shards: bool) -> None:
    log = pa.table({"task": ["a", "a", "b"], "worker": ["u", "u", "v"], "label": ["yes", "?", "?"]})
    votes: Any = mh.Annotations.from_frame(log, repeats="last", abstain="?")
    if in_shards:
        votes = mh.Annotations.from_batches([log], out_of_core=tmp_path / "shards", repeats="last", abstain="?")
    description = votes.describe()
    assert (description.n_annotations, description.n_classes) == (2, 1)
    assert description.class_shares == {"yes": 0, "?": 1}
    assert np.isnan(description.agreement)


@pytest.mark.parametrize("ending", ["csv", "parquet", "csv.gz"])
def test_files_are_read_as_in_memory(tmp_path: Path, ending: str) -> None:
    from manyhands._base.write import write_table

    rng = np.random.default_rng(1)
    log = {
        "task": rng.integers(0, 50, 400),
        "worker": [f"w{i}" for i in rng.integers(0, 9, 400)],
        "answer": rng.integers(0, 3, 400),
    }
    path = tmp_path / f"log.{ending}"
    write_table(pa.table(log), path)
    whole = mh.read(path)
    found = mh.read(path, out_of_core=tmp_path / "shards", memory="256MB")
    assert found.tasks.dtype == np.int64
    assert found.in_shards
    assert found.in_memory() == whole
    # Once more, it is opened; with other settings, or once the file has changed, it is of another log.
    when = (tmp_path / "shards" / "manifest.json").stat().st_mtime_ns
    assert mh.read(path, out_of_core=tmp_path / "shards").n_tasks == 50
    assert (tmp_path / "shards" / "manifest.json").stat().st_mtime_ns == when
    with pytest.raises(FileExistsError, match="log"):
        mh.read(path, out_of_core=tmp_path / "shards", repeats="first")
    os.utime(path, ns=(1, 1))
    with pytest.raises(FileExistsError, match="log"):
        mh.read(path, out_of_core=tmp_path / "shards")


def test_numbers_and_text_in_two_files_are_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"task": [1, 2], "worker": ["a", "b"], "label": ["x", "y"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("task,worker,label\n2,a,y\n007,b,x\n")
    paths = [tmp_path / "a.parquet", tmp_path / "b.csv"]
    found: Any = mh.read(paths, out_of_core=tmp_path / "shards")
    assert found.in_memory() == mh.read(paths)
    assert found.tasks.tolist() == ["007", "1", "2"]


def test_confidences_become_weights(tmp_path: Path) -> None:
    log = {"task": [1, 1, 2, 3], "worker": [1, 2, 1, 2], "label": [0, 1, 1, 0], "sure": [0.9, 0.6, 1.0, 0.5]}
    whole = mh.Annotations.from_frame(log, confidence="sure")
    found: Any = mh.Annotations.from_batches([log], confidence="sure", out_of_core=tmp_path)
    assert found.in_memory() == whole


# --------------------------------------------------------------------------------------------- the same answers


@quick
@given(
    seed=st.integers(0, 10**6),
    n_shards=st.integers(1, 40),
    method=st.sampled_from(list(METHODS)),
    weighted=st.booleans(),
    abstain=st.booleans(),
    known=st.booleans(),
)
def test_answers_are_those_of_the_table(
    tmp_path: Path, seed: int, n_shards: int, method: str, weighted: bool, abstain: bool, known: bool
) -> None:
    rng = np.random.default_rng(seed)
    n, k = 30, 3
    tasks = np.repeat(np.arange(n), 4)
    labels = np.where(rng.random(4 * n) < 0.7, tasks % k, rng.integers(0, k, 4 * n))
    names = np.array(["a", "b", "c"], object)[labels]
    if abstain:
        names[rng.random(4 * n) < 0.1] = "?"
    votes = mh.Annotations.from_arrays(
        [f"t{i:02d}" for i in tasks],
        rng.integers(0, 9, 4 * n),
        names,
        rng.uniform(0.2, 2.0, 4 * n) if weighted else None,
        abstain="?" if abstain else None,
        classes=["a", "b", "c"],
    )
    gold = {f"t{i:02d}": "abc"[i % k] for i in range(0, n, 7)} if known else None
    shards = write_shards(votes, fresh(tmp_path), n_shards=n_shards)
    model, found = (METHODS[method](gold).fit(given) for given in (votes, shards))
    close(model, found)
    assert found.tasks_.tolist() == model.tasks_.tolist()
    assert found.remarks_ == model.remarks_
    sure = ~model.tied_
    assert (found.labels_[sure] == model.labels_[sure]).all()
    found.to_parquet(tmp_path / "labels.parquet")
    assert pq.read_table(tmp_path / "labels.parquet").equals(found.to_frame())
    if method == "default":
        assert found.correlation_ == pytest.approx(model.correlation_, abs=ORDER)
        np.testing.assert_allclose(found.disagreement_, model.disagreement_, atol=ORDER)
        assert found.member_labels_.shape == model.member_labels_.shape
    if method in ("default", "vote"):
        found.save(tmp_path / "model.mh")
        np.testing.assert_array_equal(mh.load(tmp_path / "model.mh").posterior_, found.posterior_)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[mh.Annotations, mh.Annotations]:
    votes = mh.simulate(3000, 40, 3, labels_per_task=(1, 6), seed=2).log
    return votes, write_shards(votes, tmp_path_factory.mktemp("crowd"), n_shards=5)


@pytest.mark.parametrize("method", ["full", "default", "vote"])
def test_threads_change_no_bit(crowd: tuple[mh.Annotations, mh.Annotations], method: str) -> None:
    before, found = mh.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            mh.set_num_threads(n)
            model = METHODS[method](None).fit(crowd[1])
            found.append((model.posterior_, model.confusion_, model.prior_))
    finally:
        mh.set_num_threads(before)
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))


def test_agreement_and_description(crowd: tuple[mh.Annotations, mh.Annotations]) -> None:
    votes, shards = crowd
    assert shards.describe() == votes.describe()
    for level in ("nominal", "ordinal", "interval"):
        got, wanted = (mh.agreement.krippendorff_alpha(v, level=level) for v in (shards, votes))
        assert (got.value, got.n_tasks, got.n_pairs) == (pytest.approx(wanted.value), wanted.n_tasks, wanted.n_pairs)
    for measure in (mh.agreement.fleiss_kappa, mh.agreement.gwet_ac1, mh.agreement.gwet_ac2):
        assert measure(shards).value == pytest.approx(measure(votes).value, abs=1e-12)
    with pytest.raises(TypeError, match="resamples"):
        mh.agreement.fleiss_kappa(shards, resamples=10)


def test_ties_are_broken_as_in_memory(crowd: tuple[mh.Annotations, mh.Annotations], tmp_path: Path) -> None:
    for ties in ("random", "abstain"):
        model, found = (mh.MajorityVote(ties=ties, seed=3).fit(votes) for votes in crowd)
        assert found.labels_.tolist() == model.labels_.tolist()
        found.to_parquet(tmp_path / "ties.parquet")
        assert pq.read_table(tmp_path / "ties.parquet").equals(model.to_frame())


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_a_spread_from_a_tally_is_that_of_the_counts(counts: list[int]) -> None:
    wanted, got = Spread.of(np.array(counts)), Spread.of_tally(np.bincount(counts))
    np.testing.assert_allclose(tuple(vars(got).values()), tuple(vars(wanted).values()))


def test_groups_are_joined_across_shards(tmp_path: Path) -> None:
    # Workers 0–1 and 2–3 meet in different shards; 4 only joins them in the last.
    votes = mh.Annotations.from_arrays([0, 0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 3, 1, 4, 5, 6], [0] * 8)
    for n in (1, 2, 5):
        shards = write_shards(votes, fresh(tmp_path), n_shards=n)
        assert shards.passes.group_counts().tolist() == votes.table.group_counts().tolist()


def test_simulated_straight_into_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["manyhands.categorical.simulate"], "rows_of_shard", lambda *_: 400)
    for name, pattern in (("a", {"labels_per_task": 5}), ("b", {"density": 0.02}), ("c", {"labels_per_task": (0, 3)})):
        crowd = mh.simulate(1500, 30, 3, seed=4, out_of_core=tmp_path / name, **pattern)
        votes: Any = crowd.log
        assert len(crowd.truth) == votes.n_tasks
        assert votes.n_tasks + len(votes.unlabelled) == 1500
        assert len(votes.passes) > 1
        assert sorted([*votes.tasks.tolist(), *votes.unlabelled.tolist()]) == list(range(1500))
        if name == "a":
            assert mh.metrics.accuracy(mh.DawidSkene().fit(votes).labels_, crowd.truth) > 0.75
    with pytest.raises(ValueError, match="pairs"):
        mh.simulate(2, 2, 2, pairs=([0], [1]), out_of_core=tmp_path / "d")
