//! Parses a command line, the environment or a configuration file into flag values.
//!
//! Go's rules: one dash or two, `=` or a space, booleans without a value or with `=`, the last of
//! several wins, parsing stops at the first word that is not a flag. Does not know what flags mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value as Json;

use super::flags::{self, Effect, Flag, Kind, Value};

/// Prefix of environment variables that set flags.
const PREFIX: &str = "ETCD_";

/// Variables with the prefix that are not flags.
const OTHER_VARIABLES: &[&str] = &["ETCD_VERIFY", "ETCD_VERSION", "ETCD_UNSUPPORTED_ARCH"];

/// Every flag's value, and which flags were given.
#[derive(Clone, Debug)]
pub(super) struct Values {
    values: BTreeMap<&'static str, Value>,
    given: BTreeSet<&'static str>,
}

/// Why parsing a command line ended the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Help,
    Usage(String),
}

#[derive(Debug, Default)]
pub(super) struct CommandLine {
    pub(super) version: bool,
    pub(super) config_file: Option<String>,
    /// The first word that is not a flag.
    pub(super) stray: Option<String>,
}

impl Values {
    pub(super) fn defaults() -> Values {
        let values = flags::all()
            .map(|flag| (flag.name, flag.parse(flag.default)))
            .map(|(name, value)| {
                (
                    name,
                    value.expect("a default of the flag table is no value"),
                )
            })
            .collect();
        Values {
            values,
            given: BTreeSet::new(),
        }
    }

    pub(super) fn set(&mut self, flag: &Flag, value: Value) {
        self.values.insert(flag.name, value);
        self.given.insert(flag.name);
    }

    pub(super) fn given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    pub(super) fn value(&self, name: &str) -> &Value {
        self.values
            .get(name)
            .expect("a flag outside the flag table")
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            other => unreachable!("--{name} is no text: {other:?}"),
        }
    }

    pub(super) fn bool(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    pub(super) fn int(&self, name: &str) -> i128 {
        match self.value(name) {
            Value::Int(number) => *number,
            other => unreachable!("--{name} is no number: {other:?}"),
        }
    }

    /// In nanoseconds.
    pub(super) fn duration(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Duration(nanos) => *nanos,
            other => unreachable!("--{name} is no duration: {other:?}"),
        }
    }

    /// Negative durations become zero: as a timer they would fire at once.
    pub(super) fn timer(&self, name: &str) -> Duration {
        Duration::from_nanos(u64::try_from(self.duration(name)).unwrap_or(0))
    }

    pub(super) fn urls(&self, name: &str) -> &[super::Url] {
        match self.value(name) {
            Value::Urls(urls) => urls,
            other => unreachable!("--{name} is no list of URLs: {other:?}"),
        }
    }
}

/// Parses the command line, without the program's name, into `values`.
pub(super) fn command_line(args: &[String], values: &mut Values) -> Result<CommandLine, Stop> {
    let mut line = CommandLine::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            line.stray = Some(word.clone());
            break;
        };
        let name = name.strip_prefix('-').unwrap_or(name);
        if name.is_empty() {
            line.stray = words.next().cloned();
            break;
        }
        if name.starts_with(['-', '=']) {
            return Err(Stop::Usage(format!("bad flag syntax: {word}")));
        }
        let (name, mut text) = match name.split_once('=') {
            Some((name, text)) => (name, Some(text.to_string())),
            None => (name, None),
        };
        let boolean = name == "version" || flags::find(name).is_some_and(|f| f.kind == Kind::Bool);
        if boolean {
            text.get_or_insert_with(|| "true".into());
        }
        let known = matches!(name, "version" | "config-file") || flags::find(name).is_some();
        if !known {
            return Err(match name {
                "help" | "h" => Stop::Help,
                _ => Stop::Usage(format!("flag provided but not defined: -{name}")),
            });
        }
        let Some(text) = text.or_else(|| words.next().cloned()) else {
            return Err(Stop::Usage(format!("flag needs an argument: -{name}")));
        };
        let invalid = |reason| {
            Stop::Usage(if boolean {
                format!("invalid boolean value {text:?} for -{name}: {reason}")
            } else {
                format!("invalid value {text:?} for flag -{name}: {reason}")
            })
        };
        match flags::find(name) {
            Some(flag) => {
                let value = flag.parse(&text).map_err(invalid)?;
                values.set(&flag, value);
            }
            None if name == "config-file" => line.config_file = Some(text),
            None => {
                let on = go_text::parse_bool(&text).ok_or("parse error".to_string());
                line.version = on.map_err(invalid)?;
            }
        }
    }
    Ok(line)
}

