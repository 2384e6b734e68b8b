//! A control plane of chosen parts, ours and Kubernetes' own mixed, on our store: separate
//! processes, stopped when dropped. The nodes are always hollow.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use apiserver::auth::pki::Pki;
use etcd_api::etcdserverpb::PutRequest;
use machinery::time::Timestamp;
use tempfile::TempDir;
use testkit::{Kubernetes, Launch};

use crate::harness::cluster::{BINARY, apiserver_with, told};

pub(super) const NODES: usize = 3;
/// Where services get addresses unless a test says more.
const SERVICES: &str = "10.96.0.0/16";
/// The timeout for the start of a part. It is long because the machine may be busy with builds.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(200);
/// The name of our apiserver among the children.
const OURS: &str = "apiserver";
/// Number of lines of a part's log that are shown when a test fails.
const LOG_LINES: usize = 15;
/// Kubernetes' loops that have a counterpart here.
const LOOPS: &str = "--controllers=namespace-controller,serviceaccount-controller,\
     root-ca-certificate-publisher-controller,replicaset-controller,deployment-controller,\
     daemonset-controller,\
     garbage-collector-controller,endpoints-controller,endpointslice-controller,\
     endpointslice-mirroring-controller,node-lifecycle-controller,\
     taint-eviction-controller,pod-garbage-collector-controller,disruption-controller,\
     resourcequota-controller,persistentvolumeclaim-protection-controller,\
     persistentvolume-protection-controller,volumeattributesclass-protection-controller,\
     statefulset-controller,ephemeral-volume-controller,\
     job-controller,ttl-after-finished-controller,cronjob-controller";

/// Which parts are Kubernetes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) apiserver: bool,
    pub(super) loops: bool,
    pub(super) scheduler: bool,
}

impl Mix {
    /// The programs of Kubernetes in this mix.
    pub(super) fn programs(self) -> Vec<Kubernetes> {
        let all = [
            (self.apiserver, Kubernetes::Apiserver),
            (self.loops, Kubernetes::ControllerManager),
            (self.scheduler, Kubernetes::Scheduler),
        ];
        let wanted = all.into_iter().filter(|(wanted, _)| *wanted);
        wanted.map(|(_, program)| program).collect()
    }
}

pub(crate) struct World {
    home: TempDir,
    children: Vec<(&'static str, Child)>,
    /// The port of Kubernetes' own apiserver; the same after a restart.
    port: u16,
    store: Option<testkit::Server>,
    /// Where services get addresses.
    service_ranges: String,
}

impl World {
    /// Starts all parts; returns when the nodes are ready.
    pub(super) fn start(mix: Mix) -> World {
        let mut world = World::apiserver_bare(mix.apiserver);
        let count = NODES.to_string();
        world.begin_ours("node", &["--count", &count]);
        if mix.loops {
            world.begin_go_loops()
        } else {
            let root = format!("--root-ca-file={}", world.pki("ca.crt"));
            // Kubernetes' loop for volumes does not run beside it either.
            let loops = "--controllers=*,-persistentvolume-binder-controller";
            world.begin_ours("controller-manager", &[&root, "--leader-elect", loops]);
        }
        if mix.scheduler {
            world.begin_go_scheduler()
        } else {
            world.begin_ours("scheduler", &["--leader-elect"])
        }
        world.until_nodes_are_ready();
        world
    }

    /// An apiserver, hollow nodes, and Kubernetes' own loops and scheduler as kubeadm starts them:
    /// every loop that is on by default, with a service account each. Returns when the nodes are
    /// ready.
    pub(crate) fn with_all_loops(go: bool) -> World {
        let mut world = World::apiserver_bare(go);
        let loops = world.part("controller-manager");
        let scheduler = world.part("scheduler");
        world.begin_ours("node", &["--count", &NODES.to_string()]);
        let flags = [
            format!("--kubeconfig={loops}"),
            "--secure-port=0".into(),
            "--use-service-account-credentials=true".into(),
            "--allocate-node-cidrs=true".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            // The manager creates the directory.
            format!("--flex-volume-plugin-dir={}", world.pki("flex")),
            format!("--cluster-signing-cert-file={}", world.pki("ca.crt")),
            format!("--cluster-signing-key-file={}", world.pki("ca.key")),
            format!("--root-ca-file={}", world.pki("ca.crt")),
            format!("--service-account-private-key-file={}", world.pki("sa.key")),
        ];
        world.begin(Kubernetes::ControllerManager, &flags);
        world.begin(Kubernetes::Scheduler, &go_scheduler(Path::new(&scheduler)));
        world.until_nodes_are_ready();
        world
    }

