//! Given features of nodes: a dense matrix with a row for each, from a NumPy file or a table, in
//! memory or on disk.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use shardgraph_graph::Labels as Names;
use shardgraph_storage::npy::{Matrix, MatrixHeader};
use shardgraph_storage::{Hasher, Unpacked, hash_numbers, unpacking_error};

use crate::Error;
use crate::data::import::fields::{self, fields};
use crate::data::import::lines::{Line, Lines, shortened};

/// A row of numbers for each node. Features of the same numbers are equal, wherever these are.
#[derive(Clone, Debug)]
pub struct Features {
    width: usize,
    rows: RowStorage,
}

/// The place of the numbers.
#[derive(Clone, Debug)]
enum RowStorage {
    Memory(Vec<f32>),
    Disk(Arc<DiskRows>),
}

/// Rows of f32 in a NumPy file, which are read one by one.
#[derive(Debug)]
struct DiskRows {
    file: File,
    name: String,
    data_at: u64,
    n_rows: usize,
    hash: u64,
}

impl PartialEq for Features {
    fn eq(&self, other: &Features) -> bool {
        match (&self.rows, &other.rows) {
            (RowStorage::Memory(own), RowStorage::Memory(others)) => {
                self.width == other.width && own == others
            }
            _ => self.width == other.width && self.hash() == other.hash(),
        }
    }
}

impl Features {
    /// Rows of `width` numbers, one after the other.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no number in a row, the rows are not whole, or a number is
    /// not finite.
    ///
    /// ```
    /// use shardgraph_rgcn::Features;
    ///
    /// let features = Features::new(2, vec![0.5, 1.0, 0.0, -1.0])?;
    /// let mut row = [0.0; 2];
    /// features.copy_row(1, &mut row)?;
    /// assert_eq!((features.n_rows(), row), (2, [0.0, -1.0]));
    /// # Ok::<(), shardgraph_rgcn::Error>(())
    /// ```
    pub fn new(width: usize, values: Vec<f32>) -> Result<Features, Error> {
        let refuse = |what: String| Err(Error::new(Error::Config, what));
        if width == 0 || !values.len().is_multiple_of(width) {
            let n = values.len();
            return refuse(format!(
                "features: {n} numbers in rows of {width}: expected whole rows"
            ));
        }
        if let Some(idx) = values.iter().position(|value| !value.is_finite()) {
            let (row, value) = (idx / width, values[idx]);
            return refuse(format!(
                "features: row {row}: {value}: expected finite numbers"
            ));
        }
        Ok(Features {
            width,
            rows: RowStorage::Memory(values),
        })
    }

    /// The rows of a `.npy` file of f4 in C order, which stay on disk: a row is read where it is
    /// needed.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Config`] with file and reason for what is not of the form, and for
    /// numbers that are not finite.
    /// # Complexity
    /// One pass over the file, a MiB at a time, for its hash and to see that all numbers are
    /// finite; then a read a row.
    pub fn on_disk(path: &Path) -> Result<Features, Error> {
        let name = path.display().to_string();
        let refuse = |reason: &str| Error::at(Error::Config, &name, 0, 0, reason);
        let io = |error: std::io::Error| read_error(&name, &error);
        let mut file = File::open(path).map_err(io)?;
        let mut head = Vec::new();
        let most = MatrixHeader::MOST_BYTES as u64;
        file.by_ref()
            .take(most)
            .read_to_end(&mut head)
            .map_err(io)?;
        let header = MatrixHeader::from_bytes(&head).map_err(|error| refuse(&error.to_string()))?;
        let (n_rows, width) = (header.n_rows, header.n_columns);
        if header.is_double || width == 0 {
            return Err(refuse("expected numbers of f4, to be read row by row"));
        }
        let n_bytes = n_rows.checked_mul(4 * width).map(|n| n + header.data_at);
        let found = file.metadata().map_err(io)?.len();
        if n_bytes.map(|n| n as u64) != Some(found) {
            let reason = format!("{found} bytes for shape ({n_rows}, {width}): cut short?");
            return Err(refuse(&reason));
        }
        let mut rows = DiskRows {
            file,
            name: name.clone(),
            data_at: header.data_at as u64,
            n_rows,
            hash: 0,
        };
        rows.hash = rows.scan(width)?;
        Ok(Features {
            width,
            rows: RowStorage::Disk(Arc::new(rows)),
        })
    }

