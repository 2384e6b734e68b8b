//! Resource quotas: charges what a write uses to the quotas of its namespace, and refuses a write
//! that does not fit into one of them.
//!
//! The sum is in the status of the quota. A write is charged before it is stored, by a
//! compare-and-swap of that status, so that of many writes at once, on any number of servers, no
//! more than fit get through. A write that fails after it was charged leaves the sum too large
//! until the control loop counts again.

mod charge;
mod looked;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use machinery::amounts::{self, Amounts};
use machinery::quota::Counted;
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::{object, time::Timestamp};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::admission::{Attributes, CREATE, Context, UPDATE};
use crate::basics::clock;
use crate::storage::decoded;
use crate::storage::store::Swap;
use crate::storage::stored::Stored;
use charge::Charge;
use looked::Looked;

pub(crate) const NAME: &str = "ResourceQuota";

/// Namespaces whose writes are charged one after the other; others with the same hash wait, too.
const LOCKS: usize = 64;
/// How long a write may wait for its turn and its charge. This alone bounds the attempts: each that
/// fails is another server's success, and a busy one may win many times in a row.
const PATIENCE: Duration = Duration::from_secs(10);

/// Enforces the quotas of a namespace.
pub(crate) struct ResourceQuota {
    /// Writers of one namespace would make each other's swaps fail again and again. By the hash of
    /// the namespace.
    locks: [Mutex<()>; LOCKS],
    hash: RandomState,
    looked: Looked,
}

impl ResourceQuota {
    pub(crate) fn new() -> ResourceQuota {
        ResourceQuota {
            locks: std::array::from_fn(|_| Mutex::new(())),
            hash: RandomState::new(),
            looked: Looked::default(),
        }
    }

    /// Charges a write, or refuses it. Nothing else may refuse it after that.
    pub(crate) async fn validate(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        let writes = [CREATE, UPDATE].contains(&attributes.operation);
        if !writes || attributes.namespace.is_empty() {
            return Ok(());
        }
        let quotas = schema::resource("", "v1", "resourcequotas")
            .ok_or_else(|| Status::internal("no quotas in the schema"))?;
        // Most namespaces have none. One that another server has just written may be on its way.
        if cached(context, quotas, attributes)?.is_empty() {
            if self.looked.is_recent(attributes.namespace, Instant::now()) {
                return Ok(());
            }
            let asked = Instant::now();
            context.reader.fresh().await?;
            self.looked.note(attributes.namespace, asked);
            if cached(context, quotas, attributes)?.is_empty() {
                return Ok(());
            }
        }
        let Some(charge) = charge_of(attributes, object, clock::now()) else {
            return Ok(());
        };
        let turn = self.hash.hash_one(attributes.namespace) as usize % LOCKS;
        let work = async {
            let _turn = self.locks[turn].lock().await;
            pay(context, quotas, attributes, &charge).await
        };
        let paid = tokio::time::timeout(PATIENCE, work).await;
        paid.unwrap_or_else(|_| Err(Status::internal("resource quota evaluation timed out")))
    }
}

/// What a write uses; `None` if no quota counts it.
fn charge_of<'a>(
    attributes: &'a Attributes<'_>,
    object: &'a Value,
    now: Timestamp,
) -> Option<Charge<'a>> {
    let counted = Counted::of(attributes.kind.group(), attributes.kind.plural())?;
    let subresource = attributes.subresource;
    let charged = match attributes.old {
        Some(old) => counted.charges_update(subresource, old, object),
        None => subresource.is_empty(),
    };
    charged.then(|| Charge::new(counted, subresource, (attributes.old, object), now))
}

/// Charges all quotas that a write concerns, after it was found to fit into each of them.
async fn pay(
    context: &Context,
    kind: &Kind,
    attributes: &Attributes<'_>,
    charge: &Charge<'_>,
) -> Result<(), Status> {
    let verdict = judge(attributes, charge, &cached(context, kind, attributes)?);
    let due = match verdict {
        Ok(due) => due,
        // The cache may not have what was deleted and counted again a moment ago.
        Err(_) => {
            context.reader.fresh().await?;
            judge(attributes, charge, &cached(context, kind, attributes)?)?
        }
    };
    if attributes.dry {
        return Ok(());
    }
    for quota in due {
        pay_one(context, kind, attributes, charge, quota).await?;
    }
    Ok(())
}

/// The quotas to charge; an error if the write does not fit into one of them.
fn judge(
    attributes: &Attributes<'_>,
    charge: &Charge<'_>,
    quotas: &[Arc<Stored>],
) -> Result<Vec<Arc<Stored>>, Status> {
    let forbidden = |why: String| attributes.forbidden(&why);
    let mut concerned = Vec::new();
    for stored in quotas {
        let quota = stored.kept()?;
        if charge.concerns(&quota)?.map_err(forbidden)? {
            concerned.push((Arc::clone(stored), quota));
        }
    }
    if !concerned.is_empty()
        && let Some(resources) = charge.negative()
    {
        let why = format!("quota usage is negative for resource(s): {resources}");
        return Err(forbidden(why));
    }
    let mut due = Vec::new();
    for (stored, quota) in concerned {
        if charge.sum(&quota)?.map_err(forbidden)?.is_some() {
            due.push(stored);
        }
    }
    Ok(due)
}

/// Writes the new sum of one quota. If it changed meanwhile, the write has to fit into what it is
/// then.
async fn pay_one(
    context: &Context,
    kind: &Kind,
    attributes: &Attributes<'_>,
    charge: &Charge<'_>,
    mut quota: Arc<Stored>,
) -> Result<(), Status> {
    let forbidden = |why: String| attributes.forbidden(&why);
    let resource = context.reader.resource_of(kind)?;
    let storage = resource.stored()?;
    loop {
        let known = quota.kept()?;
        if !charge.concerns(&known)?.map_err(forbidden)? {
            return Ok(());
        }
        let Some(sum) = charge.sum(&known)?.map_err(forbidden)? else {
            return Ok(());
        };
        let value = decoded::encode(storage, &with_used(&known, &sum))?;
        let store = &context.reader.store;
        match store
            .update(storage, &quota.key, quota.revision, value, 0)
            .await?
        {
            Swap::Done(_) => return Ok(()),
            // It was deleted: it limits nothing.
            Swap::Changed(None) => return Ok(()),
            Swap::Changed(Some(newer)) => {
                quota = context
                    .reader
                    .stored_of(storage, &quota.key, &newer)
                    .await?;
            }
        }
    }
}

fn with_used(quota: &Value, used: &Amounts) -> Value {
    let mut quota = quota.clone();
    object::set(&mut quota, &["status", "used"], amounts::write(used));
    quota
}

fn cached(
    context: &Context,
    kind: &Kind,
    attributes: &Attributes<'_>,
) -> Result<Vec<Arc<Stored>>, Status> {
    context.reader.cached_stored(kind, attributes.namespace)
}
