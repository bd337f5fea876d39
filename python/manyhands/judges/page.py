"""One HTML page about a panel of judges, for people who do not program. It opens offline and runs no script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from manyhands._base.atomic import atomic_write, check_output
from manyhands._base.checks import plural
from manyhands.judges.summary import difference_text, drift_text, drifts, name_of, number_text, plan_text

#: Rows of a table that the page has.
_MOST = 300
_STYLE = """
.interval { position: relative; height: 1.1rem; min-width: 9rem; background: var(--soft); border-radius: .25rem; }
.interval span { position: absolute; top: .4rem; height: .3rem; background: var(--accent); border-radius: .15rem; }
.interval i { position: absolute; top: .15rem; width: .2rem; height: .8rem; margin-left: -.1rem;
  background: var(--ink); }
.interval b { position: absolute; top: 0; width: 1px; height: 1.1rem; background: var(--quiet); }
.found { color: var(--second); font-weight: 600; }
td.number { white-space: nowrap; }
#main td:first-child { min-width: 8rem; }
.verdict { padding-left: 0; list-style: none; }
"""


def write_page(content: dict[str, Any], path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the page.

    Parameters
    ----------
    content : mapping
        What `as_dict` returns.
    path : str or path
        File to write; its name must end in ``.html``.
    title : str or None, default None
        Its title; by default the size of the log.

    Returns
    -------
    Path
        The file.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, not {target.name!r}")
    check_output(target)
    page = render(content, title)
    with atomic_write(target) as part:
        part.write_text(page, encoding="utf-8")
    return target


def render(content: dict[str, Any], title: str | None = None) -> str:
    """The page about what `as_dict` returns."""
    judges, items = plural(len(content["judges"]), "judge"), plural(content["n_items"], "item")
    title = title or f"{judges} on {items}"
    style = (files("manyhands.report") / "page.css").read_text(encoding="utf-8") + _STYLE
    body = [
        _section("overview", "Overview", _overview(content)),
        _section("scores", "Scores", _scores(content)),
        _section("judges", "Judges", _judges(content)),
        _section("biases", "Biases", _biases(content)),
        _section("failures", "Failures", _failures(content)),
        _section("drift", "Drift", _drift(content)),
        _section("method", "Method and limits", _method(content)),
    ]
    names = ("overview", "scores", "judges", "biases", "failures", "drift", "method")
    links = " ".join(f'<a href="#{name}">{name.capitalize()}</a>' for name in names)
    stamp = f"Judges report · {date.today().isoformat()} · manyhands {version('manyhands')}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<header>
<p class="brand">{escape(stamp)}</p>
<h1>{escape(title)}</h1>
<nav aria-label="Sections">{links}</nav>
</header>
<main id="main">
{"".join(body)}
</main>
</body>
</html>
"""


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{title}</h2>\n{body}\n</section>\n'


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _number(value: Any, digits: int = 3, sign: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:{'+' if sign else ''}.{digits}f}" if isinstance(value, float) else f"{value:,}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> str:
    """A table; cells are text, or markup where they are wrapped in a tuple."""
    right = set(numbers)
    mark = [' class="number"' if place in right else "" for place in range(len(headings))]
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(headings, mark, strict=True))
    lines, left = [], 0
    for place, row in enumerate(rows):
        if place >= _MOST:
            left += 1
            continue
        cells = [one[0] if isinstance(one, tuple) else escape(str(one)) for one in row]
        lines.append(
            "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(mark, cells, strict=True)) + "</tr>"
        )
    more = f"<p>{left:,} more rows are in the JSON file.</p>" if left else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll">{table}</div>{more}'


def _bar(estimate: float, low: float, high: float, ends: tuple[float, float], at: float | None = None) -> tuple[str]:
    """An interval on a scale as markup; `at` marks a value such as no difference."""

    def place(value: float) -> float:
        return 100 * min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)

    left, right = place(low), place(high)
    line = "" if at is None else f'<b style="left:{place(at):.1f}%"></b>'
    label = f"{low:.3f} to {high:.3f}"
    span = f'<span style="left:{left:.1f}%;width:{max(right - left, 0.5):.1f}%"></span>'
    return (
        f'<div class="interval" role="img" aria-label="{label}">{line}{span}'
        f'<i style="left:{place(estimate):.1f}%"></i></div>',
    )


