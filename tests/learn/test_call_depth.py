"""The way from `fit` to the loss stays short."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import deferrals
import pytest
from learners import backbone, crowd

import manyhands
from manyhands import defer, learn

#: Frames of the library from `fit` to `_loss`, both included.
DEEPEST = 6
PACKAGE = str(Path(manyhands.__file__).parent)


def _frames_to_loss(model: Any, *data: Any) -> list[str]:
    """Names of our frames, from `fit` to the first call of the model's `_loss`."""
    loss = type(model)._loss.__code__
    names: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code is not loss or names:
            return
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_filename.startswith(PACKAGE):
                names.insert(0, at.f_code.co_name)
            at = at.f_back

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        model.fit(*data)
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.parametrize("make", [learn.CrowdLayer, learn.CCEM, learn.MaxMIG])
def test_learners(make):
    log = crowd(n=40)
    names = _frames_to_loss(make(backbone(), max_epochs=1), log.X, log.votes)
    assert (names[0], names[-1]) == ("fit", "_loss")
    assert len(names) <= DEEPEST, names


@pytest.mark.parametrize("make", [defer.OneVsAll, defer.NaiveDeferral])
def test_teams(make):
    team = deferrals.team(n=40)
    names = _frames_to_loss(make(backbone(), max_epochs=1), team.X, team.truth, team.votes)
    assert (names[0], names[-1]) == ("fit", "_loss")
    assert len(names) <= DEEPEST, names
