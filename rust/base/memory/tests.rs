//! The n-th allocation rejected, for every n: whatever allocates fails as it should, and stays intact.

mod kinds;

use super::*;
use std::cell::Cell;
use std::fmt::Debug;

use crate::agreement::{Chance, Coefficient, Scale, Shape, Summary, agreement_by_counts, agreement_by_pairs};
use crate::audit::copies;
use crate::audit::drift;
use crate::audit::leave_one_out::leave_one_out_sums;
use crate::audit::null_model::Beliefs;
use crate::audit::reputation;
use crate::base::control::Control;
use crate::base::csv;
use crate::base::encode;
use crate::base::links::Log;
use crate::base::num;
use crate::categorical::consensus;
use crate::categorical::em::{
    self, Assignment, Common, CommunityOptions, Factors, GroupedOptions, Hierarchy, Layers, Mode, Model, Opening,
    Options, Parameters, Sampling, Sizes, Start, SubtypesOptions,
};
use crate::categorical::glad;
use crate::categorical::kos;
use crate::categorical::linked;
use crate::categorical::mace;
use crate::categorical::margin;
use crate::categorical::minimax;
use crate::categorical::simulate;
use crate::categorical::table::{Repeats, Rows, Table, tests::of_rows};
use crate::categorical::votes;
use crate::clustering;
use crate::moments::factor::{self, cpd, low_rank, nmf, rank_one};
use crate::numeric::table::Ratings;
use crate::objects;
use crate::{defer, moments, sequences, texts};

thread_local! {
    /// How many more allocations this thread is granted.
    static GRANTED: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub(super) fn grant(bytes: usize) -> Result<()> {
    let left = GRANTED.get();
    GRANTED.set(left.saturating_sub(1));
    if left == 0 { Err(Error::OutOfMemory(bytes)) } else { Ok(()) }
}

/// Runs a job with no allocation granted, then one, then two, until it has enough; returns how many it asks for.
///
/// The outcome must be the one it has when nothing is rejected.
fn refused_each<T: Debug>(what: &str, job: impl Fn(&Control) -> Result<T> + Sync) -> usize {
    // On one thread, to which the count of those granted belongs.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        let run = |granted: usize| {
            GRANTED.set(granted);
            let outcome = job(&Control::default()).map(|value| format!("{value:?}"));
            GRANTED.set(usize::MAX);
            outcome
        };
        for n in 0.. {
            match run(n) {
                Ok(found) => {
                    assert_eq!(Ok(found), run(usize::MAX), "{what}");
                    return n;
                }
                Err(error) => assert!(matches!(error, Error::OutOfMemory(_)), "{what}: {error}"),
            }
        }
        unreachable!()
    })
}

const SIZES: [usize; 3] = [12, 7, 3];

fn log() -> Vec<(u32, u32, u16)> {
    let label = |i: u32| ((i / 5 + u32::from(i.is_multiple_of(4))) % 3) as u16;
    (0..60).map(|i| (i / 5, (i * 3 + i / 7) % 7, label(i))).collect()
}

fn table(weighted: bool) -> Table {
    let weights: Vec<f64> = (0..60).map(|i| 0.5 + f64::from(i % 3)).collect();
    of_rows(&log(), weighted.then_some(&weights[..]), SIZES)
}

/// Every kernel asks for at least one allocation, or the test would not see it.
fn assert_refused<T: Debug>(what: &str, job: impl Fn(&Control) -> Result<T> + Sync) {
    assert!(refused_each(what, job) > 0, "{what} allocates nothing here");
}

#[test]
fn tables_survive_a_refused_allocation() {
    for repeats in [Repeats::Keep, Repeats::First, Repeats::Last] {
        let log = log();
        let tasks: Vec<u32> = log.iter().rev().map(|row| row.0).collect();
        let workers: Vec<u32> = log.iter().rev().map(|row| row.1).collect();
        let labels: Vec<u16> = log.iter().rev().map(|row| row.2).collect();
        let weights = [0.5; 60];
        let [n_tasks, n_workers, n_labels] = SIZES;
        for (weights, n_labels) in [(None, n_labels), (Some(&weights[..]), 300)] {
            let rows =
                Rows { tasks: &tasks, workers: &workers, labels: &labels, weights, n_tasks, n_workers, n_labels };
            assert_refused("a table", |control| Table::new(&rows, repeats, control));
        }
    }
    let table = table(true);
    assert_refused("columns", |_| table.columns());
    assert_refused("counts", |_| table.worker_counts());
    assert_refused("components", |_| table.n_components());
    // Made once and kept with the table: what was rejected must not be kept half made.
    assert_refused("worker order", |control| table.by_worker(control));
    assert_refused("a part of a table", |_| table.keep(&[true; 60])?.compacted());
    assert_refused("a table in other codes", |control| table.recoded(&[0; SIZES[2]], 300, 1, control));
}

