//! Ids to dense codes: the codes of a column number its distinct values in sorted order.
//!
//! Sorted codes make the table canonical: the same annotations in any row order, from any source, get the same codes.
//! Distinct values are found in parallel by hash shards, each small enough to stay in cache; since the order of codes
//! comes from sorting, it does not matter which thread saw a value first.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::{collected, joined, push, with_room, zeros};
use crate::{Error, Result};

/// Rows handled between two looks at the control; a row's place in its block fits sixteen bits.
const BLOCK: usize = 1 << 16;
const N_SHARDS: usize = 32;

/// A column's codes and what they stand for.
#[derive(Debug, PartialEq, Eq)]
pub struct Encoded<T> {
    /// Code of each row, below `names.len()`.
    pub codes: Vec<u32>,
    /// The distinct values in ascending order.
    pub names: Vec<T>,
}

/// Encodes integers: a table look-up where the values are dense, hashing otherwise. O(rows) + O(distinct · log
/// distinct).
pub fn integers(values: &[i64], control: &Control) -> Result<Encoded<i64>> {
    let Some((low, high)) = range(values, control)? else { return Ok(Encoded { codes: vec![], names: vec![] }) };
    let span = high.abs_diff(low);
    // Dense enough that the look-up table is no larger than a few bytes per row.
    if span < (values.len() as u64).saturating_mul(4).max(1 << 16) {
        return dense(values, low, span as usize + 1, control);
    }
    let column = Integers(values);
    let (codes, rows) = encode(&column, control)?;
    let names = collected(rows.into_iter().map(|r| values[r as usize]))?;
    Ok(Encoded { codes, names })
}

fn range(values: &[i64], control: &Control) -> Result<Option<(i64, i64)>> {
    values
        .par_chunks(BLOCK)
        .map(|chunk| {
            control.check()?;
            Ok(chunk.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v))))
        })
        .try_reduce_with(|a, b| Ok((a.0.min(b.0), a.1.max(b.1))))
        .transpose()
}

fn dense(values: &[i64], low: i64, span: usize, control: &Control) -> Result<Encoded<i64>> {
    let slot = |v: i64| v.wrapping_sub(low) as u64 as usize;
    let present: Vec<AtomicBool> = collected((0..span).map(|_| AtomicBool::new(false)))?;
    for_blocks(values, control, |block| block.iter().for_each(|&v| present[slot(v)].store(true, Relaxed)))?;
    let mut names = vec![];
    let mut code_of = zeros::<u32>(span)?;
    for (i, seen) in present.into_iter().enumerate() {
        if seen.into_inner() {
            code_of[i] = code(names.len())?;
            push(&mut names, low.wrapping_add(i as i64))?;
        }
    }
    let mut codes = zeros(values.len())?;
    fill_blocks(&mut codes, control, |start, block| {
        for (to, &v) in block.iter_mut().zip(&values[start..]) {
            *to = code_of[slot(v)];
        }
    })?;
    Ok(Encoded { codes, names })
}

