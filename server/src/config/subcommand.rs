//! Command lines of `etcd WORD start`: flags as Go's `pflag` reads them, which differ from a
//! member's. Two dashes, `=` or a space, booleans without a value, flags and other words in any
//! order, lists that grow with every flag. Does not know what flags mean.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::Exit;

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bool,
    Int,
    Uint,
    Uint32,
    Duration,
    List,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

/// A command such as `grpc-proxy`, whose only subcommand is `start`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// What `start` does.
    pub(crate) does: &'static str,
    /// Sorted by name.
    pub(crate) flags: &'static [Flag],
}

/// The value of every flag. Their texts have been checked against their kinds.
#[derive(Clone, Debug)]
pub(crate) struct Values(BTreeMap<&'static str, Vec<String>>);

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Text => " string",
            Kind::Bool => "",
            Kind::Int => " int",
            Kind::Uint => " uint",
            Kind::Uint32 => " uint32",
            Kind::Duration => " duration",
            Kind::List => " strings",
        }
    }

    /// The error is Go's.
    fn check(self, text: &str) -> Result<(), String> {
        let number = |parser: &str, least: i128, most: i128| match go_text::parse_int(text) {
            Some(value) if (least..=most).contains(&value) => Ok(()),
            Some(value) if least < 0 || value >= 0 => Err(format!(
                "strconv.{parser}: parsing {text:?}: value out of range"
            )),
            _ => Err(format!(
                "strconv.{parser}: parsing {text:?}: invalid syntax"
            )),
        };
        match self {
            Kind::Text | Kind::List => Ok(()),
            Kind::Bool if go_text::parse_bool(text).is_some() => Ok(()),
            Kind::Bool => Err(format!(
                "strconv.ParseBool: parsing {text:?}: invalid syntax"
            )),
            Kind::Int => number("ParseInt", i64::MIN.into(), i64::MAX.into()),
            Kind::Uint => number("ParseUint", 0, u64::MAX.into()),
            Kind::Uint32 => number("ParseUint", 0, u32::MAX.into()),
            Kind::Duration => go_text::parse_duration(text).map(drop),
        }
    }
}

impl Flag {
    /// The default as `--help` shows it; `None` for Go's zero values.
    fn shown_default(&self) -> Option<String> {
        match self.kind {
            _ if matches!(self.default, "" | "0" | "false") => None,
            Kind::Text => Some(format!("{:?}", self.default)),
            Kind::List => Some(format!("[{}]", self.default)),
            _ => Some(self.default.to_owned()),
        }
    }
}

impl Command {
    /// Parses what follows the command's name.
    pub(crate) fn parse(&self, args: &[String]) -> Result<Values, Exit> {
        let printed = |stdout: String, stderr: String, code| Exit::Print {
            stdout,
            stderr,
            code,
        };
        let wrong = |error: String, usage: String| {
            printed(
                String::new(),
                format!("Error: {error}\n{usage}\n{error}\n"),
                1,
            )
        };
        let Some(at) = args.iter().position(|arg| !arg.starts_with('-')) else {
            return Err(match args.first().map(String::as_str) {
                None | Some("-h" | "--help") => printed(self.overview(), String::new(), 0),
                Some(flag) => wrong(unknown(flag), self.usage()),
            });
        };
        if args[at] != "start" {
            return Err(printed(self.overview(), String::new(), 0));
        }
        let mut words = args.to_vec();
        words.remove(at);
        self.values(&words).map_err(|stop| match stop {
            None => {
                let help = format!("{}\n\n{}", self.does, self.start_usage());
                printed(help, String::new(), 0)
            }
            Some(error) => wrong(error, self.start_usage()),
        })
    }

    /// The error is `None` if help was asked for.
    fn values(&self, words: &[String]) -> Result<Values, Option<String>> {
        let mut values: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            if matches!(word.as_str(), "-h" | "--help") {
                return Err(None);
            }
            // Other words are ignored.
            if word == "-" || !word.starts_with('-') {
                continue;
            }
            let (name, given) = match word.strip_prefix("--").map(|name| name.split_once('=')) {
                Some(Some((name, text))) => (name, Some(text.to_owned())),
                Some(None) => (&word[2..], None),
                None => return Err(Some(unknown(word))),
            };
            let Some(flag) = self.flags.iter().find(|flag| flag.name == name) else {
                return Err(Some(unknown(word)));
            };
            let text = match given {
                Some(text) => text,
                None if flag.kind == Kind::Bool => "true".to_owned(),
                None => match words.next() {
                    Some(text) => text.clone(),
                    None => return Err(Some(format!("flag needs an argument: {word}"))),
                },
            };
            flag.kind.check(&text).map_err(|error| {
                format!("invalid argument {text:?} for \"--{name}\" flag: {error}")
            })?;
            let value = values.entry(flag.name).or_default();
            if flag.kind != Kind::List {
                value.clear();
            }
            value.push(text);
        }
        for flag in self.flags {
            let default = || vec![flag.default.to_owned()];
            values.entry(flag.name).or_insert_with(default);
        }
        Ok(Values(values))
    }

    fn overview(&self) -> String {
        format!("{} related command\n\n{}", self.name, self.usage())
    }

    fn usage(&self) -> String {
        let (name, does) = (self.name, self.does);
        format!(
            "Usage:\n  etcd {name} [command]\n\nAvailable Commands:\n  start       {does}\n\nFlags:\n  \
             -h, --help   help for {name}\n\nUse \"etcd {name} [command] --help\" for more \
             information about a command.\n"
        )
    }

    fn start_usage(&self) -> String {
        let mut rows: Vec<(String, String)> = Vec::new();
        for flag in self.flags {
            let name = format!("      --{}{}", flag.name, flag.kind.word());
            let default = flag.shown_default();
            let default = default.map_or(String::new(), |text| format!(" (default {text})"));
            rows.push((name, format!("{}{default}", flag.help)));
        }
        rows.push(("  -h, --help".to_owned(), "help for start".to_owned()));
        rows.sort_by(|a, b| a.0[6..].cmp(&b.0[6..]));
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut out = format!("Usage:\n  etcd {} start [flags]\n\nFlags:\n", self.name);
        for (name, help) in rows {
            let _ = writeln!(out, "{name:width$}   {help}");
        }
        out
    }
}

