"""The next batch of labels: which tasks to ask about, and whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.checks import check_choice, check_number, counted, warn_of_data
from manyhands._base.estimator import Array
from manyhands.collect.beliefs import Beliefs, beliefs_of, checked_model
from manyhands.collect.crowd import (
    EXPLORE,
    Pool,
    Workers,
    check_epsilon,
    eligible,
    epsilon_at,
    pool_of,
    supposed,
)
from manyhands.collect.gains import STRATEGIES, Ints, doubts, error_gain, gain, information, top, uncertainty
from manyhands.collect.stop import finished

if TYPE_CHECKING:
    import pyarrow as pa

#: Tasks and workers whose pairs are compared: so many times the budget, so many at least, and so many pairs at most.
_TIMES, _LEAST, _PAIRS = 4, 256, 1 << 22
#: Workers that are compared for each task where everybody has time.
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
    """Choose the tasks to ask about next, and whom to ask where that may be chosen.

    One label a task: what it says decides whether another is worth asking for. Nobody is asked what they have answered.

    Parameters
    ----------
    model
        A fitted aggregator of classes.
    budget
        How many labels to buy; where `workers` have costs, how much to spend.
    workers
        None to rank tasks for whoever comes; ``"all"`` whom the model knows; names; or a frame with a column
        ``worker``, and ``capacity`` (labels that each can give) and ``cost`` (of one) where there are any. Those whom
        the model does not know count as the crowd's average.
    strategy
        What tasks are ranked by. ``"entropy"`` or ``"margin"`` of the posterior; ``"error"``, by how much the
        probability of a wrong answer is expected to fall, exact under the fitted model; ``"information"``, bits that
        the label is expected to tell about the class and, where workers are chosen, about the worker. With the first
        two, workers are chosen by what they tell about the class.
    explore
        How those who are little known get a chance: ``"epsilon-greedy"`` asks anybody with probability `epsilon`;
        ``"thompson"`` draws each worker's skills from what is known of them; ``"upper"`` takes workers for as good as
        they may yet be; ``"none"``.
    epsilon
        None for 0.5 until the log has 100 labels, then 0.05.
    tasks
        Those that may be asked about, also ones without any answer; None for all of the model.
    votes
        The annotations, for a model that was loaded from a file.
    error
        Leave out tasks that need no more labels at this probability of error; see :func:`stopping`.
    seed
        Of all that is drawn: the same seed makes the same choices.

    Returns
    -------
    pyarrow.Table
        The best first: ``task``; ``worker`` where chosen; ``expected_gain``, by how much the probability of a wrong
        answer to the task is expected to fall; ``score``, what it was chosen by. Fewer rows than the budget allows,
        with a warning, where there is no more to buy; none where no task is open.

    Raises
    ------
    ValueError
        If nobody is available.

    Notes
    -----
    Time O(n_tasks · n_classes · n_labels) to rank tasks. Workers are compared on four times as many tasks as can be
    bought, at most 64 of them where capacities are not in the way, then assigned by :func:`manyhands.defer.assign`.
    For a method that discounts confidences because errors on a task are correlated, such as the default, a label on a
    task that has v is new with probability 1 / (1 + discount · v).

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
    known = beliefs_of(model, tasks=tasks, votes=votes, workers=None if pool is None else pool.names)
    rows = None if error is None else np.flatnonzero(~finished(known.posterior, known.prior, error))
    if rows is not None:
        known = known.of(rows)
    if not len(known.tasks):
        warn_of_data("no task is open, so that there is nothing to ask")
    if pool is None:
        scores = uncertainty(strategy, known.posterior, known.average, known.share)
        best = top(scores, min(int(budget), len(scores)))
        _say_what_is_short(budget, len(best), "tasks are open, and a batch has one label a task")
        return _frame(known, best, None, scores[best])
    rng = np.random.default_rng(seed)
    return _with_workers(known, pool, budget, strategy, explore, epsilon, rng)


def _with_workers(
    known: Beliefs,
    pool: Pool,
    budget: int | float,
    strategy: str,
    explore: str,
    epsilon: float | None,
    rng: np.random.Generator,
) -> pa.Table:
    """Tasks and who is asked."""
    most = _affordable(pool, budget, len(known.tasks))
    who = _compared(known, pool, most)
    first = uncertainty(strategy, known.posterior, known.average, known.share)
    rows = top(first, _n_compared(strategy, most, len(who), len(first)))
    matrices = supposed(explore, known.confusion[who], known.strength[who], rng)
    doubt = doubts(known.confusion[who], known.strength[who]) if strategy == "information" else None
    scores = np.full((len(rows), len(who)), -np.inf)
    share = _of(known.share, rows)
    for column, matrix in enumerate(matrices):
        worth = "error" if strategy == "error" else "information"
        scores[:, column] = gain(worth, known.posterior[rows], matrix, share, None if doubt is None else doubt[column])
    allowed = eligible(known, rows, who)
    scores[~allowed] = -np.inf
    if pool.cost is None:
        picks = _assigned(scores, pool, who, most)
    else:
        picks = buy(scores, pool.cost[who], _capacity(pool, who), float(budget))
    asked = np.flatnonzero(picks >= 0)
    if explore == "epsilon-greedy":
        so_far = 0 if known.log is None else known.log.n_annotations
        _stray(picks, asked, allowed, _capacity(pool, who), epsilon_at(epsilon, so_far), pool, who, rng)
    worth_of = scores[asked, picks[asked]]
    order = np.argsort(-worth_of, kind="stable")
    asked = asked[order]
    if pool.cost is None:
        _say_what_is_short(budget, len(asked), f"can be bought of {counted(len(pool), 'worker')}, one a task")
    return _frame(known, rows[asked], who[picks[asked]], worth_of[order])


