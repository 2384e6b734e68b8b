//! What operators see: log lines, metrics and spans, under etcd's names.

pub mod loggable;
pub mod logging;
pub mod metrics;
pub mod prefix;
pub mod spans;
