//! etcd's own `benchmark` program as a child process, and the parser of its report.

#![expect(
    clippy::disallowed_methods,
    reason = "waits for a child process and limits its time"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;

/// Timeout of a load; on a server that answers, none takes this long.
const RUN_WITHIN: Duration = Duration::from_secs(900);
/// Number of characters of a failed run's report that go into the error.
const REPORT_TAIL: usize = 2000;
const POLL_EVERY: Duration = Duration::from_millis(2);

/// One summary in the report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Summary {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Starts the program.
pub(super) fn start(
    program: &Path,
    endpoint: &str,
    args: &[OsString],
    report: &Path,
) -> Result<Running> {
    // Into a file: progress bars would fill a pipe, which is read only at the end.
    let output = File::create(report)?;
    let child = Command::new(program)
        .arg("--endpoints")
        .arg(endpoint)
        .args(args)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(Running(child))
}

/// Runs the program to its end; returns the summaries in the order of the report.
pub(super) fn run(
    program: &Path,
    endpoint: &str,
    args: &[OsString],
    scratch: &Path,
) -> Result<Vec<Summary>> {
    let report = scratch.join("report");
    let ended = start(program, endpoint, args, &report)?.wait();
    let text = String::from_utf8_lossy(&fs::read(&report)?).into_owned();
    let tail = || {
        let start = text
            .char_indices()
            .rev()
            .nth(REPORT_TAIL)
            .map_or(0, |(at, _)| at);
        &text[start..]
    };
    if !ended? {
        return Err(format!("the load generator failed:\n{}", tail()).into());
    }
    if text.contains("Error distribution:") {
        return Err(format!("requests failed:\n{}", tail()).into());
    }
    let summaries = parse(&text);
    if summaries.is_empty() {
        return Err(format!("no summary in the report:\n{}", tail()).into());
    }
    Ok(summaries)
}

/// Kills the process when dropped.
pub(super) struct Running(Child);

impl Running {
    /// Waits for the end; true if it succeeded.
    fn wait(mut self) -> Result<bool> {
        let until = Instant::now() + RUN_WITHIN;
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(POLL_EVERY);
        }
        Err(format!("the load generator did not end within {RUN_WITHIN:?}").into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse(report: &str) -> Vec<Summary> {
    let mut summaries = Vec::new();
    for section in report.split("Summary:").skip(1) {
        let field = |prefix: &str| {
            let line = section
                .lines()
                .find_map(|line| line.trim().strip_prefix(prefix));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        };
        // A part without any request has no such lines.
        if let (Some(per_second), Some(p50), Some(p99)) =
            (field("Requests/sec:"), field("50% in"), field("99% in"))
        {
            summaries.push(Summary {
                per_second,
                p50_ms: p50 * 1000.0,
                p99_ms: p99 * 1000.0,
            });
        }
    }
    summaries
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "55 / 100 [--->___] 55.00% 12 p/s\nTotal Read Ops: 2\nDetails:\nSummary:\n  \
        Total:\t2.9846 secs.\n  Requests/sec:\t6701.1065\n\nResponse time histogram:\n  \
        0.0012 [1]\t|\n\nLatency distribution:\n  50% in 0.0131 secs.\n  99% in 0.0370 secs.\n  \
        99.9% in 0.0511 secs.\n\nTotal Write Ops: 2\nDetails:\nSummary:\n  Requests/sec:\t10.5\n  \
        50% in 0.001 secs.\n  99% in 0.002 secs.\n\nSummary:\n  Total: 0 secs.\n";

    #[test]
    fn each_summary_of_a_report_is_read() {
        let summaries = parse(REPORT);
        let microseconds = |ms: f64| (ms * 1000.0).round() as u64;
        let all: Vec<_> = summaries
            .iter()
            .map(|part| {
                (
                    part.per_second,
                    microseconds(part.p50_ms),
                    microseconds(part.p99_ms),
                )
            })
            .collect();
        assert_eq!(all, [(6701.1065, 13_100, 37_000), (10.5, 1000, 2000)]);
    }

    #[test]
    fn a_report_without_summaries_gives_none() {
        assert!(parse("panic: no route").is_empty());
    }
}
