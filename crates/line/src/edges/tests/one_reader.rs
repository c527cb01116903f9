//! An import and the ordinary reader give one answer for any edge list.

use super::*;

/// An edge list of few ids, with self-loops, duplicates, comments, text and broken lines among them.
fn any_text() -> impl Strategy<Value = String> {
    let id = prop_oneof![
        8 => (0u32..6).prop_map(|id| id.to_string()),
        1 => Just("18446744073709551615".to_owned()),
        1 => Just("007".to_owned()),
        1 => Just("ann".to_owned()),
    ];
    let ids =
        prop_oneof![3 => (id.clone(), id.clone()), 1 => id.clone().prop_map(|id| (id.clone(), id))];
    let line = prop_oneof![
        20 => ids.prop_map(|(u, v)| format!("{u} {v}")),
        1 => Just("# a comment".to_owned()),
        1 => Just(String::new()),
        1 => id.prop_map(|id| format!("{id} {id} 2.5")),
        1 => Just("1".to_owned()),
        1 => Just("from to".to_owned()),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// One reader, one answer: an import has the nodes and the edges of the ordinary reader, which
    /// merges duplicates, or refuses with the same words.
    #[test]
    fn an_import_reads_what_the_ordinary_reader_reads(text in any_text()) {
        let read = shardgraph_graph::ReadOptions::default();
        let folder = tempfile::tempdir().unwrap();
        let (input, out) = (folder.path().join("g.txt"), folder.path().join("g.store"));
        fs::write(&input, &text).unwrap();
        let ordinary = shardgraph_graph::read_graph(&input, &read);
        let imported = import_file(&input, &out, &ImportOptions::default());
        match (ordinary, imported) {
            (Err(ordinary), Err(imported)) => {
                prop_assert_eq!(ordinary.to_string(), imported.to_string());
                prop_assert!(!out.exists());
            }
            (Ok(ordinary), Ok(imported)) => {
                let store = Store::open(&out).unwrap();
                let labels: Vec<String> = (0..ordinary.labels.n_nodes())
                    .map(|v| ordinary.labels.get(v))
                    .collect();
                let found = store.labels().unwrap();
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), labels.clone());
                prop_assert_eq!(imported.self_loops_dropped, ordinary.report.self_loops_dropped);
                let name = |v: u32| labels[v as usize].clone();
                let mut expected: Vec<_> = ordinary.graph.edges()
                    .map(|(u, v)| (name(u).min(name(v)), name(u).max(name(v))))
                    .collect();
                expected.sort();
                let mut edges = edges_of(&store);
                prop_assert_eq!(edges.len() as u64, imported.n_edges);
                edges.dedup();
                prop_assert_eq!(edges, expected);
            }
            (ordinary, imported) => prop_assert!(false, "{:?} and {:?}", ordinary.is_ok(), imported.is_ok()),
        }
    }
}
