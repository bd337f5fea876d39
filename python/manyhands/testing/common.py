"""What every estimator is held to, whatever kind of annotation it takes and whatever its results are."""

from __future__ import annotations

import _thread
import copy
import json
import pickle
import signal
import tempfile
import threading
import traceback
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np

import manyhands as mh
from manyhands.testing.compare import SAME, assert_close, assert_same_answers, assert_same_bits, raises, require
from manyhands.testing.subject import Subject, TaskLog, clone, results_of


def check_clone(subject: Subject) -> None:
    """A copy made from the parameters, by scikit-learn too, is unfitted and fits to the same."""
    model = subject.fitted()
    copies = [clone(model)]
    with suppress(ImportError):
        from sklearn.base import clone as sklearn_clone

        copies.append(sklearn_clone(model))
    for copied in copies:
        require(type(copied) is type(model), f"a clone is a {type(copied).__name__}")
        text = repr(subject.make(subject.standard))
        require(repr(copied) == text, f"a clone shows itself as {copied!r}")
        for name in results_of(copied):
            with raises(mh.errors.NotFittedError, f"{name} of a clone"):
                getattr(copied, name)
    assert_same_bits(copies[-1].fit(subject.standard.votes()), model, "a clone")


def check_params(subject: Subject) -> None:
    """The constructor keeps its arguments as they are, and only those."""
    model = subject.make(subject.standard)
    params = model.get_params()
    for name, value in clone(model).get_params().items():
        require(value is params[name], f"the constructor does not keep {name} as it was given")
    changed = type(model)(**params).set_params(**params)
    require(changed.get_params().keys() == params.keys(), "set_params changes which parameters there are")
    with raises(ValueError, "set_params of an unknown name", "no_such_parameter"):
        model.set_params(no_such_parameter=1)


def check_repr(subject: Subject) -> None:
    """An estimator shows itself as the call that makes it, unless its parameters are too long for that."""
    model = subject.make(subject.standard)
    text = repr(model)
    require(text.startswith(f"{type(model).__name__}("), f"it shows itself as {text}")
    if "array" in text or "..." in text:
        return
    names = {**vars(mh), type(model).__name__: type(model), "inf": float("inf"), "nan": float("nan")}
    copied = eval(text, names)
    np.testing.assert_equal(copied.get_params(), model.get_params(), err_msg=f"{text} makes another estimator")


def check_before_fit(subject: Subject) -> None:
    """Before fit there are no results, and `NotFittedError` names `fit`."""
    model = subject.make(subject.standard)
    name = type(model).__name__
    for result in results_of(model):
        with raises(mh.errors.NotFittedError, f"{result} before fit", name, "call fit"):
            getattr(model, result)
    asks = subject.answers(model, subject.standard.votes()) | {"save": lambda: model.save("nowhere")}
    for method, ask in asks.items():
        with raises(mh.errors.NotFittedError, f"{method} before fit", name):
            ask()


def check_fit_returns_itself(subject: Subject) -> None:
    """Fit returns the estimator that it was called on."""
    model = subject.make(subject.standard)
    require(model.fit(subject.standard.votes()) is model, "fit does not return the estimator itself")


def check_refit_forgets(subject: Subject) -> None:
    """A second fit leaves nothing of the first."""
    model = subject.make(subject.standard)
    params = model.get_params()
    model.set_params(**subject.make(subject.other).get_params()).fit(subject.other.votes())
    model.set_params(**params).fit(subject.standard.votes())
    assert_same_bits(model, subject.fitted(), "a second fit")


def check_seed_repeats(subject: Subject) -> None:
    """The same parameters and the same answers give the same bits, whatever random numbers are drawn in between."""
    first = subject.fitted()
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(12345)  # noqa: NPY002
        assert_same_bits(subject.fitted(), first, "two fits of one seed")
    finally:
        np.random.set_state(state)  # noqa: NPY002


def check_input_unchanged(subject: Subject) -> None:
    """Neither the table nor the parameters change, by fit or by what is asked afterwards."""
    votes = subject.standard.votes()
    model = subject.make(subject.standard)
    params, table = copy.deepcopy(model.get_params()), pickle.loads(pickle.dumps(votes))
    model.fit(votes)
    for ask in subject.answers(model, votes).values():
        ask()
    require(votes == table, "the table changed")
    np.testing.assert_equal(model.get_params(), params, err_msg="a parameter changed")


