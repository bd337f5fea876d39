"""Verdicts of judges and labels of people as columns of codes, from frames, tables, mappings and files."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import plural, preview, warn_of_data
from manyhands._base.estimator import Array
from manyhands._base.frames import WEAK, WELL_KNOWN, known_among, names_of, normalize_name
from manyhands._base.table import Records
from manyhands.categorical.table import Annotations
from manyhands.errors import MissingColumnError
from manyhands.io.exports.export import Export
from manyhands.io.read import open_log
from manyhands.numeric.table import Ratings

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]

#: Columns of verdicts, and names by which they are found.
ROLES: dict[str, tuple[str, ...]] = {
    "task": (*WELL_KNOWN["task"], "sample", "sample_id", "prompt_id", "id"),
    "judge": (*WELL_KNOWN["worker"], "grader", "scorer"),
    "verdict": ("verdict", "label", "choice", "preference", "winner", "grade", "vote", "score", "rating", "value"),
    "system": ("system", "system_id", "version", "system_version", "variant", "candidate", "generator"),
    "criterion": ("criterion", "criteria", "metric", "dimension", "aspect", "rubric"),
    "position": ("position", "slot", "order"),
    "length": ("length", "output_length", "response_length", "n_tokens", "n_words", "n_characters", "n_chars"),
    "family": ("family", "judge_family", "provider"),
    "system_family": ("system_family", "model_family"),
    "cluster": ("cluster", "conversation", "conversation_id", "session", "session_id", "thread"),
    "stratum": ("stratum", "strata"),
    "time": ("time", "timestamp", "when", "created_at", "submitted_at", "date"),
    "annotator_kind": ("annotator_kind", "source_type"),
    "left": ("model_a", "left", "item_a"),
    "right": ("model_b", "right", "item_b"),
}
#: Weaker names, taken where no other column has the role.
_WEAKER = {
    "judge": ("model", *WEAK["worker"]),
    "verdict": ("answer", "response", "class"),
    "system": ("model", "model_id"),
}
#: Columns of gold in addition.
_GOLD_ROLES = {"probability": ("probability", "sampling_probability", "inclusion_probability"), "group": ("group",)}
#: Kinds of verdicts that a panel can hold.
KINDS = ("categorical", "numeric")
#: Texts of verdicts that are failures: no verdict was found.
FAILED = frozenset(
    ("", "none", "null", "nan", "n/a", "na", "error", "failed", "failure", "unparseable", "parse_error", "invalid",
     "refused", "abstain")
)  # fmt: skip
#: What classes count for in a score, by their lower-case name.
VALUES = {
    **dict.fromkeys(
        ("pass", "passed", "yes", "y", "true", "1", "correct", "c", "good", "success", "accept", "accepted", "ok",
         "positive", "win", "a", "model_a", "left"), 1.0,
    ),
    **dict.fromkeys(
        ("fail", "no", "n", "false", "0", "incorrect", "i", "bad", "reject", "rejected", "negative", "loss", "lose",
         "b", "model_b", "right", "not correct", "wrong"), 0.0,
    ),
    **dict.fromkeys(("partial", "partially", "p", "partially correct", "tie", "draw", "equal", "both", "1.5"), 0.5),
}  # fmt: skip
_LEFT, _RIGHT = ("a", "model_a", "left", "1"), ("b", "model_b", "right", "2")
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_TIES = ("tie", "draw", "equal", "both", "1.5", "0", "tie (bothbad)", "neither")
#: Roles that describe a verdict.
_EXTRA = ("position", "length", "family", "system_family", "time")


@dataclass(frozen=True)
class Coded:
    """A column as its distinct values, None among them for missing ones, and the code of each row."""

    names: list[Any]
    codes: Ints

    @classmethod
    def of(cls, column: Any) -> Coded:
        """Encode a column; distinct values are in order if they are all numbers or all text."""
        import pyarrow as pa

        if not hasattr(column, "type"):
            values = _plain(column)
            try:
                column = pa.array(values, from_pandas=True)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return cls._of_mixed(values)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # as older versions of PyArrow leave it
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if pa.types.is_nested(column.type):
            return cls._of_mixed(column.to_pylist())
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        # `fill_null` and `to_numpy` of Arrow import pandas.
        codes = arrow.to_numpy(encoded.indices).astype(np.int64)
        if encoded.indices.null_count:
            codes[arrow.nulls(encoded.indices)] = len(names)
            names.append(None)
        return cls(names, codes)._sorted()

    @classmethod
    def _of_mixed(cls, values: list[Any]) -> Coded:
        names: dict[Any, int] = {}
        keyed = [(type(one).__name__, one) if one.__hash__ is not None else ("", str(one)) for one in values]
        codes = np.array([names.setdefault(key, len(names)) for key in keyed], np.int64)
        return cls([name for _, name in names], codes)

    def _sorted(self) -> Coded:
        there = [name for name in self.names if name is not None]
        if not (all(isinstance(name, str) for name in there) or all(isinstance(name, int | float) for name in there)):
            return self
        order = sorted(
            range(len(self.names)),
            key=lambda at: (
                (self.names[at] is None, self.names[at] or 0)
                if not isinstance(self.names[at], str)
                else (False, self.names[at])
            ),
        )
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return Coded([self.names[at] for at in order], place[self.codes])

    def as_integers(self) -> Coded:
        """The same with whole numbers in place of their text, if every value is one in plain form."""
        numbers = [int(one) if isinstance(one, str) and _INTEGER.fullmatch(one) else None for one in self.names]
        return self if None in numbers else Coded(numbers, self.codes)._sorted()

    def take(self, rows: Any) -> Coded:
        """Some of the rows."""
        return Coded(self.names, self.codes[rows])

    def values(self) -> list[Any]:
        """All rows."""
        return [self.names[code] for code in self.codes.tolist()]

    def compact(self) -> Coded:
        """The same without values that no row has."""
        used, codes = np.unique(self.codes, return_inverse=True)
        return Coded([self.names[at] for at in used.tolist()], codes.astype(np.int64))

    def each(self, function: Any) -> list[Any]:
        """A function of each distinct value, by code."""
        return [function(name) for name in self.names]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True)
class Table:
    """Columns of a log by role, and where they come from."""

    columns: dict[str, Coded]
    source: str
    #: The truth that a log of verdicts contains.
    truth: Table | None = None

    @classmethod
    def of(cls, columns: Mapping[str, Any], source: str) -> Table:
        """Encode columns."""
        return cls({role: Coded.of(column) for role, column in columns.items()}, source)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def table_of(
    data: Any,
    columns_by_role: Mapping[str, str | None],
    what: str,
    *,
    gold: bool = False,
    layout: str = "long",
    kind: str | None = None,
) -> Table:
    """Return the columns of verdicts or gold in whatever form they come."""
    if isinstance(data, str | os.PathLike) or (_is_paths(data)):
        return _from_files(data, columns_by_role, gold, layout, kind)
    if isinstance(data, Annotations | Ratings):
        frame = data.to_frame()
        role = "label" if isinstance(data, Annotations) else "value"
        names = {"task": "task", "judge": "worker", "verdict": role}
        return Table.of({of: frame.column(name) for of, name in names.items()}, what)
    if isinstance(data, Records):
        raise TypeError(f"{what} must be classes, grades, numbers or preferences, not {data.kind} answers")
    if isinstance(data, Mapping) and data and all(isinstance(one, Mapping) for one in data.values()):
        rows = [(task, judge, reply) for judge, items in data.items() for task, reply in items.items()]
        task, judge, reply = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        return Table.of({"task": task, "judge": judge, "verdict": reply}, what)
    if gold and isinstance(data, Mapping) and not data:
        raise ValueError(f"{what} is empty")
    if gold and isinstance(data, Mapping) and not all(isinstance(one, list | np.ndarray) for one in data.values()):
        return Table.of({"task": list(data), "verdict": list(data.values())}, what)
    if gold and isinstance(data, tuple) and len(data) == 2:
        tasks, labels = (np.asarray(one).tolist() for one in data)
        if len(tasks) != len(labels):
            raise ValueError(f"{what} has {len(tasks):,} tasks and {len(labels):,} labels")
        return Table.of({"task": tasks, "verdict": labels}, what)
    if gold and hasattr(data, "index") and not callable(data.index) and not hasattr(data, "columns"):
        return Table.of({"task": list(data.index), "verdict": list(data)}, what)
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        fields = list(dict.fromkeys(name for row in data for name in row))
        data = {name: [row.get(name) for row in data] for name in fields}
    return _from_frame(data, columns_by_role, what, gold)


def _is_paths(data: Any) -> bool:
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(one, str | os.PathLike) for one in data)


def _from_files(
    data: Any, columns_by_role: Mapping[str, str | None], gold: bool, layout: str, kind: str | None
) -> Table:
    """Read plain tables with all their columns, and exports as their readers do."""
    worker = columns_by_role.get("judge")
    columns_given = {"worker": worker} if worker is not None else {}
    log = open_log(data, layout=layout, kind=kind if layout == "long" else None, **columns_given)
    where = preview([str(one.path) for one in log.sources])
    document: Any = None if layout == "wide" else log.document
    if layout == "wide" or isinstance(document, Export):
        named_role = next(
            (role for role, name in columns_by_role.items() if name not in (None, role) and role != "judge"), None
        )
        if named_role is not None and not gold and document is not None:
            raise ValueError(f"{named_role}= names a column, and {where} is an export, which has no columns to choose")
        table, truth = _from_frame(_by_item(log.verdicts()), {}, where, gold), log.gold()
        if truth is None or gold:
            return table
        return replace(table, truth=_from_frame(truth, {}, f"the truth in {where}", True))
    if document is None:
        import pyarrow as pa

        from manyhands._base.streams import column_names, read_columns

        parts = [read_columns(source, column_names(source)) for source in log.sources]
        columns = parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")
        table = _from_frame(columns, columns_by_role, where, gold)
        return replace(table, columns={role: one.as_integers() for role, one in table.columns.items()})
    return _from_frame(document, columns_by_role, where, gold)


def _by_item(frame: pa.Table) -> pa.Table:
    """Name outputs of several systems by what they answer, so that systems can be compared on the same items."""
    names = frame.column_names
    if "item" not in names or "system" not in names or frame.column("item").null_count:
        return frame.drop_columns([name for name in ("item",) if name in names])
    return frame.drop_columns(["task"]).rename_columns(
        ["task" if name == "item" else name for name in names if name != "task"]
    )


def _from_frame(data: Any, columns_by_role: Mapping[str, str | None], what: str, gold: bool) -> Table:
    try:
        names = names_of(data)
    except TypeError:
        raise TypeError(
            f"{what} must be a frame, a table of manyhands, a mapping {{judge: {{task: verdict}}}} or paths of files, "
            f"not {type(data).__name__}"
        ) from None
    from manyhands._base.frames import named_columns

    raw, columns, _ = named_columns(data)
    by_name = {str(name): column for name, column in zip(raw, columns, strict=True)}
    roles = find_roles(names, columns_by_role, what, gold=gold)
    outcome = {role: Coded.of(by_name[name]) for role, name in roles.items()}
    lengths = {name: len(column) for name, column in outcome.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{what} has columns of different lengths: {lengths}")
    return Table(outcome, what)


def _plain(column: Any) -> list[Any]:
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    if hasattr(column, "to_list"):
        return list(column.to_list())
    return [getattr(one, "item", lambda one=one: one)() for one in column]


def find_roles(
    names: Sequence[str], columns_by_role: Mapping[str, str | None], what: str, *, gold: bool = False
) -> dict[str, str]:
    """Find the column of each role among names: the chosen one, or the first well-known name."""
    roles = ROLES | _GOLD_ROLES if gold else ROLES
    outcome: dict[str, str] = {}
    for role, name in columns_by_role.items():
        if name is None or (gold and name not in names and role not in ("task", "verdict")):
            continue
        if role not in roles:
            continue
        if name not in names:
            raise MissingColumnError(f"{what} has no column {name!r}; its columns are {preview(list(names), 30)}", role)
        outcome[role] = name
    for role, reference in roles.items():
        if role not in outcome:
            free = [name for name in names if name not in outcome.values()]
            # In gold, a model is what was judged, not a person.
            weaker = () if gold and role == "judge" else _WEAKER.get(role, ())
            matches = known_among(free, reference) or known_among(free, weaker)
            if matches:
                outcome[role] = _first(matches, (*reference, *_WEAKER.get(role, ())))
    required = ("task", "verdict") if gold else ("task", "judge", "verdict")
    for role in required:
        if role not in outcome:
            raise MissingColumnError(
                f"{what} has no column that looks like its {role}; pass {role}=…; its columns are "
                f"{preview(list(names), 30)}",
                role,
            )
    return outcome


def _first(matches: list[str], reference: tuple[str, ...]) -> str:
    order = {name: place for place, name in enumerate(reference)}
    return min(matches, key=lambda name: order.get(normalize_name(name), order.get(name, len(order))))


@dataclass(frozen=True)
class Encoded:
    """Verdicts on one criterion by codes: an item is a task, or a task of a system.

    ``value`` has what each verdict counts for in the score, or NaN where the judge failed; ``label`` the code of its
    class, or -1.
    """

    criterion: Any
    items: list[Any]
    tasks: list[Any]
    systems: list[Any]
    judges: list[Any]
    item: Ints
    judge: Ints
    value: Array
    label: Ints
    classes: list[Any]
    #: What each class counts for; empty for numbers.
    worth: Array
    #: Code of the task and the system of each item.
    task_of: Ints
    system_of: Ints
    bounds: tuple[float, float]
    share: bool
    what: str
    #: Whether people's labels are on the scale of the verdicts, and whether judges seem to use several scales.
    same_scale: bool
    several_scales: bool
    #: Whether each comparison of two systems is there twice, from the view of each of them.
    mirrored: bool
    #: Further columns of the verdicts, aligned with them.
    extra: dict[str, Coded]
    #: Known labels: item, value, class, weight, group and annotator of each.
    gold: Gold
    #: Columns of items: cluster, stratum.
    clusters: Ints
    strata: Ints
    n_failed: int
    n_repeats: int
    warnings: tuple[str, ...] = field(default=())

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return len(self.judges)

    @property
    def is_classes(self) -> bool:
        """Whether verdicts are classes, not numbers."""
        return bool(self.classes)


@dataclass(frozen=True)
class Gold:
    """Human labels, one row per label."""

    item: Ints
    value: Array
    label: Ints
    #: Inverse sampling probabilities up to a factor.
    weight: Array
    group: list[Any]
    annotator: list[Any]

    def __len__(self) -> int:
        return len(self.item)

    def per_item(self) -> tuple[Ints, Array, Array]:
        """Labeled items, the mean value of the labels of each, and their weights."""
        items, code = np.unique(self.item, return_inverse=True)
        size = np.bincount(code)
        return items, np.bincount(code, self.value) / size, np.bincount(code, self.weight) / size


def is_failed(value: Any) -> bool:
    """Whether a verdict is missing or stands for a failure."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return isinstance(value, str) and value.strip().lower() in FAILED


