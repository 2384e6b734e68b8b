//! The flags of kube-apiserver by their names, and what becomes of each.
//!
//! A flag that works is read by [`super::options`]. One that has no meaning here is accepted, and
//! said in one line of the log. One whose feature is missing, so that less would be checked or
//! kept than its user believes, is refused when it is set.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::plugins;
use Effect::{NoMeaning, Refused, Works};
use Form::{List, Switch, Text};

/// The version of Kubernetes that the API is of.
const VERSION: &str = "Kubernetes v1.36.3";

/// One flag.
struct Flag {
    name: &'static str,
    form: Form,
    /// The value when it is not given; shown in the help.
    default: &'static str,
    effect: Effect,
    help: &'static str,
}

/// What values a flag takes.
#[derive(Clone, Copy)]
enum Form {
    /// A word, with the name of its type.
    Text(&'static str),
    /// `--flag` means true.
    Switch,
    /// Words with commas between them; given again, more of them.
    List(&'static str),
}

/// What becomes of a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Works,
    NoMeaning,
    Refused,
}

/// Flags under one heading of the help.
struct Section {
    heading: &'static str,
    flags: &'static [Flag],
}

const fn flag(name: &'static str, form: Form, effect: Effect, help: &'static str) -> Flag {
    Flag {
        name,
        form,
        default: "",
        effect,
        help,
    }
}

const fn with_default(
    name: &'static str,
    form: Form,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        form,
        default,
        effect: Works,
        help,
    }
}

