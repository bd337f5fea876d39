"""Aggregators by the names they have on the command line, and how good their answers are."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manyhands import categorical, moments
from manyhands._base.estimator import Estimator
from manyhands._base.spelling import did_you_mean
from manyhands._base.table import Records
from manyhands.cli.options import Parser

if TYPE_CHECKING:
    from manyhands import Annotations
    from manyhands.categorical.base import Aggregator


@dataclass(frozen=True)
class Method:
    """An aggregator, and the parameters that its name on the command line fixes."""

    aggregator: type[Estimator[Any, Any, Any]]
    fixed: Mapping[str, Any]

    @property
    def parameters(self) -> list[str]:
        """The parameters that ``--set`` takes; gold labels have an option of their own."""
        return [name for name in self.aggregator._parameter_names() if name not in (*self.fixed, "gold")]

    @property
    def takes_gold(self) -> bool:
        """Whether gold labels can be held fixed."""
        return "gold" in self.aggregator._parameter_names()

    @property
    def about(self) -> str:
        """A sentence about the method: the first of its docstring, and what is fixed of it."""
        import inspect

        first = re.sub(r":\w+:`([^`]*)`", r"\1", (inspect.getdoc(self.aggregator) or "").partition("\n")[0])
        fixed = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items())
        return f"{first} [{self.aggregator.__name__}({fixed})]" if fixed else first

    def build(self, given: Mapping[str, Any]) -> Any:
        """Make the aggregator, with those of the given parameters that it has."""
        maker: Any = self.aggregator
        accepted = (*self.parameters, "gold") if self.takes_gold else self.parameters
        return maker(**self.fixed, **{name: value for name, value in given.items() if name in accepted})


def _method(aggregator: type[Estimator[Any, Any, Any]], **fixed: Any) -> Method:
    return Method(aggregator, fixed)


def _named_methods() -> dict[str, Method]:
    """The methods that are not called after their class, or not all that it can do; the default first."""
    em, bayes = categorical.DawidSkene, categorical.BayesianDawidSkene
    return {
        "consensus": _method(categorical.Consensus),
        "dawid-skene": _method(em, model="full"),
        "per-class": _method(em, model="class"),
        "one-coin": _method(em, model="one-coin"),
        "dawid-skene-multispa": _method(em, model="full", init="multispa"),
        "dawid-skene-spectral": _method(em, model="full", init="spectral"),
        "bayesian": _method(bayes, model="full"),
        "bayesian-per-class": _method(bayes, model="class"),
        "bayesian-one-coin": _method(bayes, model="one-coin"),
        "bayesian-gibbs": _method(bayes, method="gibbs"),
        "community": _method(categorical.CommunityDawidSkene),
        "hierarchical": _method(categorical.HierarchicalDawidSkene),
        "majority": _method(categorical.MajorityVote),
        "agreement": _method(categorical.WeightedVote, weights="agreement"),
        "zero-based": _method(categorical.WeightedVote, weights="zero-based"),
        "multispa": _method(moments.MultiSPA),
        "spectral": _method(moments.SpectralDS),
        "meta-learner": _method(moments.SpectralMetaLearner),
        "sparse-one-coin": _method(categorical.SparseOneCoin),
        "online": _method(categorical.OnlineDawidSkene),
        "crowd-svm": _method(categorical.CrowdSVM),
        "max-margin": _method(categorical.MaxMarginVote),
        "minimax-entropy": _method(categorical.MinimaxEntropy),
        "minimax-entropy-ordinal": _method(categorical.MinimaxEntropy, ordinal=True),
    }


def methods_of(kind: str) -> dict[str, Method]:
    """All methods for a kind of answers, the default first: those without a name of their own go by their class's."""
    best = Estimator._defaults.get(kind)
    by_name = (
        _named_methods()
        if kind == "categorical"
        else {}
        if best is None
        else {_spelt_out(best.__name__): _method(best)}
    )
    covered = {method.aggregator for method in by_name.values()}
    rest = (aggregator for aggregator in categorical.all_aggregators(kind) if aggregator not in covered)
    return by_name | {_spelt_out(aggregator.__name__): _method(aggregator) for aggregator in rest}


