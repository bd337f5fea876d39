"""Install a built wheel where no compiler can be found, and aggregate a log with it there.

Usage: ``python scripts/smoke_wheel.py dist`` (a folder with one wheel, whose sdist is looked at too) or
``python scripts/smoke_wheel.py dist/manyhands-....whl``.

Needs nothing but the standard library. Exits with a message at the first thing that is not as it should be:
a wheel that is not for the stable ABI, a file missing from it, a dependency that would have to be compiled, a
wrong label, or an installation larger than `MAX_MEGABYTES`.
"""

import csv
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

MAX_MEGABYTES = 350
COMPILERS = ("cc", "gcc", "g++", "clang", "cl", "cargo", "rustc", "make", "cmake")
NEVER_IMPORTED = ("torch", "pandas", "polars", "matplotlib", "scipy", "sklearn")
CLASSES = ("cat", "dog", "fox")
N_TASKS = 60


def main(argument: str) -> None:
    """Run every check on the wheel that `argument` names."""
    wheel = find_wheel(Path(argument)).resolve()
    for sdist in Path(argument).glob("*.tar.gz"):
        check_sdist(sdist)
    check_tags(wheel)
    check_contents(wheel)
    with tempfile.TemporaryDirectory(prefix="manyhands-smoke-") as folder:
        room = CleanRoom(Path(folder))
        room.run("python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel))
        check_import(room)
        check_aggregate(room)
        check_bad_input(room)
        report_size(room)
    print(f"smoke test passed: {wheel.name}")


def find_wheel(path: Path) -> Path:
    """Return `path` if it is a wheel, or the only wheel in it if it is a folder."""
    if path.is_file():
        return path
    wheels = sorted(path.glob("*.whl"))
    require(len(wheels) == 1, f"expected one wheel in {path}, found {[w.name for w in wheels]}")
    return wheels[0]


def check_tags(wheel: Path) -> None:
    """One wheel must serve every Python from 3.11 on, and on Linux more than the machine it was built on."""
    python, abi, platform = wheel.stem.split("-")[-3:]
    require((python, abi) == ("cp311", "abi3"), f"{wheel.name} is tagged {python}-{abi}, not cp311-abi3")
    # A bare `linux_*` tag means that the library leans on something of this machine: no index accepts it.
    require(not platform.startswith("linux"), f"{wheel.name} is neither manylinux nor musllinux")


def check_contents(wheel: Path) -> None:
    """Ask for one compiled module, the stub, the typing marker and the licence, and for no stray file."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = [name for name in names if name.endswith((".so", ".pyd"))]
    require(
        len(compiled) == 1 and compiled[0] in ("manyhands/_core.abi3.so", "manyhands/_core.pyd"),
        f"expected one compiled module in {wheel.name}, found {compiled}",
    )
    for wanted in ("manyhands/_core.pyi", "manyhands/py.typed"):
        require(wanted in names, f"{wanted} is missing from {wheel.name}")
    require(any(".dist-info/" in n and n.endswith("LICENSE") for n in names), f"no licence in {wheel.name}")
    strays = [n for n in names if not n.startswith(("manyhands/", "manyhands-")) or "__pycache__" in n]
    require(not strays, f"{wheel.name} holds files that are not the package's: {strays}")


def check_sdist(sdist: Path) -> None:
    """Ask for the sources and their lock file, and for nothing that a build or an environment left behind."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "LICENSE", "README.md", "rust/lib.rs"):
        require(wanted in names, f"{wanted} is missing from {sdist.name}")
    known = ("rust/", "python/manyhands/", "benches/", "tests/")
    strays = [n for n in names if ("/" in n and not n.startswith(known)) or n.endswith((".so", ".pyd", ".pyc"))]
    require(not strays, f"{sdist.name} holds {len(strays)} files that are not sources, such as {strays[:3]}")


class CleanRoom:
    """A new virtual environment whose programs can find one another and nothing else.

    Parameters
    ----------
    folder : Path
        An empty folder. The environment goes into it, and commands run in it, out of any checkout's sight.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = folder / "environment"
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(self.environment)
        self.bin = self.environment / ("Scripts" if os.name == "nt" else "bin")
        found = [tool for tool in COMPILERS if shutil.which(tool, path=str(self.bin))]
        require(not found, f"the clean environment is not clean: it has {found}")

    def attempt(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment and return what came of it."""
        outside = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        environ = {k: v for k, v in os.environ.items() if k.upper() not in outside}
        return subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.folder,
            env={**environ, "PATH": str(self.bin), "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def run(self, program: str, *arguments: str) -> str:
        """Run a program that must succeed and return its standard output."""
        result = self.attempt(program, *arguments)
        command = " ".join((program, *arguments))
        output = result.stdout + result.stderr
        require(result.returncode == 0, f"`{command}` ended with code {result.returncode}\n{output}")
        return result.stdout


def check_import(room: CleanRoom) -> None:
    """Import the installed package, and see that it brings no large library with it."""
    code = "import manyhands, sys; print(manyhands.__file__, *sys.modules, sep='\\n')"
    path, *modules = room.run("python", "-c", code).splitlines()
    inside = room.environment.resolve() in Path(path).resolve().parents
    require(inside, f"imported {path}, not what was installed")
    unwanted = sorted(set(modules) & set(NEVER_IMPORTED))
    require(not unwanted, f"importing manyhands imports {unwanted}")


def log_rows() -> Iterator[tuple[str, str, str]]:
    """Yield annotations: each task has three right answers, one slip, and one of a worker always wrong."""
    for i in range(N_TASKS):
        yield f"task{i:02d}", "wrong", CLASSES[(i + 2) % 3]
        for w in range(4):
            yield f"task{i:02d}", f"worker{w}", CLASSES[(i + (i // 3 % 4 == w)) % 3]


def check_aggregate(room: CleanRoom) -> None:
    """Aggregate a CSV file from the command line and compare every label with the truth."""
    with open(room.folder / "log.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "worker", "label"))
        writer.writerows(log_rows())
    room.run("manyhands", "aggregate", "log.csv", "-o", "labels.csv")
    with open(room.folder / "labels.csv", newline="", encoding="utf-8") as file:
        labels = {row["task"]: row["label"] for row in csv.DictReader(file)}
    require(labels == {f"task{i:02d}": CLASSES[i % 3] for i in range(N_TASKS)}, f"wrong labels: {labels}")


def check_bad_input(room: CleanRoom) -> None:
    """Name a file that is not there: one line and exit code 2 must come back, not a traceback."""
    result = room.attempt("manyhands", "aggregate", "absent.csv", "-o", "labels.csv")
    complaint = result.stderr.strip()
    require(
        result.returncode == 2 and "absent.csv" in complaint and "Traceback" not in complaint,
        f"a missing file gave exit code {result.returncode} and: {complaint}",
    )


def report_size(room: CleanRoom) -> None:
    """Print the size of everything installed, dependencies included, and reject too much of it."""
    files = (path for path in room.environment.rglob("*") if path.is_file() and not path.is_symlink())
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    size = f"installed size with all dependencies: {megabytes:.0f} MB (limit {MAX_MEGABYTES} MB)"
    print(size)
    require(megabytes <= MAX_MEGABYTES, size)


def require(condition: bool, message: str) -> None:
    """Exit with `message` unless `condition` holds."""
    if not condition:
        sys.exit(f"smoke test failed: {message}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
