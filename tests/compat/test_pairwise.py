"""crowd-kit's models of comparisons, and ours under their names."""

from __future__ import annotations

import numpy as np
import pytest
from crowdkit_logs import crowdkit_answers

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


def test_twins_of_crowd_kit():
    # The last four guess, mostly for the left.
    rng = np.random.default_rng(0)
    good = mh.simulate(10, np.full(12, 2.0), 4000, seed=0, kind="pairwise")
    left, right, outcomes, workers, _ = good.log.codes()
    outcomes = np.where((workers >= 8) & (rng.random(4000) < 0.8), 0, np.where(workers >= 8, 1, outcomes))
    frame = pd.DataFrame({"worker": workers, "left": left, "right": right})
    frame["label"] = np.where(outcomes == 0, frame.left, frame.right)
    noisy = twin.NoisyBradleyTerry(n_iter=200, tol=1e-9).fit(frame)
    assert noisy.scores_.index.name == "label"
    assert noisy.skills_[8:].max() < 0.4 < 0.7 < noisy.skills_[:8].min()
    assert abs(noisy.biases_[8:].mean() - 0.8) < 0.07
    plain = twin.BradleyTerry(n_iter=100).fit_predict(frame)
    assert plain.sum() == pytest.approx(1.0)
    assert mh.metrics.kendall(noisy.scores_, good.truth) >= mh.metrics.kendall(plain, good.truth) > 0.7
    # Hunter's iteration, written out.
    wins = np.zeros((10, 10))
    np.add.at(wins, (np.where(outcomes == 0, left, right), np.where(outcomes == 0, right, left)), 1)
    p = np.ones(10)
    for _ in range(500):
        p = wins.sum(axis=1) / ((wins + wins.T) / (p[:, None] + p)).sum(axis=1)
        p /= p.sum()
    np.testing.assert_allclose(plain, p, atol=2e-4)
    with pytest.raises(ValueError, match="rows"):
        twin.BradleyTerry(n_iter=1).fit(frame[:0])
    with pytest.raises(KeyError, match="no column 'worker'"):
        twin.NoisyBradleyTerry().fit(frame.drop(columns="worker"))
    with pytest.raises(TypeError, match=r"builtins\.list"):
        twin.BradleyTerry(n_iter=1).fit([1, 2])


def test_twins_agree_with_what_crowd_kit_said():
    """As scripts/crowdkit_answers.py wrote it down, with what is wrong in it."""
    stored = crowdkit_answers()["comparisons"]
    frame = pd.DataFrame(stored["log"])
    plain = twin.BradleyTerry(n_iter=100).fit_predict(frame)
    assert plain.to_dict() == pytest.approx(stored["BradleyTerry"], abs=1e-4)
    # By its own rule crowd-kit stops in the second round, far from there.
    early = stored["BradleyTerry, its own rule"]
    assert early == stored["BradleyTerry, two rounds"]
    assert abs(plain.rename("score") - pd.Series(early)).max() > 0.1

    noisy = twin.NoisyBradleyTerry(n_iter=1000, tol=1e-10).fit(frame)
    itself, summit = stored["NoisyBradleyTerry"]["itself"], stored["NoisyBradleyTerry"]["summit"]
    ours = {"scores": noisy.scores_.to_dict(), "skills": noisy.skills_.to_dict(), "biases": noisy.biases_.to_dict()}
    reached = [noisy_likelihood(frame, point) for point in (itself, ours, summit)]
    assert reached[2] == pytest.approx(summit["log-likelihood"], rel=1e-6)
    # The twin has a weak prior of workers and is level with the summit; crowd-kit itself is far below.
    assert reached[0] < reached[2] - 20
    assert reached[2] - 3 < reached[1] <= reached[2] + 0.1
    ranks = [pd.Series(point["scores"]).rank().to_dict() for point in (ours, summit)]
    assert ranks[0] == ranks[1]
    for worker in summit["skills"]:
        assert (ours["skills"][worker] > 0.5) == (summit["skills"][worker] > 0.5)
    assert abs(pd.Series(ours["skills"]) - pd.Series(summit["skills"])).max() < 0.1
    assert itself["skills"]["w9"] > 0.6 > 0.4 > summit["skills"]["w9"]


def noisy_likelihood(frame, point):
    """The log-likelihood that NoisyBradleyTerry means, at its parameters as shares."""
    scores = {item: np.log(share / (1 - share)) for item, share in point["scores"].items()}
    lead = frame.left.map(scores) - frame.right.map(scores)
    won = frame.label == frame.left
    skill, bias = frame.worker.map(point["skills"]), frame.worker.map(point["biases"])
    seen = 1 / (1 + np.exp(np.where(won, -lead, lead)))
    return float(np.log(skill * seen + (1 - skill) * np.where(won, bias, 1 - bias)).sum())