    /// Numbers in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match &self.rows {
            RowStorage::Memory(values) => values.len() / self.width,
            RowStorage::Disk(rows) => rows.n_rows,
        }
    }

    /// Copies the row of a node.
    ///
    /// # Errors
    /// [`Error::Io`] where a file cannot be read any more.
    /// # Panics
    /// When there are no more rows than that, or `row` has not their width.
    pub fn copy_row(&self, node: u32, row: &mut [f32]) -> Result<(), Error> {
        match &self.rows {
            RowStorage::Memory(values) => {
                row.copy_from_slice(&values[node as usize * self.width..][..self.width]);
                Ok(())
            }
            RowStorage::Disk(rows) => rows.read(node as usize * self.width, row),
        }
    }

    /// The hash of all numbers.
    pub(crate) fn hash(&self) -> u64 {
        match &self.rows {
            RowStorage::Memory(values) => hash_numbers(values.iter().copied()),
            RowStorage::Disk(rows) => rows.hash,
        }
    }
}

impl DiskRows {
    /// Reads the numbers from `first` on.
    fn read(&self, first: usize, numbers: &mut [f32]) -> Result<(), Error> {
        let mut bytes = vec![0; 4 * numbers.len()];
        let at = self.data_at + 4 * first as u64;
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|error| read_error(&self.name, &error))?;
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// The hash of all numbers, which are finite.
    fn scan(&self, width: usize) -> Result<u64, Error> {
        let mut hasher = Hasher::new();
        let mut numbers = vec![0.0; (1 << 18).max(width)];
        let n = self.n_rows * width;
        for first in (0..n).step_by(numbers.len()) {
            let n_read = numbers.len().min(n - first);
            let numbers = &mut numbers[..n_read];
            self.read(first, numbers)?;
            if let Some(idx) = numbers.iter().position(|value| !value.is_finite()) {
                let (row, value) = ((first + idx) / width, numbers[idx]);
                let reason = format!("features: row {row}: {value}: expected finite numbers");
                return Err(Error::at(Error::Config, &self.name, 0, 0, &reason));
            }
            hasher.numbers(numbers.iter().copied());
        }
        Ok(hasher.finish())
    }
}

fn read_error(file: &str, error: &std::io::Error) -> Error {
    Error::at(Error::Io, file, 0, 0, &error.to_string())
}

/// Reads features: a `.npy` file (f4 or f8, little-endian, in C order) has a row for each node in
/// the order of their ids; any other file is a table with a header, between tabs or commas, whose
/// first column names nodes in any order. Plain, `.gz` or `.zst`.
///
/// # Errors
/// [`Error::Io`]; [`Error::Config`] with file, line and reason for what is not of the form, for
/// rows of other nodes, nodes without a row or with two, and for numbers that are not finite.
/// # Complexity
/// One pass over the file, which is in memory whole where it is a `.npy` file.
pub fn read_features(path: &Path, nodes: &Names) -> Result<Features, Error> {
    let mut unpacked = Unpacked::open(path)?;
    let file = unpacked.name().to_owned();
    if file.to_ascii_lowercase().ends_with(".npy") {
        let mut bytes = Vec::new();
        let read = std::io::Read::read_to_end(&mut unpacked, &mut bytes);
        read.map_err(|e| unpacking_error(e, &file, 0))?;
        let refuse = |reason: String| Error::at(Error::Config, &file, 0, 0, &reason);
        let matrix = Matrix::from_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
        let features = Features::new(matrix.n_columns, matrix.values)
            .map_err(|error| refuse(error.to_string()))?;
        let (found, expected) = (features.n_rows(), nodes.n_nodes());
        if found != expected as usize {
            let reason = format!("{found} rows: expected one for each of {expected} nodes");
            return Err(refuse(reason));
        }
        return Ok(features);
    }
    Table::new(&file, nodes).read(Lines::new(&file, Box::new(unpacked)))
}

