//! Methods that estimate skills.
