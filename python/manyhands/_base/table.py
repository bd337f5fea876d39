"""What tables of every kind have, with tasks or without: workers by name, numbers of their records, files."""

from __future__ import annotations

import copyreg
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import html, persist
from manyhands._base.columns import Chosen, Columns, columns_of
from manyhands._base.description import Description, Fact
from manyhands._base.frames import if_there, not_a_log
from manyhands._base.kind import KindSpec
from manyhands._base.names import Column, Names

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.audit import Finding


def _pickle_compiled(table: Any, *sizes: Any) -> tuple[Any, ...]:
    """Pickle a compiled table as its columns, weights and sizes."""
    return type(table), (*table.columns(), table.weights(), *sizes)


copyreg.pickle(_core.Table, lambda t: _pickle_compiled(t, t.n_tasks, t.n_workers, t.n_labels, "keep", t.n_classes))
copyreg.pickle(_core.Ratings, lambda t: _pickle_compiled(t, t.n_tasks, t.n_workers))
copyreg.pickle(_core.CodeTable, lambda t: _pickle_compiled(t, t.n_tasks, t.n_workers, t.n_codes))
copyreg.pickle(_core.Comparisons, lambda t: _pickle_compiled(t, t.n_items, t.n_workers, t.n_contexts))
copyreg.pickle(_core.Rankings, lambda t: _pickle_compiled(t, t.n_items, t.n_workers))


class Rows(Protocol):
    """What the compiled tables of all kinds have: records of workers, with weights."""

    @property
    def n_workers(self) -> int:
        """Number of workers."""

    @property
    def n_annotations(self) -> int:
        """Number of records."""

    def worker_counts(self) -> npt.NDArray[Any]:
        """Number of records by each worker."""

    def weights(self) -> npt.NDArray[np.float64] | None:
        """Weight of each record; None where all weigh the same."""

    def keep(self, mask: npt.NDArray[np.bool_]) -> Self:
        """The records that are marked."""


