//! Rankings: comparisons of two items, rankings of several, and scores that explain them.
//!
//! A model gives each item a score and each outcome of a comparison a probability by the difference of two scores.
//! Scores are found by Newton's method, whose equations are those of a sparse graph between items and are solved by
//! conjugate gradients: nothing is ever sized items × items.

mod bradley_terry;
mod centrality;
mod conjugate_gradients;
mod crowd;
mod errors;
mod graph;
mod luce;
mod newton;
mod outcome;
mod rankings;
mod table;
#[cfg(test)]
mod tests;
mod worker_slopes;

pub use bradley_terry::{Fit, LeftBias, Options, Parameters, bradley_terry_fit};
pub use centrality::{CentralityOptions, rank_centrality_fit};
pub use crowd::{CrowdFit, CrowdOptions, crowd_bt_fit};
pub use errors::{Clusters, ErrorOptions, Errors, bradley_terry_errors};
pub use luce::{LuceFit, LuceOptions, plackett_luce_fit};
pub use outcome::Ties;
pub use rankings::Rankings;
pub use table::{Comparisons, Rows};
pub use worker_slopes::Spread;
