//! Reads a kubeconfig: where the webhook is, whom it has to be, and who we are to it.
#![expect(
    clippy::disallowed_methods,
    reason = "the files are the operator's, beside the store"
)]

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use serde_json::Value;

/// What is not supported, of clusters and of users. Without it a webhook would be trusted less,
/// or reached another way, than its operator believes.
const UNSUPPORTED_OF_CLUSTER: [&str; 2] = ["insecure-skip-tls-verify", "proxy-url"];
const UNSUPPORTED_OF_USER: [&str; 4] = ["exec", "auth-provider", "as", "as-groups"];

/// The current context of a kubeconfig.
#[derive(Debug, Default)]
pub(crate) struct Kubeconfig {
    /// Such as `https://127.0.0.1:8443/audit`.
    pub(crate) server: String,
    /// Instead of the server's host, in its certificate; may be empty.
    pub(crate) server_name: String,
    /// Authorities, in PEM; those of this machine if there is none.
    pub(crate) authority: Option<Vec<u8>>,
    /// Certificate and key, in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) credentials: Credentials,
}

/// What requests say of who sends them.
#[derive(Debug, Default)]
pub(crate) enum Credentials {
    #[default]
    None,
    Token(String),
    /// Read for each request: its owner replaces it.
    TokenFile(PathBuf),
    Password(String, String),
}

impl Credentials {
    /// The value of the header `Authorization`.
    pub(crate) fn header(&self) -> Result<Option<String>, String> {
        Ok(match self {
            Credentials::None => None,
            Credentials::Token(token) => Some(format!("Bearer {token}")),
            Credentials::TokenFile(path) => {
                let token = read(path)?;
                Some(format!("Bearer {}", String::from_utf8_lossy(&token).trim()))
            }
            Credentials::Password(user, password) => {
                let both = STANDARD.encode(format!("{user}:{password}"));
                Some(format!("Basic {both}"))
            }
        })
    }
}

impl Kubeconfig {
    /// Reads a file and those that it names.
    pub(crate) fn read(path: &Path) -> Result<Kubeconfig, String> {
        let text = read(path)?;
        let text = String::from_utf8_lossy(&text);
        let value: Value = serde_saphyr::from_str(&text)
            .map_err(|error| format!("error loading config file {path:?}: {error}"))?;
        let context = object::text(&value, &["current-context"]);
        let context = named(&value, "contexts", "context", context)?;
        let cluster = object::text(context, &["cluster"]);
        let cluster = named(&value, "clusters", "cluster", cluster)?;
        let user = match object::text(context, &["user"]) {
            "" => &Value::Null,
            user => named(&value, "users", "user", user)?,
        };
        refuse(cluster, &UNSUPPORTED_OF_CLUSTER)?;
        refuse(user, &UNSUPPORTED_OF_USER)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let certificate = given(user, "client-certificate", folder)?;
        let key = given(user, "client-key", folder)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err("a client certificate needs its key, and a key its certificate".into());
            }
        };
        Ok(Kubeconfig {
            server: object::text(cluster, &["server"]).to_owned(),
            server_name: object::text(cluster, &["tls-server-name"]).to_owned(),
            authority: given(cluster, "certificate-authority", folder)?,
            identity,
            credentials: credentials(user, folder),
        })
    }
}

fn credentials(user: &Value, folder: &Path) -> Credentials {
    let text = |key: &str| object::text(user, &[key]).to_owned();
    if !text("tokenFile").is_empty() {
        return Credentials::TokenFile(folder.join(text("tokenFile")));
    }
    match (text("token"), text("username")) {
        (token, _) if !token.is_empty() => Credentials::Token(token),
        (_, user) if !user.is_empty() => Credentials::Password(user, text("password")),
        _ => Credentials::None,
    }
}

/// The entry of a list of named entries.
fn named<'a>(value: &'a Value, list: &str, kind: &str, name: &str) -> Result<&'a Value, String> {
    let mut all = object::items(value, &[list]).iter();
    all.find(|one| object::text(one, &["name"]) == name)
        .and_then(|one| one.get(kind))
        .ok_or_else(|| format!("invalid configuration: {kind} {name:?} does not exist"))
}

fn refuse(value: &Value, unsupported: &[&str]) -> Result<(), String> {
    let is_set = |key: &&&str| match value.get(**key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(given) => given != "",
    };
    match unsupported.iter().find(is_set) {
        Some(key) => Err(format!("{key} is not supported in this kubeconfig")),
        None => Ok(()),
    }
}

/// Data in the file itself, in base64, or else in the file that it names.
fn given(value: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let data = object::text(value, &[&format!("{key}-data")]);
    if !data.is_empty() {
        let data = STANDARD.decode(data);
        return data
            .map(Some)
            .map_err(|error| format!("{key}-data: {error}"));
    }
    match object::text(value, &[key]) {
        "" => Ok(None),
        file => read(&folder.join(file)).map(Some),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
