//! Suggests the known word that is nearest to a misspelt one ("did you mean").

/// The word of `known` nearest to `word`: equal ignoring case, or at most two edits away (one in short words):
/// inserting, dropping, changing or swapping a letter.
pub(crate) fn nearest<'a, I>(word: &str, known: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    // Longer than any known word: not compared.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let allowed = if word.len() <= 4 { 1 } else { 2 };
    let is_near = |candidate: &&str| candidate.len().abs_diff(word.len()) <= allowed;
    known
        .into_iter()
        .filter(is_near)
        .map(|candidate| (distance(&word, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A hint for a misspelt word: the nearest known word, or all known words.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("one of {}", known.join(", ")),
    }
}

/// The number of single-letter edits and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == to && b[j - 1] == from {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_or_none() {
        let policies = ["none", "best-effort", "restricted", "single-numa-node"];
        for (word, expected) in [
            ("best-erffort", Some("best-effort")),
            ("Best-Effort", Some("best-effort")),
            ("single-numa-ndoe", Some("single-numa-node")),
            ("nnoe", Some("none")),
            ("on", None),
            ("strict", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, policies), expected, "{word}");
        }
    }

    #[test]
    fn distance_counts_edits_and_swaps() {
        for (a, b, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
