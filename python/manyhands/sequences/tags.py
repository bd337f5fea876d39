"""Tags of tokens: the schemes they are written in, and the one in which they are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, counted, warn_of_data
from manyhands._base.fitted import names, setting
from manyhands._base.names import Names

Scheme = Literal["auto", "bio", "bilou", "bioes", "io", "classes"]
Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.uint16]

SCHEMES = ("auto", "bio", "bilou", "bioes", "io", "classes")
#: No tag: the worker said nothing of a token.
UNSAID = np.uint16(65_535)
#: Letters before the type, and what they stand for: a first token, one further inside, a last one, an only one.
_BEGIN, _INSIDE, _LAST, _SINGLE = range(4)
_LETTERS = {
    "bio": {"B": _BEGIN, "I": _INSIDE},
    "bilou": {"B": _BEGIN, "I": _INSIDE, "L": _LAST, "U": _SINGLE},
    "bioes": {"B": _BEGIN, "I": _INSIDE, "E": _LAST, "S": _SINGLE},
}
_JOINTS = ("-", "_")
#: How tags of tokens in no span are written.
OUTSIDE = "O"
#: Tags are codes of sixteen bits, of which one says that there is none.
_MOST_TAGS = 65_534


@dataclass(frozen=True)
class Tags:
    """What can be said of a token.

    Of spans it is code 0 for a token outside, ``1 + 2 t`` for the first of a span of type ``t`` and ``2 + 2 t`` for one
    further inside. Where there are no spans (`spans` is False), the types are classes of tokens, and their own codes.
    """

    types: Names = field(metadata=names("y", empty=True))
    spans: bool = field(default=True, metadata=setting(bool))

    def __len__(self) -> int:
        return 1 + 2 * len(self.types) if self.spans else len(self.types)

    @property
    def names(self) -> Names:
        """All tags, in code order: O, B-x, I-x, …; B and I where spans have no type."""
        if not self.spans:
            return self.types
        made = [OUTSIDE]
        for name in map(str, self.types.values.tolist()):
            made += [f"B-{name}", f"I-{name}"] if name else ["B", "I"]
        return Names(np.array(made, object))

    def legal(self) -> npt.NDArray[np.bool_]:
        """Whether a tag may follow another, (tags + 1, tags); the last row is for the first of a sequence."""
        k = len(self)
        allowed = np.ones((k + 1, k), np.bool_)
        if self.spans:
            inside = np.arange(2, k, 2)
            allowed[:, inside] = False
            allowed[inside, inside] = allowed[inside - 1, inside] = True
        return allowed

    def types_of(self, codes: npt.NDArray[Any]) -> Ints:
        """Type of each tag, -1 where a token is outside or nothing was said."""
        codes = codes.astype(np.int64)
        found = (codes - 1) // 2 if self.spans else codes
        return np.where(codes == UNSAID, -1, found)

    def begins(self, codes: npt.NDArray[Any], first: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether each token begins a span, or a stretch of one class; `first` marks those that begin a sequence."""
        types = self.types_of(codes)
        if self.spans:
            return np.asarray((types >= 0) & (codes % 2 == 1))
        before = np.concatenate([[-1], types[:-1]])
        return np.asarray((types >= 0) & (first | (before != types)))


@dataclass(frozen=True)
class Parsed:
    """Names of tags, taken apart: what each stands for, and the type it names."""

    scheme: str
    roles: Ints
    types: Ints
    type_names: Names


def parse(names: Names, scheme: str, outside: Any) -> Parsed:
    """Take distinct tags apart; type -1 is outside."""
    check_choice("scheme", scheme, SCHEMES)
    if not isinstance(outside, str | int) or isinstance(outside, bool):
        raise TypeError(f"outside must be the tag of tokens that are in no span, not {outside!r}")
    given = names.values.tolist()
    if scheme == "auto":
        scheme = _guessed(given, outside)
    if scheme == "classes":
        return Parsed(scheme, np.zeros(len(given), np.int64), np.arange(len(given)), names)
    if scheme == "io":
        parts = [(None, None) if name == outside else (_INSIDE, name) for name in given]
    else:
        parts = [(None, None) if name == outside else _taken_apart(name, scheme, outside) for name in given]
    said = [kind for role, kind in parts if role is not None]
    kinds = sorted(set(said), key=lambda kind: (str(type(kind)), kind))
    code_of = {kind: code for code, kind in enumerate(kinds)}
    if 1 + 2 * len(kinds) > _MOST_TAGS:
        raise ValueError(f"there are {len(kinds):,} types of spans, too many to tell apart: is the column one of tags?")
    roles = np.array([_INSIDE if role is None else role for role, _ in parts], np.int64)
    types = np.array([-1 if role is None else code_of[kind] for role, kind in parts], np.int64)
    numbers = kinds and all(isinstance(kind, int) for kind in kinds)
    return Parsed(scheme, roles, types, Names(np.array(kinds, np.int64 if numbers else object)))


