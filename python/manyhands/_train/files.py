"""Trained networks in files: weights, names and plain settings, and nothing that could be executed.

A file is what ``torch.save`` writes, of tensors, numbers and text alone. It does not say how a user's own networks are
built: pass them again to load it, and their weights are taken from the file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.data_checks import made_table
from manyhands._base.estimator import concrete, file_name, without_numpy
from manyhands._base.names import Names, sequence
from manyhands._train import archive
from manyhands._train.batch import CrowdData
from manyhands._train.module_calls import call_network, plain, tensor_of
from manyhands._train.settings import find_device, temporary_seed
from manyhands.categorical.table import Annotations
from manyhands.errors import FileFormatError

if TYPE_CHECKING:
    from manyhands._train.estimator import NetworkEstimator

#: Of what a file holds.
_FORMAT = 1
_WHAT = "file of a trained network"
_PLAIN = (bool, int, float, str)
#: Networks, layers and named inputs that a file may list.
_MOST_PARTS = 100
#: Numbers of a sample, at the most: a network is asked for its output for one when a file is loaded.
_MOST_NUMBERS = 1 << 28
#: Settings that concern the training machine, and are neither written nor taken from a file.
_LOCAL = ("checkpoint", "distributed")


class Outer(nn.Module):
    """A last layer that is put on a trained network and not learned by gradients; all that it knows are buffers."""

    @classmethod
    def blank(cls, n_classes: int) -> Self:
        """One of the same shape, for buffers that come from a file."""
        raise NotImplementedError


class Topped(nn.Sequential):
    """A network with such a layer on it, called as the network is."""

    def __init__(self, network: nn.Module, layer: Outer) -> None:
        super().__init__(network, layer)
        self.train(network.training)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """What the layer makes of the network's output."""
        output = call_network(self[0], kwargs) if kwargs and not args else self[0](*args, **kwargs)
        return self[1](tensor_of(output, self[0]))


def example(x: Any) -> Any:
    """Shape and type of a sample, of each name where an input has several."""
    if isinstance(x, Mapping):
        return {name: example(value) for name, value in x.items()}
    return [list(x.shape[1:]), str(x.dtype).removeprefix("torch.")]


def _blank(example: Any) -> Any:
    """A blank input of one sample."""
    if isinstance(example, Mapping):
        return {name: _blank(value) for name, value in example.items()}
    return torch.zeros(1, *example[0], dtype=getattr(torch, example[1]))


def outer_layers(network: nn.Module) -> Iterator[Outer]:
    """The layers that were put on a network, the last one first."""
    while isinstance(network, nn.Sequential) and len(network) == 2 and isinstance(network[1], Outer):
        yield network[1]
        network = network[0]


