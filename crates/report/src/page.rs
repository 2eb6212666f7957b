//! Elements that all HTML pages share: the document, cards, notices, facts and tiles.
//!
//! A page is one self-contained file: no network access, no fonts, no other files. Its content security policy forbids
//! loading other files, and also scripts if the page has no scripts.

/// The logo: a ship on water.
const LOGO: &str = r#"<svg width="26" height="26" viewBox="0 0 26 26" aria-hidden="true"><path d="M3.5 12h19c-.6 4.3-4.300 7-9.500 7s-8.900-2.700-9.500-7z" fill="currentColor"/><path d="M12.200 3v7.500H5.800z M14 5.200v5.300h4.900z" fill="currentColor" opacity=".55"/><path d="M2.500 22.500c2 0 2-1 4.200-1s2.200 1 4.200 1 2-1 4.200-1 2.200 1 4.200 1 2-1 4.200-1" fill="none" stroke="currentColor" stroke-width="1.500" stroke-linecap="round" opacity=".7"/></svg>"#;
const SUN_AND_MOON: &str = r#"<svg class="sun" width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" aria-hidden="true"><circle cx="9" cy="9" r="3.4"/><path d="M9 1.500v1.600M9 14.900v1.600M1.500 9h1.600M14.900 9h1.600M3.700 3.700l1.100 1.100M13.200 13.200l1.100 1.100M3.700 14.300l1.100-1.100M13.200 4.800l1.100-1.100"/></svg><svg class="moon" width="18" height="18" viewBox="0 0 18 18" fill="currentColor" aria-hidden="true"><path d="M14.800 11.300A6.300 6.300 0 0 1 6.700 3.200a6.300 6.300 0 1 0 8.100 8.100z"/></svg>"#;

/// Styles of all pages.
const CSS: &str = include_str!("page.css");
/// The switch between light and dark colours, and helpers of the other scripts.
pub(crate) const PAGE_SCRIPT: &str = include_str!("page.js");
/// Sorts, filters and expands the rows of tables.
pub(crate) const TABLE_SCRIPT: &str = include_str!("tables.js");
/// Data of a page on which scripts draw no charts.
pub(crate) const NO_DATA: &str = "{\"end\":1,\"jobs\":[]}";

#[derive(Default)]
pub(crate) struct Document<'a> {
    pub title: String,
    /// Styles in addition to the styles of all pages.
    pub styles: &'a [&'a str],
    /// The scripts in the order of their dependencies, and their data as JSON.
    pub scripts: Option<(&'a [&'a str], &'a str)>,
    /// Anchor and text of each link of the navigation bar, escaped.
    pub links: Vec<(String, String)>,
    pub sections: Vec<String>,
    /// Content of the footer, escaped.
    pub footer: String,
}

impl Document<'_> {
    pub fn to_html(&self) -> String {
        let (title, css) = (escape(&self.title), self.styles.concat());
        let policy = if self.scripts.is_some() { " script-src 'unsafe-inline';" } else { "" };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline';{policy} base-uri 'none'; form-action 'none'\">\n\
             <title>{title} · evenkeel</title>\n<style>\n{CSS}{css}</style>\n</head>\n<body>\n{}\n\
             <main class=\"wrap\" id=\"main\">\n{}\n</main>\n\
             <footer><div class=\"wrap\">{}</div></footer>\n{}</body>\n</html>\n",
            self.bar(),
            self.sections.join("\n"),
            self.footer,
            self.scripts()
        )
    }

    /// Returns the bar at the top. The colour switch needs scripts.
    fn bar(&self) -> String {
        let link = |(anchor, text): &(String, String)| format!("<a href=\"#{anchor}\">{text}</a>");
        let links: String = self.links.iter().map(link).collect();
        let switch = match self.scripts {
            Some(_) => format!(
                "<button class=\"icon\" id=\"theme\" type=\"button\" aria-label=\"Change colours\">{SUN_AND_MOON}</button>"
            ),
            None => String::new(),
        };
        format!(
            "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header class=\"bar\"><div class=\"wrap\"><div class=\"brand\">{LOGO}evenkeel</div>\
             <nav aria-label=\"Sections\">{links}</nav>{switch}</div></header>"
        )
    }

    fn scripts(&self) -> String {
        let Some((scripts, data)) = self.scripts else { return String::new() };
        format!(
            "<div id=\"tip\" class=\"tip hidden\" role=\"tooltip\"></div>\n\
             <div id=\"announcement\" class=\"sr\" aria-live=\"polite\"></div>\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n",
            escape_json(data),
            scripts.concat()
        )
    }
}

