//! Node ports of services, and the ports that report whether a node has pods of a service.
//!
//! Before a service is stored, its ports are marked as taken in the store, and marked as free again
//! when the service loses them. [`crate::upkeep::ports`] repairs what requests leave behind that end
//! halfway.

mod taken;

use std::collections::{BTreeMap, BTreeSet};

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::Allocator;
use crate::basics::clock;
use crate::storage::reader::Reader;
use crate::validate;
pub(crate) use taken::{Ports, Taken};

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// The first node port that is drawn as long as there are others: those before it are left to services
/// that name theirs, as in Kubernetes.
const FIRST_DRAWN: i64 = 30_086;
/// A dry run that has claimed no port guesses the one after this.
const LAST_BEFORE_GUESSES: i64 = 32_768;
/// Field for the port that reports whether a node has pods of the service.
pub(super) const HEALTH_PORT: &str = "healthCheckNodePort";

/// Sets the node port of each port of a service, and its health check port, where it has none, and
/// claims those that it names. Returns the ports that are newly taken. The cache must be fresh.
pub(super) async fn choose(
    allocator: &Allocator,
    old: Option<&Value>,
    service: &mut Value,
    dry: bool,
) -> Result<Ports, Status> {
    let health = validate::checks_health(service) && !old.is_some_and(validate::checks_health);
    if !has_node_ports(service) && !health {
        return Ok(Ports::new());
    }
    // Services of a store that no apiserver has repaired yet are not marked.
    let used = used_by_others(&allocator.reader, old.is_some(), service)?;
    let asked = service.clone();
    let choose = |taken: &mut Ports| {
        let mut chosen = asked.clone();
        let new = claim_all(taken, &used, old, &mut chosen, dry)?;
        taken.extend(&new);
        Ok((chosen, new))
    };
    let store = &allocator.reader.store;
    let marks = &allocator.allocations.ports;
    if dry {
        let mut taken = marks.read(store).await?;
        *service = choose(&mut taken)?.0;
        return Ok(Ports::new());
    }
    let (chosen, new) = marks.change(store, choose).await?;
    *service = chosen;
    Ok(new)
}

/// Marks ports as free that were claimed for a service that is not stored.
pub(super) async fn give_back(allocator: &Allocator, ports: &Ports) -> Result<(), Status> {
    let free = |taken: &mut Ports| {
        taken.retain(|port| !ports.contains(port));
        Ok(())
    };
    repair(allocator, free).await
}

/// Marks the ports as free that a service had, unless a service has them.
pub(super) async fn release(allocator: &Allocator, mut ports: Ports) -> Result<(), Status> {
    allocator.reader.fresh().await?;
    let used = used(&allocator.reader)?;
    ports.retain(|port| !used.contains(port));
    give_back(allocator, &ports).await
}

/// Marks ports as taken or free, as `change` decides.
pub(crate) async fn repair(
    allocator: &Allocator,
    change: impl FnMut(&mut Ports) -> Result<(), Status>,
) -> Result<(), Status> {
    let marks = &allocator.allocations.ports;
    marks.change(&allocator.reader.store, change).await
}

/// The ports of all services in the cache.
pub(crate) fn used(reader: &Reader) -> Result<Ports, Status> {
    used_by_others(reader, false, &Value::Null)
}

/// The node ports and the health check port of a service.
pub(super) fn all_of(service: &Value) -> Ports {
    node_ports(service).chain(health_port(service)).collect()
}

/// Chooses the ports of a service beside those that are taken, and returns the new ones.
fn claim_all(
    taken: &Ports,
    others: &Ports,
    old: Option<&Value>,
    service: &mut Value,
    dry: bool,
) -> Result<Ports, Status> {
    let had: Ports = old.into_iter().flat_map(node_ports).collect();
    let mut used = taken.clone();
    // Two writes may keep the same ports of one service. One of them fails, or they are the same.
    used.retain(|port| !had.contains(port));
    used.extend(others);
    used.extend(old.and_then(|old| object::integer(old, &["spec", HEALTH_PORT])));
    let mut claims = Claims::new(used, had, dry);
    // What the service names is not drawn for another of its ports.
    claims.named.extend(node_ports(service));
    claims.named.extend(health_port(service));
    if has_node_ports(service) {
        claims.node_ports(old.is_some(), service)?;
    }
    if validate::checks_health(service) && !old.is_some_and(validate::checks_health) {
        claims.health_port(service)?;
    }
    Ok(claims.new)
}

