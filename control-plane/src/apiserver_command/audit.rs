//! What the flags `--audit-*` say.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use apiserver::audit::options::{Handling, LogOptions, Options, WebhookOptions};
use clap::ArgMatches;

use super::values::{duration, is_on, parsed, path, text};

/// Reads and checks the flags.
pub(super) fn read(arguments: &ArgMatches) -> Result<Options, String> {
    let log = match path(arguments, "audit-log-path") {
        Some(path) => Some(log(arguments, path)?),
        None => None,
    };
    let webhook = match path(arguments, "audit-webhook-config-file") {
        Some(config_file) => Some(WebhookOptions {
            config_file,
            initial_backoff: backoff(arguments)?,
            handling: handling(arguments, "webhook")?,
        }),
        None => None,
    };
    let options = Options {
        policy_file: path(arguments, "audit-policy-file"),
        log,
        webhook,
    };
    options.validate()?;
    Ok(options)
}

fn log(arguments: &ArgMatches, path: PathBuf) -> Result<LogOptions, String> {
    Ok(LogOptions {
        path,
        format: text(arguments, "audit-log-format").unwrap_or_default(),
        max_age: number(arguments, "audit-log-maxage")?,
        max_backups: number(arguments, "audit-log-maxbackup")?,
        max_size: number(arguments, "audit-log-maxsize")?,
        compress: is_on(arguments, "audit-log-compress"),
        handling: handling(arguments, "log")?,
    })
}

/// What files and webhooks have in common.
fn handling(arguments: &ArgMatches, target: &str) -> Result<Handling, String> {
    let flag = |name: &str| format!("audit-{target}-{name}");
    let number = |name: &str| number(arguments, &flag(name));
    Ok(Handling {
        version: text(arguments, &flag("version")).unwrap_or_default(),
        mode: text(arguments, &flag("mode")).unwrap_or_default(),
        buffer_size: number("batch-buffer-size")?,
        max_batch_size: number("batch-max-size")?,
        max_batch_wait: duration(arguments, &flag("batch-max-wait"))?,
        throttle: is_on(arguments, &flag("batch-throttle-enable")),
        throttle_qps: self::number(arguments, &flag("batch-throttle-qps"))?,
        throttle_burst: number("batch-throttle-burst")?,
        truncate: is_on(arguments, &flag("truncate-enabled")),
        max_batch_bytes: number("truncate-max-batch-size")?,
        max_event_bytes: number("truncate-max-event-size")?,
    })
}

/// The pause before a webhook is called again; the flag has an older name.
fn backoff(arguments: &ArgMatches) -> Result<Duration, String> {
    let older = "audit-webhook-batch-initial-backoff";
    if text(arguments, older).is_some() {
        tracing::warn!("--{older} is deprecated: use --audit-webhook-initial-backoff instead");
        return duration(arguments, older);
    }
    duration(arguments, "audit-webhook-initial-backoff")
}

fn number<T>(arguments: &ArgMatches, name: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    parsed(arguments, name)?.ok_or_else(|| format!("--{name} is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver_command::flags;

    fn asked(words: &[&str]) -> Result<Options, String> {
        let command = flags::command("kube-apiserver");
        read(&command.get_matches_from([&["kube-apiserver"], words].concat()))
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let none = asked(&[]).unwrap();
        assert!(none.log.is_none() && none.webhook.is_none() && none.policy_file.is_none());
        let given = asked(&["--audit-log-path=-", "--audit-webhook-config-file=a.yaml"]).unwrap();
        let log = given.log.unwrap();
        assert_eq!(
            (log.max_age, log.max_backups, log.max_size),
            (366, 100, 100)
        );
        assert_eq!((&*log.format, log.compress), ("json", false));
        let Handling { mode, .. } = &log.handling;
        assert_eq!((&**mode, log.handling.max_batch_size), ("blocking", 1));
        assert!(!log.handling.throttle && !log.handling.truncate);
        let webhook = given.webhook.unwrap();
        assert_eq!(webhook.initial_backoff, Duration::from_secs(10));
        let handling = webhook.handling;
        assert_eq!((&*handling.mode, handling.max_batch_size), ("batch", 400));
        assert_eq!(handling.max_batch_wait, Duration::from_secs(30));
        assert_eq!((handling.throttle_qps, handling.throttle_burst), (10.0, 15));
        assert_eq!(handling.max_batch_bytes, 10 << 20);
        assert_eq!(handling.max_event_bytes, 100 << 10);
    }

    #[test]
    fn values_that_make_no_sense_are_refused_in_kubernetes_words() {
        for (flag, why) in [
            (
                "--audit-log-mode=now",
                "invalid audit log mode now, allowed modes are \"batch,blocking,blocking-strict\"",
            ),
            (
                "--audit-log-format=text",
                "invalid audit log format text, allowed formats are \"legacy,json\"",
            ),
            (
                "--audit-log-maxage=-1",
                "--audit-log-maxage -1 can't be a negative number",
            ),
            (
                "--audit-log-truncate-max-event-size=0",
                "invalid audit truncate log max event size 0, must be a positive number",
            ),
            (
                "--audit-log-truncate-max-batch-size=1",
                "invalid audit truncate log max batch size 1, must be greater than max event size \
                 (102400)",
            ),
        ] {
            assert_eq!(asked(&["--audit-log-path=-", flag]).unwrap_err(), why);
            asked(&[flag]).unwrap();
        }
        let batch = ["--audit-log-path=-", "--audit-log-mode=batch"];
        let size = "--audit-log-batch-buffer-size=0";
        assert_eq!(
            asked(&[&batch[..], &[size, "--audit-log-maxsize=-2"]].concat()).unwrap_err(),
            "[invalid audit batch log buffer size 0, must be a positive number, \
             --audit-log-maxsize -2 can't be a negative number]"
        );
        asked(&["--audit-log-path=-", size]).unwrap();
    }
}
