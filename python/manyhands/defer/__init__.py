"""Learning to defer: who answers each case, the classifier or one of several experts, and how much work each gets.

Options are numbered: 0 to M − 1 are the experts, and M, the last, is the classifier. What keeps workloads needs NumPy
alone: :func:`project` and :func:`project_chunks` for probabilities.
"""

from importlib import import_module
from typing import Any

from manyhands.defer.workload import Projection, project, project_chunks

__all__ = [
    "Projection",
    "project",
    "project_chunks",
]

# Models, and the modules they are in: imported when asked for, since they need PyTorch.
_MODELS: dict[str, str] = {}


def __getattr__(name: str) -> Any:
    if name in _MODELS:
        return getattr(import_module(f"manyhands.defer.{_MODELS[name]}"), name)
    raise AttributeError(f"module 'manyhands.defer' has no attribute {name!r}")
