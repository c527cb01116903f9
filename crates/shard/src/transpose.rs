//! Square bit matrices and their transposes, in blocks of 64 x 64 bits, so that both triangles move at the speed of whole words.

/// Adds the transpose to the matrix: afterwards bit (u, v) is set when it or (v, u) was.
///
/// # Shapes
/// `words` is `n` rows of `words_per_row` words, with no bit at or beyond column `n`.
///
/// # Complexity
/// Each word is read and written once; a block takes 6 rounds of 32 word swaps.
pub(crate) fn mirror(words: &mut [u64], n: usize, words_per_row: usize) {
    let n_blocks = n.div_ceil(64);
    for upper in 0..n_blocks {
        for lower in upper..n_blocks {
            let mut above = load(words, words_per_row, upper, lower);
            let mut below = load(words, words_per_row, lower, upper);
            transpose(&mut below);
            for (a, b) in above.iter_mut().zip(&mut below) {
                *a |= *b;
                *b = *a;
            }
            transpose(&mut below);
            store(words, words_per_row, (upper, lower), &above);
            store(words, words_per_row, (lower, upper), &below);
        }
    }
}

/// The 64 rows from row `64 * row_block`, word `column_block` of each; zero beyond the last row.
fn load(words: &[u64], words_per_row: usize, row_block: usize, column_block: usize) -> [u64; 64] {
    let mut block = [0; 64];
    let rows = words[64 * row_block * words_per_row..].chunks_exact(words_per_row);
    for (slot, row) in block.iter_mut().zip(rows) {
        *slot = row[column_block];
    }
    block
}

fn store(words: &mut [u64], words_per_row: usize, at: (usize, usize), block: &[u64; 64]) {
    let rows = words[64 * at.0 * words_per_row..].chunks_exact_mut(words_per_row);
    for (row, &word) in rows.zip(block) {
        row[at.1] = word;
    }
}

/// Transposes 64 words of 64 bits in place: quadrants of halving width swap across the diagonal.
fn transpose(block: &mut [u64; 64]) {
    let mut width = 32;
    let mut low_columns = u64::MAX >> 32;
    while width > 0 {
        for row in (0..64).filter(|row| row & width == 0) {
            let swap = ((block[row] >> width) ^ block[row + width]) & low_columns;
            block[row] ^= swap << width;
            block[row + width] ^= swap;
        }
        width /= 2;
        low_columns ^= low_columns << width;
    }
}
