"""The library inside a process: what it imports, Ctrl-C, threads and forks."""

from __future__ import annotations

import json
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
from commands import FEW_THREADS, PATIENCE

import manyhands as mh


def test_importing_stays_light():
    heavy = ["torch", "pandas", "polars", "matplotlib", "scipy", "sklearn", "pyarrow", "duckdb", "rich"]
    code = f"import sys, manyhands; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["describe", "aggregate"])
def test_a_small_table_is_read_without_other_libraries(command, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("task,worker,label\n1,a,x\n1,b,x\n2,a,y\n2,b,x\n")
    heavy = ["pandas", "polars", "scipy", "torch", "matplotlib", "duckdb", "pyarrow.parquet", "pyarrow.dataset"]
    code = (
        "import sys; from manyhands.cli import main\n"
        f"assert main([{command!r}, {str(log)!r}, '-q']) == 0\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Each prints "ready" when its work is about to begin, and works until it is interrupted.
LONG_WORK = {
    "fit": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.DawidSkene(tol=0, max_iter=10**6)
print("ready", flush=True)
while True:
    model.fit(votes)
""",
    "fit with progress": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.DawidSkene(tol=0, max_iter=10**6, model="one-coin", accelerate=True)
while True:
    model.fit(votes, progress=lambda step, objective: print("ready", flush=True))
""",
    "abilities": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.categorical.GLAD(tol=0, max_iter=10**6)
print("ready", flush=True)
while True:
    model.fit(votes)
""",
    "confusions": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.categorical.MinimaxEntropy(tol=0, max_iter=10**6)
print("ready", flush=True)
while True:
    model.fit(votes)
""",
    "margins": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.categorical.MaxMarginVote(tol=0, max_iter=10**6)
print("ready", flush=True)
while True:
    model.fit(votes)
""",
    "draws": """
votes = mh.Annotations.from_arrays(rng.integers(0, 20_000, n), rng.integers(0, 500, n), rng.integers(0, 5, n))
model = mh.categorical.CrowdSVM(draws=10**6)
print("ready", flush=True)
while True:
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
            time.sleep(0.1)  # most likely into the middle of the work; it may come at any time
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
    with pytest.raises(ValueError, match="1 and 1024"):
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_threads_that_refit_one_estimator_never_mix_two_fits():
    """Sizes and names differ, so that anything taken from both would show."""
    rng = np.random.default_rng(3)
    sizes = {"small": (30, 4, 2), "large": (400, 9, 7)}
    tables = {
        name: mh.Annotations.from_arrays(
            [f"{name} {task}" for task in np.repeat(np.arange(n), 3)],
            rng.integers(0, m, 3 * n),
            [f"{name} {label}" for label in rng.integers(0, k, 3 * n)],
        )
        for name, (n, m, k) in sizes.items()
    }
    model = mh.MajorityVote()
    expected = {name: mh.MajorityVote().fit(votes) for name, votes in tables.items()}
    frames = {name: (one.to_frame(), one.workers_frame()) for name, one in expected.items()}

    def refit(name: str) -> None:
        for _ in range(150):
            np.testing.assert_array_equal(model.fit_predict(tables[name]), expected[name].labels_)
            # Whose fit it is now is open, but it is one of them.
            labels = model.labels_
            assert len(labels) == len(expected[labels[0].split()[0]].labels_)
            for found, kind in ((model.to_frame(), 0), (model.workers_frame(), 1)):
                assert any(found.equals(known[kind]) for known in frames.values())

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(refit, ["small", "large"] * 2))
    finally:
        sys.setswitchinterval(switch)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    votes, model = random_votes(2000), mh.categorical.WeightedVote()
    before = model.fit(votes).labels_
    model.set_params(weights="no such rule")
    with pytest.raises(ValueError, match="weights"):
        model.fit(random_votes(500))
    np.testing.assert_array_equal(model.labels_, before)


# ------------------------------------------------------------------------------------------------------ memory

LIMITED = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits what a process may take")


def run_limited(code: str, gigabytes: float, *command: str) -> subprocess.CompletedProcess:
    """Run code, or a command, in a process that may take so much memory, thread stacks and all."""
    import resource

    # A limit that is in force already cannot be raised.
    most, hard = int(gigabytes * 2**30), resource.getrlimit(resource.RLIMIT_AS)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({most},) * 2)\n"
    program = [sys.executable, "-c", limit + code, *command]
    environment = os.environ | FEW_THREADS
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)


