"""Probabilistic sequence aggregators: BSC, HMM-Crowd and token-level Dawid–Skene."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import (
    check_choice,
    check_flag,
    check_positive,
    check_stopping,
    warn_of_data,
    warn_unless_converged,
)
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.categorical import DawidSkene
from manyhands.categorical.table import Annotations
from manyhands.sequences.base import Segments, SequenceAggregator, SequenceFit, count_matches
from manyhands.sequences.design import Design, kinds_of_cells, steps_read
from manyhands.sequences.encode import places
from manyhands.sequences.table import Sequences
from manyhands.sequences.tags import NO_TAG, Tags, Tokens
from manyhands.sequences.votes import token_shares

#: Number of worker parameters above which an EM iteration takes a second or more.
_MANY_CELLS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class ChainFit(SequenceFit):
    """Tags, worker parameters per context, and transition counts."""

    concentration: Array = field(metadata=numbers("mckk"))
    logs: Array = field(metadata=numbers("mckk"))
    steps: Array = field(metadata=numbers("ak"))
    log_steps: Array = field(metadata=numbers("ak", infinite=True))


class _Crowd(SequenceAggregator):
    """Base class: a Markov chain of true tags and one set of tag probabilities per worker."""

    _fit_type: ClassVar[type[Fit]] = ChainFit

    def _contexts(self) -> bool:
        """Return whether a worker's tag depends on the worker's previous tag."""
        return False

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Validate the settings and return the options of the compiled fit."""

    def _initial_prior(self, prior: Array) -> Array:
        """Return the initial worker prior, given the default one."""
        return prior

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        options = self._options()
        contexts = self._contexts()
        m, k = votes.n_workers, len(votes._tags)
        cells = (k + 1 if contexts else 1) * k * k
        what = f"probabilities of {m:,} workers and {k} tags"
        check_memory(8 * 4 * m * cells, what, "pass worker='cm' (no contexts)" if contexts else "merge tags")
        if contexts and m * cells > _MANY_CELLS:
            warn_of_data(
                f"BSC estimates {m * cells:,} probabilities for {m:,} workers and {k} tags, which is slow; "
                "worker='cm' (no contexts) and HMMCrowd are much faster"
            )
        design = Design.of(votes, contexts=contexts)
        kinds, prior = kinds_of_cells(votes._tags, design.sizes[2], design.has_gaps)
        result = _core.sequence_fit(
            design,
            token_shares(votes),
            cells=kinds,
            prior=self._initial_prior(prior),
            first_rounds=0,
            steps=steps_read(votes),
            progress=progress,
            **options,
        )
        warn_unless_converged(result["converged"], self)
        evidence = _core.sequence_evidence(design, result["logs"])
        fit = decode_fit(
            votes,
            evidence,
            result["log_steps"],
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )
        learned: dict[str, Any] = {name: result[name] for name in ("concentration", "logs", "steps", "log_steps")}
        return ChainFit(**vars(fit), **learned)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def confusion_(self) -> Array:
        """Expected confusion matrices, shape (n_workers, n_tags true, n_tags given); rows sum to one.

        If a worker's tags depend on the worker's previous tag, contexts are pooled in proportion to their counts.
        """
        counts = self._fitted().fit_as(ChainFit).concentration.sum(axis=1).transpose(0, 2, 1)
        return np.asarray(counts / counts.sum(axis=2, keepdims=True))

    @property
    def transitions_(self) -> Array:
        """Expected transition probabilities between tags, shape (n_tags, n_tags); rows sum to one."""
        steps = self._fitted().fit_as(ChainFit).steps[:-1]
        return np.asarray(steps / steps.sum(axis=1, keepdims=True))

    @property
    def start_(self) -> Array:
        """Expected probability of each tag at the start of a sequence, shape (n_tags,)."""
        first = self._fitted().fit_as(ChainFit).steps[-1]
        return np.asarray(first / first.sum())

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Return the most likely tags of new or old sequences, using the fitted worker parameters.

        Parameters
        ----------
        votes : Sequences or anything that converts to it
            Answers to decode. Workers that were not in ``fit`` get the average worker's parameters. Span types that
            were not in ``fit`` raise.

        Returns
        -------
        numpy.ndarray of shape (votes.n_tokens,)
            Tags, sequence after sequence.
        """
        now = self._fitted()
        table = now.same_tags(votes)
        fit = now.fit_as(ChainFit)
        worker_codes = now.workers.match(table._workers)
        logs = np.ascontiguousarray(now.carried_over(fit.logs, worker_codes))
        evidence = _core.sequence_evidence(Design.of(table, contexts=fit.logs.shape[1] > 1), logs)
        codes = decode_fit(table, evidence, fit.log_steps).codes
        return now.tags.names.values[codes]


def decode_fit(
    votes: Sequences, evidence: Array, log_steps: Array, *, codes: Tokens | None = None, **course: Any
) -> SequenceFit:
    """Decode token evidence and log transition probabilities into a fit; with `codes`, for these tags."""
    result = _core.sequence_decode(votes._grid.starts.astype(np.uint32), evidence, log_steps, votes._tags.spans, codes)
    segments = Segments(
        result["starts"].astype(np.int64),
        result["ends"].astype(np.int64),
        result["types"].astype(np.int64),
        result["probability"],
        result["start_probability"],
        result["end_probability"],
    )
    codes = result["codes"]
    course.setdefault("history", np.zeros(0))
    return SequenceFit(
        posterior=result["posterior"], codes=codes, segments=segments, spans=count_matches(votes, codes), **course
    )


class BSC(_Crowd):
    """Bayesian sequence combination: a Markov chain of true tags and workers that depend on their previous tag.

    Forbidden transitions (``O`` to
    ``I-x``, ``B-x`` to ``I-y``) have probability zero. With ``worker="seq"``, a worker's tag depends on the true tag
    and on the worker's own previous tag, so that missing the start of a span counts as one error and not as one error
    per token of the span.

    Use it where spans are short and workers have habits of their own. Where spans are long and their ends differ
    between workers, iterations move away from the truth (one mark outweighs many silences), and
    :class:`SequenceConsensus`, the default, is better by far.

    Parameters
    ----------
    worker : {"seq", "cm"}, default "seq"
        ``"seq"`` conditions on the worker's previous tag; ``"cm"`` is a plain confusion matrix per worker.
    learn_prior : bool, default True
        Estimate the worker priors from the data (empirical Bayes). If False, each answer has a pseudo-count of 1 and
        the correct answer of 2.
    max_iter : int, default 200
        Maximum number of iterations.
    tol : float, default 1e-6
        Relative change of the objective at which the fit has converged.

    Notes
    -----
    Time O(r K + n K²) per iteration for r annotated tokens, n tokens and K tags, plus O(M C K²) digamma evaluations for
    M workers and C contexts (K + 1, or 1 for ``"cm"``). With fifty types the latter dominates, and ``worker="cm"`` is
    much faster. Memory: 8 M C K² bytes for each of up to 36 tables, plus 32 n K bytes.

    Inference is mean-field variational Bayes; `history_` is the evidence lower bound including the density of the
    learned priors, and never decreases. All probabilities have Dirichlet priors without tuning parameters. Worker cells
    that differ only in the span types share a prior parameter, so that rare types and workers with few annotations are
    shrunk toward typical behavior. Transition pseudo-counts are those of an average annotation, pooled over types.

    References
    ----------
    E. Simpson and I. Gurevych, "A Bayesian approach for sequence tagging with crowds", EMNLP (2019). T. P. Minka,
    "Estimating a Dirichlet distribution" (2000).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "I-PER", "O", "O"]}
    >>> model = mh.sequences.BSC().fit(mh.Sequences.from_frame(log))
    >>> model.tags_.tolist()
    ['B-PER', 'I-PER']
    """

    def __init__(
        self, *, worker: str = "seq", learn_prior: bool = True, max_iter: int = 200, tol: float = 1e-6
    ) -> None:
        self.worker = worker
        self.learn_prior = learn_prior
        self.max_iter = max_iter
        self.tol = tol

    def _contexts(self) -> bool:
        return self.worker == "seq"

    def _options(self) -> dict[str, Any]:
        check_choice("worker", self.worker, ("seq", "cm"))
        check_flag("learn_prior", self.learn_prior)
        check_stopping(self.max_iter, self.tol)
        how = {"learn": bool(self.learn_prior), "variational": True}
        return how | {"max_iter": self.max_iter, "tol": float(self.tol)}


class HMMCrowd(_Crowd):
    """Hidden Markov model of the true tags with one confusion matrix per worker, fitted by EM.

    Use it if :class:`BSC` is too slow. A worker's tag depends on the true tag of the token only.

    Parameters
    ----------
    smoothing : float, default 0.1
        Dirichlet pseudo-count per tag; the correct tag gets twice as much.
    max_iter : int, default 200
        Maximum number of EM iterations.
    tol : float, default 1e-6
        Relative change of the objective at which the fit has converged.

    Notes
    -----
    Time O(r K + n K²) per iteration for r annotated tokens, n tokens and K tags; memory as for :class:`BSC` with
    ``worker="cm"``. `history_` is the log-likelihood plus the log-density of the smoothing prior, and never decreases.

    References
    ----------
    A. T. Nguyen, B. Wallace, J. J. Li, A. Nenkova and M. Lease, "Aggregating and predicting sequence labels from crowd
    annotations", ACL (2017).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "I-PER", "O", "O"]}
    >>> mh.sequences.HMMCrowd().fit(mh.Sequences.from_frame(log)).tags_.tolist()
    ['B-PER', 'I-PER']
    """

    def __init__(self, *, smoothing: float = 0.1, max_iter: int = 200, tol: float = 1e-6) -> None:
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol

    def _options(self) -> dict[str, Any]:
        check_positive("smoothing", self.smoothing)
        check_stopping(self.max_iter, self.tol)
        return {"learn": False, "variational": False, "max_iter": self.max_iter, "tol": float(self.tol)}

    def _initial_prior(self, prior: Array) -> Array:
        return np.asarray(prior * float(self.smoothing))


class TokenDawidSkene(SequenceAggregator):
    """Dawid–Skene on single tokens, followed by decoding of the most likely legal tag sequence.

    A baseline without a model of transitions. Worker confusion matrices come from :class:`~manyhands.DawidSkene` with
    independent tokens; all legal transitions are equally likely.

    Parameters
    ----------
    max_iter : int, default 200
        Maximum number of EM iterations, as for :class:`~manyhands.DawidSkene`.
    tol : float, default 1e-6
        Convergence threshold, as for :class:`~manyhands.DawidSkene`.

    Notes
    -----
    Time O(r K) per iteration for r annotated tokens and K tags, plus O(n K²) once for n tokens.

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
    Statistics 28 (1979).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "I-PER", "O", "O"]}
    >>> mh.sequences.TokenDawidSkene().fit(mh.Sequences.from_frame(log)).tags_.tolist()
    ['B-PER', 'I-PER']
    """

    def __init__(self, *, max_iter: int = 200, tol: float = 1e-6) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        check_stopping(self.max_iter, self.tol)
        model = DawidSkene(max_iter=self.max_iter, tol=self.tol)
        fit = model._fit(as_tokens(votes), progress)
        evidence = np.log(np.maximum(fit.posterior.dense(), np.finfo(float).tiny))
        return decode_fit(
            votes,
            evidence,
            even_steps(votes._tags),
            history=fit.history,
            n_iter=fit.n_iter,
            converged=fit.converged,
        )


def as_tokens(votes: Sequences) -> Annotations:
    """Categorical table with one task per token."""
    sequences, workers, _, codes = votes.readings()
    lengths = votes._grid.lengths[sequences]
    has_tag = codes != NO_TAG
    token = places(votes._grid.starts[sequences], lengths)[has_tag]
    by = np.repeat(workers, lengths)[has_tag]
    n_tasks, n_workers = votes.n_tokens, votes.n_workers
    return Annotations.from_codes(
        token, by, codes[has_tag], n_tasks=n_tasks, n_workers=n_workers, n_classes=len(votes._tags)
    )


def even_steps(tags: Tags) -> Array:
    """Logarithms of transitions that are all equally likely, except forbidden ones, (n_tags + 1, n_tags)."""
    legal = tags.legal()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(legal / legal.sum(axis=1, keepdims=True)))
