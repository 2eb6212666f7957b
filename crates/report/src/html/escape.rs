//! Text that must stay text: names of jobs, arguments, messages of the kernel.

/// For the content of an element and for a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in HTML, however written.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON for a script element: no `<` in it, so that nothing in it can end the element or begin a
/// comment, and no line ends that JavaScript knows and JSON does not.
pub(crate) fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_element() {
        assert_eq!(
            escape("</td><script>alert('x')</script> \"&\u{0}\u{1b}"),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &quot;&amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(escape_json("\"</script><!--\""), "\"\\u003c/script>\\u003c!--\"");
    }
}