def as_number(value: Any) -> float | None:
    """Return a verdict as a number, or None where it is not one."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


def split_people(log: Table) -> tuple[Table, Table | None]:
    """Split a log into verdicts of judges and human labels: the truth that it contains, or verdicts of people."""
    column = log.columns.get("annotator_kind")
    if column is None:
        return log, log.truth
    human = np.array(column.each(lambda one: str(one).strip().lower() == "human"), np.bool_)[column.codes]
    if not human.any():
        return log, log.truth
    if human.all():
        raise ValueError(f"{log.source} has verdicts of people only")
    parts = [
        {role: one.take(np.flatnonzero(rows)) for role, one in log.columns.items() if role != "annotator_kind"}
        for rows in (~human, human)
    ]
    return Table(parts[0], log.source), log.truth or Table(parts[1], f"people in {log.source}")


def need_labels(gold: Table | None) -> None:
    """Raise where gold that was passed has no label, such as a file to be filled in by people."""
    if gold is None or not len(gold):
        raise ValueError("gold is empty: it has no rows; leave it out to state what needs no human labels")
    column = gold.columns.get("verdict") or gold.columns["winner"]
    if all(map(is_failed, column.compact().names)):
        raise ValueError(f"gold has {plural(len(gold), 'row')} and no label; people have to fill in the labels first")


def encode(
    verdicts: Table,
    gold: Table | None,
    *,
    kind: str | None,
    positive: Any,
    values: Mapping[Any, float] | None,
    scale: tuple[float, float] | None,
) -> dict[Any, Encoded]:
    """Split a log by criterion, and encode each part."""
    if not len(verdicts):
        raise ValueError(f"{verdicts.source} has no verdicts")
    mirrored = "left" in verdicts.columns and "right" in verdicts.columns
    columns = _orient(verdicts.columns, verdicts.source)
    for role in ("task", "judge"):
        column = columns[role]
        if None in column.names:
            row = int(np.flatnonzero(column.codes == column.names.index(None))[0])
            raise ValueError(f"{verdicts.source}: row {row + 1:,} has no {role}")
    criteria = columns["criterion"].compact() if "criterion" in columns else None
    names = [None] if criteria is None else criteria.names
    of_gold = {} if gold is None else _orient(gold.columns, gold.source)
    by_text = {str(name): place for place, name in enumerate(names)}
    places = None
    if gold is not None and criteria is not None:
        if "criterion" in of_gold:
            codes = [by_text.get(str(one), -1) for one in of_gold["criterion"].names]
            places = np.array(codes, np.int64)[of_gold["criterion"].codes]
            unknown = of_gold["criterion"].take(np.flatnonzero(places < 0)).compact().names
            if len(places) and (places < 0).all():
                raise ValueError(f"gold has no criterion of the log, only {preview(unknown)}")
            if unknown:
                warn_of_data(f"gold has criteria without verdicts of a judge: {preview(unknown)}")
        elif len(names) > 1:
            raise ValueError(
                f"the log has {plural(len(names), 'criterion', 'criteria')}; gold needs a column criterion"
            )
    parts = {}
    for place, name in enumerate(names):
        mine, reference = columns, of_gold
        if criteria is not None and len(names) > 1:
            rows = np.flatnonzero(criteria.codes == place)
            mine = {role: column.take(rows) for role, column in columns.items()}
        if places is not None:
            selection = np.flatnonzero(places == place)
            reference = {role: column.take(selection) for role, column in of_gold.items()}
        parts[name] = _encode_part(name, mine, reference, verdicts.source, kind, positive, values, scale, mirrored)
    return parts


def _orient(columns: dict[str, Coded], source: str) -> dict[str, Coded]:
    """Turn comparisons of two systems into verdicts from the view of each of them."""
    if "left" not in columns or "right" not in columns:
        return {role: column for role, column in columns.items() if role not in ("left", "right")}
    left, right, reply = (columns[role].values() for role in ("left", "right", "verdict"))
    wins: list[tuple[str | None, str | None]] = []
    for row, (one, other, choice) in enumerate(zip(left, right, reply, strict=True)):
        word = None if is_failed(choice) else str(choice).strip().lower()
        if word is None:
            wins.append((None, None))
        elif choice == one or (word in _LEFT and choice != other):
            wins.append(("win", "loss"))
        elif choice == other or word in _RIGHT:
            wins.append(("loss", "win"))
        elif word in _TIES:
            wins.append(("tie", "tie"))
        else:
            raise ValueError(
                f"{source}: row {row + 1:,} prefers {choice!r}, which is not A, B or a tie, nor {one!r} or {other!r}"
            )
    twice = np.repeat(np.arange(len(reply)), 2)
    out = {
        role: column.take(twice)
        for role, column in columns.items()
        if role not in ("left", "right", "system", "position", "verdict")
    }
    out["system"] = Coded.of([one for pair in zip(left, right, strict=True) for one in pair])
    out["position"] = Coded.of([1, 2] * len(reply))
    out["verdict"] = Coded.of([one for pair in wins for one in pair])
    return out


def _encode_part(
    criterion: Any,
    columns: dict[str, Coded],
    gold: dict[str, Coded],
    source: str,
    kind: str | None,
    positive: Any,
    values: Mapping[Any, float] | None,
    scale: tuple[float, float] | None,
    mirrored: bool,
) -> Encoded:
    reply = columns["verdict"]
    n = len(reply)
    tasks, judges = columns["task"].compact(), columns["judge"].compact()
    systems = columns["system"].compact() if "system" in columns else Coded([None], np.zeros(n, np.int64))
    n_systems = len(systems.names)
    codes, first, item = np.unique(tasks.codes * n_systems + systems.codes, return_index=True, return_inverse=True)
    task_of, system_of = codes // n_systems, codes % n_systems
    items = [
        tasks.names[task] if n_systems == 1 else (tasks.names[task], systems.names[system])
        for task, system in zip(task_of.tolist(), system_of.tolist(), strict=True)
    ]
    about = "" if criterion is None else f" of criterion {criterion!r}"
    human = gold["verdict"].compact().names if gold else []
    used = reply.compact()
    failed_name = np.array(used.each(is_failed), np.bool_)
    if failed_name.all():
        raise ValueError(f"{source}: no verdict{about} could be read; the first is {used.names[0]!r}")
    scheme = _scheme(
        [one for one, bad in zip(used.names, failed_name.tolist(), strict=True) if not bad],
        [one for one in human if not is_failed(one)],
        kind,
        positive,
        values,
        scale,
        about,
    )
    value, label = scheme.encode(used)
    judge, failed = judges.codes, failed_name[used.codes]
    reference = _gold_rows(gold, tasks.names, systems.names, codes, scheme, source)
    warnings: list[str] = []
    repeats = n - len(np.unique(item * len(judges.names) + judge))
    if repeats:
        warnings.append(f"{plural(repeats, 'verdict')}{about} repeat a judge's verdict on the same item; all count.")
    warnings += [
        f"Judge {judges.names[place]!r} failed on every item{about}; no estimate uses it."
        for place in np.flatnonzero(np.bincount(judge[~failed], minlength=len(judges.names)) == 0).tolist()
    ]
    mixed_scales = _mixed_scales(scheme, value, judge, judges.names)
    warnings += mixed_scales
    clusters = _item_codes(columns.get("cluster"), first)
    if clusters is None:
        clusters = task_of if n_systems > 1 else np.arange(len(items))
    strata = _item_codes(columns.get("stratum"), first)
    return Encoded(
        criterion=criterion,
        items=items,
        tasks=tasks.names,
        systems=systems.names,
        judges=judges.names,
        item=item.astype(np.int64),
        judge=judge,
        value=value,
        label=label,
        classes=scheme.classes,
        worth=scheme.worth,
        task_of=task_of,
        system_of=system_of,
        bounds=scheme.bounds,
        share=scheme.share,
        what=scheme.what,
        same_scale=scheme.of_human is None and not mixed_scales,
        several_scales=bool(mixed_scales),
        mirrored=mirrored,
        extra={role: columns[role] for role in _EXTRA if role in columns},
        gold=reference,
        clusters=clusters,
        strata=np.zeros(len(items), np.int64) if strata is None else strata,
        n_failed=int(failed.sum()),
        n_repeats=repeats,
        warnings=tuple(warnings),
    )


def _item_codes(column: Coded | None, first: Ints) -> Ints | None:
    """A code for each item, by its first verdict; items without a value are on their own."""
    if column is None:
        return None
    codes = column.codes[first].copy()
    if None in column.names:
        lone = codes == column.names.index(None)
        codes[lone] = len(column.names) + np.arange(int(lone.sum()))
    return codes


@dataclass(frozen=True)
class _Scheme:
    """How verdicts become numbers."""

    classes: list[Any]
    worth: Array
    bounds: tuple[float, float]
    share: bool
    what: str
    #: What human labels count for by their text, where they are classes and verdicts are numbers.
    of_human: dict[Any, float] | None = None

    def encode_gold(self, reply: Coded) -> tuple[Array, Ints]:
        """Value and class code of each human label."""
        if self.of_human is None:
            return self.encode(reply)
        values = [math.nan if is_failed(one) else self.of_human[_key(one)] for one in reply.names]
        return np.array(values, np.float64)[reply.codes], np.full(len(reply), -1, np.int64)

    def encode(self, reply: Coded) -> tuple[Array, Ints]:
        """Value and class code of each verdict; NaN and -1 for failures."""
        if not self.classes:
            values = [math.nan if is_failed(one) else as_number(one) for one in reply.names]
            return np.array(values, np.float64)[reply.codes], np.full(len(reply), -1, np.int64)
        place = {_key(one): code for code, one in enumerate(self.classes)}
        label = np.array([-1 if is_failed(one) else place[_key(one)] for one in reply.names], np.int64)[reply.codes]
        return np.where(label >= 0, self.worth[label], math.nan), label


def _key(value: Any) -> Any:
    """Return what equal classes have in common: text in any case without blanks, numbers and their text, true and 1."""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, str):
        text = value.strip().casefold()
        return {"true": "1", "false": "0"}.get(text, text)
    number = as_number(value)
    return str(value).casefold() if number is None else f"{number:g}"


def _scheme(
    reply: list[Any],
    human: list[Any],
    kind: str | None,
    positive: Any,
    values: Mapping[Any, float] | None,
    scale: tuple[float, float] | None,
    about: str,
) -> _Scheme:
    numbers = [as_number(one) for one in reply]
    distinct = {number for number in numbers if number is not None}
    if kind is None:
        plain = None in numbers or distinct <= {0.0, 1.0} or values is not None
        kind = "categorical" if plain else "numeric"
    if kind == "numeric":
        for one, number in zip(reply, numbers, strict=True):
            if number is None:
                raise ValueError(
                    f"verdicts{about} mix numbers and texts: {one!r} is not a number; correct these, or pass "
                    "kind='categorical'"
                )
        return _of_numbers(distinct, human, positive, scale, about)
    every = [*reply, *human]
    if scale is not None:
        raise ValueError(f"scale= is for numbers; the verdicts{about} are classes such as {reply[0]!r}")
    by_people, by_judges = {_key(one) for one in human}, {_key(one) for one in reply}
    if human and not by_people & by_judges:
        raise ValueError(
            f"people and judges use different classes{about}: {preview(sorted(by_people))} and "
            f"{preview(sorted(by_judges))}; name them alike"
        )
    by_key: dict[Any, Any] = {}
    for one in every:
        by_key.setdefault(_key(one), one.strip() if isinstance(one, str) else one)
    keys = sorted(by_key, key=lambda key: (as_number(key) is None, as_number(key) or 0.0, key))
    classes = [by_key[key] for key in keys]
    worth = np.array(_worths(keys, positive, values, about), np.float64)
    share = bool(np.isin(worth, (0.0, 1.0)).all())
    good = [one for one, value in zip(classes, worth.tolist(), strict=True) if value == 1.0]
    what = f"share of {', '.join(repr(one) for one in good)}" if share and good else "mean value"
    bounds = (min(0.0, float(worth.min())), max(1.0, float(worth.max())))
    return _Scheme(classes, worth, bounds, share, what)


def _of_numbers(
    distinct: set[float], human: list[Any], positive: Any, scale: tuple[float, float] | None, about: str
) -> _Scheme:
    """How scores become numbers; people may give scores on the same scale, or classes such as pass and fail."""
    outside = [one for one in sorted(distinct) if scale is not None and not scale[0] <= one <= scale[1]]
    if scale is not None and outside:
        raise ValueError(f"score {outside[0]:g}{about} lies outside the scale {scale[0]:g} to {scale[1]:g}")
    reference = [as_number(one) for one in human]
    classes = human and (
        None in reference or positive is not None or (set(reference) <= {0.0, 1.0} and not distinct <= {0.0, 1.0})
    )
    if classes:
        keys = sorted({_key(one) for one in human})
        worth = dict(zip(keys, _worths(keys, positive, None, f"{about} of people"), strict=True))
        share = set(worth.values()) <= {0.0, 1.0}
        good = [key for key, value in worth.items() if value == 1.0]
        what = f"share of {', '.join(repr(one) for one in good)}" if share and good else "mean value"
        return _Scheme([], np.zeros(0), (0.0, 1.0), share, what, worth)
    every = distinct | {one for one in reference if one is not None}
    wrong = [one for one in sorted(every) if scale is not None and not scale[0] <= one <= scale[1]]
    if scale is not None and wrong:
        raise ValueError(f"gold has the score {wrong[0]:g}{about}, outside the scale {scale[0]:g} to {scale[1]:g}")
    low, high = scale if scale is not None else (min(every), max(every))
    return _Scheme([], np.zeros(0), (float(low), float(high) if high > low else float(low) + 1.0), False, "mean score")


def _worths(keys: list[Any], positive: Any, values: Mapping[Any, float] | None, about: str) -> list[float]:
    if values is not None:
        entry = {_key(name): float(value) for name, value in values.items()}
        lacking = [key for key in keys if key not in entry]
        if lacking:
            raise ValueError(f"values= has no number for {preview(lacking)}")
        return [entry[key] for key in keys]
    if positive is not None:
        targets = {
            _key(one) for one in (positive if isinstance(positive, list | tuple | set | frozenset) else [positive])
        }
        unknown = sorted(targets - set(keys))
        if unknown:
            raise ValueError(
                f"positive= names {preview(unknown)}, which no verdict is; verdicts are {preview(keys, 20)}"
            )
        return [float(key in targets) for key in keys]
    reference = [VALUES.get(str(key).lower()) for key in keys]
    numeric = [as_number(key) is not None for key in keys]
    if None in reference and any(numeric) and not all(numeric):
        words = [key for key, number in zip(keys, numeric, strict=True) if not number]
        raise ValueError(
            f"the verdicts{about} mix numbers, such as {keys[0]!r}, and texts, such as {words[0]!r}: judges need one "
            "scale; correct these, or pass values={…} with a number for each"
        )
    if None in reference:
        raise ValueError(
            f"the verdicts{about} {preview(keys, 20)} do not show which of them counts as a pass: pass positive='…', "
            "or values={…} with a number for each"
        )
    return [float(value) for value in reference if value is not None]


def _mixed_scales(scheme: _Scheme, value: Array, judge: Ints, judges: list[Any]) -> list[str]:
    """Say so where the ranges of judges' numbers differ by a factor: they seem to use several scales."""
    if scheme.classes:
        return []
    tops = {}
    for code in range(len(judges)):
        mine = value[(judge == code) & ~np.isnan(value)]
        if len(mine) >= 10:
            tops[code] = float(np.abs(mine).max())
    if len(tops) < 2 or min(tops.values()) <= 0:
        return []
    most, least = max(tops, key=tops.__getitem__), min(tops, key=tops.__getitem__)
    if tops[most] < 4 * tops[least]:
        return []
    return [
        f"Judges seem to use several scales: {judges[least]!r} scores up to {tops[least]:g}, {judges[most]!r} up to "
        f"{tops[most]:g}. Scores are standardized per judge; human labels set the scale of the result."
    ]


