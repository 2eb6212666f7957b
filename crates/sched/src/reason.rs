//! Why something is done: a code and the figures that it rested on.
//!
//! Each code stands once in the table below with the sentence that `explain`, the report and the
//! progress view show. Journals hold the code and the figures, never the sentence.
//!
//! ```text
//!   {name}      the figure of that name
//!   {unit}      what loads are counted in, by the figure `tier`: cache misses, declared memory …
//!   [ … ]       left out unless each figure named inside is there and is not 0
//! ```

use std::borrow::Cow;
use std::fmt;

/// Why, with figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// What sort of reason.
    pub code: ReasonCode,
    /// What it rested on, by name, in the order in which it was told.
    pub values: Vec<(Cow<'static, str>, ReasonValue)>,
}

/// A figure in a reason.
#[derive(Clone, Debug, PartialEq)]
pub enum ReasonValue {
    /// A whole number.
    Count(u64),
    /// A measure.
    Number(f64),
    /// A name.
    Text(Cow<'static, str>),
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $sentence:literal;)*) => {
        /// What sort of reason; one line of the table each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ReasonCode {
            $($(#[$doc])* $variant,)*
        }

        impl ReasonCode {
            /// All, in the order of the table.
            pub const ALL: &[ReasonCode] = &[$(ReasonCode::$variant,)*];

            /// The name in journals.
            pub fn name(self) -> &'static str {
                match self {
                    $(ReasonCode::$variant => $name,)*
                }
            }

            /// The sentence, with `{name}` where a figure belongs.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(ReasonCode::$variant => $sentence,)*
                }
            }
        }
    };
}

