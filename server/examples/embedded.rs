//! A server inside another program: `cargo run --example embedded`.
//!
//! It has its own threads, takes etcd's flags, and is reached through memory here; programs of the
//! machine reach it at its address.

use std::error::Error;
use std::sync::Arc;

use etcd_api::Client;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use server::lifecycle::local::Local;
use storage::vfs::os::OsVfs;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // Port 0: any that is free.
    let flags = [
        format!("--data-dir={}", dir.path().join("data").display()),
        "--listen-client-urls=http://127.0.0.1:0".to_owned(),
        "--advertise-client-urls=http://127.0.0.1:0".to_owned(),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
    ];
    let config = server::config::parse(&flags, &[], &|path| std::fs::read_to_string(path))
        .map_err(|exit| format!("the flags are refused: {exit:?}"))?;
    let server = Local::start(config, Arc::new(OsVfs))?;

    let client = Client::new(server.channel());
    let put = PutRequest {
        key: "greeting".into(),
        value: "hello".into(),
        ..PutRequest::default()
    };
    client.kv().put(put).await?;
    let range = RangeRequest {
        key: "greeting".into(),
        ..RangeRequest::default()
    };
    let found = client.kv().range(range).await?.into_inner().kvs;
    let value = String::from_utf8_lossy(&found[0].value);
    println!("{:?} holds {value}", server.addresses());

    drop(client);
    tokio::task::spawn_blocking(|| server.stop()).await??;
    Ok(())
}
