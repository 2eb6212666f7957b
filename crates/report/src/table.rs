//! Tables, as text and as HTML, and line folding.
//!
//! A character counts as one column, so text tables with double-width scripts are misaligned. Control
//! characters are printed as `?`, because the name of a job must not control the terminal.

use base::{cut, printable};

use crate::describe::{FieldDescription, FieldUnit};
use crate::format::ABSENT;
use crate::page::escape;

/// Alignment of a column. Numbers are right-aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell: text, and for HTML its sort key and its class.
#[derive(Clone, Debug, Default)]
pub struct TableCell {
    text: String,
    /// Escaped content; `None`: the text is the content.
    html: Option<String>,
    /// Sort key; `None`: the text is the key.
    key: Option<String>,
    class: &'static str,
}

/// A column of records: its field, its alignment and its cell.
pub(crate) type RecordColumn<T> = (&'static str, Align, fn(&T) -> TableCell);

/// A table with a header.
#[derive(Debug)]
pub struct ReportTable {
    heads: Vec<ColumnHeader>,
    rows: Vec<Vec<TableCell>>,
    has_row_heads: bool,
    /// Number of spaces before each line, in text.
    indent: usize,
    /// The folded column in text: the first or the last.
    folded: Option<FoldedColumn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoldedColumn {
    First,
    Last,
}

#[derive(Debug)]
struct ColumnHeader {
    label: String,
    align: Align,
    tooltip: String,
}

/// Spaces between two columns.
const GAP: usize = 2;
/// Minimum width of a truncated first column.
const FIRST_COLUMN_MIN: usize = 8;

impl TableCell {
    /// Creates a cell from a number, with its sort key.
    pub fn number<T: ToString + Copy>(value: Option<T>, format: impl FnOnce(T) -> String) -> Self {
        let key = Some(value.map_or(String::new(), |value| value.to_string()));
        TableCell { key, ..TableCell::from(value.map_or(ABSENT.to_owned(), format)) }
    }

    /// Creates a cell from escaped content and a sort key.
    pub fn html(key: &str, html: String) -> Self {
        TableCell { html: Some(html), key: Some(key.to_owned()), ..TableCell::default() }
    }

    /// Sets the class in HTML.
    #[must_use]
    pub fn class(self, class: &'static str) -> Self {
        TableCell { class, ..self }
    }

    fn is_absent(&self) -> bool {
        self.html.is_none() && (self.text.is_empty() || self.text == ABSENT)
    }

    fn to_html(&self, tag: &str, align: Align, head: &str) -> String {
        let classes = [if align == Align::Right { "num" } else { "" }, self.class];
        let classes = classes.iter().copied().filter(|class| !class.is_empty()).collect::<Vec<_>>();
        let attribute = |name: &str, value: String| match value.is_empty() {
            true => String::new(),
            false => format!(" {name}=\"{}\"", escape(&value)),
        };
        let (class, head) =
            (attribute("class", classes.join(" ")), attribute("data-head", head.to_owned()));
        let key =
            self.key.as_ref().map_or(String::new(), |key| format!(" data-v=\"{}\"", escape(key)));
        let content = match &self.html {
            Some(html) => html.clone(),
            None if self.text == ABSENT => "–".to_owned(),
            None => escape(&self.text),
        };
        let scope = if tag == "th" { " scope=\"row\"" } else { "" };
        format!("<{tag}{scope}{class}{head}{key}>{content}</{tag}>")
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        TableCell { text, ..TableCell::default() }
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        TableCell::from(text.to_owned())
    }
}

impl ReportTable {
    /// Creates a table with these headers and without rows.
    pub fn new<L: Into<String>>(heads: impl IntoIterator<Item = (L, Align)>) -> Self {
        let head = |(label, align): (L, Align)| {
            let (label, tooltip) = (label.into(), String::new());
            ColumnHeader { label, align, tooltip }
        };
        let heads = heads.into_iter().map(head).collect();
        ReportTable { heads, rows: Vec::new(), has_row_heads: false, indent: 0, folded: None }
    }

    /// Returns one row per record. The headers are the labels of the fields, with their meanings as tooltips.
    pub(crate) fn of_records<'a, T: 'a>(
        fields: &[FieldDescription],
        columns: &[RecordColumn<T>],
        records: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let head = |(name, align, _): &RecordColumn<T>| {
            let field = fields.iter().find(|field| field.name == *name);
            let field = field.expect("every column has the name of a field of the record");
            let unit = match field.unit {
                FieldUnit::Nanos | FieldUnit::Seconds => " In seconds.",
                _ => "",
            };
            let (label, tooltip) = (field.label.to_owned(), format!("{}{unit}", field.meaning));
            ColumnHeader { label, align: *align, tooltip }
        };
        let row = |record| columns.iter().map(|(.., cell)| cell(record)).collect();
        ReportTable {
            heads: columns.iter().map(head).collect(),
            rows: records.into_iter().map(row).collect(),
            has_row_heads: false,
            indent: 0,
            folded: None,
        }
    }

    /// Makes the first cell of each row a header.
    #[must_use]
    pub fn with_row_heads(self) -> Self {
        ReportTable { has_row_heads: true, ..self }
    }

    /// Indents each line of the text by this number of spaces.
    #[must_use]
    pub fn indented(self, indent: usize) -> Self {
        ReportTable { indent, ..self }
    }

    /// Folds the last column in text instead of truncating it. A line feed in a cell of this column starts a line.
    #[must_use]
    pub fn with_folded_column(self) -> Self {
        ReportTable { folded: Some(FoldedColumn::Last), ..self }
    }

    /// Folds the first column in text instead of truncating a column.
    #[must_use]
    pub fn with_folded_names(self) -> Self {
        ReportTable { folded: Some(FoldedColumn::First), ..self }
    }

    /// Replaces the header of the first column.
    #[must_use]
    pub(crate) fn with_first_head(mut self, label: &str) -> Self {
        self.heads.iter_mut().take(1).for_each(|head| label.clone_into(&mut head.label));
        self
    }

    /// Omits the columns in which every cell is absent or empty.
    #[must_use]
    pub(crate) fn without_absent_columns(mut self) -> Self {
        let has_value = |idx: usize| self.rows.iter().any(|cells| !cells[idx].is_absent());
        let is_kept: Vec<bool> = (0..self.heads.len()).map(has_value).collect();
        let mut kept = is_kept.iter();
        self.heads.retain(|_| kept.next() == Some(&true));
        for cells in &mut self.rows {
            let mut kept = is_kept.iter();
            cells.retain(|_| kept.next() == Some(&true));
        }
        self
    }

    pub(crate) fn n_columns(&self) -> usize {
        self.heads.len()
    }

    /// Appends a row with one cell per header.
    pub fn row<C: Into<TableCell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns a scrollable table, whose columns can be sorted if the class contains `sortable`. `label` is its name
    /// for screen readers.
    pub fn to_html(&self, id: &str, class: &str, label: &str) -> String {
        let label_of_table = escape(label);
        let head = |head: &ColumnHeader| {
            let label = escape(&head.label);
            let label = match class.contains("sortable") {
                true => format!("<button type=\"button\">{label}</button>"),
                false => label,
            };
            let class = if head.align == Align::Right { " class=\"num\"" } else { "" };
            let title = match head.tooltip.as_str() {
                "" => String::new(),
                tooltip => format!(" title=\"{}\"", escape(tooltip)),
            };
            format!("<th scope=\"col\"{class}{title}>{label}</th>")
        };
        let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
        let heads: String = self.heads.iter().map(head).collect();
        let row = |cells: &Vec<TableCell>| {
            let cells = cells.iter().zip(&self.heads).enumerate().map(|(idx, (cell, head))| {
                let tag = if idx == 0 && self.has_row_heads { "th" } else { "td" };
                // On narrow screens each cell of a stacked row has its own line, without the header above it.
                let name = if class.contains("stack") { &*head.label } else { "" };
                cell.to_html(tag, head.align, name)
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{label_of_table}\"><table class=\"{class}\"{id}><caption class=\"sr\">{label_of_table}</caption><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>"
        )
    }

    /// Returns the table as text. If the table is wider than `width`, the last column is truncated (only if
    /// left-aligned), then the first column. Right-aligned columns contain numbers and are never truncated. A line of
    /// empty headers is omitted.
    pub fn to_text(&self, width: usize) -> String {
        let lines = self.printable_lines();
        let mut widths = vec![0; self.heads.len()];
        for cells in &lines {
            let longest = |cell: &String| cell.lines().map(length).max().unwrap_or(0);
            widths.iter_mut().zip(cells).for_each(|(wide, cell)| *wide = longest(cell).max(*wide));
        }
        let gaps = self.indent + GAP * (widths.len().saturating_sub(1));
        let too_long =
            |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let is_folded = |column| self.folded == Some(column);
        let last = self.heads.iter().enumerate().next_back();
        let is_narrowed =
            |head: &ColumnHeader| head.align == Align::Left && !is_folded(FoldedColumn::First);
        if let Some((last, head)) = last.filter(|(_, head)| is_narrowed(head)) {
            let is_last = is_folded(FoldedColumn::Last);
            let words = lines.iter().filter(|_| is_last).filter_map(|cells| cells.last());
            let longest_word = words.flat_map(|cell| cell.split_whitespace()).map(length).max();
            let min = length(&head.label).max(longest_word.unwrap_or(0));
            widths[last] -= too_long(&widths).min(widths[last].saturating_sub(min));
        }
        if !is_folded(FoldedColumn::Last) {
            widths[0] -= too_long(&widths).min(widths[0].saturating_sub(FIRST_COLUMN_MIN));
        }
        let has_heads = self.heads.iter().any(|head| !head.label.is_empty());
        let lines = lines.iter().skip(usize::from(!has_heads));
        lines.map(|cells| self.folded_line(cells, &widths)).collect()
    }

    /// Returns the table as text in which headers of several words use several lines. The columns that do not fit into
    /// `width` are printed below, after a repetition of the first `n_labels` columns.
    pub fn to_blocks(&self, width: usize, n_labels: usize) -> String {
        let rows = &self.printable_lines()[1..];
        let column_width = |(column, head): (usize, &ColumnHeader)| {
            let cells = rows.iter().map(|row| row.get(column).map_or(0, |cell| length(cell)));
            cells.chain(head.label.split(' ').map(length)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = self.heads.iter().enumerate().map(column_width).collect();
        let n_labels = n_labels.min(self.heads.len());
        let mut remaining: Vec<usize> = (n_labels..self.heads.len()).collect();
        let labels_width: usize = widths[..n_labels].iter().map(|width| width + GAP).sum();
        let mut blocks = Vec::new();
        while blocks.is_empty() || !remaining.is_empty() {
            let mut left = (width + GAP).saturating_sub(self.indent + labels_width);
            let fits = |column: &&usize| {
                let after = left.checked_sub(GAP + widths[**column]);
                left = after.unwrap_or(0);
                after.is_some()
            };
            // A block has at least one column, even if it is wider than `width`.
            let n = remaining
                .iter()
                .take_while(fits)
                .count()
                .clamp(1, remaining.len().max(1))
                .min(remaining.len());
            let block: Vec<usize> = (0..n_labels).chain(remaining.drain(..n)).collect();
            blocks.push(self.block(rows, &block, &widths));
        }
        blocks.join("\n")
    }

    /// Returns some columns of all rows, below their bottom-aligned headers.
    fn block(&self, rows: &[Vec<String>], columns: &[usize], widths: &[usize]) -> String {
        let head = |column: &usize| {
            let head = fold(&self.heads[*column].label, widths[*column], "", 0);
            head.lines().map(str::to_owned).collect()
        };
        let heads: Vec<Vec<String>> = columns.iter().map(head).collect();
        let n_lines = heads.iter().map(Vec::len).max().unwrap_or(0);
        let head_line = |line: usize| -> Vec<String> {
            let part = |head: &Vec<String>| {
                let idx = (line + head.len()).checked_sub(n_lines);
                idx.map_or(String::new(), |idx| head[idx].clone())
            };
            heads.iter().map(part).collect()
        };
        let row_line = |row: &Vec<String>| {
            columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        let lines = (0..n_lines).map(head_line).chain(rows.iter().map(row_line));
        lines.map(|cells| self.line(&cells, columns, widths)).collect()
    }

    /// Returns the headers and the rows, without control characters.
    fn printable_lines(&self) -> Vec<Vec<String>> {
        let last = self.heads.len().saturating_sub(1);
        let cell = |(idx, cell): (usize, &TableCell)| match self.folded == Some(FoldedColumn::Last)
            && idx == last
        {
            true => cell.text.split('\n').map(printable).collect::<Vec<String>>().join("\n"),
            false => printable(&cell.text),
        };
        let heads = self.heads.iter().map(|head| head.label.clone()).collect();
        let rows = self.rows.iter().map(|row| row.iter().enumerate().map(cell).collect());
        std::iter::once(heads).chain(rows).collect()
    }

    fn folded_line(&self, cells: &[String], widths: &[usize]) -> String {
        let columns: Vec<usize> = (0..widths.len()).collect();
        let folded = match self.folded {
            Some(FoldedColumn::First) => 0,
            Some(FoldedColumn::Last) => cells.len().saturating_sub(1),
            None => return self.line(cells, &columns, widths),
        };
        let text = cells.get(folded).map_or("", String::as_str);
        let text: String = text.split('\n').map(|line| fold(line, widths[folded], "", 0)).collect();
        let line = |(nr, part): (usize, &str)| {
            let cell = |(idx, cell): (usize, &String)| match idx == folded {
                true => part.to_owned(),
                false if nr == 0 => cell.clone(),
                false => String::new(),
            };
            let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
            self.line(&cells, &columns, widths)
        };
        text.lines().enumerate().map(line).collect()
    }

    /// Returns one line with the cells of these columns.
    fn line(&self, cells: &[String], columns: &[usize], widths: &[usize]) -> String {
        let cell = |(cell, &column): (&String, &usize)| {
            let cell = cut(cell, widths[column]);
            let padding = " ".repeat(widths[column] - length(&cell));
            match self.heads[column].align {
                Align::Left => cell + &padding,
                Align::Right => padding + &cell,
            }
        };
        let cells: Vec<String> = cells.iter().zip(columns).map(cell).collect();
        let line = " ".repeat(self.indent) + &cells.join(&" ".repeat(GAP));
        line.trim_end().to_owned() + "\n"
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Folds a sentence into lines of at most `width`: the first line begins with `head`, the other lines with `indent`
/// spaces.
pub fn fold(text: &str, width: usize, head: &str, indent: usize) -> String {
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

/// Folds a command of a shell into lines of at most `width` columns with a backslash at their ends, so that the lines
/// can be copied. Words are not divided. `head` precedes the first line.
pub fn fold_command(command: &str, width: usize, head: &str) -> String {
    let indent = length(head);
    let mut folded = head.to_owned();
    let mut column = indent;
    for word in base::shell::words(&printable(command)) {
        if indent < column && width < column + 1 + length(word) + 2 {
            folded.push_str(" \\\n");
            folded.push_str(&" ".repeat(indent));
            column = indent;
        }
        if indent < column {
            folded.push(' ');
            column += 1;
        }
        folded.push_str(word);
        column += length(word);
    }
    folded + "\n"
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
    fn a_folded_command_can_be_copied() {
        let command = r"evenkeel run --policy 'dfs[a b]' 'it'\''s one word' w.toml";
        let expected = "repeat  evenkeel run \\\n        --policy 'dfs[a b]' \\\n        'it'\\''s one word' \\\n        w.toml\n";
        assert_eq!(fold_command(command, 30, "repeat  "), expected);
        assert_eq!(fold_command("evenkeel run w", 80, ""), "evenkeel run w\n");
    }

    #[test]
    fn names_are_truncated_and_numbers_are_not() {
        let mut table = ReportTable::new([("job", Align::Left), ("wall s", Align::Right)]);
        table.row(["a very long name of a job", "123.456"]);
        table.row(["b\u{1b}[31m", "1.000"]);
        expect_test::expect![[r#"
            job             wall s
            a very long …  123.456
            b\u001b[31m      1.000
        "#]]
        .assert_eq(&table.to_text(22));
    }

    #[test]
    fn a_folded_column_uses_several_lines_and_is_not_truncated() {
        let heads = [("name", Align::Left), ("meaning", Align::Left)];
        let mut table = ReportTable::new(heads).indented(2).with_folded_column();
        table.row(["a", "one two three\nfour"]);
        table.row(["a long name", "averylongword"]);
        expect_test::expect![[r#"
            names:
              name         meaning
              a            one two three
                           four
              a long name  averylongword
        "#]]
        .assert_eq(&format!("names:\n{}", table.to_text(20)));
        let mut list =
            ReportTable::new([("", Align::Left), ("", Align::Left)]).with_folded_column();
        list.row(["a", "one two three"]);
        assert_eq!(list.to_text(10), "a  one two\n   three\n");
    }

    #[test]
    fn folded_names_use_several_lines_and_the_other_columns_are_complete() {
        let heads = [("command", Align::Left), ("mean s", Align::Right), ("verdict", Align::Left)];
        let mut table = ReportTable::new(heads).with_folded_names();
        table.row(["sort -u a.txt", "1.000", "inconclusive"]);
        expect_test::expect![[r#"
            command   mean s  verdict
            sort -u    1.000  inconclusive
            a.txt
        "#]]
        .assert_eq(&table.to_text(30));
    }

    #[test]
    fn columns_without_a_value_are_omitted() {
        let heads = ["name", "slowdown", "moves"].map(|head| (head, Align::Left));
        let mut table = ReportTable::new(heads);
        table.row(["a", "-", "0"]);
        table.row(["b", "-", "-"]);
        let text = table.without_absent_columns().to_text(80);
        assert_eq!(text, "name  moves\na     0\nb     -\n");
    }

    #[test]
    fn columns_that_do_not_fit_continue_below_with_the_first_column() {
        let heads = ["of a job", "run time", "CPU time"];
        let mut table = ReportTable::new(heads.map(|head| (head, Align::Right))).indented(1);
        table.row(["b", "1.000", "12.000"]);
        assert_eq!(
            table.to_blocks(12, 1),
            "  of\n   a    run\n job   time\n   b  1.000\n\n  of\n   a     CPU\n job    time\n   b  12.000\n"
        );
    }

    #[test]
    fn each_label_column_is_repeated_where_a_table_continues() {
        let mut table = ReportTable::new(["set", "job", "x", "y"].map(|head| (head, Align::Right)));
        table.row(["s", "b", "1", "2"]);
        assert_eq!(
            table.to_blocks(12, 2),
            "set  job  x\n  s    b  1\n\nset  job  y\n  s    b  2\n"
        );
        // Label columns that are wider than the line.
        assert_eq!(table.to_blocks(4, 4), "set  job  x  y\n  s    b  1  2\n");
    }
}
