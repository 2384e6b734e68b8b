use bytes::Bytes;

use super::*;
use crate::bootstrap;

const OWN: NodeId = 7;
const LEADER: NodeId = 8;

fn reply(to: NodeId, term: Term, index: Index, rejected: Option<Position>) -> Message {
    Message {
        from: OWN,
        to,
        term,
        body: Body::AppendReply { index, rejected },
    }
}

fn acknowledges(index: Index) -> Message {
    reply(LEADER, 2, index, None)
}

#[test]
fn of_merged_acknowledgements_the_largest_is_sent_in_whichever_order_they_come() {
    for order in [[3, 5, 4], [5, 4, 3], [4, 3, 5]] {
        let mut out = Vec::new();
        for index in order {
            let_go(acknowledges(index), &mut out);
        }
        assert_eq!(out, [acknowledges(5)], "{order:?}");
    }
}

#[test]
fn only_acknowledgements_of_one_term_to_one_member_are_merged() {
    let rejected = Some(Position::default());
    let all = [
        acknowledges(5),
        reply(LEADER, 3, 4, None),
        reply(9, 2, 3, None),
        reply(LEADER, 2, 6, rejected),
        reply(LEADER, 2, 7, rejected),
    ];
    let mut out = Vec::new();
    for message in all.clone() {
        let_go(message, &mut out);
    }
    assert_eq!(out, all);
}

/// The second has waited for an earlier write than the first: it repeats what is committed.
#[test]
fn acknowledgements_that_waited_in_another_order_do_not_take_back_the_larger_one() {
    let founders = [(OWN, Bytes::new()), (LEADER, Bytes::new())];
    let config = Config::new(OWN, vec![OWN, LEADER], 1);
    let mut state = State::new(config, bootstrap(&founders));
    state.ticket = 3;
    state.held.push_back((2, acknowledges(5)));
    state.held.push_back((1, acknowledges(3)));
    state.held.push_back((3, acknowledges(6)));
    state.saved_through(1);
    state.finish();
    assert_eq!(mem::take(&mut state.out.messages), [acknowledges(3)]);
    state.held.push_back((1, acknowledges(3)));
    state.saved_through(2);
    state.finish();
    assert_eq!(mem::take(&mut state.out.messages), [acknowledges(5)]);
    state.saved_through(3);
    state.finish();
    assert_eq!(state.out.messages, [acknowledges(6)]);
}
