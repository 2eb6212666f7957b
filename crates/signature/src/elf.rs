//! The part of ELF that a signature needs: digest of the loaded segments, and a note at the end of the file.
//!
//! Only 64-bit programs are supported, of both byte orders. The crate `object` parses all structures and defines their
//! fields. Its rewriting (`object::build`) is not used: it lays out the whole file again, so that the original bytes
//! cannot be restored.

use std::ops::Range;

use object::elf::{
    ET_DYN, ET_EXEC, FileHeader64, NoteHeader32, PT_LOAD, ProgramHeader64, SHN_LORESERVE,
    SHT_NOBITS, SHT_NOTE, SectionHeader64,
};
use object::pod::bytes_of;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, ReadRef, U16, U32, U64};

use crate::digest::Hasher;
use crate::text::Layout;
use crate::{SIGNATURE_BYTES_MAX, SignatureError};

/// Name of the section.
pub(crate) const SECTION: &str = ".note.evenkeel";
/// Owner of the note, with the zero byte that ELF requires.
const OWNER: &[u8] = b"evenkeel\0";
/// Type of the note: a signature as text, whose first line has the version of the format. `readelf` has a name for 1.
const NOTE_TYPE: u32 = 0x100;
/// Alignment of section headers in a file. Notes need 4.
const ALIGN: usize = 8;

/// Offsets in the ELF header of the fields that embedding and `strip` change: offset of the section headers; their
/// size, their number, and the index of the section names.
const SECTION_FIELDS: [Range<u64>; 2] = [40..48, 58..64];

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;
type Section = SectionHeader64<Endianness>;

/// The reason why no signature can be embedded in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum NotEmbeddable {
    #[error("the file is not a 64-bit ELF program")]
    NotElf,
    #[error("the program has no section headers, or invalid ones")]
    NoSections,
    #[error(
        "data follows the ELF contents of the program, and the program may search it from the end of the file"
    )]
    Appended,
}

