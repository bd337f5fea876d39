"""What a fuzzer runs on strangers' bytes: files of ours for `mh.load`, logs and exports for `mh.read`, shards, tags.

The functions are ordinary ones: each takes bytes, and raises for anything but a good answer or an honest refusal.
`fuzz/run.py` hands them to a coverage-guided engine; ``tests/test_fuzz.py`` runs them on the corpora in
``fuzz/corpus`` and on changes of these drawn at random.
"""

from __future__ import annotations

import linecache
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import manyhands as mh
from manyhands import _core
from manyhands.table.formats import Export, opened
from manyhands.table.records import Records
from manyhands.table.sources import Layout, Source

CORPUS = Path(__file__).parent / "corpus"

#: What the first byte of a log chooses. Compressed text and the other kinds of text go through the same door.
ENDINGS = (".csv", ".parquet", ".csv.gz", ".tsv")
#: What the first byte of an export chooses.
DOCUMENTS = (".json", ".xml", ".tsv")

#: More would only be slow: nothing in the readers depends on size.
MOST_ROWS = 2000

_folder: Path | None = None


def scratch(ending: str) -> Path:
    """Return a path to write to; one a process, in memory where there is such a place."""
    global _folder
    if _folder is None:
        memory = Path("/dev/shm")
        _folder = Path(tempfile.mkdtemp(prefix="manyhands-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    return _folder / f"file{ending}"


def cleanup() -> None:
    """Delete what `scratch` made."""
    global _folder
    if _folder is not None:
        for path in _folder.iterdir():
            path.unlink()
        _folder.rmdir()
        _folder = None


def load(data: bytes) -> None:
    """A file is refused as what it is, or holds something that works and can be saved and loaded again."""
    path = scratch(".mh")
    path.write_bytes(data)
    with quiet():
        try:
            found = mh.load(path)
        except mh.FileFormatError:
            return
        use(found)
        found.save(path)
        again = mh.load(path)
    if isinstance(found, mh.Annotations):
        same_table(found, again)
    else:
        np.testing.assert_array_equal(found.posterior_, again.posterior_)
        assert found.get_params() == again.get_params(), "settings change when a model is saved"


def read(data: bytes) -> None:
    """A log is refused in our own words, or read into a table that says the same in every form."""
    if not data:
        return
    path = scratch(ENDINGS[data[0] % len(ENDINGS)])
    path.write_bytes(data[1:])
    with quiet():
        try:
            votes = mh.read(path)
        except (ValueError, KeyError, TypeError) as error:
            # Arrow's exceptions derive from Python's own, and say nothing of the file.
            if isinstance(error, pa.ArrowException):
                raise AssertionError("Arrow's own words came through") from error
            return
        if votes.n_annotations > MOST_ROWS:
            return
        if not isinstance(votes, mh.Annotations):
            votes.describe()  # columns of other names are of another kind
            return
        use(votes)
        same_table(votes, mh.Annotations.from_frame(votes.to_frame()))
        try:
            votes.save(scratch(".mh"))
        except TypeError:
            return  # ids without a plain form, such as dates
        same_table(votes, mh.load(scratch(".mh")))


def opened_export(data: bytes) -> list[Any]:
    """The tables of all questions of a document, whose first byte chooses what it is called."""
    path = scratch(DOCUMENTS[data[0] % len(DOCUMENTS)])
    path.write_bytes(data[1:])
    found = opened([Source(path, Layout())], "auto")
    if not isinstance(found, Export):
        return [mh.read(path)]
    return [found.table(question) for question, kind in found.questions.items() if kind in Records._kinds]


def export(data: bytes) -> None:
    """An export is refused in our own words, or all its questions become tables that can be described and saved."""
    if not data:
        return
    with quiet():
        try:
            tables = opened_export(data)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, pa.ArrowException | UnicodeError) or not is_ours(error):
                raise AssertionError("words of another library came through") from error
            return
        for table in tables:
            table.describe()
            try:
                assert table.to_frame().num_rows >= 0
                table.save(scratch(".mh"))
            except TypeError:
                continue  # ids without a plain form, or of several
            assert mh.load(scratch(".mh")) == table, "the table changes when it is saved"


def shard(data: bytes) -> None:
    """A shard is refused in our own words, or is one whose table and passes work, and that comes back as it was."""
    try:
        found = _core.Shard(np.frombuffer(data, np.uint8))
    except ValueError:
        return
    assert found.to_bytes() == data, "a shard changes when it is read"
    table, who = found.table(), found.who()
    assert (table.n_tasks, table.n_annotations) == (found.n_tasks, found.n_annotations)
    assert len(who) == found.n_workers
    assert not len(who) or int(who.max()) < found.crowd
    if found.crowd * found.n_classes * found.n_labels > MOST_ROWS:
        return
    uniform = np.full((found.crowd, found.n_classes, found.n_labels), 1 / found.n_labels)
    factors, prior = _core.em_factors(uniform, np.full(found.n_classes, 1 / found.n_classes))
    counts, classes = np.zeros((found.crowd, found.n_classes * found.n_labels)), np.zeros(found.n_classes)
    log_evidence = _core.em_gather(found, factors, prior, counts=counts, classes=classes)
    assert np.isfinite(log_evidence)
    assert np.isfinite(counts).all()
    assert found.without_abstentions().n_labels == found.n_classes


def opened_conll(data: bytes) -> mh.Sequences:
    """Tags in columns: one file for all workers, or, where the first byte is odd, one for each, cut at a NUL."""
    if not data or data[0] % 2 == 0:
        path = scratch(".conll")
        path.write_bytes(data[1:])
        return mh.Sequences.from_conll(path, gaps="unsaid")
    files = {}
    for worker, part in enumerate(data[1:].split(b"\0")[:3]):
        files[worker] = scratch(f".{worker}")
        files[worker].write_bytes(part)
    return mh.Sequences.from_conll(files, gaps="unsaid")


def conll(data: bytes) -> None:
    """Files are refused in our own words, or read into a table whose answers can be written and read again."""
    if not data:
        return
    with quiet():
        try:
            votes = opened_conll(data)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, pa.ArrowException | UnicodeError):
                raise AssertionError("words of another library came through") from error
            return
        if votes.n_tokens > MOST_ROWS or len(votes.tags) > 50:
            return
        votes.describe()
        votes.save(scratch(".mh"))
        assert mh.load(scratch(".mh")) == votes, "the table changes when it is saved"
        marked = votes.spans()
        assert all(a < b for a, b in zip(marked["start"].to_pylist(), marked["end"].to_pylist(), strict=True))
        model = mh.sequences.TokenVote().fit(votes)
        assert np.isfinite(model.posterior_).all()
        assert len(model.labels_) == votes.n_tokens
        written = scratch(".out")
        model.to_conll(written)
        again = mh.Sequences.from_conll({0: written}, gaps="unsaid")
        assert again.lengths.tolist() == votes.lengths.tolist(), "sequences change when they are written"
        if votes._tags.spans and model.segments_.num_rows:
            found = again.spans().select(["start", "end", "tag"])
            wanted = model.segments_
            assert found["tag"].to_pylist() == wanted["tag"].to_pylist(), "spans change when they are written"


