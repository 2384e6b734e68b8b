//! What the flags of authentication say, besides those of certificates and service accounts.

use std::path::PathBuf;

use apiserver::auth::authenticate::{front_proxy, openid, token_review};
use apiserver::setup::Further;
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::values::{all, duration, is_on, path, text};

/// The flags of OpenID, each of which needs the first two.
const OPENID: [&str; 9] = [
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-ca-file",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-required-claim",
    "oidc-signing-algs",
    "oidc-username-claim",
    "oidc-username-prefix",
];

/// Reads the flags.
pub(super) fn further(arguments: &ArgMatches) -> Result<Further, String> {
    Ok(Further {
        bootstrap_tokens: is_on(arguments, "enable-bootstrap-token-auth"),
        webhook: webhook(arguments)?,
        openid: openid(arguments)?,
        configuration: path(arguments, "authentication-config"),
        proxies: proxies(arguments)?,
        extensions: extensions(arguments)?,
    })
}

fn webhook(arguments: &ArgMatches) -> Result<Option<token_review::Options>, String> {
    let flag = |name: &str| format!("authentication-token-webhook-{name}");
    let Some(config_file) = path(arguments, &flag("config-file")) else {
        return Ok(None);
    };
    Ok(Some(token_review::Options {
        config_file,
        version: text(arguments, &flag("version")).unwrap_or_default(),
        keep: duration(arguments, &flag("cache-ttl"))?,
    }))
}

fn openid(arguments: &ArgMatches) -> Result<Option<openid::Options>, String> {
    let is_given = |name: &&str| arguments.value_source(name) == Some(ValueSource::CommandLine);
    if !OPENID.iter().any(is_given) {
        return Ok(None);
    }
    if path(arguments, "authentication-config").is_some() {
        return Err(
            "authentication-config file and oidc-* flags are mutually exclusive".to_owned(),
        );
    }
    let text = |name: &str| text(arguments, name).unwrap_or_default();
    let (issuer, client_id) = (text("oidc-issuer-url"), text("oidc-client-id"));
    if issuer.is_empty() || client_id.is_empty() {
        return Err(
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags \
             are set"
                .to_owned(),
        );
    }
    let required = all(arguments, "oidc-required-claim");
    let required = required.iter().map(|pair| {
        let (claim, value) = pair
            .split_once('=')
            .ok_or("malformed pair, expect string=string")?;
        Ok((claim.trim().to_owned(), value.trim().to_owned()))
    });
    let required: Result<Vec<_>, &str> = required.collect();
    Ok(Some(openid::Options {
        issuer,
        client_id,
        username_claim: text("oidc-username-claim"),
        username_prefix: text("oidc-username-prefix"),
        groups_claim: text("oidc-groups-claim"),
        groups_prefix: text("oidc-groups-prefix"),
        required_claims: required.map_err(|why| format!("--oidc-required-claim: {why}"))?,
        algorithms: all(arguments, "oidc-signing-algs"),
        authority: path(arguments, "oidc-ca-file"),
    }))
}

/// The certificate for servers that extend this one, and its key.
fn extensions(arguments: &ArgMatches) -> Result<Option<(PathBuf, PathBuf)>, String> {
    let certificate = path(arguments, "proxy-client-cert-file");
    let key = path(arguments, "proxy-client-key-file");
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(
            "--proxy-client-cert-file and --proxy-client-key-file must be specified together"
                .to_owned(),
        ),
    }
}

fn proxies(arguments: &ArgMatches) -> Result<Option<front_proxy::Options>, String> {
    let headers = |name: &str| {
        let given = arguments.get_many::<String>(name).into_iter().flatten();
        let given: Vec<String> = given.cloned().collect();
        if given.iter().any(|one| one.trim().is_empty()) {
            return Err(format!("empty value in {name:?}"));
        }
        Ok(given)
    };
    let options = front_proxy::Options {
        authority: path(arguments, "requestheader-client-ca-file").unwrap_or_default(),
        allowed_names: headers("requestheader-allowed-names")?,
        user_headers: headers("requestheader-username-headers")?,
        uid_headers: headers("requestheader-uid-headers")?,
        group_headers: headers("requestheader-group-headers")?,
        extra_prefixes: headers("requestheader-extra-headers-prefix")?,
    };
    // Without an authority nobody is believed, whatever the headers are called.
    Ok(Some(options).filter(|options| !options.authority.as_os_str().is_empty()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::apiserver_command::flags;

    fn asked(words: &[&str]) -> Result<Further, String> {
        let command = flags::command("kube-apiserver");
        further(&command.get_matches_from([&["kube-apiserver"], words].concat()))
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        assert_eq!(asked(&[]).unwrap(), Further::default());
        let config = "--authentication-token-webhook-config-file=a.yaml";
        let webhook = asked(&[config]).unwrap().webhook.unwrap();
        assert_eq!(webhook.version, "v1beta1");
        assert_eq!(webhook.keep, Duration::from_secs(120));
    }

    #[test]
    fn openid_needs_an_issuer_and_a_client() {
        for words in [
            &["--oidc-issuer-url=https://a"][..],
            &["--oidc-client-id=c"],
            &["--oidc-username-claim=sub"],
        ] {
            let why = asked(words).unwrap_err();
            assert!(why.contains("must be specified together"), "{why}");
        }
        let both = ["--oidc-issuer-url=https://a", "--oidc-client-id=c"];
        let openid = asked(&both).unwrap().openid.unwrap();
        assert_eq!(openid.username_claim, "sub");
        assert_eq!(openid.algorithms, ["RS256"]);
        let claims = ["--oidc-required-claim=a=b,c", "--oidc-required-claim=d=e=f"];
        let openid = asked(&[both, claims].concat()).unwrap().openid.unwrap();
        let pair = |claim: &str, value: &str| (claim.to_owned(), value.to_owned());
        assert_eq!(openid.required_claims, [pair("a", "b,c"), pair("d", "e=f")]);
        let bad = ["--oidc-required-claim=a", "--oidc-groups-claim=g"];
        asked(&[both, bad].concat()).unwrap_err();
    }

    #[test]
    fn a_file_replaces_the_flags_of_openid() {
        let file = "--authentication-config=f";
        assert_eq!(asked(&[file]).unwrap().configuration, Some("f".into()));
        let why = asked(&[file, "--oidc-issuer-url=https://a"]).unwrap_err();
        assert!(why.ends_with("are mutually exclusive"), "{why}");
    }

    #[test]
    fn proxies_are_believed_only_with_an_authority() {
        let names = "--requestheader-username-headers=X-Remote-User,X-User";
        assert_eq!(asked(&[names]).unwrap().proxies, None);
        let authority = "--requestheader-client-ca-file=ca.pem";
        let proxies = asked(&[names, authority]).unwrap().proxies.unwrap();
        assert_eq!(proxies.user_headers, ["X-Remote-User", "X-User"]);
        let blank = "--requestheader-group-headers= ";
        assert!(asked(&[authority, blank]).is_err());
    }
}
