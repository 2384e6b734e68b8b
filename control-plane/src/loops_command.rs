//! `stele-kube controller-manager`: the control loops alone, with an apiserver elsewhere.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use controllers::{Config, MaskSizes, NodeRanges, Selection, Signer};

use crate::connection;
use crate::switch::switch;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    Command::new("controller-manager")
        .about("Brings the cluster to what was asked for: the loops")
        .args(connection::flags())
        .arg(
            Arg::new("root-ca-file")
                .long("root-ca-file")
                .value_name("FILE")
                .help("The certificate that every namespace gets as kube-root-ca.crt"),
        )
        .arg(signing(
            "cluster-signing-cert-file",
            "The certificate of the authority that signs approved certificate requests, in PEM",
        ))
        .arg(signing(
            "cluster-signing-key-file",
            "The key of that authority, in PEM",
        ))
        .arg(
            Arg::new("cluster-signing-duration")
                .long("cluster-signing-duration")
                .value_name("DURATION")
                .default_value("8760h0m0s")
                .value_parser(duration)
                .help("Maximum lifetime of a signed certificate; a request may ask for less"),
        )
        .args(node_flags())
        .arg(controllers_flag("*"))
        .arg(
            switch("leader-elect")
                .help("Works only while it holds the lease kube-system/kube-controller-manager"),
        )
}

fn signing(name: &'static str, help: &'static str) -> Arg {
    let flag = Arg::new(name).long(name).value_name("FILE");
    flag.help(format!("{help}; read once, at the start"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanos = go_text::parse_duration(text)?;
    match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos)),
        _ => Err("must be more than 0".into()),
    }
}

/// The signer that the flags describe; `None` if they name no authority.
fn signer(arguments: &ArgMatches) -> Result<Option<Arc<Signer>>, Box<dyn Error>> {
    let file = |name: &str| arguments.get_one::<String>(name);
    let (certificate, key) = match (
        file("cluster-signing-cert-file"),
        file("cluster-signing-key-file"),
    ) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => {
            let why = "--cluster-signing-cert-file and --cluster-signing-key-file go together";
            return Err(why.into());
        }
    };
    let read = |path: &String| {
        let text = std::fs::read_to_string(path);
        text.map_err(|error| format!("{path}: {error}"))
    };
    let authority = Authority::of(&read(certificate)?, &read(key)?)
        .map_err(|why| format!("{certificate}, {key}: {why}"))?;
    let duration = arguments.get_one("cluster-signing-duration");
    Ok(Some(Arc::new(Signer {
        authority,
        duration: duration.copied().unwrap_or(Signer::DURATION),
    })))
}

/// The flags about ranges for nodes.
fn node_flags() -> Vec<Arg> {
    let size = |name: &'static str, help: &'static str| {
        let flag = Arg::new(name).long(name).value_name("BITS");
        flag.value_parser(value_parser!(u32)).help(help)
    };
    vec![
        switch("allocate-node-cidrs")
            .help("Whether nodes without a range of pod addresses get one"),
        Arg::new("cluster-cidr")
            .long("cluster-cidr")
            .value_name("RANGE")
            .help("Out of which range nodes get theirs, or two of different families"),
        size(
            "node-cidr-mask-size",
            "How long the prefix of a node's range is: 24 for IPv4 and 64 for IPv6 by default",
        ),
        size(
            "node-cidr-mask-size-ipv4",
            "The same for IPv4 in a cluster with both families",
        ),
        size(
            "node-cidr-mask-size-ipv6",
            "The same for IPv6 in a cluster with both families",
        ),
    ]
}

/// Out of which ranges nodes get theirs; `None` if they get none.
fn node_ranges(arguments: &ArgMatches) -> Result<Option<NodeRanges>, String> {
    let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
    let size = |name: &str| arguments.get_one::<u32>(name).copied();
    if !arguments.get_flag("allocate-node-cidrs") {
        return Ok(None);
    }
    let sizes = MaskSizes {
        any: size("node-cidr-mask-size"),
        v4: size("node-cidr-mask-size-ipv4"),
        v6: size("node-cidr-mask-size-ipv6"),
    };
    NodeRanges::parse(text("cluster-cidr").unwrap_or_default(), sizes).map(Some)
}

