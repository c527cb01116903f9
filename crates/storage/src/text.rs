//! Small files of text, read whole.

/// Text of UTF-8 bytes.
///
/// ```
/// use shardgraph_storage::utf8_text;
///
/// assert_eq!(utf8_text(b"ann bob\n".to_vec()), Ok("ann bob\n".to_owned()));
/// assert_eq!(utf8_text(b"ann bob\n\nc\xffd".to_vec()), Err(3));
/// ```
///
/// # Errors
/// The line, from 1, of the first bytes that are not UTF-8.
pub fn utf8_text(bytes: Vec<u8>) -> Result<String, usize> {
    String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    })
}
