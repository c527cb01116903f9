//! A second reader of event files, straight from the formats' descriptions; it shares no line with the one of the crate.

/// What a file says: (wall time, step, file version, writer, [(tag, value)]) for each event.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Event {
    pub(super) wall_time: f64,
    pub(super) step: u64,
    pub(super) version: String,
    pub(super) writer: String,
    pub(super) values: Vec<(String, f32)>,
}

/// # Panics
/// At the first byte that is wrong.
pub(super) fn read(bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let n_bytes = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        assert_eq!(checksum_at(bytes, at + 8), checksum(&bytes[at..at + 8]));
        let data = &bytes[at + 12..at + 12 + n_bytes];
        assert_eq!(checksum_at(bytes, at + 12 + n_bytes), checksum(data));
        events.push(event(data));
        at += 12 + n_bytes + 4;
    }
    events
}

fn checksum_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// CRC-32C bit by bit, by the polynomial written highest bit first over reflected bytes; then masked.
fn checksum(bytes: &[u8]) -> u32 {
    let mut remainder = 0xffff_ffff_u32;
    for byte in bytes {
        remainder ^= u32::from(byte.reverse_bits()) << 24;
        for _ in 0..8 {
            let carry = remainder & 0x8000_0000 != 0;
            remainder <<= 1;
            if carry {
                remainder ^= 0x1edc_6f41;
            }
        }
    }
    let crc = u64::from(!remainder.reverse_bits());
    ((crc << 17 | crc >> 15) as u32).wrapping_add(0xa282_ead8)
}

/// The fields of a message: number, wire type, and the bytes of the value.
fn fields(message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut found = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let (key, n) = number(rest);
        rest = &rest[n..];
        let (skip, n_bytes) = match key % 8 {
            0 => (0, number(rest).1),
            1 => (0, 8),
            2 => (number(rest).1, number(rest).0 as usize),
            5 => (0, 4),
            other => panic!("wire type {other}"),
        };
        found.push((key / 8, key % 8, &rest[skip..skip + n_bytes]));
        rest = &rest[skip + n_bytes..];
    }
    found
}

/// A varint, and how many bytes it takes.
fn number(bytes: &[u8]) -> (u64, usize) {
    let n = bytes.iter().position(|byte| byte & 128 == 0).unwrap() + 1;
    let value = bytes[..n].iter().rev();
    let value = value.fold(0u128, |value, byte| value * 128 + u128::from(byte & 127));
    (u64::try_from(value).unwrap(), n)
}

fn event(message: &[u8]) -> Event {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut event = Event::default();
    for (id, wire_type, bytes) in fields(message) {
        match (id, wire_type) {
            (1, 1) => event.wall_time = f64::from_le_bytes(bytes.try_into().unwrap()),
            (2, 0) => event.step = number(bytes).0,
            (3, 2) => event.version = text(bytes),
            (10, 2) => event.writer = text(fields(bytes)[0].2),
            (5, 2) => {
                for (id, wire_type, value) in fields(bytes) {
                    assert_eq!((id, wire_type), (1, 2));
                    let [(1, 2, tag), (2, 5, value)] = fields(value)[..] else {
                        panic!("a value is a tag and a float");
                    };
                    let value = f32::from_le_bytes(value.try_into().unwrap());
                    event.values.push((text(tag), value));
                }
            }
            other => panic!("field {other:?}"),
        }
    }
    event
}
