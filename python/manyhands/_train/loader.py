"""Features that a ``DataLoader`` fetches: in other processes, into pinned memory, with the user's own collation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from manyhands._train.features import Features, move_to

#: What the training loop sees to itself.
_TAKEN = {
    "dataset": "X is the dataset",
    "batch_size": "the learner has batch_size",
    "shuffle": "samples are shuffled in training and nowhere else",
    "sampler": "samples are drawn by the seed",
    "batch_sampler": "samples are drawn by the seed",
    "drop_last": "every sample is trained on",
    "generator": "everything random follows from seed",
}


def check_loader(options: Any) -> None:
    """Reject options that a ``DataLoader`` does not take, or that are not free."""
    if not isinstance(options, Mapping):
        raise TypeError(f'loader must be options of a DataLoader, such as {{"num_workers": 2}}, not {options!r}')
    for name, why in _TAKEN.items():
        if name in options:
            raise ValueError(f"loader[{name!r}] is not free: {why}; leave it out")
    settings = {name: value for name, value in options.items() if name != "collate_fn"}
    try:
        DataLoader(_Fetched(None), batch_size=None, **settings)
    except (TypeError, ValueError) as error:
        raise type(error)(f"loader={dict(options)!r} has invalid options of a DataLoader: {error}") from error


class Loaded(Features):
    """Features behind a ``DataLoader``.

    Whatever is random in a dataset follows from the seed and the batch, so that the number of processes changes
    nothing.
    """

    def __init__(self, features: Features, options: Mapping[str, Any]) -> None:
        settings = dict(options)
        collate = settings.pop("collate_fn", None)
        self._features = features if collate is None else features.collated(collate)
        self._asked: list[tuple[int, Tensor]] = []
        self._loader: DataLoader[Any] = DataLoader(
            _Fetched(self._features),
            sampler=_Asked(self._asked),
            batch_size=None,
            collate_fn=_as_it_is,
            # Of its own, so that the randomness of networks does not depend on it.
            generator=torch.Generator(),
            **settings,
        )

    def __len__(self) -> int:
        return len(self._features)

    def fetch(self, rows: Tensor) -> Any:
        """The features of some rows, fetched here."""
        with _temporary_seed(0):
            return self._features.fetch(rows)

    def stream(
        self, parts: Sequence[Tensor], device: torch.device, shuffle: torch.Generator | None = None
    ) -> Iterator[Any]:
        """The features of some rows after others, fetched ahead where there are processes to do so."""
        seed = 0
        if shuffle is not None:
            # Looked ahead, so that the order of samples is the same with a loader and without.
            seed = int(torch.randint(1 << 31, (), generator=torch.Generator().set_state(shuffle.get_state())))
        self._asked[:] = [(seed + number, rows) for number, rows in enumerate(parts)]
        for x in self._loader:
            yield move_to(x, device)


def with_loader(features: Features, options: Mapping[str, Any] | None) -> Features:
    """Features behind a ``DataLoader``, if there are options for one."""
    return features if options is None or isinstance(features, Loaded) else Loaded(features, options)


class _Asked:
    """What is to be fetched next, as a sampler."""

    def __init__(self, asked: list[tuple[int, Tensor]]) -> None:
        self._asked = asked

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        return iter(list(self._asked))

    def __len__(self) -> int:
        return len(self._asked)


class _Fetched(Dataset[Any]):
    def __init__(self, features: Features | None) -> None:
        self._features = features

    def __getitem__(self, asked: tuple[int, Tensor]) -> Any:
        seed, rows = asked
        assert self._features is not None
        with _temporary_seed(seed):
            return self._features.fetch(rows)


def _as_it_is(batch: Any) -> Any:
    return batch


@contextmanager
def _temporary_seed(seed: int) -> Iterator[None]:
    """Random numbers of Python, NumPy and torch follow from a seed, and go on as before afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)  # and none of an accelerator, whose networks go on drawing
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
