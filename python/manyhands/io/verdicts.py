"""Verdicts of judges as one frame: a row each, failed ones included, with what a panel is judged by.

:func:`manyhands.read` makes tables of answers that count. A panel needs more of a log: the criterion and the system
that a verdict is about, where the output stood, how long it was, and which verdicts failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import preview
from manyhands._base.columns import Columns, columns_of
from manyhands._base.frames import WELL_KNOWN, known_among, match_columns, names_of, one_known
from manyhands._base.labels import merge_spellings
from manyhands._base.names import Column
from manyhands._base.table import Records
from manyhands.errors import MissingColumnError, argument
from manyhands.io.exports.export import EXTRAS, UNKNOWN, VERDICTS, as_column, path_name
from manyhands.io.exports.rows import KEYED, frame_of, plain_rows
from manyhands.io.kinds import kind_by_columns, with_answer
from manyhands.pairwise.table import outcomes_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Names that columns of tables are known by, the surest first. `model` is a judge where no other column is.
NAMES: Mapping[str, tuple[str, ...]] = {
    "criterion": ("criterion", "metric", "dimension", "aspect", "rubric"),
    "system": ("system", "system_id", "version", "system_version", "candidate", "model", "model_id"),
    "item": ("item", "item_id", "input_id", "prompt_id"),
    "repeat": ("repeat", "epoch", "trial"),
    "cluster": ("cluster", "conversation", "conversation_id", "session", "session_id", "group"),
    "position": ("position", "order"),
    "length": ("length", "output_length", "response_length", "n_tokens", "n_words", "n_characters"),
    "left_length": ("left_length", "length_a", "length_1"),
    "right_length": ("right_length", "length_b", "length_2"),
    "family": ("family", "judge_family", "provider"),
    "annotator_kind": ("annotator_kind", "source_type"),
    "when": ("when", "timestamp", "time", "created_at"),
    "explanation": ("explanation", "rationale", "reason", "comment", "justification"),
    "failure": ("failure", "error", "error_message"),
}
#: What may be known of a verdict, in the order of columns.
ROLES = ("criterion", *EXTRAS)
_NUMBERS = ("length", "left_length", "right_length")
#: Why there is no verdict where a table has none and does not say.
_MISSING = "missing"


def verdicts_of(frame: Any, *, kind: str | None = None, layout: str = "long", **asked: Any) -> pa.Table:
    """Return the verdicts in a data frame, or in a mapping keyed by judges, as one frame; see `verdict_frame`.

    Parameters
    ----------
    frame
        A frame or a mapping of columns with a verdict per row; with ``layout="wide"`` a judge per column.
    kind : str or None, default None
        ``"categorical"``, ``"numeric"`` or ``"pairwise"``; by default what the columns show.
    layout : str, default "long"
        ``"long"``, ``"wide"``, or for a mapping of mappings ``"by-worker"``, ``{judge: {item: verdict}}``, or
        ``"by-task"``.
    **asked
        Columns by role, and ``abstain`` and ``winners``.
    """
    if layout in KEYED:
        frame = frame_of(plain_rows([frame], "the mapping", layout))
    names = names_of(frame)
    if layout == "wide":
        kind = check_kind(kind or "categorical")
        wide = arrow.table({name: as_column(values_of(frame[name])) for name in names})
        return verdict_frame(melt(wide, kind, asked), kind, asked)
    kind = check_kind(kind if kind is not None else kind_by_columns(names, [*asked]))
    roles_wanted = wanted_columns(names, kind, asked)
    matches = match_columns(names, roles_wanted, weak=True)
    extras = extra_columns(names, asked, matches.values())
    return verdict_frame(columns_of(frame, {**matches, **extras}, ("value", *extras), weak=True), kind, asked)


def wanted_columns(names: Sequence[str], kind: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of task, judge and verdict by role: those that were named, and None for well-known names."""
    table = Records._kinds[kind]
    roles_named = with_answer(table, names, {role: name for role, name in asked.items() if role not in NAMES})
    if kind != "pairwise":
        return {role: roles_named.get(role) for role in table.spec.required}
    columns_wanted = {role: roles_named.get(role) for role in table.spec.required}
    for role in ("worker", "task"):
        column = roles_named.get(role) or one_known(names, role)
        if column is None and role == "task":
            column = roles_named.get("context") or one_known(names, "context")
        if column is not None:
            columns_wanted[role] = column
    return columns_wanted