REFUSED = {
    "a table of more tasks than fit": (
        6,
        "mh.Annotations.from_codes([0], [0], [0], n_tasks=2**31, n_workers=1, n_classes=2)",
    ),
    "the same, unasked": (
        6,
        "mh._core.Table(np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint16), None, 2**31, 1, 2)",
    ),
    "confusion matrices of three members": (
        3,
        "mh.Consensus().fit(mh.Annotations.from_codes(rng.integers(0, 4000, 20_000), rng.integers(0, 2000, 20_000),"
        " rng.integers(0, 250, 20_000), n_tasks=4000, n_workers=2000, n_classes=250))",
    ),
}


@LIMITED
@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_into_memory_is_an_exception(what):
    gigabytes, code = REFUSED[what]
    done = run_limited(
        f"""
import numpy as np
import manyhands as mh
rng = np.random.default_rng(0)
try:
    {code}
except MemoryError as error:
    print("refused:", error)
print(mh.MajorityVote().fit(mh.Annotations.from_dense([[0, 1, 1]])).labels_.tolist())
""",
        gigabytes,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("refused: ")
    assert done.stdout.endswith("[1]\n")


@LIMITED
def test_the_command_line_says_in_one_line_that_memory_is_short(tmp_path):
    rows = [f"{i},{i % 1000},{i % 997}" for i in range(4000)]
    (tmp_path / "log.csv").write_text("\n".join(["task,worker,label", *rows]))
    code = "import sys; from manyhands.cli import main; sys.exit(main(sys.argv[1:]))"
    done = run_limited(code, 3, "aggregate", str(tmp_path / "log.csv"), "-o", str(tmp_path / "labels.csv"))
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr.splitlines()[-1].startswith("manyhands: error: out of memory: ")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


@LIMITED
def test_fits_at_any_limit_end_or_raise_memory_error():
    """Whatever is left to take: a fit ends, or there is a MemoryError, and the process lives on."""
    done = run_limited(
        """
import json
import warnings
warnings.simplefilter("ignore")
import numpy as np
import pyarrow.compute
import manyhands as mh
rng = np.random.default_rng(0)
n, m, k = 3000, 250, 60
votes = mh.Annotations.from_codes(*(rng.integers(0, size, 5 * n) for size in (n, m, k)), n_tasks=n, n_workers=m,
                                  n_classes=k)
few = {"max_iter": 2, "tol": 0.0}
models = [
    mh.MajorityVote(), mh.categorical.WeightedVote(), mh.DawidSkene(accelerate=True, max_iter=8, tol=0.0),
    mh.Consensus(max_iter=1), mh.BayesianDawidSkene(protected=1, **few),
    mh.categorical.CommunityDawidSkene(n_communities=2, protected=1, **few),
    mh.categorical.HierarchicalDawidSkene(protected=1, **few), mh.categorical.MACE(**few), mh.categorical.GLAD(**few),
    mh.categorical.KOS(max_iter=2), mh.categorical.SparseOneCoin(**few), mh.categorical.MaxMarginVote(**few),
    mh.categorical.CrowdSVM(draws=1, burn_in=1), mh.moments.OneCoinSpectral(**few),
]
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
outcomes = {"ended": 0, "refused": 0}
for model in models:
    for left in (40, 130, 250, 2000):
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (left << 20), hard))
        try:
            model.fit(votes)
            outcomes["ended"] += 1
        except MemoryError:
            outcomes["refused"] += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(json.dumps(outcomes))
""",
        2**20,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["ended"] >= 14, outcomes
    assert outcomes["refused"] >= 5, outcomes
