"""What training promises: labels that stay held out, checkpoints of nobody else, errors that say what is wrong."""

from __future__ import annotations

import os
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deferrals import team
from learners import VARIANTS, Crowd, Variant, backbone, crowd
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

import manyhands as mh
from manyhands import defer, learn
from manyhands._train import checkpoint
from manyhands._train.settings import Training, TrainingOptions

every = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def columns(votes: mh.Annotations) -> list[Any]:
    return [votes.to_frame()[name].to_pylist() for name in ("task", "worker", "label")]


# ----------------------------------------------------------------------------------------- held-out labels


def course(learner: learn.Learner, X: np.ndarray, votes: mh.Annotations) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Training loss and parameters after each epoch."""
    states: list[dict[str, Any]] = []

    def note(learner: learn.Learner, record: dict[str, float]) -> None:
        parts = learner._parts.state_dict()
        states.append({name: value.clone() for name, value in parts.items()})

    learner.set_params(callbacks=[note]).fit(X, votes)
    return learner.history_["loss"], states


def with_other_labels(votes: mh.Annotations, samples: np.ndarray) -> mh.Annotations:
    """The same votes, but with labels at random for some samples."""
    tasks, workers, labels = votes.codes()
    changed = np.where(np.isin(tasks, samples), np.random.default_rng(0).integers(3, size=len(labels)), labels)
    assert (changed != labels).any()
    sizes = {"n_tasks": votes.n_tasks, "n_workers": votes.n_workers, "n_classes": 3}
    return mh.Annotations.from_codes(tasks, workers, changed, **sizes)


@pytest.mark.parametrize("start", ["usual", "aggregator"])
@every
def test_held_out_labels_do_not_change_the_training(variant: Variant, start: str):
    log = crowd(n=120)
    options: dict[str, Any] = {"validation": 0.3}
    if start == "aggregator" and variant.starts:
        options["start_from"] = mh.DawidSkene(model="one-coin")
    learner = variant.learner(**options)
    loss, states = course(learner, log.X, log.votes)
    other = with_other_labels(log.votes, learner._held_out.numpy())
    again, other_states = course(variant.learner(**options), log.X, other)
    np.testing.assert_array_equal(again, loss)
    for state, other_state in zip(states, other_states, strict=True):
        assert all(torch.equal(value, other_state[name]) for name, value in state.items())


@pytest.mark.parametrize("make", [learn.DeepEM, learn.ModelBootstrappedEM])
def test_the_score_of_em_is_of_matrices_that_have_not_seen_the_labels_they_foretell(make):
    """Labels at random foretell nothing: matrices that count them would score better than chance."""
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 6)).astype(np.float32)
        answers = rng.integers(3, size=(60, 20))
        for row in answers:
            row[rng.permutation(20)[4:]] = -1
        learner = make(backbone(), max_epochs=4, epochs_per_step=1, validation=0.3)
        scores.append(learner.fit(X, mh.Annotations.from_dense(answers)).history_["score"])
    # 360 labels foretold as nearly even leave an error of 0.005; matrices that counted them would be 0.4 above chance.
    assert np.mean(scores) < np.log(1 / 3) + 0.02


@pytest.mark.parametrize("make", [learn.DeepEM, learn.ModelBootstrappedEM])
def test_the_matrices_of_em_are_those_that_were_scored(make):
    log = crowd(n=120)
    learner = make(backbone(), max_epochs=1, validation=0.3).fit(log.X, log.votes)
    other = with_other_labels(log.votes, learner._held_out.numpy())
    again = make(backbone(), max_epochs=1, validation=0.3).fit(log.X, other)
    np.testing.assert_array_equal(again.confusion_, learner.confusion_)


# ---------------------------------------------------------------------------------------------- the loop


def test_parts_are_in_evaluation_mode_when_training_has_ended(monkeypatch):
    log, seen = team(), []
    outcome = defer.SelectivePrediction._outcome

    def noting(model, batch):
        seen.append(model._parts.training)
        return outcome(model, batch)

    monkeypatch.setattr(defer.SelectivePrediction, "_outcome", noting)
    defer.SelectivePrediction(backbone(), max_epochs=1, validation=0).fit(log.X, log.truth, log.votes)
    assert seen == [False]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("validation", [0.0, 0.2])
@pytest.mark.parametrize("make", [learn.CCEM, learn.MaxMIG])
def test_a_plateau_lowers_the_rate_and_progress_does_not(mode, validation, make):
    """Of scores below zero, as those of likelihoods, and above, as those of gains."""
    log = crowd()

    def rates(lr: float) -> np.ndarray:
        options = {"max_epochs": 4, "batch_size": 240, "lr": lr, "worker_lr": lr, "validation": validation}
        return make(nn.Linear(6, 3), **options, schedule=schedule).fit(log.X, log.votes).history_["lr"]

    def schedule(optimizer):
        return ReduceLROnPlateau(optimizer, mode, patience=0, eps=0)

    np.testing.assert_allclose(rates(1e-7), [1e-7, 1e-7, 1e-8, 1e-9])
    np.testing.assert_allclose(rates(1e-2), 1e-2)


def test_a_plateau_is_resumed(tmp_path):
    def schedule(optimizer):
        return ReduceLROnPlateau(optimizer, patience=0, threshold=0.05)

    log, path = crowd(), tmp_path / "run.pt"
    whole = learn.CCEM(backbone(), max_epochs=5, schedule=schedule).fit(log.X, log.votes)
    learn.CCEM(backbone(), max_epochs=2, schedule=schedule, checkpoint=path).fit(log.X, log.votes)
    resumed = learn.CCEM(backbone(), max_epochs=5, schedule=schedule, checkpoint=path)
    resumed.fit(log.X, log.votes, resume=True)
    np.testing.assert_array_equal(resumed.history_["lr"], whole.history_["lr"])
    assert (resumed.predict_proba(log.X) == whole.predict_proba(log.X)).all()


def test_options_are_typed_as_they_are():
    assert typing.get_type_hints(TrainingOptions) == typing.get_type_hints(Training)


# ------------------------------------------------------------------------------------- weighted doctor net


@pytest.mark.parametrize("options", [{}, {"validation": 0.2}, {"validation": 0.2, "patience": 1}])
def test_doctors_who_look_weigh_more_than_those_who_do_not(options):
    X, truth = mh.categorical.synthetic.gaussians(300, 3, n_features=6, separation=3.0, seed=0)
    confusion = np.concatenate([mh.categorical.crowds.one_coin(8, 3, accuracy=0.9), np.full((4, 3, 3), 1 / 3)])
    votes = mh.simulate(truth=truth, confusion=confusion, labels_per_task=4, seed=0).log
    learner = learn.WeightedDoctorNet(backbone(), max_epochs=25, **options).fit(X.astype(np.float32), votes)
    assert len(learner.history_["loss"]) <= 15
    assert len(learner.history_["loss"]) == 15 or "patience" in options
    assert learner.weights_.sum() == pytest.approx(1)
    assert learner.weights_[:8].min() > 1.3 * learner.weights_[8:].max()


def test_weights_need_epochs_of_the_heads_before_them():
    log = crowd()
    for weight_epochs in (3, 4):
        with pytest.raises(ValueError, match="max_epochs=3"):
            learn.WeightedDoctorNet(backbone(), max_epochs=3, weight_epochs=weight_epochs).fit(log.X, log.votes)
    with pytest.raises(ValueError, match=r"weight_lr.*0"):
        learn.WeightedDoctorNet(backbone(), weight_lr=-1).fit(log.X, log.votes)


# --------------------------------------------------------------------------------------------- checkpoints


def ccem(path: Path, max_epochs: int = 2, **options: Any) -> learn.Learner:
    return learn.CCEM(backbone(), max_epochs=max_epochs, batch_size=32, checkpoint=path, **options)


@pytest.fixture
def begun(tmp_path) -> tuple[Crowd, Path]:
    """A crowd, and a checkpoint of it after one epoch."""
    log, path = crowd(n=90), tmp_path / "run.pt"
    ccem(path, 1).fit(log.X, log.votes)
    return log, path


def test_resume_and_overwrite_need_a_checkpoint(tmp_path):
    log = crowd()
    for asked in ("resume", "overwrite"):
        with pytest.raises(ValueError, match=f"{asked}=True needs .* set checkpoint="):
            learn.CCEM(backbone()).fit(log.X, log.votes, **{asked: True})
    with pytest.raises(FileNotFoundError, match=r"checkpoint.*resume"):
        ccem(tmp_path / "run.pt").fit(log.X, log.votes, resume=True)
    with pytest.raises(ValueError, match=r"resume.*overwrite|overwrite.*resume"):
        ccem(tmp_path / "run.pt").fit(log.X, log.votes, resume=True, overwrite=True)


def test_a_training_that_ran_out_of_patience_resumes_to_what_it_was(tmp_path):
    log, path = crowd(n=90), tmp_path / "run.pt"
    options = {"lr": 0.05, "validation": 0.3, "patience": 2}
    whole = ccem(path, 60, **options).fit(log.X, log.votes)
    resumed = ccem(path, 60, **options).fit(log.X, log.votes, resume=True)
    assert len(resumed.history_["loss"]) == len(whole.history_["loss"]) < 60
    assert (resumed.predict_proba(log.X) == whole.predict_proba(log.X)).all()


def test_a_checkpoint_is_not_loaded_as_a_trained_network(begun):
    with pytest.raises(mh.errors.FileFormatError, match="resume=True"):
        mh.load(begun[1], backbone=backbone())


@pytest.mark.parametrize("make", [learn.LearnFromAll, learn.COINNet])
def test_settings_of_training_are_checked_before_work(make):
    log = crowd(n=30)
    with pytest.raises(ValueError, match=r"max_epochs.*1"):
        make(backbone(), max_epochs=0).fit(log.X, log.votes)


def test_confusion_of_aggregated_targets_is_that_of_the_aggregator():
    log = crowd(n=60)
    aggregator = mh.DawidSkene(model="one-coin")
    learner = learn.AggregatedTarget(backbone(), aggregator=aggregator, max_epochs=1).fit(log.X, log.votes)
    np.testing.assert_array_equal(learner.confusion_, aggregator.fit(log.votes).confusion_)


def test_another_learners_checkpoint_is_refused(begun):
    log, path = begun
    with pytest.raises(ValueError, match=r"CCEM.*9 workers.*DeepEM"):
        learn.DeepEM(backbone(), max_epochs=2, checkpoint=path).fit(log.X, log.votes, resume=True)
    fewer = log.votes.select(workers=range(8))
    with pytest.raises(ValueError, match=r"9 workers.*3 classes.*8"):
        ccem(path).fit(log.X, fewer, resume=True)


@pytest.mark.parametrize("what", ["workers", "classes"])
def test_another_crowds_checkpoint_is_refused(begun, what):
    """Other names, and the same names in another order."""
    log, path = begun
    task, worker, label = columns(log.votes)
    if what == "workers":
        others = [
            mh.Annotations.from_arrays(task, [f"other {w}" for w in worker], label),
            mh.Annotations.from_arrays(task, [8 - w for w in worker], label).select(workers=range(9)),
        ]
    else:
        others = [
            mh.Annotations.from_arrays(task, worker, ["abc"[k] for k in label]),
            mh.Annotations.from_arrays(task, worker, label, classes=[2, 1, 0]),
        ]
    with pytest.raises(ValueError, match=f"{what}"):
        ccem(path).fit(log.X, others[0], resume=True)
    # The workers' names are in order whatever they say: renamed among themselves they gave other answers.
    message = "other annotations" if what == "workers" else "in another order"
    with pytest.raises(ValueError, match=message):
        ccem(path).fit(log.X, others[1], resume=True)


def test_a_checkpoint_of_other_answers_is_refused(begun):
    log, path = begun
    task, worker, label = columns(log.votes)
    for other in (
        mh.Annotations.from_arrays(task, worker, [*label[:-1], (label[-1] + 1) % 3], classes=range(3)),
        mh.Annotations.from_arrays(task[:-1], worker[:-1], label[:-1]),
        mh.Annotations.from_arrays(task, worker, label, np.full(len(task), 2.0)),
    ):
        with pytest.raises(ValueError, match="annotations"):
            ccem(path).fit(log.X, other, resume=True)


def test_a_checkpoint_of_other_settings_is_refused_and_more_epochs_are_not(begun):
    log, path = begun
    with pytest.raises(ValueError, match=r"lr=0.001.*0.1.*0.2"):
        ccem(path, lr=0.1, validation=0.2).fit(log.X, log.votes, resume=True)
    with pytest.raises(ValueError, match=r"schedule=None.*'cosine'"):
        ccem(path, schedule="cosine").fit(log.X, log.votes, resume=True)
    whole = learn.CCEM(backbone(), max_epochs=3, batch_size=32).fit(log.X, log.votes)
    resumed = ccem(path, 3).fit(log.X, log.votes, resume=True)
    assert (resumed.predict_proba(log.X) == whole.predict_proba(log.X)).all()
    wider = nn.Sequential(nn.Linear(6, 17), nn.ReLU(), nn.Linear(17, 3))
    with pytest.raises(ValueError, match="networks"):
        learn.CCEM(wider, max_epochs=4, batch_size=32, checkpoint=path).fit(log.X, log.votes, resume=True)


def test_a_schedule_that_ends_with_the_last_epoch_needs_the_same_number(tmp_path):
    log, path = crowd(n=90), tmp_path / "run.pt"
    ccem(path, 2, schedule="cosine").fit(log.X, log.votes)
    with pytest.raises(ValueError, match=r"max_epochs=2.*3"):
        ccem(path, 3, schedule="cosine").fit(log.X, log.votes, resume=True)


def test_another_teams_checkpoint_is_refused(tmp_path):
    log, path = team(), tmp_path / "run.pt"

    def model(max_epochs: int) -> Any:
        return defer.OneVsAll(backbone(), max_epochs=max_epochs, schedule=None, checkpoint=path)

    model(1).fit(log.X, log.truth, log.votes)
    task, worker, label = columns(log.votes)
    other = mh.Annotations.from_arrays(task, [f"other {w}" for w in worker], label, classes=range(3))
    with pytest.raises(ValueError, match="workers"):
        model(2).fit(log.X, log.truth, other, resume=True)
    with pytest.raises(ValueError, match="other annotations"):
        model(2).fit(log.X, (log.truth + 1) % 3, log.votes, resume=True)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model(2).fit(log.X, log.truth, log.votes)
    model(2).fit(log.X, log.truth, log.votes, overwrite=True)
    assert len(model(3).fit(log.X, log.truth, log.votes, resume=True).history_["loss"]) == 3


def test_a_second_run_does_not_write_over_a_checkpoint(begun):
    log, path = begun
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"resume=True.*overwrite=True"):
        ccem(path).fit(log.X, log.votes)
    assert path.read_bytes() == before
    ccem(path).fit(log.X, log.votes, overwrite=True)
    assert path.read_bytes() != before
    assert [file.name for file in path.parent.iterdir()] == ["run.pt"]


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch):
    log, epochs = crowd(), []

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    def fit(path: Path) -> None:
        ccem(path).fit(log.X, log.votes, progress=lambda *_: epochs.append(path))

    with pytest.raises(FileNotFoundError, match=r"folder.*ck"):
        fit(tmp_path / "ck" / "run.pt")
    with pytest.raises(IsADirectoryError, match="folder"):
        fit(tmp_path)
    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(OSError, match=r"run.pt.*Permission denied"):
        fit(tmp_path / "run.pt")
    assert epochs == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_last_whole_checkpoint_and_nothing_else(begun, monkeypatch):
    log, path = begun
    before = path.read_bytes()

    def full(content, file):
        file.write(b"PK")
        raise RuntimeError("[enforce fail at inline_container.cc:671] . unexpected pos 704 vs 598")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match=r"run.pt.*unexpected pos"):
        ccem(path).fit(log.X, log.votes, resume=True)
    assert [file.name for file in path.parent.iterdir()] == ["run.pt"]
    assert path.read_bytes() == before


def test_a_checkpoint_is_on_the_disk_before_it_takes_the_old_ones_place(begun, monkeypatch):
    log, path = begun
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("sync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda part, target: (done.append("replace"), replace(part, target)))
    ccem(path).fit(log.X, log.votes, resume=True)
    assert done[:2] == ["sync", "replace"]


@pytest.mark.parametrize("content", [b"", b"epoch,loss\n1,0.5\n", b"PK\x03\x04" + b"\0" * 40])
def test_a_file_that_is_no_checkpoint_is_refused(begun, content):
    log, path = begun
    path.write_bytes(content)
    with pytest.raises(mh.errors.FileFormatError, match="damaged"):
        ccem(path).fit(log.X, log.votes, resume=True)


def test_a_damaged_checkpoint_is_refused(begun):
    log, path = begun
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(mh.errors.FileFormatError, match="damaged"):
        ccem(path).fit(log.X, log.votes, resume=True)
    expected, refused = checkpoint.read(_written(path, whole)), 0
    for at in range(0, len(whole), len(whole) // 60):
        flipped = bytearray(whole)
        flipped[at] ^= 16
        try:
            found = checkpoint.read(_written(path, bytes(flipped)))
        except mh.errors.FileFormatError:
            refused += 1
        else:  # a byte that says nothing, between the parts of the archive
            assert str(found) == str(expected)
    assert refused > 30


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_files_of_torch_that_are_others_and_old_checkpoints_are_refused(begun):
    log, path = begun
    for content, message in (
        (backbone().state_dict(), "checkpoint"),
        ({"learner": "CCEM", "sizes": [9, 3]}, "version"),
        ({"format": 2, "owner": {"learner": "CCEM"}}, "does not state"),
    ):
        torch.save(content, path)
        with pytest.raises(mh.errors.FileFormatError, match=message):
            ccem(path).fit(log.X, log.votes, resume=True)


# ------------------------------------------------------------------------------------------ torch's errors


def test_a_device_that_is_not_there_is_named_before_any_work():
    log = crowd()
    for device in ("warp", *([] if torch.cuda.is_available() else ["cuda"])):
        with pytest.raises(ValueError, match=f'device="{device}".*device="auto"'):
            learn.CCEM(backbone(), device=device).fit(None, log.votes)


def test_an_input_that_the_network_does_not_take_is_described():
    log = crowd()
    size = r"batch of shape \(64, 4\) and type float32 goes to Linear\(in_features=6, .*torch: .*mat1 and mat2"
    whole = "type int64 goes to Linear.* make X floats"
    for make in (learn.CCEM, learn.Learn2Agree):
        learner = make(backbone(), max_epochs=1)
        with pytest.raises(ValueError, match=size.replace("64", "(1|64)")):
            learner.fit(log.X[:, :4], log.votes)
        with pytest.raises(ValueError, match=whole):
            learner.fit(log.X.astype(int), log.votes)
    learner.fit(log.X, log.votes)
    with pytest.raises(ValueError, match=size.replace("64", "240")):
        learner.predict(log.X[:, :4])
    tokens = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(24, 3))
    with pytest.raises(ValueError, match=r"float32.*Embedding\(5, 4\)"):
        learn.CCEM(tokens, max_epochs=1).fit(log.X, log.votes)
    with pytest.raises(ValueError, match="index out of range"):
        learn.CCEM(tokens, max_epochs=1).fit(np.full((240, 6), 5), log.votes)
    learn.CCEM(tokens, max_epochs=1).fit(np.full((240, 6), 4), log.votes)
