//! How probable the outcomes of a comparison are, given by how much the left item is ahead.

use super::table::{LEFT, RIGHT, TIE};
use crate::base::num::LogProduct;

/// What becomes of ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// Half a win for either.
    Half,
    /// Davidson 1970: a tie is as probable as the geometric mean of the two wins, times ν.
    Davidson,
    /// Rao and Kupper 1967: a win takes a lead of θ.
    RaoKupper,
}

/// How often comparisons of the same two items, by the same worker where that matters, came out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub left: f64,
    pub right: f64,
    pub tie: f64,
}

impl Counts {
    /// One more comparison of so much weight.
    pub fn add(&mut self, outcome: u8, weight: f64, ties: Ties) {
        match (outcome, ties) {
            (LEFT, _) => self.left += weight,
            (RIGHT, _) => self.right += weight,
            (_, Ties::Half) => {
                self.left += 0.5 * weight;
                self.right += 0.5 * weight;
            }
            _ => self.tie += weight,
        }
    }

    /// The same seen from the other side.
    pub fn swapped(outcome: u8) -> u8 {
        if outcome == TIE { TIE } else { RIGHT - outcome }
    }
}

/// The logarithm of the probability of outcomes, and its derivatives by the lead (`slope`, and `bend` its second with the
/// sign changed) and by the parameter of ties, all signs of second derivatives changed.
///
/// The logarithm is `log − times · ln(norm)`: of many norms, one logarithm can be taken.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Likelihood {
    log: f64,
    norm: f64,
    times: f64,
    pub slope: f64,
    pub bend: f64,
    pub tie_slope: f64,
    pub tie_bend: f64,
    pub cross: f64,
}

impl Likelihood {
    /// The logarithm itself.
    pub fn whole(&self) -> f64 {
        self.log - self.times * self.norm.ln()
    }

    /// Adds the logarithm to a sum, and multiplies the norm into a product.
    #[inline(always)]
    pub fn collect(&self, sum: &mut f64, product: &mut LogProduct) {
        *sum += self.log;
        if self.times == 1.0 {
            product.multiply(self.norm);
        } else if self.times == 2.0 {
            product.multiply(self.norm * self.norm);
        } else {
            *sum -= self.times * self.norm.ln();
        }
    }
}

/// The probability model of outcomes, with its parameter: ln ν of Davidson, or ln(θ² − 1) of Rao and Kupper, in which the
/// likelihood is concave together with the lead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcomes {
    pub ties: Ties,
    pub tie: f64,
}

/// The logistic function of x and its complement, and ln of the former: all to the last bits on both sides.
#[inline(always)]
fn logistic(x: f64) -> (f64, f64, f64) {
    let small = (-x.abs()).exp();
    let (large_share, small_share) = (1.0 / (1.0 + small), small / (1.0 + small));
    let log_large = -small.ln_1p();
    if x >= 0.0 { (large_share, small_share, log_large) } else { (small_share, large_share, log_large + x) }
}

impl Outcomes {
    /// ln θ of Rao and Kupper, and its derivatives.
    fn threshold(self) -> (f64, f64, f64) {
        let (share, rest, log) = logistic(self.tie);
        (0.5 * (self.tie - log), 0.5 * share, 0.5 * share * rest)
    }

    /// The log-likelihood of outcomes at a lead.
    #[inline(always)]
    pub fn at(self, lead: f64, counts: Counts) -> Likelihood {
        match self.ties {
            Ties::Half => half(lead, counts),
            Ties::Davidson => self.davidson(lead, counts),
            Ties::RaoKupper => self.rao_kupper(lead, counts),
        }
    }

    #[inline(always)]
    fn davidson(self, lead: f64, counts: Counts) -> Likelihood {
        let total = counts.left + counts.right + counts.tie;
        let shift = (0.5 * lead.abs()).max(self.tie);
        let parts = [0.5 * lead, -0.5 * lead, self.tie].map(|part| (part - shift).exp());
        let sum = parts[0] + parts[1] + parts[2];
        let [left, right, tie] = parts.map(|part| part / sum);
        let ahead = 0.5 * (left - right);
        let score = 0.5 * (counts.left - counts.right);
        Likelihood {
            log: score * lead + counts.tie * self.tie - total * shift,
            norm: sum,
            times: total,
            slope: score - total * ahead,
            bend: total * (0.25 * (left + right) - ahead * ahead),
            tie_slope: counts.tie - total * tie,
            tie_bend: total * tie * (1.0 - tie),
            cross: -total * tie * ahead,
        }
    }

    #[inline(always)]
    fn rao_kupper(self, lead: f64, counts: Counts) -> Likelihood {
        let (threshold, first, second) = self.threshold();
        let (a, b) = (counts.left + counts.tie, counts.right + counts.tie);
        let ((p, q, log_p), (r, s, log_r)) = (logistic(lead - threshold), logistic(-lead - threshold));
        let (bend_a, bend_b) = (a * p * q, b * r * s);
        Likelihood {
            log: a * log_p + b * log_r + counts.tie * self.tie,
            norm: 1.0,
            times: 0.0,
            slope: a * q - b * s,
            bend: bend_a + bend_b,
            tie_slope: counts.tie - first * (a * q + b * s),
            tie_bend: first * first * (bend_a + bend_b) + second * (a * q + b * s),
            cross: -first * (bend_a - bend_b),
        }
    }
}

#[inline(always)]
fn half(lead: f64, counts: Counts) -> Likelihood {
    let total = counts.left + counts.right;
    let small = (-lead.abs()).exp();
    let norm = 1.0 + small;
    let (large, small) = (1.0 / norm, small / norm);
    let (left, right) = if lead >= 0.0 { (large, small) } else { (small, large) };
    Likelihood {
        log: counts.left * lead.min(0.0) - counts.right * lead.max(0.0),
        norm,
        times: total,
        slope: counts.left * right - counts.right * left,
        bend: total * left * right,
        ..Likelihood::default()
    }
}
