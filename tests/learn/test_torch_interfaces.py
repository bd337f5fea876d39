"""Networks, datasets, loaders, optimisers and callbacks as people of torch have them."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import deferrals
import learners
import numpy as np
import pytest
import torch
from learners import backbone, crowd
from precision import TRAINED
from torch import nn

import manyhands as mh
from manyhands import defer, learn

LOG = crowd(n=96)


def probs(learner: Any, X: Any = None, votes: Any = None) -> np.ndarray:
    X = LOG.X if X is None else X
    return learner.fit(X, LOG.votes if votes is None else votes).predict_proba(X)


def ccem(network: nn.Module | None = None, **options: Any) -> learn.CCEM:
    return learn.CCEM(backbone() if network is None else network, **{"max_epochs": 2, "batch_size": 32} | options)


# ------------------------------------------------------------------------------------------ what networks return


class Returning(nn.Module):
    """The usual backbone, whose logits come in something."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.inner, self.make = backbone(), make

    def forward(self, x: torch.Tensor) -> Any:
        return self.make(self.inner(x))


@pytest.mark.parametrize(
    "make",
    [lambda z: {"logits": z, "loss": None}, lambda z: (z, 1), lambda z: [z], lambda z: SimpleNamespace(logits=z)],
    ids=["mapping", "tuple", "list", "object"],
)
def test_logits_may_come_in_something(make):
    network = Returning(make)
    assert (probs(ccem(network)) == probs(ccem(network.inner))).all()
    assert (probs(learn.MaxMIG(network, max_epochs=1)) == probs(learn.MaxMIG(network.inner, max_epochs=1))).all()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda z: {"scores": z}, "'scores'"),
        (lambda z: {}, "dict"),
        (lambda z: None, "NoneType"),
        (lambda z: (), "tuple"),
        (lambda z: ("a", z), "tuple"),
        (lambda z: SimpleNamespace(logits=None), "SimpleNamespace"),
    ],
)
def test_outputs_without_logits_are_named(make, told):
    with pytest.raises(TypeError, match=told):
        ccem(Returning(make)).fit(LOG.X, LOG.votes)
    team = deferrals.team(n=40)
    with pytest.raises(TypeError, match=told):
        defer.NaiveDeferral(Returning(make), nn.Linear(6, 4), max_epochs=1).fit(team.X, team.truth, team.votes)


# ------------------------------------------------------------------------------------------- inputs that are mappings


