//! A parsed request for a certificate.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use serde_json::Value;
use x509_parser::asn1_rs::{Any, BitString, FromDer as _};
use x509_parser::certification_request::{X509CertificationRequest, X509CertificationRequestInfo};
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::pem::Pem;

const LABEL: &str = "CERTIFICATE REQUEST";

/// A parsed request; its signature is not checked.
#[derive(Debug)]
pub struct Request {
    der: Vec<u8>,
    /// In DER.
    subject: Vec<u8>,
    /// In DER.
    public_key: Vec<u8>,
    subject_is_empty: bool,
    /// The groups of the user of the certificate.
    pub organizations: Vec<String>,
    /// The name of that user; empty if there is none.
    pub common_name: String,
    /// Alternative names: of machines.
    pub dns_names: Vec<String>,
    /// Alternative names: addresses of mail.
    pub emails: Vec<String>,
    /// Alternative names: addresses of 4 or 16 bytes.
    pub addresses: Vec<Vec<u8>>,
    /// Alternative names: addresses of resources.
    pub uris: Vec<String>,
}

impl Request {
    /// Parses the request in an object: PEM in base64.
    pub fn of(object: &Value) -> Result<Request, String> {
        let text = object::text(object, &["spec", "request"]);
        let text = STANDARD.decode(text).map_err(|error| error.to_string())?;
        Request::of_pem(&text)
    }

    /// Parses a request in PEM. Only the first block counts.
    pub fn of_pem(text: &[u8]) -> Result<Request, String> {
        const WRONG_TYPE: &str = "PEM block type must be CERTIFICATE REQUEST";
        let first = Pem::iter_from_buffer(text).next();
        let pem = match first {
            Some(Ok(pem)) if pem.label == LABEL => pem,
            _ => return Err(WRONG_TYPE.into()),
        };
        let (rest, request) =
            X509CertificationRequest::from_der(&pem.contents).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".into());
        }
        let info = &request.certification_request_info;
        // A group that cannot be decoded is an error: it might be a privileged one.
        let subject = &info.subject;
        let groups = subject.iter_organization();
        let groups: Result<Vec<_>, _> = groups
            .map(|group| group.as_str().map(str::to_owned))
            .collect();
        let name = subject.iter_common_name().last();
        let name = name.map_or(Ok(""), |name| name.as_str());
        let common_name = name.map_err(|error| error.to_string())?.to_owned();
        let mut parsed = Request {
            common_name,
            organizations: groups.map_err(|error| error.to_string())?,
            subject: subject.as_raw().to_vec(),
            subject_is_empty: subject.iter().next().is_none(),
            public_key: info.subject_pki.raw.to_vec(),
            dns_names: Vec::new(),
            emails: Vec::new(),
            addresses: Vec::new(),
            uris: Vec::new(),
            der: Vec::new(),
        };
        parsed.read_names(info)?;
        parsed.der = pem.contents;
        Ok(parsed)
    }

    fn read_names(&mut self, info: &X509CertificationRequestInfo<'_>) -> Result<(), String> {
        let extensions = info
            .iter_attributes()
            .filter_map(|one| match one.parsed_attribute() {
                ParsedCriAttribute::ExtensionRequest(asked) => Some(&asked.extensions),
                _ => None,
            });
        let mut all = extensions
            .flatten()
            .filter(|one| one.oid == OID_X509_EXT_SUBJECT_ALT_NAME);
        let Some(first) = all.next() else {
            return Ok(());
        };
        if all.next().is_some() {
            return Err("x509: certificate request contains duplicate requested extensions".into());
        }
        let ParsedExtension::SubjectAlternativeName(names) = first.parsed_extension() else {
            return Err("x509: invalid subject alternative names".into());
        };
        for name in &names.general_names {
            match name {
                GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => self.emails.push((*name).to_owned()),
                GeneralName::URI(name) => self.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) if [4, 16].contains(&bytes.len()) => {
                    self.addresses.push(bytes.to_vec());
                }
                GeneralName::IPAddress(bytes) => {
                    let length = bytes.len();
                    return Err(format!("x509: cannot parse IP address of length {length}"));
                }
                GeneralName::Invalid(..) => {
                    return Err("x509: invalid subject alternative names".into());
                }
                // Left out of certificates, as in Kubernetes.
                _ => {}
            }
        }
        Ok(())
    }

    /// The subject in DER.
    pub(crate) fn subject(&self) -> &[u8] {
        &self.subject
    }

    /// The public key with its algorithm in DER.
    pub(crate) fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// True if the subject names nobody.
    pub(crate) fn has_no_subject(&self) -> bool {
        self.subject_is_empty
    }

    /// True if there are alternative names.
    pub(crate) fn has_names(&self) -> bool {
        let texts = [&self.dns_names, &self.emails, &self.uris];
        !self.addresses.is_empty() || texts.iter().any(|names| !names.is_empty())
    }

    /// Checks that the request is signed with the key that it contains.
    pub fn check_signature(&self) -> Result<(), String> {
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
