"""The training loop: batches, optimisers, early stopping, and losses that are no numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from learners import backbone, crowd
from precision import TRAINED
from torch import nn

import manyhands as mh
from manyhands import _core, learn
from manyhands._train.batch import CrowdData
from manyhands._train.large_tables import LazyAdam
from oracles import learn as plain

CPU = torch.device("cpu")


def test_every_epoch_has_every_sample_once_in_another_order():
    log = crowd(n=50)
    data, shuffle = CrowdData(log.X, log.votes), torch.Generator().manual_seed(0)
    epochs = [
        torch.cat([batch.tasks for batch in data.batches(data.samples, 8, CPU, shuffle=shuffle)]) for _ in range(2)
    ]
    for order in epochs:
        assert sorted(order.tolist()) == list(range(50))
        assert order.tolist() != list(range(50))
    assert not torch.equal(*epochs)
    plain_order = torch.cat([batch.tasks for batch in data.batches(data.samples, 8, CPU)])
    assert plain_order.tolist() == list(range(50))


@pytest.mark.parametrize("at_once", [1, 30, 1 << 16])
def test_batches_have_the_annotations_of_their_samples(monkeypatch, at_once):
    """However many are gathered at once; samples without annotations, weights and a truth among them."""
    monkeypatch.setattr("manyhands._train.batch._GATHERED", at_once)
    rng = np.random.default_rng(0)
    tasks, workers, labels = rng.integers(40, size=90), rng.integers(7, size=90), rng.integers(3, size=90)
    votes = mh.Annotations.from_codes(
        tasks, workers, labels, weights=rng.random(90), n_tasks=40, n_workers=7, n_classes=3
    )
    data = CrowdData(rng.normal(size=(40, 2)), votes)
    data.truth = torch.from_numpy(rng.integers(3, size=40))
    of_task, of_worker, of_label = votes.codes()
    found = list(data.batches(torch.arange(40), 8, CPU, shuffle=torch.Generator().manual_seed(1)))
    assert [len(batch) for batch in found] == [8] * 5
    for batch in found:
        expected = [at for task in batch.tasks.tolist() for at in np.flatnonzero(of_task == task)]
        assert batch.index.tolist() == expected
        assert batch.tasks[batch.sample].tolist() == of_task[expected].tolist()
        assert batch.worker.tolist() == of_worker[expected].tolist()
        assert batch.label.tolist() == of_label[expected].tolist()
        np.testing.assert_allclose(batch.weight, votes.weights[expected], rtol=1e-6)
        assert torch.equal(batch.truth, data.truth[batch.tasks])
        np.testing.assert_allclose(batch.x, data.features.fetch(batch.tasks))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # by the core, and by torch
@pytest.mark.parametrize("coalesced", [False, True])
def test_lazy_adam_is_sparse_adam(coalesced, dtype):
    """Rows that come twice in a step, rows that rest for some steps, rates that change."""
    torch.manual_seed(0)
    start = torch.randn(6, 3, dtype=dtype)
    tables = [nn.Parameter(start.clone()) for _ in range(2)]
    optimizers = [LazyAdam([tables[0]], lr=0.1), torch.optim.SparseAdam([tables[1]], lr=0.1)]
    for step in range(6):
        worker, weight = torch.randint(5, (4,)), torch.randn(4, 3, dtype=dtype)
        for table, optimizer in zip(tables, optimizers, strict=True):
            optimizer.zero_grad()
            (F.embedding(worker, table, sparse=True) * weight).sum().backward()
            if coalesced:
                table.grad = table.grad.coalesce()
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1])
    assert torch.equal(tables[0][5], start[5])
    assert tables[0]._version >= 6  # whoever kept it for a gradient is told that it changed


@pytest.mark.parametrize("width", [1, 3, 100])
def test_the_compiled_step_is_that_of_its_twin(width):
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(50, width)), 0.1 * rng.normal(size=(50, width)), rng.random((50, width))]
    found, expected = [each.astype(np.float32) for each in start], [each.copy() for each in start]
    for number in (1, 2, 1000):
        rows, gradient = rng.integers(40, size=30), rng.normal(size=(30, width)).astype(np.float32)
        step = {"rate": 0.1, "betas": (0.9, 0.99), "eps": 1e-3, "number": number}
        _core.adam_rows(*found, rows, gradient, **step)
        plain.adam_rows(*expected, rows, gradient.astype(np.float64), **step)
    for own, twin in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, twin, rtol=1e-5, atol=1e-6)  # the kernel's numbers are of single precision


def test_a_step_on_rows_that_are_not_there_is_refused():
    tables = [np.zeros((3, 2), np.float32) for _ in range(3)]
    step = {"rate": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "number": 1}
    gradient = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"row 3, and.*3 of"):
        _core.adam_rows(*tables, np.array([3]), gradient, **step)
    with pytest.raises(ValueError, match="mean"):
        _core.adam_rows(tables[0], tables[1][:2], tables[2], np.array([1]), gradient, **step)


def test_a_sparse_table_learns_the_same_as_a_dense_one(monkeypatch):
    """Every worker is in every batch: lazy Adam and Adam then take the same steps."""
    log = crowd(n=64, n_workers=4, per_task=4)
    options = {"max_epochs": 4, "batch_size": 32, "worker_lr": 1e-3}
    dense = learn.TraceRegularized(backbone(), **options).fit(log.X, log.votes)
    monkeypatch.setattr("manyhands._train.large_tables._LAZY_FROM", 1)
    lazy = learn.TraceRegularized(backbone(), **options, clip=1e6).fit(log.X, log.votes)
    assert lazy._crowd.table.sparse
    np.testing.assert_allclose(lazy.confusion_, dense.confusion_, atol=TRAINED)
    np.testing.assert_allclose(lazy.predict_proba(log.X), dense.predict_proba(log.X), atol=TRAINED)


def test_early_stopping_keeps_the_best_epoch():
    log = crowd(n=120)
    seen = []
    learner = learn.LearnFromAll(
        backbone(),
        max_epochs=200,
        lr=0.05,
        validation=0.3,
        patience=3,
        callbacks=[lambda learner, record: seen.append(record["score"])],
    ).fit(log.X, log.votes)
    score = learner.history_["score"]
    assert len(score) < 200
    assert seen == score.tolist()
    assert score.argmax() == len(score) - 4
    shorter = learn.LearnFromAll(backbone(), max_epochs=int(score.argmax()) + 1, lr=0.05, validation=0.3)
    again = shorter.fit(log.X, log.votes)
    np.testing.assert_array_equal(again.predict_proba(log.X), learner.predict_proba(log.X))


def test_clipping_schedules_precision_and_optimizers():
    log = crowd()
    for options in (
        {"clip": 0.01},
        {"schedule": "cosine"},
        {"schedule": "step"},
        {"schedule": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)},
        {"precision": "bfloat16"},
        {"optimizer": "sgd"},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"worker_lr": 0.1},
    ):
        usual = learn.CCEM(backbone(), max_epochs=3).fit(log.X, log.votes)
        other = learn.CCEM(backbone(), max_epochs=3, **options).fit(log.X, log.votes)
        assert (usual.predict_proba(log.X) != other.predict_proba(log.X)).any()
    rates = learn.CCEM(backbone(), max_epochs=4, schedule="step").fit(log.X, log.votes).history_["lr"]
    np.testing.assert_allclose(rates, [1e-3, 1e-3, 1e-4, 1e-5])


def test_a_loss_that_is_not_finite_raises():
    log = crowd()
    huge = torch.nn.Linear(6, 3)
    torch.nn.init.constant_(huge.weight, 1e38)
    with pytest.raises(FloatingPointError, match="lr"):
        learn.CCEM(huge, max_epochs=1).fit(100 * log.X, log.votes)


def test_a_trace_that_is_too_large_raises():
    log = crowd()
    with pytest.raises(ValueError, match="trace=1000"):
        learn.TraceRegularized(backbone(), trace=1000.0, worker_lr=0.1, max_epochs=30).fit(log.X, log.votes)


def test_a_singular_volume_raises_without_ridge():
    log = crowd()
    votes = mh.Annotations.from_arrays(
        *(log.votes.to_frame()[c] for c in ("task", "worker", "label")), classes=range(40)
    )
    with pytest.raises(ValueError, match="singular"):
        learn.GeoCrowdNet(backbone(40), ridge=0.0, batch_size=8, max_epochs=1).fit(log.X, votes)


def test_progress_is_reported():
    log = crowd()
    seen = []
    learn.CCEM(backbone(), max_epochs=3).fit(log.X, log.votes, progress=lambda epoch, loss: seen.append(epoch))
    assert seen == [1, 2, 3]
