//! Who answers which case: shares of the work that are kept, softly in probabilities and exactly in decisions.
//!
//! Cases are rows, and the options (experts and the classifier) are columns; the caller fixes their order.

mod assign;
mod dual;
mod project;
mod rows;

pub use assign::{Assigned, Capacities, assign};
pub use dual::{Bounds, Evaluate, Found, Method, solve};
pub use project::{Projection, project};
pub use rows::{Rows, Sums, apply, reach, sums};

/// The options as a message names them: `option 3`, `options 1, 4`.
fn named(options: &[usize]) -> String {
    let numbers: Vec<String> = options.iter().map(ToString::to_string).collect();
    format!("option{} {}", if options.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