class Two(nn.Module):
    """Takes two arguments by name, one of which weighs the other."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 6)

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layer(values * mask)


def named(X: np.ndarray) -> dict[str, Any]:
    return {"values": torch.from_numpy(X), "mask": np.ones(X.shape, np.int64)}


class Items(torch.utils.data.Dataset):
    def __init__(self, X: Any) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X["values"])

    def __getitem__(self, i: int) -> Any:
        return {name: value[i] for name, value in self.X.items()}


def two_layers(first: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize("variant", learners.VARIANTS, ids=lambda variant: variant.name)
def test_every_learner_takes_mappings(variant, tmp_path):
    first = Two()
    expected = probs(
        variant.make(two_layers(first.layer), **{"max_epochs": 2, "batch_size": 32} | variant.options | one(variant))
    )
    X = named(LOG.X)
    learner = variant.make(two_layers(first), **{"max_epochs": 2, "batch_size": 32} | variant.options | one(variant))
    np.testing.assert_array_equal(probs(learner, X), expected)
    np.testing.assert_array_equal(learner.predict_proba(Items(X)), expected)
    learner.save(tmp_path / "a")
    again = mh.load(tmp_path / "a", backbone=two_layers(Two()))
    np.testing.assert_array_equal(again.predict_proba(X), expected)


def one(variant: learners.Variant) -> dict[str, Any]:
    """What two epochs, and inputs that cannot be mixed, ask for."""
    return {learn.WeightedDoctorNet: {"weight_epochs": 1}, learn.AnnotMix: {"alpha": 0.0}}.get(variant.make, {})


@pytest.mark.parametrize("variant", deferrals.VARIANTS, ids=lambda variant: variant.name)
def test_every_way_to_defer_takes_mappings(variant):
    team = deferrals.team(n=60)
    settings = {"max_epochs": 2, "batch_size": 32} | variant.options
    if variant.make is defer.ImputedDeferral:  # whose noise is for plain features
        settings |= {"weak": lambda x: x, "strong": lambda x: x}
    first = Two()
    expected = variant.make(two_layers(first.layer), **settings).fit(team.X, team.truth, team.votes)
    found = variant.make(two_layers(first), **settings).fit(Items(named(team.X)), team.truth, team.votes)
    if settings.get("method") != "mixmatch":  # which mixes features, where they can be
        np.testing.assert_array_equal(found.defer_proba(named(team.X)), expected.defer_proba(team.X))


def test_comparisons_of_items_that_are_mappings():
    scores = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    games = mh.simulate(scores[:, 0], [3.0, 2.0], 200, seed=1, kind="pairwise").log
    network = Two()
    settings = {"max_epochs": 2}
    top = nn.Linear(6, 1)
    plain = learn.CrowdReward(nn.Sequential(network.layer, top), **settings).fit(scores, games).predict(scores)
    X = named(scores)
    found = learn.CrowdReward(nn.Sequential(network, top), **settings).fit(X, games).predict(X)
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize(
    ("X", "told"),
    [
        ({}, "must have names"),
        ({1: LOG.X}, "must have names"),
        ({"values": LOG.X, "mask": LOG.X[:5]}, "96,.*5"),
        ({"values": np.full((96, 6), np.nan)}, r"X\['values'\].*NaN.*row 0"),
        ({"values": LOG.X, "other": LOG.X}, "'other'"),
        ({"values": LOG.X}, "1.*'mask'"),
        (Items({"values": ["a"] * 96}), "'values'"),
        (Items({"values": [np.zeros(1 + i % 2) for i in range(96)]}), "collate_fn"),
    ],
)
def test_mappings_that_will_not_do(X, told):
    with pytest.raises((TypeError, ValueError), match=told):
        ccem(Two()).fit(X, LOG.votes)


# ------------------------------------------------------------------------------------------------------- loaders


class Noisy(torch.utils.data.Dataset):
    """Features with noise from three sources, in items of different lengths."""

    def __len__(self) -> int:
        return len(LOG.X)

    def __getitem__(self, i: int) -> Any:
        import random

        noise = torch.randn(()) + random.random() + np.random.random()  # noqa: NPY002
        return {"x": torch.from_numpy(LOG.X[i][: 5 + i % 2]) + noise, "id": str(i)}


def padded(items: list[Any]) -> dict[str, torch.Tensor]:
    return {"input": torch.stack([nn.functional.pad(item["x"], (0, 6 - len(item["x"]))) for item in items])}


# What torch says on a machine with one core.
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
def test_a_loader_collates_and_is_reproducible_on_any_number_of_processes():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = backbone()

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return self.inner(input)

    loaders = [
        {"collate_fn": padded},
        {"collate_fn": padded, "num_workers": 2, "pin_memory": True},
        {"collate_fn": padded, "num_workers": 1, "persistent_workers": True},
    ]
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    found = [probs(ccem(Named(), loader=loader, validation=0.2), Noisy()) for loader in loaders]
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    other = probs(ccem(Named(), loader=loaders[0], validation=0.2, seed=1), Noisy())
    assert (other != found[0]).any()


def test_a_loader_of_arrays_changes_nothing():
    for X in (LOG.X, torch.from_numpy(LOG.X)):
        assert (probs(ccem(loader={"num_workers": 0}), X) == probs(ccem())).all()


@pytest.mark.parametrize(
    ("loader", "error", "told"),
    [
        (3, TypeError, "loader"),
        ({"batch_size": 3}, ValueError, "batch_size"),
        ({"shuffle": True}, ValueError, "not free"),
        ({"workers": 3}, TypeError, "DataLoader"),
        ({"num_workers": -1}, ValueError, "DataLoader"),
        ({"collate_fn": padded}, TypeError, "items"),
    ],
)
def test_loaders_that_will_not_do(loader, error, told):
    with pytest.raises(error, match=told):
        ccem(loader=loader).fit(LOG.X, LOG.votes)


# ---------------------------------------------------------------------------------------------------- optimisers


def test_an_optimiser_of_ones_own_is_the_built_in_one_if_it_is_the_same():
    own = ccem(optimizer=lambda groups: torch.optim.Adam(groups))
    # Its own steps are taken by one kernel for all parameters, and rounded in another order.
    np.testing.assert_allclose(probs(own), probs(ccem()), atol=TRAINED)


def test_several_optimisers_and_rates_of_groups(tmp_path):
    seen = []

    def make(groups):
        seen.append([group["name"] for group in groups])
        networks, workers = groups
        return [torch.optim.SGD([networks], lr=0.1), torch.optim.RMSprop([dict(workers, lr=0.0)])]

    options = {"optimizer": make, "schedule": "cosine", "max_epochs": 3}
    learner = ccem(**options).fit(LOG.X, LOG.votes)
    assert seen == [["networks", "workers"]]
    np.testing.assert_allclose(learner.history_["lr"], [1e-3, 7.5e-4, 2.5e-4])
    # Workers at the rate zero stay as they were at the start, softplus(6I − 5).
    off = np.log1p(np.exp(-5)) / (np.log1p(np.exp(1)) + 2 * np.log1p(np.exp(-5)))
    np.testing.assert_allclose(learner.confusion_[:, 0, 1], off, rtol=1e-5)
    path = tmp_path / "run.pt"
    ccem(**options, checkpoint=path, callbacks=[lambda _, record: record["epoch"] == 0]).fit(LOG.X, LOG.votes)
    resumed = ccem(**options, checkpoint=path).fit(LOG.X, LOG.votes, resume=True)
    assert (resumed.predict_proba(LOG.X) == learner.predict_proba(LOG.X)).all()


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda groups: None, TypeError, "optimizer"),
        (lambda groups: [torch.optim.SGD(groups), 1], TypeError, "returned 1"),
        (lambda groups: torch.optim.SGD(groups[:1]), ValueError, "1 parameter"),
        (lambda groups: [torch.optim.SGD(groups), torch.optim.SGD(groups[:1])], ValueError, "optimizers"),
        (lambda groups: torch.optim.LBFGS([p for g in groups for p in g["params"]]), ValueError, "LBFGS"),
        (
            lambda groups: torch.optim.SGD([*groups, {"params": [nn.Parameter(torch.zeros(1))]}]),
            ValueError,
            "learner",
        ),
    ],
)
def test_optimisers_that_will_not_do(make, error, told):
    with pytest.raises(error, match=told):
        ccem(optimizer=make).fit(LOG.X, LOG.votes)


def test_frozen_layers_stay_as_they_are_and_need_no_optimiser():
    network = backbone()
    network[0].requires_grad_(False)

    def make(groups):
        return torch.optim.SGD([dict(g, params=[p for p in g["params"] if p.requires_grad]) for g in groups], lr=0.1)

    learner = ccem(network, optimizer=make).fit(LOG.X, LOG.votes)
    assert torch.equal(learner.network_[0].weight, network[0].weight)
    assert not torch.equal(learner.network_[3].weight, network[3].weight)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_accumulated_batches_are_one_large_batch(clip):
    """Of a loss that is a mean over samples; 96 samples are 3 batches of 32, and 12 of 8."""
    network = nn.Linear(6, 3)
    options = {"max_epochs": 3, "clip": clip, "optimizer": "sgd", "lr": 0.1}
    large = probs(learn.SoftTarget(network, batch_size=32, **options))
    small = probs(learn.SoftTarget(network, batch_size=8, accumulate=4, **options))
    np.testing.assert_allclose(small, large, atol=TRAINED)
    # Five of eight and the rest: the last step has fewer.
    uneven = probs(learn.SoftTarget(network, batch_size=8, accumulate=5, **options))
    wide = probs(learn.SoftTarget(network, batch_size=40, **options))
    np.testing.assert_allclose(uneven, wide, atol=TRAINED)


def test_sparse_gradients_accumulate(monkeypatch):
    monkeypatch.setattr("manyhands._train.large_tables._LAZY_FROM", 1)
    log = crowd(n=64, n_workers=4, per_task=4)
    options = {"max_epochs": 2, "reduction": "sample"}
    large = ccem(nn.Linear(6, 3), batch_size=32, **options).fit(log.X, log.votes)
    small = ccem(nn.Linear(6, 3), batch_size=8, accumulate=4, **options)
    small.set_params(backbone=large.backbone).fit(log.X, log.votes)
    assert small._crowd.table.sparse
    np.testing.assert_allclose(small.confusion_, large.confusion_, atol=TRAINED)


# ------------------------------------------------------------------------------------------------------- compiling


def test_compiled_networks_learn_the_same(tmp_path):
    """Without a compiler of C: what is tested is what is done with the networks, not what it makes of them."""
    options = {"max_epochs": 2, "batch_size": 48}
    expected = learn.MaxMIG(backbone(), **options).fit(LOG.X, LOG.votes).predict_proba(LOG.X)
    eager = {"backend": "eager"}
    learner = learn.MaxMIG(backbone(), compile=eager, **options).fit(LOG.X, LOG.votes)
    np.testing.assert_allclose(learner.predict_proba(LOG.X), expected, atol=TRAINED)
    given = torch.compile(backbone(), **eager)
    found = learn.MaxMIG(given, **options).fit(LOG.X, LOG.votes)
    np.testing.assert_allclose(found.predict_proba(LOG.X), expected, atol=TRAINED)
    found.save(tmp_path / "a")
    for network in (backbone(), given):
        again = mh.load(tmp_path / "a", backbone=network)
        np.testing.assert_array_equal(again.predict_proba(LOG.X), found.predict_proba(LOG.X))
    again = pickle.loads(pickle.dumps(learner.network_))
    assert again.state_dict().keys() == learner.network_.state_dict().keys()
    with pytest.raises(TypeError, match="compile"):
        ccem(compile="yes").fit(LOG.X, LOG.votes)


def test_the_compiler_of_torch():
    """What ``compile=True`` is by default, where there is a compiler of C."""
    from torch._inductor import cpp_builder

    try:
        cpp_builder.get_cpp_compiler()
    except Exception as error:  # whatever torch makes of a machine without
        pytest.skip(f"no compiler for torch.compile here: {error}")
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    expected = probs(ccem(network, max_epochs=1, batch_size=48))
    np.testing.assert_allclose(probs(ccem(network, max_epochs=1, batch_size=48, compile=True)), expected, atol=TRAINED)


# ------------------------------------------------------------------------------------------------------- callbacks


class Noting(learn.Callback):
    def __init__(self, end: str | None = None) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.end = end

    def note(self, moment: str, known: dict[str, Any]) -> bool:
        self.seen.append((moment, dict(known)))
        return moment == self.end

    def on_fit_start(self, learner, known):
        return self.note("fit_start", known)

    def on_epoch_start(self, learner, known):
        return self.note("epoch_start", known)

    def on_batch_end(self, learner, known):
        return self.note("batch_end", known)

    def on_epoch_end(self, learner, known):
        return self.note("epoch_end", known)

    def on_fit_end(self, learner, known):
        return self.note("fit_end", known)


def test_callbacks_are_told_of_every_moment_in_order():
    noting = Noting()
    learner = ccem(batch_size=40, validation=0.25, callbacks=[noting]).fit(LOG.X, LOG.votes)
    epoch = ["epoch_start", "batch_end", "batch_end", "epoch_end"]
    assert [moment for moment, _ in noting.seen] == ["fit_start", *epoch, *epoch, "fit_end"]
    told = [known for _, known in noting.seen]
    assert told[0] == {"epoch": 0, "n_epochs": 2, "n_samples": 72, "n_held_out": 24}
    assert told[1] == {"epoch": 0, "lr": 1e-3}
    assert [(known["batch"], known["n_samples"]) for known in told[2:4]] == [(0, 40), (1, 32)]
    mean = sum(known["loss"] * known["n_samples"] for known in told[2:4]) / 72
    assert told[4]["loss"] == pytest.approx(mean)
    assert told[4]["score"] == learner.history_["score"][0]
    assert told[-1] == {"n_epochs": 2, "ended": "max_epochs"}


@pytest.mark.parametrize(("end", "epochs"), [("batch_end", 1), ("epoch_end", 1), ("fit_end", 2)])
def test_a_callback_ends_the_training(end, epochs):
    noting = Noting(end)
    learner = ccem(batch_size=40, callbacks=[noting]).fit(LOG.X, LOG.votes)
    assert len(learner.history_["loss"]) == epochs
    ended = "max_epochs" if end == "fit_end" else "callback"
    assert noting.seen[-1] == ("fit_end", {"n_epochs": epochs, "ended": ended})
    assert sum(moment == "batch_end" for moment, _ in noting.seen) == (1 if end == "batch_end" else 3 * epochs)


def test_a_training_that_ends_before_it_began_is_none():
    with pytest.raises(mh.errors.NotFittedError):
        ccem(callbacks=[Noting("fit_start")]).fit(LOG.X, LOG.votes).predict(LOG.X)


def test_patience_is_told_of():
    noting = Noting()
    ccem(max_epochs=60, lr=0.3, validation=0.3, patience=1, callbacks=[noting]).fit(LOG.X, LOG.votes)
    assert noting.seen[-1][1]["ended"] == "patience"


def test_ctrl_c_in_a_batch_is_told_of_and_resumed_from(tmp_path):
    class Interrupts(Noting):
        def on_batch_end(self, learner, known):
            if known["epoch"] == 2 and known["batch"] == 1:
                raise KeyboardInterrupt

    whole = ccem(max_epochs=4, schedule="cosine").fit(LOG.X, LOG.votes)
    noting, path = Interrupts(), tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        ccem(max_epochs=4, schedule="cosine", checkpoint=path, callbacks=[noting]).fit(LOG.X, LOG.votes)
    assert noting.seen[-1] == ("fit_end", {"n_epochs": 2, "ended": "KeyboardInterrupt"})
    again = Noting()
    resumed = ccem(max_epochs=4, schedule="cosine", checkpoint=path, callbacks=[again])
    resumed.fit(LOG.X, LOG.votes, resume=True)
    assert again.seen[0][1]["epoch"] == 2
    assert (resumed.predict_proba(LOG.X) == whole.predict_proba(LOG.X)).all()


def test_an_epoch_that_was_cut_short_is_gone_through_again(tmp_path):
    class Cuts(Noting):
        def on_batch_end(self, learner, known):
            return known["epoch"] == 1

    path = tmp_path / "run.pt"
    whole = probs(ccem(max_epochs=3))
    cut = ccem(max_epochs=3, checkpoint=path, callbacks=[Cuts()]).fit(LOG.X, LOG.votes)
    assert len(cut.history_["loss"]) == 2
    assert (ccem(max_epochs=3, checkpoint=path).fit(LOG.X, LOG.votes, resume=True).predict_proba(LOG.X) == whole).all()


@pytest.mark.parametrize(
    ("callbacks", "told"),
    [
        (print, "must be a list"),
        ([3], "3 is neither"),
        ([SimpleNamespace(on_epoch_ends=print)], "'on_epoch_ends'"),
    ],
)
def test_callbacks_that_would_never_be_called(callbacks, told):
    with pytest.raises((TypeError, ValueError), match=told):
        ccem(callbacks=callbacks).fit(LOG.X, LOG.votes)


def test_a_bit_that_makes_a_folder_of_weights_is_damage(tmp_path):
    """Torch would load empty memory in their place, and no check sum is wrong."""
    import zipfile

    path = tmp_path / "a.pt"
    ccem().fit(LOG.X, LOG.votes).save(path)
    whole = bytearray(path.read_bytes())
    name = next(each.filename for each in zipfile.ZipFile(path).infolist() if "/data/" in each.filename)
    entry = whole.rindex(b"PK\x01\x02", 0, whole.rindex(name.encode()))
    whole[entry + 38] ^= 0x10
    path.write_bytes(whole)
    with pytest.raises(mh.errors.FileFormatError, match="damaged"):
        mh.load(path)
