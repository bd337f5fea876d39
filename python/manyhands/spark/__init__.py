"""The library on Apache Spark: logs that live in a lakehouse, or are larger than one machine's disk.

Each estimator is that of the same name in the library, with the same options and defaults, over a DataFrame of
annotations, one per row; see ``docs/spark.md``::

    from manyhands.spark import DawidSkene

    model = DawidSkene(task_col="task", worker_col="worker", label_col="label", checkpoint="dir").fit(df)
    model.answers()         # DataFrame: task, label, confidence, tied
    model.workers()         # DataFrame: worker, n_answers, skill, …
    model.transform(other)  # answers to other tasks, the workers as they were learned

Spark encodes the log into shards of whole tasks, which lie in the directory `checkpoint` as Parquet. The loops of the
library run on the driver, and ask for passes: one job each, a function of every shard, whose sums are added in the
order of the shards. So answers are the same bits on any partitioning of the rows, any cluster, and after any failure.
Only the DataFrame API is used, which classic sessions and Spark Connect have in common.

Needs pyspark 4 (the extra ``spark``), and manyhands on all machines.
"""

from __future__ import annotations

from manyhands._base.extras import install_command

try:
    import pyspark
except ImportError:
    raise ImportError(f"manyhands.spark needs pyspark: {install_command('spark')}") from None

if int(pyspark.__version__.split(".")[0]) < 4:
    raise ImportError(f"manyhands.spark needs pyspark 4, and this is {pyspark.__version__}: pip install 'pyspark>=4'")

from manyhands.spark.estimators import (
    BayesianDawidSkene,
    Consensus,
    DawidSkene,
    HierarchicalDawidSkene,
    HierarchicalMACE,
    MajorityVote,
    WeightedVote,
)
from manyhands.spark.model import SparkModel
from manyhands.spark.session import local_session

__all__ = [
    "BayesianDawidSkene",
    "Consensus",
    "DawidSkene",
    "HierarchicalDawidSkene",
    "HierarchicalMACE",
    "MajorityVote",
    "SparkModel",
    "WeightedVote",
    "local_session",
]
