//! Every flag, except those that `--help` marks as without effect, must change something visible to
//! a client or operator. A flag without a probe fails the test, and so does a probe without a flag.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::workspace_root;

mod calls;
mod logs;
mod members;
mod ports;

type Probe = (&'static [&'static str], fn());

/// Flags and the function that shows what they change.
const PROBES: &[&[Probe]] = &[calls::PROBES, logs::PROBES, members::PROBES, ports::PROBES];

/// Flags that another test drives, by file and by what it says there.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "auto-disarm-nospace",
        "server/tests/it/disks/full_disk.rs",
        "--auto-disarm-nospace",
    ),
    (
        "encryption-key-file",
        "server/tests/it/disks/sealed.rs",
        "--encryption-key-file",
    ),
    (
        "encryption-key-command",
        "server/src/config/keys.rs",
        "KeySource::Command(",
    ),
    (
        "force-new-cluster",
        "server/tests/it/clusters/members.rs",
        "--force-new-cluster",
    ),
    ("pre-vote", "raft/src/tests/paper.rs", "pre_vote = false"),
    (
        "snapshot-catchup-entries",
        "server/tests/it/clusters/catch_up.rs",
        "--snapshot-catchup-entries",
    ),
    (
        "memory-budget-bytes",
        "server/src/member/data_dir/replay/tests.rs",
        "memory_budget_bytes = Some(",
    ),
    (
        "wal-keep-bytes",
        "server/tests/it/clusters/catch_up.rs",
        "--wal-keep-bytes",
    ),
    (
        "strict-reconfig-check",
        "server/tests/it/clusters/members/churn.rs",
        "--strict-reconfig-check",
    ),
];

/// Flags whose features have tests of their own, by how their names begin. Each must be named in
/// one of the tests of `server` all the same.
const FEATURES: &[&str] = &[
    "auth-",
    "auto-tls",
    "bcrypt-",
    "cert-file",
    "cipher-",
    "client-c",
    "client-key",
    "compact-hash",
    "corrupt-check",
    "discovery-",
    "distributed-",
    "downgrade-",
    "enable-distributed",
    "enable-grpc-gateway",
    "key-file",
    "peer-",
    "self-signed",
    "tls-",
    "trusted-ca",
];

#[test]
fn every_flag_in_use_has_a_probe() {
    let used = used_flags();
    let probed: BTreeSet<String> = PROBES
        .iter()
        .flat_map(|probes| probes.iter())
        .flat_map(|(flags, _)| flags.iter().map(|flag| (*flag).to_owned()))
        .chain(ELSEWHERE.iter().map(|(flag, _, _)| (*flag).to_owned()))
        .collect();
    let is_feature = |flag: &String| FEATURES.iter().any(|start| flag.starts_with(start));
    let missing: Vec<_> = used
        .difference(&probed)
        .filter(|flag| !is_feature(flag))
        .collect();
    assert!(missing.is_empty(), "no probe: {missing:?}");
    let vain: Vec<_> = probed.difference(&used).collect();
    assert!(vain.is_empty(), "probes of flags without effect: {vain:?}");
    for (flag, file, text) in ELSEWHERE {
        let source = std::fs::read_to_string(workspace_root().join(file)).unwrap();
        assert!(source.contains(text), "{file} does not drive --{flag}");
    }
    let tests = sources(&workspace_root().join("server"));
    for flag in used.iter().filter(|flag| is_feature(flag)) {
        assert!(
            tests.contains(&format!("--{flag}")),
            "no test names --{flag}"
        );
    }
}

#[test]
fn flags_of_calls_change_calls() {
    calls::PROBES.iter().for_each(|(_, probe)| probe());
}

#[test]
fn flags_of_the_log_change_the_log() {
    logs::PROBES.iter().for_each(|(_, probe)| probe());
}

#[test]
fn flags_of_members_change_members() {
    members::PROBES.iter().for_each(|(_, probe)| probe());
}

#[test]
fn flags_of_ports_change_ports() {
    ports::PROBES.iter().for_each(|(_, probe)| probe());
}

/// Flags of `--help` without a word that they do nothing.
fn used_flags() -> BTreeSet<String> {
    let output = stele(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = help.lines().collect();
    let pairs = lines.windows(2);
    let flags = pairs.filter_map(|pair| {
        let (name, _) = pair[0].strip_prefix("  --")?.split_once(' ')?;
        let idle = [
            "without effect in Stele.",
            "not supported by Stele yet.",
            "Ignored.",
        ];
        let help = pair[1].to_lowercase();
        let is_idle = idle.iter().any(|end| help.ends_with(&end.to_lowercase()));
        (!is_idle).then(|| name.to_owned())
    });
    let flags: BTreeSet<String> = flags.collect();
    assert!(flags.len() > 40, "--help was not understood: {flags:?}");
    flags
}

fn stele(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stele"));
    command.args(args).output().unwrap()
}

/// How a command line is refused: the exit code and what was logged.
fn refused(args: &[&str]) -> (Option<i32>, String) {
    let output = stele(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

/// The text of all tests below a folder, but for this one.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    let mut folders = vec![folder.join("tests"), folder.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name != "flags.rs" {
                text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
            }
        }
    }
    text
}
