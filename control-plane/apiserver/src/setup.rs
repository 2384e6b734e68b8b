//! Builds authentication, authorization and admission from the settings of a command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admission::Plugin;
use crate::admission::escalation::PrivilegeEscalation;
use crate::admission::service_account::ServiceAccount;
use crate::auth::Authorizer;
use crate::auth::authenticate::{Credentials, StaticTokens};
use crate::auth::authorize::{AlwaysAllow, Rbac};
use crate::auth::impersonate::Impersonating;
use crate::auth::jwt::Key;
use crate::auth::pki::Pki;
use crate::auth::tls::Tls;
use crate::auth::token::Issuer;
use crate::cidr::Cidr;
use crate::clock;
use crate::config::Config;

/// The default issuer of tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The authorization mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By roles and bindings.
    Rbac,
    /// Every authenticated user may do everything.
    AlwaysAllow,
}

/// Settings of authentication and authorization, from a command line.
pub struct Settings {
    /// Directory of keys and certificates. Without it, there is no TLS, and tokens are valid until
    /// the process ends.
    pub directory: Option<PathBuf>,
    /// Names and addresses of the server, besides the first service address.
    pub names: Vec<String>,
    /// The address range of services.
    pub service_cidr: String,
    /// A file of tokens, one per line: `token,user,uid,"group,group"`.
    pub token_file: Option<PathBuf>,
    /// True if requests without credentials are allowed in as `system:anonymous`.
    pub anonymous: bool,
    /// The authorization mode.
    pub mode: Mode,
    /// The issuer that tokens name.
    pub issuer: String,
}

/// The layers in front of the registry, with their keys.
pub struct Setup {
    /// Configuration of the server, with authentication, authorization and admission.
    pub config: Config,
    /// Keys and certificates, if there is a directory for them.
    pub pki: Option<Pki>,
    /// The TLS configuration, if there are certificates.
    pub tls: Option<Tls>,
}

impl Settings {
    /// Reads the files, and creates missing ones.
    pub fn open(&self) -> Result<Setup, String> {
        let now = clock::now();
        let pki = match &self.directory {
            Some(path) => {
                let mut names = self.names.clone();
                let range = Cidr::parse(&self.service_cidr);
                names.extend(range.map(|range| range.at(1).to_string()));
                let pki = Pki::open(path, &names, now);
                Some(pki.map_err(|error| error.to_string())?)
            }
            None => None,
        };
        let key = match &pki {
            Some(pki) => pki.token_key.clone(),
            None => rcgen::KeyPair::generate()
                .map_err(|e| e.to_string())?
                .serialize_pem(),
        };
        let tls = match &pki {
            Some(pki) => Some(Tls::new(&pki.server, &pki.authority)?),
            None => None,
        };
        let tokens = match &self.token_file {
            Some(path) => read_tokens(path)?,
            None => StaticTokens::default(),
        };
        let issuer = Issuer::new(
            self.issuer.clone(),
            vec![self.issuer.clone()],
            vec![Key::from_pem(&key)?],
        );
        let issuer = Arc::new(issuer);
        let credentials = Credentials {
            tokens,
            issuer: Arc::clone(&issuer),
            anonymous: self.anonymous,
        };
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(ServiceAccount)];
        let authorizer: Arc<dyn Authorizer> = match self.mode {
            Mode::Rbac => {
                let rbac = Arc::new(Rbac::default());
                plugins.push(Arc::new(PrivilegeEscalation(Arc::clone(&rbac))));
                rbac
            }
            Mode::AlwaysAllow => Arc::new(AlwaysAllow),
        };
        let authenticator = Arc::new(Impersonating {
            authenticator: Arc::new(credentials),
            authorizer: Arc::clone(&authorizer),
        });
        let config = Config {
            authenticator,
            authorizer,
            plugins,
            issuer: Some(issuer),
            client_authority: pki.as_ref().map(|pki| pki.authority.clone()),
            service_cidr: self.service_cidr.clone(),
            ..Config::default()
        };
        Ok(Setup { config, pki, tls })
    }
}

fn read_tokens(path: &Path) -> Result<StaticTokens, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let tokens = text.and_then(|text| StaticTokens::parse(&text));
    tokens.map_err(|why| format!("{}: {why}", path.display()))
}
