"""A panel of judges: scores with intervals, effective number of judges, biases and failures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number, plural, preview, warn_of_data
from manyhands._base.estimator import Array
from manyhands.audit.effective import EffectiveNumber
from manyhands.audit.groups import groups
from manyhands.judges.biases import Rows, bias_rows, drift_rows, failure_rows, judge_rows
from manyhands.judges.estimates import (
    FEWEST,
    LEVEL,
    Design,
    Difference,
    Powered,
    Score,
    difference_of,
    powered_mean,
    predict,
    score_of,
)
from manyhands.judges.part import TINY, Features, Ints, Part, times
from manyhands.judges.planning import NextLabels, inclusion, systematic
from manyhands.judges.verdicts import KINDS, Coded, Encoded, encode, need_labels, split_people, table_of
from manyhands.metrics.intervals import student_quantile

if TYPE_CHECKING:
    import pyarrow as pa

#: A table as lists, which is quicker to make than one of Arrow.
Columns = dict[str, list[Any]]

#: Share of the next labels that is drawn with equal probabilities.
_EVEN = 0.5
#: The least standard deviation that a prediction leaves, as a share of the scale.
_LEAST_DOUBT = 0.05


def panel(
    verdicts: Any,
    gold: Any = None,
    *,
    task: str | None = None,
    judge: str | None = None,
    verdict: str | None = None,
    system: str | None = None,
    criterion: str | None = None,
    position: str | None = None,
    length: str | None = None,
    family: str | None = None,
    cluster: str | None = None,
    stratum: str | None = None,
    time: str | None = None,
    kind: str | None = None,
    positive: Any = None,
    values: Mapping[Any, float] | None = None,
    scale: tuple[float, float] | None = None,
    families: Mapping[Any, Any] | None = None,
    layout: str = "long",
    seed: int = 0,
) -> Panel:
    """Measure a panel of LLM judges against a few human labels.

    Use it to defend a pass rate: 50 human labels and the verdicts of several judges on all items give the score of each
    system with a 95 % interval that holds, whatever the judges get wrong.

    Parameters
    ----------
    verdicts : frame, table, mapping or paths
        One row per verdict, with columns for the task, the judge and the verdict, found by well-known names; a mapping
        ``{judge: {task: verdict}}``; :class:`~manyhands.Annotations` or :class:`~manyhands.Ratings`; or paths of files
        as :func:`manyhands.read` takes them. Verdicts are classes, grades or scores. Preferences between two systems
        have the columns ``model_a``, ``model_b`` and ``winner``. Empty verdicts and texts such as ``error`` are
        failures of the judge. The truth that a log of a tool contains, or else the verdicts of people in it
        (``annotator_kind`` is ``human``), are human labels unless `gold` is passed.
    gold : mapping, pair, frame or path, optional
        Human labels of a random sample of the items: ``task`` and ``label``, and ``system`` if the log has several. One
        label per item, or several with a column ``annotator``. A column ``probability`` has the sampling probability of
        items that were not drawn evenly, as :meth:`Panel.next_labels` writes it.
    task, judge, verdict, system, criterion, position, length, family, cluster, stratum, time : str, optional
        Names of columns that are not found by themselves. `system` is what was judged (a model or version), `cluster`
        marks items that belong together, such as the turns of a conversation; `stratum` marks strata of which the
        human labels are random samples.
    kind : {"categorical", "numeric"}, optional
        What verdicts are; by default numbers if all of them are numbers other than 0 and 1. Of a log with both, classes
        are taken.
    positive : value or list of values, optional
        The classes that count as a pass; known for names such as ``pass``, ``yes``, ``C`` and ``correct``.
    values : mapping, optional
        What each class counts for, such as ``{"C": 1, "P": 0.5, "I": 0}``.
    scale : pair of float, optional
        Least and largest score; by default those in the log.
    families : mapping, optional
        Family of each judge and system by name, for the bias of judges toward their own family.
    layout : {"long", "wide", "by-worker", "by-task"}, default "long"
        How files of verdicts are laid out, as for :func:`manyhands.read`.
    seed : int, default 0
        Seed of permutations and of :meth:`Panel.next_labels`.

    Returns
    -------
    Panel

    Raises
    ------
    ValueError
        If no verdict can be read, classes do not show which of them is a pass, scores lie outside the scale, numbers
        and classes are mixed, or no human label is for an item of the log.

    Notes
    -----
    Cost: linear in the number of verdicts. 24 judges on 5,000 items take less than two seconds for everything.

    The score is prediction-powered inference: human labels plus the difference that a cross-fitted ridge regression on
    the verdicts predicts between labeled and other items, with a weight that never does harm in expectation. The
    interval of a share is Wilson's with the effective number of labels. It covers from 20 labels on, and for shares
    from 0.05 (`docs/evidence/judges.md`).

    References
    ----------
    A. N. Angelopoulos, J. C. Duchi and T. Zrnic, "PPI++: Efficient prediction-powered inference", 2023.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(400, 6, 2, crowd="one-coin", accuracy=(0.7, 0.9), labels_per_task=6, seed=1)
    >>> human = {task: int(crowd.truth[task]) for task in range(60)}
    >>> panel = mh.judges.panel(crowd.log, gold=human)
    >>> panel.score
    <share of 1 0.488, 95 % interval 0.417–0.560; 60 human labels worth 192>
    >>> panel.effective_judges
    <6.0 of 6 annotators; 95 % interval 4.5–6.0>
    """
    column_names = {
        "task": task,
        "judge": judge,
        "verdict": verdict,
        "system": system,
        "criterion": criterion,
        "position": position,
        "length": length,
        "family": family,
        "cluster": cluster,
        "stratum": stratum,
        "time": time,
    }
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if scale is not None and not (len(scale) == 2 and scale[0] < scale[1]):
        raise ValueError(f"scale must be a pair of increasing numbers, not {scale!r}")
    log = table_of(verdicts, column_names, "the log", layout=layout, kind=kind)
    log, people = split_people(log)
    human = people if gold is None else table_of(gold, column_names, "gold", gold=True)
    if gold is not None:
        need_labels(human)
    parts = encode(log, human, kind=kind, positive=positive, values=values, scale=scale)
    pieces = {name: Part(one, dict(families or {}), int(seed)) for name, one in parts.items()}
    outcome = Panel(pieces, log.source)
    for remark in outcome.warnings:
        warn_of_data(remark)
    return outcome


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """Result of :func:`panel`.

    If the log has several criteria, ``panel["helpful"]`` is the panel of one of them; `scores`, `judges_frame`,
    `biases`, `failures`, `drift` and `fused_frame` have a row per criterion without that.
    """

    _parts: dict[Any, Part]
    #: Where the verdicts come from.
    source: str = "the log"
    _memo: dict[Any, Any] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------------- the log

    @property
    def criteria(self) -> list[Any]:
        """The criteria; [None] if the log has no column of criteria."""
        return list(self._parts)

    def __getitem__(self, criterion: Any) -> Panel:
        """Return the panel of one criterion."""
        if criterion not in self._parts:
            raise KeyError(f"no criterion {criterion!r}; the log has {preview(self.criteria, 20)}")
        return Panel({criterion: self._parts[criterion]}, self.source)

    def __iter__(self) -> Any:
        """Go through the criteria."""
        return iter(self._parts)

    @property
    def judges(self) -> list[Any]:
        """The judges, in order of their names."""
        return list(dict.fromkeys(name for part in self._parts.values() for name in part.data.judges))

    @property
    def systems(self) -> list[Any]:
        """The systems that were judged; [None] if the log has no such column."""
        return list(dict.fromkeys(name for part in self._parts.values() for name in part.data.systems))

    @property
    def n_items(self) -> int:
        """Number of judged items, over all criteria."""
        return sum(part.data.n_items for part in self._parts.values())

    @property
    def n_verdicts(self) -> int:
        """Number of verdicts that could be read."""
        return sum(int(part.valid.sum()) for part in self._parts.values())

    @property
    def n_failed(self) -> int:
        """Number of verdicts that could not be read."""
        return sum(part.data.n_failed for part in self._parts.values())

    @property
    def n_gold(self) -> int:
        """Number of items with a human label."""
        return sum(len(part.gold[0]) for part in self._parts.values())

    @property
    def timed(self) -> bool:
        """Whether the log has a column of times, which `drift` needs."""
        return all("time" in part.data.extra for part in self._parts.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the log, in whole sentences."""
        outcome: list[str] = []
        for part in self._parts.values():
            outcome += part.data.warnings
            outcome += _alike(part)
            outcome += _unlabeled_strata(part)
        return tuple(dict.fromkeys(outcome))

    def _part(self, what: str) -> Part:
        if len(self._parts) > 1:
            raise ValueError(
                f"the log has {plural(len(self._parts), 'criterion', 'criteria')}: take {what} of one of them, such "
                f"as panel[{self.criteria[0]!r}].{what}, or all in frames"
            )
        return next(iter(self._parts.values()))

    # --------------------------------------------------------------------------------------------- scores

    @property
    def score(self) -> Score:
        """Share or mean over all items, with its interval, from human labels and judges.

        Raises
        ------
        ValueError
            Without human labels, or if the log has several criteria.
        """
        part = self._part("score")
        return self._score(part, None)

    def _score(self, part: Part, system: int | None) -> Score:
        key = ("score", id(part), system)
        if key not in self._memo:
            part.need_gold("a score")
            mask = None if system is None else part.data.system_of == system
            _, y, _, design = part.labeled(mask)
            at, of = part.predicted(mask) if len(y) > 1 else (y, np.zeros(0))
            data = part.data
            share = data.share and bool(np.isin(y, (0.0, 1.0)).all())
            self._memo[key] = score_of(y, at, of, design, share=share, bounds=data.bounds, what=data.what)
        outcome: Score = self._memo[key]
        return outcome

    def scores(self) -> pa.Table:
        """Return one row per criterion and system, as an Arrow table: the score, its interval and what it rests on."""
        return _frame(self._scores())

    def _scores(self) -> Columns:
        rows = []
        for name, part in self._parts.items():
            part.need_gold("a score")
            for code, system in enumerate(part.data.systems):
                mask = part.data.system_of == code
                n = len(part.labeled(mask)[0])
                row: dict[str, Any] = {"criterion": name, "system": system, "n_items": int(mask.sum()), "n_gold": n}
                one = self._score(part, code if len(part.data.systems) > 1 else None) if n >= 2 else None
                row |= {
                    "estimate": one and one.estimate,
                    "low": one and one.low,
                    "high": one and one.high,
                    "worth_labels": one and one.worth_labels,
                    "most_labels": one and one.most_labels,
                    "gold_only": one and one.gold_only[0],
                    "gold_only_low": one and one.gold_only[1],
                    "gold_only_high": one and one.gold_only[2],
                }
                rows.append(row)
        return _columns(rows, ("criterion", "system"))

    def difference(self, first: Any, second: Any) -> Difference:
        """How much higher `first` scores than `second`, with a 95 % interval.

        Items that have human labels for both systems are compared in pairs. Without two such pairs, the difference of
        the two scores is returned, with ``paired`` False and a wider interval.

        Parameters
        ----------
        first, second : value
            Names of systems.
        """
        part = self._part("difference")
        data = part.data
        names = {str(name): code for code, name in enumerate(data.systems)}
        for name in (first, second):
            if str(name) not in names:
                raise ValueError(f"no system {name!r}; the log has {preview(data.systems, 20)}")
        if str(first) == str(second):
            raise ValueError(f"a difference needs two systems, not {first!r} twice")
        part.need_gold("a difference")
        codes = names[str(first)], names[str(second)]
        places = [dict(zip(*_of_system(data, code), strict=True)) for code in codes]
        both = sorted(set(places[0]) & set(places[1]))
        one, other = (np.array([place[task] for task in both], np.int64) for place in places)
        label = np.full(data.n_items, math.nan)
        item, y, weight = part.gold
        label[item] = y
        weights = np.ones(data.n_items)
        weights[item] = weight
        reference = ~np.isnan(label[one]) & ~np.isnan(label[other]) if len(both) else np.zeros(0, np.bool_)
        if reference.sum() < 2:
            return self._unpaired(part, codes, (str(first), str(second)))
        rest = ~reference
        spread = data.bounds[1] - data.bounds[0]
        own = np.sqrt(weights[one] * weights[other])
        groups_of = (
            data.clusters[one] if len(np.unique(data.clusters)) < len(np.unique(data.task_of)) else data.task_of[one]
        )
        design = Design(
            own[reference], data.strata[one[reference]], groups_of[reference], data.strata[one[rest]], groups_of[rest]
        )
        features = part.features
        d = label[one[reference]] - label[other[reference]]
        at, of = predict(
            features.rows(one[reference]) - features.rows(other[reference]),
            lambda slope: times(features, one[rest], slope) - times(features, other[rest], slope),
            int(rest.sum()),
            d,
            design,
            (-spread, spread),
        )
        return difference_of(d, at, of, design, (str(first), str(second)), spread)

    def _unpaired(self, part: Part, codes: tuple[int, int], names: tuple[str, str]) -> Difference:
        pieces: list[Powered] = []
        for code, name in zip(codes, names, strict=True):
            mask = part.data.system_of == code
            _, y, _, design = part.labeled(mask)
            if len(y) < 2:
                raise ValueError(f"system {name!r} has {plural(len(y), 'human label')}; a difference needs two or more")
            pieces.append(powered_mean(y, *part.predicted(mask), design))
        spread = part.data.bounds[1] - part.data.bounds[0]
        # A constant sample still leaves room for one label that differs.
        errors = [max(one.ratio * one.variance, (spread / (min(one.n_simple, one.n_most) + 2)) ** 2) for one in pieces]
        t = student_quantile(LEVEL, min(one.freedom for one in pieces))
        middle, half = pieces[0].mean - pieces[1].mean, t * math.sqrt(sum(errors))
        n = sum(len(part.labeled(part.data.system_of == code)[0]) for code in codes)
        remark = "No two items with human labels for both systems: labeling the same items for both would be sharper."
        return Difference(
            estimate=middle,
            low=max(middle - half, -spread),
            high=min(middle + half, spread),
            n_gold=n,
            worth_labels=n / float(np.mean([one.ratio for one in pieces])),
            paired=False,
            first=names[0],
            second=names[1],
            warnings=(remark,),
        )

    # --------------------------------------------------------------------------------------------- judges

    @property
    def effective_judges(self) -> EffectiveNumber | None:
        """How many independent judges hold the same evidence; None for a single judge.

        Measured from 30 human labels on; otherwise an upper bound, because errors that all judges share look like the
        truth.
        """
        return self._part("effective_judges").effective

    @property
    def families(self) -> list[list[Any]]:
        """Judges whose verdicts depend on one another beyond the truth, as lists of names."""
        part = self._part("families")
        if part.data.n_judges < 3:
            return []
        outcome = groups(part.votes).groups
        return [[part.data.judges[int(code)] for code in group] for group in outcome]

    def judges_frame(self) -> pa.Table:
        """Return one row per judge and criterion: verdicts, failures, agreement with human labels, and bias.

        ``accuracy`` (share of verdicts equal to the human label), or ``correlation`` of scores, is measured on the
        labeled items, with ``low`` and ``high``, its 95 % interval. Judges of passes have ``true_positive_rate`` and
        ``true_negative_rate``; scores have ``error`` (root mean squared). ``bias`` is how much more than the human
        labels the judge gives on average. Each has its interval in the columns ``…_low`` and ``…_high``. ``skill`` and
        ``skill_error`` are those of :class:`Consensus`.
        """
        return _frame(self._rows(judge_rows, "family"))

    def _rows(self, of_part: Callable[[Part, Any], Rows], *texts: str) -> Columns:
        """Columns of what a function returns of each criterion; those in `texts` have names."""
        rows = [row for name, part in self._parts.items() for row in of_part(part, name)]
        return _columns(rows, ("criterion", "judge", *texts))

    def confusion(self, judge: Any) -> pa.Table:
        """Count a judge's verdicts on labeled items: one row per human label, one column per verdict."""
        return _frame(self._confusion(judge))

    def _confusion(self, judge: Any) -> Columns:
        part = self._part("confusion")
        data = part.data
        if not data.is_classes:
            raise ValueError("a confusion matrix is for classes; the verdicts are numbers")
        if judge not in data.judges:
            raise ValueError(f"no judge {judge!r}; the log has {preview(data.judges, 20)}")
        part.need_gold("a confusion matrix")
        place = np.full(data.n_items, -1, np.int64)
        place[part.gold[0]] = part.gold_class
        rows = (data.judge == data.judges.index(judge)) & (place[data.item] >= 0)
        table = np.zeros((len(data.classes), len(data.classes) + 1), np.int64)
        reply = np.where(data.label[rows] < 0, len(data.classes), data.label[rows])
        np.add.at(table, (place[data.item[rows]], reply), 1)
        columns: dict[str, Any] = {"human": [str(one) for one in data.classes]}
        columns |= {str(one): table[:, code].tolist() for code, one in enumerate(data.classes)}
        return columns | {"(failed)": table[:, -1].tolist()}

    def biases(self) -> pa.Table:
        """Test whether verdicts depend on position, length and the judge's own family; one row per test.

        Verdicts are compared with the human label where there is one, and otherwise with the other judges' consensus.
        ``effect`` is in units of the score: per later position, per doubling of the length, for the own family.
        ``found`` is whether it differs from 0 at a false-discovery rate of 5 % (Benjamini & Hochberg). The row of judge
        "(all)" is measured on human labels alone: a bias that all judges share.
        """
        return _frame(self._rows(bias_rows, "bias"))

    def failures(self) -> pa.Table:
        """Count failed and missing verdicts: one row per judge, and where they fall (system, class, long items)."""
        return _frame(self._rows(failure_rows, "where"))

    def drift(self) -> pa.Table:
        """Test whether judges change over time, relative to each other; needs a column of times."""
        return _frame(self._rows(drift_rows))

    # --------------------------------------------------------------------------------------------- answers

    def fused_frame(self) -> pa.Table:
        """Return one row per item: the panel's verdict, corrected by human labels, and how sure it is.

        Classes have ``verdict`` and ``confidence``; scores have ``value`` and ``error``. ``human`` marks items with a
        human label.
        """
        frames = []
        for name, part in self._parts.items():
            data = part.data
            reference = np.zeros(data.n_items, np.bool_)
            reference[part.gold[0]] = True
            columns: dict[str, Any] = {} if name is None else {"criterion": [str(name)] * data.n_items}
            columns |= {"task": Coded(data.tasks, data.task_of).values()}
            if len(data.systems) > 1:
                columns["system"] = Coded(data.systems, data.system_of).values()
            if data.is_classes:
                posterior = part.fused.posterior_
                best = posterior.argmax(axis=1)
                columns["verdict"] = Coded([str(one) for one in data.classes] + ["?"], best).values()
                columns["confidence"] = posterior.max(axis=1)
            else:
                value, error = self._values(part)
                columns |= {"value": value, "error": error}
            columns |= {"n_verdicts": np.bincount(data.item[part.valid], minlength=data.n_items), "human": reference}
            frames.append(arrow.table(columns))
        import pyarrow as pa

        return pa.concat_tables(frames, promote_options="default")

    def _values(self, part: Part) -> tuple[Array, Array]:
        item, y, others, _ = part.labeled()
        if len(item) < FEWEST:
            spread = float(np.std(part.consensus))
            return part.consensus, np.full(part.data.n_items, spread)
        at, of = part.predicted()
        value = np.empty(part.data.n_items)
        value[item], value[others] = y, of
        error = np.full(part.data.n_items, float(np.sqrt(np.mean((y - at) ** 2))))
        error[item] = 0.0
        return value, error

    @property
    def soft_labels_(self) -> Array:
        """What share of people would give each class to each item, (n_items, n_classes), from all human labels.

        Several labels per item keep their disagreement. See :meth:`soft_labels` for another population.
        """
        return self.soft_labels()

    def soft_labels(self, population: Mapping[Any, float] | None = None) -> Array:
        """Distribution over classes that a population would give, per item, in the order of ``classes``.

        Parameters
        ----------
        population : mapping, optional
            Share of each group in the population, by the values of gold's column ``group``. By default people count as
            they occur in gold.

        Returns
        -------
        array of shape (n_items, n_classes)
            Predicted from the verdicts by a cross-fitted regression of every human label; labeled items out of fold.
        """
        part = self._part("soft_labels")
        data = part.data
        if not data.is_classes:
            raise ValueError("soft labels are for classes; the verdicts are numbers")
        part.need_gold("a distribution of what people say")
        gold = data.gold
        weight = _population(gold.group, population, len(gold))
        _, code = np.unique(gold.item, return_inverse=True)
        total = np.bincount(code, weight)
        item, _, others, design = part.labeled()
        out = np.zeros((data.n_items, len(data.classes)))
        features = part.features
        posterior = part.alone.posterior_[:, : len(data.classes)]
        for place in range(len(data.classes)):
            share = np.bincount(code, weight * (gold.label == place)) / total
            own = posterior[:, place] - posterior[:, place].mean()
            spread = own.std()
            mine = Features(
                features.item,
                features.judge,
                features.value,
                own / spread if spread > TINY else 0 * own,
                features.n_judges,
            )
            others_of = partial(times, mine, others)
            at, of = predict(mine.rows(item), others_of, len(others), share, design, (0.0, 1.0))
            out[item, place], out[others, place] = at, of
        out = np.maximum(out, 1e-3)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    @property
    def classes(self) -> list[Any]:
        """The classes of the verdicts, in the order of `soft_labels_`; empty for numbers."""
        return self._part("classes").data.classes

    # --------------------------------------------------------------------------------------------- planning

    def next_labels(self, n: int = 50) -> NextLabels:
        """Choose the items that people should label next, and state what that would buy.

        Items on which the judges' prediction is doubtful are drawn more often. The column ``probability`` has the
        sampling probability of each; keep it in the gold file, so that the score stays valid.

        Parameters
        ----------
        n : int, default 50
            Number of items.
        """
        part = self._part("next_labels")
        data, (rows, chance, width, gain) = part.data, self._plan(part, n)
        columns: dict[str, Any] = {"task": Coded(data.tasks, data.task_of[rows]).values()}
        if len(data.systems) > 1:
            columns["system"] = Coded(data.systems, data.system_of[rows]).values()
        columns |= {"consensus": part.consensus[rows], "probability": chance}
        return NextLabels(arrow.table(columns), width, gain, len(part.gold[0]))

    def _plan(self, part: Part, n: int) -> tuple[Ints, Array, float, float]:
        """Items to label next with their probabilities, and half of the interval's width before and after."""
        check_number("n", n, least=1, whole=True)
        data = part.data
        item, _, others, _ = part.labeled()
        if not len(others):
            raise ValueError("every item has a human label already")
        n = min(int(n), len(others))
        spread = data.bounds[1] - data.bounds[0]
        if len(item) >= FEWEST:
            _, of = part.predicted()
            share = (of - data.bounds[0]) / spread
            doubt = np.sqrt(np.maximum(share * (1 - share), _LEAST_DOUBT**2)) if data.share else np.ones(len(of))
        else:
            doubt = np.ones(len(others))
        chance = _EVEN / len(others) + (1 - _EVEN) * doubt / doubt.sum()
        chance = inclusion(chance, n)
        rows = np.sort(systematic(chance, np.random.default_rng(part.seed)))
        now = self._score(part, None) if len(item) >= 2 else None
        width = math.nan
        gain = math.nan
        if now is not None:
            width = now.half_width
            gain = width * math.sqrt(len(item) / (len(item) + n))
        return others[rows], chance[rows], width, gain

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write one HTML page with everything that can be stated, and return its path.

        Parameters
        ----------
        path : str or path
            File to write; its name must end in ``.html``. The page opens offline and runs no script.
        title : str, optional
            Title of the page; by default the size of the log.
        """
        from manyhands.judges.page import write_page

        return write_page(self.to_dict(), path, title)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, as ``manyhands judges --json`` writes it."""
        from manyhands.judges.summary import as_dict

        return as_dict(self)

    def __repr__(self) -> str:
        counts = {"judge": len(self.judges), "item": self.n_items, "human label": self.n_gold}
        sizes = ", ".join(plural(n, what) for what, n in counts.items())
        if len(self._parts) > 1:
            return f"<Panel: {sizes}, {plural(len(self._parts), 'criterion', 'criteria')}>"
        part = next(iter(self._parts.values()))
        lines = [f"<Panel: {sizes}>"]
        lines.append(repr(self.score) if len(part.gold[0]) >= 2 else "score: needs human labels, pass gold=")
        if part.effective is not None:
            lines.append(f"independent judges: {part.effective!r}")
        return "\n".join(lines)


