"""Names that differ in their spelling only: by case, by blanks, or by letters that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

#: Characters that take no place in print: soft hyphens, zero-width blanks, direction marks, the byte order mark.
_INVISIBLE = dict.fromkeys((0x00AD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF))
#: Letters of Cyrillic and Greek that look like Latin ones, in small form.
_LOOK_ALIKE = str.maketrans("аеорсухіјѕԁһӏԛԝνοαιρτυχκ", "aeopcyxijsdhlqwvoaiptuxk")
#: Of more names than this, the first are compared.
_COMPARED = 100_000
#: Groups of names that a message lists.
_SHOWN = 3


def fold(text: str) -> str:
    """Return a name without regard to case and blanks."""
    return " ".join(text.translate(_INVISIBLE).split()).casefold()


def skeleton(text: str) -> str:
    """Return a name as it looks: without regard to case and blanks, and with one form for letters that look alike."""
    return fold(unicodedata.normalize("NFKC", text)).translate(_LOOK_ALIKE)


def groups_of(names: Iterable[Any], key: Callable[[str], str]) -> list[list[str]]:
    """Return the names, of those that are text, that have a key in common, group by group."""
    groups: dict[str, list[str]] = {}
    for place, name in enumerate(names):
        if place >= _COMPARED:
            break
        if isinstance(name, str):
            groups.setdefault(key(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def list_groups(groups: Sequence[Sequence[str]]) -> str:
    """List groups of names for a message."""
    more = f"; and {len(groups) - _SHOWN:,} more" if len(groups) > _SHOWN else ""
    return "; ".join(", ".join(map(ascii_where_odd, group[:4])) for group in groups[:_SHOWN]) + more


def ascii_where_odd(name: str) -> str:
    """Quote a name, with escapes for what does not show, or shows as something else."""
    return ascii(name) if skeleton(name) != fold(name) or name.translate(_INVISIBLE) != name else repr(name)


def quote(name: str) -> str:
    """Return a name as it is, or in quotes where blanks in it would not show."""
    return name if name and name == " ".join(name.split()) else repr(name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask whether a name that does not exist is one that does, spelled otherwise; empty where none is near."""
    plain = {other.casefold().replace("_", "-"): other for other in known}
    near = get_close_matches(name.casefold().replace("_", "-"), plain, n=1)
    return f" (did you mean {plain[near[0]]!r}?)" if near else ""
