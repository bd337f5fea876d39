"""Choosing the next task, deciding, taking back, starting again, and estimates that hold."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scipy.stats import binomtest

import manyhands as mh
from manyhands.desk import AnswerError, ConflictError, Desk, Journal, export, label_studio
from manyhands.desk.accuracy import OPEN, RIGHT, SKIPPED, WRONG, accuracy, effective_annotators
from manyhands.desk.sampling import CHOICES, LEASE, Queue

N = 60


@pytest.fixture(scope="module")
def crowd():
    return mh.simulate(N, 8, 3, labels_per_task=3, seed=2)


@pytest.fixture(scope="module")
def model(crowd):
    return mh.MajorityVote().fit(crowd.log)


@pytest.fixture(scope="module")
def truth(crowd):
    return dict(zip(crowd.log.tasks.tolist(), crowd.truth.tolist(), strict=True))


def work(desk: Desk, truth: dict, steps: int, client: str = "w1") -> list:
    """Decide the next tasks as the truth has them; returns them."""
    tasks = []
    for _ in range(steps):
        task = desk.next(client)
        if task is None:
            break
        desk.adjudicate(task["task"], truth[task["task"]], by="ann", client=client)
        tasks.append(task["task"])
    return tasks


# -------------------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize("choose", CHOICES)
def test_every_task_comes_once(model, truth, tmp_path, choose):
    with Desk(model, tmp_path, choose=choose) as desk:
        assert sorted(work(desk, truth, N + 5)) == sorted(truth)
        assert desk.next("w1") is None
        estimate = desk.accuracy()
        wrong = sum(one["before"] != one["answer"] for one in desk.journal.records)
        assert estimate.before == pytest.approx(1 - wrong / N)
        assert estimate.before_low == pytest.approx(estimate.before_high)
        assert (estimate.after, estimate.after_low) == (1, 1)


def test_information_asks_the_most_doubtful_answers_next_to_a_random_quarter():
    confidence = np.linspace(0.4, 1, 1000)
    queue = Queue(confidence, seed=3)
    picks = []
    for _ in range(100):
        picks.append(queue.next("w1"))
        queue.close(picks[-1].row)
    doubtful = [pick.row for pick in picks if pick.why == "information"]
    sample = [pick.row for pick in picks if pick.why == "audit"]
    assert doubtful == sorted(doubtful)
    assert set(range(70)) <= {*doubtful, *sample}
    assert queue.drawn == [25]
    assert np.mean(sample) > 300


def test_the_audit_sample_is_uniform_and_does_not_depend_on_confidence():
    count = np.zeros(40)
    for seed in range(500):
        queue = Queue(np.linspace(0.3, 1, 40), "audit", seed=seed)
        for _ in range(10):
            pick = queue.next("w1")
            count[pick.row] += 1
            queue.close(pick.row)
    # 5000 draws, 125 of each task; the standard deviation of a count is 9.7.
    assert np.abs(count - 125).max() < 4.5 * 9.7


def test_a_stratified_sample_draws_more_from_doubtful_answers_with_known_probabilities():
    confidence = np.r_[np.full(900, 0.99), np.full(100, 0.6)]
    queue = Queue(confidence, "stratified", seed=1)
    for _ in range(40):
        queue.close(queue.next("w1").row)
    assert sum(len(rows) for rows in queue.permutations) == 1000
    assert sorted(np.concatenate(queue.permutations).tolist()) == list(range(1000))
    assert set(queue.drawn) == {10}
    doubtful, *_, sure = queue.permutations
    assert 2 * (doubtful >= 900).sum() > len(doubtful)
    assert 10 / len(doubtful) > 2 * 10 / len(sure)  # probabilities of being drawn


def test_two_windows_never_get_the_same_task(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        first, second = desk.next("w1"), desk.next("w2")
        assert first["task"] != second["task"]
        assert desk.next("w1") == first  # as after a reload
        with pytest.raises(ConflictError, match="another window"):
            desk.adjudicate(first["task"], 0, client="w2")
        with pytest.raises(ConflictError, match="another window"):
            desk.skip(first["task"], client="w2")
        tasks = list(
            itertools.chain.from_iterable((work(desk, truth, 1), work(desk, truth, 1, "w2")) for _ in range(99))
        )
        assert sorted(itertools.chain.from_iterable(tasks)) == sorted(truth)


def test_a_reservation_ends_and_can_be_given_back(model, tmp_path):
    seconds = [0.0]
    with Desk(model, tmp_path, clock=lambda: seconds[0]) as desk:
        first = desk.next("w1")
        desk.release("w1")
        assert desk.next("w2") == first
        seconds[0] = LEASE + 1
        assert desk.next("w3") == first
        desk.adjudicate(first["task"], 0, client="w3")
        with pytest.raises(ConflictError, match="decided"):
            desk.adjudicate(first["task"], 1, client="w2")


def test_a_sent_again_decision_is_one_decision(model, tmp_path):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")["task"]
        first = desk.adjudicate(task, 1, by="ann", client="w1")
        assert desk.adjudicate(task, 1, by="ann", client="w1") == first
        assert len(desk.journal.records) == 1
        with pytest.raises(ConflictError, match="ann"):
            desk.adjudicate(task, 2, by="ann", client="w1")


# ----------------------------------------------------------------------------------------------- what is decided


def test_a_task_is_asked_blind_and_answered_with_the_votes(model, crowd, tmp_path):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")
        assert set(task) == {"task", "row", "shown"}
        outcome = desk.adjudicate(task["task"], 2, by="ann", client="w1", note="unclear photo")
        frame = crowd.log.select(tasks=[task["task"]]).to_frame()
        assert [one["worker"] for one in outcome["votes"]] == frame["worker"].to_pylist()
        assert [one["label"] for one in outcome["votes"]] == frame["label"].to_pylist()
        row = crowd.log.tasks.tolist().index(task["task"])
        assert outcome["answer"] == model.labels_[row]
        assert outcome["confidence"] == pytest.approx(model.confidence_[row])
        assert outcome["decision"]["note"] == "unclear photo"


def test_undo_goes_back_step_by_step_and_skips_come_at_the_end(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        first = work(desk, truth, 1)[0]
        skipped = desk.next("w1")["task"]
        desk.skip(skipped, by="ann", client="w1")
        assert desk.progress()["n_skipped"] == 1
        assert desk.undo(by="ann", client="w1")["task"] == skipped
        assert desk.progress()["n_skipped"] == 0
        assert desk.undo(by="ann", client="w1")["task"] == first
        assert desk.next("w1")["task"] == first
        with pytest.raises(ConflictError, match="nothing"):
            desk.undo(by="ann", client="w1")
        desk.skip(first, client="w1")
        rest = work(desk, truth, N)
        assert rest[-1] == first
        assert sorted(rest) == sorted(truth)
        desk.undo(client="w1")
        assert desk.progress()["n_decided"] == N - 1


def test_without_a_name_a_window_cannot_take_back_what_another_window_decided(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")["task"]
        desk.adjudicate(task, truth[task], client="w1")
        with pytest.raises(ConflictError, match="nothing"):
            desk.undo(client="w2")
        desk.adjudicate(other := desk.next("w1")["task"], truth[other], by="ann", client="w1")
        assert desk.undo(by="ann", client="w3")["task"] == other  # the same person in a new window


def test_one_of_thousands_of_waiting_tasks_is_left():
    queue = Queue(np.linspace(0.3, 1, 5000), "audit")
    picks = [queue.next(f"w{place}") for place in range(4000)]
    queue.restore(queue.step, queue.drawn, queue.passed)
    for pick in picks[:-1]:
        queue.close(pick.row)
    assert queue.next("new").row == picks[-1].row


def test_a_skip_that_was_decided_since_cannot_be_taken_back(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")["task"]
        desk.skip(task, by="ann", client="w1")
        desk.adjudicate(task, truth[task], by="bob", client="w2")
        with pytest.raises(ConflictError, match="nothing"):
            desk.undo(by="ann", client="w1")
        assert desk.is_decided(task)


@pytest.mark.parametrize("answer", [3, "x", None, [0], {"a": 1}, True, 0.5, float("nan")])
def test_answers_outside_of_the_classes_change_nothing(model, tmp_path, answer):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")["task"]
        with pytest.raises(AnswerError):
            desk.adjudicate(task, answer, client="w1")
        assert not desk.journal.records


def test_tasks_that_do_not_exist_are_named(model, tmp_path):
    with Desk(model, tmp_path) as desk:
        for call in (desk.explain, desk.skip, lambda task: desk.adjudicate(task, 0)):
            with pytest.raises(KeyError, match="nowhere"):
                call("nowhere")
        assert desk.explain("7")["task"] == 7  # as in an address


def test_long_names_and_notes_are_rejected(model, tmp_path):
    with Desk(model, tmp_path) as desk:
        task = desk.next("w1")["task"]
        with pytest.raises(ValueError, match="note"):
            desk.adjudicate(task, 0, client="w1", note="x" * 10_001)


# ----------------------------------------------------------------------------------------------------- restarts


@pytest.mark.parametrize("choose", CHOICES)
def test_a_restart_goes_on_where_the_journal_ends(model, truth, tmp_path, choose):
    with Desk(model, tmp_path / "a", choose=choose) as desk:
        whole = work(desk, truth, 30)
        expected = desk.progress()
    with Desk(model, tmp_path / "b", choose=choose) as desk:
        parts = work(desk, truth, 11)
        lost = desk.next("w1")["task"]  # on the screen when the process was killed
    with Desk(model, tmp_path / "b", choose=choose) as desk:
        assert desk.next("w9")["task"] == lost
        desk.release("w9")
        parts += work(desk, truth, 19)
        assert desk.progress() == expected
    assert parts == whole


def test_undone_and_skipped_tasks_survive_a_restart(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        work(desk, truth, 5)
        skipped = desk.next("w1")["task"]
        desk.skip(skipped, client="w1")
        desk.adjudicate(undone := desk.next("w1")["task"], 0, client="w1")
        desk.undo(client="w1")
        expected = desk.progress()
    with Desk(model, tmp_path) as desk:
        assert desk.progress() == expected
        assert desk.next("new")["task"] == undone
        desk.release("new")
        assert work(desk, truth, N)[-1] == skipped


@pytest.mark.parametrize("change", [{"choose": "audit"}, {"seed": 1}, {"audit": 0.5}])
def test_a_sample_keeps_its_design(model, tmp_path, change):
    Desk(model, tmp_path).close()
    with pytest.raises(ValueError, match=next(iter(change))):
        Desk(model, tmp_path, **change)


def test_the_journal_of_another_log_is_rejected(model, tmp_path):
    Desk(model, tmp_path).close()
    other = mh.MajorityVote().fit(mh.simulate(N, 8, 3, labels_per_task=3, seed=3).log)
    with pytest.raises(ValueError, match="another log"):
        Desk(other, tmp_path)


def test_the_order_of_rows_does_not_make_another_log(model, crowd, tmp_path):
    Desk(model, tmp_path).close()
    frame = crowd.log.to_frame()
    mixed = frame.take(np.random.default_rng(0).permutation(frame.num_rows))
    Desk(mh.MajorityVote().fit(mh.Annotations.from_frame(mixed)), tmp_path).close()


def test_a_reader_sees_decisions_while_the_desk_works(model, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        work(desk, truth, 4)
        reader = Desk(model, tmp_path, read_only=True)
        assert reader.gold().equals(desk.gold())
        with pytest.raises(OSError, match="read only"):
            reader.adjudicate(next(iter(set(truth) - set(desk.gold()["task"].to_pylist()))), 0)


@pytest.mark.parametrize("settings", [{"choose": "best"}, {"audit": 1.5}, {"within": 0.1}])
def test_unknown_settings_are_named(model, tmp_path, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Desk(model, tmp_path, **settings)
    assert not (tmp_path / "journal.jsonl").exists()


class Windows(RuleBasedStateMachine):
    """Windows that work, leave, come back and crash, against a dictionary of decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model = mh.MajorityVote().fit(mh.simulate(12, 4, 2, labels_per_task=3, seed=1).log)
        self.seconds = 0.0
        self.desk = self.start()
        self.decisions: dict[int, int] = {}
        self.screens: dict[str, int] = {}

    def start(self) -> Desk:
        return Desk(self.model, self.folder, audit=0.5, clock=lambda: self.seconds)

    windows = st.sampled_from(["w1", "w2", "w3"])

    @rule(window=windows)
    def ask(self, window: str) -> None:
        task = self.desk.next(window)
        if task is None:
            assert self.screens.pop(window, None) is None
            assert set(range(12)) <= {*self.decisions, *self.screens.values()}
        else:
            assert task["task"] not in self.decisions
            assert all(other == window or at != task["task"] for other, at in self.screens.items())
            self.screens[window] = task["task"]

    @rule(window=windows, answer=st.integers(0, 1))
    def decide(self, window: str, answer: int) -> None:
        task = self.screens.pop(window, None)
        if task is not None:
            self.desk.adjudicate(task, answer, by=window, client=window)
            self.decisions[task] = answer

    @rule(window=windows)
    def skip(self, window: str) -> None:
        task = self.screens.pop(window, None)
        if task is not None:
            self.desk.skip(task, by=window, client=window)

    @rule(window=windows)
    def undo(self, window: str) -> None:
        try:
            task = self.desk.undo(by=window, client=window)["task"]
        except ConflictError:
            return
        self.decisions.pop(task, None)
        self.screens = {other: at for other, at in self.screens.items() if at != task} | {window: task}

    @rule(window=windows)
    def leave(self, window: str) -> None:
        self.desk.release(window)
        self.screens.pop(window, None)

    @rule()
    def crash(self) -> None:
        self.desk.close()
        self.desk = self.start()
        self.screens.clear()

    @rule()
    def wait(self) -> None:
        self.seconds += LEASE + 1
        self.screens.clear()

    @invariant()
    def keeps_what_was_decided(self) -> None:
        assert {one["task"]: one["answer"] for one in self.desk.decisions().values()} == self.decisions
        estimate = self.desk.accuracy()
        assert 0 <= estimate.before_low <= estimate.before_high <= 1
        assert estimate.after_low >= estimate.before_low - 1e-12

    def teardown(self) -> None:
        self.desk.close()
        shutil.rmtree(self.folder)


