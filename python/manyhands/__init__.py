"""manyhands turns many imperfect opinions into one trustworthy answer.

>>> import manyhands as mh
>>> votes = mh.Annotations.from_arrays(
...     tasks=["a", "a", "a", "b", "b"], workers=[1, 2, 3, 1, 2], labels=["cat", "cat", "dog", "dog", "dog"]
... )
>>> mh.MajorityVote().fit(votes).labels_.tolist()
['cat', 'dog']
"""

from typing import TYPE_CHECKING, Any

from manyhands import (
    _start,  # noqa: F401  first of all
    aggregators,
    agreement,
    boxes,
    masks,
    metrics,
    moments,
    multilabel,
    numeric,
    ordinal,
    pairwise,
    sequences,
    similarity,
    texts,
)
from manyhands._core import get_num_threads, set_num_threads
from manyhands.aggregators import *
from manyhands.distance import DistanceAggregator
from manyhands.errors import (
    ConvergenceWarning,
    DataWarning,
    FileFormatError,
    IdentifiabilityWarning,
    NotFittedError,
    OverlapWarning,
)
from manyhands.kinds import aggregate
from manyhands.simulate import (
    BoxSimulation,
    MaskSimulation,
    RatingSimulation,
    SimilaritySimulation,
    Simulation,
    TextSimulation,
    crowds,
    simulate,
    simulate_boxes,
    simulate_comparisons,
    simulate_masks,
    simulate_multilabels,
    simulate_rankings,
    simulate_ratings,
    simulate_sequences,
    simulate_similarities,
    simulate_texts,
    synthetic,
)
from manyhands.table.annotations import Annotations
from manyhands.table.boxes import Boxes
from manyhands.table.comparisons import Comparisons
from manyhands.table.formats.preannotations import preannotate
from manyhands.table.io import read
from manyhands.table.masks import Masks
from manyhands.table.objects import Objects
from manyhands.table.persist import load
from manyhands.table.rankings import Rankings
from manyhands.table.ratings import Ratings
from manyhands.table.sequences import Sequences
from manyhands.table.sets import MultiLabels
from manyhands.table.similarities import Similarities
from manyhands.table.texts import Texts

if TYPE_CHECKING:
    # For editors and type checkers; at run time `__getattr__` finds them.
    from manyhands import audit as audit
    from manyhands import collect as collect
    from manyhands import defer as defer
    from manyhands import fairness as fairness
    from manyhands import learn as learn
    from manyhands import plots as plots

    __version__: str

__all__ = [
    "Annotations",
    "BoxSimulation",
    "Boxes",
    "Comparisons",
    "ConvergenceWarning",
    "DataWarning",
    "DistanceAggregator",
    "FileFormatError",
    "IdentifiabilityWarning",
    "MaskSimulation",
    "Masks",
    "MultiLabels",
    "NotFittedError",
    "Objects",
    "OverlapWarning",
    "Rankings",
    "RatingSimulation",
    "Ratings",
    "Sequences",
    "Similarities",
    "SimilaritySimulation",
    "Simulation",
    "TextSimulation",
    "Texts",
    "aggregate",
    "agreement",
    "audit",
    "boxes",
    "collect",
    "crowds",
    "fairness",
    "get_num_threads",
    "load",
    "masks",
    "metrics",
    "moments",
    "multilabel",
    "numeric",
    "ordinal",
    "pairwise",
    "preannotate",
    "read",
    "sequences",
    "set_num_threads",
    "similarity",
    "simulate",
    "simulate_boxes",
    "simulate_comparisons",
    "simulate_masks",
    "simulate_multilabels",
    "simulate_rankings",
    "simulate_ratings",
    "simulate_sequences",
    "simulate_similarities",
    "simulate_texts",
    "synthetic",
    "texts",
]
__all__ += aggregators.__all__


# Imported when asked for. Some need torch or matplotlib, and are kept out of ``from manyhands import *``; the others
# would take a tenth of the time of importing all the rest.
_LAZY = ("audit", "collect", "defer", "fairness", "learn", "plots")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # The machinery of versions costs as much as a third of the whole import.
        from importlib.metadata import version

        return version("manyhands")
    if name in _LAZY:
        from importlib import import_module

        return import_module(f"manyhands.{name}")
    raise AttributeError(f"module 'manyhands' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What completion offers: the public names, and not the modules that they happen to come from.
    return sorted({*__all__, *_LAZY, "__version__", *(name for name in globals() if name.startswith("__"))})
