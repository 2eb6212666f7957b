//! A column of a comparison: a policy, and settings of the machine that no policy controls.
//!
//! ```text
//!   linux      dfs[cooldown=4,domains=llc]      linux@interleave      linux@kernel=2.6.27+numa-balancing
//!                                                    └ variant: a setting of the machine
//! ```
//!
//! Lists are split at commas and semicolons outside brackets, so that one option takes several columns.
//!
//! In a comparison of commands each column is a command under a policy, and the only workload is the command of the
//! column.

use std::fmt;

use base::suggest::did_you_mean;
use host_sim::kernel::{KernelVersion, UnknownKernel};

use crate::oracle::{self, OracleError};

/// Settings of the machine for one column; `None`: the common setting of the comparison applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineVariant {
    /// Whether memory of jobs without a memory policy is interleaved over all nodes.
    pub interleave: Option<bool>,
    /// Whether the kernel does NUMA balancing.
    pub numa_balancing: Option<bool>,
    /// The simulated kernel.
    pub kernel: Option<KernelVersion>,
}

/// A policy with a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The policy, or the command with its policy in brackets if there are several policies.
    pub text: String,
    /// The policy with its variant, normalized: without spaces and empty brackets.
    pub policy: String,
    /// The policy alone, for [`policy::build`].
    pub spec: String,
    /// Settings of the machine.
    pub variant: MachineVariant,
    /// Index and text of the command in a comparison of commands; `None` in a comparison of policies.
    pub command: Option<(usize, String)>,
}

/// An invalid column. Each message contains a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ColumnError {
    #[error(transparent)]
    Policy(#[from] OracleError),
    #[error("{column:?}: there is no variant {found:?}; {}", did_you_mean(.found, variant_names()))]
    Variant { column: String, found: String },
    #[error("{column:?}: {error}")]
    Kernel { column: String, error: UnknownKernel },
    #[error("{0:?}: its variants contradict each other, or one occurs twice: keep one")]
    Twice(String),
    #[error("policy {0} is given twice: every column of a comparison must differ from the others")]
    Again(String),
    #[error("{column:?}: only evenkeel compare has variants; write {remedy}")]
    NoComparison { column: String, remedy: String },
    #[error("the command {0:?} is given twice: write each command once")]
    SameCommand(String),
    #[error("there is no policy to compare: name two or more, as in --policies linux,dfs")]
    None,
}

/// No setting of its own.
const NO_VARIANT: MachineVariant =
    MachineVariant { interleave: None, numa_balancing: None, kernel: None };
/// Names after the `@`, with their settings.
const VARIANTS: [(&str, MachineVariant); 4] = [
    ("interleave", MachineVariant { interleave: Some(true), ..NO_VARIANT }),
    ("first-touch", MachineVariant { interleave: Some(false), ..NO_VARIANT }),
    ("numa-balancing", MachineVariant { numa_balancing: Some(true), ..NO_VARIANT }),
    ("no-numa-balancing", MachineVariant { numa_balancing: Some(false), ..NO_VARIANT }),
];
/// The variant that selects a kernel, before the version.
const KERNEL: &str = "kernel=";

/// Returns the names of all variants.
fn variant_names() -> impl Iterator<Item = &'static str> + Clone {
    VARIANTS.iter().map(|(name, _)| *name).chain(["kernel=VERSION"])
}

