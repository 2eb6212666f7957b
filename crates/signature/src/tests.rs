//! Programs are built by hand, or are this test itself.

use std::io::Write;

use proptest::prelude::*;

use super::*;

const LOADED: usize = 0x200;

/// Returns an ELF program of 64 bits.
fn program() -> Vec<u8> {
    program_of(64)
}

/// Returns an ELF program: headers and 512 loaded bytes, a section that is not loaded, section names and headers. With
/// 64 bits it is a little-endian program for x86-64, with 32 bits a big-endian program for PowerPC.
fn program_of(n_bits: usize) -> Vec<u8> {
    let is_64 = n_bits == 64;
    let word = n_bits / 8;
    let bytes = |fields: &[(usize, usize)]| -> Vec<u8> {
        let bytes = |&(value, size): &(usize, usize)| match is_64 {
            true => value.to_le_bytes()[..size].to_vec(),
            false => value.to_be_bytes()[8 - size..].to_vec(),
        };
        fields.iter().flat_map(bytes).collect()
    };
    let [header_size, segment_size, section_size] = if is_64 { [64, 56, 64] } else { [52, 32, 40] };
    let [class, order] = if is_64 { [2, 1] } else { [1, 2] };
    let (kind, machine) = if is_64 { (3, 62) } else { (2, 20) }; // ET_DYN, x86-64; ET_EXEC, PowerPC
    let names = b"\0.comment\0.names\0";
    let names_at = LOADED + 16;
    let table_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = vec![0x7f, b'E', b'L', b'F', class, order, 1];
    file.resize(16, 0);
    file.extend(bytes(&[(kind, 2), (machine, 2), (1, 4), (0, word)])); // type, machine, version, entry
    file.extend(bytes(&[(header_size, word), (table_at, word), (0, 4)])); // offsets of segments and sections, flags
    let sizes = [header_size, segment_size, 1, section_size, 3, 2];
    file.extend(bytes(&sizes.map(|size| (size, 2))));
    // PT_LOAD, R+X: type, offset, addresses, sizes, alignment. The place of the flags depends on the class.
    let mut segment = vec![(1, 4), (0, word), (0, word), (0, word), (LOADED, word), (LOADED, word)];
    segment.insert(if is_64 { 1 } else { 6 }, (5, 4));
    file.extend(bytes(&segment));
    file.resize(LOADED, 0);
    file[200..204].copy_from_slice(b"code");
    file.extend(b"not loaded......");
    file.extend(names);
    file.resize(table_at, 0);
    for (name, kind, at, size) in [(0, 0, 0, 0), (1, 1, LOADED, 16), (10, 3, names_at, names.len())]
    {
        file.extend(bytes(&[(name, 4), (kind, 4), (0, word), (0, word), (at, word), (size, word)]));
        file.extend(bytes(&[(0, 4), (0, 4), (0, word), (0, word)]));
    }
    file
}

fn profile(name: &str) -> Profile {
    let text = format!("name = {name:?}\n[[phase]]\nllc_accesses_per_1000 = 10.0\n");
    program::profile::parse_profile(&text, std::path::Path::new("p")).expect("it is valid")
}

/// Returns a program with an embedded signature.
fn embed(program: &[u8], profile: &Profile) -> Result<Vec<u8>, SignatureError> {
    let mut program = program.to_vec();
    super::embed(&mut program, profile).map(|()| program)
}

/// Returns a program without its signature; `None` if it has none.
fn remove(program: &[u8]) -> Result<Option<Vec<u8>>, SignatureError> {
    let mut program = program.to_vec();
    super::remove(&mut program).map(|is_removed| is_removed.then_some(program))
}

fn signed() -> Vec<u8> {
    embed(&program(), &profile("prog")).expect("it is a program")
}

fn error(result: Result<impl std::fmt::Debug, SignatureError>) -> String {
    result.expect_err("it is invalid").to_string()
}

/// Replaces a text in a file by a text of the same length.
fn replaced(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let at = file.windows(from.len()).position(|part| part == from.as_bytes()).expect(from);
    assert_eq!(from.len(), to.len());
    [&file[..at], to.as_bytes(), &file[at + from.len()..]].concat()
}

#[test]
fn a_program_has_the_profile_that_was_embedded_last() {
    assert_eq!(read(&*program()).expect("no signature"), None);
    assert_eq!(read(&*signed()).expect("valid"), Some(profile("prog")));
    let again = embed(&signed(), &profile("other")).expect("it is a program");
    assert_eq!(read(&*again).expect("valid"), Some(profile("other")));
    assert_eq!(remove(&again).expect("valid"), Some(program()));
    assert_eq!(remove(&program()).expect("no signature"), None);
}

