//! What workers are worth, and who copies, drifts or contradicts the others.

pub mod capacity;
pub mod chance;
pub mod copies;
pub mod drift;
pub mod left_out;
pub mod reputation;
