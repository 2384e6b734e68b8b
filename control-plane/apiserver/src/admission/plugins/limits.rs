//! Limit ranges: defaults for the requests and limits of containers, and bounds for those of pods
//! and volume claims.

use std::sync::Arc;

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
        if attributes.kind.plural() == PODS {
            for range in ranges(context, attributes) {
                limits::set_defaults(&range, object);
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Answer<'a, ()> {
        let plural = attributes.kind.plural();
        let mut refusals = ranges(context, attributes)
            .into_iter()
            .filter_map(|range| limits::violation(&range, plural, object));
        let verdict = match refusals.next() {
            Some(why) => Err(attributes.forbidden(&why)),
            None => Ok(()),
        };
        Box::pin(async { verdict })
    }
}

fn ranges(context: &Context, attributes: &Attributes<'_>) -> Vec<Arc<Value>> {
    match schema::resource("", "v1", "limitranges") {
        Some(kind) => context.reader.cached_list(kind, attributes.namespace),
        None => Vec::new(),
    }
}
