"""Choose the next batch of labels: tasks, and workers where they can be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number, plural, warn_of_data
from manyhands._base.estimator import Array
from manyhands.collect.beliefs import Beliefs, beliefs_of, checked_model
from manyhands.collect.crowd import (
    EXPLORE,
    Pool,
    Workers,
    check_epsilon,
    eligible,
    epsilon_at,
    explored_confusion,
    pool_of,
)
from manyhands.collect.gains import STRATEGIES, Ints, doubts, error_gain, gain, information, top, uncertainty
from manyhands.collect.stop import need_no_more

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of candidate tasks relative to the budget, its minimum, and the largest number of task–worker pairs.
_TIMES, _LEAST, _PAIRS = 4, 256, 1 << 22
#: Candidate workers per task if capacities are unlimited.
_BEST = 64


def next_labels(
    model: Any,
    budget: int | float,
    *,
    workers: Workers = None,
    strategy: str = "error",
    explore: str = "epsilon-greedy",
    epsilon: float | None = None,
    tasks: Any = None,
    votes: Any = None,
    error: float | None = None,
    seed: int = 0,
) -> pa.Table:
    """Choose the tasks to ask about next, and the workers to ask where they can be chosen.

    Use it to buy labels in batches. A batch has at most one label per task, and no worker is asked about a task again.

    Parameters
    ----------
    model : Aggregator
        A fitted aggregator of classes.
    budget : int or float
        Number of labels to buy; if `workers` have costs, the amount to spend.
    workers : None, "all", list or frame, default None
        None ranks tasks only; ``"all"`` the workers of the model; names; or a frame with the column ``worker`` and
        optionally ``capacity`` (labels per worker) and ``cost`` (per label). New workers count as the crowd's average.
    strategy : str, default "error"
        Score of a task. ``"entropy"`` or ``"margin"`` of the posterior; ``"error"``, the expected fall of the error
        probability, exact under the fitted model; ``"information"``, the expected bits about the class and, if workers
        are chosen, about the worker. With the first two, workers are chosen by information about the class.
    explore : str, default "epsilon-greedy"
        Exploration of workers with few answers. ``"epsilon-greedy"`` asks a random worker with probability `epsilon`;
        ``"thompson"`` draws each worker's skills from their posterior; ``"upper"`` uses an upper confidence bound;
        ``"none"``.
    epsilon : float, optional
        By default 0.5 until the log has 100 labels, then 0.05.
    tasks : list, optional
        Tasks to choose from, including ones without answers; by default those of the model.
    votes : Annotations, optional
        The annotations, for a model that was loaded from a file.
    error : float, optional
        Leave out tasks that need no more labels at this error probability; see :func:`stopping`.
    seed : int, default 0
        Seed of all draws: the same seed makes the same choices.

    Returns
    -------
    pyarrow.Table
        Best first: ``task``; ``worker`` if chosen; ``expected_gain``, the expected fall of the error probability of the
        task's answer; ``score``. Fewer rows than the budget allows, with a warning, if there is no more to buy; empty
        if every task is finished.

    Raises
    ------
    ValueError
        If no worker is available.

    Notes
    -----
    Time O(n_tasks · n_classes · n_labels) to rank tasks. Workers are compared on four times as many tasks as can be
    bought, at most 64 workers per task if capacities allow, then assigned by :func:`manyhands.defer.assign`. For a
    method that tempers confidences because errors on a task are correlated, such as the default, a label on a task with
    v labels is new information with probability 1 / (1 + discount · v).

    References
    ----------
    P. Welinder and P. Perona, "Online crowdsourcing: rating annotators and obtaining cost-effective labels", CVPR
    workshops (2010). V. S. Sheng, F. Provost, P. G. Ipeirotis, "Get another label?", KDD (2008).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 10, 3, labels_per_task=3, seed=1)
    >>> model = mh.DawidSkene().fit(crowd.log)
    >>> mh.collect.next_labels(model, budget=5).column_names
    ['task', 'expected_gain', 'score']
    >>> mh.collect.next_labels(model, budget=5, workers="all").num_rows
    5
    """
    check_choice("strategy", strategy, STRATEGIES)
    check_choice("explore", explore, EXPLORE)
    check_epsilon(epsilon)
    check_number("seed", seed, least=0, whole=True)
    pool = None if workers is None else pool_of(workers, checked_model(model)._workers)
    costly = pool is not None and pool.cost is not None
    check_number("budget", budget, least=0, whole=not costly)
    beliefs = beliefs_of(model, tasks=tasks, votes=votes, workers=None if pool is None else pool.names)
    rows = None if error is None else np.flatnonzero(~need_no_more(beliefs.posterior, beliefs.prior, error))
    if rows is not None:
        beliefs = beliefs.of(rows)
    if not len(beliefs.tasks):
        warn_of_data("every task is finished: the batch is empty")
    if pool is None:
        scores = uncertainty(strategy, beliefs.posterior, beliefs.average, beliefs.share)
        best = top(scores, min(int(budget), len(scores)))
        _warn_if_short(budget, len(best), "tasks are open, and a batch has one label per task")
        return _frame(beliefs, best, None, scores[best])
    rng = np.random.default_rng(seed)
    return _with_workers(beliefs, pool, budget, strategy, explore, epsilon, rng)


def _with_workers(
    beliefs: Beliefs,
    pool: Pool,
    budget: int | float,
    strategy: str,
    explore: str,
    epsilon: float | None,
    rng: np.random.Generator,
) -> pa.Table:
    """Choose tasks and workers."""
    most = _affordable(pool, budget, len(beliefs.tasks))
    who = _candidates(beliefs, pool, most)
    first = uncertainty(strategy, beliefs.posterior, beliefs.average, beliefs.share)
    rows = top(first, _n_candidates(strategy, most, len(who), len(first)))
    matrices = explored_confusion(explore, beliefs.confusion[who], beliefs.strength[who], rng)
    doubt = doubts(beliefs.confusion[who], beliefs.strength[who]) if strategy == "information" else None
    scores = np.full((len(rows), len(who)), -np.inf)
    share = _of(beliefs.share, rows)
    for column, matrix in enumerate(matrices):
        worth = "error" if strategy == "error" else "information"
        scores[:, column] = gain(
            worth, beliefs.posterior[rows], matrix, share, None if doubt is None else doubt[column]
        )
    allowed = eligible(beliefs, rows, who)
    scores[~allowed] = -np.inf
    if pool.cost is None:
        assignment = _assign(scores, pool, who, most)
    else:
        assignment = buy(scores, pool.cost[who], _capacity(pool, who), float(budget))
    assigned = np.flatnonzero(assignment >= 0)
    if explore == "epsilon-greedy":
        so_far = 0 if beliefs.log is None else beliefs.log.n_annotations
        _stray(assignment, assigned, allowed, _capacity(pool, who), epsilon_at(epsilon, so_far), pool, who, rng)
    worth_of = scores[assigned, assignment[assigned]]
    order = np.argsort(-worth_of, kind="stable")
    assigned = assigned[order]
    if pool.cost is None:
        _warn_if_short(budget, len(assigned), f"can be bought of {plural(len(pool), 'worker')}, one per task")
    return _frame(beliefs, rows[assigned], who[assignment[assigned]], worth_of[order])


def _affordable(pool: Pool, budget: int | float, n_open: int) -> int:
    """Return the largest number of labels that can be bought."""
    if pool.cost is not None:
        # The cheapest first.
        order = np.argsort(pool.cost, kind="stable")
        n = np.full(len(pool), n_open) if pool.capacity is None else np.minimum(pool.capacity[order], n_open)
        spent = np.cumsum(n * pool.cost[order])
        full = int(np.searchsorted(spent, budget, side="right"))
        rest = budget - (spent[full - 1] if full else 0.0)
        more = int(rest // pool.cost[order][full]) if full < len(order) else 0
        return int(min(n[:full].sum() + more, n_open))
    capacity = n_open if pool.capacity is None else int(min(pool.capacity.sum(), n_open))
    return int(min(budget, capacity))


def _candidates(beliefs: Beliefs, pool: Pool, n: int) -> Ints:
    """Codes of candidate workers: most information per cost, as many as have enough capacity."""
    can = np.flatnonzero(np.ones(len(pool)) if pool.capacity is None else pool.capacity > 0)
    bits = information(beliefs.confusion[can], beliefs.prior)
    value = bits + doubts(beliefs.confusion[can], beliefs.strength[can]) @ beliefs.prior
    order = can[top(value if pool.cost is None else value / pool.cost[can], len(can))]
    if pool.capacity is None:
        return order[:_BEST]
    enough = int(np.searchsorted(np.cumsum(pool.capacity[order]), 2 * n)) + 1
    return order[: max(_BEST, enough)]


def _n_candidates(strategy: str, n: int, n_workers: int, n_open: int) -> int:
    """How many tasks are looked at with each worker: more than are bought, unless uncertainty alone decides."""
    if strategy in ("entropy", "margin"):
        return min(n, n_open)
    return min(n_open, max(n, min(max(_TIMES * n, _LEAST), _PAIRS // max(n_workers, 1))))


def _capacity(pool: Pool, who: Ints) -> Ints | None:
    return None if pool.capacity is None else pool.capacity[who]


def _assign(scores: Array, pool: Pool, who: Ints, n: int) -> Ints:
    """The worker of each task, -1 for none: n tasks at the greatest total score, within capacities."""
    limit = _capacity(pool, who)
    best = scores.argmax(axis=1) if scores.shape[1] else np.zeros(len(scores), np.int64)
    best[scores[np.arange(len(scores)), best] == -np.inf] = -1
    values = np.where(best < 0, -np.inf, scores[np.arange(len(scores)), best])
    keep = top(values, n)
    columns = np.full(len(scores), -1, np.int64)
    columns[keep] = best[keep]
    if limit is None or (np.bincount(columns[columns >= 0], minlength=len(who)) <= limit).all():
        return columns
    # All scores are gains, so as many labels as possible are assigned.
    least = float(scores[np.isfinite(scores)].min()) if np.isfinite(scores).any() else 0.0
    idle = np.full((len(scores), 1), least - 1.0 - float(np.ptp(scores[np.isfinite(scores)])))
    return _flow(np.hstack([scores, idle]), [*limit.tolist(), len(scores)], max(len(scores) - n, 0))


def _flow(scores: Array, most: list[int], n_idle: int) -> Ints:
    """Assign tasks to workers; the last column stands for no worker."""
    from manyhands.defer.assignment import assign

    assignment = assign(scores, lower=[0] * (len(most) - 1) + [n_idle], upper=[min(n, len(scores)) for n in most])
    return np.where(assignment == len(most) - 1, -1, assignment)


def buy(scores: Array, cost: Array, capacity: Ints | None, budget: float) -> Ints:
    """The worker of each task, -1 for none: a great total score for what may be spent.

    A price on money is raised until what is bought can be paid; what is left then buys what gains most per cost,
    also a better worker for a task that has one, and at last anything.
    """
    most = [len(scores)] * scores.shape[1] if capacity is None else capacity.tolist()
    idle = np.zeros((len(scores), 1))

    def at(price: float) -> Ints:
        return _flow(np.hstack([scores - price * cost, idle]), [*most, len(scores)], 0)

    def spent(best: Ints) -> float:
        return float(cost[best[best >= 0]].sum())

    best = at(0.0)
    if spent(best) > budget:
        finite = scores[np.isfinite(scores)]
        low, high = 0.0, float(finite.max() / cost.min()) * (1 + 1e-9) + 1e-300
        best = np.full(len(scores), -1, np.int64)
        for _ in range(40):
            middle = (low + high) / 2
            candidate = at(middle)
            if spent(candidate) <= budget:
                high, best = middle, candidate
            else:
                low = middle
    rest = _improve(best, scores, cost, most, budget - spent(best))
    _spend_the_rest(best, scores, cost, most, rest)
    return best


def _improve(chosen: Ints, scores: Array, cost: Array, most: list[int], rest: float) -> float:
    """Choose other workers as long as that gains and can be paid, most gain per cost first; returns what is left.

    Where workers are equally good at all tasks, no price spends the budget: all tasks change their worker at once.
    """
    left = np.array(most) - np.bincount(chosen[chosen >= 0], minlength=len(most))
    rows = np.arange(len(chosen))
    while True:
        assigned = chosen >= 0
        score = np.where(assigned, scores[rows, chosen], 0.0)
        paid = np.where(assigned, cost[chosen], 0.0)
        rate, pick = np.zeros(len(rows)), np.full(len(rows), -1, np.int64)
        for worker in np.flatnonzero(left > 0).tolist():
            gain, more = scores[:, worker] - score, cost[worker] - paid
            per_cost = np.where((gain > 0) & (more <= rest), gain / np.maximum(more, 1e-300), 0.0)
            better = per_cost > rate
            rate[better], pick[better] = per_cost[better], worker
        improved = False
        for row in np.flatnonzero(pick >= 0)[np.argsort(-rate[pick >= 0], kind="stable")].tolist():
            worker, more = pick[row], cost[pick[row]] - paid[row]
            if left[worker] > 0 and more <= rest:
                if chosen[row] >= 0:
                    left[chosen[row]] += 1
                left[worker] -= 1
                chosen[row], rest, improved = worker, rest - more, True
        if not improved:
            return rest


def _spend_the_rest(chosen: Ints, scores: Array, cost: Array, most: list[int], rest: float) -> None:
    left = np.array(most) - np.bincount(chosen[chosen >= 0], minlength=len(most))
    for row in np.flatnonzero(chosen < 0)[np.argsort(-scores[chosen < 0].max(axis=1, initial=-np.inf), kind="stable")]:
        possible = np.where((cost <= rest) & (left > 0), scores[row], -np.inf)
        best = int(possible.argmax())
        if possible[best] == -np.inf:
            if rest < cost.min():
                return
            continue
        chosen[row] = best
        left[best] -= 1
        rest -= cost[best]


def _stray(
    chosen: Ints,
    asked: Ints,
    allowed: Any,
    capacity: Ints | None,
    epsilon: float,
    pool: Pool,
    who: Ints,
    rng: np.random.Generator,
) -> None:
    """Reassign some tasks to random eligible workers, at no greater cost."""
    if not len(asked):
        return
    strays = asked[rng.random(len(asked)) < epsilon]
    left = None if capacity is None else capacity - np.bincount(chosen[asked], minlength=len(capacity))
    for row in strays:
        free = allowed[row] if left is None else allowed[row] & ((left > 0) | (np.arange(len(left)) == chosen[row]))
        if pool.cost is not None:
            free = free & (pool.cost[who] <= pool.cost[who][chosen[row]])
        other = int(rng.choice(np.flatnonzero(free)))
        if left is not None:
            left[chosen[row]] += 1
            left[other] -= 1
        chosen[row] = other


def _of(share: Array | None, rows: Ints) -> Array | None:
    return None if share is None else share[rows]


def _warn_if_short(budget: int | float, n: int, why: str) -> None:
    if n and n < budget:
        warn_of_data(f"the budget is {budget:,}, and {n:,} {why}")


def _frame(beliefs: Beliefs, rows: Ints, who: Ints | None, scores: Array) -> pa.Table:
    falls = np.empty(len(rows))
    if who is None:
        falls[:] = error_gain(beliefs.posterior[rows], beliefs.average, _of(beliefs.share, rows))
    else:
        for worker in np.unique(who):
            mine = who == worker
            falls[mine] = error_gain(
                beliefs.posterior[rows[mine]], beliefs.confusion[worker], _of(beliefs.share, rows[mine])
            )
    columns = {"task": beliefs.tasks.take(rows).arrow()}
    if who is not None:
        columns["worker"] = beliefs.workers.take(who).arrow()
    return arrow.table(columns | {"expected_gain": falls, "score": scores})
