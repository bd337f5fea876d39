"""The order in which annotations were made, which a table itself does not keep."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.data_checks import made_table
from manyhands.categorical.table import Annotations
from manyhands.errors import argument

Array = npt.NDArray[np.float64]
#: What comes first in dates that end in the year.
Dates = Literal["day-first", "month-first"]
#: A date in digits, with a time or without: 30.11.2025, 11/30/2025 2:05 PM, 2025/11/30.
_DATE = re.compile(
    r"(\d{1,2}([./-])\d{1,2}\2\d{4}|\d{4}([./-])\d{1,2}\3\d{1,2})"
    r"([ T,]+(?P<clock>\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)\s*(?P<half>[aApP][mM])?)?"
)
#: A date with the name of its month: Sat Oct 07 03:19:21 PDT 2017.
_WORDED = re.compile(
    r"([A-Za-z]{3},? )?(?P<month>[A-Za-z]{3}) (?P<day>\d{1,2})"
    r"( (?P<clock>\d{1,2}:\d{2}:\d{2}))?( (?P<zone>[A-Z]{3,4}))? (?P<year>\d{4})"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
#: Hours that are added to Universal Time.
_ZONES = {"UTC": 0, "GMT": 0, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4}


def as_numbers(values: Any, what: str, dates: Dates | None = None) -> Array:
    """Numbers, dates or times, also as text, as numbers.

    Parameters
    ----------
    values
        The values.
    what : str
        What messages call them.
    dates : str or None, default None
        Whether days or months come first in dates such as 10.11.2025; by default that must follow from the dates.
    """
    import pyarrow as pa

    column = arrow.one_chunk(values if isinstance(values, pa.Array | pa.ChunkedArray) else _as_arrow(values, what))
    if column.null_count:
        raise ValueError(f"{what} has no value in {column.null_count:,} places; drop those rows")
    if arrow.is_text(column.type):
        column = _parse(column, what, dates)
    if pa.types.is_temporal(column.type):
        unit = pa.time64("us") if pa.types.is_time(column.type) else pa.timestamp("us")
        column = column.cast(unit, safe=False).cast(pa.int64())
    if not arrow.is_number(column.type):
        raise TypeError(f"{what} must hold numbers, dates or times, not {column.type}")
    numbers: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isnan(numbers).any():
        raise ValueError(f"{what} has no value in {int(np.isnan(numbers).sum()):,} places; drop those rows")
    return numbers


def _as_arrow(values: Any, what: str) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers, dates or times, all of one type") from None


def _parse(column: Any, what: str, dates: Dates | None) -> Any:
    """Text as numbers, as times in ISO 8601, with a zone or without, or as dates of other forms."""
    import pyarrow as pa

    for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            pass
    coded = column.dictionary_encode() if not pa.types.is_dictionary(column.type) else column
    texts = coded.dictionary.to_pylist()
    for text in texts:
        if _DATE.fullmatch(text.strip()) is None and _WORDED.fullmatch(text.strip()) is None:
            raise TypeError(
                f"{what} must hold numbers, dates or times, not {text!r}; write times as 2025-11-30 14:05 (ISO 8601)"
            )
    if all(_WORDED.fullmatch(text.strip()) for text in texts):
        moments = [_parse_turk_date(text.strip(), what) for text in texts]
    elif all(_DATE.fullmatch(text.strip()) for text in texts):
        moments = _parse_dates([text.strip() for text in texts], what, dates)
    else:
        raise TypeError(f"{what} holds dates of several forms, such as {texts[0]!r} and {texts[-1]!r}")
    return pa.array(moments, pa.timestamp("us")).take(coded.indices)


def _parse_dates(texts: list[str], what: str, dates: Dates | None) -> list[datetime]:
    """Dates in digits: the year first, or last behind day and month, whose order must be clear."""
    parts = [[int(part) for part in re.split(r"\D", text)[:3]] for text in texts]
    fields = [_DATE.fullmatch(text) for text in texts]
    behind = [part for part in parts if part[0] <= 31]
    first, second = any(part[0] > 12 for part in behind), any(part[1] > 12 for part in behind)
    if dates is None and (first or second) and not (first and second):
        dates = "day-first" if first else "month-first"
    odd = next((text for text, part in zip(texts, parts, strict=True) if part in behind), "")
    if dates is None and any(part[0] != part[1] for part in behind):
        which = "some dates must have the day first and others the month" if first and second else "both are possible"
        raise ValueError(
            f"{what} holds dates such as {odd!r}, in which the day or the month may come first ({which}); choose with "
            f"{argument('dates', 'day-first')} or {argument('dates', 'month-first')}, or write dates as 2025-11-30"
        )
    moments = []
    for text, (one, two, three), match in zip(texts, parts, fields, strict=True):
        year, month, day = (
            (one, two, three) if one > 31 else (three, two, one) if dates == "day-first" else (three, one, two)
        )
        clock = (match["clock"] if match else None) or "0:0"
        hour, minute, *rest = clock.split(":")
        late = {"am": -12 * (int(hour) == 12), "pm": 12 * (int(hour) < 12)}.get(str(match and match["half"]).lower(), 0)
        try:
            at = datetime(year, month, day, int(hour) + late, int(minute))
        except ValueError:
            raise ValueError(f"{what} holds {text!r}, which is not a date{_order_of_parts(dates)}") from None
        moments.append(at + timedelta(seconds=float(rest[0]) if rest else 0.0))
    return moments


def _order_of_parts(dates: Dates | None) -> str:
    return "" if dates is None else f" with the {dates.partition('-')[0]} first"


def _parse_turk_date(text: str, what: str) -> datetime:
    """A date as Mechanical Turk writes them: Sat Oct 07 03:19:21 PDT 2017."""
    match = _WORDED.fullmatch(text)
    month = _MONTHS.get(match["month"].lower()) if match else None
    zone = None if match is None else _ZONES.get(match["zone"] or "UTC")
    if match is None or month is None or zone is None:
        raise ValueError(f"{what} holds {text!r}, whose month or time zone is not known; write times in ISO 8601")
    hour, minute, second = (int(part) for part in (match["clock"] or "0:0:0").split(":"))
    try:
        return datetime(int(match["year"]), month, int(match["day"]), hour, minute, second) - timedelta(hours=zone)
    except ValueError:
        raise ValueError(f"{what} holds {text!r}, which is not a date") from None


def ranks(when: Array) -> Array:
    """Ranks from 1 on, equal for equal times: they travel through the making of a table as weights."""
    positions: Array = (np.unique(when, return_inverse=True)[1] + 1).astype(np.float64)
    return positions


def without_ranks(ranked: Annotations) -> tuple[Annotations, Array]:
    """The table, and the ranks that it had for weights, aligned with its rows."""
    table = made_table(
        *ranked.codes(), None, ranked.n_tasks, ranked.n_workers, ranked.n_labels, n_classes=ranked.n_classes
    )
    names = (ranked._tasks, ranked._workers, ranked._classes, ranked._unlabelled, ranked._labels)
    return Annotations(table, *names), np.ones(table.n_annotations) if ranked.weights is None else ranked.weights
