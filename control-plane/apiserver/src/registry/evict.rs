//! Evictions: a deletion that asks the disruption budgets first, and pays them.

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::api::{Api, not_found};
use crate::auth::Answer;
use crate::clock;
use crate::http::serve::Call;
use crate::registry::delete::Options;
use crate::registry::edit::{Edit, Step};
use crate::registry::write::Writer;
use crate::resources::catalogue::{self, Resource};
use crate::storage::entry::Entry;

/// The most pods a budget remembers as about to go.
const DISRUPTED_MAX: usize = 2000;

/// Evicts the pod a call is about.
pub(crate) async fn evict(call: &Call<'_>, options: Options) -> Result<(), Status> {
    let (api, target) = (call.api, call.target);
    let pod = call.stored().await?;
    let writer = call.writer(options.dry);
    let ready = object::items(&pod, &["status", "conditions"])
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True");
    let phase = object::text(&pod, &["status", "phase"]);
    let free = ["Succeeded", "Failed", "Pending"].contains(&phase) || object::is_deleting(&pod);
    if !free {
        let Some(budgets) = catalogue::resource("policy", "v1", "poddisruptionbudgets") else {
            return Err(Status::unknown_path());
        };
        api.fresh().await?;
        let all = api.cached_list(budgets.kind, &target.namespace);
        let matching: Vec<_> = all
            .into_iter()
            .filter(|budget| covers(budget, &pod))
            .collect();
        match matching.as_slice() {
            [] => {}
            [budget] => pay(api, budgets, budget, &pod, ready, options.dry).await?,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::internal(why));
            }
        }
    }
    mark(&writer, &target.name).await?;
    writer.delete_admitted(&target.name, options).await?;
    Ok(())
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = object::at(budget, &["spec", "selector"]);
    selector
        .and_then(|selector| LabelSelector::from_object(selector).ok())
        .is_some_and(|selector| selector.matches(object::labels(pod)))
}

/// Takes one disruption from a budget.
async fn pay(
    api: &Api,
    budgets: &'static Resource,
    budget: &Value,
    pod: &Value,
    ready: bool,
    dry: bool,
) -> Result<(), Status> {
    let storage = budgets.storage.ok_or_else(Status::unknown_path)?;
    let key = storage.key(object::namespace(budget), object::name(budget));
    let mut payment = Payment {
        budgets,
        pod,
        ready,
    };
    api.edit(storage, &key, dry, &mut payment).await?;
    Ok(())
}

struct Payment<'a> {
    budgets: &'static Resource,
    pod: &'a Value,
    ready: bool,
}

impl Edit for Payment<'_> {
    fn step<'a>(&'a mut self, _: &'a Api, current: Option<&'a Entry>) -> Answer<'a, Step> {
        let step = match current {
            Some(current) => self.decide(&current.object),
            None => Err(not_found(self.budgets, "")),
        };
        Box::pin(async { step })
    }
}

impl Payment<'_> {
    fn decide(&self, budget: &Value) -> Result<Step, Status> {
        let number = |key: &str| object::integer(budget, &["status", key]).unwrap_or(0);
        let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
        let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        // A pod that is not ready protects nobody.
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

/// Says on the pod why it goes.
async fn mark(writer: &Writer<'_>, name: &str) -> Result<(), Status> {
    let storage = writer.resource.storage.ok_or_else(Status::unknown_path)?;
    let key = storage.key(writer.namespace, name);
    writer
        .api
        .edit(storage, &key, writer.dry, &mut Mark(name))
        .await?;
    Ok(())
}

struct Mark<'a>(&'a str);

impl Edit for Mark<'_> {
    fn step<'a>(&'a mut self, _: &'a Api, current: Option<&'a Entry>) -> Answer<'a, Step> {
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
