use super::*;

fn sample() -> Vec<u8> {
    let mut out = Vec::new();
    put_u8(&mut out, 7);
    put_u16(&mut out, 0x1234);
    put_u32(&mut out, 0xdead_beef);
    put_u64(&mut out, u64::MAX - 1);
    put_i64(&mut out, -5);
    for value in [0, 127, 128, 1 << 40, u64::MAX] {
        put_varint(&mut out, value);
    }
    put_prefixed(&mut out, b"hello");
    out
}

fn read(bytes: &[u8]) -> Result<()> {
    let mut r = Reader::new(bytes);
    assert_eq!(r.u8()?, 7);
    assert_eq!(r.u16()?, 0x1234);
    assert_eq!(r.u32()?, 0xdead_beef);
    assert_eq!(r.u64()?, u64::MAX - 1);
    assert_eq!(r.i64()?, -5);
    for value in [0, 127, 128, 1 << 40, u64::MAX] {
        assert_eq!(r.varint()?, value);
    }
    assert_eq!(r.prefixed(5)?, b"hello");
    r.finish()
}

#[test]
fn what_was_put_is_read_back() {
    read(&sample()).unwrap();
}

#[test]
fn the_bytes_of_a_varint_are_known_before_it_is_put() {
    for shift in 0..u64::BITS {
        for value in [(1 << shift) - 1, 1 << shift, u64::MAX >> shift] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint_len(value), out.len(), "{value}");
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let all = sample();
    for len in 0..all.len() {
        read(&all[..len]).unwrap_err();
    }
    let longer = [all, vec![0]].concat();
    assert_eq!(read(&longer).unwrap_err().what, "bytes after the end");
}

#[test]
fn impossible_lengths_and_endless_integers_are_refused_and_consume_nothing() {
    let mut r = Reader::new(b"\x06hello!");
    assert!(r.prefixed(5).is_err());
    assert_eq!(r.position(), 0);
    assert!(Reader::new(&[0xff; 20]).varint().is_err());
    let mut too_big = [0x80; 10];
    too_big[9] = 2;
    assert!(Reader::new(&too_big).varint().is_err());
    assert!(Reader::new(&[0xff; 9]).prefixed(usize::MAX).is_err());
}

#[test]
fn any_input_is_read_without_panic() {
    arbtest::arbtest(|u| {
        let data: Vec<u8> = u.arbitrary()?;
        let mut r = Reader::new(&data);
        while !r.is_empty() {
            let before = r.position();
            let _ = r.prefixed(100).is_ok() || r.varint().is_ok() || r.u8().is_ok();
            assert!(r.position() > before);
        }
        Ok(())
    })
    .budget_ms(300);
}
