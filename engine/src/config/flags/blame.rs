//! Which flags a mistake comes from that shows at another place: rules bind values together, and a flag may have written one and the file another.
//!
//! No rule says what it looked at. So everything is read again with one flag less, for each flag: a mistake that is gone then is one of that flag.

use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::tree::Position;
use super::given::Flags;

impl Flags {
    /// All of them but one.
    fn without(&self, left_out: usize) -> Self {
        let others = self.given.iter().enumerate().filter(|(at, _)| *at != left_out);
        Self {
            given: others.map(|(_, given)| given.clone()).collect(),
        }
    }
}

/// The places of the flags without which each mistake would not be, in the order of the mistakes. `again` reads everything with other flags.
pub(in super::super) fn causes(
    mistakes: &[Diagnostic],
    flags: &Flags,
    again: &dyn Fn(&Flags) -> Result<(), Diagnostics>,
) -> Vec<Vec<Position>> {
    let mut causes = vec![Vec::new(); mistakes.len()];
    let is_open = |mistake: &Diagnostic| place(mistake).flag().is_none();
    if !mistakes.iter().any(is_open) {
        return causes;
    }
    for (at, given) in flags.given.iter().enumerate() {
        let rest = match again(&flags.without(at)) {
            Ok(()) => Vec::new(),
            Err(rest) => rest.iter().cloned().collect(),
        };
        // With a mistake that was not there before, the flag was needed, and the reading may have ended before it came to the others.
        if rest.iter().any(|mistake: &Diagnostic| !mistakes.contains(mistake)) {
            continue;
        }
        for (mistake, causes) in mistakes.iter().zip(&mut causes) {
            if is_open(mistake) && !rest.contains(mistake) {
                causes.push(given.at);
            }
        }
    }
    causes
}

fn place(mistake: &Diagnostic) -> Position {
    Position {
        line: mistake.line,
        column: mistake.column,
    }
}
