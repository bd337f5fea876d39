"""What was decided about a batch of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands.defer.assignment import Ints
from manyhands.defer.projection import Floats

if TYPE_CHECKING:
    import pyarrow as pa


def option_names(n_options: int, experts: Sequence[Any] | None) -> list[str]:
    """Name the options: the experts, and the classifier last."""
    if experts is None:
        experts = [f"expert {m}" for m in range(n_options - 1)]
    if len(experts) != n_options - 1:
        raise ValueError(f"there are {len(experts)} names for {n_options - 1} experts")
    return [*map(str, experts), "classifier"]


def as_who(who: npt.ArrayLike, n_options: int) -> Ints:
    """Return who answers each case, as codes of options."""
    codes = np.asarray(who)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "ui"):
        raise ValueError(f"who must be a list of whole numbers, not {codes.dtype} of shape {codes.shape}")
    if codes.size and not 0 <= codes.min() <= codes.max() < n_options:
        worst = codes.min() if codes.min() < 0 else codes.max()
        raise ValueError(f"who must lie between 0 and {n_options - 1}, the classifier; it holds {worst}")
    return codes.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Decision:
    """Who answers each case, and what the classifier specifies where it does.

    Attributes
    ----------
    who : array of shape (n,)
        The option of each case: 0 to M − 1 for the experts, M for the classifier.
    n_experts : int
        M.
    labels : array of shape (n,), optional
        The classifier's classes; they count only where it answers.
    confidence : array of shape (n,), optional
        The probability, after the workload is kept, that the option chosen is the one to answer.
    expected_accuracy : array of shape (n,), optional
        The probability that the answer will be right.
    cases : array of shape (n,), optional
        Names of the cases; their places where not given.
    experts : sequence of M names, optional

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> made = mh.defer.Decision(np.array([1, 0, 1]), 1, labels=np.array(["cat", "dog", "dog"]), experts=["Ann"])
    >>> made.coverage, made.deferred.tolist()
    (0.6666666666666666, [False, True, False])
    >>> made.to_frame().to_pylist()[1]
    {'case': 1, 'who': 'Ann', 'label': None, 'confidence': None, 'expected_accuracy': None}
    """

    who: Ints
    n_experts: int
    labels: npt.NDArray[Any] | None = None
    confidence: Floats | None = None
    expected_accuracy: Floats | None = None
    cases: npt.NDArray[Any] | None = None
    experts: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        option_names(self.n_experts + 1, self.experts)
        object.__setattr__(self, "who", as_who(self.who, self.n_experts + 1))
        for what in ("labels", "confidence", "expected_accuracy", "cases"):
            value = getattr(self, what)
            if value is not None and len(value) != len(self.who):
                raise ValueError(f"{what} has {len(value)} entries for {len(self.who)} cases")

    @property
    def deferred(self) -> npt.NDArray[np.bool_]:
        """Which cases go to an expert, (n,)."""
        return np.not_equal(self.who, self.n_experts)

    @property
    def coverage(self) -> float:
        """Share of the cases that the classifier answers; NaN where there are no cases."""
        return float(np.mean(self.who == self.n_experts)) if len(self.who) else float("nan")

    def to_frame(self) -> pa.Table:
        """Return a table of the cases: case, who, label where it is known, confidence, expected accuracy."""
        import pyarrow as pa

        n = len(self.who)
        names = np.array(option_names(self.n_experts + 1, self.experts), dtype=object)
        numbers = {
            what: pa.nulls(n, pa.float64()) if values is None else pa.array(values, pa.float64())
            for what, values in (("confidence", self.confidence), ("expected_accuracy", self.expected_accuracy))
        }
        labels = pa.nulls(n) if self.labels is None else pa.array(np.asarray(self.labels), mask=self.deferred)
        cases = pa.array(np.arange(n) if self.cases is None else np.asarray(self.cases))
        return pa.table({"case": cases, "who": pa.array(names[self.who], pa.string()), "label": labels, **numbers})
