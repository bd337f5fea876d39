"""crowd-kit's aggregators of masks, image by image."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice
from manyhands.compat._log import Twin, columns_of, import_pandas
from manyhands.errors import ConvergenceWarning
from manyhands.masks import STAPLE
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    from collections.abc import Callable

    from manyhands.compat._log import Frame, Series

Mask = npt.NDArray[np.bool_]
_LEAST = 1e-5


class _Segmentation(Twin):
    segmentations_: Series
    _answer: ClassVar[str] = "segmentations_"

    def _each(self, data: Frame, find: Callable[[list[Any], Mask], Mask | None]) -> Self:
        """Set the mask of each image that `find` makes of its workers and masks, (n, …)."""
        answers: dict[Any, Mask] = {}
        for task, part in columns_of(data, "task", "worker", "segmentation").groupby("task"):
            masks = [np.asarray(mask) for mask in part["segmentation"]]
            shapes = sorted({mask.shape for mask in masks})
            if len(shapes) > 1:
                raise ValueError(f"masks of task {task!r} have different shapes: {shapes}")
            answer = find(part["worker"].tolist(), np.stack(masks).astype(np.bool_))
            if answer is not None:
                answers[task] = answer
        return self._publish(answers)

    def _publish(self, answers: dict[Any, Mask]) -> Self:
        pandas = import_pandas()
        index = pandas.Index(list(answers), name="task")
        self.segmentations_ = pandas.Series(list(answers.values()), index, name="segmentation")
        return self


@dataclass(repr=False, eq=False)
class SegmentationMajorityVote(_Segmentation):
    """Majority vote on pixels: at least half of the workers marked them, optionally weighted by given skills.

    :class:`manyhands.masks.MaskVote` marks those of more than half.

    Parameters
    ----------
    default_skill : float or None, default None
        The skill of workers without a given skill, with ``on_missing_skill="value"``.
    on_missing_skill : str, default "error"
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

    default_skill: float | None = None
    on_missing_skill: str = "error"

    def fit(self, data: Frame, skills: Series | None = None) -> Self:
        """Count votes, by skills if they are given."""
        check_choice("on_missing_skill", self.on_missing_skill, ("error", "ignore", "value"))
        if self.on_missing_skill == "value" and self.default_skill is None:
            raise ValueError("on_missing_skill='value' needs a default_skill")

        def weight(worker: Any) -> float:
            if skills is None or worker in skills.index:
                return 1.0 if skills is None else float(skills[worker])
            if self.on_missing_skill == "error":
                raise ValueError(f"no skill is given of worker {worker!r}")
            return np.nan if self.on_missing_skill == "ignore" else float(self.default_skill or 0.0)

        def vote(workers: list[Any], masks: Mask) -> Mask | None:
            weights = np.array([weight(worker) for worker in workers])
            keep = ~np.isnan(weights)
            if not keep.any():
                return None
            marked: Mask = 2 * np.tensordot(weights[keep], masks[keep], 1) >= weights[keep].sum()
            return marked

        return self._each(data, vote)


@dataclass(repr=False, eq=False)
class SegmentationRASA(_Segmentation):
    """RASA on pixels: workers are weighted by the overlap of their mask with the answer, image by image.

    Parameters
    ----------
    n_iter, tol
        Most iterations, and the relative change of the weighted votes below which they end.

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

    n_iter: int = 10
    tol: float = 1e-5

    def fit(self, data: Frame) -> Self:
        """Find the mask of each task."""
        return self._each(data, self._one)

    def _one(self, workers: list[Any], masks: Mask) -> Mask:
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
                self.loss_history_.append(float(((votes - before) ** 2).sum()) / size if size else 0.0)
                if self.loss_history_[-1] < self.tol:
                    break
            before = votes
        return answer


@dataclass(repr=False, eq=False)
class SegmentationEM(_Segmentation):
    """EM on pixels: each worker has an accuracy, estimated over all images.

    Parameters
    ----------
    n_iter, tol
        Most iterations, and the change of accuracies below which they end.

    Attributes
    ----------
    segmentations_ : Series
        The mask of each task.

    Notes
    -----
    As :class:`manyhands.masks.STAPLE`, which counts a pixel where half of the workers agree as background.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from manyhands.compat.crowdkit import SegmentationEM
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3]})
    >>> log["segmentation"] = [np.array([[1, 0]], bool), np.array([[1, 1]], bool), np.array([[1, 0]], bool)]
    >>> SegmentationEM().fit_predict(log)[1].tolist()
    [[True, False]]
    """

    n_iter: int = 10
    tol: float = 1e-5

    def fit(self, data: Frame) -> Self:
        """Find the mask of each task."""
        data = columns_of(data, "task", "worker", "segmentation")
        answers = Masks.from_arrays(data["task"].tolist(), data["worker"].tolist(), data["segmentation"].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = STAPLE(max_iter=self.n_iter, tol=self.tol).fit(answers)
        return self._publish(dict(zip(model.tasks_.tolist(), [mask > 0 for mask in model.masks_], strict=True)))
