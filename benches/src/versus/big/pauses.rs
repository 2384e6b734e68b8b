//! Put latency of many clients, undisturbed and during the store's maintenance tasks.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::future::Future;
use std::time::{Duration, Instant};

use etcd_api::Client;

use super::aim::at_most;
use super::bystander::Bystander;
use super::load::{Load, Shape, Verb, connect, delete, fill, local};
use super::subject::{MIB, Subject, compact, defragment, revision};
use super::table::Figures;
use super::{CLIENTS, Plan, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::KEY_BYTES;

/// The length of a measurement; it is longer if the task takes longer.
const STRETCH: Duration = Duration::from_secs(10);
/// How long to wait for a task that starts by itself.
const CHORE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
/// How long the disk is measured without any load.
const ALONE: Duration = Duration::from_secs(30);

pub(super) fn measure(subject: &Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let url = subject.url();
    let kept = plan.keys - plan.keys / 10..plan.keys;
    let bystander = Bystander::start(subject.scratch())?;
    subject.block_on(local(async {
        tokio::time::sleep(ALONE).await;
        let longest = bystander.take();
        figures.number(
            "pauses: nobody writes, longest sync of a bystander ms",
            longest,
            1,
        );
        // Twice: so many keys, and as many old revisions to compact.
        fill(&url, 0..plan.keys, VALUE_BYTES).await?;
        fill(&url, 0..plan.keys, VALUE_BYTES).await?;
        let client = connect(&url, 1).await?.remove(0);
        let shape = Shape {
            verb: Verb::Put,
            clients: CLIENTS,
            keys: kept.clone(),
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            rate: plan.rate,
        };
        let load = Load::start(&url, shape).await?;
        let mut stretches = Stretches {
            load,
            bystander: &bystander,
            figures: &mut *figures,
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        stretches.load.take().await?;
        bystander.take();

        stretches.during("undisturbed", async { Ok(()) }).await?;
        stretches
            .during("compaction", async {
                compact(&client, revision(&client).await?, true).await
            })
            .await?;
        stretches.during("checkpoint", checkpoint(subject)).await?;
        stretches
            .during("undisturbed again", async { Ok(()) })
            .await?;
        delete(&client, 0..kept.start).await?;
        stretches.load.take().await?;
        stretches
            .during("space return", async {
                compact(&client, revision(&client).await?, true).await?;
                shrunk(subject, &client).await
            })
            .await?;
        stretches.during("defragment", defragment(&client)).await?;
        Ok(())
    }))?;
    bystander.stop()
}

struct Stretches<'a, 'b> {
    load: Load,
    bystander: &'a Bystander,
    figures: &'a mut Figures<'b>,
}

impl Stretches<'_, '_> {
    async fn during(&mut self, name: &str, chore: impl Future<Output = Result<()>>) -> Result<()> {
        let began = Instant::now();
        chore.await?;
        let took = began.elapsed();
        tokio::time::sleep(STRETCH.saturating_sub(took)).await;
        let (mut taken, over) = self.load.take().await?;
        let quiet = name.starts_with("undisturbed");
        let p99 = if quiet { "" } else { "undisturbed + a few ms" };
        self.figures.number(
            format!("pauses: {name}, puts/s"),
            taken.count() as f64 / over.as_secs_f64(),
            0,
        );
        if !quiet {
            self.figures
                .number(format!("pauses: {name}, took s"), took.as_secs_f64(), 1);
        }
        self.figures.aim(
            format!("pauses: {name}, put p99 ms"),
            taken.ms(0.99),
            1,
            p99,
        );
        self.figures.aim(
            format!("pauses: {name}, longest put ms"),
            taken.ms(1.0),
            1,
            at_most(50.0),
        );
        self.figures.number(
            format!("pauses: {name}, longest sync of a bystander ms"),
            self.bystander.take(),
            1,
        );
        Ok(())
    }
}

/// Waits until Stele has made a checkpoint by itself; etcd makes many per second.
async fn checkpoint(subject: &Subject) -> Result<()> {
    let began = Instant::now();
    let before = subject.checkpoints().await?;
    while subject.checkpoints().await? == before && began.elapsed() < CHORE_MAX {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Waits until the file has lost half its length; etcd's never shrinks by itself.
async fn shrunk(subject: &Subject, client: &Client) -> Result<()> {
    let began = Instant::now();
    let before = subject.file_bytes();
    let patience = match subject.side {
        super::Side::Etcd => STRETCH,
        _ => CHORE_MAX,
    };
    while subject.file_bytes() > before / 2.0 && began.elapsed() < patience {
        tokio::time::sleep(POLL).await;
    }
    revision(client).await?;
    eprintln!(
        "file: {:.0} → {:.0} MiB",
        before / MIB,
        subject.file_bytes() / MIB
    );
    Ok(())
}
