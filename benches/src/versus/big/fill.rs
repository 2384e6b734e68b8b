//! A store filled put by put: what that costs, and the time of a restart after a stop and a kill.

use std::time::Duration;

use super::aim::{at_most, at_most_by_millions, at_most_of_etcd};
use super::load::{Shape, Verb, local, put_each};
use super::restart::{after_kill, ms};
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{CLIENTS, Plan, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::KEY_BYTES;

const FILLING_CLIENTS: usize = 500;
/// Time for the background work of the fill to finish.
const SETTLE: Duration = Duration::from_secs(3);

/// Aims by millions of keys.
const ANONYMOUS_MIB: [(u64, f64); 1] = [(1, 150.0)];
/// Ten times the keys may take half as long again.
const CLEAN_MS: [(u64, f64); 2] = [(1, 150.0), (10, 225.0)];
const KILLED_MS: [(u64, f64); 2] = [(1, 400.0), (10, 600.0)];

pub(super) fn measure(subject: &mut Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let url = subject.url();
    let idle = subject.usage()?;
    let resident = mib(idle.resident_bytes);
    figures.aim("fill: empty, resident MiB", resident, 0, at_most(10.0));
    let filling = put_each(&url, plan.keys, plan.random, FILLING_CLIENTS);
    let took = subject.block_on(local(filling))?;
    subject.block_on(async {
        tokio::time::sleep(SETTLE).await;
        Ok(())
    })?;
    let full = subject.usage()?;
    let puts = plan.keys as f64;
    let written = (full.disk_write_bytes - idle.disk_write_bytes) as f64 / puts;
    let cpu = (full.cpu - idle.cpu).as_secs_f64() * 1e6 / puts;
    figures.number("fill: seconds", took.as_secs_f64(), 1);
    figures.number("fill: puts/s", puts / took.as_secs_f64(), 0);
    figures.number("fill: CPU us/put", cpu, 1);
    let most = |limits: &[(u64, f64)]| at_most_by_millions(plan.keys, limits);
    let anonymous = mib(full.anonymous_bytes);
    figures.aim("fill: anonymous MiB", anonymous, 0, most(&ANONYMOUS_MIB));
    figures.aim("fill: disk B/put", written, 0, at_most_of_etcd(1.0));
    figures.number("fill: file MiB", subject.file_bytes() / MIB, 0);

    figures.number("fill: clean stop ms", ms(subject.stop()), 0);
    let back = subject.restart()?;
    figures.aim(
        "fill: read after clean stop, ms",
        ms(back),
        0,
        most(&CLEAN_MS),
    );
    let started = subject.usage()?;
    let anonymous = mib(started.anonymous_bytes);
    figures.number("fill: anonymous MiB after start", anonymous, 0);
    let shape = Shape {
        verb: Verb::Put,
        clients: CLIENTS,
        keys: 0..plan.keys,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        rate: None,
    };
    let back = after_kill(subject, shape)?;
    figures.aim(
        "fill: read after kill -9 under load, ms",
        ms(back),
        0,
        most(&KILLED_MS),
    );
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}
