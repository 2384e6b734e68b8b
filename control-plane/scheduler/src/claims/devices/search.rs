//! The search for devices on one node: every request gets the first devices that all of them allow.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use machinery::object;
use machinery::quantity::Quantity;
use serde_json::Value;

use super::counters::{Counters, Left};
use super::slice::{Device, Pool, Published, Slice, State};
use super::taken::Taken;
use super::wanted::{Alternative, Amount, DEVICES_MAX, Request, Wanted};
use crate::node::NodeInfo;

/// How often one search looks at a device. Kubernetes gives up after ten seconds.
pub(super) const STEPS_MAX: usize = 20_000;
const NOT_ALL: &str = "cannot allocate all claims";
const SPECIAL: &str = "cannot allocate all claims: devices that are shared or have \
    binding conditions are not supported";
const INVALID: &str = "invalid resource pools were encountered";

/// A device that was found for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub(super) at: At,
    index: usize,
    pub(super) slice: &'a Slice,
    pub(super) device: &'a Device,
}

/// An alternative of a request of a claim, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub(super) claim: usize,
    pub(super) request: usize,
    pub(super) alternative: usize,
}

/// Why no devices are found.
type Reason = Cow<'static, str>;

/// A device that the node can use.
struct Candidate<'a> {
    slice: &'a Slice,
    device: &'a Device,
    /// The counters of its pool.
    counters: Option<&'a Counters>,
    /// A claim has it.
    is_taken: bool,
}

struct Search<'a> {
    wanted: &'a [Wanted],
    devices: Vec<Candidate<'a>>,
    taken: &'a Taken,
    /// What other claims leave of the counters of pools.
    left: &'a Left,
    /// What the devices in `chosen` consume: by the generation of the pool, and the place of the
    /// counter in it.
    consumed: HashMap<(usize, usize), Quantity>,
    /// Which alternatives select which devices.
    selected: HashMap<(At, usize), bool>,
    chosen: Vec<Chosen<'a>>,
    steps: usize,
    /// What selectors took.
    cost: u64,
    /// A device was passed over because it needs what is not implemented.
    met_special: bool,
}

/// Finds devices for all claims on a node. What selectors took is added to `cost`.
pub(super) fn search<'a>(
    wanted: &'a [Wanted],
    published: &'a Published,
    (taken, left): (&'a Taken, &'a Left),
    node: &NodeInfo,
    cost: &Cell<u64>,
) -> Result<Vec<Chosen<'a>>, Reason> {
    let pools = published.at(node);
    check_pools(wanted, &pools)?;
    let complete = pools.iter().filter(|pool| pool.state == State::Complete);
    let devices = complete.flat_map(|pool| {
        pool.devices.iter().map(move |&(slice, device)| Candidate {
            slice,
            device,
            counters: pool.counters,
            is_taken: taken.contains(&device.id),
        })
    });
    let mut search = Search {
        wanted,
        devices: devices.collect(),
        taken,
        left,
        consumed: HashMap::new(),
        selected: HashMap::new(),
        chosen: Vec::new(),
        steps: 0,
        cost: 0,
        met_special: false,
    };
    let found = search.request(0, 0);
    cost.set(cost.get().saturating_add(search.cost));
    if found? {
        return Ok(search.chosen);
    }
    let is_invalid = pools.iter().any(|pool| pool.state == State::Invalid);
    Err(Cow::Borrowed(match (search.met_special, is_invalid) {
        (true, _) => SPECIAL,
        (false, true) => INVALID,
        (false, false) => NOT_ALL,
    }))
}

