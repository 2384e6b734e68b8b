//! Three etcd members and three Stele members get the same requests. Compares what `etcdctl` prints
//! about the cluster, and the members' metrics.
#![expect(
    clippy::disallowed_methods,
    reason = "runs programs around real processes"
)]

mod metrics;

pub(crate) use metrics::get as page;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Tools;

use crate::harness::fleet::{PATIENCE, Process, found, wait};

const MEMBERS: usize = 3;
/// A new member finds no log that reaches back to the beginning.
const FLAGS: [&str; 2] = ["--snapshot-count=10", "--snapshot-catchup-entries=5"];
const PUTS: usize = 60;
/// Numbers that depend on what a cluster has been through, or on how data lies on disk.
const FIGURES: [&str; 11] = [
    "raft_term",
    "raftTerm",
    "raftIndex",
    "raftAppliedIndex",
    "dbSize",
    "dbSizeInUse",
    "RaftTerm",
    "RaftIndex",
    "RaftAppliedIndex",
    "DBSize",
    "DBSizeInUse",
];

#[test]
fn a_cluster_of_three_tells_the_same_by_etcdctl_and_metrics() {
    let Some(tools) = Tools::or_skip("etcdctl against three members of each") else {
        return;
    };
    let both = [&tools.etcd, &PathBuf::from(env!("CARGO_BIN_EXE_stele"))].map(|program| {
        let (program, etcdctl) = (program.clone(), tools.etcdctl.clone());
        std::thread::spawn(move || Told::by(&program, etcdctl))
    });
    let [etcd, stele] = both.map(|thread| thread.join().unwrap());
    assert_eq!(etcd.said.len(), stele.said.len());
    let said = etcd.said.iter().zip(&stele.said);
    let differ = said.filter(|(etcd, stele)| etcd != stele);
    let told = differ.map(|((words, etcd), (_, stele))| {
        format!("etcdctl {words}\n  etcd:\n{etcd}\n  Stele:\n{stele}")
    });
    let told: Vec<String> = told.collect();
    let metrics = metrics::compare(&etcd.metrics, &stele.metrics);
    let differences = [told, metrics].concat();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

struct Told {
    /// Per question: the words of the command, and what it printed.
    said: Vec<(String, String)>,
    /// Per member.
    metrics: Vec<metrics::Samples>,
}

impl Told {
    fn by(program: &Path, etcdctl: PathBuf) -> Told {
        let dir = tempfile::tempdir().unwrap();
        let members = found(program, dir.path(), MEMBERS, &FLAGS);
        let mut asked = Asked {
            etcdctl,
            members,
            names: Vec::new(),
            said: Vec::new(),
        };
        asked.first_member_leads();
        asked.use_it();
        asked.tell_of_endpoints();
        asked.use_leases();
        asked.change_members(program, dir.path());
        asked.tell_of_downgrades();
        asked.move_leader();
        let metrics = asked.members.iter().map(metrics::of).collect();
        Told {
            said: asked.said,
            metrics,
        }
    }
}

struct Asked {
    etcdctl: PathBuf,
    members: Vec<Process>,
    /// What differs from cluster to cluster, and what to call it.
    names: Vec<(String, String)>,
    said: Vec<(String, String)>,
}

impl Asked {
    /// Standard output, or the last line of the complaint.
    fn run(&self, at: usize, words: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.etcdctl)
            .args([
                "--endpoints",
                &self.members[at].url,
                "--command-timeout=20s",
            ])
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            let complaint = text(&output.stderr);
            let last = complaint.lines().last().unwrap_or_default();
            Err(format!("{}{last}", text(&output.stdout)))
        }
    }

    fn ok(&self, at: usize, words: &[&str]) -> String {
        let output = self.run(at, words);
        output.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Asks, and keeps what was printed, for the comparison.
    fn ask(&mut self, at: usize, words: &[&str]) {
        // Who is there is asked before, too: what is removed has an id that is to be known.
        self.learn_names();
        let output = self.run(at, words);
        let said = match output {
            Ok(said) => said,
            Err(error) => format!("FAILED\n{error}"),
        };
        self.learn_names();
        let plain = |text: &str| rename(text, &self.names);
        let words_plain = plain(&words.join(" "));
        self.said.push((words_plain, normal(&plain(&said))));
    }

    /// As long as it is refused only because the cluster is too young.
    fn ask_when_healthy(&mut self, at: usize, words: &[&str]) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.ask(at, words);
            let (_, said) = self.said.last().unwrap();
            let too_soon = said.contains("unhealthy cluster")
                || said.contains("in sync with leader")
                || said.contains("re-configuration failed due to not enough started members");
            if !too_soon {
                return;
            }
            assert!(Instant::now() < until, "{said}");
            self.said.pop();
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn status(&self, at: usize) -> Option<Value> {
        let told = self.run(at, &["endpoint", "status", "-w", "json"]).ok()?;
        let told: Value = serde_json::from_str(&told).ok()?;
        Some(told[0]["Status"].clone())
    }

    fn list(&self) -> Value {
        let list = self.ok(0, &["member", "list", "-w", "json"]);
        serde_json::from_str(&list).unwrap()
    }

    fn learn_names(&mut self) {
        let mut names = Vec::new();
        for member in &self.members {
            let (url, peer_url) = (&member.url, &member.peer_url);
            names.push((url.clone(), format!("{}-client", member.name)));
            let bare = url.trim_start_matches("http://").to_owned();
            names.push((bare, format!("{}-client", member.name)));
            names.push((peer_url.clone(), format!("{}-peer", member.name)));
        }
        let list = self.list();
        let mut id = |id: &Value, name: String| {
            let id = id.as_u64().unwrap();
            names.push((format!("{id:x}"), name.clone()));
            names.push((id.to_string(), name));
        };
        id(&list["header"]["cluster_id"], "CLUSTER".to_owned());
        for member in list["members"].as_array().unwrap() {
            let url = member["peerURLs"][0].as_str().unwrap();
            let of = self.members.iter().find(|m| m.peer_url == url);
            let name = of.map_or("added", |member| &member.name);
            id(&member["ID"], format!("ID-{name}"));
        }
        // What a member was called first, it stays.
        for (from, to) in names {
            if !self.names.iter().any(|(known, _)| *known == from) {
                self.names.push((from, to));
            }
        }
    }

    fn id_of(&self, peer_url: &str) -> String {
        let list = self.list();
        let mut members = list["members"].as_array().unwrap().iter();
        let member = members.find(|member| member["peerURLs"][0] == peer_url);
        format!("{:x}", member.unwrap()["ID"].as_u64().unwrap())
    }

    fn first_member_leads(&self) {
        self.wait_for_version("3.7.0");
        let first = self.id_of(&self.members[0].peer_url);
        let leads = || {
            let statuses: Vec<_> = (0..MEMBERS).filter_map(|at| self.status(at)).collect();
            let led_by = |status: &Value| status["leader"].as_u64().unwrap_or_default();
            if statuses.iter().all(|s| format!("{:x}", led_by(s)) == first) {
                return statuses.len() == MEMBERS;
            }
            for at in 0..MEMBERS {
                let _ = self.run(at, &["move-leader", &first]);
            }
            false
        };
        wait("the first member to lead", leads, || self.members[0].log());
    }

    /// A bit of everything, so that figures move.
    fn use_it(&mut self) {
        for number in 0..PUTS {
            self.ok(
                number % MEMBERS,
                &["put", &format!("k{number:02}"), "value"],
            );
        }
        for at in 0..MEMBERS {
            self.ok(at, &["get", "k", "--prefix"]);
            self.ok(at, &["get", "k", "--prefix", "--consistency=s"]);
        }
        self.ok(1, &["del", "k00"]);
        self.ok(2, &["compact", "20", "--physical"]);
        for at in 0..MEMBERS {
            self.ok(at, &["defrag"]);
            self.ok(at, &["alarm", "list"]);
        }
    }

    /// Their ids are random, and part of what is hashed.
    fn use_leases(&mut self) {
        let granted = self.ok(1, &["lease", "grant", "600"]);
        let id = granted.split(' ').nth(1).unwrap();
        for at in 0..MEMBERS {
            self.ok(at, &["put", "leased", "x", "--lease", id]);
            self.ok(at, &["lease", "keep-alive", "--once", id]);
            self.ok(at, &["lease", "timetolive", id]);
            self.ok(at, &["lease", "list"]);
        }
        self.ok(2, &["lease", "revoke", id]);
    }

    fn tell_of_endpoints(&mut self) {
        for words in [
            "endpoint status --cluster",
            "endpoint status --cluster -w table",
            "endpoint status --cluster -w json",
            "endpoint status --cluster -w fields",
            "endpoint health --cluster",
            "endpoint health --cluster -w table",
            "endpoint health --cluster -w json",
            "endpoint hashkv --cluster",
            "endpoint hashkv --cluster -w table",
            "endpoint hashkv --cluster -w json",
            "endpoint hashkv --cluster --rev 30 -w json",
            "member list",
            "member list -w table",
            "member list -w json",
            "member list -w fields",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            self.ask(1, &words);
        }
    }

    fn change_members(&mut self, program: &Path, dir: &Path) {
        let mut new = Process::new(program, dir, "m3");
        let url = new.peer_url.clone();
        self.names.push((url.clone(), "m3-peer".to_owned()));
        self.ask_when_healthy(
            1,
            &["member", "add", "m3", "--learner", "--peer-urls", &url],
        );
        self.ask(0, &["member", "list", "-w", "table"]);
        self.ask(
            2,
            &[
                "member",
                "add",
                "m4",
                "--learner",
                "--peer-urls",
                "http://x:1",
            ],
        );
        // Not those of the learner: ids are made of the second, too, and may be the same then.
        let taken = self.members[1].peer_url.clone();
        self.ask(2, &["member", "add", "m4", "--peer-urls", &taken]);
        let id = self.id_of(&url);
        // The leader asks it to be in sync.
        self.ask(0, &["member", "promote", &id]);
        self.ask(1, &["member", "promote", &id]);
        self.ask(1, &["member", "promote", "abc"]);
        let places = self.members.iter().map(Process::place);
        let places: Vec<String> = places.chain([new.place()]).collect();
        new.flag(format!("--initial-cluster={}", places.join(",")));
        new.flag("--initial-cluster-state=existing".to_owned());
        FLAGS.iter().for_each(|flag| new.flag((*flag).to_owned()));
        new.start();
        self.members.push(new);
        let learns = || {
            self.run(3, &["get", "k", "--prefix", "--consistency=s"])
                .is_ok()
        };
        wait("the learner to serve", learns, || self.members[3].log());
        self.ask(0, &["endpoint", "health", "--cluster"]);
        self.ask_when_healthy(0, &["member", "promote", &id, "-w", "table"]);
        self.ask(0, &["member", "promote", &id]);
        let same = self.members[3].peer_url.clone();
        self.ask(1, &["member", "update", &id, "--peer-urls", &same]);
        self.ask(1, &["member", "update", "abc", "--peer-urls", &same]);
        self.ask(0, &["member", "list", "-w", "json"]);
        self.ask_when_healthy(2, &["member", "remove", &id]);
        self.ask(2, &["member", "remove", &id]);
        self.members.pop();
        self.ask(1, &["member", "list"]);
        self.ask_when_healthy(
            1,
            &[
                "member",
                "add",
                "x",
                "--peer-urls",
                "http://127.0.0.1:1",
                "-w",
                "json",
            ],
        );
        let id = self.id_of("http://127.0.0.1:1");
        self.ask_when_healthy(1, &["member", "remove", &id, "-w", "json"]);
    }

    fn tell_of_downgrades(&mut self) {
        for words in [
            "downgrade validate 3.6",
            "downgrade validate 3.5.0",
            "downgrade validate 3.7",
            "downgrade validate x",
            "downgrade cancel",
            "downgrade enable 3.6.0",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            self.ask(1, &words);
        }
        self.wait_for_version("3.6.0");
        self.ask(2, &["downgrade", "enable", "3.6.0"]);
        self.ask(2, &["downgrade", "validate", "3.5.0"]);
        self.ask(0, &["endpoint", "status", "--cluster", "-w", "json"]);
        self.ask(0, &["downgrade", "cancel"]);
        self.wait_for_version("3.7.0");
        self.ask(0, &["endpoint", "status", "--cluster", "-w", "json"]);
    }

    /// Of the cluster, and of what etcd's members store: some seconds later.
    fn wait_for_version(&self, version: &str) {
        let words = format!("\"etcdcluster\":\"{version}\"");
        let told = || {
            (0..MEMBERS).all(|at| {
                metrics::get(&self.members[at].url, "/version").contains(&words)
                    && self
                        .status(at)
                        .is_some_and(|s| s["storageVersion"] == version)
            })
        };
        wait(version, told, || self.members[0].log());
    }

    fn move_leader(&mut self) {
        let second = self.id_of(&self.members[1].peer_url);
        self.ask(1, &["move-leader", &second]);
        self.ask(0, &["move-leader", "abc"]);
        self.ask(0, &["move-leader", &second]);
        self.ask(1, &["endpoint", "status", "--cluster"]);
    }
}

