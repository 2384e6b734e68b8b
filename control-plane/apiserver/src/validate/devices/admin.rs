//! Access to devices that others use, which a namespace must allow by a label.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

/// The label of a namespace whose claims may have such access, and its value.
pub(crate) const LABEL: (&str, &str) = ("resource.kubernetes.io/admin-access", "true");
const WHY: &str = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
const RESULTS: [&str; 4] = ["status", "allocation", "devices", "results"];

/// The error about the first request of a new claim that asks for such access, unless its namespace
/// has the label. The status of a claim may have it longer than the label lasts.
pub(crate) fn of_claim(old: Option<&Value>, claim: &Value) -> Option<Cause> {
    let Some(old) = old else {
        return of_requests(claim, &["spec", "devices", "requests"]);
    };
    if first(object::items(old, &RESULTS), &[]).is_some() {
        return None;
    }
    let at = first(object::items(claim, &RESULTS), &[])?;
    let field = format!("status.allocation.devices.results[{at}].adminAccess");
    Some(Cause::forbidden(&field, WHY))
}

/// The same about a new template of claims.
pub(crate) fn of_template(old: Option<&Value>, template: &Value) -> Option<Cause> {
    match old {
        None => of_requests(template, &["spec", "spec", "devices", "requests"]),
        Some(_) => None,
    }
}

/// The path in the error is the one of a claim in the first version of this API, as in Kubernetes.
fn of_requests(object: &Value, path: &[&str]) -> Option<Cause> {
    let at = first(object::items(object, path), &["exactly"])?;
    let field = format!("spec.devices.requests[{at}].adminAccess");
    Some(Cause::forbidden(&field, WHY))
}

/// The first item with such access, which the field at this path of it has.
fn first(items: &[Value], path: &[&str]) -> Option<usize> {
    let asks = |item: &Value| {
        let parent = object::at(item, path);
        parent.is_some_and(|one| one["adminAccess"] == true)
    };
    items.iter().position(asks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(cause: Option<Cause>) -> Option<String> {
        cause.map(|cause| cause.field)
    }

    #[test]
    fn the_first_request_with_admin_access_is_named() {
        let spec = json!({"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "c"}},
            {"name": "b", "firstAvailable": [{"name": "x"}]},
            {"name": "c", "exactly": {"deviceClassName": "c", "adminAccess": true}},
            {"name": "d", "exactly": {"deviceClassName": "c", "adminAccess": true}},
        ]}});
        let named = Some("spec.devices.requests[2].adminAccess".to_owned());
        let claim = json!({"spec": spec});
        let template = json!({"spec": {"spec": spec}});
        assert_eq!(field(of_claim(None, &claim)), named);
        assert_eq!(field(of_template(None, &template)), named);
        assert_eq!(field(of_template(Some(&template), &template)), None);
    }

    #[test]
    fn an_allocation_keeps_the_access_that_it_has() {
        let with =
            |results: &Value| json!({"status": {"allocation": {"devices": {"results": results}}}});
        let none = with(&json!([{"device": "a"}, {"device": "b", "adminAccess": false}]));
        let some = with(&json!([{"device": "a"}, {"device": "b", "adminAccess": true}]));
        let named = "status.allocation.devices.results[1].adminAccess".to_owned();
        assert_eq!(field(of_claim(Some(&none), &some)), Some(named));
        assert_eq!(field(of_claim(Some(&some), &some)), None);
        assert_eq!(field(of_claim(Some(&some), &none)), None);
    }
}
