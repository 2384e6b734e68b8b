//! The informers of the loops: one per kind, shared by all loops.

use std::sync::Arc;
use std::sync::LazyLock;

use api_client::Informer;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use machinery::schema::{self, Kind};

use crate::cache::{Caches, Feed, kind_of};
use crate::namespace::is_event;
use crate::root_ca;

/// The informers and the caches each one feeds.
pub(crate) fn sources() -> &'static [(Informer, Feed)] {
    static SOURCES: LazyLock<Vec<(Informer, Feed)>> = LazyLock::new(|| {
        let mut sources: Vec<(Informer, Feed)> = kinds()
            .filter(|kind| !is_partial(kind))
            .map(whole)
            .collect();
        // Objects of these kinds may be many or large, and the loops read only a few of them.
        let config = Informer::of(kind_of::<ConfigMap>().clone());
        let config = config.with_fields(&format!("metadata.name={}", root_ca::NAME));
        let leases = Informer::of(kind_of::<Lease>().clone());
        let leases = leases.with_fields("metadata.namespace=kube-node-lease");
        for informer in [config, leases] {
            sources.push((
                Informer::metadata_of(Arc::clone(&informer.kind)),
                Feed::Graph,
            ));
            sources.push((informer, Feed::Store));
        }
        sources
    });
    &SOURCES
}

fn whole(kind: &Arc<Kind>) -> (Informer, Feed) {
    if Caches::reads(kind) {
        (Informer::of(Arc::clone(kind)), Feed::Both)
    } else {
        (Informer::metadata_of(Arc::clone(kind)), Feed::Graph)
    }
}

fn is_partial(kind: &Arc<Kind>) -> bool {
    Arc::ptr_eq(kind, kind_of::<ConfigMap>()) || Arc::ptr_eq(kind, kind_of::<Lease>())
}

/// The kinds that can own and be owned, so that the garbage collector must know them.
fn kinds() -> impl Iterator<Item = &'static Arc<Kind>> {
    let kinds = schema::kinds().iter();
    kinds.filter(|kind| {
        let verbs = ["delete", "list", "watch"];
        let doubled = (kind.group(), kind.version()) == ("autoscaling", "v1");
        verbs.iter().all(|verb| kind.has_verb(verb)) && !is_event(kind) && !doubled
    })
}
