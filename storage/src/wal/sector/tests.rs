use super::*;

fn framed(pieces: &[&[u8]]) -> Vec<u8> {
    let mut framer = Framer::begin(5, &[1; DATA_BYTES]);
    let mut file = Vec::new();
    for piece in pieces {
        framer.start_record();
        framer.push(piece);
        let (sectors, offset) = framer.sectors();
        let end = offset as usize + sectors.len();
        file.resize(file.len().max(end), 0);
        file[offset as usize..end].copy_from_slice(sectors);
        framer.written();
    }
    file
}

fn stream(file: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for sector in file.chunks(SECTOR_BYTES).skip(1) {
        match read(sector, 5) {
            Sector::Own { data, .. } => all.extend_from_slice(data),
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn a_stream_comes_back_however_it_was_cut_into_writes() {
    let bytes: Vec<u8> = (0..4096u32).map(|i| (i % 251) as u8).collect();
    let whole = framed(&[&bytes]);
    for cut in [8, 496, 504, 512, 1008, 1016, 4088] {
        let pieces = framed(&[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(pieces.len(), whole.len());
        assert_eq!(stream(&pieces)[..4096], bytes);
    }
}

#[test]
fn the_tag_names_the_first_record_that_starts_in_the_sector() {
    let file = framed(&[&[1; 8], &[2; 496], &[3; 1000], &[4; 16]]);
    let firsts: Vec<_> = file
        .chunks(SECTOR_BYTES)
        .map(|s| match read(s, 5) {
            Sector::Own { first, .. } => first,
            other => panic!("{other:?}"),
        })
        .collect();
    // The third record starts in the second sector and ends in the third, 8 bytes before its end.
    assert_eq!(firsts, [None, Some(0), Some(0), Some(496), None]);
}

#[test]
fn any_flipped_bit_is_damage_and_another_segments_sector_is_stale() {
    let file = framed(&[&[9; 300]]);
    let mut sector = file[SECTOR_BYTES..].to_vec();
    assert_eq!(read(&sector, 6), Sector::Stale);
    assert_eq!(read(&BLANK, 5), Sector::Blank);
    for bit in 0..SECTOR_BYTES * 8 {
        sector[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&sector, 5), Sector::Damaged, "bit {bit}");
        sector[bit / 8] ^= 1 << (bit % 8);
    }
    let mut almost_blank = BLANK;
    almost_blank[100] = 1;
    assert_eq!(read(&almost_blank, 5), Sector::Damaged);
}

#[test]
fn sizes_and_offsets_agree() {
    for len in [1, 503, 504, 505, 100_000] {
        let bytes = file_bytes(len);
        assert!(capacity(bytes) >= len && capacity(bytes - SECTOR_BYTES as u64) < len);
        assert!(file_offset(len - 1) < bytes);
    }
    assert_eq!(file_offset(0), 512);
    assert_eq!(file_offset(505), 1025);
}
