"""Crowds that label samples with features: for tests and experiments of learners, whose truth is known.

Draw samples with :func:`gaussians` or take one's own, then let a crowd label them: :func:`experts` (seniors and the
juniors who copy them or answer without looking), :func:`machines` (classifiers of graded skill, whose mistakes follow
from the features), :func:`outliers` (a crowd that some samples confuse in ways of their own), or any crowd of
:mod:`manyhands.categorical.crowds` through ``mh.simulate(truth=...)``, such as ``crowd="kappa"``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, check_number
from manyhands.categorical._makers import Floats
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical.crowds import naive, one_coin
from manyhands.categorical.simulate import CategoricalSimulation, Ints, simulate
from manyhands.categorical.table import Annotations

__all__ = ["experts", "gaussians", "machines", "outliers"]

#: Sensitivities (class 0, class 1) of the five seniors of high expertise, two classes, by the paper's data set.
_BINARY = {
    "dogs-vs-cats": ((0.6, 0.8), (0.6, 0.6), (0.9, 0.6), (0.7, 0.7), (0.6, 0.7)),
    "luna16": ((0.6, 0.9), (0.7, 0.7), (0.9, 0.6), (0.6, 0.7), (0.7, 0.6)),
}
#: How often the ten of low expertise are right, two classes.
_BINARY_LOW = {"dogs-vs-cats": 0.55, "luna16": 0.6}
#: Which senior each junior copies: two the first and three the third; of low expertise, one each.
_COPIED = {"high": (0, 0, 2, 2, 2), "low": (0, 2)}
#: Juniors who answer without looking.
_NAIVE = {"high": 5, "low": 15}


def gaussians(
    n_samples: int, n_classes: int, *, n_features: int = 10, separation: float = 3.0, seed: int = 0
) -> tuple[Floats, Ints]:
    """Samples of Gaussian classes: features of unit variance around centers that are `separation` from the origin.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    truth : ndarray of shape (n_samples,)

    Examples
    --------
    >>> X, truth = gaussians(100, 3)
    >>> X.shape, truth.shape
    ((100, 10), (100,))
    """
    for name, value in (("n_samples", n_samples), ("n_classes", n_classes), ("n_features", n_features)):
        check_number(name, value, least=1, whole=True)
    check_number("separation", separation, least=0)
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, n_features))
    centres *= separation / np.linalg.norm(centres, axis=1, keepdims=True)
    truth = rng.integers(n_classes, size=n_samples)
    return centres[truth] + rng.normal(size=(n_samples, n_features)), truth


def experts(
    truth: npt.ArrayLike,
    n_classes: int,
    *,
    expertise: Literal["high", "low"] = "high",
    mistakes: Literal["independent", "naive", "correlated"] = "independent",
    source: Literal["dogs-vs-cats", "luna16"] | None = None,
    seed: int = 0,
) -> CategoricalSimulation:
    """Seniors who err independently of one another, with or without juniors (Cao et al. 2019, App. B.1).

    Parameters
    ----------
    truth : array-like
        The class number of each sample. All workers label every sample.
    n_classes : int
        How many classes there are.
    expertise : {"high", "low"}, default "high"
        ``"high"``: five seniors who are sure of most classes but mix up neighboring ones (0 and 1, 2 and 3, …) in ways
        of their own. ``"low"``: ten seniors who are right a tenth more often than by chance.
    mistakes : {"independent", "naive", "correlated"}, default "independent"
        ``"independent"``: seniors only; ``"naive"``: with juniors who always say class 0, five or fifteen;
        ``"correlated"``: with juniors who copy a senior, five or two.
    source : {"dogs-vs-cats", "luna16"} or None, default None
        Of two classes, the data set whose seniors the paper describes: ``"dogs-vs-cats"``, class 0 being dogs, where
        those of low expertise are right 55 times in a hundred, or ``"luna16"``, class 0 being benign, where they are 60
        times. None for the first with high expertise and the second with low.
    seed : int, default 0
        Seed of the random draws.

    Examples
    --------
    >>> experts([0, 1, 2, 3] * 25, 4, mistakes="correlated").log.n_workers
    10
    """
    check_choice("expertise", expertise, ("high", "low"))
    check_choice("mistakes", mistakes, ("independent", "naive", "correlated"))
    check_number("n_classes", n_classes, least=2, whole=True)
    if source is not None:
        check_choice("source", source, tuple(_BINARY))
        if n_classes != 2:
            raise ValueError(f"source={source!r} has two classes, not {n_classes}; leave it out")
    low = 1 / n_classes + 0.1 if source is None else _BINARY_LOW[source]
    seniors = _high(n_classes, source) if expertise == "high" else one_coin(10, n_classes, accuracy=low)
    confusion, groups = seniors, np.full(len(seniors), -1)
    if mistakes == "naive":
        confusion = np.concatenate([seniors, naive(_NAIVE[expertise], n_classes)])
        groups = np.full(len(confusion), -1)
    elif mistakes == "correlated":
        copied = np.array(_COPIED[expertise])
        confusion = np.concatenate([seniors, seniors[copied]])
        groups[copied] = copied
        groups = np.concatenate([groups, copied])
    everybody = len(confusion)
    return simulate(
        truth=truth, n_classes=n_classes, confusion=confusion, groups=groups, labels_per_task=everybody, seed=seed
    )


def _high(n_classes: int, source: str | None) -> Floats:
    """Five seniors who mix up neighboring classes."""
    if n_classes == 2:
        return np.stack([np.array([[a, 1 - a], [1 - b, b]]) for a, b in _BINARY[source or "dogs-vs-cats"]])
    confusion = np.repeat(np.eye(n_classes)[None], 5, axis=0)
    n_pairs = n_classes // 2
    for pair in range(n_pairs):
        both = slice(2 * pair, 2 * pair + 2)
        merged, even, right = np.array([[1, 0], [1, 0]]), np.full((2, 2), 0.5), np.eye(2)
        early = pair < n_pairs // 2
        answers = (
            merged,
            even,
            right if early else even,
            merged if early else right,
            with_diagonal(np.array([0.6]), 2)[0],
        )
        for expert, block in enumerate(answers):
            confusion[expert, both, both] = block
    return confusion


def machines(
    X: npt.ArrayLike,
    truth: npt.ArrayLike,
    n_workers: int,
    *,
    accuracy: tuple[float, float] = (0.3, 0.9),
    density: float = 1.0,
    seed: int = 0,
) -> CategoricalSimulation:
    """Linear classifiers of graded skill: each learns from few samples, and its mistakes follow from the features.

    A classifier is a ridge regression on part of the samples, plus noise in its scores that brings its accuracy on the
    samples to one between the ends of `accuracy`, or as near as it comes. The confusion matrices reported are those
    counted over all samples.

    Examples
    --------
    >>> X, truth = gaussians(500, 3)
    >>> machines(X, truth, 4, density=0.5).log.n_workers
    4
    """
    features, codes = _samples(X, truth)
    check_number("n_workers", n_workers, least=1, whole=True)
    if not 0 < density <= 1:
        raise ValueError(f"density is {density}; give a probability above 0 and at most 1")
    low, high = accuracy
    if not 0 <= low <= high <= 1:
        raise ValueError(f"accuracy is {accuracy}; give the lowest and the highest, from 0 to 1")
    rng = np.random.default_rng(seed)
    n, k = len(codes), int(codes.max()) + 1
    answers = np.empty((n_workers, n), np.int64)
    for worker, mean_accuracy in enumerate(rng.uniform(low, high, n_workers)):
        scores = _ridge_scores(features, codes, k, rng)
        noise = rng.gumbel(size=scores.shape)
        answers[worker] = (scores + _noise_for(scores, noise, codes, mean_accuracy) * noise).argmax(axis=1)
    counts = np.zeros((n_workers, k, k))
    np.add.at(counts, (np.arange(n_workers)[:, None], codes, answers), 1)
    confusion = (counts + 1e-9) / (counts + 1e-9).sum(axis=2, keepdims=True)
    is_answered = rng.random((n_workers, n)) < density
    workers, tasks = np.nonzero(is_answered)
    votes = Annotations.from_codes(tasks, workers, answers[workers, tasks], n_tasks=n, n_workers=n_workers, n_classes=k)
    prior = np.bincount(codes, minlength=k) / n
    names, groups = np.full(n_workers, "machine"), np.full(n_workers, -1)
    return CategoricalSimulation(
        log=votes,
        truth=votes.classes[codes],
        confusion=confusion,
        prior=prior,
        crowd=names,
        groups=groups,
        seed=seed,
    )


def _ridge_scores(features: Floats, codes: Ints, k: int, rng: np.random.Generator) -> Floats:
    """Scores of a ridge regression of the classes, learned from a tenth of the samples; of unit spread."""
    part = rng.permutation(len(codes))[: max(k, len(codes) // 10)]
    design = np.c_[features, np.ones(len(features))]
    few = design[part]
    weights = np.linalg.solve(few.T @ few + np.eye(design.shape[1]), few.T @ np.eye(k)[codes[part]])
    scores = design @ weights
    return scores / max(scores.std(), 1e-12)  # type: ignore[no-any-return]


def _noise_for(scores: Floats, noise: Floats, codes: Ints, wanted: float) -> float:
    """How much noise brings the accuracy down to the one wanted, by bisection."""
    low, high = 0.0, 64.0
    for _ in range(30):
        middle = (low + high) / 2
        right = ((scores + middle * noise).argmax(axis=1) == codes).mean()
        low, high = (middle, high) if right > wanted else (low, middle)
    return high


def outliers(
    X: npt.ArrayLike,
    truth: npt.ArrayLike,
    confusion: npt.ArrayLike,
    *,
    share: float = 0.1,
    labels_per_task: int | None = None,
    seed: int = 0,
) -> tuple[CategoricalSimulation, npt.NDArray[np.bool_]]:
    """A crowd with confusion matrices, except on samples that confuse all workers in a way that features predict.

    Those are a `share` of the samples; what is answered there is a class that a random direction of feature space
    picks, with probability 0.9, the worker who answers.

    Returns
    -------
    simulation : CategoricalSimulation
        Its confusion matrices are those of the other samples.
    is_outlier : ndarray of shape (n_samples,)

    Examples
    --------
    >>> X, truth = gaussians(200, 3)
    >>> crowd, odd = outliers(X, truth, one_coin(5, 3), share=0.2)
    >>> int(odd.sum())
    40
    """
    features, codes = _samples(X, truth)
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; give one from 0 to 1")
    crowd = simulate(truth=codes, confusion=confusion, labels_per_task=labels_per_task, seed=seed)
    rng = np.random.default_rng([seed, 1])
    n, k = len(codes), crowd.log.n_classes
    odd = np.zeros(n, np.bool_)
    odd[rng.permutation(n)[: round(share * n)]] = True
    # Ranks along a direction, cut into as many parts as there are wrong classes: a class that features predict.
    along = (features @ rng.normal(size=features.shape[1])).argsort().argsort()
    wrong_labels = (codes + 1 + along * max(k - 1, 1) // n) % k
    tasks, workers, labels = (part.astype(np.int64) for part in crowd.log.codes())
    misled = odd[tasks] & (rng.random(len(tasks)) < 0.9)
    labels = np.where(misled, wrong_labels[tasks], labels)
    votes = Annotations.from_codes(tasks, workers, labels, n_tasks=n, n_workers=crowd.log.n_workers, n_classes=k)
    return replace(crowd, log=votes), odd


def _samples(X: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Floats, Ints]:
    features, codes = np.asarray(X, np.float64), np.asarray(truth)
    if features.ndim != 2:
        raise ValueError(f"X must be samples × features, not of shape {features.shape}")
    if codes.dtype.kind not in "iu" or codes.shape != (len(features),) or (len(codes) and codes.min() < 0):
        raise ValueError(f"truth must hold a class number from 0 for each of the {len(features)} rows of X")
    if not len(codes):
        raise ValueError("there are no samples")
    return features, codes.astype(np.int64)
