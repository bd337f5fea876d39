"""Columns out of any data frame, without importing its library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from manyhands.errors import MissingColumnError, argument

#: Column names that need not be spelled out, in small or capital letters, with or without what joins their words.
_TASK = ("task", "task_id", "item", "item_id", "question", "question_id", "example", "example_id", "object")
_WORKER = ("worker", "worker_id", "annotator", "annotator_id", "rater", "rater_id")
WELL_KNOWN = {
    "task": _TASK,
    "worker": (*_WORKER, "performer", "judge", "judge_id", "labeler", "labeller"),
    # Ratings and values are classes too, where a table of classes is made: logs of stars have no other column.
    "label": ("label", "answer", "response", "annotation", "vote", "verdict", "choice", "rating", "value"),
    "value": ("value", "score", "rating", "number"),
    "labels": ("labels", "label_set", "tags"),
    # Where texts are asked for, a label or an answer is one.
    "text": ("text", "transcript", "transcription", "translation", "caption", "label", "answer", "response"),
    "mask": ("mask", "segmentation", "rle"),
    "x1": ("x1", "xmin", "x_min"),
    "y1": ("y1", "ymin", "y_min"),
    "x2": ("x2", "xmax", "x_max"),
    "y2": ("y2", "ymax", "y_max"),
    "x": ("x",),
    "y": ("y",),
    # A width or a height spelled out may be that of the image.
    "width": ("w", "box_width", "bbox_width"),
    "height": ("h", "box_height", "bbox_height"),
    "cx": ("cx", "x_center", "x_centre"),
    "cy": ("cy", "y_center", "y_centre"),
    "answer": ("answer", "text", "response", "annotation"),
    "left": ("left", "left_id", "left_item", "item_a", "item_1", "model_a"),
    "right": ("right", "right_id", "right_item", "item_b", "item_2", "model_b"),
    "same": ("same", "is_same", "same_class", "similar", "match"),
    # Logs of comparisons call the answer per label, too.
    "winner": ("winner", "preferred", "preference", "label", "answer"),
    "context": ("context", "category"),
    "item": ("item", "item_id", "option", "candidate"),
    "rank": ("rank", "place"),
    "sequence": ("sequence", "sequence_id", "document", "document_id", "doc", "doc_id", "sentence", "sentence_id"),
    "position": ("position", "pos", "token", "token_id"),
    "start": ("start", "start_offset", "begin", "from"),
    "end": ("end", "end_offset", "stop", "to"),
    "tag": ("tag", "label", "type", "entity"),
    "layer": ("layer",),
}
#: Names that are taken where no column has a well-known one. They may mean something else (the number of a row, the
#: author of an item, its topic), so that `check_guesses` looks at what such a column holds.
WEAK = {
    "task": ("id",),
    "worker": ("user", "user_id", "user_name", "coder", "reviewer", "model"),
    "label": ("class", "category", "preference", "score"),
}
#: Names of labels that may also be what judges look at.
_JUDGED = ("answer", "response")
#: Columns that hold classes whatever else there is; a value or a rating may be either. Answers of other kinds go by
#: these names, too, where no column bears one of their own.
CLASS_NAMES = tuple(name for name in WELL_KNOWN["label"] if name not in WELL_KNOWN["value"])
#: Exports have dozens of columns, and the one that is wanted is often among the last.
_MOST_LISTED = 100


def well_known(role: str) -> tuple[str, ...]:
    """Names of columns that a role's is known by: those of the table above, or its own."""
    return WELL_KNOWN.get(role, (role,))


def take_columns(frame: Any, **given: str | None) -> dict[str, tuple[str, Any]]:
    """Return the name and the data, in whatever form its library has it, of each role's column.

    The column of a role is the given one, or else the only one with a well-known name. A frame that is a
    query or a stream is read once.
    """
    return take_with_names(frame, given)[0]


def take_with_names(
    frame: Any, given: Mapping[str, str | None], *, weak: bool = False
) -> tuple[dict[str, tuple[str, Any]], list[str]]:
    """Return what `take_columns` does, and the names of all columns; with `weak`, weak names will do."""
    frame = _readable(frame)
    names = [str(name) for name in _column_names(frame)]
    name_of_role = match_columns(names, given, weak=weak)
    if _library(frame) == "duckdb":
        import pyarrow as pa

        quoted = ('"' + name.replace('"', '""') + '"' for name in name_of_role.values())
        frame = pa.table(frame.project(", ".join(quoted)))
    return {role: (name, _column(frame, names, name)) for role, name in name_of_role.items()}, names


def named_columns(frame: Any) -> tuple[list[Any], list[Any], Any]:
    """Return the names of a frame's columns, their data, and the index of a pandas frame (None for others)."""
    frame = _readable(frame)
    names = list(_column_names(frame))
    if _library(frame) == "duckdb":
        import pyarrow as pa

        frame = pa.table(frame)
    if _library(frame) == "pandas":
        return names, [frame.iloc[:, place] for place in range(len(names))], frame.index
    return names, [frame[name] for name in names], None


def names_of(frame: Any) -> list[str]:
    """Return the names of a frame's columns, as text."""
    return [str(name) for name in _column_names(_readable(frame))]


def if_there(frame: Any, role: str) -> str | None:
    """Return the column of a role by its well-known name; None where there is none, or more than one."""
    return one_known(names_of(frame), role)


