"""Progress of long fits: a bar, or the caller's own function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Callback = Callable[[int, float], object]


class Report:
    """A callback that remembers its last report, so that the end of a fit is reported exactly once."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._step: int | None = None

    def __call__(self, step: int, objective: float) -> None:
        """Pass on how far the fit is."""
        self._step = step
        self._callback(step, objective)

    def finish(self, step: int, objective: float) -> None:
        """Report the last step, if no worker did yet."""
        if step != self._step:
            self(step, objective)


@contextmanager
def reporting(progress: bool | Callback, total: int | None, description: str) -> Iterator[Report | None]:
    """Turn a `progress` argument into a callback: a bar for True, the function itself, or None for False."""
    if callable(progress):
        yield Report(progress)
        return
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[objective]}"),
        TimeElapsedColumn(),
    )
    # Standard output is for results.
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, objective="")

        def callback(step: int, objective: float) -> None:
            bar.update(task, completed=step, objective=f"objective {objective:,.1f}" if step else "")

        yield Report(callback)
        # Fits usually stop before their limit: show the bar as finished all the same.
        n_done = max(bar.tasks[0].completed, 1)
        bar.update(task, completed=n_done, total=n_done)
