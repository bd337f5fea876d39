"""Saved files: what goes in comes out, whatever goes wrong on the way."""

from __future__ import annotations

import datetime as dt
import errno
import io
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import manyhands as mh
from files import VOTES, try_load
from manyhands._base import atomic, persist
from manyhands._base.names import Names

# --------------------------------------------------------------------------------------------- round trips

IDS = {
    "integers": [5, -3, 2**60],
    "unsigned": np.array([1, 2**64 - 1, 7], np.uint64),
    "text": ["b", "a\0", "\U0001f600 and more than fifteen bytes"],
    "floats": [0.5, -1e300, float("inf")],
    "booleans": [True, False, True],
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("weights", [None, [0.5, 0.0, 2.0]])
def test_tables_come_back_as_they_were(tmp_path, kind, weights):
    ids = IDS[kind]
    votes = mh.Annotations.from_arrays(ids, ids, ids, weights, classes=dict.fromkeys(ids))
    votes.save(tmp_path / "votes.mh")
    back = mh.load(tmp_path / "votes.mh")
    assert back == votes
    assert type(back) is mh.Annotations
    assert back.tasks.dtype == votes.tasks.dtype
    assert [p.name for p in tmp_path.iterdir()] == ["votes.mh"]


def test_unlabelled_tasks_and_unused_classes_come_back(tmp_path):
    with pytest.warns(mh.errors.DataWarning):
        votes = mh.Annotations.from_arrays(["a", "b", "c"], ["x", "y", "z"], ["no", None, "no"], classes=["yes", "no"])
    votes.save(tmp_path / "votes")
    back = mh.load(tmp_path / "votes")
    assert back.unlabelled.tolist() == ["b"]
    assert back.classes.tolist() == ["yes", "no"]
    part = votes.select(tasks=["c"])
    part.save(tmp_path / "part")
    assert mh.load(tmp_path / "part") == part


@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=20), st.integers(-(2**63), 2**63 - 1), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_any_text_and_integers_come_back(tmp_path_factory, rows):
    votes = mh.Annotations.from_arrays(*zip(*rows, strict=True))
    path = tmp_path_factory.getbasetemp() / "any.mh"
    votes.save(path)
    assert mh.load(path) == votes


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize(
    "model",
    [
        mh.MajorityVote(ties="abstain"),
        mh.MajorityVote(ties="random", seed=7),
        mh.categorical.WeightedVote("zero-based", n_iter=4),
        mh.DawidSkene(max_iter=5, tol=0.0, pseudo_count=0.5, model="one-coin"),
    ],
    ids=repr,
)
def test_models_come_back_as_they_were(tmp_path, model, kind):
    ids = IDS[kind]
    columns = ([*ids, ids[0]], [*ids, ids[1]], [*ids, ids[0]])
    votes = mh.Annotations.from_arrays(*columns, classes=dict.fromkeys(ids))
    model.fit(votes)
    model.save(tmp_path / "model.mh")
    back = mh.load(tmp_path / "model.mh")
    assert type(back) is type(model)
    assert back.get_params() == model.get_params()
    assert back.labels_.tolist() == model.labels_.tolist()
    for name in ("posterior_", "confusion_", "prior_", "history_", "tied_", "tasks_", "workers_", "classes_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert (back.n_iter_, back.converged_) == (model.n_iter_, model.converged_)
    assert back.to_frame().equals(model.to_frame())
    np.testing.assert_equal(back.workers_frame().to_pydict(), model.workers_frame().to_pydict())
    np.testing.assert_array_equal(back.predict_proba(votes), model.predict_proba(votes))


def test_a_model_that_is_not_fitted_has_nothing_to_save(tmp_path):
    with pytest.raises(mh.errors.NotFittedError, match="call fit"):
        mh.DawidSkene().save(tmp_path / "model.mh")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([(1, 2), (3, 4)], r"\(1, 2\)"),
        ([1, "a"], "1,.*'a'"),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "2024"),
        ([b"a", b"b"], "bytes"),
        ([2**70, 1], "tasks"),
        (["\ud800", "a"], "tasks"),
    ],
)
def test_ids_that_have_no_plain_form_are_refused(tmp_path, ids, message):
    votes = mh.Annotations.from_arrays(ids, [1, 2], [0, 1])
    with pytest.raises(TypeError, match=message):
        votes.save(tmp_path / "votes.mh")
    with pytest.raises(TypeError, match=message):
        mh.MajorityVote().fit(votes).save(tmp_path / "model.mh")
    assert not list(tmp_path.iterdir())


def test_a_save_that_cannot_be_leaves_the_old_file(tmp_path):
    path = tmp_path / "votes.mh"
    VOTES.save(path)
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        VOTES.save(tmp_path / "no such folder" / "votes.mh")
    with pytest.raises(TypeError, match="'a'"):
        persist.write(path, "categorical", {}, {"a": np.array([object()])})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["votes.mh"]


