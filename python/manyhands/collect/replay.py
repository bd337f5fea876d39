"""What a policy would have cost on a log that is there: only answers that exist can be bought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_flag, check_number, warn_of_data
from manyhands._base.estimator import Array
from manyhands.categorical.base import Aggregator
from manyhands.categorical.consensus import Consensus
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.collect.campaign import Campaign
from manyhands.collect.gains import STRATEGIES, Ints

if TYPE_CHECKING:
    import pyarrow as pa

#: Ways to choose tasks: at random, those with the fewest labels, or by a strategy of `next_labels`.
POLICIES = ("random", "fewest", *STRATEGIES)


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """Accuracy by number of labels bought under a policy; result of :func:`replay`."""

    policy: str
    #: Labels bought at each point of the curve, (n_points,).
    labels: Ints
    #: Share of right answers then, for each seed, (n_seeds, n_points).
    accuracies: Array
    #: The same for all labels of the log.
    whole: float

    @property
    def accuracy(self) -> float:
        """Share of right answers at the end, the mean over seeds."""
        return float(self.accuracies[:, -1].mean())

    @property
    def curve(self) -> pa.Table:
        """Labels bought, accuracy and its standard deviation over seeds, as an Arrow table."""
        deviation = self.accuracies.std(axis=0, ddof=1) if len(self.accuracies) > 1 else np.zeros(len(self.labels))
        return arrow.table({"labels": self.labels, "accuracy": self.accuracies.mean(axis=0), "deviation": deviation})

    def labels_within(self, points: float = 0.01) -> int | None:
        """Labels from which on the mean accuracy stays within so much of the whole log's; None if it never does."""
        near = self.accuracies.mean(axis=0) >= self.whole - points
        if not near[-1]:
            return None
        far = np.flatnonzero(~near)
        return int(self.labels[far[-1] + 1 if len(far) else 0])

    def __repr__(self) -> str:
        return (
            f"<Replay of {self.policy!r}: accuracy {self.accuracy:.3f} after {self.labels[-1]:,} labels; "
            f"{self.whole:.3f} with all of the log>"
        )


def replay(
    votes: Any,
    gold: Any,
    policy: str = "entropy",
    *,
    budget: int | None = None,
    seed: int | Iterable[int] = 0,
    explore: str = "epsilon-greedy",
    epsilon: float | None = None,
    update: str = "batch",
    model: Aggregator | None = None,
    simulated: bool = False,
    points: int = 25,
) -> Replay:
    """Replay a log under a policy: the answers it would have bought, and the accuracy it would have reached.

    Use it to compare policies before a project, on a similar log with gold. Every run starts without answers. A policy
    chooses a task that has answers left, then one of the workers who answered it.

    Parameters
    ----------
    votes
        The log.
    gold
        Known classes of some or all tasks, in any form that :func:`manyhands.metrics.match_gold` takes.
    policy : str, default "entropy"
        ``"random"`` buys any answer; ``"fewest"`` one of a task that has the fewest, so that all get one, then two;
        ``"entropy"``, ``"margin"``, ``"error"`` or ``"information"`` choose tasks as :func:`next_labels` does, and
        workers by `explore`.
    budget : int or None, default None
        Labels to buy; None for all there are. Above that, with a warning, all there are.
    seed : int or sequence of int, default 0
        Of the draws; several for as many runs.
    explore, epsilon, update, model
        As for :class:`Campaign`.
    simulated : bool, default False
        Whether every worker can answer every task: missing answers are drawn from the worker's confusion matrix, which
        the default aggregator estimates from the whole log. For logs that are too sparse to choose from.
    points : int, default 25
        Points of the curve.

    Notes
    -----
    A task without an answer is given the most frequent class. Of a worker's several answers to a task the first counts.
    Time that of `points` fits, or with ``update="online"`` some tenths of a millisecond per label.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(100, 10, 2, crowd="one-coin", labels_per_task=6, seed=1)
    >>> gold = (crowd.log.tasks, crowd.truth)
    >>> run = mh.collect.replay(crowd.log, gold, policy="entropy", budget=300, seed=0)
    >>> bool(run.accuracy > 0.6), run.curve.column_names
    (True, ['labels', 'accuracy', 'deviation'])
    """
    check_choice("policy", policy, POLICIES)
    check_flag("simulated", simulated)
    check_number("points", points, least=1, whole=True)
    seeds = [seed] if isinstance(seed, int | np.integer) else list(seed)
    if not seeds:
        raise ValueError("there are no seeds to run")
    for one in seeds:
        check_number("seed", one, least=0, whole=True)
    votes = as_annotations(votes)
    store = _Answers(votes, gold, simulated)
    most = store.n if not simulated else votes.n_tasks * votes.n_workers
    budget = most if budget is None else budget
    check_number("budget", budget, least=1, whole=True)
    if budget > most:
        warn_of_data(f"the budget is {budget:,}, and the log has {most:,} answers to buy")
        budget = most
    marks = np.unique(np.linspace(0, budget, points + 1).astype(np.int64)[1:])
    settings = {"explore": explore, "epsilon": epsilon, "update": update, "model": model}
    curves = [_run(store, policy, marks, settings, int(one)) for one in seeds]
    whole = (model or Consensus()) if update == "batch" else Consensus()
    answers = type(whole)(**whole.get_params()).fit(store.votes).posterior_.argmax(axis=1)
    return Replay(policy, marks, np.array(curves), store.accuracy(answers))


