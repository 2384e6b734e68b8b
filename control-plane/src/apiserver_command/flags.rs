//! The flags of kube-apiserver by their names, and what becomes of each.
//!
//! A flag that works is read by [`super::options`]. One that has no meaning here is accepted, and
//! said in one line of the log. One whose feature is missing, so that less would be checked or
//! kept than its user believes, is refused when it is set.

use std::sync::LazyLock;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::plugins;
use Effect::{NoMeaning, Refused, Works};
use Form::{List, Pairs, Switch, Text};

/// The version of Kubernetes that the API is of.
const VERSION: &str = "Kubernetes v1.36.3";

/// One flag.
struct Flag {
    name: &'static str,
    form: Form,
    /// The value when it is not given; shown in the help.
    default: &'static str,
    effect: Effect,
    help: &'static str,
}

/// What values a flag takes.
#[derive(Clone, Copy)]
enum Form {
    /// A word, with the name of its type.
    Text(&'static str),
    /// `--flag` means true.
    Switch,
    /// Words with commas between them; given again, more of them.
    List(&'static str),
    /// One word, which may have commas; given again, more of them.
    Pairs(&'static str),
}

/// What becomes of a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Works,
    NoMeaning,
    Refused,
}

/// Flags under one heading of the help.
struct Section {
    heading: &'static str,
    flags: Vec<Flag>,
}

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| parse(include_str!("flags.txt")));

/// The command with all flags; `name` is what it is called by.
pub(super) fn command(name: &'static str) -> Command {
    Command::new(name)
        .about("Serves the API of Kubernetes from a store that speaks etcd's")
        .version(VERSION)
        .disable_version_flag(true)
        // Hundreds, which no other subcommand needs.
        .defer(with_flags)
}

fn with_flags(command: Command) -> Command {
    let version = Arg::new("version")
        .long("version")
        .action(ArgAction::Version)
        .help("Print the version");
    let flags = SECTIONS.iter().flat_map(|section| {
        let flags = section.flags.iter();
        flags.map(|flag| flag.arg().help_heading(section.heading))
    });
    command.arg(version).args(flags)
}

/// Refuses what is set though its feature is missing; says in the log what has no meaning here.
pub(super) fn check(arguments: &ArgMatches) -> Result<(), String> {
    let mut ignored = Vec::new();
    for flag in SECTIONS.iter().flat_map(|section| &section.flags) {
        if arguments.value_source(flag.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        match flag.effect {
            Works => {}
            NoMeaning => ignored.push(format!("--{}", flag.name)),
            Refused => {
                let Flag { name, help, .. } = flag;
                return Err(format!("--{name} is not supported ({help}): leave it out"));
            }
        }
    }
    if !ignored.is_empty() {
        tracing::warn!("these flags have no meaning here: {}", ignored.join(", "));
    }
    plugins::check(
        &super::values::all(arguments, "enable-admission-plugins"),
        &super::values::all(arguments, "disable-admission-plugins"),
    )
}

/// Reads the table. It is part of the program: a line that cannot be read is a bug of ours.
fn parse(text: &'static str) -> Vec<Section> {
    let mut sections = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        if let Some(heading) = line.strip_prefix("# ") {
            let flags = Vec::new();
            sections.push(Section { heading, flags });
        } else if !line.is_empty() {
            let flag = Flag::parse(line).unwrap_or_else(|| panic!("no flag: {line}"));
            let section = sections.last_mut().expect("a heading comes first");
            section.flags.push(flag);
        }
    }
    sections
}

impl Flag {
    fn parse(line: &'static str) -> Option<Flag> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, values, effect, default, help] = columns[..] else {
            return None;
        };
        let form = match values.strip_prefix("list of ") {
            Some(values) => List(values),
            None if values == "switch" => Switch,
            None => match values.strip_prefix("pairs of ") {
                Some(values) => Pairs(values),
                None => Text(values),
            },
        };
        let effect = match effect {
            "works" => Works,
            "no meaning" => NoMeaning,
            "refused" => Refused,
            _ => return None,
        };
        Some(Flag {
            name,
            form,
            default,
            effect,
            help,
        })
    }

    fn arg(&self) -> Arg {
        let help = match self.effect {
            Works => self.help.to_owned(),
            NoMeaning => format!("{} (no meaning here)", self.help),
            Refused => format!("{} (not supported)", self.help),
        };
        let arg = Arg::new(self.name).long(self.name).help(help);
        let arg = match self.form {
            Text(value) => arg
                .value_name(value)
                .action(ArgAction::Set)
                .overrides_with(self.name),
            Switch => arg
                .value_name("bool")
                .value_parser(PossibleValuesParser::new(["true", "false"]))
                .hide_possible_values(true)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .overrides_with(self.name),
            Pairs(value) => arg.value_name(value).action(ArgAction::Append),
            List(value) => arg
                .value_name(value)
                .value_delimiter(',')
                .action(ArgAction::Append),
        };
        match self.default {
            "" => arg,
            default => arg.default_value(default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> ArgMatches {
        command("kube-apiserver").get_matches_from([&["kube-apiserver"], words].concat())
    }

    #[test]
    fn the_table_makes_a_command() {
        command("kube-apiserver").debug_assert();
    }

    #[test]
    fn a_flag_whose_feature_is_missing_is_refused_by_name() {
        let word = "--authorization-policy-file=a.jsonl";
        let error = check(&parsed(&[word])).unwrap_err();
        assert!(
            error.starts_with("--authorization-policy-file is not supported"),
            "{error}"
        );
        check(&parsed(&[
            "--feature-gates=A=true,B=false",
            "--v=4",
            "--profiling=false",
        ]))
        .unwrap();
    }

    #[test]
    fn switches_and_lists_are_written_as_for_go() {
        let words = [
            "--allow-privileged",
            "--etcd-servers=http://a,http://b",
            "--bind-address",
            "::1",
        ];
        let arguments = parsed(&words);
        assert_eq!(
            super::super::values::all(&arguments, "etcd-servers"),
            ["http://a", "http://b"]
        );
        assert_eq!(
            arguments.get_one::<String>("allow-privileged").unwrap(),
            "true"
        );
        let off = parsed(&["--allow-privileged=true", "--allow-privileged=false"]);
        assert_eq!(off.get_one::<String>("allow-privileged").unwrap(), "false");
    }

    /// A tool that starts kube-apiserver looks for flags at the beginnings of lines of its help.
    #[test]
    fn the_help_has_each_flag_at_the_beginning_of_a_line() {
        let help = command("kube-apiserver").render_help().to_string();
        for flag in SECTIONS.iter().flat_map(|section| &section.flags) {
            let start = format!("--{}", flag.name);
            assert!(
                help.lines()
                    .any(|line| line.trim_start().starts_with(&start)),
                "{start}"
            );
        }
        assert!(!help.contains("insecure-port"));
    }
}