def check_pickle(subject: Subject) -> None:
    """A pickled and a copied model are the same, fitted or not."""
    votes = subject.standard.votes()
    model = subject.fitted()
    for way, copied in (("pickled", pickle.loads(pickle.dumps(model))), ("copied", copy.deepcopy(model))):
        assert_same_bits(copied, model, f"a {way} model")
        assert_same_answers(subject.answers(copied, votes), subject.answers(model, votes), f"a {way} model")
    fresh = subject.make(subject.standard)
    require(repr(pickle.loads(pickle.dumps(fresh))) == repr(fresh), "pickling changes the parameters")


def check_save_and_load(subject: Subject) -> None:
    """A saved model comes back the same, with all parameters that are settings and not data."""
    votes = subject.standard.votes()
    model = subject.fitted()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mh"
        model.save(path)
        loaded = mh.load(path, type(model))
    assert_same_bits(loaded, model, "a loaded model")
    assert_same_answers(subject.answers(loaded, votes), subject.answers(model, votes), "a loaded model")
    params = model.get_params()
    settings = {
        name: value for name, value in params.items() if name not in model._data_parameters and _is_setting(value)
    }
    for name, value in settings.items():
        require(loaded.get_params()[name] == value, f"a loaded model has another {name}")
    if len(settings) == len(params):
        assert_same_bits(loaded.fit(votes), model, "a loaded model that is fitted again")


def _is_setting(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, dict)


# --------------------------------------------------------------------------------------------------- results

#: Names of columns that go by another name in every kind.
_OTHER_NAMES = {"n_labels", "n_boxes", "n_ratings", "lower", "upper", "sensitivity", "spread_error", "standard_error"}


def check_contract(subject: Subject) -> None:
    """Answers, confidences, frames and explanations have the form that they have for every kind of answer."""
    model, votes = subject.fitted(), subject.standard.votes()
    about = model._about.values.tolist()
    require(len(model.answers_) >= len(about), f"answers_ has {len(model.answers_)} rows for {len(about)}")
    confidence = model.confidence_
    require(confidence.shape == (len(about),), f"confidence_ has shape {confidence.shape}")
    sound = np.isnan(confidence) | ((confidence >= 0) & (confidence <= 1 + 1e-9))
    require(sound.all(), f"confidence_ holds {confidence[~sound][:3]}")
    answers, workers, tasks = model.to_frame(), model.workers_frame(), model.tasks_frame()
    first = ("item",) if model._parts[0] == "items" else ("task", "sequence")
    for what, frame in (("to_frame", answers), ("workers_frame", workers), ("tasks_frame", tasks)):
        other = sorted(_OTHER_NAMES & set(frame.column_names))
        require(not other, f"{what} has a column {other}")
        if what != "workers_frame":
            require(frame.column_names[0] in first, f"{what} begins with {frame.column_names[0]}")
            require("confidence" in frame.column_names, f"{what} has no confidence")
        if "low" in frame.column_names and what == "to_frame":
            require((frame.schema.metadata or {}).get(b"level"), f"{what} has intervals without a level")
    columns_expected = ["worker", "n_answers", "skill", "skill_error"]
    require(workers.column_names[:4] == columns_expected, f"workers_frame begins with {workers.column_names[:4]}")
    require(workers.num_rows == len(model.workers_), f"workers_frame has {workers.num_rows} rows")
    require(tasks.num_rows == len(about), f"tasks_frame has {tasks.num_rows} rows")
    require(tasks.column(0).to_pylist() == about, "tasks_frame is not in the order of the names")
    require(tasks.column("n_answers").null_count == 0, "tasks_frame has no n_answers after fit")
    np.testing.assert_array_equal(tasks.column("confidence").to_numpy(), confidence, err_msg="tasks_frame")
    _check_explanation(model, votes, about[0])
    _check_prediction(model, votes)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.mh")
        loaded = mh.load(Path(folder) / "model.mh", type(model))
    require(loaded.tasks_frame().column_names == tasks.column_names, "a loaded model has another tasks_frame")
    with raises(ValueError, "explain of a loaded model without answers", "votes="):
        loaded.explain(about[0])
    _check_explanation(loaded, votes, about[0], votes)


