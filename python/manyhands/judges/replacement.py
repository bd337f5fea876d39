"""May a judge replace annotators: the alternative-annotator test, for answers of any kind with a distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import check_between, check_choice, check_number, plural, preview
from manyhands._base.estimator import Array
from manyhands._base.frames import names_of
from manyhands._base.table import Records
from manyhands.boxes.metrics import box_iou
from manyhands.judges.student import beta_share, student_tail
from manyhands.judges.verdicts import Coded, find_roles
from manyhands.metrics.intervals import student_quantile

if TYPE_CHECKING:
    import pyarrow as pa

Kinds = Literal["categorical", "numeric", "multilabel", "texts", "sequences", "boxes"]
Tests = Literal["score", "t"]
#: Answers by person and item.
Answers = dict[Any, dict[Any, Any]]

#: Columns that are an answer together, by kind of table.
_FIELDS = {
    "categorical": ("label",),
    "numeric": ("value",),
    "multilabel": ("labels",),
    "texts": ("text",),
    "sequences": ("start", "end", "tag"),
    "boxes": ("x1", "y1", "x2", "y2", "label"),
}
_LEVEL = 0.95
_TINY = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Replacement:
    """Result of :func:`replacement_test`.

    Attributes
    ----------
    passed
        Whether the judge may replace the annotators: it wins against at least half of them.
    winning_rate
        Share of annotators that it beats.
    advantage
        Probability that the judge agrees with the other annotators at least as well as an annotator does, averaged over
        annotators: the measure to compare judges by.
    low, high
        Its 95 % interval, over items.
    epsilon, test, kind
        The margin, the test and the kind of answers.
    n_items
        Items that count.
    warnings
        What is doubtful.
    """

    passed: bool
    winning_rate: float
    advantage: float
    low: float
    high: float
    epsilon: float
    test: str
    kind: str
    n_items: int
    _rows: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def frame(self) -> pa.Table:
        """Return one row per annotator, as an Arrow table.

        ``n_items``; ``advantage``, the share of items on which the judge agrees with the others at least as well;
        ``difference``, how much more often the annotator does than the judge; ``p_value`` of a difference of at least
        epsilon; ``wins``, whether the judge wins after Benjamini & Yekutieli's correction.
        """
        return arrow.table(self._rows)

    def __repr__(self) -> str:
        verdict = "may replace" if self.passed else "may not replace"
        n = plural(len(self._rows["annotator"]), "annotator")
        first = (
            f"<The judge {verdict} the annotators: wins against {self.winning_rate:.0%} of {n}, advantage "
            f"{self.advantage:.3f}, 95 % interval {self.low:.3f}–{self.high:.3f}>"
        )
        return "\n".join((first, *self.warnings))


def replacement_test(
    humans: Any,
    judge: Any,
    *,
    kind: Kinds | None = None,
    distance: Callable[[Any, Any], float] | None = None,
    epsilon: float = 0.2,
    test: Tests = "score",
    clusters: Mapping[Any, Any] | None = None,
    level: float = 0.05,
    min_items: int = 30,
) -> Replacement:
    """Test if a judge may replace annotators: the alternative-annotator test.

    Each annotator in turn is left out. On every item, the judge and that annotator are compared with the remaining
    ones: the one that agrees better wins the item. The judge wins against the annotator if it loses less than `epsilon`
    more items than it wins, after a correction for the number of annotators. It passes if it wins against half of them.

    Parameters
    ----------
    humans : mapping, frame or table
        Answers ``{annotator: {item: answer}}``; a frame with the columns ``task``, ``worker`` and the answer; or a
        table of manyhands: classes, numbers, sets of labels, texts, spans or boxes. Items need two or more annotators.
    judge : mapping, frame or table
        Answers of the judge: ``{item: answer}``, or as `humans` with a single worker.
    kind : {"categorical", "numeric", "multilabel", "texts", "sequences", "boxes"}, optional
        What answers are; by default that of the table, or by their type: text is a class, a list of boxes or spans is
        what its items are.
    distance : callable, optional
        Distance of two answers, in place of that of the kind. Classes are equal or not; numbers and grades have the
        root mean squared difference; sets Jaccard's; texts word edits relative to the longer one; spans 1 - F1 of exact
        spans; boxes 1 - F1 with overlaps (IoU) in place of matches.
    epsilon : float, default 0.2
        Advantage that the judge gets for being cheap: 0.2 for experts, 0.15 for trained annotators, 0.1 for crowds.
    test : {"score", "t"}, default "score"
        ``"score"`` estimates the variance under the null hypothesis (Tango, 1998), with a continuity correction: it
        rejects at most as often as stated. ``"t"`` is the published rule, which rejects too often if differences are
        rare (`docs/evidence/judges.md`).
    clusters : mapping, optional
        Cluster of each item, such as the text that several questions are about; errors of a cluster coincide.
    level : float, default 0.05
        False-discovery rate over annotators.
    min_items : int, default 30
        Annotators with fewer items are not compared.

    Returns
    -------
    Replacement

    Notes
    -----
    Cost: O(items · annotators per item²) comparisons of answers.

    References
    ----------
    N. Calderon, R. Reichart and R. Dror, "The alternative annotator test for LLM-as-a-judge", ACL (2025). T. Tango,
    "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
    Statistics in Medicine (1998).

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 3, 100)
    >>> noisy = lambda right: np.where(rng.random(100) < right, truth, rng.integers(0, 3, 100)).tolist()
    >>> humans = {name: dict(enumerate(noisy(0.7))) for name in ("ann", "bob", "eve")}
    >>> mh.judges.replacement_test(humans, dict(enumerate(noisy(0.9))), kind="categorical").passed
    True
    """
    check_choice("test", test, get_args(Tests))
    if kind is not None:
        check_choice("kind", kind, get_args(Kinds))
    check_between("level", level, such_as=0.05)
    check_number("epsilon", epsilon, least=0, most=1)
    check_number("min_items", min_items, least=2, whole=True)
    people, outcome = _answers(humans, "humans")
    machine, _ = _answers_of_judge(judge)
    of_answers = kind or outcome or _kind_by_type(people)
    score = _scorer(of_answers, distance, people, machine)
    shared: dict[Any, list[Any]] = {}
    for person, reply in people.items():
        for item in reply:
            if item in machine:
                shared.setdefault(item, []).append(person)
    shared = {item: who for item, who in shared.items() if len(who) >= 2}
    if not shared:
        raise ValueError("no item has answers of the judge and of two or more annotators")
    names, rows, skipped = [], [], []
    influence: dict[Any, float] = {}
    wins: dict[Any, dict[Any, float]] = {}
    for person, reply in people.items():
        items = [item for item in reply if item in shared]
        if len(items) < min_items:
            skipped.append(person)
            continue
        ours, theirs = np.empty(len(items)), np.empty(len(items))
        for place, item in enumerate(items):
            others = [people[other][item] for other in shared[item] if other != person]
            ours[place], theirs[place] = score(machine[item], others), score(reply[item], others)
        better, worse = (ours >= theirs).astype(np.float64), (theirs >= ours).astype(np.float64)
        d = worse - better
        group = None if clusters is None else [clusters.get(item, ("", item)) for item in items]
        rows.append((len(items), float(better.mean()), float(d.mean()), p_value(d, float(epsilon), test, group)))
        names.append(person)
        wins[person] = dict(zip(items, better.tolist(), strict=True))
    if not names:
        raise ValueError(
            f"no annotator has {min_items} items with answers of the judge and of another annotator; pass a smaller "
            "min_items="
        )
    n_items, advantages, differences, p = (np.array(column) for column in zip(*rows, strict=True))
    for won in wins.values():
        mean = sum(won.values()) / len(won)
        for item, one in won.items():
            key = clusters.get(item, ("", item)) if clusters is not None else item
            influence[key] = influence.get(key, 0.0) + (one - mean) / len(won) / len(wins)
    parts = np.array(list(influence.values()))
    error = math.sqrt(float((parts**2).sum()) * len(parts) / max(len(parts) - 1, 1))
    half = student_quantile(_LEVEL, max(len(parts) - 1, 1)) * error
    advantage = float(advantages.mean())
    rejected = benjamini_yekutieli(p, float(level))
    rate = float(rejected.mean())
    warnings = []
    if skipped:
        warnings.append(f"Not compared, with fewer than {min_items} items: {preview(skipped)}.")
    if len(names) < 3:
        warnings.append("Fewer than three annotators: who represents the group is a comparison with one or two people.")
    return Replacement(
        passed=rate >= 0.5,
        winning_rate=rate,
        advantage=advantage,
        low=max(advantage - half, 0.0),
        high=min(advantage + half, 1.0),
        epsilon=float(epsilon),
        test=test,
        kind="distance" if distance is not None else of_answers,
        n_items=len(shared),
        _rows={
            "annotator": [str(name) for name in names],
            "n_items": n_items.astype(np.int64),
            "advantage": advantages,
            "difference": differences,
            "p_value": p,
            "wins": rejected,
        },
        warnings=tuple(warnings),
    )


def p_value(d: Array, epsilon: float, test: str, clusters: list[Any] | None = None) -> float:
    """One-sided p-value of a mean of -1, 0 and 1 that is at least epsilon; small where it is less.

    With clusters, the variance is that of sums over clusters, around epsilon for the score test.
    """
    n, mean = len(d), float(d.mean())
    if clusters is not None:
        _, code = np.unique(np.array([str(one) for one in clusters]), return_inverse=True)
        sums = np.bincount(np.ravel(code), d - (epsilon if test == "score" else mean))
        error = math.sqrt(float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1)) / n
        return _lower(mean - epsilon, error, len(sums) - 1)
    if test == "t":
        return _lower(mean - epsilon, float(d.std(ddof=1)) / math.sqrt(n), n - 1)
    more, less = float((d > 0).sum()), float((d < 0).sum())
    same = n - more - less
    # The most probable share of items that the judge wins, if the annotator wins epsilon more.
    linear = (more + less) * (1 - epsilon) - 2 * epsilon * (less + same)
    share = (linear + math.sqrt(linear**2 + 8 * n * less * epsilon * (1 - epsilon))) / (4 * n)
    variance = max(2 * share + epsilon - epsilon**2, 0.0)
    if variance < _TINY:
        return 1.0 if mean >= epsilon else 0.0
    # Sums are whole numbers: a continuity correction, and exact probabilities at the two ends of the null hypothesis.
    p = NormalDist().cdf((mean + 0.5 / n - epsilon) / math.sqrt(variance / n))
    if not less:
        p = max(p, _at_most(int(more), n, epsilon))
    if not same:
        p = max(p, _at_most(int(more), n, (1 + epsilon) / 2))
    return p


def _at_most(k: int, n: int, chance: float) -> float:
    """Probability of at most k of n."""
    return 1.0 if k >= n else beta_share(float(n - k), k + 1.0, 1.0 - chance)


def _lower(distance: float, error: float, freedom: int) -> float:
    """Lower tail of Student's t."""
    if error < _TINY:
        return 0.5 if abs(distance) < _TINY else 0.0 if distance < 0 else 1.0
    return 1.0 - student_tail(distance / error, max(freedom, 1))