class SavedNetwork:
    """What a file holds, for those who want the weights or the names alone.

    Attributes
    ----------
    kind : str
        The class of what was saved.
    settings : dict
        How it was made, so far as settings are numbers and text.
    networks : list of str
        The arguments that are networks, which are to be given again.
    workers_, classes_ : array
        Names.
    confusion_, prior_ : array
        What was learned of the workers and the classes.
    """

    def __init__(self, path: str, content: dict[str, Any]) -> None:
        self._path, self._content = path, content
        self.kind: str = content["kind"]
        self.settings: dict[str, Any] = content["settings"]
        self.networks: list[str] = content["networks"]

    @property
    def workers_(self) -> Any:
        """Names of the workers."""
        return sequence(self._content["workers"]).values

    @property
    def classes_(self) -> Any:
        """Names of the classes."""
        return sequence(self._content["classes"]).values

    @property
    def confusion_(self) -> Any:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed)."""
        return self._content["kept"]["_confusion"].numpy()

    @property
    def prior_(self) -> Any:
        """Class prior, (n_classes,)."""
        return self._content["kept"]["_prior"].numpy()

    def state_dict(self, part: str = "network") -> dict[str, Tensor]:
        """Weights of a part, as ``load_state_dict`` of the same network takes them."""
        begin = f"{part}." + "0." * len(self._content["outer"] if part == "network" else ())
        parameters = {name.removeprefix(begin): value for name, value in self._content["parts"].items()}
        return {name: value for name, value in parameters.items() if f"{begin}{name}" in self._content["parts"]}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}=…" for name in self.networks)
        return f"<weights and names of a {self.kind}; mh.load({self._path!r}, {arguments}) makes it whole>"


def save(model: NetworkEstimator, path: str | os.PathLike[str]) -> None:
    """Write what prediction needs."""
    params = without_numpy(model.get_params())
    parts = model._fitted()
    left_out = tuple(f"{name}." for name in model._training_parts)
    content = {
        "trained": _FORMAT,
        "kind": file_name(type(model)),
        "settings": {name: value for name, value in params.items() if _is_plain(value) and name not in _LOCAL},
        "networks": [name for name, value in params.items() if isinstance(value, nn.Module)],
        "workers": _list_names(model._workers, "workers"),
        "classes": _list_names(model._classes, "classes"),
        "example": model._example,
        "history": model._history,
        "outer": [type(layer).__name__ for layer in outer_layers(parts["network"])],
        "parts": {name: value.cpu() for name, value in parts.state_dict().items() if not name.startswith(left_out)},
        "kept": {name: _pack(getattr(model, name)) for name in model._saved_state if hasattr(model, name)},
    }
    try:
        _check(content)
    except _Wrong as error:
        raise ValueError(f"cannot save what could not be read again: {error}") from None
    archive.write(path, content, _WHAT)


def load(path: str | os.PathLike[str], networks: Mapping[str, nn.Module]) -> Any:
    """Read a file; a trained model if its networks are given, and what it holds if none are."""
    content = archive.read(path, _WHAT)
    if content.get("trained") != _FORMAT:
        reason = "a checkpoint: fit(..., resume=True) goes on from it" if "owner" in content else "of another version"
        raise FileFormatError(f"{os.fspath(path)} holds no trained network; it is {reason}")
    try:
        _check(content)
    except _Wrong as error:
        raise FileFormatError(f"{os.fspath(path)} is damaged: {error}; write it again") from None
    content["settings"] = {name: value for name, value in content["settings"].items() if name not in _LOCAL}
    if not networks:
        return SavedNetwork(os.fspath(path), content)
    return _whole(os.fspath(path), content, networks)


class _Wrong(Exception):
    """What is wrong with the content of a file."""


def _check(content: Mapping[str, Any]) -> None:
    """Raise unless all of a file's content has the types and sizes that `save` writes."""
    kinds = {"kind": str, "settings": dict, "networks": list, "workers": list, "classes": list, "history": list}
    for name, kind in (kinds | {"outer": list, "parts": dict, "kept": dict}).items():
        if not isinstance(content.get(name), kind):
            raise _Wrong(f"{name} is missing or has the wrong type")
    for name in ("networks", "outer"):
        if not all(isinstance(one, str) for one in content[name]) or len(content[name]) > _MOST_PARTS:
            raise _Wrong(f"{name} has the wrong type")
    if not all(isinstance(name, str) and _is_plain(value) for name, value in content["settings"].items()):
        raise _Wrong("settings are not plain")
    for name in ("workers", "classes"):
        names = content[name]
        if not names or not all(type(one) in _PLAIN and one == one for one in names):
            raise _Wrong(f"{name} are missing, or are neither numbers nor text")
        if len(set(names)) < len(names):
            raise _Wrong(f"names of {name} repeat")
    _check_example(content.get("example"))
    for name, value in content["parts"].items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise _Wrong(f"part {name!r} is not an array")
        if value.is_floating_point() and value.isnan().any():
            raise _Wrong(f"weights {name!r} hold NaN")
    m, k = len(content["workers"]), len(content["classes"])
    # A network of numbers has a scale and a bias of each worker in place of matrices.
    shapes: dict[str, list[tuple[int, ...]]] = {
        "_n_labels": [(m,)],
        "_confusion": [(m, k, k), (m, 2)],
        "_prior": [(k,), (1,)],
    }
    for name, allowed in shapes.items():
        value = content["kept"].get(name)
        if value is None:
            continue
        if not isinstance(value, Tensor) or tuple(value.shape) not in allowed:
            raise _Wrong(f"{name.strip('_')} does not have shape {allowed[0]}")
        if not value.isfinite().all():
            raise _Wrong(f"{name.strip('_')} holds numbers that are not finite")


def _check_example(example: Any) -> None:
    """Raise unless it is the shape and type of a sample, or those of each name, and small enough to be one."""
    if isinstance(example, dict):
        if not example or not all(isinstance(name, str) for name in example) or len(example) > _MOST_PARTS:
            raise _Wrong("the example of an input has the wrong type")
        for one in example.values():
            _check_example(None if isinstance(one, dict) else one)
        return
    if not (isinstance(example, list) and len(example) == 2 and isinstance(example[0], list)):
        raise _Wrong("the example of an input is missing or has the wrong type")
    shape, dtype = example
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(max(n, 1) for n in shape) > _MOST_NUMBERS:
        raise _Wrong(f"a sample cannot have shape {shape!r:.80}")
    if not isinstance(dtype, str) or not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise _Wrong(f"numbers cannot have type {dtype!r:.80}")


