//! `stele-kube apiserver`: the apiserver alone, with a store elsewhere; over TLS, or over plain
//! HTTP on loopback.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::Config;
use apiserver::Server;
use apiserver::setup::{ISSUER, Mode, Settings, Setup};
use clap::{Arg, ArgAction, ArgMatches, Command};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::connection;

/// Attempts to reach the store, and the delay between them: 20 seconds in total.
const CONNECTS_MAX: usize = 100;
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    Command::new("apiserver")
        .about("Serves the API of Kubernetes from a store that speaks etcd's")
        .arg(option("etcd-servers", "URL", "the store").default_value("http://127.0.0.1:2379"))
        .arg(
            option(
                "bind",
                "ADDRESS",
                "where to listen; without TLS only on loopback",
            )
            .default_value("127.0.0.1:8080"),
        )
        .arg(
            option(
                "service-cidr",
                "RANGE",
                "where services get their addresses from",
            )
            .default_value("10.96.0.0/16"),
        )
        .arg(option(
            "tls-cert-dir",
            "DIR",
            "serve over TLS; keys are kept here, made if missing",
        ))
        .arg(option(
            "admin-kubeconfig",
            "FILE",
            "where to write the owner's kubeconfig [default: admin.kubeconfig in --tls-cert-dir]",
        ))
        .arg(
            option(
                "external-hostname",
                "NAME",
                "a further name or address of the server",
            )
            .action(ArgAction::Append),
        )
        .args(access_options())
}

/// Who is let in, and what they may do.
fn access_options() -> [Arg; 5] {
    [
        option(
            "token-auth-file",
            "FILE",
            "tokens: token,user,uid,\"group,group\" in a line",
        ),
        option("allow-privileged", "BOOL", "let containers be privileged")
            .value_parser(["true", "false"])
            .num_args(0..=1)
            .default_missing_value("true")
            .default_value("false"),
        option(
            "anonymous-auth",
            "BOOL",
            "let in whoever shows nothing as system:anonymous",
        )
        .value_parser(["true", "false"])
        .default_value("true"),
        option(
            "authorization-mode",
            "MODE",
            "[default: RBAC with certificates or tokens, else AlwaysAllow]",
        )
        .value_parser(["RBAC", "AlwaysAllow"]),
        option(
            "service-account-issuer",
            "URL",
            "what tokens say of who made them",
        )
        .default_value(ISSUER),
    ]
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Serves until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let text = |name: &str| {
        arguments
            .get_one::<String>(name)
            .cloned()
            .unwrap_or_default()
    };
    let (store, cidr) = (text("etcd-servers"), text("service-cidr"));
    let bind = text("bind");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&bind).await?;
        let address = listener.local_addr()?;
        let setup = people(arguments, address)?;
        let client = connected(&store).await?;
        let (seams, tls) = match setup {
            Some(setup) => (setup.config, setup.tls),
            None => (Config::default(), None),
        };
        let config = Config {
            service_cidr: cidr,
            allow_privileged: text("allow-privileged") == "true",
            ..seams
        };
        let server = Server::new(client, config);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stopped = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            server.stop();
        };
        let ready = async {
            if server.ready().await.is_ok() {
                tracing::info!(%address, "ready to serve the API");
            }
        };
        let serving = async {
            match tls {
                Some(tls) => server.serve_tls(listener, tls).await,
                None => server.serve(listener).await,
            }
        };
        let (served, (), ()) = tokio::join!(serving, stopped, ready);
        Ok(served?)
    })
}

/// Connects to the store, with retries, as it may be starting.
async fn connected(store: &str) -> Result<etcd_api::Client, Box<dyn Error>> {
    let mut tried = 0;
    loop {
        match etcd_api::Client::connect(store).await {
            Ok(client) => return Ok(client),
            Err(error) if tried == CONNECTS_MAX => return Err(Box::new(error)),
            Err(_) => tokio::time::sleep(CONNECT_AGAIN_AFTER).await,
        }
        tried += 1;
    }
}

/// The authentication and authorization; `None` to let in every client on this machine.
fn people(arguments: &ArgMatches, address: SocketAddr) -> Result<Option<Setup>, Box<dyn Error>> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let directory = text("tls-cert-dir").map(PathBuf::from);
    let token_file = text("token-auth-file").map(PathBuf::from);
    if directory.is_none() && !address.ip().is_loopback() {
        return Err(format!("{address} is no loopback address: it takes --tls-cert-dir").into());
    }
    let mode = text("authorization-mode");
    if directory.is_none() && token_file.is_none() && mode.is_none() {
        return Ok(None);
    }
    let mut names: Vec<String> = arguments
        .get_many::<String>("external-hostname")
        .map(|names| names.cloned().collect())
        .unwrap_or_default();
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let settings = Settings {
        directory,
        names,
        service_cidr: text("service-cidr").unwrap_or_default(),
        token_file,
        anonymous: text("anonymous-auth").as_deref() == Some("true"),
        mode: match mode.as_deref() {
            Some("AlwaysAllow") => Mode::AlwaysAllow,
            _ => Mode::Rbac,
        },
        issuer: text("service-account-issuer").unwrap_or_default(),
    };
    let setup = settings.open()?;
    if let (Some(pki), Some(directory)) = (&setup.pki, &settings.directory) {
        let path = text("admin-kubeconfig").map(PathBuf::from);
        let path = path.unwrap_or_else(|| directory.join("admin.kubeconfig"));
        pki.write_admin(&path, &format!("https://{}", connection::reached(address)))?;
    }
    Ok(Some(setup))
}
