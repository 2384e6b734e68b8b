//! The server embedded in another program.

use std::path::Path;
use std::sync::Arc;

use etcd_api::Client;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use server::config::{self, Config};
use server::lifecycle::local::Local;
use storage::vfs::os::OsVfs;

fn config(dir: &Path) -> Config {
    let free = "http://127.0.0.1:0";
    let args: Vec<String> = [
        format!("--data-dir={}", dir.display()),
        format!("--listen-client-urls={free}"),
        format!("--advertise-client-urls={free}"),
        format!("--listen-peer-urls={free}"),
    ]
    .into();
    config::parse(&args, &[], &|path| std::fs::read_to_string(path)).expect("flags that are right")
}

#[tokio::test]
async fn a_program_reaches_its_own_server_through_memory_and_others_by_its_port() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Local::start(config(dir.path()), Arc::new(OsVfs)).unwrap();
    let read = async |client: &Client| {
        let request = RangeRequest {
            key: "here".into(),
            ..RangeRequest::default()
        };
        let answer = client.kv().range(request).await.unwrap().into_inner();
        answer.kvs.into_iter().next().map(|kv| kv.value)
    };
    let local = start();
    let within = Client::new(local.channel());
    let put = PutRequest {
        key: "here".into(),
        value: "kept".into(),
        ..PutRequest::default()
    };
    within.kv().put(put).await.unwrap();
    let address = local.addresses().last().unwrap();
    let without = Client::connect(format!("http://{address}")).await.unwrap();
    assert_eq!(read(&without).await.as_deref(), Some(&b"kept"[..]));
    local.stop().unwrap();
    // Its directory is free again, and so is everything else.
    let local = start();
    let found = read(&Client::new(local.channel())).await;
    assert_eq!(found.as_deref(), Some(&b"kept"[..]));
    local.stop().unwrap();
}
