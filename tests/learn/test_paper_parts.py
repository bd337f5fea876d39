"""Parts that papers name and do not spell out: taxonomies, constrained outliers, evaluation without some subjects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import backbone, crowd
from torch import nn

import manyhands as mh
from manyhands import learn
from manyhands.learn.heads import TaxonomyConfusion, taxonomy_paths

TAXONOMY = {
    "cat": "pet",
    "dog": "pet",
    "wolf": "animal",
    "pet": "animal",
    "car": "machine",
    "bus": "machine",
    "sky": None,
}
CLASSES = ["bus", "car", "cat", "dog", "sky", "wolf"]


def walk_down(rates: dict[str, float]) -> np.ndarray:
    """Confusion of a worker by a walk from the root, written out: right at each branching, else any other branch."""
    branches = {
        "root": [["cat", "dog", "wolf"], ["car", "bus"], ["sky"]],
        "animal": [["cat", "dog"], ["wolf"]],
        "pet": [["cat"], ["dog"]],
        "machine": [["car"], ["bus"]],
    }
    below = {"root": ["animal", "machine"], "animal": ["pet"], "pet": [], "machine": []}
    table = np.zeros((6, 6))

    def walk(node: str, true: str, mass: float) -> None:
        own = next(branch for branch in branches[node] if true in branch)
        others = [branch for branch in branches[node] if branch is not own]
        for branch in others:
            for leaf in branch:
                table[CLASSES.index(true), CLASSES.index(leaf)] += mass * (1 - rates[node]) / len(others) / len(branch)
        deeper = [node for node in below[node] if {leaf for branch in branches[node] for leaf in branch} == set(own)]
        if deeper:
            walk(deeper[0], true, mass * rates[node])
        else:
            assert own == [true]
            table[CLASSES.index(true), CLASSES.index(true)] += mass * rates[node]

    for true in CLASSES:
        walk("root", true, 1.0)
    return table


def test_confusion_along_a_taxonomy():
    model = TaxonomyConfusion(2, taxonomy_paths(TAXONOMY, CLASSES))
    # Branchings are met in this order: the first class is below the root and below "machine".
    rates = [
        {"root": 0.7, "machine": 0.6, "animal": 0.8, "pet": 0.9},
        dict.fromkeys(("root", "machine", "animal", "pet"), 0.5),
    ]
    model.table.set(torch.logit(torch.tensor([list(own.values()) for own in rates])))
    expected = np.stack([walk_down(own) for own in rates])
    np.testing.assert_allclose(expected.sum(axis=2), 1)
    np.testing.assert_allclose(model.confusion(), expected, atol=1e-6)
    again = TaxonomyConfusion(2, taxonomy_paths(TAXONOMY, CLASSES))
    again.set_confusion(torch.from_numpy(expected).float())
    # Rates pool the classes below a branching; here all classes agree about them.
    np.testing.assert_allclose(again.confusion(), expected, atol=1e-5)


def test_a_taxonomy_is_learnt_with_few_labels_of_each_worker():
    rng = np.random.default_rng(0)
    matrices = np.stack(
        [
            walk_down(dict(zip(("root", "machine", "animal", "pet"), rng.uniform(0.5, 1, 4), strict=True)))
            for _ in range(30)
        ]
    )
    X, truth = mh.categorical.synthetic.gaussians(600, 6, n_features=6, separation=3.0, seed=1)
    tasks = np.repeat(np.arange(600), 2)
    workers = rng.integers(30, size=1200)
    labels = [rng.choice(6, p=matrices[w, truth[t]]) for t, w in zip(tasks, workers, strict=True)]
    first = np.unique(tasks * 30 + workers, return_index=True)[1]
    votes = mh.Annotations.from_arrays(
        tasks[first], workers[first], [CLASSES[labels[i]] for i in first], classes=CLASSES
    )
    errors = {}
    for kind, taxonomy in (("softplus", None), ("taxonomy", TAXONOMY)):
        torch.manual_seed(0)
        learner = learn.CCEM(nn.Linear(6, 6), workers=kind, taxonomy=taxonomy, max_epochs=20, lr=2e-2, worker_lr=5e-2)
        learner.fit(X.astype(np.float32), votes)
        errors[kind] = mh.metrics.confusion_error(learner.confusion_, matrices)
    assert errors["taxonomy"] < 0.6 * errors["softplus"]


@pytest.mark.parametrize(
    ("taxonomy", "match"),
    [
        ({"a": "g"}, r"taxonomy has no group for class 'b'"),
        ({"a": "g", "b": "a"}, r"'b' below 'a', which is a class"),
        ({"a": "g", "b": "g", "g": "h", "h": "g"}, r"cycle through 'g'"),
        ({"a": "g", "b": "g", "z": "g"}, r"'z', which is neither"),
    ],
)
def test_impossible_taxonomies_are_named(taxonomy, match):
    votes = mh.Annotations.from_arrays([0, 1, 2], ["u", "u", "v"], ["a", "b", "a"])
    learner = learn.CCEM(backbone(2), workers="taxonomy", taxonomy=taxonomy)
    with pytest.raises(ValueError, match=match):
        learner.fit(np.zeros((3, 6), np.float32), votes)


def test_a_taxonomy_from_groups_to_classes_is_named():
    votes = mh.Annotations.from_arrays([0, 1, 2], ["u", "u", "v"], ["a", "b", "a"])
    learner = learn.CCEM(backbone(2), workers="taxonomy", taxonomy={"g": ["a", "b"]})
    with pytest.raises(TypeError, match=r"taxonomy maps 'g' to \['a', 'b'\].*not each group to its classes"):
        learner.fit(np.zeros((3, 6), np.float32), votes)


def test_worker_models_and_taxonomies_go_together():
    votes = mh.Annotations.from_arrays([0, 1, 2], ["u", "u", "v"], ["a", "b", "a"])
    for options in ({"workers": "taxonomy"}, {"taxonomy": {"a": None, "b": None}}):
        with pytest.raises(ValueError, match="taxonomy"):
            learn.CCEM(backbone(2), **options).fit(np.zeros((3, 6), np.float32), votes)


# --------------------------------------------------------------------------------------- constraints and penalties


def test_at_most_so_many_outliers():
    X, truth = mh.categorical.synthetic.gaussians(800, 4, separation=5.0, seed=3)
    log, odd = mh.categorical.synthetic.outliers(
        X, truth, mh.categorical.crowds.one_coin(8, 4, accuracy=0.85), share=0.1, labels_per_task=4, seed=3
    )
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
    learner = learn.COINNet(network, most_outliers=80, max_epochs=25).fit(X, log.log)
    result = learner.outlier_scores_ > 0
    assert result.sum() <= 80
    assert odd[result].mean() > 0.6
    none = learn.COINNet(network, most_outliers=0, max_epochs=2).fit(X, log.log)
    assert not none.outlier_scores_.any()
    with pytest.raises(ValueError, match="most_outliers"):
        learn.COINNet(network, most_outliers=-1).fit(X, log.log)
    for name in ("outlier", "p", "zeta"):
        with pytest.raises(ValueError, match=rf"{name}=0.9 belongs to the penalty, which most_outliers=80"):
            learn.COINNet(network, most_outliers=80, **{name: 0.9}).fit(X, log.log)


@pytest.mark.parametrize("labels", ["all", "majority"])
def test_the_penalty_of_a_single_matrix_may_be_its_frobenius_norm(labels):
    log = crowd(n=60)
    losses = {}
    for norm in ("trace", "frobenius"):
        learner = learn.SingleConfusion(
            backbone(), labels=labels, norm=norm, trace=0.3, max_epochs=1, lr=0, worker_lr=0
        )
        learner.fit(log.X, log.votes)
        learner._parts.eval()
        batch = learn.CrowdData(log.X, log.votes).batch(torch.arange(60), torch.device("cpu"))
        with torch.no_grad():
            losses[norm] = learner._loss(batch, learner._forward(batch.x)).item()
        matrix = learner.matrix_
    scale = 0.3 / (len(log.votes) / 60 if labels == "all" else 1)
    assert losses["frobenius"] - losses["trace"] == pytest.approx(
        scale * ((matrix**2).sum() - np.trace(matrix)), rel=1e-4
    )


# -------------------------------------------------------------------------------------- evaluation without some


class Recalled(nn.Module):
    """Knows the rows that it was trained on and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(40, 2)

    def forward(self, x):
        return self.out(nn.functional.one_hot(x[:, 0].long(), 40).float())


