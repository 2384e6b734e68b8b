//! The flags of `etcd grpc-proxy start`, and what they mean.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::config::subcommand::{Command, Flag, Kind, Values};
use crate::config::{Exit, Keepalive, TlsFiles, TlsVersion, streams};
use crate::dns::clients::Domain;

pub(super) const COMMAND: Command = Command {
    name: "grpc-proxy",
    does: "start the grpc proxy",
    flags: FLAGS,
};

/// All settings of a proxy.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Of the cluster; with or without a scheme. Used if nothing is found in `domain`.
    pub(super) endpoints: Vec<String>,
    pub(super) domain: Domain,
    /// Zero: the endpoints stay as given.
    pub(super) auto_sync: Duration,
    pub(super) dial_keepalive: DialKeepalive,
    /// The files that the proxy shows and trusts when it dials the cluster.
    pub(super) dial_tls: TlsFiles,
    pub(super) insecure_skip_verify: bool,
    pub(super) listen_addr: String,
    /// Empty: no separate listener for pages.
    pub(super) metrics_addr: String,
    pub(super) listen_tls: TlsFiles,
    pub(super) auto_tls: bool,
    /// In years.
    pub(super) self_signed_validity: u64,
    pub(super) data_dir: PathBuf,
    pub(super) cipher_suites: Vec<String>,
    pub(super) tls_versions: (TlsVersion, Option<TlsVersion>),
    pub(super) keepalive: Keepalive,
    pub(super) max_concurrent_streams: u32,
    /// Limits of the messages between proxy and cluster.
    pub(super) max_send_bytes: usize,
    pub(super) max_recv_bytes: usize,
    /// Empty: the members' own addresses are listed to clients.
    pub(super) advertise_client_url: String,
    /// Proxies that share this prefix list each other.
    pub(super) resolver: Option<Resolver>,
    /// In front of all keys of clients.
    pub(super) namespace: Bytes,
    /// Serializable reads never go back in time.
    pub(super) ordering: bool,
    pub(super) log_calls: bool,
    pub(super) pprof: bool,
    pub(super) debug: bool,
    /// The command line, for `/debug/pprof/cmdline`.
    pub(super) args: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    pub(super) prefix: String,
    /// In seconds.
    pub(super) ttl: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DialKeepalive {
    /// Time between two pings. Zero: none are sent.
    pub(super) time: Duration,
    pub(super) timeout: Duration,
    /// Pings are sent even if no call is open.
    pub(super) while_idle: bool,
}

impl DialKeepalive {
    pub(super) const NONE: DialKeepalive = DialKeepalive {
        time: Duration::ZERO,
        timeout: Duration::ZERO,
        while_idle: false,
    };
}

impl Settings {
    /// Parses what follows `grpc-proxy` on the command line.
    pub(super) fn parse(args: &[String]) -> Result<Settings, Exit> {
        let values = COMMAND.parse(args)?;
        let refused = |error: String| Exit::Print {
            stdout: String::new(),
            stderr: format!("{error}\n"),
            code: 1,
        };
        check_supported(&values).map_err(refused)?;
        let settings = build(&values, args).map_err(refused)?;
        check_limits(&settings).map_err(refused)?;
        Ok(settings)
    }
}