def wide_columns(
    names: Sequence[str], asked: Mapping[str, Any], show: str | None = None
) -> tuple[str | None, list[str]]:
    """Return the column of tasks and those of workers in a table with a worker per column, but for what is shown."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"several columns are called {twice!r}; each worker needs a column of its own")
    task = asked.get("task") or next(iter(known_among(names, (*WELL_KNOWN["task"], "id"))), None)
    worker_columns = asked.get("worker")
    worker_columns = [worker_columns] if isinstance(worker_columns, str) else worker_columns
    workers = [name for name in names if name not in (task, show)] if worker_columns is None else [*worker_columns]
    for name in [one for one in (task, *workers, show) if one is not None]:
        if name not in names:
            role = "task" if name == task else "shown" if name == show else "worker"
            raise ValueError(f"no {role} column {name!r}; the columns are {preview([*names], 20)}")
    return task, workers


def melt(wide: pa.Table, kind: str, asked: Mapping[str, Any], *, text: bool = False) -> Columns:
    """Return a table with a task per row and a judge per column as columns with a verdict per row.

    Parameters
    ----------
    wide : pyarrow.Table
        The table.
    kind : str
        What verdicts are.
    asked : mapping
        Columns that the caller named, by role.
    text : bool, default False
        Whether the table is of text, in which numbers are found.
    """
    task, workers = wide_columns(wide.column_names, asked)
    if not workers:
        raise ValueError(f"no column of a worker among {preview(wide.column_names, 20)}; name them with worker=")
    tasks = list(range(wide.num_rows)) if task is None else wide.column(task).to_pylist()
    values = [value for worker in workers for value in wide.column(worker).to_pylist()]
    whose = [worker for worker in workers for _ in tasks]
    columns = Columns(
        ids={
            "task": Column(tasks * len(workers), f"task column {task!r}", parse_integers=text),
            "worker": Column(whose, "the names of columns"),
        }
    )
    if kind == "numeric":
        columns.others["value"] = [(values, "a column of verdicts")]
    else:
        columns.ids["label"] = Column(values, "a column of verdicts", parse_integers=text)
    for role, name in extra_columns(wide.column_names, asked, [*workers, *([] if task is None else [task])]).items():
        columns.others[role] = [(wide.column(name).to_pylist() * len(workers), f"{role} column {name!r}")]
    return columns


def extra_columns(names: Sequence[str], asked: Mapping[str, Any], used: Iterable[str]) -> dict[str, str]:
    """Find the columns that say more of verdicts, by what they are called.

    Parameters
    ----------
    names : sequence of str
        The columns of the log.
    asked : mapping
        What the caller named, by role.
    used : sequence of str
        Columns that are the task, the judge or the verdict.
    """
    columns: dict[str, str] = {}
    names_used = {*used, *(name for role, name in asked.items() if role in NAMES)}
    for role in ROLES:
        if role in asked:
            if asked[role] not in names:
                raise MissingColumnError(
                    f"no {role} column {asked[role]!r}; the columns are {preview([*names], 20)}", role
                )
            columns[role] = asked[role]
            continue
        free = [name for name in names if name not in names_used]
        match = next((one for name in NAMES[role] for one in known_among(free, [name])), None)
        if match is not None:
            columns[role] = match
            names_used.add(match)
    return columns


def verdict_frame(columns: Columns, kind: str, settings: Mapping[str, Any]) -> pa.Table:
    """Make the frame of verdicts of a table with a row each.

    Columns are ``task``, ``worker``, the verdict (``label``, ``value``, or ``left``, ``right`` and ``winner``), then
    ``criterion`` and what else is known. A verdict that failed is null, and ``failure`` explains why.

    Parameters
    ----------
    columns
        The columns of task, judge and verdict as ids (scores as they are), others as they are.
    kind : str
        ``"categorical"``, ``"numeric"`` or ``"pairwise"``.
    settings : mapping
        ``abstain``, ``fold_labels`` and ``winners`` as for the tables of these kinds.
    """
    ids = columns.ids
    n_rows = len(next(iter(ids.values())))
    frame: dict[str, Any] = {role: _spelt_out(ids[role]) for role in ("task", "worker") if role in ids}
    reasons: list[str | None] = [None] * n_rows
    if kind == "numeric":
        data, what = columns.others["value"][0]
        frame["value"], failed = _scores(data, what)
    elif kind == "pairwise":
        compared = _comparison_columns(ids, settings.get("winners"))
        failed = arrow.to_numpy(compared["winner"].is_null())
        frame = {"task": _pairs(compared), "worker": as_column([UNKNOWN] * n_rows)} | frame | compared
    else:
        frame["label"] = _spelt_out(ids["label"], fold=bool(settings.get("fold_labels")))
        frame["label"], abstained = _without(frame["label"], settings.get("abstain"))
        for row in np.flatnonzero(abstained):
            reasons[row] = "abstained"
        failed = arrow.to_numpy(frame["label"].is_null())
    for role in ROLES:
        if role in columns.others and role != "failure":
            data, what = columns.others[role][0]
            frame[role] = _numbers(data, what) if role in _NUMBERS else as_column(values_of(data))
    for role in ("task", "worker"):
        lacking = np.flatnonzero(arrow.to_numpy(frame[role].is_null()))
        if len(lacking):
            raise ValueError(f"{ids[role].what} is missing in {len(lacking):,} rows, first at row {int(lacking[0]):,}")
    if failed.any():
        failures = values_of(columns.others["failure"][0][0]) if "failure" in columns.others else [None] * n_rows
        frame["failure"] = as_column(
            [
                None if not is_failed else str(failure) if failure not in (None, "", False) else why or _MISSING
                for is_failed, failure, why in zip(failed.tolist(), failures, reasons, strict=True)
            ]
        )
    return arrow.table(frame)


def check_kind(kind: str) -> str:
    """Return the kind of verdicts; raise for one that is not of verdicts."""
    kind = "categorical" if kind == "ordinal" else kind
    if kind not in VERDICTS:
        raise ValueError(
            f"{argument('kind', kind)} is not of verdicts, which are {', '.join(VERDICTS)}; name the column of verdicts"
        )
    return kind


# ----------------------------------------------------------------------------------------------- parts of a frame


def _spelt_out(column: Column, *, fold: bool = False) -> pa.Array:
    """Return a column of ids as Arrow's, with nulls for missing values; with `fold`, one spelling of each label."""
    import pyarrow as pa

    missing = column.missing()
    if missing is None:
        codes, names = column.encode()
        codes, names = merge_spellings(codes, names, None, None) if fold else (codes, names)
        return names.take(codes.astype(np.int64)).arrow()
    present = np.flatnonzero(~missing)
    if not len(present):
        return pa.nulls(len(column), pa.large_string())
    codes, names = column.at(present).encode()
    codes, names = merge_spellings(codes, names, None, None) if fold else (codes, names)
    at = np.full(len(column), -1, np.int64)
    at[present] = codes
    return names.arrow().take(pa.array(at, mask=missing))


