//! What the flags of authentication say, besides those of certificates and service accounts.

use apiserver::auth::token_review;
use apiserver::setup::Further;
use clap::ArgMatches;

use super::options::{duration, is_on, path, text};

/// Reads the flags.
pub(super) fn further(arguments: &ArgMatches) -> Result<Further, String> {
    Ok(Further {
        bootstrap_tokens: is_on(arguments, "enable-bootstrap-token-auth"),
        webhook: webhook(arguments)?,
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
}
