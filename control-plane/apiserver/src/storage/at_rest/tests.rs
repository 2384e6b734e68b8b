//! Values against those that Kubernetes sealed (by the program `sealed` of
//! `benches/peers/kubernetes`), rotation of keys, and files that are refused.
#![expect(clippy::disallowed_methods, reason = "writes the files that are read")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use machinery::schema;

use super::*;

const KEY: &str = "/registry/secrets/n/s";
const PLAIN: &[u8] = b"a secret of seventeen";

/// A configuration for secrets with these providers, in the flow style of YAML.
async fn secrets(providers: &str) -> AtRest {
    let text = format!("resources:\n- resources: [secrets]\n  providers: [{providers}]\n");
    at_rest(&text).await.unwrap()
}

async fn at_rest(resources: &str) -> Result<AtRest, String> {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n{resources}"
    );
    let signals = Arc::new(Signals::default());
    let rules = Rules::new(config::parse(&text)?, &signals).await?;
    Ok(AtRest {
        rules: RwLock::new(Arc::new(rules)),
        signals,
        file: None,
    })
}

/// A provider with one key, which consists of a letter.
fn provider(name: &str, key: &str, letter: char, length: usize) -> String {
    let secret = STANDARD.encode(letter.to_string().repeat(length));
    format!("{{{name}: {{keys: [{{name: {key}, secret: '{secret}'}}]}}}}")
}

fn kind(group: &str, plural: &str) -> &'static Kind {
    let mut all = schema::kinds().iter();
    all.find(|one| (one.group(), one.plural()) == (group, plural))
        .unwrap()
}

async fn sealed(at_rest: &AtRest) -> Bytes {
    let kind = kind("", "secrets");
    let sealed = at_rest.seal(kind, KEY, PLAIN.to_vec()).await;
    sealed.unwrap().into()
}

/// Opens a value; returns whether it is stale.
async fn is_stale(at_rest: &AtRest, value: &Bytes) -> bool {
    let opened = at_rest.open(kind("", "secrets"), KEY, value).await.unwrap();
    assert_eq!(opened.value, PLAIN);
    opened.sealing.stale
}

/// Whether a value opens to what was sealed. `aescbc` authenticates nothing: what another key
/// sealed ends in a padding that looks right once in some 256 times, and opens to other bytes.
async fn is_readable(at_rest: &AtRest, value: &Bytes) -> bool {
    let opened = at_rest.open(kind("", "secrets"), KEY, value).await;
    opened.is_ok_and(|opened| opened.value == PLAIN)
}

async fn refusal(at_rest: &AtRest, key: &str, value: &[u8]) -> String {
    let value = Bytes::copy_from_slice(value);
    let opened = at_rest.open(kind("", "secrets"), key, &value).await;
    opened.unwrap_err().message
}

