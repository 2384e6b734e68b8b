//! The flags of discovery: how an empty member learns who founds its cluster with it.

use std::collections::HashSet;
use std::time::Duration;

use super::args::Values;
use super::flags::INITIAL_CLUSTER_DEFAULT;
use super::url::Url;
use super::{Config, FoundingMember, Invalid, TlsFiles, host};

/// How an empty member learns who founds its cluster with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// `initial_cluster` lists the founders.
    None,
    /// Founders register in another cluster.
    Registry(Box<Registry>),
    /// Founders are in the SRV records of a domain.
    Srv {
        domain: String,
        /// The end of the service's name, or empty.
        suffix: String,
    },
}

/// The cluster in which founders register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The name of the cluster to be founded.
    pub token: String,
    pub endpoints: Vec<String>,
    pub dial_timeout: Duration,
    pub request_timeout: Duration,
    /// Time between two pings.
    pub keepalive_time: Duration,
    pub keepalive_timeout: Duration,
    /// `None`: TLS only for endpoints that begin with `https`.
    pub tls: Option<RegistryTls>,
    /// Empty: requests are nobody's.
    pub user: String,
    pub password: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryTls {
    /// Certificate, key and authorities.
    pub files: TlsFiles,
    /// Do not verify the certificates of the registry.
    pub skip_verify: bool,
}

/// Reads the flags of discovery, and checks that only one way of founding a cluster is given.
pub(super) fn discovery(values: &Values, flagged: bool) -> Result<Discovery, Invalid> {
    let endpoints = endpoints(values);
    let srv = values.text("discovery-srv");
    let ways = [
        lists_founders(values, flagged),
        !srv.is_empty(),
        !endpoints.is_empty(),
    ];
    if ways.into_iter().filter(|way| *way).count() > 1 {
        return Err(Invalid::flags(
            "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\"",
        ));
    }
    let token = values.text("discovery-token");
    if token.is_empty() != endpoints.is_empty() {
        return Err(Invalid::flags(
            "both --discovery-token and --discovery-endpoints must be set",
        ));
    }
    if endpoints.iter().any(|endpoint| endpoint.trim().is_empty()) {
        return Err(Invalid::flags(
            "--discovery-endpoints must not contain empty endpoints",
        ));
    }
    if !srv.is_empty() {
        return Ok(Discovery::Srv {
            domain: srv.to_owned(),
            suffix: values.text("discovery-srv-name").to_owned(),
        });
    }
    if endpoints.is_empty() {
        return Ok(Discovery::None);
    }
    Ok(Discovery::Registry(Box::new(Registry {
        token: token.to_owned(),
        endpoints,
        dial_timeout: values.timer("discovery-dial-timeout"),
        request_timeout: values.timer("discovery-request-timeout"),
        keepalive_time: values.timer("discovery-keepalive-time"),
        keepalive_timeout: values.timer("discovery-keepalive-timeout"),
        tls: tls(values),
        user: values.text("discovery-user").to_owned(),
        password: values.text("discovery-password").to_owned(),
    })))
}

/// True if a flag of discovery stands in the place of `--initial-cluster`.
pub(super) fn replaces_initial_cluster(values: &Values, flagged: bool) -> bool {
    let is_asked_for = !values.text("discovery-srv").is_empty()
        || !values.text("discovery-srv-name").is_empty() && flagged
        || !endpoints(values).is_empty();
    is_asked_for && !lists_founders(values, flagged)
}

/// True if `--initial-cluster` is in use. In a file, its default counts as nothing.
fn lists_founders(values: &Values, flagged: bool) -> bool {
    let text = values.text("initial-cluster");
    let is_default = !flagged && text == INITIAL_CLUSTER_DEFAULT;
    values.given("initial-cluster") && !text.is_empty() && !is_default
}

/// Sorted and without duplicates, as in etcd.
fn endpoints(values: &Values) -> Vec<String> {
    if !values.given("discovery-endpoints") {
        return Vec::new();
    }
    let text = values.text("discovery-endpoints");
    let mut endpoints: Vec<String> = text.split(',').map(str::to_owned).collect();
    endpoints.sort();
    endpoints.dedup();
    endpoints
}

fn tls(values: &Values) -> Option<RegistryTls> {
    let text = |name| values.text(name).to_owned();
    let files = TlsFiles {
        cert_file: text("discovery-cert"),
        key_file: text("discovery-key"),
        trusted_ca_file: text("discovery-cacert"),
        ..TlsFiles::default()
    };
    let skip_verify = values.bool("discovery-insecure-skip-tls-verify");
    let is_asked_for =
        !values.bool("discovery-insecure-transport") || skip_verify || files != TlsFiles::default();
    is_asked_for.then_some(RegistryTls { files, skip_verify })
}

impl Config {
    /// The same member with these founders. `resolved` is true if the member was found among them by
    /// its address, so that its host may have another name there.
    pub(crate) fn founded_by(&self, founders: Vec<FoundingMember>, resolved: bool) -> Config {
        let mut config = Config {
            initial_cluster: founders,
            initial_cluster_is_implied: false,
            ..self.clone()
        };
        config.founding_error = match host::founding_error(&config) {
            Some(_) if resolved && host::has_as_many_urls(&config) => None,
            error => error,
        };
        config
    }

    /// As `--initial-cluster` has the member alone.
    pub(crate) fn as_founder(&self) -> String {
        FoundingMember::list(&[FoundingMember {
            name: self.name.clone(),
            peer_urls: self.initial_advertise_peer_urls.clone(),
        }])
    }
}

impl FoundingMember {
    /// The members in a value of `--initial-cluster`. The errors have etcd's texts.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<FoundingMember>, String> {
        let mut members: Vec<FoundingMember> = Vec::new();
        let pairs = text.split(',').map(str::trim);
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (member, url) = pair.split_once('=').unwrap_or((pair, ""));
            let url = Url::parse(url)?;
            match members.iter_mut().find(|known| known.name == member) {
                Some(known) => known.peer_urls.push(url),
                None => members.push(FoundingMember {
                    name: member.into(),
                    peer_urls: vec![url],
                }),
            }
        }
        for member in &mut members {
            member.peer_urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        }
        Ok(members)
    }

    /// True if a URL occurs twice.
    pub(crate) fn have_duplicate_url(members: &[FoundingMember]) -> bool {
        let mut seen = HashSet::new();
        let mut urls = members.iter().flat_map(|member| &member.peer_urls);
        !urls.all(|url| seen.insert(url.as_str()))
    }

    /// A value of `--initial-cluster`, sorted.
    pub(crate) fn list(members: &[FoundingMember]) -> String {
        let pairs = members.iter().flat_map(|member| {
            let urls = member.peer_urls.iter();
            urls.map(|url| format!("{}={url}", member.name))
        });
        let mut pairs: Vec<String> = pairs.collect();
        pairs.sort();
        pairs.join(",")
    }
}
