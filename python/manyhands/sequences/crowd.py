"""Models of workers who read sequences: Bayesian combination, a hidden Markov model, and tokens taken one by one."""

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
from manyhands.sequences.base import Segments, SequenceAggregator, SequenceFit, compared
from manyhands.sequences.design import Design, kinds_of_cells, steps_read
from manyhands.sequences.encode import places
from manyhands.sequences.table import Sequences
from manyhands.sequences.tags import UNSAID, Tags
from manyhands.sequences.votes import token_shares

#: Probabilities of workers with contexts from which on a pass takes a second or more.
_MANY_CELLS = 1 << 25


@dataclass(frozen=True, kw_only=True)
class ChainFit(SequenceFit):
    """Tags, and what workers say in each context, and steps from tag to tag."""

    concentration: Array = field(metadata=numbers("mckk"))
    logs: Array = field(metadata=numbers("mckk"))
    steps: Array = field(metadata=numbers("ak"))
    log_steps: Array = field(metadata=numbers("ak", infinite=True))


class _Crowd(SequenceAggregator):
    """A chain of true tags, and workers with probabilities of their own."""

    _fit_type: ClassVar[type[Fit]] = ChainFit

    def _contexts(self) -> bool:
        """Whether a worker's tag depends on the worker's tag before."""
        return False

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """How the core fits; checks settings."""

    def _first(self, prior: Array) -> Array:
        """The prior to begin with, from the usual one."""
        return prior

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        options = self._options()
        contexts = self._contexts()
        m, k = votes.n_workers, len(votes._tags)
        cells = (k + 1 if contexts else 1) * k * k
        room = f"what {m:,} workers say of {k} tags"
        check_memory(8 * 4 * m * cells, room, "take worker='cm', which has no contexts" if contexts else "join tags")
        if contexts and m * cells > _MANY_CELLS:
            warn_of_data(
                f"BSC learns {m * cells:,} probabilities of {m:,} workers and {k} tags, which takes long; worker='cm', "
                "without contexts, or HMMCrowd is much quicker"
            )
        design = Design.of(votes, contexts=contexts)
        kinds, prior = kinds_of_cells(votes._tags, design.sizes[2], design.has_gaps)
        found = _core.sequence_fit(
            design,
            token_shares(votes),
            cells=kinds,
            prior=self._first(prior),
            steps=steps_read(votes),
            progress=progress,
            **options,
        )
        warn_unless_converged(found["converged"], self)
        evidence = _core.sequence_evidence(design, found["logs"])
        fit = decoded(
            votes,
            evidence,
            found["log_steps"],
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
        )
        learnt: dict[str, Any] = {name: found[name] for name in ("concentration", "logs", "steps", "log_steps")}
        return ChainFit(**vars(fit), **learnt)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def confusion_(self) -> Array:
        """Expected probability of what each worker says, (n_workers, n_tags true, n_tags said); rows sum to one.

        Where what workers say depends on their tag before, all contexts are put together as often as they occurred.
        """
        counts = self._fitted().fit_as(ChainFit).concentration.sum(axis=1).transpose(0, 2, 1)
        return np.asarray(counts / counts.sum(axis=2, keepdims=True))

    @property
    def transitions_(self) -> Array:
        """Expected probability of each tag after each other, (n_tags, n_tags); rows sum to one."""
        steps = self._fitted().fit_as(ChainFit).steps[:-1]
        return np.asarray(steps / steps.sum(axis=1, keepdims=True))

    @property
    def start_(self) -> Array:
        """Expected probability of each tag at the beginning of a sequence, (n_tags,)."""
        first = self._fitted().fit_as(ChainFit).steps[-1]
        return np.asarray(first / first.sum())

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Tags of tokens of sequences, old or new, from readings by workers as they were learnt, (votes.n_tokens,).

        A worker who was not seen in ``fit`` counts as the crowd's average worker. A type of spans that was not there in
        ``fit`` is an error.
        """
        now = self._fitted()
        table = Sequences._as_table(votes)
        if table._tags.types != now.tags.types or table._tags.spans != now.tags.spans:
            raise ValueError(
                f"the model knows the tags {now.tags.names.values.tolist()[:7]}, "
                f"the table has {table.tags.tolist()[:7]}: make both with the same types"
            )
        fit = now.fit_as(ChainFit)
        known = now.workers.match(table._workers)
        logs = np.ascontiguousarray(now.carried_over(fit.logs, known))
        evidence = _core.sequence_evidence(Design.of(table, contexts=fit.logs.shape[1] > 1), logs)
        codes = decoded(table, evidence, fit.log_steps, history=np.zeros(0)).codes
        return now.tags.names.values[codes]


def decoded(votes: Sequences, evidence: Array, log_steps: Array, **course: Any) -> SequenceFit:
    """The fit that evidence on tokens and steps from tag to tag make."""
    found = _core.sequence_decode(votes._grid.starts.astype(np.uint32), evidence, log_steps, votes._tags.spans)
    segments = Segments(
        found["starts"].astype(np.int64),
        found["ends"].astype(np.int64),
        found["types"].astype(np.int64),
        found["probability"],
        found["start_probability"],
        found["end_probability"],
    )
    codes = found["codes"]
    return SequenceFit(
        posterior=found["posterior"], codes=codes, segments=segments, spans=compared(votes, codes), **course
    )


class BSC(_Crowd, default=True):
    """Bayesian sequence combination: a chain of tags, and workers whose tags depend on the truth and on their own.

    The true tags of a sequence are a Markov chain in which forbidden steps (``O`` to ``I-x``, ``B-x`` to ``I-y``) have
    no probability. Given the true tag and the worker's own previous tag, each worker says a tag with probabilities of
    their own (``worker="seq"``): one who missed the beginning of a span will not go on with it, and is not counted as
    denying it once more at each of its tokens.

    All probabilities have Dirichlet priors, and none is tuned. Those of workers are learnt from the crowd (empirical
    Bayes): cells that differ only by the types of spans involved share a parameter, so that a rare type, and a worker
    who read little, are judged by what is usual. Steps from tag to tag have those of an average reader as imaginary
    ones, put together over types.

    Parameters
    ----------
    worker
        ``"seq"``, or ``"cm"`` for plain confusion matrices, which do not see the worker's previous tag.
    learn_prior
        Whether priors of workers are learnt; otherwise each answer counts once beforehand, and the right one twice.
    max_iter, tol
        Stop after so many passes, or when the objective changes by less than a share `tol` of itself.

    Notes
    -----
    Mean-field variational Bayes; `history_` is the evidence lower bound with the density of the learnt priors, and
    never falls. Time O(r K + n K²) a pass for r tags of readings, n tokens and K tags, and O(M C K²) digamma functions
    for M workers and C contexts (K + 1, or 1): with fifty types these are what takes time, and ``worker="cm"`` is much
    quicker. Memory 8 M C K² bytes for each of up to 36 tables, and 32 n K bytes.

    References
    ----------
    E. Simpson and I. Gurevych, "A Bayesian approach for sequence tagging with crowds", EMNLP (2019). T. P. Minka,
    "Estimating a Dirichlet distribution" (2000).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "I-PER", "O", "O"]}
    >>> model = mh.aggregate(mh.Sequences.from_frame(log))
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
    """A hidden Markov chain of tags, and a confusion matrix for each worker, by EM.

    What workers say depends on the true tag alone, and on nothing they said before.

    Parameters
    ----------
    smoothing
        Imaginary answers for each tag that a worker may say; as many again for the right one.
    max_iter, tol
        Stop after so many passes, or when the objective changes by less than a share `tol` of itself.

    Notes
    -----
    `history_` is the log-likelihood with the density of the smoothing, and never falls. Time O(r K + n K²) a pass for r
    tags of readings, n tokens and K tags, memory as for :class:`BSC` with ``worker="cm"``.

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

    def _first(self, prior: Array) -> Array:
        return np.asarray(prior * float(self.smoothing))


class TokenDawidSkene(SequenceAggregator):
    """Dawid–Skene on tokens, each a task of its own, and then the likeliest tags that may follow each other.

    Worker's confusion matrices are learnt as by :class:`~manyhands.DawidSkene`, with tokens independent; their
    posteriors are then the evidence of a chain whose steps are all as likely, but for those that are forbidden.

    Parameters
    ----------
    max_iter, tol
        As for :class:`~manyhands.DawidSkene`.

    Notes
    -----
    Time O(r K) a pass for r tags of readings and K tags, and O(n K²) once for n tokens.

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
        found = model._fit(_as_tokens(votes), progress)
        evidence = np.log(np.maximum(found.posterior.dense(), np.finfo(float).tiny))
        return decoded(
            votes,
            evidence,
            _even_steps(votes._tags),
            history=found.history,
            n_iter=found.n_iter,
            converged=found.converged,
        )


def _as_tokens(votes: Sequences) -> Annotations:
    """A table of classes in which each token is a task."""
    sequences, workers, _, codes = votes.readings()
    lengths = votes._grid.lengths[sequences]
    said = codes != UNSAID
    token = places(votes._grid.starts[sequences], lengths)[said]
    by = np.repeat(workers, lengths)[said]
    n_tasks, n_workers = votes.n_tokens, votes.n_workers
    return Annotations.from_codes(
        token, by, codes[said], n_tasks=n_tasks, n_workers=n_workers, n_classes=len(votes._tags)
    )


def _even_steps(tags: Tags) -> Array:
    legal = tags.legal()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(legal / legal.sum(axis=1, keepdims=True)))
