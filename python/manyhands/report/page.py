"""From what a report tells to a page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyhands._base.atomic import atomic_write, check_output
from manyhands._base.extras import install_command
from manyhands._base.write import write_table
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import as_annotations
from manyhands.report.content import Content, content_of
from manyhands.report.kinds import content_of_kind

_CALL = "report(path, votes=votes)"
_HERE = Path(__file__).parent


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    votes: Any = None,
    gold: tuple[Any, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    audit: bool = True,
    title: str | None = None,
) -> list[Path]:
    """Write a page about a fit of any kind; for classes see :meth:`manyhands.Consensus.report`.

    Of other kinds it tells what the log holds, how far workers agree where there is a measure of it, the answers to
    look at first, workers, and the method.

    Parameters
    ----------
    model
        Fitted to the votes.
    path
        The page, which ends in ``.html``. Tables with more rows than it holds are written next to it, to
        ``<stem>-tasks.csv`` and ``<stem>-workers.csv``; an existing file of that name is replaced only if it belongs to
        an earlier report of the same name.
    votes
        The answers, for a model that was loaded from a file.
    gold
        Tasks whose class is known, and their classes, to measure by.
    scores
        In its place for other kinds: measures of the answers, by name.
    audit
        Whether to look for spammers, copies, colluders and groups.
    title
        What the page is called.

    Returns
    -------
    list of Path
        The files that were written, the page first.
    """
    jinja2, convert = _libraries()
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is a page: its name must end in .html, not {target.name!r}")
    check_output(target)
    content = _content(model, votes, gold, scores, audit)
    tables = _tables_beside(content, target)
    page = _rendered(jinja2, convert, content, title)
    for path, frame in tables.items():
        write_table(frame, path)
    with atomic_write(target) as part:
        part.write_text(page, encoding="utf-8")
    return [target, *tables]


def _content(
    model: Any, votes: Any, gold: tuple[Any, Any] | None, scores: Mapping[str, Any] | None, audit: bool
) -> Content:
    if isinstance(model, Aggregator):
        return content_of(model, model._table_of(None if votes is None else as_annotations(votes), _CALL), gold, audit)
    if gold is not None:
        raise ValueError(
            f"gold= takes classes, and the log holds {model._kind}; pass measures of the answers as scores="
        )
    return content_of_kind(model, model._table_of(votes, _CALL), scores)


def _libraries() -> tuple[Any, Any]:
    try:
        import jinja2
        import vl_convert
    except ImportError as error:
        raise ImportError(f"reports need {error.name}: {install_command('report')}") from None
    return jinja2, vl_convert


def _tables_beside(content: Content, target: Path) -> dict[Path, Any]:
    """Name a file next to the page for each table that the page does not hold whole; raise if one cannot be written."""
    tables = {}
    for name, frame in content.frames.items():
        shown = content.tables[name]
        if shown.n_rows > len(shown.rows):
            path = target.with_name(f"{target.stem}-{name}.csv")
            check_output(path)
            if path.exists() and not _is_named_by(target, path):
                raise FileExistsError(
                    f"cannot write {str(path)!r}, the table of {name} of {target.name}: there is a file of that name "
                    f"that does not belong to a report {target.name}; move it, or choose another name for the page"
                )
            shown.file = path.name
            tables[path] = frame
    return tables


def _is_named_by(page: Path, table: Path) -> bool:
    """Whether a page is an earlier report whose table is in a file."""
    if not page.is_file():
        return False
    return f'"file":{_embedded(table.name)}' in page.read_text(encoding="utf-8", errors="replace")


def _rendered(jinja2: Any, convert: Any, content: Content, title: str | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    data = {
        "tables": {name: vars(table) for name, table in content.tables.items()},
        "charts": content.charts,
        "matrices": content.matrices,
    }
    page: str = environment.get_template("page.html").render(
        content=content,
        title=title or content.title,
        data=_embedded(data),
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        vega=convert.javascript_bundle().replace("</script", "<\\/script"),
    )
    return page


def _embedded(data: Any) -> str:
    """JSON that can stand within a page: nothing in it ends the script or begins a tag."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
