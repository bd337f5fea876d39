"""What every learner is held to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import VARIANTS, Crowd, Seen, Variant, backbone, crowd, slopes_agree
from precision import TRAINED, sum_in_single
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import manyhands as mh
from manyhands import learn
from manyhands._train.batch import Batch
from manyhands.testing import network_checks
from manyhands.testing.learners import draw_samples, starts

#: What networks make, and what is made of votes, is in single precision before a loss in double is compared: sums of at
#: most some twenty terms, three times over.
SINGLE = sum_in_single(100)

every = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def test_every_learner_has_a_variant():
    assert {variant.make for variant in VARIANTS} == set(learn.all_learners())


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{variant.name}-{name}")
        for variant in VARIANTS
        for name, check in network_checks(variant.made)
    ],
)
def test_check_list(check: Callable[[], None]):
    check()


@every
def test_who_can_start_from_an_aggregator(variant: Variant):
    log = draw_samples(60)
    assert starts(variant.learner(max_epochs=2, start_from=mh.MajorityVote()), log) == variant.starts


def in_double(learner: Any, log: Crowd) -> tuple[Batch, torch.Tensor]:
    """A batch of all samples and what the networks make of it; all that a learner keeps becomes double precision."""
    data = learn.CrowdData(log.X, log.votes)
    batch = data.batch(data.samples, torch.device("cpu"))
    learner._parts.eval()
    with torch.no_grad():
        output = learner._forward(batch.x).double()
    learner._parts.double()
    for name, kept in list(vars(learner).items()):
        if isinstance(kept, torch.Tensor) and kept.is_floating_point():
            setattr(learner, name, kept.detach().double())
    return replace(batch, x=batch.x.double(), weight=batch.weight.double()), output


@every
def test_the_loss_of_a_batch_is_that_of_its_twin(variant: Variant):
    log = crowd(n=40, per_task=(1, 4))
    options = {"max_epochs": 3, "lr": 0.05, "worker_lr": 0.1} | variant.twinned
    learner = variant.learner(**options).fit(log.X, log.votes)
    batch, output = in_double(learner, log)
    triples = list(zip(batch.sample.tolist(), batch.worker.tolist(), batch.label.tolist(), strict=True))
    with torch.no_grad():
        found = variant.loss(learner, batch, output).item()
    expected = variant.twin(learner, Seen(batch.x.numpy(), output.exp().numpy(), triples))
    assert found == pytest.approx(expected, rel=SINGLE)


@pytest.mark.parametrize("variant", [each for each in VARIANTS if each.exact is not None], ids=lambda each: each.name)
def test_gradients_are_the_slopes_of_the_loss(variant: Variant):
    """Of the loss of a batch by whatever the networks make of it, and by everything that is learnt of the crowd."""
    log = crowd(n=30)
    learner = variant.learner(**{"max_epochs": 2, "worker_lr": 0.1} | variant.exact).fit(log.X, log.votes)
    batch, output = in_double(learner, log)
    given = {"output": output.requires_grad_(), **dict(learner._parts.named_parameters())}
    # Made in a forward pass, beside its result; some learners leave features to the classes alone.
    for name in ("_logits", "_level", *(["_features"] if getattr(learner, "_joint", True) else [])):
        if hasattr(learner, name):
            given[name] = getattr(learner, name).requires_grad_()

    def loss() -> torch.Tensor:
        torch.manual_seed(0)
        return learner._loss(batch, output)

    slopes_agree(loss, given)


def test_a_fit_that_fails_leaves_nothing_to_predict_with():
    log = crowd()
    learner = learn.CCEM(backbone(), max_epochs=1).fit(log.X, log.votes)
    learner.set_params(schedule=lambda optimizer: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.fit(log.X, log.votes)
    with pytest.raises(mh.errors.NotFittedError, match="did not end"):
        learner.predict(log.X)


def test_a_fit_that_fails_at_its_end_leaves_nothing_of_the_one_before():
    log = crowd()
    learner = learn.TraceRegularized(backbone(), max_epochs=1).fit(log.X, log.votes)
    learner.set_params(trace=1000.0, worker_lr=0.1, max_epochs=30)
    with pytest.raises(ValueError, match="too large"):
        learner.fit(log.X, log.votes)
    with pytest.raises(mh.errors.NotFittedError, match="did not end"):
        _ = learner.confusion_


# ------------------------------------------------------------------------------------------------ what goes in


def test_features_of_every_kind_give_the_same():
    from scipy.sparse import csr_matrix

    log = crowd()
    expected = learn.CCEM(backbone(), max_epochs=2).fit(log.X, log.votes).predict_proba(log.X)

    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(log.X)

        def __getitem__(self, i: int):
            return torch.from_numpy(log.X[i]), 0

    for X in (log.X.astype(np.float64), torch.from_numpy(log.X), csr_matrix(log.X), Data(), log.X.tolist()):
        found = learn.CCEM(backbone(), max_epochs=2).fit(X, log.votes).predict_proba(X)
        np.testing.assert_allclose(found, expected, atol=TRAINED)


def test_rows_are_found_by_name_whatever_their_order():
    log = crowd()
    names = [f"image {i}" for i in range(len(log.X))]
    columns = log.votes.to_frame()
    named = mh.Annotations.from_arrays(
        [names[i] for i in columns["task"].to_pylist()], columns["worker"], columns["label"]
    )
    order = np.random.default_rng(0).permutation(len(log.X))
    learner = learn.DeepEM(backbone(), max_epochs=2).fit(log.X[order], named, tasks=[names[i] for i in order])
    both = learner.predict_proba(log.X[order], named, tasks=[names[i] for i in order])
    back = learner.predict_proba(log.X, named, tasks=names)
    np.testing.assert_allclose(both[np.argsort(order)], back, atol=1e-9)


def test_rows_without_votes_are_predicted_from_features_alone():
    log = crowd()
    some = log.votes.select(tasks=range(100))
    learner = learn.TraceRegularized(backbone(), max_epochs=2).fit(log.X, some)
    alone, both = learner.predict_proba(log.X), learner.predict_proba(log.X, some)
    assert (alone[100:] == both[100:]).all()
    assert (alone[:100] != both[:100]).any(axis=1).all()


def test_a_worker_nobody_knows_counts_as_the_average():
    log = crowd()
    learner = learn.CCEM(backbone(), max_epochs=2).fit(log.X, log.votes)
    new = mh.Annotations.from_arrays([0], ["stranger"], [1], classes=log.votes.classes)
    mean = np.average(learner.confusion_, axis=0, weights=log.votes.labels_per_worker)
    expected = learner.predict_proba(log.X[:1])[0] * mean[:, 1]
    np.testing.assert_allclose(learner.predict_proba(log.X[:1], new)[0], expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: {"tasks": ["a"]}, "1 rows.*240"),
        (lambda log: {"X": log.X[:10]}, "rows of X.*10"),
        (
            lambda log: {"X": np.where(np.arange(240)[:, None] == 7, np.nan, log.X)},
            "NaN.*row 7",
        ),
        (lambda log: {"X": torch.full((240, 6), torch.inf)}, "NaN.*row 0"),
        (lambda log: {"tasks": [0, *range(239)]}, "0 more than once"),
        (lambda log: {"tasks": range(1, 241)}, "0 of the votes"),
        (lambda log: {"votes": mh.Annotations.from_arrays(["a"], ["b"], [0])}, "tasks="),
    ],
)
def test_misaligned_input(change, message):
    log = crowd()
    given = {"X": log.X, "votes": log.votes, "tasks": None} | change(log)
    with pytest.raises(ValueError, match=message):
        learn.CCEM(backbone(), max_epochs=1).fit(given["X"], given["votes"], tasks=given["tasks"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_epochs": 0}, ValueError, "max_epochs.*1"),
        ({"lr": -1.0}, ValueError, "lr.*0"),
        ({"optimizer": "lion"}, ValueError, "optimizer"),
        ({"schedule": "sawtooth"}, ValueError, "schedule"),
        ({"reduction": "sum"}, ValueError, "reduction"),
        ({"precision": "float8"}, ValueError, "precision"),
        ({"validation": 1.0}, ValueError, "below 1"),
        ({"patience": 3}, ValueError, "validation"),
        ({"start_from": "majority"}, TypeError, "start_from"),
        ({"workers": "telepathy"}, ValueError, "workers"),
    ],
)
def test_settings_that_cannot_work(options, error, message):
    log = crowd()
    with pytest.raises(error, match=message):
        learn.CCEM(backbone(), **options).fit(log.X, log.votes)


def test_a_backbone_that_does_not_fit():
    log = crowd()
    with pytest.raises(ValueError, match="logit"):
        learn.CCEM(backbone(5), max_epochs=1).fit(log.X, log.votes)
    with pytest.raises(TypeError, match="backbone"):
        learn.CCEM(lambda x: x).fit(log.X, log.votes)

    class Closed(nn.Module):
        def forward(self, x):
            return x[:, :3]

    with pytest.raises(ValueError, match="not 5"):
        learn.DoctorNet(backbone(5), max_epochs=1).fit(log.X, log.votes)
    for make in (learn.DoctorNet, learn.InstanceTrace, learn.Learn2Agree):
        with pytest.raises(ValueError, match="trunk"):
            make(Closed(), max_epochs=1).fit(log.X, log.votes)
    with pytest.raises(ValueError, match="parameters"):
        learn.MajorityTarget(Closed(), max_epochs=1).fit(log.X, log.votes)


# ------------------------------------------------------------------------------------------------ scikit-learn


def test_pipeline_and_cross_val_predict():
    log = crowd(n_workers=5, per_task=5)
    matrix = np.full((len(log.X), 5), -1)
    tasks, workers, labels = log.votes.codes()
    matrix[tasks, workers] = labels
    model = make_pipeline(StandardScaler(), learn.CCEM(backbone(), max_epochs=15, lr=5e-3))
    assert (model.fit(log.X, matrix).predict(log.X) == log.truth).mean() > 0.8
    assert (cross_val_predict(model, log.X, matrix, cv=3) == log.truth).mean() > 0.8


def test_import_is_light_and_says_what_is_missing():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import manyhands as mh\n"
        "try:\n    mh.learn\nexcept ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "manyhands[torch] @ git+https://github.com/manyhands/manyhands"' in out
