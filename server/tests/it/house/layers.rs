//! Layers inside a crate: which top module may name which.
//!
//! `tidy` enforces the edges between crates; this enforces those between the top modules of one
//! crate. A table lists the modules from the lowest to the highest, and each names only modules
//! above its row in the table, so that a cycle cannot be written down. A top module that only groups
//! others has no row: the modules in it have, as `group::module`.

mod circles;
mod names;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use testkit::workspace_root;

use names::Names;
use tables::{APISERVER, CONTROLLERS, MACHINERY, RAFT, SERVER, STORAGE};

/// The layers of one crate.
struct Layers {
    /// The folder of its sources.
    sources: &'static str,
    /// A top module and the others that it may name, from the lowest to the highest. The root
    /// (`lib.rs`, `main.rs`) may name all of them and none may name the root.
    modules: &'static [(&'static str, &'static [&'static str])],
    /// A top module and crates that it must not name.
    without: &'static [(&'static str, &'static [&'static str])],
}

#[test]
fn the_modules_of_the_apiserver_name_each_other_one_way_only() {
    check(&APISERVER);
}

#[test]
fn the_modules_of_the_server_name_each_other_one_way_only() {
    check(&SERVER);
}

#[test]
fn the_modules_of_raft_name_each_other_one_way_only() {
    check(&RAFT);
}

#[test]
fn the_modules_of_storage_name_each_other_one_way_only() {
    check(&STORAGE);
}

#[test]
fn the_modules_of_machinery_name_each_other_one_way_only() {
    check(&MACHINERY);
}

#[test]
fn the_modules_of_the_controllers_name_each_other_one_way_only() {
    check(&CONTROLLERS);
}

/// Fails with every edge that the table does not have.
fn check(layers: &Layers) {
    let out_of_order = layers.out_of_order();
    assert!(out_of_order.is_empty(), "{}", out_of_order.join("\n"));
    let root = workspace_root().join(layers.sources);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, text) in sources(&root) {
        let place = module_path(&file);
        seen.extend(layers.room(&place));
        wrong.extend(layers.violations(&file, &place, &text));
    }
    let known: BTreeSet<String> = layers.names().map(str::to_owned).collect();
    assert_eq!(seen, known, "modules and rows of the table differ");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Layers {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.modules.iter().map(|(name, _)| *name)
    }

    /// The top modules that only group others.
    fn groups(&self) -> BTreeSet<&'static str> {
        let paths = self.names().filter_map(|name| name.split_once("::"));
        paths.map(|(group, _)| group).collect()
    }

    /// The module with a row that a path lies in. None for the root, and for a group's own file.
    fn room(&self, place: &[String]) -> Option<String> {
        let top = place.first()?;
        if !self.groups().contains(top.as_str()) {
            return Some(top.clone());
        }
        let inner = place.get(1)?;
        Some(format!("{top}::{inner}"))
    }

    /// Rows that allow a module which is not above them: only those can close a cycle.
    fn out_of_order(&self) -> Vec<String> {
        let mut above = BTreeSet::new();
        let mut wrong = Vec::new();
        for (name, allowed) in self.modules {
            let early = allowed.iter().filter(|one| !above.contains(*one));
            wrong.extend(early.map(|one| format!("{name} allows {one}, which is not below it")));
            above.insert(*name);
        }
        wrong
    }

    /// What one file names against the table.
    fn violations(&self, file: &str, place: &[String], text: &str) -> Vec<String> {
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let Some(own) = &self.room(place) else {
            return Vec::new();
        };
        let row = self.modules.iter().find(|(name, _)| name == own);
        let allowed = row.map_or(&[][..], |(_, allowed)| allowed);
        let mut names = Names::below(self);
        names.collect(tokens, place);
        let modules = names.modules.iter();
        let against = modules.filter(|name| *name != own && !allowed.contains(&name.as_str()));
        let mut wrong: Vec<String> = against
            .map(|name| format!("{file}: {own} must not name crate::{name}"))
            .collect();
        let without = self.without.iter().filter(|(name, _)| name == own);
        let foreign = without.flat_map(|(_, crates)| crates.iter());
        let foreign = foreign.filter(|one| names.crates.contains(**one));
        wrong.extend(foreign.map(|one| format!("{file}: {own} must not name the crate {one}")));
        wrong
    }
}

