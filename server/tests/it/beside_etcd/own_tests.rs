//! The tests that etcd's authors run against its program, with Stele in its place: `common` has what
//! every cluster must do, `e2e` flags, logs, pages, and faults of one program or several.
//!
//! They listen on fixed ports, so each part of them has a network of its own.
#![expect(clippy::disallowed_methods, reason = "the test writes a script")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::{Minor, Suite, Tools};

const STELE: &str = env!("CARGO_BIN_EXE_stele");
/// Parts that run at the same time. Their tests wait most of the time.
const PARTS: usize = 3;
const TIME_MAX: &str = "20m";

/// Tests that cannot pass, and why. `/` comes before the name of a part of a test.
const EXCEPT: [(&str, &[&str]); 2] = [
    (
        "common",
        &[
            // Looks for lines that Go's HTTP/2 writes for itself.
            "TestAuthority",
        ],
    ),
    (
        "e2e",
        &[
            // These read or damage etcd's own data file.
            "TestBreakConsistentIndexNewerThanSnapshot",
            "TestCompactHashCheckDetectCorruption",
            "TestCompactHashCheckDetectCorruptionWithFeatureGate",
            "TestEtcdCorruptHash",
            "TestEtctlutlMigrate",
            "TestForceNewCluster_MemberCount",
            "TestHTTPLivezReadyzHandler/corrupt",
            "TestPeriodicCheckDetectsCorruption",
            "TestRestoreCompactionRevBump",
            "TestV2DeprecationSnapshotMatches",
            // These start etcd in the directory of Stele, or Stele in that of etcd, which refuse it.
            "TestClusterUpgradeAfterPromotingMembers",
            "TestDowngradeCancellationAfterDowngrading1InClusterOf3",
            "TestDowngradeCancellationAfterDowngrading2InClusterOf3",
            "TestDowngradeUpgrade2InClusterOf3",
            "TestDowngradeUpgradeClusterOf1",
            "TestDowngradeUpgradeClusterOf1WithSnapshot",
            "TestDowngradeUpgradeClusterOf3",
            "TestDowngradeUpgradeClusterOf3WithSnapshot",
            "TestReleaseUpgrade",
            "TestReleaseUpgradeWithRestart",
            // A member that was away for 30 entries gets them from the log, not a snapshot.
            "TestMixVersionsSnapshotByMockingPartition",
            // These look for a file of etcd's sources, for a network beside loopback, and for the end
            // of a program that they have not ended: etcd does not pass them here either.
            "TestEtcdExampleConfig",
            "TestEtcdPeerLocalAddr",
            "TestEtcdUnixPeers",
        ],
    ),
];

/// With the value `all`, all tests run, for ten minutes each suite. Some expect a machine that does
/// nothing else.
const HOW_MANY: &str = "STELE_ETCD_TESTS";

#[test]
fn what_etcd_expects_of_every_cluster() {
    // Three members with TLS; tests that know no kinds make their own clusters.
    run("common", "PeerTLS and ClientTLS", |_| true);
}

#[test]
fn what_etcd_expects_of_its_program() {
    run("e2e", "", |name| {
        let quick = [
            "CurlV3",
            "DefragOffline",
            "EtcdPeer",
            "CorruptionInterrupt",
            "RightAfter",
            "TestGateway",
            "Of3UsingV3Discovery",
        ];
        quick.iter().any(|part| name.contains(part)) && !name.contains("MaxStreams")
    });
}