def _affordable(pool: Pool, budget: int | float, n_open: int) -> int:
    """The most labels that can be bought."""
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


def _compared(known: Beliefs, pool: Pool, n: int) -> Ints:
    """Codes of the workers who are compared: the most telling ones for the money, as many as have time enough."""
    can = np.flatnonzero(np.ones(len(pool)) if pool.capacity is None else pool.capacity > 0)
    told = information(known.confusion[can], known.prior)
    telling = told + doubts(known.confusion[can], known.strength[can]) @ known.prior
    order = can[top(telling if pool.cost is None else telling / pool.cost[can], len(can))]
    if pool.capacity is None:
        return order[:_BEST]
    enough = int(np.searchsorted(np.cumsum(pool.capacity[order]), 2 * n)) + 1
    return order[: max(_BEST, enough)]


def _n_compared(strategy: str, n: int, n_workers: int, n_open: int) -> int:
    """How many tasks are looked at with each worker: more than are bought, unless uncertainty alone decides."""
    if strategy in ("entropy", "margin"):
        return min(n, n_open)
    return min(n_open, max(n, min(max(_TIMES * n, _LEAST), _PAIRS // max(n_workers, 1))))


def _capacity(pool: Pool, who: Ints) -> Ints | None:
    return None if pool.capacity is None else pool.capacity[who]


def _assigned(scores: Array, pool: Pool, who: Ints, n: int) -> Ints:
    """The worker of each task, -1 for none: n tasks at the greatest total score, within capacities."""
    limit = _capacity(pool, who)
    best = scores.argmax(axis=1) if scores.shape[1] else np.zeros(len(scores), np.int64)
    best[scores[np.arange(len(scores)), best] == -np.inf] = -1
    values = np.where(best < 0, -np.inf, scores[np.arange(len(scores)), best])
    keep = top(values, n)
    chosen = np.full(len(scores), -1, np.int64)
    chosen[keep] = best[keep]
    if limit is None or (np.bincount(chosen[chosen >= 0], minlength=len(who)) <= limit).all():
        return chosen
    # Nobody is worse than anybody, so that as many are asked as can be.
    least = float(scores[np.isfinite(scores)].min()) if np.isfinite(scores).any() else 0.0
    idle = np.full((len(scores), 1), least - 1.0 - float(np.ptp(scores[np.isfinite(scores)])))
    return _flow(np.hstack([scores, idle]), [*limit.tolist(), len(scores)], max(len(scores) - n, 0))


def _flow(scores: Array, most: list[int], n_idle: int) -> Ints:
    """Assign tasks to workers or, in the last column, to nobody."""
    from manyhands.defer.assignment import assign

    chosen = assign(scores, lower=[0] * (len(most) - 1) + [n_idle], upper=[min(n, len(scores)) for n in most])
    return np.where(chosen == len(most) - 1, -1, chosen)


def buy(scores: Array, cost: Array, capacity: Ints | None, budget: float) -> Ints:
    """The worker of each task, -1 for none: a great total score for what may be spent.

    A price on money is raised until what is bought can be paid; what is left then buys the best that it can.
    """
    most = [len(scores)] * scores.shape[1] if capacity is None else capacity.tolist()
    idle = np.zeros((len(scores), 1))

    def at(price: float) -> Ints:
        return _flow(np.hstack([scores - price * cost, idle]), [*most, len(scores)], 0)

    def spent(chosen: Ints) -> float:
        return float(cost[chosen[chosen >= 0]].sum())

    chosen = at(0.0)
    if spent(chosen) > budget:
        finite = scores[np.isfinite(scores)]
        low, high = 0.0, float(finite.max() / cost.min()) * (1 + 1e-9) + 1e-300
        chosen = np.full(len(scores), -1, np.int64)
        for _ in range(40):
            middle = (low + high) / 2
            tried = at(middle)
            if spent(tried) <= budget:
                high, chosen = middle, tried
            else:
                low = middle
    _spend_the_rest(chosen, scores, cost, most, budget - spent(chosen))
    return chosen


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
    """Give some of the tasks to anybody who may answer them, at no greater cost."""
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


def _say_what_is_short(budget: int | float, n: int, why: str) -> None:
    if n and n < budget:
        warn_of_data(f"the budget is {budget:,}, and {n:,} {why}")


def _frame(known: Beliefs, rows: Ints, who: Ints | None, scores: Array) -> pa.Table:
    falls = np.empty(len(rows))
    if who is None:
        falls[:] = error_gain(known.posterior[rows], known.average, _of(known.share, rows))
    else:
        for worker in np.unique(who):
            mine = who == worker
            falls[mine] = error_gain(known.posterior[rows[mine]], known.confusion[worker], _of(known.share, rows[mine]))
    columns = {"task": known.tasks.take(rows).arrow()}
    if who is not None:
        columns["worker"] = known.workers.take(who).arrow()
    return arrow.table(columns | {"expected_gain": falls, "score": scores})
