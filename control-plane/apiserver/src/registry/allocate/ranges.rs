//! The ranges that services get addresses from: those of the ServiceCIDRs that are ready.

use std::net::Ipv4Addr;
use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::basics::cidr::Cidr;
use crate::basics::clock;
use crate::registry::Registry;

/// The ranges for new addresses, of which there may be none.
pub(crate) struct Ranges(Vec<Cidr>);

impl Ranges {
    /// The ranges that the cache has.
    pub(crate) fn of(registry: &Registry) -> Result<Ranges, Status> {
        let reader = &registry.reader;
        let resource = reader.resource("networking.k8s.io", "v1", "servicecidrs")?;
        Ok(Ranges::ready(&reader.cached_list(&resource.kind, "")?))
    }

    fn ready(all: &[Arc<Value>]) -> Ranges {
        let ready = all.iter().filter(|one| is_ready(one));
        let texts = ready.flat_map(|one| object::items(one, &["spec", "cidrs"]));
        let texts = texts.filter_map(Value::as_str);
        Ranges(texts.filter_map(Cidr::parse).collect())
    }

    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }

    /// True if a service may ask for the address.
    pub(super) fn has_host(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|range| range.is_host(address))
    }

    /// A random address of a range that `turn` chooses, so that a full one is not tried for ever.
    pub(super) fn random(&self, turn: usize) -> Option<Ipv4Addr> {
        let range = self.0.get(turn.checked_rem(self.0.len())?)?;
        Some(range.random())
    }

    /// Where to begin the turns.
    pub(super) fn any_turn(&self) -> usize {
        let count = u64::try_from(self.0.len()).unwrap_or(1).max(1);
        usize::try_from(clock::below(count)).unwrap_or(0)
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
        let has = [1, 2, 3, 4].map(|third| ranges.contains(Ipv4Addr::new(10, third, 0, 7)));
        assert_eq!(has, [true, true, false, false]);
        let thirds = [0, 1, 2, 3].map(|turn| ranges.random(turn).unwrap().octets()[1]);
        assert_eq!(thirds, [1, 2, 1, 2]);
        assert!(ranges.any_turn() < 2);
        assert_eq!(Ranges::ready(&[]).random(0), None);
    }
}
