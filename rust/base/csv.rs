//! Columns of ids of a CSV file, straight from its bytes to codes and distinct texts.
//!
//! A file comes in blocks; each is cut at line ends into one part per thread. A part looks its fields up in
//! dictionaries of its own, which are kept from block to block and merged in the end, so that no text is kept or moved
//! but the first of its kind. Distinct texts are numbered in order of appearance, whatever the blocks and threads.
//!
//! Only plain files are read: valid UTF-8, lines that end in `\n` or `\r\n`, the same number of fields in each, quotes
//! only around whole fields. At anything else the reader gives up, for another reader to report or to accept.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashTable;
use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::encode::{INLINE, hash_of, key_of, spread};
use crate::base::memory::{collected, grow, push, reserve, with_room, zeros};
use crate::base::threads;
use crate::{Error, Result};

const QUOTE: u8 = b'"';
/// Rows whose fields are looked up together, while their bytes are in the processor's cache.
const BATCH: usize = 1 << 12;
/// Fewer bytes, or entries, are not worth a second thread.
const SMALL: usize = 1 << 16;
/// Marks a field whose text is among the unescaped ones.
const UNESCAPED: u32 = 1 << 31;
/// Shards of dictionaries with many entries, merged in parallel.
const N_SHARDS: usize = 16;

/// A column: the code of each row, and distinct texts in order of appearance, text `i` at `offsets[i]..offsets[i + 1]`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TextColumn {
    /// Code of each row.
    pub codes: Vec<u32>,
    /// Where texts begin and end.
    pub offsets: Vec<i64>,
    /// Texts, one after the other.
    pub data: Vec<u8>,
}

/// What some bytes of a file turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// Plain rows: the number of bytes read, up to the last whole row.
    Read(usize),
    /// Something that this reader does not read. The reader is of no use after that.
    NotPlain,
}

/// Reads some columns of a CSV file.
#[derive(Debug)]
pub struct Reader {
    layout: Layout,
    header: bool,
    n_columns: usize,
    parts: Vec<Part>,
    /// Blocks of fewer bytes are not cut.
    least: usize,
    /// Codes of the rows that were read, by block, then part, then column.
    codes: Vec<Vec<Vec<Vec<u32>>>>,
}

#[derive(Debug)]
struct Layout {
    delimiter: u8,
    /// The column of each field, where it is wanted.
    columns: Vec<Option<usize>>,
}

/// What a thread keeps between blocks.
#[derive(Debug, Default)]
struct Part {
    dictionaries: Vec<Dictionary>,
    /// Where the fields of a batch lie, by column: start and length.
    fields: Vec<Vec<(u32, u32)>>,
    /// Texts of quoted fields with quotes in them.
    unescaped: Vec<u8>,
}

/// Distinct texts in order of appearance.
#[derive(Debug, Default)]
struct Dictionary {
    table: HashTable<Entry>,
    /// Where each text ends in `data`.
    ends: Vec<u64>,
    data: Vec<u8>,
    /// How many texts there were after each block.
    seen: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    key: u128,
    hash: u32,
    code: u32,
}

impl Reader {
    /// A reader of lines of `n_fields`, of which those at `wanted` are columns; with a `header`, the first is skipped.
    pub fn new(delimiter: u8, n_fields: usize, wanted: &[usize], header: bool) -> Result<Self> {
        Self::with_parts(delimiter, n_fields, wanted, header, (threads::num_threads()?, SMALL))
    }

    /// The same, with the number of parts of blocks that have at least the given number of bytes.
    fn with_parts(
        delimiter: u8,
        n_fields: usize,
        wanted: &[usize],
        header: bool,
        (n_parts, least): (usize, usize),
    ) -> Result<Self> {
        let special = [QUOTE, b'\n', b'\r'].contains(&delimiter) || !delimiter.is_ascii();
        let mut columns = vec![None; n_fields];
        for (column, &field) in wanted.iter().enumerate() {
            match columns.get_mut(field) {
                Some(place @ None) => *place = Some(column),
                _ => return Err(Error::invalid(format!("field {field} is not among {n_fields}, or requested twice"))),
            }
        }
        if special || n_fields < 2 {
            return Err(Error::invalid("fields need an ASCII delimiter between them, and lines more than one field"));
        }
        let parts = (0..n_parts).map(|_| Part::new(wanted.len())).collect();
        let layout = Layout { delimiter, columns };
        Ok(Self { layout, header, n_columns: wanted.len(), parts, least, codes: vec![] })
    }

