"""``mh.simulate``: a log with a known truth, of any kind of answers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from manyhands._base.checks import check_choice
from manyhands._base.simulation import Simulation
from manyhands._base.table import Records

#: Kinds that can be simulated.
SIMULATED = (*(kind for kind, table in Records._kinds.items() if table.spec.has("simulate")), "ordinal")


def simulator(kind: str) -> Callable[..., Simulation]:
    """Return the function that simulates a kind of answers."""
    check_choice("kind", kind, SIMULATED)
    if kind == "ordinal":
        module = import_module("manyhands.ordinal.simulate")
    else:
        module = Records._kinds[kind].spec.module("simulate")
    simulate_kind: Callable[..., Simulation] = module.simulate
    return simulate_kind


def simulate(*sizes: Any, kind: str = "categorical", seed: int = 0, **settings: Any) -> Any:
    """Simulate a log whose true answers are known, for any kind of answers.

    Use it to try a method, to size a project before it starts, or to test code that reads logs. The same seed gives the
    same log on any machine and any number of threads.

    Parameters
    ----------
    *sizes : int, optional
        Sizes of the log in the order of the kind's simulator, such as the number of tasks and of workers. Every size
        has a default and can also be passed by name (``n_tasks=500``).
    kind : str, default "categorical"
        Kind of answers: ``"categorical"``, ``"ordinal"``, ``"multilabel"``, ``"numeric"``, ``"pairwise"``,
        ``"rankings"``, ``"clustering"``, ``"sequences"``, ``"texts"``, ``"masks"``, ``"boxes"`` or ``"objects"``.
    seed : int, default 0
        Seed of all random draws.
    **settings
        Further parameters of the kind's simulator, for example ``crowd="flippers"`` for categorical answers; see
        ``help(manyhands.<kind>.simulate.simulate)``.

    Returns
    -------
    Simulation
        ``log`` (the table), ``truth`` (the correct answers), ``seed``, and the parameters of the simulated workers.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(900, 50, 4, crowd="flippers", skill=0.8)
    CategoricalSimulation(4,500 annotations: 900 tasks × 50 workers, 4 classes; crowd: 50 flippers; mean accuracy 0.80)
    >>> crowd = mh.simulate(kind="masks", seed=1)
    >>> crowd.log, crowd.truth[0].shape
    (<Masks: 200 masks of 20 tasks by 10 workers, 2 classes>, (64, 64))
    """
    return simulator(kind)(*sizes, seed=seed, **settings)
