//! What is counted when a configuration file is read again, under Kubernetes' names.

use super::clock;
use super::hashed::{SERVER, hash};
use super::metrics::Family;

/// The counters of one kind of file.
pub(crate) struct Reloads {
    total: Family,
    last: Family,
    info: Family,
}

const OF_RELOAD: &[&str] = &["status", "apiserver_id_hash"];
const OF_FILE: &[&str] = &["apiserver_id_hash", "hash"];

pub(crate) static AUTHENTICATION: Reloads = Reloads {
    total: Family::counter(
        "apiserver_authentication_config_controller_automatic_reloads_total",
        "[BETA] Total number of automatic reloads of authentication configuration split by status \
         and apiserver identity.",
        OF_RELOAD,
    ),
    last: Family::gauge(
        "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
        "[BETA] Timestamp of the last automatic reload of authentication configuration split by \
         status and apiserver identity.",
        OF_RELOAD,
    ),
    info: Family::gauge(
        "apiserver_authentication_config_controller_last_config_info",
        "[ALPHA] Information about the last applied authentication configuration with hash as \
         label, split by apiserver identity.",
        OF_FILE,
    ),
};

pub(crate) static AUTHORIZATION: Reloads = Reloads {
    total: Family::counter(
        "apiserver_authorization_config_controller_automatic_reloads_total",
        "[BETA] Total number of automatic reloads of authorization configuration split by status \
         and apiserver identity.",
        OF_RELOAD,
    ),
    last: Family::gauge(
        "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
        "[BETA] Timestamp of the last automatic reload of authorization configuration split by \
         status and apiserver identity.",
        OF_RELOAD,
    ),
    info: Family::gauge(
        "apiserver_authorization_config_controller_last_config_info",
        "[ALPHA] Information about the last applied authorization configuration with hash as \
         label, split by apiserver identity.",
        OF_FILE,
    ),
};

pub(crate) static ENCRYPTION: Reloads = Reloads {
    total: Family::counter(
        "apiserver_encryption_config_controller_automatic_reloads_total",
        "[ALPHA] Total number of reload successes and failures of encryption configuration split \
         by apiserver identity.",
        OF_RELOAD,
    ),
    last: Family::gauge(
        "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
        "[ALPHA] Timestamp of the last successful or failed automatic reload of encryption \
         configuration split by apiserver identity.",
        OF_RELOAD,
    ),
    info: Family::gauge(
        "apiserver_encryption_config_controller_last_config_info",
        "[ALPHA] Information about the last applied encryption configuration with hash as label, \
         split by apiserver identity.",
        OF_FILE,
    ),
};

/// All of them.
pub(crate) static ALL: [&Reloads; 3] = [&AUTHENTICATION, &AUTHORIZATION, &ENCRYPTION];

impl Reloads {
    /// Notes the file that is in use.
    pub(crate) fn uses(&self, text: &str) {
        self.info.set_alone(&[&SERVER, &hash(text)], 1.0);
    }

    /// Counts a new file that is in use from now on.
    pub(crate) fn succeeded(&self, text: &str) {
        self.count("success");
        self.uses(text);
    }

    /// Counts a file that cannot be used.
    pub(crate) fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        let labels = [status, SERVER.as_str()];
        self.total.count(&labels);
        self.last.set(&labels, clock::now().seconds as f64);
    }

    pub(crate) fn write(&self, out: &mut String) {
        for family in [&self.total, &self.last, &self.info] {
            family.write(out);
        }
    }
}