#[test]
fn ratings_survive_a_refused_allocation() {
    let log = Log { tasks: &[1, 0, 1], workers: &[0, 1, 0], weights: Some(&[1.0; 3]), n_tasks: 2, n_workers: 2 };
    let values = [0.5; 6];
    for repeats in [Repeats::Keep, Repeats::First] {
        assert_refused("ratings", |control| Ratings::new(&log, &values, 2, repeats, control));
    }
    let table = Ratings::new(&log, &values, 2, Repeats::Keep, &Control::default()).unwrap();
    assert_refused("ratings kept", |_| table.keep(&[true, false, true])?.compacted());
}

#[test]
fn encoding_survives_a_refused_allocation() {
    let far: Vec<i64> = (0..50).map(|i| (i % 11) << 40).collect();
    assert_refused("near integers", |control| encode::integers(&[3, 1, 2, 3], control).map(|encoded| encoded.codes));
    assert_refused("far integers", |control| encode::integers(&far, control).map(|encoded| encoded.codes));
    let (offsets, data) = ([0, 1, 3, 4, 5], b"7127\x38");
    let text = encode::Strings::new(&offsets, data).unwrap();
    assert_refused("text", |control| encode::strings(&text, control).map(|encoded| encoded.codes));
    let rows = b"a,b,c\nd,\"e\"\"\",f\nd,b,\"\"\"\"\n";
    assert_refused("CSV", |control| {
        let mut reader = csv::Reader::new(b',', 3, &[0, 1, 2], false)?;
        reader.read(rows, true, control)?;
        reader.finish(control)
    });
    assert_refused("integers as text", |control| encode::canonical_integers(&text, control));
}

#[test]
fn audits_survive_a_refused_allocation() {
    let [n, m, k] = SIZES;
    // Every worker on every task, once.
    let rows: Vec<(u32, u32, u16)> =
        (0..n * m).map(|i| ((i / m) as u32, (i % m) as u32, (i / 3 * i % k) as u16)).collect();
    let (posterior, confusion) = (vec![1.0 / k as f64; n * k], vec![1.0 / k as f64; m * k * k]);
    let strata: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    let beliefs = Beliefs { posterior: &posterior, confusion: &confusion, strata: &strata };
    let options = copies::Excess { beliefs, min_overlap: 2, share: 0.1, most: 1.0 };
    let table = of_rows(&rows, None, SIZES);
    assert_refused("copies", |control| copies::pair_excess(&table, &options, control));
    let when: Vec<f64> = (0..rows.len()).map(|i| i as f64).collect();
    assert_refused("penalties", |control| reputation::penalties(&table, true, control));
    assert_refused("drift", |control| drift::answer_drift(&table, beliefs, &when, 0.0, control));
}

