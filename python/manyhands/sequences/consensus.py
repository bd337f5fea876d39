"""The default for sequences: a vote, token models and an anchored chain, averaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_stopping
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers, probabilities
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.categorical import Consensus, DawidSkene
from manyhands.categorical._passes import posterior_under
from manyhands.sequences.base import Segments, SequenceAggregator, SequenceFit, count_matches
from manyhands.sequences.crowd import as_tokens, decode_fit, even_steps
from manyhands.sequences.design import Design, kinds_of_cells, steps_read
from manyhands.sequences.table import Sequences, runs
from manyhands.sequences.tags import Tags, Tokens
from manyhands.sequences.votes import span_shares, token_shares

#: Updates of the workers' prior from the counts under the anchor.
_PRIOR_UPDATES = 30
#: Correlation of the readers' errors assumed when the probability of a tag is stated, not when it is chosen.
_CORRELATION = 0.5


@dataclass(frozen=True, kw_only=True)
class SequenceConsensusFit(SequenceFit):
    """Averaged tags, and the parameters of the two models of workers."""

    confusion: Array = field(metadata=probabilities("mkk"))
    prior: Array = field(metadata=probabilities("k"))
    logs: Array = field(metadata=numbers("mckk"))
    log_steps: Array = field(metadata=numbers("ak", infinite=True))


class SequenceConsensus(SequenceAggregator, default=True):
    """Average a token vote, a token model and an anchored chain of tags; the default for sequences.

    Use it when no other method is called for. Chain models such as :class:`BSC` fit short spans very well, but where
    spans are long and readers disagree about their ends, each further iteration moves them away from the truth: one
    reader's mark comes to outweigh the silence of all others. This method counts what workers do once, against a
    sequence of tags that simpler models agree on (the *anchor*), and does not iterate the chain.

    Parameters
    ----------
    max_iter : int, default 200
        Most EM iterations of the token-level Dawid–Skene model.
    tol : float, default 1e-6
        Its relative change of the log-likelihood at convergence.

    See Also
    --------
    BSC : the chain iterated to convergence; better where spans are short and workers have habits of their own.

    Notes
    -----
    1. On tokens as tasks: vote shares V, Dawid–Skene D, and hierarchical Dawid–Skene H (a member of
       :class:`~manyhands.Consensus`).
    2. The anchor is the legal sequence of tags with the largest sum of (V + D + H) / 3.
    3. Tables of `BSC` (what a worker answers given the true tag and the worker's previous tag) and transitions are
       counted once under the anchor, with a prior learned from these counts. One forward–backward sweep gives C.
    4. Tags are the legal sequence with the largest sum of (V + H + C) / 3. Probabilities of spans are averages of the
       exact ones of V, H and C.
    5. Stated probabilities of tags are the average of V, the calibrated posterior of `Consensus`, and C with its
       evidence divided by 1 + 0.5 (readers − 1), as errors of readers on a token are correlated.

    Time: the token models' iterations, O(r K) each for r tags of readings and K tags, and one O(r K + n K²) sweep for n
    tokens. Memory: 8 M C K² bytes for M workers and C = K + 1 contexts, and 48 n K bytes.

    References
    ----------
    E. Simpson and I. Gurevych, "A Bayesian approach for sequence tagging with crowds", EMNLP (2019), for the tables of
    workers.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"sequence": [1] * 6, "position": [0, 1] * 3, "worker": ["a", "a", "b", "b", "c", "c"],
    ...        "label": ["B-PER", "I-PER", "B-PER", "I-PER", "O", "O"]}
    >>> model = mh.aggregate(mh.Sequences.from_frame(log))
    >>> model.tags_.tolist()
    ['B-PER', 'I-PER']
    """

    _fit_type: ClassVar[type[Fit]] = SequenceConsensusFit

    def __init__(self, *, max_iter: int = 200, tol: float = 1e-6) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Sequences, progress: Callback | None) -> SequenceFit:
        check_stopping(self.max_iter, self.tol)
        m, k = votes.n_workers, len(votes._tags)
        check_memory(8 * 4 * m * (k + 1) * k * k, f"tables of {m:,} workers and {k} tags", "use TokenDawidSkene")
        tokens = as_tokens(votes)
        shares = token_shares(votes)
        skene = DawidSkene(max_iter=self.max_iter, tol=self.tol)._fit(tokens, progress)
        consensus = Consensus()._fit(tokens, progress)
        parameters = consensus.hierarchical()
        assert parameters is not None
        prior, confusion = parameters
        hierarchical = posterior_under(tokens.table, prior, confusion)
        anchor = _legal_maximum(votes, shares + skene.posterior.dense() + hierarchical)
        design = Design.of(votes, contexts=True)
        cells, first_prior = kinds_of_cells(votes._tags, design.sizes[2], design.has_gaps)
        chain = _core.sequence_fit(
            design,
            np.eye(k)[anchor],
            cells=cells,
            prior=first_prior,
            learn=True,
            first_rounds=_PRIOR_UPDATES,
            steps=steps_read(votes),
            variational=True,
            max_iter=1,
            tol=0.0,
        )
        evidence = _core.sequence_evidence(design, chain["logs"])
        codes, segments = _average(votes, shares, hierarchical, evidence, chain["log_steps"])
        tempered = decode_fit(votes, evidence / _design_effect(votes)[:, None], chain["log_steps"]).posterior
        return SequenceConsensusFit(
            posterior=(shares + consensus.posterior.dense() + tempered) / 3,
            codes=codes,
            segments=segments,
            spans=count_matches(votes, codes),
            history=np.zeros(0),
            n_iter=skene.n_iter + consensus.n_iter + 1,
            confusion=confusion,
            prior=prior,
            logs=chain["logs"],
            log_steps=chain["log_steps"],
        )

    # ----------------------------------------------------------------------------------------------- results

    @property
    def confusion_(self) -> Array:
        """Probability of what each worker answers for a token, (n_workers, n_tags true, n_tags answered)."""
        return self._fitted().fit_as(SequenceConsensusFit).confusion

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Return tags of tokens of old or new sequences, with workers as they were learned, (votes.n_tokens,).

        A worker who was not seen in ``fit`` counts as the crowd's average worker. The table must have the same types of
        spans as the one in ``fit``.
        """
        now = self._fitted()
        table = now.same_tags(votes)
        fit = now.fit_as(SequenceConsensusFit)
        matches = now.workers.match(table._workers)
        confusion = np.ascontiguousarray(now.carried_over(fit.confusion, matches))
        logs = np.ascontiguousarray(now.carried_over(fit.logs, matches))
        hierarchical = posterior_under(as_tokens(table).table, fit.prior, confusion)
        evidence = _core.sequence_evidence(Design.of(table, contexts=True), logs)
        codes, _ = _average(table, token_shares(table), hierarchical, evidence, fit.log_steps)
        return now.tags.names.values[codes]


