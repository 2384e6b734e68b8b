//! How many seats a request takes: the more objects it reads, the more.

/// Objects that a list reads in one seat.
const OBJECTS_PER_SEAT: usize = 100;
/// Upper bound of the seats of one request.
const SEATS_MAX: usize = 10;

/// What is known of a list before it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListWork {
    /// Objects of the resource, in all namespaces.
    pub(crate) stored: usize,
    /// The limit that the client sets; 0 for none.
    pub(crate) limit: usize,
    /// The list selects one object by its name.
    pub(crate) is_single: bool,
    /// The list has selectors.
    pub(crate) is_selective: bool,
    /// The list is from the cache, not from the store.
    pub(crate) from_cache: bool,
}

impl ListWork {
    /// The seats of the list. What the store reads is read twice: there and here.
    pub(crate) fn seats(&self) -> u32 {
        let limit = match self.limit {
            0 => self.stored,
            limit => limit.min(self.stored),
        };
        let read = if self.is_single {
            1
        } else if self.from_cache {
            self.stored
        } else if self.is_selective {
            self.stored + limit
        } else {
            2 * limit
        };
        let seats = read.div_ceil(OBJECTS_PER_SEAT).clamp(1, SEATS_MAX);
        seats as u32
    }
}

#[test]
fn lists_take_a_seat_for_each_hundred_objects() {
    let list = ListWork {
        stored: 450,
        limit: 0,
        is_single: false,
        is_selective: false,
        from_cache: true,
    };
    assert_eq!(list.seats(), 5);
    let single = ListWork {
        is_single: true,
        ..list
    };
    assert_eq!(single.seats(), 1);
    let from_store = ListWork {
        from_cache: false,
        limit: 100,
        ..list
    };
    assert_eq!(from_store.seats(), 2);
    let selective = ListWork {
        is_selective: true,
        ..from_store
    };
    assert_eq!(selective.seats(), 6);
    let huge = ListWork {
        stored: 1_000_000,
        ..list
    };
    assert_eq!(huge.seats(), 10);
    let empty = ListWork { stored: 0, ..list };
    assert_eq!(empty.seats(), 1);
}
