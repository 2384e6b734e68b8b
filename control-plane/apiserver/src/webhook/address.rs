//! Where a webhook is: at a URL, or behind a service of the cluster.
//!
//! The cluster's own addresses need not be reachable from here, so a service is resolved to one of
//! its ready endpoints, as Kubernetes does with `--enable-aggregator-routing`.

#[cfg(test)]
mod tests;

use std::io;

use http::Uri;
use machinery::object;
use machinery::schema;
use serde_json::Value;

use crate::basics::clock;
use crate::storage::reader::Reader;

/// The port of HTTPS.
const DEFAULT_PORT: u16 = 443;
/// The label of a slice that names its service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a host, whose address is without brackets.
    Host {
        host: String,
        port: Option<u16>,
        path: String,
    },
    /// Behind a port of a service.
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
}

impl Place {
    /// Reads `url` or `service` of a `clientConfig`.
    pub(crate) fn of(config: &Value) -> Result<Place, String> {
        if let Some(service) = config.get("service").filter(|one| one.is_object()) {
            let port = object::integer(service, &["port"]).unwrap_or(DEFAULT_PORT.into());
            return Ok(Place::Service {
                namespace: object::text(service, &["namespace"]).to_owned(),
                name: object::text(service, &["name"]).to_owned(),
                port: u16::try_from(port).map_err(|error| error.to_string())?,
                path: rooted(object::text(service, &["path"])),
            });
        }
        let url = object::text(config, &["url"]);
        let uri: Uri = url.parse().map_err(|e| format!("Unparsable URL: {e}"))?;
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err("webhook configuration must have either service or URL".into());
        }
        Ok(Place::Host {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16(),
            path: rooted(uri.path()),
        })
    }

    /// Whom the certificate has to name.
    pub(crate) fn server_name(&self) -> String {
        match self {
            Place::Host { host, .. } => host.clone(),
            Place::Service {
                namespace, name, ..
            } => format!("{name}.{namespace}.svc"),
        }
    }

    /// Host and port, as a URL has them.
    pub(crate) fn host(&self) -> String {
        match self {
            Place::Host {
                host,
                port: Some(port),
                ..
            } => joined(host, *port),
            Place::Host { host, .. } if host.contains(':') => format!("[{host}]"),
            Place::Host { host, .. } => host.clone(),
            Place::Service { port, .. } => joined(&self.server_name(), *port),
        }
    }

    /// The path, which begins with a slash.
    pub(crate) fn path(&self) -> &str {
        match self {
            Place::Host { path, .. } | Place::Service { path, .. } => path,
        }
    }

    /// Host and port to connect to. Each call may get another endpoint of a service.
    pub(crate) fn address(&self, reader: &Reader) -> Result<String, String> {
        match self {
            Place::Host { host, port, .. } => Ok(joined(host, port.unwrap_or(DEFAULT_PORT))),
            Place::Service {
                namespace,
                name,
                port,
                ..
            } => behind(reader, namespace, name, *port),
        }
    }
}

/// Why there is no connection to an address, in the words of Go's dialer.
pub(crate) fn not_reached(address: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {address}: connect: connection refused")
        }
        _ => format!("dial tcp {address}: {error}"),
    }
}

/// The address of a ready endpoint behind a port of a service.
fn behind(reader: &Reader, namespace: &str, name: &str, port: u16) -> Result<String, String> {
    let kind = |group, version, plural| {
        schema::resource(group, version, plural).ok_or_else(|| format!("no {plural} are served"))
    };
    let service = reader.cached(kind("", "v1", "services")?, namespace, name);
    let Some(service) = service else {
        return Err(format!("service {name:?} not found"));
    };
    match object::text(&service, &["spec", "type"]) {
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        "ExternalName" => {
            let outside = object::text(&service, &["spec", "externalName"]);
            return Ok(joined(outside, port));
        }
        other => return Err(format!("unsupported service type {other:?}")),
    }
    let ports = object::items(&service, &["spec", "ports"]).iter();
    let mut ports = ports.filter(|one| object::integer(one, &["port"]) == Some(port.into()));
    let Some(of_service) = ports.next() else {
        return Err(format!("no service port {port} found for service {name:?}"));
    };
    let port_name = object::text(of_service, &["name"]);
    let slices = kind("discovery.k8s.io", "v1", "endpointslices")?;
    let slices = reader.cached_with_label(slices, namespace, (SERVICE_NAME, name));
    let family = object::items(&service, &["spec", "ipFamilies"]).first();
    let family = family.and_then(Value::as_str).unwrap_or_default();
    let mut ready = ready(slices.iter().map(AsRef::as_ref), port_name, family);
    if slices.is_empty() {
        let endpoints = reader.cached(kind("", "v1", "endpoints")?, namespace, name);
        ready = endpoints
            .map(|one| of_endpoints(&one, port_name))
            .unwrap_or_default();
    }
    if ready.is_empty() {
        return Err(format!("no endpoints available for service {name:?}"));
    }
    let at = clock::below(ready.len() as u64) as usize;
    Ok(ready.swap_remove(at))
}

/// The ready addresses of slices that have a port of this name: those of the service's first
/// family, or others if it has none there.
fn ready<'a>(
    slices: impl Iterator<Item = &'a Value>,
    port_name: &str,
    family: &str,
) -> Vec<String> {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for slice in slices {
        let Some(port) = port_of(slice, port_name) else {
            continue;
        };
        let endpoints = object::items(slice, &["endpoints"]).iter();
        let ready = endpoints
            .filter(|one| object::at(one, &["conditions", "ready"]) != Some(&Value::Bool(false)));
        let addresses =
            ready.filter_map(|one| object::items(one, &["addresses"]).first()?.as_str());
        let mine = object::text(slice, &["addressType"]) == family;
        let all = if mine { &mut first } else { &mut others };
        all.extend(addresses.map(|address| joined(address, port)));
    }
    if first.is_empty() { others } else { first }
}

/// The ready addresses of an Endpoints object.
fn of_endpoints(endpoints: &Value, port_name: &str) -> Vec<String> {
    let mut all = Vec::new();
    for subset in object::items(endpoints, &["subsets"]) {
        let Some(port) = port_of(subset, port_name) else {
            continue;
        };
        let addresses = object::items(subset, &["addresses"]).iter();
        all.extend(addresses.map(|one| joined(object::text(one, &["ip"]), port)));
    }
    all
}

/// The number of the port with a name; a port without one is called by the empty name.
fn port_of(holder: &Value, name: &str) -> Option<u16> {
    let mut ports = object::items(holder, &["ports"]).iter();
    let port = ports.find(|one| object::text(one, &["name"]) == name)?;
    u16::try_from(object::integer(port, &["port"])?).ok()
}

/// A host and a port; an IPv6 address gets its brackets.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A path from the root without a slash at its end.
fn rooted(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}
