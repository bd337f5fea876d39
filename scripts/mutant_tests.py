"""Which tests reach a change, for mutants.py and rust_mutants.py, and the quickest of them first.

A run of the sound code with marks at the places of all changes of a sample writes a log: the number of each mark when
a test first reaches it, and a line that starts with ``@`` after each test.
"""

from __future__ import annotations

from collections import defaultdict

#: Seconds of processor time that the tests of one change may take, on the sound code.
MOST_SECONDS = 60.0

#: A test with the seconds it takes.
Timed = tuple[float, str]

#: A plugin of pytest that ends the log of each test with its seconds and its name. What is reached by imports, or by a
#: fixture, which other tests may share, counts for all tests of the run. ``forget()`` has marks noted again. Where the
#: environment limits the seconds of processor time, tests that would start later are left out.
PLUGIN = """
import os, pytest

{forget}

def log(line):
    with open(os.environ["MUTANT_LOG"], "a") as file:
        file.write(line + "\\n")

def pytest_collection_finish(session):
    log("@shared")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    result = yield
    log("@shared")
    return result

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    forget()
    start, failed = sum(os.times()[:4]), item.session.testsfailed
    if start > float(os.environ.get("MUTANT_SECONDS", "inf")):
        item.add_marker(pytest.mark.skip)
        return (yield)
    result = yield
    passed = item.session.testsfailed == failed
    log(f"@{{sum(os.times()[:4]) - start if passed else 'failed'}} {{item.nodeid}}")
    return result
"""


def reached_in(log: str) -> dict[int, list[Timed]]:
    """Read which tests reach each mark; what fails on the sound code cannot judge a change."""
    reached: dict[int, list[Timed]] = defaultdict(list)
    shared: set[int] = set()
    tests: list[Timed] = []
    numbers: list[int] = []
    for line in log.splitlines():
        if not line.startswith("@"):
            numbers.append(int(line))
            continue
        seconds, _, name = line[1:].partition(" ")
        if seconds == "shared":
            shared.update(numbers)
        elif seconds == "failed":
            print(f"left out, since it fails on the sound code: {name}", flush=True)
        else:
            tests.append((float(seconds), name))
            for number in numbers:
                reached[number].append(tests[-1])
        numbers = []
    return reached | dict.fromkeys(shared, tests)


def total(tests: list[Timed]) -> float:
    """Return the seconds of all tests."""
    return sum(seconds for seconds, _ in tests)


def within(tests: list[Timed], most: float) -> list[Timed]:
    """Return the first tests, at least one, that take at most `most` seconds."""
    taken: list[Timed] = []
    for test in tests:
        if taken and total(taken) + test[0] > most:
            break
        taken.append(test)
    return taken


def by_file(tests: list[Timed]) -> list[Timed]:
    """Order tests so that those of a file follow one another, since they share fixtures; quick files first."""
    files: dict[str, list[Timed]] = defaultdict(list)
    for test in tests:
        files[test[1].partition("::")[0]].append(test)
    return [test for file in sorted(files.values(), key=total) for test in file]
