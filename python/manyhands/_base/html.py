"""How tables and models look in a notebook: short, and with every name as text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that a notebook shows.
_SHOWN = 10


def block(text: str) -> str:
    """Text as it stands."""
    return f"<pre>{escape(text)}</pre>"


def table(frame: pa.Table) -> str:
    """The first rows of a table, and how many there are."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in frame.column_names)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(_format(value))}</td>' for value in row.values())}</tr>"
        for row in frame.slice(0, _SHOWN).to_pylist()
    )
    more = f"<p>{frame.num_rows - _SHOWN:,} more rows</p>" if frame.num_rows > _SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _format(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
