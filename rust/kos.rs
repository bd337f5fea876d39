//! The messages of Karger, Oh and Shah.
