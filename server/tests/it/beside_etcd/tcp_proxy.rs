//! The words of `etcd gateway`: help, and why it does not start.

use std::process::{Command, Output};

use testkit::Tools;

/// Lines that do not start a gateway.
const LINES: &[&str] = &[
    "",
    "help",
    "--help",
    "-h",
    "nothing",
    "--no",
    "--no start",
    "start --help",
    "-h start",
    "start --no",
    "start --no=1 --help",
    "start -x",
    "start -xh",
    "start --=",
    "start ---a",
    "start x --endpoints",
    "--endpoints start",
    "start --retry-delay=x",
    "start --insecure-discovery=x",
    "start --endpoints=",
    "start --endpoints=nohost",
    "start --endpoints=http://nohost/",
    "--endpoints=127.0.0.1:1,nohost start",
    "start --listen-addr=nohost",
    "start --listen-addr=:1",
    "start --listen-addr=127.0.0.1:x",
    "start --listen-addr=nohost.invalid:1",
    "start --endpoints=nohost.invalid:1",
    "start --endpoints=http://127.0.0.1:23790/path",
    "start --endpoints=127.0.0.1:1 --endpoints 127.0.0.1:7 --listen-addr 127.0.0.1:7",
    "start --endpoints=[::1]:7 --listen-addr [::1]:7",
];

#[test]
fn a_gateway_that_does_not_start_says_why_in_etcds_words() {
    let Some(tools) = Tools::or_skip("the words of the gateway") else {
        return;
    };
    for line in LINES {
        let said = |program: &str| {
            let mut command = Command::new(program);
            let output = command
                .arg("gateway")
                .args(line.split_whitespace())
                .output();
            words(&output.unwrap())
        };
        let etcd = said(tools.etcd.to_str().unwrap());
        assert_eq!(said(env!("CARGO_BIN_EXE_stele")), etcd, "gateway {line}");
    }
}

/// The exit code and what was printed, without the log.
fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stderr);
    let printed = printed.lines().filter(|line| !line.starts_with('{'));
    let printed: Vec<&str> = printed.collect();
    (
        output.status.code(),
        text(&output.stdout),
        printed.join("\n"),
    )
}
