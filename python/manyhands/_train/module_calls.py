"""How networks are called: with tensors or with keywords, and whatever they return the logits in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor, nn

from manyhands._base.checks import preview

#: Who shares the rows of an input, while a training is shared among processes: a function of what runs a part of them.
_shared: ContextVar[Callable[[Callable[[Any], Tensor], Any], Tensor] | None] = ContextVar("shared", default=None)


def run(network: nn.Module, x: Any) -> Tensor:
    """What a network makes of an input, as one tensor.

    A mapping goes in as keyword arguments. A network may return a tensor, a mapping with ``"logits"``, an object with
    ``.logits``, or a tuple that begins with a tensor.
    """
    share = _shared.get()
    if share is not None:
        return share(lambda part: tensor_of(call_network(network, part), network), x)
    return tensor_of(call_network(network, x) if isinstance(x, Mapping) else network(x), network)


@contextmanager
def sharing(share: Callable[[Callable[[Any], Tensor], Any], Tensor] | None) -> Iterator[None]:
    """Let a function decide who runs which rows of an input."""
    before = _shared.set(share)
    try:
        yield
    finally:
        _shared.reset(before)


def call_network(network: nn.Module, x: Any) -> Any:
    """What a network returns for an input, whatever it is."""
    if not isinstance(x, Mapping):
        return network(x)
    if isinstance(network, nn.Sequential) and type(network).forward is nn.Sequential.forward:
        # Which takes one input: the first layer is the one with keywords.
        first, *rest = network
        output = tensor_of(call_network(first, x), first)
        for layer in rest:
            output = layer(output)
        return output
    return network(**x)


def tensor_of(output: Any, network: nn.Module) -> Tensor:
    """The tensor that a network's output is, or has; raises if there is none."""
    logits = output
    if isinstance(output, Mapping):
        logits = output.get("logits")
    elif hasattr(output, "logits"):
        logits = output.logits
    elif isinstance(output, tuple | list) and output:
        logits = output[0]
    if isinstance(logits, Tensor):
        return logits
    kind = type(output).__name__
    if isinstance(output, Mapping):
        kind += f" with {preview(list(output))}" if output else " with nothing in it"
    raise TypeError(
        f"{type(network).__name__} returns a {kind}; a network must return a tensor, a mapping with 'logits', an "
        "object with .logits, or a tuple that begins with a tensor"
    )


def plain(network: nn.Module) -> nn.Module:
    """The network itself, of one that ``torch.compile`` has wrapped."""
    inner = getattr(network, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else network


def each_tensor(x: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """An input with a function done to its tensor, or to each tensor of its mapping."""
    return {name: change(value) for name, value in x.items()} if isinstance(x, Mapping) else change(x)


def n_rows(x: Any) -> int:
    """How many samples an input has."""
    return len(next(iter(x.values()))) if isinstance(x, Mapping) else len(x)
