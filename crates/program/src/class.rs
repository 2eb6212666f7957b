//! Memory classes of programs.

/// The memory class of a program, 0 to 15: floor(log2(1 + r)). r is the program's number of memory controller
/// operations (misses and write-backs) per millisecond of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// The largest class.
    pub const MAX: u8 = 15;

    /// Returns a class; `None` if the number is above [`Class::MAX`].
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX).then_some(Class(number))
    }

    /// Returns the class for a rate of memory controller operations per millisecond of CPU time.
    pub fn of_rate(ops_per_ms: f64) -> Class {
        let whole = ops_per_ms.clamp(0.0, 1e9) as u64;
        let number = (1 + whole).ilog2().min(u32::from(Class::MAX));
        Class::new(number as u8).unwrap_or_default()
    }

    /// Returns the number of the class, 0 to 15.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the lower limit of the class: 2^k - 1 memory controller operations per millisecond of CPU time.
    pub fn controller_ops_per_ms(self) -> u64 {
        (1 << self.0) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_15_and_begin_at_0() {
        assert_eq!(Class::new(15).map(Class::number), Some(15));
        assert_eq!(Class::new(16), None);
        assert_eq!(Class::default(), Class::new(0).unwrap());
    }

    #[test]
    fn the_lower_limit_of_a_class_is_its_smallest_rate() {
        let class_of = |ops: u64| (1 + ops).ilog2();
        for number in 0..=Class::MAX {
            let ops = Class::new(number).unwrap().controller_ops_per_ms();
            assert_eq!(class_of(ops), u32::from(number));
            assert!(ops == 0 || class_of(ops - 1) < u32::from(number));
        }
    }
}
