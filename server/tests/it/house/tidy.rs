//! House rules that no compiler checks: the length of files, allowed dependencies, and where tokio
//! may be used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};
use testkit::workspace_root;

const LINES_MAX: usize = 800;

/// Who may use whom, `dev` standing for tests alone. Every other edge between crates of the
/// workspace is against the architecture.
const EDGES: &[(&str, &str, &str)] = &[
    ("raft", "storage", ""),
    ("stele", "storage", ""),
    ("stele", "raft", ""),
    ("stele", "etcd-api", ""),
    ("stele", "etcd-files", ""),
    ("stele", "go-text", ""),
    ("stele", "utl", ""),
    ("utl", "etcd-files", ""),
    ("utl", "storage", ""),
    ("sim", "storage", ""),
    ("sim", "raft", ""),
    ("sim", "stele", ""),
    ("sim", "etcd-api", ""),
    ("sim", "testkit", ""),
    ("stele", "testkit", "dev"),
    ("testkit", "etcd-api", ""),
    ("api-client", "machinery", ""),
    ("scheduler", "machinery", ""),
    ("scheduler", "api-client", ""),
    ("node", "machinery", ""),
    ("node", "api-client", ""),
    ("control-plane", "scheduler", ""),
    ("control-plane", "node", ""),
    ("control-plane", "api-client", ""),
    ("certificates", "machinery", ""),
    ("controllers", "certificates", ""),
    ("controllers", "machinery", ""),
    ("controllers", "api-client", ""),
    ("controllers", "scheduler", ""),
    ("benches", "storage", ""),
    ("benches", "raft", ""),
    ("benches", "stele", ""),
    ("benches", "etcd-api", ""),
    ("benches", "testkit", ""),
    ("machinery", "go-text", ""),
    ("apiserver", "certificates", ""),
    ("apiserver", "go-text", ""),
    ("apiserver", "descriptions", ""),
    ("apiserver", "machinery", ""),
    ("apiserver", "etcd-api", ""),
    ("apiserver", "testkit", "dev"),
    ("control-plane", "apiserver", ""),
    ("control-plane", "certificates", ""),
    ("control-plane", "controllers", ""),
    ("control-plane", "etcd-api", ""),
    ("control-plane", "go-text", ""),
    ("control-plane", "machinery", ""),
    ("control-plane", "stele", ""),
    ("control-plane", "stele-test", "dev"),
    ("control-plane", "storage", ""),
    ("control-plane", "testkit", "dev"),
];

/// The feature of a crate that compiles what only tests use, such as the simulated disk.
const TEST_SUPPORT: &str = "test-support";

/// Crates that no product contains: they may have the others' test support.
const ONLY_FOR_TESTS: [&str; 2] = ["sim", "testkit"];

/// Crates that know no threads, sockets or clocks, and so no tokio.
const WITHOUT_TOKIO: [&str; 7] = [
    "storage",
    "raft",
    "etcd-files",
    "go-text",
    "utl",
    "machinery",
    "certificates",
];

/// Modules of the server that belong to its shell; the others are plain Rust.
const SHELL: [&str; 12] = [
    "main",
    "api",
    "discovery",
    "dns",
    "lifecycle",
    "member/cluster/peer",
    "member/event",
    "net",
    "proxy",
    "runtime",
    "tcp_proxy",
    "telemetry/spans",
];

#[test]
fn no_file_has_more_than_800_lines() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|(path, text)| (text.lines().count(), path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .collect();
    assert!(long.is_empty(), "split these: {long:?}");
}

#[test]
fn nothing_is_left_for_later() {
    // Written in two parts so that this file does not find itself.
    let words = [concat!("FIX", "ME"), concat!("#[ign", "ore")];
    let mut found = Vec::new();
    for (path, text) in sources() {
        for (place, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {line}", path.display(), place + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A `matches!` whose answer nobody reads checks nothing, and no lint says so.
#[test]
fn no_matches_is_thrown_away() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        let mut before = "";
        for (place, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            let statement = before.is_empty() || before.ends_with([';', '{', '}']);
            if statement && trimmed.starts_with("matches!(") && trimmed.ends_with(");") {
                found.push(format!("{}:{}: {trimmed}", path.display(), place + 1));
            }
            before = trimmed;
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn crates_say_what_they_are_and_depend_on_each_other_one_way_only() {
    let metadata = MetadataCommand::new()
        .manifest_path(workspace_root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        if package.description.is_none() {
            wrong.push(format!("{} has no description", package.name));
        }
        for dependency in &package.dependencies {
            let (from, to) = (package.name.as_str(), dependency.name.as_str());
            let dev = dependency.kind == DependencyKind::Development;
            let allowed = EDGES
                .iter()
                .any(|(user, used, kind)| (*user, *used) == (from, to) && (kind.is_empty() || dev));
            if ours.contains(to) && !allowed {
                wrong.push(format!("{from} must not depend on {to}"));
            }
            let has_test_support = dependency.features.iter().any(|name| name == TEST_SUPPORT);
            if has_test_support && !dev && !ONLY_FOR_TESTS.contains(&from) {
                wrong.push(format!("{from} compiles the test support of {to}"));
            }
            if WITHOUT_TOKIO.contains(&from) && ["tokio", "tonic", "hyper"].contains(&to) {
                wrong.push(format!("{from} does no I/O and must not depend on {to}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        ours.contains("stele") && ours.contains("storage"),
        "{ours:?}"
    );
}

#[test]
fn only_the_servers_shell_names_tokio() {
    let root = workspace_root().join("server").join("src");
    for module in SHELL {
        let file = root.join(module).with_extension("rs");
        assert!(file.exists(), "there is no module {module}");
    }
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Ok(inside) = path.strip_prefix(&root) else {
            continue;
        };
        let module = inside.with_extension("");
        if SHELL.iter().any(|shell| module.starts_with(shell)) || is_test(inside) {
            continue;
        }
        let code = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        if code.clone().any(|line| line.contains("tokio")) {
            wrong.push(inside.to_path_buf());
        }
    }
    assert!(
        wrong.is_empty(),
        "tokio belongs to the shell, not to {wrong:?}"
    );
}

fn is_test(path: &Path) -> bool {
    path.iter()
        .any(|part| part == "tests" || part == "tests.rs")
}

/// Every source file of the repository that a person wrote, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![workspace_root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                // Builds, version control, data of servers tried out by hand.
                let skipped = ["target", "generated"].contains(&name.as_str());
                if !skipped && !name.starts_with('.') && !name.ends_with(".etcd") {
                    folders.push(path);
                }
            } else if [".rs", ".go", ".proto"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(
        found.len() > 50,
        "the sources were not found: {}",
        found.len()
    );
    found
}
