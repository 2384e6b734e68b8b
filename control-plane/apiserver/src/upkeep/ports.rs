//! Repairs the marks of node ports that are taken: requests that end halfway leave ports without a
//! service, or a service without its marks.
//!
//! Every server of a store does this by itself. Of two that repair at once, one finds the state that
//! the other one has left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machinery::status::Status;

use crate::registry::Registry;
use crate::registry::allocate::Allocator;
use crate::registry::allocate::ports::{self, Ports};

/// How long to wait between two turns, as in Kubernetes.
const EVERY: Duration = Duration::from_secs(180);
/// Number of turns that must find a port without a service before it is free. In the first ones it may
/// belong to a request under way.
const TURNS: u32 = 3;

/// Ports without a service, and how many turns have found them so.
type Idle = BTreeMap<i64, u32>;

/// Repairs the node ports of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    let mut idle = Idle::new();
    loop {
        match repair(&registry, &idle).await {
            Ok(now) => idle = now,
            Err(error) => tracing::warn!(%error, "the node ports of services cannot be repaired"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// One turn over all services and ports.
async fn repair(registry: &Registry, before: &Idle) -> Result<Idle, Status> {
    registry.reader.fresh().await?;
    // Read before the marks: a port that is marked meanwhile counts as idle for one turn only.
    let used = ports::used(&registry.reader)?;
    let mut idle = Idle::new();
    ports::repair(&Allocator::of(registry), |taken| {
        idle = turn(taken, &used, before);
        Ok(())
    })
    .await?;
    Ok(idle)
}

/// Marks the ports that services have, and frees those that none has had for long.
fn turn(taken: &mut Ports, used: &Ports, before: &Idle) -> Idle {
    let without = taken.difference(used);
    let counted = without.map(|port| (*port, before.get(port).unwrap_or(&0) + 1));
    let (gone, idle): (Idle, Idle) = counted.partition(|(_, turns)| *turns >= TURNS);
    taken.retain(|port| !gone.contains_key(port));
    taken.extend(used);
    idle
}

#[test]
fn ports_without_a_service_are_free_in_the_third_turn() {
    let used = Ports::from([30_001, 30_002]);
    let mut taken = Ports::from([30_001, 30_007]);
    let first = turn(&mut taken, &used, &Idle::new());
    assert_eq!(taken, Ports::from([30_001, 30_002, 30_007]));
    let second = turn(&mut taken, &used, &first);
    assert_eq!((&taken.len(), second[&30_007]), (&3, 2));
    // A service that comes late keeps its port.
    let late = Ports::from([30_001, 30_007]);
    assert!(turn(&mut taken.clone(), &late, &second).contains_key(&30_002));
    let third = turn(&mut taken, &used, &second);
    assert_eq!((taken, third), (used, Idle::new()));
}