def test_subjects_are_predicted_by_learners_that_have_not_seen_them():
    X = np.arange(40, dtype=np.float32)[:, None]
    truth = np.arange(40) % 2
    votes = mh.Annotations.from_dense(np.repeat(truth[:, None], 3, axis=1))
    subjects = np.repeat(["p", "q", "r", "s"], 10)
    torch.manual_seed(0)
    learner = learn.SoftTarget(Recalled(), max_epochs=60, lr=0.1)
    assert learner.fit(X, votes).score(X, truth) == 1.0
    before = learner.predict_proba(X)
    result = learn.leave_subjects_out(learner, X, votes, subjects)
    # Nothing was learned of the rows of the subject: one even half of them is right by the network's random start.
    assert np.abs(result - 0.5).max() < 0.35 < np.abs(before - 0.5).min()
    part = learn.leave_subjects_out(learner, X, votes, subjects, only=["q"])
    np.testing.assert_array_equal(part[10:20], result[10:20])
    assert np.isnan(part[:10]).all()
    np.testing.assert_array_equal(learner.predict_proba(X), before)


@pytest.mark.parametrize(
    ("subjects", "options", "match"),
    [
        (["p"] * 9, {}, "subjects has 9 entries"),
        (["p"] * 20, {}, "subjects are all the same"),
        (["p", None] * 10, {}, "subjects has no subject in row 1"),
        (["p", "q"] * 10, {"only": ["z"]}, "unknown subjects.*'z'"),
    ],
)
def test_subjects_that_are_unknown_are_named(subjects, options, match):
    log = crowd(n=20)
    with pytest.raises(ValueError, match=match):
        learn.leave_subjects_out(learn.SoftTarget(backbone()), log.X, log.votes, subjects, **options)


