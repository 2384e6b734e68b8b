//! Layers inside a crate: which top module may name which.
//!
//! `tidy` enforces the edges between crates; this enforces those between the top modules of one
//! crate. A table lists the modules from the lowest to the highest, and each names only modules
//! above its row in the table, so that a cycle cannot be written down.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use testkit::workspace_root;

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

/// The crates of HTTP.
const HTTP: [&str; 4] = ["axum", "http", "http_body", "hyper"];

const APISERVER: Layers = Layers {
    sources: "control-plane/apiserver/src",
    modules: &[
        // What any layer may use.
        ("basics", &[]),
        // Which kinds there are, what is stored of them, which rules they keep.
        ("resources", &[]),
        ("storage", &["basics", "resources"]),
        ("validate", &["basics", "resources"]),
        // What programs outside are asked.
        ("webhook", &["basics", "storage"]),
        // What stands in front of the registry.
        ("auth", &["basics", "resources", "storage", "webhook"]),
        // Who waits when there is too much to do.
        ("flow", &["auth", "resources", "storage"]),
        // What is recorded of requests.
        ("audit", &["auth", "basics", "storage", "webhook"]),
        (
            "admission",
            &["audit", "auth", "basics", "resources", "storage", "webhook"],
        ),
        // What becomes of objects, and how requests ask for it.
        (
            "registry",
            &[
                "admission",
                "audit",
                "auth",
                "basics",
                "resources",
                "storage",
                "validate",
            ],
        ),
        (
            "http",
            &[
                "admission",
                "audit",
                "auth",
                "basics",
                "flow",
                "registry",
                "resources",
                "storage",
                "validate",
                "webhook",
            ],
        ),
        // What follows objects that change the API, and writes what becomes of them.
        (
            "upkeep",
            &[
                "basics",
                "registry",
                "resources",
                "storage",
                "validate",
                "webhook",
            ],
        ),
        // What puts the layers together.
        (
            "setup",
            &["admission", "audit", "auth", "basics", "http", "storage"],
        ),
        (
            "fuzzing",
            &["http", "registry", "resources", "storage", "validate"],
        ),
    ],
    // Only HTTP knows how requests and answers are written.
    without: &[
        ("resources", &HTTP),
        ("storage", &HTTP),
        ("validate", &HTTP),
        ("admission", &HTTP),
        ("flow", &HTTP),
        ("registry", &HTTP),
        ("upkeep", &HTTP),
    ],
};