/// The flag that chooses loops.
pub(crate) fn controllers_flag(default: &'static str) -> Arg {
    Arg::new("controllers")
        .long("controllers")
        .value_name("LIST")
        .action(ArgAction::Append)
        .value_delimiter(',')
        .allow_hyphen_values(true)
        .default_value(default)
        .help(
            "The loops to run: * for all that are on by default, NAME for one, -NAME for all but \
             one; named as for kube-controller-manager, such as deployment-controller",
        )
}

/// The loops that the flag chooses; an empty list chooses none. A list for kube-controller-manager
/// may name loops that do not exist here: the log says which, and the others run.
pub(crate) fn selection(arguments: &ArgMatches) -> Result<Selection, String> {
    let words = arguments.get_many::<String>("controllers");
    let mut words: Vec<String> = words.into_iter().flatten().cloned().collect();
    if words == [""] {
        words.clear();
    }
    let chosen = Selection::parse(&words).map_err(|why| format!("--controllers: {why}"))?;
    let lacking = chosen.lacking().join(", ");
    if !lacking.is_empty() {
        tracing::warn!(%lacking, "--controllers names loops that do not exist here");
    }
    Ok(chosen)
}

/// Runs until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let config = Config {
        // The process ID distinguishes copies on one machine.
        elect: arguments
            .get_flag("leader-elect")
            .then(|| format!("stele-kube_{}", std::process::id())),
        root_ca: match arguments.get_one::<String>("root-ca-file") {
            Some(file) => std::fs::read_to_string(file)?,
            None => String::new(),
        },
        signer: signer(arguments)?,
        node_ranges: node_ranges(arguments)?,
        loops: selection(arguments)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connection::client(arguments).await?;
        controllers::run(client, config, connection::asked_to_stop()).await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(flags: &[&str]) -> Result<Selection, String> {
        let words = ["controller-manager"]
            .into_iter()
            .chain(flags.iter().copied());
        let arguments = command().try_get_matches_from(words).unwrap();
        selection(&arguments)
    }

    #[test]
    fn nodes_get_ranges_if_that_is_asked_for() {
        let read = |flags: &[&str]| {
            let words = ["controller-manager"]
                .into_iter()
                .chain(flags.iter().copied());
            node_ranges(&command().try_get_matches_from(words).unwrap())
        };
        let cluster = "--cluster-cidr=10.244.0.0/16";
        assert!(read(&[cluster]).unwrap().is_none());
        assert!(read(&["--allocate-node-cidrs", cluster]).unwrap().is_some());
        let flags = [
            "--allocate-node-cidrs=true",
            cluster,
            "--node-cidr-mask-size=8",
        ];
        assert!(
            read(&flags)
                .unwrap_err()
                .contains("mask size of cluster CIDR")
        );
    }

    #[test]
    fn lists_for_kube_controller_manager_are_taken() {
        for flags in [
            &["--controllers=*,-nodeipam,bootstrapsigner"][..],
            &["--controllers", "-disruption,*"],
            &["--controllers="],
            &[],
        ] {
            let lacking = selected(flags).unwrap().lacking();
            assert!(lacking.is_empty(), "{flags:?}: {lacking:?}");
        }
        let twice = selected(&["--controllers=*,service", "--controllers=route"]);
        assert_eq!(
            twice.unwrap().lacking(),
            ["service-lb-controller", "node-route-controller"]
        );
        let error = selected(&["--controllers=*,-workloads"]).unwrap_err();
        let expected = "--controllers: \"workloads\" is not in the list of known controllers";
        assert!(error.starts_with(expected), "{error}");
    }
}
