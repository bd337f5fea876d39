"""Read logs: CSV, Parquet and JSON files, data frames, exports of labeling tools and shards."""

from manyhands.io.exports.preannotations import preannotate
from manyhands.io.read import Log, open_log, read

__all__ = ["Log", "open_log", "preannotate", "read"]
