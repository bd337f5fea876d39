"""Rows of features, whatever they are kept in: arrays, tensors, sparse matrices, datasets, and mappings of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyhands._train.module_calls import each_tensor

Collate = Callable[[list[Any]], Any]


class Features(Protocol):
    """Rows of features, whatever they are kept in."""

    def __len__(self) -> int: ...

    def fetch(self, rows: Tensor) -> Any:
        """The features of some rows, where they are: a tensor or a mapping of tensors."""

    def take(self, rows: Tensor, device: torch.device) -> Any:
        """The features of some rows, as one input of the backbone."""
        return move_to(self.fetch(rows), device)

    def stream(
        self, parts: Sequence[Tensor], device: torch.device, shuffle: torch.Generator | None = None
    ) -> Iterator[Any]:
        """The features of some rows after others; `shuffle` is what randomness follows from, where there is any."""
        for rows in parts:
            yield self.take(rows, device)

    def collated(self, collate: Collate) -> Self:
        """The same, with a function of the user's that makes a batch of items."""
        raise TypeError(
            "collate_fn in loader= makes a batch of the items of a Dataset, but X is not one; leave it out, or pass one"
        )


class _ArrayFeatures(Features):
    """A NumPy array, perhaps memory-mapped: rows are copied when they are asked for."""

    def __init__(self, data: npt.NDArray[Any]) -> None:
        if data.dtype == object:
            raise TypeError("X holds Python objects, not numbers; convert it to a numeric array")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def fetch(self, rows: Tensor) -> Tensor:
        return _floats(torch.from_numpy(self._data[rows.numpy()]))


class _SparseFeatures(Features):
    """A SciPy sparse matrix: a batch at a time becomes dense."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return int(self._data.shape[0])

    def fetch(self, rows: Tensor) -> Tensor:
        return _floats(torch.from_numpy(self._data[rows.numpy()].toarray()))


class _TensorFeatures(Features):
    def __init__(self, data: Tensor) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def fetch(self, rows: Tensor) -> Tensor:
        return _floats(self._data[rows.to(self._data.device)])


class _MappingFeatures(Features):
    """Several kinds of features by name, which go to the backbone as keyword arguments."""

    def __init__(self, data: Mapping[Any, Any]) -> None:
        if not data or not all(isinstance(name, str) for name in data):
            raise TypeError("X is a mapping, which must have names of the backbone's arguments, such as 'input_ids'")
        self._data: dict[str, Features] = {}
        for name, values in data.items():
            try:
                self._data[name] = as_features(values)
            except (TypeError, ValueError) as error:
                raise type(error)(f"X[{name!r}]: {error}") from error
        lengths = {name: len(values) for name, values in self._data.items()}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"X has different numbers of rows by name: {sizes}; pass one row per sample")

    def __len__(self) -> int:
        return len(next(iter(self._data.values())))

    def fetch(self, rows: Tensor) -> dict[str, Tensor]:
        return {name: values.fetch(rows) for name, values in self._data.items()}


class _DatasetFeatures(Features):
    """A map-style dataset whose items are features, tuples that begin with them, or mappings of them."""

    def __init__(self, data: Any, collate: Collate | None = None) -> None:
        self._data, self._collate = data, collate

    def __len__(self) -> int:
        return len(self._data)

    def collated(self, collate: Collate) -> _DatasetFeatures:
        return _DatasetFeatures(self._data, collate)

    def fetch(self, rows: Tensor) -> Any:
        items = [self._data[row] for row in rows.tolist()]
        if self._collate is None:
            return _stack([_features_of(item) for item in items])
        output = _features_of(self._collate(items))
        if not isinstance(output, Mapping):
            return _tensor(output, "what collate_fn returns")
        return {name: _tensor(value, f"{name!r} of what collate_fn returns") for name, value in output.items()}


def _features_of(item: Any) -> Any:
    return item[0] if isinstance(item, tuple | list) else item


def _stack(items: list[Any]) -> Any:
    """Items side by side, as one input."""
    if not isinstance(items[0], Mapping):
        return _side_by_side(items, "the items of X")
    for item in items:
        if item.keys() != items[0].keys():
            raise ValueError(f"items of X have different names: {sorted(items[0])} and {sorted(item)}")
    return {name: _side_by_side([item[name] for item in items], f"{name!r} of the items of X") for name in items[0]}


def _side_by_side(values: list[Any], what: str) -> Tensor:
    tensors = [_tensor(value, what) for value in values]
    if any(tensor.shape != tensors[0].shape for tensor in tensors):
        shapes = sorted({tuple(tensor.shape) for tensor in tensors})[:2]
        raise ValueError(
            f"{what} have different shapes, such as {shapes[0]} and {shapes[1]}; pad them alike, or give a function "
            'that does: loader={"collate_fn": ...}'
        )
    return torch.stack(tensors)


def _tensor(value: Any, what: str) -> Tensor:
    try:
        return _floats(torch.as_tensor(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{what} must be numbers, not {type(value).__name__}; leave it out of the items, or turn it into "
            f"numbers ({error})"
        ) from error


def _floats(x: Tensor) -> Tensor:
    # Whole numbers may be token ids, and stay what they are.
    return x.float() if x.is_floating_point() else x


def move_to(x: Any, device: torch.device) -> Any:
    """An input on a device."""
    return each_tensor(x, lambda tensor: tensor.to(device, non_blocking=True))


def as_features(X: Any) -> Features:
    """Wrap an array, tensor, SciPy sparse matrix, frame, mapping or map-style dataset; reject what is not finite."""
    if isinstance(X, Tensor):
        if X.ndim == 0:
            raise TypeError("X is a single number; pass one row per sample")
        _refuse_not_finite(torch.isfinite(X).reshape(len(X), -1).all(dim=1).cpu().numpy() if len(X) else None)
        return _TensorFeatures(X)
    if isinstance(X, Mapping):
        return _MappingFeatures(X)
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        if not np.isfinite(X.data).all():
            raise ValueError("X holds NaN or infinite values")
        return _SparseFeatures(X)
    if hasattr(X, "__getitem__") and not hasattr(X, "__array__") and not isinstance(X, list | tuple | str):
        if not hasattr(X, "__len__"):
            raise TypeError(
                f"X must have a length; {type(X).__name__} has none (an iterable-style dataset will not do)"
            )
        return _DatasetFeatures(X)
    data = np.asarray(X)
    if data.ndim == 0:
        raise TypeError(
            f"X must be an array, a tensor, a sparse matrix, a mapping of these or a map-style dataset, not {X!r}"
        )
    if data.dtype.kind == "f" and len(data):
        _refuse_not_finite(np.isfinite(data).reshape(len(data), -1).all(axis=1))
    return _ArrayFeatures(data)


def _refuse_not_finite(finite: npt.NDArray[np.bool_] | None) -> None:
    if finite is not None and not finite.all():
        raise ValueError(f"X holds NaN or infinite values, first in row {int(np.argmin(finite))}")
