use super::*;
use proptest::prelude::*;

fn aligned(texts: &[(&[u32], u32)]) -> Alignment {
    let mut starts = vec![0];
    let mut tokens = vec![];
    for (text, _) in texts {
        tokens.extend_from_slice(text);
        starts.push(tokens.len() as u32);
    }
    let counts: Vec<u32> = texts.iter().map(|(_, count)| *count).collect();
    let offsets = [0, texts.len() as u32];
    let input = Texts { tasks: Tasks(&offsets), starts: Tasks(&starts), tokens: &tokens, counts: &counts };
    align_texts(&input, &Control::default()).unwrap()
}

#[test]
fn a_missing_word_leaves_its_slot_empty() {
    let result = aligned(&[(&[1, 2, 3], 1), (&[1, 3], 1), (&[1, 4, 3, 5], 1)]);
    assert_eq!(result.slots, [0, 1, 2, 0, 2, 0, 1, 2, 3]);
    assert_eq!(result.n_slots, [4]);
    // Slot 1 holds three different versions, slot 3 one against two that are empty.
    assert_eq!(result.costs, [5.0]);
}

#[test]
fn nothing_at_all_takes_no_slot() {
    let result = aligned(&[(&[], 3)]);
    assert_eq!((result.slots.len(), result.n_slots), (0, vec![0]));
    assert_eq!(aligned(&[(&[], 1), (&[7], 2)]).n_slots, [1]);
}

#[test]
fn bad_offsets_are_refused() {
    let input = Texts { tasks: Tasks(&[0, 2]), starts: Tasks(&[0, 1]), tokens: &[3], counts: &[1] };
    assert!(align_texts(&input, &Control::default()).is_err());
    let input = Texts { tasks: Tasks(&[0, 1]), starts: Tasks(&[0, 1]), tokens: &[3], counts: &[0] };
    assert!(align_texts(&input, &Control::default()).is_err());
}

proptest! {
    #[test]
    fn tokens_keep_their_order_and_the_cost_is_at_least_that_of_pairs(
        texts in prop::collection::btree_set(prop::collection::vec(0_u32..4, 0..7), 1..5),
    ) {
        let input: Vec<(&[u32], u32)> = texts.iter().map(|text| (&text[..], 1)).collect();
        let result = aligned(&input);
        let mut at = 0;
        for text in &texts {
            let places = &result.slots[at..at + text.len()];
            at += text.len();
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(places.iter().all(|&place| place < result.n_slots[0]));
        }
        let control = Control::default();
        let mut row = vec![0; 8];
        let mut pairs = 0;
        for a in &texts {
            for b in &texts {
                pairs += edits(a, b, &mut row, &control).unwrap();
            }
        }
        prop_assert!(result.costs[0] >= f64::from(pairs) / 2.0);
        if texts.len() == 2 {
            prop_assert!((result.costs[0] - f64::from(pairs) / 2.0).abs() < 1e-9);
        }
    }
}