def benjamini_yekutieli(p: Array, level: float) -> Any:
    """Hypotheses rejected at a false-discovery rate under any dependence."""
    m = len(p)
    order = np.argsort(p, kind="stable")
    limits = np.arange(1, m + 1) / m * level / float((1.0 / np.arange(1, m + 1)).sum())
    below = np.flatnonzero(p[order] <= limits)
    rejected = np.zeros(m, np.bool_)
    if len(below):
        rejected[order[: below[-1] + 1]] = True
    return rejected


# ------------------------------------------------------------------------------------------------------------- answers


def _answers(data: Any, what: str) -> tuple[Answers, str | None]:
    """Answers by person and item, and the kind of a table."""
    if isinstance(data, Records):
        return _of_table(data, what), _kind_of(data)
    if isinstance(data, Mapping) and data and all(isinstance(one, Mapping) for one in data.values()):
        return {person: dict(reply) for person, reply in data.items()}, None
    try:
        names = names_of(data)
    except TypeError:
        raise TypeError(
            f"{what} must be {{annotator: {{item: answer}}}}, a frame or a table, not {type(data).__name__}"
        ) from None
    roles = find_roles(names, {}, what)
    column = {role: Coded.of(_column(data, roles[role])).values() for role in ("task", "judge", "verdict")}
    return _by_person(zip(column["judge"], column["task"], column["verdict"], strict=True), what), None


