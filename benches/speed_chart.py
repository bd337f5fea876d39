"""Draw the chart of the README: one EM pass of Dawid–Skene, next to other implementations.

python benches/speed_chart.py

Reads the measured row from the table of ``benches/README.md`` (``benches/aggregate.py`` makes it) and writes
``docs/images/speed.svg``. Plain SVG without a plotting library, so that the same figures give the same file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The row of the table: annotations and classes.
ANNOTATIONS, CLASSES = "1,000,000", "10"
NAMES = ("manyhands", "numba", "SciPy sparse", "crowd-kit")
WIDTH, LEFT, BAR, STEP, TOP = 640, 120, 22, 34, 44
DARK = "#24292f"


def milliseconds() -> list[float]:
    """Read the times of the row: ours, then ours times each ratio."""
    text = (ROOT / "benches" / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {ANNOTATIONS} \| {CLASSES} \| ([\d.]+) ms \| (.+) \|$", text, re.MULTILINE)
    if row is None:
        raise SystemExit(f"benches/README.md has no row for {ANNOTATIONS} annotations and {CLASSES} classes")
    ours = float(row[1])
    return [ours, *(ours * float(ratio.strip().lstrip("×")) for ratio in row[2].split("|"))]


def main() -> None:
    """Write the chart."""
    times = milliseconds()
    scale = (WIDTH - LEFT - 90) / max(times)
    height = TOP + STEP * len(times) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-weight="600" fill="{DARK}">One EM pass over {ANNOTATIONS} annotations, {CLASSES}'
        " classes (shorter is better)</text>",
    ]
    for place, (name, time) in enumerate(zip(NAMES, times, strict=True)):
        top = TOP + STEP * place
        color, weight = ("#0072b2", "700") if place == 0 else ("#b6bcc4", "400")
        label = f"{time:,.0f} ms" if place == 0 else f"{time:,.0f} ms  ({time / times[0]:.1f}×)".replace(".0×", "×")
        lines += [
            f'<text x="{LEFT - 10}" y="{top + 16}" text-anchor="end" font-weight="{weight}" fill="{DARK}">{name}'
            "</text>",
            f'<rect x="{LEFT}" y="{top}" width="{max(time * scale, 3):.1f}" height="{BAR}" rx="2" fill="{color}"/>',
        ]
        x, anchor = (
            (LEFT + time * scale - 10, "end") if time * scale > 300 else (LEFT + max(time * scale, 3) + 8, "start")
        )
        lines.append(
            f'<text x="{x:.1f}" y="{top + 16}" text-anchor="{anchor}" font-weight="{weight}" fill="{DARK}">{label}'
            "</text>"
        )
    (ROOT / "docs" / "images" / "speed.svg").write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
