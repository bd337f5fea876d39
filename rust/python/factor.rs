//! Factorisations.
