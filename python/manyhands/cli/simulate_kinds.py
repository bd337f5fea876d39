"""Logs of other kinds than classes, drawn by ``manyhands simulate --kind``."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhands.checks import listed

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.table.records import Records


class Kind(NamedTuple):
    """How a kind is drawn: its maker in `manyhands`, its sizes, where the table is, and what is true."""

    maker: str
    sizes: tuple[str, ...]
    table: str
    truth: Callable[[Any], dict[str, Any]]


def _values(drawn: Any) -> dict[str, Any]:
    truth, names = drawn.truth, drawn.ratings._dimensions.values.tolist()
    columns = [truth] if truth.ndim == 1 else list(truth.T)
    return {"task": drawn.ratings._tasks.arrow(), **dict(zip(names, columns, strict=True))}


def _sets(drawn: Any) -> dict[str, Any]:
    return {"task": list(range(len(drawn.truth))), "labels": ["|".join(map(str, one)) for one in drawn.truth]}


def _texts(drawn: Any) -> dict[str, Any]:
    return {"task": drawn.texts._tasks.arrow(), "text": drawn.truth.tolist()}


def _masks(drawn: Any) -> dict[str, Any]:
    from manyhands.table.masks import Masks

    tasks = drawn.masks.tasks.tolist()
    truth = Masks.from_arrays(tasks, ["truth"] * len(tasks), drawn.truth).to_frame()
    return {name: truth.column(name) for name in ("task", "mask")}


def _boxes(drawn: Any) -> dict[str, Any]:
    import numpy as np

    # A task without an object has a row, too.
    corners = [one if len(one) else np.full((1, 4), np.nan) for one in drawn.truth]
    labels = [name for one in drawn.labels for name in (one.tolist() or [None])]
    tasks = np.repeat(drawn.boxes.tasks, [len(one) for one in corners])
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


KINDS: dict[str, Kind] = {
    "numbers": Kind("simulate_ratings", ("tasks", "workers"), "ratings", _values),
    "comparisons": Kind(
        "simulate_comparisons",
        ("items", "workers", "comparisons"),
        "games",
        lambda drawn: {"item": list(range(len(drawn.scores))), "score": drawn.scores},
    ),
    "rankings": Kind(
        "simulate_rankings",
        ("items", "workers", "rankings"),
        "rankings",
        lambda drawn: {"item": list(range(len(drawn.scores))), "score": drawn.scores},
    ),
    "similarities": Kind(
        "simulate_similarities",
        ("items", "workers", "clusters"),
        "answers",
        lambda drawn: {"item": list(range(len(drawn.truth))), "cluster": drawn.truth},
    ),
    "sets": Kind("simulate_multilabels", ("tasks", "workers", "labels"), "answers", _sets),
    "texts": Kind("simulate_texts", ("tasks", "workers"), "texts", _texts),
    "masks": Kind("simulate_masks", ("tasks",), "masks", _masks),
    "boxes": Kind("simulate_boxes", ("tasks",), "boxes", _boxes),
    "sequences": Kind("simulate_sequences", ("sequences", "workers", "types"), "sequences", _tags),
}
#: Sizes of all kinds, and what is asked of crowds of classes alone.
SIZES = (
    "tasks",
    "workers",
    "classes",
    "items",
    "comparisons",
    "rankings",
    "clusters",
    "labels",
    "sequences",
    "types",
)
_CLASSES_ONLY = ("labels_per_task", "density", "activity", "prior", "copying", "confusion")


def check_sizes(args: Namespace) -> None:
    """Refuse sizes that the kind does not have, and ask for those it has."""
    wanted = ("tasks", "workers", "classes") if args.kind == "classes" else KINDS[args.kind].sizes
    missing = [f"--{name}" for name in wanted if getattr(args, name) is None]
    if missing:
        raise ValueError(f"a log of {args.kind} needs {' and '.join(missing)}")
    odd = [name for name in SIZES if name not in wanted and getattr(args, name) is not None]
    if args.kind != "classes":
        odd += [name for name in _CLASSES_ONLY if getattr(args, name) is not None]
        odd += ["crowd"] if args.crowd != "class-conditional" else []
        odd += ["ids"] if args.ids != "int" else []
    if odd:
        name = odd[0].replace("_", "-")
        raise ValueError(f"--{name} means nothing to a log of {args.kind}; other settings go by --set NAME=VALUE")


def draw(args: Namespace) -> tuple[Records, pa.Table]:
    """A log and its truth."""
    import pyarrow as pa

    import manyhands as mh

    kind = KINDS[args.kind]
    maker, settings = getattr(mh, kind.maker), dict(args.set)
    known = [name for name, one in inspect.signature(maker).parameters.items() if one.kind is one.KEYWORD_ONLY]
    odd = [name for name in settings if name not in known or name == "seed"]
    if odd:
        named = listed([name for name in known if name != "seed"])
        raise ValueError(f"--set {odd[0]}= means nothing to a log of {args.kind}; there are {named}")
    drawn = maker(*(getattr(args, name) for name in kind.sizes), **settings, seed=args.seed)
    return getattr(drawn, kind.table), pa.table(kind.truth(drawn))


def frame_of(votes: Records) -> pa.Table:
    """The log as a file has it: a tie has a name, also where items are numbers."""
    frame = votes.to_frame()
    if "winner" in frame.column_names:
        said = ["tie" if one is None else str(one) for one in frame.column("winner").to_pylist()]
        frame = frame.set_column(frame.column_names.index("winner"), "winner", [said])
    return frame