const SERVER: Layers = Layers {
    sources: "server/src",
    modules: &[
        // What any layer may use.
        ("clock", &[]),
        ("error", &[]),
        ("config", &[]),
        // What is replicated: the requests of the log, who may make them, what they change.
        ("request", &["error"]),
        ("auth", &["config", "error", "request"]),
        ("state", &["auth", "config", "error", "request"]),
        // What operators see, and what connections are made of.
        ("telemetry", &["config", "request", "state"]),
        ("net", &["clock", "config", "telemetry"]),
        // The actors, the messages between them, and the data directory that they start from.
        ("event", &["error", "net", "request", "state"]),
        (
            "applier",
            &[
                "auth",
                "config",
                "error",
                "event",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "data_dir",
            &[
                "applier",
                "clock",
                "config",
                "error",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "cluster",
            &[
                "clock",
                "config",
                "data_dir",
                "error",
                "event",
                "net",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "driver",
            &[
                "applier",
                "auth",
                "clock",
                "cluster",
                "config",
                "data_dir",
                "error",
                "event",
                "request",
                "state",
                "telemetry",
            ],
        ),
        // Threads and queues, the requests of clients, a server from start to stop.
        (
            "runtime",
            &[
                "applier",
                "auth",
                "clock",
                "cluster",
                "config",
                "data_dir",
                "driver",
                "error",
                "event",
                "net",
                "request",
                "state",
                "telemetry",
            ],
        ),
        (
            "api",
            &[
                "auth",
                "clock",
                "cluster",
                "config",
                "error",
                "event",
                "net",
                "request",
                "runtime",
                "state",
                "telemetry",
            ],
        ),
        (
            "lifecycle",
            &[
                "api",
                "clock",
                "cluster",
                "config",
                "data_dir",
                "error",
                "event",
                "net",
                "request",
                "runtime",
                "state",
                "telemetry",
            ],
        ),
        (
            "fuzzing",
            &[
                "api", "auth", "cluster", "config", "error", "net", "request", "state",
            ],
        ),
    ],
    // Only the edges know how requests and answers travel.
    without: &[
        ("request", &HTTP),
        ("auth", &HTTP),
        ("state", &HTTP),
        ("event", &HTTP),
        ("applier", &HTTP),
        ("data_dir", &HTTP),
        ("driver", &HTTP),
        ("runtime", &HTTP),
    ],
};

const RAFT: Layers = Layers {
    sources: "raft/src",
    modules: &[
        ("message", &[]),
        ("io", &["message"]),
        ("wire", &["message"]),
        ("bootstrap", &["io", "message", "wire"]),
        ("log", &["io", "message"]),
        ("membership", &["message"]),
        ("state", &["io", "log", "membership", "message"]),
        // The roles, and the member that has one of them.
        ("role", &["io", "log", "membership", "message", "state"]),
        ("raft", &["io", "membership", "message", "role", "state"]),
        ("durable", &["io", "log", "message"]),
        ("fuzzing", &["io", "message", "raft", "wire"]),
    ],
    // Agreement knows nothing of storage; only its log writer does.
    without: &[
        ("io", &["storage"]),
        ("log", &["storage"]),
        ("state", &["storage"]),
        ("role", &["storage"]),
        ("raft", &["storage"]),
    ],
};

const STORAGE: Layers = Layers {
    sources: "storage/src",
    modules: &[
        ("sync", &[]),
        ("codec", &[]),
        ("vfs", &[]),
        ("error", &["vfs"]),
        ("atomic_file", &["error", "vfs"]),
        ("encryption", &["atomic_file", "codec", "error", "vfs"]),
        ("wal", &["codec", "encryption", "error", "vfs"]),
        (
            "btree",
            &["atomic_file", "encryption", "error", "sync", "vfs"],
        ),
        (
            "mvcc",
            &["btree", "codec", "encryption", "error", "sync", "vfs"],
        ),
        ("inspect", &["encryption", "error", "mvcc", "vfs", "wal"]),
        ("fuzzing", &["btree", "error", "mvcc", "vfs", "wal"]),
    ],
    without: &[],
};

const MACHINERY: Layers = Layers {
    sources: "control-plane/machinery/src",
    modules: &[
        // Values, and what is said of them.
        ("budget", &[]),
        ("object", &[]),
        ("queue", &[]),
        ("status", &[]),
        ("values", &[]),
        ("selector", &["object", "values"]),
        // What objects need of resources.
        ("resources", &["object", "selector", "values"]),
        // The built-in kinds, and what follows their table.
        ("schema", &[]),
        ("strict", &["budget", "schema", "values"]),
        ("patch", &["schema"]),
        ("conversion", &["object", "values"]),
        ("apply", &["object", "schema", "values"]),
        // It writes what managers own in the order of `apply`.
        (
            "protobuf",
            &["apply", "budget", "object", "schema", "values"],
        ),
        ("defaults", &["object"]),
        // Custom resources.
        ("cel", &["schema", "values"]),
        (
            "structural",
            &["apply", "cel", "schema", "status", "strict", "values"],
        ),
        // The API as the control loops see it.
        (
            "api",
            &["defaults", "object", "patch", "schema", "status", "values"],
        ),
        (
            "fuzzing",
            &[
                "cel",
                "object",
                "patch",
                "protobuf",
                "schema",
                "selector",
                "strict",
                "structural",
            ],
        ),
    ],
    without: &[],
};

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

/// Fails with every edge that the table does not have.
fn check(layers: &Layers) {
    let out_of_order = layers.out_of_order();
    assert!(out_of_order.is_empty(), "{}", out_of_order.join("\n"));
    let root = workspace_root().join(layers.sources);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, text) in sources(&root) {
        let place = module_path(&file);
        seen.extend(place.first().cloned());
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
        let Some(own) = place.first() else {
            return Vec::new();
        };
        let row = self.modules.iter().find(|(name, _)| name == own);
        let allowed = row.map_or(&[][..], |(_, allowed)| allowed);
        let mut names = Names::default();
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

/// What a file names, its tests left out.
#[derive(Default)]
struct Names {
    /// What follows `crate::`, or as many `super::` as lead to the root.
    modules: BTreeSet<String>,
    /// The first words of all other paths: among them are the crates.
    crates: BTreeSet<String>,
}

impl Names {
    fn collect(&mut self, tokens: TokenStream, place: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens[at..]) {
                while at < tokens.len() && !ends_item(&tokens[at]) {
                    at += 1;
                }
                at += 1;
                continue;
            }
            match &tokens[at..] {
                [
                    TokenTree::Ident(word),
                    TokenTree::Ident(name),
                    TokenTree::Group(body),
                    ..,
                ] if word == "mod" => {
                    let inner = [place, &[name.to_string()]].concat();
                    self.collect(body.stream(), &inner);
                    at += 2;
                }
                [TokenTree::Ident(word), rest @ ..] if word == "crate" => self.first_names(rest),
                [TokenTree::Ident(word), ..] if word == "super" => {
                    let mut ups = 1;
                    while is_path(&tokens[at + 1..]) && is_word(tokens.get(at + 3), "super") {
                        ups += 1;
                        at += 3;
                    }
                    if ups == place.len() {
                        self.first_names(&tokens[at + 1..]);
                    }
                }
                [TokenTree::Ident(word), rest @ ..] => {
                    let continues = at >= 2 && is_path(&tokens[at - 2..]);
                    if is_path(rest) && !continues {
                        self.crates.insert(word.to_string());
                    }
                }
                [TokenTree::Group(group), ..] => self.collect(group.stream(), place),
                _ => {}
            }
            at += 1;
        }
    }

    /// The first names behind `::`: one, or one for each path of a group.
    fn first_names(&mut self, tokens: &[TokenTree]) {
        if !is_path(tokens) {
            return;
        }
        match tokens.get(2) {
            Some(TokenTree::Ident(name)) => self.module(&name.to_string()),
            Some(TokenTree::Group(group)) => {
                let mut starts = true;
                for token in group.stream() {
                    if let (true, TokenTree::Ident(name)) = (starts, &token) {
                        self.module(&name.to_string());
                    }
                    starts = matches!(&token, TokenTree::Punct(one) if one.as_char() == ',');
                }
            }
            _ => {}
        }
    }

    /// Notes a module. A crate's root gives its error type out, wherever that is.
    fn module(&mut self, name: &str) {
        let module = match name {
            "Error" | "Result" => "error",
            name => name,
        };
        self.modules.insert(module.to_owned());
    }
}

fn is_path(tokens: &[TokenTree]) -> bool {
    let colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(one)) if one.as_char() == ':');
    colon(0) && colon(1)
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(one)) if one == word)
}

/// Whether this is `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(group), ..] = tokens else {
        return false;
    };
    let text: String = group.stream().to_string().split_whitespace().collect();
    hash.as_char() == '#' && text == "cfg(test)"
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(one) => one.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
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
    modules: &[("low", &[]), ("middle", &["low"]), ("high", &["middle"])],
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
