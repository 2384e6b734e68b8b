//! Node ports of services, and the ports that report whether a node has pods of a service.
//!
//! The services in the cache have theirs. What a write under way has chosen is reserved in memory,
//! until the write fails or the cache has its service. Apiservers beside each other do not know of
//! each other's reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::status::{Cause, Status};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::basics::clock;
use crate::registry::Registry;
use crate::validate;

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The first node port that is drawn as long as there are others: those before it are left to services
/// that name theirs, as in Kubernetes.
const FIRST_DRAWN: i64 = 30_086;
/// Field for the port that reports whether a node has pods of the service.
pub(super) const HEALTH_PORT: &str = "healthCheckNodePort";

/// How long ports stay reserved after a write of which nobody knows whether it took effect: one that
/// still is under way in the store ends sooner.
const UNSURE: Duration = Duration::from_secs(120);

/// The ports that writes have chosen and the cache may not show.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Arc<Mutex<BTreeMap<i64, Until>>>);

/// How long a port is reserved.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// Until the write ends.
    Decided,
    /// Until the cache has the revision of the write.
    Cached(i64),
    /// Until the cache would show the service, if it was stored.
    Time(Instant),
}

impl Until {
    fn lasts(self, cached: i64) -> bool {
        match self {
            Until::Decided => true,
            Until::Cached(revision) => revision > cached,
            Until::Time(time) => Instant::now() < time,
        }
    }
}

/// Ports chosen for a service that is not stored. Dropped, they stay reserved for a while: the write
/// may have been given up on its way.
#[derive(Debug)]
pub(super) struct Chosen {
    reserved: Arc<Mutex<BTreeMap<i64, Until>>>,
    ports: Vec<i64>,
}

impl Chosen {
    /// The service is stored: its ports stay reserved until the cache has this revision.
    pub(super) fn stored(self, revision: i64) {
        self.end(Some(Until::Cached(revision)));
    }

    /// The service is not stored: its ports are free.
    pub(super) fn give_back(self) {
        self.end(None);
    }

    fn end(mut self, until: Option<Until>) {
        let mut reserved = self.reserved.lock();
        for port in std::mem::take(&mut self.ports) {
            match until {
                Some(until) => reserved.insert(port, until),
                None => reserved.remove(&port),
            };
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let mut reserved = self.reserved.lock();
        for port in &self.ports {
            reserved.insert(*port, Until::Time(Instant::now() + UNSURE));
        }
    }
}

/// Sets the node port of each port of a service, and its health check port, where it has none, and
/// claims those that it names. The cache must be fresh.
pub(super) fn choose(
    registry: &Registry,
    old: Option<&Value>,
    service: &mut Value,
) -> Result<Option<Chosen>, Status> {
    let health = validate::checks_health(service) && !old.is_some_and(validate::checks_health);
    if !has_node_ports(service) && !health {
        return Ok(None);
    }
    // Until all ports are chosen: another write must not choose them meanwhile.
    let mut reserved = registry.ports.0.lock();
    let cached = registry.reader.reflector.revision();
    reserved.retain(|_, until| until.lasts(cached));
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let mut used: BTreeSet<i64> = reserved.keys().copied().collect();
    // Two writes may keep the same ports of one service. One of them fails, or they are the same.
    used.retain(|port| !had.contains(port));
    used.extend(used_by_others(registry, old.is_some(), service)?);
    used.extend(old.and_then(|old| object::integer(old, &["spec", HEALTH_PORT])));
    let mut claims = Claims::new(used, had);
    // What the service names is not drawn for another of its ports.
    claims.named.extend(node_ports(service));
    claims.named.extend(health_port(service));
    if has_node_ports(service) {
        claims.node_ports(old.is_some(), service)?;
    }
    if health {
        claims.health_port(service)?;
    }
    reserved.extend(claims.new.iter().map(|port| (*port, Until::Decided)));
    Ok(Some(Chosen {
        reserved: Arc::clone(&registry.ports.0),
        ports: claims.new,
    }))
}

/// The ports that one write claims.
struct Claims {
    /// Taken by others, or by this write.
    used: BTreeSet<i64>,
    /// The node ports that the service has already.
    had: BTreeSet<i64>,
    named: BTreeSet<i64>,
    /// Claimed by this write.
    new: Vec<i64>,
}

impl Claims {
    fn new(used: BTreeSet<i64>, had: BTreeSet<i64>) -> Claims {
        Claims {
            used,
            had,
            named: BTreeSet::new(),
            new: Vec::new(),
        }
    }

    /// Of a new service, a port with two protocols has one node port. An update keeps each node
    /// port that the service has, wherever it is.
    fn node_ports(&mut self, exists: bool, service: &mut Value) -> Result<(), Status> {
        let name = object::name(service).to_owned();
        let draws = wants_node_ports(service);
        let list = service.pointer_mut("/spec/ports");
        let Some(Value::Array(list)) = list else {
            return Ok(());
        };
        let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
        for at in 0..list.len() {
            let asked = list[at]["nodePort"].as_i64().unwrap_or(0);
            if asked == 0 && !draws {
                continue;
            }
            let number = list[at]["port"].as_i64().unwrap_or(0);
            let shared = by_port.get(&number).copied().filter(|_| !exists);
            let wanted = match (asked, shared) {
                (0, Some(shared)) => shared,
                (0, None) if exists => 0,
                (0, None) => named_for(number, list),
                (asked, _) => asked,
            };
            let is_ours = Some(wanted) == shared || self.is_kept(exists, wanted);
            let chosen = match wanted {
                0 => self.draw()?,
                wanted if is_ours => wanted,
                wanted => self.claim(wanted).map_err(|why| {
                    let field = format!("spec.ports[{at}].nodePort");
                    let cause = Cause::invalid(&field, &wanted.into(), why);
                    Status::invalid("", "Service", &name, vec![cause])
                })?,
            };
            by_port.entry(number).or_insert(chosen);
            list[at]["nodePort"] = chosen.into();
        }
        Ok(())
    }

