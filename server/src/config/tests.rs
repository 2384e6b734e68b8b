mod discovery;
mod file;
mod help;

use std::io;

use super::*;

fn run(line: &[&str], variables: &[(&str, &str)], file: &str) -> Result<Config, Exit> {
    let args: Vec<String> = line.iter().map(|word| word.to_string()).collect();
    let variables: Vec<(String, String)> = variables
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    parse(&args, &variables, &|path| match path {
        "conf" => Ok(file.into()),
        _ => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no such file or directory",
        )),
    })
}

fn flags(line: &[&str]) -> Config {
    run(line, &[], "").unwrap_or_else(|exit| panic!("{line:?}: {exit:?}"))
}

/// Exit code and first line of the output or log.
fn outcome(exit: Exit) -> (u8, String) {
    match exit {
        Exit::Print {
            stdout,
            stderr,
            code,
        } => {
            let text = if stderr.is_empty() { stdout } else { stderr };
            (code, text.lines().next().unwrap_or_default().into())
        }
        Exit::Invalid(invalid) => (1, invalid.reason),
        Exit::Shadowed { variable } => (1, variable),
    }
}

fn refused(line: &[&str]) -> (u8, String) {
    match run(line, &[], "") {
        Ok(_) => panic!("{line:?} was taken"),
        Err(exit) => outcome(exit),
    }
}

#[test]
fn defaults_are_etcds() {
    let config = flags(&[]);
    assert_eq!(config.name, "default");
    assert_eq!(config.data_dir.to_str(), Some("default.etcd"));
    assert_eq!(
        config.listen_client_urls[0].as_str(),
        "http://localhost:2379"
    );
    assert_eq!(config.listen_peer_urls[0].address(), "localhost:2380");
    assert_eq!(config.initial_cluster[0].name, "default");
    assert_eq!(config.quota_backend_bytes, Some(2 << 30));
    assert_eq!(config.max_message_bytes(), 2_097_152);
    assert_eq!(
        (config.max_txn_ops, config.max_concurrent_streams),
        (128, u32::MAX)
    );
    assert_eq!(config.heartbeat_interval, Duration::from_millis(100));
    assert_eq!(config.election_timeout, Duration::from_secs(1));
    assert_eq!(config.auto_compaction, AutoCompaction::Off);
    assert_eq!(
        config.watch_progress_notify_interval,
        Duration::from_secs(600)
    );
    assert_eq!(config.keepalive.interval, Duration::from_secs(7200));
    assert_eq!(config.log, LogConfig::default());
    assert_eq!(
        (config.cors.join(","), config.host_whitelist.join(",")),
        ("*".into(), "*".into())
    );
    assert_eq!(
        config
            .feature_gates
            .iter()
            .filter(|gate| gate.enabled)
            .count(),
        2
    );
}

#[test]
fn gos_flag_syntax_is_taken() {
    let config = flags(&[
        "-name",
        "a",
        "--max-txn-ops=0x10",
        "--pre-vote=false",
        "--name=b",
    ]);
    assert_eq!(
        (config.name.as_str(), config.max_txn_ops, config.pre_vote),
        ("b", 16, false)
    );
    assert_eq!(config.data_dir.to_str(), Some("b.etcd"));
    // A boolean flag without `=` does not take the next word as its value.
    assert_eq!(
        refused(&["--pre-vote", "false"]),
        (1, "\"false\" is not a valid flag".into())
    );
    // Other flags take the next word as value, even with dashes.
    assert_eq!(
        flags(&["--initial-cluster-token", "--x"]).initial_cluster_token,
        "--x"
    );
    assert_eq!(flags(&["--vv", "--snapshot", "--"]).name, "default");
}