#: Every target, by the name of its corpus.
TARGETS: dict[str, Callable[[bytes], None]] = {
    "load": load,
    "read": read,
    "export": export,
    "shard": shard,
    "conll": conll,
}


def is_ours(error: BaseException) -> bool:
    """Whether the library itself raised an exception, in Python or in its core, and not something that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    path = trace.tb_frame.f_code.co_filename
    line = linecache.getline(path, trace.tb_lineno)
    return "manyhands" in Path(path).parts and ("raise" in line or "_core." in line)


@contextmanager
def quiet() -> Any:
    """Warnings are for people."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def use(found: Any) -> None:
    """Whatever was let through must not break what stands behind the reader."""
    if isinstance(found, mh.Annotations):
        found.describe()
        found = mh.MajorityVote().fit(found)
    assert len(found.labels_) == len(found.tasks_)
    assert found.to_frame().num_rows == len(found.tasks_)
    assert np.isfinite(found.posterior_).all()
    assert np.abs(found.posterior_.sum(axis=1) - 1).max() < 1e-6
    assert len(found.workers_frame()) == len(found.workers_)


def same_table(one: mh.Annotations, other: mh.Annotations) -> None:
    """Two tables hold the same annotations under the same names."""
    assert one == other, f"the table changed: {one.to_frame().to_pylist()[:5]}, {other.to_frame().to_pylist()[:5]}"
