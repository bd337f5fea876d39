"""What tasks show to workers: a text or the address of an image, next to the ids of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import preview
from manyhands._base.columns import Chosen, Columns, columns_of, spread
from manyhands._base.names import Names
from manyhands._base.sources import Source
from manyhands._base.streams import read_roles
from manyhands._base.table import Records
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa

#: What asks for the field that a platform shows to its workers.
AUTO = "auto"
#: The column of frames that have it.
COLUMN = "shown"
#: Roles of columns whose ids are tasks.
_TASKS = ("task", "sequence")
#: Fields that platforms show, the most informative first.
_FIELDS = (
    "text",
    "question",
    "prompt",
    "input",
    "document",
    "content",
    "body",
    "html",
    "image",
    "img",
    "image_url",
    "url",
    "audio",
    "video",
    "row_data",
    "coco_url",
    "source",
    "filename",
)


def check_shows(kind: type[Records]) -> str:
    """Return the role of the tasks of a kind; raise for one whose answers are about items that are compared."""
    role = next((role for role in _TASKS if role in kind.spec.required), None)
    if role is None or not hasattr(kind, "showing"):
        raise ValueError(f"{argument('show')} is for answers about tasks, and {kind.spec.word} answers are about items")
    return role


def shown_in_files(sources: Sequence[Source], made: Any, task: Chosen, column: str) -> Any:
    """Return a table that shows a column of its files."""
    role = check_shows(type(made))
    columns_wanted = spread({role: task, COLUMN: column})
    return _showing(made, read_roles(list(sources), columns_wanted, numbers=(), raw=(COLUMN,), weak=True), role, column)


def shown_in_frame(frame: Any, made: Any, task: Chosen, column: str) -> Any:
    """Return a table that shows a column of the frame it was made of."""
    role = check_shows(type(made))
    return _showing(made, columns_of(frame, {role: task, COLUMN: column}, (COLUMN,), weak=True), role, column)


def _showing(made: Any, columns: Columns, role: str, column: str) -> Any:
    """Join a column with one value per task to the tasks of a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tasks, (data, _) = columns.ids[role], columns.others[COLUMN][0]
    texts = data if isinstance(data, pa.Array | pa.ChunkedArray) else pa.array(data)
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    texts = texts.cast(pa.large_string())
    absent = tasks.missing()
    keep = np.ones(len(tasks), np.bool_) if absent is None else ~absent
    keep &= arrow.to_numpy(pc.and_(texts.is_valid(), pc.fill_null(pc.not_equal(texts, ""), False)))
    if not keep.any():
        raise ValueError(f"column {column!r} is empty: it shows nothing of any task")
    tasks.filter(keep)
    codes, names = tasks.encode()
    distinct = texts.filter(arrow.from_numpy(keep)).dictionary_encode()
    values = arrow.to_numpy(distinct.indices).astype(np.int64)
    lowest = np.full(len(names), len(distinct.dictionary))
    highest = np.full(len(names), -1)
    np.minimum.at(lowest, codes, values)
    np.maximum.at(highest, codes, values)
    if (lowest != highest).any():
        place = int(np.flatnonzero(lowest != highest)[0])
        task = names.values[[place]].tolist()[0]
        two = [distinct.dictionary[int(at[place])].as_py()[:60] for at in (lowest, highest)]
        raise ValueError(
            f"column {column!r} differs within task {task!r} ({preview(two)}); show a column with one value per task"
        )
    return made._showing(_align_texts(made._tasks, names, distinct.dictionary.take(arrow.from_numpy(lowest))))


def _align_texts(wanted: Names, names: Names, texts: pa.Array) -> pa.Array:
    """Texts in the order of other names; null for names that have none."""
    import pyarrow as pa

    at = names.match(wanted)
    return texts.take(pa.array(at, mask=at < 0))


def chosen_field(items: Mapping[Any, Mapping[str, Any]], asked: str, name: str) -> dict[Any, str]:
    """Return one field of each item of an export, as text: the one that was asked for, or the one it shows."""
    fields = list(dict.fromkeys(field for item in items.values() for field, value in item.items() if value is not None))
    if not fields:
        raise ValueError(f"{name} holds nothing that its tasks show; leave {argument('show')} out")
    field = asked
    if asked == AUTO and AUTO not in fields:
        names_by_lower = {one.lower(): one for one in fields}
        candidates = [names_by_lower[one] for one in _FIELDS if one in names_by_lower] or (
            fields if len(fields) == 1 else []
        )
        if not candidates:
            raise ValueError(
                f"{name} has several fields to show: choose one with {argument('show')}; they are {preview(fields, 20)}"
            )
        field = candidates[0]
    if field not in fields:
        raise ValueError(f"{name} has no field {asked!r} to show; it has {preview(fields, 20)}")
    texts = {task: item.get(field) for task, item in items.items()}
    return {task: value if isinstance(value, str) else str(value) for task, value in texts.items() if value is not None}


def with_shown(frame: pa.Table, votes: Any, longest: int | None = None) -> pa.Table:
    """Return a frame of answers with a column of what tasks show, next to the task; itself where nothing is known.

    Parameters
    ----------
    frame : pyarrow.Table
        Answers, with a column of tasks or sequences.
    votes
        The table they were aggregated from.
    longest : int or None, default None
        Characters to show at most; all by default.
    """
    texts = getattr(votes, COLUMN, None)
    place = next((place for place, name in enumerate(frame.column_names) if name in _TASKS), None)
    if not texts or place is None or COLUMN in frame.column_names:
        return frame
    import pyarrow as pa

    texts_shown = [texts.get(task) for task in frame.column(place).to_pylist()]
    if longest is not None:
        texts_shown = [one if one is None or len(one) <= longest else f"{one[:longest]}…" for one in texts_shown]
    return frame.add_column(place + 1, COLUMN, pa.array(texts_shown, pa.string()))
