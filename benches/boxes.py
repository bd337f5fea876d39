"""Boxes beside a quorum, in simulated crowds that vary: operating points, and how far probabilities can be trusted.

    python benches/boxes.py                      # four draws of each crowd, 60 or 100 images
    python benches/boxes.py --draws 2 --only "hasty 3"

Workers see objects, invent some anywhere, and draw and name more or less exactly. In crowds with traps, images also
have places that several take for an object.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import manyhands as mh

#: How often they see an object, how many they invent, how far corners are off, how often they name it rightly.
KINDS = {
    "good": (0.92, 0.1, 0.03, 0.95),
    "hasty": (0.6, 0.1, 0.08, 0.85),
    "careless": (0.75, 1.5, 0.15, 0.5),
    "keen": (0.95, 0.8, 0.05, 0.9),
}
BINS = [0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.01]


@dataclass(frozen=True)
class Crowd:
    """A crowd and what it looks at."""

    workers: str
    objects: float = 3.0
    sides: tuple[float, float] = (8.0, 30.0)
    #: Objects' centres are farther apart than their sides over this.
    crowding: float = 3.0
    n_classes: int = 3
    #: Places of an image that a worker who invents half a box an image takes for an object so often.
    traps: int = 0
    mistaken: float = 0.15
    #: How many workers look at an image, of those there are, who then differ by degrees.
    looking: int | None = None
    n_tasks: int = 60

    def kinds(self) -> list[str]:
        words = self.workers.replace(",", "").split()
        return [kind for kind, n in zip(words[::2], words[1::2], strict=True) for _ in range(int(n))]


MIXED = "good 2, hasty 2, careless 1"
CROWDS = {
    workers: Crowd(workers)
    for workers in (
        "good 3",
        "good 2, hasty 1",
        "good 1, hasty 1, careless 1",
        "hasty 1, careless 2",
        "good 1, hasty 2, careless 1",
        "good 3, hasty 1, careless 1",
        "hasty 5",
        "hasty 3, careless 2",
        "good 1, careless 4",
        "careless 5",
        "good 2, hasty 2, careless 3",
        "good 4, hasty 3, careless 3",
        "hasty 5, careless 5",
        "good 2, careless 8",
    )
} | {
    f"{MIXED}; half an object": Crowd(MIXED, objects=0.5),
    f"{MIXED}; small objects": Crowd(MIXED, sides=(4.0, 8.0)),
    f"{MIXED}; ten classes": Crowd(MIXED, n_classes=10),
    f"{MIXED}; twelve objects": Crowd(MIXED, objects=12, crowding=2.2),
    "hasty 3, careless 2; twelve objects": Crowd("hasty 3, careless 2", objects=12, crowding=2.2),
    "good 1, hasty 1, careless 1; traps": Crowd("good 1, hasty 1, careless 1", traps=3),
    f"{MIXED}; traps": Crowd(MIXED, traps=3),
    "keen 3, hasty 2; traps": Crowd("keen 3, hasty 2", traps=3, mistaken=0.25),
    "three of twelve; traps": Crowd("good 4, hasty 4, careless 2, keen 2", traps=3, looking=3, n_tasks=100),
    "five of ten; traps": Crowd("good 4, hasty 3, careless 1, keen 2", traps=3, looking=5, n_tasks=100),
}


def places(rng: np.random.Generator, n: int, crowd: Crowd) -> np.ndarray:
    """Boxes whose centres are apart."""
    found: list[np.ndarray] = []
    for _ in range(20 * n):
        size, centre = rng.uniform(*crowd.sides, 2), rng.uniform(15, 85, 2)
        gaps = ((np.abs(centre - (b[:2] + b[2:]) / 2) > (b[2:] - b[:2] + size) / crowd.crowding).any() for b in found)
        if len(found) < n and all(gaps):
            found.append(np.concatenate([centre - size / 2, centre + size / 2]))
    return np.array(found).reshape(-1, 4)


def skills(rng: np.random.Generator, crowd: Crowd) -> list[tuple[float, float, float, float]]:
    each = [KINDS[kind] for kind in crowd.kinds()]
    if crowd.looking is None:
        return each
    found = []
    for recall, invented, noise, right in each:
        more, often, exact = rng.standard_normal(3)
        seen = float(np.clip(recall + 0.15 * more, 0.3, 0.98))
        found.append((seen, invented * np.exp(0.5 * often), noise * np.exp(0.4 * exact), right))
    return found


def draw(crowd: Crowd, seed: int) -> tuple[mh.Boxes, list[np.ndarray]]:
    """A log, and the true boxes of its tasks."""
    rng, names = np.random.default_rng(seed), np.array(list("abcdefghij"))
    workers, truth, rows, boxes, labels = skills(rng, crowd), [], [], [], []
    for task in range(crowd.n_tasks):
        truth.append(places(rng, int(rng.poisson(crowd.objects)), crowd))
        real = np.concatenate([truth[-1], traps := places(rng, crowd.traps, crowd)])
        what, trap = rng.integers(crowd.n_classes, size=len(real)), np.arange(len(real)) >= len(real) - len(traps)
        looking = range(len(workers)) if crowd.looking is None else rng.choice(len(workers), crowd.looking, False)
        for worker in looking:
            recall, invented, noise, right = workers[worker]
            chance = np.where(trap, crowd.mistaken * (invented / 0.5) ** 0.5, recall)
            seen = rng.random(len(real)) < chance
            size = np.tile(real[seen, 2:] - real[seen, :2], 2)
            drawn = real[seen] + size * np.clip(noise * rng.standard_normal(size.shape), -0.4, 0.4)
            said = np.where(rng.random(len(drawn)) < right, what[seen], rng.integers(crowd.n_classes, size=len(drawn)))
            more = places(rng, int(rng.poisson(invented)), crowd)
            drawn = np.concatenate([drawn, more])
            said = np.concatenate([said, rng.integers(crowd.n_classes, size=len(more))])
            rows += [(task, int(worker))] * max(len(drawn), 1)
            boxes.append(drawn if len(drawn) else np.full((1, 4), np.nan))
            labels += names[said].tolist() if len(drawn) else [None]
    tasks, who = zip(*rows, strict=True)
    return mh.Boxes.from_arrays(tasks, who, np.concatenate(boxes), labels), truth


def judged(model: mh.boxes.BoxCrowd, truth: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of all that a model found, and which of them are objects."""
    chances, hits = [], []
    for boxes, p, there in zip(model.boxes_, model.probabilities_, truth, strict=True):
        left = np.ones(len(there), bool)
        for box, chance in zip(boxes, p, strict=True):
            low, high = np.maximum(box[:2], there[:, :2]), np.minimum(box[2:], there[:, 2:])
            both = np.maximum(high - low, 0).prod(axis=1)
            area = (box[2:] - box[:2]).prod() + (there[:, 2:] - there[:, :2]).prod(axis=1) - both
            share = np.where(left, both / area, 0)
            hit = bool(share.max(initial=0) >= 0.5)
            if hit:
                left[share.argmax()] = False
            chances.append(chance)
            hits.append(hit)
    return np.array(chances), np.array(hits, bool)


