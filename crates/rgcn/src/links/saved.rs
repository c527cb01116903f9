//! A model that predicts links, as read from its folder: ranks of triples, and completions.

use std::path::Path;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::Checkpoint;

use super::config::LinkConfig;
use super::data::{LinkData, Side};
use super::ranking::{LinkScores, Scorer};
use super::state::{FILES, LinkState, RUN, known_hash, read};
use super::trainer::{LinkTrainer, layout_of, message_graph};
use crate::model::comm::RankComm;
use crate::train::folder::RUN as CLASS_RUN;
use crate::train::run::newest;
use crate::{Edge, Error};

/// A model that was trained to predict links, as read from its folder.
#[derive(Clone, Debug)]
pub struct SavedLinks {
    config: LinkConfig,
    pub(super) state: LinkState,
    known_hash: Option<u64>,
}

impl SavedLinks {
    /// The newest model of a folder, for the training triples that it learnt from.
    ///
    /// # Errors
    /// When the folder has no whole checkpoint of such a run, or the triples are not the run's.
    pub fn read(data: &LinkData, path: &Path) -> Result<SavedLinks, Error> {
        let newest = newest(path, FILES, "the folder of a run that predicts links")?;
        let (run, state) = read(&newest)?;
        run.check_data(data, path)?;
        Ok(SavedLinks {
            config: run.config,
            state,
            known_hash: run.known_hash,
        })
    }

    /// True if the newest checkpoint of a folder is that of a run that predicts links.
    ///
    /// # Errors
    /// When the folder cannot be read, or its checkpoints are damaged.
    pub fn is_in(path: &Path) -> Result<bool, Error> {
        match Checkpoint::newest_files(path, &[RUN]) {
            Ok(newest) => Ok(newest.is_some()),
            // The file of another kind of run, whatever became of its other files.
            Err(error) => match Checkpoint::newest_files(path, &[CLASS_RUN]) {
                Ok(_) => Ok(false),
                Err(_) => Err(error.into()),
            },
        }
    }

    /// The settings that the model was trained with.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// True if filtered ranks leave out the same triples as those of the run; none where its
    /// checkpoint does not say.
    #[must_use]
    pub fn has_filter_of_run(&self, data: &LinkData) -> Option<bool> {
        self.known_hash.map(|hash| hash == known_hash(data))
    }

    /// The epochs that it was trained for; with patience the model is the best of them.
    #[must_use]
    pub fn epochs_done(&self) -> u32 {
        self.state.encoder.epochs_done
    }

    /// The ranks of the validation and the test triples, where there are any.
    ///
    /// # Errors
    /// When the checkpoint does not fit its settings.
    pub fn rank(&self, data: &LinkData) -> Result<(Option<LinkScores>, Option<LinkScores>), Error> {
        self.with_trainer(data, |trainer, ranks| {
            let valid = trainer.rank(data.valid(), ranks)?;
            Ok((valid, trainer.rank(data.test(), ranks)?))
        })
    }