    /// Reads the next bytes, which must begin with a line; with `last`, no others follow.
    ///
    /// Whole rows only: the caller gives the others again, with more. O(bytes), in parallel.
    pub fn read(&mut self, block: &[u8], last: bool, control: &Control) -> Result<Block> {
        if block.len() >= UNESCAPED as usize {
            return Ok(Block::NotPlain);
        }
        let Some(end) = Layout::end_of_rows(block, last) else { return Ok(Block::NotPlain) };
        let mut first = 0;
        if self.header && end > 0 {
            let mut none = Part::new(self.n_columns);
            match self.layout.row(block, 0, &mut none)? {
                Some(next) if next <= end => first = next,
                _ => return Ok(Block::NotPlain),
            }
            self.header = false;
        }
        let rows = &block[first..end];
        let n_parts = if rows.len() < self.least { 1 } else { self.parts.len() };
        let bounds = cuts(rows, n_parts);
        let layout = &self.layout;
        let mut codes = Vec::new();
        self.parts
            .par_iter_mut()
            .zip(bounds)
            .map(|(part, range)| part.read(layout, &rows[range], control))
            .collect_into_vec(&mut codes);
        let mut values = Vec::with_capacity(codes.len());
        for part in codes {
            match part? {
                Some(part) => values.push(part),
                None => return Ok(Block::NotPlain),
            }
        }
        self.parts.iter_mut().for_each(Part::end_block);
        push(&mut self.codes, values)?;
        Ok(Block::Read(end))
    }

    /// The columns, in the order in which they were wanted. O(rows + distinct texts), in parallel.
    pub fn finish(mut self, control: &Control) -> Result<Vec<TextColumn>> {
        let mut columns = Vec::with_capacity(self.n_columns);
        for column in 0..self.n_columns {
            let dictionaries: Vec<Dictionary> =
                self.parts.iter_mut().map(|part| std::mem::take(&mut part.dictionaries[column])).collect();
            let (lookups, offsets, data) = merged(&dictionaries, control)?;
            drop(dictionaries);
            let take = |part: &mut Vec<Vec<u32>>| std::mem::take(&mut part[column]);
            let blocks: Vec<Vec<Vec<u32>>> =
                self.codes.iter_mut().map(|block| block.iter_mut().map(take).collect()).collect();
            columns.push(TextColumn { codes: looked_up(&blocks, &lookups, control)?, offsets, data });
        }
        Ok(columns)
    }
}

impl Layout {
    /// Where the last whole row of a block ends; nothing where a block that is the last ends within quotes.
    fn end_of_rows(block: &[u8], last: bool) -> Option<usize> {
        let mut inside = is_odd(block);
        if last {
            return (!inside).then_some(block.len());
        }
        for (at, &byte) in block.iter().enumerate().rev() {
            if byte == QUOTE {
                inside = !inside;
            } else if byte == b'\n' && !inside {
                return Some(at + 1);
            }
        }
        Some(0)
    }

    /// Notes the fields of the row at `at`; returns where the next one begins, or nothing if it is not plain.
    #[inline(always)]
    fn row(&self, text: &[u8], mut at: usize, part: &mut Part) -> Result<Option<usize>> {
        let n_fields = self.columns.len();
        for (field, column) in self.columns.iter().enumerate() {
            let (start, len, end) = if text.get(at) == Some(&QUOTE) {
                let Some(quoted) = part.quoted(text, at + 1)? else { return Ok(None) };
                quoted
            } else {
                let end = mark(text, at, self.delimiter);
                (at as u32, (end - at) as u32, end)
            };
            let ends_line = match text.get(end) {
                Some(&byte) if byte == self.delimiter => None,
                Some(b'\n') => Some(1),
                Some(b'\r') if text.get(end + 1) == Some(&b'\n') => Some(2),
                None => Some(0),
                _ => return Ok(None),
            };
            if ends_line.is_some() != (field + 1 == n_fields) {
                return Ok(None);
            }
            at = end + ends_line.unwrap_or(1);
            if let Some(column) = column {
                part.fields[*column].push((start, len));
            }
        }
        Ok(Some(at))
    }
}

