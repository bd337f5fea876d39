use super::*;
use proptest::prelude::*;

const HEADER: bool = true;

/// What a plain reader of lines makes of a file without quotes.
fn by_lines(text: &str, wanted: &[usize]) -> Vec<Vec<String>> {
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).filter(|line| !line.is_empty());
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    wanted.iter().map(|&field| rows.iter().map(|row| row[field].to_owned()).collect()).collect()
}

/// Reads a file in blocks of some bytes at least; nothing if it is not plain.
fn read(text: &[u8], wanted: &[usize], header: bool, block: usize, n_parts: usize) -> Option<Vec<TextColumn>> {
    let control = Control::default();
    let mut reader = Reader::with_parts(b',', 3, wanted, header, (n_parts, 0)).unwrap();
    let (mut at, mut size) = (0, block);
    loop {
        let end = (at + size).min(text.len());
        match reader.read(&text[at..end], end == text.len(), &control).unwrap() {
            Block::NotPlain => return None,
            Block::Read(0) if end < text.len() => size += block,
            Block::Read(n) => (at, size) = (at + n, block),
        }
        if at == text.len() {
            return Some(reader.finish(&control).unwrap());
        }
    }
}

fn texts(column: &TextColumn) -> Vec<String> {
    let text = |code: &u32| {
        let code = *code as usize;
        let range = column.offsets[code] as usize..column.offsets[code + 1] as usize;
        String::from_utf8(column.data[range].to_vec()).unwrap()
    };
    column.codes.iter().map(text).collect()
}

/// Whether codes are numbered in order of appearance, and each is a text of its own.
fn is_in_order(column: &TextColumn) -> bool {
    let mut n_records = 0;
    let counted = column.codes.iter().all(|&code| {
        n_records += u32::from(code == n_records);
        code < n_records
    });
    let distinct: std::collections::BTreeSet<String> = texts(column).into_iter().collect();
    counted && distinct.len() + 1 == column.offsets.len()
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cé]{0,2}",
        "[0-9]{1,3}",
        "a-long-identifier-[ab]{0,2}",
        Just("exactly-15-byte".to_owned()),
        Just("exactly-16-bytes".to_owned()),
    ]
}

fn file() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n")];
    let row = (field(), field(), field(), end).prop_map(|(a, b, c, end)| format!("{a},{b},x{c}{end}"));
    (prop::collection::vec(row, 0..60), any::<bool>()).prop_map(|(rows, cut)| {
        let text = rows.concat();
        if cut { text.trim_end().to_owned() } else { text }
    })
}

proptest! {
    #[test]
    fn plain_files_are_read_in_any_blocks_and_parts(text in file(), block in 1_usize..200, n_parts in 1_usize..5) {
        let numbers = [2, 0];
        let columns = read(text.as_bytes(), &numbers, !HEADER, block, n_parts).unwrap();
        prop_assert_eq!(columns.iter().map(texts).collect::<Vec<_>>(), by_lines(&text, &numbers));
        prop_assert!(columns.iter().all(is_in_order));
    }

    #[test]
    fn quotes_change_nothing_but_what_they_protect(
        rows in prop::collection::vec(["[a\",\n\r]{0,4}", "[bé\",\n]{0,20}", "[c\"]{1,3}"], 1..40),
        block in 1_usize..100,
        n_parts in 1_usize..5,
    ) {
        let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
        let lines = rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n");
        let text = "\"one\",two,\"\"\"\n\"\n".to_owned() + &lines.collect::<String>();
        let columns = read(text.as_bytes(), &[0, 1, 2], HEADER, block, n_parts).unwrap();
        for (field, column) in columns.iter().enumerate() {
            prop_assert_eq!(texts(column), rows.iter().map(|row| row[field].clone()).collect::<Vec<_>>());
            prop_assert!(is_in_order(column));
        }
    }

    #[test]
    fn any_bytes_are_read_or_rejected(text in prop::collection::vec(prop_oneof![Just(b','), Just(b'\n'), Just(b'"'), any::<u8>()], 0..80), block in 1_usize..50) {
        for column in read(&text, &[1], HEADER, block, 3).unwrap_or_default() {
            texts(&column);
        }
    }
}

#[test]
fn rows_that_are_not_plain_are_left_to_others() {
    for row in ["a,b", "a,b,c,d", "a,\"b\"x,c", "a,b\"\",c", "a,b\rd,c", "a,b,\"c", " "] {
        for text in [format!("x,y,z\n{row}\n"), format!("x,y,z\n1,2,3\n{row}")] {
            assert_eq!(read(text.as_bytes(), &[0], HEADER, 1000, 2), None, "{text:?}");
        }
    }
    assert_eq!(read(b"x,y,z\na,b,\xff\n", &[0], HEADER, 1000, 2), None);
    assert_eq!(read(b"x,y\na,b,c\n", &[0], HEADER, 1000, 2), None);
}

#[test]
fn many_texts_are_merged_over_parts() {
    // More entries than one shard takes, each in every part.
    let rows: Vec<String> = (0..100_000).map(|i| format!("t{},w{},{}\n", i * 7919 % 30_011, i % 97, i % 3)).collect();
    let text = rows.concat();
    let columns = read(text.as_bytes(), &[0, 1, 2], !HEADER, 1 << 16, 4).unwrap();
    assert_eq!(columns.iter().map(texts).collect::<Vec<_>>(), by_lines(&text, &[0, 1, 2]));
    assert!(columns.iter().all(is_in_order));
    assert_eq!(columns, read(text.as_bytes(), &[0, 1, 2], !HEADER, text.len(), 1).unwrap());
}

#[test]
fn what_cannot_be_read_is_rejected() {
    assert!(Reader::new(b'"', 3, &[0], HEADER).is_err());
    assert!(Reader::new(b',', 1, &[0], HEADER).is_err());
    assert!(Reader::new(b',', 3, &[3], HEADER).is_err());
    assert!(Reader::new(b',', 3, &[1, 1], HEADER).is_err());
    let control = Control::default();
    control.cancel();
    let mut reader = Reader::new(b',', 3, &[0], HEADER).unwrap();
    assert_eq!(reader.read(b"a,b,c\n1,2,3\n", true, &control), Err(Error::Cancelled));
}
