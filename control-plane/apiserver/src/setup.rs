//! Puts authentication, authorization and admission together from what a command line says: where
//! keys are kept, who is let in.

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

/// Who makes tokens, unless it is said otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By roles and bindings.
    Rbac,
    /// Whoever is known may do everything.
    AlwaysAllow,
}

/// What a command line says of people.
pub struct Settings {
    /// Where keys and certificates are kept; without it nothing is encrypted, and tokens are good
    /// until the process ends.
    pub directory: Option<PathBuf>,
    /// Names and addresses that the server is reached by, besides the first address of services.
    pub names: Vec<String>,
    /// Where services get their addresses from.
    pub service_cidr: String,
    /// A file of tokens, one in each line: `token,user,uid,"group,group"`.
    pub token_file: Option<PathBuf>,
    /// Whether somebody who shows nothing is let in as `system:anonymous`.
    pub anonymous: bool,
    /// How requests are decided.
    pub mode: Mode,
    /// What tokens say of who made them.
    pub issuer: String,
}

/// What stands in front of the registry, with the keys that belong to it.
pub struct Setup {
    /// A configuration of the server with authentication, authorization and admission.
    pub config: Config,
    /// Keys and certificates, when they are kept.
    pub pki: Option<Pki>,
    /// How the server speaks TLS, when it has certificates.
    pub tls: Option<Tls>,
}

impl Settings {
    /// Reads and makes the files.
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
