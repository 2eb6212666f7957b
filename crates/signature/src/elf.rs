//! The part of ELF that a signature needs: digest of the loaded segments, and a note at the end of the file.
//!
//! Programs have 32 or 64 bits and either byte order. The crate `object` parses all structures and defines their
//! fields; [`Class`] has the few places in which both classes differ. Its rewriting (`object::build`) is not used: it
//! lays out the whole file again, so that the original bytes cannot be restored.

use std::ops::Range;

use object::elf::{
    ET_DYN, ET_EXEC, FileHeader32, FileHeader64, NoteHeader32, PT_LOAD, ProgramHeader32,
    ProgramHeader64, SHN_LORESERVE, SHT_NOBITS, SHT_NOTE, SectionHeader32, SectionHeader64,
};
use object::pod::bytes_of;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, U16, U32, U64};

use crate::digest::Hasher;
use crate::file::Contents;
use crate::text::Layout;
use crate::{SIGNATURE_BYTES_MAX, SignatureError};

/// Name of the section.
pub(crate) const SECTION: &str = ".note.evenkeel";
/// Owner of the note, with the zero byte that ELF requires.
const OWNER: &[u8] = b"evenkeel\0";
/// Type of the note: a signature as text, whose first line has the version of the format. `readelf` has a name for 1.
const NOTE_TYPE: u32 = 0x100;
/// Largest number of sections for which the ELF header has a place.
const N_SECTIONS_MAX: usize = SHN_LORESERVE as usize - 1;
/// Alignment of section headers in a file. Notes need 4.
const ALIGN: usize = 8;

/// The ELF header of a class, 32 or 64 bits.
pub(crate) trait Class: FileHeader<Endian = Endianness> {
    /// Offsets in the ELF header of the fields that embedding and `strip` change: offset of the section headers; their
    /// size, their number, and the index of the section names.
    const SECTION_FIELDS: [Range<u64>; 2];
    /// The largest offset in a file.
    const OFFSET_MAX: u64;
    /// Returns the header with another offset and number of section headers.
    fn with_sections(&self, endian: Endianness, at: u64, n: u16) -> Self;
    /// Returns the program header without its offset in the file.
    fn without_offset(segment: &Self::ProgramHeader, endian: Endianness) -> Self::ProgramHeader;
    /// Sets offset and size of a section.
    fn set_place(section: &mut Self::SectionHeader, endian: Endianness, at: u64, size: u64);
    /// Returns the section header of a note, which is not loaded.
    fn note(endian: Endianness, name: u32, at: u64, size: u64) -> Self::SectionHeader;
}

/// Implements [`Class`] for the structures and the integer of a class.
macro_rules! class {
    ($Header:ident, $Segment:ident, $Section:ident, $Word:ident as $integer:ty, $fields:expr) => {
        impl Class for $Header<Endianness> {
            const SECTION_FIELDS: [Range<u64>; 2] = $fields;
            const OFFSET_MAX: u64 = <$integer>::MAX as u64;

            fn with_sections(&self, endian: Endianness, at: u64, n: u16) -> Self {
                let e_shoff = $Word::new(endian, at as $integer);
                $Header { e_shoff, e_shnum: U16::new(endian, n), ..*self }
            }

            fn without_offset(
                segment: &$Segment<Endianness>,
                endian: Endianness,
            ) -> $Segment<Endianness> {
                $Segment { p_offset: $Word::new(endian, 0), ..*segment }
            }

            fn set_place(
                section: &mut $Section<Endianness>,
                endian: Endianness,
                at: u64,
                size: u64,
            ) {
                section.sh_offset = $Word::new(endian, at as $integer);
                section.sh_size = $Word::new(endian, size as $integer);
            }

            fn note(endian: Endianness, name: u32, at: u64, size: u64) -> $Section<Endianness> {
                $Section {
                    sh_name: U32::new(endian, name),
                    sh_type: U32::new(endian, SHT_NOTE),
                    sh_flags: $Word::new(endian, 0),
                    sh_addr: $Word::new(endian, 0),
                    sh_offset: $Word::new(endian, at as $integer),
                    sh_size: $Word::new(endian, size as $integer),
                    sh_link: U32::new(endian, 0),
                    sh_info: U32::new(endian, 0),
                    sh_addralign: $Word::new(endian, 4),
                    sh_entsize: $Word::new(endian, 0),
                }
            }
        }
    };
}

