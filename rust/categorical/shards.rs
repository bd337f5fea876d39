//! Shards: a log cut into files of whole tasks, for passes over more annotations than memory holds.
//!
//! A shard is 128 bytes of header and up to four columns, each at a multiple of 64 bytes, all numbers little-endian:
//! where its workers stand in the crowd (`u32`, ascending; left out if it has all workers), how many annotations each
//! task has (`u8`, `u16` or `u32`), the cell of each annotation (worker · labels + label, `u32` or `u64`, ascending
//! within a task), and weights (`f64`), if there are any. That is 4 bytes per annotation and 1 a task, and it is what a
//! pass of EM reads: nothing is decoded but the lengths. The header has the sizes, a checksum of the columns and one of
//! itself.
//!
//! A file is read whole, not mapped: one that shrinks while it is read is then an error and not the end of the process,
//! and every read is checked.

mod format;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use crate::base::links::{Links, WEIGHTS};
use crate::base::memory::{collected, with_room, zeros};
use crate::categorical::em::{Cells, Shape, Tasks};
use crate::categorical::table::{Labels, Table};
use crate::{Error, Result};

use format::{Header, damaged, padded};

/// A part of a log: whole tasks, as they lie in a file.
#[derive(Debug)]
pub struct Shard {
    file: Aligned,
    header: Header,
    offsets: Vec<u32>,
}

/// Bytes that begin at a multiple of a double word, so that columns are aligned; never set to zero first, which would
/// cost as much as reading them.
#[derive(Debug)]
struct Aligned {
    held: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// No bytes yet, and room for this many.
    fn with_room(len: usize) -> Result<Self> {
        let mut bytes: Vec<u8> = with_room(len.saturating_add(size_of::<u64>()))?;
        let start = bytes.as_ptr().align_offset(size_of::<u64>());
        bytes.resize(start, 0);
        Ok(Self { held: bytes, start })
    }

    fn get(&self) -> &[u8] {
        &self.held[self.start..]
    }
}

/// What becomes of each annotation on its way into a shard.
struct Columns<'a> {
    offsets: &'a [u32],
    cells: &'a mut dyn Iterator<Item = u64>,
    weights: Option<&'a [f64]>,
    /// Empty where the shard has all workers.
    who: &'a [u32],
}

