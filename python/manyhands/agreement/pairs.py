"""Agreement of workers, two by two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_flag, check_number, plural
from manyhands._base.data_checks import made_table
from manyhands.agreement.result import Agreement, Jackknife, check_weights, labels_of, scale_by_rank
from manyhands.categorical.table import Annotations
from manyhands.metrics import match_gold

if TYPE_CHECKING:
    import pyarrow as pa

_AVERAGES = ("overlap", "even")
#: Coefficients of pairs, and by which chance they differ.
_CHANCES = {"cohen": "own", "scott": "shared"}


def cohen_kappa(
    votes: Any,
    workers: tuple[Any, Any] | None = None,
    *,
    weights: str | None = None,
    average: str = "overlap",
    min_overlap: int = 2,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Cohen's kappa of two workers, or of all pairs who share tasks.

    For two workers it is one minus observed over expected disagreement. For all pairs, both of these are averaged over
    the pairs before they are divided, which is Conger's kappa if every worker labels every task.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    workers
        Two workers by name; None for all pairs.
    weights : {None, "linear", "quadratic"}, default None
        Distance of two labels: None for equal or not; ``"linear"`` or ``"quadratic"`` by their distance in the order of
        the table's classes.
    average : str, default "overlap"
        How pairs are averaged: ``"overlap"``, by the number of tasks that both labeled, or ``"even"``, equally.
    min_overlap : int, default 2
        Leave pairs with fewer common tasks out of the average. At least two, since chance cannot be estimated from one
        task. Two workers named by `workers` are always compared.
    resamples, confidence, seed
        As in :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        1 for perfect agreement, 0 for chance; ``n_pairs`` counts the pairs compared. NaN where there are none, or all
        labels are equal.

    Notes
    -----
    Time O(Σ n²) over tasks with n labels, for the value and for each resample; memory 20 bytes for each two labels of
    a task and 72 bytes for each two workers who meet. Where a worker labeled a task more than once, each of these
    labels meets the other's.

    The kappa of two workers on few common tasks is too low: what they agree on is also what chance is reckoned from (on
    one task it is 0 where they differ, and undefined where they agree). Over many pairs the noise of such kappas
    averages out, and this bias does not. Hence the average is not one of kappas. It takes the disagreement of chance
    from labels of *different* tasks, which is right on average for any overlap, and divides once. (The plain mean of
    the kappas is ``pairwise(votes)["agreement"]`` and a mean.)

    The interval is as that of :func:`krippendorff_alpha`, for the same coefficient of the same pairs on endlessly many
    tasks. Where pairs share two or three tasks it is wider than need be.

    References
    ----------
    J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960), and
    "Weighted kappa", Psychological Bulletin 70 (1968). A. J. Conger, "Integration and generalization of kappas for
    multiple raters", Psychological Bulletin 88 (1980).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1]])
    >>> mh.agreement.cohen_kappa(votes, (0, 1)).value
    0.5
    >>> mh.agreement.cohen_kappa(votes, min_overlap=4).n_pairs
    3
    """
    jackknife = Jackknife(resamples, confidence, seed)
    return _average(votes, workers, "cohen", weights, average, min_overlap, jackknife)


