"""What a fit learns, as frozen dataclasses whose fields carry shapes and ranges; files and pickles follow from these.

The metadata of a field describe its content, by one of :func:`numbers`, :func:`codes`, :func:`offsets`, :func:`flags`,
:func:`setting`, :func:`texts`, :func:`names`, :func:`encoded` and :func:`part`. Shapes are letters: n for tasks, m for
workers, k for classes, i for items, d for dimensions, l for labels, a digit for a fixed size, and other letters for
sizes that the arrays only have to agree on. A capital letter is one more than the small one. A field without such
metadata stays in this process, and needs a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands._base import persist
from manyhands._base.names import Names
from manyhands._base.persist import Content
from manyhands.errors import FileFormatError

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]
T = TypeVar("T")

#: By how much probabilities may miss one in a file.
_ROUNDING = 1e-6


class _Field(ABC):
    """How one field is written and read."""

    optional: bool = False

    @abstractmethod
    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        """Add a value to the arrays and settings of a file."""

    @abstractmethod
    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> Any:
        """Return the value from a file; raise `FileFormatError` that names the field where it is not sound."""

    def absent(self, content: Content, name: str) -> bool:
        """Whether a file leaves out an optional field."""
        return self.optional and name not in content.arrays


@dataclass(frozen=True)
class _Array(_Field):
    letters: str
    dtypes: tuple[npt.DTypeLike, ...] = (np.float64,)
    least: float | None = None
    most: float | None = None
    #: Codes are below this size.
    below: str | None = None
    infinite: bool = False
    missing: bool = False
    sums_to_one: bool = False
    rising: bool = False
    optional: bool = False

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        arrays[name] = np.asarray(value)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> npt.NDArray[Any]:
        array = content.arrays.get(name)
        dtype = next((dtype for dtype in self.dtypes if array is not None and array.dtype == dtype), self.dtypes[0])
        array = content.array(name, dtype, ndim=len(self.letters), finite=False)
        for letter, size in zip(self.letters, array.shape, strict=True):
            if size != _size(letter, size, sizes):
                raise content.damaged(f"{name!r} has shape {array.shape}")
        if array.dtype.kind == "f":
            sound = np.isfinite(array) | (np.isnan(array) & self.missing) | (np.isinf(array) & self.infinite)
            if not sound.all():
                raise content.damaged(f"{name!r} holds numbers that are not finite")
        if self.least is not None and (array < self.least).any():
            raise content.damaged(f"{name!r} holds numbers below {self.least:g}")
        if self.most is not None and (array > self.most).any():
            raise content.damaged(f"{name!r} holds numbers above {self.most:g}")
        if self.below is not None and array.max(initial=0) >= max(sizes[self.below], 1):
            raise content.damaged(f"{name!r} holds codes that are not below {sizes[self.below]:,}")
        if self.sums_to_one and array.size and np.abs(array.sum(axis=-1) - 1).max() > _ROUNDING:
            raise content.damaged(f"{name!r} holds probabilities that do not sum to one")
        if self.rising and (not len(array) or array[0] != 0 or (array[1:] < array[:-1]).any()):
            raise content.damaged(f"{name!r} does not rise from 0")
        return array


def _size(letter: str, found: int, sizes: dict[str, int]) -> int:
    """The size that a letter stands for; the one found, where no array had the letter before."""
    if letter.isdigit():
        return int(letter)
    if letter.isupper():
        return sizes.setdefault(letter.lower(), found - 1) + 1
    return sizes.setdefault(letter, found)


@dataclass(frozen=True)
class _Setting(_Field):
    kind: type[Any]

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        settings[name] = self.kind(value)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> Any:
        value = _settings(content).get(name)
        if type(value) is not self.kind:
            raise content.damaged(f"{name!r} is missing or has the wrong type")
        return value


@dataclass(frozen=True)
class _Number(_Field):
    least: float | None = None
    infinite: bool = False
    missing: bool = False

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        arrays[name] = np.array(value, np.float64)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> float:
        how = _Array("", least=self.least, infinite=self.infinite, missing=self.missing)
        return float(how.unpack(content, name, sizes))


@dataclass(frozen=True)
class _Texts(_Field):
    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        settings[name] = list(value)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> tuple[str, ...]:
        value = _settings(content).get(name)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise content.damaged(f"{name!r} is missing or not a list of texts")
        return tuple(value)


@dataclass(frozen=True)
class _Names(_Field):
    letter: str
    empty: bool = False

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        arrays |= persist.pack_names(name, value)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> Names:
        names = content.names(name)
        if not len(names) and not self.empty:
            raise content.damaged(f"{name!r} is empty")
        if sizes.setdefault(self.letter, len(names)) != len(names):
            raise content.damaged(f"{name!r} has {len(names):,} names")
        return names


@dataclass(frozen=True)
class _Encoded(_Field):
    letter: str
    write: Callable[[Any], npt.NDArray[Any]]
    read: Callable[[Content, str], Any]

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        arrays[name] = self.write(value)

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> Any:
        value = self.read(content, name)
        if len(value) != _size(self.letter, len(value), sizes):
            raise content.damaged(f"{name!r} has {len(value):,} values")
        return value


@dataclass(frozen=True)
class _Part(_Field):
    kind: type[Any]
    optional: bool = False

    def pack(self, name: str, value: Any, arrays: Arrays, settings: dict[str, Any]) -> None:
        value = value.stored() if hasattr(value, "stored") else value
        if value is not None:
            pack(value, arrays, settings, f"{name}.")

    def unpack(self, content: Content, name: str, sizes: dict[str, int]) -> Any:
        return unpack(self.kind, content, sizes, f"{name}.")

    def absent(self, content: Content, name: str) -> bool:
        return self.optional and not any(key.startswith(f"{name}.") for key in content.arrays)


def numbers(
    letters: str,
    *,
    least: float | None = None,
    most: float | None = None,
    infinite: bool = False,
    missing: bool = False,
    optional: bool = False,
) -> dict[str, _Field]:
    """Metadata of an array of floats: whether they have bounds, may be infinite or missing (NaN), or None together."""
    return {"held": _Array(letters, least=least, most=most, infinite=infinite, missing=missing, optional=optional)}


def probabilities(letters: str, *, optional: bool = False) -> dict[str, _Field]:
    """Metadata of an array of probabilities, each between 0 and 1 but for rounding."""
    return {"held": _Array(letters, least=0.0, most=1 + 1e-9, optional=optional)}


def distributions(letters: str, *, optional: bool = False) -> dict[str, _Field]:
    """Metadata of an array of probabilities that sum to one along the last axis."""
    return {"held": _Array(letters, least=0.0, sums_to_one=True, optional=optional)}


def codes(
    letters: str, below: str | None = None, *, dtypes: tuple[npt.DTypeLike, ...] = (np.int64,), optional: bool = False
) -> dict[str, _Field]:
    """Metadata of an array of whole numbers from 0 to a size, by its letter, or of counts without one."""
    return {"held": _Array(letters, dtypes, least=0, below=below, optional=optional)}


def integers(letters: str) -> dict[str, _Field]:
    """Metadata of an array of whole numbers of any size."""
    return {"held": _Array(letters, (np.int64,))}


def offsets(letters: str, *, dtype: npt.DTypeLike = np.int64) -> dict[str, _Field]:
    """Metadata of an array that specifies where runs begin and the last ends, from 0."""
    return {"held": _Array(letters, (dtype,), rising=True)}


def flags(letters: str) -> dict[str, _Field]:
    """Metadata of an array of booleans."""
    return {"held": _Array(letters, (np.bool_,))}


def number(*, least: float | None = None, infinite: bool = False, missing: bool = False) -> dict[str, _Field]:
    """Metadata of one float."""
    return {"held": _Number(least, infinite, missing)}


def setting(kind: type[bool] | type[int] | type[str]) -> dict[str, _Field]:
    """Metadata of a flag, a whole number or a text."""
    return {"held": _Setting(kind)}


def texts() -> dict[str, _Field]:
    """Metadata of a tuple of texts."""
    return {"held": _Texts()}


def names(letter: str, *, empty: bool = False) -> dict[str, _Field]:
    """Metadata of names, whose number is the size that a letter stands for; `empty` where there may be none."""
    return {"held": _Names(letter, empty)}


def custom(
    letter: str, write: Callable[[Any], npt.NDArray[Any]], read: Callable[[Content, str], Any]
) -> dict[str, _Field]:
    """Metadata of values that functions turn into an array and back."""
    return {"held": _Encoded(letter, write, read)}


def part(kind: type[Any], *, optional: bool = False) -> dict[str, _Field]:
    """Metadata of another dataclass of such fields; ``stored()`` gives the form in which it is written, if any."""
    return {"held": _Part(kind, optional)}


def pack(value: Any, arrays: Arrays, settings: dict[str, Any], prefix: str = "") -> None:
    """Add all fields of a dataclass to the arrays and settings of a file."""
    for name, part in _fields_of(type(value)).items():
        content = getattr(value, name)
        if content is not None or not part.optional:
            part.pack(f"{prefix}{name}", content, arrays, settings)


def unpack(
    kind: type[T],
    content: Content,
    sizes: dict[str, int],
    prefix: str = "",
    parts: Mapping[str, type[Any]] | None = None,
) -> T:
    """Return a dataclass from a file; its ``check(sizes)``, raises `ValueError` for contradictions.

    `parts` are the classes of fields that hold dataclasses, where they are not those of the metadata.
    """
    parts_by_name = _fields_of(kind) | {name: _Part(reader) for name, reader in (parts or {}).items()}
    values = {}
    # Names first: other shapes follow from them.
    for name, how in sorted(
        parts_by_name.items(), key=lambda item: (item[0] in (parts or {}), not isinstance(item[1], _Names))
    ):
        key = f"{prefix}{name}"
        values[name] = None if how.absent(content, key) else how.unpack(content, key, sizes)
    value = kind(**values)
    if hasattr(value, "check"):
        try:
            value.check(sizes)
        except FileFormatError:
            raise
        except ValueError as error:
            raise content.damaged(str(error)) from error
    return value


def without_arrays(fit: SomeFit) -> SomeFit:
    """The same fit with empty arrays, where only settings and names are of use."""
    empty: dict[str, Any] = {
        name: np.zeros((0,) * len(part.letters), part.dtypes[0])
        for name, part in _fields_of(type(fit)).items()
        if isinstance(part, _Array)
    }
    return replace(fit, **empty)


def _fields_of(kind: type[Any]) -> dict[str, _Field]:
    return {one.name: one.metadata["held"] for one in fields(kind) if "held" in one.metadata}


def _settings(content: Content) -> dict[str, Any]:
    settings = content.meta.get("fit")
    if not isinstance(settings, dict):
        raise content.damaged("its settings are incomplete")
    return settings


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a method learns. Each kind of estimator adds its answers, each method what else it knows."""

    #: The objective after each iteration, empty where a method has none.
    history: Array = field(metadata=numbers("h"))
    n_iter: int = field(default=1, metadata=setting(int))
    converged: bool = field(default=True, metadata=setting(bool))
    #: Doubts about the answer, or what was done instead of what was asked; in whole sentences.
    remarks: tuple[str, ...] = field(default=(), metadata=texts())

    @property
    def objective(self) -> float:
        """The objective at the end; NaN where the method has none."""
        return float(self.history[-1]) if len(self.history) else float("nan")


