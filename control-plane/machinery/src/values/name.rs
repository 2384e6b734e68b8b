//! The rules for names, labels and annotations, with Kubernetes' messages.
//!
//! Each function returns the violations as messages; an empty list means the text is valid.

#[cfg(test)]
mod tests;

/// Maximum bytes of a DNS label, of the name part of a label key, and of a label value.
pub const LABEL_BYTES_MAX: usize = 63;
/// Maximum bytes of a DNS subdomain.
pub const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Maximum bytes of all annotations of an object, keys and values.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SUBDOMAIN_UNDERSCORE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// A DNS label (RFC 1123): the rule for names of namespaces.
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, LABEL_BYTES_MAX, "characters");
    if !is_label(name) {
        let dots_only = is_subdomain(name);
        wrong.push(
            if dots_only {
                "must not contain dots"
            } else {
                LABEL_1123
            }
            .into(),
        );
    }
    wrong
}

/// A DNS subdomain (RFC 1123): the rule for names of most objects.
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, SUBDOMAIN_BYTES_MAX, "characters");
    if !is_subdomain(name) {
        wrong.push(SUBDOMAIN.into());
    }
    wrong
}

/// A DNS subdomain in which underscores are allowed too, as in a DNS search domain.
pub fn dns1123_subdomain_with_underscore(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, SUBDOMAIN_BYTES_MAX, "characters");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |text: &str| {
        let text = text.strip_prefix('_').unwrap_or(text);
        bounded_by(text, plain) && text.chars().all(|c| plain(c) || "-_".contains(c))
    };
    if !name.split('.').all(label) {
        wrong.push(SUBDOMAIN_UNDERSCORE.into());
    }
    wrong
}

/// A DNS label (RFC 1035): it must begin with a letter.
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, LABEL_BYTES_MAX, "characters");
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(LABEL_1035.into());
    }
    wrong
}

/// Orders versions as Kubernetes prefers them, the preferred one last: `v1` is above `v2beta1`,
/// which is above `v1beta3` and `v5alpha1`; whatever is no such version is below, by letters.
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    let (known, other) = (version(a), version(b));
    known.cmp(&other).then_with(|| match known {
        Some(_) => std::cmp::Ordering::Equal,
        None => b.cmp(a),
    })
}

/// The stability, its number and the major number of a version such as `v2beta1`.
fn version(text: &str) -> Option<(u8, u64, u64)> {
    let text = text.strip_prefix('v')?;
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (major, rest) = text.split_at(end);
    let major = major.parse().ok()?;
    let (stability, minor) = match rest {
        "" => return Some((2, major, 0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (1, minor),
            (_, Some(minor)) => (0, minor),
            _ => return None,
        },
    };
    Some((stability, major, minor.parse().ok()?))
}

/// A name that only must be one segment of a path: the rule for names of RBAC objects.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
    parts
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A key of a label or annotation.
pub fn qualified_name(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            wrong.push("prefix part must be non-empty".into());
            name
        }
        Some((prefix, name)) => {
            let of_prefix = dns1123_subdomain(prefix);
            wrong.extend(of_prefix.iter().map(|one| format!("prefix part {one}")));
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    }
    wrong.extend(
        too_long(name, LABEL_BYTES_MAX, "bytes")
            .iter()
            .map(|one| format!("name part {one}")),
    );
    if !is_qualified(name) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// A value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, LABEL_BYTES_MAX, "bytes");
    if !value.is_empty() && !is_qualified(value) {
        wrong.push(LABEL_VALUE.into());
    }
    wrong
}

/// A key of a config map or secret.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut wrong = too_long(key, SUBDOMAIN_BYTES_MAX, "characters");
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if key.is_empty() || !key.chars().all(allowed) {
        wrong.push(CONFIG_KEY.into());
    }
    match key {
        "." | ".." => wrong.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

fn too_long(text: &str, most: usize, unit: &str) -> Vec<String> {
    if text.len() > most {
        vec![format!("must be no more than {most} {unit}")]
    } else {
        Vec::new()
    }
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    bounded_by(text, plain) && text.chars().all(|c| plain(c) || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    bounded_by(text, plain) && text.chars().all(|c| plain(c) || "-_.".contains(c))
}

fn bounded_by(text: &str, plain: impl Fn(char) -> bool) -> bool {
    text.starts_with(&plain) && text.ends_with(&plain)
}