const SECTIONS: &[Section] = &[
    Section {
        heading: "Generic flags",
        flags: &[
            flag(
                "advertise-address",
                Text("ip"),
                Works,
                "Address at which the cluster reaches this server; by default the one it is bound to",
            ),
            flag(
                "cors-allowed-origins",
                List("strings"),
                NoMeaning,
                "Origins for browsers; none is allowed",
            ),
            flag(
                "emulated-version",
                List("strings"),
                NoMeaning,
                "Earlier version to behave like",
            ),
            flag(
                "emulation-forward-compatible",
                Switch,
                NoMeaning,
                "Later APIs of an emulated version",
            ),
            flag(
                "event-ttl",
                Text("duration"),
                NoMeaning,
                "How long events are kept; one hour",
            ),
            flag(
                "external-hostname",
                Text("string"),
                Works,
                "A further name or address of this server, for its certificate",
            ),
            flag(
                "feature-gates",
                List("strings"),
                NoMeaning,
                "Switches of features",
            ),
            flag(
                "goaway-chance",
                Text("float"),
                NoMeaning,
                "How often a connection is asked to go elsewhere",
            ),
            flag(
                "livez-grace-period",
                Text("duration"),
                NoMeaning,
                "How long a start may take",
            ),
            flag(
                "max-mutating-requests-inflight",
                Text("int"),
                NoMeaning,
                "Requests that write at one time; 200",
            ),
            flag(
                "max-requests-inflight",
                Text("int"),
                NoMeaning,
                "Requests that read at one time; 400",
            ),
            flag(
                "min-compatibility-version",
                List("strings"),
                NoMeaning,
                "Earliest version of other servers",
            ),
            flag(
                "min-request-timeout",
                Text("int"),
                NoMeaning,
                "Shortest time of a watch without a limit",
            ),
            flag(
                "request-timeout",
                Text("duration"),
                NoMeaning,
                "Longest time of a request",
            ),
            flag(
                "runtime-config-emulation-forward-compatible",
                Switch,
                NoMeaning,
                "Later APIs of an emulated version",
            ),
            flag(
                "shutdown-delay-duration",
                Text("duration"),
                NoMeaning,
                "How long a stop waits before it refuses requests",
            ),
            flag(
                "shutdown-send-retry-after",
                Switch,
                NoMeaning,
                "Whether a stop tells clients to come again",
            ),
            flag(
                "shutdown-watch-termination-grace-period",
                Text("duration"),
                NoMeaning,
                "How long a stop waits for watches",
            ),
            flag(
                "strict-transport-security-directives",
                List("strings"),
                NoMeaning,
                "What browsers are told of TLS",
            ),
        ],
    },
    Section {
        heading: "Etcd flags",
        flags: &[
            flag(
                "default-watch-cache-size",
                Text("int"),
                NoMeaning,
                "Events kept for watches",
            ),
            flag(
                "delete-collection-workers",
                Text("int"),
                NoMeaning,
                "Deletions at one time in a collection",
            ),
            flag(
                "enable-garbage-collector",
                Switch,
                NoMeaning,
                "The collector is always on",
            ),
            flag(
                "encryption-provider-config",
                Text("string"),
                Refused,
                "How values are encrypted in the store; see Stele's own encryption at rest",
            ),
            flag(
                "encryption-provider-config-automatic-reload",
                Switch,
                NoMeaning,
                "Whether that file is read again",
            ),
            flag(
                "etcd-cafile",
                Text("string"),
                Works,
                "Authority of the store's certificate",
            ),
            flag(
                "etcd-certfile",
                Text("string"),
                Works,
                "Certificate for the store",
            ),
            with_default(
                "etcd-compaction-interval",
                Text("duration"),
                "5m0s",
                "How often old revisions are dropped from the store; 0 for never",
            ),
            flag(
                "etcd-count-metric-poll-period",
                Text("duration"),
                NoMeaning,
                "How often objects are counted",
            ),
            flag(
                "etcd-db-metric-poll-interval",
                Text("duration"),
                NoMeaning,
                "How often the store is asked for its size",
            ),
            flag(
                "etcd-healthcheck-timeout",
                Text("duration"),
                NoMeaning,
                "How long a check of the store may take",
            ),
            flag("etcd-keyfile", Text("string"), Works, "Key for the store"),
            with_default(
                "etcd-prefix",
                Text("string"),
                "/registry",
                "What all keys in the store begin with; no other is supported",
            ),
            flag(
                "etcd-readycheck-timeout",
                Text("duration"),
                NoMeaning,
                "How long a check of the store may take",
            ),
            with_default(
                "etcd-servers",
                List("strings"),
                "http://127.0.0.1:2379",
                "The store; the first one that answers is used",
            ),
            flag(
                "etcd-servers-overrides",
                List("strings"),
                Refused,
                "Other stores for some resources",
            ),
            flag(
                "lease-reuse-duration-seconds",
                Text("int"),
                NoMeaning,
                "How long a lease of events is used again",
            ),
            with_default(
                "storage-backend",
                Text("string"),
                "etcd3",
                "The kind of store; no other is supported",
            ),
            flag(
                "storage-initialization-timeout",
                Text("duration"),
                NoMeaning,
                "How long the store may take to start",
            ),
            flag(
                "storage-media-type",
                Text("string"),
                NoMeaning,
                "How values are stored; protobuf where Kubernetes does",
            ),
            flag(
                "watch-cache",
                Switch,
                NoMeaning,
                "The watch cache is always on",
            ),
            flag(
                "watch-cache-sizes",
                List("strings"),
                NoMeaning,
                "Events kept for watches of one resource",
            ),
        ],
    },
    Section {
        heading: "Secure serving flags",
        flags: &[
            with_default(
                "bind-address",
                Text("ip"),
                "0.0.0.0",
                "Address to listen on",
            ),
            with_default(
                "cert-dir",
                Text("string"),
                "/var/run/kubernetes",
                "Directory of apiserver.crt and apiserver.key, which are made if missing; not used with --tls-cert-file",
            ),
            flag(
                "disable-http2-serving",
                Switch,
                NoMeaning,
                "HTTP/2 is always on",
            ),
            flag(
                "http2-max-streams-per-connection",
                Text("int"),
                NoMeaning,
                "Requests at one time on a connection",
            ),
            flag(
                "permit-address-sharing",
                Switch,
                NoMeaning,
                "Whether others may bind the address",
            ),
            flag(
                "permit-port-sharing",
                Switch,
                NoMeaning,
                "Whether others may bind the port",
            ),
            with_default(
                "secure-port",
                Text("int"),
                "6443",
                "Port to listen on; 0 for a free one",
            ),
            flag(
                "tls-cert-file",
                Text("string"),
                Works,
                "Certificate of this server and those that lead to its authority",
            ),
            flag(
                "tls-cipher-suites",
                List("strings"),
                Refused,
                "Ciphers of TLS 1.2",
            ),
            flag(
                "tls-curve-preferences",
                List("strings"),
                Refused,
                "Curves of the key exchange",
            ),
            flag(
                "tls-min-version",
                Text("string"),
                Works,
                "VersionTLS12 or VersionTLS13",
            ),
            flag(
                "tls-private-key-file",
                Text("string"),
                Works,
                "Key of that certificate",
            ),
            flag(
                "tls-sni-cert-key",
                List("strings"),
                Refused,
                "Further certificates by name",
            ),
        ],
    },
    Section {
        heading: "Auditing flags",
        flags: &[
            flag(
                "audit-log-path",
                Text("string"),
                Refused,
                "File that requests are logged to",
            ),
            flag(
                "audit-log-maxage",
                Text("int"),
                Refused,
                "How long such files are kept",
            ),
            flag(
                "audit-log-maxbackup",
                Text("int"),
                Refused,
                "How many such files are kept",
            ),
            flag(
                "audit-log-maxsize",
                Text("int"),
                Refused,
                "How large such a file gets",
            ),
            flag(
                "audit-policy-file",
                Text("string"),
                Refused,
                "Which requests are logged",
            ),
            flag(
                "audit-webhook-config-file",
                Text("string"),
                Refused,
                "Where requests are sent to",
            ),
        ],
    },
    Section {
        heading: "Features flags",
        flags: &[
            flag(
                "contention-profiling",
                Switch,
                NoMeaning,
                "Profiles of locks",
            ),
            flag(
                "debug-socket-path",
                Text("string"),
                NoMeaning,
                "Socket for profiles",
            ),
            flag(
                "enable-priority-and-fairness",
                Switch,
                NoMeaning,
                "Queues by priority",
            ),
            flag("profiling", Switch, NoMeaning, "Profiles over HTTP"),
        ],
    },
    Section {
        heading: "Authentication flags",
        flags: &[
            with_default(
                "anonymous-auth",
                Switch,
                "true",
                "Let in whoever shows nothing, as system:anonymous; not with AlwaysAllow alone",
            ),
            flag(
                "api-audiences",
                List("strings"),
                Works,
                "Whom tokens of service accounts are for; by default their issuer",
            ),
            flag(
                "authentication-config",
                Text("string"),
                Refused,
                "File of further authentication",
            ),
            flag(
                "authentication-token-webhook-cache-ttl",
                Text("duration"),
                NoMeaning,
                "How long its answers are kept",
            ),
            flag(
                "authentication-token-webhook-config-file",
                Text("string"),
                Refused,
                "Server that knows bearer tokens",
            ),
            flag(
                "authentication-token-webhook-version",
                Text("string"),
                NoMeaning,
                "Version of its API",
            ),
            flag(
                "client-ca-file",
                Text("string"),
                Works,
                "Authorities of client certificates",
            ),
            flag(
                "enable-bootstrap-token-auth",
                Switch,
                NoMeaning,
                "Bootstrap tokens; they let nobody in",
            ),
            flag(
                "oidc-ca-file",
                Text("string"),
                Refused,
                "Authority of the OpenID issuer",
            ),
            flag(
                "oidc-client-id",
                Text("string"),
                Refused,
                "Audience of OpenID tokens",
            ),
            flag(
                "oidc-groups-claim",
                Text("string"),
                Refused,
                "Claim of the user's groups",
            ),
            flag(
                "oidc-issuer-url",
                Text("string"),
                Refused,
                "Issuer of OpenID tokens",
            ),
            flag(
                "oidc-username-claim",
                Text("string"),
                Refused,
                "Claim of the user's name",
            ),
            flag(
                "requestheader-allowed-names",
                List("strings"),
                NoMeaning,
                "Proxies that name users; they are not believed",
            ),
            flag(
                "requestheader-client-ca-file",
                Text("string"),
                NoMeaning,
                "Authority of such proxies; they are not believed",
            ),
            flag(
                "requestheader-extra-headers-prefix",
                List("strings"),
                NoMeaning,
                "Headers of such proxies",
            ),
            flag(
                "requestheader-group-headers",
                List("strings"),
                NoMeaning,
                "Headers of such proxies",
            ),
            flag(
                "requestheader-uid-headers",
                List("strings"),
                NoMeaning,
                "Headers of such proxies",
            ),
            flag(
                "requestheader-username-headers",
                List("strings"),
                NoMeaning,
                "Headers of such proxies",
            ),
            flag(
                "service-account-extend-token-expiration",
                Switch,
                NoMeaning,
                "Tokens of pods live longer than they say",
            ),
            flag(
                "service-account-issuer",
                List("strings"),
                Works,
                "What tokens say of who made them: new ones the first, old ones any",
            ),
            flag(
                "service-account-jwks-uri",
                Text("string"),
                Refused,
                "Where others find the keys",
            ),
            flag(
                "service-account-key-file",
                List("strings"),
                Works,
                "Keys that check tokens: public keys, certificates or private keys",
            ),
            flag(
                "service-account-lookup",
                Switch,
                NoMeaning,
                "Tokens always end with their account",
            ),
            flag(
                "service-account-max-token-expiration",
                Text("duration"),
                Refused,
                "Longest life of a token",
            ),
            flag(
                "service-account-signing-endpoint",
                Text("string"),
                Refused,
                "Socket of a signer",
            ),
            flag(
                "service-account-signing-key-file",
                Text("string"),
                Works,
                "Key that signs tokens",
            ),
            flag(
                "token-auth-file",
                Text("string"),
                Works,
                "Tokens, one in each line: token,user,uid,\"group,group\"",
            ),
        ],
    },
    Section {
        heading: "Authorization flags",
        flags: &[
            flag(
                "authorization-config",
                Text("string"),
                Refused,
                "File of authorizers",
            ),
            flag(
                "authorization-mode",
                List("strings"),
                Works,
                "RBAC, AlwaysAllow, or RBAC,AlwaysAllow; Node may stand with RBAC and grants nothing more [default: AlwaysAllow]",
            ),
            flag(
                "authorization-policy-file",
                Text("string"),
                Refused,
                "Policy of ABAC",
            ),
            flag(
                "authorization-webhook-config-file",
                Text("string"),
                Refused,
                "Server that decides",
            ),
        ],
    },
    Section {
        heading: "API enablement flags",
        flags: &[flag(
            "runtime-config",
            List("mapStringString"),
            NoMeaning,
            "APIs to switch on or off",
        )],
    },
    Section {
        heading: "Admission flags",
        flags: &[
            flag(
                "admission-control-config-file",
                Text("string"),
                Refused,
                "Configuration of admission plugins",
            ),
            flag(
                "default-not-ready-toleration-seconds",
                Text("int"),
                NoMeaning,
                "How long pods stay on a node that is not ready; 300",
            ),
            flag(
                "default-unreachable-toleration-seconds",
                Text("int"),
                NoMeaning,
                "How long pods stay on a node that is silent; 300",
            ),
            flag(
                "disable-admission-plugins",
                List("strings"),
                Works,
                "Admission plugins to switch off",
            ),
            flag(
                "enable-admission-plugins",
                List("strings"),
                Works,
                "Admission plugins to have in addition to the usual ones",
            ),
        ],
    },
    Section {
        heading: "Logs and metrics flags",
        flags: &[
            flag(
                "allow-metric-labels",
                List("mapStringString"),
                NoMeaning,
                "Labels of metrics",
            ),
            flag(
                "disabled-metrics",
                List("strings"),
                NoMeaning,
                "Metrics to leave out",
            ),
            flag(
                "log-flush-frequency",
                Text("duration"),
                NoMeaning,
                "Log lines are written at once",
            ),
            flag(
                "logging-format",
                Text("string"),
                NoMeaning,
                "Log lines are text",
            ),
            flag(
                "show-hidden-metrics-for-version",
                Text("string"),
                NoMeaning,
                "Metrics of earlier versions",
            ),
            flag("tracing-config-file", Text("string"), NoMeaning, "Traces"),
            flag("v", Text("int"), NoMeaning, "How much is logged"),
            flag(
                "vmodule",
                List("strings"),
                NoMeaning,
                "How much is logged by file",
            ),
        ],
    },
    Section {
        heading: "Misc flags",
        flags: &[
            flag(
                "aggregator-reject-forwarding-redirect",
                Switch,
                NoMeaning,
                "Redirects of extension servers",
            ),
            with_default(
                "allow-privileged",
                Switch,
                "false",
                "Let containers be privileged",
            ),
            flag(
                "apiserver-count",
                Text("int"),
                NoMeaning,
                "How many servers there are",
            ),
            flag(
                "egress-selector-config-file",
                Text("string"),
                Refused,
                "Proxies to nodes",
            ),
            flag(
                "enable-aggregator-routing",
                Switch,
                NoMeaning,
                "How extension servers are reached",
            ),
            flag("enable-logs-handler", Switch, NoMeaning, "Logs over HTTP"),
            flag(
                "endpoint-reconciler-type",
                Text("string"),
                NoMeaning,
                "How servers are listed",
            ),
            flag(
                "kubelet-certificate-authority",
                Text("string"),
                NoMeaning,
                "Authority of nodes",
            ),
            flag(
                "kubelet-client-certificate",
                Text("string"),
                NoMeaning,
                "Certificate for nodes",
            ),
            flag(
                "kubelet-client-key",
                Text("string"),
                NoMeaning,
                "Key for nodes",
            ),
            flag(
                "kubelet-preferred-address-types",
                List("strings"),
                NoMeaning,
                "How nodes are reached",
            ),
            flag(
                "kubelet-timeout",
                Text("duration"),
                NoMeaning,
                "How long nodes may take",
            ),
            flag(
                "kubernetes-service-node-port",
                Text("int"),
                Refused,
                "Node port of the service of this server",
            ),
            flag(
                "max-connection-bytes-per-sec",
                Text("int"),
                NoMeaning,
                "Limit for connections to pods",
            ),
            flag(
                "peer-advertise-ip",
                Text("string"),
                NoMeaning,
                "How other servers reach this one",
            ),
            flag(
                "peer-advertise-port",
                Text("string"),
                NoMeaning,
                "How other servers reach this one",
            ),
            flag(
                "peer-ca-file",
                Text("string"),
                NoMeaning,
                "Authority of other servers",
            ),
            flag(
                "proxy-client-cert-file",
                Text("string"),
                NoMeaning,
                "Certificate for extension servers",
            ),
            flag(
                "proxy-client-key-file",
                Text("string"),
                NoMeaning,
                "Key for extension servers",
            ),
            with_default(
                "service-cluster-ip-range",
                Text("string"),
                "10.96.0.0/16",
                "Where services get their addresses from",
            ),
            flag(
                "service-node-port-range",
                Text("portRange"),
                Refused,
                "Where services get their node ports from; 30000-32767",
            ),
        ],
    },
    Section {
        heading: "Stele flags",
        flags: &[
            flag(
                "admin-kubeconfig",
                Text("string"),
                Works,
                "Write a kubeconfig of the cluster's owner to this file. The authority and all keys are made and kept in --cert-dir",
            ),
            with_default(
                "plain-http",
                Switch,
                "false",
                "Serve plain HTTP, on a loopback address alone; without another flag of authentication or authorization everybody may do everything",
            ),
        ],
    },
];

