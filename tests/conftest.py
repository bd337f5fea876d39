"""What all tests share: how hypothesis runs, and where the real data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

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
