"""Sequences on real data: F1 against gold on CoNLL entities by MTurk workers, and time on abstracts of trials.

Run ``python benches/sequences.py``. Data are looked for in ../shared/data. Times are those of the process, all threads.
"""

from __future__ import annotations

import resource
import time
import warnings
from pathlib import Path

import pandas as pd

import manyhands as mh

SHARED = Path(__file__).parents[2] / "shared" / "data"


def entities() -> tuple[mh.Sequences, mh.Sequences]:
    """The readings of 47 workers, and the truth; a document is a sequence."""
    folder = SHARED / "ner_mturk"
    gold = pd.read_csv(folder / "gold.csv.gz", keep_default_na=False).assign(worker="gold")
    tables = []
    for frame in (pd.read_parquet(folder / "labels.parquet").astype(str), gold):
        parts = frame["task"].str.rsplit("/", n=1)
        frame = frame.assign(document=parts.str[0], position=parts.str[1].astype(int))
        tables.append(mh.Sequences.from_frame(frame[["document", "position", "worker", "label"]]))
    return tables[0], tables[1]


def abstracts() -> mh.Sequences:
    """8.67 million tags of 309 workers."""
    docs, pairs, spans = (pd.read_csv(SHARED / "pico_large" / f"{name}.csv.gz") for name in ("docs", "pairs", "spans"))
    lengths = dict(zip(docs["doc"], docs["n_tokens"], strict=True))
    return mh.Sequences.from_spans(spans, readers=pairs, lengths=lengths)


def main() -> None:
    """Print a table for each set."""
    warnings.simplefilter("ignore")
    methods = mh.sequences
    models = [
        methods.TokenVote(),
        methods.SpanVote(),
        methods.TokenDawidSkene(),
        methods.HMMCrowd(),
        methods.BSC(worker="cm"),
        methods.BSC(),
        methods.BSC(learn_prior=False),
    ]
    seqs, truth = entities()
    print(seqs)
    for model in models:
        began = time.process_time()
        model.fit(seqs)
        took = time.process_time() - began
        cells = []
        for split in ("test/", "val/"):
            names = [name for name in truth.sequences.tolist() if name.startswith(split)]
            found = mh.metrics.span_scores(model, truth, sequences=names)
            cells.append(f"{split[:-1]} P {found.precision:.3f} R {found.recall:.3f} F1 {found.f1:.4f}")
        print(f"{model.__class__.__name__:<16} {model.get_params()} {' | '.join(cells)} | {took:.1f} s")
    seqs = abstracts()
    print(seqs)
    for model in (methods.TokenVote(), methods.BSC()):
        began = time.process_time()
        model.fit(seqs)
        took, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{model.__class__.__name__:<16} {model.spans_.num_rows:,} spans, {model.n_iter_} passes, {took:.1f} s")
        print(f"  peak of the process {peak:.0f} MB")


if __name__ == "__main__":
    main()
