//! What holds for every method: each edge and each self loop in one part, counts as a naive count
//! has them, balance, budgets.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use shardgraph_device::DeviceKind;

use crate::generate::RelationalSpec;
use crate::plan::{Bytes, DevicePlan, Exchange, ModelShape, Plan, PlanOptions};
use crate::{Config, Mode, Optimiser, Preset, RelationalGraph, RunOptions, Sums, train};

fn graph(n_nodes: u32, n_relations: u32, edges: &[(u32, u32, u32)]) -> RelationalGraph {
    let column = |pick: fn(&(u32, u32, u32)) -> u32| edges.iter().map(pick).collect();
    let (sources, relations) = (column(|e| e.0), column(|e| e.1));
    RelationalGraph::new(n_nodes, n_relations, sources, relations, column(|e| e.2)).unwrap()
}

fn cost_model(n_bases: u32) -> CostModel {
    CostModel {
        n_bases,
        self_loop: true,
    }
}

/// Small graphs with empty relations, isolated nodes, multi-edges and hubs.
fn graphs() -> impl Strategy<Value = RelationalGraph> {
    (1u32..70, 1u32..9).prop_flat_map(|(n_nodes, n_relations)| {
        let end = prop_oneof![3 => 0..n_nodes, 1 => Just(0)];
        let edge = (end, 0..n_relations, 0..n_nodes);
        let edges = proptest::collection::vec(edge, 0..200);
        edges.prop_map(move |edges| graph(n_nodes, n_relations, &edges))
    })
}

type PairSet = BTreeSet<(u32, u32)>;

/// What a part owns, and what it works on of others.
fn count_own(
    own: &std::ops::Range<u32>,
    part: usize,
    pairs: &[PairSet],
    sources: &[BTreeSet<u32>],
    load: &mut Load,
) {
    let all = pairs
        .iter()
        .flatten()
        .filter(|(source, _)| own.contains(source));
    load.n_own_pairs = all.count() as u64;
    let all: BTreeSet<u32> = sources
        .iter()
        .flatten()
        .copied()
        .filter(|node| own.contains(node))
        .collect();
    load.n_own_sources = all.len() as u64;
    let reads = sources
        .iter()
        .map(|read| read.iter().filter(|node| own.contains(node)).count() as u64);
    load.n_own_reads = reads.sum();
    let is_foreign = |source: &&u32| !own.contains(source);
    load.n_foreign_sources = sources[part].iter().filter(is_foreign).count() as u64;
    load.n_foreign_pairs = pairs[part]
        .iter()
        .filter(|(source, _)| !own.contains(source))
        .count() as u64;
}

/// Loads by their meaning: sets of what each part's edges touch.
fn naive_loads(graph: &RelationalGraph, partition: &Partition) -> Vec<Load> {
    let n_parts = partition.n_parts() as usize;
    let mut loads = vec![Load::default(); n_parts];
    let mut pairs = vec![BTreeSet::new(); n_parts];
    let mut sources = vec![BTreeSet::new(); n_parts];
    let mut relations = vec![BTreeSet::new(); n_parts];
    for edge in graph.edges() {
        let part = partition.part_of(edge.source, edge.relation) as usize;
        loads[part].n_edges += 1;
        pairs[part].insert((edge.source, edge.relation));
        sources[part].insert(edge.source);
        relations[part].insert(edge.relation);
    }
    for part in 0..n_parts {
        let own = partition.own_nodes(part as u32);
        loads[part].n_own_nodes = own.len() as u64;
        if partition.has_self_loops {
            loads[part].n_self_loops = own.len() as u64;
            sources[part].extend(own);
        }
        loads[part].n_pairs = pairs[part].len() as u64;
        loads[part].n_sources = sources[part].len() as u64;
        loads[part].n_relations = relations[part].len() as u64;
        let own = partition.own_nodes(part as u32);
        count_own(&own, part, &pairs, &sources, &mut loads[part]);
    }
    loads
}

