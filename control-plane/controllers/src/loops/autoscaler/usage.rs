//! How many replicas a value asks for. What is not known of a pod is assumed so that the size
//! changes less rather than more.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use machinery::time::Timestamp;

use super::readings::{Reading, Readings};
use super::requests::requests;
use crate::known::Shared;
use crate::{meta, pods};

/// For how long after its start the CPU of a pod counts only while it is ready.
const CPU_STARTS: Duration = Duration::from_secs(300);
/// A pod that became unready within this time of its start was never ready.
const FIRST_READY: Duration = Duration::from_secs(30);

/// By which part a value may miss its target without a change of the size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerances {
    pub(super) up: f64,
    pub(super) down: f64,
}

/// The pods of an autoscaler's target.
pub(super) struct Fleet<'a> {
    pub(super) pods: &'a [Shared<Pod>],
    /// The replicas that the target should have now.
    pub(super) current: i32,
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// The replicas that a metric asks for, and what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The average of a pod, in thousandths.
    pub(super) usage: i64,
    /// The average in percent of what pods ask for, if that is the target.
    pub(super) utilization: Option<i32>,
}

/// How values compare with their target.
struct Measure {
    ratio: f64,
    usage: i64,
    utilization: Option<i32>,
}

/// Which pods count, and how.
struct Groups<'a> {
    ready: usize,
    unready: Vec<&'a str>,
    missing: Vec<&'a str>,
}