#[test]
fn a_32_bit_program_has_a_note_that_other_readers_find_and_gets_its_original_bytes_back() {
    use object::{Object, ObjectSection};
    let signed = embed(&program_of(32), &profile("prog")).expect("it is a program");
    assert_eq!(read(&*signed).expect("valid"), Some(profile("prog")));
    let file = object::read::elf::ElfFile32::<object::Endianness>::parse(&*signed);
    let file = file.expect("an ELF file");
    let names: Vec<&str> = file.sections().filter_map(|section| section.name().ok()).collect();
    assert_eq!(names, [".comment", ".names", ".note.evenkeel"]);
    let note =
        file.section_by_name(".note.evenkeel").expect("a section").data().expect("in the file");
    assert!(note[12..].starts_with(b"evenkeel\0\0\0\0evenkeel-signature 1\n"));
    assert_eq!(
        file.section_by_name(".comment").expect("a section").data(),
        Ok(&b"not loaded......"[..])
    );
    let patched = replaced(&signed, "code", "cold");
    assert!(error(read(&*patched)).starts_with("the signature is of another build"));
    assert!(read(&*replaced(&signed, "not loaded", "other text")).expect("valid").is_some());
    let again = embed(&signed, &profile("other")).expect("it is a program");
    assert_eq!(remove(&again).expect("valid"), Some(program_of(32)));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test needs a real program")]
fn a_real_program_gets_its_original_bytes_back() {
    let own = std::fs::read(std::env::current_exe().expect("a path")).expect("this test");
    let signed = embed(&own, &profile("prog")).expect("it is a program");
    assert_eq!(read(&*signed).expect("valid"), Some(profile("prog")));
    assert!(remove(&signed).expect("valid").is_some_and(|original| original == own));
}

#[test]
fn a_change_of_loaded_bytes_is_another_build_and_a_change_of_symbols_is_not() {
    let patched = replaced(&signed(), "code", "cold");
    assert!(error(read(&*patched)).starts_with("the signature is of another build"));
    let original = remove(&patched).expect("its layout is unchanged").expect("a signature");
    assert_eq!(original, replaced(&program(), "code", "cold"));
    assert!(read(&*replaced(&signed(), "not loaded", "other text")).expect("valid").is_some());
    let appended = [&signed()[..], b"archive"].concat();
    assert!(error(read(&*appended)).starts_with("the signature is of another build"));
}

#[test]
fn damaged_foreign_and_newer_signatures_have_one_error_each() {
    for (from, to, expected) in [
        (
            "\"prog\"",
            "\"prug\"",
            "the signature is damaged: its checksum differs; remove it, and bytes that were appended to the program, with objcopy --remove-section .note.evenkeel",
        ),
        ("checksum", "chocksum", "the signature is damaged: it is truncated"),
        ("\nname", "\n\u{1}ame", "the signature is damaged: its checksum differs"),
        (
            "evenkeel-signature 1",
            "evenkeel-signature 2",
            "the signature has format 2, this evenkeel reads format 1; use the evenkeel that wrote it, or remove it, and bytes that were appended to the program, with objcopy",
        ),
        ("evenkeel-signature 1", "evenkeel-signature x", "the signature is not of evenkeel"),
        ("evenkeel\0", "othertool", "the signature is not of evenkeel"),
    ] {
        let file = replaced(&signed(), from, to);
        let found = error(read(&*file));
        assert!(found.starts_with(expected), "{found}");
        assert!(error(remove(&file)).contains("objcopy --remove-section .note.evenkeel"));
        assert!(error(embed(&file, &profile("prog"))).contains("objcopy"));
    }
    let invalid =
        text::format(&digest_of(&*program()).expect("valid"), None, "name = 1\n[[phase]]\n");
    assert!(error(read_side(&invalid, &*program())).starts_with("signature:1:8: "));
    let not_text = [b"evenkeel-signature 1\n".as_slice(), &[0xff]].concat();
    assert!(error(read_side(&not_text, &*program())).contains("not UTF-8"));
    let damaged = b"evenkeel-signature 1\n".as_slice();
    assert!(error(read_side(damaged, &*program())).ends_with("; profile the program again"));
    let large = vec![b'x'; 1 + SIGNATURE_BYTES_MAX as usize];
    assert!(error(read_side(&large, &*program())).contains("larger than 1 MiB"));
}

/// Returns a program with `n` sections, whose number is in the first section if the ELF header has no place for it.
fn many_sections(n: usize) -> Vec<u8> {
    let mut file = program();
    let table_at = file.len() - 3 * 64;
    file.resize(table_at + n * 64, 0);
    match u16::try_from(n).ok().filter(|n| *n < 0xff00) {
        Some(n) => file[60..62].copy_from_slice(&n.to_le_bytes()),
        None => {
            file[60..62].fill(0);
            file[table_at + 32..table_at + 40].copy_from_slice(&(n as u64).to_le_bytes());
        }
    }
    file
}

#[test]
fn the_largest_number_of_sections_has_a_place_for_a_signature() {
    let file = many_sections(65_278);
    let signed = embed(&file, &profile("prog")).expect("it is a program");
    assert_eq!(read(&*signed).expect("valid"), Some(profile("prog")));
    assert_eq!(remove(&signed).expect("valid"), Some(file));
}

#[test]
fn embedding_and_removal_keep_the_only_copy_of_the_program() {
    let mut file = Vec::with_capacity(1 << 20);
    file.extend(program());
    let at = file.as_ptr();
    super::embed(&mut file, &profile("prog")).expect("it is a program");
    super::embed(&mut file, &profile("other")).expect("it is a program");
    assert!(super::remove(&mut file).expect("valid"));
    assert_eq!((file.as_ptr(), file), (at, program()));
}

#[test]
fn files_that_a_note_would_break_get_none() {
    let mut no_sections = program();
    no_sections[60..64].fill(0);
    // The name of the second section is behind the end of the names, where the new name will be.
    let mut named_at_the_end = program();
    let second = named_at_the_end.len() - 128;
    named_at_the_end[second] = b"\0.comment\0.names\0".len() as u8;
    let appended = [&program()[..], b"archive"].concat();
    let mut object_file = program();
    object_file[16] = 1; // ET_REL
    for (file, expected) in [
        (b"#!/bin/sh\n".to_vec(), "the file is not an ELF program"),
        (program()[..100].to_vec(), "the program is damaged or truncated"),
        (no_sections, "the program has no section headers, or invalid ones"),
        (named_at_the_end, "the program has no section headers, or invalid ones"),
        (appended, "data follows the ELF contents"),
        (object_file, "the ELF file is an object file or a core dump, not a program"),
        (
            many_sections(65_333),
            "the program has 65333 sections, and its ELF header has no place for more than 65279",
        ),
        (many_sections(65_279), "the program has 65279 sections"),
    ] {
        assert!(error(embed(&file, &profile("prog"))).starts_with(expected));
        let side = to_side(&*file, &profile("prog")).expect("each file may have a side file");
        assert_eq!(read_side(&side, &*file).expect("valid"), profile("prog"));
        let mut changed = file;
        changed[5] ^= 1;
        assert!(
            error(read_side(&side, &*changed)).starts_with("the signature is of another build")
        );
    }
}

#[test]
fn a_program_whose_headers_point_outside_the_file_is_damaged() {
    for n_bits in [32, 64] {
        let program = program_of(n_bits);
        assert_eq!(check_elf(&*program), Ok(()));
        assert_eq!(check_elf(&program[..program.len() - 10]), Err(NotEmbeddable::Damaged));
        // Offsets in the ELF header: e_phoff, e_shoff, e_phnum, e_shnum, e_shstrndx.
        let fields = if n_bits == 64 {
            [32..40, 40..48, 56..58, 60..62, 62..64]
        } else {
            [28..32, 32..36, 44..46, 48..50, 50..52]
        };
        for field in fields {
            let mut damaged = program.clone();
            damaged[field.clone()].fill(0xff);
            assert_eq!(check_elf(&*damaged), Err(NotEmbeddable::Damaged), "{n_bits} {field:?}");
            assert_eq!(read(&*damaged).expect("no signature"), None);
        }
    }
    assert_eq!(check_elf(&b"#!/bin/sh\n"[..]), Err(NotEmbeddable::NotElf));
}

#[test]
fn segments_beyond_the_limit_cost_no_time() {
    let mut file = program();
    file[56] = 0xff; // 255 segments, which are not there
    assert!(read(&*file).is_ok_and(|found| found.is_none()));
    let mut file = signed();
    file[96..104].copy_from_slice(&(1u64 << 60).to_le_bytes());
    assert!(error(read(&*file)).contains("larger than 4 GiB"));
    // Segments that overlap: more than twice the bytes of the file.
    file[96..104].copy_from_slice(&(1u64 << 20).to_le_bytes());
    assert!(error(read(&*file)).contains("its segments overlap"));
}

/// Returns an open file of this size with this beginning; the rest is a hole.
fn sparse(bytes: &[u8], size: u64) -> std::fs::File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("can be written");
    file.set_len(size).expect("can be enlarged");
    file
}

