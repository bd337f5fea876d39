"""What the workflows may do, and what they call: rights by name, other people's code by commit."""

import re
from pathlib import Path

import pytest

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))
BY_NAME = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def jobs(text):
    """Split a workflow into its jobs, by name."""
    parts = re.split(r"^  (\w[\w-]*):\n", text.partition("\njobs:\n")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} >= {"tests", "wheels", "audit"}


@BY_NAME
def test_actions_are_named_by_commit(path):
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@BY_NAME
def test_jobs_have_no_rights_but_those_they_name(path):
    text = path.read_text(encoding="utf-8")
    assert "\npermissions: {}\n" in text
    for name, job in jobs(text).items():
        (rights,) = re.findall(r"^    permissions:\n((?:      .*\n)+)", job, flags=re.MULTILINE)
        given = re.findall(r"^ *([\w-]+): (\w+)", rights, flags=re.MULTILINE)
        # Only what publishes may prove to an index who it is.
        assert given == ([("id-token", "write")] if name == "publish" else [("contents", "read")])


@BY_NAME
def test_nothing_that_runs_floats(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"pipx run (?!--spec)", text)
    for package in re.findall(r"pip install ([\w-]+\S*)", text):
        assert "==" in package, package
    for image in re.findall(r"(?:docker run|image:) .*?(python\S*:\S+)", text):
        assert "@sha256:" in image, image
    assert "@release/" not in text


@BY_NAME
def test_code_from_pull_requests_sees_no_token(path):
    text = path.read_text(encoding="utf-8")
    assert "pull_request_target" not in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
