//! Log lines, metrics and spans for operators, under etcd's names.

pub mod loggable;
pub mod logging;
pub mod metrics;
pub mod prefix;
pub mod spans;

/// Logs `error` and ends the process, because the server cannot continue.
pub fn fatal(what: &str, error: &dyn std::fmt::Display) -> ! {
    tracing::error!(error = %error, "{what}");
    logging::flush();
    std::process::exit(1)
}
