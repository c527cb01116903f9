//! What is written is read back bit for bit; what is damaged is refused.

use super::*;
use proptest::prelude::*;

const ALL: [(&str, FileFormat); 6] = [
    ("e.csv", FileFormat::Csv),
    ("e.npz", FileFormat::Npz),
    ("e.npy", FileFormat::Npy),
    ("e.vec", FileFormat::Word2vecText),
    ("e.bin", FileFormat::Word2vecBinary),
    ("e.safetensors", FileFormat::Safetensors),
];

fn sample(n_nodes: usize, dim: usize) -> Embedding {
    let values = (0..n_nodes * dim).map(|i| (i as f32 - 3.0) * 0.1).collect();
    let labels: Vec<String> = (0..n_nodes).map(|i| format!("knoten-ä{i}")).collect();
    Embedding::new(
        dim,
        values,
        NodeLabels::new(labels.iter().map(String::as_str)),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn every_form_gives_back_the_bits(
        n_nodes in prop::sample::select(vec![0usize, 1, 2, 31, 33, 65]),
        dim in prop::sample::select(vec![1usize, 2, 31, 64, 65]),
        bits in prop::collection::vec(any::<u32>(), 65 * 65),
    ) {
        let value = |bits: &u32| Some(f32::from_bits(*bits)).filter(|x| !x.is_nan()).unwrap_or(-0.0);
        let values = bits[..n_nodes * dim].iter().map(value).collect();
        let embedding = Embedding::new(dim, values, sample(n_nodes, 1).labels().clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, format) in ALL {
            let path = folder.path().join(name);
            prop_assert_eq!(FileFormat::from_path(&path), format);
            write(&path, &embedding, None).unwrap();
            let back = read(&path, None).unwrap();
            let bits = |e: &Embedding| e.values().iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            prop_assert_eq!(bits(&back), bits(&embedding));
            prop_assert_eq!(back.labels(), embedding.labels());
        }
    }
}

#[test]
fn a_file_that_is_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // A table with commas does not say how many lines it has.
    for (name, _) in ALL
        .into_iter()
        .filter(|(_, format)| *format != FileFormat::Csv)
    {
        let path = folder.path().join(name);
        write(&path, &sample(3, 2), None).unwrap();
        let whole = fs::read(&path).unwrap();
        // The last byte of word2vec's forms is a newline that may be absent, and digits may be
        // fewer.
        for len in 0..whole.len().saturating_sub(8) {
            fs::write(&path, &whole[..len]).unwrap();
            let message = read(&path, None).unwrap_err().to_string();
            assert!(message.contains(name), "{name} cut to {len}: {message}");
        }
    }
}

#[test]
fn tables_with_commas_have_any_names_and_their_errors_a_line() {
    let labels = NodeLabels::new(["Lee, Anna", "a \"b\"", "c d"]);
    let embedding = Embedding::new(2, vec![1.0, -0.5, 2.0, 0.25, 0.0, 3.0], labels).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.csv");
    write(&path, &embedding, None).unwrap();
    let text = "node,x0,x1\n\"Lee, Anna\",1,-0.5\n\"a \"\"b\"\"\",2,0.25\nc d,0,3\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(read(&path, None).unwrap(), embedding);
    // Without a header, with blanks, as another program writes it.
    fs::write(&path, "c d, 0, 3\r\n").unwrap();
    assert_eq!(read(&path, None).unwrap().values(), [0.0, 3.0]);
    for (text, reason) in [
        ("", "expected lines of a node"),
        ("a\n", "line 1: expected a node"),
        ("a,1\n\nb,1\n", "line 2: expected a node"),
        ("a,1,2\nb,1\n", "line 2: expected 2 numbers, found 1"),
        ("a,1\nb,x\n", "line 2: expected a number, found `x`"),
        ("a,1\na,2\n", "both called `a`"),
        ("a,1\n\"b,2\n", "line 2: expected a node"),
        ("a,nan\n", "e.csv"),
    ] {
        fs::write(&path, text).unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(message.contains(reason), "{text:?}: {message}");
    }
    for (name, label) in [
        ("e.csv", "a\nb"),
        ("e.npy", "a\rb"),
        ("e.vec", "a b"),
        ("e.bin", ""),
    ] {
        let one = Embedding::new(1, vec![1.0], NodeLabels::new([label])).unwrap();
        let message = write(&folder.path().join(name), &one, None).unwrap_err();
        assert!(message.to_string().contains("take npz"), "{message}");
    }
}

