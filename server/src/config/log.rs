//! The flags of the log: outputs, format, and rotation of files.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::args::Values;
use super::{Invalid, LogConfig, LogFormat, LogOutput, Rotation, flags};

const DAY: Duration = Duration::from_secs(24 * 3600);
const MIB: u64 = 1 << 20;

/// lumberjack's default, for `"maxsize": 0`.
const FILE_BYTES_DEFAULT: u64 = 100 * MIB;

/// Rotation allows only one log file.
const ROTATED_FILES_MAX: usize = 1;

pub(super) fn config(values: &Values) -> Result<LogConfig, Invalid> {
    match values.text("logger") {
        "zap" => {}
        "capnslog" => return Err(Invalid::flags("--logger=capnslog is removed in v3.5")),
        other => return Err(Invalid::flags(format!("unknown logger option {other:?}"))),
    }
    let names = outputs(values)?;
    let rotation = if values.bool("enable-log-rotation") {
        Some(rotation(values.text("log-rotation-config-json"), &names)?)
    } else {
        None
    };
    let outputs: Vec<LogOutput> = names.iter().map(|name| output(name)).collect();
    let to_journal = outputs.contains(&LogOutput::Journal);
    if to_journal && outputs.len() > 1 {
        // etcd's text for any second output.
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        return Err(Invalid::flags(format!(
            "running with systemd/journal but other '--log-outputs' values ([{}]) are configured with 'default'; override 'default' value with something else",
            names.join(" ")
        )));
    }
    let format = match values.text("log-format") {
        "" | "json" => LogFormat::Json,
        "console" => LogFormat::Console,
        other => {
            return Err(Invalid::flags(format!(
                "unknown log format: {other}, supported values json, console"
            )));
        }
    };
    Ok(LogConfig {
        level: flags::level(values.text("log-level"))
            .expect("a level was checked when it was parsed")
            .into(),
        format,
        outputs,
        rotation,
    })
}

/// The names of the outputs, without duplicates.
fn outputs(values: &Values) -> Result<Vec<String>, Invalid> {
    let mut names: Vec<String> = values
        .text("log-outputs")
        .split(',')
        .map(|name| name.trim().into())
        .collect();
    names.sort();
    names.dedup();
    if names.len() > 1 && names.iter().any(|name| name == "default") {
        return Err(Invalid::flags(
            "multi logoutput for \"default\" is not supported yet",
        ));
    }
    Ok(names)
}

fn output(name: &str) -> LogOutput {
    match name {
        "default" | "stderr" | "" => LogOutput::Stderr,
        "stdout" => LogOutput::Stdout,
        "systemd/journal" => LogOutput::Journal,
        path => LogOutput::File(path.into()),
    }
}

fn rotation(text: &str, names: &[String]) -> Result<Rotation, Invalid> {
    let is_file = |name: &&String| !matches!(name.as_str(), "default" | "stderr" | "stdout");
    let files = names.iter().filter(is_file).count();
    if files > ROTATED_FILES_MAX || (files == 0 && names.len() == 1) {
        return Err(Invalid::flags(
            "--log-outputs requires a single file path when --log-rotate-config-json is defined",
        ));
    }
    let json: Json = serde_json::from_str(text).map_err(|error| {
        let reason = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        Invalid::flags(format!(
            "improperly formatted log rotation config: {reason}"
        ))
    })?;
    let Json::Object(keys) = json else {
        return Err(unfit(&json, "", "embed.logRotationConfig"));
    };
    let days = number(&keys, "maxage")?;
    let size = number(&keys, "maxsize")?;
    Ok(Rotation {
        file_bytes: match size {
            0 => FILE_BYTES_DEFAULT,
            megabytes => megabytes.saturating_mul(MIB),
        },
        max_age: (days > 0).then(|| DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX))),
        max_backups: usize::try_from(number(&keys, "maxbackups")?).unwrap_or(usize::MAX),
        local_time: switch(&keys, "localtime")?,
        compress: switch(&keys, "compress")?,
    })
}

/// Negative numbers count as 0.
fn number(keys: &Map<String, Json>, key: &str) -> Result<u64, Invalid> {
    match keys.get(key) {
        None | Some(Json::Null) => Ok(0),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(u64::try_from(number).unwrap_or(0)),
            None => Err(unfit(value, key, "int")),
        },
    }
}

fn switch(keys: &Map<String, Json>, key: &str) -> Result<bool, Invalid> {
    match keys.get(key) {
        None | Some(Json::Null) => Ok(false),
        Some(Json::Bool(on)) => Ok(*on),
        Some(other) => Err(unfit(other, key, "bool")),
    }
}

/// Go's text.
fn unfit(json: &Json, key: &str, wanted: &str) -> Invalid {
    let found = match json {
        Json::Null => "null".to_owned(),
        Json::Bool(_) => "bool".to_owned(),
        Json::Number(number) if wanted == "int" => format!("number {number}"),
        Json::Number(_) => "number".to_owned(),
        Json::String(_) => "string".to_owned(),
        Json::Array(_) => "array".to_owned(),
        Json::Object(_) => "object".to_owned(),
    };
    let place = match key {
        "" => "value".to_owned(),
        key => format!("struct field logRotationConfig.Logger.{key}"),
    };
    Invalid::flags(format!(
        "invalid log rotation config: json: cannot unmarshal {found} into Go {place} of type {wanted}"
    ))
}
