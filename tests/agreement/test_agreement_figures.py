"""Agreement against published examples and other packages' figures."""

from __future__ import annotations

import numpy as np
import pytest

import manyhands as mh
from manyhands.agreement import (
    agreement_ratio,
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    gwet_ac2,
    krippendorff_alpha,
    pairwise,
    scott_pi,
    worker_ratios,
)

#: Sums in another order.
SAME = 1e-10


#: Four observers, twelve units: the example of K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
).T


#: Three raters who rated everything, and their Conger's kappa by irrCAC 0.4.4: nominal, linear, quadratic.
COMPLETE = [
    [0, 0, 0],
    [1, 1, 2],
    [2, 2, 2],
    [3, 3, 2],
    [1, 1, 1],
    [0, 1, 0],
    [3, 3, 3],
    [2, 1, 2],
    [0, 0, 1],
    [1, 1, 1],
    [3, 2, 3],
    [2, 2, 2],
]


CONGER = {None: 0.5527950310559, "linear": 0.70612244897959, "quadratic": 0.83820224719101}


#: Fourteen raters, ten subjects, five categories: the example of Wikipedia's article on Fleiss' kappa.
RATED = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)


@pytest.fixture(scope="module")
def observers() -> mh.Annotations:
    return mh.Annotations.from_dense(OBSERVERS, missing=0)