def _overview(content: dict[str, Any]) -> str:
    sentences, figures = [], []
    scores = [row for row in content["scores"] or [] if row["estimate"] is not None]
    sentences += [
        f"{name_of(row) or 'The score'}{' scores' if name_of(row) else ' is'} {row['estimate']:.3f}, 95 % interval "
        f"{row['low']:.3f}–{row['high']:.3f}; {row['n_gold']:,} human labels count as {row['worth_labels']:.0f}."
        for row in scores[:3]
    ]
    if not scores:
        sentences.append(
            "A score needs human labels of a random sample of items: judges cannot show how wrong they are."
        )
    for part in content["panels"][:3]:
        where = "" if part["criterion"] is None else f" on {part['criterion']}"
        about = "" if part["criterion"] is None else f"{part['criterion']} · "
        sentences += [f"{about}{difference_text(each)}." for each in part.get("differences", [])[:2]]
        if part["effective_judges"] is not None:
            sentences.append(f"Judges that count as independent{where}: {number_text(part['effective_judges'])}.")
    figures += [("Items", f"{content['n_items']:,}", ""), ("Verdicts", f"{content['n_verdicts']:,}", "")]
    figures += [("Could not be read", f"{content['n_failed']:,}", "verdicts")]
    figures += [("Human labels", f"{content['n_gold']:,}", "")]
    figures_html = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{value}</dd>{f'<dd class=about>{about}</dd>' if about else ''}</div>"
        for name, value, about in figures
    )
    warnings = "".join(f"<li>{escape(remark)}</li>" for remark in content["warnings"])
    notes = f"<h3>Warnings</h3><ul>{warnings}</ul>" if warnings else ""
    text = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="verdict">{text}</ul><dl class="figures">{figures_html}</dl>{notes}'


def _scores(content: dict[str, Any]) -> str:
    rows = content["scores"]
    if not rows:
        return _paragraph("Scores need human labels of a random sample of the items.") + _next(content)
    there = [row for row in rows if row["estimate"] is not None]
    ends = (min([0.0, *(row["low"] for row in there)]), max([1.0, *(row["high"] for row in there)]))
    lines = []
    for row in rows:
        name = name_of(row) or "all items"
        if row["estimate"] is None:
            lines.append([name, "–", "too few human labels", "", row["n_gold"], "–", "–"])
            continue
        lines.append(
            [
                name,
                _number(row["estimate"]),
                f"{row['low']:.3f}–{row['high']:.3f}",
                _bar(row["estimate"], row["low"], row["high"], ends),
                f"{row['n_gold']:,}",
                f"{row['worth_labels']:,.0f}",
                f"{row['gold_only_low']:.3f}–{row['gold_only_high']:.3f}",
            ]
        )
    head = ("Score", "Estimate", "95 % interval", "", "Human labels", "Worth labels", "Human labels alone")
    body = _table(head, lines, (1, 2, 4, 5, 6))
    several = _several(content)
    pairs = [(part["criterion"], each) for part in content["panels"] for each in part.get("differences", [])]
    if pairs:
        far = max(0.05, *(abs(each[end]) for _, each in pairs for end in ("low", "high")))
        lines = [
            [
                *([criterion] if several else []),
                f"{each['first']} − {each['second']}",
                _number(each["estimate"], sign=True),
                f"{each['low']:+.3f} to {each['high']:+.3f}",
                _bar(each["estimate"], each["low"], each["high"], (-far, far), 0.0),
                "same items" if each["paired"] else "different items",
            ]
            for criterion, each in pairs
        ]
        heads = (*_first(several), "Systems", "Difference", "95 % interval", "", "Compared on")
        body += "<h3>Differences</h3>" + _table(heads, lines, (len(heads) - 4, len(heads) - 3))
    return body + _next(content)


def _several(content: dict[str, Any]) -> bool:
    """Whether rows need a column of criteria."""
    return len(content["panels"]) > 1


def _first(several: bool) -> tuple[str, ...]:
    """Headings of the first columns: the criterion where there are several."""
    return ("Criterion",) if several else ()


def _next(content: dict[str, Any]) -> str:
    """What the next labels would buy, per criterion."""
    plans = [(part["criterion"], part["next_labels"]) for part in content["panels"] if part["next_labels"] is not None]
    if not plans:
        return ""
    points = "".join(
        f"<li>{escape(plan_text(plan) if name is None else f'{name}: {plan_text(plan)}')}.</li>"
        for name, plan in plans[:_MOST]
    )
    return f"<h3>Next labels</h3><ul>{points}</ul>"


