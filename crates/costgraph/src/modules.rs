//! Modules of a model: the tree that op names carry, and a device for each part of it.

use std::collections::BTreeMap;

use crate::{Graph, Problem};

impl Graph {
    /// The path of the module that op `op` belongs to (`layer1.0.conv1`), by its name; none for names without one.
    ///
    /// Read are `layer1.0.conv1/node_3` (torch's exporter, by its scopes), `/layer1/layer1.0/conv1/Conv` (its predecessor) and, of
    /// weights, `layer1.0.conv1.weight`.
    ///
    /// # Panics
    /// When there is no such op.
    #[must_use]
    pub fn module_of(&self, op: u32) -> Option<String> {
        let name = self.op_name(op);
        let Some((scopes, _)) = name.rsplit_once('/') else {
            let is_weight = self.op_kind(op) == "Initializer";
            let (module, _) = name.rsplit_once('.').filter(|_| is_weight)?;
            return Some(module.to_owned());
        };
        let mut path = String::new();
        for scope in scopes.split('/').filter(|scope| !scope.is_empty()) {
            let last = path.rsplit('.').next().unwrap_or_default();
            match scope
                .strip_prefix(last)
                .and_then(|rest| rest.strip_prefix('.'))
            {
                // The next scope repeats the last: `layer1`, then `layer1.0`.
                Some(rest) if !last.is_empty() => path = format!("{path}.{rest}"),
                _ if path.is_empty() => scope.clone_into(&mut path),
                _ => path = format!("{path}.{scope}"),
            }
        }
        (!path.is_empty()).then_some(path)
    }
}

/// A device for each module, as deep into the tree as the devices differ; empty where op names have no modules.
///
/// A module goes where most of the time of its ops is spent; a module all of whose parts are on one device stands for them. `""` is the
/// whole model. This is what `accelerate.dispatch_model` takes as its device map.
///
/// # Panics
/// When `placement` has no device for each op.
#[must_use]
pub fn device_map(problem: &Problem<'_>, placement: &[u8]) -> BTreeMap<String, u8> {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for op in 0..graph.n_ops() as u32 {
        if let Some(module) = graph.module_of(op) {
            let device = usize::from(placement[op as usize]);
            // At least 1, so that ops without cost have a say where there are no others.
            let cost = problem.cost_ns(op, device).saturating_mul(1000) + 1;
            times.entry(module).or_insert_with(|| vec![0; n])[device] += cost;
        }
    }
    let most = |times: &Vec<u64>| {
        let longest = (0..n).rev().max_by_key(|&device| times[device]);
        longest.unwrap_or(0) as u8
    };
    let devices: Vec<(&str, u8)> = times.iter().map(|(m, of)| (m.as_str(), most(of))).collect();
    let mut map = BTreeMap::new();
    collapse("", &devices, &mut map);
    map
}

/// Enters the modules at and below `path`, all of which are in `modules`.
fn collapse(path: &str, modules: &[(&str, u8)], map: &mut BTreeMap<String, u8>) {
    let Some(&(_, first)) = modules.first() else {
        return;
    };
    if modules.iter().all(|&(_, device)| device == first) {
        map.insert(path.to_owned(), first);
        return;
    }
    let start = if path.is_empty() { 0 } else { path.len() + 1 };
    let mut children: BTreeMap<&str, Vec<(&str, u8)>> = BTreeMap::new();
    for &(module, device) in modules {
        // The module itself, where its parts are apart, has no device: its parameters are theirs.
        if module.len() > path.len() {
            let end = module[start..]
                .find('.')
                .map_or(module.len(), |at| start + at);
            children
                .entry(&module[..end])
                .or_default()
                .push((module, device));
        }
    }
    for (child, modules) in children {
        collapse(child, &modules, map);
    }
}

#[cfg(test)]
mod tests {
    use super::device_map;
    use crate::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem};

    #[test]
    fn modules_come_from_names_and_join_where_devices_agree() {
        let mut builder = GraphBuilder::new("net");
        let ops = [
            ("conv1/node_1", "Conv", 10, 0),
            ("layer1.0.conv1/node_2", "Conv", 10, 0),
            ("layer1.0.bn/node_3", "Norm", 1, 0),
            ("/layer1/layer1.1/conv1/Conv", "Conv", 10, 1),
            ("/layer1/layer1.1/conv1/Relu", "Relu", 1, 0),
            ("fc.weight", "Initializer", 0, 1),
            ("x.y", "Input", 0, 0),
        ];
        for (name, kind, cost, _) in ops {
            builder.op(OpSpec {
                kind: kind.into(),
                ..OpSpec::new(name, cost)
            });
        }
        let graph = builder.build().unwrap();
        let modules: Vec<Option<String>> = (0..7).map(|op| graph.module_of(op)).collect();
        let expected = ["conv1", "layer1.0.conv1", "layer1.0.bn", "layer1.1.conv1"];
        assert_eq!(modules[..4], expected.map(|module| Some(module.to_owned())));
        assert_eq!(modules[5..], [Some("fc".to_owned()), None]);
        let devices = DeviceSet::uniform(2, None).unwrap();
        let problem = Problem::new(
            &graph,
            &devices,
            Objective::Runtime,
            ModelOptions::default(),
        )
        .unwrap();
        let map = device_map(&problem, &ops.map(|(.., device)| device));
        let expected = [("conv1", 0), ("fc", 1), ("layer1.0", 0), ("layer1.1", 1)];
        assert_eq!(
            map,
            expected
                .map(|(module, device)| (module.to_owned(), device))
                .into()
        );
        assert_eq!(device_map(&problem, &[0; 7]), [(String::new(), 0)].into());
    }
}
