"""Which kind of answers a log holds, by the names of its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from manyhands._base.checks import check_choice
from manyhands._base.columns import spread
from manyhands._base.frames import (
    CLASS_NAMES,
    WEAK,
    WELL_KNOWN,
    known_among,
    match_columns,
    names_of,
    one_known,
    well_known,
)
from manyhands._base.table import Records
from manyhands.texts.table import Texts

#: Columns that may hold classes and are taken for such unless specified otherwise: stars and the like.
_EITHER = ("rating",)


def table_of(kind: str) -> type[Records]:
    """The table of a kind of answers, by its name."""
    check_choice("kind", kind, (*Records._kinds, "ordinal"))
    return Records._kinds[kind]


def kind_by_columns(names: Sequence[str], given: Sequence[str] = ()) -> str:
    """Return the kind of a log by the columns it has: ``"categorical"`` unless they indicate another.

    Parameters
    ----------
    names : sequence of str
        The columns of the log.
    given : sequence of str, default ()
        Roles whose columns were named by the caller, whatever they are called.
    """
    roles_given = set(given)
    forms = [(roles, table.spec.word) for table in Records._kinds.values() for roles in table.spec.telling]
    for roles, kind in sorted(forms, key=lambda form: -len(form[0])):
        table = Records._kinds[kind]
        if "label" in roles_given and "label" not in table.spec.roles:
            continue  # the answer is the label that was named
        if all(role in roles_given or _is_known(names, role) for role in roles):
            return kind
    return "categorical"


def _is_known(names: Sequence[str], role: str) -> bool:
    if role == "text":
        # Where there is a label, the text is what was labeled.
        labels = (*WELL_KNOWN["label"], *WEAK["label"])
        return bool(known_among(names, WELL_KNOWN["text"])) and not known_among(names, labels)
    if role in ("start", "end") and known_among(names, WELL_KNOWN["task"]):
        return False  # when a worker began a task, and was done with it
    if role == "value":
        sure = [name for name in WELL_KNOWN["value"] if name not in _EITHER]
        return bool(known_among(names, sure)) and not known_among(names, CLASS_NAMES)
    return bool(known_among(names, well_known(role)))


def with_answer(table: type[Records], names: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Take the column of labels for the answers of a kind that was asked for, where none bears their own name.

    Parameters
    ----------
    table
        The table of the kind.
    names : sequence of str
        The columns of the log.
    named : mapping
        What the caller named, by role.
    """
    roles = [role for role in table.spec.required if role not in ("task", "worker")]
    roles_found = dict(named)
    if len(roles) != 1 or roles[0] in roles_found or "label" in table.spec.roles:
        return roles_found
    if "label" in roles_found:
        roles_found[roles[0]] = roles_found.pop("label")
    elif not known_among(names, well_known(roles[0])) and (label := one_known(names, "label")):
        roles_found[roles[0]] = label
    return roles_found


def check_inferred(table: Records, names: Sequence[str], named: Mapping[str, Any]) -> None:
    """Raise where a log was taken for texts by a column that is the item.

    Parameters
    ----------
    table
        The table, whose kind was inferred.
    names : sequence of str
        The columns of the log.
    named : mapping
        Columns that the caller named, by role.
    """
    if not isinstance(table, Texts) or named.get("text") is not None:
        return
    columns_wanted = spread({role: named.get(role) for role in Texts.spec.required})
    used = match_columns(names, dict(columns_wanted.values()), weak=True)
    table._refuse_item(used["text"], [name for name in names if name not in used.values()])


def _columns_of_rows(rows: list[tuple[Any, ...]], roles: Sequence[str]) -> dict[str, list[Any]]:
    """Turn rows of values, one for each required role, into columns."""
    for number, row in enumerate(rows):
        if not isinstance(row, tuple) or len(row) != len(roles):
            raise ValueError(f"row {number} is {row!r}; each row of a list must be a tuple ({', '.join(roles)})")
    return dict(zip(roles, map(list, zip(*rows, strict=True)), strict=True))


def as_kind(answers: Any, kind: str | None = None) -> Records:
    """Return a table of answers; make one of a path, of rows, or of a frame whose columns have well-known names."""
    if isinstance(answers, Records):
        if kind not in (None, answers.kind, answers.spec.word):
            raise ValueError(f"the table holds {answers.kind} answers, not {kind}; make one of that kind from the log")
        if kind == "ordinal" and answers.kind != kind:
            raise ValueError("the table's classes have no order; make it with ordered=True")
        return answers
    if isinstance(answers, str | os.PathLike):
        from manyhands.io.read import read

        log: Records = read(answers, kind=kind)
        return log
    settings = {}
    if kind == "ordinal":
        kind, settings = "categorical", {"ordered": True}
    if isinstance(answers, list) and answers and isinstance(answers[0], tuple):
        answers = _columns_of_rows(answers, table_of(kind or "categorical").spec.required)
    names = names_of(answers)
    table: Any = table_of(kind if kind is not None else kind_by_columns(names))
    columns = {} if kind is None else with_answer(table, names, {})
    records: Records = table.from_frame(answers, **columns, **settings)
    if kind is None:
        check_inferred(records, names, {})
    return records
