//! The flags of discovery.

use super::*;

const REGISTRY: [&str; 2] = ["--discovery-token=t", "--discovery-endpoints=b:2,a:1,b:2"];

fn registry(config: &Config) -> &Registry {
    match &config.discovery {
        Discovery::Registry(registry) => registry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_registry_has_etcds_defaults() {
    let config = flags(&REGISTRY);
    let seconds = Duration::from_secs;
    let expected = Registry {
        token: "t".into(),
        endpoints: vec!["a:1".into(), "b:2".into()],
        dial_timeout: seconds(2),
        request_timeout: seconds(5),
        keepalive_time: seconds(2),
        keepalive_timeout: seconds(6),
        tls: None,
        user: String::new(),
        password: String::new(),
    };
    assert_eq!(registry(&config), &expected);
    let others = [
        "--discovery-dial-timeout=1s",
        "--discovery-request-timeout=3s",
        "--discovery-keepalive-time=4s",
        "--discovery-keepalive-timeout=5s",
    ];
    let given = flags(&[&REGISTRY[..], &others].concat());
    let times = Registry {
        dial_timeout: seconds(1),
        request_timeout: seconds(3),
        keepalive_time: seconds(4),
        keepalive_timeout: seconds(5),
        ..expected
    };
    assert_eq!(registry(&given), &times);
    // The member begins alone.
    assert_eq!(config.as_founder(), "default=http://localhost:2380");
    assert_eq!(config.initial_cluster.len(), 1);
    assert_eq!(config.founding_error, None);
}

#[test]
fn any_flag_of_tls_asks_for_tls() {
    for word in [
        "--discovery-insecure-transport=false",
        "--discovery-insecure-skip-tls-verify",
        "--discovery-cert=a",
        "--discovery-key=a",
        "--discovery-cacert=a",
    ] {
        let config = flags(&[&REGISTRY[..], &[word]].concat());
        let tls = registry(&config).tls.as_ref();
        let tls = tls.unwrap_or_else(|| panic!("{word}"));
        assert_eq!(tls.skip_verify, word.contains("skip"));
    }
}

#[test]
fn the_file_has_the_registry_in_a_map() {
    let file = "
name: a
initial-cluster: default=http://localhost:2380
discovery-config:
  token: t
  client:
    endpoints: [a:1]
    dial-timeout: 1000
    secure: {cacert: c, insecure-skip-tls-verify: true}
    auth: {username: u, password: p}
";
    let config = run(&["--config-file=conf"], &[], file).unwrap();
    let registry = registry(&config);
    assert_eq!((&*registry.token, &*registry.endpoints[0]), ("t", "a:1"));
    assert_eq!(registry.dial_timeout, Duration::from_micros(1));
    let tls = registry.tls.as_ref().unwrap();
    assert!(tls.skip_verify && tls.files.trusted_ca_file == "c");
    assert_eq!((&*registry.user, &*registry.password), ("u", "p"));
}

#[test]
fn a_domain_leaves_the_founders_open() {
    let config = flags(&["--discovery-srv=d", "--discovery-srv-name=n", "--name=a"]);
    let srv = Discovery::Srv {
        domain: "d".into(),
        suffix: "n".into(),
    };
    assert_eq!(config.discovery, srv);
    assert_eq!(config.initial_cluster, []);
    // The end of a name alone is no discovery, and yet nobody is listed, as in etcd.
    let config = flags(&["--discovery-srv-name=n"]);
    assert_eq!(config.discovery, Discovery::None);
    let error = "couldn't find local name \"default\" in the initial cluster configuration";
    assert_eq!(config.founding_error.as_deref(), Some(error));
}

#[test]
fn a_member_found_by_its_address_may_have_another_name_of_its_host() {
    let config = flags(&["--discovery-srv=d", "--name=a"]);
    let founders = FoundingMember::parse_list("a=http://a.d:2380,0=http://b.d:2380").unwrap();
    assert_eq!(
        config.founded_by(founders.clone(), true).founding_error,
        None
    );
    assert!(config.founded_by(founders, false).founding_error.is_some());
    let founders = FoundingMember::parse_list("a=http://a.d:2380,a=http://b.d:2380").unwrap();
    assert!(config.founded_by(founders, true).founding_error.is_some());
}

#[test]
fn one_way_of_founding_is_enough() {
    let several = "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\"";
    let half = "both --discovery-token and --discovery-endpoints must be set";
    let cases: [(&[&str], &str); 7] = [
        (
            &["--discovery-srv=d", "--initial-cluster=a=http://a:1"],
            several,
        ),
        (&["--discovery-srv=d", "--discovery-endpoints=a:1"], several),
        (
            &[
                "--discovery-endpoints=a:1",
                "--initial-cluster=a=http://a:1",
            ],
            several,
        ),
        (&["--discovery-endpoints=a:1"], half),
        (&["--discovery-token=t"], half),
        (
            &["--discovery-token=t", "--discovery-endpoints="],
            "--discovery-endpoints must not contain empty endpoints",
        ),
        (
            &["--discovery-token=t", "--discovery-endpoints=a:1, "],
            "--discovery-endpoints must not contain empty endpoints",
        ),
    ];
    for (words, text) in cases {
        assert_eq!(refused(words), (1, text.to_owned()), "{words:?}");
    }
}