impl Tolerances {
    fn have(&self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

impl Fleet<'_> {
    /// The replicas with which pods use `target` percent of what they ask for.
    pub(super) fn by_utilization(
        &self,
        mut readings: Readings,
        target: i32,
        (resource, container): (&str, &str),
    ) -> Result<Proposal, String> {
        let groups = self.group(&mut readings, resource)?;
        let requests = requests(self.pods, container, resource)?;
        // A pod whose use is not known is taken to use all that it asks for, or the target.
        let percent = i64::from(target.max(100));
        let full = |pod: &str| {
            let asked = requests.get(pod).copied().unwrap_or(0);
            asked.saturating_mul(percent) / 100
        };
        let measure = |readings: &Readings| utilization(readings, &requests, target);
        self.propose(readings, &groups, full, measure)
    }

    /// The replicas with which the average of a pod is `target`. `resource` is empty for metrics
    /// that are about none.
    pub(super) fn by_average(
        &self,
        mut readings: Readings,
        target: i64,
        resource: &str,
    ) -> Result<Proposal, String> {
        let groups = self.group(&mut readings, resource)?;
        let measure = |readings: &Readings| Ok(average(readings, target));
        self.propose(readings, &groups, |_| target, measure)
    }

    /// The replicas for a value that all pods share and that is `ratio` times its target.
    pub(super) fn by_ratio(&self, ratio: f64) -> Result<i32, String> {
        if self.current == 0 {
            return Ok(rounded_up(ratio));
        }
        if self.tolerances.have(ratio) {
            return Ok(self.current);
        }
        self.any()
            .map_err(|why| format!("unable to calculate ready pods: {why}"))?;
        let ready = self.pods.iter();
        let ready = ready.filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod));
        Ok(rounded_up(ratio * ready.count() as f64))
    }

    /// The size that a first look at the values asks for, and a second one with assumptions about
    /// the pods without values. Only what both agree on is done.
    fn propose(
        &self,
        mut readings: Readings,
        groups: &Groups<'_>,
        full: impl Fn(&str) -> i64,
        measure: impl Fn(&Readings) -> Result<Measure, String>,
    ) -> Result<Proposal, String> {
        let Measure {
            ratio,
            usage,
            utilization,
        } = measure(&readings)?;
        let propose = |replicas| {
            Ok(Proposal {
                replicas,
                usage,
                utilization,
            })
        };
        let grows_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_unready && groups.missing.is_empty() {
            let replicas = rounded_up(ratio * groups.ready as f64);
            let stays = self.tolerances.have(ratio);
            return propose(if stays { self.current } else { replicas });
        }
        let assume = |pod: &str, value| (pod.to_owned(), Reading::assumed(value));
        let missing = groups.missing.iter().copied();
        if ratio < 1.0 {
            readings.extend(missing.map(|pod| assume(pod, full(pod))));
        } else if ratio > 1.0 {
            readings.extend(missing.map(|pod| assume(pod, 0)));
        }
        if grows_unready {
            let unready = groups.unready.iter().copied();
            readings.extend(unready.map(|pod| assume(pod, 0)));
        }
        let again = measure(&readings)?.ratio;
        let turned = (ratio < 1.0 && again > 1.0) || (ratio > 1.0 && again < 1.0);
        if self.tolerances.have(again) || turned {
            return propose(self.current);
        }
        let replicas = rounded_up(again * readings.len() as f64);
        let turned =
            (again < 1.0 && replicas > self.current) || (again > 1.0 && replicas < self.current);
        propose(if turned { self.current } else { replicas })
    }

    /// Sorts the pods. The values of those that do not count are dropped.
    fn group(&self, readings: &mut Readings, resource: &str) -> Result<Groups<'_>, String> {
        self.any()?;
        let mut groups = Groups {
            ready: 0,
            unready: Vec::new(),
            missing: Vec::new(),
        };
        for pod in self.pods {
            let name = meta::name(&pod.metadata);
            if meta::is_deleting(&pod.metadata) || pods::phase(pod) == "Failed" {
                readings.remove(name);
            } else if pods::phase(pod) == "Pending" {
                readings.remove(name);
                groups.unready.push(name);
            } else {
                match readings.get(name) {
                    None => groups.missing.push(name),
                    Some(reading) if resource == "cpu" && starts(pod, reading, self.now) => {
                        readings.remove(name);
                        groups.unready.push(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        if readings.is_empty() {
            let why = "did not receive metrics for targeted pods (pods might be unready)";
            return Err(why.into());
        }
        Ok(groups)
    }

    fn any(&self) -> Result<(), String> {
        match self.pods {
            [] => Err("no pods returned by selector while calculating replica count".into()),
            _ => Ok(()),
        }
    }
}

/// The replicas with which each has `target` of a total, and what each has of it now.
pub(super) fn shared(total: i64, target: i64, replicas: i32, tolerances: Tolerances) -> (i32, i64) {
    let ratio = total as f64 / (target as f64 * f64::from(replicas));
    let wanted = if tolerances.have(ratio) {
        replicas
    } else {
        rounded_up(total as f64 / target as f64)
    };
    if total == i64::MAX {
        return (wanted, total);
    }
    (wanted, (total as f64 / f64::from(replicas)).ceil() as i64)
}

/// True if the CPU of a pod says nothing yet, as starting takes more of it than work does.
fn starts(pod: &Pod, reading: &Reading, now: Timestamp) -> bool {
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    let (Some(ready), Some(started)) = (pods::condition(pod, "Ready"), started) else {
        return true;
    };
    let started = meta::stamp(started);
    let is_unready = ready.status == "False";
    let since = ready.last_transition_time.as_ref().map(meta::stamp);
    let since = since.unwrap_or_default();
    if started.plus(CPU_STARTS) > now {
        is_unready || reading.at < since.plus(reading.window)
    } else {
        is_unready && started.plus(FIRST_READY) > since
    }
}

fn utilization(
    readings: &Readings,
    requests: &BTreeMap<String, i64>,
    target: i32,
) -> Result<Measure, String> {
    let known = readings.iter();
    let known = known.filter_map(|(pod, reading)| Some((reading.value, *requests.get(pod)?)));
    let (mut used, mut asked, mut count) = (0_i128, 0_i128, 0_i128);
    for (value, request) in known {
        used += i128::from(value);
        asked += i128::from(request);
        count += 1;
    }
    if asked == 0 {
        return Err("no metrics returned matched known pods".into());
    }
    let percent = i32::try_from(used * 100 / asked).unwrap_or(i32::MAX);
    Ok(Measure {
        ratio: f64::from(percent) / f64::from(target),
        usage: i64::try_from(used / count).unwrap_or(i64::MAX),
        utilization: Some(percent),
    })
}

fn average(readings: &Readings, target: i64) -> Measure {
    let sum: i128 = readings.values().map(|one| i128::from(one.value)).sum();
    let count = readings.len().max(1) as i128;
    let usage = i64::try_from(sum / count).unwrap_or(i64::MAX);
    Measure {
        ratio: usage as f64 / target as f64,
        usage,
        utilization: None,
    }
}

fn rounded_up(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
