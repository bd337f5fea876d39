"""How much memory a process may still take: what the machine has left, and what limits and containers allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Files of a control group: the limit, what is taken, and in ``memory.stat`` the part of it that can be given up.
_GROUPS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_memory() -> int | None:
    """Bytes that this process may still take, without swapping; None where the system does not state it.

    The least of what the machine has available, what limits of the process (``ulimit -v``, ``ulimit -d``) leave, and
    what the control groups of a container leave, also those that it is nested in.
    """
    limits = [*_of_machine(), *_of_process(), *_of_container()]
    return max(min(limits), 0) if limits else None


def check_memory(needed: int, what: str, instead: str) -> None:
    """Reject what cannot fit in memory, before anything is allocated; where the free memory is unknown, try."""
    free = free_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} would take at least {_gigabytes(needed)}, and {_gigabytes(free)} are free; {instead}"
        )


def _gigabytes(n: int) -> str:
    return f"{n / 2**30:,.1f} GB"


def _of_machine(proc: Path = Path("/proc")) -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        yield _kilobytes(proc / "meminfo", "MemAvailable")


def _of_process(proc: Path = Path("/proc")) -> Iterator[int]:
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            with suppress(OSError, ValueError, KeyError):
                yield most - _kilobytes(proc / "self" / "status", field)


def _of_container(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """What each control group leaves, from the process's own up to the one that holds them all."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        # The second version has one tree, without a name, the first one for each controller.
        kind = "memory" if controllers else ""
        if kind and kind not in controllers.split(","):
            continue
        top = root / kind
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(top):
                break
            with suppress(OSError, ValueError, KeyError):  # "max" is not a number: no limit
                yield _left(folder, *_GROUPS[kind])


def _left(group: Path, limit: str, taken: str, cached: str) -> int:
    most, used, stat = ((group / name).read_text(encoding="ascii") for name in (limit, taken, "memory.stat"))
    given_up = dict(line.split() for line in stat.splitlines())[cached]
    return int(most) - int(used) + int(given_up)


def _kilobytes(path: Path, name: str) -> int:
    """A line such as ``VmSize:   1234 kB``, in bytes."""
    lines = dict(line.split(":", 1) for line in path.read_text(encoding="ascii").splitlines())
    return int(lines[name].split()[0]) * 1024
