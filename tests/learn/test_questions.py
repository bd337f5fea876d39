"""Losses of binary questions, the streams of Learn2Agree, one matrix for all, and starts that are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from learners import backbone, crowd
from precision import TRAINED

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import CrowdData
from manyhands.learn import heads
from manyhands.learn.learn2agree import AnnotatorWeights
from manyhands.learn.targets import majority
from oracles import learn as plain
from oracles import learn_agree as agree

CPU = torch.device("cpu")


def whole(log):
    """All samples in one batch, the labels as triples, and random log-probabilities of the classes."""
    data = CrowdData(log.X, log.votes)
    batch = data.batch(data.samples, CPU)
    triples = list(zip(batch.sample.tolist(), batch.worker.tolist(), batch.label.tolist(), strict=True))
    probs = np.random.default_rng(0).dirichlet(np.ones(log.votes.n_classes), size=len(batch))
    return batch, triples, probs


def gradients_agree(loss, probs):
    """Gradients of a loss by logits are those of finite differences."""
    logits = torch.from_numpy(np.log(probs)).requires_grad_()
    return torch.autograd.gradcheck(lambda given: loss(torch.log_softmax(given, dim=1)), (logits,))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["ce", "focal"])
def test_the_loss_of_labels_is_that_of_binary_questions(n_classes, loss):
    log = crowd(n=20, n_workers=4, n_classes=n_classes)
    batch, triples, probs = whole(log)
    # Cross-entropy of binary questions is that of Learn2Agree: of LearnFromAll it is of classes.
    make = learn.Learn2Agree if loss == "ce" else learn.LearnFromAll
    learner = make(backbone(n_classes), loss=loss, reduction="label", max_epochs=1).fit(log.X, log.votes)
    expected = agree.answers_loss(probs, triples, loss, "label")

    def found(log_probs):
        return learner._labels_loss(batch, learner._log_odds(log_probs))

    assert found(torch.from_numpy(probs).log()).item() == pytest.approx(expected, rel=1e-6)
    assert gradients_agree(found, probs)


@pytest.mark.parametrize("per_task", [2, 3])
def test_the_focal_loss_of_the_majority_divides_ties(per_task):
    log = crowd(n=20, n_workers=4, per_task=per_task)
    batch, _, probs = whole(log)
    learner = learn.MajorityTarget(backbone(), loss="focal", max_epochs=1).fit(log.X, log.votes)
    votes = majority(log.votes)
    assert (votes.max(axis=1) < 1).any()
    gamma = np.array([agree.focus(votes[:, k].sum(), 20) for k in range(3)])
    expected = np.mean([agree.answer_loss(p, said, gamma) for p, said in zip(probs, votes, strict=True)])
    assert learner._loss(batch, torch.from_numpy(probs).log()).item() == pytest.approx(expected, rel=1e-6)
    assert gradients_agree(lambda log_probs: learner._loss(batch, log_probs), probs)


def test_the_kappa_loss_of_the_majority_is_that_of_one_who_says_it():
    log = crowd(n=30, n_workers=4, n_classes=2)
    batch, _, probs = whole(log)
    learner = learn.MajorityTarget(backbone(2), loss="kappa", max_epochs=1).fit(log.X, log.votes)
    learner._parts.double()
    answers = [(sample, 0, int(label), 1.0) for sample, label in enumerate(majority(log.votes)[:, 1])]

    def twin(given):
        return agree.kappa_loss(given[:, 1:], [(i, w, 1 - label, x) for i, w, label, x in answers], "label")

    given = torch.from_numpy(probs).requires_grad_()
    loss = learner._loss(batch, given.log())
    assert loss.item() == pytest.approx(twin(probs), rel=1e-5)
    loss.backward()
    for sample in (0, 11, 29):
        step = np.zeros_like(probs)
        step[sample, 1] = 1e-5
        slope = (twin(probs + step) - twin(probs - step)) / 2e-5
        assert given.grad[sample, 1].item() == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("loss", ["focal", "kappa"])
def test_without_its_stream_learn2agree_is_learn_from_all(loss):
    log = crowd(n=30)
    batch, _, _ = whole(log)
    options = {"loss": loss, "reduction": "worker", "max_epochs": 1, "lr": 0.0}
    both = learn.Learn2Agree(backbone(), strength=0.0, **options).fit(log.X, log.votes)
    alone = learn.LearnFromAll(backbone(), **options).fit(log.X, log.votes)
    with torch.no_grad():
        found = both._loss(batch, both._forward(batch.x)) - both._stream_loss(batch)
        assert found.item() == pytest.approx(alone._loss(batch, alone._forward(batch.x)).item(), rel=1e-5)


@pytest.mark.parametrize("stream", ["distribution", "linear"])
@pytest.mark.parametrize("by", ["ar", "rmse", None])
def test_every_stream_learns_by_every_loss(stream, by):
    log = crowd(n=30)
    batch, _, _ = whole(log)
    learner = learn.Learn2Agree(backbone(), stream=stream, stream_loss=by, max_epochs=1).fit(log.X, log.votes)
    learner._forward(batch.x)
    level, agreement = learner._level.detach().numpy(), learner._agreement.numpy()
    expected = agree.stream_loss(level, agreement, by or ("ar" if stream == "distribution" else "rmse"))
    assert learner._stream_loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_agreement_that_is_whole_teaches_the_regression_loss_nothing():
    """Documented: where all say the same, the loss is zero whatever is predicted."""
    for agreement in (0.0, 1.0):
        for predicted in (0.0, 0.3, 1.0):
            assert agree.agreement_regression(predicted, agreement) == 0


def test_weights_of_annotators():
    log = crowd(n=12, n_workers=5)
    batch, triples, probs = whole(log)
    said, given = torch.eye(3).double()[batch.label], torch.rand(batch.n_annotations, dtype=torch.float64)
    batch = dataclasses.replace(batch, weight=given)
    annotators = AnnotatorWeights(5).double()
    annotators.table.set(0.05 * torch.randn(5, 1, dtype=torch.float64))
    weights = annotators(torch.arange(5)).detach().numpy()
    expected = agree.weighed_agreement(triples, weights, given.numpy(), 12, 3)
    np.testing.assert_allclose(annotators.agreement(batch, said, torch.zeros(12, 3).double()), expected, rtol=1e-6)
    loss = annotators.loss(batch, said, torch.from_numpy(probs))
    assert loss.item() == pytest.approx(agree.weights_loss(probs, triples, weights, given.numpy()))
    loss.backward()
    for worker in range(5):
        step = np.where(np.arange(5) == worker, 1e-6, 0)
        ends = [np.exp(10 * (annotators.table.weight.detach().numpy()[:, 0] + sign * step)) for sign in (1, -1)]
        up, down = (agree.weights_loss(probs, triples, end, given.numpy()) for end in ends)
        assert annotators.table.weight.grad[worker].item() == pytest.approx((up - down) / 2e-6, rel=1e-4)


def test_samples_whose_labels_weigh_nothing_keep_the_agreement_they_had():
    batch, _, _ = whole(crowd(n=4, n_workers=3))
    batch = dataclasses.replace(batch, weight=torch.zeros(batch.n_annotations))
    found = AnnotatorWeights(3).agreement(batch, torch.eye(3)[batch.label], torch.full((4, 3), 0.25))
    assert (found == 0.25).all()


def test_annotators_who_do_not_look_count_less_in_the_agreement():
    X, truth = mh.categorical.synthetic.gaussians(600, 3, n_features=6)
    confusion = np.concatenate([mh.categorical.crowds.one_coin(5, 3, accuracy=0.85), np.full((3, 3, 3), 1 / 3)])
    votes = mh.simulate(truth=truth, confusion=confusion, labels_per_task=4).log
    learner = learn.Learn2Agree(backbone(), weights="learnt", max_epochs=15, lr=3e-3).fit(X.astype(np.float32), votes)
    assert learner.weights_.mean() == pytest.approx(1)
    assert learner.weights_[:5].min() > 1.2 * learner.weights_[5:].max()
    even = learn.Learn2Agree(backbone(), max_epochs=1).fit(X.astype(np.float32), votes)
    assert (even.weights_ == 1).all()


# ----------------------------------------------------------------------------------------------- one matrix for all


def test_a_single_matrix_of_the_majority():
    log = crowd(n=20, n_workers=4, per_task=2)
    learner = learn.SingleConfusion(backbone(), labels="majority", trace=0.3, max_epochs=2).fit(log.X, log.votes)
    # It is the vote's; workers are judged by the predictions, and differ.
    np.testing.assert_allclose(learner.matrix_.sum(axis=1), 1)
    assert (learner.confusion_[0] != learner.confusion_[1]).any()
    alike = learn.SingleConfusion(backbone(), max_epochs=2).fit(log.X, log.votes)
    np.testing.assert_allclose(alike.confusion_, np.tile(alike.matrix_, (4, 1, 1)))


def test_of_one_label_a_sample_all_and_majority_are_the_same():
    log = crowd(per_task=1)
    made = [learn.SingleConfusion(backbone(), labels=labels, max_epochs=3) for labels in ("all", "majority")]
    every, vote = (learner.fit(log.X, log.votes).predict_proba(log.X) for learner in made)
    np.testing.assert_allclose(every, vote, atol=TRAINED)


# -------------------------------------------------------------------------------------------- starts that are known


def test_a_crowd_layer_starts_from_what_votes_tell_of_workers():
    log = crowd()
    judged = mh.MajorityVote().fit(log.votes)
    learner = learn.CrowdLayer(backbone(), start_from=mh.MajorityVote(), worker_lr=0.0, max_epochs=1)
    np.testing.assert_allclose(learner.fit(log.X, log.votes).confusion_, judged.confusion_, atol=1e-5)
    for kind in ("VW", "VB", "VW-B"):
        with pytest.raises(ValueError, match='kind="MW"'):
            heads.CrowdWeights(2, 3, kind=kind).set_confusion(torch.ones(2, 3, 3) / 3)


def test_known_matrices_stay_and_undo_what_all_workers_do():
    """All call each class by the name of the next: only who knows that names the classes right."""
    X, truth = mh.categorical.synthetic.gaussians(400, 3, n_features=6)
    confusion = np.tile(0.05 * np.ones((3, 3)) + 0.85 * np.roll(np.eye(3), 1, axis=1), (6, 1, 1))
    votes = mh.simulate(truth=truth, confusion=confusion, labels_per_task=3).log
    options = {"worker_lr": 0.0, "max_epochs": 15, "lr": 5e-3}
    oracle = learn.CCEM(backbone(), start_from=confusion, **options).fit(X.astype(np.float32), votes)
    np.testing.assert_allclose(oracle.confusion_, confusion, atol=1e-5)
    assert oracle.score(X.astype(np.float32), truth) > 0.9
    assert learn.CCEM(backbone(), **options).fit(X.astype(np.float32), votes).score(X.astype(np.float32), truth) < 0.1
    assert (oracle.dominance_ < -0.8).all()
    for wrong, message in ((confusion[:5], "start_from"), (confusion * 2, "start_from")):
        with pytest.raises(ValueError, match=message):
            learn.CCEM(backbone(), start_from=wrong).fit(X.astype(np.float32), votes)


def test_posteriors_follow_from_known_matrices():
    log = crowd(n=30)
    learner = learn.DeepEM(backbone(), start_from=log.confusion, max_epochs=1).fit(log.X, log.votes)
    expected = plain.forecast(_rows(log.votes), np.full((30, 3), 1 / 3), log.confusion)
    np.testing.assert_allclose(learner._posterior.numpy(), expected, atol=1e-6)


def _rows(votes):
    from oracles.em import Rows

    return Rows.of(votes)


def test_dominance_is_that_of_the_matrices_learnt():
    log = crowd()
    learner = learn.TraceRegularized(backbone(), max_epochs=3).fit(log.X, log.votes)
    np.testing.assert_array_equal(learner.dominance_, mh.metrics.dominance(learner.confusion_))


def test_weights_are_learnt_of_the_votes_alone():
    with pytest.raises(ValueError, match="annotator"):
        learn.Learn2Agree(backbone(), weights="learnt", start_from=mh.DawidSkene()).fit(*_some())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (learn.MajorityTarget, {"loss": "wkl"}),
        (learn.LearnFromAll, {"loss": "hinge"}),
        (learn.Learn2Agree, {"stream_loss": "mse"}),
        (learn.Learn2Agree, {"weights": "learned"}),
        (learn.SingleConfusion, {"labels": "each"}),
    ],
)
def test_choices_that_are_none_are_named(make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make(backbone(), **options).fit(*_some())


def _some():
    log = crowd(n=20)
    return log.X, log.votes
