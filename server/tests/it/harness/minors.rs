//! etcd in the versions that a cluster may have members of.

use testkit::Minor;

/// One test for each version: calls the async function `run` with it.
macro_rules! beside_each_minor {
    ($run:ident) => {
        mod $run {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn v3_5() {
                super::$run(testkit::Minor::V3_5).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn v3_6() {
                super::$run(testkit::Minor::V3_6).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn v3_7() {
                super::$run(testkit::Minor::V3_7).await;
            }
        }
    };
}
pub(crate) use beside_each_minor;

/// With little log in memory a new member needs the state.
pub(crate) fn forgetful(minor: Minor) -> [&'static str; 2] {
    let kept = match minor {
        Minor::V3_5 => "--experimental-snapshot-catchup-entries=10",
        Minor::V3_6 | Minor::V3_7 => "--snapshot-catchup-entries=10",
    };
    ["--snapshot-count=50", kept]
}

/// etcd asks the other members for their hash when it starts, and at compactions.
pub(crate) fn checks(minor: Minor) -> &'static [&'static str] {
    match minor {
        Minor::V3_5 => &[
            "--experimental-initial-corrupt-check=true",
            "--experimental-compact-hash-check-enabled=true",
            "--experimental-compact-hash-check-time=1s",
        ],
        Minor::V3_6 | Minor::V3_7 => &[
            "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true",
            "--compact-hash-check-time=1s",
        ],
    }
}

/// The cluster version of a cluster whose oldest member has this version.
pub(crate) fn cluster_version(minor: Minor) -> &'static str {
    match minor {
        Minor::V3_5 => "3.5.0",
        Minor::V3_6 => "3.6.0",
        Minor::V3_7 => "3.7.0",
    }
}
