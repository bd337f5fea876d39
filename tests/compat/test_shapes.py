"""crowd-kit's aggregators of texts, embeddings and masks, and ours under their names."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import manyhands as mh
from manyhands.compat import crowdkit as twin

pd = pytest.importorskip("pandas")

#: As scripts/crowdkit_shapes.py wrote it.
STORED = json.loads((Path(__file__).parents[1] / "data" / "crowdkit_shapes.json").read_text("utf-8"))
LETTERS = "abcdef"


def encoder(text: str) -> np.ndarray:
    return np.array([text.count(letter) for letter in LETTERS], float)


def same_words(text: str, other: str) -> float:
    one, two = set(text.split()), set(other.split())
    return len(one & two) / max(len(one | two), 1)


def far(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b))


def texts(*, several: bool = False):
    log = pd.DataFrame(STORED["texts"])
    return log[log.task != "t11"] if several else log


def embedded(*, several: bool = False):
    log = texts(several=several).rename(columns={"text": "output"})
    return log.assign(embedding=[encoder(text) for text in log.output])


def masks():
    stored = STORED["masks"]
    return pd.DataFrame(stored | {"segmentation": [np.array(mask, bool) for mask in stored["segmentation"]]})


def test_rover_votes_on_words() -> None:
    model = twin.ROVER(str.split, " ".join)
    found = model.fit_predict(texts())
    assert (found.name, found.index.name) == ("text", "task")
    same = sum(found[task] == text for task, text in STORED["ROVER"].items())
    assert same >= len(found) / 2  # crowd-kit's answers, where random words are frequent ties
    own = mh.aggregate(mh.Texts.from_frame(texts(), task="task", worker="worker", text="text"))
    assert found.to_dict() == dict(zip(own.tasks_.tolist(), own.texts_.tolist(), strict=True))
    shuffled = texts().sample(frac=1, random_state=0)
    assert model.fit_predict(shuffled).to_dict() == found.to_dict()


def test_words_of_rover_may_hold_spaces() -> None:
    log = pd.DataFrame({"task": [1, 1, 1], "worker": [1, 2, 3], "text": ["a b|c", "a b|c", "a b|d"]})
    model = twin.ROVER(lambda text: text.split("|"), "|".join)
    assert model.fit_predict(log).to_dict() == {1: "a b|c"}


def test_embeddings_give_crowd_kits_answers() -> None:
    assert twin.ClosestToAverage(far).fit_predict(embedded()).output.to_dict() == STORED["ClosestToAverage"]
    rasa = twin.RASA(n_iter=20)
    assert rasa.fit_predict(embedded()).output.to_dict() == STORED["RASA"]
    assert rasa.skills_.to_dict() == pytest.approx(STORED["RASA skills"], rel=1e-6)
    hrrasa = twin.HRRASA(n_iter=20, output_similarity=same_words)
    assert hrrasa.fit_predict(embedded(several=True)).output.to_dict() == STORED["HRRASA"]
    assert hrrasa.skills_.to_dict() == pytest.approx(STORED["HRRASA skills"], rel=1e-6)
    assert len(hrrasa.weights_) == len(embedded(several=True))


def test_texts_give_crowd_kits_answers() -> None:
    assert twin.TextRASA(encoder, n_iter=20).fit_predict(texts()).to_dict() == STORED["TextRASA"]
    model = twin.TextHRRASA(encoder, n_iter=20, output_similarity=same_words)
    found = model.fit_predict(texts(several=True))
    assert found.to_dict() == STORED["TextHRRASA"]
    assert found.name == "text"
    assert set(model.skills_.index) == set(texts().worker)
    assert model.fit_predict_scores(texts(several=True)).columns.tolist() == ["output", "score", "embedding"]
    with pytest.raises(AttributeError, match="or is not fitted"):
        twin.TextRASA(encoder).skills_  # noqa: B018


@pytest.mark.parametrize("name", ["SegmentationMajorityVote", "SegmentationRASA"])
def test_masks_are_crowd_kits(name: str) -> None:
    model = getattr(twin, name)()
    found = model.fit_predict(masks())
    assert found.index.name == "task"
    for task, mask in found.items():
        assert mask.dtype == bool
        # The image that nobody marked is where SegmentationRASA divides by nothing.
        np.testing.assert_array_equal(mask.astype(int), STORED[name][task], err_msg=f"{name}, {task}")


def test_em_of_masks_is_staple() -> None:
    found = twin.SegmentationEM(n_iter=300, tol=1e-4).fit_predict(masks())
    assert (found.name, found.index.name) == ("segmentation", "task")
    log = masks()
    own = mh.masks.STAPLE().fit(mh.Masks.from_arrays(log.task.tolist(), log.worker.tolist(), list(log.segmentation)))
    for task, mask in zip(own.tasks_.tolist(), own.masks_, strict=True):
        assert found[task].dtype == bool
        np.testing.assert_array_equal(found[task], mask > 0)
    # crowd-kit's answers, but for pixels on the outline.
    differing = sum((found[task] != np.array(mask, bool)).sum() for task, mask in STORED["SegmentationEM"].items())
    assert differing < 0.1 * sum(mask.size for mask in found)


def test_skills_weigh_masks() -> None:
    log = masks()
    trusted = pd.Series({f"w{n}": float(n == 0) for n in range(5)})
    found = twin.SegmentationMajorityVote().fit_predict(log, trusted)
    for task, mask in log[log.worker == "w0"].set_index("task").segmentation.items():
        np.testing.assert_array_equal(found[task], mask)
    with pytest.raises(ValueError, match="worker 'w1'"):
        twin.SegmentationMajorityVote().fit(log, trusted[:1])
    one = twin.SegmentationMajorityVote(on_missing_skill="ignore").fit_predict(log, trusted[:1])
    np.testing.assert_array_equal(one["i1"], found["i1"])
    level = twin.SegmentationMajorityVote(1.0, "value").fit_predict(log, trusted[:1])
    np.testing.assert_array_equal(level["i1"], twin.SegmentationMajorityVote().fit_predict(log)["i1"])


def test_known_embeddings_are_held_and_single_answers_kept() -> None:
    known = pd.Series({"t00": encoder("ffff")})
    model = twin.RASA(n_iter=5).fit(embedded(), known)
    np.testing.assert_array_equal(model.aggregated_embeddings_["t00"], encoder("ffff"))
    held = twin.TextRASA(encoder).fit(texts(), pd.Series({"t00": "ffff"}))
    np.testing.assert_array_equal(held.aggregated_embeddings_["t00"], encoder("ffff"))
    both = twin.HRRASA(calculate_ranks=True)
    found = both.fit_predict(embedded())
    alone = embedded()
    assert found.output["t11"] == alone[alone.task == "t11"].output.iloc[0]
    assert len(both.ranks_) == len(embedded(several=True))
    only = twin.HRRASA().fit_predict(alone[alone.task == "t11"])
    assert only.output.tolist() == [found.output["t11"]]


def test_embeddings_of_nothing_are_no_error() -> None:
    log = pd.DataFrame({"task": [1] * 3, "worker": [1, 2, 3], "output": ["x", "y", "z"]})
    log["embedding"] = [np.zeros(2), np.zeros(2), np.array([1.0, 0.0])]
    unlike = twin.HRRASA(lambda_emb=0.0, output_similarity=lambda a, b: 0.0)
    assert twin.RASA().fit_predict(log).output.tolist() == ["z"]
    for model in (twin.RASA(), twin.HRRASA(lambda_out=0.0), unlike):
        assert len(model.fit_predict(log)) == 1
        assert np.isfinite(np.stack(model.aggregated_embeddings_.tolist())).all()


def test_likeness_of_outputs_compares_words() -> None:
    from manyhands.compat._texts import gleu_similarity

    assert gleu_similarity("a b c", "a b c") == 1
    assert gleu_similarity("a b", "c d") == 0
    # Of three runs of two words and six of three, the former are shared.
    assert gleu_similarity("a b", "a b c") == pytest.approx(3 / 6)
    assert gleu_similarity("", "") == 0


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(KeyError, match="no column 'text'"):
        twin.ROVER(str.split, " ".join).fit(texts().rename(columns={"text": "said"}))
    with pytest.raises(TypeError, match="DataFrame"):
        twin.RASA().fit([1, 2])
    with pytest.raises(ValueError, match="rows"):
        twin.SegmentationEM().fit(masks().head(0))
    odd = masks().head(2)
    odd.at[1, "segmentation"] = np.zeros((2, 2), bool)
    with pytest.raises(ValueError, match="task 'i0'"):
        twin.SegmentationRASA().fit(odd)
    twice = pd.Series([np.ones(6), np.ones(6)], index=["t00", "t00"])
    with pytest.raises(ValueError, match="embeddings"):
        twin.RASA().fit(embedded(), twice)
    bad = embedded()
    bad.at[0, "embedding"] = np.ones(2)
    with pytest.raises(ValueError, match="arrays"):
        twin.RASA().fit(bad)


def test_fitted_models_are_pickled() -> None:
    model = twin.TextRASA(encoder).fit(texts())
    again = pickle.loads(pickle.dumps(model))
    assert again.skills_.to_dict() == model.skills_.to_dict()
