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

impl Graph {
    /// The ops that a name stands for, in groups: the op of that name, or the ops of each module that the name fits.
    ///
    /// A module's ops are those of all modules below it. `*` in place of a part of a path fits any one part, and each
    /// module that fits is a group: `layers.*` has one for each layer. Empty where nothing has that name.
    ///
    /// # Complexity
    /// O(length of all op names) time.
    #[must_use]
    pub fn ops_named(&self, name: &str) -> Vec<Vec<u32>> {
        let ops = 0..self.n_ops() as u32;
        if let Some(op) = ops.clone().find(|&op| self.op_name(op) == name) {
            return vec![vec![op]];
        }
        let parts: Vec<&str> = name.split('.').collect();
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for op in ops {
            let Some(module) = self.module_of(op) else {
                continue;
            };
            let path: Vec<&str> = module.split('.').take(parts.len()).collect();
            let fits = |(part, found): (&&str, &&str)| *part == "*" || part == found;
            if path.len() == parts.len() && parts.iter().zip(&path).all(fits) {
                groups.entry(path.join(".")).or_default().push(op);
            }
        }
        groups.into_values().collect()
    }
}

/// What is known of one module by itself, its parts left aside.
#[derive(Default)]
struct Module {
    /// By device, the time of its ops there.
    times: Vec<u64>,
    parameters: Vec<String>,
    /// It holds parameters whose names the exporter has changed.
    hides_parameters: bool,
}

/// A device for each module, as deep into the tree as the devices differ; empty where op names have no modules.
///
/// A module goes where most of the time of its ops is spent, one without ops where its parameters are (a convolution that the exporter
/// has joined with the normalisation behind it). A module all of whose parts are on one device stands for them; one whose parts are
/// apart has entries for its own parameters, or stays whole where their names are lost. `""` is the whole model. This is what
/// `accelerate.dispatch_model` takes as its device map.
///
/// # Panics
/// When `placement` has no device for each op.
#[must_use]
pub fn device_map(problem: &Problem<'_>, placement: &[u8]) -> BTreeMap<String, u8> {
    let modules = modules(problem, placement);
    if modules.keys().all(String::is_empty) {
        return BTreeMap::new();
    }
    let modules: Vec<(&str, &Module)> = modules
        .iter()
        .map(|(path, of)| (path.as_str(), of))
        .collect();
    let mut map = BTreeMap::new();
    collapse("", &modules, &mut map);
    map
}

fn modules(problem: &Problem<'_>, placement: &[u8]) -> BTreeMap<String, Module> {
    let (graph, n) = (problem.graph(), problem.n_devices());
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    let mut spend = |path: &str, device: usize, cost: u64, parameter: Option<&str>| {
        let module = modules.entry(path.to_owned()).or_default();
        module.times.resize(n, 0);
        module.times[device] += cost;
        module.parameters.extend(parameter.map(str::to_owned));
    };
    let mut hiding = Vec::new();
    for op in 0..graph.n_ops() as u32 {
        let device = usize::from(placement[op as usize]);
        // At least 1, so that ops without cost have a say where there are no others.
        let cost = problem.cost_ns(op, device).saturating_mul(1000) + 1;
        let module = graph.module_of(op);
        if let Some(path) = &module {
            let is_weight = graph.op_kind(op) == "Initializer";
            spend(path, device, cost, is_weight.then(|| graph.op_name(op)));
        }
        for weight in graph.weights(op) {
            match weight.rsplit_once('.') {
                // Its module has the op's time already.
                Some((owner, _)) if module.as_deref() == Some(owner) => {
                    spend(owner, device, 0, Some(weight));
                }
                Some((owner, _)) => spend(owner, device, cost, Some(weight)),
                None if is_made_up(weight) => hiding.extend(module.clone()),
                None => spend("", device, cost, Some(weight)),
            }
        }
    }
    for path in hiding {
        modules.entry(path).or_default().hides_parameters = true;
    }
    modules
}

