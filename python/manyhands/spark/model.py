"""What a fit on Spark gives: answers, workers and answers to other tasks, as DataFrames."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.ml import Model
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from manyhands._base import arrow
from manyhands._base.checks import preview
from manyhands._base.fitted import without_arrays
from manyhands._base.names import Column as Ids
from manyhands._base.names import Names
from manyhands.categorical._posterior import DensePosterior, Posterior
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.base import Aggregator
from manyhands.categorical.shards.encoder import Rules
from manyhands.spark.columns import Log
from manyhands.spark.encoding import extras, joined_to_labels, joined_to_workers, table_of_rows
from manyhands.spark.jobs import Opener, names_of
from manyhands.spark.shards import SparkShards

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a group of tasks that are answered together.
_ROWS = 1 << 20


class SparkModel(Model):
    """What a fit on Spark learned; frames are made by the executors when their rows are read.

    Parameters
    ----------
    aggregator : Aggregator
        The library's own, fitted: ``n_iter_``, ``prior_``, ``confusion_``, ``history_`` and all else about workers and
        the course of the fit. Results per task (``labels_``, ``posterior_``) come to the driver, if they fit.
    log
        The columns it was fitted to.
    """

    def __init__(self, aggregator: Aggregator, log: Log) -> None:
        super().__init__()
        self.aggregator = aggregator
        self._log = log

    @property
    def _shards(self) -> SparkShards:
        votes: Any = self.aggregator._votes
        shards: SparkShards = votes.passes
        return shards

    def __repr__(self) -> str:
        return f"SparkModel({self.aggregator!r})"

    def answers(self, *, probabilities: bool = False) -> DataFrame:
        """One row per task: task, label, confidence, and whether it is tied; nothing of it comes to the driver.

        Parameters
        ----------
        probabilities : bool, default False
            Whether to add the posterior of every class, an array in the order of ``aggregator.classes_``.
        """
        posterior = self.aggregator._fitted().fit.posterior
        assert isinstance(posterior, StreamedPosterior)
        shards = posterior.shards
        assert isinstance(shards, SparkShards)
        frames = shards.directory.frames
        work = Answer(_light(self.aggregator), posterior, shards.opener(), self._kinds(), probabilities)
        return frames.sender.by_row(
            frames.shards.select("shard", "blob", "tasks"), work, self._schema(probabilities), keep=True
        )

    def workers(self) -> DataFrame:
        """One row per worker, as ``workers_frame`` of the library has it: worker, n_answers, skill, …."""
        frames = self._shards.directory.frames
        light, now = copy(self.aggregator), self.aggregator._fitted()
        light._state = replace(now, workers=Names(np.arange(len(now.workers))))
        table = light.workers_frame()
        spark = frames.workers.sparkSession
        worker_frame = spark.createDataFrame(table.rename_columns(["code", *table.column_names[1:]]))
        return frames.workers.join(worker_frame, "code").orderBy("code").drop("code")

    def transform(self, dataset: DataFrame, params: Any = None) -> DataFrame:
        """Return answers to the tasks of another frame, old or new, with the fitted workers, as `answers` does.

        The frame has the columns that the model was fitted to. A worker who was not seen then counts as the crowd's
        average worker; a label that was not is an error. Rows without a label are left out.
        """
        return super().transform(dataset, params)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        votes, model = self._shards, self.aggregator
        log = Log.of(dataset, self._log.roles, self._log.rules)
        measured = log.measured()
        labels = model._labels if model._knows_abstentions() else votes.directory.labels
        log_rows = joined_to_labels(log.frame, log, labels.arrow(), np.arange(len(labels)))
        log_rows = log_rows.where(~log.lacks("label"))
        self._refuse_unknown(log_rows.where("said is null").select("label").distinct().limit(4).toArrow())
        log_rows = log_rows.where(F.col("said") < len(model._labels))
        frames = votes.directory.frames
        rows = joined_to_workers(log_rows, frames.workers, votes.n_workers)
        n_groups = -(-measured.n_rows // _ROWS)
        grouped = rows.select(
            F.pmod(F.xxhash64("task"), F.lit(n_groups)).alias("group"),
            "task",
            "worker",
            "code",
            F.col("said").alias("label"),
            *extras(log),
        )
        work = Predict(_light(model, learnt=True), log.rules, self._kinds())
        return frames.sender.by_group(grouped, "group", work, self._schema(False))

    def _refuse_unknown(self, found: pa.Table) -> None:
        if len(found):
            unknown = found.column("label").to_pylist()
            raise ValueError(
                f"labels {preview(unknown)} were not among the classes seen in fit "
                f"({preview(self.aggregator.classes_.tolist(), 5)}); pass classes= when the model is fitted"
            )

    def _kinds(self) -> tuple[pa.DataType, pa.DataType]:
        """Types of tasks and labels in Arrow."""
        return to_arrow_type(self._log.type_of("task")), to_arrow_type(self._log.type_of("label"))

    def _schema(self, probabilities: bool) -> str:
        task, label = (self._log.type_of(role).simpleString() for role in ("task", "label"))
        more = ", probabilities array<double>" if probabilities else ""
        return f"task {task}, label {label}, confidence double, tied boolean{more}"

    def forget(self) -> None:
        """Delete the sums of passes from the checkpoint; the shards and what the model knows stay."""
        journal = self._shards.journal
        if journal is not None:
            journal.forget()


def _light(model: Aggregator, *, learnt: bool = False) -> Aggregator:
    """The model without what executors do not need: names, the log, and what was learned, unless they predict."""
    light, now = copy(model), model._fitted()
    none = now.classes.take(np.zeros(0, np.int64))
    fit = now.fit if learnt else without_arrays(now.fit)
    fit = replace(fit, posterior=DensePosterior(np.zeros((0, len(now.classes)))))
    light._state = replace(now, fit=fit, votes=None, reference=None, tasks=none, workers=none)
    return light


@dataclass(frozen=True)
class Answer:
    """Answers to the tasks of a shard."""

    model: Aggregator
    posterior: StreamedPosterior
    opener: Opener
    kinds: tuple[pa.DataType, pa.DataType]
    probabilities: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """One row per task."""
        return _frame(
            self.model, names_of(rows), self.posterior.of_part(self.opener(rows)), self.kinds, self.probabilities
        )


@dataclass(frozen=True)
class Predict:
    """Answers to a group of tasks of another log."""

    model: Aggregator
    rules: Rules
    kinds: tuple[pa.DataType, pa.DataType]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """One row per task."""
        model, k = self.model, len(self.model._classes)
        workers, names = Ids(rows.column("worker"), "worker").encode()
        gold_codes = np.full(len(names), -1, np.int64)
        gold_codes[workers] = arrow.to_numpy(arrow.one_chunk(rows.column("code").fill_null(-1)))
        sizes = (len(names), len(model._labels), k)
        table, tasks, _ = table_of_rows(rows, Ids(rows.column("task"), "task"), workers, sizes, self.rules)
        assert table is not None
        result: Any = model._posterior(table, gold_codes)
        posterior = result.dense() if isinstance(result, Posterior) else np.ascontiguousarray(result[:, :k])
        return _frame(model, tasks, posterior, self.kinds, False)


def _frame(
    model: Aggregator, tasks: Names, posterior: Any, kinds: tuple[pa.DataType, pa.DataType], probabilities: bool
) -> pa.Table:
    import pyarrow as pa

    frame = model._frame(tasks, model._fitted().fit.decide(DensePosterior(posterior)))
    columns = [frame.column(name) for name in ("task", "label", "confidence", "tied")]
    columns[:2] = (column.cast(kind) for column, kind in zip(columns[:2], kinds, strict=True))
    names = ["task", "label", "confidence", "tied"]
    if probabilities:
        ends = np.arange(0, posterior.size + 1, posterior.shape[1], dtype=np.int32)
        columns.append(pa.chunked_array([pa.ListArray.from_arrays(ends, posterior.ravel())]))
        names.append("probabilities")
    return pa.table(columns, names=names)
