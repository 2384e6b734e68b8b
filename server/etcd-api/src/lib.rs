//! etcd-api
