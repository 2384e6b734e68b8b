//! How a container behaves, read from its pod's annotations and its command.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::object::{self, Object};
use machinery::time;
use serde_json::Value;

/// Annotation: how long the containers run.
pub const EXIT_AFTER: &str = "hollow.stele/exit-after";
/// Annotation: their exit code.
pub const EXIT_CODE: &str = "hollow.stele/exit-code";
/// Annotation: `false` if they never become ready.
pub const READY: &str = "hollow.stele/ready";
/// Annotation: how long they take to stop when the pod is deleted.
pub const STOP_AFTER: &str = "hollow.stele/stop-after";

/// How long a container of a Job's pod runs by default.
const JOB_RUNS: Duration = Duration::from_secs(1);
/// Commands that succeed at once.
const QUICK: [&str; 8] = [
    "true", ":", "echo", "date", "ls", "pwd", "hostname", "printf",
];

/// How a container ends without being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Time after its start.
    pub after: Duration,
    /// Its exit code.
    pub code: i64,
}

/// How a container of the pod ends; `None` if it runs until it is stopped.
pub fn exit(pod: &Object, container: &Value, init: bool) -> Option<Exit> {
    let code = object::annotation(pod, EXIT_CODE).and_then(|code| code.parse().ok());
    if !init && let Some(after) = duration(pod, EXIT_AFTER) {
        let code = code.unwrap_or(0);
        return Some(Exit { after, code });
    }
    match by_command(container) {
        Some(Known::Ends(exit)) => return Some(exit),
        Some(Known::Runs) => return None,
        None => {}
    }
    let job = object::controller(pod).is_some_and(|owner| object::kind(owner) == "Job");
    let after = match (init, job) {
        (true, _) => Duration::ZERO,
        (_, true) => JOB_RUNS,
        _ => return None,
    };
    let code = if init { 0 } else { code.unwrap_or(0) };
    Some(Exit { after, code })
}

/// True if the pod's containers may become ready.
pub fn may_be_ready(pod: &Object) -> bool {
    object::annotation(pod, READY) != Some("false")
}

/// How long the pod's containers take to stop.
pub fn stop_after(pod: &Object) -> Duration {
    duration(pod, STOP_AFTER).unwrap_or(Duration::ZERO)
}

/// The known behaviour of a command.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Ends(Exit),
    /// Forever.
    Runs,
}

fn duration(pod: &Object, annotation: &str) -> Option<Duration> {
    let nanos = time::parse_go_duration(object::annotation(pod, annotation)?)?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

fn by_command(container: &Value) -> Option<Known> {
    let words = object::items(container, &["command"]).iter();
    let words = words.chain(object::items(container, &["args"]));
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let (program, rest) = words.split_first()?;
    let program = program.rsplit('/').next()?;
    match (program, rest) {
        ("sh" | "bash" | "ash", [flags, script, ..])
            if flags.starts_with('-') && flags.ends_with('c') =>
        {
            by_script(script)
        }
        _ => {
            let mut line = vec![program];
            line.extend(rest);
            match step(&line)? {
                Step::Takes(after) => Some(Known::Ends(Exit { after, code: 0 })),
                Step::Fails => Some(Known::Ends(Exit {
                    after: Duration::ZERO,
                    code: 1,
                })),
                Step::Exits(code) => Some(Known::Ends(Exit {
                    after: Duration::ZERO,
                    code,
                })),
                Step::Stays => Some(Known::Runs),
            }
        }
    }
}

/// The effect of one command in a script.
enum Step {
    Takes(Duration),
    Fails,
    Exits(i64),
    Stays,
}

/// Evaluates a list of commands; an unknown command makes the whole script unknown.
fn by_script(script: &str) -> Option<Known> {
    let (mut after, mut code) = (Duration::ZERO, 0);
    let mut rest = script;
    while !rest.trim().is_empty() {
        let end = rest.find([';', '\n', '&', '|']).unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        let and = tail.starts_with("&&");
        if tail.starts_with('|') || (tail.starts_with('&') && !and) {
            return None;
        }
        rest = tail.trim_start_matches([';', '\n', '&']);
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match step(&words)? {
            Step::Takes(time) => {
                after = after.saturating_add(time);
                code = 0;
            }
            Step::Fails => {
                code = 1;
                if and {
                    break;
                }
            }
            Step::Exits(with) => {
                code = with;
                break;
            }
            Step::Stays => return Some(Known::Runs),
        }
    }
    Some(Known::Ends(Exit { after, code }))
}

fn step(words: &[&str]) -> Option<Step> {
    match words {
        ["sleep", "infinity" | "inf"] => Some(Step::Stays),
        ["sleep", time] => seconds(time).map(Step::Takes),
        ["false"] => Some(Step::Fails),
        ["exit"] => Some(Step::Exits(0)),
        ["exit", code] => code.parse().ok().map(Step::Exits),
        [program, ..] if QUICK.contains(program) => Some(Step::Takes(Duration::ZERO)),
        _ => None,
    }
}

/// A duration as `sleep` takes it: a number and `s`, `m`, `h` or `d`.
fn seconds(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok()
}