impl Part {
    fn new(n_columns: usize) -> Self {
        let dictionaries = (0..n_columns).map(|_| Dictionary::default()).collect();
        Self { dictionaries, fields: vec![vec![]; n_columns], unescaped: vec![] }
    }

    /// Reads rows to the end; returns the codes of each column, or nothing if some row is not plain.
    fn read(&mut self, layout: &Layout, text: &[u8], control: &Control) -> Result<Option<Vec<Vec<u32>>>> {
        let mut codes = vec![vec![]; self.fields.len()];
        if std::str::from_utf8(text).is_err() {
            return Ok(None);
        }
        let mut at = 0;
        while at < text.len() {
            control.check()?;
            let mut n_rows = 0;
            while at < text.len() && n_rows < BATCH {
                match text[at..] {
                    [b'\n', ..] => at += 1, // an empty line
                    [b'\r', b'\n', ..] => at += 2,
                    _ => {
                        let Some(next) = layout.row(text, at, self)? else { return Ok(None) };
                        at = next;
                        n_rows += 1;
                    }
                }
            }
            for ((dictionary, fields), codes) in self.dictionaries.iter_mut().zip(&mut self.fields).zip(&mut codes) {
                grow(codes, fields.len())?;
                dictionary.look_up(fields, text, &self.unescaped, codes)?;
                fields.clear();
            }
            self.unescaped.clear();
        }
        Ok(Some(codes))
    }

    /// A quoted field whose text begins at `start`: where its text begins, its length, and where the field ends.
    fn quoted(&mut self, text: &[u8], start: usize) -> Result<Option<(u32, u32, usize)>> {
        let quote_from = |at: usize| text.get(at..)?.iter().position(|&byte| byte == QUOTE).map(|i| at + i);
        let Some(mut at) = quote_from(start) else { return Ok(None) };
        if text.get(at + 1) != Some(&QUOTE) {
            return Ok(Some((start as u32, (at - start) as u32, at + 1)));
        }
        let (first, mut from) = (self.unescaped.len(), start);
        loop {
            let doubled = text.get(at + 1) == Some(&QUOTE);
            let end = at + usize::from(doubled);
            grow(&mut self.unescaped, end - from)?;
            self.unescaped.extend_from_slice(&text[from..end]);
            if !doubled {
                let len = self.unescaped.len() - first;
                return Ok(Some((UNESCAPED | first as u32, len as u32, at + 1)));
            }
            from = at + 2;
            let Some(next) = quote_from(from) else { return Ok(None) };
            at = next;
        }
    }

    fn end_block(&mut self) {
        self.dictionaries.iter_mut().for_each(|dictionary| dictionary.seen.push(dictionary.ends.len()));
    }
}

impl Dictionary {
    /// The bytes of text `code`.
    fn range(&self, code: usize) -> std::ops::Range<usize> {
        let start = if code == 0 { 0 } else { self.ends[code - 1] as usize };
        start..self.ends[code] as usize
    }

    /// Codes of the fields, new ones for texts that are new.
    fn look_up(&mut self, fields: &[(u32, u32)], text: &[u8], unescaped: &[u8], codes: &mut Vec<u32>) -> Result<()> {
        let mut previous: Option<(u128, u32)> = None;
        for &(start, len) in fields {
            let (source, start) = if start & UNESCAPED == 0 { (text, start) } else { (unescaped, start ^ UNESCAPED) };
            let range = start as usize..(start + len) as usize;
            let key = key_of(source, range.clone());
            let short = range.len() <= INLINE;
            // Rows of a task are often next to each other.
            if let Some((last, code)) = previous
                && last == key
                && short
            {
                codes.push(code);
                continue;
            }
            let field = &source[range];
            let hash = if short { hash_of(key) } else { hash_of(field) };
            let (ends, data) = (&self.ends, &self.data);
            let is_field = |entry: &Entry| {
                let start = || if entry.code == 0 { 0 } else { ends[entry.code as usize - 1] as usize };
                entry.key == key && (short || data[start()..ends[entry.code as usize] as usize] == *field)
            };
            let code = match self.table.find(spread(hash), is_field) {
                Some(entry) => entry.code,
                None => self.add(key, hash, field)?,
            };
            codes.push(code);
            previous = Some((key, code));
        }
        Ok(())
    }

