//! Numbers for text ids in bounded memory, in order of first sight, as the reader would give them.
//!
//! Names go to partitions by hash, in files, and one byte an end of an edge says to which. Each
//! partition is numbered by itself, in a table that holds its labels alone. Then the ends are gone
//! through again: the partition's own numbers rise with first sight, so a number that is the next
//! of its partition is a new node, and its label is the next of the partition's labels.

use std::io::{self, Read};
use std::path::Path;

use shardgraph_graph::{Interner, MAX_NODES};
use shardgraph_storage::{SpillFile, hash};

use super::super::labels::{LabelSpool, LabelStream};
use crate::Error;
use crate::edges::beside::beside;

/// Ends of edges that are numbered together, so that lookups overlap.
const BATCH: usize = 1024;

/// Files of a kind that are open at a time stay far below what systems allow.
const N_PARTITIONS: usize = 64;

/// The ends of edges by name, as they come.
#[derive(Debug)]
pub(super) struct Names {
    partitions: Vec<SpillFile>,
    /// The partition of each end, a byte.
    of_end: SpillFile,
    n_ends: u64,
    room: usize,
}

/// One partition once it is numbered.
struct Numbered {
    /// Of each end, as u32.
    numbers: SpillFile,
    labels: LabelSpool,
}

impl Names {
    pub(super) fn new(stem: &Path, room: usize) -> Names {
        let spool = |what: &str| SpillFile::new(beside(stem, what), room);
        Names {
            partitions: (0..N_PARTITIONS)
                .map(|p| spool(&format!("names-{p}")))
                .collect(),
            of_end: spool("ends"),
            n_ends: 0,
            room,
        }
    }

    /// The files that are written to; the first is named where one fails.
    pub(super) fn path(&self) -> &Path {
        self.of_end.path()
    }

    /// Takes the name of the next end.
    pub(super) fn push(&mut self, name: &str) -> io::Result<()> {
        // The highest bits: the partition's table takes the lowest of the same hash.
        let partition = (hash(name.as_bytes()) >> (64 - N_PARTITIONS.ilog2())) as usize;
        // Names have at most 4096 bytes.
        let len = (name.len() as u16).to_le_bytes();
        self.partitions[partition].write(&len)?;
        self.partitions[partition].write(name.as_bytes())?;
        self.n_ends += 1;
        self.of_end.write(&[partition as u8])
    }

    /// Gives the number of every end to `take`, in their order; returns the labels by number.
    pub(super) fn number(
        self,
        stem: &Path,
        memory: u64,
        mut take: impl FnMut(u32) -> Result<(), Error>,
    ) -> Result<LabelSpool, Error> {
        let mut numbered = Vec::new();
        for (at, names) in self.partitions.into_iter().enumerate() {
            let what = format!("numbers-{at}");
            numbered.push(number_partition(&names, stem, &what, memory, self.room)?);
        }
        let mut merge = Merge {
            readers: numbered
                .iter()
                .map(|partition| (partition.numbers.read(), partition.labels.iter()))
                .collect(),
            maps: vec![Vec::new(); N_PARTITIONS],
            labels: LabelSpool::new(stem, "labels", self.room),
            memory,
        };
        let mut ends = self.of_end.read();
        let (mut partitions, mut own) = ([0; BATCH], Vec::with_capacity(BATCH));
        let mut left = self.n_ends;
        while left > 0 {
            let partitions = &mut partitions[..left.min(BATCH as u64) as usize];
            let read = ends.read_exact(partitions);
            read.map_err(|e| Error::io("read", self.of_end.path(), e))?;
            own.clear();
            for &partition in &*partitions {
                own.push(merge.own_number(partition)?);
            }
            for (&partition, &own) in partitions.iter().zip(&own) {
                take(merge.number(partition, own)?)?;
            }
            left -= partitions.len() as u64;
        }
        Ok(merge.labels)
    }
}

/// The partitions' numbers and labels, gone through together.
struct Merge<R, L: Read, T: Read> {
    readers: Vec<(R, LabelStream<L, T>)>,
    /// By partition, the number of each of its numbers.
    maps: Vec<Vec<u32>>,
    labels: LabelSpool,
    memory: u64,
}

