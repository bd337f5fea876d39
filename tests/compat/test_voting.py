"""The twins of crowd-kit's votes: their numbers."""

from __future__ import annotations

import numpy as np
import pytest
from crowdkit_logs import SKILL_CLASSES, log, small_log
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


class TestMajorityVote:
    def test_shares_labels_and_skills(self):
        model = twin.MajorityVote().fit(small_log())
        assert model.labels_.to_dict() == {"t1": "a", "t2": "b", "t3": "c", "t4": "a", "t5": "b"}
        third = 1 / 3
        expected = [[2 * third, 0, third], [third, 2 * third, 0], [third, 0, 2 * third], [1, 0, 0], [0, 1, 0]]
        np.testing.assert_allclose(model.probas_.to_numpy(), expected)
        # w1 is outvoted on t2; w4 on t1 and t3, but not on t5.
        assert model.skills_.to_dict() == pytest.approx({"w1": 0.8, "w2": 1.0, "w3": 1.0, "w4": third})

    def test_weighted(self):
        skills = pd.Series({"w4": 3.0, "w3": 1.0, "w2": 1.0, "w1": 1.0})
        model = twin.MajorityVote().fit(small_log(), skills)
        assert model.labels_.to_dict() == {"t1": "c", "t2": "b", "t3": "a", "t4": "a", "t5": "b"}
        np.testing.assert_allclose(model.probas_.loc["t1"], [2 / 5, 0, 3 / 5])
        # skills_ are the agreement with this outcome, not the skills given.
        assert model.skills_.to_dict() == pytest.approx({"w1": 2 / 5, "w2": 2 / 3, "w3": 2 / 3, "w4": 1.0})

    def test_integer_workers_in_any_order(self):
        data = log([(1, 30, "a"), (1, 10, "b"), (1, 20, "b")])
        assert twin.MajorityVote().fit_predict(data, pd.Series({30: 3.0, 20: 1.0, 10: 1.0})).tolist() == ["a"]

    @given(st.permutations(range(14)))
    @settings(max_examples=20, deadline=None)
    def test_row_order_does_not_matter(self, order):
        tied = log([("t6", "w1", "b"), ("t6", "w2", "a"), ("t7", "w1", "c"), ("t7", "w3", "b")])
        data = pd.concat([tied, small_log()], ignore_index=True)
        shuffled = data.iloc[[*(14 + i for i in range(4)), *order]]
        for cls in (twin.MajorityVote, *SKILL_CLASSES):
            model, other = cls(), cls()
            model.fit_predict(data)
            other.fit_predict(shuffled)
            pd.testing.assert_series_equal(model.labels_, other.labels_)
            pd.testing.assert_frame_equal(model.probas_, other.probas_)
        assert twin.MajorityVote().fit_predict(data)[["t6", "t7"]].tolist() == ["a", "b"]

    def test_sums_that_differ_by_rounding_are_a_tie(self):
        # 0.1 + 0.2 + 0.3 exceeds 0.6 in floating point, so that b would win by rounding alone.
        data = log([("t", w, "b") for w in "xyz"] + [("t", "w", "a")])
        skills = pd.Series({"w": 0.6, "x": 0.1, "y": 0.2, "z": 0.3})
        assert 0.1 + 0.2 + 0.3 > 0.6
        assert twin.MajorityVote().fit_predict(data, skills).tolist() == ["a"]

    def test_repeats_count_twice(self):
        data = log([(1, w, "x") for w in "aabc"] + [(2, "a", "y"), (2, "b", "x"), (2, "c", "x")])
        assert twin.MajorityVote().fit(data).skills_.to_dict() == pytest.approx({"a": 2 / 3, "b": 1, "c": 1})

    def test_no_weight_is_a_tie_of_all(self):
        data = log([(1, "a", "y"), (1, "b", "y"), (2, "c", "x")])
        model = twin.MajorityVote().fit(data, pd.Series({"a": 0.0, "b": 0.0, "c": 1.0}))
        assert model.probas_.to_numpy().tolist() == [[0.5, 0.5], [1.0, 0.0]]
        assert model.labels_.to_dict() == {1: "x", 2: "x"}

    def test_missing_skill_is_an_error(self):
        with pytest.raises(ValueError, match=r"3 of 4 workers.*'w2'"):
            twin.MajorityVote().fit(small_log(), pd.Series({"w1": 1.0, "w3": np.nan}))

    def test_missing_skill_is_a_value(self):
        model = twin.MajorityVote(default_skill=3.0, on_missing_skill="value")
        assert model.fit_predict(small_log(), pd.Series({"w1": 1.0, "w2": 1.0, "w3": 1.0}))["t3"] == "a"
        np.testing.assert_allclose(model.probas_.loc["t3"], [3 / 5, 0, 2 / 5])

    def test_missing_skill_is_left_out(self):
        model = twin.MajorityVote(on_missing_skill="ignore")
        model.fit(small_log(), pd.Series({"w1": 1.0, "w3": np.nan}))
        assert model.skills_.to_dict() == {"w1": 1.0}
        assert model.labels_.to_dict() == {"t1": "a", "t2": "a", "t3": "c", "t4": "a", "t5": "b"}
        with pytest.raises(ValueError, match=r"2 tasks.*'t2'"):
            model.fit(small_log()[1:], pd.Series({"w4": 1.0}))
        with pytest.raises(ValueError, match="5 tasks"):
            model.fit(small_log(), pd.Series([], dtype=float))

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"on_missing_skill": "guess"}, "'error'.*'ignore'.*'value'.*'guess'"),
            ({"on_missing_skill": "value"}, "'value'"),
            ({"default_skill": 0.5}, "on_missing_skill='error'.*default_skill=0.5"),
        ],
    )
    def test_bad_parameters(self, params, message):
        skills = pd.Series({"w1": 1.0, "w2": 1.0, "w3": 1.0, "w4": 1.0})
        with pytest.raises(ValueError, match=message):
            twin.MajorityVote(**params).fit(small_log(), skills)
        twin.MajorityVote(**params).fit(small_log())  # of no consequence without skills

    def test_one_skill_a_worker(self):
        with pytest.raises(ValueError, match="worker 'w1'"):
            twin.MajorityVote().fit(small_log(), pd.Series([1.0, 2.0], index=["w1", "w1"]))


