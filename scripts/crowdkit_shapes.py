"""Write what crowd-kit answers about texts, embeddings and masks: tests/data/crowdkit_shapes.json.

    python scripts/crowdkit_shapes.py        # in an environment with crowd-kit 1.4.2

The logs are drawn here and written beside the answers, so that the file is whole by itself.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import crowdkit
import numpy as np
import pandas as pd
from crowdkit.aggregation import (
    HRRASA,
    RASA,
    ROVER,
    ClosestToAverage,
    SegmentationEM,
    SegmentationMajorityVote,
    SegmentationRASA,
    TextHRRASA,
    TextRASA,
)

OUT = Path(__file__).parent.parent / "tests" / "data" / "crowdkit_shapes.json"
LETTERS = "abcdef"


def encoder(text: str) -> np.ndarray:
    """How often each letter is in a text."""
    return np.array([text.count(letter) for letter in LETTERS], float)


def same_words(text: str, other: str) -> float:
    """Share of words that two texts have in common."""
    one, two = set(text.split()), set(other.split())
    return len(one & two) / max(len(one | two), 1)


def texts_log() -> pd.DataFrame:
    """Twelve texts of six words by five of seven workers each; the last has one text only."""
    rng = np.random.default_rng(5)
    words = [a + b for a in LETTERS for b in LETTERS]
    rows = []
    for task in range(12):
        truth = [str(word) for word in rng.choice(words, 6)]
        for worker in rng.choice(7, 5 if task < 11 else 1, replace=False):
            kept = [word if rng.random() > 0.08 * (worker + 1) else str(rng.choice(words)) for word in truth]
            kept = [word for word in kept if rng.random() > 0.1] or ["aa"]
            rows.append((f"t{task:02}", f"w{worker}", " ".join(kept)))
    return pd.DataFrame(rows, columns=["task", "worker", "text"])


def masks_log() -> pd.DataFrame:
    """Six images of eight by nine by five workers, one of them empty in all masks."""
    rng = np.random.default_rng(6)
    rows = []
    for task in range(6):
        truth = np.zeros((8, 9), bool)
        if task:
            top, left = rng.integers(0, 4, 2)
            truth[top : top + 4, left : left + 5] = True
        for worker in range(5):
            mask = truth ^ (rng.random((8, 9)) < 0.03 * (worker + 1)) if task else truth
            rows.append((f"i{task}", f"w{worker}", mask))
    return pd.DataFrame(rows, columns=["task", "worker", "segmentation"])


def _means(data: pd.DataFrame, weights: pd.DataFrame, true_embeddings: Any = None) -> Any:
    """HRRASA's weighted means, without the type of numbers that it asks for a column of arrays, which is an error."""
    data = data.join(weights, on=["task", "worker"])
    data["weighted"] = data.weight * data.embedding
    group = data.groupby("task")
    return group.weighted.apply(np.sum) / group.weight.sum()


HRRASA._aggregate_embeddings = staticmethod(_means)


def main() -> None:
    """Draw the logs, ask, and write."""
    warnings.simplefilter("ignore")
    texts, masks = texts_log(), masks_log()
    embedded = texts.rename(columns={"text": "output"}).assign(embedding=[encoder(text) for text in texts.text])
    several = embedded[embedded.task != "t11"]
    found: dict[str, Any] = {"crowdkit": crowdkit.__version__ if hasattr(crowdkit, "__version__") else "1.4.2"}
    found["texts"] = texts.to_dict("list")
    found["masks"] = {
        "task": masks.task.tolist(),
        "worker": masks.worker.tolist(),
        "segmentation": [mask.astype(int).tolist() for mask in masks.segmentation],
    }
    found["ROVER"] = ROVER(str.split, " ".join).fit_predict(texts).to_dict()
    far = lambda a, b: float(np.linalg.norm(a - b))  # noqa: E731
    found["ClosestToAverage"] = ClosestToAverage(far).fit_predict(embedded).output.to_dict()
    rasa = RASA(n_iter=20)
    found["RASA"] = rasa.fit_predict(embedded).output.to_dict()
    found["RASA skills"] = rasa.skills_.to_dict()
    # Its likeness of outputs compares words with letters: another is given.
    hrrasa = HRRASA(n_iter=20, output_similarity=same_words)
    found["HRRASA"] = hrrasa.fit_predict(several).output.to_dict()
    found["HRRASA skills"] = hrrasa.skills_.to_dict()
    found["TextRASA"] = TextRASA(encoder, n_iter=20).fit_predict(texts, None).to_dict()
    own = TextHRRASA(encoder, n_iter=20, output_similarity=same_words)
    found["TextHRRASA"] = own.fit_predict(texts[texts.task != "t11"], None).to_dict()
    for method in (SegmentationMajorityVote, SegmentationRASA, SegmentationEM):
        answers = method().fit_predict(masks)
        found[method.__name__] = {task: np.asarray(mask).astype(int).tolist() for task, mask in answers.items()}
    OUT.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
