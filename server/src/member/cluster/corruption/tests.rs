use super::*;

const OWN: u64 = 0xa;

fn hash(hash: u32, revision: i64, compact_revision: i64) -> KvHash {
    KvHash {
        hash,
        compact_revision,
        hash_revision: revision,
        current_revision: revision,
    }
}

fn peer(member_id: u64, answer: Result<KvHash, Refusal>) -> PeerHash {
    PeerHash {
        member_id,
        urls: Vec::new(),
        answer,
    }
}

#[test]
fn a_member_starts_unless_a_peer_has_another_digest_of_the_same_history() {
    let own = hash(7, 10, 3);
    let starts = |answer| initial(OWN, &own, &[peer(1, Ok(own)), peer(2, answer)]).is_ok();
    assert!(starts(Ok(hash(7, 10, 3))));
    assert!(!starts(Ok(hash(8, 10, 3))));
    assert!(starts(Ok(hash(8, 10, 4))), "compacted further meanwhile");
    for refusal in [Refusal::Compacted, Refusal::Future, Refusal::OtherCluster] {
        assert!(starts(Err(refusal)));
    }
    assert!(starts(Err(Refusal::Failed("refused".into()))));
    let error = initial(OWN, &own, &[peer(1, Ok(hash(8, 10, 3)))]).unwrap_err();
    assert_eq!(error, "a found data inconsistency with peers");
}

#[test]
fn the_periodic_check_names_the_first_member_that_differs() {
    let first = hash(7, 10, 3);
    let check = |second: KvHash, answers: [KvHash; 2]| {
        let peers = [peer(1, Ok(answers[0])), peer(2, Ok(answers[1]))];
        periodic(OWN, &first, &second, &peers)
    };
    assert_eq!(check(first, [first, first]), None);
    assert_eq!(check(first, [first, hash(8, 10, 3)]), Some(2));
    assert_eq!(check(first, [hash(8, 10, 3), hash(9, 10, 3)]), Some(1));
    // Meanwhile other members write and compact.
    let second = hash(9, 12, 5);
    assert_eq!(check(second, [hash(8, 10, 5), first]), None);
    let ahead = KvHash {
        current_revision: 13,
        ..first
    };
    assert_eq!(check(second, [first, ahead]), Some(2));
    assert_eq!(check(second, [hash(8, 10, 6), first]), Some(1));
    // The leader's own data changes unexpectedly.
    assert_eq!(check(hash(8, 10, 3), [first, hash(8, 10, 3)]), Some(OWN));
    let silent = [peer(1, Err(Refusal::Failed("refused".into())))];
    assert_eq!(periodic(OWN, &first, &first, &silent), None);
}

#[test]
fn of_a_compaction_the_majority_is_right() {
    let own = hash(7, 10, 3);
    let check = |answers: &[Result<KvHash, Refusal>]| {
        let peers: Vec<PeerHash> = (1..)
            .zip(answers)
            .map(|(id, a)| peer(id, a.clone()))
            .collect();
        at_compaction(OWN, &own, &peers)
    };
    let (same, other, third) = (Ok(own), Ok(hash(8, 10, 3)), Ok(hash(9, 10, 3)));
    let (later, silent) = (Ok(hash(8, 10, 4)), Err(Refusal::Compacted));
    assert_eq!(check(&[same.clone(), same.clone()]), Compared::Same);
    assert_eq!(check(&[same.clone(), later.clone()]), Compared::Incomplete);
    assert_eq!(check(&[same.clone(), silent.clone()]), Compared::Incomplete);
    assert_eq!(
        check(&[same.clone(), other.clone()]),
        Compared::Corrupt(vec![2])
    );
    assert_eq!(
        check(&[other.clone(), other.clone()]),
        Compared::Corrupt(vec![OWN])
    );
    assert_eq!(check(&[other.clone(), third]), Compared::Corrupt(vec![0]));
    // One of two members is no majority, and neither is one of three answers out of five.
    let two = std::slice::from_ref(&other);
    assert_eq!(check(two), Compared::Corrupt(vec![0]));
    let five = [same.clone(), other.clone(), silent.clone(), silent];
    assert_eq!(check(&five), Compared::Corrupt(vec![0]));
    let five = [same.clone(), same, other, later];
    assert_eq!(check(&five), Compared::Corrupt(vec![3]));
    assert_eq!(check(&[]), Compared::Same);
}
