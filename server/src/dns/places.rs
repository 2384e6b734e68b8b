//! Whether two lists of URLs name the same place: in any order, and where one of them may have a
//! host's name and the other one its address. Rules, log lines and errors are etcd's.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::split_host_port;
use crate::basics::clock::Clock;
use crate::config::{Config, Url, compare_lists};
use crate::net::workers::Workers;

/// Limit for looking up hosts, however many comparisons share it, and the time between two tries.
/// etcd's values: a container's name may become known after its start.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(1);

/// The one name that is not looked up, so that it differs from 127.0.0.1.
const LOCALHOST: &str = "localhost";

/// Looks up hosts. All comparisons that are given the same one share its time.
pub(crate) trait Lookup {
    /// Time since it was made.
    fn elapsed(&self) -> Duration;

    /// An address of `host:port`, or after `patience` an error.
    async fn resolve(&self, address: &str, patience: Duration) -> Result<SocketAddr, String>;

    async fn sleep(&self, time: Duration);
}

/// The system's resolver and clock.
pub(crate) struct System(Clock);

impl System {
    pub(crate) fn start() -> System {
        System(Clock::start())
    }
}

impl Lookup for System {
    fn elapsed(&self) -> Duration {
        self.0.now()
    }

    async fn resolve(&self, address: &str, patience: Duration) -> Result<SocketAddr, String> {
        let found = timeout(patience, super::resolve(address)).await;
        found.unwrap_or_else(|_| {
            let host = split_host_port(address).map_or(address, |(host, _)| host);
            Err(format!("lookup {host}: i/o timeout"))
        })
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// The member, if those that found its cluster list it at URLs that look different from those it
/// advertises. They may be the same once their hosts are looked up; if they are not, the returned
/// configuration says why. `None` for any other member.
pub(crate) async fn looked_up(config: &Config) -> Option<Config> {
    config.founding_error.as_ref()?;
    let listed = Url::texts(config.listed_peer_urls()?);
    let advertised = Url::texts(&config.initial_advertise_peer_urls);
    let compared = same_place(&System::start(), &advertised, &listed).await;
    Some(config.compared_with_listed(compared))
}

/// The same for a caller outside of any event loop.
pub(crate) fn looked_up_alone(config: &Config) -> io::Result<Option<Config>> {
    if config.founding_error.is_none() {
        return Ok(None);
    }
    let event_loop = Workers::event_loop()?;
    let found = event_loop.block_on(looked_up(config));
    // A look-up that took too long may still be going on.
    event_loop.shutdown_background();
    Ok(found)
}

/// `Ok` if both lists have the same URLs, once their hosts are looked up if they have to be.
pub(crate) async fn same_place(
    lookup: &impl Lookup,
    a: &[String],
    b: &[String],
) -> Result<(), String> {
    // The error has the lists as they were given, so this comes before they are parsed and sorted.
    if a.len() != b.len() {
        return compare_lists(a, b);
    }
    let (a, b) = (parse(a)?, parse(b)?);
    if written(&a) == written(&b) {
        return Ok(());
    }
    let a = resolve_all(lookup, &a).await?;
    let b = resolve_all(lookup, &b).await?;
    compare_lists(&a, &b)
}

/// True if both lists have the same URLs without a look-up.
pub(crate) fn is_written_alike(a: &[String], b: &[String]) -> bool {
    match (parse(a), parse(b)) {
        (Ok(a), Ok(b)) => written(&a) == written(&b),
        _ => false,
    }
}

/// The URLs in the order in which their hosts are looked up.
fn parse(texts: &[String]) -> Result<Vec<Url>, String> {
    let urls = texts.iter().map(|text| {
        Url::parse(text).map_err(|_| format!("failed to parse string to URL: {text:?}"))
    });
    let mut urls = urls.collect::<Result<Vec<Url>, String>>()?;
    urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(urls)
}

/// The URLs as they are, except that an address has one form only. Sorted.
fn written(urls: &[Url]) -> Vec<String> {
    let texts = urls
        .iter()
        .map(|url| match url.address().parse::<SocketAddr>() {
            Ok(address) if !url.is_unix() => at(url, address),
            _ => url.to_string(),
        });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

/// The URLs with the addresses of their hosts. Sorted.
async fn resolve_all(lookup: &impl Lookup, urls: &[Url]) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for url in urls {
        if url.is_unix() || url.host() == LOCALHOST {
            texts.push(url.to_string());
            continue;
        }
        let found = resolve(lookup, url).await;
        let failed = |error| format!("failed to resolve {:?} ({error})", url.as_str());
        texts.push(at(url, found.map_err(failed)?));
    }
    texts.sort();
    Ok(texts)
}

/// Looks the host up until it is found or no time is left.
async fn resolve(lookup: &impl Lookup, url: &Url) -> Result<SocketAddr, String> {
    let (url, host) = (url.as_str(), url.address());
    let interval = go_text::duration(RETRY);
    while !time_left(lookup).is_zero() {
        let error = match lookup.resolve(&host, time_left(lookup)).await {
            Ok(address) => {
                tracing::info!(url, host, "resolved-addr" = %address, "resolved URL Host");
                return Ok(address);
            }
            Err(error) => error,
        };
        tracing::warn!(
            url,
            host,
            "retry-interval" = interval,
            error,
            "failed to resolve URL Host"
        );
        lookup.sleep(time_left(lookup).min(RETRY)).await;
        if time_left(lookup).is_zero() {
            tracing::warn!(
                url,
                host,
                "retry-interval" = interval,
                error,
                "failed to resolve URL Host; returning"
            );
            return Err(error);
        }
    }
    // An earlier host has taken all of the time.
    Err("context deadline exceeded".to_owned())
}

fn time_left(lookup: &impl Lookup) -> Duration {
    PATIENCE.saturating_sub(lookup.elapsed())
}

/// The URL with an address for its host.
fn at(url: &Url, address: SocketAddr) -> String {
    let scheme = if url.is_secure() { "https" } else { "http" };
    // Go writes an IPv4 address in IPv6's form like any other IPv4 address.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    format!("{scheme}://{address}")
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// When the name that is not known from the start becomes known.
    const LATE: Duration = Duration::from_secs(5);

    /// Knows a few names, and has a clock of its own.
    #[derive(Default)]
    struct Told {
        elapsed: Cell<Duration>,
        asked: RefCell<Vec<String>>,
    }

    impl Lookup for Told {
        fn elapsed(&self) -> Duration {
            self.elapsed.get()
        }

        async fn resolve(&self, address: &str, _: Duration) -> Result<SocketAddr, String> {
            self.asked.borrow_mut().push(address.to_owned());
            let found = match address {
                "a.test:2380" => "192.0.2.1:2380",
                "b.test:2380" => "192.0.2.2:2380",
                "six.test:2380" => "[2001:db8::1]:2380",
                "late.test:2380" if self.elapsed() >= LATE => "192.0.2.3:2380",
                address => address,
            };
            let found = found.parse::<SocketAddr>();
            found.map_err(|_| "lookup nowhere.test: no such host".to_owned())
        }

        async fn sleep(&self, time: Duration) {
            self.elapsed.set(self.elapsed.get() + time);
        }
    }

    fn urls(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    async fn compared(lookup: &Told, a: &str, b: &str) -> Result<(), String> {
        same_place(lookup, &urls(a), &urls(b)).await
    }

    #[tokio::test]
    async fn a_host_is_the_same_by_its_name_and_by_its_address() {
        for (a, b) in [
            ("http://192.0.2.1:2380", "http://a.test:2380"),
            ("http://a.test:2380", "http://192.0.2.1:2380"),
            ("http://[2001:db8::1]:2380", "http://six.test:2380"),
            ("http://[::ffff:192.0.2.1]:2380", "http://a.test:2380"),
            // Another order, once the hosts are looked up.
            (
                "http://192.0.2.1:2380,http://b.test:2380",
                "http://192.0.2.2:2380,http://a.test:2380",
            ),
            (
                "unix:///tmp/a,http://192.0.2.1:2380",
                "http://a.test:2380,unix:///tmp/a",
            ),
        ] {
            let lookup = Told::default();
            assert_eq!(compared(&lookup, a, b).await, Ok(()), "{a} {b}");
            assert_eq!(lookup.elapsed(), Duration::ZERO, "{a} {b}");
        }
    }

    #[tokio::test]
    async fn nothing_is_looked_up_for_lists_that_are_written_alike() {
        for (a, b) in [
            ("http://nowhere.test:1", "http://nowhere.test:1"),
            (
                "http://127.0.0.1:1,http://nowhere.test:1",
                "http://nowhere.test:1,http://127.0.0.1:1",
            ),
            ("https://[2001:DB8::1]:1", "https://[2001:db8:0::1]:1"),
            ("http://localhost:1", "http://localhost:1"),
            ("unix:///tmp/a", "unix:///tmp/a"),
        ] {
            let lookup = Told::default();
            assert_eq!(compared(&lookup, a, b).await, Ok(()), "{a} {b}");
            assert_eq!(*lookup.asked.borrow(), [""; 0], "{a} {b}");
            assert!(is_written_alike(&urls(a), &urls(b)), "{a} {b}");
        }
    }

    #[tokio::test]
    async fn the_first_difference_is_told() {
        for (a, b, error) in [
            (
                "http://192.0.2.2:2380",
                "http://a.test:2380",
                r#"resolved urls: "http://192.0.2.2:2380" != "http://192.0.2.1:2380""#,
            ),
            (
                "https://192.0.2.1:2380",
                "http://a.test:2380",
                r#"resolved urls: "https://192.0.2.1:2380" != "http://192.0.2.1:2380""#,
            ),
            (
                "http://b.test:2380,http://a.test:2380",
                "http://192.0.2.1:2380,http://192.0.2.9:2380",
                r#"resolved urls: "http://192.0.2.2:2380" != "http://192.0.2.9:2380""#,
            ),
            // etcd does not look this name up.
            (
                "http://127.0.0.1:2380",
                "http://localhost:2380",
                r#"resolved urls: "http://127.0.0.1:2380" != "http://localhost:2380""#,
            ),
            (
                "unix:///tmp/a",
                "unix:///tmp/b",
                r#"resolved urls: "unix:///tmp/a" != "unix:///tmp/b""#,
            ),
            (
                "http://a.test:1",
                "http://b.test:1,http://a.test:1",
                r#"len(["http://a.test:1"]) != len(["http://b.test:1" "http://a.test:1"])"#,
            ),
            (
                "http://a.test:2380",
                "nothing",
                r#"failed to parse string to URL: "nothing""#,
            ),
        ] {
            let lookup = Told::default();
            let error = Err(error.to_owned());
            assert_eq!(compared(&lookup, a, b).await, error, "{a} {b}");
            assert!(!is_written_alike(&urls(a), &urls(b)), "{a} {b}");
        }
    }

    #[tokio::test]
    async fn a_name_that_becomes_known_is_found() {
        let lookup = Told::default();
        let (a, b) = ("http://192.0.2.3:2380", "http://late.test:2380");
        assert_eq!(compared(&lookup, a, b).await, Ok(()));
        assert_eq!(lookup.elapsed(), LATE);
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_asked_for_every_second_until_the_time_is_over() {
        let lookup = Told::default();
        let (a, b) = ("http://a.test:2380", "http://nowhere.test:2380");
        let error =
            r#"failed to resolve "http://nowhere.test:2380" (lookup nowhere.test: no such host)"#;
        assert_eq!(compared(&lookup, a, b).await, Err(error.to_owned()));
        assert_eq!(lookup.elapsed(), PATIENCE);
        let asked = lookup.asked.take();
        assert_eq!(asked.len(), 31, "{asked:?}");
        assert_eq!(asked[0], "a.test:2380");
        assert!(asked[1..].iter().all(|host| host == "nowhere.test:2380"));

        // No time is left for the next comparison, but for what needs no look-up.
        let (a, b) = ("http://a.test:2380", "http://192.0.2.1:2380");
        let error = r#"failed to resolve "http://a.test:2380" (context deadline exceeded)"#;
        assert_eq!(compared(&lookup, a, b).await, Err(error.to_owned()));
        assert_eq!(compared(&lookup, a, a).await, Ok(()));
        assert_eq!(*lookup.asked.borrow(), [""; 0]);
    }
}