#[test]
fn em_survives_a_refused_allocation() {
    let [_, m, k] = SIZES;
    let (pseudo, class_pseudo) = (vec![0.1; k * k], vec![0.1; k]);
    let prototypes: Vec<f64> = (0..2 * k * k).map(|i| if i % (k + 1) == 0 { 0.8 } else { 0.1 }).collect();
    for weighted in [false, true] {
        let table = table(weighted);
        for (_, model) in Model::NAMES {
            let options = Options {
                model,
                assignment: Assignment::HardThenSoft,
                start: Start::Majority,
                pseudo: &pseudo,
                class_pseudo: &class_pseudo,
                gold: None,
                accelerate: true,
                max_iter: 12,
                tol: 0.0,
            };
            assert_refused("em", |control| em::fit(&table, &options, control));
            let soft = Options { assignment: Assignment::Soft, max_iter: 3, ..options };
            let protected = Options { start: Start::Protected(2), ..soft };
            assert_refused("bayes", |control| em::fit_bayes(&table, &protected, control));
            let sampling = Sampling { n_chains: 2, warmup: 1, draws: 2, keep_confusion: true, seed: 1 };
            assert_refused("gibbs", |control| em::fit_gibbs(&table, &soft, &sampling, control));
        }
        let common = Common { class_pseudo: &class_pseudo, gold: None, protected: 1, max_iter: 2, tol: 0.0 };
        let priors = [Hierarchy::Crowd, Hierarchy::Spammer(None)];
        assert_refused("hierarchies", |control| em::fit_hierarchies(&table, &priors, &common, control));
        let options =
            CommunityOptions { prototypes: &prototypes, strength: None, pseudo: &pseudo, share_pseudo: 1.0, common };
        assert_refused("communities", |control| em::fit_community(&table, &options, control));
        let options = SubtypesOptions {
            n_subtypes: 2,
            pseudo: &pseudo,
            class_pseudo: &class_pseudo,
            subtype_pseudo: 1.0,
            seed: 1,
            max_iter: 2,
            tol: 0.0,
        };
        assert_refused("subtypes", |control| em::fit_subtypes(&table, &options, control));
        let matrices = prototypes[..k * k].repeat(m);
        let groups: Vec<u32> = (0..m as u32).map(|worker| worker % 3).collect();
        let start =
            Layers { groups: &groups, workers: &matrices, answers: &matrices[..3 * k * k], prior: &class_pseudo };
        let options = GroupedOptions {
            start,
            pseudo: &pseudo,
            group_pseudo: &pseudo,
            class_pseudo: &class_pseudo,
            max_iter: 3,
            tol: 0.0,
        };
        assert_refused("groups", |control| em::fit_grouped(&table, &options, control));
        let options = em::sparse::Options {
            start: em::sparse::Start::Shares,
            pseudo: [1.0; 2],
            class_pseudo: 1.0,
            max_iter: 2,
            tol: 0.0,
        };
        assert_refused("many classes", |control| em::sparse::fit(&table, &options, control));
        let (prior, confusion) = (vec![1.0 / 3.0; k], vec![1.0 / 3.0; m * k * k]);
        let posterior = vec![1.0 / 3.0; table.n_tasks() * k];
        let sizes = Sizes { n_workers: m, shape: em::Shape::square(k) };
        for model in [Model::Full, Model::OneCoin] {
            let opening = Opening::Given(&posterior);
            assert_refused("opening", |control| em::open(&table, model, opening, None, control));
            for parameters in [Parameters::Probabilities, Parameters::Concentrations] {
                assert_refused("factors", |_| em::factors(model, parameters, sizes, &prior, &confusion));
            }
            let (workers, classes) =
                em::factors(model, Parameters::Probabilities, sizes, &prior, &confusion).expect("there is room");
            let factors = Factors { workers: &workers, classes: &classes };
            assert_refused("sums", |control| em::gather(&table, model, factors, Mode::default(), None, control));
            for posterior in [false, true] {
                assert_refused("answers", |control| em::answers(&table, model, factors, None, posterior, control));
            }
        }
    }
}

#[test]
fn other_models_survive_a_refused_allocation() {
    let [n, m, k] = SIZES;
    let third = vec![1.0 / 3.0; m * k];
    let (know, ability, ease) = (vec![0.7; m], vec![1.0; m], vec![0.0; n]);
    for weighted in [false, true] {
        let table = table(weighted);
        let mace = mace::Options {
            variational: true,
            competence: [1.0; 2],
            strategy: 1.0,
            know: &know,
            strategies: &third,
            max_iter: 2,
            tol: 0.0,
        };
        assert_refused("mace", |control| mace::mace_fit(&table, &mace, control));
        let glad = glad::Options { prior: &third[..k], ability: &ability, ease: &ease, max_iter: 2, tol: 0.0 };
        assert_refused("glad", |control| glad::glad_fit(&table, &glad, control));
        assert_refused("glad posterior", |control| glad::glad_posterior(&table, &glad, control));
        for ordinal in [false, true] {
            let options = minimax::Options { ordinal, worker_penalty: 1.0, task_penalty: 1.0, max_iter: 2, tol: 0.0 };
            assert_refused("minimax", |control| minimax::minimax_fit(&table, &options, control));
        }
        let options = margin::vote::Options { cost: 0.1, margin: 1.0, max_iter: 3, tol: 0.0 };
        assert_refused("margins", |control| margin::vote::margin_fit(&table, &options, control));
        let options = margin::gibbs::Options {
            cost: 0.1,
            margin: 1.0,
            variance: 1.0,
            pseudo_count: 1.0,
            draws: 2,
            burn_in: 1,
            seed: 1,
        };
        assert_refused("crowd svm", |control| margin::gibbs::crowd_svm_fit(&table, &options, control));
        assert_refused("messages", |control| kos::fit(&table, 2, 1, control));
        assert_refused("shares", |control| votes::shares(&table, None, control));
        assert_refused("softmax", |control| votes::softmax(&table, &know, control));
        assert_refused("agreement", |control| votes::agreement(&table, &vec![1; n], control));
        assert_refused("winners", |control| num::winners(&third, k, control));
        let doubt = consensus::Doubt { correlation: 0.4, even: 0.01 };
        assert_refused("pooled", |control| consensus::pooled(&[&third], &[1.0], &ability, doubt, control));
    }
}

