"""Verdicts on one criterion, and what is computed from them once: consensus, features, predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural
from manyhands._base.estimator import Array
from manyhands.audit.dependence import dependence
from manyhands.audit.effective import EffectiveNumber, from_errors
from manyhands.categorical import Consensus
from manyhands.categorical.table import Annotations
from manyhands.errors import GoldWarning, OverlapWarning
from manyhands.judges.estimates import FEWEST, Design, predict
from manyhands.judges.verdicts import Encoded
from manyhands.numeric import GaussianCrowd
from manyhands.numeric.table import Ratings

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

#: Labels from which errors are measured rather than estimated from the verdicts.
_MEASURED_FROM = 30
#: Verdicts that spread less are constant.
TINY = 1e-12


@dataclass(frozen=True)
class Part:
    """Verdicts on one criterion with everything that is computed from them once."""

    data: Encoded
    families: dict[Any, Any]
    seed: int

    @cached_property
    def valid(self) -> Marks:
        """Which verdicts could be read."""
        return ~np.isnan(self.data.value)

    @cached_property
    def votes(self) -> Annotations:
        """Verdicts as classes; numbers by whether they are above the judge's median."""
        data, valid = self.data, self.valid
        label = data.label
        n_classes = max(len(data.classes), 2)
        if not data.is_classes:
            label, n_classes = np.zeros(len(data.item), np.int64), 2
            for code in range(data.n_judges):
                mine = valid & (data.judge == code)
                label[mine] = data.value[mine] > np.median(data.value[mine]) if mine.any() else 0
        return Annotations.from_codes(
            data.item[valid],
            data.judge[valid],
            label[valid],
            n_tasks=data.n_items,
            n_workers=data.n_judges,
            n_classes=n_classes,
        )

    @cached_property
    def alone(self) -> Consensus:
        """The consensus of the judges without human labels."""
        with warnings.catch_warnings():
            # The panel itself warns of one judge and of repeated verdicts.
            warnings.simplefilter("ignore", OverlapWarning)
            return Consensus(panel=True).fit(self.votes)

    @cached_property
    def consensus(self) -> Array:
        """What the judges together say of each item, in units of the score, without human labels."""
        data, valid = self.data, self.valid
        if data.is_classes:
            return np.asarray(self.alone.posterior_[:, : len(data.classes)] @ data.worth)
        value = data.value[valid]
        if data.several_scales:
            value = _on_one_scale(value, data.judge[valid], data.n_judges)
        ratings = Ratings.from_arrays(data.item[valid], data.judge[valid], value)
        if len(np.unique(data.judge[valid])) < 2:
            fitted = np.bincount(data.item[valid], value, data.n_items)
            counts = np.bincount(data.item[valid], minlength=data.n_items)
            values, there = fitted / np.maximum(counts, 1), np.flatnonzero(counts)
            values = values[there]
        else:
            model = GaussianCrowd().fit(ratings)
            values, there = model.values_, np.asarray(model.tasks_, np.int64)
        out = np.full(data.n_items, float(np.mean(values)))
        out[there] = values
        return out

    @cached_property
    def features(self) -> Features:
        """Standardized verdicts and consensus."""
        return Features.of(self.data, self.valid, self.consensus)

    @cached_property
    def gold(self) -> tuple[Ints, Array, Array]:
        """Labeled items, their mean label and weight."""
        return self.data.gold.per_item()

    def labeled(self, mask: Marks | None = None) -> tuple[Ints, Array, Ints, Design]:
        """Labeled items within a mask, their labels, the other items, and how labels were drawn."""
        data = self.data
        item, y, weight = self.gold
        mask = np.ones(data.n_items, np.bool_) if mask is None else mask
        keep = mask[item]
        item, y, weight = item[keep], y[keep], weight[keep]
        rest = mask.copy()
        rest[item] = False
        others = np.flatnonzero(rest)
        # Strata without a label have no estimate of their own; they count with the rest.
        strata = np.where(
            np.isin(data.strata, data.strata[item]), data.strata, data.strata[item][0] if len(item) else 0
        )
        design = Design(weight, strata[item], data.clusters[item], strata[others], data.clusters[others])
        return item, y, others, design

    def predicted(self, mask: Marks | None = None) -> tuple[Array, Array]:
        """Predictions of labeled items, out of fold, and of the others."""
        item, y, others, design = self.labeled(mask)
        features = self.features
        return predict(features.rows(item), partial(times, features, others), len(others), y, design, self.data.bounds)

    def need_gold(self, what: str) -> None:
        """Raise where there are too few human labels."""
        if len(self.gold[0]) < 2:
            n = plural(len(self.gold[0]), "human label")
            raise ValueError(
                f"{what} needs human labels ({n} given): judges alone cannot show how wrong they are; pass gold= with "
                f"{FEWEST} or more labels of a random sample of the items"
            )

    @property
    def _once(self) -> Marks:
        """Verdicts, each comparison of two systems once."""
        data = self.data
        if not data.mirrored:
            return np.ones(len(data.item), np.bool_)
        position = data.extra["position"]
        return np.asarray(np.array(position.names)[position.codes] == 1)

    @cached_property
    def alike(self) -> bool:
        """Whether several judges gave the same verdict on every item."""
        data = self.data
        item, value = data.item[self.valid], data.value[self.valid]
        low, high = np.full(data.n_items, np.inf), np.full(data.n_items, -np.inf)
        np.minimum.at(low, item, value)
        np.maximum.at(high, item, value)
        several = np.bincount(item, minlength=data.n_items) > 1
        return data.n_judges > 1 and bool(several.any()) and not bool((high[several] > low[several]).any())

    @cached_property
    def effective(self) -> EffectiveNumber | None:
        """How many independent judges hold the same evidence, of those who gave any; None for one."""
        data = self.data
        names, judge_of = np.unique(data.judge[self.valid], return_inverse=True)
        n = len(names)
        if n < 2:
            return None
        if self.alike:
            # Whether they are right or wrong, there is one opinion.
            return EffectiveNumber(float(n), 1.0, 1.0, 1.0, 1.0, 0.0, data.n_items, measured=False)
        item, y, _ = self.gold
        if len(item) >= _MEASURED_FROM:
            place = np.full(data.n_items, -1, np.int64)
            place[item] = np.arange(len(item))
            keep = (place[data.item[self.valid]] >= 0) & self._once[self.valid]
            rows, judge = np.flatnonzero(self.valid)[keep], judge_of[keep].astype(np.int64)
            at = place[data.item[rows]]
            if data.is_classes:
                strata = self.gold_class
                wrong = (data.label[rows] != strata[at]).astype(np.float64)
            else:
                strata = np.zeros(len(item), np.int64)
                wrong = _residuals(data.value[rows], y[at], judge, n)
            measured = from_errors(at, judge, wrong, strata, n, seed=self.seed)
            if measured is not None:
                return measured
        votes = self.votes
        if n < data.n_judges:
            tasks, judges, labels = votes.table.columns()
            votes = Annotations.from_codes(
                tasks,
                np.searchsorted(names, judges),
                labels,
                n_tasks=data.n_items,
                n_workers=n,
                n_classes=votes.n_classes,
            )
        return dependence(votes, seed=self.seed).effective_annotators

    @cached_property
    def gold_class(self) -> Ints:
        """The class that most people gave each labeled item."""
        gold = self.data.gold
        items, code = np.unique(gold.item, return_inverse=True)
        counts = np.zeros((len(items), len(self.data.classes)))
        np.add.at(counts, (code, gold.label), 1.0)
        return np.asarray(counts.argmax(axis=1), np.int64)

    @cached_property
    def fused(self) -> Consensus:
        """The consensus of judges and human labels."""
        item = self.gold[0]
        if not len(item):
            return self.alone
        with warnings.catch_warnings():
            # What human labels contradict is in the frame of judges.
            warnings.simplefilter("ignore", GoldWarning)
            warnings.simplefilter("ignore", OverlapWarning)
            return Consensus(panel=True, gold=(item, self.gold_class)).fit(self.votes)


