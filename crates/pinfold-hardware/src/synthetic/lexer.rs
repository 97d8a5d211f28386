//! Splits a description into words with their positions.

use std::ops::Range;

/// One word of a description and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

/// Splits at blanks, drops comments, and removes the comma at the end of a word. A comma inside a word is part of its
/// value (`distances=10,21`).
pub(super) fn tokens(description: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line_start = 0;
    for line in description.split_inclusive('\n') {
        let code = line.split('#').next().unwrap_or_default();
        let mut at = line_start;
        for piece in code.split_inclusive(char::is_whitespace) {
            let text = piece.trim_end().trim_end_matches(',');
            if !text.is_empty() {
                tokens.push(Token {
                    text,
                    span: at..at + text.len(),
                });
            }
            at += piece.len();
        }
        line_start += line.len();
    }
    tokens
}
