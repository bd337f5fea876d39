"""What the moments of a log determine, and so which methods can be trusted with it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.errors import IdentifiabilityWarning
from manyhands.moments.spectrum import Spectrum, spectrum
from manyhands.moments.statistics import Array, Moments, compute

#: Workers whose pairs are looked at, the best supported first.
_LOOKED_AT = 16
#: Passes of EM by which purity is passed: enough for a summary.
_EM_PASSES = 50
#: An answer given for one class this exclusively makes its giver a specialist of that class.
_SPECIALIST = 0.95
#: Answers given fewer times than this are not looked at: too few to be called exclusive.
_LEAST_ANSWERS = 10


@dataclass(frozen=True)
class Diagnosis:
    """Result of :func:`diagnose`; ``print`` shows it as a report.

    Attributes
    ----------
    n_workers, n_classes : int
        The size of the crowd; of the classes, those that a worker named.
    components : tuple of int
        Workers in each group that shares tasks, largest first; groups of one are workers who share none.
    n_pairs : int
        Pairs of workers that share enough tasks.
    overlap : tuple of float
        Least, median and most tasks that a pair shares.
    partners : tuple of float
        Least, median and most partners of a worker.
    n_triples : int
        Triples of workers that share tasks, as far as they were counted.
    singular_values : ndarray of shape (n_classes,)
        Of the most informative scaled pair frequencies, those of one worker or of groups of workers, largest first.
    noise : float
        The largest singular value that sampling alone would give there.
    rank : int
        Singular values above the noise: how many classes are distinguished.
    group_rank : int
        The same of groups of workers alone.
    purity : ndarray of shape (n_classes,)
        For each class, the most exclusive answer of any worker: the share of that class where the answer is given,
        less one standard error. Under the confusion matrices that Dawid–Skene finds from a start by `MultiSPA`.
    methods : dict
        For each method by name, whether it applies, and why (not).
    """

    n_workers: int
    n_classes: int
    components: tuple[int, ...]
    n_pairs: int
    overlap: tuple[float, float, float]
    partners: tuple[float, float, float]
    n_triples: int
    singular_values: Array
    noise: float
    rank: int
    group_rank: int
    purity: Array
    methods: dict[str, tuple[bool, str]] = field(default_factory=dict)

    @property
    def specialists(self) -> npt.NDArray[np.bool_]:
        """Whether each class has a specialist: an answer that is given for it at least 95 times in a hundred."""
        return self.purity >= _SPECIALIST

    def __str__(self) -> str:
        groups = ", ".join(f"{size:,}" for size in self.components[:5]) + (", …" if len(self.components) > 5 else "")
        values = ", ".join(f"{value:.3g}" for value in self.singular_values[:10])
        lines = [
            f"{self.n_workers:,} workers in {len(self.components):,} groups that share tasks ({groups})",
            f"{self.n_pairs:,} pairs, sharing {_three(self.overlap)} tasks; {_three(self.partners)} partners a worker",
            f"{self.n_triples:,} triples",
            f"{self.rank} of {self.n_classes} classes distinct (singular values {values}; noise {self.noise:.2g})",
            f"{int(self.specialists.sum())} of {self.n_classes} classes have a specialist "
            f"(purest answers {', '.join(f'{purity:.2f}' for purity in self.purity[:10])})",
        ]
        width = max(map(len, self.methods), default=0)
        lines += [
            f"{'+' if applies else '-'} {name:{width}}  {reason}" for name, (applies, reason) in self.methods.items()
        ]
        return "\n".join(lines)


def diagnose(votes: Any, *, min_overlap: float = 1.0, max_partners: int = 64, max_triples: int = 20_000) -> Diagnosis:
    """Report what the moments of a log determine: shared tasks, distinguishable classes, applicable methods.

    Parameters
    ----------
    votes
        An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
    min_overlap, max_partners, max_triples
        As in :func:`compute`.

    Notes
    -----
    The *rank* is that of one worker's pair frequencies, put side by side, or of those of three groups of workers whose
    answers are pooled, whichever is more informative: pairs determine at most as many classes as there are
    singular values above noise. Rows and columns are scaled so that rare classes count, and the noise is the largest
    that tables drawn around the same frequencies show. Groups carry far where pairs share few tasks each, but only
    what is common to their workers.

    Time and memory as :func:`compute` of order 3 without blocks, and a fit of `DawidSkene` from `MultiSPA`.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 10, 3, labels_per_task=6, seed=1)
    >>> found = mh.moments.diagnose(crowd.log)
    >>> found.components, found.rank
    ((10,), 3)
    >>> found.methods["SpectralMetaLearner"]
    (False, 'for two classes; here are 3')
    """
    votes = as_annotations(votes)
    check_number("max_triples", max_triples, least=1, whole=True)
    moments = compute(votes, min_overlap=min_overlap, max_partners=max_partners)
    triples, _, _ = votes.table.moments_triples(
        moments.pairs, min_overlap=max(min_overlap, 1.0), max_triples=max_triples, joint=False
    )
    sizes = np.bincount(moments.components)
    degrees = np.bincount(moments.pairs.ravel(), minlength=votes.n_workers)
    n_classes = int((moments.first.sum(axis=0) > 0).sum())
    alone, groups = _spectra(votes, moments)
    best_pairs = max(alone, groups, key=_tells)
    diagnosis = Diagnosis(
        n_workers=votes.n_workers,
        n_classes=n_classes,
        components=tuple(sorted(sizes.tolist(), reverse=True)),
        n_pairs=len(moments.pairs),
        overlap=_range(moments.pair_overlap),
        partners=_range(degrees),
        n_triples=len(triples),
        singular_values=best_pairs.values[:n_classes],
        noise=best_pairs.noise,
        rank=min(best_pairs.rank, n_classes),
        group_rank=min(groups.rank, n_classes),
        purity=_purity(votes, moments)[moments.first.sum(axis=0) > 0],
    )
    diagnosis.methods.update(
        _applicable(diagnosis, votes, bool(_core.rank_one_graph(votes.n_workers, moments.pairs)[1].any()))
    )
    return diagnosis


def _three(numbers: tuple[float, float, float]) -> str:
    low, middle, high = (f"{number:,.4g}" for number in numbers)
    return f"{low} to {high} (median {middle})"


def _range(values: npt.NDArray[Any]) -> tuple[float, float, float]:
    if not len(values):
        return (0.0, 0.0, 0.0)
    return float(values.min()), float(np.median(values)), float(values.max())


def _spectra(votes: Annotations, moments: Moments) -> tuple[Spectrum, Spectrum]:
    """Spectra of the most informative worker and its partners, and of a group of workers and two other groups."""
    from manyhands.moments._factors import Blocks

    alone = groups = Spectrum(np.zeros(moments.n_classes), 0.0)
    if not len(moments.pairs):
        return alone, groups
    blocks = Blocks(moments)
    busiest = np.argsort(-blocks.support, kind="stable")[:_LOOKED_AT].tolist()
    alone = max((spectrum(joint) for worker in busiest if len(joint := blocks.of(worker))), key=_tells)
    of_groups = votes.table.moments_groups(_deal(blocks.support))
    if of_groups["n_tasks"]:
        ahead, _, back = of_groups["n_tasks"] * of_groups["second"]
        groups = spectrum(np.stack([ahead, back.T]))
    return alone, groups


def _tells(found: Spectrum) -> tuple[int, float]:
    return found.rank, found.margin


def _deal(support: Array) -> npt.NDArray[np.uint8]:
    """Three groups of about equal support: the busiest workers are dealt out to and fro."""
    turns = np.tile(np.array([0, 1, 2, 2, 1, 0], np.uint8), len(support) // 6 + 1)[: len(support)]
    groups = np.empty(len(support), np.uint8)
    groups[np.argsort(-support, kind="stable")] = turns
    return groups


def _purity(votes: Annotations, moments: Moments) -> Array:
    """The most exclusive answer for each class, one standard error off."""
    from manyhands.categorical.dawid_skene import DawidSkene

    k = moments.n_classes
    if not len(moments.pairs) or k < 2:
        return np.full(k, 1.0 if k == 1 else 0.0)
    with warnings.catch_warnings():
        # What the start doubts is for the caller to see where the method is used.
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        model = DawidSkene(init="multispa", max_iter=_EM_PASSES, tol=0.0).fit(votes)
    joint = model.prior_[:, None] * model.confusion_
    total = joint.sum(axis=1, keepdims=True)
    share = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    answers = moments.first[:, None, :]
    share = share - np.sqrt(share * (1 - share) / np.maximum(answers, 1))
    return np.asarray(np.where(answers >= _LEAST_ANSWERS, share, 0.0).max(axis=(0, 2)))


def _applicable(found: Diagnosis, votes: Annotations, odd_cycle: bool) -> dict[str, tuple[bool, str]]:
    """For each method, whether the log supports it, and the reason."""
    from manyhands.moments.spectral import LARGEST

    k, short = found.n_classes, found.rank < found.n_classes
    several = sum(size > 1 for size in found.components) > 1
    apart = "; groups are solved one by one" if several else ""
    finding = f"pairs distinguish {found.rank} of {k} classes"
    if not found.n_pairs:
        reason = "no two workers share enough tasks"
        pairs, triples, one_coin = (False, reason), (False, reason), (False, reason)
    else:
        pairs = (not short, finding + apart)
        few = "no three workers share tasks"
        triples = (found.n_triples > 0 and not short, finding + apart if found.n_triples else few)
        circle = "agreement fixes every skill" if odd_cycle else "workers form two sides: skills known up to a factor"
        one_coin = (odd_cycle, circle + apart)
    all_there = bool(found.specialists.all())
    specialists = "every class has a specialist" if all_there else "not every class has a specialist: biased"
    dense = votes.n_workers * k
    fits = dense <= LARGEST
    return {
        "MultiSPA": (pairs[0] and all_there, f"{pairs[1]}; {specialists}" if found.n_pairs else pairs[1]),
        "CoupledNMF": pairs,
        "SymmetricNMF": pairs if fits else (False, f"workers × classes is {dense:,}, beyond {LARGEST:,}"),
        "CoupledCPD": triples,
        "SpectralDS": (found.group_rank == k, f"groups of workers distinguish {found.group_rank} of {k} classes"),
        "SpectralMetaLearner": (
            (k == 2 and found.n_triples > 0, "two classes and triples" if found.n_triples else "no triples")
            if k == 2
            else (False, f"for two classes; here are {k}")
        ),
        "OneCoinSpectral": one_coin,
        "OneCoinGradient": one_coin,
        "MMSR": one_coin,
        "KOS": (k > 1, "two classes" if k == 2 else "one class against the rest" if k > 2 else "one class only"),
    }
