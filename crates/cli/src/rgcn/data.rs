//! The graph and the labels that a subcommand of `rgcn` works on: read or generated, then made smaller as asked.

use std::path::{Path, PathBuf};

use clap::Args;
use shardgraph_device::{Device, Timer};
use shardgraph_graph::Labels as Names;
use shardgraph_rgcn::generate::RelationalSpec;
use shardgraph_rgcn::import::{
    Import, ImportOptions, ImportReport, Importer, LabelColumns, LabelFiles, LabelledNodes,
    Literals, TripleFormat, archive_members, import_file, read_labels,
};
use shardgraph_rgcn::{
    Features, LinkData, RelationalGraph, read_features, relation_names, run_config,
};

use crate::exit::BadInput;
use crate::input_file::{check_exists, named};

/// A relational graph and how to read it.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// A file of triples (.nt, .ttl, .csv, .tsv, OpenKE's train2id.txt; .gz and .zst are unpacked, .tar.gz opened), or
    /// ba-rel:NODES:EDGES_PER_NODE:RELATIONS, with :zipf after it for relations of unequal size
    file: PathBuf,
    /// Format of the file: n-triples, turtle, integer-csv, openke, tab-separated or csv [default: by extension,
    /// then content]
    #[arg(long, value_name = "FORMAT")]
    input_format: Option<TripleFormat>,
    /// Which file of an archive to read [default: the only one, or train]
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// Whether literals are nodes or their triples are dropped: keep or drop
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = literals)]
    literals: Literals,
    /// How many bad lines to leave out and count before one is an error
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_bad_lines: u64,
    /// How many nodes a file of numbers has [default: one more than its largest id]
    #[arg(long, value_name = "N", value_parser = node_count)]
    nodes: Option<u32>,
    /// How many relations a file of numbers has, those without an edge too [default: by the largest id, each with an edge]
    #[arg(long, value_name = "N")]
    relations: Option<u32>,
    /// Drop a relation, by its name; may be given again
    #[arg(long, value_name = "NAME")]
    drop_relation: Vec<String>,
    /// Drop relations with fewer edges, before inverse ones are added
    #[arg(long, value_name = "N")]
    min_relation_edges: Option<u64>,
    /// Drop nodes farther than that from every labelled node
    #[arg(long, value_name = "N")]
    hops: Option<u32>,
    /// Leave each edge in its own direction only; without it every relation has an inverse
    #[arg(long)]
    no_inverses: bool,
    /// Seed of a generated graph [default: 1]
    #[arg(long, value_name = "SEED")]
    graph_seed: Option<u64>,
    /// Labels to learn from: a table with a header, or node,class as numbers
    #[arg(long, value_name = "FILE")]
    train: Option<PathBuf>,
    /// Labels to test on; of links, triples
    #[arg(long, value_name = "FILE")]
    test: Option<PathBuf>,
    /// Validation data: labels to choose settings by; of links, triples
    #[arg(long, value_name = "FILE")]
    valid: Option<PathBuf>,
    /// Features of nodes as input: a .npy file with a row for each in the order of ids, or a table with a header that names nodes first
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    /// Leave the rows of a .npy file of features (f4, not packed) on disk and read those that a step needs; with --batch
    #[arg(long, requires = "features")]
    features_on_disk: bool,
    /// The column of nodes in files of labels [default: the first]
    #[arg(long, value_name = "NAME", requires = "train")]
    node_column: Option<String>,
    /// The column of classes in files of labels [default: the last]
    #[arg(long, value_name = "NAME", requires = "train")]
    class_column: Option<String>,
}

/// What a subcommand works on.
#[derive(Debug)]
pub(crate) struct Data {
    /// The FILE argument and what it turned out to be.
    pub(crate) name: String,
    /// The graph, with inverse relations unless they were declined.
    pub(crate) graph: RelationalGraph,
    /// What the nodes are called.
    pub(crate) nodes: Names,
    /// What the relations are called, without the inverse ones.
    pub(crate) relations: Names,
    /// The labels; none where no file was given.
    pub(crate) labels: Option<LabelledNodes>,
    /// What reading dropped; none for a generated graph.
    pub(crate) report: Option<ImportReport>,
    /// Seconds for reading or making it all.
    pub(crate) load_seconds: f64,
}

impl Data {
    /// The names of the relations, without inverse ones.
    pub(crate) fn relation_names(&self) -> Vec<String> {
        let all = 0..self.relations.n_nodes();
        all.map(|relation| self.relations.get(relation)).collect()
    }

