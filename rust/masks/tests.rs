use super::*;
use crate::base::control::Control;

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
    let result = with(&[2, 3], &[&[1, 1, 0, 0, 1, 0], &[1, 0, 0, 0, 2, 0]], |masks| {
        mask_columns(masks, &Control::default()).unwrap()
    });
    assert_eq!(result.ends, [1, 2, 4, 5, 6]);
    assert_eq!(result.columns, [0, 1, 2, 3, 2]);
    assert_eq!(result.pixels, [1, 1, 3, 1]);
    assert_eq!(result.said, [1, 1, 0, 1, 1, 0, 0, 2]);
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
    let result =
        with(&[10, 10], &[&small, &large], |masks| shape_masks(masks, 3.0, &pull, &Control::default()).unwrap());
    let mut pixels = [0; 100];
    let Runs { begins, ends, classes } = &result.runs;
    for ((begin, end), class) in begins.iter().zip(ends).zip(classes) {
        pixels[*begin as usize..*end as usize].fill(*class as u16);
    }
    // Corners are nearer to the small one than sides are.
    let wrong = pixels.iter().zip(&middle).filter(|(a, b)| a != b).count();
    assert!(wrong <= 4, "{wrong}");
    assert!(result.confidence[0] > 0.5 && result.confidence[0] <= 1.0);
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

#[test]
fn runs_go_to_pixels_and_back() {
    let pixels: Vec<u8> = (0..200).map(|at| u8::from(at % 67 > 40) * (1 + (at / 100) as u8)).collect();
    let runs = mask_runs(&pixels).unwrap();
    let input = Given { begins: &runs.begins, ends: &runs.ends, classes: &runs.classes };
    assert_eq!(mask_pixels::<u8>(input, 200).unwrap(), pixels);
    assert!(mask_pixels::<u8>(input, 150).is_err());
    let (lengths, values) = coco_lengths(input, &[20, 10]).unwrap();
    assert_eq!(lengths.iter().sum::<i64>(), 200);
    assert_eq!(coco_runs(&lengths, &values, &[20, 10]).unwrap(), runs);
    assert!(coco_runs(&lengths, &values, &[20, 11]).is_err());
    assert!(coco_runs(&[i64::MAX, 3], &[0, 1], &[1, 2]).is_err());
    assert_eq!(coco_counts(b"5220003").unwrap(), [5, 2, 2, 2, 2, 2, 5]);
    assert!(coco_counts(b"oooooooooooooooo0").is_err() && coco_counts(b"o").is_err() && coco_counts(b" ").is_err());
}

#[test]
fn polygons_hold_pixels_whose_centres_they_do() {
    let control = Control::default();
    let corners = [1.0, 1.0, 4.0, 1.0, 4.0, 3.0, 1.0, 3.0];
    let square = Polygons { starts: &[0, 4], corners: &corners };
    let runs = polygon_runs(&square, 4, 5, &control).unwrap();
    assert_eq!((runs.begins, runs.ends), (vec![6, 11], vec![9, 14]));
    // Rows that are full are one run.
    let all = Polygons { starts: &[0, 3], corners: &[-9.0, -9.0, 99.0, -9.0, -9.0, 99.0] };
    assert_eq!(polygon_runs(&all, 4, 5, &control).unwrap().ends, [20]);
    assert!(polygon_runs(&Polygons { starts: &[0, 2], corners: &corners[..4] }, 4, 5, &control).is_err());
    assert!(polygon_runs(&Polygons { starts: &[0, 3], corners: &[f64::NAN; 6] }, 4, 5, &control).is_err());
    assert_eq!(crossing_sides(&corners, &control).unwrap(), None);
    assert_eq!(crossing_sides(&[0.0, 0.0, 3.0, 3.0, 3.0, 0.0, 0.0, 3.0], &control).unwrap(), Some((0, 2)));
}

#[test]
fn the_densest_place_is_that_of_most() {
    let result = densest(&[0.0, 0.01, -0.01, 5.0, 5.4], &[1.0; 5], &[0.1; 5]).unwrap();
    assert!(result.abs() < 0.01, "{result}");
    assert!(densest(&[], &[], &[]).is_err() && densest(&[0.0], &[1.0], &[0.0]).is_err());
}
