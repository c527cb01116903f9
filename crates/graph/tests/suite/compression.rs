//! Packed input: several members, truncation at every byte, damage, bombs, and names that do not tell the truth.

use shardgraph_graph::{Compression, ErrorKind, Graph, ReadOptions, read_bytes};
use std::io::Write as _;

const TEXT: &[u8] = b"p edge 4 3\ne 1 2\ne 2 3\ne 3 4\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

fn graph(name: &str, bytes: &[u8]) -> Graph {
    read_bytes(name, bytes, &ReadOptions::default())
        .unwrap()
        .graph
}

#[test]
fn members_and_frames_are_one_stream() {
    let plain = graph("g.clq", TEXT);
    for cut in [0, 5, 11, TEXT.len()] {
        let (a, b) = TEXT.split_at(cut);
        assert_eq!(graph("g.clq.gz", &[gzip(a), gzip(b)].concat()), plain);
        assert_eq!(graph("g.clq.zst", &[zstd(a), zstd(b)].concat()), plain);
    }
}

#[test]
fn every_truncation_is_an_error() {
    for (name, packed) in [("g.clq.gz", gzip(TEXT)), ("g.clq.zst", zstd(TEXT))] {
        for len in 0..packed.len() {
            let error = read_bytes(name, &packed[..len], &ReadOptions::default()).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Compression,
                "{name} cut to {len}: {error}"
            );
        }
    }
}

#[test]
fn damage_is_an_error_or_harmless() {
    let plain = graph("g.clq", TEXT);
    for (name, packed) in [("g.clq.gz", gzip(TEXT)), ("g.clq.zst", zstd(TEXT))] {
        for i in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[i] ^= 0x10;
            // gzip has a checksum, so what is still read is right; zstd writes none by default.
            if let Ok(import) = read_bytes(name, &damaged, &ReadOptions::default()) {
                assert!(
                    name.ends_with("zst") || import.graph == plain,
                    "{name} byte {i}"
                );
            }
        }
    }
}

#[test]
fn rubbish_after_the_end_is_an_error() {
    for packed in [gzip(TEXT), zstd(TEXT)] {
        let longer = [packed, b"rubbish".to_vec()].concat();
        assert!(read_bytes("g.clq", &longer, &ReadOptions::default()).is_err());
    }
}

#[test]
fn the_bytes_decide_and_a_false_name_is_refused() {
    let options = ReadOptions::default();
    let import = read_bytes("g.clq", &gzip(TEXT), &options).unwrap();
    assert_eq!(import.report.compression, Compression::Gzip);
    for name in ["g.clq.gz", "g.clq.zst"] {
        let error = read_bytes(name, TEXT, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compression);
        assert!(
            error.to_string().contains("rename it if it is unpacked"),
            "{error}"
        );
    }
    // Packed twice: the inner gzip bytes are no text.
    assert!(read_bytes("g.clq.gz", &gzip(&gzip(TEXT)), &options).is_err());
}

/// 80 MB of one comment line repeated, packed thousandfold.
#[test]
fn bombs_are_stopped() {
    let mut line = vec![b'#'; 9999];
    line.push(b'\n');
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    for _ in 0..8000 {
        encoder.write_all(&line).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = read_bytes("g.el.zst", &bomb, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compression);
    assert!(
        error
            .to_string()
            .contains("bytes come out for each byte that goes in"),
        "{error}"
    );
}

/// Lines that straddle every chunk border of the reader: 300 kB in which line lengths and line ends vary.
#[test]
fn chunk_borders_do_not_matter() {
    let mut text = Vec::new();
    let mut edges = Vec::new();
    for i in 0u32..40_000 {
        let end = ["\n", "\r\n", "\r"][(i % 7 % 3) as usize];
        let (u, v) = (i % 1000, i / 7 % 1000);
        edges.push((u, v));
        write!(
            text,
            "{u}{:width$}{v}{end}",
            "",
            width = 1 + (i % 5) as usize
        )
        .unwrap();
    }
    assert!(text.len() > 4 << 16);
    let expected = Graph::from_edges(1000, &edges).unwrap();
    assert_eq!(graph("g.el", &text), expected);
    assert_eq!(graph("g.el.gz", &gzip(&text)), expected);
    assert_eq!(graph("g.el.zst", &zstd(&text)), expected);
}
