//! Puts authentication, authorization and admission together from what a command line says: where
//! keys and certificates come from, who is let in, what they may do.

pub(crate) mod config;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admission::Plugin;
use crate::admission::escalation::PrivilegeEscalation;
use crate::admission::plugins::service_account::ServiceAccount;
use crate::auth::Authorizer;
use crate::auth::authenticate::config::{self as authentication, Anonymous};
use crate::auth::authenticate::front_proxy::{self, FrontProxy};
use crate::auth::authenticate::jwt::Key;
use crate::auth::authenticate::jwt::public::PublicKey;
use crate::auth::authenticate::openid::{self, Providers};
use crate::auth::authenticate::token::Issuer;
use crate::auth::authenticate::token_review::{self, Reviewer};
use crate::auth::authenticate::{Credentials, StaticTokens};
pub use crate::auth::authorize::Mode;
use crate::auth::authorize::Modes;
pub use crate::auth::authorize::config::{Configured, WebhookOptions};
use crate::auth::impersonate::{self, Impersonating};
use crate::auth::pki::{self, Identity, Pki};
use crate::auth::tls::{self, Certificates, Tls};
use crate::basics::clock;
pub use crate::basics::service_ranges::ServiceRanges;
use crate::http::faults::OBSERVER;
use crate::setup::config::Config;

/// The default issuer of tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Where the server's certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// There is none: plain HTTP.
    Plain,
    /// From an authority of its own. The directory keeps that and everything it signs, the
    /// owner's certificate and the key of service accounts included; what is missing is made.
    Own(PathBuf),
    /// From files.
    Given {
        /// The certificate and those that lead to its authority, in PEM.
        certificate: PathBuf,
        /// Its private key, in PEM.
        key: PathBuf,
    },
    /// `apiserver.crt` and `apiserver.key` in this directory; made if both are missing, signed by
    /// nobody else.
    SelfSigned(PathBuf),
}

/// The tokens of service accounts.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// What tokens say of who made them: new ones the first, [`ISSUER`] if there is none.
    pub issuers: Vec<String>,
    /// Whom tokens are for; the first issuer if there is none.
    pub audiences: Vec<String>,
    /// The private key that signs, in PEM. Without one it is that of [`Serving::Own`], or tokens
    /// are good until the process ends.
    pub signing_key: Option<PathBuf>,
    /// More keys whose tokens are let in, in PEM: public ones, certificates or private ones.
    pub keys: Vec<PathBuf>,
}

/// Further ways to be known than by certificates, tokens from a file and service accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Further {
    /// True if the tokens of bootstrap secrets are allowed in.
    pub bootstrap_tokens: bool,
    /// The webhook that knows tokens.
    pub webhook: Option<token_review::Options>,
    /// The OpenID provider whose tokens are let in.
    pub openid: Option<openid::Options>,
    /// Instead, a configuration file of providers, which is followed.
    pub configuration: Option<PathBuf>,
    /// Proxies that name users.
    pub proxies: Option<front_proxy::Options>,
    /// The certificate that this server shows to servers that extend it, and its key, in PEM.
    pub extensions: Option<(PathBuf, PathBuf)>,
}

/// What decides what users may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// These authorizers, in the order in which they are asked.
    Chain(Vec<Configured>),
    /// A configuration file, which is followed.
    File(PathBuf),
}

/// Settings of authentication and authorization, from a command line.
pub struct Settings {
    /// Where the server's certificate comes from.
    pub serving: Serving,
    /// TLS 1.2 is refused.
    pub newest_tls_only: bool,
    /// Names and addresses that the server is reached by, besides the first address of services.
    pub names: Vec<String>,
    /// Where services get addresses from.
    pub service_ranges: ServiceRanges,
    /// Certificates (PEM) whose clients are let in; that of [`Serving::Own`] if none is given.
    pub client_authority: Option<PathBuf>,
    /// A file of tokens, one in each line: `token,user,uid,"group,group"`.
    pub token_file: Option<PathBuf>,
    /// True if requests without credentials are allowed in as `system:anonymous`. `None` leaves it
    /// to the configuration file; without one, or if that does not say, they are.
    pub anonymous: Option<bool>,
    /// What decides what users may do.
    pub authorization: Authorization,
    /// The tokens of service accounts.
    pub accounts: Accounts,
    /// Further ways to be known.
    pub further: Further,
}

