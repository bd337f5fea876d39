"""Passes over a part of the annotations, and what they read and count, model by model."""

from __future__ import annotations

import numpy as np

from .em import FLOOR, Rows, clamp, confusion_of, counts_of, expect, log_joint, prior_of, right_and_wrong, vote_counts


def em_factors(confusion: np.ndarray, prior: np.ndarray, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the workers, (M, ...), and of the classes."""
    confusion = confusion_of(confusion, model)
    m, k, _ = confusion.shape
    classes = prior_of(prior) if prior.ndim == 1 else np.maximum(prior, FLOOR)
    if model == "full":
        return confusion.swapaxes(1, 2).reshape(m, -1), classes
    right = np.einsum("mkk->mk", confusion)
    error = np.ones_like(right) if k == 1 else np.maximum((1 - right) / (k - 1), FLOOR)
    pairs = np.stack([error, right / error], axis=1)
    return (pairs.reshape(m, -1) if model == "class" else pairs[:, :, 0]), classes


def tied_counts(rows: Rows, posterior: np.ndarray, model: str) -> np.ndarray:
    """Expected counts of each worker as the model lays them out, (M, ...)."""
    counts = counts_of(rows, posterior)
    if model == "full":
        return counts.swapaxes(1, 2).reshape(len(counts), -1)
    pairs = np.stack(right_and_wrong(counts), axis=1)
    return pairs.reshape(len(counts), -1) if model == "class" else pairs.sum(axis=2)


def em_gather(rows: Rows, prior, confusion, gold, *, model: str, hard: bool, voted_only: bool):
    """Counts, classes and log-evidence under parameters."""
    confusion = confusion_of(confusion, model)
    posterior, evidence = expect(rows, prior, confusion, gold, hard=hard)
    if voted_only:
        joint = np.where((vote_counts(rows) > 0) | (gold >= 0)[:, None], log_joint(rows, prior, confusion), -np.inf)
        joint = np.where(np.isfinite(joint).any(axis=1, keepdims=True), joint, log_joint(rows, prior, confusion))
        odds = np.exp(joint - joint.max(axis=1, keepdims=True))
        posterior = clamp(odds / odds.sum(axis=1, keepdims=True), gold)
        whole = joint.max(axis=1) + np.log(odds.sum(axis=1))
        evidence = float(np.where(gold >= 0, joint[np.arange(len(joint)), gold], whole).sum())
    return tied_counts(rows, posterior, model), posterior.sum(axis=0), evidence