/// Longer ones first: some are the beginning of others.
fn rename(text: &str, names: &[(String, String)]) -> String {
    let mut names: Vec<_> = names.iter().collect();
    names.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let mut text = text.to_owned();
    for (from, to) in names {
        text = text.replace(from, to);
    }
    text
}

/// Without what is nobody's promise: widths of columns, times, sizes, the order of members.
fn normal(text: &str) -> String {
    // Ids have become words, which no JSON reader takes for numbers.
    let quoted = quote_names(text);
    if let Ok(mut value) = serde_json::from_str::<Value>(&quoted) {
        mask(&mut value);
        if let Value::Array(items) = &mut value {
            items.sort_by_key(Value::to_string);
        }
        if let Some(Value::Array(members)) = value.get_mut("members") {
            members.sort_by_key(Value::to_string);
        }
        return serde_json::to_string_pretty(&value).unwrap();
    }
    let mut lines: Vec<String> = text.lines().filter_map(normal_line).collect();
    lines.sort();
    lines.join("\n")
}

fn quote_names(text: &str) -> String {
    let mut out = String::new();
    for (place, piece) in text.split(':').enumerate() {
        if place > 0 {
            out.push(':');
        }
        let end = piece.find([',', '}']).unwrap_or(0);
        let name = &piece[..end];
        if name.starts_with("ID-") || name == "CLUSTER" {
            out += &format!("\"{name}\"{}", &piece[end..])
        } else {
            out += piece
        }
    }
    out
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if FIGURES.contains(&name.as_str()) || name == "took" {
                    *value = Value::Null
                } else {
                    mask(value)
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

fn normal_line(line: &str) -> Option<String> {
    if line.starts_with(['┌', '├', '└']) || line.trim().is_empty() {
        return None;
    }
    if let Some((name, _)) = line.split_once(" : ") {
        let bare = name.trim_matches('"');
        if FIGURES.contains(&bare) {
            return Some(format!("{bare} : ..."));
        }
    }
    if let Some((name, places)) = line.split_once("INITIAL_CLUSTER=\"") {
        let mut places: Vec<&str> = places.trim_end_matches('"').split(',').collect();
        places.sort_unstable();
        return Some(format!("{name}INITIAL_CLUSTER={places:?}"));
    }
    // Sizes, shares, terms, indices and times.
    let words = line.split([',', '│']).map(str::trim);
    let words = words.map(|word| {
        // An id is padded, and may be short.
        let mut word = word.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((before, _)) = word.split_once("took = ") {
            word = format!("{before}took");
        }
        let first = word.split(' ').next().unwrap_or_default();
        let is_figure = first
            .trim_end_matches(['%', 's', 'm', 'µ'])
            .parse::<f64>()
            .is_ok();
        if is_figure { "...".to_owned() } else { word }
    });
    Some(words.collect::<Vec<_>>().join(", "))
}