def _of_system(data: Encoded, code: int) -> tuple[list[int], list[int]]:
    """Tasks and items of a system."""
    items = np.flatnonzero(data.system_of == code)
    return data.task_of[items].tolist(), items.tolist()


def _alike(part: Part) -> list[str]:
    """Say so where all judges agree on everything, or there is one only."""
    data = part.data
    about = "" if data.criterion is None else f" of criterion {data.criterion!r}"
    if data.n_judges == 1:
        return [f"The log has one judge{about}: agreement and shared errors of judges cannot be stated."]
    if part.alike:
        return [f"All judges give the same verdict on every item{about}: they count as one judge."]
    return []


def _unlabeled_strata(part: Part) -> list[str]:
    """Say so where no item of a stratum has a human label: nothing is known of its score."""
    strata, item = part.data.strata, part.gold[0]
    without = ~np.isin(strata, strata[item])
    if not len(item) or not without.any():
        return []
    about = "" if part.data.criterion is None else f" of criterion {part.data.criterion!r}"
    return [
        f"{plural(len(np.unique(strata[without])), 'stratum', 'strata')}{about} without a human label "
        f"({plural(int(without.sum()), 'item')}): the score takes these items to be like those of another stratum."
    ]


def _population(group: list[Any], population: Mapping[Any, float] | None, n: int) -> Array:
    """Weight of each label, so that groups count by their share of the population."""
    if population is None:
        return np.ones(n)
    if not group:
        raise ValueError("population= needs a column group in gold")
    entry = {str(name): float(share) for name, share in population.items()}
    names = [str(one) for one in group]
    lacking = sorted(set(names) - set(entry))
    if lacking:
        raise ValueError(f"population= has no share for the group {preview(lacking)}")
    empty = sorted(name for name, share in entry.items() if share > 0 and name not in set(names))
    if empty:
        raise ValueError(f"no human label is by the group {preview(empty)} of population=")
    counts = {name: names.count(name) for name in set(names)}
    return np.array([entry[name] / counts[name] for name in names]) * n


def _columns(rows: Sequence[Mapping[str, Any]], texts: Iterable[str]) -> Columns:
    """Columns of rows; those of names are text, and left out where nothing has one."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: Columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name in texts:
            if all(value is None for value in values) and name in ("criterion", "system", "family"):
                continue
            values = [None if value is None else str(value) for value in values]
        else:
            values = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
        columns[name] = values
    return columns


def _frame(columns: Columns) -> pa.Table:
    """An Arrow table, which imports pandas where it is installed."""
    import pyarrow as pa

    return pa.table(columns)