    fn add(&mut self, key: u128, hash: u32, field: &[u8]) -> Result<u32> {
        let code = u32::try_from(self.ends.len()).map_err(|_| too_many())?;
        if self.table.len() == self.table.capacity() {
            let bytes = 2 * self.table.len() * size_of::<Entry>();
            self.table.try_reserve(1, |entry| spread(entry.hash)).map_err(|_| Error::OutOfMemory(bytes))?;
        }
        self.table.insert_unique(spread(hash), Entry { key, hash, code }, |entry| spread(entry.hash));
        grow(&mut self.data, field.len())?;
        self.data.extend_from_slice(field);
        push(&mut self.ends, self.data.len() as u64)?;
        Ok(code)
    }
}

fn too_many() -> Error {
    Error::invalid(format!("a column has more than {} distinct ids", i32::MAX))
}

/// Whether the number of quotes is odd.
fn is_odd(text: &[u8]) -> bool {
    // Most files have none, which is quickly found.
    text.contains(&QUOTE) && text.iter().fold(false, |odd, &byte| odd ^ (byte == QUOTE))
}

/// Cuts rows at line ends into at most this many parts, of about the same size.
fn cuts(rows: &[u8], n_parts: usize) -> Vec<std::ops::Range<usize>> {
    let (mut first, mut inside, mut counted) = (0, false, 0);
    let mut parts = Vec::with_capacity(n_parts);
    for part in 1..n_parts {
        let goal = (rows.len() * part / n_parts).max(first);
        inside ^= is_odd(&rows[counted..goal]);
        let mut end = goal;
        while end < rows.len() {
            end += 1;
            match rows[end - 1] {
                QUOTE => inside = !inside,
                b'\n' if !inside => break,
                _ => {}
            }
        }
        parts.push(first..end);
        (first, counted) = (end, end);
    }
    parts.push(first..rows.len());
    parts
}

/// The next delimiter, line end or quote from `at` on, or the end.
#[inline(always)]
fn mark(text: &[u8], mut at: usize, delimiter: u8) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    while let Some(word) = text.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
        let word = u64::from_le_bytes(word);
        // The lowest bit that is set belongs to the first byte that is equal.
        let equal = |byte: u8| {
            let other = word ^ (ONES * u64::from(byte));
            other.wrapping_sub(ONES) & !other
        };
        let special = (equal(delimiter) | equal(b'\n') | equal(b'\r') | equal(QUOTE)) & HIGH;
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let stops = |byte: &u8| [delimiter, b'\n', b'\r', QUOTE].contains(byte);
    at + rest.iter().position(stops).unwrap_or(rest.len())
}

/// Common codes of the entries of each dictionary, in order of appearance, and the texts that they stand for.
type Merged = (Vec<Vec<u32>>, Vec<i64>, Vec<u8>);

fn merged(dictionaries: &[Dictionary], control: &Control) -> Result<Merged> {
    let total: usize = dictionaries.iter().map(|dictionary| dictionary.ends.len()).sum();
    // The first of the entries with the same text: dictionary and code in one number.
    let firsts: Vec<Vec<AtomicU64>> = dictionaries
        .iter()
        .map(|dictionary| collected(dictionary.ends.iter().map(|_| AtomicU64::new(0))))
        .collect::<Result<_>>()?;
    let n_shards = if total < SMALL { 1 } else { N_SHARDS };
    let hashes: Vec<Vec<u32>> = dictionaries.par_iter().map(Dictionary::hashes).collect::<Result<_>>()?;
    (0..n_shards)
        .into_par_iter()
        .map(|shard| find_firsts(dictionaries, &hashes, &firsts, shard, n_shards, control))
        .collect::<Result<()>>()?;
    drop(hashes);
    let mut lookups: Vec<Vec<u32>> = firsts.iter().map(|first| zeros(first.len())).collect::<Result<_>>()?;
    let (mut offsets, mut data) = (with_room(total + 1)?, Vec::new());
    offsets.push(0);
    reserve(&mut data, dictionaries.iter().map(|dictionary| dictionary.data.len()).sum())?;
    for (d, code) in in_order(dictionaries) {
        let first = firsts[d][code].load(Relaxed);
        lookups[d][code] = if first == name(d, code) {
            data.extend_from_slice(&dictionaries[d].data[dictionaries[d].range(code)]);
            offsets.push(data.len() as i64);
            i32::try_from(offsets.len() - 2).map_err(|_| too_many())? as u32
        } else {
            lookups[(first >> 32) as usize][first as u32 as usize]
        };
    }
    Ok((lookups, offsets, data))
}

