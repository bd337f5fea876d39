"""Tagging schemes: parsing, validation, storage as BIO codes and formatting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, plural, warn_of_data
from manyhands._base.fitted import names, setting
from manyhands._base.names import Names

Scheme = Literal["auto", "bio", "bilou", "bioes", "io", "classes"]
Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.uint16]

SCHEMES = ("auto", "bio", "bilou", "bioes", "io", "classes")
#: Code of a missing tag.
NO_TAG = np.uint16(65_535)
#: Meaning of the letter before the type: first token, inside, last token, single token.
_BEGIN, _INSIDE, _LAST, _SINGLE = range(4)
_LETTERS = {
    "bio": {"B": _BEGIN, "I": _INSIDE},
    "bilou": {"B": _BEGIN, "I": _INSIDE, "L": _LAST, "U": _SINGLE},
    "bioes": {"B": _BEGIN, "I": _INSIDE, "E": _LAST, "S": _SINGLE},
}
_JOINTS = ("-", "_")
#: Tag of tokens outside all spans.
OUTSIDE = "O"
#: Tags are 16-bit codes; one code marks missing tags.
_MOST_TAGS = 65_534


@dataclass(frozen=True)
class Tags:
    """Set of possible tags.

    For spans, code 0 is outside, ``1 + 2 t`` starts a span of type ``t`` and ``2 + 2 t`` continues it. Without spans
    (`spans` is False), types are token classes and their indices are the codes.
    """

    types: Names = field(metadata=names("y", empty=True))
    spans: bool = field(default=True, metadata=setting(bool))

    def __len__(self) -> int:
        return 1 + 2 * len(self.types) if self.spans else len(self.types)

    @property
    def names(self) -> Names:
        """All tags in code order: O, B-x, I-x, …; plain B and I for spans without a type."""
        if not self.spans:
            return self.types
        tag_names = [OUTSIDE]
        for name in map(str, self.types.values.tolist()):
            tag_names += [f"B-{name}", f"I-{name}"] if name else ["B", "I"]
        return Names(np.array(tag_names, object))

    def legal(self) -> npt.NDArray[np.bool_]:
        """Return whether a tag may follow another, shape (tags + 1, tags); the last row is the sequence start."""
        k = len(self)
        allowed = np.ones((k + 1, k), np.bool_)
        if self.spans:
            inside = np.arange(2, k, 2)
            allowed[:, inside] = False
            allowed[inside, inside] = allowed[inside - 1, inside] = True
        return allowed

    def types_of(self, codes: npt.NDArray[Any]) -> Ints:
        """Return the type of each tag, -1 if outside or missing."""
        codes = codes.astype(np.int64)
        types = (codes - 1) // 2 if self.spans else codes
        return np.where(codes == NO_TAG, -1, types)

    def begins(self, codes: npt.NDArray[Any], first: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a mask of tokens that start a span or a run of a class; `first` marks sequence starts."""
        types = self.types_of(codes)
        if self.spans:
            return np.asarray((types >= 0) & (codes % 2 == 1))
        before = np.concatenate([[-1], types[:-1]])
        return np.asarray((types >= 0) & (first | (before != types)))


@dataclass(frozen=True)
class Parsed:
    """Distinct tags split into scheme role and type."""

    scheme: str
    roles: Ints
    types: Ints
    type_names: Names


def parse(names: Names, scheme: str, outside: Any) -> Parsed:
    """Split distinct tags into role and type; type -1 is outside."""
    check_choice("scheme", scheme, SCHEMES)
    if not isinstance(outside, str | int) or isinstance(outside, bool):
        raise TypeError(f"outside must be a tag (str or int), not {outside!r}")
    tag_names = names.values.tolist()
    if scheme == "auto":
        scheme = _guess_scheme(tag_names, outside)
    if scheme == "classes":
        return Parsed(scheme, np.zeros(len(tag_names), np.int64), np.arange(len(tag_names)), names)
    if scheme == "io":
        parts = [(None, None) if name == outside else (_INSIDE, name) for name in tag_names]
    else:
        parts = [(None, None) if name == outside else _split_tag(name, scheme, outside) for name in tag_names]
    span_types = [kind for role, kind in parts if role is not None]
    kinds = sorted(set(span_types), key=lambda kind: (str(type(kind)), kind))
    code_of = {kind: code for code, kind in enumerate(kinds)}
    if 1 + 2 * len(kinds) > _MOST_TAGS:
        raise ValueError(f"{len(kinds):,} span types exceed the limit of one table: does the column contain tags?")
    roles = np.array([_INSIDE if role is None else role for role, _ in parts], np.int64)
    types = np.array([-1 if role is None else code_of[kind] for role, kind in parts], np.int64)
    numbers = kinds and all(isinstance(kind, int) for kind in kinds)
    return Parsed(scheme, roles, types, Names(np.array(kinds, np.int64 if numbers else object)))


