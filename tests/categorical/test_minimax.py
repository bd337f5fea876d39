"""Minimax entropy: parity with its twin, recovery, the objective, ordered classes, settings."""

from __future__ import annotations

import numpy as np
import pytest
from categorical_logs import tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import manyhands as mh
from manyhands.testing.compare import never_falls
from oracles import entropy as plain
from oracles.em import Rows

#: Compiled code and NumPy twins must agree to this.
PARITY = 1e-7


def drawn(rng: np.random.Generator, tau, sigma, truth, workers):
    """Labels drawn from the model itself: tasks × labels a task, by the workers given."""
    n, per_task = workers.shape
    logits = tau[np.arange(n)[:, None], truth[:, None]] + sigma[workers, truth[:, None]]
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=2)
    sizes = {"n_tasks": n, "n_workers": len(sigma), "n_classes": sigma.shape[-1]}
    return mh.Annotations.from_codes(np.repeat(np.arange(n), per_task), workers.ravel(), labels.ravel(), **sizes)


def own_crowd(n_tasks: int, n_workers: int = 30, k: int = 3, per_task: int = 6, spread: float = 0.7, seed: int = 0):
    """Votes drawn from the model, with the truth and its matrices."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n_tasks)
    sigma = 1.5 * np.eye(k) + rng.normal(0, 1, (n_workers, k, k))
    tau = rng.normal(0, spread, (n_tasks, k, k))
    workers = np.array([rng.permutation(n_workers)[:per_task] for _ in range(n_tasks)])
    return drawn(rng, tau, sigma, truth, workers), truth, tau, sigma


def centred(matrices: np.ndarray) -> np.ndarray:
    """What the labels can tell of them: neither what a row has in common, nor what all have."""
    matrices = matrices - matrices.mean(axis=2, keepdims=True)
    return matrices - matrices.mean(axis=0)


@given(votes=tables(), ordinal=st.booleans(), penalty=st.sampled_from([0.05, 1.0, 8.0]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_kernel_matches_its_twin(votes, ordinal, penalty):
    options = {"ordinal": ordinal, "worker_penalty": penalty, "task_penalty": 2 * penalty, "max_iter": 4}
    got = votes.table.minimax_fit(**options, tol=0.0)
    wanted = plain.minimax_fit(Rows.of(votes), **options)
    for name in ("posterior", "confusion", "sigma", "tau", "history"):
        np.testing.assert_allclose(got[name], getattr(wanted, name), rtol=PARITY, atol=PARITY, err_msg=name)
    assert never_falls(got["history"])


@pytest.mark.parametrize("ordinal", [False, True])
def test_ends_where_the_gradient_is_nought(ordinal):
    """At the end no number of a worker or task can be moved to advantage, classes being summed out."""
    votes, _, _, _ = own_crowd(25, n_workers=8, per_task=4)
    model = mh.categorical.MinimaxEntropy(ordinal=ordinal, max_iter=5000, tol=1e-15).fit(votes)
    rows, k, basis = Rows.of(votes), 3, plain.features(3, ordinal)
    worker_penalty, task_penalty = model._penalties(votes)
    theta, phi = (np.linalg.lstsq(basis, m.reshape(-1, k * k).T)[0].T for m in (model.sigma_, model.tau_))
    # The matrices are of the shape they should be.
    np.testing.assert_allclose(theta @ basis.T, model.sigma_.reshape(-1, k * k), atol=1e-12)

    def objective(theta, phi):
        cells = ((phi[rows.tasks] + theta[rows.workers]) @ basis.T).reshape(-1, k, k)
        logs = plain.log_softmax(cells, axis=2)[np.arange(len(cells)), :, rows.labels]
        joint = np.full((25, k), -np.log(k))
        np.add.at(joint, rows.tasks, logs)
        squares = worker_penalty * (theta**2).sum() + task_penalty * (phi**2).sum()
        return np.logaddexp.reduce(joint, axis=1).sum() - squares / 2

    if not ordinal:  # otherwise the smallest numbers with these matrices, which the penalty asks for too
        assert model.objective_ == pytest.approx(objective(theta, phi), rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = rng.normal(size=theta.shape), rng.normal(size=phi.shape)
        up, down = (objective(theta + s * 1e-5 * a, phi + s * 1e-5 * b) for s in (1, -1))
        assert abs(up - down) / 2e-5 < 1e-3


def test_recovers_its_own_parameters():
    """Sixteen times the labels a worker: what is their own shows more clearly, and so do the classes."""
    related = []
    for n_tasks in (60, 960):
        votes, truth, _, sigma = own_crowd(n_tasks)
        model = mh.categorical.MinimaxEntropy(worker_penalty=1.0, task_penalty=1 / 0.7**2, max_iter=500).fit(votes)
        related.append(np.corrcoef(centred(model.sigma_).ravel(), centred(sigma).ravel())[0, 1])
    assert related[0] + 0.1 < related[1]
    assert related[1] > 0.9
    right, majority = (mh.metrics.accuracy(m.labels_, truth) for m in (model, mh.MajorityVote().fit(votes)))
    assert right > majority + 0.02


def test_tasks_that_mislead_are_told():
    """Tau of tasks on which everybody tends to the next class, against that of the others."""
    rng = np.random.default_rng(1)
    n, m, k = 300, 20, 3
    truth, hard = rng.integers(0, k, n), np.arange(n) < 60
    sigma = np.tile(2.5 * np.eye(k), (m, 1, 1)) + rng.normal(0, 0.3, (m, k, k))
    tau = np.where(hard[:, None, None], 2.2 * np.roll(np.eye(k), 1, axis=1), 0.0)
    votes = drawn(rng, tau, sigma, truth, np.tile(np.arange(m), (n, 1)))
    model = mh.categorical.MinimaxEntropy(task_penalty=1.0).fit(votes)
    pull = model.tau_[np.arange(n), truth, (truth + 1) % k] - model.tau_[np.arange(n), truth, (truth + 2) % k]
    assert pull[hard].mean() > pull[~hard].mean() + 1.0


def ordered_crowd(n_tasks: int, seed: int = 0):
    """Workers of five ordered classes who err to the neighbours, some of them always low or high."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, n_tasks)
    tasks, workers = np.repeat(np.arange(n_tasks), 4), rng.integers(0, 60, 4 * n_tasks)
    lean = rng.normal(0, 0.8, 60)
    labels = np.clip(np.round(truth[tasks] + lean[workers] + rng.normal(0, 0.8, len(tasks))), 0, 4).astype(int)
    return mh.Annotations.from_codes(tasks, workers, labels, n_tasks=n_tasks, n_workers=60, n_classes=5), truth