proptest! {
    #[test]
    fn every_edge_and_self_loop_is_in_one_part(
        graph in graphs(), n_parts in 1u32..8, n_bases in prop_oneof![Just(0u32), Just(5)], block in 1u32..20,
    ) {
        let pairs = Pairs::of(&graph);
        let model = cost_model(n_bases);
        for method in Method::ALL {
            let partition = Partition::new(&pairs, method, n_parts, model, block).unwrap();
            let loads = partition.loads(&pairs);
            prop_assert_eq!(loads.as_slice(), &naive_loads(&graph, &partition)[..], "{}", method);
            let n_edges: u64 = loads.as_slice().iter().map(|load| load.n_edges).sum();
            prop_assert_eq!(n_edges, graph.n_edges() as u64);
            let mut end = 0;
            for part in 0..n_parts {
                prop_assert_eq!(partition.own_nodes(part).start, end);
                end = partition.own_nodes(part).end;
            }
            prop_assert_eq!(end, graph.n_nodes());
            for part in 0..n_parts {
                for border in [partition.own_nodes(part).start, partition.own_nodes(part).end] {
                    prop_assert!(border.is_multiple_of(block) || border == graph.n_nodes());
                }
            }
        }
    }

    #[test]
    fn the_named_methods_deal_whole_relations(graph in graphs(), n_parts in 1u32..8) {
        let pairs = Pairs::of(&graph);
        let model = cost_model(0);
        for method in [Method::M1, Method::M2] {
            let partition = Partition::new(&pairs, method, n_parts, model, 1).unwrap();
            prop_assert_eq!(partition.loads(&pairs).n_split_relations(), 0);
            let rounds = graph.n_relations().div_ceil(n_parts) as usize;
            if method == Method::M2 {
                for part in 0..n_parts {
                    let relations = 0..graph.n_relations();
                    let of_part = relations.filter(|&relation| partition.part_of(0, relation) == part);
                    prop_assert!(of_part.count() <= rounds);
                }
            }
        }
    }

    #[test]
    fn source_ranges_replicate_nothing(graph in graphs(), n_parts in 1u32..8) {
        let pairs = Pairs::of(&graph);
        let partition =
            Partition::new(&pairs, Method::Source, n_parts, cost_model(3), 1).unwrap();
        let loads = partition.loads(&pairs);
        prop_assert_eq!((loads.n_foreign_sources(), loads.n_foreign_pairs()), (0, 0));
        prop_assert!(partition.is_by_source());
        for edge in graph.edges() {
            let part = partition.part_of(edge.source, edge.relation);
            prop_assert!(partition.own_nodes(part).contains(&edge.source));
        }
    }

    #[test]
    fn numbering_relations_anew_changes_no_largest_cost(graph in graphs(), n_parts in 1u32..6) {
        let (sources, relations, targets) = graph.columns();
        let last = graph.n_relations() - 1;
        let turned = relations.iter().map(|relation| last - relation).collect();
        let turned = RelationalGraph::new(
            graph.n_nodes(), graph.n_relations(), sources.to_vec(), turned, targets.to_vec(),
        ).unwrap();
        let model = cost_model(2);
        for method in [Method::M1, Method::Source] {
            let unevenness = |graph: &RelationalGraph| {
                let pairs = Pairs::of(graph);
                let partition = Partition::new(&pairs, method, n_parts, model, 1).unwrap();
                match method {
                    Method::M1 => partition.loads(&pairs).edges_max_over_mean(),
                    _ => partition.loads(&pairs).max_over_mean(model),
                }
            };
            prop_assert_eq!(unevenness(&graph).to_bits(), unevenness(&turned).to_bits());
        }
    }
}

#[test]
fn the_snake_goes_there_and_back() {
    // Relation r has 10 - r edges, so they are dealt in their order: 0 1 2 | 2 1 0 | 0.
    let edges: Vec<(u32, u32, u32)> = (0..7u32)
        .flat_map(|relation| (0..10 - relation).map(move |target| (relation, relation, target)))
        .collect();
    let pairs = Pairs::of(&graph(10, 7, &edges));
    let model = cost_model(0);
    let partition = Partition::new(&pairs, Method::M2, 3, model, 1).unwrap();
    let parts: Vec<u32> = (0..7)
        .map(|relation| partition.part_of(0, relation))
        .collect();
    assert_eq!(parts, [0, 1, 2, 2, 1, 0, 0]);
    // Fewest edges first: 10, 9, 8 to three parts, then 7 to the one of 8, 6 to 9, 5 to 10, 4 to
    // one of three with 15.
    let partition = Partition::new(&pairs, Method::M1, 3, model, 1).unwrap();
    let parts: Vec<u32> = (0..7)
        .map(|relation| partition.part_of(0, relation))
        .collect();
    assert_eq!(parts, [0, 1, 2, 2, 1, 0, 0]);
}

