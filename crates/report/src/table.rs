//! Text tables, and line folding.
//!
//! A character counts as one column, so tables with double-width scripts are misaligned. Control
//! characters are printed as `?`, because the name of a job must not control the terminal.

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with a head. A table that is too wide truncates its first column.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

/// Minimum width of a truncated first column.
const FIRST_COLUMN_MIN: usize = 8;

impl Table {
    pub fn new(heads: &[(&'static str, Align)]) -> Self {
        Table { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// One cell per head.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// The lines. A table wider than `width` truncates the last column, if it is left-aligned, then the
    /// first. Right-aligned columns hold numbers and are never truncated.
    pub fn to_text(&self, width: usize) -> String {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| length(head)).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(length(cell));
            }
        }
        let gaps = 2 * (widths.len().saturating_sub(1));
        let too_long =
            |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        if let Some((last, (head, Align::Left))) = self.heads.iter().enumerate().next_back() {
            let spare = widths[last].saturating_sub(length(head));
            widths[last] -= too_long(&widths).min(spare);
        }
        widths[0] -= too_long(&widths).min(widths[0].saturating_sub(FIRST_COLUMN_MIN));
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| (*head).to_owned()).collect();
        let lines = std::iter::once(&heads).chain(&self.rows);
        lines.map(|cells| self.line(cells, &widths)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (idx, ((cell, &width), (_, align))) in
            cells.iter().zip(widths).zip(&self.heads).enumerate()
        {
            if idx != 0 {
                line.push_str("  ");
            }
            let cell = cut(cell, width);
            let padding = " ".repeat(width - length(&cell));
            match align {
                Align::Left => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// At most `width` characters. A truncated text ends with `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The text without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Folds a sentence into lines of at most `width`: the first after `head`, the others after `indent` spaces.
pub(crate) fn fold(text: &str, width: usize, head: &str, indent: usize) -> String {
    let text = printable(text);
    let mut folded = head.to_owned();
    let mut column = length(head);
    let mut at_start = true;
    for word in text.split(' ') {
        let needs = length(word) + usize::from(!at_start);
        if !at_start && width < column + needs {
            folded.truncate(folded.trim_end().len());
            folded.push('\n');
            folded.push_str(&" ".repeat(indent));
            column = indent;
            at_start = true;
        }
        if !at_start {
            folded.push(' ');
            column += 1;
        }
        folded.push_str(word);
        column += length(word);
        at_start = false;
    }
    folded.push('\n');
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_fold_at_spaces_and_keep_their_indent() {
        assert_eq!(fold("one two three four", 12, "- ", 2), "- one two\n  three four\n");
        assert_eq!(fold("anextremelylongword x", 8, "", 0), "anextremelylongword\nx\n");
    }

    #[test]
    fn names_are_truncated_and_numbers_are_not() {
        let mut table = Table::new(&[("job", Align::Left), ("wall s", Align::Right)]);
        table.row(vec!["a very long name of a job".to_owned(), "123.456".to_owned()]);
        table.row(vec!["b\u{1b}[31m".to_owned(), "1.000".to_owned()]);
        expect_test::expect![[r#"
            job             wall s
            a very long …  123.456
            b?[31m           1.000
        "#]]
        .assert_eq(&table.to_text(22));
    }
}
