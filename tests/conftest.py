"""What all tests share: how hypothesis runs, where the real data lies, and crowd-kit to compare with."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# Some virtual machines announce instructions for matrices (AMX) that they do not have, and half precision ends there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

# Timing is never a reason to fail; in CI the same examples are tried in every run.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data here: {folder} does not exist")
    return folder


@pytest.fixture(scope="module")
def peer() -> Iterator[ModuleType]:
    """Import crowd-kit, with the scikit-learn check that fails in newer versions taken out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("crowdkit", reason="crowd-kit is not installed: nothing to compare with")
        from crowdkit import aggregation
        from crowdkit.aggregation.classification import gold_majority_vote, wawa, zero_based_skill
    with pytest.MonkeyPatch.context() as patch:
        for module in (gold_majority_vote, wawa, zero_based_skill):
            patch.setattr(module, "check_is_fitted", lambda *args, **kwargs: None)
        yield aggregation
