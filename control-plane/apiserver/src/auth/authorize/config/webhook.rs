//! The configuration of a webhook.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machinery::cel::access::{Expression, Variable};
use machinery::status::Cause;
use machinery::time;
use serde::Deserialize;

use super::WebhookOptions;
use crate::basics::config_file::Known;

/// The longest time for one attempt.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
const KEEP_ALLOWED: &str = "5m";
const KEEP_OTHERS: &str = "30s";
/// Upper bound of conditions.
const CONDITIONS_MAX: usize = 64;

pub(super) const FIELDS: &[(&str, Known)] = &[
    ("authorizedTTL", Known::Anything),
    ("cacheAuthorizedRequests", Known::Anything),
    ("unauthorizedTTL", Known::Anything),
    ("cacheUnauthorizedRequests", Known::Anything),
    ("timeout", Known::Anything),
    ("subjectAccessReviewVersion", Known::Anything),
    ("matchConditionSubjectAccessReviewVersion", Known::Anything),
    ("failurePolicy", Known::Anything),
    (
        "connectionInfo",
        Known::Fields(&[
            ("type", Known::Anything),
            ("kubeConfigFile", Known::Anything),
        ]),
    ),
    (
        "matchConditions",
        Known::Fields(&[("expression", Known::Anything)]),
    ),
];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WebhookOfFile {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: String,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: String,
    cache_unauthorized_requests: Option<bool>,
    timeout: String,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionOfFile,
    match_conditions: Vec<ConditionOfFile>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConnectionOfFile {
    #[serde(rename = "type")]
    kind: String,
    kube_config_file: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionOfFile {
    expression: String,
}

impl WebhookOfFile {
    /// Reads what is inside; Kubernetes says the place of the authorizer of all errors.
    pub(super) fn read(
        self,
        name: String,
        place: &str,
        causes: &mut Vec<Cause>,
    ) -> Option<WebhookOptions> {
        let before = causes.len();
        let at = |field: &str| format!("{place}.{field}");
        let timeout = duration(&self.timeout, &at("timeout"), causes);
        if timeout.is_some_and(|timeout| timeout > TIMEOUT_MAX) {
            causes.push(out_of_range(&self.timeout, &at("timeout")));
        }
        let keep = |given: &str, default| if is_zero(given) { default } else { given }.to_owned();
        let allowed = keep(&self.authorized_ttl, KEEP_ALLOWED);
        let others = keep(&self.unauthorized_ttl, KEEP_OTHERS);
        let keep_allowed = duration(&allowed, &at("authorizedTTL"), causes);
        let keep_others = duration(&others, &at("unauthorizedTTL"), causes);
        let version = &self.subject_access_review_version;
        one_of(
            version,
            &["v1", "v1beta1"],
            &at("subjectAccessReviewVersion"),
            causes,
        );
        self.check_conditions_version(&at("matchConditionSubjectAccessReviewVersion"), causes);
        one_of(
            &self.failure_policy,
            &["NoOpinion", "Deny"],
            &at("failurePolicy"),
            causes,
        );
        let kubeconfig = self.connection_info.read(&at("connectionInfo"), causes);
        let conditions = conditions(&self.match_conditions, &at("matchConditions"), causes);
        if causes.len() > before {
            return None;
        }
        Some(WebhookOptions {
            name,
            kubeconfig: kubeconfig?,
            version: self.subject_access_review_version,
            timeout: timeout?,
            keeps_allowed: self.cache_authorized_requests.unwrap_or(true),
            keep_allowed: keep_allowed?,
            keeps_others: self.cache_unauthorized_requests.unwrap_or(true),
            keep_others: keep_others?,
            denies_on_error: self.failure_policy == "Deny",
            conditions,
        })
    }

    fn check_conditions_version(&self, field: &str, causes: &mut Vec<Cause>) {
        match self.match_condition_subject_access_review_version.as_str() {
            "" if self.match_conditions.is_empty() => {}
            "" => {
                let why = "required if match conditions are specified";
                causes.push(Cause::required(field, why));
            }
            version => one_of(version, &["v1"], field, causes),
        }
    }
}

impl ConnectionOfFile {
    fn read(self, place: &str, causes: &mut Vec<Cause>) -> Option<PathBuf> {
        let field = format!("{place}.kubeConfigFile");
        match self.kind.as_str() {
            "" => causes.push(Cause::required(&format!("{place}.type"), "")),
            "KubeConfigFile" => match self.kube_config_file.unwrap_or_default() {
                none if none.is_empty() => causes.push(Cause::required(&field, "")),
                given => match check_path(Path::new(&given)) {
                    Ok(()) => return Some(given.into()),
                    Err(why) => causes.push(Cause::invalid(&field, &given.into(), &why)),
                },
            },
            "InClusterConfig" => {
                // Only programs in pods have such a configuration.
                let why = "is not supported for this server: KubeConfigFile is";
                let field = format!("{place}.type");
                causes.push(Cause::invalid(&field, &"InClusterConfig".into(), why));
            }
            other => causes.push(Cause::not_supported(
                &format!("{place}.type"),
                &other.into(),
                &["InClusterConfig", "KubeConfigFile"],
            )),
        }
        None
    }
}

fn check_path(path: &Path) -> Result<(), String> {
    if !path.is_absolute() {
        return Err("must be an absolute path".to_owned());
    }
    let found = std::fs::metadata(path);
    let found = found.map_err(|error| format!("error loading file: {error}"))?;
    if found.is_file() {
        Ok(())
    } else {
        Err("must be a regular file".to_owned())
    }
}

fn one_of(given: &str, all: &[&str], field: &str, causes: &mut Vec<Cause>) {
    if given.is_empty() {
        causes.push(Cause::required(field, ""));
    } else if !all.contains(&given) {
        causes.push(Cause::not_supported(field, &given.into(), all));
    }
}

/// A duration above zero.
fn duration(given: &str, field: &str, causes: &mut Vec<Cause>) -> Option<Duration> {
    if is_zero(given) {
        causes.push(Cause::required(field, ""));
        return None;
    }
    match time::parse_go_duration(given) {
        None => causes.push(Cause::invalid(
            field,
            &given.into(),
            "not a duration such as 3s",
        )),
        Some(nanos) => match u64::try_from(nanos) {
            Ok(nanos) => return Some(Duration::from_nanos(nanos)),
            Err(_) => causes.push(out_of_range(given, field)),
        },
    }
    None
}

fn is_zero(given: &str) -> bool {
    given.is_empty() || time::parse_go_duration(given) == Some(0)
}

fn out_of_range(given: &str, field: &str) -> Cause {
    let why = if field.ends_with("timeout") {
        "must be > 0s and <= 30s"
    } else {
        "must be > 0s"
    };
    let nanos = time::parse_go_duration(given).unwrap_or_default();
    Cause::invalid(field, &time::go_duration(nanos).into(), why)
}

fn conditions(all: &[ConditionOfFile], place: &str, causes: &mut Vec<Cause>) -> Vec<String> {
    if all.len() > CONDITIONS_MAX {
        causes.push(Cause::too_many(place, all.len(), CONDITIONS_MAX));
        return Vec::new();
    }
    let mut seen = HashSet::new();
    let mut conditions = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let field = format!("{place}[{at}].expression");
        let source = &one.expression;
        if source.trim().is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if !seen.insert(source) {
            causes.push(Cause::duplicate(&field, &source.as_str().into()));
        } else {
            match Expression::compile(Variable::Request, source, true) {
                Ok(_) => conditions.push(source.clone()),
                Err(why) => causes.push(Cause::invalid(&field, &source.as_str().into(), &why)),
            }
        }
    }
    conditions
}