    /// Gives each relation the number that it has in a run, by its name; where the run has no names, numbers stay.
    pub(crate) fn number_relations(mut self, of_run: &[String]) -> anyhow::Result<Data> {
        let own = self.relation_names();
        if of_run.is_empty() || own == of_run {
            return Ok(self);
        }
        let number = |name: &String| {
            let found = of_run.iter().position(|other| other == name);
            let unknown = || {
                BadInput(format!(
                    "{name}: the model has not learnt this relation: leave it out with --drop-relation"
                ))
            };
            found.map(|number| number as u32).ok_or_else(unknown)
        };
        let mut to: Vec<u32> = own.iter().map(number).collect::<Result<_, _>>()?;
        let mut n_relations = of_run.len() as u32;
        if self.graph.n_relations() as usize > own.len() {
            // Inverse ones stand behind the others.
            to.extend_from_within(..);
            let inverse = to.iter_mut().skip(own.len());
            inverse.for_each(|number| *number += n_relations);
            n_relations *= 2;
        }
        self.graph = self.graph.with_relations(&to, n_relations)?;
        Ok(self)
    }
}

/// Triples to learn from, to choose by and to test on.
#[derive(Debug)]
pub(crate) struct LinkFiles {
    /// The FILE argument.
    pub(crate) name: String,
    /// The triples.
    pub(crate) links: LinkData,
    /// What the nodes are called.
    pub(crate) nodes: Names,
    /// What the relations are called.
    pub(crate) relations: Names,
    /// What reading dropped.
    pub(crate) report: ImportReport,
    /// Seconds for reading it all.
    pub(crate) load_seconds: f64,
}

/// The name of an archive's file without folders and endings.
fn file_stem(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.split('.').next().unwrap_or(name)
}

