"""How tables and models look in a notebook, and as frames of other libraries."""

import pandas as pd
import polars as pl

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
