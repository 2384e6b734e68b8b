//! What the flags `--authorization-*` say.

use std::time::Duration;

use apiserver::setup::{Authorization, Configured, Mode, WebhookOptions};
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::values::{all, duration, path, text};

/// The name of the webhook that flags configure.
const WEBHOOK: &str = "default";
/// Time for one attempt to ask it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The flags that a configuration file replaces.
const REPLACED: [&str; 5] = [
    "authorization-mode",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
];

/// Reads and checks the flags; `default` is the mode if they name none.
pub(super) fn read(arguments: &ArgMatches, default: Mode) -> Result<Authorization, String> {
    if let Some(file) = path(arguments, "authorization-config") {
        let is_given = |name: &&str| arguments.value_source(name) == Some(ValueSource::CommandLine);
        if REPLACED.iter().any(is_given) {
            return Err(
                "--authorization-config can not be specified when --authorization-mode or \
                 --authorization-webhook-* flags are defined"
                    .to_owned(),
            );
        }
        return Ok(Authorization::File(file));
    }
    let names = all(arguments, "authorization-mode");
    let webhook = path(arguments, "authorization-webhook-config-file");
    if webhook.is_some() && !names.iter().any(|name| name == "Webhook") {
        return Err(
            "cannot specify --authorization-webhook-config-file without mode Webhook".to_owned(),
        );
    }
    let mut chain = Vec::new();
    for name in &names {
        let configured = match mode(name)? {
            Mode::Webhook => Configured::Webhook(webhook_of(arguments)?),
            mode => Configured::Builtin(mode),
        };
        if chain.contains(&configured) {
            let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            return Err(format!(
                "authorization-mode [{}] has mode specified more than once",
                quoted.join(" ")
            ));
        }
        chain.push(configured);
    }
    if chain.is_empty() {
        chain.push(Configured::Builtin(default));
    }
    Ok(Authorization::Chain(chain))
}

/// True if one of the modes that flags name allows everything.
pub(super) fn allows_everything(authorization: &Authorization) -> bool {
    match authorization {
        Authorization::Chain(chain) => chain.contains(&Configured::Builtin(Mode::AlwaysAllow)),
        Authorization::File(_) => false,
    }
}

fn mode(name: &str) -> Result<Mode, String> {
    if name == "ABAC" {
        return Err(
            "--authorization-mode=ABAC is not supported: Node, RBAC, Webhook, AlwaysAllow and \
             AlwaysDeny are"
                .to_owned(),
        );
    }
    Mode::named(name).ok_or_else(|| format!("authorization-mode {name:?} is not a valid mode"))
}

fn webhook_of(arguments: &ArgMatches) -> Result<WebhookOptions, String> {
    let flag = |name: &str| format!("authorization-webhook-{name}");
    let kubeconfig = path(arguments, &flag("config-file"));
    let kubeconfig =
        kubeconfig.ok_or("authorization-mode Webhook's authorization config file not passed")?;
    let version = text(arguments, &flag("version")).unwrap_or_default();
    if !["v1", "v1beta1"].contains(&version.as_str()) {
        return Err(format!(
            "unsupported webhook authorizer version {version:?}, supported versions are \"v1\", \
             \"v1beta1\""
        ));
    }
    let keep_allowed = duration(arguments, &flag("cache-authorized-ttl"))?;
    let keep_others = duration(arguments, &flag("cache-unauthorized-ttl"))?;
    Ok(WebhookOptions {
        name: WEBHOOK.to_owned(),
        kubeconfig,
        version,
        timeout: TIMEOUT,
        keeps_allowed: !keep_allowed.is_zero(),
        keep_allowed,
        keeps_others: !keep_others.is_zero(),
        keep_others,
        denies_on_error: false,
        conditions: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver_command::flags;

    fn asked(words: &[&str]) -> Result<Authorization, String> {
        let command = flags::command("kube-apiserver");
        let arguments = command.get_matches_from([&["kube-apiserver"], words].concat());
        read(&arguments, Mode::Rbac)
    }

    #[test]
    fn modes_are_asked_in_their_order() {
        assert_eq!(asked(&[]), Ok(Authorization::of(&[Mode::Rbac])));
        let both = Authorization::of(&[Mode::Node, Mode::AlwaysDeny]);
        assert_eq!(asked(&["--authorization-mode=Node,AlwaysDeny"]), Ok(both));
        for (words, why) in [
            (
                "--authorization-mode=RBAC,Node,RBAC",
                "authorization-mode [\"RBAC\" \"Node\" \"RBAC\"] has mode specified more than once",
            ),
            (
                "--authorization-mode=Magic",
                "authorization-mode \"Magic\" is not a valid mode",
            ),
            (
                "--authorization-mode=Webhook",
                "authorization-mode Webhook's authorization config file not passed",
            ),
            (
                "--authorization-webhook-config-file=w",
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
        ] {
            assert_eq!(asked(&[words]).unwrap_err(), why);
        }
    }

    #[test]
    fn a_webhook_has_the_defaults_of_kubernetes() {
        let webhook = "--authorization-webhook-config-file=w";
        let chain = asked(&["--authorization-mode=RBAC,Webhook", webhook]).unwrap();
        let Authorization::Chain(chain) = chain else {
            panic!("{chain:?}");
        };
        let [
            Configured::Builtin(Mode::Rbac),
            Configured::Webhook(webhook),
        ] = &chain[..]
        else {
            panic!("{chain:?}");
        };
        assert_eq!(webhook.version, "v1beta1");
        assert_eq!(webhook.keep_allowed, Duration::from_secs(300));
        assert_eq!(webhook.keep_others, Duration::from_secs(30));
        assert!(webhook.keeps_allowed && !webhook.denies_on_error);
    }

    #[test]
    fn a_file_replaces_the_other_flags() {
        let file = "--authorization-config=f";
        assert_eq!(asked(&[file]), Ok(Authorization::File("f".into())));
        let why = asked(&[file, "--authorization-mode=RBAC"]).unwrap_err();
        assert!(
            why.starts_with("--authorization-config can not be specified"),
            "{why}"
        );
        asked(&[file, "--authorization-webhook-version=v1"]).unwrap_err();
    }
}