#[test]
fn a_hot_relation_is_cut_by_the_methods_that_may() {
    // Three quarters of the edges in one relation, as in the Amsterdam Museum's graph.
    let edges: Vec<(u32, u32, u32)> = (0..4000u32)
        .map(|idx| {
            (
                idx % 997,
                if idx % 4 == 0 { 1 + idx % 7 } else { 0 },
                idx % 31,
            )
        })
        .collect();
    let pairs = Pairs::of(&graph(997, 8, &edges));
    let model = cost_model(40);
    let unevenness = |method| {
        let partition = Partition::new(&pairs, method, 4, model, 1).unwrap();
        partition.loads(&pairs).max_over_mean(model)
    };
    assert!(unevenness(Method::M1) > 1.4);
    assert!(unevenness(Method::M2) > 1.4);
    assert!(unevenness(Method::Source) < 1.05);
}

#[test]
fn generated_graphs_are_even_by_sources() {
    for name in [
        "ba-rel:20000:2.5:100",
        "ba-rel:20000:2.5:100:zipf",
        "ba-rel:20000:2.5:3",
    ] {
        let spec: RelationalSpec = name.parse().unwrap();
        let pairs = Pairs::of(&spec.graph(1).unwrap().with_inverses().unwrap());
        for (n_bases, n_parts) in [(40, 2), (40, 4), (40, 7), (0, 4), (0, 6)] {
            let model = cost_model(n_bases);
            let partition = Partition::new(&pairs, Method::Source, n_parts, model, 1).unwrap();
            let unevenness = partition.loads(&pairs).max_over_mean(model);
            assert!(unevenness < 1.05, "{name} {n_parts}: {unevenness}");
        }
    }
}

fn options(method: Method, n_devices: u32) -> PlanOptions {
    PlanOptions {
        method,
        n_devices,
        shape: ModelShape {
            config: Config {
                hidden: vec![10],
                mode: Mode::Full,
                ..Config::preset(Preset::Paper)
            },
            classes: 10,
        },
        budget: None,
        may_tile: false,
        device: DeviceKind::Host,
        labels: None,
    }
}

fn generated(name: &str) -> RelationalGraph {
    let spec: RelationalSpec = name.parse().unwrap();
    spec.graph(1).unwrap().with_inverses().unwrap()
}

#[test]
fn bytes_add_up_to_the_whole_where_nothing_is_replicated() {
    let graph = generated("ba-rel:3000:2.5:20");
    let plan = |method, n_devices| Plan::new(&graph, &options(method, n_devices)).unwrap().1;
    let (one, four) = (plan(Method::Source, 1), plan(Method::Source, 4));
    assert_eq!(one.bytes_per_device, [one.bytes_whole]);
    assert_eq!((one.messages_per_step, one.replicated_bytes), (0, 0));
    assert_eq!(four.bytes_whole, one.bytes_whole);
    assert_eq!(four.replicated_bytes, 0);
    let sum = |plan: &Plan, bytes: fn(&Bytes) -> u64| -> u64 {
        plan.devices.iter().map(|device| bytes(&device.bytes)).sum()
    };
    for bytes in [
        |bytes: &Bytes| bytes.weights,
        |bytes: &Bytes| bytes.units,
        // A list of starts has one entry more in each part.
        |bytes: &Bytes| bytes.edges - 8,
    ] {
        assert_eq!(sum(&four, bytes), sum(&one, bytes));
    }
    let by_relation = plan(Method::M1, 4);
    let weights = |bytes: &Bytes| bytes.weights;
    assert_eq!(sum(&by_relation, weights), sum(&one, weights));
    let more = by_relation.replicated_bytes;
    assert!(more > 0 && more < sum(&by_relation, |bytes| bytes.copies));
    let is_of_v = |exchange: &&Exchange| exchange.what.starts_with("rows of the input");
    assert_eq!(four.exchanges.iter().filter(is_of_v).count(), 0);
    let exchanged = by_relation.exchanges.iter().find(is_of_v).unwrap();
    assert_eq!(exchanged.bytes, more);
}

/// Settings of one epoch in which each kind of array has another size.
fn variants() -> Vec<Config> {
    let sgd = options(Method::Source, 1).shape.config;
    let changed = |change: fn(&mut Config)| {
        let mut config = Config {
            epochs: 1,
            ..sgd.clone()
        };
        change(&mut config);
        config
    };
    vec![
        changed(|_| {}),
        changed(|config| config.optimiser = Optimiser::Adam),
        changed(|config| (config.bases, config.bias) = (0, true)),
        changed(|config| config.sums = Sums::Float),
        changed(|config| config.self_loop = false),
        changed(|config| (config.embedding, config.bases) = (8, 3)),
        changed(|config| config.hidden = vec![10, 10]),
    ]
}

