"""Base class of sequence aggregators: tags per token, spans, worker scores and exports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, codes, part, probabilities
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.results import Columns
from manyhands.sequences.encode import Grid, Ints
from manyhands.sequences.table import Sequences, runs
from manyhands.sequences.tags import Tags, Tokens

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Segments:
    """Aggregated spans, or runs of one class if the tags have no spans.

    ``starts`` and ``ends`` index tokens of all sequences laid end to end; ``ends`` is exclusive. ``probability`` is the
    probability of exactly this span, ``start_probability`` that a span of its type starts at the same token, and
    ``end_probability`` that a span of its type ends at the same token.
    """

    starts: Ints = field(metadata=codes("s", "t"))
    ends: Ints = field(metadata=codes("s"))
    types: Ints = field(metadata=codes("s", "y"))
    probability: Array = field(metadata=probabilities("s"))
    start_probability: Array = field(metadata=probabilities("s"))
    end_probability: Array = field(metadata=probabilities("s"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if a span ends before it starts or after the last token."""
        if (self.starts >= self.ends).any() or (self.ends > sizes["t"]).any():
            raise ValueError("its segments are not runs of its tokens")


@dataclass(frozen=True, kw_only=True)
class SequenceFit(Fit):
    """Parameters that an aggregator estimates from a table of sequences."""

    #: Probability of each tag for each token, shape (n_tokens, n_tags).
    posterior: Array = field(metadata=probabilities("tk"))
    #: Per worker: spans marked, aggregated spans in the sequences that the worker read, spans in both; (n_workers, 3).
    spans: Ints = field(metadata=codes("m3"))
    #: Most likely sequence of tags, one code per token; every transition is legal.
    codes: Tokens = field(metadata=codes("t", "k", dtypes=(np.uint16,)))
    segments: Segments = field(metadata=part(Segments))

    @property
    def confidence(self) -> Array:
        """Probability of the chosen tag of each token, shape (n_tokens,)."""
        return self.posterior[np.arange(len(self.codes)), self.codes]


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceFitted(TaskFitted[SequenceFit]):
    """Fitted state of a sequence aggregator: estimates, token positions and tag names."""

    grid: Grid = field(metadata=part(Grid))
    tags: Tags = field(metadata=part(Tags))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if the tags do not match the tokens."""
        starts = self.grid.starts
        if starts[-1] != sizes["t"] or (np.diff(starts) <= 0).any() or sizes["k"] != len(self.tags):
            raise ValueError("the number of tags does not match the number of tokens")

    def same_tags(self, votes: Any) -> Sequences:
        """Return a table of readings, or raise where its tags differ from those of the fit."""
        table = Sequences._as_table(votes)
        if table._tags.types != self.tags.types or table._tags.spans != self.tags.spans:
            raise ValueError(
                f"the model was fitted to the tags {self.tags.names.values.tolist()[:7]}, "
                f"the table has {table.tags.tolist()[:7]}: build both tables with the same types"
            )
        return table


class SequenceAggregator(TaskEstimator[Sequences, SequenceFit, SequenceFitted]):
    """Base class of sequence aggregators. Subclasses implement ``_fit``, which maps a table to a `SequenceFit`."""

    _kind: ClassVar[str] = "sequences"
    _answer: ClassVar[str] = "tags_"
    _several_rows: ClassVar[bool] = True
    _fit_type: ClassVar[type[Fit]] = SequenceFit
    _fitted_type: ClassVar[type[SequenceFitted]] = SequenceFitted

    def _check_room(self, votes: Sequences) -> None:
        n_bytes = 3 * 8 * votes.n_tokens * len(votes._tags)
        check_memory(n_bytes, f"{votes.n_tokens:,} tokens of {len(votes._tags)} tags", "fit fewer sequences at a time")

    # ----------------------------------------------------------------------------------------------- results

    @property
    def sequences_(self) -> npt.NDArray[Any]:
        """Sequence ids, in the order of all per-sequence results; the same as :attr:`tasks_`."""
        return self._fitted().tasks.values

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All tags, in the order of the columns of :attr:`posterior_`."""
        return self._fitted().tags.names.values

    @property
    def tags_(self) -> npt.NDArray[Any]:
        """Most likely tag of each token, sequence after sequence, shape (n_tokens,); every transition is legal."""
        now = self._fitted()
        fit = now.fit
        return now.tags.names.values[fit.codes]

    @property
    def confidence_(self) -> Array:
        """Probability of the least certain tag of each sequence, shape (n_sequences,).

        :meth:`to_frame` returns the probability of every tag.
        """
        now = self._fitted()
        return np.minimum.reduceat(now.fit.confidence, now.grid.starts[:-1])

    @property
    def posterior_(self) -> Array:
        """Probability of each tag for each token, shape (n_tokens, n_tags)."""
        return self._fitted().fit.posterior

    @property
    def spans_(self) -> pa.Table:
        """Aggregated spans as an Arrow table; runs of one class if the tags have no spans.

        Columns: ``sequence``, ``start``, ``end`` (exclusive), ``tag``, ``probability`` of exactly this span,
        ``start_probability`` and ``end_probability`` that a span of this type starts or ends there.
        """
        return _spans(self._fitted())

    def to_frame(self) -> pa.Table:
        """Return the sequence, position, label and confidence of each token as an Arrow table."""
        return super().to_frame()

    def _to_frame(self, now: SequenceFitted) -> pa.Table:
        fit = now.fit
        of = np.repeat(np.arange(len(now.tasks)), now.grid.lengths)
        return arrow.table(
            {
                "sequence": now.tasks.take(of).arrow(),
                "position": now.grid.begins,
                "label": now.tags.names.take(fit.codes.astype(np.int64)).arrow(),
                "confidence": fit.confidence,
            }
        )

    def _skills(self) -> Columns:
        # Precision: share of the worker's spans that match an aggregated span (position and type). Recall: share of the
        # aggregated spans in the worker's sequences that the worker marked. NaN if the denominator is zero.
        fit = self._fitted().fit
        marked, aggregated, both = fit.spans.T.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = {
                "skill": 2 * both / (marked + aggregated),
                "precision": both / marked,
                "recall": both / aggregated,
            }
        return scores | {"n_spans": fit.spans[:, 0]}

    def _one_row_each(self) -> pa.Table:
        now = self._fitted()
        columns = {"sequence": now.tasks.arrow(), "n_tokens": now.grid.lengths, "confidence": self.confidence_}
        return arrow.table(columns)

    def _more_of_tasks(self) -> Columns:
        now = self._fitted()
        sequence = np.searchsorted(now.grid.starts, now.fit.segments.starts, side="right") - 1
        return {"n_spans": np.bincount(sequence, minlength=len(now.tasks))}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        now = self._fitted()
        tokens = slice(*now.grid.starts[place : place + 2])
        tags = dict(zip(now.grid.begins[tokens].tolist(), self.tags_[tokens].tolist(), strict=True))
        worker_tags = zip(rows.column("position").to_pylist(), rows.column("label").to_pylist(), strict=True)
        return {"agreement": np.array([float(tags.get(position) == label) for position, label in worker_tags])}

    # --------------------------------------------------------------------------------------------- other forms

    def to_conll(
        self, path: str | os.PathLike[str], *, words: Mapping[Any, Any] | None = None, scheme: str = "bio"
    ) -> None:
        """Write a CoNLL file: one token per line (word, tag) and an empty line after each sequence.

        Parameters
        ----------
        path : str or path-like
            Output file. It is written atomically.
        words : mapping of sequence id to list of words, optional
            One word per token. By default the first column holds positions.
        scheme : {"bio", "bilou", "bioes", "io"}, default "bio"
            Tagging scheme of the file.
        """
        from manyhands.sequences.export import write_conll

        self._fitted()
        write_conll(self._fitted(), path, words, scheme)

    def to_json(self) -> list[dict[str, Any]]:
        """Return one dictionary per sequence, ready for ``json.dump``: its id and its spans with probabilities."""
        from manyhands.sequences.export import as_json

        now = self._fitted()
        return as_json(now, _spans(now))

    def to_spacy(self, texts: Mapping[Any, str]) -> list[dict[str, Any]]:
        """Return one dictionary per sequence in the format of Prodigy and spaCy: ``text`` and character ``spans``.

        Parameters
        ----------
        texts : mapping of sequence id to str
            Text of each sequence. Positions of the table must be characters: build the table with `texts` or `tokens`.
        """
        from manyhands.sequences.export import as_spacy

        now = self._fitted()
        return as_spacy(now, _spans(now), texts)


