"""Campaigns: buy labels one after the other, learn from each answer, and stop."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.checks import check_choice, check_number, plural
from manyhands._base.estimator import Array
from manyhands._base.names import Names, sequence
from manyhands.categorical.base import Aggregator
from manyhands.categorical.consensus import Consensus
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.collect.crowd import EXPLORE, Pool, check_epsilon, epsilon_at, explored_confusion, pool_of
from manyhands.collect.decisions import NOBODY, Decisions, Request
from manyhands.collect.gains import STRATEGIES, Ints, error_gain, information, uncertainty
from manyhands.collect.state import State
from manyhands.collect.stop import need_no_more

if TYPE_CHECKING:
    import pyarrow as pa

UPDATES = ("batch", "online")
#: Most candidate workers per task: those with the largest skill.
_BEST = 64


class Campaign(persist.Saved):
    """A campaign to label tasks: :meth:`ask` returns requests, :meth:`tell` takes answers, until all tasks are done.

    Use it behind a labeling platform's webhook. No worker is asked about a task twice, and a requested task is not
    requested again until its answer arrives or the request is released (:meth:`release`). Answers without a request
    are accepted.

    Parameters
    ----------
    tasks : sequence
        Names of the tasks.
    classes : sequence
        Names of the classes that may be answered.
    workers : list or frame, optional
        Workers to ask, as for :func:`next_labels`: names, or a frame with capacities. By default tasks go to any worker
        who comes, and workers become known by their first answer.
    strategy : str, default "entropy"
        What tasks are chosen by, as for :func:`next_labels`.
    explore, epsilon
        How workers who are little known get a chance, as for :func:`next_labels`.
    update : str, default "batch"
        ``"batch"`` fits `model` to all answers whenever there are 15 % more of them; between fits only posteriors of
        answered tasks move. ``"online"`` is stepwise EM after every answer: the estimates of its worker move by a step
        of t to the power of -`kappa`, where t is one plus the number of answers of this worker, not of all workers.
    model : Aggregator or None, default None
        The aggregator to fit; None for the default. ``DawidSkene(warm_start=True)`` goes on from its last fit.
    kappa : float, default 0.6
        How fast the past fades in stepwise EM, above 0.5 and at most 1.
    error : float or None, default None
        Stop a task at this probability of error, as :func:`stopping` does; None to go on.
    labels_per_task : int or None, default None
        Largest number of labels per task; None for no limit.
    budget : int or None, default None
        Labels to buy in all; None for no limit.
    votes
        Answers that are there already.
    seed : int, default 0
        Of all that is drawn: the same seed and the same answers make the same choices.

    Notes
    -----
    Time of a step O(log n_tasks + n_classes² · labels of the task) and, where workers are chosen, O(n_workers); of a
    fit that of the model, O(log labels) times in all. Memory O(n_tasks · n_classes + n_workers · n_classes²).

    References
    ----------
    P. A. Traganitis and G. B. Giannakis, "Unsupervised ensemble classification with sequential and networked data",
    IEEE Transactions on Knowledge and Data Engineering (2020), for online EM; P. Liang and D. Klein, "Online EM for
    unsupervised models", NAACL-HLT (2009).

    Examples
    --------
    >>> import manyhands as mh
    >>> campaign = mh.collect.Campaign(range(50), classes=["cat", "dog"], workers=["ann", "bob", "eve"], budget=80)
    >>> while not campaign.done:
    ...     (request,) = campaign.ask()
    ...     campaign.tell(request.task, request.worker, "cat" if request.task < 25 else "dog")
    >>> campaign.n_answers
    80
    """

    _file_kind: ClassVar[str] = "campaign"

    def __init__(
        self,
        tasks: Iterable[Any],
        classes: Iterable[Any],
        *,
        workers: Any = None,
        strategy: str = "entropy",
        explore: str = "epsilon-greedy",
        epsilon: float | None = None,
        update: str = "batch",
        model: Aggregator | None = None,
        kappa: float = 0.6,
        error: float | None = None,
        labels_per_task: int | None = None,
        budget: int | None = None,
        votes: Any = None,
        seed: int = 0,
    ) -> None:
        check_choice("strategy", strategy, STRATEGIES)
        check_choice("explore", explore, EXPLORE)
        check_epsilon(epsilon)
        check_choice("update", update, UPDATES)
        check_number("kappa", kappa, least=0.5, most=1)
        for name, limit in (("labels_per_task", labels_per_task), ("budget", budget)):
            if limit is not None:
                check_number(name, limit, least=1 if name == "labels_per_task" else 0, whole=True)
        check_number("seed", seed, least=0, whole=True)
        if model is not None and not isinstance(model, Aggregator):
            raise TypeError(f"model must be an aggregator of classes, not {type(model).__name__}")
        self._tasks, self._classes = _names(tasks, "tasks"), _names(classes, "classes")
        if not len(self._tasks):
            raise ValueError("no task is open: tasks is empty")
        if not len(self._classes):
            raise ValueError("classes is empty; name what may be answered")
        if error is not None:
            need_no_more(np.ones((1, 1)), np.ones(1), error)
        self._settings: dict[str, Any] = {
            "strategy": strategy,
            "explore": explore,
            "epsilon": epsilon,
            "update": update,
            "error": error,
            "labels_per_task": labels_per_task,
            "budget": budget,
        }
        pool = None if workers is None else pool_of(workers, Names(np.zeros(0, np.int64)))
        if pool is not None and pool.cost is not None:
            raise ValueError("a campaign counts labels, and knows no costs; leave the column out, or use next_labels")
        self._start(pool, np.random.default_rng(seed))
        fitted = (model or Consensus()) if update == "batch" else None
        self._state = State(len(self._tasks), len(self._worker_names), len(self._classes), fitted, kappa)
        self._score_all()
        if votes is not None:
            self._take(as_annotations(votes))

    def _start(self, pool: Pool | None, rng: np.random.Generator) -> None:
        n = len(self._tasks)
        self._task_of = {name: code for code, name in enumerate(self._tasks.values.tolist())}
        self._class_of = {name: code for code, name in enumerate(self._classes.values.tolist())}
        self._worker_names: list[Any] = [] if pool is None else pool.names.values.tolist()
        self._worker_of = {name: code for code, name in enumerate(self._worker_names)}
        self._chosen = pool is not None
        #: Labels that each can still give; beyond any number where nothing limits it.
        limit = None if pool is None else pool.capacity
        self._left = np.full(len(self._worker_names), 2**62) if limit is None else limit.copy()
        self._rng = rng
        self._tie = rng.random(n)
        self._scores = np.zeros(n)
        self._closed = np.zeros(n, np.bool_)
        self._pending: dict[int, int] = {}
        self._heap: list[tuple[float, float, int]] = []
        self._events = Decisions()
        self._n_asked = 0

    # -------------------------------------------------------------------------------------------------- requests

    @property
    def n_answers(self) -> int:
        """Number of answers so far."""
        return len(self._state.tasks)

    @property
    def done(self) -> bool:
        """Whether there is nothing more to ask for: all tasks are done, or the budget is used up."""
        return self._spent() or not (~self._closed).any()

    def _spent(self) -> bool:
        budget = self._settings["budget"]
        return budget is not None and self.n_answers + len(self._pending) >= budget

    def ask(self, n: int = 1, *, worker: Any = None) -> list[Request]:
        """Return the next requests.

        Parameters
        ----------
        n : int, default 1
            Number of labels.
        worker : optional
            Worker who is free now; tasks are chosen for this worker.

        Returns
        -------
        list of Request
            Fewer than `n` if there is no more to ask.
        """
        check_number("n", n, least=1, whole=True)
        came = None if worker is None else self._worker_code(worker)
        requests: list[Request] = []
        while len(requests) < n and not self._spent():
            request = self._next(came)
            if request is None:
                break
            requests.append(request)
        return requests

    def _most_uncertain(self, may: Callable[[int], bool]) -> int:
        """The first open task in the queue that may be asked about, which leaves the queue; others are closed."""
        while True:
            score, _, task = heapq.heappop(self._heap)
            if self._closed[task] or -score != self._scores[task]:
                continue
            if may(task):
                return task
            self._closed[task] = True

    def _next(self, came: int | None) -> Request | None:
        """Return the next request; None if no worker can be asked anything."""
        put_back, request = [], None
        while self._heap and request is None:
            entry = heapq.heappop(self._heap)
            task = entry[2]
            if self._closed[task] or task in self._pending or -entry[0] != self._scores[task]:
                continue
            put_back.append(entry)
            candidate = self._worker_for(task, came)
            if candidate is not None:
                request = self._request(task, *candidate)
        for entry in put_back:
            if entry[2] not in self._pending:
                heapq.heappush(self._heap, entry)
        return request

    def _worker_for(self, task: int, came: int | None) -> tuple[int, str] | None:
        """Choose the worker to ask about a task, and state why; None if there is none."""
        if came is not None:
            free = self._left[came] > 0 and came not in self._answered(task)
            return (came, "came") if free else None
        if not self._chosen:
            return NOBODY, "anybody"
        free = self._left > 0
        free[self._answered(task)] = False
        candidates = np.flatnonzero(free)
        return None if not len(candidates) else self._choose(task, candidates)

    def _choose(self, task: int, candidates: Ints) -> tuple[int, str]:
        """Choose one of the candidates for a task, and state why."""
        explore = self._settings["explore"]
        if explore == "epsilon-greedy" and self._rng.random() < epsilon_at(self._settings["epsilon"], self._n_asked):
            return int(self._rng.choice(candidates)), "tried"
        state = self._state
        if len(candidates) > _BEST:
            candidates = candidates[np.argpartition(-state.skill[candidates], _BEST)[:_BEST]]
        matrices = explored_confusion(explore, state.confusion[candidates], state.strength[candidates], self._rng)
        bits = information(matrices, state.posterior[task])
        return int(candidates[int(bits.argmax())]), "best"

    def _answered(self, task: int) -> list[int]:
        state = self._state
        return [state.workers[at] for at in state.of_task.get(task, ())]

    def _request(self, task: int, worker: int, why: str) -> Request:
        self._pending[task] = worker
        self._n_asked += 1
        if worker != NOBODY:
            self._left[worker] -= 1
        matrix = self._state.crowd() if worker == NOBODY else self._state.confusion[worker]
        fall = float(error_gain(self._state.posterior[task : task + 1], matrix, np.array([self._state.share(task)]))[0])
        self._events.note("ask", task, worker, value=fall, why=why)
        name = None if worker == NOBODY else self._worker_names[worker]
        return Request(self._name(task), name, fall, why)

    def release(self, task: Any) -> None:
        """Drop a request without an answer, so that the task can be requested again."""
        code = self._code(task)
        if code not in self._pending:
            raise ValueError(f"task {task!r} was not asked about")
        worker = self._pending.pop(code)
        if worker != NOBODY:
            self._left[worker] += 1
        self._events.note("release", code, worker)
        self._push(code)

    # --------------------------------------------------------------------------------------------------- answers

    def tell(self, task: Any, worker: Any, label: Any) -> None:
        """Record an answer, requested or not.

        An answer that is delivered again changes nothing. Another answer of the same worker to the same task replaces
        the earlier one, as if it had been the first: it counts once, and takes nothing from the budget.

        Parameters
        ----------
        task, worker, label
            The answer of a worker to a task; a new worker becomes known.
        """
        code = self._code(task)
        answer = self._class_of.get(_plain(label))
        if answer is None:
            raise ValueError(f"{label!r} is not among the classes {list(self._class_of)[:5]}")
        who = self._worker_code(worker)
        earlier = [at for at in self._state.of_task.get(code, ()) if self._state.workers[at] == who]
        if earlier:
            if self._state.labels[earlier[-1]] != answer:
                self._replace(earlier[-1], answer)
            return
        requested = self._pending.pop(code, None)
        if requested is not None and requested not in (who, NOBODY):
            self._left[requested] += 1
        if requested != who:
            self._left[who] = max(self._left[who] - 1, 0)
        self._state.tell(code, who, answer)
        self._events.note("answer", code, who, answer, value=float(self._state.posterior[code].max()))
        if self._state.due():
            self._refit()
        else:
            self._score(code)
            self._close(code)
            self._push(code)

    def _replace(self, at: int, label: int) -> None:
        """Change an answer, and learn again from all of them."""
        state = self._state
        state.labels[at] = label
        task = state.tasks[at]
        self._closed[task] = False
        if state.model is not None and self._events.have("fit"):
            self._refit()
        else:
            sizes = len(self._tasks), len(self._worker_names), len(self._classes)
            self._state = State(*sizes, state.model, state.kappa)
            for answer in zip(state.tasks, state.workers, state.labels, strict=True):
                self._state.tell(*answer)
            self._score_all()
        value = float(self._state.posterior[task].max())
        self._events.note("answer", task, state.workers[at], label, value=value)

    def _take(self, votes: Annotations) -> None:
        tasks, workers, labels = votes.codes()
        columns = votes.tasks.tolist(), votes.workers.tolist(), votes.labels.tolist()
        for t, w, answer in zip(tasks.tolist(), workers.tolist(), labels.tolist(), strict=True):
            label = self._class_of.get(columns[2][answer])
            if label is None:
                raise ValueError(f"votes hold the label {columns[2][answer]!r}, which is not among the classes")
            self._state.tell(self._code(columns[0][t]), self._worker_code(columns[1][w]), label)
        self._refit()

    def _refit(self) -> None:
        self._state.refit()
        self._events.note("fit", NOBODY, NOBODY, value=float(self.n_answers))
        self._score_all()

    # --------------------------------------------------------------------------------------------------- scores

    def _score(self, task: int) -> None:
        state = self._state
        share = np.array([state.share(task)])
        row = state.posterior[task : task + 1]
        self._scores[task] = uncertainty(self._settings["strategy"], row, state.crowd(), share)[0]

    def _score_all(self) -> None:
        """Score all tasks again, close finished ones, and queue the rest."""
        state = self._state
        counts = np.zeros(len(self._tasks))
        for task, answers in state.of_task.items():
            counts[task] = len(answers)
        share = 1.0 / (1.0 + state.settings[1] * counts)
        self._scores = uncertainty(self._settings["strategy"], state.posterior, state.crowd(), share)
        for task in state.of_task:
            self._close(task)
        self._queue()

    def _queue(self) -> None:
        open_ = [t for t in np.flatnonzero(~self._closed).tolist() if t not in self._pending]
        self._heap = [(-float(self._scores[t]), float(self._tie[t]), t) for t in open_]
        heapq.heapify(self._heap)

    def _push(self, task: int) -> None:
        if not self._closed[task] and task not in self._pending:
            heapq.heappush(self._heap, (-float(self._scores[task]), float(self._tie[task]), task))

    def _close(self, task: int) -> None:
        """Close a task that needs no more labels."""
        if self._closed[task]:
            return
        n, most, error = (
            len(self._state.of_task.get(task, ())),
            self._settings["labels_per_task"],
            self._settings["error"],
        )
        why = ""
        if most is not None and n >= most:
            why = "labels"
        elif error is not None and need_no_more(self._state.posterior[task : task + 1], self._state.prior, error)[0]:
            why = "error"
        elif self._chosen and n and len(set(self._answered(task))) >= len(self._worker_names):
            why = "exhausted"
        if why:
            self._closed[task] = True
            self._events.note("stop", task, NOBODY, value=float(self._state.posterior[task].max()), why=why)

    # -------------------------------------------------------------------------------------------------- results

    @property
    def votes(self) -> Annotations:
        """All answers so far, by name."""
        state = self._state
        if not state.tasks:
            raise ValueError("nothing was answered yet")
        return Annotations.from_arrays(
            self._tasks.take(np.array(state.tasks)).values,
            sequence(self._worker_names).take(np.array(state.workers)).values,
            self._classes.take(np.array(state.labels)).values,
            classes=self._classes.values.tolist(),
        )

    @property
    def posterior(self) -> Array:
        """Class posterior of each task, (n_tasks, n_classes), in the order in which they were given."""
        return self._state.posterior.copy()

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The most probable class of each task, by name, (n_tasks,)."""
        labels: npt.NDArray[Any] = self._classes.values[self._state.posterior.argmax(axis=1)]
        return labels

    def to_frame(self) -> pa.Table:
        """Return task, label, confidence, n_answers and whether it is done, as an Arrow table."""
        counts = np.array([len(self._state.of_task.get(t, ())) for t in range(len(self._tasks))])
        return arrow.table(
            {
                "task": self._tasks.arrow(),
                "label": self._classes.take(self._state.posterior.argmax(axis=1)).arrow(),
                "confidence": self._state.posterior.max(axis=1),
                "n_answers": counts,
                "done": self._closed.copy(),
            }
        )

    @property
    def log(self) -> pa.Table:
        """Every decision in order: event, task, worker, label, value and why.

        The value of ``"ask"`` is the expected fall of error, of ``"answer"`` and ``"stop"`` the confidence then, of
        ``"fit"`` the number of labels.
        """
        return self._events.frame(self._tasks.values.tolist(), self._worker_names, self._classes.values.tolist())

    def __repr__(self) -> str:
        return (
            f"<Campaign: {plural(self.n_answers, 'label')} of {plural(len(self._tasks), 'task')}, "
            f"{int(self._closed.sum()):,} done, {len(self._pending):,} asked>"
        )

    # ---------------------------------------------------------------------------------------------------- names

    def _name(self, task: int) -> Any:
        return self._tasks.values[[task]].tolist()[0]

    def _code(self, task: Any) -> int:
        code = self._task_of.get(_plain(task))
        if code is None:
            raise KeyError(f"no task is called {task!r}")
        return code

    def _worker_code(self, worker: Any) -> int:
        """Return the code of a worker; new workers become known, unless the campaign names its workers."""
        name = _plain(worker)
        if name is None:
            raise ValueError("an answer needs the worker who gave it")
        code = self._worker_of.get(name)
        if code is None:
            code = self._worker_of[name] = len(self._worker_names)
            self._worker_names.append(name)
            # If the campaign names its workers, others may answer but are not asked.
            self._left = np.append(self._left, 0 if self._chosen else 2**62)
            self._state.meet(1)
        return code

    # ---------------------------------------------------------------------------------------------- persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the campaign to a versioned file that holds data only; :func:`manyhands.load` goes on from it."""
        from manyhands.collect.files import write

        write(self, path)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        from manyhands.collect.files import restore

        return restore(cls, content)


def _names(given: Iterable[Any], what: str) -> Names:
    if isinstance(given, str | bytes):
        raise TypeError(f"{what} must be several names, not the text {given!r}")
    listed: Any = given if isinstance(given, np.ndarray) else list(given)
    names = sequence(listed, what) if len(listed) else Names(np.zeros(0, np.int64))
    if len(set(names.values.tolist())) < len(listed):
        raise ValueError(f"{what} names something twice")
    return names


def _plain(name: Any) -> Any:
    """A NumPy number as a plain one, as names are."""
    return name.item() if isinstance(name, np.generic) else name
