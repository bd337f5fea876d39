"""What `moments.diagnose` says of crowds of which it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import manyhands as mh
from manyhands.moments.diagnosis import _applicable
from manyhands.moments.spectrum import spectrum


def drawn(confusion: np.ndarray, n_tasks: int = 3_000, seed: int = 0) -> mh.moments.Diagnosis:
    return mh.moments.diagnose(mh.simulate(n_tasks, confusion=confusion, density=0.6, seed=seed).log)


def specialists(n_workers: int, k: int) -> np.ndarray:
    """Worker m names class m modulo k for that class alone, and of the others says nearly anything."""
    out = np.full((n_workers, k, k), 0.2) + 0.6 * np.eye(k)
    for m in range(n_workers):
        own = m % k
        out[m, :, own] = 0.0
        out[m, own, own] = 1.0
    return out / out.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_good_workers_tell_all_classes_apart(k: int) -> None:
    found = drawn(mh.categorical.crowds.one_coin(12, k, accuracy=(0.6, 0.8), seed=k))
    assert found.rank == found.group_rank == k
    assert found.singular_values[-1] > found.noise
    assert found.methods["KOS"] == (True, "two classes" if k == 2 else "one class against the rest")


def test_spammers_tell_nothing_apart() -> None:
    habits = np.random.default_rng(0).dirichlet(np.ones(4), 12)[:, None, :].repeat(4, axis=1)
    found = drawn(habits)
    assert found.rank == 1
    assert not any(found.methods[name][0] for name in ("MultiSPA", "CoupledNMF", "CoupledCPD", "SpectralDS"))


def test_classes_that_nobody_tells_apart_are_missing_from_the_rank() -> None:
    confusion = mh.categorical.crowds.one_coin(12, 4, accuracy=0.8, seed=0)
    confusion[:, 2:, 2:] = confusion[:, 2:, 2:].mean(axis=(1, 2), keepdims=True)
    found = drawn(confusion)
    assert found.rank == 3
    assert "3 of 4 classes" in found.methods["CoupledNMF"][1]
    assert not found.methods["CoupledNMF"][0]


def test_specialists_are_seen() -> None:
    found = drawn(specialists(12, 3))
    assert found.specialists.all()
    assert found.methods["MultiSPA"] == (True, "pairs distinguish 3 of 3 classes; every class has a specialist")


def test_purity_is_that_of_the_crowd() -> None:
    """Without specialists MultiSPA itself would report some: purity must not come from its own fit."""
    confusion = mh.categorical.crowds.one_coin(12, 3, accuracy=(0.6, 0.8), seed=3)
    found = drawn(confusion, n_tasks=8_000)
    purest = (confusion / confusion.sum(axis=1, keepdims=True)).max(axis=(0, 2))
    np.testing.assert_allclose(found.purity, purest, atol=0.03)
    assert not found.methods["MultiSPA"][0]


def test_a_few_good_workers_are_not_heard_in_groups() -> None:
    k, rng = 6, np.random.default_rng(1)
    poor = rng.dirichlet(10 * rng.dirichlet(np.ones(k)), 40)[:, None, :].repeat(k, axis=1)
    found = drawn(np.concatenate([mh.categorical.crowds.one_coin(4, k, accuracy=0.9, seed=0), poor]), n_tasks=1_500)
    assert found.group_rank < found.rank == k
    assert found.methods["CoupledNMF"][0]
    assert not found.methods["SpectralDS"][0]


def test_many_thin_workers_are_heard_in_groups() -> None:
    confusion = mh.categorical.crowds.one_coin(300, 4, accuracy=(0.6, 0.8), seed=0)
    found = mh.moments.diagnose(mh.simulate(2_000, confusion=confusion, labels_per_task=4, seed=0).log)
    assert found.partners[1] > 20
    assert found.rank == found.group_rank == 4


def test_groups_of_workers_are_counted() -> None:
    tasks = [0, 0, 0, 1, 1, 2, 2, 3, 4]
    workers = [0, 1, 2, 0, 1, 3, 4, 3, 5]
    found = mh.moments.diagnose(
        mh.Annotations.from_arrays(tasks, workers, ["a", "b", "a", "b", "b", "a", "b", "a", "a"])
    )
    assert found.components == (3, 2, 1)
    assert (found.n_pairs, found.n_triples) == (4, 1)
    assert found.overlap == (1.0, 1.0, 2.0)
    assert found.partners[0] == 0
    assert "groups are solved one by one" in found.methods["CoupledNMF"][1]
    assert "6 workers in 3 groups that share tasks (3, 2, 1)" in str(found)
    apart = mh.moments.diagnose(mh.Annotations.from_arrays(range(7), range(7), ["a", "b"] * 3 + ["a"]))
    assert "7 workers in 7 groups that share tasks (1, 1, 1, 1, 1, …)" in str(apart)


def test_single_workers_are_not_groups_to_solve() -> None:
    votes = mh.Annotations.from_arrays([0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 3], ["a", "b", "a", "b", "b", "a"])
    found = mh.moments.diagnose(votes)
    assert found.components == (3, 1)
    assert "one by one" not in found.methods["CoupledNMF"][1]


def test_specialists_do_not_replace_classes_that_are_told_apart() -> None:
    votes = mh.simulate(3_000, confusion=specialists(12, 3), density=0.6, seed=0).log
    short = replace(mh.moments.diagnose(votes), rank=2)
    assert short.specialists.all()
    assert _applicable(short, votes, odd_cycle=True)["MultiSPA"] == (
        False,
        "pairs distinguish 2 of 3 classes; every class has a specialist",
    )


def test_rare_classes_have_a_purity_and_unused_ones_none() -> None:
    crowd = mh.simulate(600, 6, 3, prior=[0.9, 0.08, 0.02], labels_per_task=4, seed=1)
    tasks, workers, labels = crowd.log.codes()
    votes = mh.Annotations.from_arrays(tasks, workers, labels, classes=range(4))
    assert mh.moments.diagnose(votes).purity.shape == (3,)


def test_workers_who_share_nothing_determine_nothing() -> None:
    found = mh.moments.diagnose(mh.Annotations.from_arrays([0, 1, 2], [0, 1, 2], ["a", "b", "a"]))
    assert found.rank == found.group_rank == found.n_pairs == 0
    assert np.isfinite(found.purity).all()
    assert found.methods["MultiSPA"] == (False, "no two workers share enough tasks")
    assert not any(applies for name, (applies, _) in found.methods.items() if name != "KOS")


def test_one_class() -> None:
    found = mh.moments.diagnose(mh.Annotations.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], ["a"] * 4))
    assert found.n_classes == 1
    assert found.methods["KOS"] == (False, "one class only")
    assert found.rank <= 1


def test_the_answer_does_not_depend_on_names() -> None:
    votes = mh.simulate(800, 10, 3, labels_per_task=5, seed=2).log
    tasks, workers, labels = votes.codes()
    renamed = mh.Annotations.from_arrays(tasks, 100 - workers.astype(int), labels)
    one, other = mh.moments.diagnose(votes), mh.moments.diagnose(renamed)
    assert one.rank == other.rank
    np.testing.assert_allclose(one.purity, other.purity, atol=1e-6)


def test_spectrum_of_exact_tables() -> None:
    confusion = mh.categorical.crowds.one_coin(2, 3, accuracy=0.8, seed=0)
    table = np.einsum("k,kl,kj->lj", [0.5, 0.3, 0.2], *confusion)
    found = spectrum(1e6 * np.stack([table, table]))
    assert found.rank == 3
    flat = np.outer(table.sum(axis=1), table.sum(axis=0))
    found = spectrum(1e6 * np.stack([flat, flat]))
    assert found.rank == 1
    assert found.margin < 1


def test_spectrum_of_noise_alone() -> None:
    """A table drawn from independent labels shows its one sure direction, and hardly ever more."""
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(40):
        chances = np.outer(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))).ravel()
        ranks.append(spectrum(rng.multinomial([300] * 5, chances).reshape(5, 4, 4).astype(float)).rank)
    assert np.mean(np.array(ranks) > 1) <= 0.1