class!(FileHeader32, ProgramHeader32, SectionHeader32, U32 as u32, [32..36, 46..52]);
class!(FileHeader64, ProgramHeader64, SectionHeader64, U64 as u64, [40..48, 58..64]);

/// The reason why no signature can be embedded in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum NotEmbeddable {
    #[error("the file is not an ELF program")]
    NotElf,
    #[error("the ELF file is an object file or a core dump, not a program")]
    NotProgram,
    #[error(
        "the program is damaged or truncated: its ELF headers do not describe the file; install it again"
    )]
    Damaged,
    #[error("the program is so large that its format has no offset for more data")]
    TooLarge,
    #[error("the program has no section headers, or invalid ones")]
    NoSections,
    #[error(
        "the program has {0} sections, and its ELF header has no place for more than {N_SECTIONS_MAX}"
    )]
    TooManySections(usize),
    #[error(
        "data follows the ELF contents of the program, and the program may search it from the end of the file"
    )]
    Appended,
}

/// An ELF program.
pub(crate) enum Elf<'data, R: Contents<'data>> {
    Bits32(ElfOf<'data, FileHeader32<Endianness>, R>),
    Bits64(ElfOf<'data, FileHeader64<Endianness>, R>),
}

/// Calls a method of the program, whatever its class.
macro_rules! of_class {
    ($elf:expr, $program:ident => $call:expr) => {
        match $elf {
            Elf::Bits32($program) => $call,
            Elf::Bits64($program) => $call,
        }
    };
}

impl<'data, R: Contents<'data>> Elf<'data, R> {
    pub fn parse(data: R) -> Result<Self, NotEmbeddable> {
        match ElfOf::parsed(data).map(Elf::Bits64) {
            Err(NotEmbeddable::NotElf) => ElfOf::parsed(data).map(Elf::Bits32),
            bits64 => bits64,
        }
    }

    /// Checks that a note can be appended.
    pub fn check_embeddable(&self) -> Result<(), NotEmbeddable> {
        of_class!(self, program => program.check_embeddable())
    }

    /// Checks that a section can be added.
    pub fn check_can_add_section(&self) -> Result<(), NotEmbeddable> {
        match of_class!(self, program => program.sections.len()) {
            n if n < N_SECTIONS_MAX => Ok(()),
            n => Err(NotEmbeddable::TooManySections(n)),
        }
    }

    /// Returns the digest of the loaded segments and of the headers that describe them, without the fields about
    /// sections and without the offsets in the file.
    pub fn digest(&self) -> Result<String, SignatureError> {
        of_class!(self, program => program.digest())
    }

    /// Returns whether the signature with this profile is found.
    pub fn has_profile(&self, profile: &str) -> bool {
        let is_found = |text: &[u8]| text.ends_with(profile.as_bytes());
        self.check_embeddable().is_ok()
            && self.signature().is_ok_and(|text| text.is_some_and(is_found))
    }

    /// Returns the text of the signature; `None` if the program has no signature.
    pub fn signature(&self) -> Result<Option<&'data [u8]>, SignatureError> {
        of_class!(self, program => program.signature())
    }
}

impl<'data> Elf<'data, &'data [u8]> {
    /// Returns the change that adds a signature.
    pub fn attachment(&self, text: impl FnOnce(Layout) -> Vec<u8>) -> Attachment {
        of_class!(self, program => program.attachment(text))
    }

    /// Returns the ELF header with its former section headers; `None` if the layout is impossible.
    pub fn header_without_signature(&self, layout: Layout) -> Option<Vec<u8>> {
        of_class!(self, program => program.header_without_signature(layout))
    }
}

/// What embedding changes in a program: its ELF header, and the bytes at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    header: Vec<u8>,
    tail: Vec<u8>,
}

