"""Which sizes each kind of simulated log has, and the columns of its truth."""

from __future__ import annotations

import inspect
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import preview
from manyhands._simulate import SIMULATED, simulator

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands._base.table import Records


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
        options = ("crowd", "labels_per_task", "density", "activity", "prior", "ids", "copying")
        settings |= {name: value for name in options if (value := getattr(args, name)) is not None}
    else:
        odd += [name for name in _CLASSES_ONLY if getattr(args, name) is not None]
        parameters = inspect.signature(simulator(args.kind)).parameters.values()
        accepted = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "seed"]
        unknown = [name for name in settings if name not in accepted]
        if unknown:
            raise ValueError(
                f"--set {unknown[0]}= does not apply to {args.kind} answers, which take {preview(accepted)}"
            )
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
        winners = ["tie" if one is None else str(one) for one in frame.column("winner").to_pylist()]
        frame = frame.set_column(frame.column_names.index("winner"), "winner", [winners])
    return frame
