//! `stele-kube controller-manager`: the control loops alone, with an apiserver elsewhere.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use clap::{Arg, ArgAction, ArgMatches, Command};
use controllers::{Config, Selection, Signer};

use crate::connection;

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
        .arg(controllers_flag("*"))
        .arg(
            Arg::new("leader-elect")
                .long("leader-elect")
                .action(ArgAction::SetTrue)
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
        let words = ["controller-manager"].iter().chain(flags);
        let arguments = command().try_get_matches_from(words).unwrap();
        selection(&arguments)
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
