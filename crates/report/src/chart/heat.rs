//! Tables of cells coloured by value, and charts next to each other.

use crate::page::escape;

/// Draws a table of cells coloured by value; the cells are `td` elements.
pub(crate) fn heat_table<'a>(
    class: &str,
    label: &str,
    heads: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    let head = |name: &str| format!("<th scope=\"col\">{}</th>", escape(name));
    let heads: String = heads.into_iter().map(head).collect();
    let row = |(name, cells): (&str, String)| {
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(name))
    };
    let (rows, label) = (rows.into_iter().map(row).collect::<String>(), escape(label));
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\"><table class=\"{class}\"><caption class=\"sr\">{label}</caption><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )
}

/// Returns the style of a cell of a heat map. `share` is the share of the full colour, from 0 to 1; larger values count
/// as 1.
pub(crate) fn heat(share: f64, is_good: bool) -> String {
    /// Percentage of the colour if `share` is 1. The text keeps its contrast up to this percentage.
    const FULL_PERCENT: f64 = 45.0;
    let side = if is_good { "good" } else { "bad" };
    format!("--h:{:.0}%;--s:var(--{side})", share.min(1.0) * FULL_PERCENT)
}

/// Draws charts with captions, next to each other.
pub(crate) fn panels(panels: impl Iterator<Item = (String, String)>) -> String {
    let panel = |(caption, chart): (String, String)| {
        format!("<figure><figcaption>{}</figcaption>{chart}</figure>", escape(&caption))
    };
    format!("<div class=\"panels\">{}</div>", panels.map(panel).collect::<String>())
}
