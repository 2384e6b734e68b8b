//! A connection to a server and the generated clients on top of it. Knows nothing of retries,
//! balancing or authentication: callers here want to see exactly what the server answers.

use tonic::transport::{Channel, Endpoint, Error};

use crate::etcdserverpb::auth_client::AuthClient;
use crate::etcdserverpb::cluster_client::ClusterClient;
use crate::etcdserverpb::kv_client::KvClient;
use crate::etcdserverpb::lease_client::LeaseClient;
use crate::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::etcdserverpb::watch_client::WatchClient;
use crate::usage::usage_client::UsageClient;
use crate::v3electionpb::election_client::ElectionClient;
use crate::v3lockpb::lock_client::LockClient;

/// Answers to a range are as large as the range: the server's limit is the one that counts.
const DECODED_BYTES_MAX: usize = i32::MAX as usize;

/// One HTTP/2 connection; clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// `endpoint` is a URL such as `http://127.0.0.1:2379`.
    pub async fn connect(endpoint: impl Into<String>) -> Result<Client, Error> {
        let endpoint = Endpoint::from_shared(endpoint.into())?;
        let channel = endpoint.tcp_nodelay(true).connect().await?;
        Ok(Client { channel })
    }

    pub fn new(channel: Channel) -> Client {
        Client { channel }
    }

    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(DECODED_BYTES_MAX)
    }

    pub fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(DECODED_BYTES_MAX)
    }

    pub fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone()).max_decoding_message_size(DECODED_BYTES_MAX)
    }

    pub fn auth(&self) -> AuthClient<Channel> {
        AuthClient::new(self.channel.clone())
    }

    pub fn usage(&self) -> UsageClient<Channel> {
        UsageClient::new(self.channel.clone())
    }

    pub fn lock(&self) -> LockClient<Channel> {
        LockClient::new(self.channel.clone())
    }

    pub fn election(&self) -> ElectionClient<Channel> {
        ElectionClient::new(self.channel.clone()).max_decoding_message_size(DECODED_BYTES_MAX)
    }
}
