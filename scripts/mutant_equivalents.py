"""Changes that no test can notice, since no answer changes: mutants.py lists them apart and does not judge them."""

from __future__ import annotations

#: Why a change makes no difference, by file, line and change.
EQUIVALENTS: dict[str, str] = {
    "masks/shapes.py: group = _core.densest(own, n + _NOTHING, width) if apart else 0.0: 0.0 → (1.0)": (
        "multiplied by `apart`, which is zero there"
    ),
    "masks/shapes.py: usual=self.reach**2 / 9,: 9 → (10)": "a start from which the same fixed point is reached",
}
