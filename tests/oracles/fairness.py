"""Plain twins of what is measured between groups, and the best answers found by trying all."""

from __future__ import annotations

from itertools import product

import numpy as np


def rates(said: list[int], truth: list[int], groups: list[int], positive: int) -> dict[str, dict[int, float]]:
    """Rates of each group by counting, one task at a time."""
    found: dict[str, dict[int, float]] = {}
    for name, counts, hits in (
        ("demographic_parity", lambda s, t: True, lambda s, t: s == positive),
        ("equal_opportunity", lambda s, t: t == positive, lambda s, t: s == positive),
        ("false_positives", lambda s, t: t != positive, lambda s, t: s == positive),
        ("accuracy", lambda s, t: True, lambda s, t: s == t),
    ):
        found[name] = {}
        for group in sorted(set(groups)):
            cases = [(s, t) for s, t, g in zip(said, truth, groups, strict=True) if g == group and counts(s, t)]
            found[name][group] = sum(hits(s, t) for s, t in cases) / len(cases) if cases else float("nan")
    return found


def best_answers(posterior: np.ndarray, groups: np.ndarray, measure: str, gap: float) -> float:
    """The greatest expected number of right answers of two classes that keeps a gap, by trying all answers."""
    best = -np.inf
    p = posterior[:, 1]
    weight = {"demographic_parity": np.ones(len(p)), "equal_opportunity": p, "false_positives": 1 - p}[measure]
    for answers in product((0, 1), repeat=len(p)):
        said = np.array(answers)
        found = [weight[(groups == g) & (said == 1)].sum() / weight[groups == g].sum() for g in np.unique(groups)]
        if max(found) - min(found) <= gap + 1e-12:
            best = max(best, float(posterior[np.arange(len(p)), said].sum()))
    return best
