//! The corpus: one bad file a line, with what its error must say.

use shardgraph_graph::Format::{self, Dimacs, EdgeList, Gset, MatrixMarket, Metis, Ml4co, Pace};

/// Bytes, format, line, column, and a fragment of the message.
pub(crate) type Case = (&'static [u8], Format, u64, u64, &'static str);

#[rustfmt::skip]
pub(crate) const MATRIX_MARKET: &[Case] = &[
    (b"", MatrixMarket, 1, 1, "the banner `%%MatrixMarket matrix coordinate ...`, found the end of the file"),
    (b"\n1 1 0\n", MatrixMarket, 1, 1, "the banner"),
    (b"3 3 1\n1 2\n", MatrixMarket, 1, 1, "found `3`"),
    (b"%%MatrixMarket\n", MatrixMarket, 1, 15, "expected `matrix`, found the end of the line"),
    (b"%%MatrixMarket vector coordinate pattern symmetric\n", MatrixMarket, 1, 16, "such a matrix is not"),
    (b"%%MatrixMarket matrix array real general\n", MatrixMarket, 1, 23, "found `array`: such a matrix is not"),
    (b"%%MatrixMarket matrix coordinate complex general\n", MatrixMarket, 1, 34, "found `complex`: such a matrix"),
    (b"%%MatrixMarket matrix coordinate real skew-symmetric\n", MatrixMarket, 1, 39, "found `skew-symmetric`: such"),
    (b"%%MatrixMarket matrix coordinate real hermitian\n", MatrixMarket, 1, 39, "found `hermitian`: such a matrix"),
    (b"%%MatrixMarket matrix coordinate bool general\n", MatrixMarket, 1, 34, "`pattern` or `real` or `integer`"),
    (b"%%MatrixMarket matrix coordinate pattern general x\n", MatrixMarket, 1, 50, "the end of the line after the symmetry"),
    (b"%%MatrixMarket matrix coordinate pattern general\n% only\n", MatrixMarket, 3, 1, "the size line"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 2 1\n1 2\n", MatrixMarket, 2, 3, "only a square matrix"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3\n", MatrixMarket, 2, 4, "the number of entries, found the end of the line"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 x\n", MatrixMarket, 2, 5, "the number of entries, found `x`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1 1\n", MatrixMarket, 2, 7, "the end of the line"),
    (b"%%MatrixMarket matrix coordinate pattern general\n-3 -3 1\n", MatrixMarket, 2, 1, "the number of rows, found `-3`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n4000000000000 4000000000000 1\n1 2\n", MatrixMarket, 2, 1, "at most 4294967294"),
    (b"%%MatrixMarket matrix coordinate pattern general\n4294967295 4294967295 1\n1 2\n", MatrixMarket, 2, 1, "at most 4294967294"),
    (b"%%MatrixMarket matrix coordinate pattern general\n4294967294 4294967294 1\n1 2\n", MatrixMarket, 2, 1, "promises 4294967294 nodes, but only 1 edges"),
    (b"%%MatrixMarket matrix coordinate pattern general\n18446744073709551616 1 1\n", MatrixMarket, 2, 1, "the number of rows, found `18446744073709551616`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 4000000000000\n1 2\n", MatrixMarket, 4, 1, "4000000000000 entries in all, 1 came"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n2 3\n", MatrixMarket, 4, 1, "the end of the file after 1 entries, found `2 3`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n0 2\n", MatrixMarket, 3, 1, "a node id from 1 to 3, found `0`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n", MatrixMarket, 3, 3, "a node id from 1 to 3, found `4`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 -2\n", MatrixMarket, 3, 3, "a node id from 1 to 3, found `-2`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 18446744073709551616\n", MatrixMarket, 3, 3, "found `18446744073709551616`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1\n", MatrixMarket, 3, 2, "found the end of the line"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2 1.0\n", MatrixMarket, 3, 5, "the end of the line after the column, found `1.0`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\0\n", MatrixMarket, 3, 3, "found `2\\x00`"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2.0\n", MatrixMarket, 3, 3, "found `2.0`"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n", MatrixMarket, 3, 4, "a finite number of at most 3.4e38 as weight, found the end of the line"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n", MatrixMarket, 3, 5, "a finite number of at most 3.4e38 as weight, found `nan`"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 -inf\n", MatrixMarket, 3, 5, "found `-inf`"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 1e999\n", MatrixMarket, 3, 5, "found `1e999`"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 1 junk\n", MatrixMarket, 3, 7, "after the value, found `junk`"),
    (b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 0x10\n", MatrixMarket, 3, 5, "found `0x10`"),
    // Lines are counted alike whatever ends them, and the column counts tabs and blanks as one.
    (b"%%MatrixMarket matrix coordinate pattern general\r\n3 3 1\r\n1\t \tx\r\n", MatrixMarket, 3, 5, "found `x`"),
    (b"%%MatrixMarket matrix coordinate pattern general\r3 3 1\r1 x\r", MatrixMarket, 3, 3, "found `x`"),
    (b"\xef\xbb\xbf%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 x\n", MatrixMarket, 3, 3, "found `x`"),
    (b"\xff\xfe%\0%\0", MatrixMarket, 1, 1, "found UTF-16"),
    (b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 a-field-that-is-too-long-to-be-shown\n", MatrixMarket, 3, 3, "found `a-field-that-is-too-long...`"),
];

#[rustfmt::skip]
pub(crate) const EDGE_LIST: &[Case] = &[
    (b"1 2\n3\n", EdgeList, 2, 2, "a second node id, found the end of the line"),
    (b"1 2\n3 \n", EdgeList, 2, 3, "a second node id, found the end of the line"),
    (b"1,,2\n", EdgeList, 1, 3, "a field, found `,`"),
    (b",1,2\n", EdgeList, 1, 1, "a field, found `,`"),
    (b"a b\nc \0\n", EdgeList, 2, 3, "a node id of no control characters, found `\\x00`"),
    (b"a b\nc \xff\xfe\n", EdgeList, 2, 3, "a node id of valid UTF-8, found `\\xff\\xfe`"),
    (b"a \"b\n", EdgeList, 1, 5, "a quote that ends the node id, found the end of the line"),
    (b"\"a\"x,b\n", EdgeList, 1, 4, "the end of a node id, found `x,b`"),
    (b"a\"b c\n", EdgeList, 1, 1, "a node id of no quotes inside"),
    (b"Anna Lee,\n", EdgeList, 1, 10, "a second node id, found the end of the line"),
    (b"\"\",b\n", EdgeList, 1, 1, "a field, found `\\\"\\\"`"),
    (b"Anna Lee,,Bob\n", EdgeList, 1, 10, "a field, found `,`"),
    (b"# c\nann,bob\n1,2\n2,3\n", EdgeList, 2, 1, "found `ann` while all other ids are integers"),
    (b"\xfe\xff\0#", EdgeList, 1, 1, "found UTF-16"),
];

#[rustfmt::skip]
pub(crate) const DIMACS: &[Case] = &[
    (b"", Dimacs, 1, 1, "expected `p edge n m` or `p col n m`, found the end of the file"),
    (b"c only\n", Dimacs, 2, 1, "found the end of the file"),
    (b"e 1 2\n", Dimacs, 1, 1, "expected `p edge n m` or `p col n m`, found `e`"),
    (b"p\n", Dimacs, 1, 2, "expected `edge` or `col`, found the end of the line"),
    (b"p sp 3 2\n", Dimacs, 1, 3, "expected `edge` or `col`, found `sp`"),
    (b"p cnf 3 2\n", Dimacs, 1, 3, "expected `edge` or `col`, found `cnf`"),
    (b"p col x 2\n", Dimacs, 1, 7, "the number of nodes, found `x`"),
    (b"p col 3\n", Dimacs, 1, 8, "the number of edges, found the end of the line"),
    (b"p col 3 2 1\n", Dimacs, 1, 11, "the end of the line"),
    (b"p edge 4000000000000 1\ne 1 2\n", Dimacs, 1, 8, "at most 4294967294"),
    (b"p edge 4000000000 1\ne 1 2\n", Dimacs, 1, 1, "promises 4000000000 nodes"),
    (b"p edge 4 1\ne 1 9\n", Dimacs, 2, 5, "a node id from 1 to 4, found `9`"),
    (b"p edge 4 1\ne 0 2\n", Dimacs, 2, 3, "a node id from 1 to 4, found `0`"),
    (b"p edge 4 1\ne 1\n", Dimacs, 2, 4, "found the end of the line"),
    (b"p edge 4 1\ne 1 2 3\n", Dimacs, 2, 7, "after the two nodes, found `3`"),
    (b"p edge 4 1\n1 2\n", Dimacs, 2, 1, "a line of kind `e`, `n` or `c`, found `1`"),
    (b"p edge 4 1\np edge 4 1\n", Dimacs, 2, 1, "found `p`"),
    (b"p edge 4 3\ne 1 2\n", Dimacs, 3, 1, "3 edges in all (or half or twice as many), 1 came"),
    (b"p edge 4 1\ne 1 2\ne 2 3\ne 3 4\n", Dimacs, 4, 1, "no more edges (the header counts 1)"),
    (b"p edge 4 1\nn 5 1\ne 1 2\n", Dimacs, 2, 3, "a node id from 1 to 4, found `5`"),
    (b"p edge 4 1\nn 1 x\ne 1 2\n", Dimacs, 2, 5, "a finite number of at most 3.4e38 as weight, found `x`"),
    (b"p edge 4 1\ne 1 2\0\n", Dimacs, 2, 5, "found `2\\x00`"),
];

#[rustfmt::skip]
pub(crate) const METIS: &[Case] = &[
    (b"", Metis, 1, 1, "a header `n m [fmt [ncon]]`, found the end of the file"),
    (b"% only\n", Metis, 2, 1, "a header"),
    (b"3\n", Metis, 1, 2, "the number of edges, found the end of the line"),
    (b"3 2 7\n", Metis, 1, 5, "up to three digits 0 or 1"),
    (b"3 2 0001\n", Metis, 1, 5, "up to three digits 0 or 1"),
    (b"3 2 10 0\n\n\n\n", Metis, 1, 8, "from 1 to 1024 weights per node, found `0`"),
    (b"3 2 10 99999\n\n\n\n", Metis, 1, 8, "from 1 to 1024 weights per node"),
    (b"3 2 1 2\n\n\n\n", Metis, 1, 7, "no weights per node"),
    (b"3 2 0 0 0\n", Metis, 1, 9, "the end of the line after the header"),
    (b"4000000000000 1\n2\n1\n", Metis, 1, 1, "at most 4294967294"),
    (b"4000000000 1\n2\n1\n", Metis, 4, 1, "4000000000 rows, one for each node, 2 came"),
    (b"3 1\n2\n1\n", Metis, 4, 1, "3 rows, one for each node, 2 came"),
    (b"2 1\n2\n1\n1\n", Metis, 4, 1, "the end of the file after 2 rows, found `1`"),
    (b"2 1\n3\n1\n", Metis, 2, 1, "a node id from 1 to 2, found `3`"),
    (b"2 1\n0\n1\n", Metis, 2, 1, "a node id from 1 to 2, found `0`"),
    (b"2 1\n2 x\n1\n", Metis, 2, 3, "a node id from 1 to 2, found `x`"),
    (b"2 2\n2\n1\n", Metis, 1, 3, "expected 1 edges as the rows have (each counted once), found `2`"),
    (b"2 1 1\n2\n1 1\n", Metis, 2, 2, "a finite number of at most 3.4e38 as weight, found the end of the line"),
    (b"2 1 1\n2 nan\n1 1\n", Metis, 2, 3, "found `nan`"),
    // An edge in one of its rows only; with a comment, so that lines are not rows.
    (b"3 2\n%\n2\n1 3\n\n", Metis, 5, 1, "expected neighbour 2 in the row of node 3 (line 4 lists the edge"),
    (b"3 2\n%\n2\n1\n2\n", Metis, 5, 1, "expected no neighbour 2"),
    (b"3 2\n\n3 3\n2\n", Metis, 4, 1, "expected neighbour 2 in the row of node 3"),
    (b"3 1\n2\n1 1\n\n", Metis, 3, 3, "expected no neighbour 1"),
    (b"2 1 1\n2 5\n1 6\n", Metis, 3, 1, "expected neighbour 1 in the row of node 2 (line 2"),
    (b"3 2 11 2\n1 1 2 5\n1 1 1 5 3 2\n1 1\n", Metis, 4, 1, "expected neighbour 2 in the row of node 3 (line 3"),
];

#[rustfmt::skip]
pub(crate) const PACE: &[Case] = &[
    (b"", Pace, 1, 1, "a header `p td n m`, `p vc n m` or `n m`, found the end of the file"),
    (b"c only\n", Pace, 2, 1, "a header"),
    (b"p sp 3 2\n", Pace, 1, 3, "found `sp`: other problems' files"),
    (b"p td 3\n", Pace, 1, 7, "the number of edges, found the end of the line"),
    (b"p td x 3\n", Pace, 1, 6, "the number of nodes, found `x`"),
    (b"pp td 3 3\n", Pace, 1, 1, "found `pp`"),
    (b"3 1 1\n1 2\n", Pace, 1, 5, "the end of the line"),
    (b"p td 4000000000000 1\n1 2\n", Pace, 1, 6, "at most 4294967294"),
    (b"p td 4000000000 1\n1 2\n", Pace, 1, 1, "promises 4000000000 nodes"),
    (b"p td 3 2\n1 2\n", Pace, 3, 1, "2 edges in all, 1 came"),
    (b"p td 3 2\n1 2\nc\n\n", Pace, 5, 1, "2 edges in all, 1 came"),
    (b"3 1\n1 2\n2 3\n", Pace, 3, 1, "the end of the file after 1 edges, found `2 3`"),
    (b"3 1\n1 4\n", Pace, 2, 3, "a node id from 1 to 3, found `4`"),
    (b"3 1\n0 1\n", Pace, 2, 1, "a node id from 1 to 3, found `0`"),
    (b"3 1\n1 2 3\n", Pace, 2, 5, "after the two nodes"),
    (b"3 1\n1\n", Pace, 2, 2, "found the end of the line"),
    (b"3 1\ne 1 2\n", Pace, 2, 1, "a node id from 1 to 3, found `e`"),
];

#[rustfmt::skip]
pub(crate) const GSET: &[Case] = &[
    (b"", Gset, 1, 1, "a header `n m`, found the end of the file"),
    (b"3\n", Gset, 1, 2, "the number of edges, found the end of the line"),
    (b"3 x\n", Gset, 1, 3, "the number of edges, found `x`"),
    (b"3 1 1\n", Gset, 1, 5, "the end of the line after the number of edges"),
    (b"3 2\n1 2 1\n", Gset, 3, 1, "2 edges in all, 1 came"),
    (b"3 1\n1 2 1\n2 3 1\n", Gset, 3, 1, "the end of the file after 1 edges"),
    (b"3 1\n0 2 1\n", Gset, 2, 1, "a node id from 1 to 3, found `0`"),
    (b"3 1\n1 4 1\n", Gset, 2, 3, "a node id from 1 to 3, found `4`"),
    (b"3 1\n1 2 nan\n", Gset, 2, 5, "a finite number"),
    (b"3 2\n1 2 1\n2 3\n", Gset, 3, 4, "a finite number"),
    (b"3 2\n1 2\n2 3 1\n", Gset, 3, 5, "the end of the line after the weight"),
    (b"3 1\n1 2 1 1\n", Gset, 2, 7, "the end of the line after the weight"),
    (b"4294967295 1\n1 2 1\n", Gset, 1, 1, "at most 4294967294"),
    (b"4294967294 1\n1 2 1\n", Gset, 1, 1, "promises 4294967294 nodes, but only 1 edges"),
];

#[rustfmt::skip]
pub(crate) const ML4CO: &[Case] = &[
    (b"", Ml4co, 1, 1, "graph 0, counted from 0; 0 came, found the end of the file"),
    (b"0 1\n", Ml4co, 1, 4, "`label` and a number for each node, found the end of the line"),
    (b"0 1 2 label 0 0 0\n", Ml4co, 1, 7, "a node id below 3, the number of labels, found `label`"),
    (b"0 3 label 0 0 0\n", Ml4co, 1, 3, "a node id below 3, the number of labels, found `3`"),
    (b"0 x label 0 0\n", Ml4co, 1, 3, "a node id or `label`, found `x`"),
    (b"0 1 label 0 y\n", Ml4co, 1, 13, "a label, which is a whole number, found `y`"),
    (b"0 1 labels 0 0\n", Ml4co, 1, 5, "a node id or `label`, found `labels`"),
];
