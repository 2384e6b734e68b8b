//! TLS with certificates on both sides, then users: a role that may do a little, what is denied to
//! it, a token that is lost with the server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use etcd_client::{
    Certificate, Client, ConnectOptions, Error, GetOptions, Identity, LockOptions, Permission, TlsOptions,
};

use crate::{Result, restart};

const PASSWORD: &str = "a secret";
const PAUSE: Duration = Duration::from_millis(50);

/// How the server is reached over TLS.
pub(crate) struct Secure<'a> {
    pub(crate) port: &'a str,
    pub(crate) pki: &'a Path,
}

impl Secure<'_> {
    async fn client(&self, certificate: bool, user: Option<(&str, &str)>) -> Result<Client> {
        let read = |name: &str| fs::read(self.pki.join(name)).expect("the certificates are there");
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read("ca.pem")));
        if certificate {
            tls = tls.identity(Identity::from_pem(read("client.pem"), read("client-key.pem")));
        }
        let mut options = ConnectOptions::new().with_tls(tls).with_auto_token_refresh(true);
        if let Some((name, password)) = user {
            options = options.with_user(name, password);
        }
        Client::connect([format!("https://127.0.0.1:{}", self.port)], Some(options)).await
    }
}

pub(crate) async fn tls(secure: &Secure<'_>) -> Result<()> {
    let without = match secure.client(false, None).await {
        Ok(mut client) => client.get("a", None).await.err(),
        Err(error) => Some(error),
    };
    assert!(without.is_some(), "a client without a certificate was let in");
    let mut client = secure.client(true, None).await?;
    client.put("tls", "x", None).await?;
    println!("tls: {}", client.get("tls", None).await?.kvs()[0].value_str()?);
    Ok(())
}

/// The locks and elections that the server keeps.
pub(crate) async fn server_side(mut client: Client) -> Result<()> {
    let (first, second) = (client.lease_grant(30, None).await?.id(), client.lease_grant(30, None).await?.id());
    let held = client.lock("name", Some(LockOptions::new().with_lease(first))).await?;
    let mut waiting = client.clone();
    let waiting = tokio::spawn(async move {
        waiting.lock("name", Some(LockOptions::new().with_lease(second))).await
    });
    client.unlock(held.key()).await?;
    let next = waiting.await.expect("who waits does not panic")?;
    println!("server's lock: {}", next.key().starts_with(b"name/"));
    let mut campaigner = client.clone();
    let elected = campaigner.campaign("chair", "first", first).await?;
    let mut observed = client.observe("chair").await?;
    let seen = observed.message().await?.expect("there is a leader");
    println!("server's election: {}", seen.kv().expect("a leader has a key").value_str()?);
    assert!(elected.leader().is_some());
    client.lease_revoke(first).await?;
    println!("no leader: {}", refused(client.leader("chair").await));
    client.lease_revoke(second).await?;
    Ok(())
}

pub(crate) async fn auth(mut plain: Client, secure: &Secure<'_>) -> Result<()> {
    for role in ["root", "writer"] {
        plain.role_add(role).await?;
    }
    let allowed = Permission::read_write("mine/").with_prefix();
    plain.role_grant_permission("writer", allowed).await?;
    for (user, role) in [("root", "root"), ("alice", "writer")] {
        plain.user_add(user, PASSWORD, None).await?;
        plain.user_grant_role(user, role).await?;
    }
    println!("auth again: {}", refused(plain.role_add("writer").await));
    plain.auth_enable().await?;
    println!("auth: {}", refused(plain.get("mine/a", None).await));
    let wrong = secure.client(true, Some(("alice", "wrong"))).await;
    println!("auth wrong password: {}", refused(wrong.map(|_| ())));
    let mut alice = secure.client(true, Some(("alice", PASSWORD))).await?;
    alice.put("mine/a", "by alice", None).await?;
    println!("auth denied: {}", refused(alice.put("yours", "x", None).await));
    let all = Some(GetOptions::new().with_all_keys());
    println!("auth denied list: {}", refused(alice.get("", all).await));
    // The certificate's common name is alice, too.
    let mut nameless = secure.client(true, None).await?;
    println!("auth certificate: {}", nameless.get("mine/a", None).await?.kvs()[0].value_str()?);
    restart();
    // Tokens are lost with the server; its user asks for another.
    let said = loop {
        match alice.get("mine/a", None).await {
            Err(Error::GRpcStatus(status)) if status.message().starts_with("etcdserver:") => break status.message().to_owned(),
            Ok(found) => break found.kvs()[0].value_str()?.to_owned(),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    alice.refresh_token().await?;
    println!("auth token lost: {said}; then {}", alice.get("mine/a", None).await?.kvs()[0].value_str()?);
    let mut root = secure.client(true, Some(("root", PASSWORD))).await?;
    root.auth_disable().await?;
    // Its connection was cut by the restart, too.
    let found = loop {
        match plain.get("mine/a", None).await {
            Ok(found) => break found,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    println!("auth disabled: {}", found.kvs()[0].value_str()?);
    Ok(())
}

/// What the call, which has to be refused, is refused with.
fn refused<T>(answer: Result<T>) -> String {
    match answer {
        Err(Error::GRpcStatus(status)) => format!("{:?} {}", status.code(), status.message()),
        Err(other) => other.to_string(),
        Ok(_) => panic!("it was not refused"),
    }
}
