//! Autoscalers: their targets and metrics, in the stored version, autoscaling/v2.

mod metrics;

use machinery::name;
use machinery::schema::split_api_version;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::quantity;

/// An hour, and half an hour.
const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

/// An autoscaler, given the old one if it is updated: that may keep what it scales, and how.
pub(crate) fn check(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let old = old.and_then(|old| old.get("spec"));
    let old = old.map(|spec| FieldValue::new("spec", spec));
    replicas(old.as_ref(), &spec, &mut causes);
    target(old.as_ref(), &spec, &mut causes);
    let any_version = old.as_ref().is_some_and(metrics::has_wrong_version);
    metrics::check(&spec, any_version, &mut causes);
    causes.below(&spec, "behavior", |causes, behavior| {
        for direction in ["scaleUp", "scaleDown"] {
            causes.below(behavior, direction, rules);
        }
    });
    causes
}

fn replicas(old: Option<&FieldValue>, spec: &FieldValue, causes: &mut Causes) {
    let least = spec.integer("minReplicas");
    // None at all belongs to a feature that Kubernetes has off by default.
    let had_none = old.is_some_and(|old| old.integer("minReplicas") == Some(0));
    let allowed = i64::from(!had_none);
    if least.is_some_and(|least| least < allowed) {
        let why = format!("must be greater than or equal to {allowed}");
        causes.wrong(spec, "minReplicas", &why);
    }
    let most = spec.number("maxReplicas");
    match most {
        0 => {
            let why = "must be set and greater than 0";
            causes.push(Cause::required("spec.maxReplicas", why));
        }
        most if most < 0 => {
            let why = "must be greater than or equal to 1";
            causes.wrong(spec, "maxReplicas", why);
        }
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        causes.wrong(spec, "maxReplicas", why);
    }
}

fn target(old: Option<&FieldValue>, spec: &FieldValue, causes: &mut Causes) {
    let target = metrics::part(spec, "scaleTargetRef");
    for key in ["kind", "name"] {
        causes.must_be_named(&target, key, name::path_segment);
    }
    let is_kept = old.is_some_and(|old| {
        let had = metrics::part(old, "scaleTargetRef");
        ["apiVersion", "kind"]
            .iter()
            .all(|key| had.text(key) == target.text(key))
    });
    // The only scalable kind in the core group.
    let of_core = target.text("kind") == "ReplicationController";
    let wrong = wrong_version(target.text("apiVersion"), of_core);
    if let Some(why) = wrong.filter(|_| !is_kept) {
        causes.wrong_text(&target, "apiVersion", &why);
    }
}

/// Why this is no group and version; the core group has no name, and may not be allowed.
fn wrong_version(text: &str, of_core: bool) -> Option<String> {
    if text.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {text}"));
    }
    let (group, _) = split_api_version(text);
    (group.is_empty() && !of_core).then(|| "apiVersion must specify API group".to_owned())
}

fn rules(causes: &mut Causes, rules: &FieldValue) {
    const WINDOW: &str = "stabilizationWindowSeconds";
    if rules.number(WINDOW) < 0 {
        let why = "must be greater than or equal to zero";
        causes.wrong(rules, WINDOW, why);
    }
    if rules.number(WINDOW) > WINDOW_SECONDS_MAX {
        let why = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
        causes.wrong(rules, WINDOW, &why);
    }
    causes.word(rules, "selectPolicy", &["Disabled", "Max", "Min"]);
    if rules.items("policies").is_empty() {
        let why = "must specify at least one Policy";
        causes.push(Cause::required(&rules.path_of("policies"), why));
    }
    causes.each(rules, "policies", |causes, policy| {
        let known = ["Percent", "Pods"];
        if !known.contains(&policy.text("type")) {
            causes.unknown(policy, "type", &known);
        }
        for key in ["value", "periodSeconds"] {
            if policy.number(key) <= 0 {
                causes.wrong(policy, key, "must be greater than zero");
            }
        }
        if policy.number("periodSeconds") > PERIOD_SECONDS_MAX {
            let why = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            causes.wrong(policy, "periodSeconds", &why);
        }
    });
    if let Some(tolerance) = rules.get("tolerance") {
        let field = rules.path_of("tolerance");
        causes.extend(quantity::not_negative(&field, tolerance));
    }
}
