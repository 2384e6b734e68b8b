//! Log lines, metrics and spans for operators, under etcd's names.

pub(crate) mod loggable;
pub mod logging;
pub(crate) mod metrics;
pub(crate) mod prefix;
pub(crate) mod spans;

/// Logs `error` and ends the process, because the server cannot continue.
pub fn fatal(what: &str, error: &dyn std::fmt::Display) -> ! {
    tracing::error!(error = %error, "{what}");
    logging::flush();
    std::process::exit(1)
}
