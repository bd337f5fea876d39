"""What crowd-kit has and manyhands has not, and what to do about it."""

from __future__ import annotations

_LEARNERS = "manyhands.learn has learners of its own (see docs/learning-from-crowds.md)"
_ELSEWHERE = "manyhands aggregates labels, so keep crowd-kit's"

#: Names of crowd-kit without a twin, and what to use.
ABSENT = {
    "TextSummarization": f"{_ELSEWHERE} for texts",
    "CoNAL": f"{_LEARNERS}; COINNet and GeoCrowdNet model confusions that depend on the sample too",
    "CrowdLayer": f"{_LEARNERS}; its CrowdLayer takes a network and Annotations rather than a layer in yours",
    "accuracy_on_aggregates": "Wawa().fit(answers).skills_ is that of the majority vote, by worker; with other "
    "answers, GoldMajorityVote().fit(answers, aggregates).skills_",
    "entropy_threshold": "uncertainty(answers, compute_by='worker', aggregate=False) tells who answers the same too "
    "often; the models of manyhands learn to give such workers no say",
    "load_dataset": "read the files with pandas or manyhands.read",
    "get_datasets_list": "read the files with pandas or manyhands.read",
}


def explain(module: str, name: str, known: list[str]) -> AttributeError:
    """Return the error for a name that a module does not have."""
    if name in ABSENT:
        return AttributeError(
            f"{name} of crowd-kit has no counterpart in {module}: {ABSENT[name]}. There are {', '.join(known)}; "
            "docs/migrating-from-crowd-kit.md lists all",
        )
    return AttributeError(f"module {module!r} has no attribute {name!r}")
