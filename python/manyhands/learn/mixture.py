"""Rewards of groups that want different things, learnt from comparisons that do not say whose they are."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from manyhands._base.checks import check_choice, check_number, counted
from manyhands._base.estimator import Array
from manyhands._train.batch import Batch, CrowdData
from manyhands._train.settings import TrainingOptions
from manyhands.learn.losses import noisy_preference
from manyhands.learn.pairs import CrowdReward, PairData

__all__ = ["MixtureReward"]

#: Samples seen at a time in the E-step.
_AT_ONCE = 1024


class MixtureReward(CrowdReward):
    r"""Rewards of several groups from comparisons: each worker, or each context, belongs to a group nobody names.

    The network gives every item a reward in each group. What a member of group g says follows
    :math:`\omega_m\sigma(r_l^g - r_r^g) + (1 - \omega_m)\sigma(r_r^g - r_l^g)`, where a worker may be careless but not
    contrary, :math:`\omega_m > ½`: who wants the opposite is of another group.

    Parameters
    ----------
    backbone
        Any ``nn.Module`` that returns a number for each group, of each item.
    components
        How many groups there are.
    by
        Whether workers (``"worker"``) or the contexts of comparisons (``"context"``) have a group.
    shrink
        How strongly the log-odds of each worker's care are drawn to those of the crowd: their precision beforehand.
    **training
        See :class:`~manyhands.learn.Training`; `reduction` and `start_from` mean nothing here.

    Notes
    -----
    Expectation–maximisation: before each epoch, members are given to groups by what they said (and by how large the
    groups are, each with a pseudo-count of one); in it, the network learns each group's rewards from its members. The
    first groups are drawn at random, so that another `seed` may find others: compare ``log_likelihood_``, and take the
    greatest. Which group is which is arbitrary. A member with few comparisons stays in doubt: ``groups_`` says how far.
    Time per epoch O(comparisons · groups) beside four runs of the backbone for each, two in either step;
    memory a number for each member and group.

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
    >>> model = mh.learn.MixtureReward(torch.nn.Linear(2, 2), max_epochs=20, lr=0.05).fit(X, log)
    >>> model.groups_.argmax(axis=1).tolist() in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)
    True
    """

    _kept: ClassVar[dict[str, bool]] = CrowdReward._kept | {
        "_members": True,
        "_log_likelihood_found": False,
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
                    'by="context" needs comparisons with contexts; name their column with context= when read'
                )
            else:
                codes, names = data.contexts, data.context_names
            self._member_names: list[Any] = names.values.tolist()
            self._member_of = torch.from_numpy(np.asarray(codes).astype(np.int64))

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        if hasattr(self, "_member_of"):
            self._member_of = self._member_of.to(self._on)
            drawn = torch.distributions.Dirichlet(torch.ones(self.components))
            self._members = drawn.sample((len(self._member_names),)).to(self._on)
        return super()._make_parts(data)

    def _start_epoch(self, epoch: int, data: CrowdData) -> None:
        if epoch:
            self._members = self._e_step(data)[0]

    @torch.no_grad()
    def _e_step(self, data: CrowdData) -> tuple[Tensor, float]:
        """Probability of each group for each member, (n_members, groups), and the log-likelihood of what was said."""
        self._parts_or_fail().eval()
        said = torch.zeros(len(self._member_names), self.components, dtype=torch.float64, device=self._on)
        for batch in data.batches(data.samples, _AT_ONCE, self._on):
            told = self._of_groups(batch, self._forward(batch.x)) * batch.weight[:, None]
            said.index_add_(0, self._member(batch), told.double())
        joint = said + self._log_mixing().double()
        total = torch.logsumexp(joint, dim=1, keepdim=True)
        return (joint - total).exp().float(), float(total.sum())

    def _log_mixing(self) -> Tensor:
        """Logarithms of the groups' sizes, (groups,), each with a pseudo-count of one."""
        sizes = self._members.sum(dim=0) + 1
        return (sizes / sizes.sum()).log()

    def _member(self, batch: Batch) -> Tensor:
        """Who, or what, each comparison of a batch is of."""
        return self._member_of[batch.tasks[batch.sample]]

    def _rewards(self, made: Tensor) -> Tensor:
        if made.shape[2] != self.components:
            raise ValueError(
                f"the backbone must return {counted(self.components, 'number')} an item, a reward in each group, not "
                f"{made.shape[2]}"
            )
        return made

    def _of_groups(self, batch: Batch, output: Tensor) -> Tensor:
        """Log-probability of each comparison in each group, (n, groups)."""
        toward = (2.0 * batch.label - 1.0)[:, None]
        ahead = (output[:, 0] - output[:, 1])[batch.sample] * toward
        flip = 0.5 * torch.sigmoid(-self._logits(batch.worker))
        return -noisy_preference(ahead, flip.expand_as(ahead))

    def _log_likelihood(self, batch: Batch, output: Tensor) -> Tensor:
        """What a comparison says on average over the groups that its member may be of: what EM makes greater."""
        return (self._members[self._member(batch)] * self._of_groups(batch, output)).sum(dim=1)

    def _judged(self, batch: Batch, output: Tensor) -> tuple[Tensor, Tensor]:
        among = self._members[self._member(batch)].clamp_min(torch.finfo(torch.float32).tiny).log()
        foretold = torch.logsumexp(among + self._of_groups(batch, output), dim=1)
        return (foretold * batch.weight).sum(), batch.weight.sum()

    def _after_training(self, data: CrowdData) -> None:
        self._members, self._log_likelihood_found = self._e_step(self._to_learn_from(data))
        super()._after_training(data)

    def _state(self) -> dict[str, Tensor]:
        return {"members": self._members}

    def _set_state(self, state: dict[str, Tensor]) -> None:
        self._members = state["members"].to(self._on)

    # ---------------------------------------------------------------------------------------------- results

    def predict(self, X: Any) -> Array:
        """The reward of each row in each group, (n, groups)."""
        return self._of_network(X).reshape(-1, self.components)

    def predict_proba(self, left: Any, right: Any) -> Array:
        """Probability that somebody of the crowd prefers the left item of each pair, (n,), from features of both."""
        apart = self.predict(left) - self.predict(right)
        among: Array = (1 / (1 + np.exp(-np.clip(apart, -700, 700)))) @ self.mixing_
        return among

    @property
    def groups_(self) -> Array:
        """Probability of each group for each member, (n_members, groups): workers, or contexts as in ``members_``."""
        self._fitted()
        return self._members.double().cpu().numpy()

    @property
    def members_(self) -> list[Any]:
        """Names of those that have a group, in the order of ``groups_``."""
        self._fitted()
        return self._member_names

    @property
    def mixing_(self) -> Array:
        """Share of each group, (groups,)."""
        self._fitted()
        return self._log_mixing().exp().double().cpu().numpy()

    @property
    def log_likelihood_(self) -> float:
        """Of all comparisons learnt from, to compare trainings with other seeds or numbers of groups."""
        self._fitted()
        return self._log_likelihood_found

    @property
    def reliability_(self) -> Array:
        """Probability of each worker to report what their group prefers, ω, at least one half, (n_workers,)."""
        return 0.5 + 0.5 * super().reliability_