codes! {
    /// DFS start: the domain with the smallest load.
    LeastLoad "least-load"
        "{domain} had the least load ({load} of {total} {unit} in the last interval), and {cpus} the fewest programs there";
    /// DFS start: the same, counting what programs that started since are expected to show.
    LeastExpectedLoad "least-expected-load"
        "{domain} had the least load ({load} of {total} {unit} in the last interval, {expected} of the {total} only expected of programs started since), and {cpus} the fewest programs there";
    /// DFS start: where programs slow each other down least.
    LeastSlowdown "least-slowdown"
        "on {domain} it and its neighbours are predicted to slow each other down least (by {slowdown} of a program's time in sum; {load} of {total} {unit} in the last interval[, {expected} of the {total} only expected of programs started since]), and {cpus} had the fewest programs in it";
    /// DFS start: several domains had the same smallest load, and the number of programs decided.
    FewestJobs "fewest-jobs"
        "of the domains with the least load ({load} of {total} {unit}[, {expected} of the {total} only expected of programs started since]) {domain} had the fewest programs ({n_jobs}), and {cpus} the fewest in it";
    /// DFS start: the number of programs was the same too, and the sum of classes decided.
    SmallestClasses "smallest-classes"
        "of the domains with the least load ({load} of {total} {unit}[, {expected} of the {total} only expected of programs started since]) and the fewest programs ({n_jobs}) {domain} had the smallest sum of classes ({class_sum}), and {cpus} the fewest programs in it";
    /// DFS start: nothing but the number told the domains apart.
    LowestNumber "lowest-number"
        "{n_equal} domains were best and equal in {equal_in}, each with {load} of {total} {unit}[, {expected} of the {total} only expected of programs started since], and of them {domain} has the lowest number; {cpus} had the fewest programs in it";
    /// DFS start: there was nothing to choose between.
    OnlyDomain "only-domain"
        "{domain} is the only domain that it may use ({load} of {total} {unit}[, {expected} of the {total} only expected of programs started since]), and {cpus} had the fewest programs in it";
    /// DFS move: the memory-hungriest job leaves the domain whose load is too far above the mean.
    LoadUneven "load-uneven"
        "{from} carried {load_from} {unit} in the last interval and {to} {load_to}: more than {factor} times the mean ({mean}); of the jobs on {from} that may move this one had the highest class ({class}, by {basis}), and {cpus} had the fewest programs on {to}[; it is expected to gain {gain} and to cost {cost}]";
    /// DFS move: the memory-hungriest job leaves a domain that carries a multiple of another.
    LoadDouble "load-double"
        "{from} carried {load_from} {unit} in the last interval and {to} {load_to}: at least {factor} times as many (mean {mean}); of the jobs on {from} that may move this one had the highest class ({class}, by {basis}), and {cpus} had the fewest programs on {to}[; it is expected to gain {gain} and to cost {cost}]";
    /// DFS move: as before, but not the class told who goes.
    LoadRelieved "load-relieved"
        "{from} carried {load_from} {unit} in the last interval, {how}; of the jobs on {from} that may move this one {chosen}, and {cpus} had the fewest programs on {to}[; it is expected to gain {gain} and to cost {cost}]";
    /// DFS: memory goes after the job that was moved.
    MemoryFollows "memory-follows"
        "it was moved to {to}, where {there} % of its memory ({size}) lie; the rest of its own ({rest}) goes there too, where {free} are free";
    /// DFS: the CPUs that a job was placed on can no longer be used.
    DomainGone "domain-gone"
        "not all of the CPUs that it was on ({gone}) can be used any more, so it was placed as if it had just started: {domain} was best[ ({by})] with {load} of {total} {unit}[, {expected} of the {total} only expected of programs started since], and {cpus} had the fewest programs in it";
    /// Spread: the next place in turn.
    NextInTurn "next-in-turn"
        "{domain} was next in turn, and {cpus} had the fewest programs in it";
    /// Spread: the CPUs that a job was placed on can no longer be used.
    CpusGone "cpus-gone"
        "not all of the CPUs that it was on ({gone}) can be used any more, so it was placed as if it had just started: {domain} was next in turn, and {cpus} had the fewest programs in it";
    /// Random: drawn at its start.
    ByLot "by-lot"
        "{domain} was drawn by lot of {n_possible} places that it may use, and {cpus}[, as not all of the CPUs that it was on ({gone}) can be used any more]";
    /// Random: drawn again.
    DrawnAgain "drawn-again"
        "lots are drawn again every {every}: {domain} was drawn of {n_possible} places that it may use, and {cpus}";
    /// Spread: memory from where it runs.
    MemoryBesideCpus "memory-beside-cpus"
        "it runs on {domain}, so its memory comes from there";
    /// DI: once an interval all threads are dealt out to caches by their miss rates.
    DealtByMisses "dealt-by-misses"
        "with {misses} misses per 1000 instructions ({basis}) it is number {rank} of {n_jobs} that were dealt out to {n_places} places in turn, highest first: it got {cpus} on {domain}[, as not all of the CPUs that it was on ({gone}) can be used any more]";
    /// DI: between two deals a newcomer gets a seat.
    FewestThreads "fewest-threads"
        "{domain} had the fewest threads when it was its turn, as number {rank} of {n_jobs} to be placed by misses per 1000 instructions ({misses}, {basis}), and {cpus} the fewest there[; not all of the CPUs that it was on ({gone}) can be used any more]";
    /// DINO: a job gets a seat of its class.
    DealtByClass "dealt-by-class"
        "it counts as a {class} ({basis}); threads were laid out over {n_places} places class by class (super-devils {n_super_devils}, devils {n_devils}, turtles {n_turtles}), and it got {cpus} on {domain}[, as not all of the CPUs that it was on ({gone}) can be used any more]";
    /// DINO: what a move of memory left behind is called again.
    MemoryCalledAgain "memory-called-again"
        "{from} still holds {there} of its own memory, more than {percent} % of the {here} on {to}, where it was moved to: try {n_again} of {n_max}";
    /// Animals: a job gets its first seats.
    AnimalComes "animal-comes"
        "it counts as a {animal} ({basis}); of the places with the fewest threads ({n_there} there) {domain} had the smallest penalty for it ({penalty} for all of its threads), and it got {cpus}[, as not all of the CPUs that it was on ({gone}) can be used any more]";
    /// Animals: a pair changes places.
    AnimalsSwapped "animals-swapped"
        "it is a {animal} ({basis}) on {from} and {other} a {other_animal} on {to}: when they change places the sum of their penalties goes from {before} to {after}, and it got {cpus}";
    /// DI and DINO: a job that uses little CPU time is left to the kernel.
    NotBusy "not-busy"
        "it used {used} % of the CPU time that its threads ({n_threads}) could have had in the last interval, less than {limit} %: it is left to the kernel";
    /// DI-Migrate and DINO: memory goes to the node that the job goes to.
    MemoryGoesAlong "memory-goes-along"
        "it goes from {from} to {to}, and its memory with it[ ({size} of its own)]";
    /// A note: DI has nothing to sort these by.
    NoMissCurve "no-miss-curve"
        "jobs without a profile of their misses over cache sizes, such as {jobs}, count as programs with {devil} misses per 1000 instructions";
    /// A note: DINO cannot move parts of memory.
    NoAddressSampling "no-address-sampling"
        "memory=partial needs the addresses of memory accesses, and nothing here samples them: whole memory is moved, as with memory=whole";
    /// Giving up: neither misses nor instructions are known of tasks.
    RatesUnreadable "rates-unreadable"
        "neither counters nor profiles told the cache misses and instructions of tasks for {n_failures} intervals in a row: `evenkeel machine` says what can be counted here";
    /// N-MASS: the node with most of its memory has room.
    HomeFree "home-free"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]it is at home on {home}, and {domain} had {free} of {places} places free when its turn came, with a penalty of {penalty} for being away ({penalty_by}); {cpus} had the fewest programs there";
    /// N-MASS: its home is full.
    HomeFull "home-full"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]it is at home on {home}, where no place was free when its turn came, with a penalty of {penalty} for being away ({penalty_by}); of the others {domain} was least loaded ({taken} of {places} places taken), and {cpus} had the fewest programs there";
    /// N-MASS: it is at home everywhere.
    NoHome "no-home"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]it is at home {home}, and {domain} was least loaded ({taken} of {places} places taken); {cpus} had the fewest programs there";
    /// N-MASS: it is at home everywhere, and so where it is.
    StaysThere "stays-there"
        "it is at home {home}, so it stays on {domain}, where it ran; {cpus} had the fewest programs there";
    /// N-MASS: no place is free anywhere.
    PlacesFull "places-full"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]no place was free when its turn came, with a penalty of {penalty} for being away ({penalty_by}) from home ({home}); of all that it may use {domain} was least loaded ({taken} of {places} places taken), and {cpus} had the fewest programs there";
    /// N-MASS: it gives way where programs press too hard on a cache.
    PressureUneven "pressure-uneven"
        "{from} was pressed by {press_from} misses per 1000 instructions and {to} by {press_to}, more than {d_min} apart; of those on {from} whose going lowers the larger of them it suffers least from being away (penalty {penalty}, {penalty_by}; at home {home}; up to {penalty_max} is accepted for that difference): once its {mpki} have gone there[ and the {other_mpki} of {other} have come instead], {left_from} and {left_to} are left; {cpus} had the fewest programs on {domain}";
    /// N-MASS: it changes places with one that gives way.
    PressureSwapped "pressure-swapped"
        "{from} was pressed by {press_from} misses per 1000 instructions and {to} by {press_to}, more than {d_min} apart, and no place on {to} was free: {other} ({other_mpki}) goes there, and this one ({mpki}), which misses least of those there that may go (penalty {penalty}, {penalty_by}; at home {home}; up to {penalty_max} is accepted), comes to {from}; {left_from} and {left_to} are left; {cpus} had the fewest programs on {domain}";
    /// It gets a core for itself in the place where it is.
    OwnCore "own-core"
        "it shared a core with others while {cpus} had fewer programs in {domain}";
    /// Home cluster: a home and processors for a program.
    AtHome "at-home"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]its home is {home}, {by}; it gets {cpus}[, {n_outside} of them outside home][; {n_shared} of its threads share with others]";
    /// Home cluster: processors that have become free.
    ProcessorsFree "processors-free"
        "CPUs have become free for it: it gets {cpus} ({n_shared} of its threads sharing, {n_outside} CPUs outside {home}, its home) for {had} ({n_shared_before} sharing, {n_outside_before} outside)";
    /// Home cluster: pages come from home.
    MemoryAtHome "memory-at-home"
        "its home is {home}, so its memory comes from there as long as there is some";
    /// Home cluster: pages go home.
    PagesGoHome "pages-go-home"
        "{rest} of its own {own} lie outside {home}, and {why}";
    /// A note of the home cluster: a program's home is another.
    HomeMoved "home-moved"
        "{job} is at home on {home} from here on: {n_outside} of its {n_cpus} CPUs were outside {before} for {time}";
    /// Divided: Group 1 is collected.
    GroupApart "group-apart"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}][; spread over all, Group 1 would come to {sq_each} cycles with full queues on each, and more than {sq_least} are worth collecting]: it goes apart to {domain}, where {cpus} had the fewest programs";
    /// Divided: the others are kept off Group 1.
    GroupSheltered "group-sheltered"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}][; spread over all, Group 1 would come to {sq_each} cycles with full queues on each, and more than {sq_least} are worth collecting]: it is kept from Group 1 on {domain}, where {cpus} had the fewest programs";
    /// Divided: where there is room.
    GroupFills "group-fills"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}][; spread over all, Group 1 would come to {sq_each} cycles with full queues on each, and more than {sq_least} are worth collecting]: it goes where there is room, to {domain}, where {cpus} had the fewest programs";
    /// Divided: evenly over all.
    GroupSpread "group-spread"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}][; spread over all, Group 1 would come to {sq_each} cycles with full queues on each, and more than {sq_least} are worth collecting]: its like are spread evenly, this one on {domain}, where {cpus} had the fewest programs";
    /// Divided: its own side is full.
    GroupOverflow "group-overflow"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}], but its own side is full: it goes to {domain}, where {cpus} had the fewest programs";
    /// Divided: between two periods.
    GroupComes "group-comes"
        "[not all of the CPUs that it was on ({gone}) can be used any more: ]{group}; {parted}[, with {threads}]: until the next period it is on {domain}, {how}, and {cpus} had the fewest programs there";
    /// The oracle of the simulator.
    OracleSays "oracle-says"
        "of {n_tried} assignments of what runs to last-level caches ({how}) this one has the smallest sum of slow-downs, {slowdown} for each; none can have less than {bound}";
    /// The oracle of the simulator, of a whole run.
    OracleChose "oracle-chose"
        "the oracle simulated this run {n_runs} times before it began (every policy as it comes, and {how} of jobs for the whole run): {way} ended first, after {ended}[, {above} above what no placement can beat]";
    /// A note: one CPU.
    NothingToPlace "nothing-to-place"
        "only one CPU can be used, so nothing is placed";
    /// A note: no place of the level that was asked for.
    NoPlaces "no-places"
        "there is no {level} to place on among the CPUs that can be used, so nothing is placed";
    /// A note: other places than those that the run began with.
    PlacesChanged "places-changed"
        "other CPUs can be used than before: jobs are placed on {level} domains from here on";
    /// A note: one node, so placement keeps caches or cores even, and memory gains nothing.
    MemoryGainsNothing "memory-gains-nothing"
        "only one node with memory can be used: jobs are placed on {level} domains, and where memory lies gains nothing";
    /// A note: memory follows CPUs only where places are nodes.
    MemoryNotBound "memory-not-bound"
        "jobs are placed on {level} domains, and memory is bound only where places are nodes: it is left to first touch";
    /// A note: memory goes after its program only where places are nodes.
    MemoryCannotFollow "memory-cannot-follow"
        "memory=follow does nothing here: jobs are placed on {level} domains, and memory follows only where places are nodes";
    /// A note: what loads stand on when no counter can be read.
    LoadsDeclared "loads-declared"
        "no memory counter can be read here: a domain's load is the sum over its tasks of the class as declared times the CPU time used";
    /// A note: what loads stand on when only tasks are counted.
    LoadsAreMisses "loads-are-misses"
        "the memory controllers cannot be read here: a domain's load is the sum of the cache misses of its tasks";
    /// A note: loads stand on nothing.
    LoadsUnknown "loads-unknown"
        "no memory counter can be read here and no job has a class: every load counts as 0, so jobs are spread by number at their start and none is moved";
    /// A note: loads stand on nothing, and only the number tells places apart.
    LoadsUnknownLowest "loads-unknown-lowest"
        "no memory counter can be read here and no job has a class: every load counts as 0, so every job starts on the place with the lowest number that it may use and none is moved";
    /// A note of who watches: loads stand on nothing, so nobody is moved.
    NothingIsMoved "nothing-is-moved"
        "nothing will be moved: no memory counter can be read here, and none of the programs looked after has a class; give them classes: --class 'PATTERN=CLASS', from 0 to 15";
    /// A note of N-MASS: nobody's misses are known.
    PressureUnknown "pressure-unknown"
        "no cache misses per instruction are counted here and no job has a profile that tells them: programs stay where their memory is, however they press on a cache";
    /// A note of divided: what stands in for full queues.
    GroupsApproximate "groups-approximate"
        "approximate grouping: full queues of requests are not counted here, so Group 1 is whoever moves more than {bandwidth} MB between cache and memory in a second of CPU time, with more than {ratio} prefetches for each miss that it waits for, or misses per 1000 instructions: some of them would hurt nobody";
    /// A note of divided: nothing tells groups.
    GroupsUnknown "groups-unknown"
        "neither full queues of requests nor cache misses per instruction are known here of any program: no groups can be told, and programs are spread evenly";
    /// A note: classes of another kind stand in for rates.
    TotalsAsRates "totals-as-rates"
        "the classes were made from operations in a whole run, and are read as operations per millisecond where loads are declared: loads are rough";
    /// A note: jobs without a class.
    NoClass "no-class"
        "jobs without a class, such as {jobs}, count as class 0";
    /// A note: the kernel moves pages by itself.
    NumaBalancingOn "numa-balancing-on"
        "automatic NUMA balancing is on and may work against the placement; switch it off with sysctl kernel.numa_balancing=0";
    /// A note: striped memory.
    InterleavedByDefault "interleaved-by-default"
        "this process interleaves its memory over nodes, and its jobs would too: placement near memory gains nothing then";
    /// The judge of moves: what they were for has come about.
    JudgedBetter "judged-better"
        "{measure} went from {before} to {after} after {n_moves} moves, more than chance would ({tolerance})[, for the jobs that stayed ({others})]: moving helps here";
    /// The judge of moves: they did harm.
    JudgedWorse "judged-worse"
        "{measure} went from {before} to {after} after {n_moves} moves, more than chance would ({tolerance})[, for the jobs that stayed ({others})]: that is worse, so everything is put back and nothing is moved for {rest}";
    /// The judge of moves: they were for nothing.
    JudgedNoBetter "judged-no-better"
        "{n_tries} times in a row nothing got better after moves[ ({measure} went from {before} to {after}, and chance alone makes {tolerance})], so everything is put back and nothing is moved for {rest}";
    /// The judge of moves: who was moved is gone, or nothing is measured.
    NotJudged "not-judged"
        "whether {n_moves} moves helped cannot be told, since all that were moved have ended or nothing was measured of those that stayed: that counts as nothing better, {n_tries} of {n_max} times until everything is put back";
    /// The judge of moves: the rest after a setback is over.
    TriesAgain "tries-again"
        "the rest after a setback is over: moves are tried again, and measured again";
    /// Giving up: counters unreadable.
    CountersUnreadable "counters-unreadable"
        "the memory controllers could not be read {n_failures} times in a row";
}

