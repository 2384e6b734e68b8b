//! What the flags of the apiserver say, checked.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use apiserver::setup::{Accounts, Authorization, Further, Mode, ServiceRanges, Serving, Settings};
use apiserver::{Limits, StoreChecks};
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::values::{all, duration, is_on, parsed, path, text};
use super::{audit, authentication, authorization};
use crate::cluster;
use crate::connection;
use crate::store_client::StoreFlags;

/// What the command line asks for.
pub(super) struct Options {
    pub(super) bind: SocketAddr,
    pub(super) advertised: Option<IpAddr>,
    /// `None` lets everybody on this machine do everything.
    pub(super) settings: Option<Settings>,
    pub(super) store: StoreFlags,
    /// The file that says how values of the store are encrypted.
    pub(super) at_rest: Option<PathBuf>,
    /// That file is read again when it changes.
    pub(super) at_rest_changes: bool,
    pub(super) service_ranges: ServiceRanges,
    pub(super) allow_privileged: bool,
    pub(super) compact_every: Duration,
    pub(super) enabled_plugins: Vec<String>,
    pub(super) disabled_plugins: Vec<String>,
    pub(super) audit: apiserver::audit::options::Options,
    pub(super) limits: Limits,
    pub(super) store_checks: StoreChecks,
    /// Where to write the kubeconfig of the cluster's owner.
    pub(super) admin_kubeconfig: Option<PathBuf>,
    /// A further name or address of this server.
    pub(super) external_hostname: Option<String>,
}

impl Options {
    pub(super) fn read(arguments: &ArgMatches) -> Result<Options, String> {
        only(arguments, "etcd-prefix", "/registry")?;
        only(arguments, "storage-backend", "etcd3")?;
        let at_rest = path(arguments, "encryption-provider-config");
        let at_rest_changes = is_on(arguments, "encryption-provider-config-automatic-reload");
        if at_rest_changes && at_rest.is_none() {
            return Err(
                "--encryption-provider-config-automatic-reload must be set with \
                 --encryption-provider-config"
                    .to_owned(),
            );
        }
        let bind = SocketAddr::new(
            parsed(arguments, "bind-address")?.ok_or("--bind-address is empty")?,
            parsed(arguments, "secure-port")?.ok_or("--secure-port is empty")?,
        );
        let name = "service-cluster-ip-range";
        let range = text(arguments, name).unwrap_or_default();
        let service_ranges = cluster::service_ranges(name, &range)?;
        let advertised = parsed(arguments, "advertise-address")?;
        let reached = connection::reached(bind).ip();
        service_ranges.check_advertised(advertised.unwrap_or(reached))?;
        let admin_kubeconfig = path(arguments, "admin-kubeconfig");
        let serving = serving(arguments, bind, admin_kubeconfig.is_some())?;
        Ok(Options {
            bind,
            advertised,
            settings: settings(arguments, serving, bind, &service_ranges)?,
            store: StoreFlags {
                urls: all(arguments, "etcd-servers"),
                authority: path(arguments, "etcd-cafile"),
                certificate: path(arguments, "etcd-certfile"),
                key: path(arguments, "etcd-keyfile"),
            },
            at_rest,
            at_rest_changes,
            service_ranges,
            allow_privileged: is_on(arguments, "allow-privileged"),
            compact_every: duration(arguments, "etcd-compaction-interval")?,
            enabled_plugins: all(arguments, "enable-admission-plugins"),
            disabled_plugins: all(arguments, "disable-admission-plugins"),
            audit: audit::read(arguments)?,
            limits: limits(arguments)?,
            store_checks: store_checks(arguments)?,
            admin_kubeconfig,
            external_hostname: text(arguments, "external-hostname"),
        })
    }
}

fn limits(arguments: &ArgMatches) -> Result<Limits, String> {
    let number = |name| {
        let number: Option<i32> = parsed(arguments, name)?;
        let number = number.unwrap_or(0);
        usize::try_from(number).map_err(|_| format!("--{name} can not be negative value"))
    };
    let limits = Limits {
        reads: number("max-requests-inflight")?,
        writes: number("max-mutating-requests-inflight")?,
        fair: is_on(arguments, "enable-priority-and-fairness"),
        ..Limits::default()
    };
    if limits.fair && limits.reads + limits.writes == 0 {
        return Err(
            "--enable-priority-and-fairness needs seats: --max-requests-inflight and \
             --max-mutating-requests-inflight are both 0"
                .to_owned(),
        );
    }
    Ok(limits)
}

/// How long checks of the store may take; 0 stands for what is usual, as in Kubernetes.
fn store_checks(arguments: &ArgMatches) -> Result<StoreChecks, String> {
    let usual = StoreChecks::default();
    let within = |name, usual| {
        let within = duration(arguments, name)?;
        Ok::<_, String>(if within.is_zero() { usual } else { within })
    };
    Ok(StoreChecks {
        health: within("etcd-healthcheck-timeout", usual.health)?,
        readiness: within("etcd-readycheck-timeout", usual.readiness)?,
    })
}

