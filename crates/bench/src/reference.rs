//! The figures of the original programs: the tables of `conformance/*/BENCH.md`.
//!
//! Every row of a table is a case to measure, so that no shape is left out and no figure is copied by hand.

/// The committed records.
const KUBELET: &str = include_str!("../../../conformance/kubelet/BENCH.md");
const KOORDINATOR: &str = include_str!("../../../conformance/koordinator/BENCH.md");
const VOLCANO: &str = include_str!("../../../conformance/volcano/BENCH.md");

/// The cost of a case in the original program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Not measured.
    None,
    /// CPU nanoseconds per operation.
    Measured(u64),
    /// Not measured because it would take too long; the estimate of the record.
    Estimated(String),
}

/// A row of a table of the record.
pub(crate) struct ReferenceRow {
    cells: Vec<(&'static str, &'static str)>,
}

impl ReferenceRow {
    /// The text in a column.
    pub(crate) fn text(&self, column: &str) -> &'static str {
        let cell = self.cells.iter().find(|(name, _)| *name == column);
        let (_, text) = cell.unwrap_or_else(|| panic!("the record has no column {column:?}"));
        text
    }

    /// The number in a column.
    pub(crate) fn number(&self, column: &str) -> usize {
        let text = self.text(column);
        text.parse()
            .unwrap_or_else(|_| panic!("{text:?} in column {column:?} is not a number"))
    }

    /// The cost of the scheduler plugin in its best batch.
    pub(crate) fn plugin_reference(&self) -> Reference {
        let text = self.text("min us").replace([',', '.'], "");
        // Tenths of microseconds.
        match text.parse::<u64>() {
            Ok(tenths) => Reference::Measured(tenths * 100),
            Err(_) => Reference::None,
        }
    }

    /// The cost of the kubelet.
    pub(crate) fn reference(&self) -> Reference {
        let text = self.text("CPU ns/op");
        match text.replace(',', "").parse() {
            Ok(figure) => Reference::Measured(figure),
            Err(_) => Reference::Estimated(text.trim_matches('*').to_owned()),
        }
    }
}

/// The rows of the kubelet's section that begins with `## (letter)`.
pub(crate) fn section(letter: char) -> Vec<ReferenceRow> {
    table(KUBELET, &format!("## ({letter})"))
}

/// The rows of Koordinator's filter on one node.
pub(crate) fn koordinator_filter() -> Vec<ReferenceRow> {
    table(KOORDINATOR, "## PreFilter + Filter")
}

/// The rows of Volcano's predicate on one node.
pub(crate) fn volcano_predicate() -> Vec<ReferenceRow> {
    table(VOLCANO, "## Predicate")
}

/// The rows of the section that begins with `heading`.
fn table(record: &'static str, heading: &str) -> Vec<ReferenceRow> {
    let lines = record
        .lines()
        .skip_while(|line| !line.starts_with(heading))
        .skip(1)
        .take_while(|line| !line.starts_with("## "));
    let mut rows = lines
        .filter(|line| line.starts_with('|') && !line.starts_with("|-"))
        .map(cells);
    let columns = rows.next().expect("a section of the record has a table");
    rows.map(|cells| ReferenceRow {
        cells: columns.iter().copied().zip(cells).collect(),
    })
    .collect()
}

fn cells(line: &'static str) -> Vec<&'static str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_record_is_read() {
        let sizes = ['a', 'b', 'c', 'd'].map(|letter| section(letter).len());
        assert_eq!(sizes, [150, 9, 36, 22]);
        let plugins = [koordinator_filter().len(), volcano_predicate().len()];
        assert_eq!(plugins, [18, 36]);
    }

    #[test]
    fn microseconds_of_plugins_become_nanoseconds() {
        let filter = koordinator_filter();
        assert_eq!(filter[1].plugin_reference(), Reference::Measured(1_819_700));
    }

    #[test]
    fn a_figure_is_a_number_and_an_estimate_is_not() {
        let figures: Vec<Reference> = section('a').iter().map(ReferenceRow::reference).collect();
        assert_eq!(figures[0], Reference::Measured(1316));
        assert_eq!(figures[14], Reference::Estimated("estimated 7 min".into()));
        assert!(!figures.contains(&Reference::None));
    }
}
