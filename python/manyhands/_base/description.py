"""What a table of annotations looks like, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.html import block
from manyhands._base.spelling import groups_of, quoted, shown, skeleton


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
        """Summarise an array of counts."""
        q25, median, q75 = (float(q) for q in np.quantile(counts, (0.25, 0.5, 0.75)))
        return cls(int(counts.min()), q25, median, q75, int(counts.max()), float(counts.mean()))

    @classmethod
    def of_tally(cls, tally: npt.NDArray[np.int64]) -> Spread:
        """Summarise counts of which `tally[i]` are i; the same as of all of them."""
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


class Described:
    """What descriptions of all kinds share: a dataclass that gives the rows of its report."""

    def _rows(self) -> Iterable[tuple[str, str]]:
        """What the report says, line by line: what it is about, and what there is to say."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and dictionaries, for JSON, which has no NaN: what is not defined is None."""
        found: Any = asdict(self)  # type: ignore[call-overload]
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in found.items()
        }

    def __str__(self) -> str:
        return "\n".join(f"{name:<19}{said}" for name, said in self._rows())

    def _repr_html_(self) -> str:
        return block(str(self))


@dataclass(frozen=True)
class PairsDescription(Described):
    """What :meth:`Similarities.describe` returns; prints as a short report.

    ``asked`` is the share of all pairs of items that somebody was asked about, ``same`` that of answers that say same,
    ``agreement`` the share of equal answers among all two about the same pair (NaN where no pair has two), and
    ``n_components`` the number of groups of items that no pair connects.
    """

    n_annotations: int
    n_items: int
    n_pairs: int
    n_workers: int
    n_repeats: int
    labels_per_pair: Spread
    labels_per_worker: Spread
    asked: float
    same: float
    agreement: float
    n_components: int

    def _rows(self) -> Iterable[tuple[str, str]]:
        agreement = "no pair has two answers" if math.isnan(self.agreement) else f"{self.agreement:.1%}"
        return (
            ("answers", f"{self.n_annotations:,}, {self.same:.1%} of them same"),
            ("items", f"{self.n_items:,}"),
            ("pairs", f"{self.n_pairs:,}, {self.asked:.2%} of all"),
            ("workers", f"{self.n_workers:,}"),
            ("answers per pair", str(self.labels_per_pair)),
            ("answers per worker", str(self.labels_per_worker)),
            ("agreement", agreement),
            ("components", f"{self.n_components:,}"),
            ("repeats", f"{self.n_repeats:,}"),
        )


