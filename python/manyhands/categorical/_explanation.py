"""Why a task got its answer: what each vote weighed, and what one more would change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array
from manyhands._base.explanation import Explained

if TYPE_CHECKING:
    import pyarrow as pa

#: What probabilities count as at the least, as in the core.
LEAST = 1e-30
#: The largest share of their face value that votes are reported to have counted for; beyond it something else decided.
_MOST_SHARE = 1.5


@dataclass(frozen=True)
class Vote:
    """A vote on a task: who gave it, how good they are, and the weight of evidence that it carried."""

    worker: Any
    label: Any
    #: Expected share of correct answers of the worker, and how many answers that rests on.
    skill: float
    n_answers: int
    #: What the vote adds to the log-odds (nats) of the answer against the runner-up; negative where it speaks against.
    evidence: float


@dataclass(frozen=True)
class Explanation(Explained):
    """Why a task got its answer, as returned by :meth:`Aggregator.explain`; prints as a short report.

    The log-odds of the answer against the runner-up are ``prior + sum(vote.evidence) + rest``, exactly. ``share`` is
    what votes and prior counted for of their face value under the workers' confusion matrices: 1 for a model that
    multiplies probabilities, less for one that discounts confidences because errors on a task are correlated. ``rest``
    is what else the method did: 0 for both of these.
    """

    task: Any
    answer: Any
    confidence: float
    runner_up: Any
    runner_up_confidence: float
    votes: tuple[Vote, ...]
    prior: float
    share: float
    rest: float
    #: What would change if a good worker contradicted: the worker, the answer then, and its confidence.
    one_more: tuple[Any, Any, float] | None
    #: What the task shows to workers, a text or an address; None where that is not known.
    shown: str | None = None

    @property
    def log_odds(self) -> float:
        """Log-odds (nats) of the answer against the runner-up."""
        return self.prior + sum(vote.evidence for vote in self.votes) + self.rest

    def to_frame(self) -> pa.Table:
        """Return the votes as an Arrow table: worker, label, skill, n_answers, evidence."""
        names = ("worker", "label", "skill", "n_answers", "evidence")
        return arrow.table({name: [getattr(vote, name) for vote in self.votes] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self) | {"log_odds": self.log_odds}

    def _lines(self) -> list[str]:
        lines = [f"task {self.task}: {self.answer} ({self.confidence:.3f})"]
        text_lines = [] if self.shown is None else [f"  {' '.join(self.shown.split()):.200}"]
        if self.runner_up is None:
            return lines + text_lines
        lines[0] += f", rather than {self.runner_up} ({self.runner_up_confidence:.3f})"
        lines += text_lines
        if not self.votes:
            lines.append("  no vote counts: all workers abstained, or none answered")
        else:
            lines.append(f"  {'worker':<20} {'said':<14} {'skill':>8} {'answers':>8} {'evidence':>9}")
        lines.extend(
            f"  {vote.worker!s:<20.20} {vote.label!s:<14.14} {vote.skill:>8.3f} {vote.n_answers:>8,} "
            f"{vote.evidence:>+9.2f}"
            for vote in sorted(self.votes, key=lambda vote: -vote.evidence)
        )
        lines.append(f"  {'how frequent classes are':<53} {self.prior:>+8.2f}")
        if abs(self.rest) > 5e-3:
            lines.append(f"  {'what else the method did':<53} {self.rest:>+8.2f}")
        lines.append(f"  {'log-odds':<53} {self.log_odds:>+8.2f}")
        if abs(self.share - 1) > 5e-3:
            lines.append(
                f"Votes counted for {self.share:.0%} of what their workers' confusion matrices say on their own."
            )
        if self.one_more is not None:
            worker, answer, confidence = self.one_more
            stays = "would stay" if answer == self.answer else "would become"
            lines.append(
                f"If {worker}, who is good, answered {self.runner_up}, the answer {stays} {answer} ({confidence:.3f})."
            )
        return lines


def face_value(
    prior: Array, confusion: Array, workers: npt.NDArray[Any], labels: npt.NDArray[Any], weights: Array
) -> tuple[Array, Array]:
    """Log-prior of each class, (n_classes,), and what each vote adds to its log-probability, (n_votes, n_classes)."""
    likelihoods = confusion[workers.astype(np.int64), :, labels.astype(np.int64)]
    return np.log(np.maximum(prior, LEAST)), weights[:, None] * np.log(np.maximum(likelihoods, LEAST))


def divide_log_odds(
    posterior: Array, answer: int, prior: Array, votes: Array
) -> tuple[int | None, float, Array, float, float]:
    """Divide the log-odds of an answer against the runner-up among the votes.

    Parameters
    ----------
    posterior : ndarray of shape (n_classes,)
        Of one task.
    answer : int
        The code of what was decided.
    prior : ndarray of shape (n_classes,)
        Log-prior.
    votes : ndarray of shape (n_votes, n_classes)
        What each vote adds to the log-probability of each class, at face value.

    Returns
    -------
    tuple
        The code of the runner-up, the most probable other class, the part of the prior, those of the votes, the share
        of their face value that these are, and the rest.
    """
    if len(posterior) < 2:
        return None, 0.0, np.zeros(len(votes)), 1.0, 0.0
    second = int(np.argmax(np.where(np.arange(len(posterior)) == answer, -1.0, posterior)))
    total = float(np.log(max(posterior[answer], LEAST)) - np.log(max(posterior[second], LEAST)))
    of_prior, of_votes = prior[answer] - prior[second], votes[:, answer] - votes[:, second]
    face = float(of_prior + of_votes.sum())
    share = total / face if face else 1.0
    if not 0 < share <= _MOST_SHARE:
        return second, float(of_prior), of_votes, 1.0, total - face
    return second, float(share * of_prior), share * of_votes, share, 0.0
