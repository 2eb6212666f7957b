//! Sensitivity: the slowdown of a program next to one program of each class, and with remote memory.
//!
//! ```text
//!   slowdown = cycles per instruction next to the other program / cycles per instruction alone - 1
//!
//!   sensitivity = { 4 = 0.05, 9 = 0.30, remote = 0.2 }      in a workload file
//! ```
//!
//! Values are integers in permille, so that decisions do not depend on rounding. Between two declared classes, the
//! slowdown is linear. Below the lowest declared class, it decreases linearly to zero at class 0. Above the highest
//! declared class, it is constant.

use crate::Class;

/// The largest slowdown that can be declared: an additional time of 100 times the run time alone.
pub const SLOWDOWN_MAX_PERMILLE: u32 = 100_000;

/// Slowdowns of a program, in permille of its run time alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    by_class: Vec<(Class, u32)>,
    remote: u32,
}

impl Sensitivity {
    /// Returns a sensitivity from slowdowns by class, in any order, and the slowdown with remote memory. If a class
    /// has two values, the last value applies.
    pub fn new(by_class: impl IntoIterator<Item = (Class, u32)>, remote: u32) -> Self {
        let sorted: std::collections::BTreeMap<Class, u32> = by_class.into_iter().collect();
        Sensitivity { by_class: sorted.into_iter().collect(), remote }
    }

    /// Returns the declared classes in increasing order, each with its slowdown in permille.
    pub fn by_class(&self) -> &[(Class, u32)] {
        &self.by_class
    }

    /// Returns the slowdown in permille next to one program of this class.
    pub fn slowdown_next_to(&self, class: Class) -> u32 {
        let above = self.by_class.partition_point(|(known, _)| *known < class);
        let nothing = (Class::default(), 0);
        let low = above.checked_sub(1).map_or(nothing, |idx| self.by_class[idx]);
        match self.by_class.get(above) {
            Some(&(known, slowdown)) if known == class => slowdown,
            Some(&high) => between(low, high, class),
            None => low.1,
        }
    }

    /// Returns the slowdown in permille if all memory of the program is on another node.
    pub fn remote(&self) -> u32 {
        self.remote
    }
}

/// Interpolates linearly between two classes.
fn between(low: (Class, u32), high: (Class, u32), class: Class) -> u32 {
    let number = |class: Class| i64::from(class.number());
    let width = (number(high.0) - number(low.0)).max(1);
    let rise = (i64::from(high.1) - i64::from(low.1)) * (number(class) - number(low.0)) / width;
    u32::try_from(i64::from(low.1) + rise).unwrap_or(0)
}

/// Parses a slowdown such as `0.25` to permille. `None` if it is negative, not a number, has more than three
/// decimals or is above [`SLOWDOWN_MAX_PERMILLE`].
pub(crate) fn parse_slowdown(text: &str) -> Option<u32> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(behind) {
        return None;
    }
    let behind = behind.trim_end_matches('0');
    if 3 < behind.len() {
        return None;
    }
    let thousandths: u32 = format!("{behind:0<3}").parse().ok()?;
    let permille = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths)?;
    (permille <= SLOWDOWN_MAX_PERMILLE).then_some(permille)
}

/// Returns a slowdown as text, the inverse of [`parse_slowdown`].
pub(crate) fn slowdown_text(permille: u32) -> String {
    let text = format!("{}.{:03}", permille / 1000, permille % 1000);
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(number: u8) -> Class {
        Class::new(number).expect("a class")
    }

    #[test]
    fn slowdowns_of_missing_classes_are_interpolated() {
        let sens = Sensitivity::new([(class(10), 300), (class(4), 100)], 0);
        let beside: Vec<u32> = (0..=15).map(|k| sens.slowdown_next_to(class(k))).collect();
        assert_eq!(
            beside,
            [0, 25, 50, 75, 100, 133, 166, 200, 233, 266, 300, 300, 300, 300, 300, 300]
        );
    }

    #[test]
    fn a_slowdown_may_fall_with_the_class_and_an_empty_sensitivity_is_zero() {
        let falling = Sensitivity::new([(class(0), 90), (class(3), 0)], 0);
        assert_eq!([0, 1, 2, 3].map(|k| falling.slowdown_next_to(class(k))), [90, 60, 30, 0]);
        assert_eq!(Sensitivity::default().slowdown_next_to(class(15)), 0);
    }

    #[test]
    fn slowdowns_are_read_in_permille() {
        for (text, permille) in
            [("0", Some(0)), ("0.25", Some(250)), ("1.5000", Some(1500)), ("100", Some(100_000))]
        {
            assert_eq!(parse_slowdown(text), permille, "{text}");
        }
        for text in ["", ".5", "-1", "0.0001", "100.001", "1e3", "nan", "99999999999"] {
            assert_eq!(parse_slowdown(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_slowdown_is_read_unchanged(permille in 0..=SLOWDOWN_MAX_PERMILLE) {
            prop_assert_eq!(parse_slowdown(&slowdown_text(permille)), Some(permille));
        }
    }
}
