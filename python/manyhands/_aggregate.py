"""One answer from answers of any kind, with nothing to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from manyhands._base.estimator import Estimator, Progress
from manyhands._base.table import Records
from manyhands.io.kinds import as_kind

if TYPE_CHECKING:
    from manyhands.categorical import Consensus
    from manyhands.categorical.table import Annotations


@overload
def aggregate(
    answers: Annotations, *, gold: Any = ..., panel: bool | None = ..., progress: Progress = ...
) -> Consensus: ...
@overload
def aggregate(
    answers: Any, *, kind: str | None = ..., gold: Any = ..., panel: bool | None = ..., progress: Progress = ...
) -> Any: ...
def aggregate(
    answers: Any, *, kind: str | None = None, gold: Any = None, panel: bool | None = None, progress: Progress = False
) -> Any:
    """Find the answer to each task, with the library's best judgment and nothing to choose.

    Parameters
    ----------
    answers
        A table of any kind, such as :class:`~manyhands.Annotations`, a frame with well-known column names, the path
        of a file, or a list of tuples: ``(task, worker, label)``, or the required columns of the `kind`.
    kind : str or None, default None
        What a frame holds, where its columns do not state it: ``"categorical"``, ``"numeric"``, ….
    gold
        Known answers of some tasks, for classes, numbers and sets of labels: a mapping from task to answer, a frame
        with the columns ``task`` and ``label`` (``value``, ``labels``), or the path of a file. 20 to 300 known answers
        correct all others and the workers' skills. Numbers may have gold of two classes.
    panel : bool or None, default None
        True where errors of the annotators coincide, as those of LLM judges do: all their votes on a task then count as
        one in confidences. False where they are independent. None to decide by the layout of the log; see
        :class:`~manyhands.Consensus`.
    progress : bool or callable, default False
        True for a progress bar, or a function called now and then.

    Returns
    -------
    Estimator
        The fitted model. For classes it is a :class:`~manyhands.Consensus`: `labels_`, `posterior_`, `disagreement_`,
        `confusion_`, `to_frame()`, …; for ordered ones a :class:`~manyhands.ordinal.OrdinalConsensus`; for other kinds
        see their pages.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = {"task": ["a", "a", "a", "b", "b"], "worker": [1, 2, 3, 1, 2], "label": ["x", "x", "y", "y", "y"]}
    >>> mh.aggregate(votes).labels_.tolist()
    ['x', 'y']
    """
    table = as_kind(answers, kind)
    best: Any = default_for(table)
    given = {name: value for name, value in (("gold", gold), ("panel", panel)) if value is not None}
    for name in given:
        if name not in best._parameter_names():
            raise ValueError(f"{name}= does not apply to {table.kind} answers: {best.__name__} has no such parameter")
    return best(**given).fit(table, progress=progress)


def default_for(table: Records) -> type[Estimator[Any, Any, Any]]:
    """The method for a table where no worker chose one."""
    return Estimator._defaults[table.kind]