impl Column {
    /// Parses one column. The policy is built once, as a check.
    ///
    /// # Errors
    /// The policy or variant does not exist.
    pub fn parse(text: &str) -> Result<Self, ColumnError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let end = text.rfind(']').map_or(0, |at| at + 1);
        let (spec, variants) = match text[end..].find('@') {
            Some(at) => (&text[..end + at], &text[end + at + 1..]),
            None => (&*text, ""),
        };
        let spec = spec.strip_suffix("[]").unwrap_or(spec).to_owned();
        oracle::check(&spec)?;
        let mut variant = MachineVariant::default();
        let written = text[end..].contains('@').then_some(variants);
        for found in written.into_iter().flat_map(|written| written.split('+')) {
            let one = MachineVariant::parse(found, &text)?;
            variant.add(one).ok_or(ColumnError::Twice(text.clone()))?;
        }
        let text = if variants.is_empty() { spec.clone() } else { format!("{spec}@{variants}") };
        Ok(Column { policy: text.clone(), text, spec, variant, command: None })
    }

    /// Checks that a policy of a command other than `compare`, which has options for the machine, has no variant.
    ///
    /// # Errors
    /// The policy has a variant. The error contains the options. Other errors are those of the command.
    pub fn check_no_variant(policy: &str) -> Result<(), ColumnError> {
        match Column::parse(policy) {
            Ok(Column { text, spec, variant, .. }) if variant != NO_VARIANT => {
                let options = variant.options();
                let remedy = match options.is_empty() {
                    true => format!("{spec}, because first touch is the default"),
                    false => format!("{spec} and {}", options.join(" ")),
                };
                Err(ColumnError::NoComparison { column: text, remedy })
            }
            _ => Ok(()),
        }
    }

    /// Returns the command in a comparison of commands.
    pub(super) fn command_text(&self) -> Option<String> {
        self.command.as_ref().map(|(_, text)| text.clone())
    }

    /// Returns whether the policy is the oracle.
    pub fn is_oracle(&self) -> bool {
        oracle::is_named(&self.spec)
    }

    /// Returns a key that is equal for columns that differ only in the order of parameters.
    fn meaning(&self) -> (String, Vec<String>, MachineVariant) {
        let (name, inside) = self.spec.split_once('[').unwrap_or((&self.spec, ""));
        let inside = inside.trim_end_matches(']');
        let mut params: Vec<String> =
            inside.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        params.sort();
        (name.to_owned(), params, self.variant)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl MachineVariant {
    /// Parses one variant of a column.
    fn parse(found: &str, column: &str) -> Result<Self, ColumnError> {
        if let Some(name) = found.strip_prefix(KERNEL) {
            let wrong = |error| ColumnError::Kernel { column: column.into(), error };
            let kernel = name.parse::<KernelVersion>().map_err(wrong)?;
            return Ok(MachineVariant { kernel: Some(kernel), ..NO_VARIANT });
        }
        let known = VARIANTS.iter().find(|(name, _)| *name == found).map(|(_, variant)| *variant);
        let wrong = || ColumnError::Variant { column: column.into(), found: found.into() };
        known.ok_or_else(wrong)
    }

    /// Returns the options of a simulated run with these settings.
    fn options(self) -> Vec<String> {
        let kernel = self.kernel.map(|kernel| {
            let name = kernel.name();
            format!("--kernel {}", name.strip_prefix("linux-").unwrap_or(name))
        });
        let interleave = self.interleave.filter(|is_on| *is_on).map(|_| "--interleave".to_owned());
        let balancing = self.numa_balancing.map(|is_on| if is_on { "on" } else { "off" });
        let balancing = balancing.map(|word| format!("--numa-balancing {word}"));
        [kernel, interleave, balancing].into_iter().flatten().collect()
    }

    /// Adds the settings of another variant; `None` if both have the same setting.
    fn add(&mut self, other: MachineVariant) -> Option<()> {
        fn join<T>(value: &mut Option<T>, added: Option<T>) -> Option<()> {
            if value.is_some() && added.is_some() {
                return None;
            }
            *value = added.or(value.take());
            Some(())
        }
        join(&mut self.interleave, other.interleave)?;
        join(&mut self.numa_balancing, other.numa_balancing)?;
        join(&mut self.kernel, other.kernel)
    }
}

/// Returns the columns of all lists.
///
/// # Errors
/// The first invalid column, or a column that repeats another column.
pub fn columns<'a>(lists: impl IntoIterator<Item = &'a str>) -> Result<Vec<Column>, ColumnError> {
    let mut columns: Vec<Column> = Vec::new();
    for text in lists.into_iter().flat_map(split) {
        let column = Column::parse(text)?;
        if columns.iter().any(|other| other.meaning() == column.meaning()) {
            return Err(ColumnError::Again(column.text));
        }
        columns.push(column);
    }
    if columns.is_empty() { Err(ColumnError::None) } else { Ok(columns) }
}

/// Returns a column for each command under each policy. The text of a column is the command, and with several policies
/// also the policy in brackets.
///
/// # Errors
/// A command is given twice.
pub fn command_columns(
    commands: &[String],
    policies: &[Column],
) -> Result<Vec<Column>, ColumnError> {
    let mut columns = Vec::new();
    for (idx, command) in commands.iter().enumerate() {
        if commands[..idx].contains(command) {
            return Err(ColumnError::SameCommand(command.clone()));
        }
        columns.extend(policies.iter().map(|policy| Column {
            text: match policies {
                [_] => command.clone(),
                _ => format!("{command} ({policy})"),
            },
            command: Some((idx, command.clone())),
            ..policy.clone()
        }));
    }
    Ok(columns)
}

