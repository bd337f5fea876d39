"""crowd-kit's aggregators and measures of a log, on manyhands' core.

``from crowdkit.aggregation import DawidSkene`` becomes ``from manyhands.compat.crowdkit import DawidSkene``, and
``from crowdkit.metrics.data import alpha_krippendorff`` likewise: the same constructors and methods, the same pandas
frames in (columns ``task``, ``worker``, ``label``), the same Series and frames out. Needs pandas, which the extra
``manyhands[frames]`` brings. Where the two differ on purpose, and why, is listed in
``docs/migrating-from-crowd-kit.md``.

The classes here only translate: frames to tables and back, and one way of counting iterations to the other.
Programs that are not bound to this interface find more options, and no need of pandas, in
:class:`manyhands.MajorityVote`, :class:`manyhands.categorical.WeightedVote`, :class:`manyhands.DawidSkene`,
:class:`manyhands.moments.MMSR`, :class:`manyhands.categorical.KOS`, :class:`manyhands.MACE`, :class:`manyhands.GLAD`,
:mod:`manyhands.pairwise`, :mod:`manyhands.texts`, :mod:`manyhands.masks` and :mod:`manyhands.agreement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn, Self

import numpy as np

from manyhands._base.estimator import Array, Parameters
from manyhands.categorical.base import ClassFit
from manyhands.compat import _absent
from manyhands.compat._competence import GLAD, MACE
from manyhands.compat._em import Em, beginning, errors, with_gold
from manyhands.compat._embeddings import HRRASA, RASA, ClosestToAverage
from manyhands.compat._log import Log, import_pandas, log_columns, no_series, series
from manyhands.compat._masks import SegmentationEM, SegmentationMajorityVote, SegmentationRASA
from manyhands.compat._metrics import alpha_krippendorff, consistency, uncertainty
from manyhands.compat._pairwise import BradleyTerry, NoisyBradleyTerry
from manyhands.compat._sets import BinaryRelevance
from manyhands.compat._skills import KOS, MMSR
from manyhands.compat._texts import ROVER, TextHRRASA, TextRASA
from manyhands.compat._voting import GoldMajorityVote, MajorityVote, Wawa, ZeroBasedSkill

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series

__all__ = [
    "GLAD",
    "HRRASA",
    "KOS",
    "MACE",
    "MMSR",
    "RASA",
    "ROVER",
    "BinaryRelevance",
    "BradleyTerry",
    "ClosestToAverage",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "NoisyBradleyTerry",
    "OneCoinDawidSkene",
    "SegmentationEM",
    "SegmentationMajorityVote",
    "SegmentationRASA",
    "TextHRRASA",
    "TextRASA",
    "Wawa",
    "ZeroBasedSkill",
    "alpha_krippendorff",
    "consistency",
    "uncertainty",
]


def __getattr__(name: str) -> NoReturn:
    """Tell what to use instead of what is not here."""
    raise _absent.explain(__name__, name, __all__)


# ------------------------------------------------------------------------------------------------ Dawid–Skene


class _DawidSkene(Parameters):
    """What both Dawid–Skene models share: EM from the vote shares, in crowd-kit's count of iterations."""

    labels_: Series
    probas_: Frame
    priors_: Series
    errors_: Frame
    loss_history_: list[float]

    _model: ClassVar[str]

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        initial_error_strategy: Literal["assign", "addition"] | None = None,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.initial_error_strategy = initial_error_strategy

    def _learn(self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None) -> None:
        if self.n_iter < 0:
            raise ValueError(f"n_iter must be at least 0, not {self.n_iter}")
        data = log_columns(data)
        if not len(data):
            self._set_nothing(data)
            return
        log, gold = with_gold(data, true_labels)
        em = Em(log, gold, self._model)
        start = beginning(em, initial_error, self.initial_error_strategy)
        # crowd-kit's iteration is an E-step and then an M-step; ours goes from one M-step's parameters to the
        # next. So its n-th posteriors are those of our parameters after n - 1 iterations, and its n-th
        # parameters what one more M-step makes of those posteriors.
        fit = em.run(max(self.n_iter - 1, 0), max(self.tol, 0.0), **start)
        if self.n_iter == 0:
            self._set_results(log, em.shares(), fit, [])
            return
        last = em.run(0, posterior=fit.posterior.dense())
        objective = np.append(fit.history[1:], last.history[-1])
        self._set_results(log, fit.posterior.dense(), last, (objective / log.votes.n_annotations).tolist())

    def _set_results(self, log: Log, posterior: Array, fit: ClassFit, history: list[float]) -> None:
        order = log.task_order()
        self.probas_ = log.probas(posterior).take(order)
        self.labels_ = log.labels(posterior).take(order)
        self.priors_ = series(fit.prior, log.classes, "prior")
        self.errors_ = errors(log, fit.confusion.matrices())
        self.loss_history_ = history

    def _set_nothing(self, data: Frame) -> None:
        """Set the results of a log without rows: to crowd-kit, without names of their axes."""
        self.probas_, self.errors_ = import_pandas().DataFrame(), import_pandas().DataFrame()
        self.labels_, self.priors_ = series(np.zeros(0), None, "agg_label"), series(np.zeros(0), None, "prior")
        self.loss_history_ = []


