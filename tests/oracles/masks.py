"""Plain twins of what aggregates masks, pixel by pixel. An image is an array (answers, height, width) of classes."""

from __future__ import annotations

import numpy as np


def vote(image: np.ndarray, k: int) -> np.ndarray:
    """The class of most votes, of equal ones the lowest."""
    counts = np.stack([(image == c).sum(axis=0) for c in range(k)])
    return counts.argmax(axis=0)


def staple(images, k, *, asymmetry, strength, passes):
    """Masks, and the recall of each worker (row of the images) of each class, by decisions on disputed pixels."""
    m = len(images[0])
    disputed = [(image != image[0]).any(axis=0) for image in images]
    chances = [np.stack([(image == c).mean(axis=0) for c in range(k)]) for image in images]
    for _ in range(passes):
        right, could = np.zeros((m, k)), np.zeros((m, k))
        for image, where, chance in zip(images, disputed, chances, strict=True):
            if not where.any():
                continue
            best = chance >= chance.max(axis=0) - 1e-9
            truth = best / best.sum(axis=0) * where / where.sum()
            for worker in range(m):
                for c in range(k):
                    could[worker, c] += truth[c].sum()
                    right[worker, c] += truth[c][image[worker] == c].sum()
        total = could.sum()
        crowd = right.sum() / total if total else 0.5
        accuracy = (right.sum(axis=1) + strength * crowd) / (could.sum(axis=1) + strength)
        own = (right + strength * accuracy[:, None]) / (could + strength)
        recall = np.clip(asymmetry * own + (1 - asymmetry) * accuracy[:, None], 0.02, 0.98)
        chances = [_chances(image, recall, k) for image in images]
    return [np.argmax(chance >= chance.max(axis=0) - 1e-9, axis=0) for chance in chances], recall


def _chances(image, recall, k):
    found = np.zeros((k, *image.shape[1:]))
    for c in range(k):
        for worker, said in enumerate(image):
            found[c] += np.log(np.where(said == c, recall[worker, c], (1 - recall[worker, c]) / (k - 1)))
        found[c][(image != c).all(axis=0)] = -np.inf
    odds = np.exp(found - found.max(axis=0))
    return odds / odds.sum(axis=0)