impl Attachment {
    /// Returns the attachment of a program with a signature, whose original ELF header has the size of `header`.
    pub fn of(program: &[u8], header: &[u8], layout: Layout) -> Self {
        let (original, tail) = program.split_at(layout.file_bytes as usize);
        Attachment { header: original[..header.len()].to_vec(), tail: tail.to_vec() }
    }

    /// Changes the program.
    pub fn apply(&self, program: &mut Vec<u8>) {
        program[..self.header.len()].copy_from_slice(&self.header);
        program.reserve_exact(self.tail.len());
        program.extend_from_slice(&self.tail);
    }

    /// Removes the attachment from a program with this original ELF header.
    pub fn undo(&self, program: &mut Vec<u8>, header: &[u8]) {
        program.truncate(program.len() - self.tail.len());
        program[..header.len()].copy_from_slice(header);
    }
}

/// A program of one class.
pub(crate) struct ElfOf<'data, H: Class, R: Contents<'data>> {
    data: R,
    endian: Endianness,
    header: &'data H,
    segments: &'data [H::ProgramHeader],
    sections: SectionTable<'data, H, R>,
}

impl<'data, H: Class, R: Contents<'data>> ElfOf<'data, H, R> {
    fn parsed(data: R) -> Result<Self, NotEmbeddable> {
        let header = H::parse(data).map_err(|_| NotEmbeddable::NotElf)?;
        let endian = header.endian().map_err(|_| NotEmbeddable::NotElf)?;
        if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
            return Err(NotEmbeddable::NotProgram);
        }
        let damaged = |_| NotEmbeddable::Damaged;
        let segments = header.program_headers(endian, data).map_err(damaged)?;
        let sections = header.sections(endian, data).map_err(damaged)?;
        let is_loaded = |segment: &H::ProgramHeader| segment.p_type(endian) == PT_LOAD;
        match segments.iter().any(is_loaded) {
            true => Ok(ElfOf { data, endian, header, segments, sections }),
            false => Err(NotEmbeddable::Damaged),
        }
    }

    fn check_embeddable(&self) -> Result<(), NotEmbeddable> {
        // The number of many sections is not in the ELF header.
        let (n_sections, n_in_header) = (self.sections.len(), self.header.e_shnum(self.endian));
        let names = self.header.e_shstrndx(self.endian);
        if n_sections == 0 || names == 0 {
            return Err(NotEmbeddable::NoSections);
        }
        if n_in_header == 0 || N_SECTIONS_MAX < n_sections.max(names.into()) {
            return Err(NotEmbeddable::TooManySections(n_sections));
        }
        let len = self.data.len().unwrap_or(u64::MAX);
        // The signature is appended, and a copy of the names and headers of the sections.
        let appended = SIGNATURE_BYTES_MAX.saturating_add(len);
        if H::OFFSET_MAX < len.saturating_add(appended) {
            return Err(NotEmbeddable::TooLarge);
        }
        if self.contents_end() < len { Err(NotEmbeddable::Appended) } else { Ok(()) }
    }

    /// Returns the end of the last part of the file that a header describes.
    fn contents_end(&self) -> u64 {
        let endian = self.endian;
        let end = |at: H::Word, size: H::Word| at.into().saturating_add(size.into());
        let table_size = self.sections.len() as u64 * size_of::<H::SectionHeader>() as u64;
        let table = self.header.e_shoff(endian).into().saturating_add(table_size);
        let segments = self.segments.iter().map(|s| end(s.p_offset(endian), s.p_filesz(endian)));
        let in_file = |section: &&H::SectionHeader| section.sh_type(endian) != SHT_NOBITS;
        let sections = self.sections.iter().filter(in_file);
        let sections = sections.map(|s| end(s.sh_offset(endian), s.sh_size(endian)));
        segments.chain(sections).chain([table]).max().unwrap_or_default()
    }

    fn digest(&self) -> Result<String, SignatureError> {
        let file_bytes = self.data.len().map_err(|()| SignatureError::Read)?;
        let mut hasher = Hasher::new("loaded\n", file_bytes);
        hasher.add_part(self.data, 0..size_of::<H>() as u64, &H::SECTION_FIELDS)?;
        for segment in self.segments {
            let (start, size) = segment.file_range(self.endian);
            hasher.add(bytes_of(&H::without_offset(segment, self.endian)));
            if segment.p_type(self.endian) == PT_LOAD {
                hasher.add_part(
                    self.data,
                    start..start.saturating_add(size),
                    &H::SECTION_FIELDS,
                )?;
            }
        }
        Ok(hasher.finish())
    }

    fn signature(&self) -> Result<Option<&'data [u8]>, SignatureError> {
        let Some((_, section)) = self.sections.section_by_name(self.endian, SECTION.as_bytes())
        else {
            return Ok(None);
        };
        if SIGNATURE_BYTES_MAX < section.sh_size(self.endian).into() {
            return Err(SignatureError::Damaged("it is larger than 1 MiB"));
        }
        let damaged = |_| SignatureError::Damaged("its note is invalid");
        let Some(mut notes) = section.notes(self.endian, self.data).map_err(damaged)? else {
            return Err(SignatureError::Foreign);
        };
        let note = notes.next().map_err(damaged)?.ok_or(SignatureError::Foreign)?;
        let is_own = note.name_bytes() == OWNER && note.n_type(self.endian) == NOTE_TYPE;
        if is_own { Ok(Some(note.desc())) } else { Err(SignatureError::Foreign) }
    }
}