/// Runs the tests of a suite. Briefly: those that `chosen` names, and of those that are made for
/// several kinds of clusters only `kind`, unless it is empty.
fn run(name: &str, kind: &'static str, chosen: fn(&str) -> bool) {
    let all = std::env::var_os(HOW_MANY).is_some_and(|many| many == "all");
    let (kind, chosen) = if all {
        ("", (|_| true) as fn(&str) -> bool)
    } else {
        (kind, chosen)
    };
    let test = "etcd's own tests";
    let network = ["--map-root-user", "--net", "ip", "link", "set", "lo", "up"];
    if !testkit::has_or_skip("unshare", &network, test) {
        return;
    }
    let (Some(tools), Some(older), Some(suite)) = (
        Tools::or_skip(test),
        Minor::V3_6.etcd_or_skip(test),
        Suite::or_skip(name, test),
    ) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let bin = programs(dir.path(), &tools, &older);
    let (_, except) = EXCEPT.iter().find(|(of, _)| *of == name).unwrap();
    let whole = |name: &&str| format!("^{}$", name.replace('/', "$/^"));
    let except: Vec<String> = except.iter().map(whole).collect();
    let run = Run {
        suite,
        bin,
        kind,
        chosen,
        except: except.join("|"),
    };
    let failed: BTreeSet<String> = std::thread::scope(|scope| {
        let part = |names| scope.spawn(|| run.failed_of(names));
        let running: Vec<_> = run.parts().into_iter().map(part).collect();
        let ended = running.into_iter().map(|part| part.join().unwrap());
        ended.flatten().collect()
    });
    // A test that ran out of its time beside the others has it for itself now.
    let again: Vec<String> = failed
        .into_iter()
        .flat_map(|name| run.failed_of(vec![name]))
        .collect();
    assert!(again.is_empty(), "etcd's tests that fail: {again:?}");
}

/// A folder with the programs that the tests start, by the names they know them by.
fn programs(dir: &Path, tools: &Tools, older: &Path) -> PathBuf {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let link = |program: &Path, name: &str| {
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    };
    link(STELE.as_ref(), "etcd");
    link(&tools.etcdctl, "etcdctl");
    link(older, "etcd-last-release");
    let utl = bin.join("etcdutl");
    fs::write(&utl, format!("#!/bin/sh\nexec {STELE} utl \"$@\"\n")).unwrap();
    fs::set_permissions(&utl, fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

struct Run {
    suite: Suite,
    bin: PathBuf,
    /// The only kind of cluster to test; empty for all.
    kind: &'static str,
    chosen: fn(&str) -> bool,
    /// A pattern of names.
    except: String,
}

impl Run {
    /// The names of the tests, in parts of about the same length.
    fn parts(&self) -> Vec<Vec<String>> {
        let listed = self.command().args(["-test.list", "^Test"]).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        let names = listed.lines().filter(|line| line.starts_with("Test"));
        let names = names.filter(|name| (self.chosen)(name));
        let mut parts = vec![Vec::new(); PARTS];
        for (i, name) in names.enumerate() {
            parts[i % PARTS].push(name.to_owned());
        }
        assert!(parts.iter().all(|part| part.len() > 10), "{listed}");
        parts
    }

    fn command(&self) -> Command {
        // Nothing but loopback.
        let with_loopback = "ip link set lo up && exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--net", "sh", "-c", with_loopback, "sh"])
            .arg(&self.suite.program)
            .arg("-bin-dir")
            .arg(&self.bin)
            .current_dir(&self.suite.directory)
            .stdin(Stdio::null());
        command
    }

    /// Runs these tests, and returns which have failed, after printing what they said.
    fn failed_of(&self, names: Vec<String>) -> Vec<String> {
        let temporary = tempfile::tempdir().unwrap();
        let ran = self
            .command()
            .args(["-test.v", "-test.timeout", TIME_MAX])
            .args([
                "-test.run",
                &format!("^({})$/{}", names.join("|"), self.kind),
            ])
            .args(["-test.skip", &self.except])
            .env("TMPDIR", temporary.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        let of = |outcome| {
            said.lines()
                .filter_map(move |line| line.strip_prefix(outcome))
        };
        if ran.status.success() {
            assert!(of("--- PASS: ").count() > 0, "no test ran of {names:?}");
            return Vec::new();
        }
        eprintln!("{said}\n{}", String::from_utf8_lossy(&ran.stderr));
        let failed: Vec<String> = of("--- FAIL: ")
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        // Without the name of a test, it was the program that ended.
        if failed.is_empty() { names } else { failed }
    }
}