    /// The nodes that score highest at the other end of a relation; the best first, equal ones in
    /// the order of their ids.
    ///
    /// # Errors
    /// When the checkpoint does not fit its settings, or the node or the relation is not in the
    /// data.
    /// # Complexity
    /// One pass over all nodes' outputs after they are computed from all training triples.
    pub fn complete(
        &self,
        data: &LinkData,
        question: Question,
        n_best: usize,
    ) -> Result<Vec<Completion>, Error> {
        let answers = self.complete_all(data, &[question], n_best)?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// As [`SavedLinks::complete`], for many questions; nodes' outputs are computed once.
    ///
    /// # Errors
    /// As [`SavedLinks::complete`].
    pub fn complete_all(
        &self,
        data: &LinkData,
        questions: &[Question],
        n_best: usize,
    ) -> Result<Vec<Vec<Completion>>, Error> {
        let asked = questions.iter().map(|question| asked(data, *question));
        let asked: Vec<(Edge, Side)> = asked.collect::<Result<_, _>>()?;
        self.with_trainer(data, |trainer, ranks| {
            trainer.encode_whole(ranks)?;
            let mut scorer = Scorer::new(trainer.ranked(), 1, &trainer.memory);
            let best = asked.into_iter().map(|(triple, side)| {
                let scores = scorer.scores(&[triple], side)?;
                let known: Vec<u32> = trainer.known().ends(triple, side).collect();
                Ok(best_of(scores, &known, n_best))
            });
            best.collect()
        })
    }

    /// The vectors that the decoder scores triples by.
    ///
    /// # Errors
    /// When the checkpoint does not fit its settings.
    pub fn vectors(&self, data: &LinkData) -> Result<LinkVectors, Error> {
        self.with_trainer(data, |trainer, ranks| {
            trainer.encode_whole(ranks)?;
            Ok(LinkVectors {
                width: trainer.decoder.width,
                nodes: trainer.units().to_vec(),
                relations: trainer.decoder.relations.to_vec(),
                has_inverse_relations: trainer.decoder.n_reciprocal.is_some(),
            })
        })
    }

    /// Runs `body` with the model as it was when it was saved.
    pub(super) fn with_trainer<R>(
        &self,
        data: &LinkData,
        body: impl FnOnce(&mut LinkTrainer<'_>, &mut RankComm<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let graph = message_graph(data, &self.config)?;
        let layout = graph
            .as_ref()
            .map(|graph| layout_of(graph, &self.config, 1));
        let layout = layout.transpose()?;
        let mut comm = Comm::solo();
        let ranks = &mut RankComm::new(&mut comm, Timeout::default());
        let mut trainer = LinkTrainer::new(data, &self.config, layout.as_ref(), ranks)?;
        trainer.load(&self.state, ranks)?;
        trainer.take_best(ranks)?;
        body(&mut trainer, ranks)
    }
}

/// The triple and the side of a question.
fn asked(data: &LinkData, question: Question) -> Result<(Edge, Side), Error> {
    let Question {
        given,
        relation,
        is_head,
    } = question;
    if given >= data.n_nodes() || relation >= data.n_relations() {
        let (n_nodes, n_relations) = (data.n_nodes(), data.n_relations());
        let message = format!(
            "node {given}, relation {relation}: expected ones below {n_nodes} and {n_relations}"
        );
        return Err(Error::new(Error::Graph, message));
    }
    let side = if is_head { Side::Head } else { Side::Tail };
    let triple = Edge {
        source: given,
        relation,
        target: given,
    };
    Ok((triple, side))
}

/// The nodes of the highest scores, equal ones in the order of their ids; `known` ascends.
fn best_of(scores: &[f32], known: &[u32], n_best: usize) -> Vec<Completion> {
    let mut found: Vec<Completion> = (0..)
        .zip(scores)
        .map(|(node, &score)| Completion {
            node,
            score,
            is_known: known.binary_search(&node).is_ok(),
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(n_best);
    found
}

/// The vectors of nodes and relations, `width` numbers each.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkVectors {
    /// Numbers of a vector; of ComplEx the first half are real parts.
    pub width: usize,
    /// In the order of the nodes.
    pub nodes: Vec<f32>,
    /// In the order of the relations.
    pub relations: Vec<f32>,
    /// True if those of the inverse relations stand behind them, by which heads are asked for.
    pub has_inverse_relations: bool,
}

/// One end of a triple and its relation; the other end is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The node at the given end.
    pub given: u32,
    /// The relation.
    pub relation: u32,
    /// True if the head is asked for, else the tail.
    pub is_head: bool,
}

/// A node that may be at the other end of a relation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// The node.
    pub node: u32,
    /// The score of the triple; higher is likelier.
    pub score: f32,
    /// True if the triple is among those to learn from, to choose by or to test on.
    pub is_known: bool,
}
