//! The providers of a configuration.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::status::Cause;
use machinery::time;
use serde::Deserialize;
use serde_json::{Value, json};

/// Lengths of secrets, in bytes.
const OF_AES: [usize; 3] = [16, 24, 32];
const OF_SECRETBOX: [usize; 1] = [32];

/// Longest time of a call to a KMS plugin, unless the configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A provider of a valid configuration.
pub(crate) enum ProviderConfig {
    Identity,
    AesCbc(Vec<Key>),
    AesGcm(Vec<Key>),
    Secretbox(Vec<Key>),
    Kms(Kms),
}

/// A named secret.
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) secret: Vec<u8>,
}

/// A plugin that keeps keys.
pub(crate) struct Kms {
    /// The version of its gRPC contract, `v1` or `v2`.
    pub(crate) api_version: String,
    pub(crate) name: String,
    /// The socket of the plugin.
    pub(crate) socket: String,
    /// Longest time of a call.
    pub(crate) timeout: Duration,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProviderOfFile {
    aesgcm: Option<KeysOfFile>,
    aescbc: Option<KeysOfFile>,
    secretbox: Option<KeysOfFile>,
    identity: Option<Empty>,
    kms: Option<KmsOfFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysOfFile {
    #[serde(default)]
    keys: Vec<KeyOfFile>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KeyOfFile {
    name: String,
    secret: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct KmsOfFile {
    api_version: String,
    name: String,
    cachesize: Option<i32>,
    endpoint: String,
    timeout: Option<String>,
}

impl ProviderOfFile {
    /// The names of what it has.
    fn names(&self) -> Vec<&'static str> {
        let all = [
            ("kms", self.kms.is_some()),
            ("aesgcm", self.aesgcm.is_some()),
            ("aescbc", self.aescbc.is_some()),
            ("secretbox", self.secretbox.is_some()),
            ("identity", self.identity.is_some()),
        ];
        let given = all.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| name).collect()
    }

    /// Validates it; `None` for one without a provider.
    pub(crate) fn read(
        self,
        place: &str,
        kms_names: &mut HashSet<String>,
        causes: &mut Vec<Cause>,
    ) -> Option<ProviderConfig> {
        let names = self.names();
        if names.len() != 1 {
            let why = if names.is_empty() {
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, \
                 Secretbox, Identity"
            } else {
                "more than one provider specified in a single element, should split into \
                 different list elements"
            };
            causes.push(Cause::invalid(place, &json!(names), why));
        }
        let keys = |keys: KeysOfFile, name: &str, lengths: &[usize], causes: &mut Vec<Cause>| {
            keys.read(&format!("{place}.{name}.keys"), lengths, causes)
        };
        if let Some(kms) = self.kms {
            return Some(ProviderConfig::Kms(kms.read(
                &format!("{place}.kms"),
                kms_names,
                causes,
            )));
        }
        if let Some(aes) = self.aesgcm {
            return Some(ProviderConfig::AesGcm(keys(aes, "aesgcm", &OF_AES, causes)));
        }
        if let Some(aes) = self.aescbc {
            return Some(ProviderConfig::AesCbc(keys(aes, "aescbc", &OF_AES, causes)));
        }
        if let Some(secretbox) = self.secretbox {
            let keys = keys(secretbox, "secretbox", &OF_SECRETBOX, causes);
            return Some(ProviderConfig::Secretbox(keys));
        }
        self.identity.map(|Empty {}| ProviderConfig::Identity)
    }
}

impl KeysOfFile {
    fn read(self, place: &str, lengths: &[usize], causes: &mut Vec<Cause>) -> Vec<Key> {
        if self.keys.is_empty() {
            causes.push(Cause::required(place, "at least one keys is required"));
        }
        let keys = self.keys.into_iter().enumerate();
        keys.map(|(at, key)| key.read(&format!("{place}[{at}]"), lengths, causes))
            .collect()
    }
}

impl KeyOfFile {
    fn read(self, place: &str, lengths: &[usize], causes: &mut Vec<Cause>) -> Key {
        if self.name.is_empty() {
            let why = "name is a mandatory field for a key";
            causes.push(Cause::required(&format!("{place}.name"), why));
        }
        let field = format!("{place}.secret");
        let redacted = Value::from("REDACTED");
        // Go's decoder ignores ends of lines, too.
        let encoded = self.secret.replace(['\r', '\n'], "");
        let secret = STANDARD.decode(encoded);
        match &secret {
            _ if self.secret.is_empty() => {
                causes.push(Cause::required(
                    &field,
                    "secret is a mandatory field for a key",
                ));
            }
            Err(_) => {
                let why = "secrets must be base64 encoded";
                causes.push(Cause::invalid(&field, &redacted, why));
            }
            Ok(secret) if !lengths.contains(&secret.len()) => {
                let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
                let why = format!(
                    "secret is not of the expected length, got {}, expected one of [{}]",
                    secret.len(),
                    lengths.join(" ")
                );
                causes.push(Cause::invalid(&field, &redacted, &why));
            }
            Ok(_) => {}
        }
        Key {
            name: self.name,
            secret: secret.unwrap_or_default(),
        }
    }
}

impl KmsOfFile {
    fn read(self, place: &str, names: &mut HashSet<String>, causes: &mut Vec<Cause>) -> Kms {
        let api_version = match self.api_version.as_str() {
            "" => "v1".to_owned(),
            version => version.to_owned(),
        };
        self.check_name(place, &api_version, names, causes);
        let timeout = self.timeout(place, causes);
        let socket = self.socket(place, causes);
        match self.cachesize {
            Some(size) if api_version != "v1" => {
                let field = format!("{place}.cachesize");
                let why = "cachesize is not supported in v2";
                causes.push(Cause::invalid(&field, &size.into(), why));
            }
            Some(0) => {
                let field = format!("{place}.cachesize");
                let why = "cachesize should be a positive value, or negative to disable";
                causes.push(Cause::invalid(&field, &0.into(), why));
            }
            _ => {}
        }
        if !["v1", "v2"].contains(&api_version.as_str()) {
            let field = format!("{place}.apiVersion");
            let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are \
                       supported";
            causes.push(Cause::invalid(&field, &api_version.as_str().into(), why));
        }
        Kms {
            api_version,
            name: self.name,
            socket,
            timeout,
        }
    }

    fn check_name(
        &self,
        place: &str,
        api_version: &str,
        names: &mut HashSet<String>,
        causes: &mut Vec<Cause>,
    ) {
        let (name, field) = (&self.name, format!("{place}.name"));
        if name.is_empty() {
            let why = "name is a mandatory field for a provider";
            causes.push(Cause::required(&field, why));
        }
        // The prefix of its values ends at the next colon.
        if api_version != "v1" && name.contains(':') {
            let why = format!("invalid KMS provider name {name}, must not contain ':'");
            causes.push(Cause::invalid(&field, &name.as_str().into(), &why));
        }
        let is_new = names.insert(name.clone());
        if api_version != "v1" && !is_new {
            let why = format!("duplicate KMS provider name {name}, names must be unique");
            causes.push(Cause::invalid(&field, &name.as_str().into(), &why));
        }
    }

    fn timeout(&self, place: &str, causes: &mut Vec<Cause>) -> Duration {
        let Some(text) = &self.timeout else {
            return TIMEOUT;
        };
        let nanos = time::parse_go_duration(text);
        let timeout = nanos.and_then(|nanos| u64::try_from(nanos).ok());
        let timeout = timeout.map(Duration::from_nanos).unwrap_or_default();
        if timeout.is_zero() {
            let why = match nanos {
                Some(_) => "timeout should be a positive value",
                None => "not a duration such as 3s",
            };
            let field = format!("{place}.timeout");
            causes.push(Cause::invalid(&field, &text.as_str().into(), why));
        }
        timeout
    }

    /// The path of the socket; it begins with `@` in the abstract namespace.
    fn socket(&self, place: &str, causes: &mut Vec<Cause>) -> String {
        let (endpoint, field) = (&self.endpoint, format!("{place}.endpoint"));
        if endpoint.is_empty() {
            let why = "endpoint is a mandatory field for a kms";
            causes.push(Cause::invalid(&field, &"".into(), why));
            return String::new();
        }
        if let Some(path) = endpoint.strip_prefix("unix://") {
            return match path.strip_prefix("/@") {
                Some(name) => format!("@{name}"),
                None => path.to_owned(),
            };
        }
        let scheme = endpoint.split_once("://").map_or("", |(scheme, _)| scheme);
        let why = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        causes.push(Cause::invalid(&field, &endpoint.as_str().into(), &why));
        String::new()
    }
}
