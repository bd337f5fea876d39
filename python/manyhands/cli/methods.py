"""Aggregators by the names they have on the command line, and how good their answers are."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manyhands import aggregators
from manyhands.cli.options import amount, count, natural
from manyhands.estimator import Estimator
from manyhands.table.records import Records

if TYPE_CHECKING:
    from manyhands import Annotations
    from manyhands.aggregators.base import Aggregator

#: Options of a fit, each named after the parameter that it sets.
_OPTIONS = (
    "max_iter",
    "tol",
    "seed",
    "restarts",
    "accelerate",
    "assignment",
    "pseudo_count",
    "gold",
    "correlation",
    "ties",
    "left_bias",
)


@dataclass(frozen=True)
class Method:
    """An aggregator, what is fixed of it, and the parameter that each option sets."""

    aggregator: type[Estimator[Any, Any]]
    fixed: Mapping[str, Any]
    options: Mapping[str, str]

    def build(self, given: Mapping[str, Any]) -> Any:
        """Make the aggregator, with those of the given options that it has."""
        chosen = {parameter: given[name] for name, parameter in self.options.items() if name in given}
        maker: Any = self.aggregator
        return maker(**self.fixed, **chosen)


def _method(
    aggregator: type[Estimator[Any, Any]],
    *,
    without: tuple[str, ...] = (),
    renamed: dict[str, str] | None = None,
    **fixed: Any,
) -> Method:
    """A method with all options that its parameters have, but for some; others set parameters of another name."""
    parameters = aggregator._parameter_names()
    options = {name: name for name in _OPTIONS if name in parameters and name not in (*fixed, *without)}
    return Method(aggregator, fixed, options | (renamed or {}))


def _named() -> dict[str, Method]:
    """The methods that are not called after their class, or not all that it can do; the default first."""
    em, bayes = aggregators.DawidSkene, aggregators.BayesianDawidSkene
    of_chains = ("seed",)
    return {
        "consensus": _method(aggregators.Consensus),
        "dawid-skene": _method(em, model="full"),
        "per-class": _method(em, model="class"),
        "one-coin": _method(em, model="one-coin"),
        "dawid-skene-multispa": _method(em, model="full", init="multispa"),
        "dawid-skene-spectral": _method(em, model="full", init="spectral"),
        "bayesian": _method(bayes, without=of_chains, model="full"),
        "bayesian-per-class": _method(bayes, without=of_chains, model="class"),
        "bayesian-one-coin": _method(bayes, without=of_chains, model="one-coin"),
        "bayesian-gibbs": _method(bayes, without=("tol", "accelerate"), renamed={"max_iter": "draws"}, method="gibbs"),
        "community": _method(aggregators.CommunityDawidSkene),
        "hierarchical": _method(aggregators.HierarchicalDawidSkene),
        "majority": _method(aggregators.MajorityVote),
        "agreement": _method(aggregators.WeightedVote, without=("tol",), weights="agreement"),
        "zero-based": _method(aggregators.WeightedVote, renamed={"max_iter": "n_iter"}, weights="zero-based"),
        "multispa": _method(aggregators.MultiSPA),
        "spectral": _method(aggregators.SpectralDS, without=("restarts",)),
        "meta-learner": _method(aggregators.SpectralMetaLearner),
        # A pair, a start that fades, and a count an entry are not the imaginary labels a row of --pseudo-count.
        "sparse-one-coin": _method(aggregators.SparseOneCoin, without=("pseudo_count",)),
        "online": _method(aggregators.OnlineDawidSkene, without=("pseudo_count",)),
        "crowd-svm": _method(aggregators.CrowdSVM, without=("pseudo_count",)),
        "max-margin": _method(aggregators.MaxMarginVote),
        "minimax-entropy": _method(aggregators.MinimaxEntropy),
        "minimax-entropy-ordinal": _method(aggregators.MinimaxEntropy, ordinal=True),
    }


def methods_of(kind: str) -> dict[str, Method]:
    """All methods for a kind of answers, the default first: those without a name of their own go by their class's."""
    best = Estimator._defaults.get(kind)
    named = _named() if kind == "classes" else {} if best is None else {_spelt_out(best.__name__): _method(best)}
    known = {method.aggregator for method in named.values()}
    rest = (aggregator for aggregator in aggregators.all_aggregators(kind) if aggregator not in known)
    return named | {_spelt_out(aggregator.__name__): _method(aggregator) for aggregator in rest}