#[test]
fn a_file_is_read_as_its_bytes() {
    for bytes in [program(), signed(), b"#!/bin/sh\n".to_vec()] {
        let file = sparse(&bytes, bytes.len() as u64);
        assert_eq!(read(&ProgramFile::new(&file)).ok(), read(&*bytes).ok());
        let side = to_side(&ProgramFile::new(&file), &profile("prog")).expect("a side file");
        assert_eq!(read_side(&side, &*bytes).expect("valid"), profile("prog"));
    }
}

#[test]
fn headers_of_any_size_need_limited_memory() {
    let mut bytes = signed();
    // The number of sections is in the first section header: the table covers the hole.
    let at = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
    bytes[60..62].copy_from_slice(&0u16.to_le_bytes());
    bytes[at + 32..at + 40].copy_from_slice(&(1u64 << 25).to_le_bytes());
    let file = sparse(&bytes, 3 << 30);
    let program = ProgramFile::new(&file);
    assert_eq!(read(&program).ok(), Some(None));
    assert!(object::ReadRef::read_bytes_at(&program, 0, 65 << 20).is_err());
    assert!(object::ReadRef::read_bytes_at_until(&program, 1 << 20..3 << 30, b'x').is_err());
}

proptest! {
    #[test]
    fn any_changed_byte_is_detected_or_leaves_the_profile(at in 0usize..1200, bit in 0u8..8) {
        let mut file = signed();
        let at = at % file.len();
        file[at] ^= 1 << bit;
        let is_masked = (40..48).contains(&at) || (58..64).contains(&at);
        match read(&*file) {
            Ok(Some(found)) => {
                prop_assert_eq!(found, profile("prog"));
                prop_assert!(LOADED <= at || is_masked);
            }
            Ok(None) => prop_assert!(!(72..LOADED).contains(&at), "only a broken structure hides it"),
            Err(_) => {}
        }
        if let Ok(Some(original)) = remove(&file) {
            let elf = elf::Elf::parse(&*original).expect("a program");
            prop_assert!(elf.signature().expect("none").is_none());
        }
    }

    #[test]
    fn any_changed_byte_of_a_32_bit_program_is_detected_or_leaves_the_profile(
        at in 0usize..1200,
        bit in 0u8..8,
    ) {
        let mut file = embed(&program_of(32), &profile("prog")).expect("it is a program");
        let at = at % file.len();
        file[at] ^= 1 << bit;
        if let Ok(Some(found)) = read(&*file) {
            prop_assert_eq!(found, profile("prog"));
            prop_assert!(LOADED <= at || (32..36).contains(&at) || (46..52).contains(&at));
        }
        let _ = remove(&file);
    }

    /// Headers and notes of any content cost no panic and no time.
    #[test]
    fn any_bytes_behind_an_elf_header_are_no_signature_or_one_error(
        class in 1u8..3,
        order in 1u8..3,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        from in 0usize..1600,
        replacement in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..9),
    ) {
        let ident = [b"\x7fELF".as_slice(), &[class, order, 1]].concat();
        let mut overwritten = program_of(if class == 1 { 32 } else { 64 });
        overwritten = embed(&overwritten, &profile("prog")).expect("it is a program");
        let from = from % (overwritten.len() - replacement.len());
        overwritten[from..from + replacement.len()].copy_from_slice(&replacement);
        let truncated = overwritten[..from].to_vec();
        for file in [[&ident[..], &bytes].concat(), overwritten, truncated] {
            let results = [
                read(&*file).err(),
                remove(&file).err(),
                read_side(&bytes, &*file).err(),
                embed(&file, &profile("prog")).err(),
            ];
            for error in results.into_iter().flatten() {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }
    }

    #[test]
    fn a_text_is_written_and_read_equal(name in "[a-z]{1,9}", n in any::<u64>(), at in any::<u64>()) {
        let layout = Some(text::Layout { file_bytes: n, sections_at: at });
        let toml = profile(&name).to_toml();
        let bytes = text::format("00ff", layout, &toml);
        let expected = text::Signature { digest: "00ff", layout, profile: &toml };
        prop_assert_eq!(text::parse(&bytes).expect("valid"), expected);
    }
}
