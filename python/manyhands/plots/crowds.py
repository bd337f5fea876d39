"""Pictures of crowds and of models fitted to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, check_number
from manyhands._base.data_checks import made_table
from manyhands.agreement import pairwise
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.metrics import accuracy, match_gold
from manyhands.metrics import reliability as reliability_of
from manyhands.plots._look import SHADES, SIDES, axes, names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most workers of a heat map of pairs.
_MOST_WORKERS = 500
#: Classes up to which cells of a confusion matrix have their number written in them.
_WRITTEN = 8

Floats = npt.NDArray[np.float64]


def confusion(model: Any, worker: Any = None, *, ax: Axes | None = None) -> Axes:
    """Plot a confusion matrix: the answers (columns) to tasks of each class (rows).

    Parameters
    ----------
    model
        A fitted aggregator or learner with confusion matrices.
    worker
        Name of the worker. By default the mean of all workers, weighted by their numbers of labels where these are
        known.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> model = mh.DawidSkene().fit(mh.simulate(100, 5, 3, seed=0).log)
    >>> mh.plots.confusion(model, worker=2).get_title()
    'worker 2'
    """
    matrices = _of(model, "confusion_", "confusion matrices")
    classes = np.asarray(model.classes_)
    if worker is None:
        matrix, title = np.average(matrices, axis=0, weights=_work(model, len(matrices))), "all workers"
    else:
        workers = list(model.workers_)
        if worker not in workers:
            raise KeyError(f"no worker {worker!r}; the model knows {', '.join(map(repr, workers[:3]))}, …")
        matrix, title = matrices[workers.index(worker)], f"worker {worker}"
    answers = [*classes.tolist(), *("abstained",) * (matrix.shape[1] - len(classes))]
    ax = axes(ax, square=True)
    image = ax.imshow(matrix, cmap=SHADES, vmin=0, vmax=1, aspect="equal" if len(classes) <= _WRITTEN else "auto")
    ax.set_xticks(*names(answers), rotation=45 if max(len(str(name)) for name in answers) > 4 else 0)
    ax.set_yticks(*names(classes))
    if max(matrix.shape) <= _WRITTEN:
        for (row, column), value in np.ndenumerate(matrix):
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
    ax.set(xlabel="label given", ylabel="class", title=title)
    ax.figure.colorbar(image, ax=ax, label="probability")
    return ax


def confusions(models: Mapping[str, Any], *, truth: npt.ArrayLike | None = None) -> list[Axes]:
    """Mean confusion matrices of several models next to each other, for comparison.

    Parameters
    ----------
    models : mapping of str to model
        Fitted aggregators or learners with confusion matrices, by title.
    truth : array of shape (n_workers, n_classes, n_classes), optional
        True confusion matrices, whose mean is drawn first.

    Returns
    -------
    list of Axes
        In the order of the models, the truth first where given.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(100, 5, 3, seed=0)
    >>> models = {"EM": mh.DawidSkene().fit(crowd.log), "MACE": mh.categorical.MACE().fit(crowd.log)}
    >>> [ax.get_title() for ax in mh.plots.confusions(models, truth=crowd.confusion)]
    ['truth', 'EM', 'MACE']
    """
    import matplotlib.pyplot as plt

    if not models:
        raise ValueError("models is empty; map titles to fitted models")
    first = next(iter(models.values()))
    truth_of = {} if truth is None else {"truth": _Known(np.asarray(truth, float), np.asarray(first.classes_))}
    matrices = {**truth_of, **models}
    _, panels = plt.subplots(1, len(matrices), figsize=(4.5 * len(matrices), 4), squeeze=False, layout="constrained")
    for ax, (title, model) in zip(panels[0], matrices.items(), strict=True):
        confusion(model, ax=ax).set_title(title)
    return list(panels[0])


class _Known(NamedTuple):
    """Known confusion matrices, in the form of a model."""

    confusion_: Floats
    classes_: npt.NDArray[Any]


def workers(model: Any, *, measure: str | None = None, ax: Axes | None = None) -> Axes:
    """Skill of each worker against the number of labels, with standard errors where the model knows them.

    Parameters
    ----------
    model
        A fitted model with a ``workers_frame()``, of any kind of answers.
    measure : str or None, default None
        A column of it; by default ``skill``.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> model = mh.aggregate(mh.simulate(100, 5, 3, seed=0).log)
    >>> mh.plots.workers(model).get_ylabel()
    'skill'
    """
    frame = _of(model, "workers_frame", "workers")()
    numbers = [name for name in frame.column_names if name not in ("worker", "n_answers")]
    if "n_answers" not in frame.column_names or not numbers:
        raise TypeError(f"{type(model).__name__} does not say how many labels its workers gave, and how well")
    column = measure or "skill"
    check_choice("measure", column, tuple(numbers))
    n_answers, skill = (frame.column(name).to_numpy().astype(float) for name in ("n_answers", column))
    error = frame.column(f"{column}_error").to_numpy() if f"{column}_error" in numbers else None
    ax = axes(ax)
    alpha = 0.8 if len(n_answers) < 300 else 0.3
    ax.errorbar(n_answers, skill, yerr=error, fmt="o", markersize=4, elinewidth=0.8, alpha=alpha)
    if n_answers.max() > 10 * max(n_answers.min(), 1):
        ax.set_xscale("log")
    ax.set(xlabel="labels given", ylabel=column.replace("_", " "))
    return ax


def reliability(models: Any, gold: Any, *, bins: int = 10, classes: Any = None, ax: Axes | None = None) -> Axes:
    """Reliability diagram: how often answers are right, by how confident the model was.

    Points below the diagonal are overconfident, and as large as their share of the tasks. The legend has the
    calibration error: the mean distance from the diagonal, tasks counting alike.

    Parameters
    ----------
    models
        A fitted aggregator of classes, or several by name.
    gold
        Known classes, in any form that :func:`manyhands.metrics.match_gold` takes; tasks the model lacks are ignored.
    bins : int, default 10
        Bins of equal width; those without tasks are left out.
    classes
        Names of the classes, where they are not the model's ``classes_``.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 10, 3, seed=0)
    >>> model = mh.aggregate(crowd.log)
    >>> mh.plots.reliability(model, (crowd.log.tasks, crowd.truth)).get_xlabel()
    'confidence'
    """
    lines = {}
    for name, model in _by_name(models).items():
        posterior = _of(model, "posterior_", "probabilities of classes")
        index, truth = match_gold(model.tasks_, gold, unknown="ignore")
        names = model.classes_ if classes is None else classes
        lines[name] = reliability_of(posterior[index], truth, classes=names, bins=bins)
    ax = axes(ax)
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle="--", label="calibrated")
    for name, curve in lines.items():
        full = curve.count > 0
        error = float(np.average(np.abs(curve.accuracy - curve.confidence)[full], weights=curve.count[full]))
        label = f"{name or 'calibration error'} {f'({error:.3f})' if name else f'{error:.3f}'}"
        (line,) = ax.plot(curve.confidence[full], curve.accuracy[full], label=label)
        share = curve.count[full] / curve.count.sum()
        ax.scatter(curve.confidence[full], curve.accuracy[full], 8 + 150 * share, color=line.get_color())
    ax.set(xlabel="confidence", ylabel="share of right answers", xlim=(0, 1.01), ylim=(0, 1.01))
    ax.legend()
    return ax


def history(models: Any, *, name: str | None = None, ax: Axes | None = None) -> Axes:
    """The objective after each iteration of a fit, or the loss after each epoch of a training.

    Parameters
    ----------
    models
        A fitted model with a ``history_``, or several by name.
    name : str or None, default None
        Of learners, what to show of each epoch; by default the loss.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Examples
    --------
    >>> import manyhands as mh
    >>> model = mh.DawidSkene().fit(mh.simulate(100, 5, 3, seed=0).log)
    >>> mh.plots.history(model).get_xlabel()
    'iteration'
    """
    curves, what = {}, ("iteration", "objective")
    for title, model in _by_name(models).items():
        values = _of(model, "history_", "history")
        if isinstance(values, Mapping):
            key = name or "loss"
            check_choice("name", key, tuple(values))
            values, what = values[key], ("epoch", key.replace("_", " "))
        elif name is not None:
            raise ValueError("name= is for learners, which record several numbers per epoch")
        if not len(values):
            raise ValueError(f"{type(model).__name__} has no objective that it improves step by step")
        # Most also record the initial value.
        begin = 0 if what[0] == "iteration" and len(values) != model.n_iter_ else 1
        curves[title] = np.arange(begin, begin + len(values)), np.asarray(values)
    ax = axes(ax)
    for title, (places, values) in curves.items():
        ax.plot(places, values, marker="." if len(values) < 60 else "", label=title)
    ax.set(xlabel=what[0], ylabel=what[1])
    if any(curves):
        ax.legend()
    return ax


def agreement(votes: Any, *, coefficient: str = "cohen", min_overlap: int = 2, ax: Axes | None = None) -> Axes:
    """Plot the agreement of each pair of workers, with similar workers next to each other.

    Workers are in the order in which clusters of average agreement are joined; pairs with too few common tasks are
    gray.

    Parameters
    ----------
    votes
        Categorical annotations by at most 500 workers; each pair has a cell.
    coefficient : str, default "cohen"
        ``"cohen"`` or ``"scott"``, as in :func:`manyhands.agreement.pairwise`.
    min_overlap : int, default 2
        Tasks that two workers must share.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Notes
    -----
    Time O(n_workers³), memory O(n_workers²), in addition to that of the coefficients.

    Examples
    --------
    >>> import manyhands as mh
    >>> ax = mh.plots.agreement(mh.simulate(100, 5, 3, seed=0).log)
    >>> len(ax.get_xticklabels())
    5
    """
    table: Annotations = as_annotations(votes)
    n = table.n_workers
    if n > _MOST_WORKERS:
        raise ValueError(
            f"{n:,} workers have {n * n:,} cells; show at most {_MOST_WORKERS}: take those with most labels first"
        )
    frame = pairwise(table, coefficient=coefficient, min_overlap=min_overlap)
    place = {name: code for code, name in enumerate(table.workers.tolist())}
    rows, columns = ([place[name] for name in frame.column(side).to_pylist()] for side in ("worker", "other"))
    matrix = np.full((n, n), np.nan)
    matrix[rows, columns] = matrix[columns, rows] = frame.column("agreement").to_numpy()
    if np.isnan(matrix).all():
        raise ValueError(f"no two workers share {min_overlap} tasks; lower min_overlap")
    order = cluster_order(matrix)
    ax = axes(ax, square=True)
    ax.set_facecolor("#dddddd")
    image = ax.imshow(np.ma.masked_invalid(matrix[np.ix_(order, order)]), cmap=SIDES, vmin=-1, vmax=1)
    ticks = names(table.workers[order].tolist(), most=30)
    ax.set_xticks(*ticks, rotation=90)
    ax.set_yticks(*ticks)
    ax.set(xlabel="worker", ylabel="worker")
    ax.figure.colorbar(image, ax=ax, label=f"{coefficient}'s coefficient".capitalize())
    return ax


def budget(
    models: Any,
    votes: Any,
    gold: Any,
    *,
    per_task: Iterable[int] | None = None,
    repeats: int = 3,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against the number of labels a task: what fewer labels would have done.

    For each number, that many labels of every task are kept at random, all where there are no more, and a copy of each
    model is fitted to them.

    Parameters
    ----------
    models
        An aggregator of classes, fitted or not, or several by name.
    votes
        The log.
    gold
        Known classes to measure by, as in :func:`reliability`.
    per_task : sequence of int or None, default None
        Numbers of labels a task; by default from 1 to the 90th percentile of what tasks have, at most eight of them.
    repeats : int, default 3
        How many times labels are drawn; lines are means, bands reach from the lowest to the highest.
    seed : int, default 0
        What the draws follow from; the same for all models.
    ax : Axes or None, default None
        Axes to draw into.

    Returns
    -------
    Axes
        The axes passed as `ax`, or new ones.

    Notes
    -----
    Costs ``repeats · len(per_task)`` fits of each model.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 10, 3, labels_per_task=5, seed=0)
    >>> gold = (crowd.log.tasks, crowd.truth)
    >>> ax = mh.plots.budget(mh.MajorityVote(), crowd.log, gold, per_task=[1, 3, 5])
    >>> ax.lines[0].get_xdata().tolist()
    [1.0, 3.0, 5.0]
    """
    check_number("repeats", repeats, least=1, whole=True)
    table: Annotations = as_annotations(votes)
    for model in _by_name(models).values():
        if not hasattr(model, "get_params") or not hasattr(type(model), "labels_"):
            raise TypeError(f"models are aggregators of classes, not {type(model).__name__}")
    tasks = table.codes()[0]
    sizes = np.bincount(tasks, minlength=table.n_tasks)
    budgets = _budgets(sizes) if per_task is None else [int(number) for number in per_task]
    if not budgets or min(budgets) < 1:
        raise ValueError(f"per_task must be numbers of at least 1, not {budgets}")
    index, truth = match_gold(table.tasks, gold, unknown="ignore")
    generator = np.random.default_rng(seed)
    ranks = [_ranks(tasks, generator) for _ in range(repeats)]
    mean = [float(np.minimum(sizes, number).sum() / np.count_nonzero(sizes)) for number in budgets]
    samples = {
        name: np.array(
            [[_right(model, _subset(table, rank < number), index, truth) for number in budgets] for rank in ranks]
        )
        for name, model in _by_name(models).items()
    }
    ax = axes(ax)
    for name, scores in samples.items():
        (line,) = ax.plot(mean, scores.mean(axis=0), marker="o", markersize=4, label=name)
        ax.fill_between(mean, scores.min(axis=0), scores.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set(xlabel="labels a task, on average", ylabel="accuracy")
    if any(samples):
        ax.legend()
    return ax


# ------------------------------------------------------------------------------------------------------- parts


def _by_name(models: Any) -> dict[str, Any]:
    """Models by name; one alone has none."""
    if not isinstance(models, Mapping):
        return {"": models}
    if not models:
        raise ValueError("no model to draw: give one, or a mapping from names to models")
    return {str(name): model for name, model in models.items()}


def _of(model: Any, name: str, what: str) -> Any:
    """Something that not all models have; raises of itself where a model is not fitted yet."""
    if not hasattr(type(model), name):
        raise TypeError(f"{type(model).__name__} has no {what} to draw ({name})")
    return getattr(model, name)


def _work(model: Any, n: int) -> Floats:
    """How many labels each worker gave; 1 for all where the model does not know."""
    if not hasattr(model, "workers_frame"):
        return np.ones(n)
    n_answers: Floats = model.workers_frame().column("n_answers").to_numpy().astype(float)
    return n_answers


def cluster_order(matrix: Floats) -> npt.NDArray[np.intp]:
    """Order rows and columns so that those with high values stand together, by average linkage.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric; NaN where nothing is known counts as the mean of the rest.

    Returns
    -------
    ndarray of shape (n,)
        A permutation. Equal clusters are joined in the order of their first rows.
    """
    n = len(matrix)
    close = np.where(np.isnan(matrix), np.nanmean(matrix), matrix)
    np.fill_diagonal(close, -np.inf)
    members = [[row] for row in range(n)]
    alive = np.ones(n, np.bool_)
    for _ in range(n - 1):
        first, second = sorted(np.unravel_index(int(np.argmax(close)), close.shape))
        a, b = len(members[first]), len(members[second])
        mean = (a * close[first] + b * close[second]) / (a + b)
        members[first] += members[second]
        alive[second] = False
        mean[~alive] = mean[first] = -np.inf
        close[first] = close[:, first] = mean
        close[second] = close[:, second] = -np.inf
    return np.array(members[int(np.flatnonzero(alive)[0])], np.intp)


def _budgets(sizes: npt.NDArray[np.int64]) -> list[int]:
    most = max(1, int(np.quantile(sizes[sizes > 0], 0.9)))
    return sorted({round(number) for number in np.linspace(1, most, min(most, 8))})


def _ranks(tasks: npt.NDArray[Any], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """The place of each annotation among those of its task, in a random order."""
    order = np.lexsort((generator.random(len(tasks)), tasks))
    ordered = tasks[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    ranks = np.empty(len(tasks), np.int64)
    ranks[order] = np.arange(len(tasks)) - np.repeat(first, np.diff([*first, len(tasks)]))
    return ranks


def _subset(votes: Annotations, kept: npt.NDArray[np.bool_]) -> Annotations:
    """A log with some of its annotations, all tasks, workers and classes as they were."""
    tasks, workers, labels = votes.codes()
    weights = None if votes.weights is None else votes.weights[kept]
    sizes = (votes.n_tasks, votes.n_workers, votes.n_labels)
    core = made_table(tasks[kept], workers[kept], labels[kept], weights, *sizes)
    return Annotations(
        core, votes._tasks, votes._workers, votes._classes, votes._unlabelled, votes._labels, ordered=votes.ordered
    )


def _right(model: Any, votes: Annotations, index: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
    """Accuracy of a copy of a model, fitted to part of a log."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are few labels is the point
        fitted = type(model)(**model.get_params()).fit(votes)
    return float(accuracy(fitted.labels_[index], truth))
