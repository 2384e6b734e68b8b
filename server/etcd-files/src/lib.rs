//! etcd-files
