"""Spans of a text in an export: which text they are of, what its tokens are, and whose way of counting places have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

Span = tuple[Any, Any, Any]
#: No text is so long.
_FARTHEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Document:
    """What spans are of: a text, and its tokens where the platform cut it, as first characters and those behind."""

    text: str | None = None
    tokens: tuple[tuple[int, int], ...] | None = None

    def quoted(self, start: Any, end: Any) -> str | None:
        """The text between two places; None where the text is not known, or a place is invalid."""
        return self.text[start:end] if self.text is not None and is_place(start) and is_place(end) else None


def is_place(value: Any) -> TypeGuard[int]:
    """Whether a value can be a place in a text."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _FARTHEST


def text_among(fields: Mapping[str, Any], named: str, quoted: Iterable[tuple[int, int, str]]) -> str | None:
    """The text that spans are of: that which reads as they were quoted, called so, or the only one; None in doubt."""
    texts = {str(name): value for name, value in fields.items() if isinstance(value, str)}
    quoted = list(quoted)
    fitting = {name: text for name, text in texts.items() if _counting(text, quoted) is not None}
    texts_by_name = fitting if quoted and fitting else texts
    if len(texts_by_name) == 1:
        return next(iter(texts_by_name.values()))
    return texts_by_name.get(named, texts_by_name.get("text"))


def counted_by(text: str | None, quoted: Iterable[tuple[int, int, str]]) -> Callable[[int], int]:
    """A function from places in an export to characters: places may count units of UTF-16, which quotes show."""
    counting = None if text is None else _counting(text, list(quoted))
    return counting or _as_it_is


def _counting(text: str, quoted: list[tuple[int, int, str]]) -> Callable[[int], int] | None:
    """How places are counted if a text is to read as it was quoted; None where it reads otherwise."""
    for count in (_as_it_is, from_utf16(text)):
        if all(_plain(text[count(start) : count(end)]) == _plain(label) for start, end, label in quoted):
            return count
    return None


def _plain(text: str) -> str:
    """A text without regard to how it breaks into lines, which quotes write in their own way."""
    return " ".join(text.replace("\\n", " ").split())


def _as_it_is(place: int) -> int:
    return place


def from_utf16(text: str) -> Callable[[int], int]:
    """A function from places in UTF-16 units to places in characters."""
    if text.isascii() or max(map(ord, text), default=0) < 0x10000:
        return _as_it_is
    places = {}
    units = 0
    for count, letter in enumerate(text):
        places[units] = count
        units += 2 if ord(letter) > 0xFFFF else 1
    places[units] = len(text)
    return lambda place: places.get(place, place)
