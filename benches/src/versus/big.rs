//! `versus --only big`: what a large store costs. Each part fills a fresh server and measures one
//! thing, on etcd and on Stele in turn; the table shows the goal, and where Stele missed it.
//!
//! Uses the servers only as programs. It has its own load generator, on one thread, so that both
//! sides have the same remaining share of the machine.

mod aim;
mod bulk;
mod bystander;
mod cold;
mod count;
mod feed;
mod fill;
mod large;
mod lease;
mod load;
mod pauses;
mod restart;
mod sizes;
mod space;
mod stall;
mod subject;
mod table;
mod watch;

use super::Result;
use super::options::big::{Part, Plan};
use super::options::{Options, Programs, Side};
use large::Way;
use subject::Subject;
use table::Table;

/// Number of clients that put in the background.
const CLIENTS: usize = 50;

pub(super) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let plan = &options.big;
    let mut table = Table::default();
    let sides = options.sides.iter().filter(|side| **side != Side::Floor);
    for part in &plan.parts {
        for &side in sides.clone() {
            let mut figures = table.side(side);
            let mut subject = Subject::start(side, programs, options)?;
            let done = match part {
                Part::Fill => fill::measure(&mut subject, plan, &mut figures),
                Part::Count => count::measure(&subject, plan, &mut figures),
                Part::Pauses => pauses::measure(&subject, plan, &mut figures),
                Part::Return => space::measure_return(&subject, plan, &mut figures),
                Part::Overwrite => space::measure_overwrite(&subject, options, &mut figures),
                Part::Sizes => sizes::measure(&mut subject, options, &mut figures),
                Part::Large => large::measure(&mut subject, plan, &mut figures, Way::Range),
                Part::Attached => large::measure(&mut subject, plan, &mut figures, Way::Lease),
                Part::Between => {
                    large::measure(&mut subject, plan, &mut figures, Way::LeaseBetween)
                }
                Part::Stall => stall::measure(&subject, options, &mut figures),
                Part::Cold => cold::measure(&mut subject, options, &mut figures),
                Part::Bulk => bulk::measure(&mut subject, options, &mut figures),
                Part::Watch => watch::measure(&mut subject, plan, &mut figures),
                Part::Lease => lease::measure(&subject, plan, &mut figures),
            };
            done.map_err(|error| format!("{part:?} on {}: {error}", side.name()))?;
            subject.check_alive()?;
        }
        // Written after each part, so that an interrupted run keeps its results.
        table.write(&options.out)?;
    }
    print!("{}", table.markdown());
    let verdict = table.verdict();
    if plan.judge && verdict.missed > 0 {
        return Err(verdict.to_string().into());
    }
    Ok(())
}
