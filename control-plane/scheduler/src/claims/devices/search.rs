//! The search for devices on one node: every request gets the first devices that all of them allow.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use machinery::object;
use machinery::quantity::Quantity;
use serde_json::Value;

use super::counters::{Counters, Left};
use super::published::{Pool, Published, State};
use super::slice::{Device, Slice};
use super::taken::{InUse, Taken};
use super::wanted::{Alternative, Amount, DEVICES_MAX, Request, Wanted};
use crate::node::NodeInfo;

/// How often one search looks at a device. Kubernetes gives up after ten seconds.
pub(super) const STEPS_MAX: usize = 20_000;
const NOT_ALL: &str = "cannot allocate all claims";
const SPECIAL: &str = "cannot allocate all claims: devices that have binding conditions \
    are not supported";
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
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slice: &'a Slice,
    device: &'a Device,
    /// The counters of its pool.
    counters: Option<&'a Counters>,
    /// How other claims use it.
    in_use: Option<&'a InUse>,
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
    /// What the requests in `chosen` get of devices that are shared, of each capacity.
    parts: HashMap<usize, Vec<Quantity>>,
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
            in_use: taken.of(&device.id),
        })
    });
    let mut search = Search {
        wanted,
        devices: devices.collect(),
        taken,
        left,
        consumed: HashMap::new(),
        parts: HashMap::new(),
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
            // Devices that other claims have used up are not asked for. One that this pod uses up
            // is, and then not all can be had.
            if !self.is_selected(at, index)? || !self.has_capacity_for(at, index, None) {
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
        self.count(chosen, Quantity::plus);
        self.chosen.push(chosen);
    }

    /// Takes back the last choice.
    fn give_back(&mut self) {
        if let Some(chosen) = self.chosen.pop() {
            self.count(chosen, Quantity::minus);
        }
    }

    /// Counts what a device consumes and what is consumed of it, before it is chosen and after that
    /// is taken back: both times `chosen` has the same others, which may share the device.
    fn count(&mut self, one: Chosen<'a>, by: fn(Quantity, Quantity) -> Quantity) {
        let (_, way) = self.way(one.at);
        if way.is_admin {
            return;
        }
        let is_first = !self.is_held(one.index);
        if let Some(counters) = self.devices[one.index].counters.filter(|_| is_first) {
            for (place, amount) in counters.consumed(one.device) {
                let key = (counters.generation, place);
                let consumed = self.consumed.entry(key).or_default();
                *consumed = by(*consumed, amount);
            }
        }
        if one.device.is_shared {
            let none = || vec![Quantity::ZERO; one.device.capacities.len()];
            let sums = self.parts.entry(one.index).or_insert_with(none);
            let parts = one.device.parts(&way.capacity).unwrap_or_default();
            for (sum, part) in sums.iter_mut().zip(parts) {
                *sum = by(*sum, part);
            }
        }
    }

    /// True if a claim has the device or a part of it, or a request that is satisfied.
    fn is_held(&self, index: usize) -> bool {
        let mut chosen = self.chosen.iter();
        self.devices[index].in_use.is_some()
            || chosen.any(|one| one.index == index && !self.way(one.at).1.is_admin)
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
        let Candidate { device, in_use, .. } = self.devices[index];
        let is_in_use = if device.is_shared {
            !by.is_admin && in_use.is_some_and(InUse::is_whole)
        } else if by.is_admin {
            of_claim.clone().any(|one| one.index == index)
        } else {
            in_use.is_some() || self.chosen.iter().any(|one| one.index == index)
        };
        if is_in_use || !self.is_selected(at, index)? {
            return Ok(false);
        }
        if device.is_special {
            self.met_special = true;
            return Ok(false);
        }
        let chosen = self.parts.get(&index).map(Vec::as_slice);
        Ok(self.has_capacity_for(at, index, chosen)
            && (by.is_admin || self.has_counters_for(index))
            && !is_tainted(device, &by.tolerations)
            && self.agrees(at, device))
    }

    /// True if the device has left what the request asks for, beside the parts that other claims
    /// have and those that are chosen. Administrators take no part of their own: the API disregards
    /// all allocations for them.
    fn has_capacity_for(&self, at: At, index: usize, chosen: Option<&[Quantity]>) -> bool {
        let (_, by) = self.way(at);
        let Candidate { device, in_use, .. } = self.devices[index];
        let Some(parts) = device.parts(&by.capacity) else {
            return false;
        };
        let mut each = device.capacities.iter().zip(parts).enumerate();
        by.is_admin
            || each.all(|(place, (capacity, part))| {
                let others = in_use.map(|in_use| in_use.consumed(&capacity.name));
                let chosen = chosen.map(|sums| sums[place]);
                let all = [others, chosen].into_iter().flatten();
                all.fold(part, Quantity::plus) <= capacity.value
            })
    }

    /// True if the devices in use and those that are chosen leave what the device consumes. Who
    /// shares a device consumes nothing more.
    fn has_counters_for(&self, index: usize) -> bool {
        let one = &self.devices[index];
        let consumes = !one.device.consumes.is_empty() && !self.is_held(index);
        let Some(counters) = one.counters.filter(|_| consumes) else {
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
