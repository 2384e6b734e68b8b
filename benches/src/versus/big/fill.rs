//! A store filled put by put: what that costs, and the time of a restart after a stop and a kill.

use std::time::Duration;

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

pub(super) fn measure(subject: &mut Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let url = subject.url();
    let idle = subject.usage()?;
    figures.aim(
        "fill: empty, resident MiB",
        mib(idle.resident_bytes),
        "≤ 10",
    );
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
    figures.aim(
        "fill: anonymous MiB",
        mib(full.anonymous_bytes),
        "≤ 150 at 1 M keys",
    );
    figures.aim("fill: disk B/put", format!("{written:.0}"), "≤ etcd's");
    figures.number("fill: file MiB", subject.file_bytes() / MIB, 0);

    figures.number("fill: clean stop ms", ms(subject.stop()), 0);
    let back = subject.restart()?;
    figures.aim(
        "fill: read after clean stop, ms",
        format!("{:.0}", ms(back)),
        "≤ 150; 10 M ≤ 1.5 × 1 M",
    );
    let started = subject.usage()?;
    figures.add(
        "fill: anonymous MiB after start",
        mib(started.anonymous_bytes),
    );
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
        format!("{:.0}", ms(back)),
        "≤ 400; 10 M ≤ 1.5 × 1 M",
    );
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / MIB)
}
