//! Evictions: deletions that need a disruption from the disruption budget of the pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::auth::Answer;
use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::lifecycle;
use crate::registry::verbs::delete::Options;
use crate::registry::verbs::edit::{Edit, Edited, Step};
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::storage::decoded::DecodedObject;

/// A budget that lists more disrupted pods than this allows no other, as in Kubernetes.
const DISRUPTED_MAX: usize = 2000;
/// Attempts with a pod that changes meanwhile, as in Kubernetes.
const ATTEMPTS_MAX: usize = 20;
/// The condition of a budget that says whether it allows a disruption.
const ALLOWED: &str = "DisruptionAllowed";

impl Writer<'_> {
    /// Deletes a pod if its disruption budgets allow it. `eviction` is the client's body.
    pub(crate) async fn evict(
        &self,
        name: &str,
        mut eviction: Value,
        dry: bool,
    ) -> Result<(), Status> {
        lifecycle::match_namespace(&self.resource, self.namespace, &mut eviction)?;
        if object::name(&eviction) != name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        self.admit_body("eviction", name, &mut eviction).await?;
        let mut options = match eviction.get("deleteOptions") {
            Some(options) => Options::of(options)?,
            None => Options::default(),
        };
        options.dry |= dry;
        let reader = &self.registry.reader;
        let mut attempts = 1..ATTEMPTS_MAX;
        loop {
            let pod = reader
                .get(&self.resource.kind, self.namespace, name)
                .await?;
            if !goes_freely(&pod) {
                return self.evict_paid(name, &pod, &options).await;
            }
            // One that waits for its start may be up meanwhile, and then needs a budget.
            let mut asked = options.clone();
            if !has_ended(&pod) && asked.version.is_none() {
                asked.version = Some(object::resource_version(&pod).to_owned());
            }
            match self.mark_and_delete(name, asked).await {
                Err(error) if is_other(&error, &options) && attempts.next().is_some() => {}
                result => return result,
            }
        }
    }

    /// Evicts a pod that may need a budget.
    async fn evict_paid(&self, name: &str, pod: &Value, options: &Options) -> Result<(), Status> {
        let unpaid = self.pay_budget(pod, options.dry).await?;
        let mut asked = options.clone();
        if unpaid.is_some() && asked.version.is_none() {
            asked.version = Some(object::resource_version(pod).to_owned());
        }
        match (self.mark_and_delete(name, asked).await, unpaid) {
            (Err(error), Some(budget)) if is_other(&error, options) => {
                Err(still_processed(&budget))
            }
            (result, _) => result,
        }
    }

    /// Deletes a pod as the options ask for, and says in its conditions why.
    async fn mark_and_delete(&self, name: &str, mut options: Options) -> Result<(), Status> {
        let writer = Writer {
            dry: options.dry,
            ..self.clone()
        };
        if !options.dry {
            let revision = mark(&writer, name, &options).await?;
            // The version that is expected was there before the mark.
            options.version = options.version.map(|_| revision.to_string());
        }
        writer.delete_admitted(name, options).await?;
        Ok(())
    }

    /// Takes one disruption from the budget of a pod, if it has one. Returns the budget if it lets
    /// the pod go for nothing, as long as that is not ready.
    async fn pay_budget(&self, pod: &Value, dry: bool) -> Result<Option<String>, Status> {
        let reader = &self.registry.reader;
        let budgets = reader.resource("policy", "v1", "poddisruptionbudgets")?;
        reader.fresh().await?;
        let all = reader.cached_list(&budgets.kind, self.namespace)?;
        let Some(budget) = budget_of(pod, &all)? else {
            return Ok(None);
        };
        let paid = pay(self.registry, &budgets, budget, pod, dry).await?;
        Ok((!paid).then(|| object::name(budget).to_owned()))
    }
}

/// True if a pod changed while it was evicted, and its client did not ask for a version.
fn is_other(error: &Status, asked: &Options) -> bool {
    error.code == 409 && asked.version.is_none()
}

/// True if a pod needs no budget: it is not running, or is in deletion.
fn goes_freely(pod: &Value) -> bool {
    has_ended(pod) || object::text(pod, &["status", "phase"]) == "Pending"
}

/// True if a pod will not be ready any more.
fn has_ended(pod: &Value) -> bool {
    let phase = object::text(pod, &["status", "phase"]);
    ["Succeeded", "Failed"].contains(&phase) || object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    object::items(pod, &["status", "conditions"])
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The budget among these that covers a pod, if one does. Kubernetes has no specific reason for the
/// error about several.
fn budget_of<'a>(pod: &Value, all: &'a [Arc<Value>]) -> Result<Option<&'a Value>, Status> {
    let mut covering = all.iter().filter(|budget| covers(budget, pod));
    match (covering.next(), covering.next()) {
        (found, None) => Ok(found.map(|budget| &**budget)),
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            Err(Status::new(500, "", why))
        }
    }
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = object::at(budget, &["spec", "selector"]);
    selector
        .and_then(|selector| LabelSelector::from_object(selector).ok())
        .is_some_and(|selector| selector.matches(object::labels(pod)))
}