fn unknown(word: &str) -> String {
    match word.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or_default();
            format!("unknown flag: --{name}")
        }
        None => {
            let letter = word.chars().nth(1).unwrap_or('-');
            format!("unknown shorthand flag: {letter:?} in {word}")
        }
    }
}

impl Values {
    pub(crate) fn text(&self, name: &str) -> &str {
        let texts = self.0.get(name).expect("a flag outside the flag table");
        texts.last().map_or("", String::as_str)
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        go_text::parse_bool(self.text(name)).unwrap_or_default()
    }

    pub(crate) fn int(&self, name: &str) -> i128 {
        go_text::parse_int(self.text(name)).unwrap_or_default()
    }

    /// Negative durations count as zero.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        let nanos = go_text::parse_duration(self.text(name)).unwrap_or_default();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let texts = self.0.get(name).expect("a flag outside the flag table");
        let items = texts.iter().flat_map(|text| text.split(','));
        let items = items.filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        name: "ferry",
        does: "start the ferry",
        flags: &[
            flag("at", Kind::List, "a:1", "where"),
            flag("fast", Kind::Bool, "false", "hurry"),
            flag("wait", Kind::Duration, "1m0s", "for"),
            flag("ways", Kind::Uint32, "7", "how many"),
        ],
    };

    const fn flag(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        help: &'static str,
    ) -> Flag {
        Flag {
            name,
            kind,
            default,
            help,
        }
    }

    fn parse(words: &str) -> Result<Values, Exit> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        COMMAND.parse(&words)
    }

    fn error(words: &str) -> String {
        match parse(words) {
            Err(Exit::Print {
                stderr, code: 1, ..
            }) => {
                let line = stderr.lines().next().unwrap_or_default();
                line.trim_start_matches("Error: ").to_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_are_read_as_pflag_reads_them() {
        let values = parse("start --at b:2,c:3 over --fast --at=d:4 --wait=2s").unwrap();
        assert_eq!(values.list("at"), ["b:2", "c:3", "d:4"]);
        assert!(values.bool("fast"));
        assert_eq!(values.duration("wait"), Duration::from_secs(2));
        assert_eq!(values.int("ways"), 7);
        // As in Go, a boolean takes no second word.
        let values = parse("--fast start false -- --nothing").unwrap();
        assert!(values.bool("fast"));
        assert_eq!(parse("start --at=").unwrap().list("at"), [""; 0]);
    }

    #[test]
    fn errors_have_pflags_words() {
        let cases = [
            ("start --slow=1", "unknown flag: --slow"),
            ("--slow", "unknown flag: --slow"),
            ("start -xy", "unknown shorthand flag: 'x' in -xy"),
            ("start --ways", "flag needs an argument: --ways"),
            (
                "start --ways=-1",
                "invalid argument \"-1\" for \"--ways\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
            ),
            (
                "start --ways=4294967296",
                "invalid argument \"4294967296\" for \"--ways\" flag: strconv.ParseUint: parsing \"4294967296\": value out of range",
            ),
            (
                "start --fast=maybe",
                "invalid argument \"maybe\" for \"--fast\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "start --wait=x",
                "invalid argument \"x\" for \"--wait\" flag: time: invalid duration \"x\"",
            ),
        ];
        for (words, text) in cases {
            assert_eq!(error(words), text, "{words}");
        }
    }

    #[test]
    fn help_is_laid_out_as_cobra_does() {
        let Err(Exit::Print {
            stdout, code: 0, ..
        }) = parse("start -h")
        else {
            panic!("no help");
        };
        let expected = "start the ferry\n\nUsage:\n  etcd ferry start [flags]\n\nFlags:
      --at strings      where (default [a:1])
      --fast            hurry
  -h, --help            help for start
      --wait duration   for (default 1m0s)
      --ways uint32     how many (default 7)\n";
        assert_eq!(stdout, expected);
        for words in ["", "--help", "stop"] {
            let Err(Exit::Print {
                stdout, code: 0, ..
            }) = parse(words)
            else {
                panic!("{words}: no overview");
            };
            assert!(stdout.starts_with("ferry related command\n\nUsage:\n  etcd ferry [command]"));
        }
    }
}
