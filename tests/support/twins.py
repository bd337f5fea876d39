"""The plain NumPy twin of each aggregator, whatever its settings, and the comparison with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import group_twins
import numpy as np
import ordinal_twins

import manyhands as mh
from manyhands.categorical.base import Aggregator
from manyhands.testing.compare import assert_close
from oracles import (
    audit,
    audit_groups,
    bayes,
    communities,
    competence,
    em,
    entropy,
    gold,
    margin,
    online,
    skills,
    voting,
)
from oracles.kernels import plain_kernels
from oracles.skills import Answer

#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-8
#: What is compared.
ARRAYS = ("posterior_", "confusion_", "prior_", "history_")


@dataclass(frozen=True)
class Twin:
    """Plain versions of `fit` and of `predict_proba`; the latter is told who workers were, -1 for nobody."""

    fit: Callable[[Any, mh.Annotations], Answer]
    predict_proba: Callable[[Any, em.Rows, np.ndarray], np.ndarray]


def _shares_answer(rows: em.Rows, shares: np.ndarray) -> Answer:
    return Answer(shares, voting.confusion(rows, shares), shares.mean(axis=0), np.zeros(0))


def _fit_vote(model: mh.MajorityVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    return _shares_answer(rows, voting.shares(rows))


def twin_weights(model: mh.categorical.WeightedVote, votes: mh.Annotations) -> np.ndarray:
    rows = em.Rows.of(votes)
    if model.weights == "agreement":
        return voting.wawa(rows)
    if model.weights == "zero-based":
        return voting.zero_based(
            rows,
            n_iter=model.n_iter,
            learning_rate=model.learning_rate,
            rate_decay=model.rate_decay,
            decay_every=model.decay_every,
            initial_skill=model.initial_skill,
        )
    return np.array([model.weights[worker] for worker in votes.workers.tolist()], float)


def _fit_weighted(model: mh.categorical.WeightedVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    return _shares_answer(rows, voting.shares(rows, twin_weights(model, votes)))


def row_counts(given: Any, k: int) -> np.ndarray:
    """What a `pseudo_count` means, (K, K)."""
    if not isinstance(given, tuple):
        return np.full((k, k), given / k) if np.ndim(given) == 0 else np.array(given)
    shared = np.full((k, k), given[1] / max(k - 1, 1))
    shared[np.diag_indices(k)] = given[0]
    return shared


def pseudo_counts(model: mh.DawidSkene, votes: mh.Annotations) -> np.ndarray:
    """What `pseudo_count` and `worker_prior` mean, (M, K, K)."""
    shared = row_counts(model.pseudo_count, votes.n_classes)
    pseudo = np.repeat(shared[None], votes.n_workers, axis=0)
    for worker, prior in (model.worker_prior or {}).items():
        pseudo[votes.workers.tolist().index(worker)] = prior
    return pseudo


def gold_codes(model: mh.DawidSkene, votes: mh.Annotations) -> np.ndarray:
    """Class code of each task, or -1."""
    gold = model.gold or {}
    classes = votes.classes.tolist()
    return np.array([classes.index(gold[t]) if t in gold else -1 for t in votes.tasks.tolist()])


def fit_em(model: mh.DawidSkene, votes: mh.Annotations, rows: em.Rows | None = None) -> em.Result:
    """The twin of a `DawidSkene`, whatever its parameters (but for acceleration and restarts)."""
    return em.fit(
        rows or em.Rows.of(votes),
        model=model.model,
        assignment=model.assignment,
        start=model.init,
        pseudo=pseudo_counts(model, votes),
        class_pseudo=np.asarray(model.class_pseudo_count, float)
        / (votes.n_classes if np.ndim(model.class_pseudo_count) == 0 else 1),
        gold=gold_codes(model, votes),
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _fit_em_answer(model: mh.DawidSkene, votes: mh.Annotations) -> Answer:
    found = fit_em(model, votes)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _class_pseudo(model: Any, k: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(model.class_pseudo_count, float) / k, k)


def fit_bayes(model: mh.BayesianDawidSkene, votes: mh.Annotations) -> bayes.Result:
    """The twin of a `BayesianDawidSkene`, whatever its parameters (but for acceleration)."""
    return bayes.fit(
        em.Rows.of(votes),
        model=model.model,
        start=model.init,
        pseudo=row_counts(model.pseudo_count, votes.n_classes) / (votes.n_classes if model.model == "one-coin" else 1),
        class_pseudo=_class_pseudo(model, votes.n_classes),
        gold=gold_codes(model, votes),
        protected=model.protected,
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _fit_bayes_answer(model: mh.BayesianDawidSkene, votes: mh.Annotations) -> Answer:
    found = fit_bayes(model, votes)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _predict_bayes(model: mh.BayesianDawidSkene, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    if model.method == "gibbs":
        return predict_em(model, rows, known)
    average = np.average(model.concentration_, axis=0, weights=labels_of(model))
    concentration = np.array([model.concentration_[m] if m >= 0 else average for m in known])
    nobody = np.full(rows.n_tasks, -1)
    return bayes.expect(rows, model.class_concentration_, concentration, nobody, model.model)[0]


def hierarchy_prior(model: Aggregator, m: int, k: int) -> bayes.Crowd | bayes.Spammer:
    if isinstance(model, mh.categorical.HierarchicalMACE):
        return bayes.Spammer(m, k, model.strength)
    return bayes.Crowd(m, k)


def _fit_hierarchy(model: Any, votes: mh.Annotations) -> Answer:
    found = bayes.fit_hierarchy(
        em.Rows.of(votes),
        prior=hierarchy_prior(model, votes.n_workers, votes.n_classes),
        class_pseudo=_class_pseudo(model, votes.n_classes),
        gold=gold_codes(model, votes),
        protected=model.protected,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(*found, np.zeros(0))


def _fit_community(model: mh.categorical.CommunityDawidSkene, votes: mh.Annotations) -> Answer:
    k, n = votes.n_classes, model.n_communities
    accuracies = [1 / k + (1 - 1 / k) * (1 - (c + 0.5) / n) for c in range(n)]
    crowd = communities.Communities(
        np.array([bayes.shared(k, accuracy if k > 1 else 1.0) for accuracy in accuracies]),
        communities.FIRST if model.strength is None else model.strength,
        learn=model.strength is None,
        pseudo=row_counts(model.pseudo_count, k),
        share_pseudo=1.0,
    )
    stop = {"protected": model.protected, "max_iter": model.max_iter, "tol": model.tol}
    known = {"class_pseudo": _class_pseudo(model, k), "gold": gold_codes(model, votes)}
    found = communities.fit_communities(em.Rows.of(votes), crowd, **known, **stop)
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _fit_grouped(model: mh.categorical.GroupDawidSkene, votes: mh.Annotations) -> Answer:
    k, codes = votes.n_classes, group_twins.group_codes(model, votes)
    start = _fit_hierarchy(mh.categorical.HierarchicalDawidSkene(), group_twins.a_vote_a_group(votes, codes))
    found, _, _ = audit_groups.fit_grouped(
        em.Rows.of(votes),
        codes,
        start.confusion,
        np.repeat(bayes.shared(k, 0.8 if k > 1 else 1.0)[None], codes.max() + 1, axis=0),
        start.prior,
        pseudo=row_counts(model.pseudo_count, k),
        class_pseudo=_class_pseudo(model, k),
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _predict_grouped(model: mh.categorical.GroupDawidSkene, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    return group_twins.predict_grouped(model, rows, known, carried(model, model.confusion_, known))


def _fit_group_vote(model: mh.categorical.GroupVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    return _shares_answer(rows, audit_groups.group_shares(rows, group_twins.group_codes(model, votes)))


def _fit_ebcc(model: mh.categorical.EBCC, votes: mh.Annotations) -> Answer:
    k = votes.n_classes
    pseudo = np.ones((k, k)) + 3 * np.eye(k) if model.pseudo_count is None else row_counts(model.pseudo_count, k)
    found, _ = communities.fit_subtypes(
        em.Rows.of(votes),
        n_subtypes=model.n_subtypes,
        pseudo=pseudo,
        class_pseudo=np.ones(k) if model.class_pseudo_count is None else _class_pseudo(model, k),
        subtype_pseudo=model.subtype_pseudo_count / model.n_subtypes,
        seed=int(np.random.default_rng(model.seed).integers(0, 2**63)),
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _predict_ebcc(model: mh.categorical.EBCC, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    learnt: Any = model._fitted().fit
    average = np.average(learnt.concentration, axis=0, weights=labels_of(model))
    carried = np.array([learnt.concentration[m] if m >= 0 else average for m in known])
    params = communities.Subtypes(learnt.class_concentration, learnt.subtype_concentration, carried)
    return params.expect(rows)[0].sum(axis=2)


def _fit_consensus(model: mh.Consensus, votes: mh.Annotations) -> Answer:
    rows, gold = em.Rows.of(votes), gold_codes(model, votes)
    stop = {"protected": model.protected, "max_iter": model.max_iter, "tol": model.tol}

    members = [
        TWINS[type(member)].fit(member, votes)
        for member in (
            mh.categorical.HierarchicalDawidSkene(**stop),
            mh.categorical.HierarchicalMACE(**stop),
            mh.categorical.HierarchicalMACE(strength=float("inf"), **stop),
        )
    ]
    crowd = bayes.Crowd(votes.n_workers, votes.n_classes)
    pseudo = _class_pseudo(mh.categorical.HierarchicalDawidSkene(), votes.n_classes)
    nobody = np.full(votes.n_tasks, -1)
    bayes.fit_hierarchy(rows, prior=crowd, class_pseudo=pseudo, gold=nobody, **stop)
    return bayes.consensus(members, gold, rows, model.correlation, crowd.alpha, model.panel)


def _predict_consensus(model: mh.Consensus, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    fit, nobody, mixed = model._fitted().fit, np.full(rows.n_tasks, -1), 0.0
    for matrices, prior in zip(fit.confusions, fit.priors, strict=True):
        average = np.average(matrices, axis=0, weights=labels_of(model))
        carried = np.array([matrices[m] if m >= 0 else average for m in known])
        mixed = mixed + em.expect(rows, prior, carried, nobody, hard=False)[0] / len(fit.priors)
    equal = bayes.equal_vote(rows, fit.vote.accuracy, mixed.shape[1])
    mixed = (1 - fit.vote.weight) * mixed + fit.vote.weight * equal
    informs = bayes.information(model.confusion_)
    average = np.average(informs, weights=labels_of(model))
    effective = bayes.effective_votes(rows, np.array([informs[m] if m >= 0 else average for m in known]))
    default = bayes.calibrated(mixed, effective, model.discount_, 0.01)
    return default if fit.anchor is None else gold.under(fit.anchor, rows, default, known, labels_of(model))


def _fit_plainly(model: Aggregator, votes: mh.Annotations) -> Answer:
    with plain_kernels(votes):
        found = type(model)(**model.get_params())._fit(votes, None)
    return Answer(found.posterior.dense(), found.confusion.matrices(), found.prior, found.history)


def labels_of(model: Aggregator) -> np.ndarray:
    """Labels per worker in the table that a model was fitted to."""
    return model.workers_frame().column("n_answers").to_numpy()


def _fit_sparse(model: mh.categorical.SparseOneCoin, votes: mh.Annotations) -> Answer:
    """The dense model, whose pseudo-counts are those of K rows."""
    k, (right, wrong) = votes.n_classes, model.pseudo_count
    found = em.fit(
        em.Rows.of(votes),
        model="one-coin",
        start=model.init,
        pseudo=row_counts((right / k, wrong / k), k),
        class_pseudo=model.class_pseudo_count / k,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, found.prior, found.history)


def _fit_eliminating(model: mh.categorical.SpammerEliminatingDawidSkene, votes: mh.Annotations) -> Answer:
    return audit.fit_eliminating(
        em.Rows.of(votes),
        pseudo=row_counts(model.pseudo_count, votes.n_classes),
        class_pseudo=_class_pseudo(model, votes.n_classes),
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _fit_online(model: mh.categorical.OnlineDawidSkene, votes: mh.Annotations) -> Answer:
    return online.fit(
        em.Rows.of(votes),
        batch_size=model.batch_size,
        kappa=model.kappa,
        forget=model.forget,
        rounds=model.rounds,
        pseudo=row_counts(model.pseudo_count, votes.n_classes),
        class_pseudo=np.full(votes.n_classes, model.class_pseudo_count / votes.n_classes),
    )


def predict_em(model: mh.DawidSkene, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.confusion_, axis=0, weights=labels_of(model))
    confusion = np.array([model.confusion_[m] if m >= 0 else average for m in known])
    nobody = np.full(rows.n_tasks, -1)
    return em.expect(rows, model.prior_, confusion, nobody, hard=False)[0]


def _predict_weighted(model: mh.categorical.WeightedVote, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.weights_, weights=labels_of(model))
    return voting.shares(rows, np.array([model.weights_[m] if m >= 0 else average for m in known]))


def _one_coin_twin(solve: Callable[[Any], Callable[..., skills.RankOne]]) -> Twin:
    """The twin of a one-coin method; `solve(model)` is how it finds skills."""

    def fit(model: Any, votes: mh.Annotations) -> Answer:
        return skills.one_coin_fit(
            em.Rows.of(votes), min_overlap=model.min_overlap, max_partners=model.max_partners, solve=solve(model)
        )

    return Twin(fit, predict_em)


def _spectral(model: mh.moments.OneCoinSpectral) -> Callable[..., skills.RankOne]:
    stop = {"max_iter": model.max_iter, "tol": model.tol}
    if model.method == "ratio":
        return lambda *given: skills.rank_one_ratio(*given[:4], components=given[4], **stop)
    return lambda *given: skills.rank_one_spectral(*given[:4], **stop)


def _gradient(model: mh.moments.OneCoinGradient) -> Callable[..., skills.RankOne]:
    return lambda *given: skills.rank_one_gradient(*given[:4], max_iter=model.max_iter, tol=model.tol)


def _msr(model: mh.moments.MMSR) -> Callable[..., skills.RankOne]:
    if model.method == "medians":
        return lambda *given: skills.rank_one_medians(*given[:3])

    def solve(n, pairs, values, weights, _):
        degrees = [(pairs == worker).sum() for worker in range(n)]
        if model.trim is None:
            firm = [(pairs[weights >= 10] == worker).sum() for worker in range(n)]
            trim = [max(d // 2 - 1, 0) for d in firm]
        else:
            trim = [model.trim if isinstance(model.trim, int) else int(d * model.trim) for d in degrees]
        stop = {"max_iter": model.max_iter, "tol": model.tol}
        found = skills.rank_one_msr(n, pairs, values, weights, trim=trim, **stop)
        found.history = []  # how far values moved: no objective
        return found

    return solve


def _fit_meta_learner(model: mh.moments.SpectralMetaLearner, votes: mh.Annotations) -> Answer:
    return skills.meta_learner_fit(em.Rows.of(votes), **model.get_params())


def _fit_mace(model: mh.categorical.MACE, votes: mh.Annotations) -> Answer:
    rows, vb = em.Rows.of(votes), model.method == "vb"
    m, k = votes.n_workers, votes.n_classes
    found = competence.mace_fit(
        rows,
        np.full(m, 0.5),
        np.full((m, k), 1 / k),
        variational=vb,
        competence=model.competence_prior if vb else (model.smoothing, model.smoothing),
        strategy=model.strategy_prior if vb else model.smoothing,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    spam = (1 - found.know)[:, None, None] * found.strategies[:, None, :]
    confusion = found.know[:, None, None] * np.eye(k) + spam
    prior = np.full(k, 1 / k)
    posterior = found.posterior
    if vb:
        posterior, _ = em.expect(rows, prior, np.maximum(confusion, em.FLOOR), np.full(votes.n_tasks, -1), hard=False)
    return Answer(posterior, confusion, prior, np.array(found.history))


def _fit_glad(model: mh.categorical.GLAD, votes: mh.Annotations) -> Answer:
    k, prior = votes.n_classes, np.full(votes.n_classes, 1 / votes.n_classes)
    start = (np.full(votes.n_workers, model.ability_mean), np.full(votes.n_tasks, model.ease_mean))
    found = competence.glad_fit(em.Rows.of(votes), prior, *start, max_iter=model.max_iter, tol=model.tol)
    right = found.accuracy if k > 1 else np.ones(votes.n_workers)
    off = (1 - right) / max(k - 1, 1)
    confusion = np.where(np.eye(k, dtype=bool), right[:, None, None], off[:, None, None])
    return Answer(found.posterior, confusion, prior, np.array(found.history))


def _predict_glad(model: mh.categorical.GLAD, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    average = np.average(model.ability_, weights=labels_of(model))
    ability = np.array([model.ability_[m] if m >= 0 else average for m in known])
    return competence.glad_posterior(rows, model.prior_, ability, np.full(rows.n_tasks, model.ease_mean))


def _fit_minimax(model: mh.categorical.MinimaxEntropy, votes: mh.Annotations) -> Answer:
    k = votes.n_classes
    worker = k**2 / 4 if model.worker_penalty is None else model.worker_penalty
    task = worker * votes.n_tasks / votes.n_workers if model.task_penalty is None else model.task_penalty
    found = entropy.minimax_fit(
        em.Rows.of(votes),
        ordinal=model.ordinal,
        worker_penalty=worker,
        task_penalty=task,
        max_iter=model.max_iter,
        tol=model.tol,
    )
    return Answer(found.posterior, found.confusion, np.full(k, 1 / k), np.array(found.history))


def carried(model: Aggregator, per_worker: np.ndarray, known: np.ndarray) -> np.ndarray:
    """What was learnt of workers, with the average for those not seen before."""
    average = np.average(per_worker, axis=0, weights=labels_of(model))
    return np.array([per_worker[m] if m >= 0 else average for m in known])


def _predict_minimax(model: mh.categorical.MinimaxEntropy, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    sigma, penalty = carried(model, model.sigma_, known), model._fitted().fit.task_penalty
    return entropy.minimax_posterior(rows, sigma, ordinal=model.ordinal, task_penalty=penalty)


def _fit_margin(model: mh.categorical.MaxMarginVote, votes: mh.Annotations) -> Answer:
    rows = em.Rows.of(votes)
    cost = model.margin * votes.n_workers / rows.weights.sum() if model.cost is None else model.cost
    found = margin.margin_fit(rows, **model.get_params() | {"cost": cost})
    scale = margin.log_odds_a_weight(rows, found.weights, found.answers, model.margin)
    posterior = margin.vote_softmax(rows, scale * found.weights)
    return Answer(posterior, voting.confusion(rows, posterior), posterior.mean(axis=0), np.array(found.history))


def _predict_margin(model: mh.categorical.MaxMarginVote, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    return margin.vote_softmax(rows, model.scale_ * carried(model, model.weights_, known))


def _fit_crowd_svm(model: mh.categorical.CrowdSVM, votes: mh.Annotations) -> Answer:
    posterior, confusion, _ = margin.crowd_svm_fit(em.Rows.of(votes), **model.get_params())
    return Answer(posterior, confusion, np.full(votes.n_classes, 1 / votes.n_classes), np.zeros(0))


def _predict_crowd_svm(model: mh.categorical.CrowdSVM, rows: em.Rows, known: np.ndarray) -> np.ndarray:
    confusion, weights = (carried(model, part, known) for part in (model.confusion_, model.weights_))
    return margin.crowd_svm_posterior(rows, confusion, weights, cost=model.cost, margin=model.margin)


TWINS: dict[type[Aggregator], Twin] = {
    mh.MajorityVote: Twin(_fit_vote, lambda _model, rows, _known: voting.shares(rows)),
    mh.categorical.WeightedVote: Twin(_fit_weighted, _predict_weighted),
    mh.DawidSkene: Twin(_fit_em_answer, predict_em),
    mh.Consensus: Twin(_fit_consensus, _predict_consensus),
    mh.BayesianDawidSkene: Twin(_fit_bayes_answer, _predict_bayes),
    mh.categorical.CommunityDawidSkene: Twin(_fit_community, predict_em),
    mh.categorical.EBCC: Twin(_fit_ebcc, _predict_ebcc),
    mh.categorical.GroupDawidSkene: Twin(_fit_grouped, _predict_grouped),
    mh.categorical.GroupVote: Twin(_fit_group_vote, group_twins.predict_group_vote),
    mh.categorical.HierarchicalDawidSkene: Twin(_fit_hierarchy, predict_em),
    mh.categorical.HierarchicalMACE: Twin(_fit_hierarchy, predict_em),
    mh.ordinal.OrdinalCrowd: Twin(ordinal_twins.fit_crowd, predict_em),
    mh.ordinal.CumulativeDawidSkene: Twin(ordinal_twins.fit_cumulative, ordinal_twins.predict_cumulative),
    mh.ordinal.OrdinalConsensus: Twin(ordinal_twins.fit_consensus, ordinal_twins.predict_consensus),
    mh.categorical.SpammerEliminatingDawidSkene: Twin(_fit_eliminating, predict_em),
    **{
        kind: Twin(_fit_plainly, predict_em)
        for kind in (
            mh.moments.MultiSPA,
            mh.moments.CoupledNMF,
            mh.moments.SymmetricNMF,
            mh.moments.CoupledCPD,
            mh.moments.SpectralDS,
        )
    },
    mh.moments.OneCoinSpectral: _one_coin_twin(_spectral),
    mh.moments.OneCoinGradient: _one_coin_twin(_gradient),
    mh.moments.MMSR: _one_coin_twin(_msr),
    mh.moments.SpectralMetaLearner: Twin(_fit_meta_learner, predict_em),
    mh.categorical.SparseOneCoin: Twin(_fit_sparse, predict_em),
    mh.categorical.OnlineDawidSkene: Twin(_fit_online, predict_em),
    mh.categorical.MACE: Twin(_fit_mace, predict_em),
    mh.categorical.GLAD: Twin(_fit_glad, _predict_glad),
    mh.categorical.MinimaxEntropy: Twin(_fit_minimax, _predict_minimax),
    mh.categorical.MaxMarginVote: Twin(_fit_margin, _predict_margin),
    mh.categorical.CrowdSVM: Twin(_fit_crowd_svm, _predict_crowd_svm),
}


def assert_matches_twin(model: Aggregator, votes: mh.Annotations) -> None:
    wanted = TWINS[type(model)].fit(model, votes)
    for name in ARRAYS:
        assert_close(getattr(model, name), getattr(wanted, name[:-1]), PARITY, name)


def assert_parity(model: mh.DawidSkene, wanted: em.Result, tolerance: float = PARITY) -> None:
    """A fit of EM and its twin's, and how they ended."""
    for name in ("posterior", "confusion", "prior", "history"):
        assert_close(getattr(model, f"{name}_"), getattr(wanted, name), tolerance, name)
    assert model.n_iter_ == wanted.n_iter
    assert model.converged_ == wanted.converged
    assert model.objective_ == model.history_[-1]
