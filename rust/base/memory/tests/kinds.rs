//! The same for kernels of numbers, comparisons, rankings and sets, workers who keep to an order, and steps of networks.

use super::*;
use crate::base::codes::CodeTable;
use crate::learn;
use crate::multilabel;
use crate::numeric::{self, Noise, Prior, View};
use crate::pairwise::{self, Clusters, LeftBias, Ties};
use crate::{boxes, masks};

fn ratings(weighted: bool, dims: usize) -> Ratings {
    let rows = super::log();
    let tasks: Vec<u32> = rows.iter().map(|row| row.0).collect();
    let workers: Vec<u32> = rows.iter().map(|row| row.1).collect();
    let values: Vec<f64> = (0..60 * dims).map(|i| (i * 7 % 13) as f64).collect();
    let weights: Vec<f64> = (0..60).map(|i| 0.5 + f64::from(i % 3)).collect();
    let weights = weighted.then_some(&weights[..]);
    let log = Log { tasks: &tasks, workers: &workers, weights, n_tasks: SIZES[0], n_workers: SIZES[1] };
    Ratings::new(&log, &values, dims, Repeats::Keep, &Control::default()).unwrap()
}

#[test]
fn numbers_survive_a_refused_allocation() {
    let [n, m, _] = SIZES;
    let each = [2.0, 1.0, 0.1, 1.1, 0.1, 0.05].repeat(m);
    let (last, shapes, residuals) = ([0.5, 3.0].repeat(n), [5.0, 4.0].repeat(m), [0.5; 60]);
    for (weighted, dims) in [(false, 1), (false, 2), (true, 1)] {
        let table = ratings(weighted, dims);
        let view = View::new(&table, 0, 1.0, 0.0).unwrap();
        let prior = Prior { mean: 0.0, precision: 1.0 };
        for noise in [Noise::Normal, Noise::Student(4.0, &last), Noise::Others(&shapes, &residuals)] {
            assert_refused("a Gaussian pass", |control| numeric::gaussian_pass(&view, &each, prior, noise, control));
        }
        for weights in [None, Some(&[1.0; 7][..])] {
            assert_refused("means", |control| numeric::spread(&view, weights, control));
        }
        assert_refused("medians", |control| numeric::trimmed(&view, 0.5, control));
        let (means, factors) = ([0.5; 7], [0.3; 14]);
        assert_refused("covariances", |control| numeric::covariance_sums(&view, &means, &factors, 2, control));
        assert_refused("scores of factors", |control| {
            numeric::factor_scores(&view, (&means, &[1.0; 7]), (&factors, &[1.0, 0.0]), control)
        });
    }
}

#[test]
fn codes_survive_a_refused_allocation() {
    let rows = super::log();
    let tasks: Vec<u32> = rows.iter().map(|row| row.0).collect();
    let workers: Vec<u32> = rows.iter().map(|row| row.1).collect();
    let codes: Vec<u32> = (0..60).map(|i| i * 7 % 13).collect();
    let weights = [0.5; 60];
    for weights in [None, Some(&weights[..])] {
        let log = Log { tasks: &tasks, workers: &workers, weights, n_tasks: SIZES[0], n_workers: SIZES[1] };
        let build = |control: &Control| CodeTable::new(&log, &codes, 13, Repeats::Keep, control);
        assert_refused("codes", build);
        let table = build(&Control::default()).unwrap();
        assert_refused("a part of them", |_| table.keep(&[true; 60]));
        assert_refused("those with rows", |_| table.compacted());
    }
}