/// A column of text in Arrow's layout (`large_string`): row `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    offsets: &'a [i64],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Checks that the offsets ascend and stay within the data.
    pub fn new(offsets: &'a [i64], data: &'a [u8]) -> Result<Self> {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
            return Err(Error::invalid("text offsets are empty: they must hold one more entry than there are rows"));
        };
        if *first < 0 || *last as usize > data.len() || !offsets.par_windows(2).all(|w| w[0] <= w[1]) {
            return Err(Error::invalid("text offsets do not ascend within the data: the Arrow column is damaged"));
        }
        Ok(Self { offsets, data })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of row `i`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> &'a [u8] {
        &self.data[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// Encodes text by byte order (the order of Unicode code points). `names` are rows that hold each distinct value.
pub fn strings(column: &Strings<'_>, control: &Control) -> Result<Encoded<u64>> {
    let (codes, names) = encode(column, control)?;
    Ok(Encoded { codes, names })
}

/// Reads a column of text as integers if every row is one in canonical form: `0` or `-?[1-9][0-9]*`, within 64 bits.
///
/// Canonical form means that nothing is lost: `007` and `+7` are ids of their own, so a column with one stays text.
pub fn canonical_integers(column: &Strings<'_>, control: &Control) -> Result<Option<Vec<i64>>> {
    // Most text columns show at once that they are not numbers.
    if (0..column.len().min(64)).any(|i| parse_canonical(column.get(i)).is_none()) {
        return Ok(None);
    }
    let failed = AtomicBool::new(false);
    let mut values = zeros(column.len())?;
    fill_blocks(&mut values, control, |start, block| {
        for (i, to) in block.iter_mut().enumerate() {
            match parse_canonical(column.get(start + i)) {
                Some(value) => *to = value,
                None => return failed.store(true, Relaxed),
            }
        }
    })?;
    Ok((!failed.into_inner()).then_some(values))
}

#[inline(always)]
fn parse_canonical(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let leading_zero = digits.first() == Some(&b'0') && (digits.len() > 1 || negative);
    if digits.is_empty() || digits.len() > 19 || leading_zero {
        return None;
    }
    // Nineteen digits fit an unsigned number; whether they fit a signed one shows at the end.
    let mut value = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

fn code(n: usize) -> Result<u32> {
    if n >= u32::MAX as usize {
        return Err(Error::invalid(format!("a column has more than {} distinct ids", u32::MAX - 1)));
    }
    Ok(n as u32)
}

fn for_blocks<T: Sync>(rows: &[T], control: &Control, f: impl Fn(&[T]) + Sync) -> Result<()> {
    rows.par_chunks(BLOCK).try_for_each(|block| {
        control.check()?;
        f(block);
        Ok(())
    })
}

fn fill_blocks<T: Send>(out: &mut [T], control: &Control, f: impl Fn(usize, &mut [T]) + Sync) -> Result<()> {
    out.par_chunks_mut(BLOCK).enumerate().try_for_each(|(i, block)| {
        control.check()?;
        f(i * BLOCK, block);
        Ok(())
    })
}

/// A column whose rows can be hashed, compared and ordered.
trait Column: Sync {
    /// What a shard stores of a value: ordered as the values are, and enough to distinguish most of them without going
    /// back to the column.
    type Key: Copy + Ord + Send + Sync;
    fn len(&self) -> usize;
    fn hash(&self, row: usize) -> u32;
    fn key(&self, row: usize) -> Self::Key;
    /// Orders two rows whose keys are equal.
    fn order(&self, a: usize, b: usize) -> Ordering;
}

// Fixed state: the codes do not depend on the hash, and a run should repeat to the instruction.
static HASHER: FixedState = FixedState::with_seed(0x6d61_6e79_6861_6e64);

pub(crate) fn hash_of(value: impl Hash) -> u32 {
    (HASHER.hash_one(value) >> 32) as u32
}

struct Integers<'a>(&'a [i64]);

impl Column for Integers<'_> {
    type Key = i64;
    fn len(&self) -> usize {
        self.0.len()
    }
    fn hash(&self, row: usize) -> u32 {
        hash_of(self.0[row])
    }
    fn key(&self, row: usize) -> i64 {
        self.0[row]
    }
    fn order(&self, _: usize, _: usize) -> Ordering {
        Ordering::Equal
    }
}

/// Up to this many bytes, the key of a text is the text itself.
pub(crate) const INLINE: usize = 15;

/// The first bytes of a text, padded with zeros, then its length (at most `INLINE + 1`), read as a big-endian number:
/// ordered as the texts are, except among longer texts that begin alike.
#[inline(always)]
pub(crate) fn key_of(data: &[u8], text: Range<usize>) -> u128 {
    let (start, len) = (text.start, text.len());
    let head = len.min(INLINE);
    // Sixteen bytes at once, whatever follows the text, then a mask: a copy of unknown length costs more.
    let wide = data.get(start..start + 16).and_then(|b| <[u8; 16]>::try_from(b).ok());
    let bytes = wide.unwrap_or_else(|| {
        let mut bytes = [0; 16];
        bytes[..head].copy_from_slice(&data[start..start + head]);
        bytes
    });
    let mask = u128::MAX.checked_shl(128 - 8 * head as u32).unwrap_or(0);
    (u128::from_be_bytes(bytes) & mask) | len.min(INLINE + 1) as u128
}

