"""Texts beside crowd-kit's ROVER: word error rates and processor seconds, same data, same run.

    python benches/texts.py              # needs ../shared/data; crowd-kit takes a minute for the transcripts
    python benches/texts.py --ours       # leave crowd-kit out
    python benches/texts.py --tasks 300  # only the first so many tasks of each log

Both sides get the log as it is; crowd-kit's tokenizer lowers case and leaves punctuation out, as ours does when it
compares. Ten shuffles of the rows of each log are tried with ours.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import manyhands as mh
from manyhands.texts.words import folded

SHARED = Path(__file__).parents[2] / "shared" / "data"


def read(name: str, tasks: int | None) -> tuple[pd.DataFrame, pd.Series]:
    folder = SHARED / name
    log = pd.read_csv(next(folder.glob("labels.csv*")), dtype=str, keep_default_na=False)
    gold = pd.read_csv(folder / "gold.csv", dtype=str, keep_default_na=False).set_index("task").label
    gold = gold if tasks is None else gold.iloc[:tasks]
    return log[log.task.isin(gold.index)].rename(columns={"label": "text"}), gold


def crowd_kit(log: pd.DataFrame) -> pd.Series:
    from crowdkit.aggregation import ROVER

    cut = lambda text: [key for word in text.split() if (key := folded(word))]  # noqa: E731
    return ROVER(cut, " ".join).fit_predict(log)


def in_place(words: list[str], true: list[str]) -> list[bool]:
    """Which words stand where they belong in a best alignment with the true ones."""
    edits = np.zeros((len(words) + 1, len(true) + 1), int)
    edits[:, 0], edits[0] = range(len(words) + 1), range(len(true) + 1)
    for i, word in enumerate(words):
        for j, other in enumerate(true):
            edits[i + 1, j + 1] = min(edits[i, j] + (word != other), edits[i, j + 1] + 1, edits[i + 1, j] + 1)
    found, i, j = [False] * len(words), len(words), len(true)
    while i and j:
        same = words[i - 1] == true[j - 1]
        if edits[i, j] == edits[i - 1, j - 1] + (not same):
            i, j = i - 1, j - 1
            found[i] = same
        elif edits[i, j] == edits[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return found


def trust(model: mh.texts.ROVER, gold: pd.Series) -> None:
    """How far probabilities of words agree with how often words are right."""
    right, sure = [], []
    for task, rows in model.words_frame().to_pandas().groupby("task"):
        right += in_place([*map(folded, rows.word)], [key for word in gold[task].split() if (key := folded(word))])
        sure += rows.confidence.tolist()
    said, true = np.array(sure), np.array(right)
    loss = -np.log(np.maximum(np.where(true, said, 1 - said), 1e-6)).mean()
    print(f"  {true.mean():.4f} of words right, mean probability {said.mean():.4f}, log loss {loss:.4f}")


def report(who: str, texts: pd.Series, gold: pd.Series, took: float) -> None:
    rates = [mh.metrics.word_error_rate(texts[gold.index], gold, average=average) for average in ("corpus", "text")]
    print(f"  {who:<18}{rates[0]:.4f} corpus, {rates[1]:.4f} mean of texts, {took:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="leave crowd-kit out")
    parser.add_argument("--tasks", type=int, help="only the first so many tasks")
    parser.add_argument("--shuffles", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore", mh.errors.OverlapWarning)  # two of the logs have repeats
    for name in ("crowdwsa_t1", "crowdwsa_t2", "crowdspeech_dev_clean"):
        log, gold = read(name, args.tasks)
        print(f"{name}: {len(log):,} texts of {len(gold):,} tasks")
        methods = (mh.texts.ROVER(), mh.texts.ROVER(level="character"), mh.texts.ClosestToCentre(), mh.texts.RASA())
        for model in (*methods, mh.texts.HRRASA()):
            start = time.process_time()
            model.fit(mh.Texts.from_frame(log))
            took = time.process_time() - start
            report(repr(model).partition(",")[0][:17], pd.Series(model.texts_, model.tasks_), gold, took)
        trust(methods[0], gold)
        first = methods[0].texts_.tolist()
        rng = np.random.default_rng(0)
        shuffled = [log.iloc[rng.permutation(len(log))] for _ in range(args.shuffles)]
        same = sum(mh.aggregate(mh.Texts.from_frame(rows)).texts_.tolist() == first for rows in shuffled)
        print(f"  {same} of {len(shuffled)} shuffles give the same texts")
        if not args.ours:
            start = time.process_time()
            found = crowd_kit(log)
            report("crowd-kit's ROVER", found, gold, time.process_time() - start)


if __name__ == "__main__":
    main()
