"""Which sizes each kind of simulated log has, and the columns of its truth."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import listed
from manyhands._simulate import SIMULATED, simulator

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands._base.table import Records


def _values(drawn: Any) -> dict[str, Any]:
    truth, names = drawn.truth, drawn.log._dimensions.values.tolist()
    columns = [truth] if truth.ndim == 1 else list(truth.T)
    return {"task": drawn.log._tasks.arrow(), **dict(zip(names, columns, strict=True))}


def _sets(drawn: Any) -> dict[str, Any]:
    return {"task": list(range(len(drawn.truth))), "labels": ["|".join(map(str, one)) for one in drawn.truth]}


def _texts(drawn: Any) -> dict[str, Any]:
    return {"task": drawn.log._tasks.arrow(), "text": drawn.truth.tolist()}


def _masks(drawn: Any) -> dict[str, Any]:
    from manyhands.masks.table import Masks

    tasks = drawn.log.tasks.tolist()
    truth = Masks.from_arrays(tasks, ["truth"] * len(tasks), drawn.truth).to_frame()
    return {name: truth.column(name) for name in ("task", "mask")}


def _boxes(drawn: Any) -> dict[str, Any]:
    import numpy as np

    # A task without an object has a row, too.
    corners = [one if len(one) else np.full((1, 4), np.nan) for one in drawn.truth]
    labels = [name for one in drawn.labels for name in (one.tolist() or [None])]
    tasks = np.repeat(drawn.log.tasks, [len(one) for one in corners])
    columns = np.concatenate(corners).T
    there = {name: _absent(column) for name, column in zip(("x1", "y1", "x2", "y2"), columns, strict=True)}
    return {"task": tasks, **there, "label": labels}


def _absent(column: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.array(column, mask=np.isnan(column))


def _tags(drawn: Any) -> dict[str, Any]:
    frame = drawn.truth.to_frame()
    return {name: frame.column(name) for name in ("sequence", "position", "label")}


def _scores(drawn: Any) -> dict[str, Any]:
    return {"item": list(range(len(drawn.truth))), "score": drawn.truth}


def _clusters(drawn: Any) -> dict[str, Any]:
    return {"item": list(range(len(drawn.truth))), "cluster": drawn.truth}


def _labels(drawn: Any) -> dict[str, Any]:
    import pyarrow as pa

    return {"task": drawn.log._tasks.arrow(), "label": pa.array(drawn.truth)}


def _objects(drawn: Any) -> dict[str, Any]:
    return {"task": drawn.log._tasks.arrow(), "answer": drawn.truth.tolist()}


#: The columns that ``--truth`` writes and ``--evaluate`` reads, by kind.
TRUTH: dict[str, Callable[[Any], dict[str, Any]]] = {
    "categorical": _labels,
    "ordinal": _labels,
    "multilabel": _sets,
    "numeric": _values,
    "pairwise": _scores,
    "rankings": _scores,
    "clustering": _clusters,
    "sequences": _tags,
    "texts": _texts,
    "masks": _masks,
    "boxes": _boxes,
    "objects": _objects,
}
#: Kinds whose crowds are described by confusion matrices, and the options that only they take.
OF_CLASSES = ("categorical", "ordinal")
_CLASSES_ONLY = ("labels_per_task", "density", "activity", "prior", "copying", "confusion", "crowd", "ids")


def sizes_of(kind: str) -> list[str]:
    """The sizes of a kind's logs, as they are typed: ``tasks``, ``workers``, …."""
    parameters = inspect.signature(simulator(kind)).parameters.values()
    return [one.name.removeprefix("n_") for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


#: Sizes of all kinds.
SIZES = tuple(dict.fromkeys(size for kind in SIMULATED for size in sizes_of(kind)))


def drawn_log(args: Namespace) -> Any:
    """Draw the log that the arguments describe; raise for sizes and settings that its kind does not have."""
    sizes = sizes_of(args.kind)
    odd = [name for name in SIZES if name not in sizes and getattr(args, name) is not None]
    settings = dict(args.set)
    if args.kind in OF_CLASSES:
        given = ("crowd", "labels_per_task", "density", "activity", "prior", "ids", "copying")
        settings |= {name: value for name in given if (value := getattr(args, name)) is not None}
    else:
        odd += [name for name in _CLASSES_ONLY if getattr(args, name) is not None]
        parameters = inspect.signature(simulator(args.kind)).parameters.values()
        known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "seed"]
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise ValueError(f"--set {unknown[0]}= does not apply to {args.kind} answers, which take {listed(known)}")
    if odd:
        name = odd[0].replace("_", "-")
        raise ValueError(f"--{name} does not apply to {args.kind} answers; pass other settings as --set NAME=VALUE")
    given_sizes = {
        name: value
        for name in inspect.signature(simulator(args.kind)).parameters
        if (size := name.removeprefix("n_")) in sizes and (value := getattr(args, size)) is not None
    }
    return simulator(args.kind)(**given_sizes, **settings, seed=args.seed)


def frame_of(votes: Records) -> pa.Table:
    """The log as a file has it: a tie has a name, also where items are numbers."""
    frame = votes.to_frame()
    if "winner" in frame.column_names:
        said = ["tie" if one is None else str(one) for one in frame.column("winner").to_pylist()]
        frame = frame.set_column(frame.column_names.index("winner"), "winner", [said])
    return frame
