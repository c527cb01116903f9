//! Neighbours' degrees of a batch that a device counts.

use std::sync::Arc;

use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_random::KeyedRng;
use shardgraph_shard::Communication;

use super::parallel::{alone_in_products_of, played};
use crate::exchange::cut_lists;
use crate::problem::PROBLEMS;
use crate::train::batch::{Batch, Plan};

/// A device counts what the host counts, bit for bit: 4 bytes a node and 32 states go there with the scales, and nothing comes back.
#[test]
fn neighbor_degrees_are_counted_on_the_device() {
    let graphs = ["er:140:0.3", "ba:65:3"].map(|spec| {
        let spec: GeneratorSpec = spec.parse().unwrap();
        Arc::new(spec.graph(5).unwrap())
    });
    let mut random = KeyedRng::new(3, "test", 0);
    for (n_states, limit) in [(1, usize::MAX), (11, 3), (80, usize::MAX)] {
        let problem = PROBLEMS[0];
        let graph_id = |i: u64| u64::from(i.is_multiple_of(9));
        let states: Vec<_> = (0..n_states)
            .map(|i| played(problem, &graphs[graph_id(i) as usize], i % 7, &mut random))
            .collect();
        let mut rules = alone_in_products_of(limit, problem);
        let given: Vec<_> = (0..n_states)
            .map(|i| (graph_id(i), Arc::clone(&graphs[graph_id(i) as usize])))
            .collect();
        let plan = Plan::new(&given, &rules);
        let episodes: Vec<_> = states.iter().map(Some).collect();
        let want = Batch::new(&plan, &episodes, None, &rules).unwrap();
        rules.counts_on_device = true;
        for device in crate::on_device::tests::gpus() {
            let shards: Vec<_> = plan
                .cuts()
                .map(|cut| cut_lists(cut.graph, cut.partition, cut.rank, Communication::default()))
                .map(|shard| shard.resident(&device).unwrap())
                .collect();
            let before = device.traffic();
            let counted = plan.count_on(&device, &episodes, &shards, &rules).unwrap();
            let after = device.traffic();
            let found = device.download(&counted).unwrap();
            let bits = |rows: &[f32]| rows.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&found), bits(&want.states.neighbor_degree));
            let words: u64 = plan
                .cuts()
                .zip(plan.states_of_groups())
                .map(|(cut, n)| u64::from(cut.graph.n_nodes()) * n.div_ceil(32) as u64 + n as u64)
                .sum();
            assert_eq!(after.to_device_bytes - before.to_device_bytes, 4 * words);
            assert_eq!(after.to_host_bytes, before.to_host_bytes);
            let rows = Batch::new(&plan, &episodes, None, &rules).unwrap();
            assert!(rows.states.neighbor_degree.is_empty());
            assert_eq!(bits(&rows.states.edge), bits(&want.states.edge));
        }
    }
}
