"""A session of Spark on this machine, for trying things and for tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def local_session(master: str = "local[*]", **settings: str) -> SparkSession:
    """Start Spark on this machine, or return the session that there is.

    Its workers run this Python, which is not what Spark does by itself. Without Java it is a `RuntimeError`.

    Parameters
    ----------
    master : str, default "local[*]"
        How many cores: ``"local[2]"`` for two.
    **settings
        Settings of Spark, with ``__`` for dots: ``spark__driver__memory="1g"``.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("manyhands")
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    return builder.getOrCreate()


def check_java() -> None:
    """Raise for a machine without Java, which sessions of its own need; a session elsewhere does not."""
    home = os.environ.get("JAVA_HOME")
    if home is not None and not (Path(home) / "bin" / "java").is_file():
        raise RuntimeError(f"Spark needs Java 17 or later, and JAVA_HOME={home!r} has no bin/java; fix or unset it")
    if home is None and shutil.which("java") is None:
        raise RuntimeError("Spark needs Java 17 or later, and there is no java here: install one, or set JAVA_HOME")
