//! Gamma variates, from any source of random numbers.

/// Where random numbers come from.
pub(crate) trait Source {
    /// Uniform in (0, 1].
    fn unit(&mut self) -> f64;
    /// Standard normal.
    fn normal(&mut self) -> f64;
}

/// The logarithm of a Gamma(shape, 1) variable, which does not underflow where the shape is small: G. Marsaglia and W.
/// W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
///
/// Where the shape is 0, so is the variable; an infinite one has an infinite variable, and one that is not positive
/// has none. At least 95 % of the proposals for any other shape are accepted, so that there is no end to wait for.
pub(crate) fn log_gamma(shape: f64, source: &mut impl Source) -> f64 {
    if shape == 0.0 || shape == f64::INFINITY {
        return shape.ln();
    }
    if shape.is_nan() || shape < 0.0 {
        return f64::NAN;
    }
    if shape < 1.0 {
        return log_gamma(shape + 1.0, source) + source.unit().ln() / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = source.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && source.unit().ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return d.ln() + v.ln();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::{GOLDEN, scramble, to_unit};
    use crate::base::special::digamma;

    /// `SplitMix64`, with normal numbers by Box and Muller; counts what was asked for.
    struct Numbers {
        state: u64,
        asked: usize,
    }

    impl Source for Numbers {
        fn unit(&mut self) -> f64 {
            self.asked += 1;
            self.state = self.state.wrapping_add(GOLDEN);
            1.0 - to_unit(scramble(self.state))
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
        }
    }

    #[test]
    fn variates_have_their_moments() {
        const N: usize = 40_000;
        let mut source = Numbers { state: 1, asked: 0 };
        for shape in [0.05, 0.5, 1.0, 2.5, 30.0] {
            let logs: Vec<f64> = (0..N).map(|_| log_gamma(shape, &mut source)).collect();
            let mean = |f: fn(f64) -> f64| logs.iter().map(|x| f(*x)).sum::<f64>() / N as f64;
            // Five standard errors: the variance of a Gamma(a) variable is a, of its logarithm the trigamma function.
            let trigamma = (digamma(shape + 1e-5) - digamma(shape - 1e-5)) / 2e-5;
            assert!((mean(f64::exp) - shape).abs() < 5.0 * (shape / N as f64).sqrt(), "mean of Gamma({shape})");
            let off = (mean(|x| x) - digamma(shape)).abs();
            assert!(off < 5.0 * (trigamma / N as f64).sqrt(), "log of Gamma({shape})");
        }
    }

    #[test]
    fn no_shape_is_tried_for_long() {
        for shape in [1e-320, 1e-30, 1.0 / 3.0, 1.0, 1e15, 1e24, 1e100, 1e300, f64::MAX] {
            let mut source = Numbers { state: 2, asked: 0 };
            for _ in 0..1000 {
                let log = log_gamma(shape, &mut source);
                // The logarithm of a draw with a shape below any double is below any number.
                assert!(!log.is_nan() && log < f64::INFINITY, "{log} for {shape}");
                assert!(shape < 1e10 || (log - shape.ln()).abs() < 1e-3, "{log} for {shape}");
            }
            // Three numbers a proposal, one more for a small shape.
            assert!(source.asked < 5000, "{} numbers for {shape}", source.asked);
        }
    }

    #[test]
    fn what_is_no_shape_ends_at_once() {
        let mut source = Numbers { state: 3, asked: 0 };
        assert_eq!(log_gamma(0.0, &mut source), f64::NEG_INFINITY);
        assert_eq!(log_gamma(f64::INFINITY, &mut source), f64::INFINITY);
        assert!(log_gamma(f64::NAN, &mut source).is_nan() && log_gamma(-1.0, &mut source).is_nan());
        assert_eq!(source.asked, 0);
    }
}