impl Shard {
    /// Reads a file. `check` states whether the columns must be checked; if not, their checksum alone is.
    pub fn read(path: &Path, check: bool) -> Result<Self> {
        let failed = |error: std::io::Error| Error::File(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len() as usize;
        let mut bytes = Aligned::with_room(len)?;
        file.take(len as u64).read_to_end(&mut bytes.held).map_err(failed)?;
        Self::of_file(bytes, check)
    }

    /// Takes the bytes of a file.
    pub fn from_bytes(bytes: &[u8], check: bool) -> Result<Self> {
        let mut file = Aligned::with_room(bytes.len())?;
        file.held.extend_from_slice(bytes);
        Self::of_file(file, check)
    }

    fn of_file(file: Aligned, check: bool) -> Result<Self> {
        let header = Header::read(file.get())?;
        let mut shard = Self { file, header, offsets: vec![] };
        shard.offsets = shard.sum_lengths()?;
        if check {
            shard.check_columns()?;
        }
        Ok(shard)
    }

    /// The annotations of a table, whose workers are the whole crowd: those who are not in it are left out.
    pub fn of(table: &Table) -> Result<Self> {
        let (crowd, n_labels) = (table.n_workers(), table.n_labels());
        let mut places: Vec<u32> = zeros(crowd)?;
        table.workers().iter().for_each(|&worker| places[worker as usize] = 1);
        let mut who = with_room(crowd)?;
        for (worker, place) in (0..).zip(&mut places) {
            if *place == 1 {
                *place = who.len() as u32;
                who.push(worker);
            }
        }
        let n_workers = who.len();
        let mut cells = (0..table.len()).map(|row| {
            let place = places[table.workers()[row] as usize];
            u64::from(place) * n_labels as u64 + table.labels().get(row) as u64
        });
        let who = if n_workers == crowd { &[][..] } else { &who };
        let columns = Columns { offsets: table.offsets(), cells: &mut cells, weights: table.weights(), who };
        Self::pack(columns, [n_workers, crowd, n_labels, table.n_classes()])
    }

    /// Lays columns out as in a file.
    fn pack(columns: Columns<'_>, [n_workers, crowd, n_labels, n_classes]: [usize; 4]) -> Result<Self> {
        let Columns { offsets, cells, weights, who } = columns;
        let longest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let mut header = Header {
            n_tasks: offsets.len() - 1,
            n_annotations: offsets[offsets.len() - 1] as usize,
            n_workers,
            crowd,
            n_labels,
            n_classes,
            length_width: if longest < 1 << 8 { 1 } else { 2 + 2 * usize::from(longest >= 1 << 16) },
            cell_width: if n_workers as u128 * n_labels as u128 <= 1 << 32 { 4 } else { 8 },
            weighted: weights.is_some(),
            has_ids: !who.is_empty(),
            checksum: 0,
        };
        let places = header.places()?;
        let len = padded(places.weights.end);
        let mut file = Aligned::with_room(len)?;
        file.held.resize(file.start + len, 0);
        let bytes = &mut file.held[file.start..];
        bytemuck::cast_slice_mut(&mut bytes[places.ids]).copy_from_slice(who);
        let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
        bytes[places.lengths].chunks_exact_mut(header.length_width).zip(lengths).for_each(|(to, length)| {
            to.copy_from_slice(&length.to_le_bytes()[..to.len()]);
        });
        bytes[places.cells].chunks_exact_mut(header.cell_width).zip(cells).for_each(|(to, cell)| {
            to.copy_from_slice(&cell.to_le_bytes()[..to.len()]);
        });
        if let Some(weights) = weights {
            bytemuck::cast_slice_mut(&mut bytes[places.weights]).copy_from_slice(weights);
        }
        header.checksum = crc32fast::hash(&bytes[Header::BYTES..]);
        header.write(&mut bytes[..Header::BYTES]);
        Ok(Self { file, header, offsets: collected(offsets.iter().copied())? })
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        self.file.get()
    }

    /// Number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.header.n_tasks
    }
    /// Number of annotations.
    pub fn len(&self) -> usize {
        self.header.n_annotations
    }
    /// Whether there are none, which may happen once abstentions are left out.
    pub fn is_empty(&self) -> bool {
        self.header.n_annotations == 0
    }
    /// Workers who are in it.
    pub fn n_workers(&self) -> usize {
        self.header.n_workers
    }
    /// Workers of the whole log.
    pub fn crowd(&self) -> usize {
        self.header.crowd
    }
    /// Number of labels: classes first, then abstentions.
    pub fn n_labels(&self) -> usize {
        self.header.n_labels
    }
    /// Number of classes.
    pub fn n_classes(&self) -> usize {
        self.header.n_classes
    }
    /// The checksum of the columns.
    pub fn checksum(&self) -> u32 {
        self.header.checksum
    }

    /// Where each worker stands in the crowd; nothing if they are the crowd.
    pub fn who(&self) -> Option<&[u32]> {
        self.header.has_ids.then(|| self.column(self.places().ids))
    }

