//! What `deny.toml` says of licences and sources, checked without cargo-deny, which is not on every
//! machine. It also knows advisories and yanked packages; this does not.

use cargo_metadata::MetadataCommand;
use testkit::workspace_root;

/// The only packages that are built are those for the platform that is tested.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_package_has_a_licence_and_a_source_that_deny_toml_allows() {
    let deny = std::fs::read_to_string(workspace_root().join("deny.toml")).unwrap();
    let allowed = allowed(&deny);
    let metadata = MetadataCommand::new()
        .manifest_path(workspace_root().join("Cargo.toml"))
        .other_options(["--locked", "--filter-platform", PLATFORM].map(str::to_owned))
        .exec()
        .unwrap();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let name = &package.name;
        let licence = package.license.as_deref().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            wrong.push(format!("{name}: licence '{licence}'"));
        }
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        if source.is_some_and(|source| source != REGISTRY) {
            wrong.push(format!("{name}: from {source:?}"));
        }
    }
    assert!(metadata.packages.len() > 100, "the packages were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_is_allowed_when_each_part_of_it_is() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("(MIT AND GPL-3.0) OR LGPL-2.1", false),
        ("Apache-2.0 AND (GPL-3.0 OR LGPL-2.1)", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

/// The words of `allow = [ … ]` under `[licenses]`.
fn allowed(deny: &str) -> Vec<&str> {
    let (_, licences) = deny.split_once("[licenses]").unwrap();
    let (_, list) = licences.split_once("allow = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    list.split('"').skip(1).step_by(2).collect()
}

/// Evaluates an SPDX expression; `/` is an old way to write OR.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.trim();
    if let Some(parts) = parts(expression, &[" OR ", "/"]) {
        return parts.iter().any(|part| is_allowed(part, allowed));
    }
    if let Some(parts) = parts(expression, &[" AND "]) {
        return parts.iter().all(|part| is_allowed(part, allowed));
    }
    let inner = expression
        .strip_prefix('(')
        .and_then(|e| e.strip_suffix(')'));
    match inner {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed.contains(&expression),
    }
}

/// The parts between these words that are in no parentheses; `None` when there is only one.
fn parts<'a>(expression: &'a str, words: &[&str]) -> Option<Vec<&'a str>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let word = words
            .iter()
            .find(|word| expression[at..].starts_with(**word));
        if let Some(word) = word.filter(|_| depth == 0 && at >= start) {
            parts.push(&expression[start..at]);
            start = at + word.len();
        }
    }
    parts.push(&expression[start..]);
    (parts.len() > 1).then_some(parts)
}
