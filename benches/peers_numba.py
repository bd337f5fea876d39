"""The numba rival: compiled, double precision, as many threads as the others have.

Small tables of counts take one fused pass over the annotations in task order, with counts of its own for each
thread. Tables that leave the cache take two: posteriors in task order, then counts in (worker, label) order,
one row of sums at a time in registers. Kernels are made per number of classes, a constant to the compiler,
which unrolls the loops over it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from peers import FLOOR, THREADS, Peer

if TYPE_CHECKING:
    from data import Codes

# Threads that spin while they wait lose much time on a machine with other work. Read when the pool starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))

# Factors multiplied before a rescale: with floors at 1e-10 eight of them stay far above the smallest double.
_STRIDE = 8
_LINE = 8  # doubles in a cache line


@intrinsic
def _prefetch(context: object, array: types.Type, index: types.Type) -> tuple:
    """Ask for the cache line of ``array[index]``; changes nothing else."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, word(0), word(3), word(1)])  # for reading, keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


@njit
def _by_key(keys: np.ndarray, size: int, payload: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counting sort: row pointers (size + 1,) and the payload in the order of the keys."""
    pointers = np.zeros(size + 1, np.int64)
    for key in keys:
        pointers[key + 1] += 1
    for key in range(size):
        pointers[key + 1] += pointers[key]
    place = pointers[:-1].copy()
    ordered = np.empty_like(payload)
    for row in range(len(keys)):
        key = keys[row]
        ordered[place[key]] = payload[row]
        place[key] += 1
    return pointers, ordered


@njit(parallel=True)
def _shares(pointers: np.ndarray, cells: np.ndarray, n_classes: int) -> np.ndarray:
    shares = np.zeros((len(pointers) - 1, n_classes))
    for task in prange(len(shares)):
        first, last = pointers[task], pointers[task + 1]
        for row in range(first, last):
            shares[task, cells[row] % n_classes] += 1.0 / (last - first)
    return shares


def _full_steps(k: int) -> tuple[Callable, Callable]:
    """Return how a label changes the row of its task and how the row enters the counts, k × k a worker."""

    @njit(fastmath=True)
    def multiply(row, confusion, cell):
        at = np.int64(cell) * k
        for c in range(k):
            row[c] *= confusion[at + c]

    @njit(fastmath=True)
    def add(counts, cell, row):
        at = np.int64(cell) * k
        for c in range(k):
            counts[at + c] += row[c]

    return multiply, add


def _one_coin_steps(k: int) -> tuple[Callable, Callable]:
    """Return the same for one number a worker: a label multiplies its own class by the odds of its worker."""

    @njit(fastmath=True)
    def multiply(row, odds, cell):
        row[cell % k] *= odds[cell // k]

    @njit(fastmath=True)
    def add(hits, cell, row):
        hits[cell // k] += row[cell % k]

    return multiply, add


@cache
def _kernels(method: str, k: int, ahead: int) -> SimpleNamespace:
    """Make the passes for ``k`` classes, prefetching ``ahead`` tasks before use (0: not at all)."""
    lines = -(-k // _LINE)
    multiply, add = (_full_steps if method == "full" else _one_coin_steps)(k)

    @njit(fastmath=True)
    def weigh(row, cells, first, last, parameters, prior):
        for c in range(k):
            row[c] = prior[c]
        for block in range(first, last, _STRIDE):
            for a in range(block, min(block + _STRIDE, last)):
                multiply(row, parameters, cells[a])
            total = 0.0
            for c in range(k):
                total += row[c]
            scale = 1.0 / total
            for c in range(k):
                row[c] *= scale

    @njit(parallel=True, fastmath=True)
    def fused(pointers, cells, parameters, prior, posterior, start, keep, counts, totals):
        n_tasks, n_parts = len(pointers) - 1, len(counts)
        for part in prange(n_parts):
            mine, sums, row = counts[part], np.zeros(k), np.empty(k)
            mine[:] = 0.0
            for task in range(n_tasks * part // n_parts, n_tasks * (part + 1) // n_parts):
                if ahead:
                    later = min(task + ahead, n_tasks - 1)
                    for a in range(pointers[later], pointers[later + 1]):
                        at = np.int64(cells[a]) * k
                        for line in range(lines):
                            _prefetch(parameters, at + line * _LINE)
                            _prefetch(mine, at + line * _LINE)
                first, last = pointers[task], pointers[task + 1]
                if start:
                    for c in range(k):
                        row[c] = posterior[task, c]
                else:
                    weigh(row, cells, first, last, parameters, prior)
                for a in range(first, last):
                    add(mine, cells[a], row)
                for c in range(k):
                    sums[c] += row[c]
                if keep:
                    for c in range(k):
                        posterior[task, c] = row[c]
            totals[part] = sums

    @njit(parallel=True, fastmath=True)
    def expect(pointers, cells, parameters, prior, posterior, totals):
        n_tasks, n_parts = len(pointers) - 1, len(totals)
        for part in prange(n_parts):
            sums, row = np.zeros(k), np.empty(k)
            for task in range(n_tasks * part // n_parts, n_tasks * (part + 1) // n_parts):
                weigh(row, cells, pointers[task], pointers[task + 1], parameters, prior)
                for c in range(k):
                    posterior[task, c] = row[c]
                    sums[c] += row[c]
            totals[part] = sums

    @njit(parallel=True, fastmath=True)
    def count(cell_pointers, tasks, posterior, counts):
        flat = posterior.ravel()
        for cell in prange(len(cell_pointers) - 1):
            sums = np.zeros(k)
            for a in range(cell_pointers[cell], cell_pointers[cell + 1]):
                at = np.int64(tasks[a]) * k
                for c in range(k):
                    sums[c] += flat[at + c]
            for c in range(k):
                counts[0, cell * k + c] = sums[c]

    @njit(parallel=True, fastmath=True)
    def normalise(counts, confusion):
        for worker in prange(len(confusion) // (k * k)):
            base, sums = worker * k * k, np.zeros(k)
            for label in range(k):
                for c in range(k):
                    at = base + label * k + c
                    total = 0.0
                    for part in range(len(counts)):
                        total += counts[part, at]
                    confusion[at] = max(total, FLOOR)
                    sums[c] += confusion[at]
            for label in range(k):
                for c in range(k):
                    confusion[base + label * k + c] /= sums[c]

    return SimpleNamespace(fused=fused, expect=expect, count=count, normalise=normalise)


class Numba(Peer):
    """EM without logarithms: products rescaled every eight labels."""

    name = "numba"
    ahead = 0
    # Larger counts miss the cache at random: measured, two passes are then quicker than one fused.
    fused_bytes = 2 << 20

    def __init__(self, codes: Codes, method: str) -> None:
        super().__init__(codes, method)
        k = codes.n_classes
        # One 32-bit number for worker and label: a pass reads 4 bytes an annotation, in task order.
        cells = codes.workers.astype(np.uint32) * np.uint32(k) + codes.labels.astype(np.uint32)
        self.pointers, self.cells = _by_key(codes.tasks, codes.n_tasks, cells)
        self.by_cell = None
        if method == "full" and 8 * codes.n_workers * k * k > self.fused_bytes:
            self.by_cell = _by_key(cells, codes.n_workers * k, codes.tasks.astype(np.int32))
        self.labels_of_worker = np.bincount(codes.workers, minlength=codes.n_workers)
        self.kernels = _kernels(method, k, self.ahead) if method != "vote" else None

    def run(self, n_iter: int) -> np.ndarray:
        posterior = _shares(self.pointers, self.cells, self.codes.n_classes)
        if self.method == "vote" or n_iter == 0:
            return posterior
        m, k = self.codes.n_workers, self.codes.n_classes
        parameters = np.empty(m * k * k if self.method == "full" else m)
        counts = np.empty((1 if self.by_cell else numba.get_num_threads(), len(parameters)))
        totals = np.empty((numba.get_num_threads(), k))
        normalise = self.kernels.normalise if self.method == "full" else self._odds
        prior = np.full(k, 1.0 / k)
        for step in range(n_iter + 1):
            # Step 0 counts the vote shares.
            if self.by_cell:
                self._two_passes(step, parameters, prior, posterior, counts, totals)
            else:
                ends = step == 0, step == n_iter
                table = self.pointers, self.cells
                self.kernels.fused(*table, parameters, prior, posterior, *ends, counts, totals)
            normalise(counts, parameters)
            prior = np.maximum(totals.sum(axis=0) / self.codes.n_tasks, FLOOR)
        return posterior

    def _two_passes(self, step, parameters, prior, posterior, counts, totals) -> None:
        if step:
            self.kernels.expect(self.pointers, self.cells, parameters, prior, posterior, totals)
        else:
            totals[:] = posterior.sum(axis=0) / len(totals)
        self.kernels.count(*self.by_cell, posterior, counts)

    def _odds(self, hits: np.ndarray, odds: np.ndarray) -> None:
        skill = np.clip(hits.sum(axis=0) / np.maximum(self.labels_of_worker, 1), FLOOR, 1 - FLOOR)
        odds[:] = skill / np.maximum((1 - skill) / max(self.codes.n_classes - 1, 1), FLOOR)


class NumbaPrefetch(Numba):
    """Always fused, with lines asked for six tasks ahead by an LLVM intrinsic: beyond numba's language."""

    name = "numba+prefetch"
    methods = ("full",)
    ahead = 6
    fused_bytes = 1 << 62
