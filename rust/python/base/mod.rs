//! What all kinds share: ids, winners, special functions.

pub mod encode;
pub mod num;
pub mod special;
