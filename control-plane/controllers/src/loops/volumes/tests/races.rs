//! Users who create and delete, and a manager that crashes between any two writes: in the end each
//! volume has at most one claim, each claim at most one volume, and nobody waits for what is free.

use machinery::api::DeleteOptions;
use machinery::quantity::Quantity;

use super::*;
use crate::loops::protection::{ClaimProtection, VolumeProtection};
use crate::tests::simulation::{Simulation, kind};

const SEEDS: u64 = 40;
/// How much users do in each run.
const ACTIONS: u64 = 60;
const NAMES: u64 = 6;

/// A run, and how many volumes there were.
struct Run {
    simulation: Simulation,
    volumes: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let loops = || -> Vec<Box<dyn Loop>> {
            vec![
                Box::new(VolumeBinder),
                Box::new(ClaimProtection),
                Box::new(VolumeProtection),
            ]
        };
        let simulation = Simulation::of(loops, seed, None);
        simulation.create(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
        }));
        Run {
            simulation,
            volumes: 0,
        }
    }

    fn claims(&self) -> Vec<Value> {
        self.simulation.items(kind("", "PersistentVolumeClaim"))
    }

    fn volumes(&self) -> Vec<Value> {
        self.simulation.items(kind("", "PersistentVolume"))
    }

    fn any(&mut self, objects: &[Value]) -> Option<Value> {
        let count = objects.len() as u64;
        if count == 0 {
            return None;
        }
        let at = self.simulation.chance(count) as usize;
        Some(objects[at].clone())
    }

    fn size(&mut self) -> String {
        format!("{}Gi", 1 + self.simulation.chance(3))
    }

    fn act(&mut self) {
        match self.simulation.chance(9) {
            0..=2 => self.create_claim(),
            3..=4 => self.create_volume(),
            5 => self.delete_claim(),
            6 => self.delete_volume(),
            7 => self.reuse_volume(),
            _ => {
                let writes = 1 + self.simulation.chance(4) as usize;
                self.simulation.crash_soon(writes);
            }
        }
    }

    fn create_claim(&mut self) {
        let name = format!("c{}", self.simulation.chance(NAMES));
        let size = self.size();
        let there = self.claims();
        if there.iter().any(|claim| object::name(claim) == name) {
            return;
        }
        let path = ["spec", "resources", "requests", "storage"];
        let mut claim = with(&claim(&name), &path, size);
        if self.simulation.chance(5) == 0 {
            let volume = format!("v{}", self.simulation.chance(self.volumes + 2));
            claim = with(&claim, &["spec", "volumeName"], volume);
        }
        self.simulation.create(claim);
    }

    fn create_volume(&mut self) {
        let name = format!("v{}", self.volumes);
        self.volumes += 1;
        let size = self.size();
        let mut volume = volume(&name, &size);
        if self.simulation.chance(4) == 0 {
            let claim = format!("c{}", self.simulation.chance(NAMES));
            volume = promised(&volume, &claim, "");
        }
        if self.simulation.chance(3) == 0 {
            let path = ["spec", "persistentVolumeReclaimPolicy"];
            volume = with(&volume, &path, "Delete");
        }
        self.simulation.create(volume);
    }

    fn delete_claim(&mut self) {
        let all = self.claims();
        if let Some(claim) = self.any(&all) {
            let claims = kind("", "PersistentVolumeClaim");
            let options = DeleteOptions::default();
            let name = object::name(&claim);
            self.simulation.delete(claims, "n", name, options);
        }
    }

    fn delete_volume(&mut self) {
        let all = self.volumes();
        if let Some(volume) = self.any(&all) {
            let volumes = kind("", "PersistentVolume");
            let options = DeleteOptions::default();
            let name = object::name(&volume);
            self.simulation.delete(volumes, "", name, options);
        }
    }

    /// Frees a volume whose claim is gone, as an administrator does.
    fn reuse_volume(&mut self) {
        let claims = self.claims();
        let mut all = self.volumes();
        // One that was freed may have a claim before its phase says so.
        all.retain(|volume| {
            let uid = object::text(volume, &["spec", "claimRef", "uid"]);
            let mut claims = claims.iter();
            volume["status"]["phase"] == "Released" && !claims.any(|one| object::uid(one) == uid)
        });
        if let Some(volume) = self.any(&all) {
            let patch = json!({"spec": {"claimRef": null}});
            let name = object::name(&volume);
            let volumes = kind("", "PersistentVolume");
            self.simulation.patch(volumes, "", name, patch);
        }
    }

    /// What is true at any time: no two claims are bound to one volume.
    fn check_always(&self) {
        let mut bound: Vec<String> = Vec::new();
        for claim in self.claims() {
            if claim["status"]["phase"] == "Bound" {
                bound.push(object::text(&claim, &["spec", "volumeName"]).to_owned());
            }
        }
        bound.sort_unstable();
        let before = bound.len();
        bound.dedup();
        assert_eq!(bound.len(), before, "{bound:?}");
    }

    /// What is true when nothing is left to do.
    fn check_end(&self) {
        let (claims, volumes) = (self.claims(), self.volumes());
        for volume in &volumes {
            let uid = object::text(volume, &["spec", "claimRef", "uid"]);
            let claim = claims.iter().find(|claim| object::uid(claim) == uid);
            let expected: &[&str] = match claim {
                None if uid.is_empty() => &["Available"],
                None => &["Released", "Failed"],
                Some(claim) => {
                    assert_eq!(claim["spec"]["volumeName"], volume["metadata"]["name"]);
                    &["Bound"]
                }
            };
            let phase = object::text(volume, &["status", "phase"]);
            assert!(expected.contains(&phase), "{volume}");
        }
        for claim in &claims {
            let name = object::text(claim, &["spec", "volumeName"]);
            let named = volumes.iter().find(|volume| object::name(volume) == name);
            match object::text(claim, &["status", "phase"]) {
                "Bound" => {
                    let uid = named.map(|volume| &volume["spec"]["claimRef"]["uid"]);
                    assert_eq!(uid, Some(&claim["metadata"]["uid"]), "{claim}");
                }
                "Lost" => assert!(named.is_none(), "{claim}"),
                _ if name.is_empty() => assert!(!is_served(claim, &volumes), "{claim}"),
                _ => {}
            }
        }
    }
}

/// True if there is a volume for the claim.
fn is_served(claim: &Value, volumes: &[Value]) -> bool {
    let amount =
        |object: &Value, path: &[&str]| Quantity::parse(object::text(object, path)).unwrap();
    let asked = amount(claim, &["spec", "resources", "requests", "storage"]);
    volumes.iter().any(|volume| {
        let is_free = volume["status"]["phase"] == "Available"
            && volume["spec"]["claimRef"].is_null()
            && !object::is_deleting(volume);
        is_free && amount(volume, &["spec", "capacity", "storage"]) >= asked
    })
}

#[test]
fn no_order_of_events_binds_two_to_one() {
    let mut bound = 0;
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        for _ in 0..ACTIONS {
            run.act();
            let turns = run.simulation.chance(8);
            run.simulation.stir(turns);
            run.check_always();
        }
        run.simulation.settle();
        run.check_always();
        run.check_end();
        let all = run.claims();
        bound += all
            .iter()
            .filter(|claim| claim["status"]["phase"] == "Bound")
            .count();
    }
    assert!(bound > 0);
}
