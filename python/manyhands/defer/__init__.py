"""Learning to defer: who answers each case, the classifier or one of several experts, and how much work each gets.

Options are numbered: 0 to M − 1 are the experts, and M, the last, is the classifier. What keeps workloads needs NumPy
alone: :func:`project` and :func:`project_chunks` for probabilities, :func:`assign` for the decisions of a batch,
:class:`Thresholds` for those of a stream; and so do the measures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manyhands._base.estimator import concrete
from manyhands._base.extras import install_command
from manyhands.defer.assignment import Thresholds, assign, capacities, ranked
from manyhands.defer.decision import Decision
from manyhands.defer.measures import (
    Curve,
    DeferralReport,
    auc_cac,
    correctness,
    coverage,
    coverage_accuracy,
    deferral_report,
    gate_confusion,
    system_accuracy,
    workload,
)
from manyhands.defer.projection import Projection, project, project_chunks

if TYPE_CHECKING:
    from manyhands.defer.confidence import *
    from manyhands.defer.deferral import *
    from manyhands.defer.impute import *
    from manyhands.defer.mixture import *
    from manyhands.defer.population import *
    from manyhands.defer.probabilistic import *
    from manyhands.defer.surrogates import *
    from manyhands.defer.sweeping import *

__all__ = [
    "Curve",
    "Decision",
    "DeferralReport",
    "Projection",
    "Thresholds",
    "all_deferrals",
    "assign",
    "auc_cac",
    "capacities",
    "correctness",
    "coverage",
    "coverage_accuracy",
    "deferral_report",
    "gate_confusion",
    "project",
    "project_chunks",
    "ranked",
    "system_accuracy",
    "workload",
]

# Models, by the modules they are in: imported when asked for, since they need PyTorch.
_MODELS = {
    "confidence": ("CompareConfidence", "SelectivePrediction"),
    "deferral": ("Deferral",),
    "impute": ("ImputedDeferral",),
    "mixture": ("MixtureOfExperts", "Triage"),
    "population": ("SetDeferral",),
    "probabilistic": ("NaiveDeferral", "ProbabilisticDeferral"),
    "surrogates": ("CrossEntropySurrogate", "OneVsAll", "RealizableSurrogate"),
    "sweeping": ("Sweep", "sweep"),
}
_MODULES = {name: module for module, names in _MODELS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'manyhands.defer' has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(f"manyhands.defer.{name} needs PyTorch: {install_command('torch')}") from error
    return getattr(import_module(f"manyhands.defer.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


def all_deferrals() -> list[type[Any]]:
    """Every way to defer of the library, by name: classes like :class:`Deferral`."""
    for name in _MODULES:
        __getattr__(name)
    return concrete(__getattr__("Deferral"), "manyhands.defer")