/// The command with all flags; `name` is what it is called by.
pub(super) fn command(name: &'static str) -> Command {
    let mut command = Command::new(name)
        .about("Serves the API of Kubernetes from a store that speaks etcd's")
        .version(VERSION)
        .disable_version_flag(true)
        .arg(
            Arg::new("version")
                .long("version")
                .action(ArgAction::Version)
                .help("Print the version"),
        );
    for section in SECTIONS {
        for flag in section.flags {
            command = command.arg(flag.arg().help_heading(section.heading));
        }
    }
    command
}

/// Refuses what is set though its feature is missing; says in the log what has no meaning here.
pub(super) fn check(arguments: &ArgMatches) -> Result<(), String> {
    let mut ignored = Vec::new();
    for flag in SECTIONS.iter().flat_map(|section| section.flags) {
        if arguments.value_source(flag.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        match flag.effect {
            Works => {}
            NoMeaning => ignored.push(format!("--{}", flag.name)),
            Refused => {
                let Flag { name, help, .. } = flag;
                return Err(format!("--{name} is not supported ({help}): leave it out"));
            }
        }
    }
    if !ignored.is_empty() {
        tracing::warn!("these flags have no meaning here: {}", ignored.join(", "));
    }
    plugins::check(
        &super::options::all(arguments, "enable-admission-plugins"),
        &super::options::all(arguments, "disable-admission-plugins"),
    )
}

impl Flag {
    fn arg(&self) -> Arg {
        let help = match self.effect {
            Works => self.help.to_owned(),
            NoMeaning => format!("{} (no meaning here)", self.help),
            Refused => format!("{} (not supported)", self.help),
        };
        let arg = Arg::new(self.name).long(self.name).help(help);
        let arg = match self.form {
            Text(value) => arg
                .value_name(value)
                .action(ArgAction::Set)
                .overrides_with(self.name),
            Switch => arg
                .value_name("bool")
                .value_parser(PossibleValuesParser::new(["true", "false"]))
                .hide_possible_values(true)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .overrides_with(self.name),
            List(value) => arg
                .value_name(value)
                .value_delimiter(',')
                .action(ArgAction::Append),
        };
        match self.default {
            "" => arg,
            default => arg.default_value(default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> ArgMatches {
        command("kube-apiserver").get_matches_from([&["kube-apiserver"], words].concat())
    }

    #[test]
    fn the_table_makes_a_command() {
        command("kube-apiserver").debug_assert();
    }

    #[test]
    fn a_flag_whose_feature_is_missing_is_refused_by_name() {
        let error = check(&parsed(&["--audit-log-path=-"])).unwrap_err();
        assert!(
            error.starts_with("--audit-log-path is not supported"),
            "{error}"
        );
        check(&parsed(&[
            "--feature-gates=A=true,B=false",
            "--v=4",
            "--profiling=false",
        ]))
        .unwrap();
    }

    #[test]
    fn switches_and_lists_are_written_as_for_go() {
        let words = [
            "--allow-privileged",
            "--etcd-servers=http://a,http://b",
            "--bind-address",
            "::1",
        ];
        let arguments = parsed(&words);
        assert_eq!(
            super::super::options::all(&arguments, "etcd-servers"),
            ["http://a", "http://b"]
        );
        assert_eq!(
            arguments.get_one::<String>("allow-privileged").unwrap(),
            "true"
        );
        let off = parsed(&["--allow-privileged=true", "--allow-privileged=false"]);
        assert_eq!(off.get_one::<String>("allow-privileged").unwrap(), "false");
    }

    /// A tool that starts kube-apiserver looks for flags at the beginnings of lines of its help.
    #[test]
    fn the_help_has_each_flag_at_the_beginning_of_a_line() {
        let help = command("kube-apiserver").render_help().to_string();
        for flag in SECTIONS.iter().flat_map(|section| section.flags) {
            let start = format!("--{}", flag.name);
            assert!(
                help.lines()
                    .any(|line| line.trim_start().starts_with(&start)),
                "{start}"
            );
        }
        assert!(!help.contains("insecure-port"));
    }
}
