//! What one write uses, and what that makes of one quota.

#[cfg(test)]
mod tests;

use machinery::amounts::{self, Amounts};
use machinery::object;
use machinery::quantity::Quantity;
use machinery::quota::{Counted, Scope};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

/// What a write uses.
pub(super) struct Charge<'a> {
    counted: Counted,
    /// Of a status only the usage counts: it reports what happened, so no quota refuses it.
    is_report: bool,
    object: &'a Value,
    old: Option<&'a Value>,
    /// What the object uses.
    usage: Amounts,
    /// What it uses more than the old one.
    more: Amounts,
}

/// A decision of a quota: `Err` is why it refuses the write. The outer error is a quota that cannot
/// be read.
type Verdict<T> = Result<Result<T, String>, Status>;

impl<'a> Charge<'a> {
    /// The charge for a new object or, if there is an old one, for an update.
    pub(super) fn new(
        counted: Counted,
        subresource: &str,
        (old, object): (Option<&'a Value>, &'a Value),
        now: Timestamp,
    ) -> Charge<'a> {
        let usage = counted.usage(object, now);
        let more = match old {
            Some(old) => excess(&usage, &counted.usage(old, now)),
            None => usage.clone(),
        };
        Charge {
            counted,
            is_report: subresource == "status",
            object,
            old,
            usage,
            more,
        }
    }

    /// True if a quota counts the object. Refused is an object that says too little to be counted,
    /// or a quota whose use is not known yet.
    pub(super) fn concerns(&self, quota: &Value) -> Verdict<bool> {
        if !self.matches(quota, self.object)? {
            return Ok(Ok(false));
        }
        let name = object::name(quota);
        let hard = amounts::read(object::at(quota, &["status", "hard"]));
        let counts = |resource: &&str| self.counted.counts(resource);
        let counted: Vec<&str> = hard.keys().map(String::as_str).filter(counts).collect();
        if let Some(why) = self
            .counted
            .unspecified(self.object, counted.iter().copied())
        {
            return Ok(Err(format!("failed quota: {name}: {why}")));
        }
        let used = amounts::read(object::at(quota, &["status", "used"]));
        if !counted.iter().all(|resource| used.contains_key(*resource)) {
            let counted = counted.join(",");
            let why = format!("status unknown for quota: {name}, resources: {counted}");
            return Ok(Err(why));
        }
        Ok(Ok(true))
    }

    /// The resources of which the object uses less than nothing, if there are any.
    pub(super) fn negative(&self) -> Option<String> {
        let below = self
            .usage
            .iter()
            .filter(|(_, used)| **used < Quantity::ZERO);
        let names: Vec<&str> = below.map(|(resource, _)| resource.as_str()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// The new sum of a quota that the write concerns; `None` if it stays. Refused is a write that
    /// does not fit.
    pub(super) fn sum(&self, quota: &Value) -> Verdict<Option<Amounts>> {
        let counted_before = match self.old {
            Some(old) => self.matches(quota, old)?,
            None => false,
        };
        let used = if counted_before {
            &self.more
        } else {
            &self.usage
        };
        let hard = amounts::read(object::at(quota, &["status", "hard"]));
        let mut requested = used.clone();
        requested.retain(|resource, amount| hard.contains_key(resource) && !amount.is_zero());
        if requested.is_empty() {
            return Ok(Ok(None));
        }
        let used = amounts::read(object::at(quota, &["status", "used"]));
        let mut sum = used.clone();
        amounts::add(&mut sum, &requested);
        let exceeds = |resource: &str| {
            requested.contains_key(resource) && sum.get(resource) > hard.get(resource)
        };
        if !self.is_report && hard.keys().any(|resource| exceeds(resource)) {
            let shown = |all: &Amounts| {
                let exceeded = all.iter().filter(|(resource, _)| exceeds(resource));
                let exceeded = exceeded.map(|(resource, amount)| format!("{resource}={amount}"));
                exceeded.collect::<Vec<_>>().join(",")
            };
            return Ok(Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                object::name(quota),
                shown(&requested),
                shown(&used),
                shown(&hard),
            )));
        }
        Ok(Ok(Some(sum)))
    }

    /// True if a quota has a resource that the object uses, and the object is in all its scopes.
    fn matches(&self, quota: &Value, object: &Value) -> Result<bool, Status> {
        let hard = object::at(quota, &["status", "hard"]).and_then(Value::as_object);
        let mut resources = hard.into_iter().flat_map(|hard| hard.keys());
        if !resources.any(|resource| self.counted.counts(resource)) {
            return Ok(false);
        }
        let scopes = Scope::all(quota).map_err(|why| {
            let name = object::name(quota);
            Status::internal(&format!(
                "error matching scopes of quota {name}, err: {why}"
            ))
        })?;
        Ok(scopes.iter().all(|scope| self.counted.is_in(scope, object)))
    }
}

/// How much more than before is used of each resource; nothing for what is used less.
fn excess(now: &Amounts, before: &Amounts) -> Amounts {
    let zero = Quantity::ZERO;
    let more = now.iter().map(|(resource, amount)| {
        let before = before.get(resource).copied().unwrap_or(zero);
        (resource.clone(), amount.minus(before))
    });
    more.filter(|(_, amount)| *amount > zero).collect()
}
