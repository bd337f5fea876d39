"""What a fuzzer runs on strangers' bytes: files of ours for `mh.load`, logs and exports for `mh.read`, shards, tags.

The functions are ordinary ones: each takes bytes, and raises for anything but a good answer or an honest refusal.
`fuzz/run.py` hands them to a coverage-guided engine; ``tests/io/test_fuzz.py`` runs them on the corpora in
``fuzz/corpus`` and on changes of these drawn at random.
"""

from __future__ import annotations

import linecache
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fields as structure
import manyhands as mh
from manyhands import _core
from manyhands._base.sources import Layout, Source
from manyhands._base.table import Records
from manyhands.io.exports import READERS, Export, open_export
from manyhands.io.exports.export import Answer
from manyhands.io.exports.files import export_files

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
        shutil.rmtree(_folder)
        _folder = None


def load(data: bytes) -> None:
    """A file is refused as what it is, or holds something that works and can be saved and loaded again."""
    path = scratch(".mh")
    path.write_bytes(data)
    with quiet():
        try:
            found = mh.load(path)
        except mh.errors.FileFormatError:
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
    found = open_export([Source(path, Layout())], "auto")
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
    log_evidence = found.em_gather(factors, prior, counts=counts, classes=classes)
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
        assert len(model.tags_) == votes.n_tokens
        written = scratch(".out")
        model.to_conll(written)
        again = mh.Sequences.from_conll({0: written}, gaps="unsaid")
        assert again.lengths.tolist() == votes.lengths.tolist(), "sequences change when they are written"
        if votes._tags.spans and model.spans_.num_rows:
            found = again.spans().select(["start", "end", "tag"])
            wanted = model.spans_
            assert found["tag"].to_pylist() == wanted["tag"].to_pylist(), "spans change when they are written"


#: Exports that `fields` changes; `fuzz/run.py` adds real ones.
EXPORTS = structure.exports(structure.SAMPLES)

#: Platforms where what `structure.COUNTS` counts answers one question only.
ONE_TO_ONE = ("label-studio", "sagemaker", "toloka")

#: Kinds of which an answer has a row in its table.
ONE_ROW = ("categorical", "numeric", "multilabel", "texts", "pairwise")


def fields(data: bytes) -> None:
    """Answers of an export that was changed field by field are in its table, reported as dropped, or refused by name.

    The first byte chooses the export, the second what is done to it: fields are changed, or the same answers are
    brought in another order, in two files, or twice under one name.
    """
    choices = structure.Choices(data)
    documents = [document.copy() for document in choices.of(EXPORTS)]
    match choices.below(8):
        case (0 | 1 | 2) as way if is_read(documents):
            (same_in_any_order, same_in_two_files, same_names_are_different_workers)[way](documents, choices)
        case _:
            done = [structure.changed(choices.of(documents), choices) for _ in range(1 + choices.below(3))]
            accounts_for_all(documents, "; ".join(done))


def is_read(documents: Sequence[structure.Document]) -> bool:
    """Whether files are an export of a platform that is read, as they are."""
    with quiet():
        try:
            return read_files(written(documents))[0] is not None
        except ValueError:
            return False


def written(documents: Sequence[structure.Document], *folders: str) -> list[Path]:
    """Write documents to files, each in a folder of its own if `folders` names some."""
    base = scratch("").parent / "export"
    shutil.rmtree(base, ignore_errors=True)
    paths = []
    for place, document in enumerate(documents):
        path = base / (folders[place] if folders else "") / document.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.text(), encoding="utf-8")
        paths.append(path)
    return [path for path in paths if path.suffix != ".txt"]  # brat keeps a text next to its annotations


def read_files(paths: Sequence[Path]) -> tuple[Export | None, str]:
    """Read files as an export of the platform that recognizes them; None, with no name, for plain tables."""
    sources = [Source(path, Layout()) for path in paths]
    export = open_export(sources, "auto")
    if not isinstance(export, Export):
        return None, ""
    file = export_files(sources)[0]
    return export, next(reader.name for reader in READERS if reader.recognizes(file))


def check_refusal(error: Exception, paths: Sequence[Path], done: str) -> None:
    """A refusal is in our own words and names the file."""
    ours = is_ours(error) and not isinstance(error, pa.ArrowException | UnicodeError)
    if not ours or not any(path.name in str(error) or str(path.parent) in str(error) for path in paths):
        raise AssertionError(f"{done}: {type(error).__name__}: {error}") from error


def marks(answer: Answer) -> int:
    """How many marks or labels an answer has."""
    return len(answer.said) if isinstance(answer.said, list) else 1


