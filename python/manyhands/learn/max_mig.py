"""Max-MIG: joint training of a network and a label aggregator by mutual information."""

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
from manyhands._train.probabilities import log_softmax, softmax_rows
from manyhands._train.settings import Training, TrainingOptions
from manyhands.categorical._makers import as_prior
from manyhands.categorical._passes import expected_counts, judged_by, resembling
from manyhands.categorical.table import Annotations
from manyhands.learn.learner import Learner, mean_prediction
from manyhands.learn.losses import Divergence, mutual_information_gain
from manyhands.learn.targets import vote_shares

__all__ = ["MaxMIG"]

#: Epoch of the check for a common signal, and the minimum gain.
_EPOCHS_TO_AGREE, _SOME_GAIN = 3, 1e-2
#: Share of the prior that is uniform, so that no class is impossible.
_EVEN = 1e-3
#: Size of an answer's embedding in the deep aggregator, and of its hidden layer.
_EMBEDDING, _HIDDEN = 16, 64


class CrowdAggregator(nn.Module):
    """Aggregator of Max-MIG: softmax of a bias plus the sum of the workers' weights of their answers.

    A worker's weights are (n_classes answered, n_classes), of which a label selects one row. The bias is the log prior,
    or a parameter of its own (`free_bias`). With `deep`, a network of the sum of embeddings of the answers adds to the
    softmax what a sum of weights cannot represent. Stores workers · classes² numbers, and workers · classes · 16 more
    with `deep`.
    """

    def __init__(
        self,
        n_workers: int,
        prior: Tensor,
        *,
        learn_prior: bool = False,
        free_bias: bool = False,
        deep: bool = False,
    ) -> None:
        super().__init__()
        k = self.n_classes = len(prior)
        self.table = WorkerTable(n_workers * k, torch.zeros(k))
        self.prior_logits = nn.Parameter(prior.log(), requires_grad=learn_prior)
        self.bias = nn.Parameter(prior.log()) if free_bias else None
        self.embedding = self.network = None
        if deep:
            self.embedding = WorkerTable(n_workers * k, torch.zeros(_EMBEDDING))
            self.embedding.set(torch.randn(n_workers * k, _EMBEDDING))
            last = nn.Linear(_HIDDEN, k)
            # Starts as the weighted average.
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            self.network = nn.Sequential(nn.Linear(_EMBEDDING, _HIDDEN), nn.ReLU(), last)

    def log_prior(self) -> Tensor:
        """Log-probabilities of the classes, (n_classes,)."""
        return F.log_softmax(self.prior_logits, dim=0)

    def place(self, batch: Batch) -> Tensor:
        """Row of the weight table that each label selects, (n_annotations,)."""
        return batch.worker * self.n_classes + batch.label

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities of the classes given the labels of each sample, (n, n_classes)."""
        return self.combined(batch, self.table(self.place(batch)))

    def combined(self, batch: Batch, rows: Tensor) -> Tensor:
        """The same from the selected rows, (n_annotations, n_classes)."""
        start = self.log_prior() if self.bias is None else self.bias
        scores = start.expand(len(batch), -1).index_add(0, batch.sample, rows * batch.weight[:, None])
        if self.embedding is not None and self.network is not None:
            embedded = self.embedding(self.place(batch)) * batch.weight[:, None]
            sums = embedded.new_zeros(len(batch), _EMBEDDING).index_add(0, batch.sample, embedded)
            scores = scores + self.network(sums)
        return log_softmax(scores)

    def set_confusion(self, confusion: Tensor, scale: float = 1.0) -> Tensor:
        """Initialize with the optimal weights of independent workers: scaled log confusion, by answer."""
        weights = scale * confusion.clamp_min(1e-6).log().transpose(1, 2)
        self.table.set(weights)
        return weights.reshape(-1, self.n_classes)

    def reorder(self, order: Tensor) -> None:
        """Permute the classes."""
        self.table.set(self.table.weight[:, order])
        with torch.no_grad():
            self.prior_logits.copy_(self.prior_logits[order])
            if self.bias is not None:
                self.bias.copy_(self.bias[order])
            if self.network is not None:
                last: Any = self.network[-1]
                last.weight.copy_(last.weight[order])
                last.bias.copy_(last.bias[order])


class _Reordered(Outer):
    """Logits with permuted classes."""

    order: Tensor

    def __init__(self, order: Tensor) -> None:
        super().__init__()
        self.register_buffer("order", order)

    @classmethod
    def blank(cls, n_classes: int) -> Self:
        """Return the identity permutation."""
        return cls(torch.arange(n_classes))

    def forward(self, logits: Tensor) -> Tensor:
        return logits[:, self.order]


class MaxMIG(Learner):
    """Max-MIG: network and aggregator maximize the mutual information between features and labels.

    Use it for dependent workers: copies and uninformative answers are ignored if what workers share, apart from the
    class, is not visible in the features.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns logits.
    divergence : {"kl", "pearson", "js"}, default "kl"
        Divergence of the mutual information.
    prior : {"crowd", "learnt", "uniform"} or array, optional
        Class prior: trained from the answers of informative workers (``"crowd"``, the default), trained from uniform
        (``"learnt"``), or fixed (``"uniform"``, the default of ``settings="paper"``, or an array).
    shrinkage : float, optional
        Prior precision of worker weights around their initial values; 0 leaves them free. 1 by default, 0 with
        ``settings="paper"``.
    bias : {"prior", "free"}, default "prior"
        Bias of the aggregator: the log prior, which is optimal in the paper's theorem, or trained on its own.
    aggregator : {"weights", "deep"}, default "weights"
        ``"weights"``: sum of the weights of the answers, as in the paper. ``"deep"`` adds a network of the sum of
        learned embeddings of the answers. Use it if the class shows in combinations of answers, such as whether two
        workers agree, and there are thousands of samples.
    settings : {"manyhands", "paper"}, default "manyhands"
        ``"paper"`` trains as published: weights start at Eq. 2, without shrinkage and restarts, and `lr` holds for all
        parameters unless `worker_lr` is changed from its default.
    **training
        See :class:`~manyhands.learn.Training`.

    Notes
    -----
    Time per epoch O(annotations · classes + samples · batch size · classes) in addition to the backbone.
    ``predict_proba(X, votes)`` is the forecaster ζ of the paper: network times aggregator over prior. The validation
    score is the gain itself.

    The f-mutual information gain rewards agreement of network and aggregator on the same sample and penalizes it on
    different samples. The aggregator starts from log confusion matrices (clipped at 1e-6) estimated from vote shares
    with an empirical Bayes prior, or from `start_from`. With ``settings="paper"`` they follow Eq. 2, over the samples
    that the worker labeled; with few samples, weights of workers with few labels then overfit. If the gain is
    near zero after three epochs, as with many copies of an uninformative worker, training restarts with weights divided
    by the mean number of labels per sample. The gain is invariant to permutations of classes; finally they are permuted
    to maximize the accuracy of informative workers.

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
        prior: Literal["crowd", "learnt", "uniform"] | npt.ArrayLike | None = None,
        shrinkage: float | None = None,
        bias: Literal["prior", "free"] = "prior",
        aggregator: Literal["weights", "deep"] = "weights",
        settings: Literal["manyhands", "paper"] = "manyhands",
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, **training)
        self.divergence = divergence
        self.prior = prior
        self.shrinkage = shrinkage
        self.bias = bias
        self.aggregator = aggregator
        self.settings = settings

    def _check(self) -> None:
        super()._check()
        check_choice("divergence", self.divergence, ("kl", "pearson", "js"))
        check_choice("bias", self.bias, ("prior", "free"))
        check_choice("aggregator", self.aggregator, ("weights", "deep"))
        check_choice("settings", self.settings, ("manyhands", "paper"))
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, ("crowd", "learnt", "uniform"))
        if self.shrinkage is not None:
            check_number("shrinkage", self.shrinkage, least=0)
        if self._as_published:
            self._check_paper()
        if self.batch_size < 2:
            raise ValueError("Max-MIG compares samples with each other: batch_size must be at least 2")

    def _check_paper(self) -> None:
        """Raise for settings that contradict those of the paper."""
        contradicting = {
            "start_from": self.start_from is not None,
            "shrinkage": self.shrinkage not in (None, 0),
            "prior": isinstance(self.prior, str) and self.prior == "crowd",
        }
        for name, contradicts in contradicting.items():
            if contradicts:
                raise ValueError(
                    f'settings="paper" contradicts {name}={getattr(self, name)!r}, which the paper fixes; omit one of '
                    "them"
                )

    @property
    def _as_published(self) -> bool:
        return self.settings == "paper"

    @property
    def _prior_setting(self) -> Any:
        return ("uniform" if self._as_published else "crowd") if self.prior is None else self.prior

    @property
    def _precision(self) -> float:
        """Prior precision of the weights."""
        return float(not self._as_published) if self.shrinkage is None else self.shrinkage

    def _worker_rate(self) -> float:
        return self.lr if self._as_published and self.worker_lr == Training.worker_lr else super()._worker_rate()

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        votes = data.votes
        posterior, confusion = self._initial_estimates(votes)
        prior = torch.from_numpy(self._initial_prior(votes, posterior, confusion)).float()
        crowd = CrowdAggregator(
            votes.n_workers,
            prior,
            learn_prior=isinstance(self._prior_setting, str) and self._prior_setting != "uniform",
            free_bias=self.bias == "free",
            deep=self.aggregator == "deep",
        )
        self._anchor = crowd.set_confusion(torch.from_numpy(confusion).float()).to(self._on)
        _, worker, label = votes.table.columns()
        label_counts = np.bincount(worker.astype(np.int64) * votes.n_classes + label, minlength=len(self._anchor))
        self._label_counts = torch.from_numpy(label_counts).float().clamp_min(1).to(self._on)
        return {"crowd": crowd}

    def _initial_estimates(self, votes: Annotations) -> tuple[Array, Array]:
        """Return the initial posteriors and confusion matrices."""
        start = self._start(votes)
        if start is not None:
            return start
        shares = vote_shares(votes)
        if self._as_published:
            return shares, judged_by(votes.table, shares, np.zeros((votes.n_classes, votes.n_classes)))
        return shares, resembling(votes.table, shares)[0]

    def _initial_prior(self, votes: Annotations, posterior: Array, confusion: Array) -> Array:
        k = votes.n_classes
        if not isinstance(self._prior_setting, str):
            return as_prior(self._prior_setting, k)
        if self._prior_setting != "crowd":
            return np.full(k, 1 / k)
        # Vote shares would be dominated by workers with constant answers, which carry no information.
        answer_counts = expected_counts(votes.table, posterior).sum(axis=1)
        shares = metrics.information(confusion, posterior.mean(axis=0)) @ answer_counts
        total = shares.sum()
        return np.full(k, 1 / k) if total <= 0 else (1 - _EVEN) * shares / total + _EVEN / k

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch != _EPOCHS_TO_AGREE or self._as_published or self._mean_score(data, data.samples) > _SOME_GAIN:
            return
        # The aggregator follows copies of an uninformative worker and is too confident to have a gradient. Scaled
        # weights treat the labels of a sample as copies of one label, and the network restarts.
        scale = len(data.samples) / data.votes.n_annotations
        confusion = torch.from_numpy(self._initial_estimates(data.votes)[1]).float().to(self._on)
        self._anchor = self._crowd.set_confusion(confusion, scale)
        self._network.load_state_dict(plain(self.backbone).state_dict())

    def _after_training(self, data: CrowdData) -> None:
        self._permute_classes(data)
        super()._after_training(data)

    def _permute_classes(self, data: CrowdData) -> None:
        """Permute the classes to maximize the accuracy of workers, because the gain does not depend on class names.

        Workers are weighted by information, since uninformative copies agree with any permutation by chance.
        """
        predicted = self._predicted(data)
        confusion = self._learned_confusion(data, predicted)
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
        # Penalty from the prior of worker weights, unbiased over batches.
        squared_changes = (rows - self._anchor[place]).square().sum(dim=1)
        distance = self._precision / 2 * (squared_changes / self._label_counts[place]).sum() / len(batch)
        return distance - self._gain(log_probs, self._crowd.combined(batch, rows))

    def _state(self) -> dict[str, Tensor]:
        return {"anchor": self._anchor}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._anchor = state["anchor"].to(self._on)

    def _score(self, batch: Batch, log_probs: Tensor) -> Tensor:
        return self._gain(log_probs, self._crowd(batch)).expand(batch.n_annotations)

    @torch.no_grad()
    def _forecast(self, log_probs: Array, votes: Annotations, tasks: Any) -> Array:
        """Return network times aggregator over prior, for rows with annotations."""
        rows = rows_of(votes, len(log_probs), tasks)
        task, worker, label = self._recode(votes).columns()
        worker_codes = self._workers.match(votes._workers)
        # Unknown workers get the average worker's weights.
        k, crowd = len(self._classes), self._crowd
        weight = np.ones(len(task)) if votes.weights is None else np.asarray(votes.table.weights())

        def sums(table: WorkerTable) -> Array:
            """Sum over the labels of each task of the rows that they select."""
            rows = table.weight.detach().double().cpu().numpy().reshape(-1, k, table.weight.shape[1])
            selected = self._carried_over(rows, worker_codes)[worker, label]
            total = np.zeros((votes.n_tasks, selected.shape[1]))
            np.add.at(total, task, selected * weight[:, None])
            return total

        scores = sums(crowd.table)
        if crowd.bias is not None:
            # The forecaster divides by the prior; a tied bias cancels.
            scores += (crowd.bias - crowd.log_prior()).double().cpu().numpy()
        if crowd.network is not None:
            embedded = torch.from_numpy(sums(crowd.embedding)).to(crowd.prior_logits)
            scores += crowd.network(embedded).double().cpu().numpy()
        out = log_probs.copy()
        out[rows] += scores
        return softmax_rows(out)
