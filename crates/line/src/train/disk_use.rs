//! Use of the disk: loads, bytes and waits.

/// Use of the disk by a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiskUse {
    /// Groups of each table.
    pub n_groups: u32,
    /// Groups that were loaded, or made at first sight.
    pub loads: u64,
    /// Largest number of bytes of rows in memory, those on their way included.
    pub peak_bytes: u64,
    /// Bytes of rows that were read.
    pub read_bytes: u64,
    /// Bytes of rows that were written, those of checkpoints too.
    pub written_bytes: u64,
    /// Seconds that training waited for rows: the sum of the next three.
    pub stall_s: f64,
    /// Seconds that it waited for groups to be read.
    pub reading_s: f64,
    /// Seconds that it waited for groups to be written, whose memory a new one was to have.
    pub writing_s: f64,
    /// Seconds in which groups were made that had never been written.
    pub making_s: f64,
    /// Seconds that the disk was at work for it, checkpoints included.
    pub busy_s: f64,
    /// Seconds that training waited for checkpoints.
    pub checkpoint_s: f64,
}

impl DiskUse {
    /// Seconds that the disk worked while training went on.
    #[must_use]
    pub fn overlap_s(&self) -> f64 {
        (self.busy_s - self.reading_s - self.writing_s - self.checkpoint_s).max(0.0)
    }
}
