"""Methods over plain kernels: the same steps in Python, every compiled kernel replaced by its NumPy twin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from manyhands import _core
from manyhands.moments import _factors, _spa, spectral, statistics
from manyhands.moments import multi_spa as moment_methods

from . import factor, moments
from .em import Rows, expect

_MODULES = (statistics, _factors, _spa, spectral, moment_methods)


class _PlainTable:
    """Stands in for the compiled table of `votes`; what has no reference implementation here is the real thing."""

    def __init__(self, table: _core.Table, rows: Rows) -> None:
        self.real, self._rows = table, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def moments_first(self) -> Any:
        return moments.moments_first(self._rows)

    def moments_pairs(self, **options: Any) -> Any:
        return moments.moments_pairs(self._rows, **options)

    def moments_triples(self, pairs: Any, **options: Any) -> Any:
        return moments.moments_triples(self._rows, pairs, **options)

    def moments_groups(self, groups: Any) -> Any:
        return dict(zip(("second", "third", "n_tasks"), moments.moments_groups(self._rows, groups), strict=True))

    def moments_cross(self, groups: Any) -> Any:
        return moments.moments_cross(self._rows, groups)


class _Plain:
    """Stands in for the compiled module; what has no reference implementation here is the real thing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_core, name)

    def em_fit(self, table: Any, **options: Any) -> Any:
        return _core.em_fit(getattr(table, "real", table), **options)

    components = staticmethod(moments.components)
    spa = staticmethod(factor.spa)
    simplex_lstsq = staticmethod(factor.simplex_lstsq)

    def nmf_fit(self, *args: Any, progress: Any = None, **options: Any) -> Any:
        return _as_dict(factor.nmf_fit(*args, **options))

    def cpd_fit(self, *args: Any, progress: Any = None, **options: Any) -> Any:
        return _as_dict(factor.cpd_fit(*args, **options))


def _as_dict(result: Any) -> dict[str, Any]:
    return {
        "prior": result.point.prior,
        "confusion": result.point.confusion,
        "history": np.array(result.history),
        "n_iter": result.n_iter,
        "converged": result.converged,
    }


@contextmanager
def plain_kernels(votes: Any) -> Iterator[None]:
    """Within, methods of moments that are fitted to `votes` run on NumPy alone."""
    rows, table = Rows.of(votes), votes.table
    plain = _PlainTable(table, rows)

    def posterior_under(_: Any, prior: Any, confusion: Any) -> Any:
        return expect(rows, prior, confusion, np.full(rows.n_tasks, -1), hard=False)[0]

    with ExitStack() as stack:
        for module in _MODULES:
            stack.enter_context(mock.patch.object(module, "_core", _Plain()))
        stack.enter_context(mock.patch.object(moment_methods, "posterior_under", posterior_under))
        own = property(lambda self: plain if self._table is table else self._table)
        stack.enter_context(mock.patch.object(type(votes), "table", own))
        yield
