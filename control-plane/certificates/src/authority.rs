//! A certificate authority: issues certificates as kube-controller-manager's signers do. Subject and
//! key are copied from the request byte by byte: rcgen would lose a second organization, which is a
//! second group of the user.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use machinery::time::Timestamp;
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{AlgorithmIdentifier, CertificateDer, PrivateKeyDer, alg_id};
use rustls::sign::SigningKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer as _;
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag, tags};

use crate::request::Request;
use crate::usage::Usages;

/// Certificates become valid a little early, because clocks differ.
const EARLY: Duration = Duration::from_secs(5 * 60);
/// A certificate for less time than this ends that long after now; a longer one ends [`EARLY`], too.
const SHORT: Duration = Duration::from_secs(8 * 3600);
const LABEL: &str = "CERTIFICATE";

const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const NAMES: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// How an authority signs, depending on its key.
const SCHEMES: [(SignatureScheme, AlgorithmIdentifier); 5] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, alg_id::ECDSA_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, alg_id::ECDSA_SHA384),
    (SignatureScheme::ECDSA_NISTP521_SHA512, alg_id::ECDSA_SHA512),
    (SignatureScheme::ED25519, alg_id::ED25519),
    (SignatureScheme::RSA_PKCS1_SHA256, alg_id::RSA_PKCS1_SHA256),
];

/// An authority's certificate and its key.
pub struct Authority {
    /// Its subject, which is the issuer of its certificates, in DER.
    subject: Vec<u8>,
    /// The identifier of its key; empty if its certificate has none.
    key_id: Vec<u8>,
    not_after: Timestamp,
    key: Arc<dyn SigningKey>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads a certificate and its key, both in PEM.
    pub fn of(certificate: &str, key: &str) -> Result<Authority, String> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes());
        let der = der.map_err(|error| format!("the certificate: {error}"))?;
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|error| format!("the certificate: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| format!("the key: {error}"))?;
        let key = any_supported_type(&key).map_err(|error| format!("the key: {error}"))?;
        let public = key.public_key();
        if public.is_none_or(|public| *public != *parsed.public_key().raw) {
            return Err("the key is not that of the certificate".into());
        }
        let key_id = parsed.extensions().iter().find_map(|one| {
            let parsed = one.parsed_extension();
            match parsed {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            }
        });
        Ok(Authority {
            subject: parsed.subject().as_raw().to_vec(),
            key_id: key_id.unwrap_or_default(),
            not_after: end_of(&parsed),
            key,
        })
    }

    /// Issues the certificate that a request asks for, in PEM, for these usages and this long, but
    /// not longer than the authority's own certificate.
    pub fn issue(
        &self,
        request: &Request,
        usages: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, String> {
        request
            .check_signature()
            .map_err(|why| format!("unable to verify certificate request signature: {why}"))?;
        let usages = Usages::of(usages)?;
        if self.not_after <= now {
            let end = self.not_after.to_seconds();
            return Err(format!("the signer has expired: NotAfter={end}"));
        }
        let lifetime = match lifetime {
            short if short < SHORT => short,
            long => long - EARLY,
        };
        let from = Timestamp {
            seconds: now.seconds - EARLY.as_secs().cast_signed(),
            nanos: 0,
        };
        let to = now.plus(lifetime).min(self.not_after);
        let schemes = SCHEMES.map(|(scheme, _)| scheme);
        let signer = self.key.choose_scheme(&schemes);
        let signer = signer.ok_or("the key of the authority cannot sign certificates")?;
        let algorithm = SCHEMES
            .iter()
            .find(|(scheme, _)| *scheme == signer.scheme());
        let algorithm = algorithm.map_or(&[][..], |(_, id)| id.as_ref());
        let serial = serial()?;
        let body = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                // Version 3.
                writer
                    .next()
                    .write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                write_algorithm(writer.next(), algorithm);
                writer.next().write_der(&self.subject);
                writer.next().write_sequence(|writer| {
                    write_time(writer.next(), from);
                    write_time(writer.next(), to);
                });
                writer.next().write_der(request.subject());
                writer.next().write_der(request.public_key());
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, request, &usages));
                });
            });
        });
        let signature = signer.sign(&body).map_err(|error| error.to_string())?;
        let whole = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&body);
                write_algorithm(writer.next(), algorithm);
                let bits = signature.len() * 8;
                writer.next().write_bitvec_bytes(&signature, bits);
            });
        });
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        Ok(pem::encode_config(&pem::Pem::new(LABEL, whole), config))
    }

    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, request: &Request, usages: &Usages) {
        if let Some((bits, count)) = usages.bits() {
            let bytes = &bits[..count.div_ceil(8)];
            write_extension(writer, KEY_USAGE, true, |writer| {
                writer.write_bitvec_bytes(bytes, count);
            });
        }
        if !usages.extended.is_empty() {
            write_extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
                writer.write_sequence(|writer| {
                    for identifier in &usages.extended {
                        writer
                            .next()
                            .write_oid(&ObjectIdentifier::from_slice(identifier));
                    }
                });
            });
        }
        // No authority: its default is left out.
        write_extension(writer, BASIC_CONSTRAINTS, true, |writer| {
            writer.write_sequence(|_| {});
        });
        if !self.key_id.is_empty() {
            write_extension(writer, AUTHORITY_KEY, false, |writer| {
                writer.write_sequence(|writer| {
                    writer
                        .next()
                        .write_tagged_implicit(Tag::context(0), |writer| {
                            writer.write_bytes(&self.key_id);
                        });
                });
            });
        }
        if request.has_names() {
            // Who has no subject has only these names.
            let critical = request.has_no_subject();
            write_extension(writer, NAMES, critical, |writer| {
                writer.write_sequence(|writer| write_names(writer, request));
            });
        }
    }
}