#[test]
fn moments_and_factors_survive_a_refused_allocation() {
    let [_, m, k] = SIZES;
    let groups: Vec<u8> = (0..m).map(|worker| (worker % 3) as u8).collect();
    let confusion: Vec<f64> = (0..m * k * k).map(|i| if i % (k * k) % (k + 1) == 0 { 0.6 } else { 0.2 }).collect();
    let prior = vec![1.0 / 3.0; k];
    for weighted in [false, true] {
        let table = table(weighted);
        let control = Control::default();
        assert_refused("first moments", |control| moments::moments_first(&table, control));
        assert_refused("groups", |control| moments::moments_groups(&table, &groups, control));
        assert_refused("cross", |control| moments::moments_cross(&table, &groups, control));
        for most in [2, 20] {
            assert_refused("pairs", |control| moments::moments_pairs(&table, 1.0, most, true, control));
        }
        let pairs = moments::moments_pairs(&table, 1.0, 20, true, &control).unwrap();
        let triples = |control: &Control| moments::moments_triples(&table, &pairs.pairs, 1.0, 30, true, control);
        assert_refused("triples", triples);
        let triples = triples(&control).unwrap();
        assert_refused("pair agreement", |control| factor::agreement::pair_agreement(&table, &pairs.pairs, control));
        assert_refused("components", |_| moments::components(m, &pairs.pairs));
        let options = nmf::Options {
            pairs: &pairs.pairs,
            joint: &pairs.joint,
            weights: &pairs.overlap,
            prior: &prior,
            confusion: &confusion,
            max_iter: 9,
            tol: 0.0,
        };
        assert_refused("nmf", |control| nmf::nmf_fit(&options, control));
        let options = low_rank::Options {
            pairs: &pairs.pairs,
            blocks: &pairs.joint,
            weights: &pairs.overlap,
            width: k,
            rank: k,
            ridge: 1.0,
            max_iter: 3,
            tol: 0.0,
        };
        assert_refused("low rank", |control| low_rank::low_rank_fit(&confusion, &options, control));
        let residuals =
            |control: &Control| low_rank::low_rank_residuals(&pairs.pairs, &pairs.joint, &confusion, [k, k], control);
        assert_refused("residuals", residuals);
        let posterior = vec![1.0 / k as f64; table.n_tasks() * k];
        assert_refused("left out", |control| leave_one_out_sums(&table, &posterior, &confusion, control));
        let first = moments::moments_first(&table, &control).unwrap();
        let options = cpd::Options {
            prior: &prior,
            confusion: &confusion,
            triples: cpd::Order { groups: &triples.triples, values: &triples.joint, weights: &triples.overlap },
            pairs: cpd::Order { groups: &pairs.pairs, values: &pairs.joint, weights: &pairs.overlap },
            first_values: &first,
            first_weights: &[1.0; 7],
            max_iter: 5,
            tol: 0.0,
        };
        assert_refused("cpd", |control| cpd::cpd_fit(&options, control));
        let values = vec![0.3; pairs.overlap.len()];
        let links = |_: &Control| rank_one::Links::new(m, &pairs.pairs, &values, &pairs.overlap);
        assert_refused("links", links);
        let (links, options) = (links(&control).unwrap(), rank_one::Options { max_iter: 3, tol: 0.0 });
        assert_refused("spectral", |control| rank_one::spectral(&links, &options, control));
        assert_refused("gradient", |control| rank_one::gradient(&links, &options, control));
        assert_refused("ratio", |control| rank_one::ratio(&links, &[0; 7], &options, control));
        assert_refused("msr", |control| rank_one::msr(&links, &[1; 7], &options, control));
        assert_refused("graph", |control| rank_one::graph(m, &pairs.pairs, control));
        assert_refused("spa", |control| factor::spa::spa(&confusion, k, 2, control));
        assert_refused("lstsq", |control| {
            factor::simplex::simplex_lstsq(&confusion[..k * k], k, &confusion, k, control)
        });
    }
}