Windows.TestCase.settings = settings(max_examples=12, stateful_step_count=30)
TestWindows = Windows.TestCase


# ----------------------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("calibrated", [True, False])
def test_the_interval_covers_the_accuracy(choose, calibrated):
    """In 400 draws of 60 decisions; the standard error of a coverage of 0.95 is 0.011, and exact bounds cover more."""
    rng = np.random.default_rng(5)
    n, covered, rounds = 600, 0, 400
    for seed in range(rounds):
        confidence = 1 - rng.beta(0.6, 3, n)
        wrong = rng.random(n) < (1 - confidence if calibrated else 0.2)
        queue, states = Queue(confidence, choose, seed=seed), np.full(n, OPEN, np.int8)
        for _ in range(60):
            row = queue.next("w1").row
            states[row] = WRONG if wrong[row] else RIGHT
            queue.close(row)
        estimate = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
        covered += estimate.before_low <= 1 - wrong.mean() <= estimate.before_high
        left = wrong & (states == OPEN)
        assert (estimate.before_low <= 1 - wrong.mean()) <= (estimate.after_low <= 1 - left.mean() + 1e-12)
    assert 0.92 <= covered / rounds <= 0.99


def test_the_interval_of_a_small_sample_is_wilsons():
    n, rows = 7, np.arange(2_000_000)
    states = np.full(len(rows), OPEN, np.int8)
    states[:100] = np.arange(100) < n
    estimate = accuracy(states, [rows], [100], rows, rows, 0)
    expected = binomtest(n, 100).proportion_ci(method="wilson")
    # The variance is that of a share with half a wrong and half a right answer more, the point is not.
    assert estimate.before == pytest.approx(0.93)
    assert estimate.before_low == pytest.approx(1 - expected.high, abs=1e-4)
    assert estimate.before_high == pytest.approx(1 - expected.low, abs=1e-4)


