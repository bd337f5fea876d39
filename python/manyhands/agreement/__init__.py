"""Inter-annotator agreement beyond chance.

Labels on the same task: :func:`krippendorff_alpha`, :func:`fleiss_kappa`, :func:`gwet_ac1` and :func:`gwet_ac2`. Pairs
of workers: :func:`cohen_kappa`, :func:`scott_pi`, and :func:`pairwise` for the coefficient of every pair. Numbers:
:func:`icc`, :func:`pearson`, :func:`discrepancy_ratio`, and :func:`bland_altman` for limits of agreement. Spans:
:func:`span_agreement`.
:func:`agreement_ratio` compares a model's answers with the crowd's, and :func:`worker_ratios` each worker's with the
others'. :func:`by_class` and :func:`by_task` list agreement by class and by task.

Each function returns an :class:`Agreement`: the value, an interval if resamples are requested, and the number of tasks
and pairs behind it. An undefined coefficient is NaN, and ``reason`` states why.
"""

from manyhands.agreement.counts import fleiss_kappa, gwet_ac1, gwet_ac2, krippendorff_alpha
from manyhands.agreement.numbers import Limits, bland_altman, discrepancy_ratio, icc, pearson
from manyhands.agreement.pairs import agreement_ratio, cohen_kappa, pairwise, scott_pi, worker_ratios
from manyhands.agreement.parts import by_class, by_task
from manyhands.agreement.result import Agreement
from manyhands.agreement.spans import span_agreement

__all__ = [
    "Agreement",
    "Limits",
    "agreement_ratio",
    "bland_altman",
    "by_class",
    "by_task",
    "cohen_kappa",
    "discrepancy_ratio",
    "fleiss_kappa",
    "gwet_ac1",
    "gwet_ac2",
    "icc",
    "krippendorff_alpha",
    "pairwise",
    "pearson",
    "scott_pi",
    "span_agreement",
    "worker_ratios",
]
