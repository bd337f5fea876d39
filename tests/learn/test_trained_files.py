"""Trained learners and teams in files: the same predictions, and plain words for what does not fit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import learners
import numpy as np
import pytest
import torch

import manyhands as mh
from manyhands._train.files import SavedNetwork
from manyhands.learn.max_mig import _Reordered

pytestmark = pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")


@pytest.fixture(scope="module")
def crowd() -> learners.Crowd:
    return learners.crowd(n=60, n_workers=5)


def test_names_of_any_kind_and_a_network_put_on_top(tmp_path: Path) -> None:
    crowd = learners.crowd(n=60, n_workers=4, seed=1)
    log = crowd.votes.to_frame().to_pydict()
    named = {
        "task": log["task"],
        "worker": [f"wörker {one}" for one in log["worker"]],
        "label": [f"klass {one}" for one in log["label"]],
    }
    learner = mh.learn.MaxMIG(learners.backbone(), max_epochs=1).fit(crowd.X, named)
    order = torch.tensor([2, 0, 1])
    learner._parts["network"] = torch.nn.Sequential(learner._parts["network"], _Reordered(order))
    learner.save(tmp_path / "a")
    again = mh.load(tmp_path / "a", backbone=learners.backbone())
    assert again.predict(crowd.X).tolist() == learner.predict(crowd.X).tolist()
    weights = mh.load(tmp_path / "a").state_dict()
    assert weights.keys() == learners.backbone().state_dict().keys()
    inner = learner.network_
    while isinstance(inner[-1], _Reordered):  # there may be another, if the classes had to be named anew
        inner = inner[0]
    assert (weights["0.weight"] == inner[0].weight).all()


@pytest.fixture
def saved(tmp_path: Path, crowd: learners.Crowd) -> tuple[Path, Any]:
    learner = mh.learn.CCEM(learners.backbone(), max_epochs=1, start_from=mh.MajorityVote()).fit(crowd.X, crowd.votes)
    learner.save(tmp_path / "learner.pt")
    return tmp_path / "learner.pt", learner


def test_weights_and_names_without_a_network(saved: tuple[Path, Any]) -> None:
    path, learner = saved
    found = mh.load(path)
    assert isinstance(found, SavedNetwork)
    assert found.kind == "CCEM"
    assert found.networks == ["backbone"]
    assert found.settings["max_epochs"] == 1
    assert "start_from" not in found.settings
    assert found.workers_.tolist() == learner.workers_.tolist()
    assert found.classes_.tolist() == learner.classes_.tolist()
    assert (found.confusion_ == learner.confusion_).all()
    assert (found.prior_ == learner.prior_).all()
    assert "backbone=…" in repr(found)
    network = learners.backbone(seed=5)
    network.load_state_dict(found.state_dict())
    assert (network[0].weight == learner.network_[0].weight).all()


def again(name: str, module: str) -> type[mh.learn.CCEM]:
    """A class as a cell of a notebook makes it, each time that it is run."""
    return type(name, (mh.learn.CCEM,), {"__module__": module, "__qualname__": name})


def test_classes_of_one_name_are_told_apart_by_module_and_the_last_one_counts(
    tmp_path: Path, crowd: learners.Crowd
) -> None:
    ours, theirs, later = (again("Own", module) for module in ("notebook", "elsewhere", "notebook"))
    for made, found in ((theirs, theirs), (ours, later), (later, later)):
        learner = made(learners.backbone(), max_epochs=1).fit(crowd.X, crowd.votes)
        learner.save(tmp_path / "own.pt")
        assert type(mh.load(tmp_path / "own.pt", found, backbone=learners.backbone())) is found
        assert mh.load(tmp_path / "own.pt").kind == f"{made.__module__}.Own"


def test_what_does_not_fit_is_refused(saved: tuple[Path, Any], tmp_path: Path, crowd: learners.Crowd) -> None:
    path, _ = saved
    with pytest.raises(ValueError, match="not built as those"):
        mh.load(path, backbone=torch.nn.Linear(6, 3))
    with pytest.raises(TypeError, match="backbone=…"):
        mh.load(path, classifier=learners.backbone())
    with pytest.raises(TypeError, match=r"CCEM.*DeepEM"):
        mh.load(path, mh.learn.DeepEM, backbone=learners.backbone())
    crowd.votes.save(tmp_path / "votes.mh")
    with pytest.raises(TypeError, match="networks"):
        mh.load(tmp_path / "votes.mh", backbone=learners.backbone())
    with pytest.raises(mh.errors.NotFittedError):
        mh.learn.CCEM(learners.backbone()).save(tmp_path / "b")
    with pytest.raises(OSError, match="nowhere"):
        saved[1].save(tmp_path / "nowhere" / "b")
    mh.learn.CCEM(learners.backbone(), max_epochs=1, checkpoint=tmp_path / "c").fit(crowd.X, crowd.votes)
    with pytest.raises(mh.errors.FileFormatError, match="resume=True"):
        mh.load(tmp_path / "c")


class Harm:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("harm"),))


def test_damage_and_malice_are_refused(saved: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = saved
    monkeypatch.chdir(path.parent)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(4, len(whole), 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        try:
            found = mh.load(path, backbone=learners.backbone())
        except mh.errors.FileFormatError:
            continue
        # Bits that say nothing: times and padding of the archive.
        path.write_bytes(whole)
        assert (found.confusion_ == mh.load(path, backbone=learners.backbone()).confusion_).all()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(mh.errors.FileFormatError, match="damaged"):
        mh.load(path)
    torch.save({"trained": 1, "kind": Harm()}, path)
    with pytest.raises(mh.errors.FileFormatError):
        mh.load(path)
    torch.save({"trained": 1, "kind": "CCEM"}, path)
    with pytest.raises(mh.errors.FileFormatError, match="is missing or has the wrong type"):
        mh.load(path)
    torch.save([1], path)
    with pytest.raises(mh.errors.FileFormatError, match="file"):
        mh.load(path)
    path.write_bytes(pickle.dumps(Harm()))
    with pytest.raises(mh.errors.FileFormatError):
        mh.load(path)
    assert not (path.parent / "harm").exists()


def test_crafted_headers_are_rejected_before_memory_is_taken(saved: tuple[Path, Any]) -> None:
    path, learner = saved
    sound = torch.load(path, weights_only=True)
    weight = next(name for name in sound["parts"] if name.endswith("weight"))
    nan = torch.full_like(sound["parts"][weight], float("nan"))
    kept = sound["kept"]
    crafted: list[tuple[dict[str, Any], str]] = [
        ({"example": [[10**10], "float32"]}, "shape"),
        ({"example": [[2**40] * 50, "float32"]}, "shape"),
        ({"example": [[-1], "float32"]}, "shape"),
        ({"example": [[6], "load"]}, "numbers"),
        ({"example": [[6]]}, "example"),
        ({"example": {"x": {"y": [[6], "float32"]}}}, "example"),
        ({"example": None}, "example"),
        ({"parts": sound["parts"] | {weight: nan}}, "NaN"),
        ({"parts": sound["parts"] | {weight: 7}}, "is not an array"),
        ({"workers": [0, 1, 2, 3, 3]}, "workers"),
        ({"workers": [0, 1, 2, 3, float("nan")]}, "workers"),
        ({"workers": []}, "workers"),
        ({"classes": [None, 1, 2]}, "classes"),
        ({"kept": kept | {"_confusion": torch.zeros(2, 2)}}, "confusion"),
        ({"kept": kept | {"_prior": torch.full((3,), float("nan"), dtype=torch.float64)}}, "prior"),
        ({"kept": kept | {"_n_labels": "many"}}, "n_labels"),
        ({"settings": {"nonsense": 1}}, "nonsense"),
        ({"settings": {"max_epochs": "many"}}, "max_epochs"),
        ({"settings": {"max_epochs": torch.zeros(3)}}, "settings"),
        ({"networks": "backbone"}, "networks"),
        ({"outer": [7]}, "outer"),
        ({"history": 7}, "history"),
    ]
    for changed, message in crafted:
        torch.save(sound | changed, path)
        for networks in ({"backbone": learners.backbone()}, {}):
            if not networks and "settings" in changed and "plain" not in message:
                continue
            with pytest.raises(mh.errors.FileFormatError, match=message):
                mh.load(path, **networks)
    learner._parts["network"][0].weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="cannot save what could not be read again"):
        learner.save(path)


def test_a_file_neither_tells_nor_chooses_the_path_of_a_checkpoint(tmp_path: Path, crowd: learners.Crowd) -> None:
    secret = tmp_path / "my-secret-project.ckpt"
    learner = mh.learn.CCEM(learners.backbone(), max_epochs=1, checkpoint=str(secret)).fit(crowd.X, crowd.votes)
    path = tmp_path / "learner.pt"
    learner.save(path)
    assert b"secret" not in path.read_bytes()
    content = torch.load(path, weights_only=True)
    content["settings"]["checkpoint"] = str(tmp_path / "chosen-by-a-stranger")
    torch.save(content, path)
    assert "checkpoint" not in mh.load(path).settings
    again = mh.load(path, backbone=learners.backbone())
    assert again.checkpoint is None
    again.fit(crowd.X, crowd.votes)
    assert not (tmp_path / "chosen-by-a-stranger").exists()