class TestKnownFigures:
    @pytest.mark.parametrize(
        ("level", "value"),
        # The package krippendorff 0.9; the publication has .743, .815, .849 and .797.
        [
            ("nominal", 0.743421052631579),
            ("ordinal", 0.8153875037548814),
            ("interval", 0.8491071428571428),
            ("ratio", 0.7974027747116121),
        ],
    )
    def test_alpha(self, observers, level, value):
        found = krippendorff_alpha(observers, level=level)
        assert found.value == pytest.approx(value, abs=SAME)
        # Eight units have four values, two have three, one has two; one has one and is left out.
        assert (found.n_tasks, found.n_pairs) == (11, 8 * 6 + 2 * 3 + 1)

    @pytest.mark.parametrize(
        ("weights", "fleiss", "gwet"),
        # irrCAC 0.4.4 on the same table, in which units have one to four values.
        [
            (None, 0.761169275422, 0.775444068127),
            ("linear", 0.817944767097, 0.858739136433),
            ("quadratic", 0.864935064935, 0.914000723552),
        ],
    )
    def test_fleiss_and_gwet_on_ragged_tasks(self, observers, weights, fleiss, gwet):
        assert fleiss_kappa(observers, weights=weights).value == pytest.approx(fleiss, abs=1e-9)
        ac = gwet_ac1(observers) if weights is None else gwet_ac2(observers, weights=weights)
        assert ac.value == pytest.approx(gwet, abs=1e-9)

    def test_fleiss_as_published(self):
        tasks, labels = np.nonzero(RATED)
        repeats = RATED[tasks, labels]
        votes = mh.Annotations.from_arrays(
            np.repeat(tasks, repeats), np.tile(np.arange(14), 10), np.repeat(labels, repeats)
        )
        # statsmodels 0.15
        assert fleiss_kappa(votes).value == pytest.approx(0.20993070442195522, abs=SAME)

    @pytest.mark.parametrize(
        ("weights", "values"),
        # scikit-learn 1.9 on the units that both valued, pair by pair.
        [
            (None, [0.8448275862068966, 0.4782608695652174, 0.85, 0.5423728813559321, 0.8701298701298701, 8 / 13]),
            ("linear", [0.8941176470588236, 0.5, 0.7157894736842105, 0.7157894736842105, 0.855072463768116, 17 / 22]),
            (
                "quadratic",
                [0.9395973154362416, 7 / 13, 0.5524861878453038, 6 / 7, 0.8709677419354839, 0.8920863309352518],
            ),
        ],
    )
    def test_cohen(self, observers, weights, values):
        table = pairwise(observers, weights=weights)
        np.testing.assert_allclose(table.column("agreement").to_numpy(), values, atol=SAME)
        assert table.column("overlap").to_pylist() == [9, 8, 9, 9, 10, 10]
        assert cohen_kappa(observers, (0, 3), weights=weights).value == pytest.approx(values[2], abs=SAME)
        assert cohen_kappa(observers, (3, 0), weights=weights).value == pytest.approx(values[2], abs=SAME)
        for average, n_pairs, min_overlap in (("even", 6, 1), ("overlap", 6, 8), ("even", 2, 10)):
            found = cohen_kappa(observers, weights=weights, average=average, min_overlap=min_overlap)
            assert (found.n_pairs, found.n_tasks) == (n_pairs, 11)
            assert found.value == pytest.approx(np.mean(values), abs=0.15)

    @pytest.mark.parametrize(("weights", "value"), CONGER.items())
    def test_cohen_of_all_pairs_is_congers_kappa_where_everybody_labels_everything(self, weights, value):
        votes = mh.Annotations.from_dense(COMPLETE)
        observed = cohen_kappa(votes, weights=weights)
        # irrCAC has chance compare labels of the same task too; of n tasks, these are one in n.
        n, biased = len(COMPLETE), 1 - value
        assert observed.value == pytest.approx(1 - (n - 1) / (n / biased - 1), abs=1e-9)
        assert cohen_kappa(votes, weights=weights, average="even").value == pytest.approx(observed.value, abs=SAME)

    def test_scott_is_fleiss_for_two(self, observers):
        for pair in ((0, 1), (1, 3)):
            both = observers.select(workers=pair)
            both = both.select(tasks=both.tasks[both.labels_per_task == 2])
            for weights in (None, "linear", "quadratic"):
                found = scott_pi(observers, pair, weights=weights)
                assert found.value == pytest.approx(fleiss_kappa(both, weights=weights).value, abs=SAME)
                assert (found.n_tasks, found.n_pairs) == (both.n_tasks, 1)

    def test_ratio_by_hand(self):
        votes = mh.Annotations.from_dense([[0, 0], [0, 0], [1, 1], [0, 1]])
        # Kappa of the workers 1/2; of the model, which repeats the second, 1/2 and 1. Without one of the four tasks 1/2
        # becomes 2/5, 2/5, 0 and 1.
        sigma = 1 / (1 + np.exp(-np.array([0.5, 1.0, 0.4, 0.4, 0.0, 1.0])))
        half = 4 * sigma[0] - 3 * sigma[2:].mean()
        found = agreement_ratio(votes, [0, 0, 1, 1], min_overlap=1)
        assert found.value == pytest.approx((half + sigma[1]) / 2 / half, abs=SAME)
        assert found.n_pairs == 3
        by_name = agreement_ratio(votes, {0: 0, 3: 1, 2: 1, 1: 0}, min_overlap=1)
        assert by_name == found

    def test_published_ratio_by_hand(self):
        votes = mh.Annotations.from_dense([[0, 0], [0, 0], [1, 1], [0, 1]])
        half, one = 1 / (1 + np.exp(-np.array([0.5, 1.0])))
        ratio = agreement_ratio(votes, [0, 0, 1, 1], corrected=False, min_overlap=1)
        assert ratio.value == pytest.approx((half + one) / 2 / half, abs=SAME)
        with pytest.raises(TypeError, match="corrected"):
            agreement_ratio(votes, [0, 0, 1, 1], corrected="no")

    @pytest.mark.parametrize("corrected", [True, False])
    def test_the_ratio_of_a_worker_is_that_of_a_model_with_the_others(self, corrected):
        votes = mh.simulate(300, 7, 3, labels_per_task=5, seed=3).log
        found = worker_ratios(votes, min_overlap=20, corrected=corrected)
        labels = votes.to_frame().to_pydict()
        for name, n_pairs, ratio in zip(*found.to_pydict().values(), strict=True):
            own = {t: x for t, w, x in zip(*(labels[c] for c in ("task", "worker", "label")), strict=True) if w == name}
            others = votes.select(workers=[w for w in votes.workers if w != name])
            wanted = agreement_ratio(others, own, min_overlap=20, corrected=corrected).value
            assert ratio == pytest.approx(wanted, abs=SAME)
            assert n_pairs == 6

    def test_ratios_of_workers_without_others_are_undefined(self):
        votes = mh.Annotations.from_dense([[0, 0, -1], [0, 0, -1], [1, 1, -1], [0, 1, 0]])
        found = worker_ratios(votes, min_overlap=2)
        assert found.column("n_pairs").to_pylist() == [1, 1, 0]
        assert np.isnan(found.column("ratio").to_numpy()).all()