#[test]
fn comparisons_survive_a_refused_allocation() {
    let left: Vec<u32> = (0..40).map(|i| i % 6).collect();
    let right: Vec<u32> = (0..40).map(|i| (i + 1 + i / 6 % 5) % 6).collect();
    let outcomes: Vec<u8> = (0..40).map(|i| (i * 7 % 3) as u8).collect();
    let workers: Vec<u32> = (0..40).map(|i| i % 4).collect();
    let (weights, contexts) = ([0.5; 40], [1; 40]);
    let rows = pairwise::Rows {
        left: &left,
        right: &right,
        outcomes: &outcomes,
        workers: &workers,
        contexts: Some(&contexts),
        weights: Some(&weights),
        n_items: 6,
        n_workers: 4,
        n_contexts: 2,
    };
    assert_refused("comparisons", |control| pairwise::Comparisons::new(&rows, control));
    let table = pairwise::Comparisons::new(&rows, &Control::default()).unwrap();
    assert_refused("a part of them", |_| table.keep(&[true; 40]));
    assert_refused("other weights", |control| table.counted(&weights, control));
    assert_refused("workers of comparisons", |_| table.workers());
    assert_refused("counts of items", |_| table.item_counts());
    assert_refused("groups of items", |_| table.components());
    let spread = [f64::NAN; 2];
    for (ties, left_bias, slopes) in [
        (Ties::Half, LeftBias::None, false),
        (Ties::Davidson, LeftBias::Shared, true),
        (Ties::RaoKupper, LeftBias::Worker, true),
    ] {
        let options =
            pairwise::Options { ties, left_bias, slopes, prior: 2.0, spread, start: None, max_iter: 3, tol: 1e-9 };
        assert_refused("scores", |control| pairwise::bradley_terry_fit(&table, &options, control));
        let fit = pairwise::bradley_terry_fit(&table, &options, &Control::default()).unwrap();
        for clusters in [Clusters::Comparisons, Clusters::Workers] {
            let options = pairwise::ErrorOptions {
                ties,
                left_bias: left_bias == LeftBias::Shared,
                prior: 2.0,
                clusters,
                n_probes: 8,
                seed: 1,
            };
            assert_refused("errors of scores", |control| {
                pairwise::bradley_terry_errors(&table, &fit.found, &options, control)
            });
        }
    }
    let options = pairwise::CrowdOptions { link: 1.0, reports: [2.0, 1.0], max_iter: 3, tol: 0.0 };
    assert_refused("a crowd's scores", |control| pairwise::crowd_bt_fit(&table, &options, control));
    let options = pairwise::CentralityOptions { prior: 1.0, max_iter: 3, tol: 0.0 };
    assert_refused("centrality", |control| pairwise::rank_centrality_fit(&table, &options, control));
}

#[test]
fn rankings_survive_a_refused_allocation() {
    let (offsets, items, workers) = ([0, 3, 5, 8, 10], [0, 1, 2, 2, 3, 3, 1, 0, 0, 2], [0, 1, 0, 2]);
    let build = |control: &Control| {
        pairwise::Rankings::new(&offsets, &items, &workers, Some(&[1.0, 2.0, 1.0, 0.5]), [4, 3], control)
    };
    assert_refused("rankings", build);
    let table = build(&Control::default()).unwrap();
    for (slopes, by_worker) in [(false, false), (true, true)] {
        let options = pairwise::LuceOptions {
            slopes,
            prior: 2.0,
            spread: f64::NAN,
            errors: true,
            by_worker,
            max_iter: 3,
            tol: 1e-9,
        };
        assert_refused("Plackett and Luce", |control| pairwise::plackett_luce_fit(&table, &options, control));
    }
}

#[test]
fn sets_survive_a_refused_allocation() {
    let design = multilabel::Design {
        starts: &[0, 3, 6],
        rows: &[1, 5, 8, 3, 7, 10],
        task_starts: &[0, 1, 2, 2, 2, 2],
        labels: &[0, 1],
        pair_workers: &[0, 0, 1, 1, 2, 2],
        pair_labels: &[0, 1, 0, 1, 0, 1],
        spare: &[4.0; 6],
        sizes: [5, 3, 2],
    };
    for start in [&[][..], &[0.7, 0.1, 0.1, 0.7]] {
        assert_refused("sets", |control| multilabel::relevance_fit(&design, start, 2, 0.0, control));
    }
    let patterns = multilabel::Patterns { shares: vec![1.0], rates: vec![0.4; 2] };
    assert_refused("probabilities of sets", |control| {
        multilabel::relevance_posterior(&design, [&[0.7; 6], &[0.1; 6]], &patterns, control)
    });
}

#[test]
fn ordered_crowds_survive_a_refused_allocation() {
    let class_pseudo = [1.0; SIZES[2]];
    let common = Common { class_pseudo: &class_pseudo, gold: None, protected: 0, max_iter: 2, tol: 0.0 };
    for weighted in [false, true] {
        let table = table(weighted);
        for strength in [None, Some(5.0), Some(f64::INFINITY)] {
            let priors = [Hierarchy::Ordered(strength)];
            assert_refused("ordered workers", |control| em::fit_hierarchies(&table, &priors, &common, control));
        }
    }
}