/// An error in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BadVariable {
    /// Both the flag and its variable are set.
    Shadowed(String),
    Invalid(String),
}

/// Sets flags from `ETCD_*` variables. Returns the unknown variables with this prefix.
pub(super) fn environment(
    variables: &[(String, String)],
    values: &mut Values,
) -> Result<Vec<String>, BadVariable> {
    let mut unknown = Vec::new();
    for (variable, text) in variables {
        let Some(name) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        let name = name.to_ascii_lowercase().replace('_', "-");
        if name == "config-file" || OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let Some(flag) = flags::find(&name).filter(|_| name.to_ascii_uppercase() != name) else {
            unknown.push(format!("{variable}={text}"));
            continue;
        };
        if text.is_empty() {
            continue;
        }
        if values.given(flag.name) {
            return Err(BadVariable::Shadowed(variable.clone()));
        }
        let value = flag.parse(text).map_err(|reason| {
            BadVariable::Invalid(format!("invalid value {text:?} for {variable}: {reason}"))
        })?;
        values.set(&flag, value);
    }
    Ok(unknown)
}

/// Sets flags from a configuration file in YAML or JSON. As in etcd, unknown keys are ignored:
/// etcd's own sample file contains obsolete ones.
pub(super) fn file(text: &str, values: &mut Values) -> Result<(), String> {
    // An empty document is an empty configuration.
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    {
        return Ok(());
    }
    let json: Json = serde_saphyr::from_str(text)
        .map_err(|error| format!("error converting YAML to JSON: yaml: {error}"))?;
    let entries = match json {
        Json::Object(entries) => entries,
        Json::Null => return Ok(()),
        _ => return Err("error unmarshaling JSON: the configuration is no map of flags".into()),
    };
    for (key, value) in &entries {
        let prefix = match key.as_str() {
            "client-transport-security" => "",
            "peer-transport-security" => "peer-",
            "discovery-config" => {
                discovery_entries(value, values)?;
                continue;
            }
            "socket-options" => "socket-",
            _ => {
                file_entry(key, key, value, values)?;
                continue;
            }
        };
        let inner = match value {
            Json::Object(inner) => inner,
            Json::Null => continue,
            _ => return Err(format!("error unmarshaling JSON: {key}: expected a map")),
        };
        for (inner_key, value) in inner {
            let flag = match (prefix, inner_key.as_str()) {
                ("", "allowed-cn") => "client-cert-allowed-cn".into(),
                ("", "allowed-hostname") => "client-cert-allowed-hostname".into(),
                ("peer-", "allowed-cn") => "peer-cert-allowed-cn".into(),
                ("peer-", "allowed-hostname") => "peer-cert-allowed-hostname".into(),
                ("socket-", "reuse-port") | ("socket-", "reuse-address") => {
                    format!("socket-{inner_key}")
                }
                (_, name) => format!("{prefix}{name}"),
            };
            file_entry(&format!("{key}.{inner_key}"), &flag, value, values)?;
        }
    }
    Ok(())
}

