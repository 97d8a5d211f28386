//! Plain tables: columns as wide as their widest cell, two blanks between them.

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// A table with headings and rows.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Self {
        let (names, columns): (Vec<String>, Vec<Align>) = headings
            .into_iter()
            .map(|(name, align)| (name.into(), align))
            .unzip();
        Self {
            columns,
            rows: vec![names],
        }
    }

    /// Adds a row; cells beyond the last column are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(
            cells
                .into_iter()
                .map(Into::into)
                .take(self.columns.len())
                .collect(),
        );
    }

    /// Formats the table, one line per row.
    #[must_use]
    pub fn draw(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| width(column).unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.columns) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let blanks = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell.as_str(), &blanks]),
                    Align::Right => line.extend([blanks.as_str(), cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new([
            ("pod", Align::Left),
            ("CPUs", Align::Right),
            ("why", Align::Left),
        ]);
        table.row(["a", "8", ""]);
        table.row(["longer", "128", "fits"]);
        assert_eq!(
            table.draw(),
            "pod     CPUs  why\na          8\nlonger   128  fits\n"
        );
    }
}
