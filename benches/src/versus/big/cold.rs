//! Random gets and puts on a store that is larger than the memory for it. Give the server little
//! memory: `--stele` and `--etcd` may name a script that enters a control group and then becomes the
//! server.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use super::load::{Load, Shape, Verb, fill, local};
use super::restart::ms;
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{CLIENTS, Options, Result};
use crate::workload::KEY_BYTES;

/// Five million keys are 20 GB.
const VALUE_BYTES: usize = 4096;
const SETTLE: Duration = Duration::from_secs(10);

pub(super) fn measure(
    subject: &mut Subject,
    options: &Options,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let keys = options.big.keys;
    let (url, began) = (subject.url(), Instant::now());
    subject.block_on(local(async {
        fill(&url, 0..keys, VALUE_BYTES).await?;
        figures.number("cold: fill s", began.elapsed().as_secs_f64(), 0);
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }))?;
    figures.number("cold: file MiB", subject.file_bytes() / MIB, 0);
    subject.stop();
    let back = subject.restart()?;
    figures.number("cold: read after clean stop ms", ms(back), 0);
    let url = subject.url();
    let verbs = [
        (Verb::Get, "get"),
        (Verb::Put, "put"),
        (Verb::Replace, "put with prev_kv"),
    ];
    let each = Duration::from_secs_f64(options.minutes * 60.0) / verbs.len() as u32;
    for (verb, what) in verbs {
        subject.block_on(local(async {
            let shape = Shape {
                verb,
                clients: CLIENTS,
                keys: 0..keys,
                key_bytes: KEY_BYTES,
                value_bytes: VALUE_BYTES,
                rate: options.big.rate,
            };
            let before = subject.usage()?;
            let mut load = Load::start(&url, shape).await?;
            tokio::time::sleep(each).await;
            let (mut taken, over) = load.take().await?;
            let after = subject.usage()?;
            let count = taken.count() as f64;
            let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / count;
            figures.number(format!("cold: {what}, /s"), count / over.as_secs_f64(), 0);
            figures.number(format!("cold: {what}, p50 ms"), taken.ms(0.5), 2);
            figures.number(format!("cold: {what}, p99 ms"), taken.ms(0.99), 2);
            figures.number(format!("cold: {what}, CPU us"), cpu, 1);
            Ok(())
        }))?;
    }
    let anonymous = subject.usage()?.anonymous_bytes as f64 / MIB;
    figures.number("cold: anonymous MiB", anonymous, 0);
    Ok(())
}
