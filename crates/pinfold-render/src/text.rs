//! Wraps text to a number of columns.

use std::fmt::Write;

/// Text that stays on one line, and its width in columns without colour codes.
#[derive(Clone, Debug)]
pub(crate) struct UnbrokenText {
    pub(crate) text: String,
    pub(crate) columns: usize,
}

impl UnbrokenText {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        let columns = text.chars().count();
        Self { text, columns }
    }
}

/// Writes words `gap` blanks apart, on as many lines as they need. The first line begins at column `first`, where the
/// text already is; the others are indented by `hang`.
pub(crate) fn fill(
    text: &mut String,
    words: &[UnbrokenText],
    first: usize,
    hang: usize,
    gap: usize,
    width: usize,
) {
    let mut column = first;
    for (index, word) in words.iter().enumerate() {
        let lead = if index == 0 { 0 } else { gap };
        if index > 0 && column + lead + word.columns > width {
            let _ = write!(text, "\n{:hang$}", "");
            column = hang;
        } else {
            let _ = write!(text, "{:lead$}", "");
            column += lead;
        }
        text.push_str(&word.text);
        column += word.columns;
    }
    text.push('\n');
}

/// A paragraph: `lead`, then the words of `sentence`, later lines indented by `hang`.
#[must_use]
pub fn paragraph(lead: &str, sentence: &str, hang: usize, width: usize) -> String {
    let mut text = lead.to_owned();
    let words: Vec<UnbrokenText> = sentence
        .split_whitespace()
        .map(UnbrokenText::plain)
        .collect();
    fill(&mut text, &words, lead.chars().count(), hang, 1, width);
    text
}

/// `1 pod`, `2 pods`; `1,234 pods`.
#[must_use]
pub fn count(number: usize, one: &str, several: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { several }
    )
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_hangs_and_stays_within_its_columns() {
        let text = paragraph("1  ", "one two three four", 3, 12);
        assert_eq!(text, "1  one two\n   three\n   four\n");
    }

    #[test]
    fn a_word_wider_than_the_line_stands_alone() {
        assert_eq!(paragraph("", "a wonderful b", 0, 5), "a\nwonderful\nb\n");
    }

    #[test]
    fn large_numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(count(1, "pod", "pods"), "1 pod");
        assert_eq!(count(2000, "pod", "pods"), "2,000 pods");
    }
}