def _spelt_out(name: str) -> str:
    """``CoupledNMF`` as it is typed: ``coupled-nmf``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


METHODS = methods_of("categorical")
DEFAULT = next(iter(METHODS))
#: The default for classes with an order.
ORDERED = "ordinal-consensus"
#: Methods for all kinds of answers, by kind.
BY_KIND = {kind: methods_of(kind) for kind in Estimator._bases if kind in Records._kinds}
_OF_ORDER = {ORDERED: METHODS[ORDERED]} | {
    name: method
    for name, method in METHODS.items()
    if method.aggregator.__module__.startswith("manyhands.ordinal.") or "ordinal" in method.fixed
}
#: The same as ``manyhands methods`` lists them: those that use the order of the classes are apart.
LISTED = {"categorical": {name: METHODS[name] for name in METHODS if name not in _OF_ORDER}, "ordinal": _OF_ORDER} | {
    kind: methods for kind, methods in BY_KIND.items() if kind != "categorical"
}
#: Methods that an error message lists.
MOST_SHOWN = 6
#: Methods that a comparison runs by default: those that take any log, in about the time of EM.
COMPARED = (
    "consensus",
    "hierarchical",
    "hierarchical-mace",
    "bayesian",
    "community",
    "dawid-skene",
    "per-class",
    "one-coin",
    "dawid-skene-spectral",
    "mace",
    "glad",
    "max-margin",
    "crowd-svm",
    "mmsr",
    "majority",
    "agreement",
    "zero-based",
    "kos",
)

#: The same for large logs: the default, what it is made of, and the votes.
COMPARED_LARGE = ("consensus", "hierarchical", "dawid-skene", "one-coin", "majority", "agreement")


def add_fit(parser: Parser, *, choose: bool = True) -> None:
    """Add the arguments of a fit: the method, and parameters of its constructor."""
    group = parser.add_argument_group("the method")
    if choose:
        group.add_argument(
            "--method",
            choices=[name for methods in BY_KIND.values() for name in methods],
            help=f"how to aggregate (default: {DEFAULT} for classes, {ORDERED} for ordered ones); `manyhands methods` "
            "lists all",
            metavar="NAME",
        )
    group.add_argument(
        "--set",
        dest="parameters",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the method, such as max_iter=50; repeatable",
    )


def add_panel(parser: Parser) -> None:
    """Add the choice whether annotators are a panel whose errors coincide."""
    parser.add_argument(
        "--panel",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="errors of annotators coincide, as of LLM judges",
    )


def setting(text: str) -> tuple[str, Any]:
    """Return a name and a value: a Python literal, or else text. Whole numbers may be written 1e6."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE such as max_iter=50, not {text!r}")
    return name, _literal(value.strip())


