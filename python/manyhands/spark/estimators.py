"""The library's aggregators as estimators of Spark: the same options and defaults, and columns of a DataFrame."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from pyspark.ml import Estimator
from pyspark.ml.param import Param, Params
from pyspark.sql import DataFrame, SparkSession

from manyhands import categorical as aggregators
from manyhands._base import data_checks as checks
from manyhands._base import soft_labels as soft
from manyhands._base.checks import check_number
from manyhands.categorical.base import Aggregator
from manyhands.categorical.shards.encoder import Rules
from manyhands.categorical.table import Annotations
from manyhands.categorical.voting import MajorityVote as LibraryMajorityVote
from manyhands.spark.checkpoint import Checkpoint, SparkJournal, failures
from manyhands.spark.columns import Log, Roles
from manyhands.spark.encoding import encode
from manyhands.spark.model import SparkModel
from manyhands.spark.shards import SparkShards

#: Options that all of them have next to those of the library, with defaults and what they mean.
_COMMON: dict[str, tuple[Any, str]] = {
    "checkpoint": (None, "directory that driver and executors reach, for shards and state"),
    "task_col": ("task", "column of task ids"),
    "worker_col": ("worker", "column of worker ids"),
    "label_col": ("label", "column of labels"),
    "weight_col": (None, "column of weights"),
    "confidence_col": (None, "column of confidences"),
    "order_by": (None, "column with the order of a worker's answers to a task"),
    "repeats": ("keep", "what becomes of a worker's further answers to a task: keep, first, last or error"),
    "missing": ("drop", "what becomes of rows without a label: drop or error"),
    "classes": (None, "what can be true, in this order; all labels that occur if it is None"),
    "abstain": (None, "labels that say nothing of the class"),
    "n_shards": (None, "number of shards; the log decides if it is None"),
    "retries": (3, "how often a pass that failed is run again"),
    "every": (10.0, "seconds of passes that a driver that is killed may lose"),
    "progress": (False, "whether to show progress, or a callback"),
}


class SparkEstimator(Estimator[SparkModel]):
    """Base of all of them: a subclass names the library's class.

    Parameters
    ----------
    checkpoint
        A directory that the driver and all executors reach, wherever Spark can write: ``hdfs://…``, ``s3a://…``, a
        shared folder. Shards of the log and sums of passes are kept there: a fit that was killed goes on from it, with
        the same bits; fits of other methods to the same log share the shards.
    task_col, worker_col, label_col
        Names of the columns: text, whole numbers, booleans or dates; labels may be other numbers too.
    weight_col, confidence_col
        Names of columns of weights or confidences, as ``weight`` and ``confidence`` of `Annotations.from_frame`.
    order_by
        A column that shows which of a worker's answers to a task came first, for ``repeats="first"`` and ``"last"``:
        rows of a DataFrame have no order.
    repeats, missing, classes, abstain
        As in `Annotations.from_frame`.
    n_shards
        In how many parts passes are made; None for one a million rows, or fewer where the crowd is large. Results
        depend on it in their last bits only, and on nothing else about the cluster.
    retries
        How often a pass that failed is run again.
    every
        Seconds: a driver that is killed loses the passes of about so long.
    progress
        True for a progress bar, or a function called as ``progress(iteration, objective)``.
    **options
        Those of the library's class of the same name, with its defaults.
    """

    _library: ClassVar[type[Aggregator]]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        described = {name: doc for name, (_, doc) in _COMMON.items()}
        for name in [*described, *cls._library._parameter_names()]:
            doc = described.get(name, f"as in manyhands.{cls._library.__name__}")
            setattr(cls, name, Param(Params._dummy(), name, doc))

    def __init__(self, **options: Any) -> None:
        super().__init__()
        defaults = {name: default for name, (default, _) in _COMMON.items()}
        parameters = inspect.signature(self._library).parameters
        defaults |= {name: parameter.default for name, parameter in parameters.items()}
        for name in options:
            if name not in defaults:
                raise TypeError(f"{type(self).__name__} has no option {name!r}; it has {', '.join(defaults)}")
        self._setDefault(**defaults)
        self._set(**options)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{param.name}={value!r}" for param, value in self._paramMap.items())
        return f"{type(self).__name__}({arguments})"

    def _option(self, name: str) -> Any:
        return self.getOrDefault(name)

    def _fit(self, dataset: DataFrame) -> SparkModel:
        aggregator = self._library(**{name: self._option(name) for name in self._library._parameter_names()})
        _check_method(aggregator)
        log = Log.of(dataset, self._roles(), self._rules())
        checkpoint = self._checkpoint(dataset.sparkSession)
        retries = self._option("retries")
        _check_executors(dataset.sparkSession)
        n_threads = int(dataset.sparkSession.conf.get("spark.task.cpus", "1") or 1)
        stored = encode(log, checkpoint, self._option("n_shards"), retries, n_threads)
        journal = SparkJournal(checkpoint, self._option("every"))
        aggregator.fit(Annotations.from_shards(SparkShards(stored, journal=journal)), progress=self._option("progress"))
        journal.flush()
        return SparkModel(aggregator, log)

    def _roles(self) -> Roles:
        names = ("task_col", "worker_col", "label_col", "weight_col", "confidence_col", "order_by")
        return Roles(*(self._option(name) for name in names))

    def _rules(self) -> Rules:
        classes = self._option("classes")
        return Rules(
            repeats=self._option("repeats"),
            missing=self._option("missing"),
            classes=None if classes is None else checks.fixed_classes(classes),
            abstain=soft.abstentions(self._option("abstain")),
            confidence=self._option("confidence_col") is not None,
        )

    def _checkpoint(self, spark: SparkSession) -> Checkpoint:
        path = self._option("checkpoint")
        if not isinstance(path, str) or not path:
            raise ValueError(
                f"checkpoint must name a directory that driver and executors reach, not {path!r}: shards of the "
                "log are kept there"
            )
        check_number("retries", self._option("retries"), least=0, whole=True)
        check_number("every", self._option("every"), least=0)
        if self._option("n_shards") is not None:
            check_number("n_shards", self._option("n_shards"), least=1, whole=True)
        return Checkpoint(spark, path)


def _check_method(aggregator: Aggregator) -> None:
    """Raise for settings that mean nothing, or nothing on Spark, before any work."""
    if isinstance(aggregator, LibraryMajorityVote) and aggregator.ties == "random":
        raise ValueError(
            "ties='random' draws one number after the other for all tasks, which no executor can; choose 'lowest' or "
            "'abstain'"
        )
    check = getattr(aggregator, "_check", None)
    if check is not None:
        check()
    why = aggregator._needs_memory()
    if why is not None:
        raise TypeError(f"{why}, and on Spark they are in shards")


def _check_executors(spark: SparkSession) -> None:
    """Reject executors that do not have this library, in plain words."""
    import manyhands

    version = manyhands.__version__

    def look(batches: Any) -> Any:
        import pyarrow as pa

        for _ in batches:
            try:
                import manyhands

                version = manyhands.__version__
            except ImportError as error:
                version = f"none ({error})"
            yield pa.RecordBatch.from_arrays([pa.array([version], pa.string())], names=["version"])

    try:
        rows = spark.range(1).mapInArrow(look, "version string").toArrow()
    except failures() as error:
        if "No module named" not in str(error):
            raise
        reason = next(line for line in str(error).splitlines() if "No module named" in line)
        raise ImportError(f"Spark's workers cannot run Python with Arrow ({reason.strip()}); {_INSTALL}") from None
    version_there = rows.column("version")[0].as_py()
    if version_there != version:
        raise ImportError(f"Spark's workers have manyhands {version_there}, and the driver {version}; {_INSTALL}")


_INSTALL = (
    "install manyhands with pyarrow where they run, and set PYSPARK_PYTHON or spark.pyspark.python to that Python"
)


class MajorityVote(SparkEstimator):
    """`manyhands.MajorityVote` on Spark: the class most workers named. One pass. See `SparkEstimator` for columns."""

    _library = aggregators.MajorityVote


class WeightedVote(SparkEstimator):
    """`manyhands.categorical.WeightedVote` on Spark: workers count by a weight. See `SparkEstimator` for columns."""

    _library = aggregators.WeightedVote


class DawidSkene(SparkEstimator):
    """`manyhands.DawidSkene` on Spark, by EM over shards. See `SparkEstimator` for columns.

    Starts from votes, given parameters or a fitted model; those from moments or posteriors need all annotations in one
    memory, and are rejected.
    """

    _library = aggregators.DawidSkene


class BayesianDawidSkene(SparkEstimator):
    """`manyhands.BayesianDawidSkene` on Spark, by variational Bayes. See `SparkEstimator` for columns."""

    _library = aggregators.BayesianDawidSkene


class HierarchicalDawidSkene(SparkEstimator):
    """`manyhands.categorical.HierarchicalDawidSkene` on Spark. See `SparkEstimator` for columns."""

    _library = aggregators.HierarchicalDawidSkene


class HierarchicalMACE(SparkEstimator):
    """`manyhands.categorical.HierarchicalMACE` on Spark. See `SparkEstimator` for columns."""

    _library = aggregators.HierarchicalMACE


class Consensus(SparkEstimator):
    """`manyhands.Consensus` on Spark, the method to use when no other is named. See `SparkEstimator` for columns."""

    _library = aggregators.Consensus
