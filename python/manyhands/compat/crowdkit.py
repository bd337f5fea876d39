"""crowd-kit's aggregators and measures of a log, on manyhands' core.

``from crowdkit.aggregation import DawidSkene`` becomes ``from manyhands.compat.crowdkit import DawidSkene``, and
``from crowdkit.metrics.data import alpha_krippendorff`` likewise: the same constructors and methods, the same pandas
frames in (columns ``task``, ``worker``, ``label``), the same Series and frames out. Needs pandas, which the extra
``manyhands[frames]`` brings. Where the two differ on purpose, and why, is listed in
``docs/migrating-from-crowd-kit.md``.

The classes here only translate: frames to tables and back, and one way of counting iterations to the other.
Programs that are not bound to this interface find more options, and no need of pandas, in :mod:`manyhands.categorical`,
:mod:`manyhands.moments`, :mod:`manyhands.pairwise`, :mod:`manyhands.texts`, :mod:`manyhands.masks` and
:mod:`manyhands.agreement`.
"""

from __future__ import annotations

from typing import NoReturn

from manyhands.compat._em import DawidSkene, OneCoinDawidSkene
from manyhands.compat._masks import SegmentationEM, SegmentationMajorityVote, SegmentationRASA
from manyhands.compat._metrics import alpha_krippendorff, consistency, uncertainty
from manyhands.compat._models import GLAD, KOS, MACE, MMSR
from manyhands.compat._pairwise import BradleyTerry, NoisyBradleyTerry
from manyhands.compat._texts import HRRASA, RASA, ROVER, ClosestToAverage, TextHRRASA, TextRASA
from manyhands.compat._votes import BinaryRelevance, GoldMajorityVote, MajorityVote, Wawa, ZeroBasedSkill

__all__ = [
    "GLAD",
    "HRRASA",
    "KOS",
    "MACE",
    "MMSR",
    "RASA",
    "ROVER",
    "BinaryRelevance",
    "BradleyTerry",
    "ClosestToAverage",
    "DawidSkene",
    "GoldMajorityVote",
    "MajorityVote",
    "NoisyBradleyTerry",
    "OneCoinDawidSkene",
    "SegmentationEM",
    "SegmentationMajorityVote",
    "SegmentationRASA",
    "TextHRRASA",
    "TextRASA",
    "Wawa",
    "ZeroBasedSkill",
    "alpha_krippendorff",
    "consistency",
    "uncertainty",
]

_LEARNERS = "manyhands.learn has learners of its own (see docs/learning-from-crowds.md)"
_ELSEWHERE = "manyhands aggregates labels, so keep crowd-kit's"

#: Names of crowd-kit without a reference implementation, and what to use.
_ABSENT = {
    "TextSummarization": f"{_ELSEWHERE} for texts",
    "CoNAL": f"{_LEARNERS}; COINNet and GeoCrowdNet model confusions that depend on the sample too",
    "CrowdLayer": f"{_LEARNERS}; its CrowdLayer takes a network and Annotations rather than a layer in yours",
    "accuracy_on_aggregates": "Wawa().fit(answers).skills_ is that of the majority vote, by worker; with other "
    "answers, GoldMajorityVote().fit(answers, aggregates).skills_",
    "entropy_threshold": "uncertainty(answers, compute_by='worker', aggregate=False) shows which workers repeat one "
    "answer too often; the models of manyhands learn to ignore such workers",
    "load_dataset": "read the files with pandas or manyhands.read",
    "get_datasets_list": "read the files with pandas or manyhands.read",
}


def __getattr__(name: str) -> NoReturn:
    """Name what to use instead of what is not here."""
    if name in _ABSENT:
        raise AttributeError(
            f"{name} of crowd-kit has no counterpart in {__name__}: {_ABSENT[name]}. There are {', '.join(__all__)}; "
            "docs/migrating-from-crowd-kit.md lists all"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