/// Returns the links of the navigation bar.
pub(crate) fn links(links: &[(&str, &str)]) -> Vec<(String, String)> {
    links.iter().map(|(anchor, text)| ((*anchor).to_owned(), (*text).to_owned())).collect()
}

/// Returns a section with a heading; `lead` and `content` are escaped.
pub(crate) fn card(id: &str, heading: &str, lead: &str, content: &str) -> String {
    card_with_header(id, heading, "", lead, content)
}

/// Returns a section with further elements next to its heading.
pub(crate) fn card_with_header(
    id: &str,
    heading: &str,
    header: &str,
    lead: &str,
    content: &str,
) -> String {
    let lead =
        if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>") };
    format!(
        "<section class=\"card\" id=\"{id}\"><header><h2>{heading}</h2>{header}</header>\n{lead}{content}</section>"
    )
}

/// Returns the element with the number of entries of a section, next to the heading of the section.
pub(crate) fn count_badge(text: &str) -> String {
    format!("<span class=\"count\">{text}</span>")
}

/// Returns the first section: heading, chips and content. Only the content is escaped.
pub(crate) fn hero(eyebrow: &str, heading: &str, chips: &str, content: &str) -> String {
    let (eyebrow, heading) = (escape(eyebrow), escape(heading));
    format!(
        "<div class=\"hero\"><p class=\"eyebrow\">{eyebrow}</p>\n<h1>{heading}</h1>\n\
         <ul class=\"sub\">{chips}</ul>\n{content}</div>"
    )
}

pub(crate) fn chip(label: &str, value: &str) -> String {
    format!("<li class=\"chip\">{label} <b>{}</b></li>", escape(value))
}

/// Returns a notice that qualifies the values of the page. The class is empty, `warn` or `bad`.
pub(crate) fn callout(class: &str, head: &str, text: &str) -> String {
    let (head, text) = (escape(head), escape(text));
    format!("<div class=\"callout {class}\"><b>{head}</b><span>{text}</span></div>\n")
}

/// Returns the command that repeats the result of the page, if it is known.
pub(crate) fn repeat_command(command: Option<&str>) -> String {
    let line = |command| {
        let command = escape(command);
        format!("<p class=\"repeat\"><span>Repeat with</span> <code>{command}</code></p>\n")
    };
    command.map_or(String::new(), line)
}

/// Returns a list of labels with texts.
pub(crate) fn facts<L: AsRef<str>, T: AsRef<str>>(facts: &[(L, T)]) -> String {
    let fact = |(label, text): &(L, T)| {
        let (label, text) = (escape(label.as_ref()), escape(text.as_ref()));
        format!("<div><dt>{label}</dt><dd>{text}</dd></div>")
    };
    format!("<dl class=\"facts\">{}</dl>", facts.iter().map(fact).collect::<String>())
}

/// Returns a tile with a key value; all parts are escaped.
pub(crate) fn tile(label: &str, value: &str, below: &str) -> String {
    format!(
        "<div class=\"tile\"><dt>{label}</dt><dd>{value}</dd><dd class=\"below\">{below}</dd></div>"
    )
}

/// Returns a verdict: its sign and its word, in the colour of its class.
pub(crate) fn verdict((sign, class): (&str, &str), word: &str) -> String {
    format!("<span class=\"verdict {class}\">{sign} {}</span>", escape(word))
}

/// Returns the entries of a legend, escaped.
pub(crate) fn legend(entries: impl IntoIterator<Item = String>) -> String {
    let entries: String = entries.into_iter().map(|entry| format!("<li>{entry}</li>")).collect();
    format!("<ul class=\"legend\">{entries}</ul>")
}

/// Returns a text that replaces a chart or a table without data.
pub(crate) fn empty(text: &str) -> String {
    format!("<p class=\"empty\">{text}</p>")
}

/// Escapes text (names of jobs, arguments, messages of the kernel) for the content of an element or a quoted
/// attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c == '\n' || c == '\t' || base::is_printable(c) => escaped.push(c),
            // Control characters are not allowed in HTML, escaped or not.
            c => escaped.push_str(&base::printable(c.encode_utf8(&mut [0; 4]))),
        }
    }
    escaped
}

/// Escapes JSON for a script element. Without `<` no string can end the element or begin a comment. U+2028 and
/// U+2029 are line ends in JavaScript, but not in JSON; they are not printable.
fn escape_json(json: &str) -> String {
    base::printable_lines(json).replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_cannot_end_its_element() {
        assert_eq!(
            escape("</td><script>alert('x')</script> \"&\u{0}\u{1b}\u{202e}"),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &quot;&amp;\\u0000\\u001b\\u202e"
        );
        assert_eq!(escape_json("\"</script><!--\""), "\"\\u003c/script>\\u003c!--\"");
    }
}