#[tokio::test]
async fn values_that_kubernetes_sealed_are_opened() {
    for (name, length, golden) in [
        (
            "aescbc",
            16,
            "azhzOmVuYzphZXNjYmM6djE6a2V5MTrz8jLcL4OOVfR+MTZekoW4dkFpEomYO72zgTyLJXzH2wza2NG2eCzSW/IY6NbCHHg=",
        ),
        (
            "aescbc",
            24,
            "azhzOmVuYzphZXNjYmM6djE6a2V5MToIp473q2/7CfWHBQuAdLxWrWnkmbM4n4sMsQ48M+UJfR5BMYkWAqsEK6bEayVU97s=",
        ),
        (
            "aescbc",
            32,
            "azhzOmVuYzphZXNjYmM6djE6a2V5MTqn6BuxB/5r0yANYSfPWnTORI+Cr/tEBPuWlpMHUKDnUXUVZz5eYbN6mJR8WOqmxRo=",
        ),
        (
            "aesgcm",
            16,
            "azhzOmVuYzphZXNnY206djE6a2V5MTpdLKP4QIwWJMRN8SsE4NagjrfTC5iQO1FLVxBRlBR4HciWYp/XNqUt5UqqI7vhYj63",
        ),
        (
            "aesgcm",
            24,
            "azhzOmVuYzphZXNnY206djE6a2V5MTpnlmUkbFZl4KHGqLnClUjll8NmFA6HymoZrJWd1qR5hUwMlDBlgRMEJSMQs2uSnYLN",
        ),
        (
            "aesgcm",
            32,
            "azhzOmVuYzphZXNnY206djE6a2V5MTpKx4LNZ5l3lDGM2aFcfILdpDLAvJBEsuWCsxjsahq4GjEM2eJ4z08O65bSD3fPqRx4",
        ),
        (
            "secretbox",
            32,
            "azhzOmVuYzpzZWNyZXRib3g6djE6a2V5MTqI972FGOvuXGazxvQ2XFeV+ndIzYdy3XCvQf87UBGcb660mew1S8DuLZEXgiXVC6EiaIrDHnI0BQ93ws/6",
        ),
    ] {
        let at_rest = secrets(&provider(name, "key1", 'k', length)).await;
        let golden = Bytes::from(STANDARD.decode(golden).unwrap());
        assert!(!is_stale(&at_rest, &golden).await, "{name} {length}");
        // The same form, but no two values are alike.
        let (one, other) = (sealed(&at_rest).await, sealed(&at_rest).await);
        assert_ne!(one, other, "{name} {length}");
        assert_eq!(one.len(), golden.len(), "{name} {length}");
        assert_eq!(label(&one), label(&golden), "{name} {length}");
        assert!(!is_stale(&at_rest, &one).await, "{name} {length}");
        // Neither another secret nor a value cut short opens it.
        let other = secrets(&provider(name, "key1", 'o', length)).await;
        let why = refusal(&other, KEY, &golden).await;
        assert!(why.contains(KEY) && why.contains("key1"), "{why}");
        for end in label(&golden).unwrap().len()..golden.len() {
            refusal(&at_rest, KEY, &golden[..end]).await;
        }
    }
}

#[tokio::test]
async fn a_value_of_another_key_of_the_store_does_not_open_where_that_is_authenticated() {
    let at_rest = secrets(&provider("aesgcm", "a", 'k', 32)).await;
    let value = sealed(&at_rest).await;
    let why = refusal(&at_rest, "/registry/secrets/n/other", &value).await;
    assert!(why.contains("authentication failed"), "{why}");
}

#[tokio::test]
async fn old_keys_open_and_make_values_stale() {
    let old = secrets(&provider("aescbc", "old", 'o', 32)).await;
    let value = sealed(&old).await;
    let clear = Bytes::from_static(PLAIN);
    // Keys in the list of one provider, and providers after each other, alike.
    let [new_key, old_key] = ['n', 'o'].map(|letter| {
        let secret = STANDARD.encode(letter.to_string().repeat(32));
        let name = if letter == 'n' { "new" } else { "old" };
        format!("{{name: {name}, secret: '{secret}'}}")
    });
    for both in [
        format!("{{aescbc: {{keys: [{new_key}, {old_key}]}}}}, {{identity: {{}}}}"),
        format!(
            "{}, {}, {{identity: {{}}}}",
            provider("aescbc", "old", 'n', 32),
            provider("aescbc", "old", 'o', 32)
        ),
        format!(
            "{}, {}, {{identity: {{}}}}",
            provider("secretbox", "new", 'n', 32),
            provider("aescbc", "old", 'o', 32)
        ),
    ] {
        let both = secrets(&both).await;
        assert!(is_stale(&both, &value).await);
        assert!(is_stale(&both, &clear).await);
        let again = sealed(&both).await;
        assert!(!is_stale(&both, &again).await);
        assert!(!is_readable(&old, &again).await);
    }
    // On the way back to values in the clear.
    let away = secrets(&format!(
        "{{identity: {{}}}}, {}",
        provider("aescbc", "old", 'o', 32)
    ))
    .await;
    assert!(is_stale(&away, &value).await);
    assert_eq!(sealed(&away).await, clear);
    assert!(!is_stale(&away, &clear).await);
}

