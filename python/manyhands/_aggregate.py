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
def aggregate(answers: Annotations, *, gold: Any = ..., progress: Progress = ...) -> Consensus: ...
@overload
def aggregate(answers: Any, *, kind: str | None = ..., gold: Any = ..., progress: Progress = ...) -> Any: ...
def aggregate(answers: Any, *, kind: str | None = None, gold: Any = None, progress: Progress = False) -> Any:
    """Find the answer to each task, with the library's best judgement and nothing to choose.

    Parameters
    ----------
    answers
        A table of any kind, such as :class:`~manyhands.Annotations`, or a frame with well-known column names.
    kind
        What a frame holds, where its columns do not tell: ``"categorical"``, ``"numeric"``, ….
    gold
        Known answers of some tasks, if there are any, for kinds that learn from them.
    progress
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
    if gold is None:
        return best().fit(table, progress=progress)
    if "gold" not in best._parameter_names():
        raise ValueError(
            f"gold= does not apply to {table.kind} answers: {best.__name__} learns from the workers' answers alone"
        )
    return best(gold=gold).fit(table, progress=progress)


def default_for(table: Records) -> type[Estimator[Any, Any, Any]]:
    """The method for a table where nobody chose one."""
    return Estimator._defaults[table.kind]