def scott_pi(
    votes: Any,
    workers: tuple[Any, Any] | None = None,
    *,
    weights: str | None = None,
    average: str = "overlap",
    min_overlap: int = 2,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Scott's pi of two workers, or of all pairs who share tasks.

    As :func:`cohen_kappa`, but chance draws both labels from the pooled labels of the two workers, so that different
    habits count as disagreement.

    Parameters
    ----------
    votes, workers, weights, average, min_overlap, resamples, confidence, seed
        As in :func:`cohen_kappa`.

    Returns
    -------
    Agreement
        As from :func:`cohen_kappa`.

    Notes
    -----
    Cost as that of :func:`cohen_kappa`.

    References
    ----------
    W. A. Scott, "Reliability of content analysis: the case of nominal scale coding", Public Opinion Quarterly 19
    (1955).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0], [0, 0], [1, 1], [0, 1]])
    >>> round(mh.agreement.scott_pi(votes, (0, 1)).value, 4)
    0.4667
    """
    jackknife = Jackknife(resamples, confidence, seed)
    return _average(votes, workers, "scott", weights, average, min_overlap, jackknife)


def pairwise(votes: Any, *, coefficient: str = "cohen", weights: str | None = None, min_overlap: int = 1) -> pa.Table:
    """The agreement of every pair of workers who share tasks, as an Arrow table.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    coefficient : str, default "cohen"
        ``"cohen"`` for Cohen's kappa or ``"scott"`` for Scott's pi.
    weights : str or None, default None
        As in :func:`cohen_kappa`.
    min_overlap : int, default 1
        Leave out pairs with fewer common tasks.

    Returns
    -------
    pyarrow.Table
        Columns ``worker``, ``other``, ``overlap`` (common tasks) and ``agreement``, NaN where it is undefined.

    Notes
    -----
    Cost as that of :func:`cohen_kappa`.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1]])
    >>> mh.agreement.pairwise(votes).column("agreement").to_numpy().round(2).tolist()
    [0.5, 0.2, 0.5]
    """
    import pyarrow as pa

    check_choice("coefficient", coefficient, tuple(_CHANCES))
    votes = labels_of(votes)
    sums = _of_pairs(votes, coefficient, weights, min_overlap, summary="even")
    names = (votes._workers.take(column.astype(np.int64)).arrow() for column in sums["pairs"].T)
    columns = (*names, sums["overlap"].astype(np.int64), sums["coefficients"])
    return pa.table(dict(zip(("worker", "other", "overlap", "agreement"), columns, strict=True)))


def agreement_ratio(
    votes: Any,
    labels: Any,
    *,
    corrected: bool = True,
    weights: str | None = None,
    min_overlap: int = 10,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """How well a model agrees with the workers, relative to how well they agree with each other.

    The mean of σ(κ(model, worker)) over workers, divided by the mean of σ(κ(worker, worker')) over pairs of workers,
    where κ is Cohen's kappa and σ the logistic function. Above 1, the model agrees with the average worker better
    than workers do among themselves. No truth is needed.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    labels
        The model's answers: a sequence aligned with ``votes.tasks`` (None where it has none), or a mapping from task to
        class, a pair of arrays or a frame. Classes must be among those of the votes.
    corrected : bool, default True
        Remove the bias of each σ(κ) that falls with the number of common tasks. False for the ratio exactly as
        published (Eq. 10 of Wang et al.).
    weights : str or None, default None
        As in :func:`cohen_kappa`; they hold for pairs with the model too.
    min_overlap : int, default 10
        Leave out pairs with fewer common tasks, also with the model. Unlike :func:`cohen_kappa` this is the mean of
        a function of each pair's kappa, for which a handful of tasks is too few.
    resamples, confidence, seed
        As in :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        NaN where no pair of workers, or no worker and the model, has a kappa.

    Notes
    -----
    Cost as that of :func:`cohen_kappa`. By default each σ(κ) is corrected by Quenouille's jackknife over the tasks of
    the pair, since the mean over pairs would keep the bias. The interval is the value
    and as many standard errors to either side; otherwise as in :func:`krippendorff_alpha`.

    An answer that was made from the same votes agrees with them for that reason alone: the ratio compares models fairly
    only on tasks that they did not learn from.

    References
    ----------
    I. Lovchinsky et al., "Discrepancy ratio: evaluating model performance when even experts disagree on the truth"
    (2019); C. Wang et al., "Learn2Agree: fitting with multiple annotators without objective ground truth", Eq. 10.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1]])
    >>> mh.agreement.agreement_ratio(votes, [0, 0, 1, 1], min_overlap=4).value > 1
    True
    """
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()
    check_flag("corrected", corrected)
    votes = labels_of(votes)
    tasks, classes = _answers(labels, votes)
    own_tasks, workers, own_labels = votes.codes()
    model = votes.n_workers
    table = made_table(
        np.concatenate([own_tasks, tasks.astype(np.uint32)]),
        np.concatenate([workers, np.full(len(tasks), model, np.uint32)]),
        np.concatenate([own_labels, classes.astype(np.uint16)]),
        None,
        votes.n_tasks,
        model + 1,
        votes.n_classes,
    )
    summary = "ratio" if corrected else "plain-ratio"
    sums = _of_pairs(votes, "cohen", weights, min_overlap, jackknife, summary=summary, worker=model, table=table)
    return jackknife.agreement(sums, _reason(sums, min_overlap))


def worker_ratios(votes: Any, *, corrected: bool = True, weights: str | None = None, min_overlap: int = 10) -> pa.Table:
    """How well each worker agrees with the others, relative to how well these agree with each other.

    The :func:`agreement_ratio` of each worker, whose labels are those of a model and who is not among the workers: the
    mean of σ(κ) over the pairs with the worker, divided by the mean over all pairs without. What a model is to be
    compared with.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.
    corrected, weights, min_overlap
        As in :func:`agreement_ratio`.

    Returns
    -------
    pyarrow.Table
        Columns ``worker``, ``n_pairs`` (others with a kappa) and ``ratio``, NaN where there is none, or no other pair.

    Notes
    -----
    Cost as that of :func:`cohen_kappa`, for all workers together. That pairs with the worker are not in the
    denominator is how the published ratios were made: of all pairs, they would average one.

    References
    ----------
    As of :func:`agreement_ratio`; Table 1 of Wang et al. has the ratios of its annotators.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0]])
    >>> mh.agreement.worker_ratios(votes, min_overlap=5).column("n_pairs").to_pylist()
    [2, 2, 2]
    """
    import pyarrow as pa

    check_flag("corrected", corrected)
    votes = labels_of(votes)
    # No worker has the code n_workers: all pairs count in a ratio.
    summary = "ratio" if corrected else "plain-ratio"
    sums = _of_pairs(votes, "cohen", weights, min_overlap, summary=summary, worker=votes.n_workers)
    defined = ~np.isnan(sums["squashed"])
    pairs, parts = sums["pairs"][defined].astype(np.int64), sums["squashed"][defined]
    number = np.bincount(pairs.ravel(), minlength=votes.n_workers)
    total = np.bincount(pairs.ravel(), np.repeat(parts, 2), minlength=votes.n_workers)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (total / number) / ((parts.sum() - total) / (len(parts) - number))
    return pa.table({"worker": votes._workers.arrow(), "n_pairs": number, "ratio": ratio})


def _answers(labels: Any, votes: Annotations) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return task and class codes of a model's answers."""
    if not isinstance(labels, tuple | dict) and not hasattr(labels, "columns") and not hasattr(labels, "column_names"):
        labels = list(labels)
        if len(labels) != votes.n_tasks:
            raise ValueError(f"{len(labels):,} labels for {votes.n_tasks:,} tasks; align them with votes.tasks")
        labels = (votes.tasks, labels)
    index, names = match_gold(votes.tasks, labels, unknown="ignore")
    codes = votes._classes.find(names)
    if (codes < 0).any():
        raise ValueError(
            f"labels hold {names[codes < 0].tolist()[0]!r}, which is not among the classes of the votes "
            f"({', '.join(map(repr, votes.classes[:5].tolist()))})"
        )
    return index.astype(np.int64), codes.astype(np.int64)