#[tokio::test]
async fn what_no_provider_opens_is_refused_by_name() {
    let value = sealed(&secrets(&provider("aescbc", "old", 'o', 32)).await).await;
    let why = refusal(&AtRest::default(), KEY, &value).await;
    assert_eq!(
        why,
        "Internal error occurred: unable to transform key \"/registry/secrets/n/s\": identity \
         transformer tried to read encrypted data (the value is sealed as \
         \"k8s:enc:aescbc:v1:old:\": the encryption configuration must keep that provider and key \
         until all values are written again)"
    );
    let strict = secrets(&provider("aesgcm", "new", 'n', 32)).await;
    let why = refusal(&strict, KEY, &value).await;
    assert!(why.contains("no matching prefix found"), "{why}");
    // Nor is anything in the clear taken where the configuration does not allow it.
    let why = refusal(&strict, KEY, PLAIN).await;
    assert!(why.ends_with("no matching prefix found"), "{why}");
    let other_name = secrets(&provider("aescbc", "new", 'o', 32)).await;
    let why = refusal(&other_name, KEY, &value).await;
    assert!(why.contains("no matching key was found"), "{why}");
}

#[tokio::test]
async fn the_narrowest_rule_of_a_resource_holds() {
    let by = |name| provider("secretbox", name, 'k', 32);
    let at_rest = at_rest(&format!(
        "resources:
- resources: [events]
  providers: [{{identity: {{}}}}]
- resources: [secrets, deployments.apps]
  providers: [{}]
- resources: ['*.']
  providers: [{}]
- resources: ['*.apps']
  providers: [{}]
- resources: ['*.*']
  providers: [{}]
",
        by("named"),
        by("core"),
        by("apps"),
        by("all")
    ))
    .await
    .unwrap();
    for (group, plural, name) in [
        ("", "events", None),
        ("", "secrets", Some("named")),
        ("", "configmaps", Some("core")),
        ("apps", "deployments", Some("named")),
        ("apps", "replicasets", Some("apps")),
        ("batch", "jobs", Some("all")),
    ] {
        let sealed = at_rest.seal(kind(group, plural), KEY, PLAIN.to_vec()).await;
        let expected = name.map(|name| format!("k8s:enc:secretbox:v1:{name}:"));
        assert_eq!(label(&sealed.unwrap()), expected, "{plural}.{group}");
    }
}

