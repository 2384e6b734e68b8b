//! Text scripts: commands in, what members send and do out, kept as golden files in `testdata/`.
//! `UPDATE=1 cargo test -p raft script` rewrites the answers; read the diff before you commit it.
//!
//! A line that begins with `> ` is a command, with `#` a comment; a command's answer follows it.
//! See [`Script::command`] for the commands. Time passes only by `pass`, and messages travel only
//! by `deliver` and `settle`.
#![expect(
    clippy::disallowed_methods,
    reason = "a test reads and writes its golden files"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::Cluster;
use crate::message::{Body, ConfChange, ConfChangeKind, Entry, Message, NodeId, Position};
use crate::{EntryKind, Input, Proposed};

#[test]
fn members_answer_scripts_as_written_down() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scripts in {}", dir.display());
    let mut wrong = Vec::new();
    for file in files {
        let written = std::fs::read_to_string(&file).unwrap();
        let played = play(&written);
        if played == written {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, played).unwrap();
            continue;
        }
        let at = written
            .lines()
            .zip(played.lines())
            .position(|(a, b)| a != b);
        let line = at.unwrap_or(written.lines().count().min(played.lines().count()));
        wrong.push(format!(
            "{} line {}:\n  written {:?}\n  played  {:?}",
            file.display(),
            line + 1,
            written.lines().nth(line),
            played.lines().nth(line),
        ));
    }
    assert!(
        wrong.is_empty(),
        "{}\nUPDATE=1 accepts what was played",
        wrong.join("\n")
    );
}

/// The script with its present answers.
fn play(script: &str) -> String {
    let mut state = Script::default();
    let mut played = String::new();
    let mut comments_before = false;
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            if !comments_before && !played.is_empty() {
                played.push('\n');
            }
            let _ = writeln!(played, "{line}");
            for answer in state.run(command) {
                let _ = writeln!(played, "{answer}");
            }
            comments_before = false;
        } else if line.starts_with('#') {
            if !comments_before && !played.is_empty() {
                played.push('\n');
            }
            let _ = writeln!(played, "{line}");
            comments_before = true;
        }
    }
    played
}

#[derive(Default)]
struct Script {
    cluster: Cluster,
    answer: Vec<String>,
    /// Length of the cluster's trace that is already printed.
    told: usize,
}

