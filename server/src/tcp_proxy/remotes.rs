//! Which endpoint gets the next connection.

use fastrand::Rng;

use crate::dns::Service;

/// One connection in so many goes to an endpoint of weight 0, if others have weights: it should get
/// very few, by RFC 2782.
const UNWEIGHTED_ONE_IN: u32 = 100;

/// The endpoints, and which of them answered last.
pub(super) struct Remotes {
    all: Vec<Remote>,
    /// Turn of the endpoints without weights.
    turn: usize,
    rng: Rng,
}

struct Remote {
    service: Service,
    is_active: bool,
}

impl Remotes {
    pub(super) fn new(services: Vec<Service>, seed: u64) -> Remotes {
        let active = |service| Remote {
            service,
            is_active: true,
        };
        Remotes {
            all: services.into_iter().map(active).collect(),
            turn: 0,
            rng: Rng::with_seed(seed),
        }
    }

    pub(super) fn service(&self, place: usize) -> &Service {
        &self.all[place].service
    }

    pub(super) fn set_active(&mut self, place: usize, is_active: bool) {
        self.all[place].is_active = is_active;
    }

    pub(super) fn inactive(&self) -> Vec<usize> {
        let places = 0..self.all.len();
        places.filter(|place| !self.all[*place].is_active).collect()
    }

    /// An active endpoint of the best priority: by weight, or in turn if there are no weights.
    pub(super) fn pick(&mut self) -> Option<usize> {
        let active = || {
            let all = self.all.iter().enumerate();
            all.filter(|(_, remote)| remote.is_active)
        };
        let best = active().map(|(_, remote)| remote.service.priority).min()?;
        let of_best = active().filter(|(_, remote)| remote.service.priority == best);
        let places = of_best.map(|(place, remote)| (place, u32::from(remote.service.weight)));
        let (weighted, unweighted): (Vec<_>, Vec<_>) = places.partition(|(_, weight)| *weight > 0);
        let has_both = !weighted.is_empty() && !unweighted.is_empty();
        if weighted.is_empty() || has_both && self.rng.u32(..UNWEIGHTED_ONE_IN) == 0 {
            let (place, _) = unweighted[self.turn % unweighted.len()];
            self.turn = self.turn.wrapping_add(1);
            return Some(place);
        }
        let sum: u32 = weighted.iter().map(|(_, weight)| weight).sum();
        let mut left = self.rng.u32(..sum);
        for (place, weight) in weighted {
            match left.checked_sub(weight) {
                Some(less) => left = less,
                None => return Some(place),
            }
        }
        unreachable!("a number below the sum of all weights is below one of the partial sums")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endpoints with these priorities and weights.
    fn remotes(of: &[(u16, u16)]) -> Remotes {
        let service = |&(priority, weight): &(u16, u16)| Service {
            target: "a".to_owned(),
            port: 1,
            priority,
            weight,
        };
        Remotes::new(of.iter().map(service).collect(), 1)
    }

    /// How often each endpoint is picked in a thousand times.
    fn picked(remotes: &mut Remotes) -> Vec<usize> {
        let mut times = vec![0; remotes.all.len()];
        for _ in 0..1000 {
            times[remotes.pick().unwrap()] += 1;
        }
        times
    }

    #[test]
    fn without_weights_all_have_their_turn() {
        let mut remotes = remotes(&[(0, 0), (0, 0), (0, 0), (0, 0)]);
        let first: Vec<_> = (0..5).map(|_| remotes.pick().unwrap()).collect();
        assert_eq!(first, [0, 1, 2, 3, 0]);
        remotes.set_active(2, false);
        assert_eq!(remotes.inactive(), [2]);
        let times = picked(&mut remotes);
        assert_eq!(times[2], 0);
        assert!(times.iter().filter(|times| **times > 300).count() == 3);
    }

    #[test]
    fn a_worse_priority_serves_when_no_better_one_does() {
        let mut remotes = remotes(&[(2, 0), (1, 5), (u16::MAX, 0)]);
        assert_eq!(picked(&mut remotes), [0, 1000, 0]);
        remotes.set_active(1, false);
        assert_eq!(picked(&mut remotes), [1000, 0, 0]);
        remotes.set_active(0, false);
        assert_eq!(picked(&mut remotes), [0, 0, 1000]);
        remotes.set_active(2, false);
        assert_eq!(remotes.pick(), None);
        remotes.set_active(1, true);
        assert_eq!(remotes.pick(), Some(1));
    }

    #[test]
    fn weights_are_shares() {
        let times = picked(&mut remotes(&[(0, 30), (0, 10), (0, 0)]));
        assert!((700..800).contains(&times[0]), "{times:?}");
        assert!((200..300).contains(&times[1]), "{times:?}");
        assert!((1..40).contains(&times[2]), "{times:?}");
    }
}
