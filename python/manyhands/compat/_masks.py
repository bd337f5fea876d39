"""The twins of crowd-kit's aggregators of masks, image by image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array, Parameters
from manyhands.compat._embeddings import columns_of
from manyhands.compat._log import import_pandas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manyhands.compat._log import Frame, Series

Mask = npt.NDArray[np.bool_]
_LEAST = 1e-5


def _images(data: Frame) -> Iterator[tuple[Any, Any, npt.NDArray[np.bool_]]]:
    """Task, workers and masks, (n, …), of each image; masks of an image must be of one shape."""
    data = columns_of(data, "task", "worker", "segmentation")
    for task, part in data.groupby("task"):
        masks = [np.asarray(one) for one in part["segmentation"]]
        if len({one.shape for one in masks}) > 1:
            raise ValueError(f"masks of task {task!r} have different shapes: {sorted({one.shape for one in masks})}")
        yield task, part["worker"].tolist(), np.stack(masks).astype(np.bool_)


def _series(found: dict[Any, Mask]) -> Series:
    pandas = import_pandas()
    masks: Series = pandas.Series(list(found.values()), pandas.Index(list(found), name="task"), name="segmentation")
    return masks


class _Segmentation(Parameters):
    segmentations_: Series
    n_iter: int
    tol: float
    loss_history_: list[float]

    def _one(self, masks: Mask) -> Mask:
        raise NotImplementedError

    def fit(self, data: Frame) -> Self:
        """Find the mask of each task."""
        self.segmentations_ = _series({task: self._one(masks) for task, _, masks in _images(data)})
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``segmentations_``."""
        return self.fit(data).segmentations_


class SegmentationMajorityVote(Parameters):
    """Pixels that at least half of the workers marked, each counting as much as the skill that is given for them.

    :class:`manyhands.masks.MaskVote` marks those of more than half.

    Parameters
    ----------
    default_skill
        The skill of workers of whom none is given, with ``on_missing_skill="value"``.
    on_missing_skill
        What to do with them: ``"error"``, ``"ignore"`` their masks, or ``"value"``.

    Attributes
    ----------
    segmentations_ : Series
        The mask of each task.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import SegmentationMajorityVote
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3]})
    >>> log["segmentation"] = [np.array([[1, 0]], bool), np.array([[1, 1]], bool), np.array([[0, 0]], bool)]
    >>> SegmentationMajorityVote().fit_predict(log)[1].tolist()
    [[True, False]]
    """

    segmentations_: Series

    def __init__(self, default_skill: float | None = None, on_missing_skill: str = "error") -> None:
        self.default_skill = default_skill
        self.on_missing_skill = on_missing_skill

    def fit(self, data: Frame, skills: Series | None = None) -> Self:
        """Count votes, by skills if they are given."""
        found: dict[Any, Mask] = {}
        for task, workers, masks in _images(data):
            weights, keep = self._weights(workers, skills)
            if keep.any():
                found[task] = 2 * np.tensordot(weights[keep], masks[keep], 1) >= weights[keep].sum()
        self.segmentations_ = _series(found)
        return self

    def _weights(self, workers: list[Any], skills: Series | None) -> tuple[Array, Mask]:
        if skills is None:
            return np.ones(len(workers)), np.ones(len(workers), np.bool_)
        known = np.array([worker in skills.index for worker in workers])
        if not known.all() and self.on_missing_skill == "error":
            raise ValueError(f"no skill is given of worker {workers[int(np.argmin(known))]!r}")
        keep = known
        if not known.all() and self.on_missing_skill == "value":
            if self.default_skill is None:
                raise ValueError("on_missing_skill='value' needs a default_skill")
            keep = np.ones(len(workers), np.bool_)
        other = self.default_skill or 0.0
        return np.array([float(skills[w]) if there else other for w, there in zip(workers, known, strict=True)]), keep

    def fit_predict(self, data: Frame, skills: Series | None = None) -> Series:
        """Fit and return ``segmentations_``."""
        return self.fit(data, skills).segmentations_