/// Takes one disruption from a budget. False if it lets the pod go for nothing.
async fn pay(
    registry: &Registry,
    budgets: &Resource,
    budget: &Value,
    pod: &Value,
    dry: bool,
) -> Result<bool, Status> {
    let storage = budgets.stored()?;
    let key = storage.key(object::namespace(budget), object::name(budget));
    let mut payment = Payment {
        budgets,
        name: object::name(budget),
        pod,
        ready: is_ready(pod),
    };
    let edited = registry.edit(storage, &key, dry, &mut payment).await?;
    Ok(!matches!(edited, Edited::Same(_)))
}

struct Payment<'a> {
    budgets: &'a Resource,
    /// The name of the budget.
    name: &'a str,
    pod: &'a Value,
    ready: bool,
}

impl Edit for Payment<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        let step = match current {
            Some(current) => self.decide(&current.object),
            None => Err(self.budgets.not_found(self.name)),
        };
        Box::pin(async { step })
    }
}

impl Payment<'_> {
    fn decide(&self, budget: &Value) -> Result<Step, Status> {
        let number = |key: &str| object::integer(budget, &["status", key]).unwrap_or(0);
        let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
        let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        // An unready pod does not count as healthy, so its budget loses nothing.
        if !self.ready && (always || (healthy >= desired && desired > 0)) {
            return Ok(Step::Keep);
        }
        let name = self.name;
        if number("observedGeneration") < object::generation(budget) {
            return Err(still_processed(name));
        }
        let allowed = number("disruptionsAllowed");
        let disrupted = object::at(budget, &["status", "disruptedPods"]);
        let disrupted = disrupted
            .and_then(Value::as_object)
            .map_or(0, |pods| pods.len());
        let forbidden = |why| {
            Err(Status::forbidden(
                "policy",
                "poddisruptionbudget",
                name,
                why,
            ))
        };
        if allowed < 0 {
            return forbidden("pdb disruptions allowed is negative");
        }
        if disrupted > DISRUPTED_MAX {
            return forbidden(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            );
        }
        if allowed == 0 {
            return Err(Status::disruption_budget(why_refused(budget)));
        }
        let mut budget = budget.clone();
        object::set(
            &mut budget,
            &["status", "disruptionsAllowed"],
            (allowed - 1).into(),
        );
        if allowed == 1 {
            refuse_others(&mut budget);
        }
        let path = ["status", "disruptedPods", object::name(self.pod)];
        object::set(&mut budget, &path, clock::now().to_seconds().into());
        Ok(Step::Put(budget))
    }
}

/// Says in a budget that it allows no disruption any more, until its loop counts again.
fn refuse_others(budget: &mut Value) {
    let mut condition = json!({
        "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": clock::now().to_seconds(),
    });
    let seen = object::integer(budget, &["status", "observedGeneration"]);
    if let Some(seen) = seen.filter(|seen| *seen > 0) {
        condition["observedGeneration"] = seen.into();
    }
    object::set_condition(budget, condition);
}

/// Why a budget allows no disruption now.
fn why_refused(budget: &Value) -> String {
    let number = |key: &str| object::integer(budget, &["status", key]).unwrap_or(0);
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let conditions = object::items(budget, &["status", "conditions"]);
    let told = |key: &str| {
        let mut conditions = conditions.iter();
        let refuses = conditions.find(|one| one["type"] == ALLOWED && one["status"] == "False");
        refuses.map_or("", |refuses| object::text(refuses, &[key]))
    };
    let budget = format!("The disruption budget {}", object::name(budget));
    match (told("reason"), told("message")) {
        // Its numbers are of a time when they could still be told.
        ("SyncFailed", why) if !why.is_empty() => {
            format!("{budget} does not allow evicting pods currently because it failed sync: {why}")
        }
        _ if healthy <= desired => {
            format!("{budget} needs {desired} healthy pods and has {healthy} currently")
        }
        (_, "") => format!("{budget} does not allow evicting pods currently"),
        (reason, why) => {
            format!("{budget} does not allow evicting pods currently ({reason}): {why}")
        }
    }
}

/// The refusal of a budget whose numbers are not known yet.
fn still_processed(budget: &str) -> Status {
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(why, 10);
    status.details.causes.push(machinery::status::Cause {
        reason: "DisruptionBudget",
        message: format!("The disruption budget {budget} is still being processed by the server."),
        field: String::new(),
    });
    status
}

/// Writes the reason of the eviction into the conditions of a pod, if that is the one that the
/// options expect. Returns its revision after that.
async fn mark(writer: &Writer<'_>, name: &str, options: &Options) -> Result<i64, Status> {
    let storage = writer.resource.stored()?;
    let key = storage.key(writer.namespace, name);
    let mut mark = Mark { name, options };
    let marked = writer.registry.edit(storage, &key, writer.dry, &mut mark);
    Ok(marked.await?.entry_ref().revision)
}

struct Mark<'a> {
    name: &'a str,
    options: &'a Options,
}

impl Edit for Mark<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        let step = match current {
            None => Err(Status::not_found("", "pods", self.name)),
            Some(current) => self.decide(&current.object),
        };
        Box::pin(async { step })
    }
}

impl Mark<'_> {
    fn decide(&self, pod: &Value) -> Result<Step, Status> {
        self.options.check(pod, ("", "Pod"))?;
        let condition = json!({
            "type": "DisruptionTarget", "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": clock::now().to_seconds(),
        });
        let mut marked = pod.clone();
        // It holds since the first eviction, though what came after the mark may have failed.
        object::set_condition(&mut marked, condition);
        if marked == *pod {
            return Ok(Step::Keep);
        }
        Ok(Step::Put(marked))
    }
}
