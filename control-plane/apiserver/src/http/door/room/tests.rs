use std::net::Ipv4Addr;

use super::*;

const HERE: Holder = Holder::Address(None);

fn user(name: &str) -> Holder {
    Holder::User(name.into())
}

/// The number of the connection to end, of some that are numbered from 0 in the order given. Each
/// has done what it does for so many seconds.
fn ended(all: &[(Holder, Doing, u64)]) -> u64 {
    let begin = Instant::now();
    let now = begin + Duration::from_secs(1000);
    let seen = (0..)
        .zip(all)
        .map(|(number, (holder, doing, seconds))| Seen {
            number,
            holder: holder.clone(),
            doing: *doing,
            since: now - Duration::from_secs(*seconds),
        });
    let seen: Vec<_> = seen.collect();
    to_end(&seen, now).unwrap().number
}

#[test]
fn the_one_that_has_been_silent_longest_is_ended() {
    let all = [
        (user("a"), Doing::Requests, 90),
        (user("b"), Doing::Nothing, 20),
        (user("c"), Doing::Nothing, 30),
        (user("a"), Doing::Watches, 90),
    ];
    assert_eq!(ended(&all), 2);
}

#[test]
fn a_connection_has_the_time_for_its_first_request() {
    let all = [
        (HERE, Doing::Nothing, 0),
        (user("a"), Doing::Requests, 20),
        (user("a"), Doing::Watches, 10),
        (user("b"), Doing::Watches, 90),
    ];
    assert_eq!(ended(&all), 2);
}

#[test]
fn who_has_more_than_half_gives_one_up() {
    let all = [
        (user("b"), Doing::Nothing, 90),
        (user("a"), Doing::Requests, 90),
        (user("a"), Doing::Watches, 10),
        (user("a"), Doing::Watches, 20),
        (user("b"), Doing::Watches, 80),
    ];
    assert_eq!(ended(&all), 3, "the oldest watch");
    let all = [
        (user("b"), Doing::Watches, 90),
        (user("a"), Doing::Requests, 10),
        (user("a"), Doing::Requests, 20),
        (user("a"), Doing::Nothing, 0),
    ];
    assert_eq!(ended(&all), 3, "what does nothing comes first");
}

#[test]
fn of_two_who_have_the_same_a_watch_is_ended() {
    let all = [
        (user("a"), Doing::Requests, 90),
        (user("b"), Doing::Watches, 10),
    ];
    assert_eq!(ended(&all), 1);
}

#[test]
fn requests_say_who_holds_a_connection_and_what_it_does() {
    let connection = Arc::new(Connection::new(7, Some(Ipv4Addr::LOCALHOST.into())));
    let seen = || {
        let seen = connection.seen();
        (seen.holder, seen.doing)
    };
    let address = Holder::Address(Some(Ipv4Addr::LOCALHOST.into()));
    let mut watch = AtWork::begin(&connection);
    connection.note(&User::anonymous());
    assert_eq!(seen(), (address, Doing::Requests));
    watch.watches();
    connection.note(&User {
        name: "jane".into(),
        ..User::anonymous()
    });
    assert_eq!(seen(), (user("jane"), Doing::Watches));
    let other = AtWork::begin(&connection);
    assert_eq!(seen(), (user("jane"), Doing::Requests));
    drop((watch, other));
    assert_eq!(seen(), (user("jane"), Doing::Nothing));
}