/// A table under way.
struct Table<'a> {
    file: &'a str,
    nodes: &'a Names,
    separator: char,
    width: usize,
    values: Vec<f32>,
    has_row: Vec<bool>,
}

impl<'a> Table<'a> {
    fn new(file: &'a str, nodes: &'a Names) -> Table<'a> {
        Table {
            file,
            nodes,
            separator: ',',
            width: 0,
            values: Vec::new(),
            has_row: vec![false; nodes.n_nodes() as usize],
        }
    }

    fn read(mut self, mut lines: Lines<'_>) -> Result<Features, Error> {
        while let Some(line) = lines.next_filled()? {
            match self.width {
                0 => self.header(line)?,
                _ => self.row(line)?,
            }
        }
        let refuse = |reason: &str| Error::at(Error::Config, self.file, 0, 0, reason);
        if self.width == 0 {
            return Err(refuse("the file is empty: expected a header and rows"));
        }
        if let Some(node) = self.has_row.iter().position(|has_row| !has_row) {
            let n = self.has_row.iter().filter(|has_row| !**has_row).count();
            let name = self.nodes.get(node as u32);
            let reason =
                format!("{n} nodes have no row, the first is `{name}`: expected one for each");
            return Err(refuse(&reason));
        }
        Features::new(self.width, self.values)
    }

    fn header(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text().unwrap_or_default();
        self.separator = fields::separator(text);
        self.width = fields(text, self.separator).count() - 1;
        if self.width == 0 {
            let reason =
                "expected a column of nodes and columns of features, between tabs or commas";
            return Err(line.error(Error::Config, 1, reason));
        }
        self.values = vec![0.0; self.has_row.len() * self.width];
        Ok(())
    }

    fn row(&mut self, line: Line<'_>) -> Result<(), Error> {
        let refuse = |reason: String| line.error(Error::Config, 0, reason);
        let text = line
            .text()
            .map_err(|_| refuse("expected UTF-8, found other bytes".into()))?;
        let mut fields = fields(text, self.separator);
        let name = fields
            .next()
            .transpose()
            .map_err(refuse)?
            .unwrap_or_default();
        let name = name
            .strip_prefix('<')
            .and_then(|name| name.strip_suffix('>'))
            .unwrap_or(&name);
        let unknown = || refuse(format!("`{name}`: the graph has no such node"));
        let node = self.nodes.find(name).ok_or_else(unknown)? as usize;
        if std::mem::replace(&mut self.has_row[node], true) {
            return Err(refuse(format!("a second row of `{name}`")));
        }
        let mut n_fields = 0;
        for (idx, field) in fields.enumerate() {
            n_fields += 1;
            let field = field.map_err(refuse)?;
            let number = field.parse().ok().filter(|value: &f32| value.is_finite());
            let number = number.ok_or_else(|| {
                let found = shortened(field.as_bytes());
                refuse(format!(
                    "expected a finite number in column {}, found {found}",
                    idx + 2
                ))
            })?;
            if idx < self.width {
                self.values[node * self.width + idx] = number;
            }
        }
        match n_fields == self.width {
            true => Ok(()),
            false => Err(refuse(format!(
                "{n_fields} features: expected {}, as the header has",
                self.width
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A NumPy file as NumPy writes it.
    fn numpy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((padded as u16).to_le_bytes());
        bytes.extend(format!("{header:<width$}\n", width = padded - 1).bytes());
        bytes.extend(data);
        bytes
    }

    fn read(name: &str, bytes: &[u8], n_nodes: u32) -> Result<Features, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let read = read_features(&path, &Names::offset(0, n_nodes));
        read.map_err(|error| error.to_string().rsplit('/').next().unwrap().to_owned())
    }

    #[test]
    fn numpy_files_of_both_sizes_are_read() {
        let values = [1.5f32, -2.0, 0.0, 3.25, 8.0, 1e-3];
        let single: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let double: Vec<u8> = values
            .iter()
            .flat_map(|&x| f64::from(x).to_le_bytes())
            .collect();
        let expected = Features::new(3, values.to_vec()).unwrap();
        assert_eq!(
            read("a.npy", &numpy("<f4", "(2, 3)", &single), 2).unwrap(),
            expected
        );
        assert_eq!(
            read("a.npy", &numpy("<f8", "(2, 3)", &double), 2).unwrap(),
            expected
        );
        let refused = |bytes: &[u8], n_nodes| read("a.npy", bytes, n_nodes).unwrap_err();
        assert_eq!(
            refused(&numpy("<f4", "(2, 3)", &single), 3),
            "a.npy: 2 rows: expected one for each of 3 nodes"
        );
        assert!(refused(&numpy("<f4", "(2, 3)", &single[..20]), 2).contains("cut short?"));
        assert!(
            refused(&numpy("<i4", "(2, 3)", &single), 2)
                .contains("expected little-endian f4 or f8")
        );
        assert!(refused(&numpy("<f4", "(6,)", &single), 2).contains("expected a shape"));
        assert!(refused(b"\x93NUM", 2).contains("no .npy file"));
        let infinite = f32::INFINITY.to_le_bytes();
        assert!(refused(&numpy("<f4", "(1, 1)", &infinite), 1).contains("row 0: inf"));
    }

    #[test]
    fn tables_name_their_rows() {
        let expected = Features::new(2, vec![1.0, 2.0, -3.0, 0.5]).unwrap();
        assert_eq!(
            read("a.csv", b"node,x,y\n1,-3,0.5\n0, 1, 2\n", 2).unwrap(),
            expected
        );
        assert_eq!(
            read("a.tsv", b"node\tx\ty\n0\t1\t2\n1\t-3\t.5\n", 2).unwrap(),
            expected
        );
        let refused = |text: &str| read("a.csv", text.as_bytes(), 2).unwrap_err();
        assert_eq!(
            refused("node,x\n0,1\n"),
            "a.csv: 1 nodes have no row, the first is `1`: expected one for each"
        );
        assert_eq!(
            refused("node,x\n0,1\n0,2\n"),
            "a.csv:3: a second row of `0`"
        );
        assert_eq!(
            refused("node,x\n7,1\n"),
            "a.csv:2: `7`: the graph has no such node"
        );
        assert_eq!(
            refused("node,x\n0,one\n"),
            "a.csv:2: expected a finite number in column 2, found `one`"
        );
        assert_eq!(
            refused("node,x\n0,inf\n"),
            "a.csv:2: expected a finite number in column 2, found `inf`"
        );
        assert_eq!(
            refused("node,x\n0,1,2\n"),
            "a.csv:2: 2 features: expected 1, as the header has"
        );
        assert_eq!(
            refused("node\n0\n"),
            "a.csv:1:1: expected a column of nodes and columns of features, between tabs or commas"
        );
        assert!(refused("").contains("empty"));
    }

    #[test]
    fn rows_on_disk_are_those_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let values = [1.5f32, -2.0, 0.0, 3.25, 8.0, 1e-3];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = numpy("<f4", "(3, 2)", &bytes);
        fs::write(&path, &file).unwrap();
        let (disk, memory) = (
            Features::on_disk(&path).unwrap(),
            Features::new(2, values.to_vec()).unwrap(),
        );
        assert_eq!(disk, memory);
        for node in 0..3 {
            let mut rows = [[0.0; 2], [0.0; 2]];
            disk.copy_row(node, &mut rows[0]).unwrap();
            memory.copy_row(node, &mut rows[1]).unwrap();
            let bits = rows.map(|row| row.map(f32::to_bits));
            assert_eq!(bits[0], bits[1]);
        }
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Features::on_disk(&path).unwrap_err().to_string()
        };
        assert!(refused(&file[..file.len() - 4]).contains("cut short?"));
        assert!(refused(&numpy("<f8", "(1, 1)", &[0; 8])).contains("expected numbers of f4"));
        let infinite = f32::INFINITY.to_le_bytes();
        assert!(refused(&numpy("<f4", "(1, 1)", &infinite)).contains("row 0: inf"));
    }
}
