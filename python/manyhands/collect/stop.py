"""When to stop: tasks that need no more labels, however often one looks."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_between, plural
from manyhands._base.estimator import Array
from manyhands._base.names import Names
from manyhands.collect.beliefs import beliefs_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Stopping:
    """Tasks, whether each needs no more labels, and the error of its answer; to be had from :func:`stopping`."""

    names: Names
    done: npt.NDArray[np.bool_]
    answers: Names
    #: Probability that the answer is wrong, (n_tasks,).
    expected_error: Array
    error: float

    @property
    def tasks(self) -> npt.NDArray[Any]:
        """Names of the tasks that need no more labels."""
        return self.names.take(np.flatnonzero(self.done)).values

    @property
    def open(self) -> npt.NDArray[Any]:
        """Names of the tasks that need more labels."""
        return self.names.take(np.flatnonzero(~self.done)).values

    def __len__(self) -> int:
        return int(self.done.sum())

    def frame(self) -> pa.Table:
        """Return one row per task, as an Arrow table: ``task``, ``label``, ``expected_error``, ``done``."""
        return arrow.table(
            {
                "task": self.names.arrow(),
                "label": self.answers.arrow(),
                "expected_error": self.expected_error,
                "done": self.done,
            }
        )

    def __repr__(self) -> str:
        expected = float(self.expected_error[self.done].mean()) if len(self) else 0.0
        return (
            f"<Stopping at an error of {self.error:g}: {len(self):,} of {plural(len(self.names), 'task')} need no "
            f"more labels, and {expected:.2%} of those are expected to be wrong>"
        )


def stopping(model: Any, error: float = 0.05, *, tasks: Any = None) -> Stopping:
    """Find the tasks that need no more labels at a stated error probability, however often one looks.

    Use it to stop buying labels task by task. A task is done if its answer is wrong with probability `error` at most,
    and if the evidence alone, without the class frequencies, is ``(n_classes - 1) / error`` times more probable under
    the answer.

    Parameters
    ----------
    model : Aggregator
        A fitted aggregator of classes. Its posterior must be calibrated: that of the default is; that of Dawid–Skene is
        overconfident wherever workers err together.
    error : float, default 0.05
        Allowed probability of a wrong answer.
    tasks : list, optional
        Tasks to check; by default all of the model.

    Returns
    -------
    Stopping
        ``done`` per task; ``frame()`` has one row per task; ``open`` lists the tasks that need more labels.

    Notes
    -----
    Time and memory O(n_tasks · n_classes).

    If the model is correct, a task ever stops at a wrong class with probability `error` at most (Ville's inequality:
    the likelihood ratio against the alternatives is a martingale), whatever rule chooses when to look and what to ask.
    With equally frequent classes the second condition adds next to nothing to the first; if one class is frequent, it
    prevents that rare classes are mistaken for it.

    References
    ----------
    A. Wald, "Sequential tests of statistical hypotheses", Annals of Mathematical Statistics 16 (1945). G. Shafer et
    al., "Test martingales, Bayes factors and p-values", Statistical Science 26 (2011).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 20, 2, labels_per_task=7, seed=1)
    >>> stop = mh.collect.stopping(mh.aggregate(crowd.log), error=0.05)
    >>> bool((stop.expected_error[stop.done] <= 0.05).all())
    True
    """
    beliefs = beliefs_of(model, tasks=tasks)
    is_done = need_no_more(beliefs.posterior, beliefs.prior, error)
    answers = copy(model)._classes.take(beliefs.posterior.argmax(axis=1))
    return Stopping(beliefs.tasks, is_done, answers, 1.0 - beliefs.posterior.max(axis=1), float(error))


def need_no_more(posterior: Array, prior: Array, error: float) -> npt.NDArray[np.bool_]:
    """Which posteriors, (n, n_classes), are beyond the boundary of `stopping`, (n,)."""
    check_between("error", error, such_as=0.05)
    k = posterior.shape[1]
    if k < 2:
        return np.ones(len(posterior), np.bool_)
    first = posterior.argmax(axis=1)
    p = posterior[np.arange(len(posterior)), first]
    wrong = 1.0 - p
    frequent = np.clip(prior[first], 1e-300, 1.0)
    # p / (1 - p) ≥ prior odds · (k - 1) / error, without dividing.
    likely = p * (1.0 - frequent) * error >= wrong * frequent * (k - 1)
    return np.asarray((wrong <= error) & likely)
