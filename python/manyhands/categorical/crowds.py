"""Makers of simulated crowds: each returns the confusion matrices of its workers.

A crowd is an array of shape (n_workers, n_classes, n_classes): ``confusion[m, k, l]`` is the probability that
worker ``m`` answers ``l`` where the truth is ``k``. Crowds are joined by :func:`numpy.concatenate` and given to
:func:`manyhands.simulate` as ``confusion=``, or asked for there by name (see :data:`CROWDS`). Every maker
takes time and memory in proportion to the array it returns, and gives the same array for the same seed.

With a single class there is nothing to confuse: every maker then returns ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from manyhands.categorical._makers import (
    Floats,
    Seed,
    as_prior,
    bounds,
    check_probability,
    check_sizes,
    dirichlet,
    draw_skills,
    partners,
    towards,
)
from manyhands.categorical._matrices import with_diagonal

__all__ = [
    "CROWDS",
    "adversary",
    "class_conditional",
    "colluders",
    "confusers",
    "flippers",
    "hammer_spammers",
    "kappa",
    "naive",
    "neighbours",
    "one_coin",
    "spammers",
]


def one_coin(
    n_workers: int,
    n_classes: int,
    *,
    accuracy: float | tuple[float, float] = (0.55, 0.95),
    shape: tuple[float, float] = (1.0, 1.0),
    seed: Seed = 0,
) -> Floats:
    """Workers with one skill each: right at one rate whatever the class, wrong labels all alike.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    accuracy
        The rate of everyone, or the lowest and the highest.
    shape
        The two parameters of the beta distribution that places each worker between the lowest and the highest
        rate; (1, 1) is uniform, (1, 3) has few good workers.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> one_coin(1, 3, accuracy=0.8)[0].round(2)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    check_sizes(n_workers, n_classes)
    low, high = bounds("accuracy", accuracy)
    if not (len(shape) == 2 and all(np.isfinite(s) and s > 0 for s in shape)):
        raise ValueError(f"shape is {shape}; give two numbers above zero")
    rates = low + (high - low) * np.random.default_rng(seed).beta(*shape, size=n_workers)
    return with_diagonal(rates, n_classes)


def class_conditional(
    n_workers: int,
    n_classes: int,
    *,
    skill: float = 0.7,
    concentration: float = 10.0,
    seed: Seed = 0,
) -> Floats:
    """Workers with habits of their own in every class: each row is a Dirichlet draw.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill : float, default 0.7
        The mean of the diagonal; the rest is spread evenly on average.
    concentration : float, default 10.0
        How alike the workers are: at 2 they differ wildly, at 1000 hardly.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> class_conditional(500, 4, skill=0.6).diagonal(axis1=1, axis2=2).mean().round(1)
    np.float64(0.6)
    """
    check_sizes(n_workers, n_classes)
    check_probability("skill", skill)
    if not (np.isfinite(concentration) and concentration > 0):
        raise ValueError(f"concentration is {concentration}; give a finite number above zero")
    mean = with_diagonal(np.full(1, skill), n_classes)[0]
    means = np.broadcast_to(mean, (n_workers, n_classes, n_classes))
    return dirichlet(np.random.default_rng(seed), concentration * means)


def flippers(n_workers: int, n_classes: int, *, skill: float = 0.7, spread: float = 0.01, seed: Seed = 0) -> Floats:
    """Pairwise flippers: right, or else the one wrong class that the worker confuses with the true one.

    The wrong class is drawn once for each worker and class, uniformly (Tanno et al. 2019, section 3.1,
    appendix B).

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill, spread : float, default 0.7, 0.01
        The mean and the standard deviation of the normal distribution of the workers' skills, the probability
        of being right; what falls outside [0, 1] is moved to the border.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> (flippers(2, 5, skill=0.3) > 0).sum(axis=-1)  # the true class and one other
    array([[2, 2, 2, 2, 2],
           [2, 2, 2, 2, 2]])
    """
    check_sizes(n_workers, n_classes)
    rng = np.random.default_rng(seed)
    skills = draw_skills(rng, n_workers, skill, spread)
    steps = rng.integers(1, max(n_classes, 2), size=(n_workers, n_classes))
    targets = (np.arange(n_classes) + steps) % n_classes
    return towards(targets, 1 - skills)