@dataclass(frozen=True)
class MasksDescription(Described):
    """What :meth:`Masks.describe` returns; prints as a short report."""

    n_annotations: int
    n_tasks: int
    n_workers: int
    n_classes: int
    n_empty: int
    n_repeats: int
    pixels: Spread
    labels_per_task: Spread
    labels_per_worker: Spread

    def _rows(self) -> Iterable[tuple[str, str]]:
        return (
            ("masks", f"{self.n_annotations:,}, {self.n_empty:,} of them empty"),
            ("tasks", f"{self.n_tasks:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("classes", f"{self.n_classes:,}, background included"),
            ("marked pixels", str(self.pixels)),
            ("masks per task", str(self.labels_per_task)),
            ("masks per worker", str(self.labels_per_worker)),
            ("repeats", f"{self.n_repeats:,}"),
        )


@dataclass(frozen=True)
class BoxesDescription(Described):
    """What :meth:`Boxes.describe` returns; prints as a short report.

    ``n_empty`` counts rows that say that a worker saw nothing in a task, ``labels`` boxes by what they hold.
    """

    n_annotations: int
    n_boxes: int
    n_empty: int
    n_tasks: int
    n_workers: int
    boxes_per_task: Spread
    boxes_per_worker: Spread
    labels: dict[str, int]

    def _rows(self) -> Iterable[tuple[str, str]]:
        return (
            ("boxes", f"{self.n_boxes:,}, and {self.n_empty:,} times nothing"),
            ("tasks", f"{self.n_tasks:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("boxes per task", str(self.boxes_per_task)),
            ("boxes per worker", str(self.boxes_per_worker)),
            ("labels", ", ".join(f"{name} {n:,}" for name, n in self.labels.items()) or "none"),
        )


@dataclass(frozen=True)
class ObjectsDescription(Described):
    """What :meth:`Objects.describe` returns; prints as a short report."""

    n_annotations: int
    n_distinct: int
    n_tasks: int
    n_workers: int
    n_repeats: int
    labels_per_task: Spread
    labels_per_worker: Spread

    def _rows(self) -> Iterable[tuple[str, str]]:
        return (
            ("answers", f"{self.n_annotations:,}, {self.n_distinct:,} of them different"),
            ("tasks", f"{self.n_tasks:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("answers per task", str(self.labels_per_task)),
            ("answers per worker", str(self.labels_per_worker)),
            ("repeats", f"{self.n_repeats:,}"),
        )


@dataclass(frozen=True)
class SetsDescription(Described):
    """What :meth:`MultiLabels.describe` returns; prints as a short report."""

    n_annotations: int
    n_tasks: int
    n_workers: int
    n_labels: int
    n_empty: int
    n_repeats: int
    labels_per_answer: Spread
    answers_per_task: Spread
    answers_per_worker: Spread
    #: Share of the answers that say each label.
    label_shares: dict[str, float]

    def _rows(self) -> Iterable[tuple[str, str]]:
        return (
            ("answers", f"{self.n_annotations:,}, {self.n_empty:,} of them empty"),
            ("tasks", f"{self.n_tasks:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("labels", f"{self.n_labels:,}  ({_largest(self.label_shares)})"),
            ("labels per answer", str(self.labels_per_answer)),
            ("answers per task", str(self.answers_per_task)),
            ("answers per worker", str(self.answers_per_worker)),
            ("repeats", f"{self.n_repeats:,}"),
        )


@dataclass(frozen=True)
class Description(Described):
    """What :meth:`Annotations.describe` returns; prints as a short report.

    ``overlap`` is the share of tasks with two or more labels, ``agreement`` the share of equal labels among
    all pairs on the same task (NaN where no task has two), ``n_components`` the number of separate groups of
    workers that share no task (methods that compare workers can only compare within a group). ``look_alikes`` are
    workers whose names differ by case, blanks or letters that look alike: one person under several names, perhaps.
    """

    n_annotations: int
    n_tasks: int
    n_workers: int
    n_classes: int
    n_unlabelled: int
    n_repeats: int
    labels_per_task: Spread
    labels_per_worker: Spread
    overlap: float
    agreement: float
    n_components: int
    class_shares: dict[str, float]
    look_alikes: list[list[str]] = field(default_factory=list)

    def _rows(self) -> Iterable[tuple[str, str]]:
        agreement = f"{self.agreement:.1%} of pairs of labels on a task are equal"
        if math.isnan(self.agreement):
            agreement = "not known: no task has two labels"
        return (
            ("annotations", f"{self.n_annotations:,}"),
            ("tasks", f"{self.n_tasks:,}  (and {self.n_unlabelled:,} without a label)"),
            ("workers", f"{self.n_workers:,}  ({_in_groups(self.n_components)})"),
            ("classes", f"{self.n_classes:,}  ({_largest(self.class_shares)})"),
            ("labels per task", str(self.labels_per_task)),
            ("labels per worker", str(self.labels_per_worker)),
            ("overlap", f"{self.overlap:.1%} of tasks have two or more labels"),
            ("agreement", agreement),
            ("repeats", f"{self.n_repeats:,} further answers by a worker to the same task"),
            *((("look-alikes", f"workers {shown(self.look_alikes)}"),) if self.look_alikes else ()),
        )


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


@dataclass(frozen=True)
class RatingsDescription(Described):
    """What :meth:`Ratings.describe` returns; prints as a short report."""

    n_annotations: int
    n_tasks: int
    n_workers: int
    n_unlabelled: int
    n_repeats: int
    labels_per_task: Spread
    labels_per_worker: Spread
    overlap: float
    n_components: int
    values: dict[str, Values]

    def _rows(self) -> Iterable[tuple[str, str]]:
        return (
            ("ratings", f"{self.n_annotations:,}"),
            ("tasks", f"{self.n_tasks:,}  (and {self.n_unlabelled:,} without a value)"),
            ("workers", f"{self.n_workers:,}  ({_in_groups(self.n_components)})"),
            *((name, str(spread)) for name, spread in self.values.items()),
            ("ratings per task", str(self.labels_per_task)),
            ("ratings per worker", str(self.labels_per_worker)),
            ("overlap", f"{self.overlap:.1%} of tasks have two or more ratings"),
            ("repeats", f"{self.n_repeats:,} further answers by a worker to the same task"),
        )


def _largest(shares: dict[str, float]) -> str:
    """The ten largest shares, by name."""
    shown = sorted(shares.items(), key=lambda item: -item[1])[:10]
    more = "" if len(shares) <= 10 else f", and {len(shares) - 10} more"
    return ", ".join(f"{name} {share:.1%}" for name, share in shown) + more


def _in_groups(n: int) -> str:
    return "in one group" if n == 1 else f"in {n:,} groups that share no task"


def class_texts(classes: npt.NDArray[Any]) -> list[str]:
    """Print the names of classes, all different."""
    texts = [quoted(name) if isinstance(name, str) else repr(name) for name in classes.tolist()]
    # The number 1 and the text "1" may both be classes.
    return texts if len(set(texts)) == len(texts) else [repr(name) for name in classes.tolist()]


def described(votes: Any) -> Description:
    """Summarise a table of classes, in memory or on disk."""
    (per_task, overlap), table = votes._task_spread(), votes._table
    counts = table.label_counts()
    # A later answer that replaces an earlier one may leave nothing but abstentions: no pair of labels to compare.
    only_abstentions = not counts[: votes.n_classes].any()
    agreeing, pairs = (0, 0) if only_abstentions else votes.without_abstentions()._table.agreeing_pairs()
    shares = counts / votes.n_annotations
    return Description(
        n_annotations=votes.n_annotations,
        n_tasks=votes.n_tasks,
        n_workers=votes.n_workers,
        n_classes=votes.n_classes,
        n_unlabelled=len(votes._unlabelled),
        n_repeats=table.n_repeats(),
        labels_per_task=per_task,
        labels_per_worker=Spread.of(votes.labels_per_worker),
        overlap=overlap,
        agreement=agreeing / pairs if pairs else float("nan"),
        n_components=table.n_components(),
        class_shares=dict(zip(class_texts(votes.labels), shares.tolist(), strict=True)),
        look_alikes=groups_of(votes.workers.tolist() if votes.workers.dtype == object else (), skeleton),
    )


@dataclass(frozen=True)
class SequencesDescription(Described):
    """What :meth:`Sequences.describe` returns; prints as a short report.

    ``n_tags`` counts tags of all readings, ``n_unsaid`` tokens of them without one, ``spans`` what was marked by type,
    and ``span_length`` is the mean number of tokens of a span (NaN where nobody marked any).
    """

    n_annotations: int
    n_tasks: int
    n_tokens: int
    n_workers: int
    n_tags: int
    n_unsaid: int
    lengths: Spread
    labels_per_task: Spread
    labels_per_worker: Spread
    spans: dict[str, int]
    span_length: float

    def _rows(self) -> Iterable[tuple[str, str]]:
        marked = ", ".join(f"{name or 'of no type'} {n:,}" for name, n in self.spans.items())
        length = "" if math.isnan(self.span_length) else f", {self.span_length:.2f} tokens long on average"
        return (
            ("readings", f"{self.n_annotations:,}"),
            ("sequences", f"{self.n_tasks:,}"),
            ("tokens", f"{self.n_tokens:,}"),
            ("workers", f"{self.n_workers:,}"),
            ("tags", f"{self.n_tags:,} ({self.n_unsaid:,} tokens of readings have none)"),
            ("sequence length", str(self.lengths)),
            ("per sequence", str(self.labels_per_task)),
            ("per worker", str(self.labels_per_worker)),
            ("spans", f"{sum(self.spans.values()):,}{length} ({marked})"),
        )
