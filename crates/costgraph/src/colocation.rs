//! Colocation: groups of ops that share a device, and ops whose device is given.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::graph::NONE;
use crate::{Error, ErrorKind, Graph, Problem};

/// Ops that share a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColocationGroup {
    /// The ops of the group.
    pub ops: Vec<u32>,
    /// Their device, where it is given.
    pub device: Option<u8>,
}

/// All groups of a graph. No op is in two of them; the most expensive op of a group comes first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Colocation {
    /// By op, [`NONE`] for ops that may go anywhere.
    pub(crate) group_of: Vec<u32>,
    pub(crate) groups: Vec<ColocationGroup>,
}

impl Colocation {
    /// Each group to its given device, or to that of its first op.
    pub(crate) fn apply(&self, placement: &mut [u8]) {
        for group in &self.groups {
            let device = group.device.unwrap_or(placement[group.ops[0] as usize]);
            for &op in &group.ops {
                placement[op as usize] = device;
            }
        }
    }

    /// The group of an op that may not go anywhere.
    pub(crate) fn group(&self, op: u32) -> Option<&ColocationGroup> {
        self.groups.get(self.group_of[op as usize] as usize)
    }

    pub(crate) fn gives_devices(&self) -> bool {
        self.groups.iter().any(|group| group.device.is_some())
    }
}

impl Graph {
    /// The same graph with ops that have to share a device; groups that share an op become one.
    ///
    /// All decoders, baselines and searches obey, and every check of a schedule looks at it. The groups of an earlier call are
    /// replaced.
    ///
    /// ```
    /// use shardgraph_costgraph::*;
    ///
    /// let mut builder = GraphBuilder::new("two");
    /// let ops = vec![builder.op(OpSpec::new("a", 5)), builder.op(OpSpec::new("b", 5))];
    /// let graph = builder.build()?.with_colocation(&[ColocationGroup { ops, device: Some(1) }])?;
    /// let devices = DeviceSet::uniform(2, None)?;
    /// let problem = Problem::new(&graph, &devices, Objective::Runtime, ModelOptions::default())?;
    /// assert_eq!(baseline::heft(&problem).placement, [1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `Argument` for an op that does not exist, or that would have two devices.
    ///
    /// # Source
    /// TensorFlow's colocation groups and the devices that its users give ("TensorFlow: A system for large-scale machine learning",
    /// 2016, 3.2.1).
    pub fn with_colocation(mut self, groups: &[ColocationGroup]) -> Result<Graph, Error> {
        let n_ops = self.n_ops();
        let mut parent: Vec<u32> = (0..n_ops as u32).collect();
        let mut is_grouped = vec![false; n_ops];
        for group in groups {
            if let Some(op) = group.ops.iter().find(|&&op| op as usize >= n_ops) {
                return Err(argument(format!("op {op}: the graph has {n_ops} ops")));
            }
            for &op in &group.ops {
                is_grouped[op as usize] = true;
                let (a, b) = (root(&mut parent, group.ops[0]), root(&mut parent, op));
                parent[a.max(b) as usize] = a.min(b);
            }
        }
        let mut joint: BTreeMap<u32, ColocationGroup> = BTreeMap::new();
        for op in (0..n_ops as u32).filter(|&op| is_grouped[op as usize]) {
            let first = root(&mut parent, op);
            let empty = ColocationGroup {
                ops: Vec::new(),
                device: None,
            };
            joint.entry(first).or_insert(empty).ops.push(op);
        }
        for group in groups {
            let (Some(device), Some(&op)) = (group.device, group.ops.first()) else {
                continue;
            };
            let Some(of) = joint.get_mut(&root(&mut parent, op)) else {
                continue;
            };
            if let Some(other) = of.device.filter(|&other| other != device) {
                return Err(argument(format!(
                    "op `{}` would have to be on devices {other} and {device}",
                    self.op_name(op)
                )));
            }
            of.device = Some(device);
        }
        let mut colocation = Colocation {
            group_of: vec![NONE; n_ops],
            groups: Vec::new(),
        };
        for mut group in joint.into_values() {
            if group.ops.len() == 1 && group.device.is_none() {
                continue;
            }
            let cost = |op: u32| std::cmp::Reverse(self.cost_ns(0, op));
            group.ops.sort_by_key(|&op| (cost(op), op));
            for &op in &group.ops {
                colocation.group_of[op as usize] = colocation.groups.len() as u32;
            }
            colocation.groups.push(group);
        }
        self.colocation = (!colocation.groups.is_empty()).then(|| Box::new(colocation));
        Ok(self)
    }