/// Which devices are all of a node is not known before every pool is complete.
fn check_pools(wanted: &[Wanted], pools: &[Pool<'_>]) -> Result<(), Reason> {
    let alternatives = wanted
        .iter()
        .flat_map(|claim| &claim.requests)
        .flat_map(|request| &request.alternatives);
    let mut all = alternatives.filter(|one| one.amount == Amount::All);
    let broken = pools.iter().find(|pool| pool.state != State::Complete);
    let (Some(one), Some(pool)) = (all.next(), broken) else {
        return Ok(());
    };
    let is = match pool.state {
        State::Invalid => "invalid",
        State::Complete | State::Incomplete => "being updated",
    };
    Err(Cow::Owned(format!(
        "claim {}, request {}: asks for all devices, but resource pool {} is currently {is}",
        one.of, one.name, pool.name
    )))
}

impl<'a> Search<'a> {
    /// Satisfies this request and all after it. What it finds is in `chosen`.
    fn request(&mut self, claim: usize, request: usize) -> Result<bool, Reason> {
        let wanted: &'a [Wanted] = self.wanted;
        let Some(of) = wanted.get(claim) else {
            return Ok(true);
        };
        let Some(one) = of.requests.get(request) else {
            return self.request(claim + 1, 0);
        };
        for (alternative, by) in one.alternatives.iter().enumerate() {
            let at = At {
                claim,
                request,
                alternative,
            };
            let found = match by.amount {
                Amount::Exactly(count) => self.pick(at, count, 0)?,
                Amount::All => self.take_all(at)?,
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds so many more devices among those from `from` on, and then satisfies the other
    /// requests.
    fn pick(&mut self, at: At, count: usize, from: usize) -> Result<bool, Reason> {
        if count == 0 {
            return self.request(at.claim, at.request + 1);
        }
        for index in from..self.devices.len() {
            if !self.fits(at, index)? {
                continue;
            }
            self.choose(at, index);
            if self.pick(at, count - 1, index + 1)? {
                return Ok(true);
            }
            self.give_back();
        }
        Ok(false)
    }

    /// Takes all devices that are selected, and then satisfies the other requests.
    fn take_all(&mut self, at: At) -> Result<bool, Reason> {
        let before = self.chosen.len();
        let mut found = false;
        for index in 0..self.devices.len() {
            if !self.is_selected(at, index)? {
                continue;
            }
            found = self.fits(at, index)?;
            if !found {
                break;
            }
            self.choose(at, index);
        }
        if found && self.request(at.claim, at.request + 1)? {
            return Ok(true);
        }
        while self.chosen.len() > before {
            self.give_back();
        }
        Ok(false)
    }

    fn choose(&mut self, at: At, index: usize) {
        let Candidate { slice, device, .. } = self.devices[index];
        let chosen = Chosen {
            at,
            index,
            slice,
            device,
        };
        self.chosen.push(chosen);
        self.count(chosen, Quantity::plus);
    }

    /// Takes back the last choice.
    fn give_back(&mut self) {
        if let Some(chosen) = self.chosen.pop() {
            self.count(chosen, Quantity::minus);
        }
    }

    /// Counts what a device consumes, when it is chosen and when that is taken back.
    fn count(&mut self, chosen: Chosen<'a>, by: fn(Quantity, Quantity) -> Quantity) {
        let (_, way) = self.way(chosen.at);
        let Some(counters) = self.devices[chosen.index].counters else {
            return;
        };
        if way.is_admin {
            return;
        }
        for (place, amount) in counters.consumed(chosen.device) {
            let key = (counters.generation, place);
            let consumed = self.consumed.entry(key).or_default();
            *consumed = by(*consumed, amount);
        }
    }

    /// True if the request can have the device beside those that are chosen.
    fn fits(&mut self, at: At, index: usize) -> Result<bool, Reason> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            let why = format!("devices could not be allocated within {STEPS_MAX} steps");
            return Err(Cow::Owned(why));
        }
        let (_, by) = self.way(at);
        let of_claim = self.chosen.iter().filter(|one| one.at.claim == at.claim);
        if of_claim.clone().count() >= DEVICES_MAX {
            return Ok(false);
        }
        let is_in_use = if by.is_admin {
            of_claim.clone().any(|one| one.index == index)
        } else {
            self.devices[index].is_taken || self.chosen.iter().any(|one| one.index == index)
        };
        if is_in_use || !self.is_selected(at, index)? {
            return Ok(false);
        }
        let device = self.devices[index].device;
        if device.is_special {
            self.met_special = true;
            return Ok(false);
        }
        Ok((by.is_admin || self.has_counters_for(index))
            && !is_tainted(device, &by.tolerations)
            && self.agrees(at, device))
    }

    /// True if the devices in use and those that are chosen leave what the device consumes. Who
    /// only administers a device consumes nothing: the API disregards all allocations for them.
    fn has_counters_for(&self, index: usize) -> bool {
        let one = &self.devices[index];
        let Some(counters) = one.counters.filter(|_| !one.device.consumes.is_empty()) else {
            return true;
        };
        let left = self.left.of(counters, self.taken);
        counters.consumed(one.device).all(|(place, amount)| {
            let consumed = self.consumed.get(&(counters.generation, place));
            amount.plus(consumed.copied().unwrap_or_default()) <= left[place]
        })
    }

    fn is_selected(&mut self, at: At, index: usize) -> Result<bool, Reason> {
        if let Some(known) = self.selected.get(&(at, index)) {
            return Ok(*known);
        }
        let (_, by) = self.way(at);
        let device = self.devices[index].device;
        let selected = by.selects(device, &mut self.cost).map_err(Reason::Owned)?;
        self.selected.insert((at, index), selected);
        Ok(selected)
    }

    /// True if the constraints of the claim allow the device beside those that are chosen.
    fn agrees(&self, at: At, device: &Device) -> bool {
        let (request, by) = self.way(at);
        let mut constraints = self.wanted[at.claim].constraints.iter();
        constraints.all(|constraint| {
            if !constraint.covers(request, by) {
                return true;
            }
            let Some(own) = device.attribute(&constraint.attribute) else {
                return false;
            };
            let of_claim = self.chosen.iter().filter(|one| one.at.claim == at.claim);
            let mut covered = of_claim.filter(|one| {
                let (request, by) = self.way(one.at);
                constraint.covers(request, by)
            });
            covered.all(|one| {
                let is_same = one.device.attribute(&constraint.attribute) == Some(own);
                is_same != constraint.is_distinct
            })
        })
    }

    fn way(&self, at: At) -> (&'a Request, &'a Alternative) {
        let wanted: &'a [Wanted] = self.wanted;
        let request = &wanted[at.claim].requests[at.request];
        (request, &request.alternatives[at.alternative])
    }
}

/// True if a taint of the device keeps it from being allocated.
fn is_tainted(device: &Device, tolerations: &[Value]) -> bool {
    let mut taints = object::items(&device.published, &["taints"]).iter();
    taints.any(|taint| {
        let effect = object::text(taint, &["effect"]);
        let keeps_off = matches!(effect, "NoExecute" | "NoSchedule");
        keeps_off && !tolerations.iter().any(|one| is_tolerated(one, taint))
    })
}

fn is_tolerated(toleration: &Value, taint: &Value) -> bool {
    let text = |of: &Value, key: &str| object::text(of, &[key]).to_owned();
    let agrees = |key: &str| {
        let own = text(toleration, key);
        own.is_empty() || own == text(taint, key)
    };
    let value = match text(toleration, "operator").as_str() {
        "Exists" => true,
        "" | "Equal" => text(toleration, "value") == text(taint, "value"),
        _ => false,
    };
    value && agrees("effect") && agrees("key")
}