def _whole(path: str, content: dict[str, Any], networks: Mapping[str, nn.Module]) -> NetworkEstimator:
    names_needed = content["networks"]
    if sorted(networks) != sorted(names_needed):
        raise TypeError(
            f"{path} holds a {content['kind']}, which needs {', '.join(f'{name}=…' for name in names_needed)}; given "
            f"{', '.join(networks)}"
        )
    kind = _class_of(path, content["kind"])
    with _damage_named(path):
        model = kind(**{name: plain(one) for name, one in networks.items()}, **content["settings"])
        model._check()
        data = _skeleton(content)
    model._on = find_device(model.device)
    with temporary_seed(0, model._on):
        with _damage_named(path):
            model._adopt(data)
            _take_kept(model, content["kept"])
        try:
            parts = nn.ModuleDict(model._blank_parts(data))
            for name in model._training_parts:
                if name in parts:
                    del parts[name]
            for name in reversed(content["outer"]):
                parts["network"] = Topped(parts["network"], _outer(path, name, len(content["classes"])))
            parts.load_state_dict(content["parts"])
        except (RuntimeError, TypeError, LookupError) as error:
            raise ValueError(f"the networks given are not built as those in {path}: {error}") from error
    model._parts = parts.to(model._on).eval()
    _take_kept(model, content["kept"])
    model._history = content["history"]
    return model


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Name the file in whatever its settings and arrays make the library raise."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is damaged: {error}; write it again") from error


def _class_of(path: str, name: str) -> type[Any]:
    """The class that a file names: one of the library, or any that derives from them and is imported."""
    from importlib import import_module

    from manyhands._train.estimator import NetworkEstimator

    # Which import all that they have.
    import_module("manyhands.learn")
    import_module("manyhands.defer").all_deferrals()
    classes_by_file = {file_name(cls): cls for cls in concrete(NetworkEstimator, "")}  # type: ignore[type-abstract]
    if name not in classes_by_file:
        raise FileFormatError(f"{path} holds a {name}, which is not defined; import the module that defines it first")
    return classes_by_file[name]


def _outer(path: str, name: str, n_classes: int) -> Outer:
    classes_by_name = {cls.__name__: cls for cls in concrete(Outer, "")}
    if name not in classes_by_name:
        raise FileFormatError(f"{path} holds a layer {name}, which is not defined")
    return classes_by_name[name].blank(n_classes)


def _skeleton(content: Mapping[str, Any]) -> CrowdData:
    """Data of the same sizes: one sample, that every worker labeled."""
    workers, classes = sequence(content["workers"]), sequence(content["classes"])
    m, k = len(workers), len(classes)
    labels = (np.arange(m) % k).astype(np.uint16)
    table = made_table(np.zeros(m, np.uint32), np.arange(m, dtype=np.uint32), labels, None, 1, m, k)
    votes = Annotations(table, Names(np.zeros(1, np.int64)), workers, classes)
    data = CrowdData(_blank(content["example"]), votes)
    data.truth = torch.zeros(1, dtype=torch.int64)
    return data


def _list_names(names: Names, what: str) -> list[Any]:
    values: list[Any] = names.values.tolist()
    odd = next((name for name in values if not isinstance(name, _PLAIN)), None)
    if odd is not None:
        raise TypeError(f"cannot save {what} of type {type(odd).__name__} ({odd!r}); use integers or text as ids")
    return values


def _is_plain(value: Any) -> bool:
    """Whether a setting can be read back as it is; others, such as aggregators, are left at their defaults."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(name, _PLAIN) and _is_plain(each) for name, each in value.items())
    return value is None or type(value) in _PLAIN


def _pack(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Mapping):
        return {name: _pack(each) for name, each in value.items()}
    return value.cpu() if isinstance(value, Tensor) else value


def _take_kept(model: NetworkEstimator, kept: Mapping[str, Any]) -> None:
    for name, as_tensor in model._saved_state.items():
        if name in kept:
            setattr(model, name, kept[name].to(model._on) if as_tensor else _unpack(kept[name]))


def _unpack(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _unpack(each) for name, each in value.items()}
    return value.numpy() if isinstance(value, Tensor) else value
