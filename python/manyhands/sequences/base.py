"""What all aggregators of sequences share: a tag for each token, segments, how workers compare with them, files."""

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
    """Spans that were found, in a line of the tokens of all sequences, or runs of a class where there are no spans.

    ``starts`` and ``ends`` are tokens, the latter the first behind. Probabilities are those of exactly this span, that
    one of its type begins where it does, and that one of its type ends where it does.
    """

    starts: Ints = field(metadata=codes("s", "t"))
    ends: Ints = field(metadata=codes("s"))
    types: Ints = field(metadata=codes("s", "y"))
    probability: Array = field(metadata=probabilities("s"))
    start_probability: Array = field(metadata=probabilities("s"))
    end_probability: Array = field(metadata=probabilities("s"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where spans end before they begin, or behind the last token."""
        if (self.starts >= self.ends).any() or (self.ends > sizes["t"]).any():
            raise ValueError("its segments are not runs of its tokens")


@dataclass(frozen=True, kw_only=True)
class SequenceFit(Fit):
    """What an aggregator learns from a table of sequences."""

    #: Probability of each tag for each token, (n_tokens, n_tags).
    posterior: Array = field(metadata=probabilities("tk"))
    #: For each worker the number of spans marked, of those found where the worker read, and of those that are both.
    spans: Ints = field(metadata=codes("m3"))
    #: The tag that was chosen for each token; each may follow the one before.
    codes: Tokens = field(metadata=codes("t", "k", dtypes=(np.uint16,)))
    segments: Segments = field(metadata=part(Segments))

    @property
    def confidence(self) -> Array:
        """Probability of the tag of each token, (n_tokens,)."""
        return self.posterior[np.arange(len(self.codes)), self.codes]


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceFitted(TaskFitted[SequenceFit]):
    """A fit of sequences, where their tokens are, and what can be said of them."""

    grid: Grid = field(metadata=part(Grid))
    tags: Tags = field(metadata=part(Tags))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where tags are not those of the tokens."""
        starts = self.grid.starts
        if starts[-1] != sizes["t"] or (np.diff(starts) <= 0).any() or sizes["k"] != len(self.tags):
            raise ValueError("its tags are not those of its tokens")


class SequenceAggregator(TaskEstimator[Sequences, SequenceFit, SequenceFitted]):
    """Base of all aggregators of sequences: a subclass gives ``_fit``, which maps a table to a `SequenceFit`."""

    _kind: ClassVar[str] = "sequences"
    _file_kind: ClassVar[str] = "sequence model"
    _answer: ClassVar[str] = "tags_"
    _several_rows: ClassVar[bool] = True
    _fit_type: ClassVar[type[Fit]] = SequenceFit
    _fitted_type: ClassVar[type[SequenceFitted]] = SequenceFitted

    def _check_room(self, votes: Sequences) -> None:
        needed = 3 * 8 * votes.n_tokens * len(votes._tags)
        check_memory(needed, f"{votes.n_tokens:,} tokens of {len(votes._tags)} tags", "take a part of the sequences")

    # ----------------------------------------------------------------------------------------------- results

    @property
    def sequences_(self) -> npt.NDArray[Any]:
        """Names of the sequences, in the order of all results about them; the same as :attr:`tasks_`."""
        return self._fitted().tasks.values

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All tags that a token can have, in the order of the columns of :attr:`posterior_`."""
        return self._fitted().tags.names.values

    @property
    def tags_(self) -> npt.NDArray[Any]:
        """The tag of each token, those of one sequence after the other, (n_tokens,); each may follow the one before."""
        now = self._fitted()
        fit = now.fit
        return now.tags.names.values[fit.codes]

    @property
    def confidence_(self) -> Array:
        """Probability of the least certain tag of each sequence, (n_sequences,).

        :meth:`to_frame` has the probability of every tag.
        """
        now = self._fitted()
        return np.minimum.reduceat(now.fit.confidence, now.grid.starts[:-1])

    @property
    def posterior_(self) -> Array:
        """Probability of each tag for each token, (n_tokens, n_tags)."""
        return self._fitted().fit.posterior

    @property
    def spans_(self) -> pa.Table:
        """The spans that were found, as an Arrow table, or runs of a class where tags have no spans.

        Columns: sequence, start, end (the first place behind the span), tag, ``probability`` of exactly this span,
        ``start_probability`` and ``end_probability`` of a span of that type that begins, and that ends, where it does.
        """
        return _spans(self._fitted())

    def to_frame(self) -> pa.Table:
        """Return sequence, position, label and its probability (confidence) of each token, as an Arrow table."""
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
        # Precision is the share of a worker's spans that are among those found, place and type; recall the share of
        # those found, in what the worker read, that are the worker's. NaN where there is nothing to compare.
        fit = self._fitted().fit
        marked, found, both = fit.spans.T.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = {"skill": 2 * both / (marked + found), "precision": both / marked, "recall": both / found}
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
        decided = dict(zip(now.grid.begins[tokens].tolist(), self.tags_[tokens].tolist(), strict=True))
        said = zip(rows.column("position").to_pylist(), rows.column("label").to_pylist(), strict=True)
        return {"agreement": np.array([float(decided.get(position) == label) for position, label in said])}

    # --------------------------------------------------------------------------------------------- other forms

    def to_conll(
        self, path: str | os.PathLike[str], *, words: Mapping[Any, Any] | None = None, scheme: str = "bio"
    ) -> None:
        """Write a file with a token a line, its word and its tag, and an empty line after each sequence.

        Parameters
        ----------
        path
            The file, which appears when it is whole.
        words
            The words of each sequence, as many as it has tokens; by default the first column holds positions.
        scheme
            How tags are written: ``"bio"``, ``"bilou"``, ``"bioes"`` or ``"io"``.
        """
        from manyhands.sequences.export import write_conll

        self._fitted()
        write_conll(self._fitted(), path, words, scheme)

    def to_json(self) -> list[dict[str, Any]]:
        """Return one dictionary a sequence, ready for ``json.dump``: its name, and its spans with probabilities."""
        from manyhands.sequences.export import as_json

        now = self._fitted()
        return as_json(now, _spans(now))

    def to_spacy(self, texts: Mapping[Any, str]) -> list[dict[str, Any]]:
        """Return one dictionary a sequence in the form of Prodigy and spaCy: ``text``, and ``spans`` by characters.

        Parameters
        ----------
        texts
            The text of each sequence. Places of the table must be characters: it was made with `texts` or `tokens`.
        """
        from manyhands.sequences.export import as_spacy

        now = self._fitted()
        return as_spacy(now, _spans(now), texts)


def _spans(now: SequenceFitted) -> pa.Table:
    """Spans of a fit, as an Arrow table."""
    found = now.fit.segments
    sequence = np.searchsorted(now.grid.starts, found.starts, side="right") - 1
    return arrow.table(
        {
            "sequence": now.tasks.take(sequence).arrow(),
            "start": now.grid.begins[found.starts],
            "end": now.grid.ends[found.ends - 1],
            "tag": Names(now.tags.types.values).take(found.types).arrow(),
            "probability": found.probability,
            "start_probability": found.start_probability,
            "end_probability": found.end_probability,
        }
    )


def compared(votes: Sequences, codes: Tokens) -> Ints:
    """For each worker the number of spans marked, of those found where the worker read, and of those that are both."""
    sequences, workers, offsets, said = votes.readings()
    firsts = np.zeros(len(said) + 1, np.bool_)
    firsts[offsets] = True
    starts, ends, types = runs(votes._tags, said, firsts[:-1])
    reading = np.searchsorted(offsets, starts, side="right") - 1
    shift = votes._grid.starts[sequences[reading]] - offsets[reading]
    found = runs(votes._tags, codes, votes._grid.firsts())
    per_sequence = np.bincount(np.searchsorted(votes._grid.starts, found[0], side="right") - 1, minlength=votes.n_tasks)
    both = is_among((starts + shift, ends + shift, types), found)
    m = votes.n_workers
    counts = [
        np.bincount(workers[reading], minlength=m),
        np.bincount(workers, weights=per_sequence[sequences], minlength=m),
        np.bincount(workers[reading][both], minlength=m),
    ]
    return np.stack(counts, axis=1).astype(np.int64)


def is_among(spans: tuple[Ints, Ints, Ints], others: tuple[Ints, Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Whether each span, as start, end and type, is one of some others; those do not overlap, and are in order."""
    starts, ends, types = others
    if not len(starts):
        return np.zeros(len(spans[0]), np.bool_)
    at = np.minimum(np.searchsorted(starts, spans[0]), len(starts) - 1)
    return np.asarray((starts[at] == spans[0]) & (ends[at] == spans[1]) & (types[at] == spans[2]))
