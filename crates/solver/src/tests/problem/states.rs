//! What networks read of the states of a play: rows against counts, the closed form against the model.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The states of problems without features keep what the closed form needs, at every step of a play.
    #[test]
    fn the_closed_form_holds_for_every_state(problem in problem(), n in 1u32..34, seed in 0u64..1000, n_layers in 1usize..=3) {
        let graph = graph_of(n, seed, false);
        let policy = policy(problem, seed, n_layers);
        let mut episode = problem.begin(Arc::clone(&graph));
        while !episode.is_done() {
            let general = scores(&graph, &episode, &policy, Path::General);
            let largest = general.iter().fold(0.1f32, |m, x| m.max(x.abs()));
            let mut paths = vec![Path::FreeFirstLayer];
            paths.extend((problem.n_node_features == 0).then_some(Path::Collapsed));
            for path in paths {
                let special = scores(&graph, &episode, &policy, path);
                for node in (0..n).filter(|&node| episode.is_candidate(node)) {
                    let (a, b) = (general[node as usize], special[node as usize]);
                    prop_assert!((a - b).abs() <= 1e-4 * largest, "{} {}: {} {}", path, node, a, b);
                }
            }
            let node = (0..n).filter(|&node| episode.is_candidate(node)).max_by_key(|v| v ^ (seed as u32)).unwrap();
            episode.pick(node).unwrap();
        }
    }

    /// What the network reads of a maximum cut, against sums over all edges.
    #[test]
    fn the_rows_of_a_cut_are_counted(n in 1u32..20, seed in 0u64..1000) {
        let graph = graph_of(n, seed, true);
        let mut episode = MAXIMUM_CUT.begin(Arc::clone(&graph));
        while !episode.is_done() {
            let batch = rows(&graph, &episode, AdjacencyScale::One, Path::FreeFirstLayer);
            for v in 0..n {
                let side = |u: u32| episode.in_answer()[u as usize];
                let (mut positive, mut negative, mut gain) = (0.0, 0.0, 0.0);
                for (a, b, weight) in graph.weighted_edges().filter(|e| e.0 == v || e.1 == v) {
                    positive += weight.max(0.0);
                    negative += (-weight).max(0.0);
                    gain += if side(a) == side(b) { weight } else { -weight };
                }
                let row = v as usize;
                prop_assert_eq!(&batch.node[2 * row..][..2], &[f32::from(u8::from(side(v))), gain]);
                prop_assert_eq!(&batch.edge[2 * row..][..2], &[positive, negative]);
            }
            let node = (0..n).find(|&node| episode.is_candidate(node)).unwrap();
            episode.pick(node).unwrap();
        }
    }

    /// What the network reads of a dominating set, against a look at every neighbour.
    #[test]
    fn the_rows_of_a_dominating_set_are_counted(n in 1u32..20, seed in 0u64..1000) {
        let graph = graph_of(n, seed, false);
        let mut episode = MINIMUM_DOMINATING_SET.begin(Arc::clone(&graph));
        while !episode.is_done() {
            let batch = rows(&graph, &episode, AdjacencyScale::LargestDegree, Path::FreeFirstLayer);
            let scale = AdjacencyScale::LargestDegree.of_state(&episode);
            let around = |v: u32| graph.neighbors(v).iter().copied().chain([v]);
            let is_open = |v: &u32| !around(*v).any(|u| episode.in_answer()[u as usize]);
            let n_new = |v: u32| around(v).filter(is_open).count();
            let most = (0..n).map(n_new).max().unwrap_or(0) as f32;
            for v in 0..n {
                let is_near = |u: &&u32| n_new(v) > 0 && n_new(**u) > 0;
                let degree = graph.neighbors(v).iter().filter(is_near).count();
                let expected = [
                    f32::from(u8::from(episode.in_answer()[v as usize])),
                    f32::from(u8::from(is_open(&v))) / most,
                    n_new(v) as f32 / most,
                ];
                prop_assert_eq!(&batch.node[3 * v as usize..][..3], &expected);
                prop_assert_eq!(&batch.edge[2 * v as usize..][..2], &[scale * degree as f32, 0.0]);
            }
            let node = (0..n).rev().find(|&node| episode.is_candidate(node)).unwrap();
            episode.pick(node).unwrap();
        }
    }
}

fn rows(
    graph: &Graph,
    episode: &Episode,
    scale: AdjacencyScale,
    path: Path,
) -> shardgraph_layers::StateBatch {
    let group = Group {
        partition: Partition::by_rows(graph.n_nodes(), 1),
        n_states: 1,
    };
    let layout = Arc::new(BatchLayout::new(vec![group], 0));
    let rows = StateRows::new(graph, episode, scale, path);
    let mut batch = without_rows(&layout);
    (0..graph.n_nodes()).for_each(|node| rows.push(node, &mut batch));
    let shard = RowShard::Csr(Arc::new(CsrShard::by_rows(graph, 0..graph.n_nodes())));
    let keep = vec![rows.keep().collect()];
    let propagation = Propagation::new(layout, vec![shard], keep, vec![rows.scale]).unwrap();
    batch.propagation = Some(Arc::new(propagation));
    batch
}

fn scores(graph: &Graph, episode: &Episode, policy: &TrainedPolicy, path: Path) -> Vec<f32> {
    let batch = rows(graph, episode, policy.config.adjacency_scale, path);
    let (device, mut comm) = (Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, &policy.params);
    let embed = policy
        .model
        .embedding
        .embed(&mut ctx, &batch, path)
        .unwrap();
    let scores = policy
        .model
        .head
        .node_values(&mut ctx, embed, &batch.layout);
    let scores = scores.unwrap();
    ctx.values(scores).unwrap()
}