class SegmentationRASA(_Segmentation):
    """Pixels by workers who count as far as their mask overlaps with the answer, image by image.

    Parameters
    ----------
    n_iter, tol
        Most passes, and the relative change of the weighted votes below which they end.

    Attributes
    ----------
    segmentations_ : Series
        The mask of each task.
    loss_history_ : list of float
        Changes of the last image.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import SegmentationRASA
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3]})
    >>> log["segmentation"] = [np.array([[1, 0]], bool), np.array([[1, 1]], bool), np.array([[0, 0]], bool)]
    >>> SegmentationRASA().fit_predict(log)[1].tolist()
    [[True, False]]
    """

    def __init__(self, n_iter: int = 10, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def _one(self, masks: Mask) -> Mask:
        weights, before = np.full(len(masks), 1 / len(masks)), None
        axes = tuple(range(1, masks.ndim))
        self.loss_history_ = []
        answer: Mask = np.zeros(masks.shape[1:], np.bool_)
        for _ in range(self.n_iter):
            votes = np.tensordot(weights, masks, 1)
            answer = votes >= 0.5
            either = (masks | answer).sum(axis=axes)
            # Two empty masks are the same.
            shared = np.where(either > 0, (masks & answer).sum(axis=axes) / np.maximum(either, 1), 1.0)
            weights = np.log(1 / (1 - shared + _LEAST) + 1)
            weights = weights / weights.sum()
            if before is not None:
                size = float((votes * votes).sum())
                loss = float(((votes - before) ** 2).sum()) / size if size else 0.0
                self.loss_history_.append(loss)
                if loss < self.tol:
                    break
            before = votes
        return answer


class SegmentationEM(_Segmentation):
    """Pixels by workers of whom an accuracy is learnt, image by image, by EM.

    As in crowd-kit, each pass takes the probabilities of the last one for its prior, so that votes count again in each:
    probabilities are nearly 0 or 1 at the end. :class:`manyhands.masks.STAPLE` learns workers over all images.

    Parameters
    ----------
    n_iter, tol
        Most passes, and the gain of the objective below which they end.

    Attributes
    ----------
    segmentations_ : Series
        The mask of each task.
    loss_history_ : list of float
        The objective of the last image.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import SegmentationEM
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3]})
    >>> log["segmentation"] = [np.array([[1, 0]], bool), np.array([[1, 1]], bool), np.array([[1, 0]], bool)]
    >>> SegmentationEM().fit_predict(log)[1].tolist()
    [[True, False]]
    """

    #: Probabilities below this are taken for 0.
    eps = 1e-15

    def __init__(self, n_iter: int = 10, tol: float = 1e-5) -> None:
        self.n_iter = n_iter
        self.tol = tol

    def _one(self, masks: Mask) -> Mask:
        self.loss_history_ = []
        region = int(masks.any(axis=0).sum())
        if not region:
            return np.zeros(masks.shape[1:], np.bool_)
        flat = masks.reshape(len(masks), -1)
        prior = flat.mean(axis=0)
        accuracy = self._accuracy(flat, np.round(prior), region)
        best = -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(self.n_iter):
                right = np.where(flat, accuracy[:, None], 1 - accuracy[:, None])
                marked = np.log(prior) + np.log(right).sum(axis=0)
                not_marked = np.log(1 - prior) + np.log(1 - right).sum(axis=0)
                posterior = np.nan_to_num(np.exp(marked) / (np.exp(marked) + np.exp(not_marked)), nan=0.0)
                posterior[posterior < self.eps] = 0
                accuracy = self._accuracy(flat, posterior, region)
                bound = self._bound(flat, prior, posterior, accuracy) / flat.size
                prior = posterior
                self.loss_history_.append(bound)
                if bound - best < self.tol:
                    break
                best = bound
        answer: Mask = (prior > 0.5).reshape(masks.shape[1:])
        return answer

    @staticmethod
    def _accuracy(flat: Mask, posterior: Array, region: int) -> Array:
        """Share of the pixels that anybody marked on which each worker is right."""
        wrong = flat.sum(axis=1) + posterior.sum() - 2 * (flat * posterior).sum(axis=1)
        return np.asarray(1 - wrong / region)

    @staticmethod
    def _bound(flat: Mask, prior: Array, posterior: Array, accuracy: Array) -> float:
        right = np.where(flat, accuracy[:, None], 1 - accuracy[:, None])
        marked = np.nan_to_num((np.log(right) + np.log(prior)) * posterior, nan=0.0).sum()
        others = np.nan_to_num((np.log(1 - right) + np.log(1 - prior)) * (1 - posterior), nan=0.0).sum()
        return float(marked + others - np.nan_to_num(np.log(posterior) * posterior, nan=0.0).sum())
