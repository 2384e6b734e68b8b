//! Evictions: deletions that need a disruption from the disruption budget of the pod.

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::auth::Answer;
use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::verbs::delete::Options;
use crate::registry::verbs::edit::{Edit, Step};
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::storage::decoded::DecodedObject;

/// Upper bound of the disrupted pods that a budget lists.
const DISRUPTED_MAX: usize = 2000;

impl Writer<'_> {
    /// Deletes a pod if its disruption budgets allow it. `eviction` is the client's body.
    pub(crate) async fn evict(
        &self,
        name: &str,
        mut eviction: Value,
        dry: bool,
    ) -> Result<(), Status> {
        let given = object::name(&eviction);
        if !given.is_empty() && given != name {
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
        let pod = reader
            .get(&self.resource.kind, self.namespace, name)
            .await?;
        if !goes_freely(&pod) {
            self.pay_budget(&pod, options.dry).await?;
        }
        let writer = Writer {
            dry: options.dry,
            ..self.clone()
        };
        mark(&writer, name).await?;
        writer.delete_admitted(name, options).await?;
        Ok(())
    }

    /// Takes one disruption from the budget of a pod, if it has one.
    async fn pay_budget(&self, pod: &Value, dry: bool) -> Result<(), Status> {
        let reader = &self.registry.reader;
        let budgets = reader.resource("policy", "v1", "poddisruptionbudgets")?;
        reader.fresh().await?;
        let all = reader.cached_list(&budgets.kind, self.namespace)?;
        let matching: Vec<_> = all
            .into_iter()
            .filter(|budget| covers(budget, pod))
            .collect();
        match matching.as_slice() {
            [] => Ok(()),
            [budget] => pay(self.registry, &budgets, budget, pod, dry).await,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                Err(Status::internal(why))
            }
        }
    }
}

/// True if a pod needs no budget: it is not running, or is in deletion.
fn goes_freely(pod: &Value) -> bool {
    let phase = object::text(pod, &["status", "phase"]);
    ["Succeeded", "Failed", "Pending"].contains(&phase) || object::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    object::items(pod, &["status", "conditions"])
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = object::at(budget, &["spec", "selector"]);
    selector
        .and_then(|selector| LabelSelector::from_object(selector).ok())
        .is_some_and(|selector| selector.matches(object::labels(pod)))
}

/// Takes one disruption from a budget.
async fn pay(
    registry: &Registry,
    budgets: &Resource,
    budget: &Value,
    pod: &Value,
    dry: bool,
) -> Result<(), Status> {
    let storage = budgets.stored()?;
    let key = storage.key(object::namespace(budget), object::name(budget));
    let mut payment = Payment {
        budgets,
        pod,
        ready: is_ready(pod),
    };
    registry.edit(storage, &key, dry, &mut payment).await?;
    Ok(())
}

struct Payment<'a> {
    budgets: &'a Resource,
    pod: &'a Value,
    ready: bool,
}

impl Edit for Payment<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        let step = match current {
            Some(current) => self.decide(&current.object),
            None => Err(self.budgets.not_found("")),
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
        let name = object::name(budget);
        if number("observedGeneration") < object::generation(budget) {
            let mut status = Status::too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                10,
            );
            status.details.causes.push(machinery::status::Cause {
                reason: "DisruptionBudget",
                message: format!(
                    "The disruption budget {name} is still being processed by the server."
                ),
                field: String::new(),
            });
            return Err(status);
        }
        let allowed = number("disruptionsAllowed");
        let disrupted = object::at(budget, &["status", "disruptedPods"]);
        let disrupted = disrupted
            .and_then(Value::as_object)
            .map_or(0, |pods| pods.len());
        if allowed <= 0 || disrupted >= DISRUPTED_MAX {
            return Err(Status::disruption_budget(name, healthy, desired));
        }
        let mut budget = budget.clone();
        object::set(
            &mut budget,
            &["status", "disruptionsAllowed"],
            (allowed - 1).into(),
        );
        let path = ["status", "disruptedPods", object::name(self.pod)];
        object::set(&mut budget, &path, clock::now().to_seconds().into());
        Ok(Step::Put(budget))
    }
}

/// Writes the reason of the eviction into the pod's conditions.
async fn mark(writer: &Writer<'_>, name: &str) -> Result<(), Status> {
    let storage = writer.resource.stored()?;
    let key = storage.key(writer.namespace, name);
    writer
        .registry
        .edit(storage, &key, writer.dry, &mut Mark(name))
        .await?;
    Ok(())
}

struct Mark<'a>(&'a str);

impl Edit for Mark<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        let step = match current {
            None => Err(Status::not_found("", "pods", self.0)),
            Some(current) => {
                let mut pod = Value::clone(&current.object);
                let mut conditions = object::items(&pod, &["status", "conditions"]).to_vec();
                conditions.retain(|one| one["type"] != "DisruptionTarget");
                conditions.push(json!({
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                    "lastTransitionTime": clock::now().to_seconds(),
                }));
                object::set(&mut pod, &["status", "conditions"], conditions.into());
                Ok(Step::Put(pod))
            }
        };
        Box::pin(async { step })
    }
}
