"""A log and the independent-worker model that all audits compare it with, fitted once."""

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
    """A log and its model, which is fitted on first use unless it is fitted already."""

    votes: Annotations
    model: HierarchicalDawidSkene = field(default_factory=HierarchicalDawidSkene)
    #: Whether several audits share the crowd: all pairs of workers are then compared once and kept.
    shared: bool = False
    _compared: dict[tuple[int, float], Excess] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def fit(self) -> CrowdFit:
        """Fit of the model, without its warnings, which audits repeat among their own."""
        fit = self.model._fit(self.votes, None) if self.model._state is None else self.model._state.fit
        assert isinstance(fit, CrowdFit)
        return fit

    @cached_property
    def beliefs(self) -> Beliefs:
        """Posterior and confusion matrices to compare pairs with; refitted only if some annotations do not count."""
        return beliefs(self.votes, fitted=lambda: self.fit)

    def pairs(
        self, *, min_overlap: int, share: float | None = None, most: float = 1.0, progress: Callback | None = None
    ) -> Excess:
        """Compare pairs of workers, see `pair_excess`; with `share=None`, p-values are for any share."""
        for (overlap, excused), excess in self._compared.items():
            if overlap == min_overlap and share in (None, excused):
                return excess
        excused = share or 0.0
        excess = pair_excess(
            self.beliefs,
            min_overlap=min_overlap,
            share=excused,
            most=1.0 if self.shared else most,
            progress=progress,
        )
        if self.shared:
            self._compared[min_overlap, excused] = excess
        return excess


def as_crowd(votes: Any) -> Crowd:
    """Return the crowd that audits share, or make one from annotations."""
    return votes if isinstance(votes, Crowd) else Crowd(as_annotations(votes))
