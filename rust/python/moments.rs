//! Moments.
