"""Extension of Inspect: fuse the verdicts of a panel of scorers, and measure the panel as part of an evaluation.

Inspect finds it by its entry point, so that names work in tasks and on the command line: the reducer
``"manyhands/fuse"``, the metrics ``"manyhands/effective_judges"`` and ``"manyhands/krippendorff_alpha"``. Importing
this module needs the extra ``inspect``; importing manyhands does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, ScoreReducer, metric, score_reducer

import manyhands as mh
from manyhands._base.checks import warn_of_data
from manyhands.errors import argument

__all__ = ["effective_judges", "fuse", "krippendorff_alpha"]

#: Where the votes behind a fused score are kept, as in Inspect's own reducer ``majority``.
PANEL = "panel"
#: Fewest samples that two judges voted on for a measure of the panel.
_FEWEST = 3


@score_reducer
def fuse(model: str | None = None, judges: list[str] | None = None, min_confidence: float = 0.0) -> ScoreReducer:
    """Fuse the verdicts of several scorers into one, by votes or by a fitted panel.

    Parameters
    ----------
    model : str or None, default None
        Path of a model that was fitted to earlier verdicts of the same judges and saved, such as
        ``mh.aggregate("calibration.eval", gold=human).save("panel")``. Without one, every judge has one vote.
    judges : list of str or None, default None
        Names of the judges in the order of the scorers, as `model` knows them.
    min_confidence : float, default 0.0
        Confidence below which the sample is left unscored, for people to decide.

    Returns
    -------
    ScoreReducer
        For ``multi_scorer(scorers, reducer=fuse(...))``. Scorers that failed have no vote. A tie, and a sample on which
        no judge voted, is unscored. The metadata has the votes, the failures and the confidence under ``panel``.

    Notes
    -----
    Verdicts are text, booleans or whole numbers; use Inspect's ``mean`` or ``median`` for other scores.
    """
    if not 0 <= min_confidence <= 1:
        raise ValueError(f"{argument('min_confidence', min_confidence)} is not between 0 and 1")
    if model is not None and judges is None:
        raise ValueError(f"{argument('model', model)} needs {argument('judges')}: names in the order of the scorers")

    def reduce(scores: list[Score]) -> Score:
        if judges is not None and len(judges) != len(scores):
            raise ValueError(f"{argument('judges')} names {len(judges)} judges, and there are {len(scores)} scorers")
        votes = [None if _is_unscored(score) else _class_of(score) for score in scores]
        failures = [
            {"index": place, "reason": score.reason, "explanation": score.explanation}
            for place, (score, vote) in enumerate(zip(scores, votes, strict=True))
            if vote is None
        ]
        panel: dict[str, Any] = {"votes": votes, "size": len(scores), "failures": failures}
        if judges is not None:
            panel["judges"] = judges
        chances = _shares(votes) if model is None else _posterior(model, judges or [], votes)
        best = max(chances.values(), default=0.0)
        winners = [value for value, chance in chances.items() if chance == best]
        panel["confidence"] = best
        first = next((score for score, vote in zip(scores, votes, strict=True) if vote is not None), None)
        answer = None if first is None else first.answer
        turnout = f"{len(votes) - len(failures)} of {len(votes)} judges voted"
        if len(winners) != 1 or best < min_confidence:
            why = "no_verdict" if not winners else "tie" if len(winners) > 1 else "low_confidence"
            return Score.unscored(reason=why, answer=answer, explanation=turnout, metadata={PANEL: panel})
        explanation = f"{winners[0]} with confidence {best:.2f}; {turnout}"
        return Score(value=winners[0], answer=answer, explanation=explanation, metadata={PANEL: panel})

    return reduce


@metric
def effective_judges(gold: str | None = None) -> Metric:
    """Effective number of judges: as many independent ones as carry the information of the panel, with a 95 % interval.

    Judges with the same blind spots count for less than their number. Use it with ``multi_scorer`` and the reducer
    :func:`fuse` or Inspect's ``majority``, which keep the votes, or with a scorer whose value is an object by judge.

    Parameters
    ----------
    gold : str or None, default None
        Key of the samples' metadata with the verdict of people. Errors are then measured on these samples; without it,
        the number is an upper bound, since an error that all judges share looks like the truth.

    Returns
    -------
    Metric
        ``effective_judges`` with ``_low`` and ``_high``, and ``judges``, their number. NaN for fewer than three samples
        with two votes.
    """

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        tasks, workers, labels = _votes_in(scores, by_judge=True)
        n_judges = len(set(workers))
        name = "effective_judges"
        result = {name: math.nan, f"{name}_low": math.nan, f"{name}_high": math.nan, "judges": float(n_judges)}
        if n_judges < 2 or _twice_judged(tasks) < _FEWEST:
            return result
        truth = _truth(scores, gold, set(tasks)) if gold is not None else None
        votes = mh.Annotations.from_arrays(tasks, workers, labels)
        number = mh.audit.dependence(votes, gold=truth).effective_annotators
        return result | {name: number.estimate, f"{name}_low": number.low, f"{name}_high": number.high}

    return compute


@metric
def krippendorff_alpha(level: str = "nominal", confidence: float = 0.95) -> Metric:
    """Krippendorff's alpha of a panel, with an interval.

    Takes votes where :func:`effective_judges` does, and also from Inspect's reducer ``collect``.

    Parameters
    ----------
    level : str, default "nominal"
        ``"nominal"``, ``"ordinal"``, ``"interval"`` or ``"ratio"``; see :func:`manyhands.agreement.krippendorff_alpha`.
    confidence : float, default 0.95
        Level of the interval.

    Returns
    -------
    Metric
        ``krippendorff_alpha`` with ``_low`` and ``_high``: the jackknife over samples. NaN for fewer than three samples
        with two votes.
    """

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        tasks, workers, labels = _votes_in(scores, by_judge=False)
        name = "krippendorff_alpha"
        result = {name: math.nan, f"{name}_low": math.nan, f"{name}_high": math.nan}
        if _twice_judged(tasks) < _FEWEST:
            return result
        votes = mh.Annotations.from_arrays(tasks, workers, labels)
        alpha = mh.agreement.krippendorff_alpha(votes, level=level, resamples=100, confidence=confidence)
        low, high = (math.nan, math.nan) if alpha.interval is None else alpha.interval
        return result | {name: float(alpha), f"{name}_low": low, f"{name}_high": high}

    return compute


# ------------------------------------------------------------------------------------------------ parts of fusing


def _is_unscored(score: Score) -> bool:
    return isinstance(score.value, float) and math.isnan(score.value)


def _class_of(score: Score) -> Any:
    """The verdict of a scorer; raise for any other value."""
    value = score.value
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise TypeError(
        f"manyhands/fuse takes verdicts (text, booleans, whole numbers), not {str(value)[:60]}; use the reducer "
        "'mean' or 'median' for scores"
    )


def _shares(votes: Sequence[Any]) -> dict[Any, float]:
    """Share of each class among the votes."""
    valid = [vote for vote in votes if vote is not None]
    return {vote: valid.count(vote) / len(valid) for vote in dict.fromkeys(valid)}


@cache
def _load(model: str) -> Any:
    return mh.load(model)


def _posterior(model: str, judges: Sequence[str], votes: Sequence[Any]) -> dict[Any, float]:
    """Probability of each class given the votes, by a fitted model."""
    fitted = _load(model)
    classes = {str(value): value for value in fitted.classes_.tolist()}
    rows = [(judge, vote) for judge, vote in zip(judges, votes, strict=True) if vote is not None]
    if not rows:
        return {}
    strange = next((vote for _, vote in rows if str(vote) not in classes), None)
    if strange is not None:
        raise ValueError(f"verdict {strange!r} is not among the classes of {model!r}: {', '.join(classes)}")
    workers, labels = zip(*((judge, classes[str(vote)]) for judge, vote in rows), strict=True)
    table = mh.Annotations.from_arrays(["sample"] * len(rows), list(workers), list(labels))
    return dict(zip(fitted.classes_.tolist(), fitted.predict_proba(table)[0].tolist(), strict=True))


# --------------------------------------------------------------------------------------------- parts of the metrics


def _votes_in(scores: Sequence[SampleScore], *, by_judge: bool) -> tuple[list[int], list[str], list[Any]]:
    """Return the votes behind scores: number of the sample, judge and verdict of each.

    A list of values omits those that failed: where one is shorter than others, its judges are not identified.
    """
    longest = max((len(one.score.value) for one in scores if isinstance(one.score.value, list)), default=0)
    tasks: list[int] = []
    judges: list[str] = []
    labels: list[Any] = []
    without = 0
    for task, one in enumerate(scores):
        votes = _votes_of(one.score, longest if by_judge else None)
        without += votes is None
        for judge, vote in (votes or {}).items():
            if vote is not None and vote == vote:  # not NaN
                tasks.append(task)
                judges.append(judge)
                labels.append(_label_of(vote))
    if without:
        warn_of_data(
            f"{without:,} of {len(scores):,} samples do not name who voted what; use multi_scorer with the reducer "
            "'manyhands/fuse' or 'majority', and one epoch"
        )
    return tasks, judges, labels


def _votes_of(score: Score, length: int | None) -> dict[str, Any] | None:
    """Return the votes behind a score by judge; a list must have the length, if one is passed."""
    panel, value = (score.metadata or {}).get(PANEL), score.value
    if isinstance(panel, dict) and isinstance(panel.get("votes"), list):
        names = panel.get("judges") or range(len(panel["votes"]))
        return dict(zip(map(str, names), panel["votes"], strict=True))
    if isinstance(value, dict):
        return {str(judge): vote for judge, vote in value.items()}
    if isinstance(value, list) and length in (None, len(value)):
        return {str(judge): vote for judge, vote in enumerate(value)}
    return None


def _label_of(value: Any) -> Any:
    """Return a verdict as an id: whole numbers alike, whatever their type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return int(value) if float(value).is_integer() else float(value)


def _twice_judged(tasks: Sequence[int]) -> int:
    """Return how many samples have two votes."""
    return sum(n > 1 for n in Counter(tasks).values())


def _truth(scores: Sequence[SampleScore], key: str, tasks: set[int]) -> dict[int, Any] | None:
    """Return the verdicts of people on samples that judges voted on."""
    verdicts = {task: (one.sample_metadata or {}).get(key) for task, one in enumerate(scores) if task in tasks}
    truth = {task: _label_of(value) for task, value in verdicts.items() if value is not None}
    if not truth:
        warn_of_data(f"no sample has {key!r} in its metadata: the effective number of judges is an upper bound")
    return truth or None
