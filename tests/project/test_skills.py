"""Files for coding agents name what exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from manyhands.cli import _parser

ROOT = Path(__file__).parents[2]
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.parent.name)
def test_commands_of_a_skill_parse(skill: Path) -> None:
    lines = re.findall(r"^ *(manyhands .*)$", skill.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    for line in lines:
        assert callable(_parser().parse_args(shlex.split(line)[1:]).run)
    head = skill.read_text(encoding="utf-8").split("---")[1]
    assert f"name: {skill.parent.name}" in head
    assert "description: " in head


def test_links_of_the_index_for_agents_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).is_file()] == []
