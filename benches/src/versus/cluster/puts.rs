//! etcd's `benchmark` on three members, with requests to all of them.

#![expect(
    clippy::disallowed_methods,
    reason = "waits for the members' background work"
)]

use std::ffi::OsString;

use etcd_api::Client;

use super::{Cluster, Result};
use crate::versus::generator;
use crate::versus::loads::Load;
use crate::versus::options::{Options, Programs, Side};
use crate::versus::side::{self, Run};

/// As on one server; CPU time, memory and bytes written are summed over the members.
pub(in crate::versus) fn run(
    side: Side,
    load: &Load,
    programs: &Programs,
    options: &Options,
) -> Result<Run> {
    let mut cluster = Cluster::start(side, programs, options)?;
    let endpoints = cluster.endpoints()?;
    let generate = |args: &[OsString]| {
        generator::run(&programs.benchmark, &endpoints, args, cluster.scratch())
    };
    if let Some(args) = load.prefill_arguments() {
        generate(&args)?;
        let url = &cluster.urls()[0];
        let put = async { side::put_read_key(&Client::connect(url.clone()).await?).await };
        cluster.runtime.block_on(put)?;
        std::thread::sleep(side::SETTLE);
    }
    let before = cluster.usage()?;
    let summaries = generate(&load.arguments())?;
    std::thread::sleep(side::SETTLE);
    let after = cluster.usage()?;
    cluster.all_alive()?;
    Ok(side::account(load, &summaries, &before, &after))
}