#[test]
fn agreement_crowds_and_deferral_survive_a_refused_allocation() {
    let [n, m, k] = SIZES;
    let (table, positions) = (table(false), [0.0, 1.0, 2.0]);
    let scale = Scale { shape: Shape::Linear, positions: &positions };
    for coefficient in [Coefficient::Alpha, Coefficient::Gwet] {
        assert_refused("labels", |control| agreement_by_counts(&table, coefficient, scale, 2, 1, control));
    }
    assert_refused("pairs", |control| agreement_by_pairs(&table, Chance::Own, scale, Summary::Even, 1, 2, 1, control));
    let confusion = vec![1.0 / 3.0; m * k * k];
    let (activity, density) = ([1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0], [0.3; 7]);
    for (pattern, activity) in [
        (simulate::Pattern::PerTask(3), None),
        (simulate::Pattern::PerTaskRange(2, 7), Some(&activity[..])),
        (simulate::Pattern::WorkerDensity(&density), None),
        (simulate::Pattern::Pairs(&[0, 1], &[2, 3]), None),
    ] {
        let spec = simulate::Spec {
            n_tasks: n,
            n_workers: m,
            n_classes: k,
            prior: &[0.5, 0.25, 0.25],
            truth: None,
            confusion: &confusion,
            pattern,
            activity,
            collusion: None,
            seed: 1,
        };
        assert_refused("a crowd", |control| simulate::simulate(&spec, control));
    }
    let scores: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 11)).collect();
    let capacities = defer::Capacities::new(&[6, 0, 3], &[20, 20, 4], 20).unwrap();
    assert_refused("assignment", |control| defer::assign(&scores, k, &capacities, control));
    let rows: Vec<f64> = (0..60).map(|i| [0.5, 0.3, 0.2][i as usize % 3]).collect();
    let rows = defer::Rows::new(&rows, k, None, 0, &Control::default()).unwrap();
    let bounds = defer::Bounds::new(&[0.1, 0.4, 0.0], &[1.0, 1.0, 1.0]).unwrap();
    assert_refused("projection", |control| defer::project(&rows, &bounds, defer::Method::Newton, control));
}

#[test]
fn what_the_system_refuses_is_an_error() {
    let huge = usize::MAX / 16;
    let failure = |bytes: usize| Err(Error::OutOfMemory(bytes));
    assert_eq!(zeros::<f64>(huge).map(drop), failure(huge * 8));
    assert_eq!(zeros::<[f64; 4]>(usize::MAX).map(drop), failure(usize::MAX));
    assert_eq!(with_room::<f64>(huge).map(drop), failure(huge * 8));
    assert_eq!(filled(1_u8, 1 << 60).map(drop), failure(1 << 60));
    assert_eq!(
        Error::OutOfMemory(1 << 33).to_string(),
        "no memory for another 8589.9 MB; free some, or give the process more"
    );
}

#[test]
fn zeros_are_zeros_of_any_length() {
    assert!(zeros::<f64>(0).unwrap().is_empty());
    assert_eq!(zeros::<[u64; 2]>(3).unwrap(), [[0; 2]; 3]);
    assert!(zeros::<f64>(1 << 18).unwrap().iter().all(|x| *x == 0.0));
    let mut scratch = vec![1.0; 9];
    clear(&mut scratch, 4).unwrap();
    assert_eq!(scratch, [0.0; 4]);
}

