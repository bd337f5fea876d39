"""The variants of learners that the check-list runs on, and a small crowd with features for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import Batch
from manyhands.learn import heads
from oracles import learn as plain
from oracles import learn_agree as agree
from oracles import learn_instance as instance

torch.set_num_threads(1)


@dataclass(frozen=True)
class Seen:
    """A batch of all samples as twins see it, in plain numbers."""

    #: What goes into the network, (samples × features).
    x: np.ndarray
    #: What comes out, as probabilities, (samples × classes).
    probs: np.ndarray
    triples: plain.Triples

    @property
    def votes(self) -> np.ndarray:
        return plain.vote_targets(self.triples, *self.probs.shape, winner=False)

    @property
    def majority(self) -> np.ndarray:
        return plain.vote_targets(self.triples, *self.probs.shape, winner=True)


#: Of a learner, for its numbers, and what it is shown.
Twin = Callable[[Any, Seen], float]


def _usual(learner: Any, batch: Batch, output: Tensor) -> Tensor:
    return learner._loss(batch, output)


@dataclass(frozen=True)
class Variant:
    """A learner with settings, and what it can do."""

    make: type[learn.Learner]
    #: The plain twin of its loss.
    twin: Twin
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether `start_from` makes sense.
    starts: bool = True
    #: Settings for the twin, with which every term of the loss weighs something.
    twinned: dict[str, Any] = field(default_factory=dict)
    #: The loss that the twin is of, where that of a batch draws numbers at random.
    loss: Callable[[Any, Batch, Tensor], Tensor] = _usual
    #: Settings with which its gradient holds nothing fixed that the loss depends on; None if it always does.
    exact: dict[str, Any] | None = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join([self.make.__name__, *(str(value) for value in self.options.values())])

    def made(self, network: nn.Module) -> Any:
        return self.make(network, **self.options)

    def learner(self, n_classes: int = 3, **options: Any) -> learn.Learner:
        return self.make(backbone(n_classes), **{"max_epochs": 3, "batch_size": 32} | self.options | options)


# -------------------------------------------------------------------------------------- numbers that were learnt


def numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def rows(table: heads.WorkerTable) -> np.ndarray:
    """Numbers of each worker."""
    return numbers(table.weight).reshape(-1, *table.shape)


def layers(module: nn.Module) -> list[plain.Layer]:
    """The linear layers of a network, in order."""
    return [(numbers(part.weight), numbers(part.bias)) for part in module.modules() if isinstance(part, nn.Linear)]


def _features(network: Any, x: np.ndarray) -> np.ndarray:
    """What the trunk of a `backbone` makes of samples."""
    return np.array([plain.relu(plain.layered(row, *layers(network[:-1]))) for row in x])


def _class_probs(network: Any, features: np.ndarray) -> np.ndarray:
    """What the head of a `backbone` makes of features."""
    return np.array([plain.softmax(plain.layered(row, *layers(network[-1]))) for row in features])


def _confusion(model: Any) -> np.ndarray:
    """Confusion matrices of a worker model; where there is one for all, of as many as there are workers."""
    own, shape = rows(model.table), (model.n_workers, model.n_classes, model.n_classes)
    if isinstance(model, heads.OneCoin):
        return plain.one_coin_confusion(own[:, 0], model.n_classes)
    if isinstance(model, heads.LowRankConfusion):
        return plain.low_rank_confusion(numbers(model.shared), numbers(model.patterns), own)
    if isinstance(model, heads.EmbeddedConfusion):
        return plain.embedded_confusion(numbers(model.shared), layers(model.network), own)
    return np.broadcast_to(plain.free_confusion(own, model.link), shape)


# --------------------------------------------------------------------------------------------------------- twins


def _majority(learner: Any, seen: Seen) -> float:
    return plain.target_cross_entropy(seen.probs, seen.majority)


def _majority_kappa(learner: Any, seen: Seen) -> float:
    """Of one annotator who says what most do, by halves where two classes tie."""
    said = [(sample, 0, label, share) for (sample, label), share in np.ndenumerate(seen.majority) if share]
    return agree.kappa_loss(seen.probs, said, "label")


def _soft(learner: Any, seen: Seen) -> float:
    return plain.target_cross_entropy(seen.probs, seen.votes)


def _bootstrap(learner: Any, seen: Seen) -> float:
    return plain.target_cross_entropy(seen.probs, seen.majority, learner.beta)


def _aggregated(learner: Any, seen: Seen) -> float:
    return plain.target_cross_entropy(seen.probs, learner._fit_of_votes.posterior_)


def _posterior(learner: Any, seen: Seen) -> float:
    return plain.target_cross_entropy(seen.probs, numbers(learner._posterior))


def _labels(learner: Any, seen: Seen) -> float:
    return plain.cross_entropy(seen.probs, seen.triples, learner.reduction)


def _answers(learner: Any, seen: Seen) -> float:
    return agree.answers_loss(seen.probs, seen.triples, learner.loss, learner.reduction)


def _crowd_layer(learner: Any, seen: Seen) -> float:
    return plain.crowd_layer(seen.probs, rows(learner._crowd.table), seen.triples, learner.kind)


def _coupled(learner: Any, seen: Seen) -> float:
    return plain.coupled_cross_entropy(seen.probs, _confusion(learner._crowd), seen.triples)


def _traced(learner: Any, seen: Seen) -> float:
    return plain.trace_loss(seen.probs, _confusion(learner._crowd), seen.triples, learner.trace, learner._n_labels)


def _single(learner: Any, seen: Seen) -> float:
    return plain.single_confusion(seen.probs, _confusion(learner._crowd)[0], seen.majority, learner.trace)


def _geo(learner: Any, seen: Seen) -> float:
    confusion = _confusion(learner._crowd)
    return plain.geo_loss(seen.probs, confusion, seen.triples, learner.side, learner.volume, learner.ridge)


def _coin(learner: Any, seen: Seen) -> float:
    shifts, outlier = rows(learner._parts["shifts"]), (learner.outlier, learner.p, learner.zeta)
    confusion = _confusion(learner._crowd)
    return instance.coin_loss(seen.probs, confusion, shifts, seen.triples, outlier, learner.volume, learner.ridge)


def _instance_trace(learner: Any, seen: Seen) -> float:
    parts, features = learner._parts, _features(learner._network, seen.x)
    own, patterns, (sample,) = rows(parts["workers"].table), rows(parts["patterns"]), layers(parts["sample"])
    matrices = [instance.instance_matrix(features[i], sample, patterns[m], own[m]) for i, m, _ in seen.triples]
    return instance.instance_trace_loss(seen.probs, matrices, seen.triples, learner.trace)


def _conal(learner: Any, seen: Seen) -> float:
    made, (sample,) = learner._parts["layers"], layers(learner._parts["layers"].sample)
    samples = [plain.layered(row, sample) for row in _features(learner._network, seen.x)]
    workers = rows(made.embedding)
    rates = [instance.common_rate(samples[i], workers[m]) for i, m, _ in seen.triples]
    return instance.conal_loss(seen.probs, numbers(made.common), rows(made.own), rates, seen.triples, learner.apart)


def _union(learner: Any, seen: Seen) -> float:
    model, shares = learner._crowd, np.exp(numbers(learner._who.log_shares))
    matrices = rows(model.table) if learner.variant == "A" else _confusion(model)
    return plain.union_loss(seen.probs, shares, matrices, seen.triples, learner.variant)


def _performance(learner: Any) -> instance.Performance:
    network = learner._parts["performance"]
    (sample,), (output,) = layers(network.sample), layers(network.output)
    product = numbers(network.product.weight), numbers(network.product.bias)
    return instance.Performance(sample, product, layers(network.hidden), output)


def _performed(learner: Any, seen: Seen, network: Any) -> list[np.ndarray]:
    """The matrix of each label, by the features that a network makes of its sample."""
    made, features, workers = _performance(learner), _features(network, seen.x), rows(learner._parts["workers"])
    return [made.matrix(features[i], workers[m]) for i, m, _ in seen.triples]


def _madl(learner: Any, seen: Seen) -> float:
    matrices, embeddings = _performed(learner, seen, learner._network), rows(learner._parts["workers"])
    if not learner.rate:
        return instance.weighted_cross_entropy(seen.probs, matrices, np.ones(len(embeddings)), seen.triples)
    gamma = float(np.exp(numbers(learner._parts["kernel"].log_gamma)))
    weights = instance.similarity_weights(embeddings, gamma)
    np.testing.assert_allclose(learner.worker_weights_, weights)
    prior = instance.log_gamma_prior(gamma, learner.concentration, learner.rate)
    return instance.weighted_cross_entropy(seen.probs, matrices, weights, seen.triples) - prior


def _mixture(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Share of each label in its mixture, and the label that has the rest."""
    rng = np.random.default_rng(0)
    return rng.random(n).astype(np.float32), rng.permutation(n)


