"""What `describe` returns: a table in numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.html import block
from manyhands._base.spelling import quote


@dataclass(frozen=True)
class Spread:
    """How a count is spread: smallest, quartiles, largest, and mean."""

    min: int
    q25: float
    median: float
    q75: float
    max: int
    mean: float

    @classmethod
    def of(cls, counts: npt.NDArray[np.int64]) -> Spread:
        """Summarize an array of counts."""
        q25, median, q75 = (float(q) for q in np.quantile(counts, (0.25, 0.5, 0.75)))
        return cls(int(counts.min()), q25, median, q75, int(counts.max()), float(counts.mean()))

    @classmethod
    def of_tally(cls, tally: npt.NDArray[np.int64]) -> Spread:
        """Summarize counts of which `tally[i]` are i; the same as of all of them."""
        ends, values = np.cumsum(tally), np.flatnonzero(tally)
        last = int(ends[-1]) - 1

        def quantile(q: float) -> float:
            low, high = (
                int(np.searchsorted(ends, at, side="right")) for at in (int(q * last), min(int(q * last) + 1, last))
            )
            return low + (q * last - int(q * last)) * (high - low)

        q25, median, q75 = (quantile(q) for q in (0.25, 0.5, 0.75))
        mean = float((np.arange(len(tally)) * tally).sum() / (last + 1))
        return cls(int(values[0]), q25, median, q75, int(values[-1]), mean)

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.2f}, median {self.median:g} "
            f"(quartiles {self.q25:g}–{self.q75:g}, range {self.min:,}–{self.max:,})"
        )


@dataclass(frozen=True)
class Fact:
    """A number of a description: its name, and the line of the report that shows it; one of them may be missing."""

    name: str
    value: Any
    title: str = ""
    #: The number in words, where it is not simply printed.
    text: str = ""

    def __str__(self) -> str:
        return self.text or (f"{self.value:,}" if isinstance(self.value, int) else str(self.value))


@dataclass(frozen=True)
class Description:
    """What ``describe`` of a table returns: numbers by name, as attributes; prints as a short report.

    All kinds have ``n_annotations`` and ``n_workers``; :meth:`to_dict` holds everything there is for a kind.
    """

    facts: tuple[Fact, ...]

    def __getattr__(self, name: str) -> Any:
        for fact in () if name.startswith("__") else self.facts:
            if fact.name == name:
                return fact.value
        raise AttributeError(f"the description has no {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and dictionaries, for JSON, which has no NaN: what is not defined is None."""
        plain = {fact["name"]: fact["value"] for fact in asdict(self)["facts"] if fact["name"]}
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in plain.items()
        }

    def rows(self) -> list[tuple[str, str]]:
        """Lines of the report: titles and what they say."""
        return [(fact.title, str(fact)) for fact in self.facts if fact.title]

    def __str__(self) -> str:
        return "\n".join(f"{title:<19}{text}" for title, text in self.rows())

    def _repr_html_(self) -> str:
        return block(str(self))


@dataclass(frozen=True)
class Values:
    """How the values of a column are spread."""

    min: float
    median: float
    mean: float
    max: float
    deviation: float

    def __str__(self) -> str:
        return (
            f"mean {self.mean:g}, median {self.median:g}, deviation {self.deviation:g} ({self.min:g} to {self.max:g})"
        )


def largest(shares: dict[str, float]) -> str:
    """The ten largest shares, by name."""
    top_shares = sorted(shares.items(), key=lambda item: -item[1])[:10]
    more = "" if len(shares) <= 10 else f", and {len(shares) - 10} more"
    return ", ".join(f"{name} {share:.1%}" for name, share in top_shares) + more


def in_groups(n: int) -> str:
    """Say in how many groups workers are."""
    return "in one group" if n == 1 else f"in {n:,} groups that share no task"


def class_texts(classes: npt.NDArray[Any]) -> list[str]:
    """Print the names of classes, all different."""
    texts = [quote(name) if isinstance(name, str) else repr(name) for name in classes.tolist()]
    # The number 1 and the text "1" may both be classes.
    return texts if len(set(texts)) == len(texts) else [repr(name) for name in classes.tolist()]
