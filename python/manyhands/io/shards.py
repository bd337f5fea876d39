"""Logs that are read in batches: files of any size, and whatever yields frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from manyhands._base import data_checks as checks
from manyhands._base import soft_labels as soft
from manyhands._base.checks import preview
from manyhands._base.frames import take_columns
from manyhands._base.names import Column
from manyhands._base.sources import Source
from manyhands._base.streams import batches as read_batches
from manyhands._base.streams import find_columns
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import Directory, is_directory, open_directory
from manyhands.categorical.shards.encoder import Batch, Encoder, Rules, memory_of
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.table import Annotations
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa


_ROLES = ("task", "worker", "label")
_NUMBERS = ("weight", "confidence")


def _sorted_out(asked: Mapping[str, Any]) -> tuple[dict[str, str | None], Rules]:
    """Columns by role, and how rows become a table, of what `Annotations.from_frame` is passed."""
    accepted = (*_ROLES, *_NUMBERS, "repeats", "missing", "classes", "abstain")
    for name in asked:
        if name not in accepted:
            raise TypeError(
                f"{argument(name)} means nothing to a log of classes out of core, which takes {', '.join(accepted)}"
            )
    columns: dict[str, str | None] = {role: asked.get(role) for role in _ROLES}
    columns |= {role: asked[role] for role in _NUMBERS if asked.get(role) is not None}
    if len(columns) > len(_ROLES) + 1:
        raise ValueError("give weights or confidences, not both: a confidence becomes the weight of its label")
    for role, column in columns.items():
        if column is not None and not isinstance(column, str):
            raise TypeError(f"{argument(role)} must name one column out of core, not {column!r}")
    classes = asked.get("classes")
    rules = Rules(
        repeats=asked.get("repeats", "keep"),
        missing=asked.get("missing", "drop"),
        classes=None if classes is None else checks.fixed_classes(classes),
        abstain=soft.abstentions(asked.get("abstain")),
        confidence="confidence" in columns,
    )
    rules.check()
    return columns, rules


def encode_files(
    sources: list[Source],
    asked: Mapping[str, Any],
    directory: str | os.PathLike[str],
    *,
    memory: str | int,
    labels_as_text: bool,
) -> Annotations:
    """Write the log of some files to shards, unless that was done before; columns and rules are `asked` for."""
    columns, rules = _sorted_out(asked)
    columns_by_source = [find_columns(one, columns) for one in sources]
    source = _fingerprint(sources, columns_by_source, rules, labels_as_text)
    there = _encoded_before(directory, source, sources)
    if there is None:
        with Claim(directory, wait=True) as claim:
            # Another process may have encoded it in the meantime.
            there = _encoded_before(directory, source, sources)
            if there is None:
                encoder = Encoder(claim, rules, memory=memory_of(memory))
                there = encoder.run(_batches_of(sources, columns_by_source, labels_as_text), source)
    return Annotations.from_shards(Sharded(there))


def _encoded_before(directory: str | os.PathLike[str], source: str | None, sources: list[Source]) -> Directory | None:
    """The shards of the same files and settings, None where there are none; raises for those of another log."""
    if not is_directory(directory):
        return None
    there = open_directory(directory)
    if source is None or there.source != source:
        raise FileExistsError(
            f"{os.fspath(directory)} holds shards of another log, of other settings, or of files that have changed "
            f"since, than {preview([str(one) for one in sources])}; name another directory, or delete it"
        )
    return there


def encode_batches(
    batches: Iterable[Any],
    asked: Mapping[str, Any],
    directory: str | os.PathLike[str],
    *,
    memory: str | int,
) -> Annotations:
    """Write a log that comes in frames to shards; columns and rules are `asked` for."""
    columns, rules = _sorted_out(asked)
    number = next((role for role in _NUMBERS if role in columns), None)

    def taken() -> Iterator[Batch]:
        for frame in batches:
            columns_found = take_columns(frame, **columns)
            ids = (Column(columns_found[role][1], f"{role} column {columns_found[role][0]!r}") for role in _ROLES)
            tasks, workers, labels = ids
            number_column = (
                None if number is None else (columns_found[number][1], f"{number} column {columns_found[number][0]!r}")
            )
            yield Batch(tasks, workers, labels, number_column)

    with Claim(directory) as claim:
        encoder = Encoder(claim, rules, memory=memory_of(memory))
        return Annotations.from_shards(Sharded(encoder.run(taken())))


def _fingerprint(sources: list[Source], found: list[dict[str, str]], rules: Rules, labels_as_text: bool) -> str | None:
    """A fingerprint of files and settings; None for streams, which are gone once they are read."""
    import hashlib

    from manyhands._base.archives import archive_of

    if any(one.is_stream for one in sources):
        return None
    stats = [(archive_of(one.path) or one.path).stat() for one in sources]
    files = [(os.fspath(one.path.resolve()), s.st_size, s.st_mtime_ns) for one, s in zip(sources, stats, strict=True)]
    names = [None if part is None else part.values.tolist() for part in (rules.classes, rules.abstain)]
    settings = (rules.repeats, rules.missing, rules.confidence, labels_as_text, names, found)
    layout = [one.layout for one in sources]
    return hashlib.blake2b(repr((files, settings, layout)).encode(), digest_size=16).hexdigest()


def _batches_of(sources: list[Source], found: list[dict[str, str]], labels_as_text: bool) -> Iterator[Batch]:
    """Yield the rows of all files, in batches of columns that have one type each."""
    kinds = [_types(one, names) for one, names in zip(sources, found, strict=True)]
    goals = {role: _common(role, [kind[role] for kind in kinds], sources) for role in found[0]}
    for one, names in zip(sources, found, strict=True):
        for batch in read_batches(one, list(names.values()), [names[r] for r in _NUMBERS if r in names]):
            columns = {}
            for role in _ROLES:
                goal, parse = goals[role]
                data = batch.column(names[role])
                if labels_as_text and role == "label":
                    goal, parse = "large_string", False
                what = f"{role} column {found[0][role]!r}"
                columns[role] = Column(_cast_column(data, goal), what, parse_integers=parse, sound=True)
            number = next((role for role in _NUMBERS if role in names), None)
            number_column = (
                None if number is None else (batch.column(names[number]), f"{number} column {names[number]!r}")
            )
            yield Batch(columns["task"], columns["worker"], columns["label"], number_column)


def _types(source: Source, names: Mapping[str, str]) -> dict[str, Any]:
    """The type of each role's column; fields of a CSV file are text."""
    import pyarrow as pa

    if source.kind == "csv":
        return dict.fromkeys(names, pa.large_string())
    schema = source.parquet.schema.to_arrow_schema()
    return {role: schema.field(name).type for role, name in names.items()}


def _common(role: str, kinds: list[Any], sources: list[Source]) -> tuple[Any, bool]:
    """The type that a column has in all files, None for the one it has, and whether its text may spell integers."""
    import pyarrow.types as types

    parse = all(one.kind == "csv" for one in sources)
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
    if len(set(plain)) == 1:
        return None, parse
    texts = [types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) for kind in plain]
    numbers = [(types.is_integer(kind) or types.is_floating(kind)) for kind in plain]
    if all(texts):
        return "large_string", parse
    if any(texts) and all(text or number for text, number in zip(texts, numbers, strict=True)):
        return "large_string", True
    if all(numbers):
        return ("double" if any(map(types.is_floating, plain)) else "int64"), parse
    listing = ", ".join(f"{kind} in {one}" for kind, one in zip(kinds, sources, strict=True))
    raise TypeError(f"the {role} column has types that do not go together: {listing}; convert one")


def _cast_column(data: pa.Array, goal: Any) -> pa.Array:
    import pyarrow as pa

    if goal is None:
        return data
    return (data.dictionary_decode() if pa.types.is_dictionary(data.type) else data).cast(goal)
