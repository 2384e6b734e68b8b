//! Built-in objects: namespaces, priority classes, since when the use of tokens is recorded, the range
//! of service addresses, and the service of this server.

pub(crate) mod bootstrap;

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::basics::clock;
use crate::basics::steps::Step;
use crate::registry::Registry;
use crate::registry::allocate::ranges;
use crate::storage::interest::Interest;

const SYSTEM: &str = "kube-system";
const NAMESPACES: [&str; 4] = ["default", SYSTEM, "kube-public", "kube-node-lease"];
/// The config map that says since when the use of tokens in secrets is recorded.
const TOKENS_RECORDED: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Creates the missing objects that need no others.
pub(crate) async fn make(registry: &Registry) -> Result<(), Status> {
    make_first(registry).await?;
    for name in NAMESPACES {
        ensure(
            registry,
            "",
            "Namespace",
            "",
            json!({"metadata": {"name": name}}),
        )
        .await?;
    }
    registry.steps.done(Step::Namespaces);
    for (name, value, purpose) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "for pods the cluster cannot do without",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "for pods a node cannot do without",
        ),
    ] {
        let class = json!({
            "metadata": {"name": name}, "value": value, "description": purpose,
        });
        ensure(registry, "scheduling.k8s.io", "PriorityClass", "", class).await?;
    }
    registry.steps.done(Step::PriorityClasses);
    let since = json!({
        "metadata": {"name": TOKENS_RECORDED, "namespace": SYSTEM},
        "data": {"since": clock::day(clock::now())},
    });
    ensure(registry, "", "ConfigMap", SYSTEM, since).await?;
    registry.steps.done(Step::TokensRecorded);
    Ok(())
}

/// Creates what a new cluster begins with. A cluster is new until it has its first namespace, which
/// nobody can delete: so these objects are not made again after a deletion, but are after a crash.
async fn make_first(registry: &Registry) -> Result<(), Status> {
    let objects = &registry.settings.first_objects;
    if objects.is_empty() {
        return Ok(());
    }
    let kind = schema::resource("", "v1", "namespaces").ok_or_else(Status::unknown_path)?;
    let first = registry.reader.cached_or_stored(kind, "", NAMESPACES[0]);
    match first.await {
        Ok(_) => return Ok(()),
        Err(error) if error.code == 404 => {}
        // Perhaps the cluster is not new.
        Err(error) => return Err(error),
    }
    for object in objects {
        let (group, _) = schema::split_api_version(object::api_version(object));
        let (kind, namespace) = (object::kind(object), object::namespace(object));
        ensure(registry, group, kind, namespace, object.clone()).await?;
    }
    Ok(())
}

/// Creates the range of service addresses and the service of this server, if they are missing. A
/// failure keeps no server from being ready: only a human can bring addresses into order.
pub(crate) async fn make_services(registry: &Registry) -> Result<(), Status> {
    let range = service_range(registry).await;
    registry.steps.done(Step::ServiceRange);
    let service = match range {
        Ok(()) => kubernetes(registry).await,
        failed => failed,
    };
    registry.steps.done(Step::OwnService);
    service
}

/// Creates the range of service addresses that the flags name, and says that it is ready unless
/// somebody has said something about that. One range gets the second one that the flags name.
/// Others that the flags do not name stay: their owner decides.
async fn service_range(registry: &Registry) -> Result<(), Status> {
    let texts = registry.settings.service_ranges.texts();
    let cidrs = json!(texts);
    let (group, kind, name) = ("networking.k8s.io", "ServiceCIDR", "kubernetes");
    let range = json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
    ensure(registry, group, kind, "", range).await?;
    let kind = schema::kind(group, "v1", kind).ok_or_else(Status::unknown_path)?;
    let stored = match registry.reader.cached(kind, "", name) {
        Some(stored) => stored,
        None => registry.reader.get(kind, "", name).await?,
    };
    if let (Some([first]), [flag, _]) = (
        stored["spec"]["cidrs"].as_array().map(Vec::as_slice),
        &texts[..],
    ) && first == flag
    {
        let mut both = Value::clone(&stored);
        both["spec"]["cidrs"] = cidrs;
        return tolerated(registry.update(kind, "", both).await);
    }
    let is_going = object::deletion_timestamp(&stored).is_some();
    if ranges::said_of(&stored).is_some() || is_going || stored["spec"]["cidrs"] != cidrs {
        return Ok(());
    }
    let mut ready = Value::clone(&stored);
    ready["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": clock::now().to_seconds(),
    }]);
    tolerated(registry.update_status(kind, ready).await)
}

/// Somebody else has written it, or the cache shows it soon.
fn tolerated<T>(written: Result<T, Status>) -> Result<(), Status> {
    match written {
        Err(error) if error.code != 409 && error.code != 404 => Err(error),
        _ => Ok(()),
    }
}

/// Creates objects again after a deletion, as soon as a change of the services is seen.
pub(crate) async fn keep(registry: &Registry) -> Result<(), Status> {
    let services = registry.reader.resource("", "v1", "services")?;
    let storage = services.stored()?;
    let cache = registry.reader.reflector.cache(storage)?;
    let interest = Interest {
        folder: storage.folder(""),
        field: None,
    };
    // `end` cannot be forgotten between these two calls, and the receiver is only used to wake.
    let Ok(mut changed) = cache.join(&interest, cache.end()) else {
        return Err(Status::internal("the services changed too fast"));
    };
    let kept = async {
        loop {
            make(registry).await?;
            make_services(registry).await?;
            if changed.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    let kept = kept.await;
    cache.leave(&interest);
    kept
}

/// Creates the service by which pods find this server. [`crate::upkeep::endpoints`] keeps its
/// endpoints.
async fn kubernetes(registry: &Registry) -> Result<(), Status> {
    let address = registry.settings.service_ranges.own_address();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let port = registry
        .settings
        .advertised
        .map_or(6443, |address| address.port());
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "type": "ClusterIP", "clusterIP": address.to_string(),
            "ports": [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}],
        },
    });
    ensure(registry, "", "Service", "default", service).await
}

/// Creates an object unless it exists.
async fn ensure(
    registry: &Registry,
    group: &str,
    kind: &str,
    namespace: &str,
    mut object: Value,
) -> Result<(), Status> {
    let kind = schema::kind(group, "v1", kind)
        .ok_or_else(|| Status::internal("a built-in kind is not in the schema"))?;
    object::set_type(&mut object, &kind.api_version(), kind.kind());
    let name = object::name(&object).to_owned();
    // A new object is in the store, but perhaps not yet in the cache.
    let known = registry.reader.cached(kind, namespace, &name).is_some();
    if known || registry.reader.get(kind, namespace, &name).await.is_ok() {
        return Ok(());
    }
    match registry.create(kind, namespace, object).await {
        Ok(_) => Ok(()),
        // Another server was faster. What it has allocated for the object is taken, too, which is
        // another error.
        Err(_) if registry.reader.get(kind, namespace, &name).await.is_ok() => Ok(()),
        Err(error) => Err(error),
    }
}
