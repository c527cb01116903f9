//! Damaged copies of a file: one operator of mutation a class, drawn from a keyed stream.
//!
//! # Source
//! The operators of Zalewski's AFL (bit flips, interesting numbers, block deletion and duplication,
//! splicing), with operators on lines and on numbers for formats of text.

use shardgraph_random::KeyedRng;

/// Operator of mutation.
type Operator = fn(&mut KeyedRng, &[u8]) -> Vec<u8>;

/// All operators by the name of their class.
pub(super) const CLASSES: [(&str, Operator); 12] = [
    ("truncated", truncated),
    ("bits flipped", bits_flipped),
    ("bytes replaced", bytes_replaced),
    ("block deleted", block_deleted),
    ("block repeated", block_repeated),
    ("block spliced", block_spliced),
    ("line deleted", line_deleted),
    ("line repeated", line_repeated),
    ("lines swapped", lines_swapped),
    ("number replaced", number_replaced),
    ("bytes inserted", bytes_inserted),
    ("line lengthened", line_lengthened),
];

/// Numbers at the borders of types, and words in place of numbers.
const NUMBERS: [&str; 18] = [
    "-1",
    "0",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999",
    "1e400",
    "-0.0",
    "1e-320",
    "nan",
    "inf",
    "",
];

/// Bytes that text formats do not expect.
const INSERTS: [&[u8]; 12] = [
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\r",
    b"\n\n\n",
    b"\t",
    b"\"",
    b"\\",
    b"%",
    b"\x1b[31m",
    "\u{202e}".as_bytes(),
];

fn place(rng: &mut KeyedRng, length: usize) -> usize {
    rng.below(length as u64 + 1) as usize
}

/// A range of at most 64 bytes, or now and then of any length.
fn block(rng: &mut KeyedRng, length: usize) -> std::ops::Range<usize> {
    let first = place(rng, length);
    let most = if rng.below(4) == 0 { length } else { 64 };
    let n_bytes = place(rng, most.min(length - first));
    first..first + n_bytes
}

fn truncated(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    bytes[..place(rng, bytes.len())].to_vec()
}

fn bits_flipped(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        let at = place(rng, out.len().saturating_sub(1));
        if let Some(byte) = out.get_mut(at) {
            *byte ^= 1 << rng.below(8);
        }
    }
    out
}

fn bytes_replaced(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=rng.below(8) {
        let at = place(rng, out.len().saturating_sub(1));
        if let Some(byte) = out.get_mut(at) {
            *byte = rng.below(256) as u8;
        }
    }
    out
}

fn block_deleted(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let block = block(rng, bytes.len());
    [&bytes[..block.start], &bytes[block.end..]].concat()
}

fn block_repeated(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let block = block(rng, bytes.len());
    let n_times = 1 + rng.below(8) as usize;
    let repeated = bytes[block.clone()].repeat(n_times);
    [&bytes[..block.end], &repeated, &bytes[block.end..]].concat()
}

fn block_spliced(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let (from, to) = (block(rng, bytes.len()), place(rng, bytes.len()));
    [&bytes[..to], &bytes[from], &bytes[to..]].concat()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').collect()
}

fn line_deleted(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let mut lines = lines(bytes);
    if !lines.is_empty() {
        lines.remove(rng.below(lines.len() as u64) as usize);
    }
    lines.concat()
}

fn line_repeated(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let mut lines = lines(bytes);
    if !lines.is_empty() {
        let from = rng.below(lines.len() as u64) as usize;
        lines.insert(place(rng, lines.len()), lines[from]);
    }
    lines.concat()
}

fn lines_swapped(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let mut lines = lines(bytes);
    if !lines.is_empty() {
        let n = lines.len() as u64;
        lines.swap(rng.below(n) as usize, rng.below(n) as usize);
    }
    lines.concat()
}

/// Ranges of ASCII digits.
fn numbers(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for run in bytes.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        if run[0].is_ascii_digit() {
            found.push(at..at + run.len());
        }
        at += run.len();
    }
    found
}

fn number_replaced(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let numbers = numbers(bytes);
    if numbers.is_empty() {
        return bytes_replaced(rng, bytes);
    }
    let at = numbers[rng.below(numbers.len() as u64) as usize].clone();
    let by = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
    [&bytes[..at.start], by.as_bytes(), &bytes[at.end..]].concat()
}

fn bytes_inserted(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let at = place(rng, bytes.len());
    let insert = INSERTS[rng.below(INSERTS.len() as u64) as usize];
    [&bytes[..at], insert, &bytes[at..]].concat()
}

/// A line with one byte of it, or an opening bracket, up to 100,000 times.
fn line_lengthened(rng: &mut KeyedRng, bytes: &[u8]) -> Vec<u8> {
    let at = place(rng, bytes.len());
    let byte = match rng.below(4) {
        0 => b'[',
        1 => b'{',
        2 => b'9',
        _ => bytes.get(at).copied().unwrap_or(b' '),
    };
    let n_times = 1 << rng.below(17);
    [&bytes[..at], &vec![byte; n_times], &bytes[at..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"3 2\n0 1 0.5\n1 2 10\n";

    #[test]
    fn a_key_repeats_its_mutation_and_every_operator_takes_any_file() {
        for (name, operator) in CLASSES {
            for bytes in [TEXT, b"", b"\n", b"7"] {
                let of = |index| operator(&mut KeyedRng::new(1, name, index), bytes);
                assert_eq!(of(3), of(3), "{name}");
                for index in 0..200 {
                    of(index);
                }
            }
            let others = (0..50).map(|index| operator(&mut KeyedRng::new(1, name, index), TEXT));
            assert!(
                others.collect::<std::collections::BTreeSet<_>>().len() >= 3,
                "{name}"
            );
        }
    }

    #[test]
    fn operators_do_what_their_class_says() {
        let mut rng = KeyedRng::new(2, "mutation", 0);
        assert_eq!(numbers(b"a12.3"), [1..3, 4..5]);
        for _ in 0..100 {
            assert!(TEXT.starts_with(&truncated(&mut rng, TEXT)));
            assert_eq!(bits_flipped(&mut rng, TEXT).len(), TEXT.len());
            assert!(block_deleted(&mut rng, TEXT).len() <= TEXT.len());
            assert_eq!(lines(&line_deleted(&mut rng, TEXT)).len(), 2);
            assert_eq!(lines(&line_repeated(&mut rng, TEXT)).len(), 4);
            let mut swapped = lines_swapped(&mut rng, TEXT);
            swapped.sort_unstable();
            let mut sorted = TEXT.to_vec();
            sorted.sort_unstable();
            assert_eq!(swapped, sorted);
        }
    }
}