def _taken_apart(name: Any, scheme: str, outside: Any) -> tuple[int, str]:
    letters = _LETTERS[scheme]
    if isinstance(name, str) and name[:1] in letters:
        if len(name) == 1:
            return letters[name], ""
        if name[1] in _JOINTS and name[2:]:
            return letters[name[0]], name[2:]
    wanted = ", ".join(f"{letter}-x" for letter in letters)
    raise ValueError(
        f"{name!r} is no tag of the scheme {scheme!r}, which has {wanted} and {outside!r}; name another with scheme=, "
        "or the tag of tokens in no span with outside="
    )


def _guessed(given: list[Any], outside: Any) -> str:
    """The scheme that tags are written in, by their looks."""
    rest = [name for name in given if name != outside]
    for scheme, letters in _LETTERS.items():
        if rest and all(_looks(name, letters) for name in rest):
            return scheme
    # Where a type is both begun and gone on with, a tag that does not fit is a slip, which taking tags apart will name.
    if any(f"B{joint}{name[2:]}" in rest for joint in _JOINTS for name in map(str, rest) if name[:2] == f"I{joint}"):
        return "bio"
    return "io" if len(rest) < len(given) else "classes"


def _looks(name: Any, letters: dict[str, int]) -> bool:
    if not isinstance(name, str) or name[:1] not in letters:
        return False
    return len(name) == 1 or (name[1] in _JOINTS and len(name) > 2)


def settled(parsed: Parsed, rows: Ints, first: npt.NDArray[np.bool_], what: str) -> tuple[Tags, Tokens]:
    """Codes of tokens in the scheme of `Tags`, from the numbers of their tags, -1 where nothing was said.

    Parameters
    ----------
    parsed
        The distinct tags.
    rows
        Which of them each token has, those of one reading after the other.
    first
        Marks the first token of each reading.
    what
        What messages call the column.
    """
    tags = Tags(parsed.type_names, spans=parsed.scheme != "classes")
    if not tags.spans:
        return tags, np.where(rows < 0, UNSAID, rows).astype(np.uint16)
    types = np.where(rows < 0, -1, parsed.types[rows])
    roles = np.where(rows < 0, _INSIDE, parsed.roles[rows])
    before, role_before = (np.concatenate([[-1], part[:-1]]) for part in (types, roles))
    goes_on = ~first & (before == types) & np.isin(role_before, (_BEGIN, _INSIDE))
    inside, begins = np.isin(roles, (_INSIDE, _LAST)), np.isin(roles, (_BEGIN, _SINGLE))
    starts = (types >= 0) & (begins | ~goes_on)
    orphans = starts & inside
    # Where no B stands but beside a span of its type, it only divides them (IOB1): nothing is wrong then.
    divides = parsed.scheme == "bio" and not (begins & (types >= 0) & ~goes_on).any()
    if parsed.scheme != "io" and not divides and orphans.any():
        place = int(np.argmax(orphans))
        warn_of_data(
            f"{what} has {counted(int(orphans.sum()), 'tag')} of spans that were not begun (first of type "
            f"{str(parsed.type_names.values[types[place]])!r}): each now begins one"
        )
    codes = np.where(types < 0, 0, 1 + 2 * types + ~starts)
    return tags, np.where(rows < 0, UNSAID, codes).astype(np.uint16)


def written(tags: Tags, codes: Tokens, first: npt.NDArray[np.bool_], scheme: str) -> npt.NDArray[np.object_]:
    """Tags as text in a scheme: ``"bio"``, ``"bilou"``, ``"bioes"``, ``"io"``."""
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
    made = [f"{mark}-{name}" if name else str(mark) for mark, name in zip(letter, labels[types], strict=True)]
    return np.where(types < 0, OUTSIDE, np.array(made, object))