/// Each variant on one device, on three by source, and on four by one method or another.
fn planned_cases() -> Vec<(usize, Config, (u32, Method))> {
    let cases = variants()
        .into_iter()
        .enumerate()
        .flat_map(|(variant, config)| {
            let case = move |cut| (variant, config.clone(), cut);
            [
                (1, Method::Source),
                (3, Method::Source),
                (4, Method::ALL[variant % 3]),
            ]
            .map(case)
        });
    cases.collect()
}

/// The trainer's own count against the plan's, which is made before any array is there: of the
/// arrays after a step, and on each device of all at the fullest moment of one, the gradients among
/// them.
#[test]
fn planned_bytes_are_those_that_the_trainer_counts() {
    let spec: RelationalSpec = "ba-rel:20000:2.5:20:zipf".parse().unwrap();
    let graph = spec.graph(1).unwrap().with_inverses().unwrap();
    let labels = spec.labels(1).unwrap();
    for (variant, config, (n_ranks, method)) in planned_cases() {
        {
            let mut options = options(method, n_ranks);
            options.shape.config = config.clone();
            let (_, plan) = Plan::new(&graph, &options).unwrap();
            let run = RunOptions {
                n_ranks,
                partition: method,
                ..RunOptions::default()
            };
            let outcome = train(&graph, &labels, &config, &run, &mut |_| ()).unwrap();
            let kept = |device: &DevicePlan| device.bytes.total() - device.bytes.gradients;
            let planned: u64 = plan.devices.iter().map(kept).sum();
            let counted: u64 = outcome.bytes_per_rank.iter().sum();
            let case =
                format!("variant {variant}, {n_ranks} ranks by {method}: {planned} for {counted}");
            assert_eq!(planned, counted, "{case}");
            for (planned, held) in plan.devices.iter().zip(&outcome.devices) {
                assert_eq!(planned.bytes.total(), held.peak_bytes, "{case}: {held:?}");
            }
        }
    }
}

#[test]
fn a_budget_refuses_with_what_would_fit_or_divides_into_tiles() {
    let graph = generated("ba-rel:3000:2.5:20");
    let plan = |n_devices, budget, may_tile| {
        let options = PlanOptions {
            budget: Some(budget),
            may_tile,
            ..options(Method::Source, n_devices)
        };
        Plan::new(&graph, &options).map(|(_, plan)| plan)
    };
    let whole = plan(1, u64::MAX, false).unwrap().bytes_whole;
    assert!(plan(1, whole, false).is_ok());
    let refused = plan(1, whole - 1, false).unwrap_err();
    assert!(matches!(refused, Error::Memory(_)));
    let message = refused.to_string();
    assert!(message.contains("tiles would fit"), "{message}");
    assert!(
        message.contains("2 devices by the method source would fit"),
        "{message}"
    );
    for divisor in [2, 3] {
        let tiled = plan(1, whole / divisor, true).unwrap();
        let device = &tiled.devices[0];
        assert!(device.tiles > 1 && device.held_bytes <= whole / divisor);
        let streamed = device.bytes.streamed();
        assert!(device.held_bytes >= device.bytes.resident() + 2 * (streamed / device.tiles));
        // One tile fewer would not fit.
        let fewer = device.bytes.resident() + 2 * streamed.div_ceil(device.tiles - 1);
        assert!(fewer > whole / divisor);
    }
    let resident = plan(1, whole, false).unwrap().devices[0].bytes.resident();
    let message = plan(1, resident, true).unwrap_err().to_string();
    assert!(
        message.contains("even the smallest tiles need"),
        "{message}"
    );
    let message = plan(1, 1, true).unwrap_err().to_string();
    assert!(message.contains("the least budget"), "{message}");
}

#[test]
fn numbers_of_devices_out_of_range_are_refused() {
    let graph = graph(2, 1, &[(0, 0, 1)]);
    for n_devices in [0, MAX_PARTS + 1] {
        let refused = Plan::new(&graph, &options(Method::M1, n_devices)).unwrap_err();
        assert!(refused.to_string().contains("expected 1 to 4096"));
    }
    // More devices than nodes and relations: some have nothing to do.
    for method in Method::ALL {
        let (partition, plan) = Plan::new(&graph, &options(method, 9)).unwrap();
        assert_eq!(
            plan.devices
                .iter()
                .map(|device| device.load.n_edges)
                .sum::<u64>(),
            1
        );
        assert_eq!(partition.n_parts(), 9);
    }
}

#[test]
fn names_are_read_back() {
    for method in Method::ALL {
        assert_eq!(method.name().parse::<Method>().unwrap(), method);
    }
    let message = "metis".parse::<Method>().unwrap_err().to_string();
    assert_eq!(message, "method = metis: expected m1, m2 or source");
}
