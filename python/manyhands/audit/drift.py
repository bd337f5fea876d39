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
    """Find workers whose answers change along the way: tired, in a hurry, or replaced by a script.

    What a worker was to say is told by the others on the same task, as in :func:`copies`, so that hard tasks that come
    late are no evidence. What is left of each answer, for every label and for being right, is added up in order; for a
    worker who stays the same the sum walks like a Brownian bridge, and how far it strays has a known distribution. One
    change, the plainest, is told of each worker.

    Parameters
    ----------
    votes
        A frame with the columns of a log (see :meth:`Annotations.from_frame`), or :class:`~manyhands.Annotations`.
    order
        When annotations were made. Of a frame, the name of a column of numbers, dates or times, or None for the order
        of its rows. Of `Annotations`, which have no order, numbers aligned with ``votes.to_frame()``.
    rate
        The false-discovery rate: the share of the workers found that may be found by chance (Benjamini & Hochberg).
    least
        The share of answers by which a worker may change for other reasons, such as tasks that come late and are hard
        in another way: p-values are those of at most this share. 0 for any change at all.
    min_labels
        Workers with fewer answers that tell something are not judged.
    progress
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Finding
        ``frame()``: for each worker ``n_answers``; ``after``, the number of answers before the change; ``what``
        changed, the code of a label or ``n_classes`` for being right; ``before`` and ``since``, how much oftener than
        others would that was said, per answer; ``p_value`` and ``q_value``, NaN for who was not judged.

    Notes
    -----
    Annotations of the same time have no order among them: a change lies between times. Weights are not counted, and who
    gave two different answers to a task is left out of it.

    Time: one fit of `HierarchicalDawidSkene`, then as :func:`copies`, and again for the rest where somebody is found;
    memory: 24 bytes for each label on each task of the busiest worker, 20 bytes an annotation, and three times the
    confusion matrices.

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> crowd = mh.simulate(400, 8, 3, crowd="one-coin", accuracy=(0.7, 0.9), labels_per_task=6, seed=1)
    >>> log = crowd.log.to_frame().to_pydict()
    >>> late = [i for i in range(1200, 2400) if log["worker"][i] == 3]
    >>> for i in late:
    ...     log["label"][i] = 0
    >>> found = mh.audit.drift(log)
    >>> found.workers.tolist()
    [3]
    """
    check_between("rate", rate, such_as=0.05)
    check_least(least)
    check_number("min_labels", min_labels, least=2, whole=True)
    shared = isinstance(votes, Crowd)
    given, when = _in_order(votes.votes if shared else votes, order)
    known = (votes if shared else Crowd(given)).beliefs
    with reporting(progress, given.n_workers, "drift") as callback:
        found = _judged(known, when[known.kept], float(rate), float(least), int(min_labels), callback)
    p, q = found["p"], found["q"]
    remarks = known.remarks
    if given.n_workers == 2:
        p, q = np.full((2, 2), np.nan)
        remarks += ("Two workers can only be held against each other: which of them changed cannot be told.",)
    elif np.isnan(p).all():
        remarks += (
            f"No worker has {min_labels} answers to tasks on which others differ: whether anybody changed cannot be "
            "told.",
        )
    evidence: dict[str, npt.NDArray[Any]] = {
        "n_answers": given.labels_per_worker,
        "after": found["at"].astype(np.int64),
        "what": found["what"].astype(np.int64),
        "before": found["shares"][:, 0],
        "since": found["shares"][:, 1],
        "p_value": p,
        "q_value": q,
    }
    return Finding("drifter", given._workers, np.nan_to_num(q, nan=1.0) <= rate, evidence, remarks)


def _judged(
    known: Beliefs, when: Array, rate: float, least: float, min_labels: int, progress: Callback | None
) -> dict[str, npt.NDArray[Any]]:
    """How each worker changed, beside others who did not.

    Who changes makes the others on the same tasks seem to change the other way. So the plainest are found first, and
    their answers left out before the rest are judged again.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    table, m = known.table, known.table.n_workers
    believed = (known.posterior, known.confusion, known.strata)
    settled = np.zeros(m, np.bool_)
    while True:
        now = table.answer_drift(*believed, when, share=least, progress=progress)
        p = np.where(now["told"] >= min_labels, now["p"], np.nan)
        latest = {"p": p, **{name: now[name] for name in ("at", "what", "shares")}}
        for name, column in latest.items():
            kept = settled if column.ndim == 1 else settled[:, None]
            found[name] = np.where(kept, found[name], column) if name in found else column
        judged = ~np.isnan(found["p"])
        q = np.full(m, np.nan)
        q[judged] = q_values(found["p"][judged], int(judged.sum()))
        new = (np.nan_to_num(q, nan=1.0) <= rate) & ~settled
        if not new.any():
            return {**found, "q": q}
        logs = np.log(np.maximum(found["p"], 1e-300))
        settled |= new & (logs <= 0.5 * logs[new].min())
        tasks, workers, labels = table.columns()
        rest = ~settled[workers]
        if not rest.any():
            return {**found, "q": q}
        sizes = (table.n_tasks, m, table.n_labels)
        table, when = made_table(tasks[rest], workers[rest], labels[rest], None, *sizes), when[rest]


def _in_order(votes: Any, order: Any) -> tuple[Annotations, Array]:
    """The table, and when each of its annotations was made."""
    if isinstance(votes, Annotations):
        given = as_annotations(votes, abstentions=True)
        if order is None or isinstance(order, str):
            raise ValueError(
                "Annotations have no order: give numbers aligned with votes.to_frame() as order=, or audit the frame "
                "that they were made of"
            )
        when = as_numbers(order, "order")
        if when.shape != (given.n_annotations,):
            raise ValueError(
                f"order has shape {when.shape}, not one number for each of {given.n_annotations:,} annotations"
            )
        heard = given.codes()[2] < given.n_classes
        return given.without_abstentions(), when if heard.all() else when[heard]
    names = {"order": order} if isinstance(order, str) else {}
    found = take_columns(votes, task=None, worker=None, label=None, **names)
    tasks, workers, labels = (found[role][1] for role in ("task", "worker", "label"))
    if isinstance(order, str):
        when = as_numbers(found["order"][1], f"order column {order!r}")
    elif order is None:
        when = np.arange(len(tasks), dtype=np.float64)
    else:
        when = as_numbers(order, "order")
    if when.shape != (len(tasks),):
        raise ValueError(f"order has shape {when.shape}, not one number for each of {len(tasks):,} rows")
    return without_ranks(as_annotations(Annotations.from_arrays(tasks, workers, labels, ranks(when))))
