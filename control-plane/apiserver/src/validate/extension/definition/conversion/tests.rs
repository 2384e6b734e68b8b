use machinery::status::Cause;
use serde_json::{Value, json};

use super::{check, check_update, review_versions};
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

fn good() -> Value {
    json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://h.example/convert"},
        "conversionReviewVersions": ["v2", "v1"],
    }})
}

/// What is wrong with a conversion in which the value at a pointer is another.
fn wrong(at: &str, value: Value) -> Vec<String> {
    let mut conversion = good();
    if let Some(place) = conversion.pointer_mut(at) {
        *place = value;
    } else {
        let (parent, key) = at.rsplit_once('/').unwrap();
        conversion.pointer_mut(parent).unwrap()[key] = value;
    }
    let mut causes = Causes::default();
    check(
        &mut causes,
        &FieldValue::new("spec.conversion", &conversion),
    );
    causes.extend(review_versions(&definition(conversion)));
    told(causes)
}

fn told(causes: Causes) -> Vec<String> {
    let causes = Vec::<Cause>::from(causes).into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

fn definition(conversion: Value) -> Value {
    let established = json!([{"type": "Established", "status": "True"}]);
    json!({"spec": {"conversion": conversion}, "status": {"conditions": established}})
}

/// The pointer of a value, another value, and what is wrong then.
const WRONG: &str = r#"
/strategy | "Other" | strategy: Unsupported value: "Other": supported values: "None", "Webhook"
/strategy | "None" | webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook
/strategy | "None" | conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook
/webhook/clientConfig | null | webhookClientConfig: Required value: required when strategy is set to Webhook
/webhook/clientConfig | {} | webhookClientConfig: Required value: exactly one of url or service is required
/webhook/clientConfig/url | "http://h.example" | webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
/webhook/clientConfig/service | {"name": "s", "namespace": "n"} | webhookClientConfig: Required value: exactly one of url or service is required
/webhook/clientConfig | {"service": {"name": "s", "namespace": "n", "port": 0}} | webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive
/webhook/clientConfig | {"service": {"name": "s", "namespace": "n", "port": 443, "path": "x"}} | webhookClientConfig.service.path: Invalid value: "x": must start with a '/'
/webhook/conversionReviewVersions | [] | conversionReviewVersions: Required value
/webhook/conversionReviewVersions | ["v1", "v1"] | conversionReviewVersions[1]: Invalid value: "v1": duplicate version
/webhook/conversionReviewVersions | ["v2"] | conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1
/webhook/conversionReviewVersions | ["v1", "1"] | conversionReviewVersions[1]: Invalid value: "1": a DNS-1035 label must consist of
"#;

#[test]
fn each_wrong_value_is_told_with_its_field_and_cause() {
    for line in WRONG.lines().filter(|line| !line.is_empty()) {
        let [at, value, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let told = wrong(at, serde_json::from_str(value).unwrap());
        let expected = format!("spec.conversion.{expected}");
        assert!(
            told.iter().any(|one| one.starts_with(&expected)),
            "{line}: {told:?}"
        );
    }
    assert_eq!(wrong("/strategy", json!("Webhook")), [""; 0]);
}

#[test]
fn an_update_may_keep_what_was_wrong_before() {
    let with = |bundle: &str, version: &str| {
        let mut conversion = good();
        conversion["webhook"]["conversionReviewVersions"] = json!([version]);
        if !bundle.is_empty() {
            use base64::Engine as _;
            let bundle = base64::engine::general_purpose::STANDARD.encode(bundle);
            conversion["webhook"]["clientConfig"]["caBundle"] = bundle.into();
        }
        definition(conversion)
    };
    let changed = |old, new| told(check_update(&old, &new));
    let unread = "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"eA==\": unable to \
                  load root certificates: unable to parse bytes as PEM block";
    assert_eq!(changed(with(PEM, "v1"), with("x", "v1")), [unread]);
    assert_eq!(changed(with("", "v1"), with("x", "v1")), [unread]);
    assert_eq!(changed(with("x", "v1"), with("x", "v1")), [""; 0]);
    let mut new = with("", "v1");
    new["status"] = json!({});
    assert_eq!(changed(new, with("x", "v1")), [""; 0]);
    let unknown = changed(with("", "v1"), with("", "v9"));
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(changed(with("", "v9"), with("", "v9")), [""; 0]);
}
