//! What clients of a proxy are told of the cluster's members.

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;

use super::process::Proxy;
use super::{proxied, range, server};
use crate::harness::fleet;

async fn urls(client: &Client) -> Vec<String> {
    let request = pb::MemberListRequest { linearizable: true };
    let list = client.cluster().member_list(request).await.unwrap();
    let members = list.into_inner().members.into_iter();
    let mut urls: Vec<String> = members.flat_map(|member| member.client_urls).collect();
    urls.sort();
    urls
}

#[tokio::test]
async fn clients_are_told_of_proxies_instead_of_members() {
    let server = server();
    let (alone, client) = proxied(&server, &[]).await;
    assert_eq!(urls(&client).await, [alone.address()]);
    let (_open, client) = proxied(&server, &["--advertise-client-url="]).await;
    assert_eq!(urls(&client).await, ["http://127.0.0.1:2379"]);
}

#[tokio::test]
async fn proxies_that_share_a_prefix_list_each_other_until_they_are_gone() {
    let server = server();
    let flags = ["--resolver-prefix=proxies", "--resolver-ttl=2"];
    let (first, client) = proxied(&server, &flags).await;
    let (second, _) = proxied(&server, &flags).await;
    let mut both = [first.address(), second.address()];
    both.sort();
    let lists = async |expected: &[String], proxy: &Proxy| {
        let until = tokio::time::Instant::now() + fleet::PATIENCE;
        while urls(&client).await != expected {
            assert!(tokio::time::Instant::now() < until, "{}", proxy.log());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    lists(&both, &first).await;
    let direct = Client::connect(server.url()).await.unwrap();
    let key = format!("proxies/{}", first.address());
    let value = super::get(&direct, range(&key)).await.unwrap().unwrap();
    let expected = format!(r#"{{"Op":0,"Addr":"{}","Metadata":"#, first.address());
    assert!(value.starts_with(&expected), "{value}");
    drop(second);
    lists(&[first.address()], &first).await;
}
