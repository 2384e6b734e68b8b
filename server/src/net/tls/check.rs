//! Checks of a client's certificate after the handshake.

use std::io;
use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

use super::names::{self, AlternativeNames};

/// Fails if one of the certificates is on the revocation list, or if the list is malformed.
pub(super) fn revocation(list: &[u8], certificates: &[CertificateDer<'_>]) -> Result<(), String> {
    let (_, list) = CertificateRevocationList::from_der(list)
        .map_err(|error| format!("x509: malformed crl: {error}"))?;
    for certificate in certificates {
        let Some(serial) = names::serial(certificate) else {
            return Err("x509: malformed certificate".to_owned());
        };
        let mut revoked = list.iter_revoked_certificates();
        if revoked.any(|revoked| names::trim(revoked.raw_serial()) == serial) {
            let serial: String = serial.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(format!("transport: certificate serial {serial} revoked"));
        }
    }
    Ok(())
}

/// Fails if the certificate names hosts and `remote` is none of them.
pub(super) async fn remote(certificate: &CertificateDer<'_>, remote: IpAddr) -> Result<(), String> {
    let AlternativeNames { dns, addresses } = names::alternative_names(certificate);
    if addresses.contains(&remote) || (dns.is_empty() && addresses.is_empty()) {
        return Ok(());
    }
    if dns.is_empty() {
        let valid: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let valid = valid.join(", ");
        return Err(format!(
            "x509: certificate is valid for {valid}, not {remote}"
        ));
    }
    let names = dns.clone();
    let found = tokio::task::spawn_blocking(move || {
        let forward = |name: &str| dns_lookup::lookup_host(name).map(Iterator::collect);
        is_host_of(remote, &names, dns_lookup::lookup_addr, forward)
    })
    .await;
    match found {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(unmatched(remote, &dns, "")),
        Ok(Err(error)) => Err(unmatched(remote, &dns, &format!(" ({error})"))),
        Err(error) => Err(unmatched(remote, &dns, &format!(" ({error})"))),
    }
}

fn unmatched(remote: IpAddr, names: &[String], error: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let quoted = quoted.join(" ");
    format!("tls: \"{remote}\" does not match any of DNSNames [{quoted}]{error}")
}

/// Blocks on the resolver: first looks up the names of the address, then the addresses of the names
/// in the certificate. Returns the last error, if no name matches.
fn is_host_of(
    remote: IpAddr,
    names: &[String],
    reverse: impl FnOnce(&IpAddr) -> io::Result<String>,
    forward: impl Fn(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<bool, String> {
    let mut last = Ok(false);
    match reverse(&remote) {
        Ok(name) => {
            let name = name.trim_end_matches('.');
            let is_named = names.iter().any(|allowed| match allowed.strip_prefix('*') {
                Some(suffix) if suffix.starts_with('.') => name.ends_with(suffix),
                _ => allowed == name,
            });
            if is_named {
                return Ok(true);
            }
        }
        Err(error) => last = Err(format!("lookup {remote}: {error}")),
    }
    for name in names.iter().filter(|name| !name.starts_with("*.")) {
        match forward(name) {
            Ok(found) if found.contains(&remote) => return Ok(true),
            Ok(_) => {}
            Err(error) => last = Err(format!("lookup {name}: {error}")),
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn missing<T>() -> io::Result<T> {
        Err(io::Error::other("no such host"))
    }

    fn asked(names: &[&str], reverse: Option<&str>) -> Result<bool, String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let reverse = |_: &IpAddr| reverse.map_or_else(missing, |name| Ok(name.to_owned()));
        let forward = |name: &str| match name {
            "here.example.com" => Ok(vec![[10, 0, 0, 6].into(), REMOTE]),
            "there.example.com" => Ok(vec![[10, 0, 0, 8].into()]),
            _ => missing(),
        };
        is_host_of(REMOTE, &names, reverse, forward)
    }

    #[test]
    fn a_host_is_known_by_the_name_of_its_address_or_the_addresses_of_its_names() {
        let named = Some("m7.example.com.");
        assert_eq!(asked(&["*.example.com"], named), Ok(true));
        assert_eq!(asked(&["m7.example.com"], named), Ok(true));
        // As in etcd, a wildcard matches any number of labels.
        assert_eq!(asked(&["*.com"], named), Ok(true));
        assert_eq!(asked(&["*.7.example.com"], named), Ok(false));
        assert_eq!(asked(&["*.example.com"], Some("example.com")), Ok(false));
        assert_eq!(asked(&["here.example.com"], None), Ok(true));
        assert_eq!(asked(&["there.example.com"], named), Ok(false));
        // A wildcard name is never looked up.
        let unknown = Err("lookup 10.0.0.7: no such host".to_owned());
        assert_eq!(asked(&["*.example.com"], None), unknown);
        let unknown = Err("lookup gone.example.com: no such host".to_owned());
        assert_eq!(asked(&["gone.example.com", "*.org"], named), unknown);
        let names = ["gone.example.com", "here.example.com"];
        assert_eq!(asked(&names, None), Ok(true));
    }
}