def hammer_spammers(
    n_workers: int,
    n_classes: int,
    *,
    skill: float = 0.7,
    spread: float = 0.01,
    per: Literal["label", "class", "worker"] = "label",
    seed: Seed = 0,
) -> Floats:
    """Hammer-spammers: a label is the truth with the probability of a coin, otherwise uniformly random.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill, spread : float, default 0.7, 0.01
        The mean and the standard deviation of the normal distribution of the workers' coins, the probability
        of the truth; what falls outside [0, 1] is moved to the border.
    per : {"label", "class", "worker"}, default "label"
        How often the coin is tossed. ``"label"``: for every label, so that all workers are alike up to the
        spread (Tanno et al. 2019, appendix B). ``"class"``: once for each worker and class; ``"worker"``:
        once for each worker, who is then always right or always guessing (Khetan et al. 2018).
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> hammer_spammers(1, 2, skill=0.6, spread=0)[0].round(2)
    array([[0.8, 0.2],
           [0.2, 0.8]])
    """
    check_sizes(n_workers, n_classes)
    if per not in ("label", "class", "worker"):
        raise ValueError(f"per is {per!r}; give 'label', 'class' or 'worker'")
    rng = np.random.default_rng(seed)
    coins = np.repeat(draw_skills(rng, n_workers, skill, spread)[:, None], n_classes, axis=1)
    if per != "label":
        tosses = rng.random((n_workers, n_classes if per == "class" else 1))
        coins = (tosses < coins).astype(np.float64)
    return coins[:, :, None] * np.eye(n_classes) + (1 - coins)[:, :, None] / n_classes