/// The module of a file, such as `["http", "request"]`; empty for the root.
fn module_path(file: &str) -> Vec<String> {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    match file {
        "lib" | "main" => Vec::new(),
        file => file.split('/').map(str::to_owned).collect(),
    }
}

/// Every source below a folder that is not a test, with its path in the folder.
fn sources(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap_or_default();
            if name == "tests" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let inside = path.strip_prefix(root).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                found.push((inside.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {}", root.display());
    found
}

/// A crate that is made up.
const MADE_UP: Layers = Layers {
    sources: "",
    modules: &[
        ("low", &[]),
        ("middle", &["low"]),
        ("group::one", &["low"]),
        ("group::other", &["group::one", "low"]),
        ("high", &["middle"]),
    ],
    without: &[("low", &["axum"])],
};

fn violations(file: &str, text: &str) -> Vec<String> {
    MADE_UP.violations(file, &module_path(file), text)
}

#[test]
fn what_the_table_allows_is_no_violation() {
    for text in [
        "use crate::low::thing;",
        "use crate::{low::{a, b}, middle::c};",
        "fn f() { crate::low::g(super::low::h) }",
        "// crate::high",
        "/// [`crate::high`]\nfn f() -> &'static str { \"crate::high\" }",
        "#[cfg(test)]\nmod tests { use crate::high::x; }",
        "#[cfg(test)]\nmod tests;",
        "#[cfg(test)]\nuse crate::high::x;",
        "mod inner { use super::super::low::x; use super::high; }",
        "pub(crate) struct S;",
    ] {
        assert_eq!(violations("middle.rs", text), [""; 0], "{text}");
    }
    assert_eq!(violations("lib.rs", "use crate::high;"), [""; 0]);
}

#[test]
fn every_way_to_name_another_module_is_found() {
    for text in [
        "use crate::high::thing;",
        "use crate::{low, high::thing};",
        "use crate::{\n    low::a,\n    high,\n};",
        "fn f() { crate::high::g() }",
        "fn f() { println!(\"{}\", crate::high::G) }",
        "use super::high::thing;",
        "mod inner { use super::super::high::x; }",
        "#[cfg(test)]\nmod tests {}\nuse crate::high;",
        "#[cfg(unix)]\nuse crate::high;",
    ] {
        let found = violations("middle.rs", text);
        assert_eq!(
            found,
            ["middle.rs: middle must not name crate::high"],
            "{text}"
        );
    }
    let deep = violations("middle/deep.rs", "use super::super::high;");
    assert_eq!(deep, ["middle/deep.rs: middle must not name crate::high"]);
    let root = violations("low.rs", "use crate::Item;");
    assert_eq!(root, ["low.rs: low must not name crate::Item"]);
}

#[test]
fn a_crate_that_a_module_does_without_is_found() {
    let wrong = ["low.rs: low must not name the crate axum"];
    for text in [
        "use axum::body::Body;",
        "fn f() -> axum::Body { g() }",
        "mod inner { use {axum::body}; }",
    ] {
        assert_eq!(violations("low.rs", text), wrong, "{text}");
        assert_eq!(violations("high.rs", text), [""; 0], "{text}");
    }
    assert_eq!(violations("low.rs", "use a::axum::body;"), [""; 0]);
}

#[test]
fn a_table_with_a_cycle_is_refused() {
    assert!(MADE_UP.out_of_order().is_empty());
    let cycle = Layers {
        sources: "",
        modules: &[("one", &["two"]), ("two", &["one"])],
        without: &[],
    };
    assert_eq!(
        cycle.out_of_order(),
        ["one allows two, which is not below it"]
    );
}

#[test]
fn modules_of_a_group_have_rows_of_their_own() {
    for text in [
        "use crate::low::thing;",
        "use crate::group::one::thing;",
        "use crate::group::{one::a, other::b};",
        "use super::one::thing;",
    ] {
        assert_eq!(violations("group/other.rs", text), [""; 0], "{text}");
    }
    for text in [
        "use crate::group::other::thing;",
        "use crate::group::{one::a, other::b};",
        "use crate::{low, group::{other}};",
        "use super::other;",
        "mod inner { use super::super::other; }",
    ] {
        let found = violations("group/one.rs", text);
        let expected = ["group/one.rs: group::one must not name crate::group::other"];
        assert_eq!(found, expected, "{text}");
    }
    let group = violations("group.rs", "use crate::high;");
    assert_eq!(group, [""; 0]);
}
