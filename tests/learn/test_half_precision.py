"""Half precision on processors that announce more than they have: refused before it ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from learners import backbone, crowd

from manyhands import learn
from manyhands._train import half_precision as half

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what its processor announces")

CPU = torch.device("cpu")
PLAIN = "processor\t: 0\nmodel name\t: some processor\nflags\t\t: fpu sse4_1 avx2 avx512f avx512_bf16\nbugs\t\t:\n"
DIES = "import os, signal\nos.kill(os.getpid(), signal.{})"
WORKS = "pass"
WAITS = "import time\ntime.sleep(60)"


@pytest.fixture(autouse=True)
def _forget():
    half._death.cache_clear()
    yield
    half._death.cache_clear()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose processor announces further flags, and where nothing seems to limit torch.

    Only what `half` sees is changed. torch reads the limit from the environment at its first step, whichever test takes
    that step: without a limit it would end the process on machines that announce AMX and do not have it.
    """

    def announcing(flags: str) -> None:
        told = tmp_path / "cpuinfo"
        told.write_text(PLAIN.replace("avx512_bf16", f"avx512_bf16 {flags}"))
        monkeypatch.setattr(half, "_PROCESSOR", told)

    unlimited = {name: value for name, value in os.environ.items() if name not in half._LIMITS}
    monkeypatch.setattr(half, "os", SimpleNamespace(environ=unlimited, pathsep=os.pathsep))
    return announcing


@pytest.fixture
def trials(monkeypatch):
    """The commands of all processes that are started."""
    started: list[Any] = []
    run = subprocess.run

    def counted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    return started


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_trial_is_a_step_that_torch_can_take(precision):
    # Limited, so that it does not depend on the processor.
    limited = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", half._TRIAL, precision], env=limited, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_step_that_works_is_tried_once(machine, trials, monkeypatch, precision):
    machine("amx_tile amx_bf16")
    monkeypatch.setattr(half, "_TRIAL", WORKS)
    half.check_precision(precision, CPU)
    half.check_precision(precision, CPU)
    assert len(trials) == 1


@pytest.mark.parametrize("fault", ["SIGILL", "SIGSEGV"])
def test_a_step_that_ends_its_process_is_refused_before_work(machine, trials, monkeypatch, fault):
    machine("amx_bf16")
    monkeypatch.setattr(half, "_TRIAL", DIES.format(fault))
    for _ in range(2):
        # X is nothing to train on: it is not looked at.
        with pytest.raises(ValueError, match=f"{fault}.*ONEDNN_MAX_CPU_ISA.*AVX512_CORE"):
            learn.CCEM(backbone(), precision="bfloat16", device="cpu").fit(None, None)
    assert len(trials) == 1


def test_nothing_is_tried_where_nothing_is_announced(machine, trials):
    log = crowd(n=40)
    machine("")
    learn.CCEM(backbone(), precision="bfloat16", max_epochs=1, device="cpu").fit(log.X, log.votes)
    assert not trials


def test_full_precision_and_accelerators_do_not_even_look(machine, trials, monkeypatch):
    log = crowd(n=40)
    machine("amx_tile")
    monkeypatch.setattr(half, "_announces_matrices", lambda: pytest.fail("looked at the processor"))
    learn.CCEM(backbone(), max_epochs=1, device="cpu").fit(log.X, log.votes)
    half.check_precision("bfloat16", torch.device("cuda"))
    assert not trials


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
@pytest.mark.parametrize(
    ("limit", "leaves_out"),
    [("AVX512_CORE", True), ("avx2", True), ("AVX512_CORE_AMX", False), ("ALL", False), ("AVX_512", False)],
)
def test_a_limit_that_leaves_matrices_out_is_believed(machine, monkeypatch, name, limit, leaves_out):
    machine("amx_tile")
    monkeypatch.setitem(half.os.environ, name, limit)
    monkeypatch.setattr(half, "_TRIAL", DIES.format("SIGILL"))
    if leaves_out:
        half.check_precision("bfloat16", CPU)
    else:
        with pytest.raises(ValueError, match="process"):
            half.check_precision("bfloat16", CPU)


def test_no_file_about_the_processor_announces_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(half, "_PROCESSOR", tmp_path / "none")
    assert not half._announces_matrices()
    monkeypatch.setattr(half, "_PROCESSOR", tmp_path)
    assert not half._announces_matrices()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda patch: patch.setattr(half, "_TRIAL", "raise SystemExit(3)"), "ended with code 3"),
        (lambda patch: patch.setattr(half, "_TRIAL", DIES.format("SIGKILL")), "ended with code -9"),
        (lambda patch: patch.setattr(half, "_PATIENCE", 0.01) or patch.setattr(half, "_TRIAL", WAITS), "timed out"),
        (lambda patch: patch.setattr("sys.executable", "/no/such/python"), "No such file"),
        (lambda patch: patch.setattr("sys.executable", ""), "no interpreter"),
        (lambda patch: patch.setattr("sys.frozen", True, raising=False), "no interpreter"),
    ],
)
def test_what_cannot_be_tried_is_told(machine, monkeypatch, change, why):
    machine("amx_tile")
    change(monkeypatch)
    with pytest.warns(RuntimeWarning, match=f"{why}"):
        half.check_precision("bfloat16", CPU)
