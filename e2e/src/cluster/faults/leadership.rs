//! How soon a new leader decides.

/// The seconds from the last election to the first binding after it, in the log of kube-schedulers.
pub(super) fn first_decision(log: &str) -> Result<f64, String> {
    let has = |line: &str, words: &str| line.to_lowercase().contains(words);
    let lines: Vec<&str> = log.lines().collect();
    let elected = lines
        .iter()
        .rposition(|line| has(line, "successfully acquired lease"))
        .ok_or("no leader was elected")?;
    let bound = lines[elected..]
        .iter()
        .find(|line| has(line, "successfully bound pod"))
        .ok_or("the new leader bound nothing")?;
    let (elected, bound) = (seconds(lines[elected]), seconds(bound));
    let between = bound.zip(elected).map(|(bound, elected)| bound - elected);
    // Midnight may be in between.
    between
        .map(|between| between.rem_euclid(86_400.0))
        .ok_or_else(|| "a line of the log has no time".to_owned())
}

/// The time of the day of a line of a log: `I1119 04:01:09.123456 ...`.
fn seconds(line: &str) -> Option<f64> {
    let mut parts = line.split_whitespace().nth(1)?.split(':');
    let mut next = || parts.next()?.parse::<f64>().ok();
    Some(next()? * 3600.0 + next()? * 60.0 + next()?)
}

#[cfg(test)]
mod tests {
    use super::first_decision;

    #[test]
    fn the_first_binding_after_the_last_election_counts() {
        let log = "I1119 23:59:50.000000 1 a.go:1] \"Successfully acquired lease\"\n\
            I1119 23:59:51.000000 1 a.go:1] \"Successfully bound pod to node\"\n\
            I1119 23:59:59.500000 2 a.go:1] \"Successfully acquired lease\"\n\
            I1120 00:00:00.250000 2 a.go:1] \"Successfully bound pod to node\"\n\
            I1120 00:00:09.000000 2 a.go:1] \"Successfully bound pod to node\"\n";
        assert_eq!(first_decision(log), Ok(0.75));
        assert!(first_decision(log.split_once("I1120").expect("a day").0).is_err());
    }
}
