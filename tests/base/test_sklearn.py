"""What scikit-learn's own checks say: of parameters for every estimator, of fitting for aggregators in its clothes.

Estimators here learn from annotations, not from (X, y), so `check_estimator` cannot be run whole. Checks of parameters
apply as they are. Checks that fit are given aggregators that read a matrix as answers of so many workers (its columns)
to so many tasks (its rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, TargetTags, estimator_checks

import manyhands as mh
from manyhands.categorical.base import Aggregator

#: Tables made of random numbers leave much open, and methods say so; few passes do not settle.
pytestmark = [
    pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning"),
    pytest.mark.filterwarnings("ignore::manyhands.errors.ConvergenceWarning"),
]

PARAMETERS = [
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
]
FITTING = [
    estimator_checks.check_dict_unchanged,
    estimator_checks.check_dont_overwrite_parameters,
    estimator_checks.check_estimators_fit_returns_self,
    estimator_checks.check_estimators_overwrite_params,
    estimator_checks.check_estimators_unfitted,
    estimator_checks.check_fit_check_is_fitted,
    estimator_checks.check_fit_idempotent,
    estimator_checks.check_methods_sample_order_invariance,
]


def name_of(check: Any) -> str:
    return str(check.__name__)


def _votes(X: Any) -> mh.Annotations:
    """Every column a worker, who says of each row whether its number is positive."""
    if isinstance(X, mh.Annotations):
        return X
    return mh.Annotations.from_dense((np.asarray(X, np.float64) > 0).astype(int), classes=[0, 1])


def clothed(cls: type[Aggregator]) -> type[Aggregator]:
    """The aggregator as scikit-learn would have it."""

    def fit(self: Any, X: Any, y: Any = None) -> Any:
        cls.fit(self, _votes(X))
        _ = self.confusion_  # made when somebody asks, and kept: no change of what was learnt
        return self

    def predict(self: Any, X: Any) -> Any:
        try:
            return cls.predict(self, _votes(X))
        except mh.errors.NotFittedError as error:  # which cannot be scikit-learn's: it need not be installed
            raise NotFittedError(str(error)) from error

    def predict_proba(self: Any, X: Any) -> Any:
        try:
            return cls.predict_proba(self, _votes(X))
        except mh.errors.NotFittedError as error:
            raise NotFittedError(str(error)) from error

    def tags(self: Any) -> Tags:
        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def on_tables(self: Any, *_: Any) -> Any:
        raise AttributeError("scikit-learn has arrays only")

    methods = {"fit": fit, "predict": predict, "predict_proba": predict_proba, "__sklearn_tags__": tags}
    hidden = {"fit_predict": property(on_tables), "partial_fit": property(on_tables)}
    return type(cls.__name__, (cls,), methods | hidden)


@pytest.mark.parametrize("check", [*PARAMETERS, estimator_checks.check_parameters_default_constructible], ids=name_of)
@pytest.mark.parametrize("cls", mh.categorical.all_aggregators(), ids=lambda cls: cls.__name__)
def test_aggregators_keep_the_contract_of_parameters(cls: type[Aggregator], check: Any) -> None:
    check(cls.__name__, cls())


@pytest.mark.parametrize("check", FITTING, ids=name_of)
@pytest.mark.parametrize("cls", mh.categorical.all_aggregators(), ids=lambda cls: cls.__name__)
def test_aggregators_fit_as_scikit_learn_expects(cls: type[Aggregator], check: Any) -> None:
    few = {"max_iter": 5, "draws": 4, "warmup": 2, "restarts": 1, "groupings": 1}
    model = clothed(cls)()
    check(cls.__name__, model.set_params(**{name: few[name] for name in few.keys() & model.get_params().keys()}))


@pytest.mark.parametrize("check", PARAMETERS, ids=name_of)
def test_learners_keep_the_contract_of_parameters(check: Any) -> None:
    pytest.importorskip("torch")
    from learners import VARIANTS

    for variant in VARIANTS:
        check(variant.name, variant.learner())


@pytest.mark.parametrize("check", PARAMETERS, ids=name_of)
def test_deferrals_keep_the_contract_of_parameters(check: Any) -> None:
    pytest.importorskip("torch")
    from deferrals import VARIANTS

    for variant in VARIANTS:
        check(variant.name, variant.model())
