"""Tokenization of texts into words or letters in any script, and comparison keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice

#: Scripts without spaces between words: Thai and Lao, Burmese, Khmer, Chinese characters, kana. Each letter counts as a
#: word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORDS = re.compile(rf"\s+|[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_SPACE = re.compile(r"\s+")
#: Words and punctuation marks, each a token. Combining marks are replaced by a placeholder and stay with their letter.
_STAND_IN = "\ue000"
_TOKENS = re.compile(rf"[{_UNSPACED}]{_STAND_IN}*|(?:[^\W{_UNSPACED}]{_STAND_IN}*)+|[^\w\s]{_STAND_IN}*")
_PLAIN_TOKENS = re.compile(r"\w+|[^\w\s]")
#: Zero-width joiner, which combines the characters around it.
_JOINER = "\u200d"

LEVELS = ("word", "character")


def tokens_of(text: str, level: str) -> list[str]:
    """Split a text into words or letters; a word after a space starts with that space.

    Words are separated by spaces; in scripts without spaces each letter is a word. Combining marks stay with their
    letter. At the character level, a run of spaces is one space.
    """
    if level == "character":
        return _letters(_SPACE.sub(" ", text.strip()))
    tokens: list[str] = []
    spaced = True
    for part in _WORDS.findall(text):
        if part.isspace():
            spaced = True
            continue
        if not spaced and tokens and _is_mark(part[0]):
            tokens[-1] += part  # a combining vowel or tone mark
            continue
        tokens.append(f" {part}" if spaced else part)
        spaced = False
    return tokens


def token_offsets(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) offsets of the words and punctuation marks of a text.

    Punctuation marks, and letters of scripts without spaces, are separate tokens. Combining marks stay with their
    letter.
    """
    if text.isascii():
        return [match.span() for match in _PLAIN_TOKENS.finditer(text)]
    plain = "".join(_STAND_IN if _is_mark(letter) else letter for letter in text)
    return [match.span() for match in _TOKENS.finditer(plain)]


def _letters(text: str) -> list[str]:
    letters: list[str] = []
    for letter in text:
        if letters and (_is_mark(letter) or letters[-1].endswith(_JOINER)):
            letters[-1] += letter
        else:
            letters.append(letter)
    return letters


def _is_mark(letter: str) -> bool:
    return letter == _JOINER or unicodedata.category(letter)[0] == "M"


def join_tokens(tokens: Iterable[str]) -> str:
    """Join tokens to a text."""
    return "".join(tokens).strip()


@cache
def fold_token(token: str) -> str:
    """Return the comparison key of a token without case and punctuation; empty for pure punctuation.

    A stand-alone symbol (an emoji, a star) is kept.
    """
    plain = unicodedata.normalize("NFKC", token).casefold()
    kinds = [unicodedata.category(letter) for letter in plain]
    words = "".join(letter for letter, kind in zip(plain, kinds, strict=True) if kind[0] not in "PS")
    return plain if "So" in kinds and all(_is_mark(letter) for letter in words) else words


def _exact(token: str) -> str:
    return unicodedata.normalize("NFC", token)


@dataclass(frozen=True)
class Spelling:
    """Texts as codes: text i has the tokens `starts[i]` to `starts[i + 1]`."""

    starts: npt.NDArray[np.int64]
    #: Codes of the comparison keys of tokens, in sort order of the keys.
    keys: npt.NDArray[np.int64]
    #: Codes of the tokens as written, and the tokens in sort order.
    forms: npt.NDArray[np.int64]
    tokens: tuple[str, ...]
    n_keys: int

    @classmethod
    def of(cls, texts: list[str], level: str = "word", fold: bool = True) -> Spelling:
        """Encode texts; with `fold`, tokens that are only punctuation are dropped."""
        check_choice("level", level, LEVELS)
        key: Callable[[str], str] = fold_token if fold else _exact
        rows = [[token for token in tokens_of(text, level) if key(token.strip(" ") or token)] for text in texts]
        distinct_tokens = sorted({token for row in rows for token in row})
        keys = [key(token.strip(" ") or token) for token in distinct_tokens]
        rank = {name: code for code, name in enumerate(sorted(set(keys)))}
        form = {token: code for code, token in enumerate(distinct_tokens)}
        forms = np.array([form[token] for row in rows for token in row], np.int64)
        of_form = np.array([rank[name] for name in keys], np.int64)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return cls(starts, of_form[forms] if len(forms) else forms, forms, tuple(distinct_tokens), len(rank))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self.starts)