def _without(labels: pa.Array, abstain: Any) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Labels with nulls where a judge abstained, and where that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if abstain is None:
        return labels, np.zeros(len(labels), np.bool_)
    words = {str(word) for word in ([abstain] if isinstance(abstain, str | int) else abstain)}
    is_word = pa.array([value is not None and str(value) in words for value in labels.to_pylist()])
    return pc.if_else(is_word, pa.scalar(None, labels.type), labels), arrow.to_numpy(is_word)


def _scores(data: Any, what: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Scores as floats with nulls where there are none, and where that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    scores = _numbers(data, what)
    failed = arrow.to_numpy(pc.fill_null(pc.invert(pc.is_finite(scores)), True))
    infinite = np.flatnonzero(arrow.to_numpy(pc.fill_null(pc.is_inf(scores), False)))
    if len(infinite):
        raise ValueError(f"{what} is infinite at row {int(infinite[0]):,}; correct or drop it")
    return pc.if_else(pa.array(failed), pa.scalar(None, pa.float64()), scores), failed


def _numbers(data: Any, what: str) -> pa.Array:
    import pyarrow as pa

    values = values_of(data)
    try:
        return pa.array([None if value in (None, "") else float(value) for value in values], pa.float64())
    except (TypeError, ValueError):
        odd = next(value for value in values if not _is_number(value))
        raise ValueError(f"{what} contains {str(odd)[:60]!r}, which is not a number") from None


def _is_number(value: Any) -> bool:
    try:
        float(value or 0)
    except (TypeError, ValueError):
        return False
    return True


def _comparison_columns(ids: Mapping[str, Column], winners: Mapping[Any, str] | None) -> dict[str, Any]:
    """The two sides, and the winner as the id of one of them or ``"tie"``."""
    import pyarrow as pa

    missing = ids["winner"].missing()
    there = np.arange(len(ids["left"])) if missing is None else np.flatnonzero(~missing)
    at = {role: ids[role].at(there) for role in ("left", "right", "winner")}
    result = outcomes_of(at["left"], at["right"], at["winner"], winners)
    for role in ("left", "right"):
        ids[role].parse_integers = at[role].parse_integers
    sides = {role: _spelt_out(ids[role]) for role in ("left", "right")}
    left, right = (sides[role].to_pylist() for role in ("left", "right"))
    winner_names: list[Any] = [None] * len(left)
    for row, outcome in zip(there.tolist(), result.tolist(), strict=True):
        winner_names[row] = (left[row], right[row], "tie")[outcome]
    mixed = not pa.types.is_large_string(sides["left"].type) and "tie" in winner_names
    if mixed:
        sides = {role: side.cast(pa.large_string()) for role, side in sides.items()}
        winner_names = [None if value is None else str(value) for value in winner_names]
    return {**sides, "winner": as_column(winner_names)}


def _pairs(compared: Mapping[str, Any]) -> Any:
    """What was judged where no column reports it: the two items, in either order."""
    both = zip(compared["left"].to_pylist(), compared["right"].to_pylist(), strict=True)
    return as_column([path_name(sorted(map(str, pair))) for pair in both])


def values_of(data: Any) -> list[Any]:
    """Return a column as a list, with None for what is missing."""
    values: list[Any] = data.to_pylist() if hasattr(data, "to_pylist") else np.asarray(data, object).tolist()
    return [None if isinstance(value, float) and value != value else value for value in values]