def _spans(now: SequenceFitted) -> pa.Table:
    """Aggregated spans as an Arrow table."""
    segments = now.fit.segments
    sequence = np.searchsorted(now.grid.starts, segments.starts, side="right") - 1
    return arrow.table(
        {
            "sequence": now.tasks.take(sequence).arrow(),
            "start": now.grid.begins[segments.starts],
            "end": now.grid.ends[segments.ends - 1],
            "tag": Names(now.tags.types.values).take(segments.types).arrow(),
            "probability": segments.probability,
            "start_probability": segments.start_probability,
            "end_probability": segments.end_probability,
        }
    )


def count_matches(votes: Sequences, codes: Tokens) -> Ints:
    """Per worker: spans marked, aggregated spans in the sequences read, spans in both; shape (n_workers, 3)."""
    sequences, workers, offsets, tags = votes.readings()
    firsts = np.zeros(len(tags) + 1, np.bool_)
    firsts[offsets] = True
    starts, ends, types = runs(votes._tags, tags, firsts[:-1])
    reading = np.searchsorted(offsets, starts, side="right") - 1
    shift = votes._grid.starts[sequences[reading]] - offsets[reading]
    aggregated = runs(votes._tags, codes, votes._grid.firsts())
    per_sequence = np.bincount(
        np.searchsorted(votes._grid.starts, aggregated[0], side="right") - 1, minlength=votes.n_tasks
    )
    both = is_among((starts + shift, ends + shift, types), aggregated)
    m = votes.n_workers
    counts = [
        np.bincount(workers[reading], minlength=m),
        np.bincount(workers, weights=per_sequence[sequences], minlength=m),
        np.bincount(workers[reading][both], minlength=m),
    ]
    return np.stack(counts, axis=1).astype(np.int64)


def is_among(spans: tuple[Ints, Ints, Ints], others: tuple[Ints, Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Return which spans (start, end, type) occur in `others`, which must be sorted and free of overlaps."""
    starts, ends, types = others
    if not len(starts):
        return np.zeros(len(spans[0]), np.bool_)
    at = np.minimum(np.searchsorted(starts, spans[0]), len(starts) - 1)
    return np.asarray((starts[at] == spans[0]) & (ends[at] == spans[1]) & (types[at] == spans[2]))
