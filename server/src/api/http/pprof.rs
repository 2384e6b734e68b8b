//! `/debug/pprof/`: etcd's paths. Answers what a Rust process can report about itself; for profiles
//! of Go's runtime the answer names the tool that takes such a profile here.

use http::StatusCode;

use crate::api::page::{Page, TEXT, page};

const HTML: &str = "text/html; charset=utf-8";
const PREFIX: &str = "/debug/pprof/";

/// Profiles of Go's runtime, each with the tool that replaces it.
const ELSEWHERE: [(&str, &str); 7] = [
    (
        "allocs",
        "take one with `heaptrack -p PID` or `perf trace -e mmap -p PID`",
    ),
    (
        "block",
        "take one with `perf trace -p PID` or `offcputime-bpfcc -p PID`",
    ),
    (
        "heap",
        "take one with `heaptrack -p PID`; /proc/PID/smaps has the sums",
    ),
    ("mutex", "take one with `offcputime-bpfcc -p PID`"),
    ("profile", "take one with `perf record -g -p PID`"),
    ("symbol", "the binary has its own symbols"),
    ("trace", "take one with `perf trace -p PID`"),
];

/// The page for `path`, or `None` if it is not under `/debug/pprof`.
pub(crate) fn answer(path: &str, args: &[String]) -> Option<Page> {
    let name = match path {
        "/debug/pprof" => "",
        path => path.strip_prefix(PREFIX)?,
    };
    let found = match name {
        "" => page(StatusCode::OK, HTML, index()),
        "cmdline" => page(StatusCode::OK, TEXT, args.join("\0")),
        "goroutine" | "threadcreate" => page(StatusCode::OK, TEXT, threads()),
        name => match ELSEWHERE.iter().find(|(profile, _)| *profile == name) {
            Some((profile, way)) => page(
                StatusCode::NOT_IMPLEMENTED,
                TEXT,
                format!("Stele does not make the profile {profile}: {way}\n"),
            ),
            None => page(StatusCode::NOT_FOUND, TEXT, "Unknown profile\n"),
        },
    };
    Some(found)
}

fn index() -> String {
    let mut rows = String::new();
    for (name, what) in [
        ("cmdline", "the command line"),
        (
            "goroutine",
            "the threads of this process, for want of goroutines",
        ),
        ("threadcreate", "the same"),
    ] {
        rows.push_str(&format!(
            "<tr><td><a href='{name}'>{name}</a></td><td>{what}</td></tr>\n"
        ));
    }
    for (name, way) in ELSEWHERE {
        rows.push_str(&format!(
            "<tr><td>{name}</td><td>not made by the server: {way}</td></tr>\n"
        ));
    }
    format!(
        "<html><head><title>/debug/pprof/</title></head><body>\n<p>PID {}</p>\n<table>\n{rows}</table>\n</body></html>\n",
        std::process::id()
    )
}

/// One line per thread: id, name, state and processor time, as the kernel reports them.
fn threads() -> String {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return "threads: not known\n".to_owned();
    };
    let lines: Vec<String> = tasks.flatten().filter_map(|task| thread(&task)).collect();
    format!("threads: {}\n{}", lines.len(), lines.concat())
}

/// `None` if the thread has ended meanwhile.
fn thread(task: &std::fs::DirEntry) -> Option<String> {
    let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses.
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let (state, user, system) = (fields.first()?, fields.get(11)?, fields.get(12)?);
    Some(format!(
        "{id}\t{name}\t{state}\tuser={user} system={system} ticks\n"
    ))
}
