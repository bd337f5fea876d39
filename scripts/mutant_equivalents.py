"""Changes that need no test: mutants.py and rust_mutants.py list them apart and do not judge them.

No answer changes, or a constant that was chosen by trials moves to a neighbor that is as good.
"""

from __future__ import annotations

#: Why, by file, line of code and change.
EQUIVALENTS: dict[str, str] = {
    "audit/colluders.py: _ROUNDS, _SWEEPS, _ODD = 10, 30, 3.0: 3.0 → (4.0)": "tuning constant of a robust weight",
    "audit/colluders.py: return direction if direction @ total >= 0 else -direction: direction if direction @ total >= 0 else -direction → (direction if not direction @ total >= 0 else -direction)": "one of several starts; others end in the same groups",
    "masks/shapes.py: group = _core.densest(shrunk, n + _NOTHING, width) if p_two_groups else 0.0: 0.0 → (1.0)": "multiplied by `apart`, which is zero there",
    "masks/shapes.py: usual=self.reach**2 / 9,: 9 → (10)": "a start from which the same fixed point is reached",
    "boxes/table.py: sizes |= {what: len(each) for each, (_, what) in zip(values, number_columns, strict=True)}: True → (False)": "one is made of the other",
    "categorical/shards/encoder.py: codes, names = Column(column.data, column.what, sound=True).encode(): True → (False)": "text that was checked is checked again",
    "categorical/shards/encoder.py: final = np.full(NO_LABEL + 1, NO_LABEL, np.uint16): 1 → (2)": "an entry without a code",
    "numeric/blend.py: fold_of_worker = np.full(table.n_workers, -1): 1 → (2)": "any number that no part has",
    "numeric/blend.py: member_values = [mean, *(model * gain + shift for model, gain, shift in zip(models, gains, shifts, strict=True))]: True → (False)": "all three have an entry for each model",
    "sequences/simulate.py: right = (true if inside else 0) if true > 0 and true % 2 == 0 else true: 0 → (1)": "an even number above 0 is above 1",
    "testing/learners.py: answers = same ^ (np.random.default_rng(1).random(4 * n) < 0.2): 1 → (2)": "another random draw",
    'testing/crowds.py: "no agreement": of_rows(np.array([(task, worker, worker) for task in range(4) for worker in range(3)])),: 3 → (4)': "one worker more who agrees with no other",
    'clustering/checks.py: return PairLog(table, tuple("abcdefgh"[: table[:, :2].max() + 1]), tuple("uvwxyz"[: table[:, 2].max() + 1])): 2 → (3)': "no worker of these logs has a code above those of items",
    "sequences/votes.py: before = np.concatenate([[0], codes[:-1]]).astype(np.int64): 0 → (1)": "the first token begins a sequence, and the next line sets all of these to 0",
    "moments/spectrum.py: wide = blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1): 1 → (2)": "blocks are square, and NumPy takes any negative length for the one to be found",
    "spark/checkpoint.py: names, chunk, chunks, data = zip(*rows, strict=True): True → (False)": "each row is a tuple of four",
    "spark/encoding.py: _MOST_OF_A_TASK = (1 << 32) - 1: 1 → (2)": "no log of a test has a task with 2**32 rows",
    "_base/sources.py: free = free_memory() if self._watched and self._given > _WATCH_FROM else None: self._given > _WATCH_FROM → (self._given >= _WATCH_FROM)": "from which byte on memory is watched",
    "io/exports/shapes.py: frame = Masks.from_arrays([0], [0], [pixels]).to_frame(): 0 → (1)": "names of a task and a worker that are not written",
    "cli/kinds.py: if n_bytes is None or free is None or n_bytes <= free:: n_bytes <= free → (n_bytes < free)": "an estimate that meets the limit to the byte",
    "cli/method_names.py: self.n_given = len(truth[0]): 0 → (1)": "both columns have an entry per row",
    "sequences/design.py: return (tag == truth, tag == before, truth == before), tag == truth: tag == before → (tag != before)": "part of a key that only has to be another for other cells",
    "moments/spectral.py: vectors = np.where(size > 0, images / np.where(size > 0, size, 1.0), vectors): 1.0 → (2.0)": "a divisor where the quotient is not used",
    "moments/_factors.py: empty = total <= _NO_MASS: total <= _NO_MASS → (total < _NO_MASS)": "a mass that equals a small limit to the last bit",
    "categorical/_reference.py: _MOST_PARAMETERS = 600: 600 → (601)": "a limit of memory and time",
    "categorical/_groups.py: _THRESHOLDS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0): 0.5 → (1.5)": "one value of a grid; 0.25 and 1.0 on either side are tried as well",
    "moments/_spa.py: confusion = np.full((m, k, k), 1.0 / k): 1.0 / k → (1.0 * k)": (
        "rows of workers that are not solved, which are replaced before they are used"
    ),
    "agreement/numbers.py: used = (n >= min_overlap) & (xx > 1e-18 * n) & (yy > 1e-18 * n): 1e-18 * n → (1e-18 / n)": (
        "a limit of rounding, far below any variance"
    ),
    "categorical/_groups.py: n, m = codes.max() + 1, len(codes): 1 → (2)": (
        "one group more without members, that no code names and no threshold keeps"
    ),
    "learn/mixture.py: margins = (output[:, 0] - output[:, 1])[batch.sample] * toward: (output[:, 0] - output[:, 1])[batch.sample] * toward → ((output[:, 0] - output[:, 1])[batch.sample] / toward)": "a sign: 1 or -1",
    "_train/loader.py: with _temporary_seed(0):: 0 → (1)": "any seed will do, since nothing compares with features of a stream",
    "io/exports/export.py: return arrow.table({name: as_column(part) for name, part in zip(names, zip(*rows, strict=True), strict=True)}): True → (False)": "each row has an entry per name",
    "defer/experts.py: centres, group = accuracy[centers], np.full(len(accuracy), -1): -1 → (1)": "the first center is an expert, whose nearest group is 0: not all groups are 1 in the first step",
    "sequences/votes.py: t, n = max(len(votes._tags.types), 1), votes.n_tokens + 1: 1 → (2)": (
        "a factor of keys, and a bound of them: greater ones serve as well"
    ),
    "categorical/panels.py: return cls(np.clip(share, 0.0, 1.0), total, known): 1.0 → (2.0)": (
        "a share of a part in its whole, above 1 by rounding alone"
    ),
    "multilabel/anchoring.py: n_known: float = field(metadata=number(least=0)): 0 → (1)": (
        "a correction that is written rests on at least one known set"
    ),
    'desk/journal.py: flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0): 0 → (1)': (
        "the bit of O_WRONLY, which is set anyway"
    ),
    "judges/verdicts.py: words = [key for key, number in zip(keys, numeric, strict=True) if not number]: True → (False)": (
        "one has an entry for each of the other"
    ),
    "judges/part.py: slope = float(x @ value[mine] / (x @ x)) if x @ x > TINY else 0.0: x @ x > TINY → (x @ x >= TINY)": (
        "a sum of squares that equals a small limit to the last bit"
    ),
    "sequences/design.py: part = 0 if tag == 0 else 1 + (tag - 1) % 2: tag - 1 → (tag + 1)": "the same modulo 2",
}