/// True for names that exporters make: `val_12`, `onnx::MatMul_193`.
fn is_made_up(name: &str) -> bool {
    let number = name.strip_prefix("val_").unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The device of most of the time, of equals the first.
fn busiest<'m>(modules: impl Iterator<Item = &'m Module>) -> u8 {
    let mut sums: Vec<u64> = Vec::new();
    for module in modules {
        sums.resize(sums.len().max(module.times.len()), 0);
        for (sum, time) in sums.iter_mut().zip(&module.times) {
            *sum = sum.saturating_add(*time);
        }
    }
    let longest = (0..sums.len()).rev().max_by_key(|&device| sums[device]);
    longest.unwrap_or(0) as u8
}

/// Enters the modules at and below `path`, all of which are in `modules`.
fn collapse(path: &str, modules: &[(&str, &Module)], map: &mut BTreeMap<String, u8>) {
    let Some(&(_, first)) = modules.first() else {
        return;
    };
    let device = busiest(std::iter::once(first));
    let own = modules.iter().find(|(module, _)| *module == path);
    let is_whole = own.is_some_and(|(_, own)| own.hides_parameters && !path.is_empty());
    let agree = |of: &&(&str, &Module)| busiest(std::iter::once(of.1)) == device;
    if is_whole || modules.iter().filter(agree).count() == modules.len() {
        map.insert(path.to_owned(), busiest(modules.iter().map(|(_, of)| *of)));
        return;
    }
    let start = if path.is_empty() { 0 } else { path.len() + 1 };
    let mut children: BTreeMap<&str, Vec<(&str, &Module)>> = BTreeMap::new();
    for &(module, of) in modules {
        if module.len() > path.len() {
            let end = module[start..]
                .find('.')
                .map_or(module.len(), |at| start + at);
            children
                .entry(&module[..end])
                .or_default()
                .push((module, of));
        }
    }
    for (child, modules) in children {
        collapse(child, &modules, map);
    }
    if let Some((_, own)) = own {
        let device = busiest(std::iter::once(*own));
        map.extend(own.parameters.iter().map(|name| (name.clone(), device)));
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
        let named = |name| graph.ops_named(name);
        assert_eq!(named("layer1"), [[1, 2, 3, 4]]);
        assert_eq!(named("layer1.*"), [[1, 2], [3, 4]]);
        assert_eq!((named("x.y"), named("fc")), (vec![vec![6]], vec![vec![5]]));
        assert_eq!(named("conv1/node_1"), [[0]]);
        assert_eq!((named("layer"), named("fc.weight.x")), (vec![], vec![]));
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

    /// Every parameter has an entry at or above it, also where an exporter joins ops or renames weights.
    #[test]
    fn parameters_have_devices_where_ops_were_joined() {
        let mut builder = GraphBuilder::new("net");
        let mut op = |name: &str, weights: &[&str]| {
            builder.op(OpSpec {
                weights: weights.iter().map(|&name| name.to_owned()).collect(),
                ..OpSpec::new(name, 10)
            });
        };
        op("bn1/node_1", &["conv1.weight", "cls_token"]);
        op("enc/node_2", &["enc.pos"]);
        op("enc.a/node_3", &["enc.a.weight"]);
        op("enc.b/node_4", &["enc.b.weight"]);
        op("att/node_5", &["val_12"]);
        op("att.out/node_6", &["att.out.bias"]);
        let graph = builder.build().unwrap();
        let devices = DeviceSet::uniform(2, None).unwrap();
        let options = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, options).unwrap();
        let map = device_map(&problem, &[1, 0, 0, 1, 1, 0]);
        let expected = [
            ("conv1", 1),
            ("bn1", 1),
            ("cls_token", 1),
            ("enc.pos", 0),
            ("enc.a", 0),
            ("enc.b", 1),
            ("att", 0),
        ];
        assert_eq!(
            map,
            expected
                .map(|(module, device)| (module.to_owned(), device))
                .into()
        );
    }
}