impl DataArgs {
    /// The files that are read.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let labels = [&self.train, &self.test, &self.valid];
        let others = labels.into_iter().chain([&self.features]).flatten();
        [self.file.as_path()]
            .into_iter()
            .chain(others.map(PathBuf::as_path))
    }

    /// Whether a file of features is named.
    pub(crate) fn has_features(&self) -> bool {
        self.features.is_some()
    }

    /// Whether there are labels to validate on.
    pub(crate) fn has_valid(&self) -> bool {
        self.valid.is_some()
    }

    /// Reads or makes the graph and its labels.
    pub(crate) fn load(&self) -> anyhow::Result<Data> {
        let timer = Timer::start(&Device::host());
        let name = self.file.to_string_lossy();
        let mut data = match !self.file.exists() && name.starts_with(RelationalSpec::PREFIX) {
            true => self.generate(name.parse()?)?,
            false => self.read()?,
        };
        if let Some(features) = &self.features {
            let features = match self.features_on_disk {
                true => Features::on_disk(features)?,
                false => read_features(features, &data.nodes)?,
            };
            data.graph = data.graph.with_features(features)?;
        }
        if !self.no_inverses {
            data.graph = data.graph.with_inverses()?;
        }
        data.load_seconds = timer.elapsed_s();
        Ok(data)
    }

    /// As [`DataArgs::load`], for the model of a run: relations have its numbers where its nodes may be others.
    pub(crate) fn load_for(&self, model: &Path) -> anyhow::Result<Data> {
        let data = self.load()?;
        match run_config(model)?.features {
            true => data.number_relations(&relation_names(model)?),
            false => Ok(data),
        }
    }

    fn generate(&self, spec: RelationalSpec) -> anyhow::Result<Data> {
        let is_changed = self.hops.is_some()
            || self.min_relation_edges.is_some()
            || !self.drop_relation.is_empty()
            || self.train.is_some();
        let is_read = self.member.is_some()
            || self.input_format.is_some()
            || self.literals != Literals::Keep
            || self.max_bad_lines > 0
            || self.nodes.is_some()
            || self.relations.is_some();
        if is_read {
            let why = "a generated graph is not read: leave out --member, --input-format, --literals, --max-bad-lines, --nodes and --relations";
            return Err(BadInput(format!("{spec}: {why}")).into());
        }
        let seed = self.graph_seed.unwrap_or(1);
        if is_changed {
            let why = "a generated graph has labels of its own and is not pruned: leave out --train, --hops and what drops relations";
            return Err(BadInput(format!("{spec}: {why}")).into());
        }
        let graph = spec.graph(seed)?;
        let labels = spec.labels(seed)?;
        let classes = (0..labels.n_classes()).map(|class| class.to_string());
        Ok(Data {
            name: format!("{spec} (generated, seed {seed})"),
            nodes: Names::offset(0, graph.n_nodes()),
            relations: Names::offset(0, graph.n_relations()),
            graph,
            labels: Some(LabelledNodes {
                classes: classes.collect(),
                labels,
            }),
            report: None,
            load_seconds: 0.0,
        })
    }

    fn read(&self) -> anyhow::Result<Data> {
        if self.graph_seed.is_some() {
            let why = "--graph-seed is for generated graphs; this is a file";
            return Err(BadInput(format!("{}: {why}", self.file.display())).into());
        }
        self.inputs().try_for_each(check_exists)?;
        let mut import = import_file(named(&self.file), &self.import_options())?;
        let mut labels = self.labels(&import)?;
        import = import.without_relations(&self.drop_relation)?;
        if let Some(min_edges) = self.min_relation_edges {
            import = import.keep_frequent_relations(min_edges)?;
        }
        if let Some(n_hops) = self.hops {
            let Some(labelled) = labels else {
                let why = "--hops counts from labelled nodes: name their file with --train";
                return Err(BadInput(why.into()).into());
            };
            let (pruned, ids) = import.within_hops(&labelled.nodes(), n_hops)?;
            labels = Some(labelled.renumbered(&ids)?);
            import = pruned;
        }
        Ok(Data {
            name: self.file.display().to_string(),
            graph: import.graph,
            nodes: import.nodes,
            relations: import.relations,
            labels,
            report: Some(import.report),
            load_seconds: 0.0,
        })
    }

    /// Reads triples to learn from, to choose by and to test on; what no flag names is the archive's own.
    pub(crate) fn load_links(&self) -> anyhow::Result<LinkFiles> {
        let timer = Timer::start(&Device::host());
        self.check_links()?;
        let mut importer = Importer::new(self.import_options());
        importer.add(&self.file)?;
        let has_both = self.valid.is_some() && self.test.is_some();
        let members = match &self.member {
            None if !has_both => archive_members(&self.file)?,
            _ => Vec::new(),
        };
        let mut sets = vec!["train"];
        for (set, path) in [("valid", &self.valid), ("test", &self.test)] {
            let is_member = |name: &String| file_stem(name) == set;
            match path {
                Some(path) => importer.add(path)?,
                None if members.iter().any(is_member) => importer.add_member(&self.file, set)?,
                None => continue,
            }
            sets.push(set);
        }
        let import = importer.finish()?;
        let range = |set| {
            let place = sets.iter().position(|&found| found == set);
            place.map_or(0..0, |place| import.files[place].clone())
        };
        Ok(LinkFiles {
            name: self.file.display().to_string(),
            links: LinkData::new(&import.graph, range("train"), range("valid"), range("test"))?,
            nodes: import.nodes,
            relations: import.relations,
            report: import.report,
            load_seconds: timer.elapsed_s(),
        })
    }

    /// Refuses what triples have no use for.
    fn check_links(&self) -> Result<(), BadInput> {
        let name = self.file.to_string_lossy();
        if !self.file.exists() && name.starts_with(RelationalSpec::PREFIX) {
            let why = "a generated graph has no links to test on: name a file of triples";
            return Err(BadInput(format!("{name}: {why}")));
        }
        let useless = [
            ("--train", self.train.is_some()),
            ("--features", self.features.is_some()),
            ("--node-column", self.node_column.is_some()),
            ("--class-column", self.class_column.is_some()),
            ("--hops", self.hops.is_some()),
            ("--drop-relation", !self.drop_relation.is_empty()),
            ("--min-relation-edges", self.min_relation_edges.is_some()),
            ("--no-inverses", self.no_inverses),
            ("--graph-seed", self.graph_seed.is_some()),
        ];
        match useless.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => {
                let why = "has no meaning for links: FILE has the triples to learn from";
                Err(BadInput(format!("{flag} {why}")))
            }
        }
    }

    fn import_options(&self) -> ImportOptions {
        ImportOptions {
            format: self.input_format,
            member: self.member.clone(),
            literals: self.literals,
            max_bad_lines: self.max_bad_lines,
            n_nodes: self.nodes,
            n_relations: self.relations,
            keep_duplicates: false,
        }
    }

    fn labels(&self, import: &Import) -> anyhow::Result<Option<LabelledNodes>> {
        let Some(train) = &self.train else {
            if self.test.is_some() || self.valid.is_some() {
                let why = "labels to test on or to choose by need some to learn from: give --train";
                return Err(BadInput(why.to_owned()).into());
            }
            return Ok(None);
        };
        let files = LabelFiles {
            train: train.clone(),
            test: self.test.clone(),
            valid: self.valid.clone(),
        };
        let columns = LabelColumns {
            node: self.node_column.clone(),
            class: self.class_column.clone(),
        };
        Ok(Some(read_labels(&files, &columns, &import.nodes)?))
    }
}

fn node_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("expected how many nodes the file of triples has, found `{text}` (a file of nodes to predict is --node-file)")
    })
}

fn literals(text: &str) -> Result<Literals, String> {
    match text {
        "keep" => Ok(Literals::Keep),
        "drop" => Ok(Literals::Drop),
        other => Err(format!("expected keep or drop, found `{other}`")),
    }
}