    pub(crate) fn rows(&self) -> Tasks<'_> {
        Tasks {
            offsets: &self.offsets,
            weights: self.weights(),
            n_workers: self.n_workers(),
            shape: Shape { classes: self.n_classes(), labels: self.n_labels() },
        }
    }

    pub(crate) fn cells(&self) -> Cells<'_> {
        let at = self.places().cells;
        match self.header.cell_width {
            4 => Cells::Narrow(Cow::Borrowed(self.column(at))),
            _ => Cells::Wide(Cow::Borrowed(self.column(at))),
        }
    }

    fn cell(&self, row: usize) -> u64 {
        match self.cells() {
            Cells::Narrow(cells) => u64::from(cells[row]),
            Cells::Wide(cells) => cells[row],
        }
    }

    fn weights(&self) -> Option<&[f64]> {
        self.header.weighted.then(|| self.column(self.places().weights))
    }

    /// Where the columns lie; the header was checked.
    fn places(&self) -> format::Places {
        self.header.places().unwrap_or_default()
    }

    fn column<T: bytemuck::Pod>(&self, at: Range<usize>) -> &[T] {
        bytemuck::cast_slice(&self.bytes()[at])
    }

    /// The table of the workers who are in it.
    pub fn table(&self) -> Result<Table> {
        let (n_labels, n) = (self.n_labels() as u64, self.len());
        let cells = self.cells();
        let cell = |row: usize| match &cells {
            Cells::Narrow(cells) => u64::from(cells[row]),
            Cells::Wide(cells) => cells[row],
        };
        let workers = collected((0..n).map(|row| (cell(row) / n_labels) as u32))?;
        let labels = if n_labels <= 256 {
            Labels::Narrow(collected((0..n).map(|row| (cell(row) % n_labels) as u8))?)
        } else {
            Labels::Wide(collected((0..n).map(|row| (cell(row) % n_labels) as u16))?)
        };
        let weights = self.weights().map(|weights| collected(weights.iter().copied())).transpose()?;
        let links = Links::of_sorted(self.n_workers(), collected(self.offsets.iter().copied())?, workers, weights);
        Ok(Table::of(links, labels, self.n_labels(), self.n_classes()))
    }

    /// The same annotations without abstentions, of the same tasks and workers.
    pub fn without_abstentions(&self) -> Result<Self> {
        let (n_labels, n_classes) = (self.n_labels() as u64, self.n_classes() as u64);
        let is_class = |row: &usize| self.cell(*row) % n_labels < n_classes;
        let mut offsets: Vec<u32> = with_room(self.offsets.len())?;
        offsets.push(0);
        for task in self.offsets.windows(2) {
            let n = (task[0] as usize..task[1] as usize).filter(is_class).count();
            offsets.push(offsets[offsets.len() - 1] + n as u32);
        }
        let mut cells = (0..self.len()).filter(is_class).map(|row| {
            let cell = self.cell(row);
            cell / n_labels * n_classes + cell % n_labels
        });
        let mut weights: Vec<f64> = with_room(if self.header.weighted { self.len() } else { 0 })?;
        if let Some(given) = self.weights() {
            weights.extend((0..self.len()).filter(is_class).map(|row| given[row]));
        }
        let columns = Columns {
            offsets: &offsets,
            cells: &mut cells,
            weights: self.header.weighted.then_some(&weights),
            who: self.who().unwrap_or_default(),
        };
        Self::pack(columns, [self.n_workers(), self.crowd(), self.n_classes(), self.n_classes()])
    }

    /// Where the annotations of each task begin, and the last end.
    fn sum_lengths(&self) -> Result<Vec<u32>> {
        let at = self.places().lengths;
        match self.header.length_width {
            1 => self.added(self.column::<u8>(at).iter().map(|n| u32::from(*n))),
            2 => self.added(self.column::<u16>(at).iter().map(|n| u32::from(*n))),
            _ => self.added(self.column::<u32>(at).iter().copied()),
        }
    }

    fn added(&self, lengths: impl ExactSizeIterator<Item = u32>) -> Result<Vec<u32>> {
        let mut offsets = with_room(lengths.len() + 1)?;
        let mut end = 0_u64;
        offsets.push(0);
        for length in lengths {
            end += u64::from(length);
            offsets.push(end as u32);
        }
        if end != self.len() as u64 {
            return Err(damaged(format!("its tasks have {end} annotations, and it {}", self.len())));
        }
        Ok(offsets)
    }

    /// Rejects columns that no log can have.
    fn check_columns(&self) -> Result<()> {
        if let Some(who) = self.who()
            && (who.windows(2).any(|pair| pair[0] >= pair[1])
                || who.last().is_some_and(|w| *w as usize >= self.crowd()))
        {
            return Err(damaged("its workers are not in order, or not of the crowd"));
        }
        let most = self.n_workers() as u64 * self.n_labels() as u64;
        let cells = self.cells();
        let (beyond, unsorted) = match &cells {
            Cells::Narrow(cells) => (cells.iter().any(|c| u64::from(*c) >= most), self.unsorted(cells)),
            Cells::Wide(cells) => (cells.iter().any(|c| *c >= most), self.unsorted(cells)),
        };
        if beyond || unsorted {
            return Err(damaged("its annotations are not in order, or not of its workers and labels"));
        }
        let (least, most) = WEIGHTS;
        let counts = |weight: &f64| *weight == 0.0 || (least..=most).contains(weight);
        if !self.weights().is_none_or(|weights| weights.iter().all(counts)) {
            return Err(damaged("it holds weights that count nothing"));
        }
        Ok(())
    }

    fn unsorted<C: Ord>(&self, cells: &[C]) -> bool {
        self.offsets.windows(2).any(|task| !cells[task[0] as usize..task[1] as usize].is_sorted())
    }
}
