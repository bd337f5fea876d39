"""A backbone in two: what makes features, and the layer that makes logits of them."""

from __future__ import annotations

import copy

import torch
from torch import nn

from manyhands._train.batch import CrowdData
from manyhands._train.module_calls import plain, run
from manyhands._train.settings import explain_errors


def split(backbone: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The trunk and the head of a backbone.

    A module with parts ``trunk`` and ``head`` is split into these; the head of an ``nn.Sequential`` is its last
    layer.
    """
    backbone = plain(backbone)
    trunk, head = getattr(backbone, "trunk", None), getattr(backbone, "head", None)
    if isinstance(trunk, nn.Module) and isinstance(head, nn.Module):
        return trunk, head
    if isinstance(backbone, nn.Sequential) and len(backbone) > 1:
        return backbone[:-1], backbone[-1]
    if isinstance(backbone, nn.Linear):
        return nn.Identity(), backbone
    raise ValueError(
        f"this learner needs the features before the last layer, and finds none in a {type(backbone).__name__}: "
        "give an nn.Sequential that ends with the layer of logits, or a module with parts named trunk and head"
    )


def n_features(backbone: nn.Module, data: CrowdData) -> int:
    """How many features the trunk makes of a sample; tried on a copy, since layers may remember what they see."""
    trunk = copy.deepcopy(split(backbone)[0]).cpu().eval()
    x = data.batch(data.samples[:1], torch.device("cpu")).x
    with torch.no_grad(), explain_errors(trunk, x):
        features = run(trunk, x)
    if features.ndim != 2:
        raise ValueError(f"the features before the last layer must be (n, d), not of shape {tuple(features.shape)}")
    return features.shape[1]
