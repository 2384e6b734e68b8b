//! Keeps the endpoints of the service `kubernetes`: the addresses of all apiservers of a store.
//!
//! Each server keeps a key of its own in the store, which disappears soon after the server does, and
//! writes the addresses of all keys into the Endpoints and the EndpointSlice. Keys and values are
//! those of Kubernetes, so that its own apiserver can share the store.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use machinery::status::Status;
use machinery::{object, protobuf, schema};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::registry::Registry;

const FOLDER: &str = "/registry/masterleases/";
const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// How long to wait between two turns, as in Kubernetes.
const EVERY: Duration = Duration::from_secs(10);
/// How long the address of a server that is gone stays, as in Kubernetes.
const LEASE_SECONDS: i64 = 15;
/// How often a write is tried while another server writes the same object.
const TRIES_MAX: usize = 4;
/// How long a server that stops waits for the store.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// The endpoint of one server: it joins the others, and leaves them.
#[derive(Default)]
pub(crate) struct OwnEndpoint {
    /// True once the server has taken itself out. Locked during each turn, so that no turn puts it
    /// back.
    left: Mutex<bool>,
}

impl OwnEndpoint {
    /// Keeps the endpoints until the server leaves.
    pub(crate) async fn keep(self: Arc<OwnEndpoint>, registry: Arc<Registry>) {
        let Some(address) = told(&registry) else {
            return;
        };
        registry.reader.reflector.loaded().await;
        loop {
            let left = self.left.lock().await;
            if *left {
                return;
            }
            if let Err(error) = join(&registry, address).await {
                tracing::warn!(%error, "the endpoints of the service kubernetes cannot be kept");
            }
            drop(left);
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Takes the server out of the endpoints.
    pub(crate) async fn leave(&self, registry: &Registry) {
        let Some(address) = told(registry) else {
            return;
        };
        let leave = async {
            *self.left.lock().await = true;
            registry.reader.store.delete_plain(&key(address)).await?;
            publish(registry, address.port()).await
        };
        let left = tokio::time::timeout(LEAVE_WITHIN, leave).await;
        if !left.is_ok_and(|left| left.is_ok()) {
            tracing::info!("this server stays in the endpoints for a while");
        }
    }
}

/// The address that others are told. A loopback address means a different host to each reader, so no
/// endpoints may hold one.
fn told(registry: &Registry) -> Option<SocketAddr> {
    let known = registry.settings.advertised;
    known.filter(|address| !address.ip().is_loopback())
}

fn key(address: SocketAddr) -> String {
    format!("{FOLDER}{}", address.ip())
}

/// Renews the key of this server and publishes the addresses of all.
async fn join(registry: &Registry, address: SocketAddr) -> Result<(), Status> {
    let store = &registry.reader.store;
    let value = json!({
        "kind": "Endpoints", "apiVersion": "v1",
        "subsets": [{"addresses": [{"ip": address.ip().to_string()}]}],
    });
    let value = protobuf::encode(&value).map_err(|error| Status::internal(&error.0))?;
    let lease = store.grant(LEASE_SECONDS).await?;
    store.put_plain(&key(address), value, lease).await?;
    publish(registry, address.port()).await
}

/// Writes the addresses of all servers into both objects.
async fn publish(registry: &Registry, port: u16) -> Result<(), Status> {
    let page = registry.reader.store.list(FOLDER, FOLDER, 0, 0).await?;
    let names = page
        .items
        .iter()
        .map(|raw| String::from_utf8_lossy(&raw.key));
    let addresses = names.filter_map(|name| name.strip_prefix(FOLDER)?.parse().ok());
    let mut addresses: Vec<IpAddr> = addresses.collect();
    addresses.sort();
    for wanted in [endpoints(&addresses, port), slice(&addresses, port)] {
        let mut tries = 0;
        while let Err(error) = write(registry, &wanted).await {
            tries += 1;
            // Of two servers that write at once, one is refused. It may find that all is said.
            if ![404, 409].contains(&error.code) || tries == TRIES_MAX {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn endpoints(addresses: &[IpAddr], port: u16) -> Value {
    let addresses = addresses
        .iter()
        .map(|address| json!({"ip": address.to_string()}));
    let addresses: Vec<Value> = addresses.collect();
    let subsets = if addresses.is_empty() {
        Value::Null
    } else {
        let port = json!({"name": "https", "port": port, "protocol": "TCP"});
        json!([{"addresses": addresses, "ports": [port]}])
    };
    json!({
        "kind": "Endpoints", "apiVersion": "v1",
        "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": subsets,
    })
}

fn slice(addresses: &[IpAddr], port: u16) -> Value {
    let endpoint = |address: &IpAddr| json!({"addresses": [address.to_string()], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    let is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "endpoints": if endpoints.is_empty() { Value::Null } else { endpoints.into() },
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}

/// Creates an object, or changes it where it differs.
async fn write(registry: &Registry, wanted: &Value) -> Result<(), Status> {
    let (group, version) = schema::split_api_version(object::api_version(wanted));
    let kind = schema::kind(group, version, object::kind(wanted));
    let kind = kind.ok_or_else(Status::unknown_path)?;
    match registry.reader.get(kind, NAMESPACE, NAME).await {
        Ok(current) => match changed(&current, wanted) {
            Some(new) => registry.update(kind, NAMESPACE, new).await.map(|_| ()),
            None => Ok(()),
        },
        Err(error) if error.code == 404 => {
            let mut new = wanted.clone();
            object::set(&mut new, &["metadata", "name"], NAME.into());
            object::set(&mut new, &["metadata", "namespace"], NAMESPACE.into());
            registry.create(kind, NAMESPACE, new).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

/// The object with all that is wanted; `None` if it has that already. Labels of others stay.
fn changed(current: &Value, wanted: &Value) -> Option<Value> {
    let mut new = current.clone();
    for (key, value) in object::labels(wanted).into_iter().flatten() {
        object::set(&mut new, &["metadata", "labels", key], value.clone());
    }
    let fields = wanted.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| *key != "metadata") {
        if value.is_null() {
            object::remove(&mut new, &[key]);
        } else {
            object::set(&mut new, &[key], value.clone());
        }
    }
    (new != *current).then_some(new)
}