impl ReasonCode {
    /// The code with this name.
    pub fn from_name(name: &str) -> Option<ReasonCode> {
        ReasonCode::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Reason {
    /// A reason without figures yet.
    pub fn new(code: ReasonCode) -> Self {
        // Most have about so many figures; growing by steps took a tenth of a turn with many wishes.
        Reason { code, values: Vec::with_capacity(8) }
    }

    /// The same with one more figure.
    #[must_use]
    pub fn with(mut self, name: &'static str, figure: impl Into<ReasonValue>) -> Self {
        self.values.push((Cow::Borrowed(name), figure.into()));
        self
    }

    /// One figure.
    pub fn value(&self, name: &str) -> Option<&ReasonValue> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }
}

impl fmt::Display for Reason {
    /// The sentence with its figures, and the signal tier that they stand on. A figure that is missing
    /// shows as `?`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.code.sentence();
        while let Some((before, after)) = rest.split_once('[') {
            let (inside, after) = after.split_once(']').unwrap_or((after, ""));
            self.fill(before, f)?;
            if self.has_all(inside) {
                self.fill(inside, f)?;
            }
            rest = after;
        }
        self.fill(rest, f)?;
        match self.value("tier") {
            Some(tier) => write!(f, " (tier {tier})"),
            None => Ok(()),
        }
    }
}