impl Script {
    fn run(&mut self, command: &str) -> Vec<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.command(words[0], &words[1..]);
        self.tell_events();
        if words[0] != "log" && words[0] != "status" && words[0] != "settle" {
            self.tell_sent();
        }
        self.cluster.check_logs();
        std::mem::take(&mut self.answer)
    }

    fn command(&mut self, name: &str, words: &[&str]) {
        let id = |place: usize| words[place].parse::<NodeId>().unwrap();
        let cluster = &mut self.cluster;
        match name {
            // members ID..: of a cluster whose logs are empty
            "members" => *cluster = Cluster::new(&ids(words)),
            // bootstrap ID..: of a cluster whose logs begin with its members
            "bootstrap" => *cluster = Cluster::bootstrapped(&ids(words)),
            // keep ID COUNT: how many applied entries it keeps in memory
            "keep" => {
                cluster.node(id(0)).config.limits.kept_entries = words[1].parse().unwrap();
                cluster.start(id(0));
            }
            // join ID: a process without members or log, which gets both from others
            "join" => cluster.add(crate::Config::new(id(0), vec![], 1)),
            "campaign" => cluster.step(id(0), Input::Campaign),
            "propose" => {
                let data: &'static str = Box::leak(words[1].to_owned().into_boxed_str());
                let proposed = cluster.propose(id(0), data);
                self.answer.push(proposal(proposed));
            }
            "add-voter" => self.change(id(0), ConfChangeKind::AddNode, id(1)),
            "add-learner" => self.change(id(0), ConfChangeKind::AddLearnerNode, id(1)),
            "remove" => self.change(id(0), ConfChangeKind::RemoveNode, id(1)),
            "transfer" => cluster.step(id(0), Input::Transfer { to: id(1) }),
            "disconnected" => cluster.step(id(0), Input::Disconnected { peer: id(1) }),
            // read ID CONTEXT
            "read" => {
                let context = words[1].parse().unwrap();
                cluster.step(id(0), Input::ReadIndex { context });
            }
            // deliver [FROM>TO]: the messages in flight now, each once
            "deliver" => self.deliver(words.first().copied()),
            // drop [FROM>TO]
            "drop" => {
                let picked = words.first().copied();
                cluster.network.retain(|message| !matches(picked, message));
            }
            // settle [ID..]: until no member has anything to send; messages to others are lost
            "settle" => self.settle(&ids(words)),
            // pass MILLISECONDS
            "pass" => cluster.pass(Duration::from_millis(words[0].parse().unwrap())),
            // slow-disk ID: syncs only on command
            "slow-disk" => cluster.node(id(0)).fast_disk = false,
            "sync" => cluster.sync(id(0)),
            // by-hand: from now on snapshots are made and installed only on command
            "by-hand" => cluster.snapshots_by_hand = true,
            // make ID: the snapshot it wants to send
            "make" => {
                let wanted = format!("wanted for {:?}", cluster.node(id(0)).wanted);
                self.answer.push(wanted);
                self.cluster.make_snapshot(id(0));
            }
            // install ID: the snapshot it was sent
            "install" => {
                let done = cluster.take_snapshot(id(0));
                self.answer
                    .push(if done { "done" } else { "nothing" }.to_owned());
            }
            // sent ID TO ok|lost: the transport reports how the transfer ended
            "sent" => {
                let (to, ok) = (id(1), words[2] == "ok");
                cluster.step(id(0), Input::SnapshotSent { to, ok });
            }
            "crash" => cluster.crash(id(0)),
            "start" => cluster.start(id(0)),
            "status" => self.status(),
            "log" => self.logs(),
            _ => panic!("no such command: {name}"),
        }
    }

    fn change(&mut self, at: NodeId, kind: ConfChangeKind, node: NodeId) {
        let change = ConfChange {
            id: 0,
            kind,
            node,
            ..ConfChange::default()
        };
        self.cluster.propose_change(at, &change);
        let proposed = self.cluster.node(at).proposed.take();
        self.answer.push(proposal(proposed));
    }

    fn deliver(&mut self, picked: Option<&str>) {
        let mut delivered = Vec::new();
        self.cluster.deliver(|message| {
            let picked = matches(picked, message);
            if picked {
                delivered.push(told(message));
            }
            picked
        });
        self.answer.append(&mut delivered);
        self.tell_events();
    }

    fn settle(&mut self, among: &[NodeId]) {
        let among = if among.is_empty() {
            self.cluster.up()
        } else {
            among.to_vec()
        };
        for round in 0.. {
            assert!(round < 1_000, "the cluster never rests");
            let mut busy = false;
            for id in &among {
                busy |= self.cluster.serve_snapshots(*id);
            }
            let reached = |m: &Message| among.contains(&m.from) && among.contains(&m.to);
            self.cluster.network.retain(reached);
            busy |= !self.cluster.network.is_empty();
            if !busy {
                return;
            }
            self.deliver(None);
        }
    }

    /// Role changes and answered reads since the last call.
    fn tell_events(&mut self) {
        let new = &self.cluster.trace[self.told.min(self.cluster.trace.len())..];
        self.answer
            .extend(new.iter().map(|line| format!("* {line}")));
        self.told = self.cluster.trace.len();
        for (id, node) in &mut self.cluster.nodes {
            for read in node.reads.drain(..) {
                let outcome = match read.outcome {
                    Ok(index) => format!("good from {index} on"),
                    Err(refused) => format!("{refused:?}"),
                };
                let line = format!("* {id} read {}: {outcome}", read.context);
                self.answer.push(line);
            }
        }
    }

    /// The messages in flight, each text once.
    fn tell_sent(&mut self) {
        let mut sent: Vec<(String, usize)> = Vec::new();
        for message in &self.cluster.network {
            let line = format!("  sent {}", told(message));
            match sent.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => sent.push((line, 1)),
            }
        }
        self.answer
            .extend(sent.into_iter().map(|(line, count)| match count {
                1 => line,
                count => format!("{line} ({count} times)"),
            }));
    }

    fn status(&mut self) {
        for (id, node) in &self.cluster.nodes {
            let Some(raft) = &node.raft else {
                self.answer.push(format!("{id}: down"));
                continue;
            };
            let s = raft.status();
            let learner = if s.learner { " learner" } else { "" };
            self.answer.push(format!(
                "{id}: {:?}{learner} term {} vote {} leader {} commit {} applied {} of {}",
                s.role, s.term, s.vote, s.leader, s.commit, s.applied, s.last
            ));
        }
    }

    fn logs(&mut self) {
        for id in self.cluster.up() {
            let log = self.cluster.log(id);
            let entries: Vec<String> = log.values().map(told_entry).collect();
            self.answer.push(format!("{id}: {}", entries.join(" ")));
        }
    }
}