def accounts_for_all(documents: Sequence[structure.Document], done: str) -> None:
    """Answers in the files are answers of the export, or counted as dropped; answers that count are in the tables."""
    paths = written(documents)
    with warnings.catch_warnings(record=True) as notes, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            export, platform = read_files(paths)
        except (ValueError, KeyError, TypeError) as error:
            check_refusal(error, paths, done)
            return
        if export is None:
            plain_rows_are_kept(paths, documents, notes, done)
            return
    if platform in structure.EXACT:
        n_answers = structure.EXACT[platform](documents)
        n_read = sum(marks(answer) for answer in export.answers if answer.said is not None)
        n_dropped = sum(part.count for part in export.dropped)
        account = f"{done}: {n_answers} answers in {platform}, {n_read} read, {n_dropped} reported as dropped"
        assert n_answers == n_read + n_dropped, account
    count = structure.COUNTS.get(platform)
    if count is not None:
        held = sum(map(count, documents))
        given = [answer for answer in export.answers if answer.source == "worker"]
        dropped = sum(part.count for part in export.dropped)
        read = sum(max(marks(answer), 1) for answer in given)
        account = f"{done}: {held} answers in {platform}, {read} read, {dropped} reported as dropped"
        most = max(structure.most_of_a_record(count, document) for document in documents)
        assert held <= read + dropped * most, account
        certain = sum(marks(answer) for answer in given if answer.status == "given" and answer.said is not None)
        assert certain <= held or platform not in ONE_TO_ONE, account
    for question, kind in export.questions.items():
        if kind in Records._kinds:
            table_holds_all(export, question, kind, paths, done)


def table_holds_all(export: Export, question: str, kind: str, paths: Sequence[Path], done: str) -> None:
    """A question's answers that count are all in its table, or a warning says how many are not."""
    given = [one for one in export.answers if (one.question, one.source, one.status) == (question, "worker", "given")]
    with warnings.catch_warnings(record=True) as notes, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            table = export.table(question)
        except (ValueError, KeyError, TypeError) as error:
            check_refusal(error, paths, done)
            return
        left = export.left_out(question)
    reported = any(issubclass(note.category, mh.errors.DataWarning) for note in notes)
    assert reported or not left, f"{done}: {left} are dropped without a warning"
    if kind in ONE_ROW:
        rows = table.n_annotations
        assert rows == len(given) or reported, f"{done}: {len(given)} answers, {rows} rows"
    table.describe()


def plain_rows_are_kept(
    paths: Sequence[Path], documents: Sequence[structure.Document], notes: Sequence[Any], done: str
) -> None:
    """A plain table has a row for each row of the file, warns, or refuses in our own words."""
    try:
        table = mh.read(paths)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, pa.ArrowException | UnicodeError) or not is_ours(error):
            raise AssertionError(f"{done}: words of another library came through") from error
        return
    rows = sum(len(document.records) for document in documents)
    warned = any(issubclass(note.category, mh.errors.DataWarning) for note in notes)
    assert table.n_annotations >= rows or warned, f"{done}: {rows} rows in files, {table.n_annotations} in the table"


def contents(export: Export | None) -> Counter[tuple[Any, ...]]:
    """All answers of an export in a form that can be compared; what is known of the truth counts once."""
    counts = Counter(
        (one.question, one.kind, str(one.task), str(one.worker), _plain(one), one.status, one.source)
        for one in (export.answers if export else ())
    )
    return Counter({key: 1 if key[-1] == "gold" else n for key, n in counts.items()})


def _plain(answer: Answer) -> str:
    said = answer.rows() if answer.kind == "masks" else answer.said
    return str(sorted(map(repr, said)) if isinstance(said, list | tuple) else said)


def same_in_any_order(documents: list[structure.Document], choices: structure.Choices) -> None:
    """The order of records changes no answer."""
    with quiet():
        before, _ = read_files(written(documents))
        for document in documents:
            document.records = choices.order(document.records)
        after, _ = read_files(written(documents))
    assert contents(before) == contents(after), "the order of records changes answers"


def renamed_to(prefix: str, document: structure.Document) -> structure.Document:
    """Return a document whose file has another name."""
    path = Path(document.name)
    return document.copy(str(path.with_name(f"{prefix}-{path.name}")))


def same_in_two_files(documents: list[structure.Document], choices: structure.Choices) -> None:
    """An export that names its workers holds the same in two files as in one."""
    document = documents[0]
    if len(document.records) < 2 or any(other.form == "lines" for other in documents):
        return
    with quiet():
        before, _ = read_files(written([document]))
        renamed, _ = read_files(written([renamed_to("other", document)]))
        if contents(before) != contents(renamed):
            return
        at = 1 + choices.below(len(document.records) - 1)
        parts = [renamed_to(name, document) for name in ("one", "two")]
        parts[0].records, parts[1].records = document.records[:at], document.records[at:]
        try:
            after, _ = read_files(written(parts))
        except ValueError as error:
            check_refusal(error, written(parts), "cut in two files")
            return
        assert contents(before) == contents(after), "answers change when an export is cut in two files"


def same_names_are_different_workers(documents: list[structure.Document], _: structure.Choices) -> None:
    """Files of one name in two folders are two workers', or name their workers themselves."""
    document = documents[0]
    if document.form == "lines":  # a folder is a document, and one name in two folders is one worker
        return
    with quiet():
        one, _ = read_files(written([document]))
        both, _ = read_files(written([document, document], "first", "second"))
    alone = {answer.worker for answer in one.answers if answer.source == "worker"}
    together = {answer.worker for answer in both.answers if answer.source == "worker"}
    assert together == alone or len(together) == 2 * len(alone), f"{alone} and {alone} became {together}"
    if document.name.split(".")[0] in alone:
        assert len(together) == 2 * len(alone), f"workers of two folders were merged: {together}"


#: Every target, by the name of its corpus.
TARGETS: dict[str, Callable[[bytes], None]] = {
    "load": load,
    "read": read,
    "export": export,
    "shard": shard,
    "conll": conll,
    "fields": fields,
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
