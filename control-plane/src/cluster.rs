//! A whole control plane in one process, on one directory.
//!
//! ```text
//! DIR/store/             the store's directory, as for `stele --data-dir`
//! DIR/pki/               keys and certificates, created if missing
//! DIR/admin.kubeconfig   for the owner of the cluster
//! DIR/observer.kubeconfig
//!                        for a user who meets no faults, if there are faults on purpose
//! ```

mod front;
mod inside;
mod parts;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::faults::{Faults, Kind};
use apiserver::setup::{
    Accounts, Authorization, Further, Mode, ServiceRanges, Serving, Settings, Setup,
};
use apiserver::{Config, Server};
use certificates::Authority;
use controllers::{Selection, Signer};
use node::provisioner::default_class;
use server::lifecycle::local::Local;
use storage::vfs::os::OsVfs;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::connection;
use crate::store_client::StoreFlags;
use front::Front;
pub(crate) use parts::Component;

/// How long parts may take to stop; after that they are abandoned.
const GRACE: Duration = Duration::from_secs(10);

/// The ranges of service addresses that a flag of this name says.
pub(crate) fn service_ranges(flag: &str, text: &str) -> Result<ServiceRanges, String> {
    ServiceRanges::parse(text).map_err(|why| format!("--{flag}={text} is not supported: {why}"))
}

/// What to run.
pub(crate) struct Plan {
    /// Where everything is kept.
    pub(crate) directory: PathBuf,
    pub(crate) components: Vec<Component>,
    /// Where the apiserver listens.
    pub(crate) bind: SocketAddr,
    /// Where the store listens.
    pub(crate) store_bind: SocketAddr,
    /// Further flags of the store.
    pub(crate) store_flags: Vec<String>,
    /// The store, when it is not one of the parts.
    pub(crate) etcd_servers: Option<String>,
    /// Where services get addresses.
    pub(crate) service_ranges: ServiceRanges,
    /// The loops of the controllers.
    pub(crate) loops: Selection,
    /// How many hollow nodes.
    pub(crate) nodes: usize,
    /// True if a new cluster with hollow nodes begins with a default class of storage.
    pub(crate) default_class: bool,
    /// Names of admission plugins that are switched off.
    pub(crate) disabled_plugins: Vec<String>,
    /// Faults on purpose, which the requests of other processes meet.
    pub(crate) faults: Option<Arc<Faults>>,
}

/// What runs, once it serves.
pub(crate) struct Up {
    /// The address of the apiserver, if it is one of the parts.
    pub(crate) api: Option<SocketAddr>,
    /// The address of the store, if it is one of the parts.
    pub(crate) store: Option<SocketAddr>,
    /// The file by which the owner of the cluster reaches the apiserver.
    pub(crate) kubeconfig: PathBuf,
}

/// What all parts share while they run.
struct Running {
    tasks: JoinSet<Result<(), String>>,
    stop: watch::Sender<bool>,
}