def test_annotators_are_compared_with_a_learner_that_has_not_seen_them():
    log = crowd(n=200, n_workers=4, per_task=4, crowd="one-coin", accuracy=(0.85, 0.95))
    tasks, workers, labels = log.votes.codes()
    labels = np.where(workers == 3, np.random.default_rng(0).integers(3, size=len(labels)), labels)
    votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=200, n_workers=4, n_classes=3)
    learner = learn.SoftTarget(backbone(), max_epochs=25, lr=1e-2)
    result = learn.leave_annotators_out(learner, log.X, votes).to_pydict()
    assert result["worker"] == [0, 1, 2, 3]
    assert result["n_others"] == [3] * 4
    others = [mh.agreement.cohen_kappa(votes, (0, other)).value for other in (1, 2, 3)]
    assert result["others"][0] == pytest.approx(np.mean(others))
    rest = votes.select(workers=[1, 2, 3])
    predicted = learner.fit(log.X, rest).predict(log.X)
    both = mh.Annotations.from_dense(np.c_[labels[workers == 0][np.argsort(tasks[workers == 0])], predicted])
    assert result["model"][0] == pytest.approx(mh.agreement.cohen_kappa(both, (0, 1)).value)
    # Skilled annotators agree with the model, the guesser does not.
    assert min(result["model"][:3]) > 0.5 > 0.2 > abs(result["model"][3])
    with pytest.raises(ValueError, match=r"unknown annotators.*9"):
        learn.leave_annotators_out(learner, log.X, votes, only=[9])
    with pytest.raises(ValueError, match="2 annotators"):
        learn.leave_annotators_out(learner, log.X, votes.select(workers=[0, 1]))
