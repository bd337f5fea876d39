"""What a panel shows, as plain data, as Markdown for a pull request, and as findings that fail a build."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import check_between, check_number, plural
from manyhands.judges.biases import bias_rows, drift_rows, failure_rows, judge_rows
from manyhands.judges.estimates import Difference

if TYPE_CHECKING:
    from manyhands.judges.panel import Panel

#: Findings that a summary lists.
_MOST = 10
#: Labels of which a summary states what they would buy.
NEXT = 50


def as_dict(panel: Panel, *, next_labels: int = NEXT) -> dict[str, Any]:
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
    content["scores"] = _records(panel._scores()) if enough else None
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
        part["next_labels"] = _plan(one, next_labels)
        part["confusion"] = _confusions(one)
        parts.append(part)
    content["panels"] = parts
    content["judge_table"] = _records(panel._rows(judge_rows, "family"))
    content["biases"] = _records(panel._rows(bias_rows, "bias"))
    content["failures"] = _records(panel._rows(failure_rows, "where"))
    content["drift"] = _records(panel._rows(drift_rows)) if panel.timed else None
    cleaned: dict[str, Any] = _finite(content)
    return cleaned


def _records(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Rows of a table; Arrow would import pandas for them."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plan(panel: Panel, n: int) -> dict[str, Any] | None:
    """What the next labels would buy; None where every item has one."""
    try:
        rows, _, width, after = panel._plan(panel._part("next_labels"), n)
    except ValueError:
        return None
    return {"n": len(rows), "half_width": width, "half_width_after": after}


def _confusions(panel: Panel) -> list[dict[str, Any]] | None:
    """One row per judge and human label: how often each verdict was given; None for numbers or without human labels."""
    if not panel.classes or panel.n_gold < 2:
        return None
    return [{"judge": judge} | row for judge in panel.judges for row in _records(panel._confusion(judge))]


def plan_text(plan: dict[str, Any]) -> str:
    """What the next labels would buy, as a clause."""
    if plan["half_width"] is None or math.isnan(plan["half_width"]):
        return f"{plural(plan['n'], 'human label')} of a random sample would give a score"
    return (
        f"{plural(plan['n'], 'more human label')} would narrow the interval from ±{plan['half_width']:.3f} to about "
        f"±{plan['half_width_after']:.3f}"
    )


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
    min_effective : float or None, default None
        The least effective number of judges. An upper bound that is not measured passes only if it is as large.
    max_width : float or None, default None
        The largest half-width of the interval of any score.
    min_score : float or None, default None
        The least lower end of the interval of any score.
    compared : bool, default False
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
    """Scores of one criterion: of each system, or of all items."""
    if compared and len(panel.systems) > 1:
        rows = _records(panel._scores())
        for row in rows:
            if row["estimate"] is None:
                about = "" if row.get("criterion") is None else f" on {row['criterion']!r}"
                labels = plural(row["n_gold"], "human label")
                raise ValueError(
                    f"system {row['system']!r} has {labels}{about}; a limit of its score needs two or more"
                )
        return rows
    one = panel.score
    return [{"system": None} | asdict(one)]


def markdown(content: dict[str, Any], gates: list[str], *, title: str = "Judges") -> str:
    """A summary of what `as_dict` returns, for a pull request or a job's page."""
    lines = [f"## {_cell(title)}", ""]
    counts = {"judge": len(content["judges"]), "item": content["n_items"], "human label": content["n_gold"]}
    lines += [", ".join(plural(n, what) for what, n in counts.items()) + ".", ""]
    lines += [f"**Fails:** {_cell('; '.join(gates))}." if gates else "All limits hold.", ""]
    if content["scores"] is not None:
        lines += ["| score | estimate | 95 % interval | human labels | worth |", "| --- | --: | --: | --: | --: |"]
        for row in content["scores"]:
            name = name_of(row) or "all items"
            if row["estimate"] is None:
                lines.append(f"| {_cell(name)} | – | – | {row['n_gold']} | – |")
            else:
                interval = f"{row['low']:.3f}–{row['high']:.3f}"
                labels = f"{row['n_gold']:,} | {row['worth_labels']:.0f}"
                lines.append(f"| {_cell(name)} | {row['estimate']:.3f} | {interval} | {labels} |")
        lines.append("")
    else:
        lines += ["No score: it needs human labels.", ""]
    for part in content["panels"]:
        where = "" if part["criterion"] is None else f" ({_cell(part['criterion'])})"
        lines += [f"- {_cell(difference_text(each))}{where}" for each in part.get("differences", [])]
        number = part["effective_judges"]
        lines += [f"- Independent judges{where}: {number_text(number)}"] if number is not None else []
        lines += [f"- Family{where}: {_cell(', '.join(family))}" for family in part["families"][:_MOST]]
        plan = part["next_labels"]
        lines += [f"- Next{where}: {plan_text(plan)}."] if plan is not None else []
    biased = [row for row in content["biases"] if row["found"]]
    lines += [
        f"- Bias by {row['bias']}: {_cell(name_of(row))} {row['effect']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})"
        for row in biased[:_MOST]
    ]
    lines += [f"- Drift: {_cell(drift_text(row))}" for row in drifts(content)[:_MOST]]
    failed = [row for row in content["failures"] if row["where"] == "everywhere" and row["n_failed"]]
    lines += [
        f"- {_cell(name_of(row) or str(row['judge']))}: {row['n_failed']:,} of {row['n']:,} verdicts could not be read"
        for row in sorted(failed, key=lambda row: -row["n_failed"])[:_MOST]
    ]
    lines += [f"- {_cell(remark)}" for remark in content["warnings"]]
    return "\n".join(lines).rstrip() + "\n"


def name_of(row: dict[str, Any]) -> str:
    """Criterion, system and judge of a row, as far as it has them."""
    return " · ".join(str(row[key]) for key in ("criterion", "system", "judge") if row.get(key) is not None)


def number_text(number: dict[str, Any]) -> str:
    """An effective number of judges with its interval."""
    bound = "" if number["measured"] else "at most "
    return (
        f"{bound}{number['estimate']:.1f} of {number['n']:.3g} (95 % interval {number['low']:.1f}–{number['high']:.1f})"
    )


def difference_text(one: dict[str, Any]) -> str:
    """A difference with its interval."""
    interval = f"95 % interval {one['low']:+.3f} to {one['high']:+.3f}"
    return f"{one['first']} − {one['second']}: {one['estimate']:+.3f}, {interval}"


def drifts(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Judges that drift."""
    return [row for row in content["drift"] or [] if row["found"]]


def drift_text(row: dict[str, Any]) -> str:
    """How a judge drifted: what its verdicts are more often than those of others, before and after."""
    where = f" on {row['criterion']}" if row.get("criterion") is not None else ""
    return (
        f"{row['judge']}{where} changed after {row['after']:,} of {row['n_verdicts']:,} verdicts (excess over the "
        f"other judges {row['before']:+.2f}, then {row['since']:+.2f}; q = {row['q_value']:.2g})"
    )


def _cell(text: str) -> str:
    """Text in which nothing is Markdown or HTML."""
    for letter in "\\`*_{}[]<>|#":
        text = text.replace(letter, f"\\{letter}")
    return " ".join(text.split())