impl Column for Strings<'_> {
    type Key = u128;
    fn len(&self) -> usize {
        Strings::len(self)
    }
    #[inline(always)]
    fn hash(&self, row: usize) -> u32 {
        if self.get(row).len() <= INLINE { hash_of(self.key(row)) } else { hash_of(self.get(row)) }
    }
    #[inline(always)]
    fn key(&self, row: usize) -> u128 {
        key_of(self.data, self.offsets[row] as usize..self.offsets[row + 1] as usize)
    }
    fn order(&self, a: usize, b: usize) -> Ordering {
        if self.get(a).len() <= INLINE { Ordering::Equal } else { self.get(a).cmp(self.get(b)) }
    }
}

/// A distinct value: its key and hash, and a row that holds it.
struct Entry<K> {
    key: K,
    hash: u32,
    row: u32,
    /// Its number in its shard, in order of appearance.
    place: u32,
}

type Shard<K> = HashTable<Entry<K>>;

/// The rows of a block, ordered by shard: where each shard's rows begin and end, and the rows, counted from the
/// block's.
struct Partition<'a> {
    bounds: [u32; N_SHARDS + 1],
    rows: &'a mut [u16],
}

/// Codes of all rows, and for each code a row that holds its value. Transient memory: 6 bytes per row.
fn encode<C: Column>(column: &C, control: &Control) -> Result<(Vec<u32>, Vec<u64>)> {
    if column.len() > u32::MAX as usize {
        return Err(Error::invalid(format!("{} rows exceed the {} that one table holds", column.len(), u32::MAX)));
    }
    if let Some(found) = in_order(column, control)? {
        return Ok(found);
    }
    let mut order = zeros::<u16>(column.len())?;
    // Each row's hash, then its place in its shard, in the end its code. Shards write to rows scattered all over, each
    // to its own: a relaxed atomic store is a plain one.
    let mut slots: Vec<AtomicU32> = collected((0..column.len()).map(|_| AtomicU32::new(0)))?;
    let blocks: Vec<Partition<'_>> = order
        .par_chunks_mut(BLOCK)
        .zip(slots.par_chunks_mut(BLOCK))
        .enumerate()
        .map(|(i, (rows, slots))| partition(column, i * BLOCK, rows, slots, control))
        .collect::<Result<_>>()?;
    let shards: Vec<Shard<C::Key>> =
        (0..N_SHARDS).into_par_iter().map(|s| shard(column, &blocks, &slots, s, control)).collect::<Result<_>>()?;
    let (ranks, names) = number(column, &shards, control)?;
    slots.par_chunks_mut(BLOCK).zip(&blocks).try_for_each(|(slots, block)| {
        control.check()?;
        for (s, rank) in ranks.iter().enumerate() {
            for &row in block.of(s) {
                let slot = slots[row as usize].get_mut();
                *slot = rank[*slot as usize];
            }
        }
        Ok(())
    })?;
    Ok((collected(slots.into_iter().map(AtomicU32::into_inner))?, names))
}

/// The same of a column whose rows are in order already, as those of a sorted log; nothing where they are not.
fn in_order<C: Column>(column: &C, control: &Control) -> Result<Option<(Vec<u32>, Vec<u64>)>> {
    let order = |row: usize| column.key(row - 1).cmp(&column.key(row)).then_with(|| column.order(row - 1, row));
    let falls = AtomicBool::new(false);
    let starts = (0..column.len().div_ceil(BLOCK)).into_par_iter().map(|block| {
        control.check()?;
        let mut starts = Vec::new();
        for row in block * BLOCK..column.len().min((block + 1) * BLOCK) {
            match if row == 0 { Ordering::Less } else { order(row) } {
                Ordering::Equal => {}
                Ordering::Less => push(&mut starts, row as u64)?,
                Ordering::Greater => falls.store(true, Relaxed),
            }
            if falls.load(Relaxed) {
                break;
            }
        }
        Ok(starts)
    });
    let starts = starts.collect::<Result<Vec<Vec<u64>>>>()?;
    if falls.into_inner() {
        return Ok(None);
    }
    let rows = joined(&starts)?;
    code(rows.len())?;
    let mut codes = zeros::<u32>(column.len())?;
    let mut firsts = with_room(starts.len())?;
    let mut n = 0;
    for block in &starts {
        firsts.push(n);
        n += block.len();
    }
    codes.par_chunks_mut(BLOCK).zip(firsts.par_iter().zip(&starts)).enumerate().for_each(
        |(i, (codes, (&n, starts)))| {
            // What comes before the first new value of a block is the last value of an earlier one.
            let mut from = 0;
            for (value, &start) in (n as u32..).zip(starts) {
                let to = start as usize - i * BLOCK;
                codes[from..to].fill(value.wrapping_sub(1));
                from = to;
            }
            codes[from..].fill(((n + starts.len()) as u32).wrapping_sub(1));
        },
    );
    Ok(Some((codes, rows)))
}

