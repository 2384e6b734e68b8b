//! What priority and fairness makes of a request: its flow, its seats, and the headers about them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use crate::auth::{Attributes, authorize::rbac};
use crate::flow::rules::{Flow, Schema};
use crate::flow::width::ListWork;
use crate::http::api::Api;
use crate::http::door::audited;
use crate::http::question::request::{Info, Query};

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The flow of a request; `None` if it is not limited, because it lasts as long as its client
/// likes, or because priority and fairness is off.
pub(crate) fn flow(api: &Api, info: &Info, asked: &Attributes) -> Option<Flow> {
    let control = api.0.flow.as_ref()?;
    // A watch needs seats until it has begun.
    if audited::is_long(info) && asked.verb != "watch" {
        return None;
    }
    let limits_owners =
        rbac::is_master(&asked.user) && !api.0.registry.authorizer.is_exempt(&asked.user);
    Some(control.rules(api.reader()).flow(asked, limits_owners))
}

/// The seats that a request takes.
pub(crate) fn seats(api: &Api, info: &Info, query: &Query) -> u32 {
    let asked = &info.attributes;
    let is_watch = asked.verb == "watch";
    let lists = asked.verb == "list" || is_watch && query.flag("sendInitialEvents");
    if !lists {
        return 1;
    }
    let stored = stored(api, info).unwrap_or(0);
    let given = |key: &str| !query.text(key).is_empty();
    let limit = query.integer("limit").ok().flatten().unwrap_or(0);
    let matching = query.text("resourceVersionMatch");
    let is_any_version = ["", "0"].contains(&query.text("resourceVersion"));
    // Only lists of one exact revision read the store.
    let is_exact = matching == "Exact"
        || given("continue")
        || limit > 0 && !is_any_version && matching != "NotOlderThan";
    let work = ListWork {
        stored,
        limit: usize::try_from(limit).unwrap_or(0),
        is_single: !asked.name.is_empty(),
        is_selective: given("labelSelector") || given("fieldSelector"),
        from_cache: is_watch || !is_exact,
    };
    work.seats()
}

/// Number of objects of the request's resource; `None` if it is not stored here.
fn stored(api: &Api, info: &Info) -> Option<usize> {
    let (reflector, asked) = (&api.reader().reflector, &info.attributes);
    let catalogue = reflector.catalogue();
    let resource = catalogue.resource(&asked.api_group, &info.version, &asked.resource)?;
    let cache = reflector.cache(resource.storage.as_ref()?).ok()?;
    Some(cache.len())
}

/// Tells the client which objects have decided about its request, by their uids: their names may be
/// confidential.
pub(crate) fn show(schema: &Arc<Schema>, headers: &mut HeaderMap) {
    let mut put = |name, uid: &Bytes| {
        if let Ok(value) = HeaderValue::from_maybe_shared(uid.clone())
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    };
    put(SCHEMA_UID, &schema.uid);
    put(LEVEL_UID, &schema.level.uid);
}
