"""What all aggregators of sequences share: a tag for each token, segments, how workers compare with them, files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, Fit, TaskEstimator
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

    starts: Ints
    ends: Ints
    types: Ints
    probability: Array
    start_probability: Array
    end_probability: Array


@dataclass(frozen=True, kw_only=True)
class SequenceFit(Fit):
    """What an aggregator learns from a table of sequences."""

    #: Probability of each tag for each token, (n_tokens, n_tags).
    posterior: Array
    #: The tag that was chosen for each token; each may follow the one before.
    codes: Tokens
    segments: Segments
    #: For each worker the number of spans marked, of those found where the worker read, and of those that are both.
    spans: Ints

    @property
    def confidence(self) -> Array:
        """Probability of the tag of each token, (n_tokens,)."""
        return self.posterior[np.arange(len(self.codes)), self.codes]


class SequenceAggregator(TaskEstimator[Sequences, SequenceFit]):
    """Base of all aggregators of sequences: a subclass gives ``_fit``, which maps a table to a `SequenceFit`."""

    _kind: ClassVar[str] = "sequences"
    _file_kind: ClassVar[str] = "sequence model"
    _answer: ClassVar[str] = "tags_"
    _several_rows: ClassVar[bool] = True
    _grid: Grid
    _tags: Tags

    def _settle(self, result: SequenceFit, votes: Sequences) -> None:
        super()._settle(result, votes)
        self._grid, self._tags = votes._grid, votes._tags

    def _check_room(self, votes: Sequences) -> None:
        needed = 3 * 8 * votes.n_tokens * len(votes._tags)
        check_memory(needed, f"{votes.n_tokens:,} tokens of {len(votes._tags)} tags", "take a part of the sequences")

    # ----------------------------------------------------------------------------------------------- results

    @property
    def sequences_(self) -> npt.NDArray[Any]:
        """Names of the sequences, in the order of all results about them; the same as :attr:`tasks_`."""
        self._fitted()
        return self._tasks.values

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """All tags that a token can have, in the order of the columns of :attr:`posterior_`."""
        self._fitted()
        return self._tags.names.values

    @property
    def tags_(self) -> npt.NDArray[Any]:
        """The tag of each token, those of one sequence after the other, (n_tokens,); each may follow the one before."""
        fit = self._fitted()
        now = self._snapshot()
        return now._tags.names.values[fit.codes]

    @property
    def confidence_(self) -> Array:
        """Probability of the least certain tag of each sequence, (n_sequences,).

        :meth:`to_frame` has the probability of every tag.
        """
        fit = self._fitted()
        return np.minimum.reduceat(fit.confidence, self._snapshot()._grid.starts[:-1])

    @property
    def posterior_(self) -> Array:
        """Probability of each tag for each token, (n_tokens, n_tags)."""
        return self._fitted().posterior

    @property
    def spans_(self) -> pa.Table:
        """The spans that were found, as an Arrow table, or runs of a class where tags have no spans.

        Columns: sequence, start, end (the first place behind the span), tag, ``probability`` of exactly this span,
        ``start_probability`` and ``end_probability`` of a span of that type that begins, and that ends, where it does.
        """
        fit = self._fitted()
        now = self._snapshot()
        found = fit.segments
        sequence = np.searchsorted(now._grid.starts, found.starts, side="right") - 1
        return arrow.table(
            {
                "sequence": now._tasks.take(sequence).arrow(),
                "start": now._grid.begins[found.starts],
                "end": now._grid.ends[found.ends - 1],
                "tag": Names(now._tags.types.values).take(found.types).arrow(),
                "probability": found.probability,
                "start_probability": found.start_probability,
                "end_probability": found.end_probability,
            }
        )

    def to_frame(self) -> pa.Table:
        """Return sequence, position, label and its probability (confidence) of each token, as an Arrow table."""
        fit = self._fitted()
        now = self._snapshot()
        of = np.repeat(np.arange(len(now._tasks)), now._grid.lengths)
        return arrow.table(
            {
                "sequence": now._tasks.take(of).arrow(),
                "position": now._grid.begins,
                "label": now._tags.names.take(fit.codes.astype(np.int64)).arrow(),
                "confidence": fit.confidence,
            }
        )

    def _skills(self) -> Columns:
        # Precision is the share of a worker's spans that are among those found, place and type; recall the share of
        # those found, in what the worker read, that are the worker's. NaN where there is nothing to compare.
        fit = self._fitted()
        marked, found, both = fit.spans.T.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = {"skill": 2 * both / (marked + found), "precision": both / marked, "recall": both / found}
        return scores | {"n_spans": fit.spans[:, 0]}

    def _one_row_each(self) -> pa.Table:
        columns = {"sequence": self._tasks.arrow(), "n_tokens": self._grid.lengths, "confidence": self.confidence_}
        return arrow.table(columns)

    def _more_of_tasks(self) -> Columns:
        sequence = np.searchsorted(self._grid.starts, self._fitted().segments.starts, side="right") - 1
        return {"n_spans": np.bincount(sequence, minlength=len(self._tasks))}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        tokens = slice(*self._grid.starts[place : place + 2])
        decided = dict(zip(self._grid.begins[tokens].tolist(), self.tags_[tokens].tolist(), strict=True))
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
        write_conll(self._snapshot(), path, words, scheme)

    def to_json(self) -> list[dict[str, Any]]:
        """Return one dictionary a sequence, ready for ``json.dump``: its name, and its spans with probabilities."""
        from manyhands.sequences.export import as_json

        self._fitted()
        return as_json(self._snapshot())

    def to_spacy(self, texts: Mapping[Any, str]) -> list[dict[str, Any]]:
        """Return one dictionary a sequence in the form of Prodigy and spaCy: ``text``, and ``spans`` by characters.

        Parameters
        ----------
        texts
            The text of each sequence. Places of the table must be characters: it was made with `texts` or `tokens`.
        """
        from manyhands.sequences.export import as_spacy

        self._fitted()
        return as_spacy(self._snapshot(), texts)

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        arrays: dict[str, npt.NDArray[Any]] = {"posterior": fit.posterior, "codes": fit.codes, "spans": fit.spans}
        arrays |= {f"segment_{one.name}": getattr(fit.segments, one.name) for one in fields(Segments)}
        arrays |= {"starts": self._grid.starts, "begins": self._grid.begins, "ends": self._grid.ends}
        arrays |= {"has_spans": np.array([self._tags.spans], np.bool_)} | persist.pack_names("types", self._tags.types)
        return arrays | {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        self._tags = Tags(content.names("types"), bool(content.array("has_spans", np.bool_, shape=(1,))[0]))
        starts, begins = content.array("starts", np.int64, ndim=1), content.array("begins", np.int64, ndim=1)
        ends = content.array("ends", np.int64, shape=begins.shape)
        n, k = len(begins), len(self._tags)
        posterior = content.array("posterior", np.float64, shape=(n, k))
        codes = content.array("codes", np.uint16, shape=(n,))
        spans = content.array("spans", np.int64, shape=(len(self._workers), 3))
        parts = {
            one.name: content.array(
                f"segment_{one.name}", np.float64 if "probability" in one.name else np.int64, ndim=1
            )
            for one in fields(Segments)
        }
        segments = Segments(**parts)
        sound = len(starts) == len(self._tasks) + 1 and starts[0] == 0 and starts[-1] == n
        sound = sound and (np.diff(starts) > 0).all() and (codes < k).all() and (spans >= 0).all()
        sound = sound and len({len(part) for part in parts.values()}) == 1
        inside = (segments.starts >= 0) & (segments.starts < segments.ends) & (segments.ends <= n)
        sound = sound and (inside & (segments.types >= 0) & (segments.types < len(self._tags.types))).all()
        if not sound:
            raise content.damaged("its tags are not those of its tokens")
        for part in (posterior, *(parts[name] for name in parts if "probability" in name)):
            if not ((part >= 0) & (part <= 1 + 1e-9)).all():
                raise content.damaged("it holds probabilities that are none")
        self._grid = Grid(starts, begins, ends)
        self._take_learnt(content, {"n": n, "m": len(self._workers), "k": k})
        self._result = SequenceFit(posterior=posterior, codes=codes, segments=segments, spans=spans, **course)


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
