//! Random draws, from streams that are keyed by what they are for and never by the thread that runs them.

use crate::base::gamma::{self, Source};
use crate::base::num::{GOLDEN, scramble, to_unit};

/// A stream of random numbers (`SplitMix64`).
#[derive(Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream of one use: a seed, what the numbers are for, which sweep, and whose they are.
    pub fn new(words: [u64; 4]) -> Self {
        Self(words.into_iter().fold(0, |state, word| scramble(state.wrapping_add(GOLDEN) ^ word)))
    }

    /// The logarithm of a gamma variable with scale one: small shapes have draws below any double.
    pub fn log_gamma(&mut self, shape: f64) -> f64 {
        gamma::log_gamma(shape, self)
    }

    /// Inverse Gaussian of shape one (Michael, Schucany and Haas, with the smaller root written so that it does not
    /// cancel).
    pub fn inverse_gaussian(&mut self, mean: f64) -> f64 {
        let a = mean * self.normal().powi(2);
        let small = 4.0 * mean / (a.sqrt() + (a + 4.0).sqrt()).powi(2);
        if self.unit() <= mean / (mean + small) { small } else { mean * mean / small }
    }
}

impl Source for Stream {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        1.0 - to_unit(scramble(self.0))
    }

    /// By Box and Muller.
    fn normal(&mut self) -> f64 {
        let length = (-2.0 * self.unit().ln()).sqrt();
        length * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut(&mut Stream) -> f64) -> (f64, f64) {
        const N: u64 = 100_000;
        let mut stream = Stream::new([1, 2, 3, 4]);
        let draws: Vec<f64> = (0..N).map(|_| draw(&mut stream)).collect();
        let mean = draws.iter().sum::<f64>() / N as f64;
        (mean, draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64)
    }

    #[test]
    fn draws_have_their_moments() {
        // Five standard errors of each, from the fourth moments.
        let close = |got: (f64, f64), mean: f64, variance: f64, off: f64| {
            assert!((got.0 - mean).abs() < 5.0 * (variance / 1e5).sqrt(), "{got:?}, not {mean}");
            assert!((got.1 / variance - 1.0).abs() < off, "{got:?}, not {variance}");
        };
        close(moments(Stream::unit), 0.5, 1.0 / 12.0, 0.015);
        close(moments(Stream::normal), 0.0, 1.0, 0.025);
        for shape in [0.3, 1.0, 7.5] {
            close(moments(|s| s.log_gamma(shape).exp()), shape, shape, 5.0 * ((2.0 + 6.0 / shape) / 1e5).sqrt());
        }
        for mean in [0.2, 1.0, 3.0_f64] {
            close(moments(|s| s.inverse_gaussian(mean)), mean, mean.powi(3), 5.0 * ((2.0 + 15.0 * mean) / 1e5).sqrt());
        }
    }

    #[test]
    fn extreme_means_stay_finite() {
        let mut stream = Stream::new([0; 4]);
        for mean in [1e-12, 1e12] {
            assert!((0..1000).all(|_| stream.inverse_gaussian(mean).is_finite()));
        }
        assert!((0..1000).all(|_| stream.log_gamma(1e-3).is_finite()));
    }
}