F_co = TypeVar("F_co", bound=Fit, covariant=True)
SomeFit = TypeVar("SomeFit", bound=Fit)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted(Generic[F_co]):
    """All that an estimator publishes at once: a fit, and names and counts of the table it came from."""

    #: Fields that pickles leave out, such as the table.
    _local: ClassVar[tuple[str, ...]] = ("votes",)

    fit: F_co = field(metadata=part(Fit))
    workers: Names = field(metadata=names("m"))
    n_labels: Ints = field(metadata=codes("m"))
    #: The table of the fit, as long as the model stays in memory.
    votes: Any = None

    def fit_as(self, kind: type[SomeFit]) -> SomeFit:
        """Return the fit of a method whose fits are of a subclass."""
        assert isinstance(self.fit, kind)
        return self.fit

    def carried_over(self, per_worker: Array, known: Ints) -> Array:
        """What was learned of each worker, for a table whose worker m was worker known[m] in fit, or is new at -1.

        A worker not seen before gets the average, weighted by numbers of labels.
        """
        return carried_over(per_worker, known, self.n_labels)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._local}


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskFitted(Fitted[F_co]):
    """The same of answers to tasks."""

    tasks: Names = field(metadata=names("n"))


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemFitted(Fitted[F_co]):
    """The same of answers about items."""

    items: Names = field(metadata=names("i"))


def carried_over(per_worker: Array, known: Ints, n_labels: Ints) -> Array:
    """Rows of workers by their codes in fit, and at -1 the average weighted by numbers of labels."""
    values = per_worker[known]
    values[known < 0] = np.average(per_worker, axis=0, weights=n_labels)
    return values
