"""The twins against crowd-kit itself, if it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from crowdkit_logs import Plain, history, log, random_log, small_log

from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


def assert_same(mine, theirs, atol):
    """Compare two results by name: with pandas 3 crowd-kit's order depends on that of the rows."""
    assert mine.index.names == theirs.index.names
    if isinstance(mine, pd.Series):
        pd.testing.assert_series_equal(mine, theirs, check_like=True, atol=atol, rtol=0)
        return
    assert mine.columns.name == theirs.columns.name
    # The columns of crowd-kit's errors_ are objects, whatever the labels are.
    exact = "equiv" if theirs.columns.dtype != object else False
    pd.testing.assert_frame_equal(mine, theirs, check_column_type=exact, check_like=True, atol=atol, rtol=0)


@pytest.mark.filterwarnings("ignore")
class TestAgainstCrowdKit:
    """The same frames through both libraries, on data without ties where ties would differ."""

    # Few rounds and small steps, so that skills are still on their way when the last round ends.
    VOTERS = (("MajorityVote", {}), ("Wawa", {}), ("ZeroBasedSkill", {"n_iter": 12, "lr_init": 0.6}))

    @pytest.mark.parametrize(("name", "params"), VOTERS)
    @pytest.mark.parametrize("seed", range(5))
    def test_votes(self, peer, name, params, seed):
        # Rows sorted by label make crowd-kit break ties as we do, with any pandas.
        data = random_log(seed).sort_values(["label", "task"])
        mine, theirs = getattr(twin, name)(**params), getattr(peer, name)(**params)
        assert_same(mine.fit_predict(data), theirs.fit_predict(data), 0)
        assert_same(mine.probas_, theirs.probas_, 1e-12)
        assert_same(mine.skills_, theirs.skills_, 1e-12)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("on_missing", ["ignore", "value"])
    def test_votes_by_skill(self, peer, seed, on_missing):
        data = random_log(seed)
        skills = pd.Series(np.random.default_rng(seed).uniform(0.1, 1, 8)).drop(2)
        params = {"on_missing_skill": on_missing, "default_skill": 0.4 if on_missing == "value" else None}
        mine, theirs = twin.MajorityVote(**params), peer.MajorityVote(**params)
        assert_same(mine.fit_predict(data, skills), theirs.fit_predict(data, skills), 0)
        assert_same(mine.probas_, theirs.probas_, 1e-12)
        assert_same(mine.skills_, theirs.skills_, 1e-12)

    @pytest.mark.parametrize(("name", "params"), VOTERS[1:])
    def test_prediction_for_other_tasks(self, peer, name, params):
        data = random_log(1).sort_values(["label", "task"])
        other = random_log(2, n_tasks=20)
        mine, theirs = (getattr(library, name)(**params).fit(data) for library in (twin, peer))
        assert_same(mine.predict_proba(other), theirs.predict_proba(other), 1e-12)

    @pytest.mark.parametrize("name", ["DawidSkene", "OneCoinDawidSkene"])
    @pytest.mark.parametrize("n_iter", [0, 1, 2, 10])
    @pytest.mark.parametrize("seed", range(3))
    def test_em(self, peer, name, n_iter, seed):
        data = random_log(seed)
        mine = getattr(twin, name)(n_iter, tol=-np.inf).fit(data)
        theirs = getattr(peer, name)(n_iter, tol=-np.inf).fit(data)
        if n_iter:
            assert_same(mine.labels_, theirs.labels_, 0)
        assert len(mine.loss_history_) == len(theirs.loss_history_) == n_iter
        for part in ("probas_", "priors_", "errors_"):
            assert_same(getattr(mine, part), getattr(theirs, part), 1e-7)
        if name == "OneCoinDawidSkene":
            assert_same(mine.skills_, theirs.skills_, 1e-7)

    @pytest.mark.parametrize("n_iter", [0, 1, 5])
    def test_true_labels(self, peer, n_iter):
        data, truth = random_log(3), pd.Series({"t01": "c2", "t02": "c0", "elsewhere": "c1"})
        mine, theirs = (
            library.DawidSkene(n_iter, tol=-np.inf).fit(data, true_labels=truth) for library in (twin, peer)
        )
        assert_same(mine.probas_, theirs.probas_, 1e-7)
        assert_same(mine.errors_, theirs.errors_, 1e-7)

    @pytest.mark.parametrize("strategy", ["assign", "addition"])
    @pytest.mark.parametrize("n_iter", [1, 5])
    def test_initial_error(self, peer, strategy, n_iter):
        data = random_log(3)
        mine, theirs = (
            library.DawidSkene(n_iter, -np.inf, strategy).fit(data, initial_error=history(data))
            for library in (twin, peer)
        )
        assert_same(mine.probas_, theirs.probas_, 1e-7)
        assert_same(mine.errors_, theirs.errors_, 1e-7)

    @pytest.mark.parametrize(
        "labels",
        [np.array([0, 1, 2], np.int8), np.array([0.5, 1.0, 2.0]), np.array([2, 1, 0])],
        ids=["int8", "float", "int"],
    )
    def test_dtypes(self, peer, labels):
        data = random_log(2)
        data["label"] = labels[data["label"].str[1:].astype(int).to_numpy()]
        mine, theirs = (library.DawidSkene(5, tol=-np.inf).fit(data) for library in (twin, peer))
        assert mine.errors_.index.dtypes.equals(theirs.errors_.index.dtypes)
        for part in ("labels_", "probas_", "priors_", "errors_"):
            assert_same(getattr(mine, part), getattr(theirs, part), 1e-7)

    def test_nothing_it_has_goes_unmentioned(self, peer):
        assert set(peer.__all__) - {"base"} - set(twin.__all__) - set(twin._ABSENT) == set()

    def test_metrics_of_crowd_kit_take_the_twins(self, peer):
        from crowdkit.metrics.data import consistency

        data = random_log(1)
        skills = twin.MajorityVote().fit(data).skills_
        mine, theirs = (consistency(data, skills, library.MajorityVote()) for library in (twin, peer))
        assert 0 < mine < 1
        assert mine == pytest.approx(theirs, abs=0.05)  # ties


