"""Workers whose answers change in the course of their work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_between, check_number
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Progress
from manyhands._base.frames import take_columns
from manyhands._base.progress import Callback, reporting
from manyhands.audit._crowd import Crowd
from manyhands.audit._rates import Array, check_least, q_values
from manyhands.audit.result import Finding
from manyhands.categorical._excess import Beliefs
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.categorical.timestamps import as_numbers, ranks, without_ranks


def drift(
    votes: Any,
    order: Any = None,
    *,
    rate: float = 0.05,
    least: float = 0.05,
    min_labels: int = 20,
    progress: Progress = False,
) -> Finding:
    """Detect workers whose answers change over time: fatigue, haste, or a switch to a script.

    Use it on logs with timestamps or in order of work. Each answer is compared with what the other workers' answers to
    the same task predict, so that hard tasks late in a project do not count as drift. At most one change per worker is
    reported, the strongest.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with the columns of a log (see :meth:`Annotations.from_frame`).
    order : str, array or None, default None
        When each annotation was made. For a frame: the name of a column of numbers, dates or times, or None for the
        order of its rows. For `Annotations`, which have no order: numbers aligned with ``votes.to_frame()``.
    rate : float, default 0.05
        False-discovery rate: expected share of the flagged workers who did not change (Benjamini & Hochberg).
    least : float, default 0.05
        Share of answers that may change for other reasons, such as harder tasks at the end: p-values are for changes of
        at most this share. 0 tests for any change.
    min_labels : int, default 20
        Workers with fewer informative answers are not tested.
    progress : bool or callable, default False
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Finding
        ``frame()`` has one row per worker: ``n_answers``; ``after``, the number of answers before the change; ``what``
        changed, the code of a label or ``n_classes`` for accuracy; ``before`` and ``since``, the excess rate of that
        label per answer over the rate of other workers; ``p_value`` and ``q_value``, NaN for workers that were not
        tested.

    Notes
    -----
    Time: one fit of `HierarchicalDawidSkene`, then as :func:`copies`, repeated for the rest if any worker is flagged.
    Memory: 24 bytes for each label on each task of the busiest worker, 20 bytes per annotation, and three times the
    confusion matrices.

    Annotations with equal times have no order among them: a change lies between times. Weights are ignored. A worker
    who gave two different answers to a task is left out of that task.

    The residuals of a worker's answers, for each label and for accuracy, are summed in order. Without a change, the sum
    is a Brownian bridge, and its largest excursion has a known distribution.

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> crowd = mh.simulate(400, 8, 3, crowd="one-coin", accuracy=(0.7, 0.9), labels_per_task=6, seed=1)
    >>> log = crowd.log.to_frame().to_pydict()
    >>> late = [i for i in range(1200, 2400) if log["worker"][i] == 3]
    >>> for i in late:
    ...     log["label"][i] = 0
    >>> mh.audit.drift(log).workers.tolist()
    [3]
    """
    check_between("rate", rate, such_as=0.05)
    check_least(least)
    check_number("min_labels", min_labels, least=2, whole=True)
    shared = isinstance(votes, Crowd)
    table, when = _in_order(votes.votes if shared else votes, order)
    predictions = (votes if shared else Crowd(table)).beliefs
    with reporting(progress, table.n_workers, "drift") as callback:
        changes = _test_workers(
            predictions, when[predictions.kept], float(rate), float(least), int(min_labels), callback
        )
    p, q = changes["p"], changes["q"]
    remarks = predictions.remarks
    if table.n_workers == 2:
        p, q = np.full((2, 2), np.nan)
        remarks += ("Of two workers, which one changed cannot be identified: a third worker is needed.",)
    elif np.isnan(p).all():
        remarks += (
            f"Drift cannot be tested: no worker has {min_labels} answers to tasks on which other workers differ.",
        )
    evidence: dict[str, npt.NDArray[Any]] = {
        "n_answers": table.labels_per_worker,
        "after": changes["at"].astype(np.int64),
        "what": changes["what"].astype(np.int64),
        "before": changes["shares"][:, 0],
        "since": changes["shares"][:, 1],
        "p_value": p,
        "q_value": q,
    }
    return Finding("drifter", table._workers, np.nan_to_num(q, nan=1.0) <= rate, evidence, remarks)


def _test_workers(
    predictions: Beliefs, when: Array, rate: float, least: float, min_labels: int, progress: Callback | None
) -> dict[str, npt.NDArray[Any]]:
    """Test each worker for a change, relative to workers without one.

    A worker who changes makes the others on the same tasks appear to change the other way. So the strongest changes are
    flagged first, and their answers are left out before the rest are tested again.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    table, m = predictions.table, predictions.table.n_workers
    model = (predictions.posterior, predictions.confusion, predictions.strata)
    flagged = np.zeros(m, np.bool_)
    while True:
        tests = table.answer_drift(*model, when, share=least, progress=progress)
        p = np.where(tests["told"] >= min_labels, tests["p"], np.nan)
        latest = {"p": p, **{name: tests[name] for name in ("at", "what", "shares")}}
        for name, column in latest.items():
            fixed = flagged if column.ndim == 1 else flagged[:, None]
            columns[name] = np.where(fixed, columns[name], column) if name in columns else column
        tested = ~np.isnan(columns["p"])
        q = np.full(m, np.nan)
        q[tested] = q_values(columns["p"][tested], int(tested.sum()))
        new = (np.nan_to_num(q, nan=1.0) <= rate) & ~flagged
        if not new.any():
            return {**columns, "q": q}
        logs = np.log(np.maximum(columns["p"], 1e-300))
        flagged |= new & (logs <= 0.5 * logs[new].min())
        tasks, workers, labels = table.columns()
        rest = ~flagged[workers]
        if not rest.any():
            return {**columns, "q": q}
        sizes = (table.n_tasks, m, table.n_labels)
        table, when = made_table(tasks[rest], workers[rest], labels[rest], None, *sizes), when[rest]


def _in_order(votes: Any, order: Any) -> tuple[Annotations, Array]:
    """Return the table, and the time of each of its annotations."""
    if isinstance(votes, Annotations):
        table = as_annotations(votes, abstentions=True)
        if order is None or isinstance(order, str):
            raise ValueError(
                "Annotations have no order: pass order= as numbers aligned with votes.to_frame(), or audit the frame "
                "that they were made from"
            )
        when = as_numbers(order, "order")
        if when.shape != (table.n_annotations,):
            raise ValueError(
                f"order has shape {when.shape}, not one number for each of {table.n_annotations:,} annotations"
            )
        answered = table.codes()[2] < table.n_classes
        return table.without_abstentions(), when if answered.all() else when[answered]
    names = {"order": order} if isinstance(order, str) else {}
    columns = take_columns(votes, task=None, worker=None, label=None, **names)
    tasks, workers, labels = (columns[role][1] for role in ("task", "worker", "label"))
    if isinstance(order, str):
        when = as_numbers(columns["order"][1], f"order column {order!r}")
    elif order is None:
        when = np.arange(len(tasks), dtype=np.float64)
    else:
        when = as_numbers(order, "order")
    if when.shape != (len(tasks),):
        raise ValueError(f"order has shape {when.shape}, not one number for each of {len(tasks):,} rows")
    return without_ranks(as_annotations(Annotations.from_arrays(tasks, workers, labels, ranks(when))))
