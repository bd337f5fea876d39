"""Max-MIG: a network and an aggregator of the labels that agree as much as they can, and no more."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands import _core, metrics
from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData, rows_of
from manyhands._train.files import Outer, Topped
from manyhands._train.large_tables import WorkerTable
from manyhands._train.module_calls import plain
from manyhands._train.probabilities import log_softmax, normalised
from manyhands._train.settings import TrainingOptions
from manyhands.categorical._makers import as_prior
from manyhands.categorical._passes import expected_counts, resembling
from manyhands.categorical.table import Annotations
from manyhands.learn.learner import Learner, mean_prediction
from manyhands.learn.losses import Divergence, mutual_information_gain
from manyhands.learn.targets import vote_shares

__all__ = ["MaxMIG"]

#: Epochs after which network and aggregator should have something in common, and how little is nothing.
_EPOCHS_TO_AGREE, _SOME_GAIN = 3, 1e-2
#: How much of the prior is spread evenly, so that no class is impossible.
_EVEN = 1e-3


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

    def place(self, batch: Batch) -> Tensor:
        """Which row of the weights each label picks, (n_annotations,)."""
        return batch.worker * self.n_classes + batch.label

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities of the classes given each sample's labels, (n, n_classes)."""
        return self.combined(batch, self.table(self.place(batch)))

    def combined(self, batch: Batch, rows: Tensor) -> Tensor:
        """The same from the rows that the labels pick, (n_annotations, n_classes)."""
        start = self.log_prior().expand(len(batch), -1)
        return log_softmax(start.index_add(0, batch.sample, rows * batch.weight[:, None]))

    def set_confusion(self, confusion: Tensor, scale: float = 1.0) -> Tensor:
        """Start from the weights that are right for independent workers: logarithms of confusion, by answer, scaled."""
        weights = scale * confusion.clamp_min(1e-6).log().transpose(1, 2)
        self.table.set(weights)
        return weights.reshape(-1, self.n_classes)

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
        Of the classes: ``"crowd"``, learnt, from what workers say whose answers tell something; ``"learnt"``, from
        uniform; ``"uniform"`` or an array, fixed.
    shrinkage
        How firmly a worker's weights are held to those they start from: as by a normal prior of variance one over this.
        0 sets them free.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    The aggregator starts from logarithms of confusion matrices judged by vote shares (Eq. 2 of the paper), in which
    workers resemble each other as much as the crowd says they do, or from those of `start_from`; numbers below 1e-6
    count as that. The paper keeps the prior uniform and the weights free, ``prior="uniform", shrinkage=0``: with some
    hundred samples the weights of a worker with few labels then fit whatever the network says, and classes that are
    rare grow. If after three epochs network and aggregator have nothing in common, as where most workers
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
        prior: Literal["crowd", "learnt", "uniform"] | npt.ArrayLike = "crowd",
        shrinkage: float = 1.0,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.divergence = divergence
        self.prior = prior
        self.shrinkage = shrinkage

    def _check(self) -> None:
        super()._check()
        check_choice("divergence", self.divergence, ("kl", "pearson", "js"))
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, ("crowd", "learnt", "uniform"))
        check_number("shrinkage", self.shrinkage, least=0)
        if self.batch_size < 2:
            raise ValueError("Max-MIG compares samples with one another: batch_size must be at least 2")

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        posterior, confusion = self._first(votes)
        prior = torch.from_numpy(self._first_prior(votes, posterior, confusion)).float()
        learn = isinstance(self.prior, str) and self.prior != "uniform"
        crowd = CrowdAggregator(votes.n_workers, prior, learn_prior=learn)
        self._anchor = crowd.set_confusion(torch.from_numpy(confusion).float()).to(self._on)
        _, worker, label = votes.table.columns()
        given = np.bincount(worker.astype(np.int64) * votes.n_classes + label, minlength=len(self._anchor))
        self._given = torch.from_numpy(given).float().clamp_min(1).to(self._on)
        return {"crowd": crowd}

    def _first(self, votes: Annotations) -> tuple[Array, Array]:
        """Posteriors and confusion matrices to start from."""
        start = self._start(votes)
        if start is not None:
            return start
        shares = vote_shares(votes)
        return shares, resembling(votes.table, shares)[0]

    def _first_prior(self, votes: Annotations, posterior: Array, confusion: Array) -> Array:
        k = votes.n_classes
        if not isinstance(self.prior, str):
            return as_prior(self.prior, k)
        if self.prior != "crowd":
            return np.full(k, 1 / k)
        # Shares of the votes would follow those who always say the same, and tell nothing.
        said = expected_counts(votes.table, posterior).sum(axis=1)
        shares = metrics.information(confusion, posterior.mean(axis=0)) @ said
        total = shares.sum()
        return np.full(k, 1 / k) if total <= 0 else (1 - _EVEN) * shares / total + _EVEN / k

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch != _EPOCHS_TO_AGREE or self._mean_score(data, data.samples) > _SOME_GAIN:
            return
        # The aggregator follows a crowd of copies that knows nothing, too sure of itself to have a gradient. As if a
        # sample's labels were copies of one, it has; and the network has unlearnt to tell samples apart.
        scale = len(data.samples) / data.votes.n_annotations
        confusion = torch.from_numpy(self._first(data.votes)[1]).float().to(self._on)
        self._anchor = self._crowd.set_confusion(confusion, scale)
        self._network.load_state_dict(plain(self.backbone).state_dict())

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
            self._parts_or_fail()["network"] = Topped(self._network, _Reordered(order))
            self._crowd.reorder(order)

    @property
    def _crowd(self) -> Any:
        return self._parts_or_fail()["crowd"]

    def _gain(self, log_probs: Tensor, aggregated: Tensor) -> Tensor:
        return mutual_information_gain(log_probs, aggregated, self._crowd.log_prior().exp(), self.divergence)

    def _loss(self, batch: Batch, log_probs: Tensor) -> Tensor:
        place = self._crowd.place(batch)
        rows = self._crowd.table(place)
        # What the prior of the workers' weights takes off a sample's gain, right on average over batches.
        moved = (rows - self._anchor[place]).square().sum(dim=1)
        distance = self.shrinkage / 2 * (moved / self._given[place]).sum() / len(batch)
        return distance - self._gain(log_probs, self._crowd.combined(batch, rows))

    def _state(self) -> dict[str, Tensor]:
        return {"anchor": self._anchor}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._anchor = state["anchor"].to(self._on)

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._gain(log_probs, self._crowd(batch)).expand(batch.n_annotations)

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
