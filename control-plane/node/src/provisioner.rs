//! Volumes for hollow nodes: a provisioner as clusters for development have one, whose volumes are
//! as hollow as the nodes. A volume has a name, a size and a node; nothing is ever kept in it.
//!
//! It speaks the protocol of external provisioners. Kubernetes' loop for volumes names the
//! provisioner in the annotations of a claim, the scheduler the node; the provisioner creates a
//! PersistentVolume for the claim, which the loop binds, and deletes it when its claim has released
//! it. All state is in the objects, so it may be stopped at any moment and continue later.
//!
//! It needs the rights of the role `system:persistent-volume-provisioner`, and to read nodes.

mod carry;
mod known;
mod shell;
#[cfg(test)]
mod tests;
mod volume;

pub use shell::run;
pub use volume::{NAME, default_class};
