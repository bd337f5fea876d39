"""Masks of shapes that are no ellipses, by crowds that err in other ways: votes, STAPLE and mean outlines.

    python benches/masks_shapes.py               # five draws of each, 20 images of about 64²

Outlines wobble smoothly, are too wide or too tight by some pixels, and miss or add parts; some workers mark nothing at
all.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from scipy.ndimage import distance_transform_edt

import manyhands as mh

Mask = np.ndarray
Rng = np.random.Generator


def smooth(rng: Rng, shape: tuple[int, int], scale: float) -> np.ndarray:
    """A random field with values of deviation 1 that change over about so many pixels."""
    noise = np.fft.rfft2(rng.standard_normal(shape))
    far = np.hypot(np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None])
    field = np.fft.irfft2(noise * np.exp(-2 * (np.pi * scale * far / 2) ** 2), shape)
    return field / field.std()


def distance(mask: Mask) -> np.ndarray:
    """How far within a mask pixels lie, or, negative, outside of it; beyond the image is nothing."""
    if not mask.any():
        return np.full(mask.shape, -np.inf)
    around = np.pad(mask, 1)
    far = np.where(around, distance_transform_edt(around) - 0.5, 0.5 - distance_transform_edt(~around))
    return far[1:-1, 1:-1]


def drawn(rng: Rng, mask: Mask, bias: float, noise: float, scale: float = 10.0) -> Mask:
    """A mask whose outline is off by a bias, and by a smooth error, in pixels."""
    return distance(mask) + bias + noise * smooth(rng, mask.shape, scale) > 0


def disc(shape: tuple[int, int], y: float, x: float, radius: float) -> Mask:
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return np.hypot(rows - y, columns - x) <= radius


# ------------------------------------------------------------------------------------------------------- truths


def blob(rng: Rng, shape: tuple[int, int]) -> Mask:
    return distance(disc(shape, shape[0] / 2, shape[1] / 2, min(shape) / 4)) + 3 * smooth(rng, shape, 12) > 0


def ring(rng: Rng, shape: tuple[int, int]) -> Mask:
    inner = disc(shape, shape[0] / 2 + rng.normal(), shape[1] / 2 + rng.normal(), min(shape) / rng.uniform(7, 10))
    return blob(rng, shape) & ~inner


def pieces(rng: Rng, shape: tuple[int, int]) -> Mask:
    found = np.zeros(shape, bool)
    for _ in range(rng.integers(3, 7)):
        found |= disc(shape, *rng.uniform(8, np.array(shape) - 8), rng.uniform(3, 7))
    return found


def vessels(rng: Rng, shape: tuple[int, int]) -> Mask:
    found = np.zeros(shape, bool)
    for _ in range(3):
        y, x, turn = *rng.uniform(0.1, 0.9, 2) * shape, rng.uniform(0, 2 * np.pi)
        for _ in range(60):
            found |= disc(shape, y, x, 0.8 + 0.5 * rng.random())
            turn += 0.2 * rng.standard_normal()
            y, x = y + np.sin(turn), x + np.cos(turn)
    return found


def lesion(rng: Rng, shape: tuple[int, int]) -> Mask:
    return disc(shape, *rng.uniform(10, np.array(shape) - 10), rng.uniform(1.5, 3.5))


# ------------------------------------------------------------------------------------------------------- crowds


def even(rng: Rng, n: int, spread: float, noise: float) -> list[tuple[float, float, float]]:
    """Bias, noise and share of lapses of workers who differ by degrees."""
    return [(spread * rng.standard_normal(), noise * np.exp(0.5 * rng.standard_normal()), 0.02) for _ in range(n)]


def marked(rng: Rng, mask: Mask, skill: tuple[float, float, float], lapse: Callable[[Rng, Mask], Mask]) -> Mask:
    bias, noise, lapses = skill
    return lapse(rng, mask) if rng.random() < lapses else drawn(rng, mask, bias, noise)


def nothing(rng: Rng, mask: Mask) -> Mask:
    return np.zeros_like(mask)


def elsewhere(rng: Rng, mask: Mask) -> Mask:
    return np.roll(mask, rng.integers(8, 24, 2), axis=(0, 1))


def filled_in(rng: Rng, mask: Mask) -> Mask:
    return distance(mask) > -8


def half(rng: Rng, mask: Mask) -> Mask:
    return mask & (smooth(rng, mask.shape, 25) > 0)


CASES: dict[str, tuple[Callable[[Rng, tuple[int, int]], Mask], int, float, float, float, Callable[..., Mask]]] = {
    # what is there, workers, spread of biases, noise, share of lapses, and what they are
    "blobs, biases of 2 pixels": (blob, 7, 2.0, 1.5, 0.05, elsewhere),
    "blobs, all nearly exact": (blob, 5, 0.3, 0.7, 0.0, elsewhere),
    "rings, some fill the hole": (ring, 7, 1.0, 1.0, 0.25, filled_in),
    "many pieces, some missed": (pieces, 7, 0.7, 0.8, 0.3, half),
    "vessels": (vessels, 7, 0.4, 0.6, 0.1, half),
    "vessels, biases": (vessels, 7, 0.8, 0.6, 0.1, half),
    "tiny lesions": (lesion, 5, 0.5, 0.6, 0.1, elsewhere),
    "tiny lesions, some mark nothing": (lesion, 5, 0.5, 0.6, 0.3, nothing),
    "half the images empty": (lesion, 7, 0.5, 0.6, 0.15, elsewhere),
    "three classes": (blob, 7, 1.0, 1.5, 0.1, elsewhere),
    "images of other sizes": (blob, 7, 1.5, 1.5, 0.1, elsewhere),
    "three of fifty": (blob, 50, 1.5, 1.5, 0.15, elsewhere),
    "three of fifty, pieces": (pieces, 50, 0.7, 0.8, 0.2, half),
    "two workers": (blob, 2, 1.0, 1.0, 0.05, elsewhere),
    "three workers": (blob, 3, 1.0, 1.0, 0.1, elsewhere),
    "mostly lapses": (blob, 7, 0.5, 1.0, 0.6, elsewhere),
}


def crowd(name: str, seed: int, n_tasks: int) -> tuple[mh.Masks, list[Mask]]:
    make, n, spread, noise, lapses, lapse = CASES[name]
    rng = np.random.default_rng(seed)
    skills = [(bias, wobble, lapses) for bias, wobble, _ in even(rng, n, spread, noise)]
    truth, rows, arrays = [], [], []
    for task in range(n_tasks):
        shape = tuple(rng.integers(40, 97, 2).tolist()) if "sizes" in name else (64, 64)
        mask = make(rng, shape)
        if "empty" in name and task % 2:
            mask = np.zeros(shape, bool)
        second = disc(shape, shape[0] / 2, shape[1] / 2, 8) if "classes" in name else None
        who = rng.choice(n, 3, replace=False) if "of fifty" in name else range(n)
        for worker in who:
            said = marked(rng, mask, skills[worker], lapse).astype(int)
            if second is not None:
                said[marked(rng, second, skills[worker], lapse) & (said > 0)] = 2
            # Where there is nothing, some see something.
            if not mask.any() and rng.random() < lapses:
                said = lesion(rng, shape).astype(int)
            rows.append((task, int(worker)))
            arrays.append(said)
        truth.append(mask.astype(int) + (mask & second if second is not None else 0))
    tasks, workers = zip(*rows, strict=True)
    return mh.Masks.from_arrays(tasks, workers, arrays), truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=50)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = (mh.masks.MaskVote(), mh.masks.STAPLE(), mh.masks.ShapeCrowd())
    print("mean IoU ± deviation of draws: " + ", ".join(type(model).__name__ for model in methods))
    for name in CASES:
        if args.only not in name:
            continue
        found = []
        for number in range(args.draws):
            masks, truth = crowd(name, args.seed + number, args.tasks)
            found.append([mh.metrics.mask_iou(model.fit(masks).masks_, truth) for model in methods])
        mean, deviation = np.mean(found, axis=0), np.std(found, axis=0, ddof=min(args.draws - 1, 1))
        print(f"{name}: " + ", ".join(f"{m:.3f} ± {d:.3f}" for m, d in zip(mean, deviation, strict=True)), flush=True)


if __name__ == "__main__":
    main()
