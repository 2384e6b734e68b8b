//! Log lines, metrics and spans for operators, under etcd's names.

pub mod loggable;
pub mod logging;
pub mod metrics;
pub mod prefix;
pub mod spans;