@pytest.mark.parametrize("swap", [False, True])
def test_one_rare_answer_in_the_sample_does_not_exclude_the_truth(swap):
    """In 400 draws of 50 of 5,000 tasks, 16 of them wrong (or right): Wilson's interval covers in 85 % of them."""
    n, covered, rounds = 5000, 0, 400
    wrong = (np.arange(n) < 16) != swap
    for seed in range(rounds):
        queue, states = Queue(np.full(n, 0.9), "audit", seed=seed), np.full(n, OPEN, np.int8)
        for _ in range(50):
            row = queue.next("w1").row
            states[row] = WRONG if wrong[row] else RIGHT
            queue.close(row)
        estimate = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
        covered += estimate.before_low <= 1 - wrong.mean() <= estimate.before_high
    assert covered / rounds >= 0.95


def test_confident_mistakes_do_not_hide_from_the_estimate():
    """Every doubtful answer is right and one in three sure ones is wrong: the estimate is unbiased all the same."""
    n, estimates = 300, []
    confidence = np.r_[np.full(100, 0.4), np.full(200, 0.99)]
    wrong = np.r_[np.zeros(100, bool), np.arange(200) % 3 == 0]
    for seed in range(60):
        queue, states = Queue(confidence, seed=seed), np.full(n, OPEN, np.int8)
        for _ in range(120):
            row = queue.next("w1").row
            states[row] = WRONG if wrong[row] else RIGHT
            queue.close(row)
        estimate = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
        estimates.append(estimate.before)
    # About 25 of 200 in each sample: a standard error of 0.06, over 60 samples 0.008.
    assert np.mean(estimates) == pytest.approx(1 - wrong.mean(), abs=0.03)


