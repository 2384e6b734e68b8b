//! Handshake errors with the texts of Go's TLS, because operators search their logs for them.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

pub(super) fn of(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(error) => of_tls(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None if error.kind() == io::ErrorKind::ConnectionReset => {
            "read: connection reset by peer".to_owned()
        }
        None => error.to_string(),
    }
}

pub(super) fn of_tls(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => "tls: private key does not match public key".to_owned(),
        Error::NoCertificatesPresented => "tls: client didn't provide a certificate".to_owned(),
        // The certificate has none of the names that flags allow.
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            "client certificate authentication failed".to_owned()
        }
        Error::InvalidCertificate(error) => {
            format!(
                "tls: failed to verify certificate: {}",
                of_certificate(error)
            )
        }
        Error::AlertReceived(alert) => format!("remote error: tls: {}", of_alert(*alert)),
        Error::InvalidMessage(_) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic,
        ) => "tls: client offered only unsupported versions".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "tls: no cipher suite supported by both client and server".to_owned()
        }
        Error::NoApplicationProtocol => {
            "tls: client requested unsupported application protocols".to_owned()
        }
        error => format!("tls: {error}"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            format!("x509: certificate has expired or is not yet valid: {error}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "x509: certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "x509: malformed certificate".to_owned(),
        error => format!("x509: {error}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnexpectedMessage => "unexpected message",
        AlertDescription::BadRecordMac => "bad record MAC",
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "revoked certificate",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::IllegalParameter => "illegal parameter",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::DecodeError => "error decoding message",
        AlertDescription::DecryptError => "error decrypting message",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InsufficientSecurity => "insufficient security level",
        AlertDescription::InternalError => "internal error",
        AlertDescription::UserCanceled => "user canceled",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        alert => return format!("alert({})", u8::from(alert)),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_gos() {
        let cases = [
            (
                Error::AlertReceived(AlertDescription::BadCertificate),
                "remote error: tls: bad certificate",
            ),
            (
                Error::NoCertificatesPresented,
                "tls: client didn't provide a certificate",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(of(&io::Error::new(io::ErrorKind::InvalidData, error)), text);
        }
        assert_eq!(of(&io::ErrorKind::UnexpectedEof.into()), "EOF");
    }
}