/// The layers in front of the registry, with their keys.
pub struct Setup {
    /// Configuration of the server, with authentication, authorization and admission.
    pub config: Config,
    /// Keys and certificates, when they are our own.
    pub pki: Option<Pki>,
    /// The TLS configuration, if there are certificates.
    pub tls: Option<Tls>,
}

impl Setup {
    /// Writes the kubeconfig of the user whose requests meet no faults, if keys and certificates
    /// are our own.
    pub fn write_observer(&self, path: &Path, url: &str) -> Result<(), String> {
        let Some(pki) = &self.pki else { return Ok(()) };
        let written = pki.write_master(path, url, OBSERVER, clock::now());
        written.map_err(|error| error.to_string())
    }
}

impl Authorization {
    /// These modes, in their order.
    pub fn of(modes: &[Mode]) -> Authorization {
        Authorization::Chain(modes.iter().copied().map(Configured::Builtin).collect())
    }

    fn open(&self) -> Result<Modes, String> {
        match self {
            Authorization::Chain(configured) => Modes::new(configured),
            Authorization::File(path) => Modes::of_file(path.clone(), &read(path)?),
        }
    }
}

impl Settings {
    /// Reads the files, and creates missing ones.
    pub fn open(&self) -> Result<Setup, String> {
        let pki = match &self.serving {
            Serving::Own(path) => {
                let pki = Pki::open(path, &self.names(), clock::now());
                Some(pki.map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        let client_authority = match &self.client_authority {
            Some(path) => Some(read(path)?),
            None => pki.as_ref().map(|pki| pki.authority.clone()),
        };
        let proxies = self.proxies(client_authority.as_deref())?;
        let tls = self.tls(pki.as_ref(), client_authority.as_deref(), proxies.as_ref())?;
        let issuer = Arc::new(self.issuer(pki.as_ref())?);
        let tokens = match &self.token_file {
            Some(path) => {
                let tokens = StaticTokens::parse(&read(path)?);
                tokens.map_err(|why| format!("{}: {why}", path.display()))?
            }
            None => StaticTokens::default(),
        };
        let (openid, anonymous) = self.openid(&issuer)?;
        let credentials = Credentials {
            tokens,
            issuer: Arc::clone(&issuer),
            bootstrap: self.further.bootstrap_tokens,
            openid,
            reviewer: self.reviewer()?,
            proxies: proxies.clone(),
            anonymous,
        };
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(ServiceAccount)];
        let modes = self.authorization.open()?;
        if let Some(rbac) = modes.rbac() {
            plugins.push(Arc::new(PrivilegeEscalation(Arc::clone(rbac))));
        }
        let authorizer: Arc<dyn Authorizer> = Arc::new(modes);
        let authenticator = Arc::new(Impersonating {
            authenticator: Arc::new(credentials),
            authorizer: Arc::clone(&authorizer),
            modes: impersonate::Modes::default(),
        });
        let config = Config {
            authenticator,
            authorizer,
            plugins,
            issuer: Some(issuer),
            client_authority,
            proxies,
            proxy_identity: self.proxy_identity()?,
            service_ranges: self.service_ranges.clone(),
            ..Config::default()
        };
        Ok(Setup { config, pki, tls })
    }

    fn proxies(&self, clients: Option<&str>) -> Result<Option<Arc<FrontProxy>>, String> {
        let Some(options) = &self.further.proxies else {
            return Ok(None);
        };
        let authority = read(&options.authority)?;
        let proxies = FrontProxy::new(options.clone(), authority);
        tls::check_apart(&proxies, proxies.authority(), clients)?;
        Ok(Some(Arc::new(proxies)))
    }

    fn proxy_identity(&self) -> Result<Option<Identity>, String> {
        let Some((certificate, key)) = &self.further.extensions else {
            return Ok(None);
        };
        Ok(Some(Identity {
            certificate: read(certificate)?,
            key: read(key)?,
        }))
    }

    /// The providers of tokens, and who is let in without any.
    fn openid(&self, issuer: &Issuer) -> Result<(Providers, Anonymous), String> {
        let anonymous = Anonymous::all(self.anonymous.unwrap_or(true));
        if let Some(path) = &self.further.configuration {
            return self.of_configuration(path, issuer, anonymous);
        }
        let providers = match &self.further.openid {
            None => Providers::default(),
            Some(options) => {
                options.validate(issuer.names())?;
                Providers::of_flags(options)?
            }
        };
        Ok((providers, anonymous))
    }

    fn of_configuration(
        &self,
        path: &Path,
        issuer: &Issuer,
        of_flags: Anonymous,
    ) -> Result<(Providers, Anonymous), String> {
        let failed = |why| {
            format!(
                "failed to load authentication configuration from file \"{}\": {why}",
                path.display()
            )
        };
        let text = read(path)?;
        let ours = issuer.names().to_vec();
        let configuration = authentication::parse(&text, &ours, None).map_err(failed)?;
        let anonymous = match &configuration.anonymous {
            None => of_flags,
            Some(_) if self.anonymous.is_some() => {
                return Err(
                    "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous \
                     field is configured in authentication configuration file"
                        .to_owned(),
                );
            }
            Some(anonymous) => anonymous.clone(),
        };
        let providers = Providers::of_file(path.to_owned(), &text, configuration, ours)?;
        Ok((providers, anonymous))
    }

    fn reviewer(&self) -> Result<Option<Reviewer>, String> {
        let Some(options) = &self.further.webhook else {
            return Ok(None);
        };
        let reviewer = Reviewer::open(options);
        reviewer
            .map(Some)
            .map_err(|why| format!("--authentication-token-webhook-config-file: {why}"))
    }

    /// The names of the server's certificate.
    fn names(&self) -> Vec<String> {
        let mut names = self.names.clone();
        names.push(self.service_ranges.own_address().to_string());
        names
    }

    fn tls(
        &self,
        pki: Option<&Pki>,
        clients: Option<&str>,
        proxies: Option<&Arc<FrontProxy>>,
    ) -> Result<Option<Tls>, String> {
        let own = pki.map(|pki| pki.server.clone());
        let files = match &self.serving {
            Serving::Plain => return Ok(None),
            Serving::Given { certificate, key } => Some((certificate.clone(), key.clone())),
            Serving::SelfSigned(directory) => {
                pki::self_signed(directory, &self.names(), clock::now())
                    .map_err(|error| error.to_string())?;
                Some(pki::server_files(directory))
            }
            Serving::Own(_) => None,
        };
        let (of_clients, clients) = (self.client_authority.clone(), clients.map(str::to_owned));
        let of_proxies = proxies.map(|proxies| proxies.file().to_owned());
        let read: tls::Read = Box::new(move || {
            let identity = match (&files, &own) {
                (Some((certificate, key)), _) => Identity {
                    certificate: read(certificate)?,
                    key: read(key)?,
                },
                (None, Some(own)) => own.clone(),
                (None, None) => unreachable!("it was opened before"),
            };
            Ok(Certificates {
                identity,
                clients: match &of_clients {
                    Some(file) => Some(read(file)?),
                    None => clients.clone(),
                },
                proxies: of_proxies.as_deref().map(read).transpose()?,
            })
        });
        let tls = Tls::reading(read()?, read, proxies.cloned(), self.newest_tls_only);
        tls.map(Some)
            .map_err(|why| format!("the server's certificate: {why}"))
    }

    fn issuer(&self, pki: Option<&Pki>) -> Result<Issuer, String> {
        let (signing, place) = match (&self.accounts.signing_key, pki) {
            (Some(path), _) => (read(path)?, path.display().to_string()),
            (None, Some(pki)) => (pki.token_key.clone(), "sa.key".to_owned()),
            (None, None) => {
                let pair = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
                (pair.serialize_pem(), "a new key".to_owned())
            }
        };
        let signing = Key::from_pem(&signing).map_err(|why| format!("{place}: {why}"))?;
        let mut keys = Vec::new();
        for path in &self.accounts.keys {
            let found = PublicKey::all_from_pem(&read(path)?);
            keys.extend(found.map_err(|why| format!("{}: {why}", path.display()))?);
        }
        let (name, others) = match self.accounts.issuers.split_first() {
            Some((first, others)) => (first.clone(), others),
            None => (ISSUER.to_owned(), &[][..]),
        };
        let audiences = match &self.accounts.audiences {
            none if none.is_empty() => vec![name.clone()],
            some => some.clone(),
        };
        Ok(Issuer::new(name, audiences, signing).accepting(others, keys))
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
