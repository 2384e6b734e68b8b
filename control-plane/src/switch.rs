//! Flags that are on or off, in the forms that Kubernetes' programs take: `--name` is
//! `--name=true`.

use clap::Arg;
use clap::builder::BoolValueParser;

/// A flag that is off by default. `ArgMatches::get_flag` tells whether it is on.
pub(crate) fn switch(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("BOOL")
        .value_parser(BoolValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value("false")
        .overrides_with(name)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn a_switch_has_the_forms_of_kubernetes() {
        let is_on = |arguments: &[&str]| {
            let command = Command::new("part").arg(switch("leader-elect"));
            let arguments = command.try_get_matches_from([&["part"], arguments].concat());
            arguments.map(|found| found.get_flag("leader-elect")).ok()
        };
        assert_eq!(is_on(&[]), Some(false));
        assert_eq!(is_on(&["--leader-elect"]), Some(true));
        assert_eq!(is_on(&["--leader-elect=true"]), Some(true));
        assert_eq!(
            is_on(&["--leader-elect", "--leader-elect=false"]),
            Some(false)
        );
        assert_eq!(is_on(&["--leader-elect=perhaps"]), None);
        assert_eq!(is_on(&["--leader-elect", "true"]), None);
    }
}
