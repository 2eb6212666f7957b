//! Parser of the trace that valgrind's lackey writes with `--trace-mem=yes`: one line per reference.
//!
//! ```text
//!   I  0401ab70,3        fetch of a 3-byte instruction
//!    L 1fff000660,8      load of 8 bytes
//!    S 1fff000668,8      store
//!    M 0421bcd8,4        load and store by one instruction
//!   ==4711== Command: …  message of valgrind
//! ```
//!
//! A trace has hundreds of millions of lines, so the parser works on bytes without copying. An incomplete line is
//! stored until the next chunk.

/// Kind of a memory reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Instruction fetch.
    Fetch,
    /// Data load.
    Load,
    /// Data store.
    Store,
    /// Data load and store.
    Modify,
}

/// One memory reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Fetch, load, store or both.
    pub kind: ReferenceKind,
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes, at least 1.
    pub size: u32,
}

/// Maximum length of a line in bytes. Longer lines, which lackey does not write, are truncated.
const LINE_MAX: usize = 512;
/// Maximum number of stored messages of valgrind.
const N_MESSAGES_MAX: usize = 64;

/// Incremental parser.
#[derive(Clone, Debug, Default)]
pub struct LackeyParser {
    /// Start of an incomplete line.
    partial_line: Vec<u8>,
    messages: Vec<String>,
    n_programs: u64,
    n_unparsed: u64,
}

impl LackeyParser {
    /// Parses a chunk. Calls `to` with each reference, in order.
    pub fn feed(&mut self, chunk: &[u8], mut to: impl FnMut(Reference)) {
        let mut chunk = chunk;
        if !self.partial_line.is_empty() {
            let Some(end) = chunk.iter().position(|&byte| byte == b'\n') else {
                return self.keep(chunk);
            };
            self.keep(&chunk[..end]);
            chunk = &chunk[end + 1..];
            let line = std::mem::take(&mut self.partial_line);
            self.line(&line, &mut to);
        }
        while let Some(end) = chunk.iter().position(|&byte| byte == b'\n') {
            self.line(&chunk[..end], &mut to);
            chunk = &chunk[end + 1..];
        }
        self.keep(chunk);
    }

    /// Returns the first messages of valgrind, without their `==PID==` prefix.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Returns the number of programs that ran under the tracer: 1, plus one per execve in a child.
    pub fn n_programs(&self) -> u64 {
        self.n_programs
    }

    /// Returns the number of lines that are neither a reference nor a message.
    pub fn n_unparsed(&self) -> u64 {
        self.n_unparsed
    }

    fn keep(&mut self, part: &[u8]) {
        let free = LINE_MAX.saturating_sub(self.partial_line.len());
        self.partial_line.extend_from_slice(&part[..part.len().min(free)]);
    }

    fn line(&mut self, line: &[u8], to: &mut impl FnMut(Reference)) {
        match parse(line) {
            Some(reference) => to(reference),
            None => self.take_message(line),
        }
    }

    fn take_message(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let Some(message) = text.strip_prefix("==").and_then(|text| text.split_once("== ")) else {
            // An empty message of valgrind consists of its `==` prefix.
            self.n_unparsed += u64::from(!text.is_empty() && !text.starts_with("=="));
            return;
        };
        self.n_programs += u64::from(message.1.starts_with("Command: "));
        if self.messages.len() < N_MESSAGES_MAX && !message.1.trim().is_empty() {
            self.messages.push(message.1.to_owned());
        }
    }
}

/// Parses a reference line.
fn parse(line: &[u8]) -> Option<Reference> {
    let kind = match line {
        [b'I', b' ', b' ', ..] => ReferenceKind::Fetch,
        [b' ', b'L', b' ', ..] => ReferenceKind::Load,
        [b' ', b'S', b' ', ..] => ReferenceKind::Store,
        [b' ', b'M', b' ', ..] => ReferenceKind::Modify,
        _ => return None,
    };
    let rest = &line[3..];
    let comma = rest.iter().position(|&byte| byte == b',').filter(|at| (1..=16).contains(at))?;
    let mut address: u64 = 0;
    for &byte in &rest[..comma] {
        address = address << 4 | u64::from(hex(byte)?);
    }
    size(&rest[comma + 1..]).map(|size| Reference { kind, address, size })
}

fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Parses a size in bytes. The largest instructions, which save registers, access a few thousand bytes.
fn size(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || 6 < digits.len() {
        return None;
    }
    let mut size = 0;
    for byte in digits {
        size = size * 10 + u32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    (0 < size).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]]) -> (Vec<Reference>, LackeyParser) {
        let (mut parser, mut found) = (LackeyParser::default(), Vec::new());
        chunks.iter().for_each(|chunk| parser.feed(chunk, |reference| found.push(reference)));
        (found, parser)
    }

    #[test]
    fn each_kind_of_line_is_parsed_and_other_lines_are_counted() {
        let text = b"==7== Command: sort x\n==7==\nI  0401ab70,3\n L 1fff000660,8\n S 10,1\n M ffffffffffffffff,4\nI  04zz,3\n";
        let (found, parser) = all(&[text]);
        let reference = |kind, address, size| Reference { kind, address, size };
        assert_eq!(
            found,
            [
                reference(ReferenceKind::Fetch, 0x401_ab70, 3),
                reference(ReferenceKind::Load, 0x1f_ff00_0660, 8),
                reference(ReferenceKind::Store, 0x10, 1),
                reference(ReferenceKind::Modify, u64::MAX, 4),
            ]
        );
        assert_eq!((parser.n_programs(), parser.n_unparsed()), (1, 1));
        assert_eq!(parser.messages(), ["Command: sort x"]);
    }

    #[test]
    fn malformed_references_are_rejected() {
        for line in [
            "I  ,3",
            "I  1,",
            "I  1,0",
            "I  1",
            "L  1,2",
            " L1,2",
            "I  12345678901234567,1",
            "I  1,1234567",
            "I  1,x",
            "",
            " ",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    fn reference() -> impl Strategy<Value = Reference> {
        let kind = prop_oneof![
            Just(ReferenceKind::Fetch),
            Just(ReferenceKind::Load),
            Just(ReferenceKind::Store),
            Just(ReferenceKind::Modify)
        ];
        (kind, any::<u64>(), 1u32..1000).prop_map(|(kind, address, size)| Reference {
            kind,
            address,
            size,
        })
    }

    /// Formats a reference as lackey does, with at least eight hexadecimal digits.
    fn written(reference: &Reference) -> String {
        let start = match reference.kind {
            ReferenceKind::Fetch => "I ",
            ReferenceKind::Load => " L",
            ReferenceKind::Store => " S",
            ReferenceKind::Modify => " M",
        };
        format!("{start} {:08x},{}\n", reference.address, reference.size)
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_references(
            references in proptest::collection::vec(reference(), 0..30),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let text: String = references.iter().map(written).collect();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|p| &text.as_bytes()[p[0]..p[1]]).collect();
            prop_assert_eq!(all(&chunks).0, references);
        }

        #[test]
        fn the_parser_accepts_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&[&bytes]);
        }
    }
}
