//! What all kinds share: sparse links, loops over blocks of rows, iteration, memory, numbers, threads.

pub mod codes;
pub(crate) mod components;
pub mod control;
pub(crate) mod course;
pub mod csv;
pub mod encode;
pub(crate) mod gamma;
pub mod links;
pub(crate) mod memory;
pub mod num;
pub(crate) mod parallel;
pub(crate) mod random;
pub(crate) mod short_tasks;
pub mod special;
pub(crate) mod squarem;
pub mod threads;
