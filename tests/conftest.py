"""What all tests share: how hypothesis runs, where the real data lies, and crowd-kit to compare with."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

# Some virtual machines announce instructions for matrices (AMX) that they do not have, and half precision ends there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

# Every run tries the same examples, on any machine and in any order of tests. hypothesis would also draw constants from
# the source of every local module that happens to be loaded, so that an edit elsewhere, or another order, changed them.
# `make explore` draws at random, and keeps what fails under target/explore. Timing is never a reason to fail.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile(
    "explore",
    deadline=None,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / "target" / "explore" / "examples"),
)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") in (None, "fixed"):
        no_constants = providers._local_constants
        providers._get_local_constants = lambda: no_constants


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