def points(chances: np.ndarray, hits: np.ndarray, n_true: int, precision: float, recall: float) -> tuple[float, float]:
    """Greatest recall at a precision, and greatest precision at a recall, whatever the threshold."""
    found = np.cumsum(hits[np.argsort(-chances, kind="stable")])
    precisions, recalls = found / np.arange(1, len(found) + 1), found / n_true
    there = (recalls[precisions >= precision - 1e-9], precisions[recalls >= recall - 1e-9])
    return float(there[0].max(initial=0)), float(there[1].max(initial=0))


def row(boxes: mh.Boxes, truth: list[np.ndarray]) -> tuple[list[float], np.ndarray, np.ndarray]:
    found = []
    for model in (mh.boxes.BoxVote(), mh.boxes.BoxCrowd(), mh.boxes.BoxCrowd(threshold=0.5)):
        scores = mh.metrics.box_scores(model.fit(boxes).boxes_, truth)
        found += [scores.precision, scores.recall, scores.iou, scores.f1]
    chances, hits = judged(mh.boxes.BoxCrowd(threshold=0).fit(boxes), truth)
    found += points(chances, hits, sum(map(len, truth)), found[0], found[1])
    return found, chances, hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--only", default="", help="crowds whose name holds this")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("precision, recall, IoU, F1 of BoxVote | BoxCrowd | threshold 0.5 | recall at its precision, and the reverse")
    chances, hits = [], []
    for name, crowd in CROWDS.items():
        if args.only not in name:
            continue
        rows = [row(*draw(crowd, args.seed + number)) for number in range(args.draws)]
        mean = np.mean([each for each, _, _ in rows], axis=0)
        parts = (mean[:4], mean[4:8], mean[8:12], mean[12:])
        print(f"{name}: " + " | ".join(", ".join(f"{x:.3f}" for x in part) for part in parts), flush=True)
        chances += [each for _, each, _ in rows]
        hits += [each for _, _, each in rows]
    p, hit = np.concatenate(chances), np.concatenate(hits)
    for low, high in pairwise(BINS):
        within = (p >= low) & (p < high)
        if within.any():
            print(
                f"probability {low} to {high}: {within.sum()} candidates, mean {p[within].mean():.3f}, "
                f"objects {hit[within].mean():.3f}"
            )


if __name__ == "__main__":
    main()