def _gold_rows(
    gold: dict[str, Coded], tasks: list[Any], systems: list[Any], codes: Ints, scheme: _Scheme, source: str
) -> Gold:
    empty = np.zeros(0)
    n_systems = len(systems)
    if not gold or not len(gold["task"]):
        return Gold(empty.astype(np.int64), empty, empty.astype(np.int64), empty, [], [])
    if n_systems > 1 and "system" not in gold:
        raise ValueError(f"the log has {n_systems} systems; gold needs a column system that names whose item it labels")
    of_task = {str(name): code for code, name in enumerate(tasks)}
    of_system = {str(name): code for code, name in enumerate(systems)}
    task = np.array(gold["task"].each(lambda one: of_task.get(str(one), -1)), np.int64)[gold["task"].codes]
    system = np.zeros(len(task), np.int64)
    if n_systems > 1:
        system = np.array(gold["system"].each(lambda one: of_system.get(str(one), -1)), np.int64)[gold["system"].codes]
    pair = task * n_systems + system
    item = np.minimum(np.searchsorted(codes, pair), len(codes) - 1)
    reply = np.array(gold["verdict"].each(lambda one: not is_failed(one)), np.bool_)[gold["verdict"].codes]
    there = (task >= 0) & (system >= 0) & (codes[item] == pair)
    lost = np.flatnonzero(reply & ~there)
    unknown = gold["task"].take(lost[:4]).values()
    if len(lost) and not (reply & there).any():
        raise ValueError(f"gold labels no item of {source}: {preview(unknown)} are not among its items")
    if len(lost):
        warn_of_data(
            f"{len(lost):,} of {int(reply.sum()):,} gold labels are for items not in the log: {preview(unknown)}"
        )
    rows = np.flatnonzero(reply & there)
    item = item[rows]
    value, label = scheme.encode_gold(gold["verdict"].take(rows).compact())
    annotator = [str(one) for one in gold["judge"].take(rows).values()] if "judge" in gold else []
    if not annotator and len(np.unique(item)) < len(item):
        code = int(codes[np.flatnonzero(np.bincount(item) > 1)[0]])
        name = tasks[code // n_systems] if n_systems == 1 else (tasks[code // n_systems], systems[code % n_systems])
        raise ValueError(
            f"gold has item {name!r} more than once; keep one label per item, or name the people in a column annotator"
        )
    group = gold["group"].take(rows).values() if "group" in gold else []
    return Gold(item, value, label, _weights(gold.get("probability"), rows), group, annotator)


def _weights(probability: Coded | None, rows: Ints) -> Array:
    """Inverse sampling probabilities; labels without one are a random sample of their own.

    Both samples estimate the same, so each counts by its number of labels.
    """
    weight = np.ones(len(rows))
    if probability is None:
        return weight
    inverse = []
    for entry in probability.names:
        chance = None if is_failed(entry) else as_number(entry)
        if not is_failed(entry) and (chance is None or not 0 < chance <= 1):
            raise ValueError(f"gold: the sampling probability {entry!r} must lie above 0 and be at most 1")
        inverse.append(math.nan if chance is None else 1.0 / chance)
    weight = np.array(inverse, np.float64)[probability.codes[rows]]
    sample = ~np.isnan(weight)
    if sample.any():
        weight[sample] /= weight[sample].mean()
    weight[~sample] = 1.0
    return weight


def families_by_name(names: Iterable[Any]) -> list[str | None]:
    """Families of models by what their names contain; None for unknown ones."""
    reference = {
        "openai": ("gpt", "o1", "o3", "o4", "openai", "davinci"),
        "anthropic": ("claude", "anthropic"),
        "google": ("gemini", "gemma", "palm", "bard"),
        "meta": ("llama",),
        "mistral": ("mistral", "mixtral", "ministral"),
        "qwen": ("qwen", "qwq"),
        "deepseek": ("deepseek",),
        "cohere": ("command-r", "cohere", "aya"),
        "microsoft": ("phi-", "phi3", "phi4"),
    }
    outcome: list[str | None] = []
    for name in names:
        text = str(name).lower()
        outcome.append(
            next((family for family, parts in reference.items() if any(part in text for part in parts)), None)
        )
    return outcome