class _Answers:
    """The answers of a log that can be bought, by task, and the truth to measure by."""

    def __init__(self, votes: Annotations, gold: Any, simulated: bool) -> None:
        tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
        _, first = np.unique(tasks * votes.n_workers + workers, return_index=True)
        self.tasks, self.workers, self.labels = tasks[first], workers[first], labels[first]
        self.n_tasks, self.n_workers, self.n_classes = votes.n_tasks, votes.n_workers, votes.n_classes
        self.n = len(first)
        self.votes = Annotations.from_codes(
            self.tasks,
            self.workers,
            self.labels,
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_classes=self.n_classes,
        )
        self.index, truth = metrics.match_gold(votes.tasks, gold, unknown="ignore")
        self.truth = votes._classes.find(truth)
        self.matrices: Array | None = None
        if simulated:
            fitted = Consensus().fit(self.votes)
            self.matrices, self.posterior = fitted.confusion_, fitted.posterior_
            self.posterior[self.index[self.truth >= 0]] = np.eye(self.n_classes)[self.truth[self.truth >= 0]]

    def accuracy(self, answers: Ints) -> float:
        """Share of the tasks with gold that are correct; a class without labels is never correct."""
        return float((answers[self.index] == self.truth).mean())

    def open(self, rng: np.random.Generator) -> list[dict[int, int]]:
        """For each task, the answers that can be bought by worker."""
        answers_of: list[dict[int, int]] = [{} for _ in range(self.n_tasks)]
        if self.matrices is not None:
            classes = (rng.random((self.n_tasks, 1)) > self.posterior.cumsum(axis=1)).sum(axis=1)
            classes = np.minimum(classes, self.n_classes - 1)
            cumulative = self.matrices[:, classes].cumsum(axis=2)
            sampled = np.minimum((rng.random((*cumulative.shape[:2], 1)) > cumulative).sum(axis=2), self.n_classes - 1)
            for task in range(self.n_tasks):
                answers_of[task] = dict(enumerate(sampled[:, task].tolist()))
        rows = zip(self.tasks.tolist(), self.workers.tolist(), self.labels.tolist(), strict=True)
        for task, worker, label in rows:
            answers_of[task][worker] = label
        return answers_of


def _run(store: _Answers, policy: str, marks: Ints, settings: dict[str, Any], seed: int) -> list[float]:
    """Accuracies at the marks."""
    rng = np.random.default_rng(seed)
    campaign = Campaign(
        range(store.n_tasks),
        range(store.n_classes),
        workers=range(store.n_workers),
        strategy=policy if policy in STRATEGIES else "entropy",
        seed=int(rng.integers(2**62)),
        **settings,
    )
    state, left = campaign._state, store.open(rng)
    pick = _by_turns(left, policy, rng) if policy in ("random", "fewest") else _by_need(campaign, left)
    accuracies = []
    for mark in marks.tolist():
        while len(state.tasks) < mark:
            task, worker = next(pick)
            label = left[task].pop(worker)
            if policy in STRATEGIES:
                campaign.tell(task, worker, label)
            else:
                state.tell(task, worker, label)
        state.refit()
        if policy in STRATEGIES:
            campaign._score_all()
        accuracies.append(store.accuracy(state.posterior.argmax(axis=1)))
    return accuracies


def _by_turns(left: list[dict[int, int]], policy: str, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Answers in an order that does not look at them: any, or one of every task before another of any."""
    pairs = np.array([(task, worker) for task, answers in enumerate(left) for worker in answers], np.int64).reshape(
        -1, 2
    )
    pairs = pairs[rng.permutation(len(pairs))]
    if policy == "fewest":
        by_task = np.argsort(pairs[:, 0], kind="stable")
        sorted_ = pairs[by_task, 0]
        turn = np.empty(len(pairs), np.int64)
        turn[by_task] = np.arange(len(pairs)) - np.searchsorted(sorted_, sorted_)
        pairs = pairs[np.argsort(turn, kind="stable")]
    return ((task, worker) for task, worker in pairs.tolist())


def _by_need(campaign: Campaign, left: list[dict[int, int]]) -> Iterator[tuple[int, int]]:
    """The most uncertain task that has answers left, and one of those who gave them."""
    while True:
        task = campaign._most_uncertain(lambda task: bool(left[task]))
        worker, _ = campaign._choose(task, np.fromiter(left[task], np.int64, len(left[task])))
        campaign._n_asked += 1
        yield task, worker