fn name(dictionary: usize, code: usize) -> u64 {
    (dictionary as u64) << 32 | code as u64
}

/// All entries of several dictionaries, in order of appearance.
fn in_order(dictionaries: &[Dictionary]) -> impl Iterator<Item = (usize, usize)> {
    let n_blocks = dictionaries.first().map_or(0, |dictionary| dictionary.seen.len());
    (0..n_blocks).flat_map(move |block| {
        dictionaries.iter().enumerate().flat_map(move |(d, dictionary)| {
            let first = if block == 0 { 0 } else { dictionary.seen[block - 1] };
            (first..dictionary.seen[block]).map(move |code| (d, code))
        })
    })
}

impl Dictionary {
    fn hashes(&self) -> Result<Vec<u32>> {
        let hash = |code: usize| {
            let range = self.range(code);
            if range.len() <= INLINE { hash_of(key_of(&self.data, range)) } else { hash_of(&self.data[range]) }
        };
        collected((0..self.ends.len()).map(hash))
    }
}

/// Finds the first of the entries with the same text, of those in a shard.
fn find_firsts(
    dictionaries: &[Dictionary],
    hashes: &[Vec<u32>],
    firsts: &[Vec<AtomicU64>],
    shard: usize,
    n_shards: usize,
    control: &Control,
) -> Result<()> {
    struct First {
        key: u128,
        hash: u32,
        dictionary: u32,
        code: u32,
    }
    let mut table: HashTable<First> = HashTable::new();
    for (n, (d, code)) in in_order(dictionaries).enumerate() {
        if n % SMALL == 0 {
            control.check()?;
        }
        let hash = hashes[d][code];
        if hash as usize % n_shards != shard {
            continue;
        }
        let range = dictionaries[d].range(code);
        let key = key_of(&dictionaries[d].data, range.clone());
        let same = |other: &First| {
            let text = || &dictionaries[d].data[range.clone()];
            let theirs = &dictionaries[other.dictionary as usize];
            other.key == key && (range.len() <= INLINE || theirs.data[theirs.range(other.code as usize)] == *text())
        };
        let first = if let Some(first) = table.find(spread(hash), same) {
            name(first.dictionary as usize, first.code as usize)
        } else {
            if table.len() == table.capacity() {
                let bytes = 2 * table.len() * size_of::<First>();
                table.try_reserve(1, |first| spread(first.hash)).map_err(|_| Error::OutOfMemory(bytes))?;
            }
            let entry = First { key, hash, dictionary: d as u32, code: code as u32 };
            table.insert_unique(spread(hash), entry, |first| spread(first.hash));
            name(d, code)
        };
        firsts[d][code].store(first, Relaxed);
    }
    Ok(())
}

/// Common codes of all rows.
fn looked_up(blocks: &[Vec<Vec<u32>>], lookups: &[Vec<u32>], control: &Control) -> Result<Vec<u32>> {
    let n_rows = blocks.iter().flatten().map(Vec::len).sum();
    let mut codes = zeros::<u32>(n_rows)?;
    let mut rest = codes.as_mut_slice();
    let mut runs = Vec::new();
    for block in blocks {
        for (part, lookup) in block.iter().zip(lookups) {
            let (to, tail) = rest.split_at_mut(part.len());
            push(&mut runs, (to, part, lookup))?;
            rest = tail;
        }
    }
    runs.into_par_iter().try_for_each(|(to, part, lookup)| {
        control.check()?;
        to.iter_mut().zip(part).for_each(|(to, &code)| *to = lookup[code as usize]);
        Ok(())
    })?;
    Ok(codes)
}

#[cfg(test)]
mod tests;