fn build(values: &Values, args: &[String]) -> Result<Settings, String> {
    let text = |name| values.text(name).to_owned();
    let bytes = |name: &str, usual: usize| match values.int(name) {
        // As in etcd, other numbers leave gRPC's own limit.
        bytes if bytes > 0 => usize::try_from(bytes).unwrap_or(usize::MAX),
        _ => usual,
    };
    Ok(Settings {
        resolver: resolver(values)?,
        self_signed_validity: validity(values)?,
        tls_versions: tls_versions(values)?,
        endpoints: values.list("endpoints"),
        domain: Domain {
            name: text("discovery-srv"),
            suffix: text("discovery-srv-name"),
            insecure: values.bool("insecure-discovery"),
            trusted_ca_file: text("cacert"),
        },
        auto_sync: values.duration("endpoints-auto-sync-interval"),
        dial_keepalive: DialKeepalive {
            time: values.duration("dial-keepalive-time"),
            timeout: values.duration("dial-keepalive-timeout"),
            while_idle: values.bool("permit-without-stream"),
        },
        dial_tls: TlsFiles {
            cert_file: text("cert"),
            key_file: text("key"),
            trusted_ca_file: text("cacert"),
            ..TlsFiles::default()
        },
        insecure_skip_verify: values.bool("insecure-skip-tls-verify"),
        listen_addr: text("listen-addr"),
        metrics_addr: text("metrics-addr"),
        listen_tls: TlsFiles {
            cert_file: text("cert-file"),
            key_file: text("key-file"),
            trusted_ca_file: text("trusted-ca-file"),
            crl_file: text("client-crl-file"),
            skip_client_san_verification: true,
            ..TlsFiles::default()
        },
        auto_tls: values.bool("auto-tls"),
        data_dir: text("data-dir").into(),
        cipher_suites: values.list("listen-cipher-suites"),
        keepalive: Keepalive {
            interval: or_never(values.duration("grpc-keepalive-interval")),
            timeout: or_never(values.duration("grpc-keepalive-timeout")),
            min_time: values.duration("grpc-keepalive-min-time"),
        },
        max_concurrent_streams: streams(
            u32::try_from(values.int("max-concurrent-streams")).unwrap_or(u32::MAX),
        ),
        max_send_bytes: bytes("max-send-bytes", SEND_BYTES_DEFAULT),
        max_recv_bytes: bytes("max-recv-bytes", i32::MAX as usize),
        advertise_client_url: text("advertise-client-url"),
        namespace: text("namespace").into(),
        ordering: values.bool("experimental-serializable-ordering"),
        log_calls: values.bool("experimental-enable-grpc-logging"),
        pprof: values.bool("enable-pprof"),
        debug: values.bool("debug"),
        args: args.to_vec(),
    })
}

/// etcd's client sends at most 2 MiB unless it is told otherwise.
const SEND_BYTES_DEFAULT: usize = 2 << 20;

/// Far beyond the life of a connection, and small enough to be added to a clock's time.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

fn or_never(time: Duration) -> Duration {
    if time.is_zero() { NEVER } else { time }
}

fn resolver(values: &Values) -> Result<Option<Resolver>, String> {
    let prefix = values.text("resolver-prefix");
    let ttl = i64::try_from(values.int("resolver-ttl")).unwrap_or(i64::MAX);
    if prefix.is_empty() {
        return match ttl {
            1.. => Err(format!("invalid resolver-prefix {prefix:?}")),
            _ => Ok(None),
        };
    }
    if ttl < 1 {
        return Err(format!("invalid resolver-ttl {ttl}"));
    }
    let url = values.text("advertise-client-url");
    if url.is_empty() {
        return Err(format!("invalid advertise-client-url {url:?}"));
    }
    Ok(Some(Resolver {
        prefix: prefix.to_owned(),
        ttl,
    }))
}

fn validity(values: &Values) -> Result<u64, String> {
    let years = u64::try_from(values.int("self-signed-cert-validity")).unwrap_or(u64::MAX);
    if values.bool("auto-tls") && years == 0 {
        return Err("selfSignedCertValidity is invalid,it should be greater than 0".to_owned());
    }
    Ok(years)
}

fn tls_versions(values: &Values) -> Result<(TlsVersion, Option<TlsVersion>), String> {
    let version = |name: &str| {
        TlsVersion::parse(values.text(name)).map_err(|error| format!("{name} is invalid: {error}"))
    };
    let oldest = version("tls-min-version")?;
    let newest = version("tls-max-version")?;
    if oldest > newest && newest.is_some() {
        let (min, max) = (
            values.text("tls-min-version"),
            values.text("tls-max-version"),
        );
        return Err(format!(
            "min version ({min}) is greater than max version ({max})"
        ));
    }
    if oldest == Some(TlsVersion::Tls13) && !values.list("listen-cipher-suites").is_empty() {
        return Err("cipher suites cannot be configured when only TLS1.3 is enabled".to_owned());
    }
    Ok((oldest.unwrap_or(TlsVersion::Tls12), newest))
}

