"""The library inside a process: what it imports, Ctrl-C, threads and forks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import manyhands as mh

PATIENCE = 10  # seconds; the promise is one, the machine may be busy


def test_importing_stays_light():
    heavy = ["torch", "pandas", "polars", "matplotlib", "scipy", "sklearn", "pyarrow", "duckdb", "rich"]
    code = f"import sys, manyhands; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Each line prints "ready" when its long work is about to begin, and works far longer than the test waits.
LONG_WORK = {
    "fit": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.DawidSkene(tol=0, max_iter=10**6)
print("ready", flush=True)
model.fit(votes)
""",
    "fit with progress": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.DawidSkene(tol=0, max_iter=10**6, model="one-coin", accelerate=True)
model.fit(votes, progress=lambda step, objective: print("ready", flush=True))
""",
    "abilities": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.GLAD(tol=0, max_iter=10**6)
print("ready", flush=True)
model.fit(votes)
""",
    "confusions": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.MinimaxEntropy(tol=0, max_iter=10**6)
print("ready", flush=True)
model.fit(votes)
""",
    "margins": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.MaxMarginVote(tol=0, max_iter=10**6)
print("ready", flush=True)
model.fit(votes)
""",
    "draws": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.CrowdSVM(draws=10**6)
print("ready", flush=True)
model.fit(votes)
""",
    "resamples": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
print("ready", flush=True)
mh.agreement.cohen_kappa(votes, resamples=10**6)
""",
    "encode integers": """
ids = rng.integers(0, 2**60, n)
print("ready", flush=True)
while True:
    mh._core.encode_integers(ids)
""",
    "project": """
gate = rng.dirichlet(np.ones(20), size=n)
print("ready", flush=True)
while True:
    mh.defer.project(gate, 0.05, 0.05)
""",
    "assign": """
scores = rng.normal(size=(n, 20)) + np.arange(20)
print("ready", flush=True)
while True:
    mh.defer.assign(scores, n // 20, n // 20)
""",
    "encode text": """
import pyarrow as pa
ids = pa.array([f"a task with a long name {i}" for i in rng.integers(0, n, n)], pa.large_string())
labels = rng.integers(0, 5, n)
print("ready", flush=True)
while True:
    mh.Annotations.from_arrays(ids, ids, labels)
""",
}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process on Windows")
@pytest.mark.parametrize("work", LONG_WORK)
def test_ctrl_c_arrives(work):
    # Children of a job in the background inherit that interrupts are ignored.
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import manyhands as mh
rng, n = np.random.default_rng(0), 300_000
try:
{"".join("    " + line + chr(10) for line in LONG_WORK[work].splitlines())}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    mh.MajorityVote().fit(mh.Annotations.from_dense([[0, 1, 1]]))
    print("and well", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.3)  # into the middle of the work
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert output.endswith("interrupted\nand well\n")  # the signal may cut a "ready" short
    assert process.returncode == 0


def test_an_exception_in_progress_stops_the_fit():
    votes = random_votes(200_000)

    def stop(step: int, objective: float) -> None:
        raise RuntimeError(f"stopped after {step}")

    with pytest.raises(RuntimeError, match="stopped after"):
        mh.DawidSkene(tol=0, max_iter=10**6).fit(votes, progress=stop)


def random_votes(n: int) -> mh.Annotations:
    rng = np.random.default_rng(5)
    return mh.Annotations.from_arrays(rng.integers(0, n // 5, n), rng.integers(0, 50, n), rng.integers(0, 4, n))


def fit_posterior(votes: mh.Annotations) -> np.ndarray:
    return mh.DawidSkene(tol=0, max_iter=10).fit(votes).posterior_


def test_threads_share_a_table():
    votes = random_votes(20_000)
    expected = fit_posterior(votes)
    with ThreadPoolExecutor(8) as pool:
        for posterior in pool.map(fit_posterior, [votes] * 16):
            np.testing.assert_array_equal(posterior, expected)


def test_threads_build_the_same_table():
    expected = random_votes(20_000)
    with ThreadPoolExecutor(4) as pool:
        assert all(votes == expected for votes in pool.map(random_votes, [20_000] * 8))


def test_other_threads_run_while_one_fits():
    votes = random_votes(200_000)
    model = mh.DawidSkene(tol=0, max_iter=10**6)
    stop = threading.Event()

    def progress(step: int, objective: float) -> None:
        if stop.is_set():
            raise InterruptedError

    def fit() -> None:
        with pytest.raises(InterruptedError):
            model.fit(votes, progress=progress)

    thread = threading.Thread(target=fit)
    thread.start()
    try:
        assert mh.MajorityVote().fit(votes).labels_.shape == (votes.n_tasks,)  # would wait forever otherwise
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def test_the_number_of_threads_does_not_matter():
    before = mh.get_num_threads()
    try:
        results = []
        for n_threads in (1, 2, 5):
            mh.set_num_threads(n_threads)
            assert mh.get_num_threads() == n_threads
            votes = random_votes(100_000)
            results.append((votes, fit_posterior(votes)))
    finally:
        mh.set_num_threads(before)
    for votes, posterior in results[1:]:
        assert votes == results[0][0]
        np.testing.assert_array_equal(posterior, results[0][1])
    with pytest.raises(ValueError, match="number of threads must lie between 1 and 1024"):
        mh.set_num_threads(0)


def test_threads_can_be_set_by_the_environment():
    code = "import manyhands as mh; print(mh.get_num_threads())"

    def run(value: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "MANYHANDS_NUM_THREADS": value}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    assert run("3").stdout.strip() == "3"
    assert "MANYHANDS_NUM_THREADS must be a whole number of at least 1, not 'many'" in run("many").stderr


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_forked_child_can_fit():
    """The parent's threads do not survive a fork; a child that waited for them would hang."""
    code = """
import multiprocessing, warnings
import numpy as np
import manyhands as mh
columns = np.random.default_rng(0).integers(0, [[4000], [50], [4]], (3, 20_000))
def fit(_):
    return mh.DawidSkene(tol=0, max_iter=10).fit(mh.Annotations.from_arrays(*columns)).posterior_
expected = fit(0)
warnings.simplefilter("ignore")  # of forking with threads, which is what this is about
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(np.array_equal(posterior, expected) for posterior in pool.map(fit, range(4))))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "True", done.stderr
