"""A cluster on this machine whose executors are killed at every point of a pass; run apart by test_spark_apart.py."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from spark_logs import SETTINGS, out_of_core, same_bits, text_log

import manyhands as mh

#: What may come to the driver.
LITTLE = {"spark__driver__maxResultSize": "1m"}
#: Where files go.
HERE = Path()


def executors() -> list[int]:
    """Executors that this process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if is_executor(pid) and os.getpid() in ancestors(pid):
            found.append(pid)
    return found


def is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.append(pid)
    return found


def kill_once(flag: Path) -> None:
    """Kill the executor that this worker of Python belongs to, the first time."""
    if not flag.exists():
        flag.touch()
        (mine,) = (pid for pid in ancestors(os.getpid()) if is_executor(pid))
        os.kill(mine, signal.SIGKILL)


def main() -> None:
    from manyhands.spark import DawidSkene, MajorityVote, jobs, local_session, shards
    from manyhands.spark.checkpoint import failures

    session = local_session("local-cluster[2,1,1024]", **SETTINGS, spark__executor__memory="512m", **LITTLE)
    session.sparkContext.setLogLevel("OFF")
    frame = session.createDataFrame(text_log()).repartition(4)
    count, add_block, add = shards.Count, jobs._add_block, shards.SparkShards.add

    def fit(name: str) -> Any:
        model = DawidSkene(checkpoint=str(HERE / "log"), n_shards=4, max_iter=3, tol=0, every=1e9).fit(frame)
        model.forget()  # the shards are shared, sums are not
        print(name, "is done", flush=True)
        return model

    def early(self: Any, *sums: Any) -> float:
        """A pass before which an executor is killed."""
        if not (HERE / "early").exists():
            (HERE / "early").touch()
            os.kill(executors()[0], signal.SIGKILL)
        return add(self, *sums)

    class Killing(count):  # type: ignore[misc, valid-type]
        """A pass that takes its executor with it."""

        def __call__(self, rows: Any) -> Any:
            kill_once(HERE / "mid")
            return super().__call__(rows)

    def late(rows: Any) -> Any:
        """The last stage of a pass, when all sums are there and are being added."""
        kill_once(HERE / "late")
        return add_block(rows)

    shards.GATHERED = 0  # two stages, of which the last adds
    wanted = fit("undisturbed")
    same_bits(mh.DawidSkene(max_iter=3, tol=0).fit(out_of_core(wanted, HERE / "files")), wanted.aggregator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards.SparkShards, "add", early)
        same_bits(fit("early").aggregator, wanted.aggregator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "Count", Killing)
        same_bits(fit("mid").aggregator, wanted.aggregator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_add_block", late)
        same_bits(fit("late").aggregator, wanted.aggregator)
    assert {"early", "mid", "late"} <= {path.name for path in HERE.iterdir()}

    # Answers to forty thousand tasks are more than the driver takes, and are written all the same.
    many = session.createDataFrame(text_log(40_000))
    votes = MajorityVote(checkpoint=str(HERE / "many"), n_shards=4).fit(many)
    answers = votes.answers(probabilities=True)
    answers.write.parquet(str(HERE / "answers"))
    with pytest.raises(failures(), match="maxResultSize"):
        answers.toArrow()
    print("answers are written", flush=True)
    session.stop()


if __name__ == "__main__":
    HERE = Path(sys.argv[1])
    main()