    /// The same graph with modules that stay together and with modules or ops that have a device, by
    /// [name](Graph::ops_named).
    ///
    /// Each item of `together` is a name, or several with commas whose ops share one device.
    ///
    /// # Errors
    /// As [`Graph::with_colocation`], and `Argument` for a name that the graph lacks.
    pub fn with_named_colocation(
        self,
        together: &[String],
        pins: &[(String, u8)],
    ) -> Result<Graph, Error> {
        if together.is_empty() && pins.is_empty() {
            return Ok(self);
        }
        let mut groups = Vec::new();
        for names in together {
            let names: Vec<&str> = names.split(',').map(str::trim).collect();
            let mut found = Vec::new();
            for name in &names {
                found.extend(self.found_by_name(name)?);
            }
            if names.len() > 1 {
                found = vec![found.concat()];
            }
            groups.extend(
                found
                    .into_iter()
                    .map(|ops| ColocationGroup { ops, device: None }),
            );
        }
        for (name, device) in pins {
            let device = Some(*device);
            // Each op by itself: what has a device needs no company.
            let ops = self.found_by_name(name)?.concat().into_iter();
            groups.extend(ops.map(|op| ColocationGroup {
                ops: vec![op],
                device,
            }));
        }
        self.with_colocation(&groups)
    }

    fn found_by_name(&self, name: &str) -> Result<Vec<Vec<u32>>, Error> {
        let found = self.ops_named(name);
        if !found.is_empty() {
            return Ok(found);
        }
        let ops = 0..self.n_ops() as u32;
        let modules: BTreeSet<String> = ops.filter_map(|op| self.module_of(op)).collect();
        let known = match modules.len() {
            0 => format!("its ops have no modules; one is `{}`", self.op_name(0)),
            n => {
                let some: Vec<String> = modules.into_iter().take(5).collect();
                format!("it has {n} modules, such as {}", some.join(", "))
            }
        };
        Err(argument(format!(
            "{}: no module or op has the name `{name}`; {known}",
            self.name()
        )))
    }

    /// The groups of ops that share a device.
    #[must_use]
    pub fn colocation_groups(&self) -> &[ColocationGroup] {
        (self.colocation.as_deref()).map_or(&[], |colocation| &colocation.groups)
    }
}

