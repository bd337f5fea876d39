"""What all ways to defer share: the classifier, the router, who decides what, and the accuracy of the whole."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands import _core
from manyhands._base.checks import check_choice, preview
from manyhands._base.estimator import Array, Progress
from manyhands._train.batch import Batch, CrowdData, Features, as_features
from manyhands._train.estimator import CrowdNetworkEstimator, checked_logits
from manyhands._train.module_calls import run
from manyhands._train.probabilities import estimated_confusion, softmax_rows
from manyhands._train.settings import CROWD_ONLY, TRAINING, explain_errors, setting
from manyhands._train.trunk import split
from manyhands.defer import Decision, Thresholds, assign, capacities, ranked
from manyhands.defer.data import CaseData, align, answers_of, true_classes, truth_of
from manyhands.defer.gate import Gate, StackedGate, check_networks, expected_right, make_gate
from manyhands.defer.shares import Coverage, Workload, bounds

How = Literal["auto", "capacity", "threshold", "ranked", "argmax"]
By = Literal["gate", "accuracy"]

#: Cases whose scores are kept to calibrate thresholds with.
_CALIBRATION = 20_000


class Views(NamedTuple):
    """What the networks make of some cases."""

    #: Logits of the classes, (n, n_classes).
    classes: Tensor
    #: Logits of the router: of the options, or of the experts alone.
    gate: Tensor
    #: Log-probabilities of experts' answers, (n, n_experts, n_classes), where a method has models of experts.
    experts: Tensor | None = None


class _Assessment(NamedTuple):
    """What is thought of some cases."""

    #: What makes each option good, (n, n_experts + 1), by what decisions are made by.
    options: dict[str, Array]
    #: Probability that each option is right, (n, n_experts + 1).
    right: Array
    #: Class probabilities by the classifier, (n, n_classes).
    probs: Array


class Deferral(CrowdNetworkEstimator):
    """Base of all ways to defer: a subclass builds what it needs and gives the loss of a batch.

    A classifier and experts share the cases. Options are the experts, in the order of ``experts_``, and then the
    classifier. Networks are copied at the start of ``fit``, so those given stay as they are.

    Parameters
    ----------
    classifier : nn.Module
        Any ``nn.Module`` that returns one logit per class.
    gate
        One that returns a logit for each option. None for one like the classifier with a last layer of its own;
        ``"stacked"`` for a small network on the classifier's features and class probabilities, which learns from fewer
        cases; ``"anchored"`` for one that adds to expected accuracies. These need a classifier that is an
        ``nn.Sequential`` or has parts named ``trunk`` and ``head``.
    coverage
        Share of the cases that the classifier takes, or the least and greatest; None for any.
    workload
        ``"free"``; ``"balanced"``, even shares of what the classifier leaves (without a coverage, of all: the
        classifier is one of those who share); or a mapping from expert to a share, or to the least and greatest.
    **settings
        These two, and what :class:`~manyhands.learn.Training` lists but for `worker_lr`, `reduction` and `start_from`.
        Cases held out (`validation`) choose the best epoch and calibrate thresholds; all else follows from the rest,
        ``confusion_`` and ``prior_`` too.
    """

    _defaults: ClassVar[dict[str, Any]] = {
        "max_epochs": 300,
        "batch_size": 100,
        "lr": 1e-2,
        "optimizer": "sgd",
        "schedule": "cosine",
        "clip": 10.0,
    }
    _settings: ClassVar[Sequence[inspect.Parameter]] = [
        setting("coverage", None, "Coverage"),
        setting("workload", "free", "Workload"),
        *(item for item in TRAINING if item.name not in CROWD_ONLY),
    ]
    _networks: ClassVar[tuple[str, ...]] = ("network", "gate", "experts")
    _call: ClassVar[str] = "fit(X, y, votes)"

    _saved_state: ClassVar[dict[str, bool]] = CrowdNetworkEstimator._saved_state | {
        "_expert_accuracy": True,
        "_calibration": False,
    }

    worker_lr = None
    coverage: Coverage
    workload: Workload

    def __init__(self, classifier: nn.Module, gate: Gate = None, **settings: Any) -> None:
        self.classifier = classifier
        self.gate = gate
        self._take_settings(settings)

    # ---------------------------------------------------------------------------- what a subclass is made of

    def _check(self) -> None:
        check_networks(self.classifier, self.gate)
        super()._check()

    def _adopt(self, data: CrowdData) -> None:
        self._bounds = bounds(data.votes._workers, self.coverage, self.workload)
        super()._adopt(data)

    def _make_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        self._judge_experts(data)
        return self._blank_parts(data)

    def _blank_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        return {"network": copy.deepcopy(self.classifier), **self._gate_parts(data), **self._extra_parts(data)}

    def _judge_experts(self, data: CrowdData) -> None:
        """See from the truth of the cases to learn from how experts err, and how frequent the classes are."""
        assert data.truth is not None
        truth = np.eye(len(self._classes))[data.truth.numpy()]
        self._prior = truth[data.samples.numpy()].mean(axis=0)
        self._take_confusion(estimated_confusion(data.votes, truth))

    def _take_confusion(self, confusion: Array) -> None:
        self._confusion = confusion
        diagonals = np.diagonal(confusion, axis1=1, axis2=2)
        #: Of each expert in each class, (n_experts, n_classes).
        self._expert_accuracy = torch.from_numpy(diagonals.copy()).float().to(self._on)

    def _gate_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        """The router, which has a logit for each option."""
        return {"gate": make_gate(self.gate, self.classifier, data, self._expert_accuracy, self._n_gate)}

    @property
    def _n_gate(self) -> int:
        """How many logits the router has."""
        return len(self._workers) + 1

    def _extra_parts(self, data: CrowdData) -> dict[str, nn.Module]:
        """What is trained in addition to classifier and router, by name."""
        return {}

    def _forward(self, x: Any) -> Views:
        """What training needs to know of some cases."""
        return self._views(x)

    def _views(self, x: Any) -> Views:
        """What decisions need to know of some cases."""
        gate = self._parts_or_fail()["gate"]
        if not isinstance(gate, StackedGate):
            classes = self._class_logits(x)
            with explain_errors(gate, x):
                logits = run(gate, x)
            return Views(classes, self._checked_gate(logits))
        trunk, head = split(self._network)
        features = run(trunk, x)
        classes = self._checked_classes(head(features))
        return Views(classes, gate(features, classes))

    def _class_logits(self, x: Any) -> Tensor:
        return self._checked_classes(run(self._network, x))

    def _checked_classes(self, logits: Tensor) -> Tensor:
        return checked_logits(logits, len(self._classes), "the classifier must return one logit per class")

    def _checked_gate(self, logits: Tensor) -> Tensor:
        what = f"the router must return a logit for each of {len(self._workers)} experts"
        if self._n_gate > len(self._workers):
            what += " and one for the classifier, which is the last"
        return checked_logits(logits, self._n_gate, what)

    @abstractmethod
    def _loss(self, batch: Batch, views: Views) -> Tensor:
        """The loss of a batch."""

    def _class_log_probs(self, views: Views) -> Tensor:
        """What the classifier thinks, in logarithms, (n, n_classes)."""
        return F.log_softmax(views.classes, dim=1)

    def _scores(self, views: Views) -> Tensor:
        """How well each option suits each case, (n, n_experts + 1); the greatest is the one to take."""
        return F.log_softmax(views.gate, dim=1)

    def _right(self, views: Views) -> Tensor:
        """Probability that each option is right, (n, n_experts + 1).

        Here an expert's is the accuracy in each class, averaged with what the classifier thinks of the class.
        """
        probs = self._class_log_probs(views).exp()
        return expected_right(probs, self._expert_accuracy)

    def _worth(self, right: Array) -> Array:
        """Values of the options, (n, n_experts + 1): the probability that each is right, less its cost."""
        return right

    def _judged(self, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        """Total value of answers to held-out cases, each by the best option that answered, and the number of cases."""
        truth, answers = truth_of(batch), answers_of(batch, len(self._workers))
        scores = self._scores(views)
        scores[:, :-1] = scores[:, :-1].masked_fill(answers < 0, -torch.inf)
        options = torch.cat([answers, views.classes.argmax(dim=1, keepdim=True)], dim=1)
        worth = torch.from_numpy(self._worth((options == truth[:, None]).cpu().double().numpy()))
        return worth.gather(1, scores.argmax(dim=1, keepdim=True).cpu()).sum(), torch.tensor(len(batch))

    def _after_training(self, data: CrowdData) -> None:
        self._calibration = self._assess_some(data.features, data.rows[self._to_judge_by(data)])

    def _to_judge_by(self, data: CrowdData) -> Tensor:
        """Held-out cases, where there are some: on those that were trained on the router is too sure of itself."""
        return self._held_out if len(self._held_out) else data.samples

    def _assess(self, features: Features, rows: Tensor) -> _Assessment:
        """What is thought of some rows, in one pass over them."""

        def all_three(x: Any) -> Tensor:
            views = self._views(x)
            return torch.cat([self._scores(views), self._right(views), self._class_log_probs(views)], dim=1)

        options = len(self._workers) + 1
        predictions = self._mapped(features, rows, all_three)
        bad = np.isnan(predictions).any(axis=1)
        if bad.any():
            # An arg max would take it for the best there is.
            raise ValueError(f"the networks make NaN of row {int(rows[int(bad.argmax())])} of X; look at its features")
        scores, right, log_probs = np.split(predictions, [options, 2 * options], axis=1)
        return _Assessment({"gate": scores, "accuracy": self._worth(right)}, right, softmax_rows(log_probs))

    def _assess_some(self, features: Features, rows: Tensor) -> dict[str, Array]:
        """What is thought of the options in some rows, of not too many, to calibrate thresholds with."""
        if len(rows) > _CALIBRATION:
            rows = rows[torch.linspace(0, len(rows) - 1, _CALIBRATION).long()]
        return self._assess(features, rows).options

    # -------------------------------------------------------------------------------------------- training

    def fit(
        self,
        X: Any,
        y: Any,
        votes: Any,
        *,
        tasks: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress = False,
    ) -> Self:
        """Train on cases whose true class is known, and on what experts answered to some of them.

        Parameters
        ----------
        X
            A row per case: a NumPy array, a torch tensor, a SciPy sparse matrix or a map-style ``Dataset``.
        y
            The true class of each row.
        votes
            Answers of the experts: an :class:`~manyhands.Annotations` table, a frame with well-known column names, or a
            (cases × experts) array with -1 where there is none. Answers may be missing in any pattern.
        tasks
            Name of each row of X among the tasks of the votes. None if the tasks are row numbers.
        resume : bool, default False
            Go on from `checkpoint`, to the same result as if the training had not been interrupted. Needs the same
            cases, answers and settings; `max_epochs` may be larger unless the schedule depends on it.
        overwrite : bool, default False
            Begin again although the file of `checkpoint` is there, and write over it.
        progress : bool or callable, default False
            True for a progress bar, or a function called after each epoch as ``progress(epoch, loss)``.
        """
        return self._fit(lambda: CaseData(X, y, votes, tasks), resume=resume, overwrite=overwrite, progress=progress)

    # ------------------------------------------------------------------------------------------ prediction

    def _of_views(self, X: Any, make: Callable[[Views], Tensor]) -> Array:
        self._fitted()
        features = as_features(X)
        return self._mapped(features, torch.arange(len(features)), lambda x: make(self._views(x)))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities by the classifier alone, (n, n_classes)."""
        return softmax_rows(self._of_views(X, self._class_log_probs))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class that the classifier alone takes for the most probable, by name, (n,)."""
        return self._classes.values[_core.winners(self.predict_proba(X))[0]]

    def defer_proba(self, X: Any) -> Array:
        """How well each option suits each case, (n, n_experts + 1): experts first, the classifier last.

        Rows sum to one. Of methods with a router these are its probabilities, of others a softmax of their scores.
        """
        return softmax_rows(self._of_views(X, self._scores))

    def expected_accuracy(self, X: Any) -> Array:
        """Probability that each option is right, (n, n_experts + 1), as estimated by the method."""
        return self._of_views(X, self._right)

    def decide(
        self,
        X: Any,
        *,
        coverage: Coverage = None,
        workload: Workload | None = None,
        how: How = "auto",
        by: By = "gate",
    ) -> Decision:
        """Who takes which case, and the classifier's answer where it is the classifier.

        Parameters
        ----------
        X
            The cases.
        coverage, workload
            As of the constructor, whose values hold where None is given here.
        how
            ``"capacity"``: all cases at once, so that each share is kept to the case. ``"threshold"``: each
            case by itself, as for a stream, with offsets calibrated on the cases of ``calibrate``, or else on held-out
            ones (`validation`) or those trained on. ``"ranked"``: the cases that suit the classifier best go to it, up
            to the coverage, and the others to their best option, which may be the classifier too (:func:`ranked`).
            ``"argmax"``: the best option, whatever the shares. ``"auto"``: by capacity if a coverage or workload is
            asked for.
        by
            What makes an option good: the method's own scores (``"gate"``), or that it is probably right
            (``"accuracy"``, see :meth:`expected_accuracy`). The shares are kept either way.
        """
        predictions = self._assessed(X, by)
        who = self._who(predictions.options[by], by, coverage, workload, how)
        rows = np.arange(len(who))
        return Decision(
            who,
            len(self._workers),
            labels=self._classes.values[_core.winners(predictions.probs)[0]],
            confidence=softmax_rows(predictions.options["gate"])[rows, who],
            expected_accuracy=predictions.right[rows, who],
            experts=self._workers.values.tolist(),
        )

    def _assessed(self, X: Any, by: By) -> _Assessment:
        check_choice("by", by, ("gate", "accuracy"))
        self._fitted()
        features = as_features(X)
        return self._assess(features, torch.arange(len(features)))

    def calibrate(self, X: Any) -> Self:
        """Take cases like those to come, whose truth need not be known, to calibrate thresholds with.

        The cases trained on are a poor choice where networks have learned them by heart.
        """
        self._fitted()
        features = as_features(X)
        self._calibration = self._assess_some(features, torch.arange(len(features)))
        return self

    def _who(
        self, scores: Array, by: By, coverage: Coverage, workload: Workload | None, how: How
    ) -> npt.NDArray[np.int64]:
        """Codes of the options taken, (n,)."""
        check_choice("how", how, ("auto", "capacity", "threshold", "ranked", "argmax"))
        coverage = self.coverage if coverage is None else coverage
        workload = self.workload if workload is None else workload
        limits = bounds(self._workers, coverage, workload)
        if how == "ranked":
            return ranked(scores, _one_coverage(coverage, workload))
        if limits is None or how == "argmax":
            return scores.argmax(axis=1)
        if how == "threshold":
            if by not in self._calibration:
                raise ValueError("there are no cases to calibrate thresholds with; hand some to calibrate(X) first")
            # Who may take nothing takes nothing, however the cases to calibrate with differ from these.
            barred = np.where(limits[1] > 0, 0.0, -np.inf)
            return Thresholds.fit(self._calibration[by] + barred, *limits).decide(scores + barred)
        return assign(scores, *capacities(*limits, *scores.shape))

    def score(
        self,
        X: Any,
        y: Any,
        votes: Any,
        *,
        tasks: Any = None,
        coverage: Coverage = None,
        workload: Workload | None = None,
        how: How = "auto",
        by: By = "gate",
        missing: Literal["error", "available"] = "error",
    ) -> float:
        """Accuracy of experts and classifier together, with the experts' answers looked up in the votes.

        `missing`: where the chosen expert gave no answer, ``"error"``; ``"available"`` chooses among those who did and
        the classifier. The rest as of ``fit`` and ``decide``.
        """
        check_choice("missing", missing, ("error", "available"))
        predictions = self._assessed(X, by)
        scores = predictions.options[by]
        codes, names = true_classes(y, len(scores))
        answers = _Answers(self, votes, len(scores), tasks)
        if missing == "available":
            scores = answers.only_available(scores)
        who = self._who(scores, by, coverage, workload, how)
        own = _core.winners(predictions.probs)[0].astype(np.int64)
        choices = np.where(who == len(self._workers), own, answers.of(who))
        if (choices < 0).any():
            case = int(np.argmax(choices < 0))
            raise ValueError(
                f"{int((choices < 0).sum())} cases go to experts who gave no answer to them, first row {case} to "
                f"{self._workers.values.tolist()[who[case]]!r}; missing='available' chooses among those who did"
            )
        return float((choices == self._classes.match(names)[codes]).mean())

    # --------------------------------------------------------------------------------------------- results

    @property
    def experts_(self) -> npt.NDArray[Any]:
        """Names of the experts, in the order of the options."""
        return self.workers_

    @property
    def gate_(self) -> nn.Module:
        """The trained gate, in evaluation mode."""
        parts = self._fitted()
        if "gate" not in parts:
            raise AttributeError(f"{type(self).__name__} has no router; it decides by expected_accuracy")
        return parts["gate"]


def _one_coverage(coverage: Coverage, workload: Workload) -> float:
    """The coverage, if it is a single share and all there is to keep."""
    if coverage is None or isinstance(coverage, tuple | list):
        raise ValueError(f"how='ranked' needs one coverage, not {coverage!r}; how='capacity' keeps a range")
    if not (isinstance(workload, str) and workload == "free"):
        raise ValueError(
            "how='ranked' keeps no workload but the coverage; how='capacity' does, or give workload='free'"
        )
    return float(coverage)


class _Answers:
    """Answers of a model's experts to the rows of some X, looked up without a table of rows × experts."""

    def __init__(self, model: Deferral, votes: Any, n_rows: int, tasks: Any) -> None:
        self._n_experts = len(model._workers)
        answers = align(votes, model._classes, n_rows, tasks)
        expert_codes = model._workers.match(answers.expert_names)
        if not (expert_codes >= 0).any():
            raise ValueError(
                f"no expert of fit ({preview(model._workers.values.tolist())}) is among those of the votes "
                f"({preview(answers.expert_names.values.tolist())})"
            )
        keep = expert_codes[answers.experts] >= 0
        key = answers.rows[keep] * self._n_experts + expert_codes[answers.experts[keep]]
        order = np.argsort(key)
        self._key = key[order]
        self._label = model._classes.match(answers.classes)[answers.labels[keep]][order]
        # An answer that is not a class of the model is still an answer: a wrong one.
        self._label[self._label < 0] = len(model._classes)

    def of(self, who: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The answer of the expert asked about each row, as a class code; -1 where there is no answer."""
        key = np.arange(len(who)) * self._n_experts + who
        at = np.searchsorted(self._key, key).clip(max=len(self._key) - 1)
        return np.where(self._key[at] == key, self._label[at], -1)

    def only_available(self, scores: Array) -> Array:
        """Scores with those of experts who gave no answer at minus infinity."""
        available = np.full_like(scores, -np.inf)
        available[:, -1] = scores[:, -1]
        case, expert = self._key // self._n_experts, self._key % self._n_experts
        available[case, expert] = scores[case, expert]
        return available