def test_without_a_sample_nothing_is_claimed():
    queue = Queue(np.linspace(0.5, 1, 50), audit=0.0)
    states = np.full(50, OPEN, np.int8)
    for _ in range(10):
        row = queue.next("w1").row
        states[row] = RIGHT
        queue.close(row)
    estimate = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
    assert np.isnan(estimate.before)
    assert (estimate.before_low, estimate.before_high) == (pytest.approx(0.2), 1)
    assert estimate.to_dict()["before"] is None


def test_skipped_tasks_are_left_out_of_the_estimate():
    queue = Queue(np.full(100, 0.7), "audit")
    states = np.full(100, OPEN, np.int8)
    for place in range(40):
        row = queue.next("w1").row
        states[row] = SKIPPED if place % 2 else RIGHT
        queue.skip(row) if place % 2 else queue.close(row)
    estimate = accuracy(states, queue.permutations, queue.drawn, queue.order, queue.rank, queue.passed)
    assert (estimate.n_sample, estimate.before) == (20, 1)


def test_effective_annotators_count_independent_errors():
    rng = np.random.default_rng(0)
    n, k = 4000, 5
    alone = (rng.random((n, k)) < 0.2).sum(1)
    together = np.where(rng.random(n) < 0.2, k, 0)
    votes, weights = np.full(n, k), np.ones(n)
    # The standard error of a correlation over 4000 tasks of 10 pairs is about 0.005, and 5 / (1 + 4 · 0.015) = 4.72.
    assert effective_annotators(votes, alone, weights) > 4.72
    assert effective_annotators(votes, together, weights) == pytest.approx(1)
    assert np.isnan(effective_annotators(votes[:9], alone[:9], weights[:9]))
    assert np.isnan(effective_annotators(votes, np.zeros(n), weights))