#[test]
fn pairs_survive_a_refused_allocation() {
    let labels: Vec<(u32, u32, u16)> =
        log().into_iter().map(|(pair, worker, label)| (pair, worker, label % 2)).collect();
    let table = of_rows(&labels, None, [12, 7, 2]);
    let left: Vec<u32> = (0..12).map(|i| i % 5).collect();
    let right: Vec<u32> = (0..12).map(|i| 5 + i % 3).collect();
    let pairs = clustering::Pairs { left: &left, right: &right, n_items: 8 };
    let evidence: Vec<f64> = (0..12).map(|i| f64::from(i % 4) - 1.2).collect();
    let start: Vec<u32> = (0..8).collect();
    assert_refused("evidence of pairs", |control| clustering::pair_evidence(&table, &[0.5; 14], control));
    assert_refused("counts of pairs", |control| clustering::pair_counts(&table, &[0.5; 12], control));
    assert_refused("a search of clusters", |control| {
        clustering::cluster_search(&pairs, &evidence, &start, Some(1.0), 0, control)
    });
    assert_refused("shares of clusters", |control| clustering::cluster_shares(&pairs, &evidence, &start, control));
    let options =
        clustering::MembershipOptions { start: &[0.5; 16], n_clusters: 2, prior: [1.0; 4], max_iter: 2, tol: 0.0 };
    assert_refused("memberships", |control| clustering::membership_fit(&table, &pairs, &options, control));
}

#[test]
fn distances_survive_a_refused_allocation() {
    let tasks = objects::Tasks(&[0, 3, 5]);
    let values = [0.0, 1.0, 2.0, 5.0, 4.0];
    let squared = objects::Measure::Squared;
    assert_refused("values", |control| objects::value_distances(tasks, &values, 1, squared, control));
    for measure in [objects::Measure::Kendall, objects::Measure::Levenshtein, objects::Measure::Jaccard] {
        assert_refused("words", |control| {
            objects::word_distances(tasks, &[0, 2, 4, 6, 8, 9], &[0, 1, 1, 0, 1, 2, 2, 1, 0], measure, control)
        });
    }
    let distances = objects::value_distances(tasks, &values, 1, squared, &Control::default()).unwrap();
    for answering in [
        objects::Answering::Medoid { distances: &distances, rank: &[0, 1, 2, 3, 4] },
        objects::Answering::Mean { values: &values, dims: 1 },
    ] {
        let scheme = objects::Scheme {
            tasks,
            workers: &[0, 1, 2, 0, 1],
            n_workers: 3,
            counts: None,
            answering,
            norm: objects::Norm::Log,
            strength: 1.0,
            max_iter: 3,
            tol: 0.0,
        };
        assert_refused("a scheme", |control| objects::scheme_fit(&scheme, control));
    }
}

#[test]
fn texts_survive_a_refused_allocation() {
    let (tasks, starts) = (objects::Tasks(&[0, 3, 4]), objects::Tasks(&[0, 2, 5, 7, 8]));
    let tokens = [1, 2, 1, 3, 2, 3, 2, 1];
    let input = texts::Texts { tasks, starts, tokens: &tokens, counts: &[2, 1, 1, 3] };
    assert_refused("an alignment", |control| texts::align_texts(&input, control));
    assert_refused("edits", |control| texts::edit_counts((starts, &tokens), (starts, &tokens), control));
}

#[test]
fn sequences_survive_a_refused_allocation() {
    let (starts, readings, workers, tags) = ([0, 2, 5], [0, 2, 3], [0, 1, 1], [0, 1, 1, 2, 0, 1, 2]);
    let design = sequences::Design {
        starts: &starts,
        readings: &readings,
        workers: &workers,
        tags: &tags,
        n_workers: 2,
        n_tags: 3,
        n_contexts: 1,
    };
    let options = sequences::fit::Options {
        cells: &[0; 9],
        prior: &[1.0],
        learn: true,
        first_rounds: 0,
        steps: &[1.0; 12],
        variational: true,
        max_iter: 2,
        tol: 0.0,
    };
    assert_refused("readings", |control| sequences::fit::fit(&design, &[0.2; 15], &options, control));
    assert_refused("evidence", |control| design.evidence(&[-1.0; 18], control));
    assert_refused("tags", |control| sequences::decode::decode(&starts, &[0.5; 15], &[-1.0; 12], true, None, control));
    let graph = linked::Graph { offsets: &[0, 1, 2], neighbours: &[1, 0], opposite: &[1, 0] };
    assert_refused("links", |control| linked::propagate(&graph, &[0.1; 4], 2, 1.0, 3, 0.0, control));
}
