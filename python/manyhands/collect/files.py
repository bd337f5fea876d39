"""Campaigns in files: arrays and plain settings, checked when they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from manyhands._base import persist
from manyhands._base.checks import check_number
from manyhands._base.estimator import _is_setting, _restore_tuples, without_numpy
from manyhands._base.names import Names, sequence
from manyhands.categorical.base import all_aggregators
from manyhands.collect.crowd import EXPLORE, check_epsilon
from manyhands.collect.decisions import EVENTS, REASONS, Decisions, Event
from manyhands.collect.gains import STRATEGIES, information
from manyhands.collect.state import State

if TYPE_CHECKING:
    from manyhands.collect.campaign import Campaign

C = TypeVar("C", bound="Campaign")

#: Settings of a campaign, and the types that a file may give them.
_SETTINGS: dict[str, tuple[type, ...]] = {
    "strategy": (str,),
    "explore": (str,),
    "epsilon": (float, int, type(None)),
    "update": (str,),
    "error": (float, type(None)),
    "labels_per_task": (int, type(None)),
    "budget": (int, type(None)),
}


def write(campaign: Campaign, path: str | os.PathLike[str]) -> None:
    """Write a campaign."""
    state, model = campaign._state, campaign._state.model
    if model is not None and not type(model).__module__.startswith("manyhands."):
        raise TypeError(f"a campaign that fits {type(model).__name__}, which is not the library's, cannot be saved")
    params = {} if model is None else without_numpy(model.get_params())
    meta = {
        "settings": campaign._settings,
        "model": None if model is None else type(model).__name__,
        "params": {name: value for name, value in params.items() if _is_setting(value)},
        "kappa": state.kappa,
        "rng": campaign._rng.bit_generator.state,
        "chosen": campaign._chosen,
        "asked": campaign._n_asked,
    }
    events = campaign._events
    arrays: dict[str, Any] = {
        "answers": np.array([state.tasks, state.workers, state.labels], np.int64).reshape(3, -1),
        "tie": campaign._tie,
        "scores": campaign._scores,
        "closed": campaign._closed,
        "left": campaign._left.astype(np.int64),
        "pending": np.array([*campaign._pending.items()], np.int64).reshape(-1, 2),
        "events": np.array([e[:5] for e in events], np.int64).reshape(-1, 5),
        "values": np.array([e.value for e in events], np.float64),
    }
    arrays |= {f"state.{name}": np.asarray(getattr(state, name), np.float64) for name in State.ARRAYS}
    arrays |= persist.pack_names("tasks", campaign._tasks) | persist.pack_names("classes", campaign._classes)
    if campaign._worker_names:
        arrays |= persist.pack_names("workers", sequence(campaign._worker_names))
    persist.write(path, campaign._file_kind, meta, arrays, read_back=campaign._load)


def restore(cls: type[C], content: persist.Content) -> C:
    """Make a campaign of what a file holds; a model goes on from the next fit."""
    campaign = object.__new__(cls)
    campaign._tasks, campaign._classes = content.names("tasks"), content.names("classes")
    campaign._settings = _settings(content)
    answers = content.array("answers", np.int64, ndim=2)
    left = content.array("left", np.int64, ndim=1)
    workers = content.names("workers") if len(left) else Names(np.zeros(0, np.int64))
    sizes = {"n": len(campaign._tasks), "m": len(workers), "k": len(campaign._classes), "v": answers.shape[1]}
    if len(left) != sizes["m"] or len(answers) != 3 or not sizes["n"] or not sizes["k"]:
        raise content.damaged("its answers or workers have the wrong shape")
    rng = np.random.default_rng()
    campaign._start(None, rng)
    try:
        rng.bit_generator.state = content.meta["rng"]
    except (KeyError, TypeError, ValueError) as error:
        raise content.damaged("its source of draws is not what manyhands writes") from error
    campaign._worker_names = workers.values.tolist()
    campaign._worker_of = {name: code for code, name in enumerate(campaign._worker_names)}
    campaign._left = left.copy()
    has_pool, n_asked = content.meta.get("chosen"), content.meta.get("asked")
    if type(has_pool) is not bool or type(n_asked) is not int or not 0 <= n_asked < 2**63 or (left < 0).any():
        raise content.damaged("its settings are incomplete, or count less than nothing")
    campaign._chosen, campaign._n_asked = has_pool, n_asked
    campaign._state = _state(content, answers, sizes)
    campaign._tie = content.array("tie", np.float64, shape=(sizes["n"],)).copy()
    campaign._scores = content.array("scores", np.float64, shape=(sizes["n"],)).copy()
    campaign._closed = content.array("closed", np.bool_, shape=(sizes["n"],)).copy()
    pending = _codes(content, "pending", (sizes["n"], sizes["m"]), least=(0, -1))
    campaign._pending = dict(pending.tolist())
    limits = (len(EVENTS), sizes["n"], sizes["m"], sizes["k"], len(REASONS))
    events = _codes(content, "events", limits, least=(0, -1, -1, -1, 0))
    values = content.array("values", np.float64, shape=(len(events),))
    campaign._events = Decisions(Event._make([*e, v]) for e, v in zip(events.tolist(), values.tolist(), strict=True))
    campaign._queue()
    return campaign


def _settings(content: persist.Content) -> dict[str, Any]:
    settings = content.meta.get("settings")
    if not isinstance(settings, dict) or set(settings) != set(_SETTINGS):
        raise content.damaged("its settings are incomplete")
    for name, kinds in _SETTINGS.items():
        if isinstance(settings[name], bool) or not isinstance(settings[name], kinds):
            raise content.damaged(f"its {name} is not what manyhands writes")
    if (
        settings["strategy"] not in STRATEGIES
        or settings["explore"] not in EXPLORE
        or settings["update"] not in ("batch", "online")
    ):
        raise content.damaged("its settings are not those of this version")
    if settings["error"] is not None and not 0 < settings["error"] < 1:
        raise content.damaged("its error is not a probability")
    check_epsilon(settings["epsilon"])
    for name, least in (("labels_per_task", 1), ("budget", 0)):
        if settings[name] is not None:
            check_number(name, settings[name], least=least, whole=True)
    return settings


def _state(content: persist.Content, answers: Any, sizes: dict[str, int]) -> State:
    kappa = content.meta.get("kappa")
    if not isinstance(kappa, float) or not 0.5 <= kappa <= 1:
        raise content.damaged("its kappa is not what manyhands writes")
    state = State(sizes["n"], sizes["m"], sizes["k"], _model(content), kappa)
    if (answers < 0).any() or (answers >= np.array([[sizes["n"]], [sizes["m"]], [sizes["k"]]])).any():
        raise content.damaged("its answers are about tasks, workers or classes that it does not know")
    for name, letters in State.ARRAYS.items():
        shape = tuple(int(letter) if letter.isdigit() else sizes[letter] for letter in letters)
        values = content.array(f"state.{name}", np.float64, shape=shape).copy()
        _check_state(content, name, values)
        setattr(state, name, values.tolist() if name == "weights" else values)
    state.tasks, state.workers, state.labels = (row.tolist() for row in answers)
    for at, task in enumerate(state.tasks):
        state.of_task.setdefault(task, []).append(at)
    state.n_of_worker = np.bincount(answers[1], minlength=sizes["m"]).tolist()
    state.skill = information(state.confusion, state.prior) if sizes["m"] else np.zeros(0)
    return state


def _check_state(content: persist.Content, name: str, found: Any) -> None:
    """Raise unless an array of a state is one that answers lead to."""
    signless = name not in ("average", "decay")  # the former are sums of changes, the latter logarithms of shares
    bad = (found < 0).any() if signless else (found > 0).any() if name == "decay" else False
    if name in ("posterior", "prior", "confusion"):
        bad = bad or (np.abs(found.sum(axis=-1) - 1) > 1e-6).any()
    elif name in ("total", "class_counts"):
        bad = bad or (found.sum(axis=-1) <= 0).any()
    if bad:
        raise content.damaged(f"its {name} holds numbers that answers cannot lead to")


def _model(content: persist.Content) -> Any:
    """The aggregator to fit, with its settings; None for stepwise EM."""
    name, params = content.meta.get("model"), content.meta.get("params")
    if name is None:
        return None
    kind_found = {kind.__name__: kind for kind in all_aggregators()}.get(str(name))
    if kind_found is None or not isinstance(params, dict) or not set(params) <= set(kind_found._parameter_names()):
        raise content.damaged("it names no aggregator of this version")
    return kind_found(**{key: _restore_tuples(value) for key, value in params.items()})


def _codes(content: persist.Content, name: str, limits: tuple[int, ...], least: tuple[int, ...]) -> Any:
    values = content.array(name, np.int64, ndim=2)
    if values.shape[1] != len(limits) or (values < np.array(least)).any() or (values >= np.array(limits)).any():
        raise content.damaged(f"its {name} hold codes that stand for nothing")
    return values
