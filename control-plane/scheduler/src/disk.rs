//! Disks that pods name themselves, of drivers that were part of Kubernetes once. No claim keeps two
//! pods from using the same one on a node, so the scheduler does.

use k8s_openapi::api::core::v1::{Pod, Volume};

/// A disk that pods on one node can share only if all of them read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    name: Name,
    reads: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Google(String),
    Amazon(String),
    /// The qualified name of the target. Its units count as one disk, as in Kubernetes.
    Iscsi(String),
    Ceph {
        /// One of them in common is enough.
        monitors: Vec<String>,
        pool: String,
        image: String,
    },
}

impl Disk {
    /// The disks of a pod.
    pub fn of(pod: &Pod) -> Vec<Disk> {
        let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
        volumes.flatten().filter_map(Disk::read).collect()
    }

    /// True if pods with these disks cannot be on one node.
    pub fn conflicts(&self, other: &Disk) -> bool {
        self.name.is(&other.name) && !(self.reads && other.reads)
    }

    fn read(volume: &Volume) -> Option<Disk> {
        let disk = |name, reads: Option<bool>| {
            let reads = reads.unwrap_or(false);
            Some(Disk { name, reads })
        };
        if let Some(one) = &volume.gce_persistent_disk {
            return disk(Name::Google(one.pd_name.clone()), one.read_only);
        }
        if let Some(one) = &volume.aws_elastic_block_store {
            // It cannot be attached twice, not even to read.
            return disk(Name::Amazon(one.volume_id.clone()), None);
        }
        if let Some(one) = &volume.iscsi {
            return disk(Name::Iscsi(one.iqn.clone()), one.read_only);
        }
        let one = volume.rbd.as_ref()?;
        let name = Name::Ceph {
            monitors: one.monitors.clone(),
            pool: one.pool.clone().unwrap_or_default(),
            image: one.image.clone(),
        };
        disk(name, one.read_only)
    }
}

impl Name {
    fn is(&self, other: &Name) -> bool {
        match (self, other) {
            (
                Name::Ceph {
                    monitors,
                    pool,
                    image,
                },
                Name::Ceph {
                    monitors: theirs,
                    pool: their_pool,
                    image: their_image,
                },
            ) => {
                let same = (pool, image) == (their_pool, their_image);
                same && monitors.iter().any(|one| theirs.contains(one))
            }
            _ => self == other,
        }
    }
}