def _check_explanation(model: Any, votes: Any, task: Any, *given: Any) -> None:
    explanation = model.explain(task, *given)
    require(explanation.task == task, f"an explanation is of {explanation.task!r}, not of {task!r}")
    require(str(task) in str(explanation), "an explanation does not print its task")
    require("worker" in explanation.to_frame().column_names, "an explanation names no workers")
    plain = explanation.to_dict()
    require({"task", "answer", "confidence", "votes"} <= set(plain), f"an explanation has {sorted(plain)}")
    json.dumps(plain, default=str)
    with raises((KeyError, ValueError), "explain of an unknown name", "no such name"):
        model.explain("no such name", *given)


def _check_prediction(model: Any, votes: Any) -> None:
    arguments = (model.items_[:1], model.items_[:1]) if model._parts[0] == "items" else (votes,)
    try:
        predictions = model.predict(*arguments)
    except NotImplementedError as error:
        require(type(model).__name__ in str(error), "predict does not say which method cannot predict")
    else:
        n = 1 if model._parts[0] == "items" else len(model.answers_)
        require(len(predictions) == n, f"predict returns {len(predictions)} answers for {n}")


# ---------------------------------------------------------------------- for kinds whose logs are a `TaskLog`


def _assert_equal_answers(one: Any, other: Any, what: str) -> None:
    """Answers of two models, task by task."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=what)


def check_order_of_rows(subject: Subject) -> None:
    """Ten shuffles of the rows change nothing, to the last bit."""
    before = subject.fitted()
    for seed in range(10):
        after = subject.fitted(cast(TaskLog, subject.standard).reordered(seed))
        _assert_equal_answers(after.answers_, before.answers_, "answers depend on the order of rows")
        np.testing.assert_array_equal(after.confidence_, before.confidence_)


def check_renaming(subject: Subject) -> None:
    """Exchanging the names of tasks or workers exchanges what is found of them."""
    log, before = cast(TaskLog, subject.standard), subject.fitted()
    for part in ("tasks", "workers"):
        codes = getattr(log, part)
        order = np.random.default_rng(1).permutation(int(codes.max()) + 1)
        after = subject.fitted(replace(log, **{part: order[codes]}))
        place = order if part == "tasks" else np.arange(len(before.tasks_))
        answers_renamed = [after.answers_[task] for task in place]
        _assert_equal_answers(answers_renamed, before.answers_, f"answers change with the names of {part}")
        assert_close(after.confidence_[place], before.confidence_, SAME, f"confidence_, {part} renamed")


# ---------------------------------------------------------------------------------------------------- threads


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Compute on this number of threads."""
    before = mh.get_num_threads()
    mh.set_num_threads(n)
    try:
        yield
    finally:
        mh.set_num_threads(before)


#: A few passes: what threads do shows in each of them.
FEW = {"max_iter": 4, "n_iter": 2, "tol": 0.0, "restarts": 1, "warmup": 1, "draws": 3, "batch_size": 15_000}
#: Passes without end, for a fit that will be stopped.
MANY = {"max_iter": 1_000_000, "n_iter": 1_000_000, "draws": 100_000, "rounds": 1_000_000, "tol": 0.0}


def with_params(model: Any, **params: Any) -> Any:
    """The model, with those of the parameters that it has, but for those that it has switched off."""
    now = model.get_params()
    return model.set_params(**{name: value for name, value in params.items() if now.get(name)})


def check_threads(subject: Subject) -> None:
    """One thread or several: the same bits."""
    log, fits = subject.large, []
    for n in (1, 3):
        with threads(n):
            fits.append(with_params(subject.make(log), **FEW).fit(log.votes()))
    assert_same_bits(fits[0], fits[1], "fits on one thread and on several")


def check_fits_side_by_side(subject: Subject) -> None:
    """Python threads that fit one table at the same time all get the same bits."""
    votes = subject.standard.votes()
    alone = subject.fitted()
    gate = threading.Barrier(4)

    def fit() -> Any:
        gate.wait()
        return subject.make(subject.standard).fit(votes)

    with ThreadPoolExecutor(4) as pool:
        for together in [future.result() for future in [pool.submit(fit) for _ in range(4)]]:
            assert_same_bits(together, alone, "fits side by side")