impl<'data, H: Class> ElfOf<'data, H, &'data [u8]> {
    fn attachment(&self, text: impl FnOnce(Layout) -> Vec<u8>) -> Attachment {
        let endian = self.endian;
        let names_idx = usize::from(self.header.e_shstrndx(endian));
        let sections_at = self.header.e_shoff(endian).into();
        let file_bytes = self.data.len();
        let note = self.note(&text(Layout { file_bytes: file_bytes as u64, sections_at }));
        let mut tail = Vec::new();
        let note_at = append(&mut tail, file_bytes, &note);
        let old_names = self.sections.iter().nth(names_idx);
        let old_names = old_names.and_then(|names| names.data(endian, self.data).ok());
        let old_names = old_names.unwrap_or_default();
        let names = [old_names, SECTION.as_bytes(), b"\0"].concat();
        let names_at = append(&mut tail, file_bytes, &names);
        let mut table: Vec<H::SectionHeader> = self.sections.iter().copied().collect();
        if let Some(section) = table.get_mut(names_idx) {
            H::set_place(section, endian, names_at, names.len() as u64);
        }
        table.push(H::note(endian, old_names.len() as u32, note_at, note.len() as u64));
        let table_bytes: Vec<u8> = table.iter().flat_map(bytes_of).copied().collect();
        let table_at = append(&mut tail, file_bytes, &table_bytes);
        Attachment { header: self.header_with_sections(table_at, table.len()), tail }
    }

    fn note(&self, text: &[u8]) -> Vec<u8> {
        let header = NoteHeader32 {
            n_namesz: U32::new(self.endian, OWNER.len() as u32),
            n_descsz: U32::new(self.endian, text.len() as u32),
            n_type: U32::new(self.endian, NOTE_TYPE),
        };
        let mut note = bytes_of(&header).to_vec();
        for part in [OWNER, text] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    fn header_without_signature(&self, layout: Layout) -> Option<Vec<u8>> {
        let size = usize::try_from(layout.file_bytes).ok()?;
        let n_sections = self.sections.len().checked_sub(1)?;
        let is_possible = (size_of::<H>()..=self.data.len()).contains(&size);
        is_possible.then(|| self.header_with_sections(layout.sections_at, n_sections))
    }

    /// Returns the ELF header with another offset and number of section headers.
    fn header_with_sections(&self, at: u64, n: usize) -> Vec<u8> {
        bytes_of(&self.header.with_sections(self.endian, at, n as u16)).to_vec()
    }
}

/// Appends aligned bytes to the part of a file after `start`, and returns their offset in the file.
fn append(tail: &mut Vec<u8>, start: usize, bytes: &[u8]) -> u64 {
    let at = (start + tail.len()).next_multiple_of(ALIGN);
    tail.resize(at - start, 0);
    tail.extend(bytes);
    at as u64
}
