"""Max-MIG: a network and an aggregator of the labels that agree as much as they can, and no more."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands import _core, metrics
from manyhands.checks import check_choice
from manyhands.estimator import Array
from manyhands.learn.learner import Learner, mean_prediction
from manyhands.learn.losses import Divergence, mutual_information_gain
from manyhands.learn.targets import vote_shares
from manyhands.simulate._makers import as_prior
from manyhands.table.annotations import Annotations
from manyhands.train.batch import Batch, CrowdData, rows_of
from manyhands.train.files import Outer
from manyhands.train.lazy import WorkerTable
from manyhands.train.probabilities import estimated_confusion, normalised
from manyhands.train.settings import TrainingOptions

__all__ = ["MaxMIG"]

#: Epochs after which network and aggregator should have something in common, and how little is nothing.
_EPOCHS_TO_AGREE, _SOME_GAIN = 3, 1e-2


class CrowdAggregator(nn.Module):
    """Max-MIG's aggregator: softmax of the workers' weights of their answers, summed, plus the log prior.

    A worker's weights are (n_classes answered, n_classes): a label picks one row. Numbers kept: workers · classes².
    """

    def __init__(self, n_workers: int, prior: Tensor, *, learn_prior: bool = False) -> None:
        super().__init__()
        self.n_classes = len(prior)
        self.table = WorkerTable(n_workers * self.n_classes, torch.zeros(self.n_classes))
        self.prior_logits = nn.Parameter(prior.log(), requires_grad=learn_prior)

    def log_prior(self) -> Tensor:
        """Log-probabilities of the classes, (n_classes,)."""
        return F.log_softmax(self.prior_logits, dim=0)

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities of the classes given each sample's labels, (n, n_classes)."""
        rows = self.table(batch.worker * self.n_classes + batch.label) * batch.weight[:, None]
        start = self.log_prior().expand(len(batch), -1)
        return F.log_softmax(start.index_add(0, batch.sample, rows), dim=1)

    def set_confusion(self, confusion: Tensor, scale: float = 1.0) -> None:
        """Start from the weights that are right for independent workers: logarithms of confusion, by answer, scaled."""
        self.table.set(scale * confusion.clamp_min(1e-6).log().transpose(1, 2))

    def reorder(self, order: Tensor) -> None:
        """Give the classes another order."""
        self.table.set(self.table.weight[:, order])
        with torch.no_grad():
            self.prior_logits.copy_(self.prior_logits[order])


class _Reordered(Outer):
    """Logits with the classes in another order."""

    order: Tensor

    def __init__(self, order: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order)

    @classmethod
    def blank(cls, n_classes: int) -> Self:
        """One that changes nothing."""
        return cls(torch.arange(n_classes))

    def forward(self, logits: Tensor) -> Tensor:
        return logits[:, self.order]