def _literal(text: str) -> Any:
    from ast import literal_eval

    words = {"true": True, "false": False, "inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    if text in words:
        return words[text]
    try:
        value = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return int(value) if isinstance(value, float) and "." not in text and value.is_integer() else value


def all_parameters() -> set[str]:
    """The names of all parameters of all methods."""
    return {name for methods in BY_KIND.values() for method in methods.values() for name in method.parameters}


def given_parameters(args: argparse.Namespace, methods: Mapping[str, Method]) -> dict[str, Any]:
    """Return the parameters that were set; raise for one that no chosen method has."""
    values: dict[str, Any] = {}
    for name, value in args.parameters:
        if name in values:
            raise ValueError(f"--set {name} is given twice")
        values[name] = value
        if any(name in method.parameters for method in methods.values()):
            continue
        names = ", ".join(methods)
        for which, method in methods.items():
            if name in method.fixed:
                raise ValueError(
                    f"--set {name} does not go with --method {which}, which has {name}={method.fixed[name]!r}"
                )
        if name == "gold":
            raise ValueError("gold labels are read from a file: pass --gold FILE instead of --set gold")
        accepted = list(dict.fromkeys(one for method in methods.values() for one in method.parameters))
        hint = did_you_mean(name, accepted)
        having = [other for kind in BY_KIND.values() for other, method in kind.items() if name in method.parameters]
        others = f"; it is a parameter of {', '.join(having[:MOST_SHOWN])}" if having and not hint else ""
        listed = f"; its parameters are {', '.join(accepted)}" if len(methods) == 1 and accepted else ""
        raise ValueError(f"{names} has no parameter {name!r}{hint}{others}{listed or ''}")
    return values


def check_gold(gold: str | None, methods: Mapping[str, Method]) -> None:
    """Raise where gold labels are given and no chosen method can hold them fixed."""
    if gold is not None and not any(method.takes_gold for method in methods.values()):
        taking = [name for kind in BY_KIND.values() for name, method in kind.items() if method.takes_gold]
        raise ValueError(f"{', '.join(methods)} does not take --gold; methods that do are {', '.join(taking)}")


def chosen_method(args: argparse.Namespace) -> Callable[[Any], Any]:
    """Check the parameters of the method chosen for the log's kind and return its maker, which takes the gold labels.

    Where none was chosen, it is the default of the kind, and `args` keeps its name.
    """
    methods = BY_KIND[args.kind]
    default = ORDERED if args.kind == "categorical" and args.ordered else next(iter(methods))
    args.method = args.method or default
    if getattr(args, "panel", None) is not None:
        args.parameters = [*args.parameters, ("panel", args.panel)]
    if args.method not in methods:
        raise ValueError(f"--method {args.method} is not for {args.kind} answers; those are {', '.join(methods)}")
    method = methods[args.method]
    values = given_parameters(args, {args.method: method})
    check_gold(args.gold, {args.method: method})
    return lambda gold: method.build(values if gold is None else values | {"gold": gold})


class Truth:
    """Known classes of some of a log's tasks, to measure answers by.

    Raises if none of them is in the log; warns of classes that no worker named, which no method can return.
    """

    def __init__(self, votes: Annotations, truth: tuple[Any, Any], source: str) -> None:
        import warnings

        from manyhands import metrics

        try:
            self.index, self.classes = metrics.match_gold(votes.tasks, truth, unknown="ignore")
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        self.n_given = len(truth[0])
        self.ordered = votes.ordered
        distinct = dict.fromkeys(self.classes.tolist())
        classes = set(votes.classes.tolist())
        self.unnamed = [name for name in distinct if name not in classes]
        first_names = ", ".join(map(repr, self.unnamed[:3])) + (", …" if len(self.unnamed) > 3 else "")
        if len(self.unnamed) == len(distinct):
            some = ", ".join(map(repr, votes.classes[:3].tolist())) + (", …" if votes.n_classes > 3 else "")
            raise ValueError(f"{source}: no worker named any of its classes ({first_names}); the log has {some}")
        if self.unnamed:
            missed = sum(name not in classes for name in self.classes.tolist()) / len(self.classes)
            warnings.warn(
                f"{source}: no worker named {first_names}, so {missed:.1%} of the tasks with truth cannot be right",
                stacklevel=2,
            )

    def measure(self, model: Aggregator) -> dict[str, Any]:
        """Return accuracy, mean confidence, balanced accuracy, log-loss (nats) and calibration error of a fit.

        Of ordered classes also the absolute error and quadratic kappa.
        """
        import numpy as np

        from manyhands import metrics

        posterior, classes = model._rows_of_tasks(self.index), model.classes_
        if self.unnamed:
            # A class that no worker named is one of probability 0.
            posterior = np.hstack([posterior, np.zeros((len(posterior), len(self.unnamed)))])
            classes = np.array([*classes.tolist(), *self.unnamed], object)
        labels = model.labels_[self.index]
        measures = {
            "n_tasks": len(self.index),
            "accuracy": metrics.accuracy(labels, self.classes),
            "confidence": float(posterior.max(axis=1).mean()),
            "balanced_accuracy": metrics.balanced_accuracy(labels, self.classes),
            "log_loss": metrics.log_loss(posterior, self.classes, classes=classes),
            "calibration_error": metrics.calibration_error(posterior, self.classes, classes=classes),
        }
        if self.ordered and not self.unnamed:
            # A class that no worker named has no place in the order.
            measures["absolute_error"] = metrics.absolute_error(labels, self.classes, classes=classes.tolist())
            measures["quadratic_kappa"] = metrics.quadratic_kappa(labels, self.classes, classes=classes.tolist())
        return measures
