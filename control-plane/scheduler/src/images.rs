//! The images of containers that nodes have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ContainerImage;

/// Names of images. Nodes share the text of each.
pub type Names = HashSet<Arc<str>>;

/// The images of all nodes, by name.
#[derive(Debug, Default)]
pub struct Images(HashMap<Arc<str>, Image>);

#[derive(Debug)]
struct Image {
    /// In bytes, as the first node reported it when no other had the image.
    size: i64,
    /// The number of nodes that have it; never 0.
    nodes: usize,
}

impl Images {
    /// Counts the images of a node, and returns their names.
    pub fn add(&mut self, images: &[ContainerImage]) -> Names {
        let mut names = Names::new();
        for image in images {
            for name in image.names.iter().flatten() {
                let known = self.0.get_key_value(name.as_str());
                let name =
                    known.map_or_else(|| Arc::<str>::from(name.as_str()), |(name, _)| name.clone());
                if names.insert(name.clone()) {
                    let size = image.size_bytes.unwrap_or(0);
                    let known = self.0.entry(name).or_insert(Image { size, nodes: 0 });
                    known.nodes += 1;
                }
            }
        }
        names
    }

    /// Counts the images of a node no longer.
    pub fn remove(&mut self, names: &Names) {
        for name in names {
            let Some(image) = self.0.get_mut(name) else {
                continue;
            };
            image.nodes -= 1;
            if image.nodes == 0 {
                self.0.remove(name);
            }
        }
    }

    /// How much it is worth for a node to have an image: its size in bytes, scaled by the share of
    /// all nodes that have it, lest the first node with an image get all pods. `None` if no node
    /// has it.
    pub fn worth(&self, name: &str, nodes: usize) -> Option<i64> {
        let image = self.0.get(name)?;
        let share = image.nodes as f64 / nodes as f64;
        Some((image.size as f64 * share) as i64)
    }
}