def _split_tag(name: Any, scheme: str, outside: Any) -> tuple[int, str]:
    letters = _LETTERS[scheme]
    if isinstance(name, str) and name[:1] in letters:
        if len(name) == 1:
            return letters[name], ""
        if name[1] in _JOINTS and name[2:]:
            return letters[name[0]], name[2:]
    forms = ", ".join(f"{letter}-x" for letter in letters)
    raise ValueError(
        f"{name!r} is not a tag of the scheme {scheme!r}, which has {forms} and {outside!r}; pass another scheme=, "
        "or the tag of tokens outside all spans as outside="
    )


def _guess_scheme(tag_names: list[Any], outside: Any) -> str:
    """Return the scheme that fits the tags."""
    rest = [name for name in tag_names if name != outside]
    for scheme, letters in _LETTERS.items():
        if rest and all(_fits_scheme(name, letters) for name in rest):
            return scheme
    # If a type has both B and I tags, the scheme is bio; `parse` will report the tag that does not fit.
    if any(f"B{joint}{name[2:]}" in rest for joint in _JOINTS for name in map(str, rest) if name[:2] == f"I{joint}"):
        return "bio"
    return "io" if len(rest) < len(tag_names) else "classes"


def _fits_scheme(name: Any, letters: dict[str, int]) -> bool:
    if not isinstance(name, str) or name[:1] not in letters:
        return False
    return len(name) == 1 or (name[1] in _JOINTS and len(name) > 2)


def encode_tags(parsed: Parsed, rows: Ints, first: npt.NDArray[np.bool_], what: str) -> tuple[Tags, Tokens]:
    """Return BIO codes of tokens, from indices of their distinct tags (-1 if missing).

    Parameters
    ----------
    parsed : Parsed
        The distinct tags.
    rows : ndarray of int
        Index of the tag of each token, annotation after annotation.
    first : ndarray of bool
        Marks the first token of each annotation.
    what : str
        Name of the column in messages.

    Returns
    -------
    tuple of Tags and ndarray of uint16
        The set of tags and the code of each token.
    """
    tags = Tags(parsed.type_names, spans=parsed.scheme != "classes")
    if not tags.spans:
        return tags, np.where(rows < 0, NO_TAG, rows).astype(np.uint16)
    types = np.where(rows < 0, -1, parsed.types[rows])
    roles = np.where(rows < 0, _INSIDE, parsed.roles[rows])
    before, role_before = (np.concatenate([[-1], part[:-1]]) for part in (types, roles))
    goes_on = ~first & (before == types) & np.isin(role_before, (_BEGIN, _INSIDE))
    inside, begins = np.isin(roles, (_INSIDE, _LAST)), np.isin(roles, (_BEGIN, _SINGLE))
    starts = (types >= 0) & (begins | ~goes_on)
    orphans = starts & inside
    # If every B follows a span of its own type, B only separates adjacent spans (IOB1), and I may start a span.
    divides = parsed.scheme == "bio" and not (begins & (types >= 0) & ~goes_on).any()
    if parsed.scheme != "io" and not divides and orphans.any():
        place = int(np.argmax(orphans))
        warn_of_data(
            f"{what} has {plural(int(orphans.sum()), 'tag')} that continue a span without a start (first of type "
            f"{str(parsed.type_names.values[types[place]])!r}): each now starts a span"
        )
    codes = np.where(types < 0, 0, 1 + 2 * types + ~starts)
    return tags, np.where(rows < 0, NO_TAG, codes).astype(np.uint16)


def format_tags(tags: Tags, codes: Tokens, first: npt.NDArray[np.bool_], scheme: str) -> npt.NDArray[np.object_]:
    """Format tag codes as text in a scheme: ``"bio"``, ``"bilou"``, ``"bioes"``, ``"io"``."""
    check_choice("scheme", scheme, ("bio", "bilou", "bioes", "io"))
    names = tags.names.values
    if not tags.spans or scheme == "bio":
        return np.asarray(names[codes], object)
    types = tags.types_of(codes)
    labels = np.array([str(name) for name in tags.types.values.tolist()] + [OUTSIDE], object)
    if scheme == "io":
        return np.asarray(labels[types], object)
    begins = tags.begins(codes, first)
    after_begins = np.concatenate([begins[1:], [True]])
    ends = after_begins | np.concatenate([types[1:] != types[:-1], [True]]) | np.concatenate([first[1:], [True]])
    last, single = ("L", "U") if scheme == "bilou" else ("E", "S")
    letter = np.where(begins & ends, single, np.where(begins, "B", np.where(ends, last, "I")))
    formatted = [f"{mark}-{name}" if name else str(mark) for mark, name in zip(letter, labels[types], strict=True)]
    return np.where(types < 0, OUTSIDE, np.array(formatted, object))
