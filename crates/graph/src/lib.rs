//! Whole graphs in CSR form: readers and writers of five file formats, original node labels, seeded generators.
