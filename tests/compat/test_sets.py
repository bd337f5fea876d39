"""crowd-kit's aggregation of sets, and ours under its name."""

from __future__ import annotations

import numpy as np
import pytest
from crowdkit_logs import crowdkit_answers

from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")


def sets_log(seed: int = 0):
    """Forty tasks of four labels, five answers each; ties cannot happen."""
    rng = np.random.default_rng(seed)
    truth = rng.random((40, 4)) < 0.4
    rows = []
    for task in range(40):
        for worker in rng.choice(9, 5, replace=False):
            said = truth[task] ^ (rng.random(4) < 0.2)
            rows.append((f"t{task:02}", int(worker), [f"l{i}" for i in np.flatnonzero(said)]))
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


@pytest.mark.parametrize("base", ["MajorityVote", "DawidSkene"])
def test_each_label_is_a_question_of_its_own(base: str) -> None:
    log = sets_log()
    found = twin.BinaryRelevance(getattr(twin, base)()).fit_predict(log)
    assert found.index.name == "task"
    for label in ("l0", "l1", "l2", "l3"):
        alone = log.assign(label=[int(label in row) for row in log.label])
        wanted = getattr(twin, base)().fit_predict(alone)
        assert {task for task, said in wanted.items() if said} == {task for task, row in found.items() if label in row}


@pytest.mark.parametrize("base", ["MajorityVote", "DawidSkene"])
def test_agrees_with_crowd_kit(base: str) -> None:
    """As scripts/crowdkit_answers.py wrote them down."""
    stored = crowdkit_answers()["sets"]
    found = twin.BinaryRelevance(getattr(twin, base)()).fit_predict(pd.DataFrame(stored["log"]))
    assert found.to_dict() == stored[base]


def test_what_is_no_list_is_named() -> None:
    log = sets_log().astype({"label": object})
    log.at[3, "label"] = "l1"
    with pytest.raises(TypeError, match=r"label.*'l1'.*BinaryRelevance"):
        twin.BinaryRelevance().fit(log)
    with pytest.raises(TypeError, match=r"base_aggregator.*fit_predict"):
        twin.BinaryRelevance(3).fit(sets_log())
    assert twin.BinaryRelevance().fit_predict(sets_log().head(2).assign(label=[[], []])).tolist() == [[]]
