"""Learners and the weights of annotations, at the ends of the range that a table takes."""

from __future__ import annotations

import numpy as np
import pytest
from learners import VARIANTS, Variant, crowd

import manyhands as mh
from manyhands._base.checks import LEAST_COUNT, MOST_COUNT


def weighted(votes: mh.Annotations, weights: np.ndarray) -> mh.Annotations:
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": votes.n_classes}
    return mh.Annotations.from_codes(*votes.codes(), weights=weights, **sizes)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_extreme_weights_give_finite_answers_or_a_refusal_that_names_them(variant: Variant) -> None:
    small = crowd(60)
    n, task = small.votes.n_annotations, small.votes.codes()[0]
    spread = 10.0 ** np.random.default_rng(0).uniform(np.log10(LEAST_COUNT), np.log10(MOST_COUNT), n)
    for weights in (np.full(n, MOST_COUNT), np.full(n, LEAST_COUNT), spread, np.where(task < 20, 0.0, 1.0)):
        model = variant.learner(max_epochs=2, batch_size=16).fit(small.X, weighted(small.votes, weights))
        np.testing.assert_allclose(model.predict_proba(small.X).sum(axis=1), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="weight"):
        variant.learner().fit(small.X, weighted(small.votes, np.zeros(n)))
