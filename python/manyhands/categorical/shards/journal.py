"""Sums of passes that were made, so that a run that was killed goes on where it was."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from manyhands._base import persist
from manyhands._base.checks import warn_of_data
from manyhands.errors import FileFormatError

Array = npt.NDArray[np.float64]
_KIND = "sums of a pass"
#: Names of its files, and of one that was being written when its process was killed.
_KEY = re.compile(r"(\.part-[0-9a-f]{16}-)?[0-9a-f]{32}")


class Journal:
    """Sums of passes in files, by a name that stands for all a pass depends on.

    A loop whose passes are answered from here comes to the same parameters, bit by bit, as one that makes them. Each
    pass takes a file as large as the parameters. A file that is damaged counts as none, and where there is no room for
    one, the run goes on without.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._full = False

    def find(self, key: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[Array, Array, float] | None:
        """What a pass gave, or None."""
        try:
            content = persist.read(self.path / key)
            if content.kind != _KIND:
                return None
            counts, classes = (content.array(f"sums{i}", np.float64, shape=shape) for i, shape in enumerate(shapes))
            return counts, classes, float(content.array("log_evidence", np.float64, shape=()))
        except (FileFormatError, OSError):
            return None

    def keep(self, key: str, counts: Array, classes: Array, log_evidence: float) -> None:
        """Write down what a pass gave."""
        if self._full:
            return
        arrays = {"sums0": counts, "sums1": classes, "log_evidence": np.array(log_evidence)}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            persist.write(self.path / key, _KIND, {}, arrays)
        except OSError as error:
            self._full = True
            warn_of_data(f"passes are no longer written down, so that a run that is killed loses them: {error}")

    def forget(self) -> None:
        """Delete all sums that were kept; files of other names stay."""
        with suppress(OSError):  # what is left costs room only
            for path in self.path.iterdir():
                if _KEY.fullmatch(path.name):
                    path.unlink()
            self.path.rmdir()
