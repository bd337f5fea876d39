"""How far the answers of a crowd agree, beyond what chance would do.

Of labels on the same task, whoever gave them: :func:`krippendorff_alpha`, :func:`fleiss_kappa`, :func:`gwet_ac1` and
:func:`gwet_ac2`. Of workers two by two: :func:`cohen_kappa`, :func:`scott_pi`, and :func:`pairwise` for the
coefficient of every pair. Of numbers: :func:`icc`, :func:`pearson`, and :func:`bland_altman` for limits of agreement.
Of spans: :func:`span_agreement`. :func:`agreement_ratio` compares a model's answers with the crowd's, and
:func:`worker_ratios` each worker's with the others'.
:func:`by_class` and :func:`by_task` are tables of which classes and which tasks the crowd agrees on.

Each returns an :class:`Agreement`: the value, an interval if resamples are asked for, and what it rests on. A
coefficient that is undefined is NaN, and ``reason`` tells why.
"""

from manyhands.agreement.counts import fleiss_kappa, gwet_ac1, gwet_ac2, krippendorff_alpha
from manyhands.agreement.numbers import Limits, bland_altman, icc, pearson
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
