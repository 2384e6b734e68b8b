//! What Stele's figures should be, and whether they are.

use std::fmt;

const MILLION: u64 = 1_000_000;

/// The aim of a row.
#[derive(Clone, Debug)]
pub(super) enum Aim {
    /// In words, which nothing judges; without any there is no aim.
    Prose(&'static str),
    /// All of them count, each by itself.
    Bounds(Vec<Bound>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(Limit),
    AtLeast(Limit),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    Number(f64),
    /// So many times etcd's figure of the same row.
    OfEtcd(f64),
}

/// How many bounds could be judged, and how many of those Stele missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) missed: usize,
    pub(super) judged: usize,
}

pub(super) fn at_most(number: f64) -> Bound {
    Bound::AtMost(Limit::Number(number))
}

pub(super) fn at_most_of_etcd(times: f64) -> Bound {
    Bound::AtMost(Limit::OfEtcd(times))
}

pub(super) fn at_least_of_etcd(times: f64) -> Bound {
    Bound::AtLeast(Limit::OfEtcd(times))
}

/// The limit of the smallest listed size, in millions, that is not below `keys`; beyond the last
/// there is none.
pub(super) fn at_most_by_millions(keys: u64, limits: &[(u64, f64)]) -> Option<Bound> {
    let found = limits.iter().find(|(most, _)| keys <= most * MILLION);
    found.map(|(_, limit)| at_most(*limit))
}

impl Aim {
    pub(super) fn bounds(&self) -> &[Bound] {
        match self {
            Aim::Prose(_) => &[],
            Aim::Bounds(bounds) => bounds,
        }
    }
}

impl From<&'static str> for Aim {
    fn from(text: &'static str) -> Aim {
        Aim::Prose(text)
    }
}

impl From<Bound> for Aim {
    fn from(bound: Bound) -> Aim {
        Aim::Bounds(vec![bound])
    }
}

impl From<Option<Bound>> for Aim {
    fn from(bound: Option<Bound>) -> Aim {
        Aim::Bounds(bound.into_iter().collect())
    }
}

impl Bound {
    /// Whether Stele's figure is within it; `None` if that takes etcd's figure and there is none.
    pub(super) fn is_met(self, stele: f64, etcd: Option<f64>) -> Option<bool> {
        // What could not be measured is no number, and within no bound.
        match self {
            Bound::AtMost(limit) => Some(stele <= limit.number(etcd)?),
            Bound::AtLeast(limit) => Some(stele >= limit.number(etcd)?),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(limit) => write!(out, "≤ {limit}"),
            Bound::AtLeast(limit) => write!(out, "≥ {limit}"),
        }
    }
}

impl Limit {
    fn number(self, etcd: Option<f64>) -> Option<f64> {
        match self {
            Limit::Number(number) => Some(number),
            Limit::OfEtcd(times) => {
                let etcd = etcd.filter(|etcd| !etcd.is_nan())?;
                Some(times * etcd)
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Limit::Number(number) => write!(out, "{number}"),
            Limit::OfEtcd(times) => {
                if times != 1.0 {
                    write!(out, "{times} × ")?;
                }
                out.write_str("etcd's")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stele missed {} of {} aims.", self.missed, self.judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_bounds_the_figure_whatever_etcd_has() {
        for etcd in [None, Some(1.0)] {
            assert_eq!(at_most(900.0).is_met(900.0, etcd), Some(true));
            assert_eq!(at_most(900.0).is_met(900.5, etcd), Some(false));
            let at_least = Bound::AtLeast(Limit::Number(5.0));
            assert_eq!(at_least.is_met(5.0, etcd), Some(true));
            assert_eq!(at_least.is_met(4.9, etcd), Some(false));
        }
    }

    #[test]
    fn a_factor_of_etcds_figure_is_judged_only_where_there_is_one() {
        let etcd = Some(1000.0);
        assert_eq!(at_most_of_etcd(1.5).is_met(1500.0, etcd), Some(true));
        assert_eq!(at_most_of_etcd(1.5).is_met(1501.0, etcd), Some(false));
        assert_eq!(at_least_of_etcd(1.0).is_met(1000.0, etcd), Some(true));
        assert_eq!(at_least_of_etcd(1.0).is_met(999.0, etcd), Some(false));
        for nothing in [None, Some(f64::NAN)] {
            assert_eq!(at_most_of_etcd(1.5).is_met(1.0, nothing), None);
            assert_eq!(at_least_of_etcd(1.0).is_met(1.0, nothing), None);
        }
    }

    #[test]
    fn what_was_not_reached_or_not_measured_is_missed() {
        for figure in [f64::INFINITY, f64::NAN] {
            assert_eq!(at_most(60.0).is_met(figure, None), Some(false));
        }
    }

    #[test]
    fn the_next_size_that_is_listed_limits_a_store() {
        let limits = [(1, 900.0), (10, 1200.0)];
        let limit = |keys| at_most_by_millions(keys, &limits);
        assert_eq!(limit(10_000), Some(at_most(900.0)));
        assert_eq!(limit(1_000_000), Some(at_most(900.0)));
        assert_eq!(limit(1_000_001), Some(at_most(1200.0)));
        assert_eq!(limit(10_000_001), None);
    }

    #[test]
    fn bounds_say_what_they_are() {
        assert_eq!(at_most(900.0).to_string(), "≤ 900");
        assert_eq!(at_most(1.2).to_string(), "≤ 1.2");
        assert_eq!(at_most_of_etcd(1.2).to_string(), "≤ 1.2 × etcd's");
        assert_eq!(at_least_of_etcd(1.0).to_string(), "≥ etcd's");
    }
}