@pytest.mark.filterwarnings("ignore")
class TestClaims:
    """What the migration page says of crowd-kit, whatever the version of pandas."""

    @pytest.fixture(autouse=True)
    def known_version(self, peer):
        import crowdkit

        if crowdkit.__version__ != "1.4.2":
            pytest.skip(f"the page speaks of crowd-kit 1.4.2, not {crowdkit.__version__}")

    def test_its_loss_falls_while_the_likelihood_rises(self, peer):
        data = log([(0, 0, 0), (0, 1, 1), (1, 0, 0), (2, 0, 0), (3, 0, 1), (3, 1, 0), (3, 2, 0), (4, 2, 0)])
        model = peer.DawidSkene().fit(data)
        assert np.round(model.loss_history_, 3).tolist() == [-0.643, -0.64, -0.652]
        assert model.labels_[3] == 0
        assert model.probas_.loc[3, 1] == pytest.approx(0.29, abs=0.005)
        plain = Plain(data, 100)
        assert (np.diff(plain.log_likelihood) > -1e-9).all()
        assert plain.posterior[3, 1] > 0.99

    def test_its_bound_is_positive(self, peer):
        model = peer.OneCoinDawidSkene().fit(log([(1, "a", "x"), (1, "b", "y"), (2, "a", "x")]))
        assert model.loss_history_[-1] > 0

    def test_its_missing_labels(self, peer):
        labels = ["x", "x", None, "y", "y", None, None]
        data = log({"task": [1, 1, 1, 2, 2, 2, 3], "worker": list("abcabca"), "label": labels})
        majority = peer.MajorityVote().fit(data)
        assert sorted(majority.labels_.index) == [1, 2]
        assert majority.skills_["c"] == 0
        assert 3 in peer.DawidSkene().fit(data).labels_.index
        assert peer.OneCoinDawidSkene().fit(data).skills_.round(2).to_dict() == {
            "a": 0.83,
            "b": 1.0,
            "c": 0.5,
        }

    def test_its_categories(self, peer):
        data = small_log().astype("category")
        for name in ("MajorityVote", "Wawa", "ZeroBasedSkill", "DawidSkene", "OneCoinDawidSkene"):
            with pytest.raises(AttributeError, match="BinOp"):
                getattr(peer, name)().fit(data)

    def test_its_column_names(self, peer):
        for name in ("DawidSkene", "OneCoinDawidSkene"):
            with pytest.raises(ValueError, match="overlap"):
                getattr(peer, name)().fit(log([(1, "a", "task"), (1, "b", "other")]))

    def test_its_initial_error(self, peer):
        data = random_log(3)
        counts = history(data)
        peer.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=counts)
        assert counts.to_numpy().max() <= 1
        counts = history(data).drop(columns="c1")
        model = peer.DawidSkene(initial_error_strategy="assign").fit(data, initial_error=counts)
        assert model.probas_["c1"].isna().all()

    def test_its_repeats(self, peer):
        data = log([(1, w, "x") for w in "aabc"] + [(2, "a", "y"), (2, "b", "x"), (2, "c", "x")])
        assert peer.MajorityVote().fit(data).skills_["a"] == 0.5
