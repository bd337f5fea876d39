"""The annotation table: one immutable, sparse record of which worker gave which answer about which task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, building, persist
from manyhands._base import data_checks as checks
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread, class_texts, in_groups, largest
from manyhands._base.frames import not_a_log, take_columns
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands._base.spelling import groups_of, list_groups, skeleton
from manyhands._base.task_table import Answers
from manyhands.categorical.dense import build_dense

#: Methods that go through shards one by one.
STREAMED = (
    "MajorityVote, WeightedVote, DawidSkene, BayesianDawidSkene (vb), HierarchicalDawidSkene, HierarchicalMACE, "
    "Consensus (which is mh.aggregate), krippendorff_alpha, fleiss_kappa, gwet_ac1 and gwet_ac2"
)


class Annotations(Answers):
    """An immutable, sparse table of (task, worker, label) triples.

    Made by one of the constructors below or by :func:`manyhands.read`. Ids may be integers, text, booleans,
    dates, categories or any hashable Python value; floats that are all whole numbers count as integers.
    Names are kept in sorted order, rows in task order and by worker within a task: the same annotations give
    the same table, whatever order and frame library they came in.

    A worker's second answer to the same task is kept and counts as another vote, unless `repeats` specifies
    otherwise. Rows without a label (null, NaN, empty text) are set aside with a warning, or rejected with
    ``missing="error"``; tasks that lose all their rows that way are listed in :attr:`unlabelled`.

    Labels that carry no information of the class ("don't know") are abstentions if `abstain` names them: they can be
    given but are never true. They are among :attr:`labels`, not :attr:`classes`. `DawidSkene` with full matrices learns
    from who abstains when; all else takes them as missing (:meth:`without_abstentions`).

    Classes may have an order, `ordered`: grades, say. :func:`manyhands.aggregate` then chooses a method of
    :mod:`manyhands.ordinal`.

    An answer may also be less than certain: `confidence`, or probabilities (:meth:`from_soft`). It then becomes
    fractions of annotations: rows of a task and worker whose weights sum to at most one.

    Memory: 5 bytes per annotation (6 above 256 classes; 8 more with weights) and 4 a task, besides the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> votes
    <Annotations: 3 annotations of 2 tasks by 2 workers, 2 classes>
    >>> votes.classes.tolist()
    ['cat', 'dog']
    """

    __slots__ = ("_classes", "_labels", "_ordered")
    spec: ClassVar[KindSpec] = KindSpec(
        word="categorical",
        required=("task", "worker", "label"),
        optional=("weight", "confidence"),
        numbers=frozenset({"weight", "confidence"}),
        settings=(
            "repeats",
            "missing",
            "classes",
            "abstain",
            "ordered",
            "fold_labels",
        ),
    )
    _table: _core.Table

    def __init__(
        self,
        table: _core.Table,
        tasks: Names,
        workers: Names,
        classes: Names,
        unlabelled: Names | None = None,
        labels: Names | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        super().__init__(table, tasks, workers, unlabelled=unlabelled)
        self._classes = classes
        self._ordered = ordered
        #: The classes, then the abstentions: what codes of labels stand for.
        self._labels = classes if labels is None else labels

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | Iterable[str] | None = None,
        worker: str | Iterable[str] | None = None,
        label: str | None = None,
        weight: str | None = None,
        confidence: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
        classes: Iterable[Any] | None = None,
        abstain: Any = None,
        ordered: bool = False,
        fold_labels: bool = False,
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row per annotation. Anything with the Arrow PyCapsule interface will do.
        task, worker, label
            Column names. Where one is not given, the frame must have exactly one column with a well-known
            name (``task``, ``task_id``, ``item``, … ``worker``, ``annotator``, … ``label``, ``answer``, …). Several
            columns in a list are one id together: ``worker=["judge", "prompt"]``.
        weight : str or None, default None
            Column of weights: an annotation of weight 2 counts as two. None for equal weights. Probabilities in long
            form, a row for each label that a worker holds possible, are weights. The largest is 1e15; one below
            1e-30 counts as 0.
        confidence : str or None, default None
            Column of how sure workers are of their labels, above 0 and at most 1. With K classes, a label of confidence
            c counts as (c K - 1) / (K - 1) of an annotation: wholly if it is certain, not at all if it is a guess.
        repeats : str, default "keep"
            What to do with a worker's further answers to the same task: ``"keep"`` them all, only the
            ``"first"`` or ``"last"`` row, or ``"error"``.
        missing : str, default "drop"
            ``"drop"`` rows without a label, with a warning, or ``"error"``.
        classes : sequence or None, default None
            All classes, in the order their codes must have. By default the labels that occur, sorted.
        abstain
            Label, or labels, that are never true, such as "don't know". They are not among the `classes`.
        ordered : bool, default False
            Whether the classes have an order: that of `classes`, which must be given unless they are numbers.
        fold_labels : bool, default False
            Whether labels that differ by case or blanks only are one class, spelled as most answers are, or as in
            `classes`. By default each is a class of its own, with a warning.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"item": [1, 1, 2], "rater": ["x", "y", "x"], "answer": [True, False, True]}
        >>> mh.Annotations.from_frame(log, task="item", worker="rater", label="answer").n_tasks
        2
        """
        return cls._of_frame(
            frame,
            {"task": task, "worker": worker, "label": label},
            {"weight": weight, "confidence": confidence},
            repeats=repeats,
            missing=missing,
            classes=classes,
            abstain=abstain,
            ordered=ordered,
            fold_labels=fold_labels,
        )

    @classmethod
    def _of_columns(
        cls,
        columns: Columns,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
        classes: Iterable[Any] | None = None,
        abstain: Any = None,
        ordered: bool = False,
        fold_labels: bool = False,
    ) -> Self:
        parts = building.build(
            columns.ids["task"],
            columns.ids["worker"],
            columns.ids["label"],
            weights=columns.only("weight"),
            confidence=columns.only("confidence"),
            repeats=repeats,
            missing=missing,
            classes=classes,
            abstain=abstain,
            fold_labels=fold_labels,
        )
        return cls(*parts, ordered=checks.checked_order(ordered, parts[3], given=classes is not None))

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        labels: Any,
        weights: Any = None,
        *,
        confidence: Any = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
        classes: Iterable[Any] | None = None,
        abstain: Any = None,
        ordered: bool = False,
        fold_labels: bool = False,
    ) -> Self:
        """Build a table from three columns of equal length: lists, arrays, Series or Arrow arrays of ids.

        Other parameters are those of :meth:`from_frame`.
        """
        parts = building.build(
            Column(tasks, "tasks"),
            Column(workers, "workers"),
            Column(labels, "labels"),
            weights=None if weights is None else (weights, "weights"),
            confidence=None if confidence is None else (confidence, "confidence"),
            repeats=repeats,
            missing=missing,
            classes=classes,
            abstain=abstain,
            fold_labels=fold_labels,
        )
        return cls(*parts, ordered=checks.checked_order(ordered, parts[3], given=classes is not None))

    @classmethod
    def from_batches(
        cls, batches: Iterable[Any], *, out_of_core: str | os.PathLike[str], memory: str | int = "4GB", **settings: Any
    ) -> Annotations:
        """Encode a log that comes in frames into a directory of shards, with one frame in memory at a time.

        The table that comes back stays on disk, as that of ``mh.read(path, out_of_core=directory)``.

        Parameters
        ----------
        batches : sequence
            An iterator of anything that :meth:`from_frame` takes, such as the record batches of an Arrow dataset.
        out_of_core, memory
            A directory, new or empty, and what encoding may take, as for :func:`manyhands.read`.
        **settings
            Columns and rules, as for :meth:`from_frame`.
        """
        from manyhands.io.shards import encode_batches

        return encode_batches(batches, settings, out_of_core, memory=memory)

    @classmethod
    def from_shards(cls, passes: Any) -> Self:
        """Build a table whose annotations stay in shards, from the driver that goes through them.

        Methods that go through annotations shard by shard take it as any other table, in memory that does not grow
        with the log. All others raise before they start; :meth:`in_memory` makes a plain table. What is asked for a
        task or an annotation at a time (``tasks``, ``codes()``, ``to_frame()``, …) is read then, if it fits. Tasks are
        in the same order as in memory. ``mh.read(path, out_of_core=directory)`` makes such a table from files.

        Parameters
        ----------
        passes
            A :class:`manyhands.categorical.shards.passes.Sharded`, or an object of a class derived from it.
        """
        from manyhands.categorical.shards.votes import ShardNames

        directory = passes.directory
        names = (ShardNames(directory), directory.workers, directory.classes, directory.unlabelled)
        return cls(passes, *names, directory.labels if passes.abstentions else None)

    @classmethod
    def from_soft(
        cls,
        frame: Any,
        classes: Iterable[str],
        *,
        task: str | None = None,
        worker: str | None = None,
        abstain: Any = None,
        ordered: bool = False,
    ) -> Self:
        """Build a table from soft labels: a row per answer, a column of probabilities for each class.

        An answer counts as fractions of annotations: of each label as much as its probability exceeds the least one,
        since a part that all classes share is not evidence. An answer that is certain is a plain annotation, one of
        even probabilities weighs nothing, and one that has all but a label even is that label with a `confidence`. The
        expected log-likelihood then stands in for the likelihood of a label.

        Parameters
        ----------
        frame
            Anything that :meth:`from_frame` takes.
        classes : sequence of str
            The columns of probabilities, which are the classes in the order of their codes. Each row sums to one,
            but for rounding.
        task, worker : str or None, default None
            Column names, as in :meth:`from_frame`.
        abstain
            Those of the columns that are never true.
        ordered : bool, default False
            Whether the classes have an order, that of `classes`.

        Examples
        --------
        >>> import manyhands as mh
        >>> judged = {"task": [1, 1, 2], "worker": ["x", "y", "x"], "cat": [0.9, 0.5, 0.0], "dog": [0.1, 0.5, 1.0]}
        >>> votes = mh.Annotations.from_soft(judged, ["cat", "dog"])
        >>> votes.n_annotations, votes.weights.tolist()
        (2, [0.8, 1.0])
        """
        names = [*classes]
        columns_by_role = {"task": task, "worker": worker} | {f"probability of {name!r}": name for name in names}
        columns_found = take_columns(frame, **columns_by_role)
        ids = [
            Column(columns_found[role][1], f"{role} column {columns_found[role][0]!r}") for role in ("task", "worker")
        ]
        columns = [columns_found[f"probability of {name!r}"][1] for name in names]
        parts = building.build_soft(ids, columns, names, abstain)
        return cls(*parts, ordered=checks.checked_order(ordered, parts[3], given=True))

    @classmethod
    def from_dense(
        cls,
        matrix: Any,
        *,
        task: str | None = None,
        missing: Any = -1,
        classes: Iterable[Any] | None = None,
        abstain: Any = None,
        ordered: bool = False,
    ) -> Self:
        """Build a table from a (tasks × workers) matrix of labels with `missing` where there is none.

        None, NaN, empty text and masked entries are not labels either. Tasks without labels are listed in
        :attr:`unlabelled`.

        Workers are named by the columns of a frame, and tasks by the index of a pandas frame or by the column `task`;
        rows and columns without names are numbered from 0. A column that looks like the ids of the tasks (one value
        for each, all different) is rejected among the workers.

        Parameters
        ----------
        matrix
            An array, masked or not, a list of rows, a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.
        task : str or None, default None
            The column of a frame that names the tasks.
        missing
            What stands for no label.
        classes, abstain, ordered
            As for :meth:`from_frame`.

        Examples
        --------
        >>> import manyhands as mh
        >>> mh.Annotations.from_dense([[0, 1, -1], [1, 1, 0]]).n_annotations
        5
        >>> wide = {"item": ["q1", "q2"], "ann": ["cat", "dog"], "bob": ["cat", None]}
        >>> votes = mh.Annotations.from_dense(wide, task="item")
        >>> votes.tasks.tolist(), votes.workers.tolist()
        (['q1', 'q2'], ['ann', 'bob'])
        """
        parts = build_dense(matrix, task=task, missing=missing, classes=classes, abstain=abstain)
        return cls(*parts, ordered=checks.checked_order(ordered, parts[3], given=classes is not None))

    @classmethod
    def from_codes(
        cls,
        tasks: npt.ArrayLike,
        workers: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        n_tasks: int,
        n_workers: int,
        n_classes: int,
        weights: npt.ArrayLike | None = None,
        ordered: bool = False,
    ) -> Self:
        """Build a table from columns that are codes already: whole numbers from 0, which are also the names.

        The quickest way in: nothing is looked up. Codes that do not occur are tasks, workers or classes
        without annotations.
        """
        for what, count in (("n_tasks", n_tasks), ("n_workers", n_workers), ("n_classes", n_classes)):
            if count < 1:
                raise ValueError(f"{what} must be at least 1, not {count}")
        checks.check_n_classes(n_classes, "the table")
        checks.check_names_memory(n_tasks, n_workers)
        table = checks.made_table(
            checks.checked_codes(tasks, "tasks", np.uint32),
            checks.checked_codes(workers, "workers", np.uint32),
            checks.checked_codes(labels, "labels", np.uint16),
            None if weights is None else checks.checked_weights(weights, "weights"),
            n_tasks,
            n_workers,
            n_classes,
        )
        names = [Names(np.arange(n)) for n in (n_tasks, n_workers, n_classes)]
        return cls(table, *names, ordered=checks.checked_order(ordered, names[2]))

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Table:
        """The compiled table of codes: frozen, and what kernels take. `TypeError` for a log in shards."""
        if self.in_shards:
            raise TypeError(
                f"this log is in shards ({self.passes.directory.path}), and what was asked for needs all of it in "
                f"memory: votes.in_memory() reads it, where it fits. Methods that go through shards are {STREAMED}"
            )
        return self._table

    @property
    def passes(self) -> Any:
        """What loops over annotations go through: the compiled table, or a driver of shards on disk or elsewhere."""
        return self._table

    @property
    def in_shards(self) -> bool:
        """Whether the annotations stay in shards, of which a loop reads one at a time."""
        return not isinstance(self._table, _core.Table)

    def in_memory(self) -> Self:
        """Return the same annotations in memory; `MemoryError` where they do not fit. O(annotations)."""
        if not self.in_shards:
            return self
        names = (Names(self._tasks._store), self._workers, self._classes, self._unlabelled, self._labels)
        return type(self)(self.passes.read_table(), *names)

    def resumable(self) -> Self:
        """Return the same log in shards, whose passes write their sums to disk.

        A fit that is killed and begun again, with the same settings, takes those that were made from there and ends
        with the same bits. Each pass takes a file as large as the parameters until `forget` deletes them.
        """
        return self._driven_by(self._shards().resumable())

    def forget(self) -> None:
        """Delete what the passes of `resumable` wrote."""
        self._shards().forget()

    def _shards(self) -> Any:
        if not self.in_shards:
            raise TypeError("only fits to a log in shards can be resumed: mh.read(path, out_of_core=directory)")
        return self.passes

    def _driven_by(self, passes: Any) -> Self:
        """The same annotations in shards that a driver goes through."""
        votes: Self = type(self).from_shards(passes)
        return votes

    def _whole(self) -> Self:
        return self.in_memory()

    def _weighted(self) -> bool:
        return bool(self.passes.directory.sizes.weighted) if self.in_shards else self._table.weights() is not None

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """Weight of every annotation, aligned with :meth:`codes`; None where all weigh the same."""
        return self._whole()._table.weights() if self._weighted() else None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._table.n_classes

    @property
    def n_labels(self) -> int:
        """Number of labels that workers can give: the classes, and the abstentions."""
        return self._table.n_labels

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Names of the classes, in code order: what can be true."""
        return self._classes.values

    @property
    def ordered(self) -> bool:
        """Whether the classes have an order, that of :attr:`classes`."""
        return self._ordered

    @property
    def kind(self) -> str:
        """``"categorical"``, or ``"ordinal"`` if the classes have an order."""
        return "ordinal" if self._ordered else self.spec.word

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Names of all labels that workers can give, in code order: the classes before the abstentions."""
        return self._labels.values

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint16]]:
        """Task, worker and label code of every annotation, in task order: fresh arrays, 10 bytes each."""
        return self._whole()._table.columns()

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.in_shards:
            return type(self).from_shards, (self.passes,)
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        annotations = plural(self.n_annotations, "annotation")
        tasks, workers = plural(self.n_tasks, "task"), plural(self.n_workers, "worker")
        order = "ordered " if self._ordered else ""
        classes = plural(self.n_classes, f"{order}class", f"{order}classes")
        never = self.n_labels - self.n_classes
        abstain = f" and {plural(never, 'abstention')}" if never else ""
        weighted = ", weighted" if self._weighted() else ""
        where = f", in {plural(len(self.passes), 'shard')}" if self.in_shards else ""
        return f"<Annotations: {annotations} of {tasks} by {workers}, {classes}{abstain}{weighted}{where}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._classes, self._labels, self._ordered)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.codes(), self.weights)

    def without_abstentions(self) -> Self:
        """Return the table as if abstentions were missing answers; itself where there are none. O(annotations).

        Tasks and workers stay, also those without any answer left.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([["yes", "?", "no"], ["yes", "yes", "?"]], abstain="?")
        >>> votes, votes.without_abstentions().n_annotations
        (<Annotations: 6 annotations of 2 tasks by 3 workers, 2 classes and 1 abstention>, 4)
        """
        if self.n_labels == self.n_classes:
            return self
        if not self._table.label_counts()[: self.n_classes].any():
            raise ValueError("every annotation is an abstention: there is nothing to aggregate")
        if self.in_shards:
            return self._driven_by(self.passes.but(abstentions=False))
        keep = self.codes()[2] < self.n_classes
        same = np.arange(self.n_labels, dtype=np.uint16)
        table = self._table.keep(keep).recoded(same, self.n_classes, self.n_classes)
        names = (self._tasks, self._workers, self._classes, self._unlabelled)
        return type(self)(table, *names, ordered=self._ordered)

    def _part(self, table: _core.Table, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        return type(self)(table, tasks, workers, self._classes, unlabelled, self._labels, ordered=self._ordered)

    # ------------------------------------------------------------------------------------------ description

    def _facts(self) -> Iterable[Fact]:
        (per_task, overlap), table, bare = self._task_spread(), self._table, len(self._unlabelled)
        counts, groups = table.label_counts(), table.n_components()
        # A later answer that replaces an earlier one may leave nothing but abstentions: no pair of labels to compare.
        only_abstentions = not counts[: self.n_classes].any()
        agreeing, pairs = (0, 0) if only_abstentions else self.without_abstentions()._table.agreeing_pairs()
        agreement = agreeing / pairs if pairs else float("nan")
        shares = dict(zip(class_texts(self.labels), (counts / self.n_annotations).tolist(), strict=True))
        names = groups_of(self.workers.tolist() if self.workers.dtype == object else (), skeleton)
        equal = (
            f"{agreement:.1%} of pairs of labels on a task are equal" if pairs else "unknown: no task has two labels"
        )
        repeats = table.n_repeats()
        yield Fact("n_annotations", self.n_annotations, "annotations")
        yield Fact("n_tasks", self.n_tasks, "tasks", f"{self.n_tasks:,}  (and {bare:,} without a label)")
        yield Fact("n_workers", self.n_workers, "workers", f"{self.n_workers:,}  ({in_groups(groups)})")
        yield Fact("n_classes", self.n_classes, "classes", f"{self.n_classes:,}  ({largest(shares)})")
        yield Fact("n_unlabelled", bare)
        yield Fact("n_repeats", repeats)
        yield Fact("labels_per_task", per_task, "labels per task")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), "labels per worker")
        yield Fact("overlap", overlap, "overlap", f"{overlap:.1%} of tasks have two or more labels")
        yield Fact("agreement", agreement, "agreement", equal)
        yield Fact("n_components", groups)
        yield Fact("class_shares", shares)
        yield Fact("", repeats, "repeats", f"{repeats:,} further answers by a worker to the same task")
        yield Fact(
            "look_alikes", names, "look-alikes" if names else "", f"workers {list_groups(names)}" if names else ""
        )

    def _task_spread(self) -> tuple[Spread, float]:
        """How many annotations tasks have, and the share of them that have two or more."""
        if self.in_shards:
            tally = self.passes.summary.lengths.astype(np.int64)
            return Spread.of_tally(tally), float(tally[2:].sum() / tally.sum())
        return Spread.of(per_task := self.labels_per_task), float(np.mean(per_task > 1))

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        return {"label": arrow.take(self._labels.arrow(), said)}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        names = persist.pack_names("classes", self._classes) | persist.pack_labels(self._classes, self._labels)
        # Only where there is one, so that files without can be read by versions that knew none.
        order = {"ordered": np.ones(1, np.bool_)} if self._ordered else {}
        return {"label_codes": said} | names | order

    @classmethod
    def _names_in(cls, content: persist.Content) -> tuple[Names, ...]:
        """Names of tasks, workers, unlabeled tasks, classes and all labels."""
        classes = content.names("classes")
        return *super()._names_in(content), classes, content.labels(classes)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled, classes, labels = cls._names_in(content)
        task_codes, worker_codes, weights = cls._links_in(content)
        answer_codes = content.array("label_codes", np.uint16, shape=task_codes.shape)
        sizes = (len(tasks), len(workers), len(labels))
        table = checks.made_table(task_codes, worker_codes, answer_codes, weights, *sizes, n_classes=len(classes))
        ordered = "ordered" in content.arrays and bool(content.array("ordered", np.bool_, shape=(1,))[0])
        return cls(table, tasks, workers, classes, unlabelled, labels, ordered=ordered)


def as_annotations(votes: Any, *, abstentions: bool = False) -> Annotations:
    """Return a table, or make one of a frame whose columns have well-known names.

    Without `abstentions` they are left out, as missing answers.
    """
    if isinstance(votes, Annotations):
        return votes if abstentions else votes.without_abstentions()
    if isinstance(votes, Mapping) or hasattr(votes, "__arrow_c_stream__") or hasattr(votes, "columns"):
        return Annotations.from_frame(votes)
    if isinstance(votes, str | os.PathLike):
        from manyhands.io.read import read

        return as_annotations(read(votes, kind="categorical"), abstentions=abstentions)
    raise TypeError(not_a_log(votes, "Annotations or a frame"))