def test_order_helps_where_labels_are_few():
    votes, truth = ordered_crowd(400)
    off = {
        ordinal: np.abs(mh.categorical.MinimaxEntropy(ordinal=ordinal).fit(votes).labels_ - truth).mean()
        for ordinal in (False, True)
    }
    assert off[True] < off[False]
    assert off[True] < np.abs(mh.MajorityVote().fit(votes).labels_ - truth).mean()


def test_reversing_the_order_reverses_the_answer():
    votes, _ = ordered_crowd(60)
    tasks, workers, labels = votes.codes()
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": 5}
    back = mh.Annotations.from_codes(tasks, workers, 4 - labels.astype(int), **sizes)
    there, again = (mh.categorical.MinimaxEntropy(ordinal=True, max_iter=20, tol=0.0).fit(v) for v in (votes, back))
    np.testing.assert_allclose(again.posterior_[:, ::-1], there.posterior_, atol=1e-9)
    np.testing.assert_allclose(again.sigma_[:, ::-1, ::-1], there.sigma_, atol=1e-9)


def test_penalties_hold_back():
    votes, _, _, _ = own_crowd(60)
    free, held = (mh.categorical.MinimaxEntropy(worker_penalty=p, max_iter=500).fit(votes) for p in (0.5, 50.0))
    assert np.abs(held.sigma_).mean() < 0.3 * np.abs(free.sigma_).mean()
    free, held = (mh.categorical.MinimaxEntropy(task_penalty=p, max_iter=500).fit(votes) for p in (0.5, 50.0))
    assert np.abs(held.tau_).mean() < 0.3 * np.abs(free.tau_).mean()
    assert mh.categorical.MinimaxEntropy()._penalties(votes) == (2.25, 2.25 * 60 / 30)


def test_predicts_what_it_fitted():
    votes, _, _, _ = own_crowd(200)
    model = mh.categorical.MinimaxEntropy(max_iter=2000, tol=1e-12).fit(votes)
    off = np.abs(model.predict_proba(votes) - model.posterior_).max(axis=1)
    # Matrices found anew from nought may end at another summit on a task or two.
    assert np.quantile(off, 0.97) < 1e-4


def test_too_many_classes_are_refused_at_once():
    votes = mh.Annotations.from_codes([0, 1], [0, 0], [0, 1], n_tasks=2, n_workers=1, n_classes=40_000)
    with pytest.raises(ValueError, match=r"40000.*40000 classes.*2 tasks.*1 workers"):
        mh.categorical.MinimaxEntropy().fit(votes)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"worker_penalty": 0}, "worker_penalty.*0"),
        ({"task_penalty": -1.0}, "task_penalty.*0"),
        ({"max_iter": 0}, "max_iter.*1"),
    ],
)
def test_bad_settings(params, message):
    with pytest.raises(ValueError, match=message):
        mh.categorical.MinimaxEntropy(**params).fit(mh.Annotations.from_dense([[0, 1]]))
    with pytest.raises(TypeError, match="ordinal"):
        mh.categorical.MinimaxEntropy(ordinal="yes").fit(mh.Annotations.from_dense([[0, 1]]))


def test_an_early_end_warns():
    votes, _, _, _ = own_crowd(60)
    with pytest.warns(mh.errors.ConvergenceWarning, match="MinimaxEntropy.*max_iter=2"):
        mh.categorical.MinimaxEntropy(max_iter=2).fit(votes)