impl Reason {
    fn fill(&self, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            f.write_str(before)?;
            match self.value(name) {
                None if name == "unit" => f.write_str(self.unit())?,
                None => f.write_str("?")?,
                Some(figure) => write!(f, "{figure}")?,
            }
            rest = after;
        }
        f.write_str(rest)
    }

    /// Whether each figure named in a text is there and is not 0.
    fn has_all(&self, text: &str) -> bool {
        let named = text.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        named
            .map(|name| self.value(name))
            .all(|figure| figure.is_some_and(|f| *f != ReasonValue::Count(0)))
    }

    /// What loads are counted in. Reasons of old journals do not tell.
    fn unit(&self) -> &'static str {
        match self.value("tier") {
            Some(ReasonValue::Text(tier)) if tier == "counters" => "cache misses",
            Some(ReasonValue::Text(tier)) if tier == "declared" => "declared memory operations",
            Some(ReasonValue::Text(tier)) if tier == "none" => "known memory operations",
            _ => "memory operations",
        }
    }
}

impl fmt::Display for ReasonValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReasonValue::Count(count) => write!(f, "{count}"),
            ReasonValue::Number(number) => write!(f, "{number:.3}"),
            ReasonValue::Text(text) => f.write_str(text),
        }
    }
}

impl From<u64> for ReasonValue {
    fn from(count: u64) -> Self {
        ReasonValue::Count(count)
    }
}