def _column(frame: Any, name: str) -> Any:
    from manyhands._base.frames import take_columns

    return take_columns(frame, column=name)["column"][1]


def _answers_of_judge(data: Any) -> tuple[dict[Any, Any], str | None]:
    if isinstance(data, Mapping) and data and not any(isinstance(one, Mapping | list) for one in data.values()):
        return dict(data), None
    if isinstance(data, Mapping) and data and all(isinstance(one, list) for one in data.values()):
        try:
            outcome, kind = _answers(data, "judge")
        except (ValueError, TypeError, KeyError):  # lists are answers, such as spans
            return dict(data), None
    elif not isinstance(data, Mapping | Records):
        names = names_of(data)
        roles = find_roles(names, {}, "judge", gold=True)
        if "judge" not in roles:
            tasks, reply = (Coded.of(_column(data, roles[role])).values() for role in ("task", "verdict"))
            return dict(zip(tasks, reply, strict=True)), None
        outcome, kind = _answers(data, "judge")
    else:
        outcome, kind = _answers(data, "judge")
    if len(outcome) != 1:
        raise ValueError(
            f"judge has answers of {plural(len(outcome), 'judge')}: {preview(list(outcome))}; pass those of one"
        )
    return next(iter(outcome.values())), kind


def _by_person(rows: Any, what: str) -> Answers:
    outcome: Answers = {}
    for person, item, reply in rows:
        if reply is None or (isinstance(reply, float) and math.isnan(reply)):
            continue
        mine = outcome.setdefault(person, {})
        if item in mine:
            raise ValueError(f"{what}: {person!r} answered item {item!r} twice; keep one answer")
        mine[item] = reply
    return outcome


