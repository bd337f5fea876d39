"""Formats with a file per item and worker: which part of a path names the worker."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from manyhands.io.exports.files import ExportFile, parts_of


def worker_level(files: Sequence[ExportFile], items: Sequence[Hashable]) -> int:
    """Find the part of paths that names workers: 0 is the file's own name, 1 that of its folder, and so on.

    Parameters
    ----------
    files : sequence
        The files, one per item and worker.
    items : sequence of id
        What each file is about: files about the same item are of different workers.

    Returns
    -------
    int
        The part that differs between the files of every item, with fewest names if there are several such parts; the
        folder if no item has two files.
    """
    parts = [parts_of(file.path) for file in files]
    if len(set(items)) == len(items):
        return 1
    several = len(set(items)) > 1
    valid: list[tuple[int, int]] = []
    for level in range(min(map(len, parts))):
        names = [part[level] for part in parts]
        apart = len({*zip(items, names, strict=True)}) == len(items)
        # A name that is never used again is that of one answer, and not of a worker.
        if apart and not (several and len(set(names)) == len(names)):
            valid.append((len(set(names)), level))
    if valid:
        fewest = min(valid)[0]
        levels = [level for n, level in valid if n == fewest]
        return 1 if 1 in levels else levels[0]
    first = next(place for place, item in enumerate(items) if item in items[:place])
    other = items.index(items[first])
    raise ValueError(
        f"{files[other].where} and {files[first].where} are about the same item, and no folder or file name that both "
        "share with other items identifies its annotator: put the files of each annotator in a folder of their name"
    )