def test_progress_reports_effective_annotators_of_the_sample(truth, crowd, tmp_path):
    copies = pa.concat_tables(
        [crowd.log.to_frame().set_column(1, "worker", pa.array([w] * 180)) for w in ("a", "b", "c")]
    )
    copies = (
        copies.group_by(["task", "worker"]).aggregate([("label", "min")]).rename_columns(["task", "worker", "label"])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.MajorityVote().fit(mh.Annotations.from_frame(copies))
    with Desk(model, tmp_path, choose="audit") as desk:
        work(desk, truth, 40)
        assert desk.progress()["effective_annotators"] == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------- results


def test_gold_goes_back_into_the_library(model, crowd, truth, tmp_path):
    with Desk(model, tmp_path) as desk:
        tasks = work(desk, truth, 25)
        gold, labels, trail = desk.gold(), desk.labels(), desk.trail()
    assert gold["task"].to_pylist() == sorted(tasks)
    assert gold["label"].to_pylist() == [truth[task] for task in sorted(tasks)]
    assert mh.aggregate(crowd.log, gold=gold).labels_[tasks[0]] == truth[tasks[0]]
    assert labels["task"].to_pylist() == sorted(truth)
    for line in labels.to_pylist():
        expected = truth[line["task"]] if line["task"] in tasks else model.labels_[line["task"]]
        assert (line["label"], line["decided"]) == (expected, line["task"] in tasks)
    assert trail["by"].to_pylist() == ["ann"] * 25
    assert trail["action"].to_pylist() == ["decide"] * 25
    assert trail["task"].to_pylist() == [str(task) for task in tasks]
    assert set(trail["why"].to_pylist()) == {"information", "audit"}


def test_every_kind_is_asked_decided_and_exported(tmp_path):
    for kind in ("ordinal", "multilabel", "numeric", "pairwise", "sequences", "texts", "boxes", "masks"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            log = mh.simulate(kind=kind, seed=1).log
            model = mh.aggregate(log)
        with Desk(model, tmp_path / kind, choose="audit") as desk:
            for place in range(12):
                task = desk.next("w1")
                right = desk.question.proposed(task["row"])
                answer = _other(kind, right, task) if place % 3 == 0 else right
                outcome = desk.adjudicate(task["task"], answer, client="w1")
                assert outcome["votes"], kind
                assert outcome["decision"]["answer"] == answer, kind
            expected = desk.progress()
            assert expected["n_changed"] == 4, kind
            assert desk.accuracy().before == pytest.approx(8 / 12), kind
            assert desk.gold().num_rows >= 12, kind
            assert desk.labels().num_rows >= len(desk.question), kind
            assert sum(desk.labels()["decided"].to_pylist()) >= 12, kind
        with Desk(model, tmp_path / kind, choose="audit") as desk:
            assert desk.progress() == expected, kind


@pytest.mark.parametrize(
    ("kind", "value", "platforms"),
    [
        ("multilabel", {"choices": ["0", "2"]}, 2),
        ("numeric", {"number": -1.5}, 2),
        ("pairwise", {"selected": "right"}, 1),
        ("sequences", {"start": 1, "end": 3, "text": "", "labels": ["t1"]}, 2),
        ("texts", {"text": ["a b"]}, 2),
        ("boxes", None, 0),
    ],
)
def test_decisions_of_every_kind_go_to_platforms(tmp_path, kind, value, platforms):
    answers = {"multilabel": [0, 2], "numeric": -1.5, "texts": "a b", "boxes": False}
    answers["sequences"] = [{"start": 1, "end": 3, "tag": "t1"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(mh.simulate(kind=kind, seed=1).log)
    with Desk(model, tmp_path / "d") as desk:
        task = desk.next("w1")["task"]
        desk.adjudicate(task, task[1] if kind == "pairwise" else answers[kind], by="ann", client="w1")
        for place, platform in enumerate(("label-studio", "argilla")):
            path = tmp_path / f"{platform}.json"
            if place >= platforms:
                with pytest.raises(ValueError, match=f"(?i){platform}"):
                    export(desk, str(path), platform)
                assert not path.exists()
                continue
            assert export(desk, str(path), platform) == 1
            (record,) = json.loads(path.read_text("utf-8"))
            if platform == "label-studio":
                assert record["annotations"][0]["result"][0]["value"] == value
                assert record["data"]["adjudicator"] == "ann"
            else:
                (suggestion,) = record["suggestions"].values()
                assert suggestion["agent"] == "ann"


@pytest.mark.parametrize("platform", ["label-studio", "argilla"])
@pytest.mark.parametrize("kind", ["categorical", "ordinal", "multilabel", "numeric", "pairwise", "texts", "sequences"])
def test_files_for_platforms_are_read_back_as_the_decisions(tmp_path, kind, platform):
    if (kind, platform) == ("pairwise", "argilla"):
        pytest.skip("Argilla has no question about pairs")
    log = mh.simulate(kind=kind, seed=1).log
    if kind == "sequences":
        words = {one: " ".join(f"w{place}" for place in range(20)) for one in log.sequences.tolist()}
        log = log.showing(words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(log)
    decisions = {}
    with Desk(model, tmp_path / "d") as desk:
        for place in range(12):
            task = desk.next("w1")
            answer = {
                "multilabel": [0, 1 + place % 3],
                "numeric": place / 2,
                "texts": f"a b {place % 3}",
                "sequences": [{"start": place, "end": place + 2, "tag": "t1"}],
            }.get(kind, place % 3)
            if kind == "pairwise":
                answer = task["task"][place % 2]
            outcome = desk.adjudicate(task["task"], answer, by="ann", client="w1")
            decisions[str(task["task"])] = outcome["decision"]["answer"]
        export(desk, str(tmp_path / "out.json"), platform)
    records = json.loads((tmp_path / "out.json").read_text("utf-8"))
    # What a platform adds: who answered, and answers in the place of suggestions.
    for place, record in enumerate(records):
        if platform == "label-studio":
            record["id"] = place
            record["annotations"][0]["completed_by"] = 1
        else:
            record["responses"] = {
                name: [{"value": one["value"], "user_id": "u1", "status": "submitted"}]
                for name, one in record.pop("suggestions").items()
            }
    (tmp_path / "back.json").write_text(json.dumps(records), "utf-8")
    back = mh.read(tmp_path / "back.json", kind="texts" if kind == "texts" else None)
    ids = [record["data"]["task"] if platform == "label-studio" else record["id"] for record in records]
    names = {place if platform == "label-studio" else one: one for place, one in enumerate(ids)}
    if kind == "sequences":
        spans = back.spans().to_pylist()
        text = words[0]
        marked = {names[one["sequence"]]: (text[one["start"] : one["end"]], one["tag"]) for one in spans}
        assert marked == {task: (f"w{one['start']} w{one['start'] + 1}", "t1") for task, (one,) in decisions.items()}
        return
    frame = back.to_frame().to_pylist()
    if kind == "pairwise":
        assert {str([int(one["left"]), int(one["right"])]): int(one["winner"]) for one in frame} == decisions
        return
    role = next(name for name in frame[0] if name not in ("task", "worker"))
    value = {"numeric": float, "texts": str, "multilabel": lambda one: sorted(map(int, one))}.get(kind, int)
    assert {names[one["task"]]: value(one[role]) for one in frame} == decisions


def test_label_studio_counts_characters_where_the_log_counts_tokens(tmp_path):
    log = mh.simulate(kind="sequences", seed=1).log
    log = log.showing({one: "  ".join(f"w{place}" for place in range(20)) for one in log.sequences.tolist()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(log)
    with Desk(model, tmp_path / "d") as desk:
        task, other = log.sequences.tolist()[:2]
        value = {"start": 4, "end": 10, "labels": ["t1"]}  # w1  w2
        annotation = {"ground_truth": True, "result": [{"value": value}], "completed_by": 7}
        content = {"action": "ANNOTATION_CREATED", "task": {"id": task}, "annotation": annotation}
        assert label_studio.webhook(desk, content) == {"recorded": True}
        (record,) = desk.decisions().values()
        assert record["answer"] == [{"start": 1, "end": 3, "tag": "t1"}]
        (result,) = label_studio.predict(desk, {"tasks": [{"id": task}]})["results"]
        assert [one["value"] for one in result["result"]] == [value | {"text": "w1  w2"}]
        value["start"] = 5  # in the middle of a word
        with pytest.raises(AnswerError, match="does not begin"):
            label_studio.webhook(desk, content | {"task": {"id": other}})
        assert len(desk.decisions()) == 1


def _other(kind: str, answer: object, task: dict) -> object:
    """Another answer than the aggregated one."""
    if kind == "ordinal":
        return (answer + 1) % 5
    if kind == "multilabel":
        return sorted({*answer} ^ {0})
    if kind == "numeric":
        return answer + 1
    if kind == "pairwise":
        return next(one for one in task["task"] if one != answer)
    if kind == "sequences":
        return [] if answer else [{"start": 0, "end": 1, "tag": "t0"}]
    return f"{answer} more" if kind == "texts" else False


def test_kinds_without_a_decision_per_task_are_named(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mh.aggregate(mh.simulate(kind="clustering", seed=1).log)
    with pytest.raises(ValueError, match="clustering"):
        Desk(model, tmp_path / "log.desk")
    assert not (tmp_path / "log.desk").exists()


@pytest.mark.parametrize("answer", [3, None, ["a"], "x" * 100_001])
def test_texts_are_texts_of_some_length(tmp_path, answer):
    texts = mh.Texts.from_arrays([1, 1, 2, 2], list("abab"), ["the cat", "a cat", "dog", "dog"])
    with Desk(mh.aggregate(texts), tmp_path) as desk:
        with pytest.raises(AnswerError, match="at most 100,000 characters"):
            desk.question.parse(0, answer)
        assert desk.question.parse(0, "x" * 100_000) == "x" * 100_000


def test_hostile_ids_survive_the_journal_and_the_exports(tmp_path):
    evil = ["</script><script>alert(1)</script>", "=cmd|' /C calc'!A0", 'a"\n,\r\u2028\x1b[31m', "…日本\U0001f600"]
    log = mh.Annotations.from_arrays(tasks=evil * 2, workers=[*"aaaabbbb"], labels=[evil[0], evil[1]] * 4)
    with Desk(mh.MajorityVote().fit(log), tmp_path, choose="audit") as desk:
        for _ in evil:
            desk.adjudicate(desk.next("w1")["task"], evil[0], by=evil[2], client="w1", note=evil[1])
    desk = Desk(mh.MajorityVote().fit(log), tmp_path, choose="audit", read_only=True)
    assert sorted(desk.gold()["task"].to_pylist()) == sorted(evil)
    assert set(desk.trail()["by"].to_pylist()) == {evil[2]}
    assert len(Journal(tmp_path, {}, read_only=True).records) == 4