def _average(
    votes: Sequences, shares: Array, hierarchical: Array, evidence: Array, log_steps: Array
) -> tuple[Tokens, Segments]:
    """Tags that the average of the models prefers, and their segments with averaged probabilities."""
    chain = decode_fit(votes, evidence, log_steps).posterior
    codes = _legal_maximum(votes, shares + hierarchical + chain)
    logs = np.log(np.maximum(hierarchical, np.finfo(float).tiny))
    members = [
        span_shares(votes, runs(votes._tags, codes, votes._grid.firsts())),
        decode_fit(votes, logs, even_steps(votes._tags), codes=codes).segments,
        decode_fit(votes, evidence, log_steps, codes=codes).segments,
    ]
    names = ("probability", "start_probability", "end_probability")
    means = (np.mean([getattr(member, name) for member in members], axis=0) for name in names)
    return codes, Segments(members[0].starts, members[0].ends, members[0].types, *means)


def _legal_maximum(votes: Sequences, scores: Array) -> Tokens:
    """The legal sequence of tags with the largest sum of scores."""
    return decode_fit(votes, scores, _free_steps(votes._tags)).codes


def _free_steps(tags: Tags) -> Array:
    return np.where(tags.legal(), 0.0, -np.inf)


def _design_effect(votes: Sequences) -> Array:
    """How much correlated errors inflate the evidence of each token, (n_tokens,)."""
    readers = np.repeat(votes.labels_per_task, votes._grid.lengths)
    return np.asarray(1.0 + _CORRELATION * np.maximum(readers - 1.0, 0.0))
