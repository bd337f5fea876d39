"""Changes that no test can notice, since no answer changes: mutants.py lists them apart and does not judge them."""

from __future__ import annotations

#: Why a change makes no difference, by file, from ``python/manyhands/`` on, and the change as ``--list`` names it.
EQUIVALENTS: dict[str, str] = {}
