//! Each row of the table of kubectl commands, with the real kubectl, as scripts in `kubectl/*.txt`.
//!
//! | a line | means |
//! |---|---|
//! | `$ command` | runs in a shell and must succeed |
//! | `! command` | must fail |
//! | `= text` | that is all of the output |
//! | any other | contained in an output line after the previous match; `…` matches anything |
//!
//! A sequence of white space counts as one blank. `# ` begins a comment. Commands run in
//! `kubectl/`, where their files are, and with the cluster's directory as `$HOME`.

use std::path::Path;
use std::process::Command;

use crate::harness::cluster::{kubectl_or_skip, told};
use crate::processes::up::Up;

const LOOK: &str = include_str!("kubectl/look.txt");
const GET: &str = include_str!("kubectl/get.txt");
const DESCRIBE: &str = include_str!("kubectl/describe.txt");
const CREATE: &str = include_str!("kubectl/create.txt");
const CHANGE: &str = include_str!("kubectl/change.txt");
const WORK: &str = include_str!("kubectl/work.txt");
const DELETE: &str = include_str!("kubectl/delete.txt");
const NODES: &str = include_str!("kubectl/nodes.txt");
const AUTH: &str = include_str!("kubectl/auth.txt");
const QUOTA: &str = include_str!("kubectl/quota.txt");
const SCRIPTS: [&str; 10] = [
    LOOK, GET, DESCRIBE, CREATE, CHANGE, WORK, DELETE, NODES, AUTH, QUOTA,
];

/// All commands with a row, except those that need containers or server-side apply.
const ROWS: &str = "version|api-resources|api-versions|cluster-info|explain|get|describe|\
    create namespace|create deployment|create configmap|create secret generic|create secret tls|\
    create secret docker-registry|create serviceaccount|create token|create role|\
    create rolebinding|create clusterrole|create clusterrolebinding|create job|create cronjob|\
    create quota|create poddisruptionbudget|create priorityclass|create ingress|\
    create service clusterip|create service nodeport|create service loadbalancer|\
    create service externalname|create -f|run|apply|apply view-last-applied|diff|replace|edit|\
    patch|label|annotate|scale|autoscale|set image|set env|set resources|set serviceaccount|\
    set selector|set subject|rollout status|rollout history|rollout undo|rollout pause|\
    rollout resume|rollout restart|expose|delete|cordon|uncordon|drain|taint|auth can-i|\
    auth whoami|auth reconcile|certificate approve|certificate deny|events|wait";

#[test]
fn every_row_has_a_command() {
    let all = SCRIPTS.concat();
    for row in ROWS.split('|') {
        assert!(all.contains(&format!("kubectl {row}")), "{row}");
    }
}

#[test]
fn kubectl_looks_around_and_gets_in_every_form() {
    play(&[("look", LOOK), ("get", GET)]);
}

#[test]
fn kubectl_describes_and_makes_every_kind() {
    play(&[("describe", DESCRIBE), ("create", CREATE)]);
}

#[test]
fn kubectl_changes_what_is_there() {
    play(&[("change", CHANGE), ("auth", AUTH)]);
}

#[test]
fn kubectl_runs_and_rolls_a_deployment() {
    play(&[("work", WORK)]);
}

#[test]
fn kubectl_deletes_and_waits() {
    play(&[("delete", DELETE)]);
}

#[test]
fn kubectl_takes_nodes_out_of_service() {
    play(&[("nodes", NODES)]);
}

#[test]
fn kubectl_stays_within_quotas_and_limits() {
    play(&[("quota", QUOTA)]);
}

/// Runs scripts on a separate cluster.
fn play(scripts: &[(&str, &str)]) {
    if !kubectl_or_skip(scripts[0].0) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    for (name, script) in scripts {
        // A script may choose a namespace, so each has its own kubeconfig.
        let kubeconfig = home.path().join(format!("{name}.kubeconfig"));
        std::fs::copy(home.path().join("admin.kubeconfig"), &kubeconfig).unwrap();
        let mut steps = steps(script).into_iter().peekable();
        assert!(steps.peek().is_some(), "{name} has no commands");
        steps.for_each(|step| step.run(home.path(), &kubeconfig));
    }
    drop(up);
}

struct Step<'a> {
    succeeds: bool,
    command: &'a str,
    expected: Vec<&'a str>,
}

fn steps(script: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let meant = |line: &&str| !line.is_empty() && !line.starts_with("# ");
    for line in script.lines().filter(meant) {
        let command = |mark: &str| line.strip_prefix(mark);
        if let Some(command) = command("$ ").or(command("! ")) {
            steps.push(Step {
                succeeds: line.starts_with('$'),
                command,
                expected: Vec::new(),
            });
        } else {
            steps.last_mut().unwrap().expected.push(line);
        }
    }
    steps
}

impl Step<'_> {
    fn run(&self, home: &Path, kubeconfig: &Path) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign/kubectl");
        let output = Command::new("sh")
            .args(["-c", self.command])
            .current_dir(folder)
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", home)
            .output()
            .unwrap();
        let told = told(&output);
        let succeeded = output.status.success();
        assert_eq!(succeeded, self.succeeds, "{}\n{told}", self.command);
        let mut lines = told.lines().map(blanks);
        for expected in &self.expected {
            if let Some(all) = expected.strip_prefix('=') {
                assert_eq!(blanks(&told), blanks(all), "{}", self.command);
                continue;
            }
            let found = lines.any(|line| has(&line, &blanks(expected)));
            assert!(
                found,
                "{}\ndoes not say {expected:?}:\n{told}",
                self.command
            );
        }
    }
}

fn blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if the parts of a pattern occur in a line in this order.
fn has(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('…') {
        rest = rest
            .and_then(|rest| rest.split_once(part))
            .map(|(_, rest)| rest);
    }
    rest.is_some()
}
