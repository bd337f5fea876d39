use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn column(texts: &[String]) -> (Vec<i64>, Vec<u8>) {
    let mut offsets = vec![0];
    let mut data = vec![];
    for text in texts {
        data.extend_from_slice(text.as_bytes());
        offsets.push(data.len() as i64);
    }
    (offsets, data)
}

proptest! {
    #[test]
    fn integers_decode_to_themselves(
        values in prop::collection::vec(prop_oneof![any::<i64>(), -5_i64..5], 0..300),
    ) {
        let encoded = integers(&values, &Control::default()).unwrap();
        let distinct: Vec<i64> = values.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        prop_assert_eq!(&encoded.names, &distinct);
        let decoded: Vec<i64> = encoded.codes.iter().map(|&c| encoded.names[c as usize]).collect();
        prop_assert_eq!(decoded, values);
    }

    #[test]
    fn texts_decode_to_themselves(texts in prop::collection::vec("[ab\u{0}é]{0,3}(common-long-prefix)?[ab]{0,2}", 0..300)) {
        let (offsets, data) = column(&texts);
        let strs = Strings::new(&offsets, &data).unwrap();
        let encoded = strings(&strs, &Control::default()).unwrap();
        let distinct: Vec<&str> = texts.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
        let names: Vec<&str> =
            encoded.names.iter().map(|&r| std::str::from_utf8(strs.get(r as usize)).unwrap()).collect();
        prop_assert_eq!(&names, &distinct);
        for (text, &code) in texts.iter().zip(&encoded.codes) {
            prop_assert_eq!(text.as_str(), names[code as usize]);
        }
    }

    #[test]
    fn canonical_integers_round_trip(values in prop::collection::vec(any::<i64>(), 1..100)) {
        let (offsets, data) = column(&values.iter().map(ToString::to_string).collect::<Vec<_>>());
        let strs = Strings::new(&offsets, &data).unwrap();
        prop_assert_eq!(canonical_integers(&strs, &Control::default()).unwrap(), Some(values));
    }

    #[test]
    fn damaged_offsets_are_refused_or_safe(offsets in prop::collection::vec(any::<i64>(), 0..8), data in prop::collection::vec(any::<u8>(), 0..8)) {
        if let Ok(strs) = Strings::new(&offsets, &data) {
            strings(&strs, &Control::default()).unwrap();
        }
    }
}

/// Enough rows for several blocks and shards that hold many values each.
fn many() -> Vec<i64> {
    (0..300_000_i64).map(|i| i * 7919 % 100_003).collect()
}

#[test]
fn columns_of_several_blocks_decode_to_themselves() {
    // Dense, then spread too far for a look-up table, then at both ends of what there is.
    for (factor, shift) in [(1, -50_000), (1 << 40, 0), (1, i64::MAX - 100_003), (1, i64::MIN)] {
        let values: Vec<i64> = many().into_iter().map(|v| v * factor + shift).collect();
        let encoded = integers(&values, &Control::default()).unwrap();
        assert!(encoded.names.is_sorted_by(|a, b| a < b));
        assert!(encoded.codes.iter().zip(&values).all(|(&code, &v)| encoded.names[code as usize] == v));
    }
    let texts: Vec<String> =
        many().into_iter().map(|v| format!("{v}{}", "a long tail".repeat(v as usize % 3))).collect();
    let (offsets, data) = column(&texts);
    let strs = Strings::new(&offsets, &data).unwrap();
    let encoded = strings(&strs, &Control::default()).unwrap();
    let name = |code: u32| strs.get(encoded.names[code as usize] as usize);
    assert!(encoded.codes.iter().zip(&texts).all(|(&code, text)| name(code) == text.as_bytes()));
    assert!((1..encoded.names.len() as u32).all(|code| name(code - 1) < name(code)));
    let (offsets, data) = column(&many().iter().map(ToString::to_string).collect::<Vec<_>>());
    let strs = Strings::new(&offsets, &data).unwrap();
    assert_eq!(canonical_integers(&strs, &Control::default()).unwrap(), Some(many()));
}

#[test]
fn the_ends_of_the_range_are_two_values() {
    let values = [i64::MAX, i64::MIN, i64::MAX];
    let encoded = integers(&values, &Control::default()).unwrap();
    assert_eq!(encoded, Encoded { codes: vec![1, 0, 1], names: vec![i64::MIN, i64::MAX] });
}

#[test]
fn nothing_is_encoded_as_nothing() {
    let control = Control::default();
    assert_eq!(integers(&[], &control).unwrap(), Encoded { codes: vec![], names: vec![] });
    let empty = Strings::new(&[0], &[]).unwrap();
    assert!(empty.is_empty());
    assert_eq!(strings(&empty, &control).unwrap(), Encoded { codes: vec![], names: vec![] });
}

#[test]
fn offsets_must_ascend_within_the_data() {
    for offsets in [&[][..], &[1, 0], &[0, 3], &[-1, 1], &[0, -1], &[0, 2, 1, 2]] {
        assert!(Strings::new(offsets, b"ab").is_err(), "{offsets:?}");
    }
    assert_eq!(Strings::new(&[1, 1, 2], b"ab").unwrap().get(1), b"b");
}

#[test]
fn cancelled_encoding_stops() {
    let control = Control::default();
    control.cancel();
    let (offsets, data) = column(&["1".into(), "2".into()]);
    let strs = Strings::new(&offsets, &data).unwrap();
    assert_eq!(integers(&[1, 2], &control), Err(Error::Cancelled));
    assert_eq!(strings(&strs, &control), Err(Error::Cancelled));
    assert_eq!(canonical_integers(&strs, &control), Err(Error::Cancelled));
}

#[test]
fn only_canonical_text_becomes_a_number() {
    for text in ["", "-", "-0", "00", "07", "+7", "1.0", " 1", "1e3", "9999999999999999999"] {
        assert_eq!(parse_canonical(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_canonical(b"0"), Some(0));
    assert_eq!(parse_canonical(b"-120"), Some(-120));
    assert_eq!(parse_canonical(i64::MIN.to_string().as_bytes()), Some(i64::MIN));
    assert_eq!(parse_canonical(b"9223372036854775808"), None);
}

#[test]
fn a_late_text_keeps_the_column_text() {
    let mut texts: Vec<String> = (0..200_000).map(|i| i.to_string()).collect();
    texts[150_000] = "x".into();
    let (offsets, data) = column(&texts);
    let strs = Strings::new(&offsets, &data).unwrap();
    assert_eq!(canonical_integers(&strs, &Control::default()).unwrap(), None);
}

#[test]
fn sorted_columns_have_the_codes_of_their_shuffled_rows() {
    // Over several blocks, one of them within a single value.
    let texts: Vec<String> =
        (0..200_000_u32).map(|i| format!("{:06}", if i < 70_000 { i / 3 } else { 90_000 + i / 80_000 })).collect();
    let (offsets, data) = column(&texts);
    let sorted = strings(&Strings::new(&offsets, &data).unwrap(), &Control::default()).unwrap();
    let reversed: Vec<String> = texts.iter().rev().cloned().collect();
    let (offsets, data) = column(&reversed);
    let mut other = strings(&Strings::new(&offsets, &data).unwrap(), &Control::default()).unwrap();
    other.codes.reverse();
    assert_eq!(sorted.codes, other.codes);
    let names =
        |rows: &[u64], texts: &[String]| rows.iter().map(|&row| texts[row as usize].clone()).collect::<Vec<_>>();
    assert_eq!(names(&sorted.names, &texts), names(&other.names, &reversed));
}
