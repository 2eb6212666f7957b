//! The text that valgrind's lackey writes with `--trace-mem=yes`: a line for each reference.
//!
//! ```text
//!   I  0401ab70,3        an instruction of 3 bytes was fetched
//!    L 1fff000660,8      8 bytes were loaded
//!    S 1fff000668,8      stored
//!    M 0421bcd8,4        loaded and stored by one instruction
//!   ==4711== Command: …  valgrind speaking for itself
//! ```
//!
//! Hundreds of millions of lines pass, so bytes are parsed without being copied or made text; a line that
//! ends in the next chunk is kept until then.

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fetches an instruction.
    Fetch,
    /// Reads data.
    Load,
    /// Writes data.
    Store,
    /// Reads and writes data.
    Modify,
}

/// One reference to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it does.
    pub kind: Kind,
    /// The first byte's address.
    pub address: u64,
    /// Bytes, at least 1.
    pub size: u32,
}

/// Longer lines are cut: none of lackey's is.
const LINE_MAX: usize = 512;
/// So much of what valgrind says for itself is kept.
const N_MESSAGES_MAX: usize = 64;

/// Takes the text chunk by chunk.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The begin of a line whose end has not come yet.
    rest: Vec<u8>,
    messages: Vec<String>,
    n_programs: u64,
    n_strange: u64,
}

impl Parser {
    /// Parses a chunk and hands on its references in order.
    pub fn feed(&mut self, chunk: &[u8], mut to: impl FnMut(Reference)) {
        let mut chunk = chunk;
        if !self.rest.is_empty() {
            let Some(end) = chunk.iter().position(|&byte| byte == b'\n') else {
                return self.keep(chunk);
            };
            self.keep(&chunk[..end]);
            chunk = &chunk[end + 1..];
            let line = std::mem::take(&mut self.rest);
            self.line(&line, &mut to);
        }
        while let Some(end) = chunk.iter().position(|&byte| byte == b'\n') {
            self.line(&chunk[..end], &mut to);
            chunk = &chunk[end + 1..];
        }
        self.keep(chunk);
    }

    /// What valgrind said for itself, without its `==PID==`: the first lines.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Programs that were begun under the tracer: 1, and one for each exec in a child.
    pub fn n_programs(&self) -> u64 {
        self.n_programs
    }

    /// Lines that made no sense.
    pub fn n_strange(&self) -> u64 {
        self.n_strange
    }

    fn keep(&mut self, part: &[u8]) {
        let room = LINE_MAX.saturating_sub(self.rest.len());
        self.rest.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn line(&mut self, line: &[u8], to: &mut impl FnMut(Reference)) {
        match parse(line) {
            Some(reference) => to(reference),
            None => self.other(line),
        }
    }

    fn other(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let Some(said) = text.strip_prefix("==").and_then(|text| text.split_once("== ")) else {
            // An empty line of valgrind's own ends in its `==`.
            self.n_strange += u64::from(!text.is_empty() && !text.starts_with("=="));
            return;
        };
        self.n_programs += u64::from(said.1.starts_with("Command: "));
        if self.messages.len() < N_MESSAGES_MAX && !said.1.trim().is_empty() {
            self.messages.push(said.1.to_owned());
        }
    }
}

/// A reference, if the line is one.
fn parse(line: &[u8]) -> Option<Reference> {
    let kind = match line {
        [b'I', b' ', b' ', ..] => Kind::Fetch,
        [b' ', b'L', b' ', ..] => Kind::Load,
        [b' ', b'S', b' ', ..] => Kind::Store,
        [b' ', b'M', b' ', ..] => Kind::Modify,
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

/// Bytes of a reference: the largest instruction that saves registers takes some thousand.
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

    fn all(chunks: &[&[u8]]) -> (Vec<Reference>, Parser) {
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        chunks.iter().for_each(|chunk| parser.feed(chunk, |reference| found.push(reference)));
        (found, parser)
    }

    #[test]
    fn each_kind_of_line_is_known_and_the_rest_is_told() {
        let text = b"==7== Command: sort x\n==7==\nI  0401ab70,3\n L 1fff000660,8\n S 10,1\n M ffffffffffffffff,4\nI  04zz,3\n";
        let (found, parser) = all(&[text]);
        let reference = |kind, address, size| Reference { kind, address, size };
        assert_eq!(
            found,
            [
                reference(Kind::Fetch, 0x401_ab70, 3),
                reference(Kind::Load, 0x1f_ff00_0660, 8),
                reference(Kind::Store, 0x10, 1),
                reference(Kind::Modify, u64::MAX, 4),
            ]
        );
        assert_eq!((parser.n_programs(), parser.n_strange()), (1, 1));
        assert_eq!(parser.messages(), ["Command: sort x"]);
    }

    #[test]
    fn what_is_nearly_a_reference_is_none() {
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
        let kind =
            prop_oneof![Just(Kind::Fetch), Just(Kind::Load), Just(Kind::Store), Just(Kind::Modify)];
        (kind, any::<u64>(), 1u32..1000).prop_map(|(kind, address, size)| Reference {
            kind,
            address,
            size,
        })
    }

    /// As lackey prints it: at least eight digits.
    fn written(reference: &Reference) -> String {
        let start = match reference.kind {
            Kind::Fetch => "I ",
            Kind::Load => " L",
            Kind::Store => " S",
            Kind::Modify => " M",
        };
        format!("{start} {:08x},{}\n", reference.address, reference.size)
    }

    proptest! {
        #[test]
        fn references_survive_being_cut_anywhere(
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
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&[&bytes]);
        }
    }
}
