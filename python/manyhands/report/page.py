"""Render the content of a report as one HTML page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
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
    source: str | Sequence[str] = (),
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write an HTML page about a log and a model that was fitted to it.

    Use it to hand results to people who do not program. :meth:`manyhands.Consensus.report` does the same from a fitted
    model.

    Parameters
    ----------
    model : estimator
        Any estimator that was fitted to the votes.
    path : str or path
        File to write; its name must end in ``.html``. Tables with more rows than the page embeds are written next to
        it, to ``<stem>-tasks.csv`` and ``<stem>-workers.csv``. An existing file of that name is replaced only if it
        belongs to an earlier report of the same name.
    votes : table, optional
        The answers; needed if the model was loaded from a file.
    gold : pair of arrays, optional
        Tasks whose class is known and their classes, to measure accuracy and calibration; for classes only.
    scores : mapping, optional
        Measures of the answers by name, for other kinds than classes.
    audit : bool, default True
        Whether to search for spammers, copies, colluders and groups; for classes only.
    title : str, optional
        Title of the page; by default the size of the log.
    source : str or list of str, optional
        Names of the input files, which the page states.
    notes : list of str, optional
        Sentences for the list of warnings, such as how many rows were set aside when the log was read.

    Returns
    -------
    list of Path
        The files that were written, the page first.

    Notes
    -----
    Cost: an audit for classes of up to two million annotations, and O(n_tasks · n_classes).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import manyhands as mh
    >>> model = mh.aggregate(mh.simulate(100, 10, 3, seed=1).log)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in write_report(model, Path(folder) / "report.html")]
    ['report.html']
    """
    jinja2, convert = _libraries()
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, not {target.name!r}")
    check_output(target)
    content = _content(model, votes, gold, scores, audit)
    content.remarks = list(dict.fromkeys([*notes, *content.remarks]))
    sources = [source] if isinstance(source, str) else list(source)
    files = ", ".join(sources) or "not stated (made from a table in memory)"
    content.provenance = [
        ("Input", files),
        *content.provenance,
        ("Date", date.today().isoformat()),
        ("Software", f"manyhands {version('manyhands')}"),
    ]
    tables = _tables_beside(content, target)
    page = _render(jinja2, convert, content, title)
    for file, frame in tables.items():
        write_table(frame, file)
    with atomic_write(target) as part:
        part.write_text(page, encoding="utf-8")
    return [target, *tables]


def _content(
    model: Any, votes: Any, gold: tuple[Any, Any] | None, scores: Mapping[str, Any] | None, audit: bool
) -> Content:
    if isinstance(model, Aggregator):
        return content_of(model, model._table_of(None if votes is None else as_annotations(votes), _CALL), gold, audit)
    if gold is not None:
        raise ValueError(f"gold is for classes, and the log holds {model._kind} answers; pass scores instead")
    return content_of_kind(model, model._table_of(votes, _CALL), scores)


def _libraries() -> tuple[Any, Any]:
    try:
        import jinja2
        import vl_convert
    except ImportError as error:
        raise ImportError(f"reports need {error.name}: {install_command('report')}") from None
    return jinja2, vl_convert


def _tables_beside(content: Content, target: Path) -> dict[Path, Any]:
    """Name a CSV file for each table that the page embeds in part; raise if it would replace a foreign file."""
    tables = {}
    for name, frame in content.frames.items():
        embedded = content.tables[name]
        if embedded.n_rows > len(embedded.rows):
            path = target.with_name(f"{target.stem}-{name}.csv")
            check_output(path)
            if path.exists() and not _is_named_by(target, path):
                raise FileExistsError(
                    f"cannot write the table of {name} to {str(path)!r}: the file exists and does not belong to an "
                    f"earlier report {target.name}; move it, or choose another name for the page"
                )
            embedded.file = path.name
            tables[path] = frame
    return tables


def _is_named_by(page: Path, table: Path) -> bool:
    """Return whether the page is an earlier report that names the table file."""
    if not page.is_file():
        return False
    return f'"file":{_encode(table.name)}' in page.read_text(encoding="utf-8", errors="replace")


def _render(jinja2: Any, convert: Any, content: Content, title: str | None) -> str:
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
        made=dict(content.provenance),
        data=_encode(data),
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        vega=convert.javascript_bundle().replace("</script", "<\\/script"),
    )
    return page


def _encode(data: Any) -> str:
    """Encode JSON so that nothing in it can end the script element or begin a tag."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