fn ids(words: &[&str]) -> Vec<NodeId> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

/// True if `FROM>TO` names this message; either side may be left out.
fn matches(picked: Option<&str>, message: &Message) -> bool {
    let Some((from, to)) = picked.map(|picked| picked.split_once('>').expect("FROM>TO")) else {
        return true;
    };
    let named = |word: &str, id: NodeId| word.is_empty() || word.parse() == Ok(id);
    named(from, message.from) && named(to, message.to)
}

fn proposal(proposed: Option<Proposed>) -> String {
    match proposed {
        Some(Proposed::Appended { first }) => format!("appended at {}", position(first)),
        Some(Proposed::Forwarded { leader }) => format!("forwarded to {leader}"),
        Some(Proposed::Refused(refused)) => format!("refused: {refused:?}"),
        None => "no answer".to_owned(),
    }
}

/// `term.index`.
fn position(position: Position) -> String {
    format!("{}.{}", position.term, position.index)
}

fn told_entry(entry: &Entry) -> String {
    let at = position(entry.position());
    match entry.kind {
        EntryKind::Normal if entry.data.is_empty() => at,
        EntryKind::Normal => format!("{at}={}", String::from_utf8_lossy(&entry.data)),
        _ => format!("{at}=conf"),
    }
}

fn told(message: &Message) -> String {
    let list = |entries: &[Entry]| {
        let told: Vec<String> = entries.iter().map(told_entry).collect();
        format!("[{}]", told.join(" "))
    };
    let body = match &message.body {
        Body::Append {
            prev,
            entries,
            commit,
        } => format!(
            "Append after {} {} commit {commit}",
            position(*prev),
            list(entries)
        ),
        Body::AppendReply {
            index,
            rejected: None,
        } => format!("AppendReply has {index}"),
        Body::AppendReply {
            index,
            rejected: Some(hint),
        } => format!("AppendReply not after {index}, try {}", position(*hint)),
        Body::Propose { entries } => format!("Propose {}", list(entries)),
        Body::Vote { last, transfer } => asked("Vote", *last, *transfer),
        Body::PreVote { last, transfer } => asked("PreVote", *last, *transfer),
        Body::VoteReply { granted } => format!("VoteReply {}", yes_or_no(*granted)),
        Body::PreVoteReply { granted } => format!("PreVoteReply {}", yes_or_no(*granted)),
        Body::Snapshot(snapshot) => format!(
            "Snapshot of {} voters {:?} learners {:?}",
            position(snapshot.position),
            snapshot.conf.voters,
            snapshot.conf.learners
        ),
        Body::Heartbeat { commit, context } => {
            let read = if context.is_empty() {
                ""
            } else {
                " for a read"
            };
            format!("Heartbeat commit {commit}{read}")
        }
        Body::HeartbeatReply { context } if context.is_empty() => "HeartbeatReply".to_owned(),
        Body::HeartbeatReply { .. } => "HeartbeatReply for a read".to_owned(),
        Body::ReadIndexReply { index, .. } => format!("ReadIndexReply {index}"),
        Body::TransferLeader => "TransferLeader".to_owned(),
        Body::TimeoutNow => "TimeoutNow".to_owned(),
        Body::ReadIndex { .. } => "ReadIndex".to_owned(),
    };
    format!(
        "{}>{} term {} {body}",
        message.from, message.to, message.term
    )
}

fn asked(name: &str, last: Position, transfer: bool) -> String {
    let why = if transfer { " by transfer" } else { "" };
    format!("{name} with {}{why}", position(last))
}

fn yes_or_no(granted: bool) -> &'static str {
    if granted { "yes" } else { "no" }
}
