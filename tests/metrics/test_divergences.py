"""f-divergences and f-mutual information against their definitions, and detection of workers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyhands as mh
from manyhands.metrics import detection, f_divergence, f_information

#: f, f' and f*(f') by Table 1 of Max-MIG and by hand.
TABLE = {
    "kl": (lambda t: t * math.log(t), lambda t: 1 + math.log(t), lambda t: t),
    "pearson": (lambda t: (t - 1) ** 2, lambda t: 2 * (t - 1), lambda t: t**2 - 1),
    "js": (
        lambda t: -(t + 1) * math.log((t + 1) / 2) + t * math.log(t),
        lambda t: math.log(2 * t / (1 + t)),
        lambda t: -math.log(2 / (1 + t)),
    ),
    "reverse-kl": (lambda t: -math.log(t), lambda t: -1 / t, lambda t: math.log(t) - 1),
    "hellinger": (lambda t: (math.sqrt(t) - 1) ** 2, lambda t: 1 - t**-0.5, lambda t: math.sqrt(t) - 1),
    "total-variation": (
        lambda t: abs(t - 1) / 2,
        lambda t: math.copysign(0.5, t - 1),
        lambda t: math.copysign(0.5, t - 1),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_divergences_are_the_sum_of_their_definition(name):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6), size=2)
    f = TABLE[name][0]
    assert f_divergence(p, q, name) == pytest.approx(sum(a * f(b / a) for a, b in zip(p, q, strict=True)))
    assert f_divergence(p, p, name) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("name", TABLE)
def test_information_is_the_greatest_gain_of_max_mig(name):
    """E over the joint of f'(K) less E over the product of f*(f'(K)), with K their ratio (Theorem 3.4)."""
    joint = np.random.default_rng(1).dirichlet(np.ones(12)).reshape(3, 4)
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    _, slope, dual = TABLE[name]
    gain = sum(
        joint[at] * slope(joint[at] / product[at]) - product[at] * dual(joint[at] / product[at])
        for at in np.ndindex(joint.shape)
    )
    assert f_information(joint, divergence=name) == pytest.approx(gain)
    assert f_information(product, divergence=name) == pytest.approx(0, abs=1e-12)
    # Definition C.1 of the paper, whose arguments are the other way round.
    literal = sum(joint[at] * TABLE[name][0](product[at] / joint[at]) for at in np.ndindex(joint.shape))
    assert f_divergence(joint, product, name) == pytest.approx(literal)


def test_shannon_information_is_that_of_a_worker():
    confusion, prior = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.4, 0.6])
    bits = mh.metrics.information(confusion[None], prior)[0]
    assert f_information(prior[:, None] * confusion) == pytest.approx(bits * math.log(2))


def test_mass_where_the_other_distribution_has_none():
    p, q = [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]
    assert f_divergence(p, q, "kl") == f_divergence(p, q, "pearson") == math.inf
    assert f_divergence(q, p, "kl") == pytest.approx(0.5 * math.log(2))
    assert f_divergence(q, p, "reverse-kl") == math.inf
    for name in ("js", "hellinger", "total-variation"):
        assert f_divergence(p, q, name) == pytest.approx(f_divergence(q, p, name))
    assert f_divergence(p, q, "total-variation") == pytest.approx(0.25)
    assert f_divergence([1, 0], [0, 1], "js") == pytest.approx(2 * math.log(2))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: f_information([[0.5, 0.2]]), "joint sums to 0.7"),
        (lambda: f_information([0.5, 0.5]), r"joint has shape \(2,\)"),
        (lambda: f_divergence([1.0], [0.5, 0.5]), r"p has shape \(1,\)"),
        (lambda: f_divergence([1.5, -0.5], [0.5, 0.5]), "p must"),
        (lambda: f_information(np.eye(2) / 2, divergence="cosine"), "divergence.*'cosine'"),
    ],
)
def test_bad_distributions(call, match):
    with pytest.raises(ValueError, match=match):
        call()


# ----------------------------------------------------------------------------------------------------- detection


@pytest.fixture
def finding():
    crowd = mh.simulate(600, 12, 4, crowd="one-coin", labels_per_task=8, seed=1)
    tasks, workers, labels = crowd.log.codes()
    labels[workers < 3] = 2
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=600, n_workers=12, n_classes=4)
    result = mh.audit.spammers(votes)
    assert result.workers.tolist() == [0, 1, 2]
    return result


def test_detection_by_hand(finding):
    result = detection(finding, truth=[1, 2, 7, 8])
    assert result == (2 / 4, 7 / 8, 2 / 3, 3, 4, 2, 12)
    mask = np.isin(np.arange(12), [1, 2, 7, 8])
    assert detection(finding, mask) == detection(finding, {1, 2, 7, 8}) == result
    assert detection(finding, {1: True, 2: True, 7: True, 8: True, 0: False, 5: False}) == (0.5, 0.5, 2 / 3, 3, 4, 2, 6)
    nobody = detection(finding, [])
    assert math.isnan(nobody.sensitivity)
    assert nobody.specificity == 9 / 12


@pytest.mark.parametrize(
    ("truth", "error", "match"),
    [
        ([99], ValueError, "truth.*99"),
        ([True, False], ValueError, "truth.*2 workers.*12"),
        ({0: "yes"}, TypeError, "truth of worker 0.*'yes'"),
        ({77: True}, ValueError, "truth.*77"),
        ("01", TypeError, "truth.*single name '01'"),
    ],
)
def test_bad_truths(finding, truth, error, match):
    with pytest.raises(error, match=match):
        detection(finding, truth)


def test_detection_is_of_findings():
    with pytest.raises(TypeError, match=r"finding.*list"):
        detection([1, 2], [1])