/// The ports that one write claims.
struct Claims {
    /// Taken by others, or by this write.
    used: BTreeSet<i64>,
    /// The node ports that the service has already.
    had: BTreeSet<i64>,
    named: BTreeSet<i64>,
    /// Claimed by this write.
    new: BTreeSet<i64>,
    /// True for a dry run. As in Kubernetes, it takes any port that nobody has, and guesses those
    /// that nobody names: nothing is reserved for it that a draw could return.
    dry: bool,
}

impl Claims {
    fn new(used: BTreeSet<i64>, had: BTreeSet<i64>, dry: bool) -> Claims {
        Claims {
            used,
            had,
            named: BTreeSet::new(),
            new: BTreeSet::new(),
            dry,
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
        let named = named_for(list);
        let mut by_port: BTreeMap<i64, i64> = BTreeMap::new();
        for (at, port) in list.iter_mut().enumerate() {
            let asked = port["nodePort"].as_i64().unwrap_or(0);
            if asked == 0 && !draws {
                continue;
            }
            let number = port["port"].as_i64().unwrap_or(0);
            let shared = by_port.get(&number).copied().filter(|_| !exists);
            let wanted = match (asked, shared) {
                (0, Some(shared)) => shared,
                (0, None) if exists => 0,
                (0, None) => named.get(&number).copied().unwrap_or(0),
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
            port["nodePort"] = chosen.into();
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
        if !self.dry && !NODE_PORTS.contains(&port) {
            return Err(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if !self.used.insert(port) {
            return Err("provided port is already allocated");
        }
        self.new.insert(port);
        Ok(port)
    }

    /// The guess of a dry run: the port after the largest one that this write has claimed.
    fn guess(&mut self) -> i64 {
        // Kubernetes counts from 0, so that a negative port does not count.
        let last = self.new.last().map(|port| (*port).max(0));
        let port = last.unwrap_or(LAST_BEFORE_GUESSES) + 1;
        self.new.insert(port);
        port
    }

    fn draw(&mut self) -> Result<i64, Status> {
        if self.dry {
            return Ok(self.guess());
        }
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
        self.new.insert(port);
        Ok(port)
    }
}

/// The node ports that a new service names, by the port: one protocol's is that of the others, too.
fn named_for(ports: &[Value]) -> BTreeMap<i64, i64> {
    let mut named = BTreeMap::new();
    for port in ports {
        let of_port = [&port["port"], &port["nodePort"]].map(Value::as_i64);
        if let [Some(number), Some(on_nodes)] = of_port
            && on_nodes != 0
        {
            named.entry(number).or_insert(on_nodes);
        }
    }
    named
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
fn used_by_others(reader: &Reader, exists: bool, service: &Value) -> Result<BTreeSet<i64>, Status> {
    let services = reader.resource("", "v1", "services")?;
    let own = (object::namespace(service), object::name(service));
    let mut used = BTreeSet::new();
    for other in reader.cached_list(&services.kind, "")? {
        if !exists || (object::namespace(&other), object::name(&other)) != own {
            used.extend(all_of(&other));
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

#[test]
fn many_ports_are_chosen_in_one_pass() {
    use serde_json::json;

    const COUNT: i64 = 60_000;
    let ports: Vec<Value> = (1..=COUNT).map(|port| json!({"port": port})).collect();
    let mut service = json!({"spec": {"type": "NodePort", "ports": ports}});
    let none = Ports::new();
    let chosen = claim_all(&none, &none, None, &mut service, true).unwrap();
    assert_eq!(chosen.last(), Some(&(LAST_BEFORE_GUESSES + COUNT)));
    let named = json!([{"port": 1}, {"port": 1, "nodePort": 0}, {"port": 1, "nodePort": 30_001}]);
    assert_eq!(named_for(named.as_array().unwrap()), [(1, 30_001)].into());
}
