//! The ranges that a command line gives services their addresses from.

use std::net::IpAddr;

use crate::basics::cidr::{Cidr, Family};

/// The smallest primary range of Kubernetes.
const ADDRESSES_MIN: u128 = 8;
/// The shortest prefix of a range of IPv6 that Kubernetes draws from.
pub(crate) const V6_PREFIX_MIN: u32 = 64;

/// The ranges that services get addresses from: the primary one, and perhaps one of the other family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRanges(Vec<Cidr>);

impl ServiceRanges {
    /// Parses one range, or two that a comma separates. Errors are those of Kubernetes.
    pub fn parse(text: &str) -> Result<ServiceRanges, String> {
        let texts: Vec<&str> = text.split(',').collect();
        let name = "service-cluster-ip-range";
        let first = Cidr::parse(texts[0]);
        let first = first.ok_or_else(|| format!("{name}[0] is not a valid cidr"))?;
        if first.size() < ADDRESSES_MIN {
            return Err(format!(
                "error determining service IP ranges for primary service cidr: the service cluster \
                 IP range must be at least {ADDRESSES_MIN} IP addresses"
            ));
        }
        let mut all = vec![first];
        if let Some(second) = texts.get(1) {
            let second = Cidr::parse(second);
            all.push(second.ok_or_else(|| format!("{name}[1] is not an ip net"))?);
        }
        if texts.len() > 2 {
            return Err(format!("--{name} must not contain more than two entries"));
        }
        if let [first, second] = &all[..]
            && first.family() == second.family()
        {
            return Err(format!(
                "--{name}[0] and --{name}[1] must be of different IP family"
            ));
        }
        // Kubernetes starts with such a range, but no service gets an address from it.
        let short = |range: &&Cidr| range.family() == Family::V6 && range.prefix() < V6_PREFIX_MIN;
        if let Some(range) = all.iter().find(short) {
            return Err(format!(
                "shortest allowed prefix length for service CIDR is {V6_PREFIX_MIN}, got {}",
                range.prefix()
            ));
        }
        Ok(ServiceRanges(all))
    }

    /// The first address of the primary range: that of the API server's own service.
    pub(crate) fn own_address(&self) -> IpAddr {
        self.0[0].at(1)
    }

    /// The families that services may have, the primary one first.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.0.iter().map(Cidr::family).collect()
    }

    /// The names of these families.
    pub fn family_names(&self) -> Vec<&'static str> {
        self.families().into_iter().map(Family::name).collect()
    }

    /// The ranges as everybody writes them.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(Cidr::to_string).collect()
    }

    /// Checks that the endpoint of the API server's own service is of the family of its address. One
    /// on a loopback address has no endpoint.
    pub fn check_advertised(&self, address: IpAddr) -> Result<(), String> {
        if address.is_loopback() || Family::of(address) == self.0[0].family() {
            return Ok(());
        }
        Err(format!(
            "service IP family \"{}\" must match public address family \"{address}\"",
            self.0[0]
        ))
    }
}

impl Default for ServiceRanges {
    fn default() -> ServiceRanges {
        ServiceRanges(Cidr::parse("10.96.0.0/16").into_iter().collect())
    }
}

#[test]
fn there_is_one_range_of_each_family_at_most() {
    let texts = |text: &str| ServiceRanges::parse(text).map(|ranges| ranges.texts());
    assert_eq!(texts("10.0.0.7/24").unwrap(), ["10.0.0.0/24"]);
    assert_eq!(
        texts("fd00:10::/112,10.0.0.0/29").unwrap(),
        ["fd00:10::/112", "10.0.0.0/29"]
    );
    for (bad, why) in [
        ("", "service-cluster-ip-range[0] is not a valid cidr"),
        ("10.0.0.0/30", "must be at least 8 IP addresses"),
        (
            "10.0.0.0/24,x",
            "service-cluster-ip-range[1] is not an ip net",
        ),
        ("10.0.0.0/24,10.1.0.0/24", "must be of different IP family"),
        ("10.0.0.0/24,fd00::/112,fd01::/112", "more than two entries"),
        ("10.0.0.0/24,fd00::/56", "is 64, got 56"),
    ] {
        let error = texts(bad).unwrap_err();
        assert!(error.contains(why), "{bad}: {error}");
    }
    let ranges = ServiceRanges::parse("fd00:10::/112,10.0.0.0/24").unwrap();
    assert_eq!(ranges.own_address().to_string(), "fd00:10::1");
    for good in ["fd00::7", "127.0.0.1"] {
        assert_eq!(ranges.check_advertised(good.parse().unwrap()), Ok(()));
    }
    assert_eq!(
        ranges.check_advertised("10.0.0.7".parse().unwrap()),
        Err(
            "service IP family \"fd00:10::/112\" must match public address family \"10.0.0.7\""
                .into()
        )
    );
}
