//! The values of flags. An empty text is none.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

/// All values of a flag that takes several.
pub(super) fn all(arguments: &ArgMatches, name: &str) -> Vec<String> {
    let values = arguments.get_many::<String>(name).into_iter().flatten();
    values.filter(|value| !value.is_empty()).cloned().collect()
}

pub(super) fn text(arguments: &ArgMatches, name: &str) -> Option<String> {
    let value = arguments.get_one::<String>(name);
    value.filter(|value| !value.is_empty()).cloned()
}

pub(super) fn path(arguments: &ArgMatches, name: &str) -> Option<PathBuf> {
    text(arguments, name).map(PathBuf::from)
}

pub(super) fn is_on(arguments: &ArgMatches, name: &str) -> bool {
    text(arguments, name).as_deref() == Some("true")
}

pub(super) fn parsed<T>(arguments: &ArgMatches, name: &str) -> Result<Option<T>, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let Some(value) = text(arguments, name) else {
        return Ok(None);
    };
    let value = value
        .parse()
        .map_err(|error| format!("--{name}={value}: {error}"));
    value.map(Some)
}

pub(super) fn duration(arguments: &ArgMatches, name: &str) -> Result<Duration, String> {
    let value = text(arguments, name).unwrap_or_default();
    let nanos = go_text::parse_duration(&value)
        .ok()
        .and_then(|nanos| u64::try_from(nanos).ok());
    let nanos = nanos.ok_or_else(|| format!("--{name}={value}: not a duration such as 5m0s"))?;
    Ok(Duration::from_nanos(nanos))
}
