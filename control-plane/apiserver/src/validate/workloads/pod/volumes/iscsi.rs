//! Volumes of iSCSI: their targets, and the names of targets and initiators.

use machinery::status::Cause;
use serde_json::Value;

use super::secret_name;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// Upper bound of the names of a volume and its target together if it has an initiator, in bytes.
const NAMES_BYTES_MAX: usize = 64;
const TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const WRONG_FORM: &str = "must be valid format";
/// Bounds of a volume's number at its target.
const LUN_MAX: i64 = 255;
/// How many letters and digits follow the first four characters of a name.
const EUI_DIGITS: usize = 16;
const NAA_DIGITS: usize = 32;

/// A volume of a pod.
pub(super) fn of_pod(source: &FieldValue, causes: &mut Causes) {
    let why = "must be valid format starting with iqn, eui, or naa";
    names(source, why, |_| {}, causes);
}

/// The error of a volume of a pod whose name is too long.
pub(super) fn long_names(volume: &FieldValue, source: &FieldValue, causes: &mut Causes) {
    if are_long(source, volume.text("name")) {
        causes.wrong_text(volume, "name", TOO_LONG);
    }
}

/// A volume of the cluster.
pub(super) fn of_cluster(source: &FieldValue, volume: &str, causes: &mut Causes) {
    causes.required(source, "targetPortal");
    if are_long(source, volume) {
        // Kubernetes' names of some fields are not those of the API.
        let field = source.path_of("targetportal");
        causes.push(Cause::invalid(
            &field,
            &source.text("targetPortal").into(),
            TOO_LONG,
        ));
    }
    causes.required(source, "iqn");
    names(
        source,
        WRONG_FORM,
        |causes| secret_name(source, causes),
        causes,
    );
}

fn are_long(source: &FieldValue, volume: &str) -> bool {
    let bytes = volume.len() + ":".len() + source.text("targetPortal").len();
    source.has("initiatorName") && bytes > NAMES_BYTES_MAX
}

/// The names, and what is checked between them. `unknown` is the error of a name of no known kind.
fn names(
    source: &FieldValue,
    unknown: &'static str,
    check_secret: impl Fn(&mut Causes),
    causes: &mut Causes,
) {
    let target = source.text("iqn");
    if let Some(why) = wrong(target, unknown).filter(|_| !target.is_empty()) {
        causes.wrong(source, "iqn", why);
    }
    causes.within(source, "lun", 0, LUN_MAX);
    let authenticates = source.flag("chapAuthDiscovery") || source.flag("chapAuthSession");
    if authenticates && !source.has("secretRef") {
        causes.push(Cause::required(&source.path_of("secretRef"), ""));
    }
    check_secret(causes);
    let initiator = source.get("initiatorName").and_then(Value::as_str);
    let Some(initiator) = initiator else {
        return;
    };
    if let Some(why) = wrong(initiator, unknown) {
        let field = source.path_of("initiatorname");
        causes.push(Cause::invalid(&field, &initiator.into(), why));
    }
}

/// What is wrong with a name.
fn wrong(name: &str, unknown: &'static str) -> Option<&'static str> {
    let good = match name.get(..3) {
        Some("iqn") => is_qualified(name),
        Some("eui") => has_digits(name, EUI_DIGITS),
        Some("naa") => has_digits(name, NAA_DIGITS),
        _ => return Some(unknown),
    };
    (!good).then_some(WRONG_FORM)
}

fn has_digits(name: &str, count: usize) -> bool {
    let digits: Vec<char> = name.chars().skip(4).collect();
    digits.len() == count && digits.iter().all(char::is_ascii_alphanumeric)
}

/// True if a month, the domain that somebody had in it, and a name in that domain follow.
fn is_qualified(name: &str) -> bool {
    name.match_indices("iqn.").any(|(at, begin)| {
        let Some((domain, unique)) = name[at + begin.len()..].split_once(':') else {
            return false;
        };
        // As long as "2001-04.".
        let Some((month, domain)) = domain.split_at_checked(8) else {
            return false;
        };
        let mut of_month = month.chars().zip("0000-00.".chars());
        let is_month = of_month.all(|(c, form)| match form {
            '0' => c.is_ascii_digit(),
            mark => c == mark,
        });
        let in_domain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let ends_it = |c: char| ",;*&$|".contains(c) || c.is_ascii_whitespace();
        is_month
            && !domain.is_empty()
            && domain.chars().all(in_domain)
            && !unique.is_empty()
            && !unique.contains(ends_it)
    })
}

#[test]
fn names_of_targets_have_one_of_three_forms() {
    let unknown = "no kind";
    for good in [
        "iqn.2001-04.com.example:storage.disk1",
        "eui.0123456789abcdef",
        "naa.0123456789abcdef0123456789abcdef",
    ] {
        assert_eq!(wrong(good, unknown), None, "{good}");
    }
    for bad in [
        "iqn",
        "iqn.2001-04.com.example",
        "iqn.2001-4.com.example:disk",
        "iqn.2001-04.:disk",
        "iqn.2001-04.com.example:a disk",
        "eui.0123456789abcde",
        "naa.0123456789abcdef",
    ] {
        assert_eq!(wrong(bad, unknown), Some(WRONG_FORM), "{bad}");
    }
    assert_eq!(wrong("disk", unknown), Some(unknown));
}
