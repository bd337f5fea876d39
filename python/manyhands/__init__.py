"""manyhands aggregates answers from many imperfect annotators, people or LLM judges, into one answer per task.

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
    agreement,
    boxes,
    categorical,
    clustering,
    errors,
    masks,
    metrics,
    moments,
    multilabel,
    numeric,
    objects,
    ordinal,
    pairwise,
    sequences,
    texts,
)
from manyhands._aggregate import aggregate
from manyhands._base.persist import load
from manyhands._core import get_num_threads, set_num_threads
from manyhands._simulate import simulate
from manyhands.boxes.table import Boxes
from manyhands.categorical import BayesianDawidSkene, Consensus, DawidSkene, MajorityVote, posterior
from manyhands.categorical.table import Annotations
from manyhands.clustering.table import Similarities
from manyhands.masks.table import Masks
from manyhands.multilabel.table import MultiLabels
from manyhands.numeric.table import Ratings
from manyhands.objects.table import Objects
from manyhands.pairwise.rankings_table import Rankings
from manyhands.pairwise.table import Comparisons
from manyhands.sequences.table import Sequences
from manyhands.texts.table import Texts

if TYPE_CHECKING:
    # For editors and type checkers; at run time `__getattr__` imports them.
    from manyhands import audit as audit
    from manyhands import collect as collect
    from manyhands import defer as defer
    from manyhands import fairness as fairness
    from manyhands import judges as judges
    from manyhands import learn as learn
    from manyhands import plots as plots
    from manyhands.collect.guarantee import promise as promise
    from manyhands.io.read import read as read

    __version__: str

__all__ = [
    "Annotations",
    "BayesianDawidSkene",
    "Boxes",
    "Comparisons",
    "Consensus",
    "DawidSkene",
    "MajorityVote",
    "Masks",
    "MultiLabels",
    "Objects",
    "Rankings",
    "Ratings",
    "Sequences",
    "Similarities",
    "Texts",
    "aggregate",
    "agreement",
    "audit",
    "boxes",
    "categorical",
    "clustering",
    "collect",
    "errors",
    "fairness",
    "get_num_threads",
    "load",
    "masks",
    "metrics",
    "moments",
    "multilabel",
    "numeric",
    "objects",
    "ordinal",
    "pairwise",
    "posterior",
    "read",
    "sequences",
    "set_num_threads",
    "simulate",
    "texts",
]

# Imported when asked for. Some need torch or matplotlib, and are kept out of ``from manyhands import *``; the others
# would take a tenth of the time of importing all the rest.
_LAZY = ("audit", "collect", "defer", "fairness", "judges", "learn", "plots")
#: Functions of such packages, and where they are.
_FROM = {"promise": "manyhands.collect.guarantee", "read": "manyhands.io.read"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # The machinery of versions costs as much as a third of the whole import.
        from importlib.metadata import version

        return version("manyhands")
    if name in _LAZY:
        from importlib import import_module

        return import_module(f"manyhands.{name}")
    if name in _FROM:
        from importlib import import_module

        return getattr(import_module(_FROM[name]), name)
    raise AttributeError(f"module 'manyhands' has no attribute {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    """Ask whether a name of a subpackage was meant, or one that is spelled otherwise."""
    from manyhands._base.spelling import did_you_mean

    own = [*__all__, *_LAZY, *_FROM]
    filed = {each: f"{package.__name__}.{each}" for package in (moments, categorical) for each in package.__all__}
    return f" (did you mean {filed[name]}?)" if name in filed else did_you_mean(name, [*own, *filed])


def __dir__() -> list[str]:
    # What completion offers: the public names, and not the modules that they happen to come from.
    return sorted({*__all__, *_LAZY, *_FROM, "__version__", *(name for name in globals() if name.startswith("__"))})