def one_known(names: Sequence[str], role: str) -> str | None:
    """Return the only one of the names that is well known for a role, if it is the only one."""
    matches = known_among(names, well_known(role))
    return matches[0] if len(set(matches)) == 1 else None


def match_columns(names: Sequence[str], given: Mapping[str, str | None], *, weak: bool = False) -> dict[str, str]:
    """Find the column of each role among `names`; see `take_columns`. With `weak`, weak names will do."""
    role_of: dict[str, str] = {}
    for role, choice in given.items():
        others = [other for other in given if other != role]
        name = _well_known(names, role, others, weak=weak) if choice is None else choice
        if name not in names:
            message = f"no {role} column {name!r}{_nearest(name, names)}; the columns are {_list_names(names)}"
            raise MissingColumnError(message, role)
        if names.count(name) > 1:
            raise ValueError(f"several columns are called {name!r}; the columns are {_list_names(names)}")
        if name in role_of:
            raise ValueError(
                f"column {name!r} cannot be both {role_of[name]} and {role}; name another with {argument(role)}"
            )
        role_of[name] = role
    return {role: name for name, role in role_of.items()}


def guesses_among(found: Mapping[str, str], given: Mapping[str, str | None], names: Sequence[str]) -> dict[str, str]:
    """Return the columns that were found by names that may mean something else, by role.

    Parameters
    ----------
    found : mapping
        The column of each role.
    given : mapping
        Those that the caller named.
    names : sequence of str
        All columns. An answer or a response among others of which one may be the answer may be what was judged.
    """
    others = [name for name in names if name not in found.values()]
    rivals = known_among(others, (*WELL_KNOWN["label"], *WELL_KNOWN["value"], *WEAK["label"]))
    sure = {role: WELL_KNOWN[role] for role in WEAK}
    if rivals:
        sure["label"] = tuple(name for name in sure["label"] if name not in _JUDGED)
    return {
        role: name
        for role, name in found.items()
        if given[role] is None and role in WEAK and not known_among([name], sure[role])
    }


def normalize_name(name: str) -> str:
    """Return a name in small letters, its words run together: Worker ID, worker_id and WorkerId are one."""
    return re.sub(r"[\s_.-]+", "", name).casefold()


def known_among(names: Sequence[str], known: Sequence[str | None]) -> list[str]:
    """Return those of the names that are known, however they are written; only those written alike if there are any."""
    exact = [name for name in names if name in known]
    normalized = {normalize_name(name) for name in known if name is not None}
    return exact or [name for name in names if normalize_name(name) in normalized]


def _well_known(names: Sequence[str], role: str, others: Sequence[str] = (), *, weak: bool = False) -> str:
    candidates = known_among(names, well_known(role))
    if weak and not candidates:
        candidates = known_among(names, WEAK.get(role, ()))
    # A column that bears the name of another role is that role's.
    reserved = {WELL_KNOWN[other][0] for other in others if other in WELL_KNOWN}
    candidates = [name for name in candidates if name not in reserved] or candidates
    if well_known(role)[0] not in CLASS_NAMES:
        borrowed = known_among(candidates, CLASS_NAMES)
        candidates = [name for name in candidates if name not in borrowed] or candidates
    if len(set(candidates)) == 1:
        return candidates[0]
    why, hint = f"several columns could be the {role} ({_list_names(candidates)})", ""
    if not candidates:
        why = f"no column has a well-known name for the {role}"
        hint = f" (well known are {', '.join(well_known(role))})"
    message = f"{why}: name it with {argument(role)}; the columns are {_list_names(names)}{hint}"
    raise MissingColumnError(message, role)


def _nearest(name: str, names: Sequence[str]) -> str:
    """Ask whether a name that does not occur is one that does, spelled otherwise."""
    near = known_among(names, [name]) or get_close_matches(name, names, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def not_a_log(
    given: Any,
    wanted: str = "a data frame or a mapping of columns",
    makers: Sequence[str] = ("Annotations.from_frame", "Annotations.from_arrays", "Annotations.from_dense"),
) -> str:
    """Say of something that is not a log what a log can be made with."""
    choices = f"{', '.join(makers[:-1])} or {makers[-1]}"
    return f"expected {wanted}, not {type(given).__name__}; make a table with {choices}, or read files with mh.read"


def _library(frame: Any) -> str:
    return type(frame).__module__.split(".")[0].lstrip("_")


def _readable(frame: Any) -> Any:
    """Return a frame that has columns by name: itself, or the table of its Arrow stream."""
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("a LazyFrame has no data yet; call .collect() on it first")
    if isinstance(frame, Mapping) or _column_names(frame) is not None:
        return frame
    if not hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__getitem__"):
        raise TypeError(not_a_log(frame))
    import pyarrow as pa

    return pa.table(frame)


def _column_names(frame: Any) -> Any:
    if isinstance(frame, Mapping):
        return frame
    names = getattr(frame, "column_names", None)  # pyarrow
    return getattr(frame, "columns", None) if names is None else names  # pandas, polars, duckdb


def _column(frame: Any, names: Sequence[str], name: str) -> Any:
    if isinstance(frame, Mapping):
        return frame[next(key for key in frame if str(key) == name)]
    if _library(frame) == "pandas":
        return frame.iloc[:, names.index(name)]  # whatever type the column's label has
    return frame[name]


def _list_names(names: Sequence[str]) -> str:
    text = ", ".join(repr(n) for n in names[:_MOST_LISTED])
    return text + (", …" if len(names) > _MOST_LISTED else "") if names else "none"
