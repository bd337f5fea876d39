//! Information of workers, and who copies, drifts or contradicts the others.

pub mod capacity;
pub mod copies;
pub mod drift;
pub mod leave_one_out;
pub mod null_model;
pub mod reputation;