/// The end of validity of a certificate in PEM.
pub fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(certificate).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Some(end_of(&parsed))
}

fn end_of(certificate: &X509Certificate<'_>) -> Timestamp {
    Timestamp {
        seconds: certificate.validity().not_after.timestamp(),
        nanos: 0,
    }
}

fn serial() -> Result<[u8; 16], String> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(|error| error.to_string())?;
    Ok(serial)
}

/// An algorithm: the constants have only the contents of its sequence.
fn write_algorithm(writer: DERWriter<'_>, contents: &[u8]) {
    writer.write_sequence(|writer| writer.next().write_der(contents));
}

/// A time in seconds; the year has two digits until 2049.
fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let mut text = time.to_seconds();
    text.retain(|letter| letter.is_ascii_digit() || letter == 'Z');
    let (tag, text) = match text.strip_prefix("20") {
        Some(short) if short < "50" => (tags::TAG_UTCTIME, short),
        _ => (tags::TAG_GENERALIZEDTIME, text.as_str()),
    };
    writer.write_tagged_implicit(tag, |writer| writer.write_bytes(text.as_bytes()));
}

fn write_extension(
    writer: &mut DERWriterSeq<'_>,
    identifier: &[u64],
    critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    writer.next().write_sequence(|writer| {
        writer
            .next()
            .write_oid(&ObjectIdentifier::from_slice(identifier));
        if critical {
            writer.next().write_bool(true);
        }
        let value = yasna::construct_der(value);
        writer.next().write_bytes(&value);
    });
}

/// The names in the order in which Kubernetes writes them.
fn write_names(writer: &mut DERWriterSeq<'_>, request: &Request) {
    let mut write = |tag, bytes: &[u8]| {
        writer
            .next()
            .write_tagged_implicit(Tag::context(tag), |writer| writer.write_bytes(bytes));
    };
    for name in &request.dns_names {
        write(2, name.as_bytes());
    }
    for address in &request.emails {
        write(1, address.as_bytes());
    }
    for address in &request.addresses {
        write(7, address);
    }
    for address in &request.uris {
        write(6, address.as_bytes());
    }
}
