//! The documentation of flags: `--help`, `--version`, and the page `docs/flags.md`.

use super::*;

#[test]
fn help_and_version_leave_with_zero() {
    let (code, text) = refused(&["--version"]);
    assert_eq!((code, text.as_str()), (0, "etcd Version: 3.7.3"));
    for word in ["-h", "--help"] {
        let Err(Exit::Print {
            stdout,
            stderr,
            code: 0,
        }) = run(&[word], &[], "")
        else {
            panic!("{word} is not help");
        };
        assert!(stderr.starts_with("Usage:"));
        for (_, section) in flags::SECTIONS {
            for flag in *section {
                assert!(
                    stdout.contains(&format!("  --{} '", flag.name)),
                    "{}",
                    flag.name
                );
            }
        }
    }
}

/// The page must match the table of flags. `UPDATE=1` rewrites it.
#[test]
#[expect(clippy::disallowed_methods, reason = "writes a page of the documents")]
fn the_page_of_flags_is_fresh() {
    let mut page = "# Flags\n\nEvery flag `--foo-bar` can be set by the variable `ETCD_FOO_BAR`, or by \
        the key `foo-bar` of the file that `--config-file`\nnames; with a file, other flags and \
        variables are ignored. This page is made from the table of flags\n(`server/src/config/flags.rs`).\n"
        .to_owned();
    for (title, section) in flags::SECTIONS {
        page += &format!("\n## {title}\n\n| flag | default | |\n|---|---|---|\n");
        for flag in *section {
            let effect = match flag.effect {
                flags::Effect::Used => "",
                flags::Effect::Moot => " *Taken, without effect here.*",
                flags::Effect::Ignored => " *Ignored, as by etcd.*",
            };
            let default = match flag.default {
                "" => String::new(),
                default => format!("`{}`", default.replace('|', "\\|")),
            };
            let help = flag.help.replace('|', "\\|");
            page += &format!("| `--{}` | {default} | {help}{effect} |\n", flag.name);
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/flags.md");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "docs/flags.md is stale: UPDATE=1 cargo test -p stele --lib the_page_of_flags"
    );
}