#[test]
fn numpy_reads_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.npy");
    write(&path, &sample(3, 2), None).unwrap();
    let bytes = fs::read(&path).unwrap();
    let header = String::from_utf8_lossy(&bytes[10..128]);
    assert!(header.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"));
    assert!(header.ends_with(" \n"));
    assert_eq!(u16::from_le_bytes([bytes[8], bytes[9]]), 118);
    assert_eq!(bytes.len(), 128 + 24);
    assert_eq!(
        fs::read_to_string(folder.path().join("e.npy.labels"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}

#[test]
fn what_a_form_cannot_hold_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let blank = Embedding::new(1, vec![1.0], NodeLabels::new(["two words"])).unwrap();
    for name in ["e.vec", "e.bin"] {
        let path = folder.path().join(name);
        assert!(
            write(&path, &blank, None)
                .unwrap_err()
                .to_string()
                .contains("`two words` has a blank")
        );
        assert!(!path.exists());
    }
    for name in ["e.npy", "e.safetensors"] {
        let path = folder.path().join(name);
        write(&path, &blank, None).unwrap();
        assert_eq!(read(&path, None).unwrap(), blank);
    }
    for (name, text, reason) in [
        (
            "a.vec",
            "1 2\nx 1 y\n",
            "line 2: expected a number, found `y`",
        ),
        ("b.vec", "1 2\nx 1\n", "line 2: expected 2 numbers, found 1"),
        (
            "c.vec",
            "2 1\nx 1\n",
            "expected 2 rows by the first line, found 1",
        ),
        ("d.vec", "hello\n", "expected a first line `n dim`"),
        ("e.npy", "hello\n", "no .npy file"),
        ("f.safetensors", "hello\n", "no safetensors file"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let message = read(&path, None).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_link_is_followed_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("real.npy"), folder.path().join("e.npy"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::write(&file, "an earlier one").unwrap();
    for n_nodes in [3, 5] {
        write(&link, &sample(n_nodes, 2), None).unwrap();
        assert!(link.is_symlink() && !file.is_symlink());
        for path in [&file, &link] {
            assert_eq!(read(path, None).unwrap(), sample(n_nodes, 2));
        }
        let n_files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(n_files, 3, "rows, labels and the link");
    }
}

/// Each of the two files fails to get its name, with and without earlier ones: these stay, with
/// their labels.
#[test]
fn an_earlier_embedding_stays_where_the_new_one_fails() {
    for (has_labels, fails) in [
        (true, ".labels."),
        (false, ".labels."),
        (true, "npy."),
        (false, "npy."),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.npy");
        write(&path, &sample(3, 2), None).unwrap();
        if !has_labels {
            fs::remove_file(labels_path(&path)).unwrap();
        }
        let earlier = read(&path, None).unwrap();
        let rows = stage(&path, |out| npy::write(out, &sample(3, 1))).unwrap();
        let labels = stage(&labels_path(&path), |out| out.write_all(b"x\ny\nz\n")).unwrap();
        let process = std::process::id();
        let staged = fs::read_dir(folder.path()).unwrap();
        let staged = staged.map(|entry| entry.unwrap().path()).find(|path| {
            let name = path.to_string_lossy();
            name.contains(&format!("{fails}{process}")) && name.ends_with(".tmp")
        });
        fs::remove_file(staged.unwrap()).unwrap();
        let labels_path = labels_path(&path);
        let rows = Staged {
            path: &path,
            file: rows,
        };
        let labels = Staged {
            path: &labels_path,
            file: labels,
        };
        let error = publish_with_labels(rows, labels).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(read(&path, None).unwrap(), earlier);
        let n_files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(n_files, 1 + usize::from(has_labels), "nothing else is left");
    }
}
