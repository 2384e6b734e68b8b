//! Levels and versions of the Pod Security Standards, and what the labels of a namespace ask for.

use std::fmt;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

/// What all labels and audit annotations of PodSecurity begin with.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

const LATEST: &str = "latest";

/// A level of the standards. A stricter one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A version of the standards, which is one of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Minor version of 1.
    Minor(i64),
    Latest,
}

/// A level at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Pods that violate it are refused.
    pub(super) enforce: Standard,
    /// Violations are written into the audit log.
    pub(super) audit: Standard,
    /// The client is warned of violations.
    pub(super) warn: Standard,
}

impl Level {
    const ALL: [Level; 3] = [Level::Privileged, Level::Baseline, Level::Restricted];

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }

    fn parse(text: &str) -> Result<Level, String> {
        let found = Level::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| {
            let names = Level::ALL.map(Level::name);
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl Version {
    fn parse(text: &str) -> Result<Version, String> {
        if text == LATEST {
            return Ok(Version::Latest);
        }
        let digits = text.strip_prefix("v1.").unwrap_or_default();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        let minor = digits.parse().ok().filter(|_| plain);
        let wrong = || "must be \"latest\" or \"v1.x\"".to_owned();
        minor.map(Version::Minor).ok_or_else(wrong)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.version {
            Version::Minor(minor) => write!(out, "{level}:v1.{minor}"),
            Version::Latest => write!(out, "{level}:{LATEST}"),
        }
    }
}

impl Policy {
    const DEFAULT: Policy = {
        let standard = Standard {
            level: Level::Privileged,
            version: Version::Latest,
        };
        Policy {
            enforce: standard,
            audit: standard,
            warn: standard,
        }
    };

    /// The policy that a namespace's labels ask for, and what is wrong with them. In the place of a
    /// label that is wrong, the strictest value is enforced, and nothing is audited or warned of.
    pub(super) fn of(namespace: &Value) -> (Policy, Vec<Cause>) {
        let mut policy = Policy::DEFAULT;
        let mut labels = Labels {
            namespace,
            causes: Vec::new(),
        };
        let enforced = labels.read("enforce", Level::parse);
        if let Some(level) = &enforced {
            policy.enforce.level = level.unwrap_or(Level::Restricted);
        }
        labels.version("enforce-version", &mut policy.enforce);
        if let Some(level) = labels.read("audit", Level::parse) {
            policy.audit.level = level.unwrap_or(Level::Privileged);
        }
        labels.version("audit-version", &mut policy.audit);
        let warned = labels.read("warn", Level::parse);
        if let Some(level) = &warned {
            policy.warn.level = level.unwrap_or(Level::Privileged);
        }
        let versioned = labels.version("warn-version", &mut policy.warn);
        // What is enforced for pods is warned of for the objects that will create pods.
        if let (Some(Some(level)), None) = (enforced, warned)
            && level > policy.warn.level
        {
            policy.warn.level = level;
            if !versioned {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, labels.causes)
    }

    /// True if nothing is enforced, audited or warned of.
    pub(super) fn is_privileged(&self) -> bool {
        self.enforce.level == Level::Privileged && self.is_silent()
    }

    /// True if nothing is audited or warned of.
    pub(super) fn is_silent(&self) -> bool {
        self.audit.level == Level::Privileged && self.warn.level == Level::Privileged
    }
}

/// The labels of a namespace, and what is wrong with those read so far.
struct Labels<'a> {
    namespace: &'a Value,
    causes: Vec<Cause>,
}

impl Labels<'_> {
    /// Reads a label: `None` if it is not there, `Some(None)` if it is wrong.
    fn read<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, String>) -> Option<Option<T>> {
        let key = format!("{PREFIX}{key}");
        let value = object::label(self.namespace, &key)?;
        match parse(value) {
            Ok(parsed) => Some(Some(parsed)),
            Err(why) => {
                let path = format!("metadata.labels[{key}]");
                self.causes.push(Cause::invalid(&path, &value.into(), &why));
                Some(None)
            }
        }
    }

    /// Reads a version into a standard; says whether the label is there.
    fn version(&mut self, key: &str, standard: &mut Standard) -> bool {
        let read = self.read(key, Version::parse);
        if let Some(version) = read {
            standard.version = version.unwrap_or(Version::Latest);
        }
        read.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(labels: &[(&str, &str)]) -> String {
        let mut namespace = json!({"metadata": {"labels": {"app": "web"}}});
        for (key, value) in labels {
            namespace["metadata"]["labels"][format!("{PREFIX}{key}")] = (*value).into();
        }
        let (policy, causes) = Policy::of(&namespace);
        let Policy {
            enforce,
            audit,
            warn,
        } = policy;
        let mut text = format!("{enforce} {audit} {warn}");
        for cause in causes {
            text.push_str(&format!("; {}: {}", cause.field, cause.message));
        }
        text
    }

    #[test]
    fn labels_give_a_policy() {
        let none = "privileged:latest privileged:latest privileged:latest";
        assert_eq!(shown(&[]), none);
        let all = [
            ("enforce", "baseline"),
            ("enforce-version", "v1.0"),
            ("audit", "restricted"),
            ("audit-version", "v1.25"),
            ("warn", "privileged"),
            ("warn-version", "latest"),
        ];
        assert_eq!(
            shown(&all),
            "baseline:v1.0 restricted:v1.25 privileged:latest"
        );
    }

    #[test]
    fn what_is_enforced_is_warned_of_unless_labels_say_otherwise() {
        let enforced = ("enforce", "restricted");
        let old = ("enforce-version", "v1.9");
        assert_eq!(
            shown(&[enforced, old]),
            "restricted:v1.9 privileged:latest restricted:v1.9"
        );
        assert_eq!(
            shown(&[enforced, old, ("warn-version", "v1.3")]),
            "restricted:v1.9 privileged:latest restricted:v1.3"
        );
        assert_eq!(
            shown(&[enforced, ("warn", "baseline")]),
            "restricted:latest privileged:latest baseline:latest"
        );
    }

    #[test]
    fn a_wrong_label_enforces_most_and_warns_of_nothing() {
        let wrong = shown(&[("enforce", "Baseline"), ("audit", ""), ("warn", "x")]);
        let level = "must be one of privileged, baseline, restricted";
        assert_eq!(
            wrong,
            format!(
                "restricted:latest privileged:latest privileged:latest; \
                 metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"Baseline\": {level}; \
                 metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"\": {level}; \
                 metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"x\": {level}"
            )
        );
        for version in [
            "1.2",
            "v1.",
            "v1.01",
            "v2.0",
            "v1.+1",
            "v1.9999999999999999999",
            "Latest",
        ] {
            let wrong = shown(&[("enforce-version", version)]);
            assert!(
                wrong.ends_with("must be \"latest\" or \"v1.x\""),
                "{version}"
            );
        }
    }
}
