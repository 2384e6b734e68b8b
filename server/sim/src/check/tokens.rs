//! Which simple tokens a process knows: those of the entries that it applied one by one, until one
//! of these ends them. A state of another member brings none, and ends those of users whose
//! password is another now.

use std::collections::BTreeMap;

use raft::Index;

use crate::model::Model;
use crate::model::users::TokenEvent;

#[derive(Debug, Default)]
struct Known {
    through: Index,
    /// Users by their tokens.
    tokens: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
pub struct Tokens {
    hosts: Vec<Known>,
}

impl Tokens {
    pub fn new(hosts: usize) -> Tokens {
        let hosts = (0..hosts).map(|_| Known::default());
        Tokens {
            hosts: hosts.collect(),
        }
    }

    pub fn add_host(&mut self) {
        self.hosts.push(Known::default());
    }

    /// A process begins with what it found applied.
    pub fn starts(&mut self, host: usize, applied: Index) {
        self.hosts[host] = Known {
            through: applied,
            tokens: BTreeMap::new(),
        };
    }

    pub fn applies(&mut self, host: usize, through: Index, model: &Model) {
        let known = &mut self.hosts[host];
        for event in model.token_events(known.through, through) {
            match event {
                TokenEvent::Begins { token, user } => {
                    known.tokens.insert(token.clone(), user.clone());
                }
                TokenEvent::End { user } => known.tokens.retain(|_, of| of != user),
                TokenEvent::EndAll => known.tokens.clear(),
            }
        }
        known.through = known.through.max(through);
    }

    pub fn installs(&mut self, host: usize, at: Index, model: &Model) {
        let known = &mut self.hosts[host];
        let (before, after) = (model.users_at(known.through), model.users_at(at));
        known.tokens.retain(|_, user| {
            let password = |users: &crate::model::users::Users| {
                users.users.get(user).map(|user| user.password.clone())
            };
            password(before) == password(after)
        });
        known.through = at;
    }

    pub fn user_of(&self, host: usize, token: &str) -> Option<&str> {
        self.hosts[host].tokens.get(token).map(String::as_str)
    }
}
