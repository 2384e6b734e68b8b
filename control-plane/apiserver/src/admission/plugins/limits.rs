//! Limit ranges: defaults for the requests and limits of containers, and bounds for those of pods
//! and volume claims.

use std::sync::Arc;

use machinery::status::Status;
use machinery::{limits, object, schema};
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin, UPDATE};
use crate::auth::Answer;

const PODS: &str = "pods";

/// Enforces the limit ranges of a namespace.
pub(crate) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // Resources of a pod change by a resize only, volumes can grow by any update.
        let concerns = match attributes.operation {
            CREATE => {
                attributes.is_about("", PODS, "")
                    || attributes.is_about("", "persistentvolumeclaims", "")
            }
            UPDATE => {
                attributes.is_about("", PODS, "resize")
                    || attributes.is_about("", "persistentvolumeclaims", "")
            }
            _ => false,
        };
        concerns && !attributes.old.is_some_and(object::is_deleting)
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        let mut done = Ok(());
        if attributes.kind.plural() == PODS {
            done = ranges(context, attributes).map(|ranges| {
                for range in ranges {
                    limits::set_defaults(&range, object);
                }
            });
        }
        Box::pin(async { done })
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Answer<'a, ()> {
        let verdict =
            ranges(context, attributes).and_then(|ranges| judge(attributes, &ranges, object));
        Box::pin(async { verdict })
    }
}

/// Refuses an object that violates one of the ranges.
fn judge(attributes: &Attributes<'_>, ranges: &[Arc<Value>], object: &Value) -> Result<(), Status> {
    let plural = attributes.kind.plural();
    let mut refusals = ranges
        .iter()
        .filter_map(|range| limits::violation(range, plural, object));
    match refusals.next() {
        Some(why) => Err(attributes.forbidden(&why)),
        None => Ok(()),
    }
}

fn ranges(context: &Context, attributes: &Attributes<'_>) -> Result<Vec<Arc<Value>>, Status> {
    match schema::resource("", "v1", "limitranges") {
        Some(kind) => context.reader.cached_list(kind, attributes.namespace),
        None => Ok(Vec::new()),
    }
}
