"""CIFAR-10 as images, and the network that learns from them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from experiment import data_set
from PIL import Image
from torch import nn

#: How to train it: the rate falls to zero, so that the last epoch is not worse than the one before.
TRAINING = {"batch_size": 128, "lr": 5e-3, "schedule": "cosine"}


def images(folder: Path, part: str, n: int) -> tuple[torch.Tensor, np.ndarray]:
    """The first training images or evenly spaced test images, (n, 3, 32, 32), and their classes.

    Test images are stored by class. Pixels have mean 0 and deviation 1 in each channel, over the images read.
    """
    arrays = np.load(data_set(folder, "cifar10_images") / "images.npz")
    data, offsets = arrays[f"{part}_jpeg"].tobytes(), arrays[f"{part}_offsets"]
    chosen = np.arange(n) if part == "train" else np.arange(n) * (len(offsets) - 1) // n
    files = (io.BytesIO(data[offsets[i] : offsets[i + 1]]) for i in chosen)
    pixels = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files]).astype(np.float32)
    pixels = (pixels - pixels.mean((0, 1, 2))) / pixels.std((0, 1, 2))
    # Stored by pixel, which convolutions on a CPU read faster.
    return torch.from_numpy(pixels).permute(0, 3, 1, 2), arrays[f"{part}_label"][chosen].astype(int)


def network(seed: int, widths: tuple[int, ...] = (16, 32, 64), dropout: float = 0.2) -> nn.Module:
    """Convolutions of stride two with batch normalization, and a linear layer; the start follows from the seed."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, width in zip((3, *widths), widths, strict=False):
        layers += [nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(dropout), nn.Linear(4 * widths[-1], 10)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)