    /// True for a node port that an update finds on the service, or has claimed for another protocol.
    fn is_kept(&self, exists: bool, port: i64) -> bool {
        exists && (self.had.contains(&port) || self.new.contains(&port))
    }

    fn health_port(&mut self, service: &mut Value) -> Result<(), Status> {
        let chosen = match health_port(service) {
            None => self.draw()?,
            Some(asked) => self.claim(asked).map_err(|why| {
                Status::internal(&format!(
                    "failed to allocate requested HealthCheck NodePort {asked}: {why}"
                ))
            })?,
        };
        object::set(service, &["spec", HEALTH_PORT], chosen.into());
        Ok(())
    }

    /// The error is Kubernetes' reason.
    fn claim(&mut self, port: i64) -> Result<i64, &'static str> {
        if !NODE_PORTS.contains(&port) {
            return Err(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if !self.used.insert(port) {
            return Err("provided port is already allocated");
        }
        self.new.push(port);
        Ok(port)
    }

    fn draw(&mut self) -> Result<i64, Status> {
        let from = |start: i64, end: i64| {
            let count = end - start;
            let first = clock::below(count.unsigned_abs()) as i64;
            (0..count).map(move |step| start + (first + step) % count)
        };
        let (first, end) = (*NODE_PORTS.start(), NODE_PORTS.end() + 1);
        let mut all = from(FIRST_DRAWN, end).chain(from(first, FIRST_DRAWN));
        let is_taken = |port: &i64| {
            [&self.used, &self.had, &self.named]
                .iter()
                .any(|taken| taken.contains(port))
        };
        let free = all.find(|port| !is_taken(port));
        let port =
            free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        self.used.insert(port);
        self.new.push(port);
        Ok(port)
    }
}

/// The node port that a new service names for a port of one protocol, for those of the others; 0 if
/// it names none.
fn named_for(number: i64, ports: &[Value]) -> i64 {
    let same = ports.iter().filter(|port| port["port"] == number);
    let mut named = same.filter_map(|port| port["nodePort"].as_i64());
    named.find(|port| *port != 0).unwrap_or(0)
}

/// True if the type of a service has node ports, drawn or named.
fn has_node_ports(service: &Value) -> bool {
    ["NodePort", "LoadBalancer"].contains(&object::text(service, &["spec", "type"]))
}

/// True if a service gets a node port for each port that names none.
fn wants_node_ports(service: &Value) -> bool {
    let declined = object::at(service, &["spec", "allocateLoadBalancerNodePorts"]);
    has_node_ports(service)
        && (object::text(service, &["spec", "type"]) == "NodePort"
            || declined != Some(&Value::Bool(false)))
}

fn health_port(service: &Value) -> Option<i64> {
    object::integer(service, &["spec", HEALTH_PORT]).filter(|port| *port != 0)
}

/// Keeps what an update leaves out: the node port of a port with the same name, unless another port
/// of the service has it now, and the health check port.
pub(super) fn keep(old: &Value, new: &mut Value) {
    if validate::checks_health(new)
        && validate::checks_health(old)
        && health_port(new).is_none()
        && let Some(has) = object::at(old, &["spec", HEALTH_PORT])
    {
        object::set(new, &["spec", HEALTH_PORT], has.clone());
    }
    if !wants_node_ports(old) || !wants_node_ports(new) {
        return;
    }
    let named: BTreeSet<i64> = node_ports(new).collect();
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let before = object::items(old, &["spec", "ports"]).iter();
    let before: BTreeMap<String, i64> = before
        .filter_map(|port| Some((name(port), port["nodePort"].as_i64()?)))
        .collect();
    let Some(Value::Array(list)) = new.pointer_mut("/spec/ports") else {
        return;
    };
    for port in list {
        if port["nodePort"].as_i64().unwrap_or(0) == 0
            && let Some(had) = before.get(&name(port)).filter(|had| !named.contains(had))
        {
            port["nodePort"] = (*had).into();
        }
    }
}

/// Removes the node ports of a service whose type has none any more, unless the update names new
/// ones: validation refuses those.
pub(super) fn remove(old: &Value, new: &mut Value) {
    let had: BTreeSet<i64> = node_ports(old).collect();
    let stays = has_node_ports(new) || !has_node_ports(old);
    if stays || !node_ports(new).all(|port| had.contains(&port)) {
        return;
    }
    let Some(Value::Array(list)) = new.pointer_mut("/spec/ports") else {
        return;
    };
    for port in list.iter_mut().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

/// The ports of all services in the cache, without those of `service` if it is one that exists.
fn used_by_others(
    registry: &Registry,
    exists: bool,
    service: &Value,
) -> Result<BTreeSet<i64>, Status> {
    let services = registry.reader.resource("", "v1", "services")?;
    let own = (object::namespace(service), object::name(service));
    let mut used = BTreeSet::new();
    for other in registry.reader.cached_list(&services.kind, "") {
        if !exists || (object::namespace(&other), object::name(&other)) != own {
            used.extend(node_ports(&other));
            used.extend(object::integer(&other, &["spec", HEALTH_PORT]));
        }
    }
    Ok(used)
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let ports = object::items(service, &["spec", "ports"]).iter();
    ports
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port > 0)
}
