"""What all tests share: how hypothesis runs, where the real data lies, and crowd-kit to compare with."""

from __future__ import annotations

import os
import re
import signal
import sys
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

# What a shell says of its terminal, and what a user sets for Python and for us, is not what tests are about.
for name in (
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
    "MANYHANDS_NUM_THREADS",
):
    os.environ.pop(name, None)

# A shell starts background jobs with Ctrl-C ignored, and what they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


#: What test files import that the quick tier does without: packages, and what needs them.
HEAVY = re.compile(
    r"^from manyhands import .*\b(?:defer|learn)\b|^from manyhands\.(?:defer|learn|spark|_train)\b"
    r"|^(?:from|import) (?:dask|deferrals|learners|pyspark|selenium|shared_training|spark_\w+|torch)\b",
    re.MULTILINE,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out files that import PyTorch, Spark or a browser")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that the quick tier (`make check`) cannot import, or does not want to wait for."""
    is_code = collection_path.suffix == ".py"
    return (config.getoption("--quick") and is_code and bool(HEAVY.search(collection_path.read_text("utf-8")))) or None


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile") in (None, "fixed"):
        no_constants = providers._local_constants
        providers._get_local_constants = lambda: no_constants


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Networks that are made without a seed start alike, whichever tests ran before."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _empty_compile_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """torch.compile takes kernels from a folder in /tmp that may be of another processor, and computes nonsense."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path_factory.mktemp("inductor"))


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
