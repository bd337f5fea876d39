"""Known sets correct the default for sets of labels."""

import warnings

import numpy as np
import pytest

import manyhands as mh
from manyhands.errors import GoldWarning


def misleading_log(seed, n=400, m=8):
    """Sets of three labels; half of the workers see "b" wherever "a" is, whether it is there or not."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, 3)) < 0.4
    rows = []
    for task in range(n):
        for worker in range(m):
            answer = truth[task] ^ (rng.random(3) < 0.15)
            if worker < m // 2 + 1:
                answer[1] = answer[0]
            rows.append((task, worker, tuple(np.array(["a", "b", "c"])[answer])))
    tasks, workers, sets = zip(*rows, strict=True)
    log = mh.MultiLabels.from_frame({"task": tasks, "worker": workers, "labels": list(map(list, sets))})
    return log, [tuple(np.array(["a", "b", "c"])[one]) for one in truth]


def fit(log, gold):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GoldWarning)
        return mh.aggregate(log, gold=gold)


def f1(model, truth, rest):
    return mh.metrics.set_scores(model.label_sets_[rest], truth[rest]).f1


def test_known_sets_correct_workers_who_share_an_error():
    gains, skills = [], []
    for seed in range(3):
        log, truth = misleading_log(seed)
        rest = slice(60, None)
        model = fit(log, dict(enumerate(truth[:60])))
        gains.append(f1(model, truth, rest) - f1(mh.aggregate(log), truth, rest))
        assert model.label_sets_[:60].tolist() == truth[:60]
        skills.append(model.workers_frame()["skill"].to_numpy())
        assert model.n_gold_ == 60
        assert model.workers_frame()["n_gold"].to_pylist() == [60] * 8
    assert np.mean(gains) > 0.03
    skill = np.mean(skills, axis=0)
    assert skill[:5].max() < skill[5:].min()


def test_known_sets_of_a_good_crowd_do_no_harm():
    changes = []
    for seed in range(3):
        crowd = mh.simulate(300, 10, 6, answers_per_task=4, seed=seed, kind="multilabel")
        truth = list(crowd.truth)
        plain = mh.aggregate(crowd.log)
        for n in (2, 10, 60):
            model = fit(crowd.log, dict(zip(crowd.log.tasks[:n].tolist(), truth[:n], strict=True)))
            changes.append(f1(model, truth, slice(n, None)) - f1(plain, truth, slice(n, None)))
    assert np.mean(changes) > -0.002
    assert min(changes) > -0.015


def test_labels_that_no_worker_gave_are_added_to_known_tasks_only():
    crowd = mh.simulate(60, 8, 4, answers_per_task=4, seed=1, kind="multilabel")
    chosen_labels = [set() for _ in range(60)]
    for row in crowd.log.to_frame().to_pylist():
        chosen_labels[row["task"]] |= set(row["labels"])
    every = set(crowd.log.labels.tolist())
    task = next(task for task, labels in enumerate(chosen_labels) if labels < every)
    label = min(every - chosen_labels[task])
    model = fit(crowd.log, dict(enumerate(crowd.truth[:30])) | {task: (label,)})
    assert model.label_sets_[task] == (label,)
    others = [place for place in range(60) if place not in (*range(30), task)]
    assert all(set(model.label_sets_[place]) <= chosen_labels[place] for place in others)


def test_known_sets_survive_files_and_predict_new_tasks(tmp_path):
    log, truth = misleading_log(1, n=150)
    model = fit(log, dict(enumerate(truth[:60])))
    model.save(tmp_path / "m.manyhands")
    loaded = mh.load(tmp_path / "m.manyhands")
    assert loaded.label_sets_.tolist() == model.label_sets_.tolist()
    new = log.select(tasks=log.tasks[60:])
    assert loaded.predict(new).tolist() == model.label_sets_[60:].tolist()


def test_known_sets_are_read_as_lists_and_as_text(tmp_path):
    log, truth = misleading_log(2, n=100)
    gold = dict(enumerate(truth[:30]))
    expected = fit(log, gold).probabilities()
    texts = {task: "|".join(labels) for task, labels in gold.items()}
    assert fit(log, texts).probabilities() == expected
    path = tmp_path / "gold.csv"
    path.write_text("task,labels\n" + "".join(f"{task},{text}\n" for task, text in texts.items() if text))
    some = {task: labels for task, labels in gold.items() if labels}
    assert fit(log, path).probabilities() == fit(log, some).probabilities()


def test_bad_gold_is_named():
    log, _ = misleading_log(0, n=20)
    with pytest.raises(ValueError, match="no worker named: 'zebra'"):
        mh.aggregate(log, gold={0: ["zebra"]})
    with pytest.raises(ValueError, match="999"):
        mh.aggregate(log, gold={999: ["a"]})
    plain = mh.aggregate(log)
    with pytest.warns(GoldWarning, match="corrects no other task"):
        model = mh.aggregate(log, gold={0: []})
    assert model.label_sets_[1:].tolist() == plain.label_sets_[1:].tolist()
    assert model.label_sets_[0] == ()
