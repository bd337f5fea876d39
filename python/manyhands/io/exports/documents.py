"""Reading JSON, JSONL and XML that strangers wrote: bounded, and never executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyhands._base.limits import check_memory
from manyhands.errors import FileFormatError

#: Bytes of memory that a byte of JSON may take once it is parsed: short numbers and empty lists are the worst.
_EXPANSION = 12


def text_of(path: Path, content: bytes | None = None) -> str:
    """Return a document as text, if there is room for what it becomes."""
    size = path.stat().st_size if content is None else len(content)
    check_memory(_EXPANSION * size, f"the document {str(path)!r}", "split it, or convert it to Parquet")
    data = path.read_bytes() if content is None else content
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not UTF-8 text: byte {error.start:,} is not; convert it first") from None


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; say where it is wrong."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            key = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise FileFormatError(f"{where} has an object with two values for {key!r}; which one counts is unknown")
        return content

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        cut = " (is the file cut off?)" if error.pos >= len(text.rstrip()) - 1 else ""
        raise FileFormatError(f"{where} is not valid JSON: {error.msg} at line {error.lineno}{cut}") from None
    except RecursionError:
        raise FileFormatError(f"{where} is nested too deeply to be a log") from None
    except FileFormatError:
        raise
    except ValueError:
        raise FileFormatError(
            f"{where} has a number of more digits than Python converts; if it is an id, put it in quotes"
        ) from None


def lines(text: str, where: str) -> Iterator[Any]:
    """Parse JSONL: one value per line, except blank lines.

    Lines end at a newline only: JSON text may contain other characters that Unicode calls line breaks.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield parse_json(line, f"line {number} of {where}")


def json_or_lines(text: str, where: str) -> list[Any]:
    """Parse a list, an object, or a value per line, whichever the text is."""
    start = text.lstrip()[:1]
    if start == "[":
        content = parse_json(text, where)
        return list(content)
    first, _, rest = text.lstrip().partition("\n")
    if start == "{" and rest.strip() and _is_whole(first):
        return list(lines(text, where))
    return [parse_json(text, where)]


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return False
    except ValueError:
        return True  # a number that is too long; `lines` names its line
    return True


def xml_root(text: str, where: str) -> Any:
    """Parse XML without a document type, which could define entities that grow without end."""
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise FileFormatError(f"{where} defines a document type, which an export does not need; it is not read")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise FileFormatError(f"{where} is not valid XML: {error}") from None


@contextmanager
def naming(where: str, *names: str) -> Iterator[None]:
    """Put the name of an export before messages that name neither it nor one of its files."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not any(name in str(error) for name in (where, *names)):
            error.args = (f"{where}: {error}",)
        raise


@contextmanager
def of_format(name: str, where: str) -> Iterator[None]:
    """Say of a document whose fields are not what they are elsewhere that it is so, and not what became of it."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as error:
        raise FileFormatError(f"{where} is not as exports of {name} are: {error}") from error


def need(row: Any, name: str, where: str) -> Any:
    """Return a field that must be there."""
    if not isinstance(row, dict) or name not in row:
        raise FileFormatError(f"{where} has no field {name!r}; is it of another format?")
    return row[name]
