"""How tables and models look in a notebook, and as frames of other libraries."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest

import manyhands as mh

VOTES = mh.Annotations.from_arrays(["<b>q", "<b>q", "r"], ["a", "b", "a"], ["x", "x", "y"])


def test_a_fitted_model_says_so() -> None:
    model = mh.MajorityVote(ties="random")
    assert repr(model) == "MajorityVote(ties='random')"
    assert repr(model.fit(VOTES)) == "MajorityVote(ties='random'), fitted to 2 tasks and 2 workers"


def test_names_are_text_in_a_notebook() -> None:
    model = mh.MajorityVote().fit(VOTES)
    for shown in (VOTES._repr_html_(), model._repr_html_(), model.explain("r")._repr_html_()):
        assert "<b>q" not in shown
    assert "&lt;b&gt;q" in VOTES._repr_html_()
    assert "annotations" in VOTES.describe()._repr_html_()
    assert "<table>" not in mh.MajorityVote()._repr_html_()


def test_frames_of_other_libraries() -> None:
    model = mh.MajorityVote().fit(VOTES)
    assert isinstance(model.to_pandas(), pd.DataFrame)
    assert isinstance(VOTES.to_polars(), pl.DataFrame)
    assert model.to_polars().to_dicts() == model.to_frame().to_pylist()


TABLES = {
    "classes": VOTES,
    "numbers": mh.Ratings.from_arrays(["<b>q", "<b>q"], ["a", "b"], [0.5, 1.5]),
    "comparisons": mh.Comparisons.from_arrays(["<b>q", "r"], ["r", "<b>q"], ["<b>q", "<b>q"], workers=["a", "b"]),
    "sets": mh.MultiLabels.from_arrays(["<b>q", "<b>q"], ["a", "b"], [["x"], ["x", "y"]]),
    "similarities": mh.Similarities.from_arrays(["<b>q", "<b>q"], ["r", "s"], ["a", "b"], [True, False]),
    "objects": mh.Objects.from_arrays(["<b>q", "<b>q"], ["a", "b"], ["one", "two"]),
}


@pytest.mark.filterwarnings("ignore::manyhands.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_all_kinds_show_themselves(kind: str) -> None:
    table = TABLES[kind]
    shown = table._repr_html_()
    assert "<table>" in shown
    assert "<b>q" not in shown
    assert "&lt;b&gt;q" in shown
    if hasattr(table, "describe"):
        assert table.describe()._repr_html_().startswith("<pre>")
    if kind != "objects":  # which need a distance
        model = mh.aggregate(table)
        assert "fitted to" in repr(model)
        assert "&lt;b&gt;q" in model._repr_html_()


def test_learners_say_that_they_are_fitted() -> None:
    torch = pytest.importorskip("torch")
    learner = mh.learn.CrowdLayer(torch.nn.Linear(2, 3), max_epochs=2)
    assert "fitted" not in repr(learner)
    assert learner._repr_html_().startswith("<pre>")
    learner.fit(np.zeros((20, 2), np.float32), mh.simulate(20, 5, 3, seed=0).log)
    assert repr(learner).endswith(", fitted to 5 workers and 3 classes in 2 epochs")
    assert "<th>loss</th>" in learner._repr_html_()


@pytest.mark.parametrize("package", ["learn", "defer"])
def test_keywords_of_learners_can_be_completed(package: str) -> None:
    pytest.importorskip("torch")
    module = getattr(mh, package)
    learners = [
        one for name in dir(module) if isinstance(one := getattr(module, name), type) and hasattr(one, "_settings")
    ]
    assert len(learners) > 5
    for learner in learners:
        parameters = inspect.signature(learner).parameters
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values()), learner
        assert parameters["max_epochs"].annotation == "int"
        assert all(p.annotation is not p.empty for p in parameters.values()), learner
