//! Autoscalers: their targets and metrics, in the stored version, autoscaling/v2.

mod metrics;

use machinery::name;
use machinery::schema::split_api_version;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// An hour, and half an hour.
const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let least = spec.integer("minReplicas");
    if least.is_some_and(|least| least < 1) {
        let why = "must be greater than or equal to 1";
        causes.wrong(&spec, "minReplicas", why);
    }
    let most = spec.number("maxReplicas");
    match most {
        0 => {
            let why = "must be set and greater than 0";
            causes.push(Cause::required("spec.maxReplicas", why));
        }
        most if most < 0 => {
            let why = "must be greater than or equal to 1";
            causes.wrong(&spec, "maxReplicas", why);
        }
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        causes.wrong(&spec, "maxReplicas", why);
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    let target = FieldValue::new("spec.scaleTargetRef", target);
    for key in ["kind", "name"] {
        causes.must_be_named(&target, key, name::path_segment);
    }
    let (group, _) = split_api_version(target.text("apiVersion"));
    // The only scalable kind in the core group.
    if group.is_empty() && target.text("kind") != "ReplicationController" {
        let why = "apiVersion must specify API group";
        causes.wrong_text(&target, "apiVersion", why);
    }
    metrics::check(&spec, &mut causes);
    causes.below(&spec, "behavior", |causes, behavior| {
        for direction in ["scaleUp", "scaleDown"] {
            causes.below(behavior, direction, rules);
        }
    });
    causes
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
}
