//! Moments of the answers: how often workers give which labels together.
