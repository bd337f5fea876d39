"""Run a target under the coverage-guided engine: ``python fuzz/run.py TARGET [corpus folders] [libFuzzer's options]``.

`make fuzz` calls this for each target. A surprise ends the run and leaves the bytes that caused it in a file named
``crash-…``; ``python fuzz/run.py TARGET crash-…`` shows it again.
"""

from __future__ import annotations

import os
import random
import sys

import atheris

import fields as structure

# The engine sees only code that is imported under its eyes.
with atheris.instrument_imports(include=["manyhands"]):
    import manyhands as mh
    import mutate
    import targets


def main() -> None:
    """Fuzz the target that the first argument names."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in targets.TARGETS:
        sys.exit(f"usage: python fuzz/run.py {{{','.join(targets.TARGETS)}}} [corpus] [options of libFuzzer]")

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutate.MUTATORS[name](data, most, random.Random(seed), atheris.Mutate)

    targets.EXPORTS += structure.exports(structure.REAL)
    mh.set_num_threads(1)
    atheris.Setup(sys.argv, targets.TARGETS[name], custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("ARROW_NUM_THREADS", "1")
    main()
