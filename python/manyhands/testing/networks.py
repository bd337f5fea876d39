"""What everything that trains a network is held to, whatever kind of answers it learns from."""

from __future__ import annotations

import copy
import inspect
import pickle
import tempfile
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

import manyhands as mh
from manyhands.testing.compare import Array, assert_same_answers, assert_same_bits, raises, require
from manyhands.testing.subject import Checked, results_of

#: Features of a sample.
FEATURES = 6
#: Settings that make a check quick, where an estimator has its defaults.
QUICK = {"max_epochs": 3, "batch_size": 32}


@dataclass(frozen=True)
class Samples:
    """Simulated samples, and labels of a crowd for them."""

    X: Array
    #: What ``fit`` takes after X.
    given: tuple[Any, ...]


@dataclass(frozen=True)
class NetworkSubject(Checked):
    """An estimator that trains a network, with samples that it is tried on.

    `make` takes the network and returns an estimator; whatever it leaves at the default may be set by checks.
    """

    #: What the network is called among the estimator's parameters, and how many numbers it returns.
    argument: ClassVar[str] = "backbone"
    outputs: ClassVar[int] = 3
    quick: ClassVar[dict[str, Any]] = QUICK

    @cached_property
    def standard(self) -> Samples:
        """Ordinary samples."""
        return self.samples(120)

    @abstractmethod
    def samples(self, n: int) -> Samples:
        """Samples with answers; the same at each call."""

    @abstractmethod
    def answers(self, model: Any, samples: Samples) -> dict[str, Callable[[], Any]]:
        """What can be asked of a trained model next to its results: methods by name, ready to be called."""

    def network(self, outputs: int | None = None, seed: int = 0) -> nn.Sequential:
        """A network of one hidden layer that draws numbers while it trains; the caller's own draws are left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            last = nn.Linear(16, outputs or self.outputs)
            return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(0.1), last)

    def model(self, network: nn.Module | None = None, **options: Any) -> Any:
        """An estimator that is not trained yet: quick, unless it was made otherwise, and with options of a check."""
        model = self.make(self.network() if network is None else network)
        defaults = {name: each.default for name, each in inspect.signature(type(model)).parameters.items()}
        params = model.get_params()
        quick = {name: value for name, value in self.quick.items() if params[name] == defaults[name]}
        return model.set_params(**quick | options)

    def trained(self, samples: Samples | None = None, network: nn.Module | None = None, **options: Any) -> Any:
        """An estimator, trained on samples; on the standard ones if none are given."""
        samples = samples or self.standard
        return self.model(network, **options).fit(samples.X, *samples.given)


# ------------------------------------------------------------------------------------------------- comparisons


def _plain(value: Any) -> Any:
    """A result as something that can be compared: a network is its weights."""
    if isinstance(value, nn.Module):
        return {name: each.numpy(force=True) for name, each in value.state_dict().items()}
    return value.numpy(force=True) if isinstance(value, torch.Tensor) else value


def assert_same(subject: NetworkSubject, a: Any, b: Any, what: str) -> None:
    """All results of two trained models are equal, and so is what they answer, to the last bit."""
    assert_same_bits(a, b, what, _plain)
    assert_same_answers(subject.answers(a, subject.standard), subject.answers(b, subject.standard), what)


def assert_finite(found: Any, what: str) -> Array:
    """An array of finite numbers."""
    numbers = np.asarray(found, np.float64)
    require(np.isfinite(numbers).all(), f"{what} holds numbers that are not finite")
    return numbers


# ------------------------------------------------------------------------------------------------------ checks


def check_params(subject: NetworkSubject) -> None:
    """Parameters are kept as they are, shown and copied, by scikit-learn too; strange ones are rejected by name."""
    model = subject.model(max_epochs=7)
    copies = [type(model)(**model.get_params())]
    with suppress(ImportError):
        from sklearn.base import clone

        copies.append(clone(model))
    for copied in copies:
        require(copied.get_params() == model.get_params(), "a clone has other parameters")
    require("max_epochs=7" in repr(model), f"it shows itself as {model!r}")
    with raises(ValueError, "set_params of an unknown name", "no_such_parameter"):
        model.set_params(no_such_parameter=1)
    with raises(TypeError, "a constructor given an unknown name", "no_such_parameter"):
        type(model)(subject.network(), no_such_parameter=1)


def check_before_fit(subject: NetworkSubject) -> None:
    """Before fit there are no results, and `NotFittedError` names `fit`."""
    model = subject.model()
    asks = subject.answers(model, subject.standard) | {"save": lambda: model.save("nowhere")}
    asks |= {name: partial(getattr, model, name) for name in results_of(model)}
    for name, ask in asks.items():
        with raises(mh.errors.NotFittedError, f"{name} before fit", type(model).__name__, "call fit"):
            ask()


def check_fit(subject: NetworkSubject) -> None:
    """Fit returns the estimator, an entry of the history for each epoch, and a network in evaluation mode."""
    model = subject.model()
    require(model.fit(subject.standard.X, *subject.standard.given) is model, "fit does not return the estimator itself")
    epochs, losses = model.history_["epoch"], model.history_["loss"]
    require(len(epochs) == len(losses) > 0, "history_ has no loss for each epoch")
    assert_finite(losses, "the loss of history_")
    require(not model.network_.training, "network_ is left in training mode")


def check_refit_forgets(subject: NetworkSubject) -> None:
    """A second fit leaves nothing of the first."""
    model = subject.trained(subject.samples(90))
    model.fit(subject.standard.X, *subject.standard.given)
    assert_same(subject, model, subject.trained(), "a second fit")


def check_seed_repeats(subject: NetworkSubject) -> None:
    """The same seed gives the same bits, whatever the caller draws, whose own draws are left alone; another differs."""
    first = subject.trained(seed=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        before = torch.get_rng_state()
        second = subject.trained(seed=3)
        require(torch.equal(torch.get_rng_state(), before), "training draws from the caller's generator")
    assert_same(subject, first, second, "two fits of one seed")
    asks, others = (subject.answers(model, subject.standard) for model in (first, subject.trained(seed=4)))
    same = [name for name in asks if np.array_equal(asks[name](), others[name]())]
    require(len(same) < len(asks), "another seed gives the same, down to the last bit")


def check_network_unchanged(subject: NetworkSubject) -> None:
    """The network that was given stays as it is, the memory of its layers included: a copy is trained."""
    network = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, 16), nn.ReLU(), subject.network()[-1])
    before = copy.deepcopy(network.state_dict())
    model = subject.trained(network=network)
    for name, value in network.state_dict().items():
        require(torch.equal(value, before[name]), f"{name} of the network that was given changed")
    require(model.get_params()[subject.argument] is network, "the network among the parameters is another one")


def check_input_unchanged(subject: NetworkSubject) -> None:
    """Neither samples nor answers change, by fit or by what is asked afterwards."""
    samples = subject.samples(60)
    before = copy.deepcopy(samples)
    model = subject.trained(samples)
    for ask in subject.answers(model, samples).values():
        ask()
    np.testing.assert_array_equal(samples.X, before.X, err_msg="X changed")
    for now, then in zip(samples.given, before.given, strict=True):
        require(np.array_equal(now, then) if isinstance(now, np.ndarray) else now == then, "answers changed")


def check_resume(subject: NetworkSubject) -> None:
    """A training that was interrupted and resumed gives the bits of one that was not."""
    options: dict[str, Any] = {"max_epochs": 4, "validation": 0.2, "schedule": "cosine"}
    whole, (X, given) = subject.trained(**options), (subject.standard.X, subject.standard.given)

    def interrupt(model: Any, record: dict[str, float]) -> bool:
        return record["epoch"] == 1

    with tempfile.TemporaryDirectory() as folder:
        options["checkpoint"] = Path(folder) / "run.pt"
        subject.trained(**options, callbacks=[interrupt])
        resumed = subject.model(**options).fit(X, *given, resume=True)
    assert_same(subject, resumed, whole, "a training that was resumed")


def check_failing_callback(subject: NetworkSubject) -> None:
    """An exception in a callback ends the training, and leaves nothing to predict with."""

    class Enough(Exception):
        pass

    def fail(model: Any, record: dict[str, float]) -> bool:
        raise Enough

    model = subject.trained()
    with raises(Enough, "fit with a failing callback"):
        model.set_params(callbacks=[fail]).fit(subject.standard.X, *subject.standard.given)
    for name, ask in subject.answers(model, subject.standard).items():
        with raises(mh.errors.NotFittedError, f"{name} after a fit that failed"):
            ask()


def check_pickle(subject: NetworkSubject) -> None:
    """A pickled and a copied model are the same."""
    model = subject.trained()
    for way, copied in (("pickled", pickle.loads(pickle.dumps(model))), ("copied", copy.deepcopy(model))):
        assert_same(subject, copied, model, f"a {way} model")


def check_save_and_load(subject: NetworkSubject) -> None:
    """A saved model comes back into a network that is built alike; it can be trained and kept again."""
    model = subject.trained()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        model.save(path)
        loaded = mh.load(path, type(model), **{subject.argument: subject.network(seed=1)})
        assert_same(subject, loaded, model, "a loaded model")
        loaded.fit(subject.standard.X, *subject.standard.given).save(path)


CHECKS = (
    check_params,
    check_before_fit,
    check_fit,
    check_refit_forgets,
    check_seed_repeats,
    check_network_unchanged,
    check_input_unchanged,
    check_resume,
    check_failing_callback,
    check_pickle,
    check_save_and_load,
)
