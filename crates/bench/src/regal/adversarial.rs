//! The graphs on which a method is worst: simulated annealing over small graphs looks for the largest ratio of its runtime to that
//! of HEFT.
//!
//! The idea and the moves are those of PISA (Coleman and Krishnamachari, arXiv:2403.07120).

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_costgraph::{
    DecoderKind, DeviceSet, Graph, GraphBuilder, ModelOptions, NAMED_LINKS, Objective, OpSpec,
    Problem, TensorSpec, baseline,
};
use shardgraph_random::KeyedRng;
use shardgraph_regal::{Method, PlaceOptions, place};

use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};

/// The longest op, in nanoseconds, and the largest tensor, in bytes: over PCIe 4 about as much.
const LONGEST: usize = 1_000_000;
const LARGEST: usize = 24_000_000;
/// The temperature falls from the first to the second, in units of the ratio.
const TEMPERATURES: [f64; 2] = [0.3, 0.003];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    methods: Vec<Named>,
    n_ops: usize,
    devices: usize,
    links: String,
    evaluations: u64,
    steps: u64,
    /// Independent searches, of which the worst ratio counts.
    searches: u64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    method: Method,
    #[serde(default)]
    decoder: Option<DecoderKind>,
}

/// A graph that can be changed: op i may feed ops after it alone.
#[derive(Clone)]
struct Instance {
    costs: Vec<u64>,
    /// By pair (i, j) with i < j, at `i * n + j`: the bytes that j reads of i.
    bytes: Vec<Option<u64>>,
}

impl Instance {
    fn draw(n: usize, dice: &mut KeyedRng) -> Instance {
        let mut instance = Instance {
            costs: (0..n).map(|_| 1 + dice.index(LONGEST) as u64).collect(),
            bytes: vec![None; n * n],
        };
        for j in 1..n {
            let i = dice.index(j);
            instance.bytes[i * n + j] = Some(dice.index(LARGEST) as u64);
        }
        instance
    }

    /// A neighbour: another cost, other bytes, an edge more or less.
    fn changed(&self, dice: &mut KeyedRng) -> Instance {
        let n = self.costs.len();
        let mut next = self.clone();
        let j = 1 + dice.index(n - 1);
        let edge = dice.index(j) * n + j;
        match dice.index(3) {
            0 => next.costs[dice.index(n)] = 1 + dice.index(LONGEST) as u64,
            1 => next.bytes[edge] = Some(dice.index(LARGEST) as u64),
            _ => next.bytes[edge] = None,
        }
        next
    }

    fn graph(&self) -> Result<Graph, Failure> {
        let n = self.costs.len();
        let mut builder = GraphBuilder::new("adversarial");
        for (op, &cost) in self.costs.iter().enumerate() {
            builder.op(OpSpec::new(format!("op{op}"), cost));
        }
        for (edge, bytes) in self.bytes.iter().enumerate() {
            if let Some(bytes) = *bytes {
                let (i, j) = ((edge / n) as u32, (edge % n) as u32);
                builder.tensor(TensorSpec::new(i, bytes, &[j]));
            }
        }
        Ok(builder.build()?)
    }
}

/// The worst ratio to HEFT that annealing finds for each method.
pub(crate) fn run(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    let mut request: Request = parsed(request)?;
    request.steps = context.options.sized(request.steps, super::TEST_STEPS);
    request.searches = context.options.sized(request.searches, 1);
    let named = NAMED_LINKS.iter().find(|of| of.name == request.links);
    let link = named.ok_or_else(|| Failure::from(format!("no links {}", request.links)))?;
    let devices = DeviceSet::uniform(request.devices, None)?.with_link(link.link)?;
    for &named in &request.methods {
        let (mut worst, mut ops) = (0.0f64, 0);
        for seed in 1..=request.searches {
            let found = anneal(&request, named, &devices, seed)?;
            worst = worst.max(found);
            ops = request.n_ops;
        }
        out.row(json!({
            "method": named.method, "decoder": named.decoder, "n_ops": ops,
            "devices": request.devices, "steps": request.steps * request.searches,
            "worst_ratio_to_heft": worst,
        }));
    }
    Ok(())
}

fn anneal(request: &Request, named: Named, devices: &DeviceSet, seed: u64) -> Result<f64, Failure> {
    let mut dice = KeyedRng::new(seed, "adversarial instances", 0);
    let mut current = Instance::draw(request.n_ops, &mut dice);
    let mut ratio = ratio(request, named, devices, &current)?;
    let mut worst = ratio;
    let [hot, cold] = TEMPERATURES;
    for step in 0..request.steps {
        let progress = step as f64 / request.steps as f64;
        let temperature = hot * (cold / hot).powf(progress);
        let next = current.changed(&mut dice);
        let found = self::ratio(request, named, devices, &next)?;
        if dice.uniform_f64() < ((found - ratio) / temperature).exp() {
            (current, ratio) = (next, found);
        }
        worst = worst.max(ratio);
    }
    Ok(worst)
}

fn ratio(
    request: &Request,
    named: Named,
    devices: &DeviceSet,
    instance: &Instance,
) -> Result<f64, Failure> {
    let graph = instance.graph()?;
    let options = PlaceOptions {
        method: named.method,
        decoder: named.decoder,
        evaluations: request.evaluations,
        ..PlaceOptions::default()
    };
    let found = place(&graph, devices, &options)?.outcome.runtime_ns;
    let problem = Problem::new(&graph, devices, Objective::Runtime, ModelOptions::default())?;
    let heft = baseline::heft(&problem)
        .verify(&problem)?
        .outcome
        .runtime_ns;
    Ok(found as f64 / heft as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heft_is_never_worse_than_itself_and_every_neighbour_is_a_graph() {
        let request = Request {
            methods: Vec::new(),
            n_ops: 8,
            devices: 2,
            links: "pcie4".into(),
            evaluations: 50,
            steps: 40,
            searches: 1,
        };
        let devices = DeviceSet::uniform(2, None).unwrap();
        let devices = devices.with_link(NAMED_LINKS[1].link).unwrap();
        let worst = |method| {
            let named = Named {
                method,
                decoder: None,
            };
            anneal(&request, named, &devices, 1).unwrap()
        };
        assert!((worst(Method::Heft) - 1.0).abs() < 1e-12);
        assert!(worst(Method::OneDevice) > 1.0);
        let mut dice = KeyedRng::new(1, "test", 0);
        let mut instance = Instance::draw(5, &mut dice);
        for _ in 0..200 {
            instance = instance.changed(&mut dice);
            assert_eq!(instance.graph().unwrap().n_ops(), 5);
        }
    }
}
