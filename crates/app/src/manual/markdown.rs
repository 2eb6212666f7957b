//! Converts a page of the book to the text of a manual page.

use std::collections::BTreeSet;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The parts of a manual page that the command definitions do not contain.
pub(super) struct ManualText {
    /// Paragraphs before the first section.
    pub description: Roff,
    pub has_description: bool,
    /// All sections, with their headings.
    pub sections: Roff,
    /// Other commands to which the page links.
    pub linked_commands: BTreeSet<String>,
}

impl ManualText {
    pub(super) fn new(markdown: &str) -> Self {
        let mut converter = Converter::default();
        Parser::new_ext(markdown, Options::ENABLE_TABLES).for_each(|event| converter.take(event));
        let Converter { description, sections, linked_commands, .. } = converter;
        let has_description = !markdown.is_empty();
        ManualText { description, has_description, sections, linked_commands }
    }
}

#[derive(Default)]
struct Converter {
    description: Roff,
    sections: Roff,
    has_section: bool,
    linked_commands: BTreeSet<String>,
    /// Text of the current paragraph, heading or table cell.
    inlines: Vec<Inline>,
    emphasis: Emphasis,
    /// The file or address of the current link, unless it is the page of a command.
    link_target: Option<String>,
    /// Whether the first paragraph of a list item or the first cell of a row has a tag before it.
    follows_tag: bool,
    code: Option<String>,
    /// Number of the current cell in its row; `None` in the head of a table, which a manual page does not have.
    cell_idx: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Emphasis {
    #[default]
    None,
    Italic,
    Bold,
}

impl Converter {
    fn page(&mut self) -> &mut Roff {
        if self.has_section { &mut self.sections } else { &mut self.description }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.inlines.push(bold(code.as_ref())),
            Event::SoftBreak | Event::HardBreak => self.inlines.push(roman(" ")),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match (&mut self.code, self.emphasis) {
            (Some(code), _) => code.push_str(text),
            (None, Emphasis::None) => self.inlines.push(roman(text)),
            (None, Emphasis::Italic) => self.inlines.push(italic(text)),
            (None, Emphasis::Bold) => self.inlines.push(bold(text)),
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.code = Some(String::new());
            }
            Tag::Item => {
                self.page().control("IP", ["\\(bu", "2"]);
                self.follows_tag = true;
            }
            Tag::TableRow => self.cell_idx = Some(0),
            Tag::TableHead => self.cell_idx = None,
            Tag::Emphasis => self.emphasis = Emphasis::Italic,
            Tag::Strong => self.emphasis = Emphasis::Bold,
            Tag::Link { dest_url, .. } => self.link(dest_url),
            _ => {}
        }
    }

    fn link(&mut self, target: &str) {
        let file = target.split('#').next().unwrap_or_default();
        match file.strip_suffix(".md").filter(|name| !name.contains('/')) {
            Some(name) => drop(self.linked_commands.insert(name.to_owned())),
            None if file.is_empty() => {} // A section of this page.
            None => self.link_target = Some(file.trim_start_matches("../").to_owned()),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.heading(level),
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::Item if !self.inlines.is_empty() => self.paragraph(),
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::TableCell => self.cell(),
            TagEnd::TableRow => self.flush(),
            TagEnd::Emphasis | TagEnd::Strong => self.emphasis = Emphasis::None,
            TagEnd::Link => {
                let target = self.link_target.take().map(|target| format!(" ({target})"));
                self.inlines.extend(target.map(roman));
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel) {
        let inlines = std::mem::take(&mut self.inlines);
        let text: String = inlines
            .iter()
            .map(|inline| match inline {
                Inline::Roman(text) | Inline::Bold(text) | Inline::Italic(text) => text.as_str(),
                Inline::LineBreak => " ",
            })
            .collect();
        match level {
            HeadingLevel::H1 => {} // The name of the command.
            HeadingLevel::H2 => {
                self.has_section = true;
                self.sections.control("SH", [text.to_uppercase().as_str()]);
            }
            _ => drop(self.page().control("SS", [text.as_str()])),
        }
    }

    fn paragraph(&mut self) {
        if !std::mem::take(&mut self.follows_tag) {
            self.page().control("PP", []);
        }
        self.flush();
    }

    /// A row becomes a tagged paragraph: its first cell is the tag.
    fn cell(&mut self) {
        match self.cell_idx {
            None => self.inlines.clear(),
            Some(0) => {
                self.page().control("TP", []);
                self.flush();
            }
            Some(_) => self.inlines.push(roman(". ")),
        }
        self.cell_idx = self.cell_idx.map(|idx| idx + 1);
    }

    fn flush(&mut self) {
        let inlines = std::mem::take(&mut self.inlines);
        if !inlines.is_empty() {
            self.page().text(inlines);
        }
    }

    fn code_block(&mut self) {
        let code = self.code.take().unwrap_or_default();
        // The book includes the help text of the command, which is the section OPTIONS of the manual page.
        if code.starts_with("{{#include") {
            return;
        }
        self.page().control("PP", []).control("EX", []);
        for line in code.lines() {
            // An empty line of text is an error for some formatters.
            match line.is_empty() {
                true => drop(self.page().control("sp", [])),
                false => drop(self.page().text([roman(line)])),
            }
        }
        self.page().control("EE", []);
    }
}
