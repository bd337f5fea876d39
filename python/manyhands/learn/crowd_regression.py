"""CrowdRegression: a regression network with scale, bias and noise per worker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from manyhands._base import arrow
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array, Progress
from manyhands._base.names import Names
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import NetworkEstimator
from manyhands._train.files import Outer, Topped
from manyhands._train.module_calls import run
from manyhands._train.settings import TrainingOptions
from manyhands.categorical.table import Annotations
from manyhands.learn.shrunk import ShrunkLearner
from manyhands.numeric.table import Ratings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CrowdRegression"]

_LOG_2_PI = math.log(2 * math.pi)
#: Rows of the worker table.
_SCALE, _BIAS, _LOG_NOISE = range(3)


class RatedData(CrowdData):
    """Samples with numeric answers in place of labels."""

    def __init__(self, X: Any, ratings: Any, tasks: Any = None) -> None:
        ratings = ratings if isinstance(ratings, Ratings) else Ratings.from_frame(ratings)
        rated, workers, values = ratings.codes()
        order = np.lexsort((workers, rated))
        weights = None if ratings.weights is None else ratings.weights[order]
        sizes = (ratings.n_tasks, ratings.n_workers, 1)
        table = made_table(rated[order], workers[order], np.zeros(len(rated), np.uint16), weights, *sizes)
        votes = Annotations(table, ratings._tasks, ratings._workers, Names(np.zeros(1, np.int64)))
        super().__init__(X, votes, tasks)
        #: Values in annotation order, (n_annotations, n_dims).
        self.values = values.reshape(len(rated), -1)[order]


class _Rescaled(Outer):
    """Rescales outputs to the scale of the ratings."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    @classmethod
    def blank(cls, n_classes: int) -> Self:
        return cls(torch.zeros(1), torch.ones(1))

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        # The number of dimensions is only known from the file.
        for name in ("mean", "deviation"):
            if f"{prefix}{name}" in state_dict:
                setattr(self, name, torch.empty_like(state_dict[f"{prefix}{name}"]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        return self.mean + self.deviation * x.reshape(len(x), len(self.mean)).float()


class CrowdRegression(ShrunkLearner):
    r"""Regression network: worker m answers :math:`s_m f(x) + b_m` with Gaussian noise :math:`\sigma_m`.

    Use it for numeric answers with features.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns one number per dimension of the ratings, (n,) or (n, n_dims).
    shrink : float, default 4.0
        Prior precision of worker parameters, for ratings with unit variance: scales are shrunk to 1, biases to 0, and
        log-noises (with a quarter of the precision) to the average.
    **training
        See :class:`~manyhands.learn.Training`; `reduction` and `start_from` are ignored.

    Notes
    -----
    Time per epoch O(ratings) in addition to the backbone; only the workers of a batch are updated. Ratings are
    standardized for training. The scale of the truth is not identified by the ratings; shrinkage sets it to that of the
    average worker.

    References
    ----------
    F. Rodrigues and F. Pereira, "Deep learning from crowds", AAAI 2018.

    Examples
    --------
    >>> import numpy as np, torch, manyhands as mh
    >>> crowd = mh.simulate(200, 10, seed=1, kind="numeric")
    >>> X = np.stack([crowd.truth, crowd.truth**2], axis=1)
    >>> model = mh.learn.CrowdRegression(torch.nn.Linear(2, 1), max_epochs=30, lr=0.1).fit(X, crowd.log)
    >>> bool(np.corrcoef(model.predict(X), crowd.truth)[0, 1] > 0.95)
    True
    """

    _call: ClassVar[str] = "fit(X, ratings)"

    def __init__(self, backbone: nn.Module, *, shrink: float = 4.0, **training: Unpack[TrainingOptions]) -> None:
        super().__init__(backbone, shrink=shrink, **training)

    # -------------------------------------------------------------------------------------------- training

    def fit(
        self,
        X: Any,
        ratings: Any,
        *,
        tasks: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on features and ratings.

        Parameters
        ----------
        X : array, tensor, sparse matrix or Dataset
            One row per sample: a NumPy array, torch tensor, SciPy sparse matrix or map-style ``Dataset``.
        ratings : Ratings or frame
            Numeric answers; frames need well-known column names.
        tasks : list of ids, optional
            Task id of each row of X. By default, task ids are row numbers.
        resume, overwrite, progress
            As in :meth:`Learner.fit`.
        """
        return self._fit(lambda: RatedData(X, ratings, tasks), resume=resume, overwrite=overwrite, progress=progress)

    def _adopt(self, data: CrowdData) -> None:
        super()._adopt(data)
        if isinstance(data, RatedData):
            self._mean, deviation = data.values.mean(axis=0), data.values.std(axis=0)
            self._deviation = np.where(deviation > 0, deviation, 1.0)
            self._take_values(data.values)

    def _take_values(self, values: Array) -> None:
        self._values = torch.from_numpy((values - self._mean) / self._deviation).float()

    _saved_state: ClassVar[dict[str, bool]] = NetworkEstimator._saved_state | {"_mean": False, "_deviation": False}

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        self._on_device = self._values.to(self._on) if hasattr(self, "_values") else None
        return super()._make_parts(data)

    def _average(self) -> tuple[Tensor, Tensor]:
        row = torch.zeros(3, len(self._mean))
        row[_SCALE] = 1.0
        return row, torch.zeros(len(self._mean))

    def _distance(self, rows: Tensor) -> Tensor:
        far = (rows[:, _SCALE] - 1) ** 2 + rows[:, _BIAS] ** 2 + rows[:, _LOG_NOISE] ** 2 / 4
        return far.sum(dim=1)

    def _forward(self, x: Any) -> Tensor:
        values = run(self._network, x).float()
        n_dims = len(self._mean)
        if values.numel() != len(values) * n_dims:
            expected = "one number" if n_dims == 1 else f"{n_dims} numbers"
            raise ValueError(
                f"the backbone must return {expected} per sample, but returned shape {tuple(values.shape)}"
            )
        return values.reshape(len(values), n_dims)

    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        assert self._on_device is not None
        rows = self._rows(batch.worker)
        log_noise = rows[:, _LOG_NOISE] + self._of_crowd()
        residuals = self._on_device[batch.index] - rows[:, _SCALE] * output[batch.sample] - rows[:, _BIAS]
        density: Tensor = -0.5 * (residuals * torch.exp(-log_noise)) ** 2 - log_noise - 0.5 * _LOG_2_PI
        return density.sum(dim=1)

    def _after_training(self, data: CrowdData) -> None:
        scale = torch.from_numpy(np.stack([self._mean, self._deviation])).float().to(self._on)
        self._parts_or_fail()["network"] = Topped(self._network, _Rescaled(*scale))

    # ---------------------------------------------------------------------------------------------- results

    def predict(self, X: Any) -> Array:
        """Return the value of each row on the scale of the average worker, shape (n,), or (n, n_dims) for points."""
        values = self._of_network(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def score(self, X: Any, y: npt.ArrayLike) -> float:
        """Return R² of the predictions, averaged over dimensions."""
        truth = np.asarray(y, np.float64)
        residual_squares = ((truth - self.predict(X)) ** 2).sum(axis=0)
        total_squares = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
        if np.any(total_squares == 0):
            raise ValueError("y is constant: R² is not defined")
        return float(np.mean(1 - residual_squares / total_squares))

    def _of_workers(self) -> dict[str, Array]:
        """Worker parameters on the scale of the ratings: an answer is bias + scale · value."""
        self._fitted()
        table: Any = self._parts_or_fail()["workers"]
        rows = table.weight.detach().double().cpu().numpy().reshape(len(self._workers), 3, -1)
        noise = np.exp(rows[:, _LOG_NOISE] + self._of_crowd().detach().double().cpu().numpy())
        scale = rows[:, _SCALE]
        parameters = {
            "bias": self._mean * (1 - scale) + self._deviation * rows[:, _BIAS],
            "scale": scale,
            "noise": noise * self._deviation,
        }
        return {name: values[:, 0] if values.shape[1] == 1 else values for name, values in parameters.items()}

    @property
    def bias_(self) -> Array:
        """Bias of each worker, shape (n_workers,) or (n_workers, n_dims): an answer is bias + scale · value."""
        return self._of_workers()["bias"]

    @property
    def scale_(self) -> Array:
        """Scale of each worker, same shape as ``bias_``."""
        return self._of_workers()["scale"]

    @property
    def noise_(self) -> Array:
        """Error standard deviation of each worker, same shape as ``bias_``."""
        return self._of_workers()["noise"]

    def workers_frame(self) -> pa.Table:
        """Return one row per worker: ratings, bias, scale and noise, for each dimension if there are several."""
        self._fitted()
        columns: dict[str, Any] = {"worker": self._workers.arrow(), "n_answers": self._n_labels}
        for name, values in self._of_workers().items():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}
        return arrow.table(columns)
