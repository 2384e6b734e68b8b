//! The user and the credentials of containers on Windows.

use machinery::name;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const CREDENTIALS_BYTES_MAX: usize = 64 << 10;
/// Bounds of a user's name, and of the domain before it.
const USER_BYTES_MAX: usize = 104;
const DOMAIN_BYTES_END: usize = 256;
const NETBIOS_CHARS_MAX: usize = 15;

/// The options in a security context.
pub(super) fn options(causes: &mut Causes, context: &FieldValue) {
    causes.below(context, "windowsOptions", |causes, options| {
        causes.named(options, "gmsaCredentialSpecName", name::dns1123_subdomain);
        const CREDENTIALS: &str = "gmsaCredentialSpec";
        match options.text(CREDENTIALS).len() {
            0 if options.has(CREDENTIALS) => {
                let why = "gmsaCredentialSpec cannot be an empty string";
                causes.wrong(options, CREDENTIALS, why);
            }
            bytes if bytes > CREDENTIALS_BYTES_MAX => {
                let why = "gmsaCredentialSpec size must be under 64 KiB";
                causes.wrong(options, CREDENTIALS, why);
            }
            _ => {}
        }
        if options.has("runAsUserName") {
            let wrong = user(options.text("runAsUserName"));
            for why in wrong {
                causes.wrong(options, "runAsUserName", &format!("runAsUserName{why}"));
            }
        }
    });
}

/// What is wrong with a user, with or without a domain.
fn user(text: &str) -> Vec<&'static str> {
    if text.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if text.chars().any(|c| c.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = match text.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec![" cannot contain more than one backslash"];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_BYTES_END {
            wrong.push("'s Domain length must be under 256 characters");
        }
        if !is_netbios(domain) && !is_domain(domain) {
            wrong.push("'s Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        wrong.push("'s User cannot be empty");
    } else if user.len() > USER_BYTES_MAX {
        wrong.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| ". ".contains(c)) {
        wrong.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

fn is_netbios(text: &str) -> bool {
    let allowed = |c: char| !"\\/:*?\"<>|".contains(c);
    let length = text.chars().count();
    (1..=NETBIOS_CHARS_MAX).contains(&length) && !text.starts_with('.') && text.chars().all(allowed)
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric();
        label.starts_with(plain)
            && label.ends_with(plain)
            && label.chars().all(|c| plain(c) || c == '-')
    };
    text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_may_have_a_domain() {
        for good in [
            "ContainerUser",
            "NT AUTHORITY\\NETWORK SERVICE",
            "a.example\\u",
        ] {
            assert_eq!(user(good), [""; 0], "{good}");
        }
        for (bad, why) in [
            ("", " cannot be an empty string"),
            ("a\\b\\c", " cannot contain more than one backslash"),
            (
                "a|b\\c",
                "'s Domain doesn't match the NetBios nor the DNS format",
            ),
            ("d\\", "'s User cannot be empty"),
            (". .", "'s User cannot contain only periods or spaces"),
            (
                "a:b",
                "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
            ),
        ] {
            assert_eq!(user(bad), [why], "{bad}");
        }
    }
}
