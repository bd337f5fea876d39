"""Simulated grades: workers who err toward the neighbors of the true grade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyhands.categorical.simulate import CategoricalSimulation
from manyhands.categorical.simulate import simulate as simulate_classes
from manyhands.categorical.table import Annotations

__all__ = ["simulate"]


def simulate(
    n_tasks: int | None = None,
    n_workers: int | None = None,
    n_classes: int | None = None,
    *,
    crowd: str | Mapping[str, float] = "neighbours",
    seed: int = 0,
    **settings: Any,
) -> CategoricalSimulation:
    """Simulate grades on an ordered scale.

    Cost as for categorical answers: some 10 to 50 ns per annotation.

    Parameters
    ----------
    n_tasks, n_workers, n_classes : int, optional
        Sizes of the log, by default 200, 20 and 5.
    crowd : str or mapping, default "neighbours"
        Kind of crowd; by default errors fall on the grades next to the true one.
    seed : int, default 0
        Seed of all random draws.
    **settings
        Other settings of the simulator of categorical answers.

    Returns
    -------
    CategoricalSimulation
        The log, whose classes are ordered, with truth and confusion matrices.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(100, 10, kind="ordinal", seed=1).log
    <Annotations: 500 annotations of 100 tasks by 10 workers, 5 ordered classes>
    """
    if n_classes is None and "confusion" not in settings and "truth" not in settings:
        n_classes = 5
    simulation = simulate_classes(n_tasks, n_workers, n_classes, crowd=crowd, seed=seed, **settings)
    log = simulation.log
    parts = (log._tasks, log._workers, log._classes, log._unlabelled, log._labels)
    return replace(simulation, log=Annotations(log.table, *parts, ordered=True))
