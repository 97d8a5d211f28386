//! Escapes control characters in texts from files, so that no name can move the cursor or hide lines of a terminal.

use std::borrow::Cow;

/// The colours of pods (30;48;5;N), bold and red headings: the only sequences that our texts contain themselves.
const STYLES: [&str; 3] = ["0", "1", "31"];
const POD_COLOUR: &str = "30;48;5;";

/// Replaces control characters other than line breaks and tabs, and characters that reorder text, by `\u001b` and the
/// like. With `styled`, the colours of our own pictures stay.
#[must_use]
pub fn escape(text: &str, styled: bool) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = match styled {
            true => style_length(rest),
            false => 0,
        };
        if length > 0 {
            safe.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match is_unsafe(letter) {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => safe.push(letter),
        }
        rest = &rest[letter.len_utf8()..];
    }
    Cow::Owned(safe)
}

fn is_unsafe(letter: char) -> bool {
    let reorders = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    reorders || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// The length of one of our own styles at the beginning of `text`, or 0.
fn style_length(text: &str) -> usize {
    let Some((code, _)) = text
        .strip_prefix("\u{1b}[")
        .and_then(|rest| rest.split_once('m'))
    else {
        return 0;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let own = STYLES.contains(&code) || code.strip_prefix(POD_COLOUR).is_some_and(is_number);
    match own {
        true => code.len() + 3,
        false => 0,
    }
}

/// Makes headings bold and rejections red: a heading is the first line of a paragraph that is not indented and no
/// sentence.
#[must_use]
pub fn emphasize(text: &str) -> String {
    let mut styled = String::with_capacity(text.len() + 64);
    let mut after_blank = true;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        let is_plain = !content.is_empty() && !content.contains('\u{1b}');
        let is_heading = after_blank && !content.starts_with(' ') && !content.ends_with(['.', ':']);
        let is_rejection = is_rejection(content);
        let style = match (is_plain, is_rejection, is_heading) {
            (true, true, _) => Some("31"),
            (true, false, true) => Some("1"),
            _ => None,
        };
        match style {
            Some(style) => {
                let end = &line[content.len()..];
                styled.push_str(&format!("\u{1b}[{style}m{content}\u{1b}[0m{end}"));
            }
            None => styled.push_str(line),
        }
        after_blank = content.is_empty();
    }
    styled
}

/// Whether a line says that a pod, a kubelet's start or a command is rejected.
fn is_rejection(line: &str) -> bool {
    let begins = ["✗", "not valid", "cannot run "];
    let of_pod = line.starts_with("Pod ")
        && (line.contains(" is rejected, ") || line.ends_with(" stays Pending:"));
    of_pod || begins.iter().any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out_and_our_own_colours_stay() {
        for (text, styled, expected) in [
            ("web-0\n\tok", true, "web-0\n\tok"),
            ("a\u{1b}[2Jb", true, "a\\u001b[2Jb"),
            ("a\u{1b}[31mb\u{1b}[0m", true, "a\u{1b}[31mb\u{1b}[0m"),
            ("a\u{1b}[31mb", false, "a\\u001b[31mb"),
            ("\u{1b}[30;48;5;75mA", true, "\u{1b}[30;48;5;75mA"),
            (
                "\u{1b}[30;48;5;m\u{1b}[8m",
                true,
                "\\u001b[30;48;5;m\\u001b[8m",
            ),
            (
                "\u{9b}2J\u{7}\r\u{8}\u{7f}",
                true,
                "\\u009b2J\\u0007\\u000d\\u0008\\u007f",
            ),
            ("abc\u{202e}cba", false, "abc\\u202ecba"),
            ("\u{1b}", true, "\\u001b"),
            ("✗ größer", true, "✗ größer"),
        ] {
            assert_eq!(escape(text, styled), expected);
        }
    }

    #[test]
    fn headings_are_bold_and_rejections_red() {
        let text =
            "machine\n  more\n\n✗ a  no\nA b  yes\n\nPod a is admitted.\nPod b is rejected, X:\n";
        let expected = "\u{1b}[1mmachine\u{1b}[0m\n  more\n\n\u{1b}[31m✗ a  no\u{1b}[0m\nA b  yes\n\nPod a is \
                        admitted.\n\u{1b}[31mPod b is rejected, X:\u{1b}[0m\n";
        assert_eq!(emphasize(text), expected);
    }
}