def _mixed_loss(learner: Any, batch: Batch, output: Tensor) -> Tensor:
    learner._parts.float()
    return learner._mixed_loss(batch, batch.x.float(), *map(torch.from_numpy, _mixture(batch.n_annotations)))


def _mixed(learner: Any, seen: Seen) -> float:
    samples, workers, labels = (list(column) for column in zip(*seen.triples, strict=True))
    mixture = _mixture(len(labels))
    features = _features(learner._network, instance.mixed(seen.x[samples], *mixture))
    embedded = instance.mixed(rows(learner._parts["workers"])[workers], *mixture)
    made = _performance(learner)
    matrices = [made.matrix(*pair) for pair in zip(features, embedded, strict=True)]
    soft = instance.mixed(np.eye(seen.probs.shape[1])[labels], *mixture)
    return instance.mixed_cross_entropy(_class_probs(learner._network, features), matrices, soft)


def _unmixed(learner: Any, seen: Seen) -> float:
    matrices = _performed(learner, seen, learner._network)
    return instance.weighted_cross_entropy(seen.probs, matrices, np.ones(len(learner._workers)), seen.triples)


def _anchored(learner: Any, seen: Seen) -> float:
    matrices = _performed(learner, seen, learner._parts["first"])
    classes = instance.most_likely(matrices, seen.triples, len(seen.probs), learner.ratio)
    losses = [-np.log(p[k]) for p, k in zip(seen.probs, classes, strict=True) if k is not None]
    assert 0 < len(losses) < len(classes)  # some are told, and some are not
    return float(np.mean(losses))