def _average(
    votes: Any,
    workers: tuple[Any, Any] | None,
    coefficient: str,
    weights: str | None,
    average: str,
    min_overlap: int,
    jackknife: Jackknife,
) -> Agreement:
    check_choice("average", average, _AVERAGES)
    jackknife.check()
    votes = labels_of(votes)
    if workers is not None:
        pair = list(workers)
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"workers must name two different workers, not {workers!r}")
        check_number("min_overlap", min_overlap, least=1, whole=True)
        votes, min_overlap, average = votes.select(workers=pair), 1, "alone"
    sums = _of_pairs(votes, coefficient, weights, min_overlap, jackknife, summary=average)
    return jackknife.agreement(sums, _reason(sums, min_overlap))


def _of_pairs(
    votes: Annotations,
    coefficient: str,
    weights: str | None,
    min_overlap: int,
    jackknife: Jackknife | None = None,
    *,
    table: _core.Table | None = None,
    **summary: Any,
) -> _core._Paired:
    check_weights(weights)
    check_number("min_overlap", min_overlap, least=1, whole=True)
    return (table or votes.table).agreement_by_pairs(
        chance=_CHANCES[coefficient],
        min_overlap=min_overlap,
        **scale_by_rank(votes, weights),
        **({} if jackknife is None else jackknife.arguments()),
        **summary,
    )


def _reason(sums: _core._Paired, min_overlap: int) -> str:
    """State why a summary of pairs is undefined."""
    if not len(sums["overlap"]):
        return f"no two workers share {plural(min_overlap, 'task')} (min_overlap)"
    return "all labels on common tasks are equal: chance disagreement is 0"
