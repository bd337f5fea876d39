"""Half precision on processors, tried in a process of its own where it could end this one.

Some virtual machines announce instructions for matrices (AMX) that they do not have. torch takes them for half
precision, and the process that does so is killed without a word.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import torch

#: Where Linux lists the features of its processor.
_PROCESSOR = Path("/proc/cpuinfo")
_MATRIX_FLAGS = frozenset({"amx_tile", "amx_bf16", "amx_fp16"})
#: What limits the instructions that torch's kernels take, the newer name first, and limits that leave AMX out.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
_WITHOUT_MATRICES = frozenset(
    {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"}
    | {"AVX512_CORE_FP16", "AVX10_1_512"}
)
#: Ends by which a trial fails, by what its process returns. Another, such as lack of memory, is not evidence.
_FAULTS = {-fault: fault.name for fault in (signal.SIGILL, signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT)}
#: Seconds: importing torch takes most of them, on a busy machine many.
_PATIENCE = 300
#: A step of training with a convolution and a product of matrices.
_TRIAL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import torch
from torch import nn
torch.set_num_threads(1)
network = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 64))
with torch.autocast("cpu", getattr(torch, sys.argv[1])):
    made = network(torch.ones(32, 16, 8, 8))
made.float().sum().backward()
"""


def check_precision(precision: str, device: torch.device) -> None:
    """Raise for a precision that would end the process; full precision, and accelerators, are not looked at."""
    if precision == "float32" or device.type != "cpu" or not _announces_matrices() or _is_limited():
        return
    died_of = _death(precision)
    if died_of is not None:
        raise ValueError(
            f'precision="{precision}" would end the process here: the processor announces instructions for matrices '
            f"(AMX), and a trial of them was killed by {died_of}. Set {_LIMITS[0]}=AVX512_CORE in the environment "
            'before Python starts, or take precision="float32"'
        )


def _announces_matrices() -> bool:
    """Whether the processor reports AMX."""
    try:
        cpu_info = _PROCESSOR.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in cpu_info.splitlines() if line.startswith("flags")), "")
    return not _MATRIX_FLAGS.isdisjoint(flags.split())


def _is_limited() -> bool:
    """Whether the environment keeps torch from AMX."""
    limit = next((os.environ[name] for name in _LIMITS if os.environ.get(name)), "")
    return limit.upper() in _WITHOUT_MATRICES


@cache
def _death(precision: str) -> str | None:
    """The signal that ends a step of training in another process; None where it is survived, or cannot be tried."""
    if not sys.executable or getattr(sys, "frozen", False):
        _tell_untried(precision, "there is no interpreter to try it with")
        return None
    try:
        code = _try_in_process(precision)
    except (OSError, subprocess.TimeoutExpired) as error:
        _tell_untried(precision, str(error))
        return None
    if code and code not in _FAULTS:
        _tell_untried(precision, f"the trial ended with code {code}")
    return _FAULTS.get(code)


def _try_in_process(precision: str) -> int:
    """What another process returns that takes a step of training."""
    command = [sys.executable, "-c", _TRIAL, precision]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
    ).returncode


def _tell_untried(precision: str, why: str) -> None:
    warnings.warn(
        f'whether precision="{precision}" works on this processor could not be tried ({why}); if the process ends '
        f"without a word, set {_LIMITS[0]}=AVX512_CORE before Python starts",
        RuntimeWarning,
        stacklevel=2,
    )