#[test]
fn boxes_and_masks_survive_a_refused_allocation() {
    let boxes = [0.0, 0.0, 4.0, 4.0, 0.5, 0.0, 4.5, 4.0, 0.6, 0.0, 4.6, 4.0];
    let tasks = objects::Tasks(&[0, 3]);
    let crowd = boxes::Drawn { tasks, workers: &[0, 1, 2], numbers: &boxes, dims: 4 };
    assert_refused("matches of boxes", |control| boxes::match_boxes(&crowd, 0.4, 0.0, control));
    let points = boxes::Drawn { numbers: &[0.0, 0.0, 1.0, 0.0, 1.5, 0.0], dims: 2, ..crowd };
    assert_refused("matches of points", |control| boxes::match_boxes(&points, 0.4, 1.0, control));
    assert_refused("nearest points", |control| boxes::nearest_points(&points, control));
    let drawings = masks::Drawings {
        tasks: objects::Tasks(&[0, 2]),
        shapes: &[3, 2, 4],
        dims: 3,
        starts: &[0, 2, 4],
        begins: &[1, 9, 1, 12],
        ends: &[4, 12, 6, 14],
        classes: &[1, 1, 1, 2],
    };
    assert_refused("columns of masks", |control| masks::mask_columns(&drawings, control));
    assert_refused("outlines", |control| masks::shape_likeness(&drawings, 0.5, control));
    let pull = masks::Pull { share: &[0.5; 2], bias: &[0.0; 2], doubt: &[0.1] };
    assert_refused("mean outlines", |control| masks::shape_masks(&drawings, 0.5, &pull, control));
    assert_refused("votes on pixels", |control| masks::mask_vote(&drawings, &[1.0; 2], control));
    let hands = masks::Hands { workers: &[0, 1], weights: &[1.0; 2], n_workers: 2, n_classes: 3 };
    let options = masks::StapleOptions { asymmetry: 0.3, strength: None, max_iter: 3, tol: 1e-4, chances: true };
    assert_refused("recalls of pixels", |control| masks::staple(&drawings, hands, options, control));
    let pixel_runs = masks::Given { begins: &[1, 5], ends: &[3, 6], classes: &[1, 2] };
    assert_refused("runs of pixels", |_| masks::mask_runs(&[0_u8, 1, 1, 0]));
    assert_refused("pixels of runs", |_| masks::mask_pixels::<u16>(pixel_runs, 8));
    assert_refused("run-lengths", |_| masks::coco_lengths(pixel_runs, &[2, 4]));
    assert_refused("runs of run-lengths", |_| masks::coco_runs(&[3, 5], &[0, 1], &[2, 4]));
    assert_refused("run-lengths as text", |_| masks::coco_counts(b"5220003"));
    let corners = [0.0, 0.0, 3.0, 0.0, 3.0, 3.0, 0.0, 3.0];
    let polygons = masks::Polygons { starts: &[0, 4], corners: &corners };
    assert_refused("pixels of polygons", |control| masks::polygon_runs(&polygons, 4, 4, control));
    assert_refused("sides that cross", |control| masks::crossing_sides(&corners, control));
    assert_refused("the densest place", |_| masks::densest(&[0.0, 1.0], &[1.0; 2], &[0.1; 2]));
    assert_refused("a prior", |control| em::dirichlet_step(&[2.0, 1.0], &[3.0, 0.0, 1.0, 4.0], &[2.0, 1.0], control));
}

#[test]
fn a_step_on_rows_survives_a_refused_allocation() {
    let step = learn::Step { rate: 0.1, betas: [0.9, 0.999], eps: 1e-8, number: 1 };
    assert_refused("Adam on rows", |control| {
        let (mut table, mut mean, mut square) = ([1.0; 6], [0.0; 6], [0.0; 6]);
        let tables = learn::Tables { table: &mut table, mean: &mut mean, square: &mut square, width: 2 };
        learn::adam_rows(tables, &[2, 0], &[1.0; 4], step, control).map(|()| table)
    });
}