impl<R: Read, L: Read, T: Read> Merge<R, L, T> {
    /// The number within its partition of the next end of a partition.
    fn own_number(&mut self, partition: u8) -> Result<u32, Error> {
        let numbers = &mut self.readers[usize::from(partition)].0;
        let own = exact(numbers).map_err(|e| Error::io("read", self.labels.path(), e))?;
        Ok(u32::from_le_bytes(own))
    }

    /// The number of the node with this number of a partition.
    fn number(&mut self, partition: u8, own: u32) -> Result<u32, Error> {
        let (map, own) = (&mut self.maps[usize::from(partition)], own as usize);
        if own == map.len() {
            let texts = &mut self.readers[usize::from(partition)].1;
            let failed = |e: io::Error| Error::io("read or write", self.labels.path(), e);
            let n_nodes = self.labels.len();
            if 4 * n_nodes > self.memory || n_nodes >= u64::from(MAX_NODES) {
                return Err(too_many(self.memory, n_nodes));
            }
            map.push(n_nodes as u32);
            let label = texts.next().map_err(failed)?;
            let pushed = self.labels.push(label);
            pushed.map_err(|e| Error::io("write", self.labels.path(), e))?;
        }
        Ok(map[own])
    }
}

fn too_many(memory: u64, n_nodes: u64) -> Error {
    let message = format!("memory = {memory}: {n_nodes} text ids do not fit: raise the limit");
    Error::memory(message)
}

/// Numbers the names of one partition in order of first sight.
fn number_partition(
    names: &SpillFile,
    stem: &Path,
    what: &str,
    memory: u64,
    room: usize,
) -> Result<Numbered, Error> {
    let mut table = Interner::default();
    let mut numbers = SpillFile::new(beside(stem, what), room);
    let mut labels = LabelSpool::new(stem, &format!("{what}-labels"), room);
    let mut input = names.read();
    let mut left = names.bytes();
    let mut name = Vec::new();
    let failed = |e: io::Error| Error::io("read", names.path(), e);
    while left > 0 {
        let len = u16::from_le_bytes(exact(&mut input).map_err(failed)?);
        name.resize(usize::from(len), 0);
        input.read_exact(&mut name).map_err(failed)?;
        left -= 2 + u64::from(len);
        let n_known = table.len();
        let number = table.intern(&name);
        let written = match number == n_known {
            true => labels.push(&name),
            false => Ok(()),
        };
        written
            .and_then(|()| numbers.write(&number.to_le_bytes()))
            .map_err(|e| Error::io("write", numbers.path(), e))?;
        if table.bytes() > memory {
            return Err(too_many(
                memory,
                u64::from(table.len()) * N_PARTITIONS as u64,
            ));
        }
    }
    Ok(Numbered { numbers, labels })
}

fn exact<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::scratch_names::is_scratch;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn numbers_are_those_of_first_sight(
            names in prop::collection::vec("[a-c]{0,3}", 0..400),
            room in 0usize..64,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("g.store");
            let mut spooled = Names::new(&out, room);
            let mut naive: Vec<&str> = Vec::new();
            let mut expected = Vec::new();
            for name in &names {
                spooled.push(name).unwrap();
                let known = naive.iter().position(|other| other == name);
                expected.push(known.unwrap_or(naive.len()) as u32);
                if known.is_none() {
                    naive.push(name);
                }
            }
            let mut found = Vec::new();
            let labels = spooled.number(&out, 1 << 20, |number| {
                for entry in std::fs::read_dir(folder.path()).unwrap().filter(|_| number == 0) {
                    let name = entry.unwrap().file_name().into_string().unwrap();
                    let what = name.strip_prefix("g.store-").unwrap();
                    assert!(is_scratch(what), "the next import would not know {what}");
                }
                found.push(number);
                Ok(())
            });
            prop_assert_eq!(found, expected);
            let labels = labels.unwrap();
            let mut iter = labels.iter();
            for name in naive {
                prop_assert_eq!(iter.next().unwrap(), name.as_bytes());
            }
            drop(iter);
            drop(labels);
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn too_little_memory_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("g.store");
        let mut names = Names::new(&out, 64);
        for i in 0..5000 {
            names.push(&format!("node-{i}")).unwrap();
        }
        let message = names
            .number(&out, 1000, |_| Ok(()))
            .unwrap_err()
            .to_string();
        assert!(message.contains("memory = 1000: "), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
