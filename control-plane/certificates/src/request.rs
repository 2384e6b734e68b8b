//! Parses certificate requests (PKCS #10).

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use serde_json::Value;
use x509_parser::asn1_rs::{Any, BitString, FromDer as _};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;

const LABEL: &str = "CERTIFICATE REQUEST";

/// A parsed request; its signature is not checked.
#[derive(Debug)]
pub(crate) struct Request {
    der: Vec<u8>,
    /// The groups of the user of the certificate.
    pub(crate) organizations: Vec<String>,
    /// The name of that user; empty if there is none.
    pub(crate) common_name: String,
}

impl Request {
    /// Parses the request in an object: PEM in base64.
    pub(crate) fn of(object: &Value) -> Result<Request, String> {
        const WRONG_TYPE: &str = "PEM block type must be CERTIFICATE REQUEST";
        let text = object::text(object, &["spec", "request"]);
        let text = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let first = Pem::iter_from_buffer(&text).next();
        let pem = match first {
            Some(Ok(pem)) if pem.label == LABEL => pem,
            _ => return Err(WRONG_TYPE.into()),
        };
        let (rest, request) =
            X509CertificationRequest::from_der(&pem.contents).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".into());
        }
        // A group that cannot be decoded is an error: it might be a privileged one.
        let subject = &request.certification_request_info.subject;
        let groups = subject.iter_organization();
        let groups: Result<Vec<_>, _> = groups
            .map(|group| group.as_str().map(str::to_owned))
            .collect();
        let name = subject.iter_common_name().last();
        let name = name.map_or(Ok(""), |name| name.as_str());
        let common_name = name.map_err(|error| error.to_string())?.to_owned();
        Ok(Request {
            common_name,
            organizations: groups.map_err(|error| error.to_string())?,
            der: pem.contents,
        })
    }

    /// Checks that the request is signed with the key that it contains.
    pub(crate) fn check_signature(&self) -> Result<(), String> {
        match self.is_signed(&aws_lc_rs::default_provider()) {
            Some(true) => Ok(()),
            Some(false) => Err("x509: the signature does not fit the public key".into()),
            None => {
                let why = "x509: cannot verify signature: algorithm unimplemented";
                Err(why.into())
            }
        }
    }

    /// `None` if no algorithm is suitable.
    fn is_signed(&self, provider: &CryptoProvider) -> Option<bool> {
        let (_, whole) = Any::from_der(&self.der).ok()?;
        let (rest, info) = Any::from_der(whole.data).ok()?;
        let message = &whole.data[..whole.data.len() - rest.len()];
        let (rest, algorithm) = Any::from_der(rest).ok()?;
        let (_, signature) = BitString::from_der(rest).ok()?;
        // Version and subject precede the key.
        let (rest, _) = Any::from_der(info.data).ok()?;
        let (rest, _) = Any::from_der(rest).ok()?;
        let (_, key) = Any::from_der(rest).ok()?;
        let (rest, key_algorithm) = Any::from_der(key.data).ok()?;
        let (_, key) = BitString::from_der(rest).ok()?;
        let all = provider.signature_verification_algorithms.all;
        let mut fitting = all
            .iter()
            .filter(|one| {
                *one.public_key_alg_id() == *key_algorithm.data
                    && *one.signature_alg_id() == *algorithm.data
            })
            .peekable();
        fitting.peek()?;
        Some(fitting.any(|one| {
            let (key, signature) = (key.data.as_ref(), signature.data.as_ref());
            one.verify_signature(key, message, signature).is_ok()
        }))
    }
}