fn serving(arguments: &ArgMatches, bind: SocketAddr, own: bool) -> Result<Serving, String> {
    let certificate = path(arguments, "tls-cert-file");
    let key = path(arguments, "tls-private-key-file");
    let directory = path(arguments, "cert-dir");
    if is_on(arguments, "plain-http") {
        if !bind.ip().is_loopback() {
            let address = bind.ip();
            return Err(format!(
                "--plain-http is for loopback: {address} is no such address"
            ));
        }
        if own || certificate.is_some() {
            return Err("--plain-http has no certificates: leave those flags out".to_owned());
        }
        return Ok(Serving::Plain);
    }
    match (certificate, key, directory) {
        (Some(certificate), Some(key), _) => Ok(Serving::Given { certificate, key }),
        (Some(_), None, _) => Err("--tls-cert-file needs --tls-private-key-file".to_owned()),
        (None, Some(_), _) => Err("--tls-private-key-file needs --tls-cert-file".to_owned()),
        (None, None, None) => {
            Err("--cert-dir is empty, and there is no --tls-cert-file".to_owned())
        }
        (None, None, Some(directory)) if own => Ok(Serving::Own(directory)),
        (None, None, Some(directory)) => Ok(Serving::SelfSigned(directory)),
    }
}

fn settings(
    arguments: &ArgMatches,
    serving: Serving,
    bind: SocketAddr,
    service_ranges: &ServiceRanges,
) -> Result<Option<Settings>, String> {
    let client_authority = path(arguments, "client-ca-file");
    let token_file = path(arguments, "token-auth-file");
    let names_modes = !all(arguments, "authorization-mode").is_empty()
        || path(arguments, "authorization-config").is_some();
    let is_plain = serving == Serving::Plain;
    let further = authentication::further(arguments)?;
    let knows_nobody = token_file.is_none() && further == Further::default();
    if is_plain && knows_nobody && !names_modes {
        return Ok(None);
    }
    let owns_keys = matches!(serving, Serving::Own(_));
    // An owner, or tokens, are of no use where everybody may do everything.
    let default = if owns_keys || is_plain {
        Mode::Rbac
    } else {
        Mode::AlwaysAllow
    };
    let authorization = authorization::read(arguments, default)?;
    let anonymous = anonymous(arguments, &authorization);
    let accounts = Accounts {
        issuers: all(arguments, "service-account-issuer"),
        audiences: all(arguments, "api-audiences"),
        signing_key: path(arguments, "service-account-signing-key-file"),
        keys: all(arguments, "service-account-key-file")
            .iter()
            .map(PathBuf::from)
            .collect(),
    };
    let given = !accounts.issuers.is_empty() && accounts.signing_key.is_some();
    if !given && !owns_keys && !is_plain {
        return Err(
            "--service-account-signing-key-file and --service-account-issuer are required flags; \
             with --admin-kubeconfig all keys are made"
                .to_owned(),
        );
    }
    let mut names: Vec<String> = text(arguments, "external-hostname").into_iter().collect();
    names.extend(text(arguments, "advertise-address"));
    if !bind.ip().is_unspecified() {
        names.push(bind.ip().to_string());
    }
    Ok(Some(Settings {
        serving,
        newest_tls_only: newest_tls_only(arguments)?,
        names,
        service_ranges: service_ranges.clone(),
        client_authority,
        token_file,
        anonymous,
        authorization,
        accounts,
        further,
    }))
}

/// Whether requests without credentials are let in; `None` if nothing says so.
fn anonymous(arguments: &ArgMatches, authorization: &Authorization) -> Option<bool> {
    let is_given = arguments.value_source("anonymous-auth") == Some(ValueSource::CommandLine);
    let is_on = is_on(arguments, "anonymous-auth");
    if is_on && authorization::allows_everything(authorization) {
        tracing::warn!(
            "nobody is let in without credentials, because AlwaysAllow would let them do everything"
        );
        return Some(false);
    }
    is_given.then_some(is_on)
}

fn newest_tls_only(arguments: &ArgMatches) -> Result<bool, String> {
    match text(arguments, "tls-min-version").as_deref() {
        None | Some("VersionTLS12") => Ok(false),
        Some("VersionTLS13") => Ok(true),
        Some(other) => Err(format!(
            "--tls-min-version={other} is not supported: VersionTLS12 and VersionTLS13 are"
        )),
    }
}

/// Refuses any value but one.
fn only(arguments: &ArgMatches, name: &str, supported: &str) -> Result<(), String> {
    match text(arguments, name).as_deref() {
        Some(value) if value.trim_end_matches('/') != supported => Err(format!(
            "--{name}={value} is not supported: only {supported} is"
        )),
        _ => Ok(()),
    }
}
