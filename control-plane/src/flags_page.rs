//! The page `docs/kubernetes-flags.md`, made from the commands themselves. Compiled for tests only.

use std::fmt::Write as _;

use clap::{Arg, Command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes-flags.md");

/// The page must match the commands. `UPDATE=1` rewrites it.
#[test]
#[expect(clippy::disallowed_methods, reason = "writes a page of the documents")]
fn the_page_of_flags_is_fresh() {
    let mut page = "# Flags of stele-kube\n\nOne section for each command. Called by the name \
        `kube-apiserver` the program takes the flags of `apiserver`, and by the\nname `etcd` those of \
        the [store](flags.md). This page is made from the commands (`control-plane/src`).\n"
        .to_owned();
    let mut all = super::command();
    // With the flags that are deferred; it adds the command and the flag `help`, which all have.
    all.build();
    let commands = all.get_subcommands();
    for command in commands.filter(|command| command.get_name() != "help") {
        describe(&mut page, command);
    }
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/kubernetes-flags.md is stale: UPDATE=1 cargo test -p control-plane the_page_of_flags"
    );
}

fn describe(page: &mut String, command: &Command) {
    let about = command.get_about().map(ToString::to_string);
    let name = command.get_name();
    writeln!(page, "\n## {name}\n\n{}.", about.unwrap_or_default()).unwrap();
    let mut heading = None;
    let arguments = command.get_arguments();
    let arguments = arguments.filter(|argument| argument.get_id() != "help");
    for (at, argument) in arguments.enumerate() {
        if at == 0 || argument.get_help_heading() != heading {
            heading = argument.get_help_heading();
            if let Some(heading) = heading {
                writeln!(page, "\n### {heading}").unwrap();
            }
            page.push_str("\n| flag | default | |\n|---|---|---|\n");
        }
        row(page, argument);
    }
}

fn row(page: &mut String, argument: &Arg) {
    let flag = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    };
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .filter_map(|value| value.to_str())
        .filter(|_| argument.get_action().takes_values())
        .collect();
    let default = match defaults.join(",") {
        none if none.is_empty() => none,
        some => format!("`{some}`"),
    };
    let help = argument.get_help().map(ToString::to_string);
    let help = help.unwrap_or_default().replace('|', "\\|");
    writeln!(page, "| `{flag}` | {default} | {help} |").unwrap();
}