#[tokio::test]
async fn files_are_validated_in_the_words_of_kubernetes() {
    let error = config::parse(include_str!("tests/invalid.yaml"))
        .err()
        .unwrap();
    let expected = include_str!("tests/invalid.txt");
    assert_eq!(
        error.replace(", resources[", ",\nresources["),
        expected.trim_end()
    );
    for (resources, expected) in [
        (
            "",
            "resources: Required value: at least one resources is required",
        ),
        (
            "resources:\n- resources: ['*.apps']\n  providers: [{identity: {}}]\n\
             - resources: [deployments.apps]\n  providers: [{identity: {}}]\n",
            "resource \"deployments.apps\" is masked by earlier rule \"*.apps\"",
        ),
        (
            "resources:\n- resources: ['*.*']\n  providers: [{identity: {}}]\n\
             - resources: ['*.']\n  providers: [{identity: {}}]\n",
            "resource \"*.\" is masked by earlier rule \"*.*\"",
        ),
        (
            "resources:\n- resources: [secrets]\n  providers: [{kms: {name: a, endpoint: 'unix:///x'}}]\n",
            "Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.",
        ),
        ("resource: []\n", "unknown field `resource`"),
        ("resources: []\nresources: []\n", "resources"),
    ] {
        let error = at_rest(resources).await.err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    for (text, expected) in [
        ("", "kind is missing"),
        ("kind: EncryptionConfiguration", "apiVersion is missing"),
        (
            "{kind: Policy, apiVersion: audit.k8s.io/v1, rules: []}",
            "no kind \"Policy\" is registered for version \"audit.k8s.io/v1\"",
        ),
    ] {
        let error = config::parse(text).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn errors_show_no_secret() {
    for keys in [
        "c2VjcmV0",
        "{name: a, secret: [c2VjcmV0]}",
        "[{secret: c2VjcmV0, c2V: a}]",
        "[c2VjcmV0",
    ] {
        let text = format!(
            "resources:\n- resources: [secrets]\n  providers: [{{aescbc: {{keys: {keys}}}}}]\n"
        );
        let error = at_rest(&text).await.err().unwrap();
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}

#[tokio::test]
async fn a_file_is_taken_when_it_changes_to_one_that_can_be_used() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("encryption.yaml");
    let write = |providers: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
             resources:\n- resources: [secrets]\n  providers: [{providers}]\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    let old = provider("aesgcm", "old", 'o', 32);
    write(&old);
    let at_rest = AtRest::read(&path, true).await.unwrap();
    let file = at_rest.file.as_ref().unwrap();
    assert!(at_rest.is_read_again() && at_rest.plugins_health().is_empty());
    assert_eq!(at_rest.read_again(file).await, Ok(None));
    let value = sealed(&at_rest).await;
    let opened = at_rest
        .open(kind("", "secrets"), KEY, &value)
        .await
        .unwrap();

    for (bad, why) in [
        ("{aesgcm: {keys: []}}", "at least one keys is required"),
        (
            "{kms: {apiVersion: v2, name: a, endpoint: 'unix:///nowhere/kms.sock'}}",
            "KMS Provider a",
        ),
    ] {
        write(bad);
        let error = at_rest.read_again(file).await.unwrap_err();
        assert!(error.contains(why), "{error}");
        assert!(!is_stale(&at_rest, &value).await);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(at_rest.read_again(file).await.is_err());
    assert_eq!(opened.sealing.generation, at_rest.generation());

    let retries = at_rest.retries();
    write(&format!("{}, {old}", provider("aesgcm", "new", 'n', 32)));
    assert!(at_rest.read_again(file).await.unwrap().is_some());
    assert!(is_stale(&at_rest, &value).await);
    assert!(retries.has_changed().unwrap());
    assert_ne!(opened.sealing.generation, at_rest.generation());
    let fixed = AtRest::read(&path, false).await.unwrap();
    assert!(!fixed.is_read_again() && fixed.plugins_health().is_empty());
}

#[tokio::test]
async fn what_is_sealed_and_opened_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
        resources:\n- resources: [endpoints]\n  providers:\n  - aescbc:\n      keys:\n      \
        - {name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}\n";
    std::fs::write(&path, text).unwrap();
    let at_rest = AtRest::read(&path, false).await.unwrap();
    let kind = kind("", "endpoints");
    let sealed = at_rest.seal(kind, KEY, PLAIN.to_vec()).await.unwrap();
    at_rest.open(kind, KEY, &sealed.into()).await.unwrap();
    let strange = Bytes::from_static(b"k8s:enc:other:v1:k:x");
    at_rest.open(kind, KEY, &strange).await.unwrap_err();
    let mut written = String::new();
    metrics::ALL.iter().for_each(|one| one.write(&mut written));
    for (way, prefix, status) in [
        ("to_storage", "k8s:enc:aescbc:v1:", "OK"),
        ("from_storage", "k8s:enc:aescbc:v1:", "OK"),
        ("from_storage", "unknown", "Unknown"),
    ] {
        let line = format!(
            "apiserver_storage_transformation_operations_total{{resource=\"endpoints\",\
             transformation_type=\"{way}\",transformer_prefix=\"{prefix}\",status=\"{status}\"}} 1\n"
        );
        assert!(written.contains(&line), "{line}\n{written}");
    }
}
