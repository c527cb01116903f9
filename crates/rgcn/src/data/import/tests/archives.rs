//! Packed files, archives, and options that go with neither.

use super::*;

#[test]
fn packed_files_are_unpacked_and_damage_is_told() {
    let packed = gzip(PEOPLE.as_bytes());
    assert_eq!(
        named_edges(&import("people.nt.gz", &packed).unwrap()),
        people()
    );
    for end in [packed.len() - 9, packed.len() / 2] {
        let message = refused("people.nt.gz", &packed[..end]);
        assert!(message.contains("people.nt.gz:"), "{message}");
        assert!(message.contains("damaged or ends early"), "{message}");
    }
    let message = refused("people.nt.gz", PEOPLE);
    assert!(message.contains("the name promises"), "{message}");
    let message = refused("x.ttl.gz", &gzip(b"@prefix a: <http://a/> .\n")[..20]);
    assert!(message.contains("damaged or ends early"), "{message}");
}

#[test]
fn an_archive_gives_the_file_that_is_meant() {
    let train = ("data/train.txt", &b"a\tp\tb\n"[..]);
    let test = ("data/test.txt", &b"b\tp\ta\nb\tp\tb\n"[..]);
    let hidden = ("data/._train.txt", &b"resource fork"[..]);
    let archive = gzip(&tar(&[train, hidden, test]));
    let chosen = import("fb.tar.gz", &archive).unwrap();
    assert_eq!(chosen.report.members, ["data/train.txt"]);
    assert_eq!(chosen.graph.n_edges(), 1);
    for asked in ["test.txt", "data/test.txt"] {
        let options = ImportOptions {
            member: Some(asked.to_owned()),
            ..ImportOptions::default()
        };
        let import = import_with("fb.tar.gz", &archive, options).unwrap();
        assert_eq!(import.graph.n_edges(), 2);
    }
    let only = tar(&[("x.nt", PEOPLE.as_bytes())]);
    assert_eq!(import("people.tar", only).unwrap().graph.n_edges(), 7);
    let several = tar(&[("a.nt", b""), ("b.nt", b"")]);
    let message = refused("x.tar", several);
    assert!(
        message.contains("(`member`; --member of the program): a.nt, b.nt"),
        "{message}"
    );
    assert!(refused("x.tar", tar(&[])).contains("holds no file"));
    let message = refused("x.tar", &tar(&[train])[..700]);
    assert!(message.contains("damaged or ends early"), "{message}");
    let mut wrong = tar(&[train]);
    wrong[0] = b'e';
    assert!(refused("x.tar", wrong).contains("checksum"));
}

/// The archive ends before what packs it does: its checksum counts.
#[test]
fn a_packed_archive_is_read_to_its_checksum() {
    let archive = gzip(&tar(&[("train.txt", b"a\tp\tb\n")]));
    assert!(import("x.tar.gz", &archive).is_ok());
    let mut wrong = archive.clone();
    let at = wrong.len() - 5;
    wrong[at] ^= 1;
    for damaged in [&wrong[..], &archive[..archive.len() - 8]] {
        let message = refused("x.tar.gz", damaged);
        assert!(message.contains("damaged or ends early"), "{message}");
    }
    let packed = tar(&[("train.nt.gz", &gzip(PEOPLE.as_bytes()))]);
    assert_eq!(named_edges(&import("x.tar", packed).unwrap()), people());
}

#[test]
fn options_without_a_meaning_are_refused() {
    let with = |change: fn(&mut ImportOptions)| {
        let mut options = ImportOptions::default();
        change(&mut options);
        options
    };
    for (name, text, options, reason) in [
        (
            "x.csv",
            "0,0,1\n",
            with(|o| o.literals = Literals::Drop),
            "literals",
        ),
        ("x.nt", PEOPLE, with(|o| o.n_nodes = Some(9)), "nodes"),
        (
            "x.ttl",
            PEOPLE,
            with(|o| o.max_bad_lines = 1),
            "max_bad_lines",
        ),
        (
            "x.csv",
            "0,0,1\n",
            with(|o| o.n_nodes = Some(u32::MAX - 1)),
            "nodes = 4294967294",
        ),
        (
            "x.nt",
            "<a:s> <a:p> \"x\" .\n",
            with(|o| o.literals = Literals::Drop),
            "all 1 triples have a literal",
        ),
    ] {
        let message = import_with(name, text, options).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}