/// A 64-bit ELF program.
pub(crate) struct Elf<'data, R: ReadRef<'data>> {
    data: R,
    endian: Endianness,
    header: &'data Header,
    segments: &'data [Segment],
    sections: SectionTable<'data, Header, R>,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    pub fn parse(data: R) -> Result<Self, NotEmbeddable> {
        Elf::parsed(data).filter(Elf::is_program).ok_or(NotEmbeddable::NotElf)
    }

    fn parsed(data: R) -> Option<Self> {
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        let sections = header.sections(endian, data).ok()?;
        Some(Elf { data, endian, header, segments, sections })
    }

    fn is_program(&self) -> bool {
        let is_loaded = |segment: &Segment| segment.p_type(self.endian) == PT_LOAD;
        matches!(self.header.e_type(self.endian), ET_EXEC | ET_DYN)
            && self.segments.iter().any(is_loaded)
    }

    /// Checks that a note can be appended.
    pub fn check_embeddable(&self) -> Result<(), NotEmbeddable> {
        let n_sections = self.header.e_shnum(self.endian);
        let names = self.header.e_shstrndx(self.endian);
        if n_sections == 0 || names == 0 || SHN_LORESERVE - 1 <= n_sections.max(names) {
            return Err(NotEmbeddable::NoSections);
        }
        let len = self.data.len().unwrap_or(u64::MAX);
        if self.contents_end() < len { Err(NotEmbeddable::Appended) } else { Ok(()) }
    }

    /// Returns the end of the last part of the file that a header describes.
    fn contents_end(&self) -> u64 {
        let endian = self.endian;
        let table_size = self.sections.len() as u64 * size_of::<Section>() as u64;
        let table = self.header.e_shoff(endian).saturating_add(table_size);
        let segments =
            self.segments.iter().map(|s| s.p_offset(endian).saturating_add(s.p_filesz(endian)));
        let in_file = |section: &&Section| section.sh_type(endian) != SHT_NOBITS;
        let sections = self.sections.iter().filter(in_file);
        let sections = sections.map(|s| s.sh_offset(endian).saturating_add(s.sh_size(endian)));
        segments.chain(sections).chain([table]).max().unwrap_or_default()
    }

    /// Returns the digest of the loaded segments and of the headers that describe them, without the fields about
    /// sections and without the offsets in the file.
    pub fn digest(&self) -> Result<String, SignatureError> {
        let mut hasher = Hasher::new("loaded\n");
        hasher.add_part(self.data, 0..size_of::<Header>() as u64, &SECTION_FIELDS)?;
        for segment in self.segments {
            let (start, size) = segment.file_range(self.endian);
            hasher.add(bytes_of(&Segment { p_offset: U64::new(self.endian, 0), ..*segment }));
            if segment.p_type(self.endian) == PT_LOAD {
                hasher.add_part(self.data, start..start.saturating_add(size), &SECTION_FIELDS)?;
            }
        }
        Ok(hasher.finish())
    }

    /// Returns whether the signature with this profile is found.
    pub fn has_profile(&self, profile: &str) -> bool {
        let is_found = |text: &[u8]| text.ends_with(profile.as_bytes());
        self.check_embeddable().is_ok()
            && self.signature().is_ok_and(|text| text.is_some_and(is_found))
    }

    /// Returns the text of the signature; `None` if the program has no signature.
    pub fn signature(&self) -> Result<Option<&'data [u8]>, SignatureError> {
        let Some((_, section)) = self.sections.section_by_name(self.endian, SECTION.as_bytes())
        else {
            return Ok(None);
        };
        if SIGNATURE_BYTES_MAX < section.sh_size(self.endian) {
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

impl<'data> Elf<'data, &'data [u8]> {
    /// Returns the program with a signature at its end.
    pub fn attach(&self, text: impl FnOnce(Layout) -> Vec<u8>) -> Vec<u8> {
        let endian = self.endian;
        let names_idx = usize::from(self.header.e_shstrndx(endian));
        let layout =
            Layout { file_bytes: self.data.len() as u64, sections_at: self.header.e_shoff(endian) };
        let mut file = self.data.to_vec();
        let note = self.note(&text(layout));
        let note_at = append(&mut file, &note);
        let old_names = self.sections.iter().nth(names_idx);
        let old_names = old_names.and_then(|names| names.data(endian, self.data).ok());
        let old_names = old_names.unwrap_or_default();
        let names = [old_names, SECTION.as_bytes(), b"\0"].concat();
        let names_at = append(&mut file, &names);
        let mut table: Vec<Section> = self.sections.iter().copied().collect();
        if let Some(section) = table.get_mut(names_idx) {
            section.sh_offset = U64::new(endian, names_at);
            section.sh_size = U64::new(endian, names.len() as u64);
        }
        table.push(Section {
            sh_name: U32::new(endian, old_names.len() as u32),
            sh_type: U32::new(endian, SHT_NOTE),
            sh_flags: U64::new(endian, 0),
            sh_addr: U64::new(endian, 0),
            sh_offset: U64::new(endian, note_at),
            sh_size: U64::new(endian, note.len() as u64),
            sh_link: U32::new(endian, 0),
            sh_info: U32::new(endian, 0),
            sh_addralign: U64::new(endian, 4),
            sh_entsize: U64::new(endian, 0),
        });
        let table_bytes: Vec<u8> = table.iter().flat_map(bytes_of).copied().collect();
        let table_at = append(&mut file, &table_bytes);
        set_sections(&mut file, endian, self.header, table_at, table.len());
        file
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

    /// Returns the beginning of the program with its former section headers; `None` if the layout is impossible.
    pub fn detach(&self, layout: Layout) -> Option<Vec<u8>> {
        let size = usize::try_from(layout.file_bytes).ok()?;
        let mut file =
            self.data.get(..size).filter(|file| size_of::<Header>() <= file.len())?.to_vec();
        let n_sections = self.sections.len().checked_sub(1)?;
        set_sections(&mut file, self.endian, self.header, layout.sections_at, n_sections);
        Some(file)
    }
}

/// Appends aligned bytes to a file, and returns their offset.
fn append(file: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    file.resize(file.len().next_multiple_of(ALIGN), 0);
    let at = file.len() as u64;
    file.extend(bytes);
    at
}

/// Sets offset and number of the section headers in the ELF header.
fn set_sections(file: &mut [u8], endian: Endianness, header: &Header, at: u64, n: usize) {
    let header =
        Header { e_shoff: U64::new(endian, at), e_shnum: U16::new(endian, n as u16), ..*header };
    file[..size_of::<Header>()].copy_from_slice(bytes_of(&header));
}