/// Where the flags of discovery are under `discovery-config`.
#[rustfmt::skip]
const DISCOVERY_KEYS: &[(&str, &str)] = &[
    ("token", "discovery-token"),
    ("client.endpoints", "discovery-endpoints"),
    ("client.dial-timeout", "discovery-dial-timeout"),
    ("client.request-timeout", "discovery-request-timeout"),
    ("client.keepalive-time", "discovery-keepalive-time"),
    ("client.keepalive-timeout", "discovery-keepalive-timeout"),
    ("client.secure.insecure-transport", "discovery-insecure-transport"),
    ("client.secure.insecure-skip-tls-verify", "discovery-insecure-skip-tls-verify"),
    ("client.secure.cert", "discovery-cert"),
    ("client.secure.key", "discovery-key"),
    ("client.secure.cacert", "discovery-cacert"),
    ("client.auth.username", "discovery-user"),
    ("client.auth.password", "discovery-password"),
];

fn discovery_entries(config: &Json, values: &mut Values) -> Result<(), String> {
    for (path, flag) in DISCOVERY_KEYS {
        let mut place = config;
        for key in path.split('.') {
            let map = match place {
                Json::Object(map) => map.get(key),
                Json::Null => None,
                _ => {
                    return Err(
                        "error unmarshaling JSON: discovery-config: expected a map".to_owned()
                    );
                }
            };
            place = map.unwrap_or(&Json::Null);
        }
        file_entry(&format!("discovery-config.{path}"), flag, place, values)?;
    }
    Ok(())
}

fn file_entry(key: &str, name: &str, json: &Json, values: &mut Values) -> Result<(), String> {
    let Some(flag) = flags::find(name) else {
        return Ok(());
    };
    let mismatch = |wanted: &str| {
        Err(format!(
            "error unmarshaling JSON: {key}: expected {wanted}, found {}",
            kind_of(json)
        ))
    };
    let value = match (flag.kind, json) {
        (_, Json::Null) => return Ok(()),
        (Kind::Bool, Json::Bool(on)) => Value::Bool(*on),
        (Kind::Bool, _) => return mismatch("a boolean"),
        // As in etcd, only in this file durations are plain nanoseconds.
        (Kind::Duration, Json::Number(number)) => match number.as_i64() {
            Some(nanos) => Value::Duration(nanos),
            None => return mismatch("nanoseconds"),
        },
        (Kind::Duration, _) => return mismatch("a number of nanoseconds"),
        (Kind::Int | Kind::Uint | Kind::Uint32, Json::Number(number)) => flag
            .parse(&number.to_string())
            .map_err(|reason| format!("error unmarshaling JSON: {key}: {reason}"))?,
        (Kind::Int | Kind::Uint | Kind::Uint32, _) => return mismatch("a number"),
        (_, Json::Array(items)) if takes_list(flag.name) => {
            let items: Option<Vec<&str>> = items.iter().map(Json::as_str).collect();
            match items {
                Some(items) => Value::Text(items.join(",")),
                None => return mismatch("a list of strings"),
            }
        }
        (_, Json::String(_)) if takes_list(flag.name) => return mismatch("a list of strings"),
        // As in etcd, only the command line can leave a list of URLs empty, and only there a value
        // without effect is checked.
        (Kind::Urls | Kind::OptionalUrls | Kind::Choice(_), Json::String(text))
            if text.is_empty() =>
        {
            return Ok(());
        }
        (Kind::Choice(_), Json::String(text)) if flag.effect == Effect::Ignored => {
            Value::Text(text.clone())
        }
        (_, Json::String(text)) => flag
            .parse(text)
            .map_err(|reason| format!("unexpected error setting up {key}: {reason}"))?,
        _ => return mismatch("a string"),
    };
    values.set(&flag, value);
    Ok(())
}

fn takes_list(name: &str) -> bool {
    matches!(
        name,
        "log-outputs"
            | "cipher-suites"
            | "discovery-endpoints"
            | "client-cert-allowed-cn"
            | "client-cert-allowed-hostname"
            | "peer-cert-allowed-cn"
            | "peer-cert-allowed-hostname"
    )
}

fn kind_of(json: &Json) -> &'static str {
    match json {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}
