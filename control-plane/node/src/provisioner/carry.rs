//! Carries tasks out: the calls for a claim or a volume, and the Events about them.

use std::sync::Arc;

use machinery::api::{Api, Call, DeleteOptions};
use machinery::event::Event;
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

use super::known::Task;
use super::volume::{self, NAME, SELECTED_NODE};

/// Does what is to be done; after an error it is tried again.
pub(super) async fn carry_out<A: Api>(api: &A, task: &Task, now: Timestamp) -> Result<(), Status> {
    match task {
        Task::Provide { claim, class } => {
            let teller = Teller { api, claim, now };
            provide(&teller, class).await
        }
        Task::Delete { volume } => delete(api, volume).await,
    }
}

/// The Events about a claim.
struct Teller<'a, A> {
    api: &'a A,
    claim: &'a Object,
    now: Timestamp,
}

/// What there is to tell; the numbers keep the names of Events of one moment apart.
#[derive(Debug, Clone, Copy)]
enum Said {
    Begun = 0,
    Made = 1,
    Failed = 2,
}

impl<A: Api> Teller<'_, A> {
    /// Tells of the claim. An Event that fails is dropped.
    async fn tell(&self, said: Said, message: &str) {
        let (reason, warning) = match said {
            Said::Begun => ("Provisioning", false),
            Said::Made => ("ProvisioningSucceeded", false),
            Said::Failed => ("ProvisioningFailed", true),
        };
        let event = Event {
            about: volume::reference(self.claim),
            warning,
            reason,
            message,
            component: NAME,
            host: "",
        };
        let name = event.name(self.now, said as usize);
        if let Err(error) = self.api.call(event.create(&name, self.now)).await {
            tracing::debug!(%error, "an Event was lost");
        }
    }
}

/// Makes the volume of a claim.
async fn provide<A: Api>(teller: &Teller<'_, A>, class: &Object) -> Result<(), Status> {
    let Teller { api, claim, .. } = *teller;
    if let Some(why) = volume::refusal(claim) {
        teller.tell(Said::Failed, &why).await;
        // The claim will never be one that can have a volume.
        return Ok(());
    }
    let reach = match volume::selected_node(claim) {
        None => volume::where_allowed(class),
        Some(name) => {
            let call = Call::Get {
                kind: kind_of("Node"),
                namespace: String::new(),
                name: name.to_owned(),
            };
            match api.call(call).await {
                Ok(node) => Some(reach_of(teller, &node).await?),
                Err(error) if is_absent(&error) => {
                    teller.tell(Said::Failed, &error.message).await;
                    return choose_again(api, claim).await;
                }
                Err(error) => {
                    let why = format!("failed to get target node: {error}");
                    teller.tell(Said::Failed, &why).await;
                    return Err(error);
                }
            }
        }
    };
    let (namespace, name) = (object::namespace(claim), object::name(claim));
    let begun =
        format!("External provisioner is provisioning volume for claim \"{namespace}/{name}\"");
    teller.tell(Said::Begun, &begun).await;
    let made = Call::Create {
        kind: kind_of("PersistentVolume"),
        object: volume::volume_for(claim, class, reach),
    };
    match api.call(made).await {
        Ok(volume) => {
            let made = format!("Successfully provisioned volume {}", object::name(&volume));
            teller.tell(Said::Made, &made).await;
            Ok(())
        }
        // An earlier attempt made it, though no answer came.
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => {
            let why = volume::failure(claim, &error.message);
            teller.tell(Said::Failed, &why).await;
            Err(error)
        }
    }
}

/// Where a volume on this node can be used.
async fn reach_of<A: Api>(teller: &Teller<'_, A>, node: &Object) -> Result<Value, Status> {
    if let Some(reach) = volume::at_node(node) {
        return Ok(reach);
    }
    let why = format!("node {:?} has no label of its hostname", object::name(node));
    let why = volume::failure(teller.claim, &why);
    teller.tell(Said::Failed, &why).await;
    Err(Status::unavailable(why))
}

/// Takes the node from a claim, so that the scheduler chooses another. Fails if the claim changed.
async fn choose_again<A: Api>(api: &A, claim: &Object) -> Result<(), Status> {
    let mut claim = claim.clone();
    object::remove(&mut claim, &["metadata", "annotations", SELECTED_NODE]);
    let call = Call::Update {
        kind: kind_of("PersistentVolumeClaim"),
        subresource: "",
        object: claim,
    };
    api.call(call).await.map(|_| ())
}

/// Deletes a volume in the state that it was seen in: its owner may want to keep it by now.
async fn delete<A: Api>(api: &A, volume: &Object) -> Result<(), Status> {
    let call = Call::Delete {
        kind: kind_of("PersistentVolume"),
        namespace: String::new(),
        name: object::name(volume).to_owned(),
        options: DeleteOptions {
            uid: object::uid(volume).to_owned(),
            resource_version: object::resource_version(volume).to_owned(),
            ..DeleteOptions::default()
        },
    };
    match api.call(call).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// True if the apiserver looked for an object and did not find it.
fn is_absent(error: &Status) -> bool {
    error.reason == "NotFound" && !error.details.name.is_empty()
}

fn kind_of(kind: &str) -> Arc<Kind> {
    let found = schema::kind("", "v1", kind);
    Arc::clone(found.expect("the table has it"))
}
