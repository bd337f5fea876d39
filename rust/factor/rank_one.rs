//! Rank-one models of the off-diagonal entries of a symmetric matrix, of which some are known.
