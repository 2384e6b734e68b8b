//! Gives up the view of a large revision if the client is too slow in taking it.
//!
//! A client that takes nothing is not noticed in the body: the connection does not ask it for more. So a
//! task of its own waits for the client, as patiently as for that of a RangeStream.

use tokio::sync::watch;

use crate::api::grpc::limits::patience::Patience;
use crate::runtime::etcd_server::EtcdServer;
use crate::state::watch::HeldView;

/// A view that is given up in time: a task waits for the client until this is dropped.
pub(super) struct Minded {
    view: HeldView,
    turn: watch::Sender<Turn>,
}

/// Whom the stream waits for.
#[derive(Clone, Copy, Default)]
struct Turn {
    is_clients: bool,
    /// Bytes given to the client in all.
    given: u64,
}

impl Minded {
    pub(super) fn new(server: &EtcdServer, view: HeldView) -> Minded {
        let (turn, turns) = watch::channel(Turn::default());
        tokio::spawn(mind(server.clone(), view.clone(), turns));
        Minded { view, turn }
    }

    /// False once the revision is sent.
    pub(super) fn is_held(&self) -> bool {
        self.view.is_held()
    }

    /// The connection has taken what it was given.
    pub(super) fn is_servers_turn(&self) {
        self.turn.send_modify(|turn| turn.is_clients = false);
    }

    pub(super) fn is_clients_turn(&self, given: usize) {
        self.turn.send_modify(|turn| {
            turn.is_clients = true;
            turn.given += given as u64;
        });
    }
}

async fn mind(server: EtcdServer, view: HeldView, mut turns: watch::Receiver<Turn>) {
    let mut patience = Patience::new();
    let mut given = 0;
    while view.is_held() {
        let turn = *turns.borrow_and_update();
        patience.gave(turn.given - given);
        given = turn.given;
        let changed = if turn.is_clients {
            patience.wait(&server, turns.changed()).await
        } else {
            Some(turns.changed().await)
        };
        match changed {
            Some(Ok(())) => {}
            // The call has ended, or sends another revision.
            Some(Err(_)) => return,
            None => return view.give_up(),
        }
    }
}
