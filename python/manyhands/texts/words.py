"""Texts as rows of words or letters, in any script, and how those are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice

#: Scripts that put no space between words: Thai and Lao, Burmese, Khmer, Chinese characters, kana. Each of their
#: letters counts as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORDS = re.compile(rf"\s+|[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_SPACE = re.compile(r"\s+")
#: Words and signs, each a token of its own; a stand-in takes the place of marks, which stay with their letter.
_STAND_IN = "\ue000"
_TOKENS = re.compile(rf"[{_UNSPACED}]{_STAND_IN}*|(?:[^\W{_UNSPACED}]{_STAND_IN}*)+|[^\w\s]{_STAND_IN}*")
_PLAIN_TOKENS = re.compile(r"\w+|[^\w\s]")
#: What joins the letter before it: a character of zero width that makes one sign of two.
_JOINER = "\u200d"

LEVELS = ("word", "character")


def tokens_of(text: str, level: str) -> list[str]:
    """The words or letters of a text; a word that follows a space begins with one.

    A word is what stands between spaces, with a space before it, and in scripts without spaces each letter. Marks that
    belong to a letter stay with it. At the level of characters a space is one, however wide it was.
    """
    if level == "character":
        return _letters(_SPACE.sub(" ", text.strip()))
    found: list[str] = []
    spaced = True
    for part in _WORDS.findall(text):
        if part.isspace():
            spaced = True
            continue
        if not spaced and found and _is_mark(part[0]):
            found[-1] += part  # a vowel or tone above or below the letter before it
            continue
        found.append(f" {part}" if spaced else part)
        spaced = False
    return found


def places_of_tokens(text: str) -> list[tuple[int, int]]:
    """Where the words and signs of a text begin, and the first place behind each.

    Signs are tokens of their own, and so are letters of scripts without spaces; marks stay with their letter.
    """
    if text.isascii():
        return [found.span() for found in _PLAIN_TOKENS.finditer(text)]
    plain = "".join(_STAND_IN if _is_mark(letter) else letter for letter in text)
    return [found.span() for found in _TOKENS.finditer(plain)]


def _letters(text: str) -> list[str]:
    found: list[str] = []
    for letter in text:
        if found and (_is_mark(letter) or found[-1].endswith(_JOINER)):
            found[-1] += letter
        else:
            found.append(letter)
    return found


def _is_mark(letter: str) -> bool:
    return letter == _JOINER or unicodedata.category(letter)[0] == "M"


def joined(tokens: Iterable[str]) -> str:
    """The text of tokens."""
    return "".join(tokens).strip()


@cache
def folded(token: str) -> str:
    """What a token is compared by where case and punctuation do not count; empty for one that is punctuation only.

    A picture (an emoji, a star) that stands alone is a word like any other.
    """
    plain = unicodedata.normalize("NFKC", token).casefold()
    kinds = [unicodedata.category(letter) for letter in plain]
    words = "".join(letter for letter, kind in zip(plain, kinds, strict=True) if kind[0] not in "PS")
    return plain if "So" in kinds and all(_is_mark(letter) for letter in words) else words


def _exact(token: str) -> str:
    return unicodedata.normalize("NFC", token)


@dataclass(frozen=True)
class Spelling:
    """Texts by codes: text i has the tokens `starts[i]` to `starts[i + 1]`."""

    starts: npt.NDArray[np.int64]
    #: What tokens are compared by, as codes in the order of their letters.
    keys: npt.NDArray[np.int64]
    #: Tokens as they were written, as codes, and what the codes stand for, in the order of their letters.
    forms: npt.NDArray[np.int64]
    written: tuple[str, ...]
    n_keys: int

    @classmethod
    def of(cls, texts: list[str], level: str = "word", fold: bool = True) -> Spelling:
        """Spell texts; tokens that are nothing but punctuation are left out where that does not count."""
        check_choice("level", level, LEVELS)
        key: Callable[[str], str] = folded if fold else _exact
        rows = [[token for token in tokens_of(text, level) if key(token.strip(" ") or token)] for text in texts]
        written = sorted({token for row in rows for token in row})
        keys = [key(token.strip(" ") or token) for token in written]
        rank = {name: code for code, name in enumerate(sorted(set(keys)))}
        form = {token: code for code, token in enumerate(written)}
        forms = np.array([form[token] for row in rows for token in row], np.int64)
        of_form = np.array([rank[name] for name in keys], np.int64)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return cls(starts, of_form[forms] if len(forms) else forms, forms, tuple(written), len(rank))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self.starts)