def _kind_of(table: Records) -> str:
    return "categorical" if table.kind == "ordinal" else table.kind


def _of_table(table: Records, what: str) -> Answers:
    kind = _kind_of(table)
    if kind not in _FIELDS:
        raise TypeError(f"{what}: {table.kind} answers have no distance here; pass mappings of answers, and distance=")
    frame = table.to_frame()
    fields = [name for name in _FIELDS[kind] if name in frame.column_names]
    item, person = frame.column_names[0], "worker"
    rows = frame.select([item, person, *fields]).to_pylist()
    if len(fields) == 1:
        return _by_person(((row[person], row[item], row[fields[0]]) for row in rows), what)
    outcome: Answers = {}
    for row in rows:
        one = tuple(row[name] for name in fields)
        reply = outcome.setdefault(row[person], {}).setdefault(row[item], [])
        if one[0] is not None:
            reply.append(one)
    return outcome


def _kind_by_type(people: Answers) -> str:
    one = next((reply for each in people.values() for reply in each.values()), None)
    if one is None:
        raise ValueError("humans has no answers")
    if isinstance(one, bool | str | np.bool_):
        return "categorical"
    if isinstance(one, int | float | np.integer | np.floating):
        return "numeric"
    if isinstance(one, set | frozenset):
        return "multilabel"
    first = next((part for each in people.values() for reply in each.values() for part in reply), None)
    if isinstance(first, tuple | list) and len(first) >= 4:
        return "boxes"
    if isinstance(first, tuple | list):
        return "sequences"
    raise ValueError(f"answers such as {one!r} do not show what they are; pass kind= or distance=")


def _scorer(
    kind: str, distance: Callable[[Any, Any], float] | None, people: Answers, machine: dict[Any, Any]
) -> Callable[[Any, list[Any]], float]:
    """How well an answer agrees with others."""
    if distance is not None:
        return lambda reply, others: -float(np.mean([distance(reply, other) for other in others]))
    if kind == "numeric":
        for who, each in (*people.items(), ("the judge", machine)):
            for item, reply in each.items():
                if isinstance(reply, str) or not np.isfinite(reply):
                    raise ValueError(
                        f"{who}: the answer {reply!r} to item {item!r} is not a number; pass kind='categorical'"
                    )
        return lambda reply, others: -math.sqrt(float(np.mean([(reply - other) ** 2 for other in others])))
    agree: dict[str, Callable[[Any, Any], float]] = {
        "categorical": lambda one, other: float(one == other),
        "multilabel": _jaccard,
        "texts": _alike_texts,
        "sequences": _alike_spans,
        "boxes": _alike_boxes,
    }
    measure = agree[kind]
    return lambda reply, others: float(np.mean([measure(reply, other) for other in others]))


def _jaccard(one: Any, other: Any) -> float:
    a, b = set(one), set(other)
    return len(a & b) / len(a | b) if a | b else 1.0


def _alike_spans(one: Any, other: Any) -> float:
    a, b = {tuple(span) for span in one}, {tuple(span) for span in other}
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


def _alike_texts(one: Any, other: Any) -> float:
    """One minus word edits relative to the longer text."""
    a, b = str(one).split(), str(other).split()
    if not a and not b:
        return 1.0
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, there in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (word != there))
    return 1.0 - row[-1] / max(len(a), len(b))


def _alike_boxes(one: Any, other: Any) -> float:
    """F1 with overlaps in place of matches: boxes of one label are paired, the largest overlap first."""
    if not len(one) or not len(other):
        return float(len(one) == len(other))
    overlap = box_iou([box[:4] for box in one], [box[:4] for box in other]).copy()
    for i, box in enumerate(one):
        for j, there in enumerate(other):
            if tuple(box[4:]) != tuple(there[4:]):
                overlap[i, j] = 0.0
    total = 0.0
    for _ in range(min(overlap.shape)):
        i, j = divmod(int(overlap.argmax()), overlap.shape[1])
        total += float(overlap[i, j])
        overlap[i, :], overlap[:, j] = 0.0, 0.0
    return 2 * total / (len(one) + len(other))
