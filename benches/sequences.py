"""Sequences: F1 of tokens and spans against expert gold on real crowds, claimed against correct, and time.

Run ``python benches/sequences.py``, with ``--large`` also on 8.67 million tags. Data are looked for in ../shared/data.
Crowds that mark tokens with 0 and 1 are read twice: as spans (``io``) and as classes of tokens. Times are processor
time of all threads.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import manyhands as mh

SHARED = Path(__file__).parents[2] / "shared" / "data"
MARKED = (
    "zpico_participants_baseline",
    "zpico_participants_senbase",
    "zpico_participants_sensupport",
    "cast_master",
)


def entities() -> tuple[mh.Sequences, mh.Sequences]:
    """The readings of 47 workers, and the truth; a document is a sequence."""
    folder = SHARED / "ner_mturk"
    gold = pd.read_csv(folder / "gold.csv.gz", keep_default_na=False).assign(worker="gold")
    log = pd.read_parquet(folder / "labels.parquet").astype(str)
    return _table(log), _table(gold)


def marked(name: str, scheme: str) -> tuple[mh.Sequences, mh.Sequences]:
    """A crowd that marked tokens, and its gold, as spans or as classes of tokens."""
    log = pd.read_csv(SHARED / name / "labels.csv.gz", dtype=str)
    gold = pd.read_csv(SHARED / name / "gold.csv", dtype=str).assign(worker="gold")
    gold = gold[gold["task"].isin(set(log["task"]))]
    if scheme == "io":
        for frame in (log, gold):
            frame["label"] = frame["label"].map({"0": "O", "1": "I-X"})
    return _table(log, scheme), _table(gold, scheme)


def abstracts() -> mh.Sequences:
    """8.67 million tags of 309 workers."""
    docs, pairs, spans = (pd.read_csv(SHARED / "pico_large" / f"{name}.csv.gz") for name in ("docs", "pairs", "spans"))
    lengths = dict(zip(docs["doc"], docs["n_tokens"], strict=True))
    return mh.Sequences.from_spans(spans, readers=pairs, lengths=lengths)


def _table(frame: pd.DataFrame, scheme: str = "auto") -> mh.Sequences:
    parts = frame["task"].str.rsplit("/", n=1)
    frame = frame.assign(document=parts.str[0], position=parts.str[1].astype(int))
    columns = frame[["document", "position", "worker", "label"]]
    return mh.Sequences.from_frame(columns, scheme=scheme, gaps="unsaid")


def token_scores(model: object, truth: mh.Sequences, outside: str) -> tuple[float, float, float]:
    """F1 of tokens with the right tag other than `outside` (begin and inside alike), mean confidence, accuracy."""
    frame = model.to_frame().to_pandas()
    gold = truth.to_frame().to_pandas() if hasattr(truth, "to_frame") else None
    both = frame.merge(gold, on=["sequence", "position"], suffixes=("", "_gold"))
    tags, wanted = (both[name].astype(str).str.replace("B-", "I-", regex=False) for name in ("label", "label_gold"))
    hits = ((tags == wanted) & (wanted != outside)).sum()
    f1 = 2 * hits / max((tags != outside).sum() + (wanted != outside).sum(), 1)
    return float(f1), float(both["confidence"].mean()), float((both["label"] == both["label_gold"]).mean())


def methods(spans: bool) -> list[object]:
    """What is compared; votes on spans need spans."""
    every = mh.sequences
    listed = [every.TokenVote(), every.SpanVote(), every.TokenDawidSkene(), every.HMMCrowd()]
    listed += [every.BSC(worker="cm"), every.BSC(), every.SequenceConsensus()]
    return [model for model in listed if spans or not isinstance(model, every.SpanVote)]


def main() -> None:
    """Print a table for each crowd."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 8.67 million tags without gold")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    crowds = [("ner_mturk", "spans", *entities())]
    for name in MARKED:
        crowds += [(name, "spans", *marked(name, "io")), (name, "classes", *marked(name, "classes"))]
    print("| crowd | read as | method | token F1 | span F1 | claimed | correct | seconds |")
    print("| --- | --- | --- | --: | --: | --: | --: | --: |")
    for name, form, votes, truth in crowds:
        for model in methods(form == "spans"):
            began = time.process_time()
            model.fit(votes)
            took = time.process_time() - began
            f1, claimed, correct = token_scores(model, truth, "O" if form == "spans" else "0")
            known = [one for one in truth.sequences.tolist() if name != "ner_mturk" or one.startswith("test/")]
            exact = mh.metrics.span_scores(model, truth, sequences=known).f1 if form == "spans" else np.nan
            cells = f"{f1:.3f} | {exact:.3f} | {claimed:.3f} | {correct:.3f} | {took:.1f}"
            print(f"| {name} | {form} | `{type(model).__name__}` | {cells} |", flush=True)
    if asked.large:
        votes = abstracts()
        for model in (mh.sequences.TokenVote(), mh.sequences.SequenceConsensus(), mh.sequences.BSC()):
            began = time.process_time()
            model.fit(votes)
            took, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{type(model).__name__}: {model.spans_.num_rows:,} spans, {took:.1f} s, peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
