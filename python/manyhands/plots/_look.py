"""Common look of charts: size, colors, and the lazy import of Matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manyhands._base.extras import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Lines and points, in this order; they differ in lightness too.
COLOURS = ("#1f4e79", "#d1782c", "#4f8f5b", "#8c5a99", "#b33a3a", "#6b6b6b")
#: Cells of a matrix, from nothing to all.
SHADES = "Blues"
#: The same where numbers lie on both sides of zero.
SIDES = "RdBu"
_SIZE = (6.0, 4.0)
_SQUARE = (5.2, 4.4)


def axes(ax: Axes | None, *, square: bool = False) -> Axes:
    """Return the given axes unchanged, or new ones in the common look, which need not be closed."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"manyhands.plots needs Matplotlib: {install_command('plot')}") from error
    ax = Figure(figsize=_SQUARE if square else _SIZE, layout="constrained").add_subplot()
    ax.set_prop_cycle(color=COLOURS)
    if not square:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
    return ax


def names(values: Any, most: int = 24) -> tuple[list[int], list[str]]:
    """Places and texts of ticks for names along an axis: all of them, or some of many; long ones are cut."""
    step = max(1, -(-len(values) // most))
    places = list(range(0, len(values), step))
    texts = [str(values[place]) for place in places]
    return places, [text if len(text) <= 18 else text[:17] + "…" for text in texts]
