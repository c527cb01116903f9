//! Use of the disk: loads, bytes and waits.

/// Use of the disk by a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct DiskUse {
    /// Groups of each table.
    #[serde(rename = "groups")]
    pub n_groups: u32,
    /// Groups that were loaded, or made at first sight.
    pub loads: u64,
    /// Bytes of rows that were read.
    pub read_bytes: u64,
    /// Bytes of rows that were written, those of checkpoints too.
    pub written_bytes: u64,
    /// Largest number of bytes of rows in memory, those on their way included.
    #[serde(rename = "peak_row_bytes")]
    pub peak_bytes: u64,
    /// Most bytes that the run was to hold, by a dry run: with as many jobs at a time as a group has
    /// parts.
    pub predicted_bytes: u64,
    /// Most bytes that it held before it wrote its answer, by its own count.
    pub held_bytes: u64,
    /// Seconds that training waited for rows: the sum of the next three.
    #[serde(rename = "stall_seconds")]
    pub stall_s: f64,
    /// Seconds that it waited for groups to be read.
    #[serde(rename = "reading_stall_seconds")]
    pub reading_s: f64,
    /// Seconds that it waited for groups to be written, whose memory a new one was to have.
    #[serde(rename = "writing_stall_seconds")]
    pub writing_s: f64,
    /// Seconds in which groups were made that had never been written.
    #[serde(rename = "making_seconds")]
    pub making_s: f64,
    /// Seconds that training waited for checkpoints.
    #[serde(rename = "checkpoint_seconds")]
    pub checkpoint_s: f64,
    /// Seconds that the disk was at work for it, checkpoints included.
    #[serde(rename = "disk_seconds")]
    pub busy_s: f64,
}

impl DiskUse {
    /// Seconds that the disk worked while training went on.
    #[must_use]
    pub fn overlap_s(&self) -> f64 {
        (self.busy_s - self.reading_s - self.writing_s - self.checkpoint_s).max(0.0)
    }
}
