//! Answers that are classes: the table and its methods.

pub mod consensus;
pub mod dependence;
pub mod em;
pub mod glad;
pub mod kos;
pub mod linked;
pub mod mace;
pub mod margin;
pub mod minimax;
pub mod shards;
pub mod simulate;
pub mod table;
pub mod votes;