@dataclass(frozen=True)
class Features:
    """Standardized verdicts, sparse, and the judges' consensus, per item."""

    item: Ints
    judge: Ints
    value: Array
    consensus: Array
    n_judges: int

    @classmethod
    def of(cls, data: Encoded, valid: Marks, consensus: Array) -> Features:
        """Standardize verdicts of each judge over all items; repeated verdicts are averaged, missing ones are 0."""
        pair = data.item[valid] * data.n_judges + data.judge[valid]
        place, inverse = np.unique(pair, return_inverse=True)
        value = np.bincount(inverse, data.value[valid]) / np.bincount(inverse)
        item, judge = place // data.n_judges, place % data.n_judges
        size = np.maximum(np.bincount(judge, minlength=data.n_judges), 1)
        value = value - (np.bincount(judge, value, data.n_judges) / size)[judge]
        scale = np.sqrt(np.bincount(judge, value**2, data.n_judges) / size)
        value = np.divide(value, scale[judge], out=np.zeros_like(value), where=scale[judge] > TINY)
        spread = consensus.std()
        center = consensus - consensus.mean()
        return cls(item, judge, value, center / spread if spread > TINY else 0 * center, data.n_judges)

    def rows(self, items: Ints) -> Array:
        """Features of some items, (n_items, 1 + n_judges)."""
        place = np.full(len(self.consensus), -1, np.int64)
        place[items] = np.arange(len(items))
        keep = place[self.item] >= 0
        out = np.zeros((len(items), 1 + self.n_judges))
        out[:, 0] = self.consensus[items]
        out[place[self.item[keep]], 1 + self.judge[keep]] = self.value[keep]
        return out

    def times(self, slope: Array) -> Array:
        """Features of all items times coefficients."""
        return np.asarray(
            slope[0] * self.consensus + np.bincount(self.item, self.value * slope[1 + self.judge], len(self.consensus))
        )


def _on_one_scale(value: Array, judge: Ints, n_judges: int) -> Array:
    """Scores with the same mean and standard deviation for every judge: the medians over judges."""
    size = np.bincount(judge, minlength=n_judges)
    there = np.maximum(size, 1)
    mean = np.bincount(judge, value, n_judges) / there
    spread = np.sqrt(np.bincount(judge, (value - mean[judge]) ** 2, n_judges) / there)
    scale = np.where(spread > TINY, spread, 1.0)
    outcome = (value - mean[judge]) / scale[judge]
    return np.asarray(np.median(mean[size > 0]) + np.median(scale[size > 0]) * outcome)


def _residuals(value: Array, truth: Array, judge: Ints, n_judges: int) -> Array:
    """What remains of scores after a straight line through the truth, per judge."""
    out = np.zeros(len(value))
    for code in range(n_judges):
        mine = judge == code
        if mine.sum() < 3:
            continue
        x = truth[mine] - truth[mine].mean()
        slope = float(x @ value[mine] / (x @ x)) if x @ x > TINY else 0.0
        out[mine] = value[mine] - value[mine].mean() - slope * x
    return out


def times(features: Features, items: Ints, slope: Array) -> Array:
    """Features of some items times coefficients."""
    return features.times(slope)[items]