impl From<f64> for ReasonValue {
    fn from(number: f64) -> Self {
        ReasonValue::Number(number)
    }
}

impl From<String> for ReasonValue {
    fn from(text: String) -> Self {
        ReasonValue::Text(text.into())
    }
}

impl From<&'static str> for ReasonValue {
    fn from(text: &'static str) -> Self {
        ReasonValue::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_reads_as_a_sentence_with_its_figures() {
        let reason = Reason::new(ReasonCode::NextInTurn)
            .with("domain", "core 1".to_owned())
            .with("cpus", "cpu 1".to_owned());
        assert_eq!(
            reason.to_string(),
            "core 1 was next in turn, and cpu 1 had the fewest programs in it"
        );
    }

    #[test]
    fn a_load_is_told_in_the_unit_of_its_tier() {
        let of_tier = |tier: &str| {
            let reason = Reason::new(ReasonCode::LeastLoad).with("tier", tier.to_owned());
            let text = reason.with("load", 1).with("total", 2).to_string();
            text.split_once("of 2 ")
                .and_then(|(_, rest)| rest.split_once(" in"))
                .unwrap()
                .0
                .to_owned()
        };
        assert_eq!(of_tier("bandwidth"), "memory operations");
        assert_eq!(of_tier("counters"), "cache misses");
        assert_eq!(of_tier("declared"), "declared memory operations");
        assert_eq!(of_tier("none"), "known memory operations");
    }

    #[test]
    fn what_is_in_brackets_is_told_when_there_is_something_to_tell() {
        let only = |expected: Option<u64>| {
            let reason = Reason::new(ReasonCode::OnlyDomain).with("load", 5).with("total", 9);
            let told = expected.into_iter().fold(reason, |r, n| r.with("expected", n)).to_string();
            told.split_once('(').unwrap().1.split_once(')').unwrap().0.to_owned()
        };
        assert_eq!(only(None), "5 of 9 memory operations");
        assert_eq!(only(Some(0)), "5 of 9 memory operations");
        assert_eq!(
            only(Some(7)),
            "5 of 9 memory operations, 7 of the 9 only expected of programs started since"
        );
    }

    #[test]
    fn every_code_is_found_by_its_name() {
        for &code in ReasonCode::ALL {
            assert_eq!(ReasonCode::from_name(code.name()), Some(code));
        }
    }
}