class Records(persist.Saved, ABC):
    """Records of workers, whatever they are about: immutable, sparse, with names of workers.

    A kind of answers is a subclass with a `spec`. One whose answers are about tasks, one each, derives from
    :class:`~manyhands._base.task_table.Answers`; one about items that are compared, from this class.
    """

    __slots__ = ("_table", "_workers")
    _table: Rows

    #: What the library knows about the kind: columns, settings, folder.
    spec: ClassVar[KindSpec]
    #: Whether columns may be found by weak names, which `_check_guesses` then checks.
    _weak: ClassVar[bool] = False
    #: What has names, and is saved with them.
    _name_fields: ClassVar[tuple[str, ...]]
    #: The maker behind all of a kind: from columns by role, and its settings as keywords.
    _of_columns: ClassVar[Callable[..., Any]]
    #: The table of each kind; it enters itself when it is defined.
    _kinds: ClassVar[dict[str, type[Records]]] = {}

    def __init_subclass__(cls, **rest: Any) -> None:
        if "spec" in vars(cls):
            Records._kinds[cls.spec.word] = cls
            cls._file_kind = cls.spec.word
        super().__init_subclass__(**rest)

    def __init__(self, table: Rows, workers: Names) -> None:
        self._table = table
        self._workers = workers

    @classmethod
    def _of_frame(cls, frame: Any, given: Mapping[str, Chosen], options: Mapping[str, Chosen], **settings: Any) -> Self:
        """Build a table from the columns of a frame by role; options where they are named, or there to be found."""
        return cls._made(cls._columns_in(frame, given, options), **settings)

    @classmethod
    def _made(cls, columns: Columns, **settings: Any) -> Self:
        """Build a table from columns by role, and check that columns taken by weak names are what they seem."""
        table: Self = cls._of_columns(columns, **settings)
        table._check_guesses(columns)
        return table

    def _check_guesses(self, columns: Columns) -> None:
        """Raise where a column that was taken by a weak name is something else."""

    @classmethod
    def _of_arrays(cls, settings: Mapping[str, Any], **given: Any) -> Self:
        """Build a table from columns by the names of parameters, each a role or its plural; None for no column."""
        columns = Columns()
        for name, data in given.items():
            role = name if name in cls.spec.roles else name.removesuffix("s")
            if data is not None and role in cls.spec.numbers | cls.spec.raw:
                columns.others[role] = [(data, name)]
            elif data is not None:
                columns.ids[role] = Column(data, name)
        table: Self = cls._of_columns(columns, **settings)
        return table

    @classmethod
    def _columns_in(cls, frame: Any, given: Mapping[str, Chosen], options: Mapping[str, Chosen]) -> Columns:
        """The columns of a frame by role."""
        optional = {role: if_there(frame, role) for role in cls.spec.if_there if options.get(role) is None}
        names_by_role = {role: name for role, name in {**options, **optional}.items() if name is not None}
        return columns_of(frame, {**given, **names_by_role}, cls.spec.numbers | cls.spec.raw, weak=cls._weak)

    @classmethod
    def _needed(cls, names: Sequence[str], named: Collection[str]) -> tuple[str, ...]:
        """Roles that need a column in a log of such names, where the caller named the columns of some."""
        return cls.spec.required

    @classmethod
    def _as_table(cls, answers: Any) -> Self:
        """Return a table of this kind, or make one of a frame whose columns have well-known names."""
        if isinstance(answers, cls):
            return answers
        if hasattr(answers, "columns") or hasattr(answers, "keys") or hasattr(answers, "__arrow_c_stream__"):
            maker: Any = cls
            log: Self = maker.from_frame(answers)
            return log
        if isinstance(answers, str | os.PathLike):
            from manyhands.io.read import read

            table: Self = read(answers, kind=cls.spec.word)
            return table
        raise TypeError(
            not_a_log(answers, f"{cls.__name__} or a frame", [f"{cls.__name__}.{m}" for m in cls.spec.makers])
        )

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def kind(self) -> str:
        """Kind of the answers, such as ``"categorical"``; decides which method :func:`manyhands.aggregate` uses."""
        return self.spec.word

    @property
    def table(self) -> Rows:
        """The compiled table of codes: frozen, and what kernels take."""
        return self._table

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return self._table.n_workers

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return self._table.n_annotations

    def describe(self) -> Description:
        """Summarize the table in numbers; prints as a short report. O(annotations and what they hold)."""
        return Description(tuple(self._facts()))

    def _facts(self) -> Iterable[Fact]:
        """Facts of `describe`, in the order of its report."""
        return [Fact("n_annotations", self.n_annotations, "answers"), Fact("n_workers", self.n_workers, "workers")]

    def _identity(self) -> tuple[Any, ...]:
        """What two equal tables must have alike before their columns are looked at: names and sizes."""
        return (self._workers, self.n_annotations)

    @abstractmethod
    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        """All columns, by codes; two tables with the same names and columns are equal."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Records._kinds[self.spec.word]):
            return NotImplemented
        if self._identity() != other._identity():
            return False
        columns: Any = zip(self._columns(), other._columns(), strict=True)
        return all(np.array_equal(a, b) for a, b in columns)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.n_annotations

    @property
    def workers(self) -> npt.NDArray[Any]:
        """Names of the workers, in code order."""
        return self._workers.values

    @property
    def labels_per_worker(self) -> npt.NDArray[np.int64]:
        """Number of annotations by each worker, (n_workers,)."""
        return self._table.worker_counts().astype(np.int64)

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """Weight of every annotation, in the order of :meth:`to_frame`; None where all weigh the same."""
        return self._table.weights()

    @property
    def in_shards(self) -> bool:
        """Whether the answers stay in shards, on disk or elsewhere; class labels can."""
        return False

    def _whole(self) -> Self:
        """The table with all its rows in memory, which most tables are."""
        return self

    @abstractmethod
    def to_frame(self) -> pa.Table:
        """Return the annotations as an Arrow table, in the order of all that is aligned with them."""

    def to_pandas(self) -> Any:
        """Return :meth:`to_frame` as a pandas frame."""
        return self.to_frame().to_pandas()

    def to_polars(self) -> Any:
        """Return :meth:`to_frame` as a polars frame."""
        import polars

        return polars.from_arrow(self.to_frame())

    def _repr_html_(self) -> str:
        return html.block(repr(self)) + html.table(self.to_frame())

    # ----------------------------------------------------------------------------------------------- subsets

    @abstractmethod
    def select(self, *, workers: Iterable[Any] | None = None) -> Self:
        """Return the annotations by some workers, by name or by a boolean mask aligned with :attr:`workers`."""

    def without(self, workers: Finding | Iterable[Any]) -> Self:
        """Return the annotations of all but some workers, as :meth:`select` does those of some.

        Tasks that no worker else labeled are no longer part of the table, and are listed in
        :attr:`unlabelled` of the result. O(annotations).

        Parameters
        ----------
        workers
            What an audit found, such as :func:`manyhands.audit.spammers` returns, or names, or a boolean mask aligned
            with :attr:`workers`. A name that is not a worker's is rejected; a worker that was found but is not in this
            table, left out before perhaps, is not missed.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([[0, 1, 1], [-1, 1, -1]])
        >>> rest = votes.without([1])
        >>> rest, rest.unlabelled.tolist()
        (<Annotations: 2 annotations of 1 task by 2 workers, 2 classes>, [1])
        """
        # Audits are made of tables, so that this module cannot import them while it is imported itself.
        from manyhands.audit.result import Finding

        if isinstance(workers, Finding):
            is_removed = np.zeros(self.n_workers, np.bool_)
            here = self._workers.match(workers.names.take(np.flatnonzero(workers.found)))
            is_removed[here[here >= 0]] = True
        elif workers is None or isinstance(workers, str | bytes):
            raise TypeError(f"without takes names of workers in a list, or what an audit found, not {workers!r}")
        else:
            is_removed = checks.mask_of(self._workers, workers, "worker")
        if not is_removed.any():
            return self
        if not (self.labels_per_worker[~is_removed] > 0).any():
            raise ValueError(f"no annotation is left: all {self.n_workers:,} workers with annotations are left out")
        return self.select(workers=~is_removed)

    # ------------------------------------------------------------------------------------------- persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a versioned file that holds data only; :func:`manyhands.load` reads it back.

        The file appears when it is whole and on disk, and an older one of that name stays until then; checksums reveal
        a damaged one.
        """
        whole = self._whole()
        arrays = dict(whole._arrays())
        if whole.weights is not None:
            arrays["weights"] = whole.weights
        for part in self._name_fields:
            arrays |= persist.pack_names(part, getattr(self, f"_{part}"))
        persist.write(path, self._file_kind, {}, arrays, read_back=self._read_back)

    @abstractmethod
    def _arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Arrays of a file: the answers, and the codes of those who gave them."""

    @classmethod
    def _read_back(cls, content: persist.Content) -> object:
        """Read what of a file can fail, before it is written."""
        return cls._load(content)
