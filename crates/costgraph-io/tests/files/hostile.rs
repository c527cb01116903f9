//! Every reader on files cut at every byte and on thousands of random changes: an answer or an error, never a panic.

use crate::corpus;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use shardgraph_costgraph_io::{Format, ReadOptions, read_bytes};
use std::{fs, io::Read};

const FILES: [(&str, Format); 8] = [
    ("VGG16_fwd.pb.gz", Format::CostGraph),
    ("g0018.pbtxt", Format::CostGraphText),
    ("tiny.pbtxt", Format::CostGraphText),
    ("light_zfnet512.onnx", Format::Onnx),
    ("light_bvlc_alexnet.onnx", Format::Onnx),
    ("tiny.jsonl", Format::Jsonl),
    ("tiny.pipedream.txt", Format::PipeDream),
    ("tiny.msr.json", Format::Msr),
];

/// The file without compression, so that changes reach the reader.
fn content(name: &str) -> Vec<u8> {
    let bytes = fs::read(corpus(name)).unwrap();
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut unpacked)
        .unwrap();
    unpacked
}

/// Reads all graphs; whether there are any and all of them could be read. An error must name the file.
fn survives(format: Option<Format>, bytes: &[u8]) -> bool {
    let options = ReadOptions {
        format,
        max_bytes: 1 << 24,
        ..ReadOptions::default()
    };
    let graphs = match read_bytes("hostile", bytes, &options) {
        Ok(graphs) => graphs,
        Err(error) => {
            assert!(error.to_string().starts_with("hostile"), "{error}");
            return false;
        }
    };
    let (mut all, mut any) = (true, false);
    for graph in graphs {
        any = true;
        if let Err(error) = graph {
            assert!(error.to_string().starts_with("hostile:"), "{error}");
            all = false;
        }
    }
    all && any
}

#[test]
fn cut_at_every_byte() {
    for (name, format) in FILES {
        let bytes = content(name);
        assert!(survives(Some(format), &bytes), "{name} as it is");
        let n_read = (0..bytes.len())
            .filter(|&n| survives(Some(format), &bytes[..n]))
            .count();
        // A cut between two nodes, or within a number at the end of a line, leaves a graph; most cuts do not.
        assert!(
            n_read * 5 < bytes.len(),
            "{name}: {n_read} of {} cuts are read",
            bytes.len()
        );
    }
}

#[test]
fn packed_streams_cut_at_every_byte() {
    let plain = content("tiny.jsonl");
    let gzip = fs::read(corpus("VGG16_fwd.pb.gz")).unwrap();
    let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
    for packed in [gzip, zstd] {
        for n in 0..packed.len() {
            assert!(!survives(Some(Format::Jsonl), &packed[..n]), "cut at {n}");
        }
    }
}

/// One to four random changes: bytes replaced, flipped, inserted, taken out, copied elsewhere; numbers made extreme.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xoshiro256PlusPlus) {
    let below =
        |n: usize, random: &mut Xoshiro256PlusPlus| (random.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..=below(4, random) {
        let at = below(bytes.len(), random);
        match below(7, random) {
            0 => bytes[at] = random.next_u64() as u8,
            1 => bytes[at] ^= 1 << below(8, random),
            2 => bytes.insert(at, random.next_u64() as u8),
            3 => {
                let end = (at + 1 + below(16, random)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + 1 + below(64, random)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = below(bytes.len(), random);
                bytes.splice(to..to, copy);
            }
            5 => bytes[at] = [0, 0x7f, 0x80, 0xff][below(4, random)],
            _ => {
                let extreme: [&[u8]; 4] = [b"-1", b"99999999999999999999", b"1e308", &[0xff; 9]];
                let end = (at + 1).min(bytes.len());
                bytes.splice(at..end, extreme[below(4, random)].iter().copied());
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

#[test]
fn random_changes() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20);
    for (name, format) in FILES {
        let bytes = content(name);
        let n_mutations = 3000;
        let mut n_read = 0;
        for _ in 0..n_mutations {
            let mut changed = bytes.clone();
            mutate(&mut changed, &mut random);
            n_read += usize::from(survives(Some(format), &changed));
        }
        // Some changes must go through, others must not, or the test does not reach far.
        assert!(
            n_read > 0 && n_read < n_mutations,
            "{name}: {n_read} of {n_mutations} are read"
        );
    }
}

#[test]
fn every_file_as_every_format() {
    for (name, right) in FILES {
        let bytes = content(name);
        for format in Format::ALL {
            let is_read = survives(Some(format), &bytes);
            assert!(is_read == (format == right), "{name} as {format}");
        }
    }
}

#[test]
fn random_bytes() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(21);
    for n in 0..2000 {
        let bytes: Vec<u8> = (0..n % 97).map(|_| random.next_u64() as u8).collect();
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            survives(format, &bytes);
        }
    }
}