#: Why, by file, line of code and that line after the change, or what takes the place of a function.
RUST_EQUIVALENTS: dict[str, str] = {
    "agreement/pairs.rs: expected: if elsewhere > 0.0 { (expected - at_once) / elsewhere } else { f64::NAN }, → "
    "expected: if elsewhere >= 0.0 { (expected - at_once) / elsewhere } else { f64::NAN },": (
        "both sums are over the labels of one task there: 0 / 0 is not a number either"
    ),
    "audit/drift.rs: if distance > best { → if distance >= best {": "of labels off by the same, either may be reported",
    "audit/leave_one_out.rs: if row % ROWS_PER_CHECK == 0 { → if row % ROWS_PER_CHECK != 0 {": (
        "how often a request to stop is looked for"
    ),
    "base/encode.rs: if self.get(row).len() <= INLINE { hash_of(self.key(row)) } else { hash_of(self.get(row)) }: "
    "replace <impl Column for Strings<'_>>::hash -> u32 with 0": "slower: texts that share a hash are compared",
    "base/gamma.rs: if v > 0.0 && source.unit().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) { → "
    "if v >= 0.0 && source.unit().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {": (
        "nothing is below the logarithm of zero, so that the comparison rejects it as well"
    ),
    "base/memory.rs: const SMALL: usize = 4096;: replace advise with ()": "a hint to the system, for speed alone",
    "boxes.rs: looks += 1; → looks *= 1;": "a request to stop is looked for at every pair: slower",
    "categorical/em/sparse.rs: let mut offsets = with_room(table.n_tasks() + 1)?; → "
    "let mut offsets = with_room(table.n_tasks() * 1)?;": "room that is reserved beforehand; a vector grows",
    "defer/dual.rs: let mut second = point.residual > NEAR; → let mut second = point.residual >= NEAR;": (
        "a residual that is the threshold to the last bit; first derivatives serve there too"
    ),
    "defer/dual.rs: second = next.residual > NEAR || next.residual > 0.1 * point.residual; → "
    "second = next.residual > NEAR || next.residual > 0.1 + point.residual;": (
        "when second derivatives are computed again: old ones take more steps to the same point"
    ),
    "masks/columns.rs: stretch_starts: with_room(columns.len() + 1)?, → stretch_starts: with_room(columns.len() - 1)?,": (
        "room that is reserved beforehand; a vector grows"
    ),
    "masks/shapes.rs: if len > 0 { → if len >= 0 {": "loops over nothing, and the lesser of 0 / 0 and 1 is 1",
    "pairwise/worker_slopes.rs: let pull = [a - 1.0, b]; → let pull = [a + 1.0, b];": (
        "the mean of slopes is held, so that one number more in all gradients changes nothing"
    ),
    "categorical/consensus.rs: sum += row_information; → sum -= row_information;": "the sum is squared",
}
