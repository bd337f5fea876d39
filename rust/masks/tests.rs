use super::*;
use crate::control::Control;

/// Runs of masks given pixel by pixel, all of one image.
fn runs(masks: &[&[u16]]) -> (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>) {
    let (mut starts, mut begins, mut ends, mut classes) = (vec![0], vec![], vec![], vec![]);
    for mask in masks {
        for (at, &class) in mask.iter().enumerate().filter(|(_, class)| **class > 0) {
            begins.push(at as i64);
            ends.push(at as i64 + 1);
            classes.push(i64::from(class));
        }
        starts.push(begins.len() as i64);
    }
    (starts, begins, ends, classes)
}

fn with<T>(shape: &[i64], masks: &[&[u16]], job: impl Fn(&Drawings<'_>) -> T) -> T {
    let (starts, begins, ends, classes) = runs(masks);
    let offsets = [0, masks.len() as u32];
    job(&Drawings {
        tasks: Tasks(&offsets),
        shapes: shape,
        dims: shape.len(),
        starts: &starts,
        begins: &begins,
        ends: &ends,
        classes: &classes,
    })
}

#[test]
fn pixels_that_are_alike_are_one_column() {
    let found = with(&[2, 3], &[&[1, 1, 0, 0, 1, 0], &[1, 0, 0, 0, 2, 0]], |masks| {
        mask_columns(masks, &Control::default()).unwrap()
    });
    assert_eq!(found.ends, [1, 2, 4, 5, 6]);
    assert_eq!(found.columns, [0, 1, 2, 3, 2]);
    assert_eq!(found.pixels, [1, 1, 3, 1]);
    assert_eq!(found.said, [1, 1, 0, 1, 1, 0, 0, 2]);
}

#[test]
fn outlines_meet_half_way() {
    // Squares of 2 and of 6: between them lies one of 4.
    let square = |half: i64| -> Vec<u16> {
        (0..100)
            .map(|at: i64| u16::from((at / 10 - 5).max(4 - at / 10) < half && (at % 10 - 5).max(4 - at % 10) < half))
            .collect()
    };
    let (small, middle, large) = (square(1), square(2), square(3));
    let pull = Pull { share: &[0.5, 0.5], bias: &[0.0, 0.0], doubt: &[0.1] };
    let found =
        with(&[10, 10], &[&small, &large], |masks| shape_masks(masks, 3.0, &pull, &Control::default()).unwrap());
    let mut pixels = [0; 100];
    for ((begin, end), class) in found.begins.iter().zip(&found.ends).zip(&found.classes) {
        pixels[*begin as usize..*end as usize].fill(*class as u16);
    }
    // Corners are nearer to the small one than sides are.
    let wrong = pixels.iter().zip(&middle).filter(|(a, b)| a != b).count();
    assert!(wrong <= 4, "{wrong}");
    assert!(found.confidence[0] > 0.5 && found.confidence[0] <= 1.0);
}

#[test]
fn masks_that_do_not_fit_are_refused() {
    let good = |masks: &Drawings<'_>| shape_likeness(masks, 0.3, &Control::default()).is_ok();
    assert!(with(&[2, 2], &[&[1, 0, 0, 1]], good));
    assert!(!with(&[2, 1], &[&[1, 0, 0, 1]], good));
    assert!(!with(&[4], &[&[1, 0, 0, 1]], good));
    assert!(!with(&[-2, -2], &[&[1, 0, 0, 1]], good));
    let nan = |masks: &Drawings<'_>| shape_likeness(masks, f64::NAN, &Control::default()).is_ok();
    assert!(!with(&[2, 2], &[&[1, 0, 0, 1]], nan));
}
