"""What checks run on, and how a list of them becomes tests."""

from __future__ import annotations

import unittest
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands._simulate import simulate
from manyhands.errors import IdentifiabilityWarning

S = TypeVar("S", bound="Checked")
Check = Callable[[S], None]


class Log(Protocol):
    """Made-up answers of any kind."""

    def votes(self) -> Any:
        """The answers as ``fit`` takes them."""


@dataclass(frozen=True, eq=False)
class TaskLog:
    """Made-up answers of workers to tasks, in codes, and what else `from_arrays` of their table takes of each row."""

    tasks: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int64]
    answers: Any
    #: Labels or weights; None for none.
    extra: Any = None

    table: ClassVar[Any]

    def votes(self) -> Any:
        """The answers as ``fit`` takes them."""
        return self.table.from_arrays(self.tasks, self.workers, self.answers, self.extra)

    def reordered(self, seed: int = 3) -> Self:
        """The same rows in another order."""
        order = np.random.default_rng(seed).permutation(len(self.tasks))

        def moved(rows: Any) -> Any:
            return rows[order] if isinstance(rows, np.ndarray) else rows and [rows[row] for row in order]

        columns = ("tasks", "workers", "answers", "extra")
        return replace(self, **{name: moved(getattr(self, name)) for name in columns})


def clone(model: Any) -> Any:
    """A fresh estimator with the same parameters."""
    return type(model)(**model.get_params())


@dataclass(frozen=True)
class Checked(ABC):
    """An estimator that is checked, and how to make it."""

    name: str
    #: A fresh estimator for a log, whose names its parameters may use, or for a network.
    make: Callable[[Any], Any]
    #: Checks that cannot be asked of it, each with the reason.
    skip: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Subject(Checked):
    """An estimator with the logs of its kind that it is tried on.

    The checks of `common` ask for no more than this; a kind of annotation derives from it, and may add what its own
    checks need.
    """

    @property
    @abstractmethod
    def standard(self) -> Log:
        """An ordinary log, small."""

    @property
    @abstractmethod
    def other(self) -> Log:
        """A log of other sizes."""

    @property
    @abstractmethod
    def large(self) -> Log:
        """A log whose fit is shared out among threads; the same at each call."""

    @classmethod
    def of(cls, estimator: Any, skip: Mapping[str, str]) -> Self:
        """The subject of the checks of an estimator, or of a function that makes one for a log of its kind."""
        make = estimator if callable(estimator) else lambda _: clone(estimator)
        subject = make(cls("", make).standard)
        return cls(repr(subject), make, {**subject._skipped_checks, **skip})

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """What can be asked of a fitted model in addition to its results: methods by name, ready to be called."""
        return {"to_frame": model.to_frame, "workers_frame": model.workers_frame}

    def fitted(self, log: Log | None = None) -> Any:
        """A fresh estimator, fitted to a log; to the standard one if none is given."""
        log = log or self.standard
        return self.make(log).fit(log.votes())


@dataclass(frozen=True)
class SimulatedLog:
    """A log that is simulated when it is asked for, with the default sizes of its kind unless some are given."""

    kind: str
    seed: int
    sizes: tuple[int, ...] = ()

    def votes(self) -> Any:
        """The answers as ``fit`` takes them."""
        return simulate_log(self.kind, self.seed, *self.sizes)


@cache
def simulate_log(kind: str, seed: int, *sizes: int) -> Any:
    """A simulated log of a kind."""
    return simulate(*sizes, kind=kind, seed=seed).log


@dataclass(frozen=True)
class SimulatedSubject(Subject):
    """An estimator of a kind that has a simulator and no checks of its own."""

    kind: str = ""

    @property
    def standard(self) -> Log:
        """A simulated log."""
        return SimulatedLog(self.kind, 0)

    @property
    def other(self) -> Log:
        """Another one."""
        return SimulatedLog(self.kind, 1)

    @property
    def large(self) -> Log:
        """The first one: nothing is known of sizes."""
        return self.standard


def results_of(model: Any) -> list[str]:
    """Names of a model's results: its properties and attributes that end in an underscore."""
    names = {name for name in dir(type(model)) if isinstance(getattr(type(model), name), property)} | set(vars(model))
    return sorted(name for name in names if name.endswith("_") and not name.startswith("_"))


def checks_of(subject: S, checks: Iterable[Check[S]]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check, and the check ready to be called; those to skip raise `unittest.SkipTest`."""
    by_name = {name_of(check): check for check in checks}
    unknown = sorted(set(subject.skip) - set(by_name))
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r} to skip; there are {', '.join(by_name)}")
    for name, check in by_name.items():
        yield name, _ready(subject, name, check)


def name_of(check: Callable[..., None]) -> str:
    """A check's name: its function's, without ``check_``."""
    return check.__name__.removeprefix("check_")


def _ready(subject: S, name: str, check: Check[S]) -> Callable[[], None]:
    def run() -> None:
        if name in subject.skip:
            raise unittest.SkipTest(subject.skip[name])
        with warnings.catch_warnings():
            # Small and odd logs leave something undetermined, and methods report it.
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            try:
                check(subject)
            except unittest.SkipTest:
                raise
            except Exception as error:
                raise AssertionError(f"{subject} fails the check {name}: {_report(error)}") from error

    return run


def _report(error: Exception) -> str:
    text = str(error).strip() or "no message"
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def run_checks(checks: Iterable[tuple[str, Callable[[], None]]]) -> dict[str, str]:
    """Run checks until one fails; returns those that were skipped, and why."""
    skipped = {}
    for name, check in checks:
        try:
            check()
        except unittest.SkipTest as reason:
            skipped[name] = str(reason)
    return skipped