/// The error is that of etcd's client.
fn check_limits(settings: &Settings) -> Result<(), String> {
    let (receive, send) = (settings.max_recv_bytes, settings.max_send_bytes);
    if send > receive {
        return Err(format!(
            "gRPC message recv limit ({receive} bytes) must be greater than send limit ({send} bytes)"
        ));
    }
    Ok(())
}

/// Refuses the flag whose feature is missing.
fn check_supported(values: &Values) -> Result<(), String> {
    const MISSING: &str = "experimental-leasing-prefix";
    if values.text(MISSING).is_empty() {
        return Ok(());
    }
    Err(format!(
        "--{MISSING} is not supported by Stele's grpc-proxy yet"
    ))
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        help,
    }
}

use Kind::{Bool, Int, List, Text, Uint, Uint32};

/// Sorted by name.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag("advertise-client-url", Text, "127.0.0.1:23790", "address of this proxy that clients are told; if empty, they are told those of the members"),
    flag("auto-tls", Bool, "false", "listen with TLS and a certificate that the proxy signs itself"),
    flag("cacert", Text, "", "file of the authorities that sign the servers' certificates"),
    flag("cert", Text, "", "file of the certificate shown to the servers; it must not have a common name"),
    flag("cert-file", Text, "", "file of the certificate shown to clients"),
    flag("client-crl-file", Text, "", "file of the revocation list for clients' certificates"),
    flag("data-dir", Text, "default.proxy", "directory of the certificate of --auto-tls"),
    flag("debug", Bool, "false", "log debug messages too"),
    flag("dial-keepalive-time", Kind::Duration, "0", "time between two pings to a server; 0: none"),
    flag("dial-keepalive-timeout", Kind::Duration, "20s", "time that a server has to answer a ping"),
    flag("discovery-srv", Text, "", "domain whose SRV records name the endpoints; --endpoints are used if none is found"),
    flag("discovery-srv-name", Text, "", "end of the services' names in the domain: etcd-client-ssl-NAME, etcd-client-NAME"),
    flag("enable-pprof", Bool, "false", "serve /debug/pprof/"),
    flag("endpoints", List, "127.0.0.1:2379", "addresses of the cluster's members"),
    flag("endpoints-auto-sync-interval", Kind::Duration, "0", "time after which the endpoints are read from the cluster again; 0: never"),
    flag("experimental-enable-grpc-logging", Bool, "false", "log every call when it ends: method, client, code and duration"),
    flag("experimental-leasing-prefix", Text, "", "prefix of the keys of leases on keys; not supported by Stele yet"),
    flag("experimental-serializable-ordering", Bool, "false", "never answer a serializable read with an older revision than before"),
    flag("grpc-keepalive-interval", Kind::Duration, "2h0m0s", "time between two pings to a client; 0: none"),
    flag("grpc-keepalive-min-time", Kind::Duration, "5s", "shortest time between two pings of a client"),
    flag("grpc-keepalive-timeout", Kind::Duration, "20s", "time that a client has to answer a ping; 0: any"),
    flag("insecure-discovery", Bool, "false", "take endpoints of the domain without TLS too, and do not try them first"),
    flag("insecure-skip-tls-verify", Bool, "false", "believe any certificate that a server shows (for tests only)"),
    flag("key", Text, "", "file of the key of --cert"),
    flag("key-file", Text, "", "file of the key of --cert-file"),
    flag("listen-addr", Text, "127.0.0.1:23790", "address to listen on"),
    flag("listen-cipher-suites", List, "", "cipher suites of TLS 1.2 for clients, by Go's names; if empty, all secure ones"),
    flag("max-concurrent-streams", Uint32, "4294967295", "calls that a client may have open on a connection"),
    flag("max-recv-bytes", Int, "2147483647", "largest message accepted from a server"),
    flag("max-send-bytes", Int, "1572864", "largest message sent to a server"),
    flag("metrics-addr", Text, "", "URL of one more listener, for /metrics and /health"),
    flag("namespace", Text, "", "prefix of all keys of this proxy's clients, which do not see it"),
    flag("permit-without-stream", Bool, "false", "ping servers even if no call is open"),
    flag("resolver-prefix", Text, "", "prefix of the keys under which proxies register; the same for all of them"),
    flag("resolver-ttl", Int, "0", "seconds until the registration of a proxy that is gone ends"),
    flag("self-signed-cert-validity", Uint, "1", "years that the certificate of --auto-tls is valid"),
    flag("tls-max-version", Text, "", "newest TLS version for clients: TLS1.2, TLS1.3; if empty, the newest there is"),
    flag("tls-min-version", Text, "TLS1.2", "oldest TLS version for clients: TLS1.2, TLS1.3"),
    flag("trusted-ca-file", Text, "", "file of the authorities that sign clients' certificates; if given, clients must show one"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_HEAD: &str = "| flag | default | |\n|---|---|---|\n";

    fn parse(words: &[&str]) -> Result<Settings, String> {
        let mut args = vec!["start".to_owned()];
        args.extend(words.iter().map(ToString::to_string));
        Settings::parse(&args).map_err(|exit| match exit {
            Exit::Print { stderr, .. } => stderr.lines().next().unwrap_or_default().to_owned(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_defaults_are_etcds() {
        assert!(FLAGS.is_sorted_by_key(|flag| flag.name));
        let settings = parse(&[]).unwrap();
        assert_eq!(settings.endpoints, ["127.0.0.1:2379"]);
        assert_eq!(settings.listen_addr, "127.0.0.1:23790");
        assert_eq!(settings.advertise_client_url, "127.0.0.1:23790");
        assert_eq!(settings.max_send_bytes, 3 << 19);
        assert_eq!(settings.max_concurrent_streams, u32::MAX);
        assert_eq!(settings.keepalive.min_time, Duration::from_secs(5));
        assert_eq!(settings.tls_versions, (TlsVersion::Tls12, None));
        assert_eq!(settings.resolver, None);
        let unlimited = parse(&["--max-concurrent-streams=0"]).unwrap();
        assert_eq!(unlimited.max_concurrent_streams, u32::MAX);
    }

    #[test]
    fn contradictions_get_etcds_words() {
        let cases: [(&[&str], &str); 9] = [
            (
                &["--max-recv-bytes=9", "--max-send-bytes=10"],
                "gRPC message recv limit (9 bytes) must be greater than send limit (10 bytes)",
            ),
            (&["--resolver-ttl=3"], "invalid resolver-prefix \"\""),
            (&["--resolver-prefix=x"], "invalid resolver-ttl 0"),
            (
                &[
                    "--resolver-prefix=x",
                    "--resolver-ttl=1",
                    "--advertise-client-url=",
                ],
                "invalid advertise-client-url \"\"",
            ),
            (
                &["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"],
                "min version (TLS1.3) is greater than max version (TLS1.2)",
            ),
            (
                &["--tls-min-version=x"],
                "tls-min-version is invalid: unexpected TLS version \"x\" (must be one of: TLS1.2, TLS1.3)",
            ),
            (
                &["--tls-min-version=TLS1.3", "--listen-cipher-suites=x"],
                "cipher suites cannot be configured when only TLS1.3 is enabled",
            ),
            (
                &["--auto-tls", "--self-signed-cert-validity=0"],
                "selfSignedCertValidity is invalid,it should be greater than 0",
            ),
            (
                &["--experimental-leasing-prefix=x"],
                "--experimental-leasing-prefix is not supported by Stele's grpc-proxy yet",
            ),
        ];
        for (words, text) in cases {
            assert_eq!(parse(words).unwrap_err(), text);
        }
        assert!(parse(&["--experimental-leasing-prefix="]).is_ok());
    }

    /// The page must match the table of flags. `UPDATE=1` rewrites it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "writes a page of the documents")]
    fn the_page_of_the_proxy_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating/proxy.md");
        let written = std::fs::read_to_string(path).unwrap();
        let (before, _) = written.split_once(TABLE_HEAD).unwrap();
        let mut page = before.to_owned() + TABLE_HEAD;
        for flag in FLAGS {
            let default = match flag.default {
                "" | "0" | "false" => String::new(),
                default => format!("`{default}`"),
            };
            page += &format!("| `--{}` | {default} | {} |\n", flag.name, flag.help);
        }
        if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
            std::fs::write(path, &page).unwrap();
        }
        assert!(
            written == page,
            "docs/operating/proxy.md is stale: UPDATE=1 cargo test -p stele --lib the_page_of_the_proxy"
        );
    }
}