def _max_mig(learner: Any, seen: Seen) -> float:
    k = seen.probs.shape[1]
    weights, start = (numbers(table).reshape(-1, k, k) for table in (learner._crowd.table.weight, learner._anchor))
    prior = np.exp(numbers(learner._crowd.log_prior()))
    shrinkage = 0.0 if learner.settings == "paper" else 1.0
    bias = np.log(prior) if learner._crowd.bias is None else numbers(learner._crowd.bias)
    scores = np.tile(bias, (len(seen.probs), 1))
    if learner.aggregator == "deep":
        embedded, sums = rows(learner._crowd.embedding), np.zeros((len(seen.probs), 16))
        for sample, worker, label in seen.triples:
            sums[sample] += embedded[worker * k + label]
        first, last = layers(learner._crowd.network)
        scores += [plain.layered(plain.relu(plain.layered(s, first)), last) for s in sums]
    return plain.max_mig_loss(seen.probs, weights, start, prior, seen.triples, learner.divergence, shrinkage, scores)


def _doctor(learner: Any, seen: Seen) -> float:
    return plain.doctor_loss(_features(learner._network, seen.x), rows(learner._heads.table), seen.triples)


def _learn2agree(learner: Any, seen: Seen) -> float:
    features, stream = _features(learner._network, seen.x), learner._parts["stream"]
    (levels,), n, k = layers(stream.levels), *seen.probs.shape
    if learner.stream == "linear":
        found = [agree.linear_agreement(row, levels) for row in features]
    else:
        found = [agree.distributed_agreement(row, levels, layers(stream.indicator), k) for row in features]
    level, indicator = (np.array(part) for part in zip(*found, strict=True))
    probs = agree.towards_agreement(_class_probs(learner._network, features), indicator, learner.strength)
    loss, agreement = agree.answers_loss(probs, seen.triples, learner.loss, learner.reduction), seen.votes
    if learner.weights == "learnt":
        weights, given = np.exp(10 * rows(learner._annotators.table)[:, 0]), np.ones(len(seen.triples))
        agreement = agree.weighed_agreement(seen.triples, weights, given, n, k)
        loss += agree.weights_loss(probs, seen.triples, weights, given)
    by = learner.stream_loss or {"distribution": "ar", "linear": "rmse"}[learner.stream]
    return loss + agree.stream_loss(level, agreement, by)


