//! Finds the known word that is nearest to a mistyped one, for "did you mean".

/// Longer words are not compared.
const LONGEST: usize = 64;

/// The candidate with the fewest edits, if there are few edits for its length. The first of equals wins.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(LONGEST + 1).collect();
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (edits(&word, candidate), candidate))
        .filter(|&(edits, candidate)| edits <= 1 + word.len().min(candidate.len()) / 3)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance, computed one row at a time.
fn edits(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (above, letter) in candidate.chars().take(LONGEST).enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (i, &mine) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(mine != letter);
            diagonal = row[i + 1];
            row[i + 1] = replaced.min(row[i] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_the_known_word_and_another_word_finds_none() {
        let words = ["sockets", "cores", "threads"];
        for (typed, meant) in [
            ("sokets", Some("sockets")),
            ("Core", Some("cores")),
            ("threds", Some("threads")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words), meant, "{typed:?}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), words), None);
    }
}