impl Partition<'_> {
    fn of(&self, shard: usize) -> &[u16] {
        &self.rows[self.bounds[shard] as usize..self.bounds[shard + 1] as usize]
    }
}

/// Hashes a block of rows and orders them by shard.
fn partition<'a, C: Column>(
    column: &C,
    first: usize,
    rows: &'a mut [u16],
    slots: &mut [AtomicU32],
    control: &Control,
) -> Result<Partition<'a>> {
    control.check()?;
    let mut bounds = [0; N_SHARDS + 1];
    for (i, slot) in slots.iter_mut().enumerate() {
        let hash = column.hash(first + i);
        *slot.get_mut() = hash;
        bounds[shard_of(hash) + 1] += 1;
    }
    for s in 0..N_SHARDS {
        bounds[s + 1] += bounds[s];
    }
    let mut next = bounds;
    for (i, slot) in slots.iter_mut().enumerate() {
        let to = &mut next[shard_of(*slot.get_mut())];
        rows[*to as usize] = i as u16;
        *to += 1;
    }
    Ok(Partition { bounds, rows })
}

/// The low bits: the tables within the shards look at the others.
fn shard_of(hash: u32) -> usize {
    hash as usize % N_SHARDS
}

/// Finds the distinct values of a shard, and replaces each row's hash by the place of its value.
fn shard<C: Column>(
    column: &C,
    blocks: &[Partition<'_>],
    slots: &[AtomicU32],
    s: usize,
    control: &Control,
) -> Result<Shard<C::Key>> {
    let mut table: Shard<C::Key> = HashTable::new();
    for (block, partition) in blocks.iter().enumerate() {
        control.check()?;
        for &i in partition.of(s) {
            let row = block * BLOCK + i as usize;
            let (hash, key) = (slots[row].load(Relaxed), column.key(row));
            let same = |e: &Entry<C::Key>| e.hash == hash && e.key == key && column.order(e.row as usize, row).is_eq();
            let place = table.len() as u32;
            if table.len() == table.capacity() {
                let bytes = 2 * table.len() * size_of::<Entry<C::Key>>();
                table.try_reserve(1, |e| spread(e.hash)).map_err(|_| Error::OutOfMemory(bytes))?;
            }
            let entry = table.entry(spread(hash), same, |e| spread(e.hash)).or_insert_with(|| Entry {
                key,
                hash,
                row: row as u32,
                place,
            });
            slots[row].store(entry.get().place, Relaxed);
        }
    }
    Ok(table)
}

/// The code of each entry, by shard and place: its rank in sorted order; and a row of each, in that order.
fn number<C: Column>(column: &C, shards: &[Shard<C::Key>], control: &Control) -> Result<(Vec<Vec<u32>>, Vec<u64>)> {
    let mut entries: Vec<(u32, &Entry<C::Key>)> = with_room(shards.iter().map(HashTable::len).sum())?;
    entries.extend((0..).zip(shards).flat_map(|(s, shard)| shard.iter().map(move |entry| (s, entry))));
    code(entries.len())?;
    control.check()?;
    entries.par_sort_unstable_by(|(_, a), (_, b)| {
        a.key.cmp(&b.key).then_with(|| column.order(a.row as usize, b.row as usize))
    });
    let mut ranks: Vec<Vec<u32>> = shards.iter().map(|shard| zeros(shard.len())).collect::<Result<_>>()?;
    let mut rows = with_room(entries.len())?;
    for (rank, (s, entry)) in entries.into_iter().enumerate() {
        ranks[s as usize][entry.place as usize] = rank as u32;
        rows.push(u64::from(entry.row));
    }
    Ok((ranks, rows))
}

/// The hash table looks at the top and bottom bits of 64; give it all 32 in both places.
#[inline(always)]
pub(crate) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
