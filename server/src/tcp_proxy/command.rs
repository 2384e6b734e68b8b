//! The command line of `etcd gateway`, by the rules of Go's pflag: two dashes, flags before and
//! after other words, the last of several wins, but lists grow.

use std::time::Duration;

use crate::dns::clients::Domain;

/// As in etcd, in place of a delay of 0.
const RETRY_DELAY_DEFAULT: Duration = Duration::from_secs(5 * 60);

const ROOT_USAGE: &str = "Usage:
  etcd gateway [command]

Available Commands:
  start       start the gateway

Flags:
  -h, --help   help for gateway

Use \"etcd gateway [command] --help\" for more information about a command.
";

const START_USAGE: &str = "Usage:
  etcd gateway start [flags]

Flags:
      --discovery-srv string        DNS domain used to bootstrap initial cluster
      --discovery-srv-name string   service name to query when using DNS discovery
      --endpoints strings           comma separated etcd cluster endpoints (default [127.0.0.1:2379])
  -h, --help                        help for start
      --insecure-discovery          accept insecure SRV records
      --listen-addr string          listen address (default \"127.0.0.1:23790\")
      --retry-delay duration        duration of delay before retrying failed endpoints (default 1m0s)
      --trusted-ca-file string      path to the client server TLS CA file for verifying the discovered endpoints when discovery-srv is provided.
";

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help(String),
    Wrong { error: String, usage: &'static str },
    Start(Options),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Used if nothing is found in `domain`.
    pub(super) endpoints: Vec<String>,
    pub(super) domain: Domain,
    pub(super) listen_addr: String,
    /// Pause before an endpoint that failed is tried again.
    pub(super) retry_delay: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoints: vec!["127.0.0.1:2379".to_owned()],
            domain: Domain::default(),
            listen_addr: "127.0.0.1:23790".to_owned(),
            retry_delay: Duration::from_secs(60),
        }
    }
}

/// Parses the words after `gateway`.
pub(super) fn parse(args: &[String]) -> Command {
    let Some(place) = place_of_start(args) else {
        return match refused_by_root(args) {
            None => Command::Help(format!("gateway related command\n\n{ROOT_USAGE}")),
            Some(error) => Command::Wrong {
                error,
                usage: ROOT_USAGE,
            },
        };
    };
    let mut reading = Reading::default();
    let words = args[..place].iter().chain(&args[place + 1..]);
    match reading.all(words) {
        Ok(()) => Command::Start(reading.options),
        Err(Stop::Help) => Command::Help(format!("start the gateway\n\n{START_USAGE}")),
        Err(Stop::Error(error)) => Command::Wrong {
            error,
            usage: START_USAGE,
        },
    }
}

/// The first word that is neither a flag nor, by its place, a flag's value, if it is `start`. Here,
/// every flag without `=` counts as one with a value.
fn place_of_start(args: &[String]) -> Option<usize> {
    let mut place = 0;
    while let Some(word) = args.get(place) {
        match word.as_str() {
            "--" => return None,
            flag if flag.starts_with("--") && !flag.contains('=') => place += 1,
            flag if flag.starts_with('-') && flag.len() == 2 => place += 1,
            flag if flag.starts_with('-') => {}
            word => return (word == "start").then_some(place),
        }
        place += 1;
    }
    None
}

/// Why `gateway` without `start` is refused: it has no flags but the one for help.
fn refused_by_root(args: &[String]) -> Option<String> {
    for word in args {
        match word.as_str() {
            "--" | "-h" | "--help" => return None,
            word => {
                if let Some(error) = unknown(word) {
                    return Some(error);
                }
            }
        }
    }
    None
}

/// The error of a flag that does not exist; `None` if the word is no flag.
fn unknown(word: &str) -> Option<String> {
    if let Some(flag) = word.strip_prefix("--") {
        let name = flag.split('=').next().unwrap_or_default();
        return Some(if name.is_empty() || name.starts_with('-') {
            format!("bad flag syntax: {word}")
        } else {
            format!("unknown flag: --{name}")
        });
    }
    let letter = word.strip_prefix('-')?.chars().next()?;
    Some(format!("unknown shorthand flag: {letter:?} in {word}"))
}

enum Stop {
    Help,
    Error(String),
}

#[derive(Default)]
struct Reading {
    options: Options,
    /// The first `--endpoints` replaces the default, others add to it.
    has_endpoints: bool,
}

impl Reading {
    fn all<'a>(&mut self, mut words: impl Iterator<Item = &'a String>) -> Result<(), Stop> {
        while let Some(word) = words.next() {
            let (name, value) = match word.as_str() {
                "--" => return Ok(()),
                "-h" | "--help" => return Err(Stop::Help),
                word => match word.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (word, None),
                },
            };
            let Some(name) = known(name) else {
                match unknown(word) {
                    Some(error) => return Err(Stop::Error(error)),
                    None => continue,
                }
            };
            let value = match value {
                Some(value) => value,
                None if name == "insecure-discovery" => "true",
                None => words
                    .next()
                    .ok_or_else(|| Stop::Error(format!("flag needs an argument: --{name}")))?,
            };
            self.set(name, value).map_err(|reason| {
                Stop::Error(format!(
                    "invalid argument {value:?} for \"--{name}\" flag: {reason}"
                ))
            })?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let options = &mut self.options;
        match name {
            "endpoints" => {
                if !std::mem::replace(&mut self.has_endpoints, true) {
                    options.endpoints.clear();
                }
                let endpoints = value.split(',').filter(|_| !value.is_empty());
                options.endpoints.extend(endpoints.map(str::to_owned));
            }
            "discovery-srv" => options.domain.name = value.to_owned(),
            "discovery-srv-name" => options.domain.suffix = value.to_owned(),
            "insecure-discovery" => {
                options.domain.insecure = go_text::parse_bool(value).ok_or_else(|| {
                    format!("strconv.ParseBool: parsing {value:?}: invalid syntax")
                })?;
            }
            "trusted-ca-file" => options.domain.trusted_ca_file = value.to_owned(),
            "listen-addr" => options.listen_addr = value.to_owned(),
            _ => {
                let nanos = go_text::parse_duration(value)?;
                options.retry_delay = match u64::try_from(nanos) {
                    Ok(1..) => Duration::from_nanos(nanos.unsigned_abs()),
                    _ => RETRY_DELAY_DEFAULT,
                };
            }
        }
        Ok(())
    }
}

fn known(word: &str) -> Option<&'static str> {
    let flags = [
        "discovery-srv",
        "discovery-srv-name",
        "endpoints",
        "insecure-discovery",
        "listen-addr",
        "retry-delay",
        "trusted-ca-file",
    ];
    let name = word.strip_prefix("--")?;
    flags.into_iter().find(|flag| *flag == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Command {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn flags_stand_before_and_after_the_command() {
        let Command::Start(options) = parsed(
            "--endpoints=a:1,b:2 start x --endpoints c:3 --insecure-discovery --retry-delay 3s -- --no",
        ) else {
            panic!("it must start");
        };
        assert_eq!(options.endpoints, ["a:1", "b:2", "c:3"]);
        assert!(options.domain.insecure);
        assert_eq!(options.retry_delay, Duration::from_secs(3));
        assert_eq!(parsed("start"), Command::Start(Options::default()));
    }

    #[test]
    fn no_delay_is_etcds_own_delay() {
        for text in ["0", "-1s"] {
            let Command::Start(options) = parsed(&format!("start --retry-delay={text}")) else {
                panic!("it must start");
            };
            assert_eq!(options.retry_delay, RETRY_DELAY_DEFAULT);
        }
    }
}
