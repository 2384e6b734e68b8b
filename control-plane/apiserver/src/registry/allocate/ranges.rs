//! The ranges that services get addresses from: those of the ServiceCIDRs that are ready.

use std::net::IpAddr;
use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::basics::cidr::{Cidr, Family};
use crate::basics::clock;
use crate::basics::service_ranges::V6_PREFIX_MIN;
use crate::storage::reader::Reader;

/// The ranges for new addresses, of which there may be none.
pub(crate) struct Ranges(Vec<Cidr>);

impl Ranges {
    /// The ranges that the cache has.
    pub(crate) fn of(reader: &Reader) -> Result<Ranges, Status> {
        let resource = reader.resource("networking.k8s.io", "v1", "servicecidrs")?;
        Ok(Ranges::ready(&reader.cached_list(&resource.kind, "")?))
    }

    fn ready(all: &[Arc<Value>]) -> Ranges {
        let ready = all.iter().filter(|one| is_ready(one));
        let texts = ready.flat_map(|one| object::items(one, &["spec", "cidrs"]));
        let ranges = texts.filter_map(|text| Cidr::parse(text.as_str()?));
        let is_small =
            |range: &Cidr| range.family() == Family::V4 || range.prefix() >= V6_PREFIX_MIN;
        Ranges(ranges.filter(is_small).collect())
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }

    /// True if a service may ask for the address.
    pub(super) fn has_host(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.is_host(address))
    }

    /// A range of the family of an address, unless one has it.
    pub(super) fn without(&self, address: IpAddr) -> Option<&Cidr> {
        let range = self.of_family(Family::of(address)).next();
        range.filter(|_| !self.has_host(address))
    }

    /// The address of the network of a range.
    pub(super) fn network(&self, family: Family) -> Option<IpAddr> {
        self.of_family(family).next().map(|range| range.at(0))
    }

    /// All addresses of a family in the order in which they are tried: those of one range after
    /// another, from a random one on.
    pub(super) fn drawn(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        let ranges: Vec<&Cidr> = self.of_family(family).collect();
        let count = ranges.len();
        let first = clock::below(u64::try_from(count).unwrap_or(1));
        let first = usize::try_from(first).unwrap_or(0);
        let turns = (first..first + count).map(move |turn| ranges[turn % count]);
        turns.flat_map(Cidr::drawn)
    }

    fn of_family(&self, family: Family) -> impl Iterator<Item = &Cidr> {
        self.0.iter().filter(move |range| range.family() == family)
    }
}

/// True if a range may be used. One about which nobody has said anything yet may: the control loop
/// that says so need not run.
fn is_ready(range: &Value) -> bool {
    if object::deletion_timestamp(range).is_some() {
        return false;
    }
    said_of(range).is_none_or(|status| status == "True")
}

/// What the condition says about whether a range is ready; `None` if there is no condition yet.
pub(crate) fn said_of(range: &Value) -> Option<&str> {
    let mut conditions = object::items(range, &["status", "conditions"]).iter();
    let ready = conditions.find(|one| object::text(one, &["type"]) == "Ready")?;
    Some(object::text(ready, &["status"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_come_from_the_ranges_that_are_ready() {
        let range = |cidr: &str, ready: &str| {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            json!({"spec": {"cidrs": [cidr]}, "status": {"conditions": conditions}})
        };
        let mut going = range("10.4.0.0/24", "True");
        going["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let ranges = Ranges::ready(&[
            Arc::new(range("10.1.0.0/24", "True")),
            Arc::new(json!({"spec": {"cidrs": ["10.2.0.0/24", "fd00::/64"]}})),
            Arc::new(range("10.3.0.0/24", "False")),
            Arc::new(going),
        ]);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let has = [1, 2, 3, 4].map(|second| ranges.contains(address(&format!("10.{second}.0.7"))));
        assert_eq!(has, [true, true, false, false]);
        let drawn: Vec<IpAddr> = ranges.drawn(Family::V4).collect();
        assert_eq!(drawn.len(), 2 * 254);
        assert!(drawn.iter().all(|one| ranges.has_host(*one)));
        let other = ranges.drawn(Family::V6).next().unwrap();
        assert!(ranges.has_host(other) && other.is_ipv6());
        assert_eq!(ranges.network(Family::V6), Some(address("fd00::")));
        assert!(ranges.without(address("10.3.0.7")).is_some());
        assert!(ranges.without(address("10.2.0.7")).is_none());
        assert_eq!(Ranges::ready(&[]).drawn(Family::V4).next(), None);
        // Kubernetes draws none from so large a range.
        let large = json!({"spec": {"cidrs": ["fd00::/56"]}});
        let large = Ranges::ready(&[Arc::new(large)]);
        assert_eq!(large.drawn(Family::V6).next(), None);
    }
}
