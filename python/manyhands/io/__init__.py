"""Read logs: CSV, Parquet and JSON files, data frames, exports of labeling tools and shards."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyhands.io.exports.preannotations import preannotate as preannotate
    from manyhands.io.read import Log as Log
    from manyhands.io.read import open_log as open_log
    from manyhands.io.read import read as read

__all__ = ["Log", "open_log", "preannotate", "read"]

# Imported when asked for: the readers of all platforms would take a tenth of the time of `import manyhands`.
_FROM = dict.fromkeys(__all__, "manyhands.io.read") | {"preannotate": "manyhands.io.exports.preannotations"}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        return getattr(import_module(_FROM[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