impl Plan {
    /// Runs until `stop` completes, or a part ends. Calls `tell` once all of it serves.
    #[expect(
        clippy::disallowed_methods,
        reason = "the directory of a whole cluster is made here"
    )]
    pub(crate) fn run(
        &self,
        tell: impl FnOnce(&Up) -> io::Result<()>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Box<dyn Error>> {
        std::fs::create_dir_all(&self.directory)
            .map_err(|error| format!("{}: {error}", self.directory.display()))?;
        let store = if self.has(Component::Store) {
            Some(self.start_store()?)
        } else {
            None
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let result = runtime.block_on(self.serve(store.as_ref(), tell, stop));
        runtime.shutdown_timeout(GRACE);
        // The store stops last, because all other parts write to it.
        if let Some(store) = store {
            store.stop()?;
        }
        result
    }

    fn has(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// True if a new cluster begins with the default class of storage, which somebody has to serve.
    fn makes_class(&self) -> bool {
        self.default_class && self.has(Component::Node) && self.nodes > 0
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    async fn serve(
        &self,
        store: Option<&Local>,
        tell: impl FnOnce(&Up) -> io::Result<()>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Box<dyn Error>> {
        let mut running = Running {
            tasks: JoinSet::new(),
            stop: watch::Sender::new(false),
        };
        let mut stop = pin!(stop);
        // Looked at first, so that a signal ends this in order from the first moment on.
        let api = tokio::select! {
            biased;
            () = stop.as_mut() => return Ok(()),
            api = self.start(store, &mut running) => api?,
        };
        tell(&Up {
            api: api.as_ref().map(|api| api.address),
            store: store.and_then(|store| store.addresses().first().copied()),
            kubeconfig: self.kubeconfig(),
        })?;
        tokio::spawn(crate::give_start_back());
        let (mut serving, server) = match api {
            Some(api) => (api.serving, Some(api.server)),
            None => (JoinSet::new(), None),
        };
        let ended = tokio::select! {
            () = stop => None,
            ended = running.tasks.join_next(), if !running.tasks.is_empty() => ended,
            ended = serving.join_next(), if !serving.is_empty() => ended,
        };
        tracing::info!("stopping");
        running.stop.send_replace(true);
        let finish = async {
            // The loops stop first, so that they can finish their writes.
            while running.tasks.join_next().await.is_some() {}
            if let Some(server) = &server {
                server.leave().await;
                server.stop();
            }
            while serving.join_next().await.is_some() {}
        };
        if tokio::time::timeout(GRACE, finish).await.is_err() {
            tracing::warn!("some parts did not stop in time");
        }
        match ended {
            None => Ok(()),
            Some(Ok(Ok(()))) => Err("a part ended by itself".into()),
            Some(Ok(Err(why))) => Err(why.into()),
            Some(Err(panic)) => Err(panic.into()),
        }
    }

    /// Starts all parts; the apiserver answers when this returns.
    async fn start(
        &self,
        store: Option<&Local>,
        running: &mut Running,
    ) -> Result<Option<RunningApi>, Box<dyn Error>> {
        let mut api = None;
        if self.has(Component::Apiserver) {
            let client = match (store, &self.etcd_servers) {
                (Some(store), _) => etcd_api::Client::new(store.channel()),
                (None, Some(urls)) => {
                    let urls = urls.split(',').map(str::to_owned).collect();
                    let store = StoreFlags {
                        urls,
                        ..StoreFlags::default()
                    };
                    store.connect().await?
                }
                (None, None) => {
                    return Err("an apiserver without a store takes --etcd-servers".into());
                }
            };
            api = Some(self.start_api(client, running).await?);
        }
        let server = api.as_ref().map(|api| &api.server);
        self.start_parts(server, running).await?;
        if let Some(server) = server {
            server.ready().await;
        }
        Ok(api)
    }

    fn start_store(&self) -> Result<Local, Box<dyn Error>> {
        // No peers are expected. The port is fixed so that the address is the same at each start.
        let bind = self.store_bind;
        let mut peers = bind;
        peers.set_port(match bind.port() {
            0 => 0,
            port => port.checked_add(1).ok_or("no port is left for peers")?,
        });
        let mut flags = vec![
            format!("--data-dir={}", self.directory.join("store").display()),
            format!("--listen-client-urls=http://{bind}"),
            format!("--advertise-client-urls=http://{bind}"),
            format!("--listen-peer-urls=http://{peers}"),
            format!("--initial-advertise-peer-urls=http://{peers}"),
            format!("--initial-cluster=default=http://{peers}"),
        ];
        flags.extend_from_slice(&self.store_flags);
        let config = server::config::parse(&flags, &[], &|path| std::fs::read_to_string(path))
            .map_err(|exit| format!("the store refuses its flags: {exit:?}"))?;
        let store = Local::start(config, Arc::new(OsVfs))
            .map_err(|error| format!("the store cannot start: {error}"))?;
        tracing::info!(addresses = ?store.addresses(), "the store serves");
        Ok(store)
    }

    async fn start_api(
        &self,
        client: etcd_api::Client,
        running: &Running,
    ) -> Result<RunningApi, Box<dyn Error>> {
        let place = front::Place::take(self.bind)
            .map_err(|error| format!("cannot listen on {}: {error}", self.bind))?;
        let address = place.address();
        let mut setup = self.settings(address).open()?;
        let Some(tls) = setup.tls.take() else {
            unreachable!("a directory was given for it");
        };
        let reached = connection::reached(address);
        self.service_ranges.check_advertised(reached.ip())?;
        self.write_kubeconfigs(&setup, &format!("https://{reached}"))?;
        let config = Config {
            advertised: Some(reached),
            allow_privileged: true,
            disabled_plugins: self.disabled_plugins.clone(),
            first_objects: self.makes_class().then(default_class).into_iter().collect(),
            faults: self.faults.clone(),
            ..setup.config
        };
        let server = Arc::new(Server::new(client.clone(), config.clone()));
        let restarts = |faults: &&Arc<Faults>| faults.has(Kind::Restarts);
        let mut serving = JoinSet::new();
        if let Some(faults) = self.faults.as_ref().filter(restarts) {
            let front = Front {
                place,
                client,
                config,
                tls,
                faults: Arc::clone(faults),
            };
            let (up, first) = oneshot::channel();
            serving.spawn(front.run(up, parts::stopped(running.stop.subscribe())));
            // Dropped if it cannot start; then the task has the reason.
            if first.await.is_err()
                && let Some(Ok(ended)) = serving.join_next().await
            {
                ended?;
            }
        } else {
            let listener = place.listen()?;
            drop(place);
            let answering = Arc::clone(&server);
            serving.spawn(async move {
                let served = answering.serve_tls(listener, tls).await;
                served.map_err(|error| format!("the apiserver: {error}"))
            });
        }
        Ok(RunningApi {
            server,
            address,
            serving,
        })
    }

    fn settings(&self, address: SocketAddr) -> Settings {
        Settings {
            serving: Serving::Own(self.directory.join("pki")),
            newest_tls_only: false,
            names: if address.ip().is_unspecified() {
                Vec::new()
            } else {
                vec![address.ip().to_string()]
            },
            service_ranges: self.service_ranges.clone(),
            client_authority: None,
            token_file: None,
            anonymous: Some(true),
            authorization: Authorization::of(&[Mode::Rbac]),
            accounts: Accounts::default(),
            further: Further::default(),
        }
    }

    fn write_kubeconfigs(&self, setup: &Setup, url: &str) -> Result<(), Box<dyn Error>> {
        if let Some(pki) = &setup.pki {
            pki.write_admin(&self.kubeconfig(), url)?;
        }
        if self.faults.is_some() {
            let path = self.directory.join("observer.kubeconfig");
            setup.write_observer(&path, url)?;
        }
        Ok(())
    }

    /// The signer of certificate requests; `None` before the first start of an apiserver.
    fn signer(&self) -> Result<Option<Arc<Signer>>, Box<dyn Error>> {
        let certificate = self.read_authority("ca.crt")?;
        let key = self.read_authority("ca.key")?;
        if certificate.is_empty() || key.is_empty() {
            return Ok(None);
        }
        let authority = Authority::of(&certificate, &key)
            .map_err(|why| format!("{}: {why}", self.directory.join("pki").display()))?;
        Ok(Some(Arc::new(Signer {
            authority,
            duration: Signer::DURATION,
        })))
    }

    /// A file of the CA, whose certificate pods get; empty before the first start of an apiserver.
    fn read_authority(&self, file: &str) -> Result<String, Box<dyn Error>> {
        let path = self.directory.join("pki").join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }
}

/// The apiserver of this process.
struct RunningApi {
    server: Arc<Server>,
    address: SocketAddr,
    /// The task that answers requests.
    serving: JoinSet<Result<(), String>>,
}
