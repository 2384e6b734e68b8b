//! The configuration file.

use super::*;

#[test]
fn a_file_replaces_flags_and_variables() {
    let file = "
# comment
name: filed
data-dir: /data
heartbeat-interval: 50
election-timeout: 500
watch-progress-notify-interval: 1000000000
auto-compaction-retention: '5m'
log-outputs: [stderr, stdout]
listen-client-urls: http://127.0.0.1:1,http://127.0.0.1:2
client-transport-security:
  cert-file: ''
  auto-tls: false
socket-options:
  reuse-port: true
proxy: 'off'
";
    let config = run(
        &["--config-file", "conf", "--name=flagged"],
        &[("ETCD_NAME", "x")],
        file,
    )
    .unwrap();
    assert_eq!(config.name, "filed");
    assert_eq!(config.heartbeat_interval, Duration::from_millis(50));
    assert_eq!(
        config.watch_progress_notify_interval,
        Duration::from_secs(1)
    );
    assert_eq!(
        config.auto_compaction,
        AutoCompaction::Periodic(Duration::from_secs(300))
    );
    assert_eq!(config.log.outputs, [LogOutput::Stderr, LogOutput::Stdout]);
    assert_eq!(config.listen_client_urls.len(), 2);
    assert!(config.reuse_port);
    let config = run(&[], &[("ETCD_CONFIG_FILE", "conf")], "{\"name\": \"json\"}").unwrap();
    assert_eq!(config.name, "json");
    assert_eq!(
        run(&["--config-file=conf"], &[], "").unwrap().name,
        "default"
    );
}

#[test]
fn wrong_files_are_refused() {
    let cases = [
        (
            "heartbeat-interval: '100'",
            "error unmarshaling JSON: heartbeat-interval: expected a number, found a string",
        ),
        (
            "grpc-keepalive-timeout: 5s",
            "error unmarshaling JSON: grpc-keepalive-timeout: expected a number of nanoseconds, found a string",
        ),
        (
            "log-outputs: stderr",
            "error unmarshaling JSON: log-outputs: expected a list of strings, found a string",
        ),
        (
            "- a",
            "error unmarshaling JSON: the configuration is no map of flags",
        ),
        (
            "listen-client-urls: foo",
            "unexpected error setting up listen-client-urls: URL scheme must be http, https, unix, or unixs: foo",
        ),
        (
            "peer-transport-security: {allowed-cn: x}",
            "error unmarshaling JSON: peer-transport-security.allowed-cn: expected a list of strings, found a string",
        ),
        (
            "discovery-config: {token: x}",
            "both --discovery-token and --discovery-endpoints must be set",
        ),
        (
            "discovery-config: {client: x}",
            "error unmarshaling JSON: discovery-config: expected a map",
        ),
    ];
    for (file, text) in cases {
        let exit = run(&["--config-file=conf"], &[], file).unwrap_err();
        assert_eq!(outcome(exit), (1, text.to_string()), "{file}");
    }
    let exit = run(&["--config-file=conf"], &[], "a: [").unwrap_err();
    assert!(
        outcome(exit)
            .1
            .starts_with("error converting YAML to JSON: yaml: ")
    );
}

/// The keys of etcd's sample file with its values: obsolete keys, empty values, and a fallback that
/// the command line refuses.
#[test]
fn etcds_sample_file_loads() {
    let sample = include_str!("sample.yml");
    let config = run(&["--config-file=conf"], &[], sample).unwrap();
    assert_eq!(config.name, "default");
    assert_eq!(config.wal_dir, None);
    assert_eq!(config.log.level, "debug");
    assert_eq!(
        config.auto_compaction,
        AutoCompaction::Periodic(Duration::from_secs(3600))
    );
    assert!(!config.strict_reconfig_check);
    assert!(config.pprof);
    assert_eq!(config.founding_error, None);
}

/// Templates leave such values where nothing is set.
#[test]
fn empty_values_of_a_file_leave_the_defaults() {
    let file = "
listen-client-urls: ''
listen-peer-urls: ''
listen-metrics-urls: ''
advertise-client-urls: ''
initial-advertise-peer-urls: ''
initial-cluster-state: ''
log-level: ''
log-format: ''
v2-deprecation: not-yet
client-transport-security:
peer-transport-security:
socket-options:
discovery-config:
";
    let usual = flags(&[]);
    let config = run(&["--config-file=conf"], &[], file).unwrap();
    assert_eq!(config.listen_client_urls, usual.listen_client_urls);
    assert_eq!(config.listen_peer_urls, usual.listen_peer_urls);
    assert_eq!(config.listen_metrics_urls, []);
    assert_eq!(config.advertise_client_urls, usual.advertise_client_urls);
    assert_eq!(
        config.initial_advertise_peer_urls,
        usual.initial_advertise_peer_urls
    );
    assert_eq!(config.initial_cluster_state, ClusterState::New);
    assert_eq!(config.log, usual.log);
    assert_eq!(config.client_tls.to_string(), usual.client_tls.to_string());
    let nothing = run(&["--config-file=conf"], &[], "null").unwrap();
    assert_eq!(nothing.name, "default");
}
