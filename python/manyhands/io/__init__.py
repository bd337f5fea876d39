"""Read logs: CSV, Parquet and JSON files, data frames, exports of labeling tools and shards."""

from manyhands.io.exports.preannotations import preannotate
from manyhands.io.read import read

__all__ = ["preannotate", "read"]