class TestWawa:
    def test_by_hand(self):
        # The majority is a on t1 and t2; w3 agrees on one of three (t3 is a tie, which goes to a).
        tasks, workers = (
            ["t1", "t1", "t1", "t2", "t2", "t3", "t3"],
            ["w1", "w2", "w3", "w1", "w3", "w1", "w3"],
        )
        data = log({"task": tasks, "worker": workers, "label": list("aabaaab")})
        model = twin.Wawa()
        assert model.fit_predict(data).to_dict() == {"t1": "a", "t2": "a", "t3": "a"}
        assert model.skills_.to_dict() == pytest.approx({"w1": 1.0, "w2": 1.0, "w3": 1 / 3})
        np.testing.assert_allclose(model.probas_["a"], [2 / (2 + 1 / 3), 1, 1 / (1 + 1 / 3)])

    @pytest.mark.parametrize("cls", SKILL_CLASSES)
    def test_predict_is_a_vote_by_skill(self, cls):
        model = cls().fit(small_log())
        other = log([("new", "w4", "z"), ("new", "w1", "y"), ("old", "w4", "z")])
        assert model.predict(other).to_dict() == {"new": "y", "old": "z"}
        expected = twin.MajorityVote().fit_predict_proba(other, model.skills_)
        pd.testing.assert_frame_equal(model.predict_proba(other), expected)
        with pytest.raises(ValueError, match=r"1 of 1 workers.*'w5'"):
            model.predict(log([("new", "w5", "z")]))


class TestZeroBasedSkill:
    def test_rounds(self):
        data, agreement = small_log(), np.array([0.8, 1, 1, 1 / 3])
        start = 1 / 3 + 0.25
        assert twin.ZeroBasedSkill(n_iter=0, eps=0.25).fit(data).skills_.tolist() == [start] * 4
        # Equal skills give the majority vote, which the moved skills confirm in the second round.
        first = start + 0.5 * (agreement - start)
        model = twin.ZeroBasedSkill(n_iter=1, lr_init=0.5, eps=0.25).fit(data)
        np.testing.assert_allclose(model.skills_, first)
        second = first + 0.5 * (agreement - first)
        model = twin.ZeroBasedSkill(n_iter=2, lr_init=0.5, eps=0.25).fit(data)
        np.testing.assert_allclose(model.skills_, second)

    def test_steps_shrink(self):
        rates = {}
        for factor in (1.0, 0.0):
            model = twin.ZeroBasedSkill(n_iter=9, lr_init=0.5, lr_steps_to_reduce=3, lr_reduce_factor=factor)
            rates[factor] = model.fit(small_log()).skills_["w2"]
        start = 1 / 3 + 1e-5
        assert rates[1.0] == pytest.approx(1 - (1 - start) * 0.5**9)
        assert rates[0.0] == pytest.approx(1 - (1 - start) * 0.5**2)

    def test_settles_on_the_agreement(self):
        model = twin.ZeroBasedSkill()
        model.fit_predict(small_log())
        expected = twin.MajorityVote().fit(small_log(), model.skills_).skills_
        pd.testing.assert_series_equal(model.skills_, expected)
