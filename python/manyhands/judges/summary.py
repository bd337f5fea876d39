"""What a panel shows, as plain data, as Markdown for a pull request, and as findings that fail a build."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import check_between, check_number, plural
from manyhands.judges.estimates import Difference

if TYPE_CHECKING:
    from manyhands.judges.panel import Panel

#: Findings that a summary lists.
_MOST = 10


def as_dict(panel: Panel) -> dict[str, Any]:
    """Everything that can be stated, as plain data; None with a reason for what cannot."""
    content: dict[str, Any] = {
        "source": panel.source,
        "n_items": panel.n_items,
        "n_verdicts": panel.n_verdicts,
        "n_failed": panel.n_failed,
        "n_gold": panel.n_gold,
        "judges": [str(one) for one in panel.judges],
        "systems": [str(one) for one in panel.systems if one is not None],
        "criteria": [str(one) for one in panel.criteria if one is not None],
        "warnings": list(panel.warnings),
    }
    enough = panel.n_gold >= 2
    content["scores"] = panel.scores().to_pylist() if enough else None
    content["why_no_scores"] = None if enough else "a score needs human labels; judges cannot show how wrong they are"
    parts = []
    for name in panel.criteria:
        one = panel[name]
        number = one.effective_judges
        part: dict[str, Any] = {
            "criterion": None if name is None else str(name),
            "effective_judges": None if number is None else asdict(number),
            "families": [[str(judge) for judge in family] for family in one.families],
        }
        if enough and len(one.systems) > 1:
            part["differences"] = [asdict(each) for each in differences(one)]
        parts.append(part)
    content["panels"] = parts
    content["judge_table"] = panel.judges_frame().to_pylist()
    content["biases"] = panel.biases().to_pylist()
    content["failures"] = panel.failures().to_pylist()
    cleaned: dict[str, Any] = _finite(content)
    return cleaned


def _finite(value: Any) -> Any:
    """Replace numbers that JSON lacks by None, and names by their text."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def differences(panel: Panel) -> list[Difference]:
    """Differences of each system from the first one, as far as there are human labels for both."""
    systems = panel.systems
    outcome = []
    for other in systems[1 : _MOST + 1]:
        try:
            outcome.append(panel.difference(other, systems[0]))
        except ValueError:  # fewer than two human labels of one of them
            continue
    return outcome


def failed_gates(
    panel: Panel,
    *,
    min_effective: float | None = None,
    max_width: float | None = None,
    min_score: float | None = None,
    compared: bool = False,
) -> list[str]:
    """Findings that fail a build, one sentence each; empty if all limits hold.

    Parameters
    ----------
    panel
        The panel.
    min_effective
        The least effective number of judges. An upper bound that is not measured passes only if it is as large.
    max_width
        The largest half-width of the interval of any score.
    min_score
        The least lower end of the interval of any score.
    compared
        Whether each system has a score of its own; otherwise the score of all items is meant.
    """
    if min_effective is not None:
        check_number("min_effective", min_effective, least=0)
    if max_width is not None:
        check_between("max_width", max_width, such_as=0.05)
    if min_score is not None:
        check_number("min_score", min_score, least=-math.inf)
    outcome = []
    for name in panel.criteria:
        one, where = panel[name], "" if name is None else f" of {name}"
        if min_effective is not None:
            number = one.effective_judges
            value = 1.0 if number is None else number.estimate
            if value < min_effective:
                outcome.append(f"effective judges{where} {value:.1f} < {min_effective:g}")
        if max_width is None and min_score is None:
            continue
        for row in scores_of(one, compared):
            about = where if row["system"] is None else f"{where} of {row['system']}"
            half = (row["high"] - row["low"]) / 2
            if max_width is not None and half > max_width:
                outcome.append(f"half-width of the score{about} ±{half:.3f} > {max_width:g}")
            if min_score is not None and row["low"] < min_score:
                outcome.append(
                    f"score{about} {row['estimate']:.3f}, 95 % interval {row['low']:.3f}–{row['high']:.3f}: its lower "
                    f"end is below {min_score:g}"
                )
    return outcome


def scores_of(panel: Panel, compared: bool) -> list[dict[str, Any]]:
    """Scores of one criterion: of each system that has human labels, or of all items."""
    if compared and len(panel.systems) > 1:
        return [
            row | {"system": row.get("system")} for row in panel.scores().to_pylist() if row["estimate"] is not None
        ]
    one = panel.score
    return [{"system": None} | asdict(one)]


def markdown(panel: Panel, gates: list[str], *, title: str = "Judges") -> str:
    """A summary for a pull request or a job's page."""
    lines = [f"## {_cell(title)}", ""]
    counts = {"judge": len(panel.judges), "item": panel.n_items, "human label": panel.n_gold}
    lines += [", ".join(plural(n, what) for what, n in counts.items()) + ".", ""]
    lines += [f"**Fails:** {_cell('; '.join(gates))}." if gates else "All limits hold.", ""]
    if panel.n_gold >= 2:
        lines += ["| score | estimate | 95 % interval | human labels | worth |", "| --- | --: | --: | --: | --: |"]
        for row in panel.scores().to_pylist():
            name = " ".join(str(row[key]) for key in ("criterion", "system") if row.get(key) is not None) or "all items"
            if row["estimate"] is None:
                lines.append(f"| {_cell(name)} | – | – | {row['n_gold']} | – |")
            else:
                interval = f"{row['low']:.3f}–{row['high']:.3f}"
                labels = f"{row['n_gold']:,} | {row['worth_labels']:.0f}"
                lines.append(f"| {_cell(name)} | {row['estimate']:.3f} | {interval} | {labels} |")
        lines.append("")
    else:
        lines += ["No score: it needs human labels.", ""]
    for name in panel.criteria:
        one = panel[name]
        where = "" if name is None else f" ({_cell(str(name))})"
        lines += [f"- {_cell(str(each).strip('<>'))}" for each in (differences(one) if panel.n_gold >= 2 else [])]
        if one.effective_judges is not None:
            lines.append(f"- Independent judges{where}: {_cell(str(one.effective_judges).strip('<>'))}")
        lines += [f"- Family{where}: {_cell(', '.join(map(str, family)))}" for family in one.families[:_MOST]]
    biased = [row for row in panel.biases().to_pylist() if row["found"]]
    lines += [
        f"- Bias by {row['bias']}: {_cell(row['judge'])} {row['effect']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
        for row in biased[:_MOST]
    ]
    if panel.n_failed:
        lines.append(f"- {plural(panel.n_failed, 'verdict')} could not be read.")
    lines += [f"- {_cell(remark)}" for remark in panel.warnings]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    """Text in which nothing is Markdown or HTML."""
    for letter in "\\`*_{}[]<>|#":
        text = text.replace(letter, f"\\{letter}")
    return " ".join(text.split())