#[test]
fn wrong_command_lines_end_as_etcd_ends_them() {
    let cases: &[(&[&str], u8, &str)] = &[
        (&["--nope"], 2, "flag provided but not defined: -nope"),
        (
            &["--discovery", "x"],
            2,
            "flag provided but not defined: -discovery",
        ),
        (&["---x"], 2, "bad flag syntax: ---x"),
        (&["--="], 2, "bad flag syntax: --="),
        (
            &["--max-txn-ops"],
            2,
            "flag needs an argument: -max-txn-ops",
        ),
        (
            &["--max-txn-ops="],
            2,
            "invalid value \"\" for flag -max-txn-ops: parse error",
        ),
        (
            &["--snapshot-count=-1"],
            2,
            "invalid value \"-1\" for flag -snapshot-count: parse error",
        ),
        (
            &["--pre-vote=maybe"],
            2,
            "invalid boolean value \"maybe\" for -pre-vote: parse error",
        ),
        (
            &["--grpc-keepalive-timeout=5"],
            2,
            "invalid value \"5\" for flag -grpc-keepalive-timeout: parse error",
        ),
        (
            &["--max-concurrent-streams", "-1"],
            2,
            "invalid value \"-1\" for flag -max-concurrent-streams: strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
        (
            &["--listen-client-urls", "foo"],
            2,
            "invalid value \"foo\" for flag -listen-client-urls: URL scheme must be http, https, unix, or unixs: foo",
        ),
        (
            &["--initial-cluster-state", "x"],
            2,
            "invalid value \"x\" for flag -initial-cluster-state: invalid value",
        ),
        (
            &["--feature-gates", "Foo=true"],
            2,
            "invalid value \"Foo=true\" for flag -feature-gates: unrecognized feature gate: Foo",
        ),
        (
            &["--v2-deprecation=not-yet"],
            2,
            "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\"",
        ),
        (
            &["--log-level=nope"],
            2,
            "invalid value \"nope\" for flag -log-level: unrecognized level: \"nope\"",
        ),
        (&["stray"], 1, "\"stray\" is not a valid flag"),
        (&["-"], 1, "\"-\" is not a valid flag"),
        (
            &["--heartbeat-interval=0"],
            1,
            "--heartbeat-interval must be >0 (set to 0ms)",
        ),
        (
            &["--memory-budget-bytes=5"],
            1,
            "--memory-budget-bytes is 5; it must be 0 or at least 16777216",
        ),
        (
            &["--election-timeout=200"],
            1,
            "--election-timeout[200ms] should be at least as 5 times as --heartbeat-interval[100ms]",
        ),
        (
            &["--election-timeout=60000"],
            1,
            "--election-timeout[60000ms] is too long, and should be set less than 50000ms",
        ),
        (
            &["--listen-client-urls=http://127.0.0.1:1"],
            1,
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        (
            &[
                "--listen-client-urls=http://:1",
                "--advertise-client-urls=http://127.0.0.1:1",
            ],
            1,
            "expected IP in URL for binding (http://:1)",
        ),
        (
            &["--advertise-client-urls=http://:1"],
            1,
            "--advertise-client-urls \"http://:1\" must be in the format \"host:port\", \"unix:/path/to/socket\" or \"unixs:/path/to/socket\" (unexpected empty host (http://:1))",
        ),
        (
            &["--initial-advertise-peer-urls=http://:1"],
            1,
            "--initial-advertise-peer-urls \"http://:1\" must be \"host:port\" (unexpected empty host (http://:1))",
        ),
        (
            &["--auto-compaction-mode="],
            1,
            "undefined auto-compaction-mode",
        ),
        (
            &["--logger=capnslog"],
            1,
            "--logger=capnslog is removed in v3.5",
        ),
        (&["--logger=x"], 1, "unknown logger option \"x\""),
        (
            &["--log-outputs=default,stderr"],
            1,
            "multi logoutput for \"default\" is not supported yet",
        ),
        (
            &["--log-outputs=systemd/journal,stderr"],
            1,
            "running with systemd/journal but other '--log-outputs' values ([\"stderr\" \"systemd/journal\"]) are configured with 'default'; override 'default' value with something else",
        ),
        (
            &["--enable-log-rotation"],
            1,
            "--log-outputs requires a single file path when --log-rotate-config-json is defined",
        ),
        (
            &["--enable-log-rotation", "--log-outputs=a,b"],
            1,
            "--log-outputs requires a single file path when --log-rotate-config-json is defined",
        ),
        (
            &[
                "--enable-log-rotation",
                "--log-outputs=a",
                "--log-rotation-config-json={\"maxsize\": \"x\"}",
            ],
            1,
            "invalid log rotation config: json: cannot unmarshal string into Go struct field logRotationConfig.Logger.maxsize of type int",
        ),
        (
            &[
                "--enable-log-rotation",
                "--log-outputs=a",
                "--log-rotation-config-json={",
            ],
            1,
            "improperly formatted log rotation config: unexpected end of JSON input",
        ),
        (
            &["--listen-peer-urls=http://foo.com:1"],
            1,
            "expected IP in URL for binding (http://foo.com:1)",
        ),
        (
            &["--auto-compaction-mode=x"],
            1,
            "unknown auto-compaction-mode \"x\"",
        ),
        (
            &["--auto-compaction-retention=x"],
            1,
            "error parsing CompactionRetention: time: invalid duration \"x\"",
        ),
        (
            &["--log-format=nope"],
            1,
            "unknown log format: nope, supported values json, console",
        ),
        (
            &["--feature-gates=AllAlpha=true"],
            1,
            "feature gate SetMemberLocalAddr: choosing the local address of connections to peers is not supported by Stele yet",
        ),
        (
            &["--compact-hash-check-time=0s"],
            1,
            "--compact-hash-check-time must be >0 (set to 0s)",
        ),
        (
            &["--feature-gates=LeaseCheckpointPersist=true"],
            1,
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ),
        (
            &["--config-file=nowhere"],
            1,
            "open nowhere: no such file or directory",
        ),
    ];
    for (line, code, text) in cases {
        assert_eq!(refused(line), (*code, text.to_string()), "{line:?}");
    }
}

#[test]
fn what_forbids_founding_a_cluster_is_kept_for_when_one_is_founded() {
    let cases: [(&[&str], Option<&str>); 4] = [
        (&[], None),
        (
            &["--name=b", "--initial-cluster=a=http://localhost:2380"],
            Some("couldn't find local name \"b\" in the initial cluster configuration"),
        ),
        (
            &["--initial-cluster=default=http://1.1.1.1:2380"],
            Some(
                "--initial-cluster has default=http://1.1.1.1:2380 but missing from --initial-advertise-peer-urls=http://localhost:2380 (resolved urls: \"http://localhost:2380\" != \"http://1.1.1.1:2380\")",
            ),
        ),
        (
            &[
                "--initial-cluster=default=http://1.1.1.1:2380",
                "--initial-cluster-state=existing",
            ],
            None,
        ),
    ];
    for (line, error) in cases {
        assert_eq!(flags(line).founding_error.as_deref(), error, "{line:?}");
    }
}

#[test]
fn a_look_up_decides_whether_a_member_is_listed_where_it_advertises() {
    let config = flags(&["--initial-cluster=default=http://nowhere.test:1"]);
    assert_eq!(config.compared_with_listed(Ok(())).founding_error, None);
    let failed = r#"failed to resolve "http://nowhere.test:1" (lookup nowhere.test: no such host)"#;
    let config = config.compared_with_listed(Err(failed.to_owned()));
    let text = "--initial-cluster has default=http://nowhere.test:1 but missing from";
    let text = format!("{text} --initial-advertise-peer-urls=http://localhost:2380 ({failed})");
    assert_eq!(config.founding_error, Some(text));
}

#[test]
fn tokens_and_passwords_are_as_told() {
    let config = flags(&[]);
    assert_eq!(config.auth_token, "simple");
    assert_eq!(config.auth_token_ttl, Duration::from_secs(300));
    assert_eq!(config.bcrypt_cost, 10);
    let words = [
        "--auth-token=jwt,a=b",
        "--auth-token-ttl=7",
        "--bcrypt-cost=4",
    ];
    let config = flags(&words);
    assert_eq!(config.auth_token, "jwt,a=b");
    assert_eq!(config.auth_token_ttl, Duration::from_secs(7));
    assert_eq!(config.bcrypt_cost, 4);
    // Replaced by etcd's defaults.
    let config = flags(&["--auth-token-ttl=0", "--bcrypt-cost=3"]);
    assert_eq!(config.auth_token_ttl, Duration::from_secs(300));
    assert_eq!(config.bcrypt_cost, 10);
}

#[test]
fn keys_come_from_a_file_or_from_a_command() {
    assert_eq!(flags(&[]).encryption, None);
    let file = flags(&["--encryption-key-file=/etc/keys"]).encryption;
    assert_eq!(file, Some(KeySource::File("/etc/keys".into())));
    let command = flags(&["--encryption-key-command", "kms decrypt x"]).encryption;
    assert_eq!(command, Some(KeySource::Command("kms decrypt x".into())));
    let both = refused(&["--encryption-key-file=x", "--encryption-key-command=y"]);
    let text = "--encryption-key-file and --encryption-key-command exclude each other";
    assert_eq!(both, (1, text.to_owned()));
}

#[test]
fn variables_stand_in_for_flags() {
    let config = run(
        &[],
        &[
            ("ETCD_NAME", "a"),
            ("ETCD_MAX_TXN_OPS", "7"),
            ("ETCD_FOO", "1"),
            ("ETCD_VERIFY", "all"),
        ],
        "",
    )
    .unwrap();
    assert_eq!((config.name.as_str(), config.max_txn_ops), ("a", 7));
    assert_eq!(
        config.notes,
        [Warning::UnknownVariable("ETCD_FOO=1".into())]
    );
    // An empty variable counts as unset, so it does not conflict.
    assert_eq!(
        run(&["--name=b"], &[("ETCD_NAME", "")], "").unwrap().name,
        "b"
    );
    assert_eq!(
        run(&["--name=b"], &[("ETCD_NAME", "a")], "").unwrap_err(),
        Exit::Shadowed {
            variable: "ETCD_NAME".into()
        }
    );
    let bad = run(&[], &[("ETCD_MAX_TXN_OPS", "x")], "").unwrap_err();
    assert_eq!(
        outcome(bad),
        (
            1,
            "invalid value \"x\" for ETCD_MAX_TXN_OPS: parse error".into()
        )
    );
}

#[test]
fn a_named_member_founds_its_cluster_where_it_is_advertised() {
    let config = flags(&[
        "--name=x",
        "--initial-advertise-peer-urls=http://127.0.0.1:2,http://127.0.0.1:1",
    ]);
    let urls: Vec<&str> = config.initial_cluster[0]
        .peer_urls
        .iter()
        .map(Url::as_str)
        .collect();
    assert_eq!(urls, ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
    assert_eq!(config.initial_cluster[0].name, "x");
}

#[test]
fn retention_is_read_by_its_mode() {
    let retention = |mode: &str, text: &str| {
        let mode = format!("--auto-compaction-mode={mode}");
        flags(&[&mode, "--auto-compaction-retention", text]).auto_compaction
    };
    assert_eq!(
        retention("periodic", "2"),
        AutoCompaction::Periodic(Duration::from_secs(7200))
    );
    assert_eq!(
        retention("periodic", "30s"),
        AutoCompaction::Periodic(Duration::from_secs(30))
    );
    assert_eq!(
        retention("revision", "1000"),
        AutoCompaction::Revision(1000)
    );
    assert_eq!(retention("revision", "0"), AutoCompaction::Off);
}

#[test]
fn gates_follow_their_groups() {
    let on = |text: &str| -> Vec<&str> {
        let config = flags(&["--feature-gates", text]);
        config
            .feature_gates
            .iter()
            .filter(|gate| gate.enabled)
            .map(|gate| gate.name)
            .collect()
    };
    assert_eq!(
        on(""),
        ["FastLeaseKeepAlive", "TxnModeWriteWithSharedBuffer"]
    );
    assert_eq!(
        on("AllBeta=false,LeaseCheckpoint=true"),
        ["LeaseCheckpoint"]
    );
    let all = on("AllAlpha=true,AllBeta=true,SetMemberLocalAddr=false");
    assert_eq!(all.len(), flags::GATES.len() - 1);
}

#[test]
fn deprecated_flags_are_noted() {
    assert_eq!(
        flags(&["--max-snapshots=3", "--v2-deprecation=gone"])
            .notes
            .len(),
        2
    );
}

#[test]
fn no_request_may_be_larger_than_an_entry_of_the_log() {
    let most = raft::ENTRY_BYTES_MAX;
    for (asked, taken, notes) in [(most, most, 0), (most + 1, most, 1)] {
        let config = flags(&[&format!("--max-request-bytes={asked}")]);
        assert_eq!(config.max_request_bytes, taken);
        assert_eq!(config.notes.len(), notes);
    }
}

#[test]
fn a_url_named_twice_is_listened_on_once() {
    let config = flags(&["--listen-peer-urls=http://127.0.0.1:1,http://127.0.0.1:1"]);
    assert_eq!(config.listen_peer_urls.len(), 1);
}

#[test]
fn a_member_that_listens_everywhere_advertises_the_machines_address() {
    let host = || Some("192.0.2.7".parse().unwrap());
    let mut config = flags(&["--name=a", "--listen-peer-urls=http://0.0.0.0:7000"]);
    assert_eq!(config.advertise_host(&host), host());
    let url = "http://192.0.2.7:7000";
    assert_eq!(config.initial_advertise_peer_urls[0].as_str(), url);
    assert_eq!(config.initial_cluster[0].peer_urls[0].as_str(), url);
    assert_eq!(config.founding_error, None);

    // etcd, too, finds that the cluster of a member without a name does not match.
    let mut config = flags(&["--listen-peer-urls=http://0.0.0.0:7000"]);
    config.advertise_host(&host);
    assert_eq!(
        config.founding_error.as_deref(),
        Some(
            "--initial-cluster has default=http://localhost:2380 but missing from --initial-advertise-peer-urls=http://192.0.2.7:7000 (resolved urls: \"http://192.0.2.7:7000\" != \"http://localhost:2380\")"
        )
    );

    for line in [
        &["--listen-peer-urls=http://127.0.0.1:7000"][..],
        &[
            "--listen-client-urls=http://0.0.0.0:1",
            "--advertise-client-urls=http://10.0.0.1:1",
        ],
    ] {
        let mut config = flags(line);
        assert_eq!(config.advertise_host(&host), None, "{line:?}");
    }
    let mut config = run(
        &["--config-file=conf"],
        &[],
        "listen-client-urls: http://0.0.0.0:1",
    )
    .unwrap();
    config.advertise_host(&host);
    assert_eq!(
        config.advertise_client_urls[0].as_str(),
        "http://192.0.2.7:1"
    );
}

#[test]
fn zeros_of_the_keep_alive_stand_for_grpcs_own_values() {
    let keepalive = |line: &[&str]| {
        let keepalive = flags(line).keepalive;
        [keepalive.interval, keepalive.timeout, keepalive.min_time].map(|time| time.as_secs())
    };
    assert_eq!(
        keepalive(&[
            "--grpc-keepalive-interval=9s",
            "--grpc-keepalive-timeout=8s"
        ]),
        [9, 8, 5]
    );
    assert_eq!(
        keepalive(&["--grpc-keepalive-interval=9s", "--grpc-keepalive-timeout=0"]),
        [7200, 20, 5]
    );
    assert_eq!(keepalive(&["--grpc-keepalive-min-time=0"]), [7200, 20, 300]);
}

#[test]
fn no_streams_at_most_means_any_number_of_them() {
    let config = flags(&["--max-concurrent-streams=0"]);
    assert_eq!(config.max_concurrent_streams, u32::MAX);
}

#[test]
fn rotation_takes_lumberjacks_keys() {
    let rotation = |json: &str| {
        let json = format!("--log-rotation-config-json={json}");
        flags(&["--enable-log-rotation", "--log-outputs=a.log", &json])
            .log
            .rotation
    };
    let text =
        r#"{"maxsize": 2, "maxage": 3, "maxbackups": 4, "localtime": true, "compress": true}"#;
    let expected = Rotation {
        file_bytes: 2 << 20,
        max_age: Some(Duration::from_secs(3 * 86_400)),
        max_backups: 4,
        local_time: true,
        compress: true,
    };
    assert_eq!(rotation(text), Some(expected));
    let usual = Rotation {
        file_bytes: 100 << 20,
        max_age: None,
        max_backups: 0,
        local_time: false,
        compress: false,
    };
    assert_eq!(rotation("{}"), Some(usual));
    assert_eq!(flags(&["--log-outputs=a.log"]).log.rotation, None);
}

#[test]
fn levels_of_the_log_are_named_as_in_zap() {
    for (text, level) in [
        ("DEBUG", "debug"),
        ("", "info"),
        ("Info", "info"),
        ("WARN", "warn"),
        ("dpanic", "panic"),
        ("FATAL", "fatal"),
    ] {
        let config = flags(&["--log-level", text]);
        assert_eq!(config.log.level, level, "{text:?}");
        // etcd compares the word itself.
        assert!(!config.pprof);
    }
    assert!(flags(&["--log-level=debug"]).pprof);
    assert_eq!(flags(&["--log-format="]).log.format, LogFormat::Json);
    assert_eq!(
        refused(&["--log-level=warning"]),
        (
            2,
            "invalid value \"warning\" for flag -log-level: unrecognized level: \"warning\"".into()
        )
    );
}

#[test]
fn what_changes_nothing_is_named() {
    assert!(flags(&[]).without_effect.is_empty());
    let line = [
        "--max-wals=7",
        "--downgrade-check-time=1s",
        "--max-snapshots=5",
    ];
    assert_eq!(
        flags(&line).without_effect,
        ["max-wals", "downgrade-check-time"]
    );
}

#[test]
fn tls_is_told_by_flags_and_by_the_file() {
    let config = flags(&[
        "--cert-file=a",
        "--key-file=b",
        "--trusted-ca-file=c",
        "--client-cert-auth",
        "--client-crl-file=d",
        "--client-cert-allowed-hostname=e, f",
        "--peer-cert-allowed-cn=g,h",
        "--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "--tls-max-version=TLS1.3",
    ]);
    assert_eq!(
        config.client_tls.to_string(),
        "cert = a, key = b, client-cert=, client-key=, trusted-ca = c, client-cert-auth = true, crl-file = d"
    );
    assert_eq!(config.client_tls.allowed_hostnames, ["e", "f"]);
    assert_eq!(config.peer_tls.allowed_cns, ["g", "h"]);
    assert_eq!(config.tls_max_version, Some(TlsVersion::Tls13));
    let file = "
client-transport-security:
  cert-file: a
  allowed-cn: [x]
peer-transport-security:
  trusted-ca-file: p
  skip-client-san-verification: true
  allowed-hostname: [one, two]
cipher-suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
";
    let config = run(&["--config-file=conf"], &[], file).unwrap();
    assert_eq!(config.client_tls.cert_file, "a");
    assert_eq!(config.client_tls.allowed_cns, ["x"]);
    assert_eq!(config.peer_tls.trusted_ca_file, "p");
    assert!(config.peer_tls.skip_client_san_verification);
    assert_eq!(config.peer_tls.allowed_hostnames, ["one", "two"]);
    let refusals: [(&[&str], &str); 3] = [
        (
            &["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"],
            "min version (TLS1.3) is greater than max version (TLS1.2)",
        ),
        (
            &["--tls-min-version=TLS1.1"],
            "unexpected TLS version \"TLS1.1\" (must be one of: TLS1.2, TLS1.3)",
        ),
        (
            &["--tls-min-version=TLS1.3", "--cipher-suites=a"],
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ),
    ];
    for (words, text) in refusals {
        assert_eq!(refused(words), (1, text.to_string()));
    }
}
