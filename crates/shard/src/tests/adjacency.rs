//! Both forms of a whole graph answer alike, and the smaller one is chosen.

use proptest::prelude::*;

use super::{graph_of, listed_edges};
use crate::{Adjacency, BitShard, Storage, choose_storage, naive};

proptest! {
    #[test]
    fn both_forms_answer_alike((n, edges) in listed_edges(), seed: u64) {
        let (graph, matrix) = (graph_of(n, &edges, false), naive::matrix(n, &edges));
        let bits = Adjacency::Bits(BitShard::from_graph(&graph, 0..n));
        let in_cover: Vec<bool> = (0..n).map(|v| seed.rotate_left(v) % 8 != 0).collect();
        for form in [Adjacency::Csr(graph.clone().into()), bits] {
            prop_assert_eq!((form.n_nodes(), form.n_edges()), (n, naive::n_edges(&matrix)));
            for u in 0..n {
                let mut row = Vec::new();
                form.for_each_neighbor(u, &mut |v| row.push(v));
                prop_assert_eq!(&row, &naive::neighbors(&matrix, u, 0..n));
                prop_assert_eq!(form.degree(u) as usize, row.len());
                prop_assert!((0..n).all(|v| form.has_edge(u, v) == matrix[u as usize][v as usize]));
            }
            prop_assert_eq!(form.uncovered_edge(&in_cover), naive::uncovered_edge(&matrix, &in_cover));
            prop_assert_eq!(form.maximal_matching(), naive::maximal_matching(&matrix));
            prop_assert_eq!(form.degrees(), graph.degrees());
            prop_assert_eq!(form.into_graph().unwrap(), graph.clone());
        }
    }

    #[test]
    fn the_chosen_form_is_the_smaller((n, edges) in listed_edges(), weighted: bool) {
        let graph = graph_of(n, &edges, weighted);
        let n_edges = graph.n_edges();
        let chosen = Adjacency::from_graph(graph);
        prop_assert_eq!(chosen.storage(), choose_storage(n, n_edges as f64, weighted));
        // Without row pointers and the rounding of rows to words, which the rule leaves out.
        let (list_bytes, bit_bytes) = (8 * n_edges, u64::from(n).pow(2) / 8);
        match chosen.storage() {
            Storage::Bits => prop_assert!(!weighted && bit_bytes < list_bytes),
            Storage::Csr => prop_assert!(weighted || list_bytes <= bit_bytes + 1),
        }
    }
}

#[test]
fn the_border_is_at_a_density_of_one_in_32() {
    let n = 1 << 10; // density 1/32 is n^2 / 64 edges
    assert_eq!(choose_storage(n, 16_384.0, false), Storage::Csr);
    assert_eq!(choose_storage(n, 16_384.5, false), Storage::Bits);
    assert_eq!(choose_storage(n, 400_000.0, true), Storage::Csr);
    assert_eq!(choose_storage(0, 0.0, false), Storage::Csr);
    assert_eq!(choose_storage(u32::MAX, 1e9, false), Storage::Csr);
}

#[test]
fn stated_bytes_are_those_of_the_arrays() {
    let mut edges: Vec<_> = (0..64).map(|v| (v, (v + 1) % 64)).collect();
    edges.push((0, 2)); // one more than a density of 1/32
    assert_eq!(
        Adjacency::Csr(graph_of(64, &edges, false).into()).bytes(),
        8 * 65 + 4 * 130
    );
    assert_eq!(
        Adjacency::Csr(graph_of(64, &edges, true).into()).bytes(),
        8 * 65 + 8 * 130
    );
    assert_eq!(
        Adjacency::from_graph(graph_of(64, &edges, false)).bytes(),
        64 * 8
    );
}
