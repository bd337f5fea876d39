use proptest::prelude::*;

use super::*;
use crate::agreement::{self, Coefficient, Scale};
use crate::base::control::Control;
use crate::categorical::em::{self, Factors, Held, Mode, Model};
use crate::categorical::table::tests::of_rows;

/// Some tasks of a crowd of eleven, of which three are absent; four labels, of which one is an abstention.
fn table(weighted: bool) -> Table {
    let triples: Vec<_> =
        (0..90_u32).map(|i| (i % 30, (i * 7) % 8 + u32::from(i % 3 > 0), (i * 5 % 4) as u16)).collect();
    let weights: Vec<f64> = (0..90).map(|i| f64::from(i % 4) / 2.0).collect();
    of_rows(&triples, weighted.then_some(&weights), [30, 11, 4]).with_classes(3).unwrap()
}

#[test]
fn comes_back_as_it_was() {
    for weighted in [false, true] {
        let table = table(weighted);
        let shard = Shard::from_bytes(Shard::of(&table).unwrap().bytes(), true).unwrap();
        assert_eq!((shard.n_tasks(), shard.len(), shard.crowd()), (30, 90, 11));
        let who = shard.who().unwrap();
        let (tasks, workers, labels) = shard.table().unwrap().columns().unwrap();
        let workers: Vec<u32> = workers.iter().map(|&worker| who[worker as usize]).collect();
        assert_eq!((tasks, workers, labels), table.columns().unwrap());
        assert_eq!(shard.table().unwrap().weights(), table.weights());
        assert_eq!(shard.bytes().len() % ALIGNED, 0);
        // Four bytes per annotation, one a task, and what is padded.
        assert!(weighted || shard.bytes().len() <= Header::BYTES + 90 * 4 + 30 + who.len() * 4 + 3 * ALIGNED);
    }
}

const ALIGNED: usize = 64;

#[test]
fn leaves_abstentions_out() {
    for weighted in [false, true] {
        let table = table(weighted);
        let plain = Shard::of(&table).unwrap().without_abstentions().unwrap();
        let keep: Vec<bool> = table.columns().unwrap().2.iter().map(|&label| label < 3).collect();
        let expected = table.keep(&keep).unwrap();
        let result = plain.table().unwrap();
        assert_eq!((plain.n_labels(), plain.n_classes(), plain.crowd()), (3, 3, 11));
        assert_eq!(result.offsets(), expected.offsets());
        assert_eq!(result.columns().unwrap().2, expected.columns().unwrap().2);
        assert_eq!(result.weights(), expected.weights());
    }
}

#[test]
fn wide_cells_and_long_tasks() {
    let triples: Vec<_> = (0..70_000_u32).map(|i| (0, i, 65_000)).chain([(1, 5, 0)]).collect();
    let table = of_rows(&triples, None, [2, 70_000, 65_535]);
    let shard = Shard::from_bytes(Shard::of(&table).unwrap().bytes(), true).unwrap();
    assert_eq!((shard.header.cell_width, shard.header.length_width), (8, 4));
    assert!(shard.who().is_none());
    assert_eq!(shard.table().unwrap().columns().unwrap(), table.columns().unwrap());
}

#[test]
fn a_pass_over_a_shard_is_one_over_its_table() {
    for weighted in [false, true] {
        let shard = Shard::of(&table(weighted)).unwrap();
        let (own, control) = (shard.table().unwrap(), Control::default());
        let workers: Vec<f64> = (0..shard.n_workers() * 12).map(|i| 0.1 + 0.01 * (i % 7) as f64).collect();
        let factors = Factors { workers: &workers, classes: &[0.2, 0.3, 0.5] };
        let gather = |held: Held<'_>| em::gather(held, Model::Full, factors, Mode::default(), None, &control).unwrap();
        let (a, b) = (gather(Held::from(&shard)), gather(Held::from(&own)));
        assert_eq!((a.workers, a.classes, a.log_evidence), (b.workers, b.classes, b.log_evidence));
        let answers = |held: Held<'_>| em::answers(held, Model::Full, factors, None, true, &control).unwrap();
        let (a, b) = (answers(Held::from(&shard)), answers(Held::from(&own)));
        assert_eq!((a.0.winner, a.1, a.2), (b.0.winner, b.1, b.2));
    }
}

#[test]
fn refuses_what_is_no_shard() {
    let bytes = Shard::of(&table(true)).unwrap().bytes().to_vec();
    let error_of = |bytes: &[u8]| Shard::from_bytes(bytes, true).unwrap_err().to_string();
    assert!(error_of(&[]).contains("not a shard"));
    assert!(error_of(&bytes[..100]).contains("100 bytes"));
    assert!(error_of(&bytes[..bytes.len() - 64]).contains("bytes long"));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert!(error_of(&newer).contains("version 9"));
    let missing = Shard::read(Path::new("/nowhere/at/all"), true).unwrap_err();
    assert!(matches!(missing, Error::File(message) if message.contains("/nowhere/at/all")));
}

/// A shard of which one number was changed and the checksums made to fit.
fn forged(change: impl Fn(&mut Header, &mut [u8])) -> Result<Shard> {
    let shard = Shard::of(&table(true)).unwrap();
    let (mut header, mut bytes) = (shard.header, shard.bytes().to_vec());
    change(&mut header, &mut bytes);
    header.checksum = crc32fast::hash(&bytes[Header::BYTES..]);
    header.write(&mut bytes[..Header::BYTES]);
    Shard::from_bytes(&bytes, true)
}

#[test]
fn refuses_forged_columns() {
    let places = Shard::of(&table(true)).unwrap().places();
    assert!(forged(|_, _| {}).is_ok());
    assert!(forged(|_, bytes| bytes[places.ids.start] = 255).is_err());
    assert!(forged(|_, bytes| bytes[places.lengths.start] += 1).is_err());
    assert!(forged(|_, bytes| bytes[places.cells.start + 3] = 1).is_err());
    assert!(forged(|_, bytes| bytes[places.weights.start + 7] = 0xff).is_err());
    assert!(forged(|header, _| header.n_labels = 0).is_err());
    assert!(forged(|header, _| header.n_tasks = 0).is_err());
    assert!(forged(|header, _| header.n_classes = 5).is_err());
    assert!(forged(|header, _| header.crowd = 2).is_err());
    assert!(forged(|header, _| header.cell_width = 8).is_err());
    assert!(forged(|header, _| header.n_annotations = usize::MAX >> 1).is_err());
}

#[test]
fn agreement_from_sums_is_that_of_the_table() {
    let (table, control) = (table(false), Control::default());
    let scale = Scale { shape: agreement::Shape::Linear, positions: &[0.0, 1.0, 3.0, 4.0] };
    for (_, coefficient) in Coefficient::NAMES {
        let whole = agreement::agreement_by_counts(&table, coefficient, scale, 0, 0, &control).unwrap();
        let sums = agreement::coincidences(&table, coefficient, &control).unwrap();
        let (value, worst) = agreement::agreement_by_coincidences(&sums, coefficient, scale).unwrap();
        assert!((value - whole.value).abs() < 1e-12 && (worst - whole.worst).abs() < 1e-12, "{coefficient:?}");
        assert_eq!(sums.n_pairs, whole.n_pairs);
    }
}

proptest! {
    /// Whatever bit changes, a shard is rejected.
    #[test]
    fn notices_every_bit(at in any::<prop::sample::Index>(), bit in 0..8_u8, weighted in any::<bool>()) {
        let mut bytes = Shard::of(&table(weighted)).unwrap().bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Shard::from_bytes(&bytes, false).is_err());
    }
}