def _judges(content: dict[str, Any]) -> str:
    rows = content["judge_table"]
    several = _several(content)
    lines, rates = [], ("true_positive_rate", "true_negative_rate")
    for row in rows:
        quality = row.get("correlation") if "correlation" in row else row.get("accuracy")
        line = [str(row["criterion"])] if several else []
        line += [
            str(row["judge"]),
            str(row.get("family") or "–"),
            f"{row['n_verdicts']:,}",
            f"{row['n_failed']:,}",
            _with_interval(quality, row.get("low"), row.get("high")),
            *(_with_interval(*(row.get(f"{name}{end}") for end in ("", "_low", "_high"))) for name in rates),
            _with_interval(row.get("bias"), row.get("bias_low"), row.get("bias_high"), sign=True),
        ]
        lines.append(line)
    what = "Correlation" if rows and "correlation" in rows[0] else "Agreement"
    head = [*_first(several), "Judge", "Family", "Verdicts", "Failed", what, "Passes found", "Failures found", "Bias"]
    body = _paragraph("Against human labels, with 95 % intervals.")
    body += _table(head, lines, range(len(head) - 6, len(head)))
    body += "".join(_confusion(part) for part in content["panels"] if part["confusion"])
    families = [
        (f"{part['criterion']}: " if several else "") + ", ".join(family)
        for part in content["panels"]
        for family in part["families"]
    ]
    if families:
        listed_ = "".join(f"<li>{escape(family)}</li>" for family in families)
        about = "Judges that agree beyond the truth, and count for less together:"
        body += f"<h3>Families</h3><p>{about}</p><ul>{listed_}</ul>"
    return body


def _with_interval(value: float | None, low: float | None, high: float | None, sign: bool = False) -> str:
    """A number and its 95 % interval."""
    if value is None:
        return "–"
    return _number(value, 2, sign) + ("" if low is None else f" ({_number(low, 2, sign)} to {_number(high, 2, sign)})")


def _confusion(part: dict[str, Any]) -> str:
    """Verdicts of each judge on labeled items by human label."""
    rows = [row for row in part["confusion"] if any(isinstance(count, int) and count for count in row.values())]
    if not rows:
        return ""
    names = [name for name in rows[0] if name not in ("judge", "human")]
    where = "" if part["criterion"] is None else f" on {part['criterion']}"
    lines = [[row["judge"], row["human"], *(f"{row[name]:,}" for name in names)] for row in rows]
    table = _table(["Judge", "Human label", *names], lines, range(2, 2 + len(names)))
    return f"<h3>{escape(f'Verdicts by human label{where}')}</h3>{table}"


def _drift(content: dict[str, Any]) -> str:
    """Judges that changed, where the log has times."""
    if content["drift"] is None:
        return _paragraph("Not tested: the log has no column of times.")
    rows = drifts(content)
    if not rows:
        return _paragraph("No judge changed over time relative to the others (false-discovery rate 5 %).")
    return f"<ul>{''.join(f'<li>{escape(drift_text(row))}</li>' for row in rows[:_MOST])}</ul>"


def _biases(content: dict[str, Any]) -> str:
    rows = [row for row in content["biases"] if row["effect"] is not None]
    if not rows:
        return _paragraph(
            "Not tested: the log has no column of positions or lengths, and families of judges and systems are unknown."
        )
    far = max(0.05, *(abs(row[end]) for row in rows for end in ("low", "high")))
    several = _several(content)
    lines = [
        [
            *([row["criterion"]] if several else []),
            row["bias"],
            row["judge"],
            _number(row["effect"], sign=True),
            f"{row['low']:+.3f} to {row['high']:+.3f}",
            _bar(row["effect"], row["low"], row["high"], (-far, far), 0.0),
            ('<span class="found">found</span>',) if row["found"] else "no",
        ]
        for row in sorted(rows, key=lambda row: (not row["found"], row["bias"], -abs(row["effect"])))
    ]
    about = (
        "Effects are in units of the score: per later position, per doubling of the length, and for the own family of "
        "systems against others."
    )
    head = (*_first(several), "Bias", "Judge", "Effect", "95 % interval", "", "Found")
    return _paragraph(about) + _table(head, lines, (len(head) - 4, len(head) - 3))


def _failures(content: dict[str, Any]) -> str:
    rows = [row for row in content["failures"] if row["n_failed"] or row.get("n_missing")]
    if not rows:
        return _paragraph("Every judge gave a verdict on every item.")
    several = _several(content)
    lines = [
        [
            *([row["criterion"]] if several else []),
            row["judge"],
            row["where"],
            f"{row['n_failed']:,} of {row['n']:,}",
            f"{row['share']:.1%}",
            f"{row['low']:.1%}–{row['high']:.1%}",
            _number(row.get("n_missing")),
        ]
        for row in rows
    ]
    head = (*_first(several), "Judge", "Where", "Could not be read", "Share", "95 % interval", "Not asked")
    return _table(head, lines, range(len(head) - 4, len(head)))


def _method(content: dict[str, Any]) -> str:
    text = (
        "A score combines human labels with the judges' verdicts on all items (prediction-powered inference with "
        "cross-fitting). Its interval holds if the labeled items are a random sample, whatever the judges get wrong. "
        "The effective number of judges is how many independent ones hold the same evidence, since errors that judges "
        "share count once. Without human labels it is an upper bound. Biases compare a judge with the human label "
        "where there is one, and otherwise with the other judges; the row (all) uses human labels only."
    )
    return _paragraph(text) + _paragraph(f"Input: {content['source']}")