/// Returns the parts between commas and semicolons outside brackets, without empty parts.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let parts = list.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, ',' | ';')
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lists: &[&str], expected: &str) {
        let found = match columns(lists.iter().copied()) {
            Ok(columns) => columns.iter().map(Column::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn commas_inside_brackets_belong_to_the_policy() {
        check(
            &["linux, dfs[cooldown=4, domains=llc];spread"],
            "linux dfs[cooldown=4,domains=llc] spread",
        );
        check(&["linux", "dfs[]"], "linux dfs");
        check(&["linux,linux@interleave+numa-balancing"], "linux linux@interleave+numa-balancing");
    }

    #[test]
    fn a_variant_is_a_setting_of_the_machine_and_not_of_the_policy() {
        let column = Column::parse("dfs[cooldown=4]@interleave").expect("sound");
        assert_eq!(column.spec, "dfs[cooldown=4]");
        assert_eq!(column.variant, MachineVariant { interleave: Some(true), ..NO_VARIANT });
        let column = Column::parse("linux@kernel=2.6.27+first-touch").expect("sound");
        let kernel = Some(KernelVersion::V2_6_27);
        let expected = MachineVariant { interleave: Some(false), kernel, ..NO_VARIANT };
        assert_eq!((&*column.spec, column.variant), ("linux", expected));
        let long = Column::parse("linux@kernel=linux-2.6.27+first-touch").expect("sound");
        assert_eq!(long.variant, expected);
    }

    #[test]
    fn other_commands_have_options_instead_of_variants() {
        let error = |policy| {
            Column::check_no_variant(policy).err().map_or(String::new(), |e| e.to_string())
        };
        for (policy, expected) in [
            ("linux", ""),
            ("dfs[cooldown=4]", ""),
            (
                "linux@kernel=2.6.27",
                "\"linux@kernel=2.6.27\": only evenkeel compare has variants; write linux and --kernel 2.6.27",
            ),
            (
                "dfs[cooldown=4]@interleave+no-numa-balancing",
                "\"dfs[cooldown=4]@interleave+no-numa-balancing\": only evenkeel compare has variants; write dfs[cooldown=4] and --interleave --numa-balancing off",
            ),
            (
                "linux@first-touch",
                "\"linux@first-touch\": only evenkeel compare has variants; write linux, because first touch is the default",
            ),
        ] {
            assert_eq!(error(policy), expected);
        }
    }

    #[test]
    fn a_column_that_repeats_another_is_rejected_in_any_notation() {
        let repeated = |text| {
            format!(
                "policy {text} is given twice: every column of a comparison must differ from the others"
            )
        };
        check(&["linux,linux"], &repeated("linux"));
        check(&["dfs,dfs[]"], &repeated("dfs"));
        check(&["linux@kernel=6.18,linux@kernel=linux-6.18"], &repeated("linux@kernel=linux-6.18"));
        check(
            &["dfs[cooldown=4,domains=llc]", "dfs[domains=llc,cooldown=4]"],
            &repeated("dfs[domains=llc,cooldown=4]"),
        );
    }

    #[test]
    fn an_invalid_column_is_rejected_with_the_valid_names() {
        let unknown = policy::build("dsf", 0).err().expect("there is none");
        check(&["linux,dsf"], &unknown.to_string());
        check(&["linux,orcle"], "there is no policy \"orcle\"; did you mean \"oracle\"?");
        check(
            &["linux@striped"],
            "\"linux@striped\": there is no variant \"striped\"; known are interleave, first-touch, numa-balancing, no-numa-balancing, kernel=VERSION",
        );
        check(
            &["linux@kernel=5.10"],
            "\"linux@kernel=5.10\": there is no model of the kernel \"5.10\": write one of linux-6.18, linux-4.2, linux-2.6.27; linux- can be omitted",
        );
        check(
            &["linux@kernel=4.2+kernel=6.18"],
            "\"linux@kernel=4.2+kernel=6.18\": its variants contradict each other, or one occurs twice: keep one",
        );
        check(
            &["linux@interleaved"],
            "\"linux@interleaved\": there is no variant \"interleaved\"; did you mean \"interleave\"?",
        );
        check(
            &["linux@interleave+first-touch"],
            "\"linux@interleave+first-touch\": its variants contradict each other, or one occurs twice: keep one",
        );
        check(
            &[" , "],
            "there is no policy to compare: name two or more, as in --policies linux,dfs",
        );
    }
}