class MaxMIG(Learner):
    """Max-MIG: network and crowd are two views of the class, and learn what they have in common.

    The f-mutual information gain rewards agreement of network and aggregator on the same sample and punishes it on
    different ones. Workers may depend on one another in any way as long as what they share, apart from the class, is
    not to be seen in the sample: copies and naive answers do no harm.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns logits.
    divergence
        ``"kl"``, ``"pearson"`` or ``"js"``.
    prior
        Of the classes: ``"uniform"`` or an array, fixed; ``"learnt"``, from uniform.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    The aggregator starts from logarithms of confusion matrices judged by vote shares (Eq. 2 of the paper, with
    pseudo-counts: 0.1 on the diagonal of each worker's matrix and 0.01 beside it) or those of `start_from`; numbers
    below 1e-6 count as that. If after three epochs network and aggregator have nothing in common, as where most workers
    copy one who knows nothing, both start again, it from weights divided by the mean number of labels a sample has. The
    gain does not tell how classes are named: in the end they are named so that informative workers are right as often
    as possible.

    Time per epoch O(annotations · classes + samples · batch size · classes) beside the backbone. ``predict_proba(X,
    votes)`` is the paper's forecaster ζ, of network and aggregator over the prior. The score on held-out samples is the
    gain itself.

    References
    ----------
    P. Cao, Y. Xu, Y. Kong and Y. Wang, "Max-MIG: an information theoretic approach for joint learning from crowds",
    ICLR 2019.
    """

    def __init__(
        self,
        backbone: nn.Module,
        *,
        divergence: Divergence = "kl",
        prior: Literal["uniform", "learnt"] | npt.ArrayLike = "uniform",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.divergence = divergence
        self.prior = prior

    def _check(self) -> None:
        super()._check()
        check_choice("divergence", self.divergence, ("kl", "pearson", "js"))
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, ("uniform", "learnt"))
        if self.batch_size < 2:
            raise ValueError("Max-MIG compares samples with one another: batch_size must be at least 2")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        k = votes.n_classes
        prior = np.full(k, 1 / k) if isinstance(self.prior, str) else as_prior(self.prior, k)
        learn = isinstance(self.prior, str) and self.prior == "learnt"
        crowd = CrowdAggregator(votes.n_workers, torch.from_numpy(prior).float(), learn_prior=learn)
        crowd.set_confusion(self._first_confusion(votes))
        return {"crowd": crowd}

    def _first_confusion(self, votes: Annotations) -> Tensor:
        start = self._start(votes)
        return torch.from_numpy(estimated_confusion(votes, vote_shares(votes)) if start is None else start[1]).float()

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch != _EPOCHS_TO_AGREE or self._mean_score(data, data.samples) > _SOME_GAIN:
            return
        # The aggregator follows a crowd of copies that knows nothing, too sure of itself to have a gradient. As if a
        # sample's labels were copies of one, it has; and the network has unlearnt to tell samples apart.
        scale = len(data.samples) / data.votes.n_annotations
        self._crowd.set_confusion(self._first_confusion(data.votes).to(self._on), scale)
        self._network.load_state_dict(self.backbone.state_dict())

    def _after_training(self, data: CrowdData) -> None:
        self._name_classes(data)
        super()._after_training(data)

    def _name_classes(self, data: CrowdData) -> None:
        """Name the classes so that informative workers are right as often as possible: the gain is blind to names.

        Weighed by information, since a crowd of copies that knows nothing agrees with either naming by chance.
        """
        predicted = self._predicted(data)
        confusion = self._learnt_confusion(data, predicted)
        weight = self._n_labels * metrics.information(confusion, mean_prediction(data, predicted))
        mean = np.einsum("m,mkl->kl", weight, confusion)
        order = torch.from_numpy(np.argsort(_core.assignment(mean))).to(self._on)
        if not torch.equal(order, torch.arange(len(order), device=self._on)):
            self._parts_or_fail()["network"] = nn.Sequential(self._network, _Reordered(order))
            self._crowd.reorder(order)

    @property
    def _crowd(self) -> Any:
        return self._parts_or_fail()["crowd"]

    def _gain(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return mutual_information_gain(log_probs, self._crowd(batch), self._crowd.log_prior().exp(), self.divergence)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return -self._gain(batch, log_probs)

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._gain(batch, log_probs).expand(batch.n_annotations)

    @torch.no_grad()
    def _forecast(self, log_probs: Array, votes: Annotations, tasks: Any) -> Array:
        """Network times aggregator over prior, for rows that have annotations."""
        rows = rows_of(votes, len(log_probs), tasks)
        task, worker, label = self._recode(votes).columns()
        known = self._workers.match(votes._workers)
        # The average worker's weights are those of a worker nobody knows.
        k = len(self._classes)
        weights = self._crowd.table.weight.detach().double().cpu().numpy().reshape(-1, k, k)
        table = self._carried_over(weights, known)
        weight = np.ones(len(task)) if votes.weights is None else votes.table.weights()
        scores = np.zeros((votes.n_tasks, k))
        np.add.at(scores, task, table[worker, label] * np.asarray(weight)[:, None])
        out = log_probs.copy()
        out[rows] += scores
        return normalised(out)