    /// Writes a kubeconfig for a part of Kubernetes, whose user has only the rights that the
    /// default roles give it.
    fn part(&self, name: &str) -> String {
        // In a directory of its own, because opening one may renew the server's certificate.
        let directory = self.home.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        for file in ["ca.crt", "ca.key"] {
            std::fs::copy(self.pki(file), directory.join(file)).unwrap();
        }
        let pki = Pki::open(&directory, &[], now()).unwrap();
        let user = format!("system:kube-{name}");
        let identity = pki.client(&user, "", now()).unwrap();
        let path = directory.join("kubeconfig");
        std::fs::write(&path, pki.kubeconfig(&self.url(), &user, &identity)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The address of the apiserver.
    pub(crate) fn url(&self) -> String {
        let config = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let (_, rest) = config.split_once("server: ").unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    fn until_nodes_are_ready(&self) {
        self.until("the nodes are ready", |world| {
            let nodes = world.kubectl(&["get", "nodes", "--no-headers"]);
            let nodes = String::from_utf8_lossy(&nodes.stdout).into_owned();
            nodes.matches(" Ready ").count() == NODES
        });
    }

    /// A store and an apiserver alone, and its address for the owner without TLS.
    pub(crate) fn apiserver_alone(go: bool) -> (World, String) {
        World::apiserver_alone_with(go, SERVICES)
    }

    /// The same with other addresses for services.
    pub(crate) fn apiserver_alone_with(go: bool, service_ranges: &str) -> (World, String) {
        let mut world = World::apiserver_with(go, service_ranges);
        let address = world.begin_proxy();
        (world, address)
    }

    /// A store and an apiserver alone, for the owner's kubeconfig.
    pub(crate) fn apiserver_bare(go: bool) -> World {
        World::apiserver_with(go, SERVICES)
    }

    fn apiserver_with(go: bool, service_ranges: &str) -> World {
        let mut world = World {
            home: tempfile::tempdir().unwrap(),
            children: Vec::new(),
            port: testkit::free_port(),
            store: None,
            service_ranges: service_ranges.to_owned(),
        };
        let launch = Launch::program(BINARY).subcommand("store");
        let started = |launch: Launch| launch.start().unwrap_or_else(|error| panic!("{error}"));
        if go {
            world.make_pki();
            let tls = format!("https://127.0.0.1:{}", testkit::free_port());
            let flags = world.secure_store(&tls);
            world.store = Some(started(launch.flags(&flags)));
            let own = world.store_client(&tls);
            world.begin_go_apiserver(&own);
        } else {
            let store = started(launch);
            world.begin_apiserver(&store.url());
            world.store = Some(store);
        }
        world.until_ready();
        world
    }

    fn until_ready(&self) {
        self.until("the apiserver is ready", |world| {
            world.kubectl(&["get", "--raw", "/readyz"]).status.success()
        });
    }

    /// Restarts the apiserver. Ours then has another address.
    pub(crate) fn restart_apiserver(&mut self) {
        let ours = self.children.iter().position(|(part, _)| *part == OURS);
        let Some(running) = ours else {
            return self.restart_go_apiserver_on_the_socket();
        };
        self.stop(running);
        let store = self.store.as_ref().map(testkit::Server::url);
        self.begin_apiserver(&store.unwrap());
        self.until_ready();
    }

    fn stop(&mut self, running: usize) {
        let (_, mut child) = self.children.remove(running);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Restarts Kubernetes' own apiserver, which then reaches the store over a unix socket.
    pub(super) fn restart_go_apiserver_on_the_socket(&mut self) {
        let name = Kubernetes::Apiserver.name();
        let running = self.children.iter().position(|(part, _)| *part == name);
        self.stop(running.unwrap());
        self.begin_go_apiserver(&[format!("--etcd-servers={}", self.socket())]);
        self.until_ready();
    }

    fn socket(&self) -> String {
        format!("unix://{}", self.home.path().join("store.sock").display())
    }

    /// The store's flags to require client certificates, except on its socket.
    fn secure_store(&self, tls: &str) -> [String; 5] {
        [
            format!("--listen-client-urls={tls},{}", self.socket()),
            format!("--cert-file={}", self.pki("apiserver.crt")),
            format!("--key-file={}", self.pki("apiserver.key")),
            format!("--trusted-ca-file={}", self.pki("ca.crt")),
            "--client-cert-auth".to_owned(),
        ]
    }

    /// The apiserver's flags for such a store.
    fn store_client(&self, tls: &str) -> [String; 4] {
        [
            format!("--etcd-servers={tls}"),
            format!("--etcd-cafile={}", self.pki("ca.crt")),
            format!("--etcd-certfile={}", self.pki("admin.crt")),
            format!("--etcd-keyfile={}", self.pki("admin.key")),
        ]
    }

    /// Puts a value into the store, past the apiserver.
    pub(crate) fn store(&self, key: &str, value: &str) {
        let ours = self.children.iter().any(|(part, _)| *part == OURS);
        let store = self.store.as_ref().filter(|_| ours);
        let url = store.map_or_else(|| self.socket(), testkit::Server::url);
        let put = PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: value.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = etcd_api::Client::connect(url).await.unwrap();
            client.kv().put(put).await.unwrap();
        });
    }

    fn begin_proxy(&mut self) -> String {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(["proxy", "--port=0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        told.read_line(&mut line).unwrap();
        self.children.push(("proxy", child));
        let (_, address) = line.rsplit_once(' ').unwrap();
        address.trim().to_owned()
    }

    fn begin_apiserver(&mut self, store: &str) {
        let kubeconfig = self.kubeconfig();
        let (child, _) = apiserver_with(
            store,
            &[
                &format!("--cert-dir={}", self.home.path().join("pki").display()),
                &format!("--admin-kubeconfig={}", kubeconfig.display()),
                &format!("--service-cluster-ip-range={}", self.service_ranges),
            ],
        );
        self.children.push((OURS, child));
    }

    fn make_pki(&self) {
        // Services get addresses from the range; the API gets the first of them.
        let names = ["10.96.0.1".to_owned()];
        let pki = Pki::open(&self.home.path().join("pki"), &names, now()).unwrap();
        let url = format!("https://127.0.0.1:{}", self.port);
        pki.write_admin(&self.kubeconfig(), &url).unwrap();
    }

    fn begin_go_apiserver(&mut self, store: &[String]) {
        let flags = [
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--service-cluster-ip-range={}", self.service_ranges),
            "--authorization-mode=RBAC".into(),
            format!("--tls-cert-file={}", self.pki("apiserver.crt")),
            format!("--tls-private-key-file={}", self.pki("apiserver.key")),
            format!("--client-ca-file={}", self.pki("ca.crt")),
            format!("--service-account-key-file={}", self.pki("sa.pub")),
            format!("--service-account-signing-key-file={}", self.pki("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
        ];
        self.begin(Kubernetes::Apiserver, &[store, &flags[..]].concat());
    }

    fn begin_go_loops(&mut self) {
        let flags = [
            format!("--kubeconfig={}", self.kubeconfig().display()),
            "--secure-port=0".into(),
            LOOPS.into(),
            format!("--root-ca-file={}", self.pki("ca.crt")),
            format!("--service-account-private-key-file={}", self.pki("sa.key")),
        ];
        self.begin(Kubernetes::ControllerManager, &flags);
    }

    fn begin_go_scheduler(&mut self) {
        let flags = go_scheduler(&self.kubeconfig());
        self.begin(Kubernetes::Scheduler, &flags);
    }

    fn begin(&mut self, program: Kubernetes, flags: &[String]) {
        let path = program
            .locate()
            .unwrap_or_else(|missing| panic!("{missing}"));
        let log = File::create(self.log(program.name())).unwrap();
        let child = Command::new(path)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children.push((program.name(), child));
    }

    fn begin_ours(&mut self, part: &'static str, flags: &[&str]) {
        let log = File::create(self.log(part)).unwrap();
        let child = Command::new(BINARY)
            .arg(part)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(flags)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children.push((part, child));
    }

    /// Everything that a part of Kubernetes has logged.
    pub(crate) fn text_of_log(&self, program: Kubernetes) -> String {
        std::fs::read_to_string(self.log(program.name())).unwrap()
    }

    fn log(&self, part: &str) -> PathBuf {
        self.home.path().join(format!("{part}.log"))
    }

    pub(crate) fn pki(&self, file: &str) -> String {
        let path = self.home.path().join("pki").join(file);
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("admin.kubeconfig")
    }

    fn until(&self, what: &str, holds: impl Fn(&World) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
            sleep(POLL);
        }
    }

    /// The real kubectl, as the owner of the cluster.
    pub(super) fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            .env("HOME", self.home.path())
            .output()
            .unwrap()
    }

    /// Runs kubectl, which must succeed; returns its output.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Repeats a kubectl command until it prints something; returns that.
    pub(crate) fn wait_for_text(&self, args: &[&str]) -> String {
        self.until(&format!("{args:?} prints something"), |world| {
            !world.kubectl(args).stdout.is_empty()
        });
        self.run(args)
    }

    /// The name and the groups of the user with these flags for kubectl, and no other credentials.
    pub(crate) fn whoami(&self, credentials: &[&str]) -> String {
        let server = format!("--server={}", self.url());
        let authority = format!("--certificate-authority={}", self.pki("ca.crt"));
        let shown =
            "jsonpath={.status.userInfo.username}{range .status.userInfo.groups[*]} {@}{end}";
        let output = Command::new("kubectl")
            .args(["--kubeconfig=/dev/null", &server, &authority])
            .args(credentials)
            .args(["auth", "whoami", "-o", shown])
            .env("HOME", self.home.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{credentials:?}: {}",
            told(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates the objects of a manifest.
    pub(crate) fn create(&self, manifest: &str) {
        self.run(&["create", "-f", &self.file("manifest.yaml", manifest)]);
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn tell_logs(&self) {
        for (name, _) in &self.children {
            let log = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
                eprintln!("{name}: {line}");
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for (_, child) in self.children.iter_mut().rev() {
            // Fails only if the process is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            self.tell_logs();
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp {
        seconds: i64::try_from(since.unwrap().as_secs()).unwrap(),
        nanos: 0,
    }
}

/// The flags of Kubernetes' scheduler for the cluster of a kubeconfig.
pub(crate) fn go_scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--secure-port=0".into(),
    ]
}