def _spelt_out(name: str) -> str:
    """``CoupledNMF`` as it is typed: ``coupled-nmf``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


METHODS = methods_of("classes")
DEFAULT = next(iter(METHODS))
#: The default for classes with an order.
ORDERED = "ordered-consensus"
#: Methods for all kinds of answers, by kind.
_BY_KIND = {kind: methods_of(kind) for kind in Estimator._bases if kind in Records._kinds}
#: What a comparison runs unless told otherwise: what takes any log, in not much more than the time of EM.
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


def add_fit(parser: argparse.ArgumentParser, *, choose: bool = True) -> None:
    """Add the arguments of a fit. Defaults are the library's own: None means that an option was not given."""
    group = parser.add_argument_group("the fit")
    if choose:
        group.add_argument(
            "--method",
            choices=[name for methods in _BY_KIND.values() for name in methods],
            help=f"how to aggregate (default: {DEFAULT} for classes, {ORDERED} for ordered ones)",
            metavar="METHOD",
        )
    group.add_argument("--max-iter", type=count, metavar="N", help="most passes")
    group.add_argument(
        "--tol", type=amount, metavar="X", help="stop when the objective changes by less than this share"
    )
    group.add_argument("--seed", type=natural, metavar="N", help="seed of random starts and random ties")
    group.add_argument("--restarts", type=natural, metavar="N", help="further fits from random starts; the best wins")
    group.add_argument(
        "--accelerate", action="store_true", default=None, help="extrapolate between passes: fewer of them"
    )
    group.add_argument("--assignment", choices=("soft", "hard", "hard-then-soft"), help="kind of E-step")
    group.add_argument(
        "--pseudo-count",
        type=amount,
        metavar="X",
        help="imaginary labels a row of a confusion matrix; 0 for none",
    )
    group.add_argument(
        "--correlation",
        type=amount,
        metavar="X",
        help="of the errors on one task, from 0 (independent) to 1, to discount confidences with (consensus; "
        "default: estimated)",
    )
    group.add_argument("--ties", choices=("lowest", "random", "abstain"), help="which class wins a tie (majority)")
    group.add_argument(
        "--left-bias",
        type=_left_bias,
        metavar="WHOSE",
        help="of comparisons, learn how far the left item is favored: by the 'crowd' as a whole, or by each 'worker' "
        "(default: not at all)",
    )
    if choose:
        lists = (f"methods for {kind}: {', '.join(methods)}" for kind, methods in _BY_KIND.items())
        group.description = "; ".join(lists)


def _left_bias(text: str) -> bool | str:
    """Return the setting of a model of comparisons."""
    if text not in ("crowd", "worker"):
        raise argparse.ArgumentTypeError(f"must be crowd or worker, not {text!r}")
    return True if text == "crowd" else text


def given_options(args: argparse.Namespace, methods: Mapping[str, Method]) -> dict[str, Any]:
    """Return the options of a fit that were given; raise for one that no chosen method has."""
    known = {name: method for kind in _BY_KIND.values() for name, method in kind.items()}
    names = {name for method in known.values() for name in method.options}
    given = {name: value for name in sorted(names) if (value := getattr(args, name, None)) is not None}
    for name in given:
        if not any(name in method.options for method in methods.values()):
            knowing = ", ".join(other for other, method in known.items() if name in method.options)
            raise ValueError(
                f"--{name.replace('_', '-')} means nothing to {', '.join(methods)}; it goes with {knowing}"
            )
    return given


def chosen_method(args: argparse.Namespace) -> Callable[[Any], Any]:
    """Check the options of the method chosen for the log's kind and return its maker, which takes the gold labels.

    Where none was chosen, it is the default of the kind, and `args` keeps its name.
    """
    methods = _BY_KIND[args.kind]
    default = ORDERED if args.kind == "classes" and args.ordered else next(iter(methods))
    args.method = args.method or default
    if args.method not in methods:
        raise ValueError(f"--method {args.method} is not for {args.kind}; those are {', '.join(methods)}")
    method = methods[args.method]
    given = given_options(args, {args.method: method})
    return lambda gold: method.build(given if gold is None else given | {"gold": gold})


class Truth:
    """Known classes of some of a log's tasks, to measure answers by.

    Raises if none of them is known to the log; warns of classes that no worker named, which nobody can find.
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
        known = set(votes.classes.tolist())
        self.unnamed = [name for name in distinct if name not in known]
        shown = ", ".join(map(repr, self.unnamed[:3])) + (", …" if len(self.unnamed) > 3 else "")
        if len(self.unnamed) == len(distinct):
            some = ", ".join(map(repr, votes.classes[:3].tolist())) + (", …" if votes.n_classes > 3 else "")
            raise ValueError(f"{source}: no worker named any of its classes ({shown}); the log has {some}")
        if self.unnamed:
            missed = sum(name not in known for name in self.classes.tolist()) / len(self.classes)
            warnings.warn(
                f"{source}: no worker named {shown}, so {missed:.1%} of the tasks with truth cannot be right",
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
            # A class that nobody named has no place in the order.
            measures["absolute_error"] = metrics.absolute_error(labels, self.classes, classes=classes.tolist())
            measures["quadratic_kappa"] = metrics.quadratic_kappa(labels, self.classes, classes=classes.tolist())
        return measures