class DawidSkene(_DawidSkene):
    """Dawid–Skene by EM, from vote shares.

    Parameters
    ----------
    n_iter
        Most iterations.
    tol
        Stop when the log-likelihood changes by less than this share of itself; 0 for all iterations.
    initial_error_strategy
        What ``fit`` does with an `initial_error`: ``"assign"`` starts from it instead of the matrices that
        vote shares suggest, ``"addition"`` adds its counts to theirs, None leaves it aside.

    Attributes
    ----------
    labels_ : Series
        The most probable label, by task.
    probas_ : DataFrame
        Posteriors, tasks × labels; rows sum to one.
    priors_ : Series
        Class prior, by label.
    errors_ : DataFrame
        Confusion matrices: a row for each worker and each label they used, a column for each true class.
    loss_history_ : list of float
        Log-likelihood per annotation after each iteration; it never falls.

    Notes
    -----
    As :class:`manyhands.DawidSkene` with ``init="shares"`` and next to no pseudo-counts: O(annotations ·
    classes) an iteration. Tasks, and the rows of ``errors_``, come in the order in which the log first names
    them.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import DawidSkene
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": list("abcac"), "label": list("xxyyy")})
    >>> model = DawidSkene().fit(log)
    >>> model.labels_.to_dict()
    {1: 'x', 2: 'y'}
    >>> model.errors_.loc[("a", "x"), "x"].round(6).item()
    1.0
    """

    _model = "full"

    def fit(self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None) -> Self:
        """Learn from a log.

        Parameters
        ----------
        data
            The log, with columns ``task``, ``worker`` and ``label``.
        true_labels
            Known classes, by task, kept throughout. Tasks that are not in the log are of no consequence.
        initial_error
            Counts or probabilities of past answers, indexed by ``worker`` and ``label``, a column for each
            true class. Used as `initial_error_strategy` says, and only to start from.
        """
        self._learn(data, true_labels, initial_error)
        return self

    def fit_predict(self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data, true_labels, initial_error).labels_

    def fit_predict_proba(
        self, data: Frame, true_labels: Series | None = None, initial_error: Frame | None = None
    ) -> Frame:
        """Fit and return ``probas_``."""
        return self.fit(data, true_labels, initial_error).probas_


class OneCoinDawidSkene(_DawidSkene):
    """Dawid–Skene with one accuracy a worker, by EM from vote shares.

    Parameters
    ----------
    n_iter, tol
        As in :class:`DawidSkene`.
    initial_error_strategy
        Has no effect here, nor in crowd-kit.

    Attributes
    ----------
    skills_ : Series
        Probability of a right answer, by worker.
    labels_, probas_, priors_, errors_, loss_history_
        As in :class:`DawidSkene`.

    Notes
    -----
    As :class:`manyhands.DawidSkene` with ``model="one-coin"`` and ``init="shares"``: O(annotations + tasks ·
    classes) an iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import OneCoinDawidSkene
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> OneCoinDawidSkene().fit(log).skills_.round(3).to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """

    skills_: Series

    _model = "one-coin"

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        self._learn(data)
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: Frame) -> Frame:
        """Fit and return ``probas_``."""
        return self.fit(data).probas_

    def _set_results(self, log: Log, posterior: Array, fit: ClassFit, history: list[float]) -> None:
        super()._set_results(log, posterior, fit, history)
        accuracy = fit.confusion.matrices()[:, 0, 0]  # as any entry of the diagonal
        self.skills_ = series(accuracy, log.workers, "skill").take(log.worker_order())

    def _set_nothing(self, data: Frame) -> None:
        super()._set_nothing(data)
        self.skills_ = no_series("skill", data["worker"])