class Faults:
    """Makes the n-th write, flush, opening or renaming of a file fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, error: Callable[[], BaseException]) -> None:
        self.left, self.error, self.renamed = n, error, False
        for name in ("open", "fsync", "replace"):
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))
        faults = self

        class Raw(io.FileIO):
            def write(self, data):
                faults.tick()
                return super().write(data[: max(len(data) // 2, 1)])  # the system may take less than it was given

        def opened(path: Path, mode: str) -> io.BufferedWriter:
            self.tick()
            return io.BufferedWriter(Raw(os.fspath(path), mode.replace("b", "")), buffer_size=64)

        monkeypatch.setattr(Path, "open", opened)

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error()

    def _failing(self, function: Callable) -> Callable:
        def call(*args, **options):
            self.tick()
            made = function(*args, **options)
            self.renamed |= function.__name__ == "replace"
            return made

        return call


@pytest.mark.parametrize("error", [lambda: OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt])
def test_a_save_that_fails_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, error):
    old, new = VOTES, VOTES.select(tasks=["a"])
    path = tmp_path / "votes.mh"
    new.save(path)
    replacement = path.read_bytes()
    old.save(path)
    before = path.read_bytes()
    for n in itertools.count(1):
        saved = False
        with pytest.MonkeyPatch.context() as patch, suppress(type(error())):
            faults = Faults(patch, n, error)
            new.save(path)
            saved = True
        assert path.read_bytes() == (replacement if faults.renamed else before)
        assert faults.renamed or not saved
        assert [p.name for p in tmp_path.iterdir()] == ["votes.mh"]  # nothing is left behind
        if faults.left > 0:  # there are fewer steps than that
            break
        path.write_bytes(before)
    assert saved
    assert n > 10


def test_any_number_of_threads_may_save_to_one_path(tmp_path):
    path = tmp_path / "race.mh"
    both = [VOTES, VOTES.select(tasks=["a"])]
    both[0].save(path)

    def save(votes: mh.Annotations) -> None:
        for _ in range(40):
            votes.save(path)

    with ThreadPoolExecutor(2) as pool:
        saving = [pool.submit(save, votes) for votes in both]
        while not all(one.done() for one in saving):
            assert mh.load(path) in both
        for one in saving:
            one.result()
    assert [p.name for p in tmp_path.iterdir()] == ["race.mh"]


def test_a_link_stays_a_link_and_a_file_keeps_its_ending(tmp_path):
    (tmp_path / "real.mh").write_bytes(b"")
    link = tmp_path / "link.mh"
    link.symlink_to("real.mh")
    VOTES.save(link)
    assert link.is_symlink()
    assert mh.load(tmp_path / "real.mh") == VOTES
    with atomic.atomic_write(tmp_path / ("x" * 240 + ".csv.gz")) as part:  # names may have 255 bytes
        part.write_bytes(b"")
        assert part.parent == tmp_path
        assert part.name.endswith(".csv.gz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(pipe.read_bytes)
        VOTES.save(pipe)
        written = reading.result(10)
    assert pipe.is_fifo()
    assert try_load(tmp_path / "votes.mh", written) == VOTES


@pytest.mark.parametrize("ids", [[True, 1, 1.0], [1, 2.5, 2], ["a", "b", "a"], [0.5, 1.5, 0.5]], ids=str)
def test_ids_without_a_common_type_are_saved_if_they_are_loaded_as_they_were(tmp_path, ids):
    votes = mh.Annotations.from_arrays(ids, [0, 1, 2], list("aba"))
    votes.save(tmp_path / "votes.mh")
    assert mh.load(tmp_path / "votes.mh") == votes


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    import pyarrow as pa

    bad = pa.LargeStringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 3])), pa.py_buffer(b"a\xffb"))
    votes = mh.Annotations(VOTES.table, VOTES._tasks, VOTES._workers, Names(bad))
    with pytest.raises(ValueError, match="'classes'"):
        votes.save(tmp_path / "votes.mh")
    model = mh.DawidSkene(max_iter=3, tol=0).fit(VOTES)
    model._fitted().fit.posterior.dense()[0] = np.nan
    with pytest.raises(ValueError, match=r"fit\.posterior\.array"):
        model.save(tmp_path / "model.mh")
    assert not list(tmp_path.iterdir())


def test_settings_of_several_numpy_numbers_are_kept(tmp_path: Path) -> None:
    votes = mh.simulate(n_tasks=50, n_workers=5, n_classes=2, labels_per_task=3).log
    model = mh.DawidSkene(pseudo_count=(np.int64(2), np.float64(0.5))).fit(votes)
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh", mh.DawidSkene).pseudo_count == (2, 0.5)
