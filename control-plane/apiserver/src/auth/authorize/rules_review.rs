//! The review that asks for all rules of a user instead of a decision.

use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use super::rbac::Rule;

pub(super) const KIND: &str = "SelfSubjectRulesReview";

/// Returns the namespace of a review of rules.
pub(super) fn asked(review: &Value) -> Result<String, Status> {
    match object::text(review, &["spec", "namespace"]) {
        "" => Err(Status::bad_request("no namespace on request")),
        namespace => Ok(namespace.to_owned()),
    }
}

/// Fills in the rules, and the errors met while they were gathered.
pub(super) fn answer(mut review: Value, rules: &[Rule], error: Option<String>) -> Value {
    let part = |keep: fn(&Rule) -> bool, away: &[&str]| -> Vec<Value> {
        let rules = rules.iter().filter(|rule| keep(rule)).map(Rule::to_value);
        rules
            .map(|mut rule| {
                for key in away {
                    object::remove(&mut rule, &[key]);
                }
                rule
            })
            .collect()
    };
    let resources = part(|rule| !rule.resources.is_empty(), &["nonResourceURLs"]);
    let paths = part(
        |rule| !rule.non_resource_urls.is_empty(),
        &["apiGroups", "resources", "resourceNames"],
    );
    // Kubernetes does not return the question.
    review["spec"] = json!({});
    review["status"] = json!({
        "incomplete": false,
        "nonResourceRules": paths,
        "resourceRules": resources,
    });
    if let Some(error) = error {
        review["status"]["evaluationError"] = error.into();
    }
    review
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_apart_from_paths() {
        let rules = Rule::everything();
        let review = answer(json!({"spec": {"namespace": "ns"}}), &rules, None);
        assert_eq!(
            review["status"],
            json!({
                "incomplete": false,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            })
        );
        assert_eq!(asked(&json!({"spec": {}})).unwrap_err().code, 400);
    }
}
