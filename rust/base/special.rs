//! Functions of the gamma family, for positive arguments (NaN for negative ones), and the normal distribution.

/// From here on the asymptotic series are exact to the last bits of a double.
const LARGE: f64 = 12.0;

/// The derivative of [`ln_gamma`].
pub fn digamma(x: f64) -> f64 {
    let (mut x, mut below) = (if x < 0.0 { f64::NAN } else { x }, 0.0);
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
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (if x < 0.0 { f64::NAN } else { x }, 1.0);
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

/// The probability that a Beta(a, b) variable lies below x: the continued fraction, by Lentz's method.
fn beta_below(x: f64, a: f64, b: f64) -> f64 {
    const MOST: usize = 10_000;
    const TINY: f64 = 1e-300;
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges fast on this side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_below(1.0 - x, b, a);
    }
    let bounded = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..MOST {
        let m = step as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / bounded(1.0 + term * d);
            c = bounded(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= f64::EPSILON * fraction.abs() {
            break;
        }
    }
    let log = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    log.exp() * fraction / a
}

/// The value below which a Beta(a, b) variable lies with probability p, by bisection; certain where b or a is 0.
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    if a <= 0.0 || b <= 0.0 {
        return if b <= 0.0 { 1.0 } else { 0.0 };
    }
    let (mut low, mut high) = (0.0, 1.0);
    // Halving by 2⁻⁶⁰ is as fine as a double near one, and far finer than the fraction.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if beta_below(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Where the tail of the normal distribution is computed by its continued fraction.
const TAIL: f64 = 4.5;

/// The probability that a standard normal variable lies below x.
pub fn normal_below(x: f64) -> f64 {
    if x < -TAIL {
        return log_normal_below(x).exp();
    }
    if x > TAIL {
        return 1.0 - normal_below(-x);
    }
    // The series x + x³/3 + x⁵/(3·5) + …, all of whose terms have one sign.
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The logarithm of [`normal_below`], also far out in the tail.
pub fn log_normal_below(x: f64) -> f64 {
    if x > TAIL {
        return (-normal_below(-x)).ln_1p();
    }
    if x >= -TAIL {
        return normal_below(x).ln();
    }
    // Laplace's fraction 1/(y + 1/(y + 2/(y + …))), from the inside out; from here on thirty steps are enough.
    let fraction = (1..=30).rev().fold(-x, |inner, step| f64::from(step) / inner - x);
    -0.5 * x * x - 0.5 * (2.0 * std::f64::consts::PI).ln() - fraction.ln()
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

    #[test]
    fn normal_probabilities() {
        // Abramowitz and Stegun, table 26.1 and 26.2.
        for (x, below) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-2.0, 0.022_750_131_948_179_2),
            (-4.4, 5.412_543_907_703_86e-6),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((normal_below(x) / below - 1.0).abs() < 1e-10, "{x}");
        }
        for (x, digits) in [(5.0, 6.542_65), (10.0, 23.118_05), (20.0, 88.560_10)] {
            assert!((-log_normal_below(-x) / std::f64::consts::LN_10 - digits).abs() < 1e-5, "{x}");
        }
        assert!((normal_below(TAIL + 1e-9) - normal_below(TAIL - 1e-9)).abs() < 1e-13);
        assert!((log_normal_below(-TAIL - 1e-9) - log_normal_below(-TAIL + 1e-9)).abs() < 2e-8);
        assert!((log_normal_below(30.0)).abs() < 1e-150);
    }

    #[test]
    fn quantiles_of_known_distributions() {
        for p in [0.025, 0.3, 0.5, 0.9, 0.999] {
            assert!((beta_quantile(p, 1.0, 1.0) - p).abs() < 1e-12);
            assert!((beta_quantile(p, 3.0, 1.0) - p.powf(1.0 / 3.0)).abs() < 1e-12);
            assert!((beta_quantile(p, 1.0, 4.0) - (1.0 - (1.0 - p).powf(0.25))).abs() < 1e-12);
            let arcsine = (0.5 * std::f64::consts::PI * p).sin().powi(2);
            assert!((beta_quantile(p, 0.5, 0.5) - arcsine).abs() < 1e-11);
        }
        assert_eq!((beta_quantile(0.3, 2.0, 0.0), beta_quantile(0.3, 0.0, 2.0)), (1.0, 0.0));
    }

    #[test]
    fn values_from_tables() {
        for (x, wanted) in
            [(1e-5, 11.512_919_692_895_825), (3.5, 1.200_973_602_347_074_3), (100.0, 359.134_205_369_575_4)]
        {
            assert!((ln_gamma(x) - wanted).abs() < 1e-14 * wanted * 4.0, "{x}");
        }
        for (x, wanted) in
            [(0.1, -10.423_754_940_411_076), (10.0, 2.251_752_589_066_721), (1e6, 13.815_510_057_964_191)]
        {
            assert!((digamma(x) - wanted).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn ends_of_the_range_end() {
        for x in [-1.0, -1e308, f64::NEG_INFINITY, f64::NAN] {
            assert!(digamma(x).is_nan() && ln_gamma(x).is_nan());
        }
        assert_eq!((digamma(0.0), ln_gamma(0.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(digamma(1e300).is_finite() && ln_gamma(1e300).is_finite() && digamma(1e-300).is_finite());
    }

    #[test]
    fn whole_parameters_give_sums_of_binomial_probabilities() {
        for (a, b) in [(2, 3), (1, 9), (7, 4), (20, 11), (40, 60)] {
            for x in [0.02, 0.3, 0.5, 0.81] {
                let n = a + b - 1;
                let term = |j: i32| {
                    let choose: f64 = (1..=j).map(|i| f64::from(n - j + i) / f64::from(i)).product();
                    choose * f64::powi(x, j) * f64::powi(1.0 - x, n - j)
                };
                let expected: f64 = (a..=n).map(term).sum();
                let below = beta_below(x, f64::from(a), f64::from(b));
                assert!((below - expected).abs() < 1e-12, "{below}, not {expected}, below {x} of Beta({a}, {b})");
            }
        }
        assert_eq!((beta_below(0.0, 2.0, 2.0), beta_below(1.0, 2.0, 2.0)), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn quantiles_mirror_each_other(p in 0.01..0.99_f64, a in 0.2..2e4_f64, b in 0.2..2e4_f64) {
            let (one, other) = (beta_quantile(p, a, b), beta_quantile(1.0 - p, b, a));
            prop_assert!((one + other - 1.0).abs() < 1e-9);
            prop_assert!((beta_below(one, a, b) - p).abs() < 1e-8);
        }

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
