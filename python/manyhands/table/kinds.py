"""Which kind of answers a log holds, by the names of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyhands.checks import check_choice
from manyhands.table.frames import CLASS_NAMES, WELL_KNOWN, known_among
from manyhands.table.records import Records

#: Columns that may hold classes and are taken for such where nothing says otherwise: stars and the like.
_EITHER = ("rating",)


def table_of(kind: str) -> type[Records]:
    """The table of a kind of answers, by its name."""
    check_choice("kind", kind, tuple(Records._kinds))
    return Records._kinds[kind]


def kind_by_columns(names: Sequence[str], given: Sequence[str] = ()) -> str:
    """Tell the kind of a log by the columns it has: ``"classes"`` unless they tell of another.

    Parameters
    ----------
    names
        The columns of the log.
    given
        Roles whose columns were named by the caller, whatever they are called.
    """
    named = set(given)
    forms = [(roles, table._kind) for table in Records._kinds.values() for roles in table._telling]
    for roles, kind in sorted(forms, key=lambda form: -len(form[0])):
        if all(role in named or _known(names, role) for role in roles):
            return kind
    return "classes"


def _known(names: Sequence[str], role: str) -> bool:
    if role == "text":
        # Where there is a label, the text is what was labelled.
        return bool(known_among(names, WELL_KNOWN["text"])) and not known_among(names, WELL_KNOWN["label"])
    if role in ("start", "end") and known_among(names, WELL_KNOWN["task"]):
        return False  # when somebody began a task, and was done with it
    if role == "value":
        sure = [name for name in WELL_KNOWN["value"] if name not in _EITHER]
        return bool(known_among(names, sure)) and not known_among(names, CLASS_NAMES)
    return bool(known_among(names, WELL_KNOWN[role]))


def as_kind(answers: Any, kind: str | None = None) -> Records:
    """Return a table of answers, or make one of a frame whose columns have well-known names and tell its kind."""
    if isinstance(answers, Records):
        if kind is not None and kind != answers.kind:
            raise ValueError(f"the table holds {answers.kind}, not {kind}; make one of that kind from the log")
        return answers
    from manyhands.table.frames import names_of

    table: Any = table_of(kind if kind is not None else kind_by_columns(names_of(answers)))
    made: Records = table.from_frame(answers)
    return made
