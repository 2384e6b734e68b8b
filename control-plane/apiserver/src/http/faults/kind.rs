//! The kinds of faults, their names and their rates.

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Another writer is faster: 409.
    Conflicts,
    /// Lists from a cache that lags.
    StaleReads,
    /// Events of watches late and in bursts.
    WatchDelay,
    /// Watches that end, and 410.
    WatchExpiry,
    /// 429.
    Throttling,
    /// 500.
    Errors,
    /// Connections cut.
    Cuts,
    /// The server goes away and comes back.
    Restarts,
}

/// The name that stands for every kind.
const EVERY: &str = "all";
/// Number of groups of kinds that are bounded together.
pub(super) const GROUPS: usize = 4;
/// Verbs that change one object that exists.
const CHANGES: [&str; 3] = ["update", "patch", "delete"];

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 8] = [
        Kind::Conflicts,
        Kind::StaleReads,
        Kind::WatchDelay,
        Kind::WatchExpiry,
        Kind::Throttling,
        Kind::Errors,
        Kind::Cuts,
        Kind::Restarts,
    ];

    /// The name in flags, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Conflicts => "conflicts",
            Kind::StaleReads => "stale-reads",
            Kind::WatchDelay => "watch-delay",
            Kind::WatchExpiry => "watch-expiry",
            Kind::Throttling => "throttling",
            Kind::Errors => "errors",
            Kind::Cuts => "cuts",
            Kind::Restarts => "restarts",
        }
    }

    /// The rate if none is given: a share of the requests that it concerns; of the events of a
    /// watch, for its delay.
    fn usual_rate(self) -> f64 {
        match self {
            Kind::Conflicts => 0.2,
            Kind::StaleReads => 0.5,
            Kind::WatchDelay => 0.3,
            Kind::WatchExpiry => 0.5,
            Kind::Throttling | Kind::Errors | Kind::Cuts => 0.05,
            Kind::Restarts => 0.01,
        }
    }

    /// Kinds in one group are bounded together; `None` for those that refuse nothing.
    pub(super) fn group(self) -> Option<usize> {
        match self {
            Kind::Throttling | Kind::Errors | Kind::Cuts => Some(0),
            Kind::Conflicts => Some(1),
            Kind::StaleReads => Some(2),
            Kind::WatchExpiry => Some(3),
            Kind::WatchDelay | Kind::Restarts => None,
        }
    }

    /// True if requests with this verb may meet it.
    pub(super) fn concerns(self, verb: &str) -> bool {
        match self {
            Kind::Conflicts => CHANGES.contains(&verb),
            Kind::StaleReads => verb == "list",
            Kind::WatchDelay | Kind::WatchExpiry => verb == "watch",
            _ => true,
        }
    }
}

/// Reads a list of kinds with their rates, as [`super::Faults::parse`] takes it.
pub(super) fn parse(list: &str) -> Result<[f64; Kind::ALL.len()], String> {
    let mut rates = [0.0; Kind::ALL.len()];
    for item in list.split(',').map(str::trim) {
        let (name, rate) = match item.split_once('=') {
            Some((name, rate)) => (name, Some(parse_rate(name, rate)?)),
            None => (item, None),
        };
        let named = |kind: &Kind| name == EVERY || name == kind.name();
        let mut found = Kind::ALL.into_iter().filter(named).peekable();
        if found.peek().is_none() {
            return Err(unknown(name));
        }
        for kind in found {
            rates[kind as usize] = rate.unwrap_or_else(|| kind.usual_rate());
        }
    }
    Ok(rates)
}

fn parse_rate(name: &str, text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    // Not a number is in no range.
    rate.filter(|rate| *rate > 0.0 && *rate <= 1.0)
        .ok_or_else(|| format!("the rate of {name:?} must be above 0 and at most 1: {text:?}"))
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
    format!(
        "{name:?} is no kind of fault; the kinds are {EVERY}, {}",
        names.join(", ")
    )
}
