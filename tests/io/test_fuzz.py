"""The targets of the fuzzers on their corpora, and on changes of these drawn at random: no engine needed."""

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import fields
import manyhands as mh
import mutate
import targets
from manyhands import _core

#: Changed files of each target, the same in every run and on every machine. `make fuzz` tries more.
TRIES = 1000


@pytest.fixture(autouse=True, scope="module")
def _clean():
    yield
    targets.cleanup()


def corpus(name):
    return [path.read_bytes() for path in sorted((targets.CORPUS / name).iterdir())]


@pytest.mark.parametrize(
    ("name", "path"),
    [(name, path) for name in targets.TARGETS for path in sorted((targets.CORPUS / name).iterdir())],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_corpus_holds_no_surprise(name, path):
    targets.TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", list(targets.TARGETS))
def test_changed_files_are_refused_or_harmless(name):
    rng = random.Random(f"{name} 1")
    change, files = mutate.blind(rng), corpus(name)
    for tried in range(TRIES):
        data = rng.choice(files)
        for _ in range(rng.randint(1, 3)):
            data = mutate.MUTATORS[name](data, 1 << 14, rng, change)
        try:
            targets.TARGETS[name](data)
        except Exception as error:
            error.add_note(f"file {tried} of this run; its bytes: {data[:4000]!r}")
            raise


def outcomes(name, tries):
    """What becomes of changed files: how many are let through, how many refused."""
    rng = random.Random(0)
    change, files = mutate.blind(rng), corpus(name)
    through = 0
    for _ in range(tries):
        data = mutate.MUTATORS[name](rng.choice(files), 1 << 14, rng, change)
        if name == "shard":
            with suppress(ValueError):
                _core.Shard(np.frombuffer(data, np.uint8))
                through += 1
            continue
        if name == "fields":
            choices = fields.Choices(data)
            documents = [document.copy() for document in choices.of(targets.EXPORTS)]
            fields.changed(choices.of(documents), choices)
            through += targets.is_read(documents)
            continue
        if name in ("conll", "export"):
            with targets.quiet(), suppress(ValueError, KeyError, TypeError):
                (targets.opened_conll if name == "conll" else targets.opened_export)(data)
                through += 1
            continue
        ending = ".mh" if name == "load" else targets.ENDINGS[data[0] % len(targets.ENDINGS)]
        path = targets.scratch(ending)
        path.write_bytes(data if name == "load" else data[1:])
        with targets.quiet():
            try:
                mh.load(path) if name == "load" else mh.read(path)
                through += 1
            except (ValueError, KeyError, TypeError):
                pass
    return through


@pytest.mark.parametrize("name", list(targets.TARGETS))
def test_changes_get_past_the_first_check(name):
    """A mutator whose files are all refused at the door would test the door alone."""
    assert 20 < outcomes(name, 300) < 280


def test_a_target_fails_where_a_reader_is_wrong(monkeypatch):
    def wrong(path):
        raise IndexError("list index out of range")

    monkeypatch.setattr(mh, "load", wrong)
    with pytest.raises(IndexError):
        targets.load(b"")


LOSSES = {
    "an answer": lambda export: export.answers.pop(),
    "a report": lambda export: export.dropped.clear(),
    "a worker's name": lambda export: export.answers.__setitem__(0, replace(export.answers[0], worker="x")),
}


@pytest.mark.parametrize("lost", LOSSES)
def test_a_reader_that_loses_something_is_found_out(lost, monkeypatch):
    sound = targets.read_files

    def careless(paths):
        export, platform = sound(paths)
        if export is not None:
            LOSSES[lost](export)
        return export, platform

    monkeypatch.setattr(targets, "read_files", careless)
    rng = random.Random(0)

    def run():
        for _ in range(TRIES):
            targets.fields(rng.randbytes(24))

    with pytest.raises(AssertionError, match=r"answers|workers"):
        run()


@pytest.mark.parametrize("platform", list(fields.EXACT))
def test_exact_counts_notice_each_lost_answer_and_each_lost_report(platform, monkeypatch):
    sound, n_judged = targets.read_files, 0
    for documents in targets.EXPORTS:
        with targets.quiet():
            export, name = sound(targets.written(documents)) if targets.is_read(documents) else (None, "")
        if name != platform:
            continue
        targets.accounts_for_all(documents, "unchanged")
        losses = [
            replace(export, answers=[*export.answers[:place], *export.answers[place + 1 :]])
            for place, answer in enumerate(export.answers)
            if answer.said not in (None, [])
        ]
        losses += [
            replace(export, dropped=[*export.dropped[:place], *export.dropped[place + 1 :]])
            for place in range(len(export.dropped))
        ]
        for careless in losses:
            n_judged += 1
            monkeypatch.setattr(targets, "read_files", lambda paths, careless=careless: (careless, platform))
            with pytest.raises(AssertionError, match=platform):
                targets.accounts_for_all(documents, "one is missing")
        monkeypatch.setattr(targets, "read_files", sound)
    assert n_judged >= 3


def test_files_are_laid_out_as_the_library_does():
    """Otherwise all that the mutator changes under right sums would be refused at the door."""
    path = targets.scratch(".mh")
    mh.Annotations.from_arrays([1, 1, 2], ["a", "b", "a"], ["x", "y", "x"]).save(path)
    content = mutate.persist.read(path)
    header = {"kind": content.kind, "meta": content.meta}
    assert mutate.laid_out(header, content.arrays) == path.read_bytes()
