"""A log, and the independent workers who explain it best: fitted once for all audits that ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from manyhands._base.progress import Callback
from manyhands.categorical._excess import Beliefs, Excess, beliefs, pair_excess
from manyhands.categorical.hierarchical import CrowdFit, HierarchicalDawidSkene
from manyhands.categorical.table import Annotations, as_annotations


@dataclass(frozen=True)
class Crowd:
    """A log, and a model of it, which is fitted when an audit first asks unless it is fitted already."""

    votes: Annotations
    model: HierarchicalDawidSkene = field(default_factory=HierarchicalDawidSkene)
    #: Whether several audits will ask: pairs of workers are then compared once, and all of them kept.
    shared: bool = False
    _compared: dict[tuple[int, float], Excess] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def fit(self) -> CrowdFit:
        """What the model found; without the warnings of a fit: what is doubtful is among an audit's remarks."""
        found = self.model._fit(self.votes, None) if self.model._state is None else self.model._state.fit
        assert isinstance(found, CrowdFit)
        return found

    @cached_property
    def beliefs(self) -> Beliefs:
        """What pairs of workers are compared with; a second fit only where some annotations do not count for it."""
        return beliefs(self.votes, fitted=lambda: self.fit)

    def pairs(
        self, *, min_overlap: int, share: float | None = None, most: float = 1.0, progress: Callback | None = None
    ) -> Excess:
        """Compare pairs of workers, see `pair_excess`; p-values are of any share where it is None."""
        for (overlap, excused), found in self._compared.items():
            if overlap == min_overlap and share in (None, excused):
                return found
        excused = share or 0.0
        found = pair_excess(
            self.beliefs,
            min_overlap=min_overlap,
            share=excused,
            most=1.0 if self.shared else most,
            progress=progress,
        )
        if self.shared:
            self._compared[min_overlap, excused] = found
        return found


def as_crowd(votes: Any) -> Crowd:
    """Return a crowd that audits share, or make one of annotations."""
    return votes if isinstance(votes, Crowd) else Crowd(as_annotations(votes))