# ---------------------------------------------------------------------------------------- progress and Ctrl-C


def check_progress(subject: Subject) -> None:
    """Progress is reported in iterations, at least once and at the end, and changes nothing."""
    votes, alone = subject.standard.votes(), subject.fitted()
    calls: list[tuple[int, float]] = []
    model = subject.make(subject.standard)
    model.fit(votes, progress=lambda step, objective: calls.append((step, objective)))
    assert_same_bits(model, alone, "fits with and without progress")
    require(calls, "nothing was reported, not even the end")
    for step, objective in calls:
        require(type(step) is int and type(objective) is float, f"progress received {step!r} and {objective!r}")
    steps = [step for step, _ in calls]
    require(steps[-1] == model.n_iter_, f"the last report was of iteration {steps[-1]}, not of {model.n_iter_}")
    most = model._iterations()
    require(most is None or max(steps) <= most, f"iteration {max(steps)} was reported, of at most {most}")
    assert_same_bits(subject.make(subject.standard).fit(votes, progress=True), alone, "fits with and without a bar")


def check_failing_progress(subject: Subject) -> None:
    """An exception of the progress function ends the fit, and leaves the estimator as it was."""

    class Enough(Exception):
        pass

    def stop(step: int, objective: float) -> None:
        raise Enough

    model, votes = subject.make(subject.standard), subject.standard.votes()
    with raises(Enough, "fit with a failing progress function"):
        model.fit(votes, progress=stop)
    for name in results_of(model):
        with raises(mh.errors.NotFittedError, f"{name} after a fit that failed"):
            getattr(model, name)
    model.fit(votes)
    with raises(Enough, "a second fit with a failing progress function"):
        model.fit(votes, progress=stop)
    assert_same_bits(model, subject.fitted(), "a fit before one that failed")


def check_interrupt(subject: Subject) -> None:
    """Ctrl-C ends a fit, which leaves the estimator as it was."""
    log = subject.large
    model = subject.make(log)
    if not any(model.get_params().get(name) for name in MANY):
        raise unittest.SkipTest("it does not iterate")
    if threading.current_thread() is not threading.main_thread():
        raise unittest.SkipTest("only the main thread can be interrupted")
    with_params(model, **MANY)
    votes = log.votes()
    # Some fits reach a fixed point and end, on a quick machine before the first of these. Those that end before the
    # last as well are interrupted when they report progress.
    for seconds in (0.05, 0.01, 0.002, 0.0004, None):
        model = clone(model)
        if _interrupts(model, votes, seconds):
            break
    for name in results_of(model):
        with raises(mh.errors.NotFittedError, f"{name} after Ctrl-C"):
            getattr(model, name)


def _interrupts(model: Any, votes: Any, seconds: float | None) -> bool:
    """Press Ctrl-C every that many seconds, or when progress is first reported, until a fit notices or has ended."""
    arrived, interrupted = False, threading.Event()

    def run() -> None:
        press_on_report = {"progress": lambda *_: signal.raise_signal(signal.SIGINT)} if seconds is None else {}
        model.fit(votes, **press_on_report)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        callers = [caller.f_code for caller, _ in traceback.walk_stack(frame)]
        if run.__code__ in callers[1:] and not arrived:
            arrived = True
            raise KeyboardInterrupt

    def press() -> None:
        while not (arrived or interrupted.wait(seconds)):
            _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, handle)
    presser = threading.Thread(target=press)
    try:
        if seconds is not None:
            presser.start()
        run()
    except KeyboardInterrupt:
        return True
    finally:
        interrupted.set()
        if seconds is not None:
            presser.join()
        signal.signal(signal.SIGINT, before)
    require(not arrived, "the fit went on to its end after Ctrl-C")
    return False


CHECKS = (
    check_clone,
    check_params,
    check_repr,
    check_before_fit,
    check_fit_returns_itself,
    check_refit_forgets,
    check_seed_repeats,
    check_input_unchanged,
    check_pickle,
    check_save_and_load,
    check_contract,
    check_threads,
    check_fits_side_by_side,
    check_progress,
    check_failing_progress,
    check_interrupt,
)