impl Problem<'_> {
    /// Each group of ops to one device: the given one, or that of its most expensive op.
    ///
    /// # Panics
    /// When `placement` has no device for each op.
    pub fn colocate(&self, placement: &mut [u8]) {
        if let Some(colocation) = &self.graph.colocation {
            colocation.apply(placement);
        }
    }

    /// True when exchanging two devices changes nothing: they are alike, and no op has a given one.
    #[must_use]
    pub fn has_interchangeable_devices(&self) -> bool {
        let colocation = self.graph.colocation.as_deref();
        self.devices.are_interchangeable() && !colocation.is_some_and(Colocation::gives_devices)
    }

    /// # Errors
    /// `Schedule` for a group on two devices, or not on its own.
    pub(crate) fn check_colocation(&self, placement: &[u8]) -> Result<(), Error> {
        for group in self.graph.colocation_groups() {
            let first = group.ops[0];
            let device = group.device.unwrap_or(placement[first as usize]);
            let strays = |&&op: &&u32| placement[op as usize] != device;
            if let Some(&op) = group.ops.iter().find(strays) {
                return Err(Error::new(
                    ErrorKind::Schedule,
                    format!(
                        "op `{}` is placed on device {}; its group, that of `{}`, belongs on device {device}",
                        self.graph.op_name(op),
                        placement[op as usize],
                        self.graph.op_name(first)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// # Errors
    /// `Argument` for a given device that does not exist.
    pub(crate) fn check_given_devices(&self) -> Result<(), Error> {
        let n = self.n_devices();
        let mut groups = self.graph.colocation_groups().iter();
        let wrong = groups.find(|group| group.device.is_some_and(|d| usize::from(d) >= n));
        match wrong {
            None => Ok(()),
            Some(group) => Err(argument(format!(
                "op `{}` has device {}; the devices are 0..{n}",
                self.graph.op_name(group.ops[0]),
                group.device.unwrap_or(0)
            ))),
        }
    }
}

/// The devices of groups while a schedule is made op by op: the first op decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupDevices {
    devices: Vec<Option<u8>>,
}

impl GroupDevices {
    pub(crate) fn new(problem: &Problem<'_>) -> GroupDevices {
        let mut made = GroupDevices::default();
        made.reset(problem);
        made
    }

    /// Forgets all devices but those that are given.
    pub(crate) fn reset(&mut self, problem: &Problem<'_>) {
        let groups = problem.graph.colocation_groups();
        self.devices.clear();
        self.devices.extend(groups.iter().map(|group| group.device));
    }

    /// The devices that an op may run on.
    pub(crate) fn candidates(&self, problem: &Problem<'_>, op: u32) -> Range<usize> {
        let group = group_of(problem, op);
        match group.and_then(|group| self.devices[group]) {
            Some(device) => usize::from(device)..usize::from(device) + 1,
            None => 0..problem.n_devices(),
        }
    }

    /// `wanted`, or the device that the op has to run on.
    pub(crate) fn nearest(&self, problem: &Problem<'_>, op: u32, wanted: usize) -> usize {
        let candidates = self.candidates(problem, op);
        wanted.clamp(candidates.start, candidates.end - 1)
    }

    /// The op runs there.
    pub(crate) fn settle(&mut self, problem: &Problem<'_>, op: u32, device: usize) {
        if let Some(group) = group_of(problem, op) {
            self.devices[group] = Some(device as u8);
        }
    }
}

fn group_of(problem: &Problem<'_>, op: u32) -> Option<usize> {
    let colocation = problem.graph.colocation.as_deref()?;
    let group = colocation.group_of[op as usize];
    (group != NONE).then_some(group as usize)
}

fn root(parent: &mut [u32], mut op: u32) -> u32 {
    while parent[op as usize] != op {
        let next = parent[op as usize];
        parent[op as usize] = parent[next as usize];
        op = next;
    }
    op
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, message)
}

#[cfg(test)]
mod tests {
    use super::ColocationGroup;
    use crate::baseline::{self, ClusterSearch, Hierarchy, OpOrder};
    use crate::tests::random_problems::{devices, for_problems, graph, keys, options};
    use crate::{Contraction, Decoder, DecoderKind, Graph, Pipeline, Problem, Schedule};
    use shardgraph_random::KeyedRng;

    /// A graph with random groups, some of them with a device.
    fn grouped(seed: u64, n_devices: usize) -> Graph {
        let mut dice = KeyedRng::new(seed, "test groups", 0);
        let graph = graph(seed, 2 + dice.index(30));
        let mut groups = Vec::new();
        for group in 0..1 + dice.index(3) {
            let ops = (0..1 + dice.index(5)).map(|_| dice.index(graph.n_ops()) as u32);
            let ops = ops.collect();
            // One device at most, as groups may turn out to be one.
            let device = (group == 0 && dice.index(2) == 0).then(|| dice.index(n_devices) as u8);
            groups.push(ColocationGroup { ops, device });
        }
        graph.with_colocation(&groups).unwrap()
    }

    fn schedules(problem: &Problem<'_>, seed: u64) -> Vec<Schedule> {
        let keys = keys(seed, problem);
        let decoded = |kind| Decoder::new(problem, kind).schedule(&keys);
        let mut made: Vec<Schedule> = DecoderKind::ALL.map(decoded).into();
        made.push(baseline::heft(problem));
        made.push(baseline::multilevel(problem, seed));
        made.push(baseline::greedy_memory(problem, seed, 0.1, &mut || true));
        made.push(baseline::local_search(problem, 50, seed, &mut |_, _| true).0);
        for device in 0..problem.n_devices() {
            made.push(baseline::one_device(problem, device, OpOrder::List));
        }
        let parts = baseline::partition(problem);
        made.push(baseline::ordered(problem, &parts, OpOrder::PostOrder));
        let hierarchy = Hierarchy::new(problem, seed);
        let start = vec![0; problem.graph().n_ops()];
        let kind = DecoderKind::TimeAware;
        let mut search = ClusterSearch::new(problem, &hierarchy, &start, kind, seed);
        (0..40).for_each(|_| search.step());
        made.push(search.schedule());
        made
    }

    #[test]
    fn every_schedule_keeps_groups_together() {
        let mut n_given = 0;
        for seed in 0..300 {
            let devices = devices(seed, 1 + seed as usize % 4);
            let graph = grouped(seed, devices.len());
            n_given += u32::from((graph.colocation_groups().iter()).any(|of| of.device.is_some()));
            let (objective, mut options) = options(seed);
            let problem = Problem::new(&graph, &devices, objective, options).unwrap();
            for (i, schedule) in schedules(&problem, seed).iter().enumerate() {
                let found = schedule.clone().pinned(&problem).verify(&problem);
                assert!(found.is_ok(), "seed {seed}, schedule {i}: {found:?}");
            }
            let contraction = Contraction::new(&graph).unwrap();
            options.fix_largest = false;
            let small = Problem::new(contraction.graph(), &devices, objective, options).unwrap();
            let found = (contraction.expand(&baseline::heft(&small))).pinned(&problem);
            let outcome = found.verify(&problem).unwrap().outcome;
            // Cost factors round each op by itself.
            if devices
                .devices()
                .iter()
                .all(|d| d.cost_factor.to_bits() == 1f64.to_bits())
            {
                assert_eq!(
                    outcome,
                    baseline::heft(&small).verify(&small).unwrap().outcome
                );
            }
        }
        assert!(n_given > 50, "{n_given}");
    }

    #[test]
    fn a_check_finds_what_strays() {
        for_problems(200, 20, |problem, seed| {
            let (n_ops, n) = (problem.graph().n_ops(), problem.n_devices());
            if n_ops < 2 || n < 2 {
                return;
            }
            let group = ColocationGroup {
                ops: vec![0, 1],
                device: (seed % 2 == 0).then_some(1),
            };
            let graph = problem.graph().clone().with_colocation(&[group]).unwrap();
            let (objective, options) = (problem.objective(), problem.options());
            let grouped = Problem::new(&graph, problem.devices(), objective, options).unwrap();
            let mut placement = vec![0; n_ops];
            placement[1] = 1;
            let torn = baseline::ordered(&grouped, &placement, OpOrder::Topological);
            let error = torn.verify(&grouped).unwrap_err().to_string();
            assert!(error.contains("its group"), "{error}");
            let torn = Pipeline::new(&grouped, &placement);
            assert!(torn.check(&grouped).is_err());
            grouped.colocate(&mut placement);
            Pipeline::new(&grouped, &placement).check(&grouped).unwrap();
        });
    }

    #[test]
    fn groups_that_contradict_each_other_are_refused() {
        let groups = |devices: [u8; 2]| {
            [vec![0, 1], vec![1, 2]]
                .map(|ops| (ops, devices))
                .map(|(ops, devices)| {
                    let device = Some(devices[usize::from(ops[0] == 1)]);
                    ColocationGroup { ops, device }
                })
        };
        let graph = graph(3, 8);
        let joint = graph.clone().with_colocation(&groups([2, 2])).unwrap();
        assert_eq!(joint.colocation_groups()[0].ops.len(), 3);
        let error = graph.clone().with_colocation(&groups([0, 1])).unwrap_err();
        assert!(error.to_string().contains("devices 0 and 1"), "{error}");
        let absent = ColocationGroup {
            ops: vec![8],
            device: None,
        };
        assert!(graph.with_colocation(&[absent]).is_err());
        let devices = devices(0, 2);
        let (objective, options) = options(0);
        let error = Problem::new(&joint, &devices, objective, options).unwrap_err();
        assert!(
            error.to_string().contains("the devices are 0..2"),
            "{error}"
        );
    }
}