def confusers(
    n_workers: int,
    n_classes: int,
    *,
    skill: float = 0.7,
    spread: float = 0.01,
    similar: Sequence[tuple[int, int]] | None = None,
    seed: Seed = 0,
) -> Floats:
    """Workers who mix up pairs of similar classes (cats and dogs) and are right elsewhere.

    Tanno et al. 2019, section 3.1, the second annotator of figure 2.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill, spread : float, default 0.7, 0.01
        The mean and the standard deviation of the normal distribution of the workers' skills, the probability
        of being right in a class that has a partner; what falls outside [0, 1] is moved to the border.
    similar : sequence or None, default None
        The pairs of similar classes, no class in two of them; by default 0 and 1, 2 and 3, and so on.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> confusers(1, 3, skill=0.75, spread=0)[0]
    array([[0.75, 0.25, 0.  ],
           [0.25, 0.75, 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    check_sizes(n_workers, n_classes)
    partner = partners(n_classes, similar)
    skills = draw_skills(np.random.default_rng(seed), n_workers, skill, spread)
    return towards(np.broadcast_to(partner, (n_workers, n_classes)), 1 - skills)


def neighbours(n_workers: int, n_classes: int, *, skill: float = 0.7, spread: float = 0.01, seed: Seed = 0) -> Floats:
    """Workers who confuse adjacent classes, as with grades.

    Half of the mistakes go to either side; at both ends all of them go to the only neighbor (Tanno et al.
    2019, section 3.1, the third annotator of figure 2).

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill, spread : float, default 0.7, 0.01
        The mean and the standard deviation of the normal distribution of the workers' skills, the probability
        of being right; what falls outside [0, 1] is moved to the border.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> neighbours(1, 3, skill=0.5, spread=0)[0]
    array([[0.5 , 0.5 , 0.  ],
           [0.25, 0.5 , 0.25],
           [0.  , 0.5 , 0.5 ]])
    """
    check_sizes(n_workers, n_classes)
    skills = draw_skills(np.random.default_rng(seed), n_workers, skill, spread)
    classes = np.arange(n_classes)
    above = np.where(classes + 1 < n_classes, classes + 1, classes - 1).clip(min=0)
    below = np.where(classes > 0, classes - 1, classes + 1).clip(max=n_classes - 1)
    sides = [towards(np.broadcast_to(side, (n_workers, n_classes)), 1 - skills) for side in (above, below)]
    return (sides[0] + sides[1]) / 2


def adversary(n_workers: int, n_classes: int, *, skill: float = 0.9, spread: float = 0.01, seed: Seed = 0) -> Floats:
    """Adversaries: workers who know the classes but permute their names.

    Each worker permutes the names at random, leaving none in place, and uses the permuted name with the
    probability ``skill``, any of the other names alike otherwise (Tanno et al. 2019, section 3.1, the fourth
    annotator of figure 2).

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    skill, spread : float, default 0.9, 0.01
        The mean and the standard deviation of the normal distribution of the workers' skills, the probability
        of the permuted name; what falls outside [0, 1] is moved to the border.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> adversary(1, 2, skill=0.9, spread=0)[0].round(2)
    array([[0.1, 0.9],
           [0.9, 0.1]])
    """
    check_sizes(n_workers, n_classes)
    rng = np.random.default_rng(seed)
    skills = draw_skills(rng, n_workers, skill, spread)
    # Classes in a random circle, each taking the name of the next: a permutation that leaves no class in
    # place.
    circle = rng.permuted(np.tile(np.arange(n_classes), (n_workers, 1)), axis=1)
    names = np.empty_like(circle)
    np.put_along_axis(names, circle, np.roll(circle, -1, axis=1), axis=1)
    return np.take_along_axis(with_diagonal(skills, n_classes), names[:, :, None], axis=1)


def spammers(n_workers: int, n_classes: int, *, concentration: float = 1.0, seed: Seed = 0) -> Floats:
    """Spammers: labels drawn from a taste of their own, whatever the truth; they carry no information.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    concentration : float, default 1.0
        The parameter of the symmetric Dirichlet distribution of tastes: far below 1 each worker has one
        favorite label, far above 1 all labels are alike.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> tastes = spammers(2, 3)
    >>> bool((tastes == tastes[:, :1]).all())  # the same row for every true class
    True
    """
    check_sizes(n_workers, n_classes)
    if not (np.isfinite(concentration) and concentration > 0):
        raise ValueError(f"concentration is {concentration}; give a finite number above zero")
    tastes = dirichlet(np.random.default_rng(seed), np.full((n_workers, 1, n_classes), concentration))
    return np.repeat(tastes, n_classes, axis=1)


def naive(n_workers: int, n_classes: int, *, answer: int = 0, seed: Seed = 0) -> Floats:
    """Workers who give one label to everything, at no effort (Cao et al. 2019, case "naive majority").

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    answer : int, default 0
        The code of the label.
    seed : int, SeedSequence or Generator, default 0
        Unused: nothing is random here.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> naive(1, 2)[0]
    array([[1., 0.],
           [1., 0.]])
    """
    check_sizes(n_workers, n_classes)
    if not 0 <= answer < n_classes:
        raise ValueError(f"answer is {answer}; give a class from 0 to {n_classes - 1}")
    confusion = np.zeros((n_workers, n_classes, n_classes))
    confusion[:, :, answer] = 1
    return confusion


def colluders(n_workers: int, n_classes: int, *, wrong: float = 0.9, seed: Seed = 0) -> Floats:
    """Adversaries who agree on their answers: wrong on most tasks, right on some to pass for honest.

    The matrices say how often they are wrong, with all wrong labels alike; that they are wrong *together* is
    up to :func:`manyhands.simulate`, which makes one group of them.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    wrong : float, default 0.9
        The probability of a wrong answer.
    seed : int, SeedSequence or Generator, default 0
        Unused: nothing is random here.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> colluders(1, 3, wrong=0.8)[0].round(2)
    array([[0.2, 0.4, 0.4],
           [0.4, 0.2, 0.4],
           [0.4, 0.4, 0.2]])
    """
    check_sizes(n_workers, n_classes)
    check_probability("wrong", wrong)
    return with_diagonal(np.full(n_workers, 1 - wrong), n_classes)


def kappa(
    n_workers: int,
    n_classes: int,
    *,
    kappa: float | tuple[float, float] = (0.3, 0.8),
    prior: npt.ArrayLike | None = None,
    seed: Seed = 0,
) -> Floats:
    """Workers made to a given agreement with the truth: Cohen's kappa, whichever its weights.

    A worker gives the true class with probability kappa and otherwise draws from the prior, which keeps the
    worker's labels as frequent as the classes and makes chance agreement what kappa takes it for.

    Parameters
    ----------
    n_workers, n_classes : int
        The size of the crowd.
    kappa
        The agreement of everyone, or the lowest and the highest of a uniform draw.
    prior : array-like of shape (n_classes,), optional
        The frequencies of the classes; uniform by default. :func:`manyhands.simulate` fills in its own.
    seed : int, SeedSequence or Generator, default 0
        Seed of the random draws.

    Returns
    -------
    ndarray of shape (n_workers, n_classes, n_classes)

    Examples
    --------
    >>> kappa(1, 2, kappa=0.5, prior=[0.8, 0.2])[0].round(2)
    array([[0.9, 0.1],
           [0.4, 0.6]])
    """
    check_sizes(n_workers, n_classes)
    low, high = bounds("kappa", kappa)
    chance = np.full(n_classes, 1 / n_classes) if prior is None else as_prior(prior, n_classes)
    targets = np.random.default_rng(seed).uniform(low, high, size=n_workers)[:, None, None]
    return targets * np.eye(n_classes) + (1 - targets) * chance


#: The crowds that :func:`manyhands.simulate` knows by name.
CROWDS: dict[str, Callable[..., Floats]] = {
    "one-coin": one_coin,
    "class-conditional": class_conditional,
    "flippers": flippers,
    "hammer-spammer": hammer_spammers,
    "confusers": confusers,
    "neighbours": neighbours,
    "adversary": adversary,
    "spammers": spammers,
    "naive": naive,
    "colluders": colluders,
    "kappa": kappa,
}
