"""Experts known by sets of their answers, so that those who were not in training can be asked too."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands._base.checks import check_number, preview
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.estimator import PREDICTED
from manyhands._train.module_calls import run
from manyhands._train.probabilities import estimated_confusion
from manyhands._train.settings import explain_errors
from manyhands._train.trunk import n_features, split
from manyhands.categorical.table import Annotations
from manyhands.defer.data import CaseData, truth_of
from manyhands.defer.deferral import Deferral, Views
from manyhands.defer.experts import EMBEDDING

__all__ = ["SetDeferral"]

#: Units of the hidden layers.
_HIDDEN = 32
#: Least probability that an expert is right, or wrong.
_LEAST = 1e-4


class Known(NamedTuple):
    """Information about experts in sets of answers."""

    #: Accuracy in each class, (n_experts, n_classes), shrunk to that of all experts.
    accuracy: Tensor
    #: (n_experts, embedding)
    embedding: Tensor


class SetEncoder(nn.Module):
    """What an expert is like, from a set of answers, whatever their order: functions of sums over the set.

    An element is what the classifier makes of the case, its true class, the answer, and the class if they are the same;
    small networks make an embedding of the mean element. Right answers are counted in each class next to that, and with
    the learned number of pseudo-counts of the average expert, they are the expert's accuracy.
    """

    average: Tensor

    def __init__(self, n_features: int, average: Tensor) -> None:
        super().__init__()
        self.n_classes = len(average)
        #: Accuracy of all experts in each class.
        self.register_buffer("average", average)
        #: Logarithm of the number of pseudo-counts in each class.
        self.strength = nn.Parameter(torch.zeros(()))
        self.element = nn.Sequential(
            nn.Linear(n_features + 3 * self.n_classes, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU()
        )
        self.summary = nn.Sequential(nn.Linear(_HIDDEN + 1, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, EMBEDDING))

    @property
    def width(self) -> int:
        """How many numbers an element has."""
        return _HIDDEN + 2 * self.n_classes

    def elements(self, features: Tensor, answer: Tensor, truth: Tensor) -> Tensor:
        """What single answers add to a set, (n, width)."""
        answer_rows, true = (F.one_hot(codes, self.n_classes).to(features) for codes in (answer, truth))
        right = answer_rows * true
        return torch.cat([self.element(torch.cat([features, answer_rows, true, right], dim=1)), true, right], dim=1)

    def forward(self, sums: Tensor) -> Known:
        """Estimate experts from the sums over their sets, (n_experts, width)."""
        total, n_asked, right = sums.split([_HIDDEN, self.n_classes, self.n_classes], dim=1)
        count = n_asked.sum(dim=1, keepdim=True)
        embedding = self.summary(torch.cat([total / count.clamp_min(1), count.log1p()], dim=1))
        imaginary = self.strength.exp()
        return Known((right + imaginary * self.average) / (n_asked + imaginary), embedding)


class RightGivenExpert(nn.Module):
    """Whether an expert is right in a case, a logit for each pair: by the accuracy in each class, and what is learned.

    The former is averaged with what the classifier thinks of the class. The latter begins at zero.
    """

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(n_features + n_classes, _HIDDEN), nn.ReLU())
        self.average = nn.Linear(_HIDDEN, 1)
        self.patterns = nn.Linear(_HIDDEN, EMBEDDING)
        for layer in (self.average, self.patterns):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, log_probs: Tensor, known: Known) -> Tensor:
        """Logits of all pairs of cases and experts, (n, n_experts)."""
        expected = torch.logit(log_probs.exp() @ known.accuracy.T, eps=_LEAST)
        hidden = self.hidden(torch.cat([features, log_probs], dim=1))
        logits: Tensor = expected + self.average(hidden) + self.patterns(hidden) @ known.embedding.T
        return logits


class SetDeferral(Deferral):
    """Deferral to experts known by a few answers: those who were not in training can be asked like the others.

    A classifier, and a model of whether an expert is right, which knows the expert by an embedding of a set of their
    answers to cases of known truth. While training the sets are drawn again each step, small and large, without the
    cases they are judged by. Afterwards :meth:`with_experts` takes further experts without any training.

    Parameters
    ----------
    classifier, coverage, workload
        See :class:`~manyhands.defer.Deferral`; the workload is kept by decisions only. The classifier must be an
        ``nn.Sequential`` or have parts named ``trunk`` and ``head``.
    context : int, default 50
        Greatest number of answers in a set while training.
    **settings
        See :class:`~manyhands.defer.Deferral` and :class:`~manyhands.learn.Training`.

    Notes
    -----
    How well it knows newcomers depends on how many experts it was trained with, rather than on how many answers each
    gave: they must be like those. Time per epoch: the classifier's and, with small layers, `context` elements for each
    expert of a batch; the features of all cases are kept, cases × features.

    References
    ----------
    D. Tailor et al., "Learning to defer to a population: a meta-learning approach", AISTATS 2024. M. Zaheer et al.,
    "Deep sets", NeurIPS 2017.

    Examples
    --------
    >>> import torch, manyhands as mh
    >>> X, y = mh.categorical.synthetic.gaussians(400, 3)
    >>> answers = mh.simulate(truth=y, n_workers=6, n_classes=3, labels_per_task=2).log
    >>> classifier = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> team = mh.defer.SetDeferral(classifier, coverage=0.5, max_epochs=2).fit(X, y, answers)
    >>> few = mh.Annotations.from_arrays(range(20), [6] * 20, y[:20])  # expert 6 has answered twenty cases
    >>> larger = team.with_experts(X[:20], y[:20], few)
    >>> larger.experts_.tolist()
    [0, 1, 2, 3, 4, 5, 6]
    >>> larger.expected_accuracy(X).shape
    (400, 8)
    """

    _networks: ClassVar[tuple[str, ...]] = ("network", "encoder", "right")
    _saved_state: ClassVar[dict[str, bool]] = Deferral._saved_state | {"_sums": True}

    #: Over all answers of each expert, (n_experts, width of an element).
    _sums: Tensor

    def __init__(self, classifier: nn.Module, *, context: int = 50, **settings: Any) -> None:
        super().__init__(classifier, None, **settings)
        self.context = context

    def _check(self) -> None:
        super()._check()
        check_number("context", self.context, least=1, whole=True)

    def _gate_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        width = n_features(self.classifier, data)
        average = self._expert_accuracy.mean(dim=0)
        return {"encoder": SetEncoder(width, average), "right": RightGivenExpert(width, len(self._classes))}

    @property
    def _encoder(self) -> SetEncoder:
        encoder = self._parts_or_fail()["encoder"]
        assert isinstance(encoder, SetEncoder)
        return encoder

    # -------------------------------------------------------------------------------------------- training

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        """Features of all cases as the classifier sees them now, and each expert's answers in a new order."""
        self._features = self._features_of(data)
        order = torch.randperm(len(data._workers))
        #: Answers by expert, in random order: of each its place among all.
        self._by_expert = order[torch.argsort(data._workers[order], stable=True)]
        self._begin = torch.searchsorted(
            data._workers[self._by_expert].contiguous(), torch.arange(len(self._workers) + 1)
        )
        self._answers = _cases(data), data._labels
        assert data.truth is not None
        self._truth = data.truth

    def _features_of(self, data: CrowdData) -> Tensor:
        """What the trunk makes of each case, (n, features), on the CPU."""
        self._parts_or_fail().eval()
        context_rows = torch.cat(
            [self._seen(batch.x).cpu() for batch in data.batches(data.samples, PREDICTED, self._on)]
        )
        features = context_rows.new_zeros(len(data), context_rows.shape[1])
        features[data.samples] = context_rows
        return features

    @torch.no_grad()
    def _seen(self, x: Any) -> Tensor:
        """What the trunk makes of some cases, (n, features); nothing is learned here."""
        with explain_errors(self._network, x):
            return _standardize(run(split(self._network)[0], x))

    def _forward(self, x: Any) -> Views:
        """In training, features take the place of the router: its logits depend on the sets that are drawn."""
        if not self._parts_or_fail().training:
            return self._views(x)
        features, classes = self._features_and_classes(x)
        return Views(classes, features)

    def _features_and_classes(self, x: Any) -> tuple[Tensor, Tensor]:
        """Features, from which nothing goes back to the classifier, and logits of the classes."""
        trunk, head = split(self._network)
        features = run(trunk, x)
        return _standardize(features.detach()), self._checked_classes(head(features))

    def _loss(self, batch: Batch, views: Views) -> Tensor:
        truth = truth_of(batch)
        own = F.cross_entropy(views.classes, truth)
        if not batch.n_annotations:
            return own
        experts, which = torch.unique(batch.worker, return_inverse=True)
        context = self._encoder(self._drawn(experts.cpu(), batch.tasks.cpu()))
        logits = self._right_logits(views.gate, views.classes, context)[batch.sample, which]
        right = (batch.label == truth[batch.sample]).to(logits)
        return own + F.binary_cross_entropy_with_logits(logits, right)

    def _drawn(self, experts: Tensor, cases: Tensor) -> Tensor:
        """Sums over sets drawn from the answers of some experts, none of them of the cases given."""
        begin, number = self._begin[experts], self._begin[experts + 1] - self._begin[experts]
        # As often of one or two answers as of half of the most: the network must also learn from few answers.
        size = (self.context ** torch.rand(len(experts))).ceil().long().clamp(max=number)
        start = (torch.rand(len(experts)) * number).long()
        place = torch.arange(self.context)[None].expand(len(experts), -1)
        is_drawn = place < size[:, None]
        # A window of a random order, which begins again at its end.
        index = self._by_expert[(begin[:, None] + (start[:, None] + place) % number[:, None])[is_drawn]]
        owner = torch.arange(len(experts))[:, None].expand_as(is_drawn)[is_drawn]
        case, label = (column[index] for column in self._answers)
        keep = ~torch.isin(case, cases)
        case, label, owner = case[keep], label[keep], owner[keep]
        return self._summed(self._features[case], label, self._truth[case], owner, len(experts))

    def _summed(self, features: Tensor, label: Tensor, truth: Tensor, owner: Tensor, n: int) -> Tensor:
        """Sums of elements over the sets of `n` experts, (n, width)."""
        features, label, truth, owner = (part.to(self._on) for part in (features, label, truth, owner))
        elements = self._encoder.elements(features, label, truth)
        return elements.new_zeros(n, elements.shape[1]).index_add(0, owner, elements)

    @torch.no_grad()
    def _gather(self, data: CrowdData) -> Tensor:
        """Sums over all answers of each expert of some data, (n_experts, width)."""
        assert data.truth is not None
        features, cases, n = self._features_of(data), _cases(data), data.votes.n_workers
        sums = torch.zeros(n, self._encoder.width, device=self._on)
        for part in torch.arange(len(cases)).split(PREDICTED):
            case = cases[part]
            sums += self._summed(features[case], data._labels[part], data.truth[case], data._workers[part], n)
        return sums

    def _mean_score(self, data: CrowdData, samples: Tensor) -> float:
        self._sums = self._gather(data.without(self._held_out))
        return super()._mean_score(data, samples)

    def _after_training(self, data: CrowdData) -> None:
        # As large as the data, and of training only.
        for name in ("_features", "_by_expert", "_begin", "_answers", "_truth"):
            vars(self).pop(name, None)
        self._sums = self._gather(data.without(self._held_out))
        super()._after_training(data)

    # ------------------------------------------------------------------------------------------ prediction

    def _views(self, x: Any) -> Views:
        features, classes = self._features_and_classes(x)
        return Views(classes, self._right_logits(features, classes, self._encoder(self._sums)))

    def _right_logits(self, features: Tensor, classes: Tensor, known: Known) -> Tensor:
        """Whether each expert is right in each case, (n, n_experts); nothing goes back to the classifier."""
        logits: Tensor = self._parts_or_fail()["right"](features, F.log_softmax(classes, dim=1).detach(), known)
        return logits

    def _right(self, views: Views) -> Tensor:
        return self._scores(views).exp()

    def _scores(self, views: Views) -> Tensor:
        own = F.log_softmax(views.classes, dim=1).max(dim=1, keepdim=True).values
        return torch.cat([F.logsigmoid(views.gate), own], dim=1)

    @property
    def embeddings_(self) -> Tensor:
        """What is known of each expert, (n_experts, embedding)."""
        self._fitted()
        with torch.no_grad():
            embeddings: Tensor = self._encoder(self._sums).embedding.cpu()
        return embeddings

    def with_experts(self, X: Any, y: Any, votes: Any, *, tasks: Any = None) -> Self:
        """The same team with further experts, who are known by their answers to some cases of known truth.

        Nothing is trained, and this team stays as it is. Thresholds have to be calibrated again, with ``calibrate``.

        Parameters
        ----------
        X, y, votes, tasks
            As of ``fit``: ten to fifty answers per expert suffice. Experts of this team are rejected.

        Returns
        -------
        SetDeferral
            Whose options are the experts of this one, the further ones, and the classifier.
        """
        self._fitted()
        data = CaseData(X, y, votes, tasks)
        has_context = self._workers.match(data.votes._workers) >= 0
        if has_context.any():
            raise ValueError(f"{preview(data.votes.workers[has_context].tolist())} are experts of this team already")
        codes = self._classes.match(data.votes._classes)
        if (codes < 0).any():
            strange = preview(data.votes.classes[codes < 0].tolist())
            raise ValueError(f"the team knows the classes {preview(self.classes_.tolist())} and not {strange}")
        assert data.truth is not None
        data._labels, data.truth = (torch.from_numpy(codes)[column] for column in (data._labels, data.truth))
        larger = copy.copy(self)
        larger._workers = self._workers.followed_by(data.votes._workers)
        larger._sums = torch.cat([self._sums, self._gather(data)])
        larger._n_labels = np.concatenate([self._n_labels, data.votes.labels_per_worker])
        larger._calibration = {}
        larger._add_confusion(data)
        return larger

    def _add_confusion(self, data: CrowdData) -> None:
        """Judge further experts as those of ``fit`` were."""
        k = len(self._classes)
        votes = Annotations.from_codes(
            _cases(data).numpy(),
            data._workers.numpy(),
            data._labels.numpy(),
            n_tasks=len(data),
            n_workers=data.votes.n_workers,
            n_classes=k,
        )
        assert data.truth is not None
        added = estimated_confusion(votes, np.eye(k)[data.truth.numpy()])
        self._take_confusion(np.concatenate([self._confusion, added]))


def _cases(data: CrowdData) -> Tensor:
    """The case of each answer, (n_answers,)."""
    return torch.repeat_interleave(torch.arange(len(data)), data._offsets.diff())


def _standardize(features: Tensor) -> Tensor:
    """Features of mean 0 and variance 1 in each case, so that it does not matter how far a trunk reaches."""
    return F.layer_norm(features.float(), features.shape[1:]) if features.shape[1] > 1 else features.float()
