//! The score for images: a node that has the pod's images need not pull them.

use std::borrow::Cow;

use super::BEST;
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

const MIB: i64 = 1024 * 1024;
/// Images that are worth less together count nothing.
const WORTH_LEAST: i64 = 23 * MIB;
/// What is worth more, for each container, counts no more.
const WORTH_MOST: i64 = 1000 * MIB;

/// The scores in the order of `nodes`; `None` if no node has any image of the pod.
pub(super) fn scores(cache: &Cache, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let spec = pod.pod.spec.as_ref()?;
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let containers = init.iter().chain(&spec.containers);
    let of_containers = containers.filter_map(|one| one.image.as_deref());
    let volumes = spec.volumes.iter().flatten();
    let of_volumes = volumes.filter_map(|one| one.image.as_ref()?.reference.as_deref());
    let known = of_containers.chain(of_volumes).filter_map(|name| {
        let name = tagged(name);
        let worth = cache.images().worth(&name, cache.node_count())?;
        Some((name, worth))
    });
    let known: Vec<(Cow<'_, str>, i64)> = known.collect();
    if known.is_empty() {
        return None;
    }
    let count = (init.len() + spec.containers.len()).max(1);
    let most = WORTH_MOST * count as i64;
    let score = |node: &&NodeInfo| {
        let here = known
            .iter()
            .filter(|(name, _)| node.images.contains(&**name));
        let worth = here.fold(0_i64, |sum, (_, worth)| sum.saturating_add(*worth));
        BEST * (worth.clamp(WORTH_LEAST, most) - WORTH_LEAST) / (most - WORTH_LEAST)
    };
    Some(nodes.iter().map(score).collect())
}

/// The name as nodes report it: with a tag. What follows the colon of a registry's port is none.
fn tagged(name: &str) -> Cow<'_, str> {
    if name.rfind(':') > name.rfind('/') {
        return name.into();
    }
    format!("{name}:latest").into()
}
