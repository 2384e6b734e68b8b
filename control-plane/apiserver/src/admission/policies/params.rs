//! The parameters of policies: objects of any kind that a binding names or selects.

use std::sync::Arc;

use machinery::object;
use machinery::schema::split_api_version;
use machinery::status::Status;
use serde_json::Value;

use super::super::Context;
use super::definition::{ParamKind, ParamRef};
use crate::resources::catalogue::Resource;
use crate::storage::reader::Reader;
use crate::storage::views;

/// The resource of a kind of parameters; `None` if a policy has none.
pub(super) fn resource(
    context: &Context,
    kind: Option<&ParamKind>,
) -> Result<Option<Arc<Resource>>, String> {
    let Some(ParamKind { api_version, kind }) = kind else {
        return Ok(None);
    };
    let catalogue = context.reader.reflector.catalogue();
    let is_it = |one: &&Arc<Resource>| {
        one.kind.api_version() == *api_version && one.kind.kind() == kind && one.storage.is_some()
    };
    let found = catalogue.resources().iter().find(is_it);
    found.cloned().map(Some).ok_or_else(|| {
        let (group, version) = split_api_version(api_version);
        format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
    })
}

/// The parameters that a binding gives a policy, of which each is evaluated on its own: null
/// if the policy or the binding has none, nothing if there are no such objects and that is
/// allowed. `namespace` is that of the request.
pub(super) async fn find(
    context: &Context,
    resource: Option<&Resource>,
    reference: Option<&ParamRef>,
    namespace: &str,
) -> Result<Vec<Arc<Value>>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else {
        return Ok(vec![Arc::new(Value::Null)]);
    };
    let kind = &*resource.kind;
    let namespace = match (kind.namespaced(), reference.namespace.as_str()) {
        (false, "") => "",
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_owned());
        }
        (true, "") if namespace.is_empty() => {
            let why = "cannot use namespaced paramRef in policy binding that matches \
                       cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "") => namespace,
        (true, given) => given,
    };
    let reader = &context.reader;
    // A parameter counts from the next request on, like the policies themselves.
    reader.fresh().await.map_err(|status| status.message)?;
    let found: Vec<Arc<Value>> = match &reference.selector {
        _ if !reference.name.is_empty() => {
            let found = match resource.converted() {
                Some(_) => converted(reader, resource, namespace, &reference.name).await,
                None => reader
                    .cached_or_error(kind, namespace, &reference.name)
                    .map(Vec::from_iter),
            };
            found.map_err(|status| status.message)?
        }
        Some(selector) => {
            let selector = selector.as_ref().map_err(String::clone)?;
            let all = match resource.converted() {
                Some(_) => converted(reader, resource, namespace, "").await,
                None => reader.cached_list(kind, namespace),
            };
            let mut all = all.map_err(|status| status.message)?;
            all.retain(|one| selector.matches(object::labels(one)));
            all
        }
        None => return Err("one of name or selector must be provided".to_owned()),
    };
    if found.is_empty() && reference.denies_missing {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok(found)
}

/// Parameters that are converted, in the version that the policy names: those of this name, or
/// all of the namespace if it is empty.
async fn converted(
    reader: &Reader,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Vec<Arc<Value>>, Status> {
    let mut all = reader.cached_stored(&resource.kind, namespace)?;
    all.retain(|stored| name.is_empty() || stored.name() == name);
    let views = views::of_all(resource, all).await?;
    let decoded = views.iter().map(|view| view.decode().map(Arc::new));
    decoded.collect()
}
