//! The gamma function's logarithm and its derivative, for positive arguments.

/// From here on the asymptotic series are exact to the last bits of a double.
const LARGE: f64 = 12.0;

/// The derivative of [`ln_gamma`].
pub(crate) fn digamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < LARGE {
        below += 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y
        * (1.0 / 12.0
            - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * 691.0 / 32_760.0)))));
    x.ln() - 0.5 / x - series - below
}

/// The logarithm of the gamma function.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 1.0);
    while x < LARGE {
        below *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0
        - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * 691.0 / 360_360.0)))))
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EULER: f64 = 0.577_215_664_901_532_9;

    #[test]
    fn known_values() {
        assert!((digamma(1.0) + EULER).abs() < 1e-14);
        assert!((digamma(0.5) + EULER + 2.0 * std::f64::consts::LN_2).abs() < 1e-14);
        assert!((ln_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-14);
        assert!((ln_gamma(11.0) - 3_628_800_f64.ln()).abs() < 1e-13);
        assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
    }

    proptest! {
        #[test]
        fn recurrences_hold(x in prop_oneof![1e-6..1.0, 1.0..20.0, 20.0..1e6_f64]) {
            let size = 1e-13 * (1.0 + 1.0 / x);
            prop_assert!((digamma(x + 1.0) - digamma(x) - 1.0 / x).abs() < 10.0 * size);
            let gap = ln_gamma(x + 1.0) - ln_gamma(x) - x.ln();
            prop_assert!(gap.abs() < 1e-15 * ln_gamma(x + 1.0).abs() + 1e-13);
        }

        #[test]
        fn one_is_the_slope_of_the_other(x in 0.1..50.0_f64) {
            let h = 1e-5 * x;
            let slope = (ln_gamma(x + h) - ln_gamma(x - h)) / (2.0 * h);
            prop_assert!((slope - digamma(x)).abs() < 1e-7 * (1.0 + 1.0 / x));
        }
    }
}
