"""MixtureReward: reward models for latent groups with different preferences."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number, plural
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.learn.losses import noisy_preference
from manyhands.learn.pairs import CrowdReward, PairData

__all__ = ["MixtureReward"]

#: Batch size of the E-step.
_AT_ONCE = 1024


class MixtureReward(CrowdReward):
    r"""Reward models of latent groups, from comparisons: each worker or context belongs to an unknown group.

    Use it if users disagree systematically. The network returns one reward per group and item.

    Parameters
    ----------
    backbone : nn.Module
        Any ``nn.Module`` that returns one number per group for each item.
    components : int, default 2
        Number of groups.
    by : {"worker", "context"}, default "worker"
        Whether workers or contexts of comparisons belong to groups.
    shrink : float, default 1.0
        Prior precision of the log-odds of each worker's reliability around the average.
    **training
        See :class:`~manyhands.learn.Training`; `reduction` and `start_from` are ignored.

    Notes
    -----
    Time per epoch O(comparisons · groups) in addition to four runs of the backbone per comparison; memory one number
    per member and group.

    A member of group g prefers the left item with probability :math:`\omega_m\sigma(r_l^g - r_r^g) + (1 -
    \omega_m)\sigma(r_r^g - r_l^g)`. Workers may be careless but not contrary (:math:`\omega_m > ½`): opposite
    preferences form another group. Trained by EM: before each epoch, group probabilities of members are updated, with
    group sizes as prior (pseudo-count of one); then the network is trained. Initial groups are random: compare
    ``log_likelihood_`` over several values of `seed`. The order of groups is arbitrary. Members with few comparisons
    keep uncertain group probabilities, see ``groups_``.

    References
    ----------
    X. Chen et al., "Pairwise ranking aggregation in a crowdsourced setting", WSDM 2013. S. Chakraborty et al.,
    "MaxMin-RLHF: alignment with diverse human preferences", ICML 2024.

    Examples
    --------
    >>> import numpy as np, torch, manyhands as mh
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> simulations = [mh.simulate(X[:, g], [4.0] * 4, 400, seed=g, kind="pairwise") for g in (0, 1)]
    >>> crowds = [simulation.log.to_frame().to_pydict() for simulation in simulations]
    >>> log = {name: crowds[0][name] + crowds[1][name] for name in ("left", "right", "winner")}
    >>> log["worker"] = crowds[0]["worker"] + [worker + 4 for worker in crowds[1]["worker"]]
    >>> model = mh.learn.MixtureReward(torch.nn.Linear(2, 2), max_epochs=20, lr=0.1).fit(X, log)
    >>> model.groups_.argmax(axis=1).tolist() in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)
    True
    """

    _saved_state: ClassVar[dict[str, bool]] = CrowdReward._saved_state | {
        "_members": True,
        "_final_log_likelihood": False,
        "_member_names": False,
    }

    def __init__(
        self,
        backbone: nn.Module,
        *,
        components: int = 2,
        by: Literal["worker", "context"] = "worker",
        shrink: float = 1.0,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(backbone, shrink=shrink, **training)
        self.components = components
        self.by = by

    def _check(self) -> None:
        super()._check()
        check_number("components", self.components, least=1, whole=True)
        check_choice("by", self.by, ("worker", "context"))

    # -------------------------------------------------------------------------------------------- training

    def _adopt(self, data: CrowdData) -> None:
        super()._adopt(data)
        if isinstance(data, PairData):
            if self.by == "worker":
                codes, names = data.votes.codes()[1], data.votes._workers
            elif data.contexts is None or data.context_names is None:
                raise ValueError(
                    'by="context" needs comparisons with contexts; pass the column as context= when reading them'
                )
            else:
                codes, names = data.contexts, data.context_names
            self._member_names: list[Any] = names.values.tolist()
            self._member_of = torch.from_numpy(np.asarray(codes).astype(np.int64))

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if hasattr(self, "_member_of"):
            self._member_of = self._member_of.to(self._on)
            dirichlet = torch.distributions.Dirichlet(torch.ones(self.components))
            self._members = dirichlet.sample((len(self._member_names),)).to(self._on)
        return super()._make_parts(data)

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch:
            self._members = self._e_step(data)[0]

    @torch.no_grad()
    def _e_step(self, data: CrowdData) -> tuple[Tensor, float]:
        """Return group probabilities of members, (n_members, groups), and the log-likelihood of the comparisons."""
        self._parts_or_fail().eval()
        log_likelihoods = torch.zeros(len(self._member_names), self.components, dtype=torch.float64, device=self._on)
        for batch in data.batches(data.samples, _AT_ONCE, self._on):
            batch_log_likelihoods = self._of_groups(batch, self._forward(batch.x)) * batch.weight[:, None]
            log_likelihoods.index_add_(0, self._member(batch), batch_log_likelihoods.double())
        joint = log_likelihoods + self._log_mixing().double()
        total = torch.logsumexp(joint, dim=1, keepdim=True)
        return (joint - total).exp().float(), float(total.sum())

    def _log_mixing(self) -> Tensor:
        """Log group shares, (groups,), with a pseudo-count of one."""
        sizes = self._members.sum(dim=0) + 1
        return (sizes / sizes.sum()).log()

    def _member(self, batch: Batch) -> Tensor:
        """Member (worker or context) of each comparison of a batch."""
        return self._member_of[batch.tasks[batch.sample]]

    def _rewards(self, outputs: Tensor) -> Tensor:
        if outputs.shape[2] != self.components:
            raise ValueError(
                f"the backbone must return {plural(self.components, 'number')} per item (one reward per group), not "
                f"{outputs.shape[2]}"
            )
        return outputs

    def _of_groups(self, batch: Batch, output: Tensor) -> Tensor:
        """Log-probability of each comparison in each group, (n, groups)."""
        toward = (2.0 * batch.label - 1.0)[:, None]
        margins = (output[:, 0] - output[:, 1])[batch.sample] * toward
        flip = 0.5 * torch.sigmoid(-self._logits(batch.worker))
        return -noisy_preference(margins, flip.expand_as(margins))

    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        """Expected log-likelihood over the groups of the member, which EM maximizes."""
        return (self._members[self._member(batch)] * self._of_groups(batch, output)).sum(dim=1)

    def _judged(self, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor]:
        log_group_probabilities = self._members[self._member(batch)].clamp_min(torch.finfo(torch.float32).tiny).log()
        log_predictive = torch.logsumexp(log_group_probabilities + self._of_groups(batch, output), dim=1)
        return (log_predictive * batch.weight).sum(), batch.weight.sum()

    def _after_training(self, data: CrowdData) -> None:
        self._members, self._final_log_likelihood = self._e_step(self._to_learn_from(data))
        super()._after_training(data)

    def _state(self) -> dict[str, Tensor]:
        return {"members": self._members}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._members = state["members"].to(self._on)

    # ---------------------------------------------------------------------------------------------- results

    def predict(self, X: Any) -> Array:
        """Return the reward of each row in each group, shape (n, groups)."""
        return self._of_network(X).reshape(-1, self.components)

    def predict_proba(self, left: Any, right: Any) -> Array:
        """Return the probability that a random member prefers the left item of each pair, shape (n,)."""
        reward_differences = self.predict(left) - self.predict(right)
        probabilities: Array = (1 / (1 + np.exp(-np.clip(reward_differences, -700, 700)))) @ self.mixing_
        return probabilities

    @property
    def groups_(self) -> Array:
        """Group probabilities of each member (workers, or contexts in ``members_``), shape (n_members, groups)."""
        self._fitted()
        return self._members.double().cpu().numpy()

    @property
    def members_(self) -> list[Any]:
        """Names of the members, in the order of ``groups_``."""
        self._fitted()
        return self._member_names

    @property
    def mixing_(self) -> Array:
        """Share of each group, shape (groups,)."""
        self._fitted()
        return self._log_mixing().exp().double().cpu().numpy()

    @property
    def log_likelihood_(self) -> float:
        """Log-likelihood of the training comparisons, to compare seeds and numbers of groups."""
        self._fitted()
        return self._final_log_likelihood

    @property
    def reliability_(self) -> Array:
        """Probability ω of each worker to report the preference of their group, at least one half, (n_workers,)."""
        return 0.5 + 0.5 * super().reliability_