VARIANTS = [
    Variant(learn.MajorityTarget, _majority),
    Variant(learn.MajorityTarget, _majority_kappa, {"loss": "kappa"}),
    Variant(learn.SoftTarget, _soft),
    Variant(learn.AggregatedTarget, _aggregated),
    Variant(learn.AggregatedTarget, _aggregated, {"aggregator": mh.categorical.WeightedVote()}),
    Variant(learn.SoftBootstrap, _bootstrap),
    Variant(learn.LearnFromAll, _labels, starts=False),
    Variant(learn.LearnFromAll, _labels, {"reduction": "sample"}, starts=False),
    Variant(learn.LearnFromAll, _answers, {"loss": "focal", "reduction": "worker"}, starts=False),
    *(
        Variant(learn.CrowdLayer, _crowd_layer, {"kind": kind}, starts=kind == "MW")
        for kind in ("MW", "VW", "VB", "VW-B")
    ),
    Variant(learn.CCEM, _coupled),
    *(Variant(learn.CCEM, _coupled, {"workers": kind}) for kind in ("softmax", "one-coin", "low-rank", "embedded")),
    Variant(learn.TraceRegularized, _traced),
    *(
        Variant(learn.GeoCrowdNet, _geo, {"side": side}, twinned={"momentum": 0.0}, exact={"momentum": 0.0})
        for side in ("F", "W")
    ),
    Variant(learn.SingleConfusion, _traced),
    Variant(learn.SingleConfusion, _traced, {"batch_size": 2}),
    Variant(learn.SingleConfusion, _single, {"labels": "majority"}),
    Variant(learn.COINNet, _coin, twinned={"momentum": 0.0}, exact={"momentum": 0.0}),
    Variant(learn.InstanceTrace, _instance_trace),
    Variant(learn.CoNAL, _conal, starts=False, twinned={"apart": 0.5}),
    Variant(learn.UnionNet, _union, {"variant": "A"}),
    Variant(learn.UnionNet, _union, {"variant": "B"}),
    Variant(learn.MaDL, _madl, exact=None),  # similarities of workers are not for the network to change
    Variant(learn.MaDL, _madl, {"rate": 0.0}),
    Variant(learn.AnnotMix, _mixed, loss=_mixed_loss),
    Variant(learn.AnnotMix, _unmixed, {"alpha": 0.0}),
    Variant(
        learn.AnchorTransition,
        _anchored,
        {"first_epochs": 5, "judging_epochs": 10, "ratio": 1.0},
        twinned={"ratio": 3.0},
    ),
    Variant(learn.MaxMIG, _max_mig, {"divergence": "kl"}),
    Variant(learn.MaxMIG, _max_mig, {"divergence": "pearson"}),
    Variant(learn.MaxMIG, _max_mig, {"divergence": "js", "prior": "learnt"}),
    Variant(learn.MaxMIG, _max_mig, {"settings": "paper", "bias": "free"}, starts=False),
    Variant(learn.MaxMIG, _max_mig, {"aggregator": "deep"}),
    Variant(learn.DeepEM, _posterior),
    Variant(learn.DeepEM, _posterior, {"shrink": False}),
    Variant(learn.ModelBootstrappedEM, _posterior, {"epochs_per_step": 2}),
    Variant(learn.DoctorNet, _doctor, starts=False),
    Variant(learn.WeightedDoctorNet, _doctor, {"weight_epochs": 1}, starts=False),
    Variant(learn.Learn2Agree, _learn2agree, {"stream": "distribution", "loss": "focal"}),
    Variant(learn.Learn2Agree, _learn2agree, {"stream": "linear", "loss": "kappa"}),
    # The stream does not change the weights of annotators, which have an aim of their own.
    Variant(
        learn.Learn2Agree,
        _learn2agree,
        {"stream_loss": "rmse", "loss": "ce", "weights": "learnt"},
        starts=False,
        exact=None,
    ),
]


def backbone(n_classes: int = 3, n_features: int = 6, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_features, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, n_classes))


@dataclass(frozen=True)
class Crowd:
    X: np.ndarray
    votes: mh.Annotations
    truth: np.ndarray
    confusion: np.ndarray


def crowd(
    n: int = 240, n_classes: int = 3, n_workers: int = 9, per_task: int = 3, seed: int = 0, **options: Any
) -> Crowd:
    X, truth = mh.categorical.synthetic.gaussians(n, n_classes, n_features=6, separation=3.0, seed=seed)
    made = mh.simulate(
        truth=truth, n_workers=n_workers, n_classes=n_classes, labels_per_task=per_task, seed=seed, **options
    )
    return Crowd(X.astype(np.float32), made.log, truth, made.confusion)


def slopes_agree(loss: Callable[[], Tensor], given: dict[str, Tensor]) -> None:
    """The gradient of a loss is the slope of finite differences, in a random direction of each tensor that is given."""
    learnt = {name: value for name, value in given.items() if value.requires_grad}
    found = torch.autograd.grad(loss(), list(learnt.values()), allow_unused=True)
    rng, step, moved = np.random.default_rng(1), 1e-6, 0
    for (name, value), gradient in zip(learnt.items(), found, strict=True):
        direction = torch.from_numpy(rng.normal(size=tuple(value.shape)))
        with torch.no_grad():
            value += step * direction
            above = loss().item()
            value -= 2 * step * direction
            below = loss().item()
            value += step * direction
        slope = 0.0 if gradient is None else (gradient * direction).sum().item()
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7), name
        moved += slope != 0
    assert moved
