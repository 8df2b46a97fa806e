//! Sessions of a core: users on their way through a conversation.
//!
//! ```text
//!          begin                    returned, more to come              due
//! (free) --------> InFlight -----------------------------> Waiting ----------> Ready
//!    ^                |  ^                                                       |
//!    |   last turn    |  +---------------------- sent --------------------------+
//!    +----------------+
//! ```
//!
//! A session lives on one core from its first turn to its last. Phases whose every session is one request have none: a credit says it all there.

use std::collections::VecDeque;
use std::ops::Range;

use super::connection::NONE;
use super::deadline::Deadlines;
use crate::id::PhaseId;
use crate::plan::AnswerFrame;
use crate::units::Nanos;

/// Histories that are kept for later sessions, and the most bytes that such a one may have room for.
const SPARE: usize = 1024;
const SPARE_BYTES: usize = 256 << 10;
/// In place of a number of tokens that nobody knows.
const UNKNOWN: u32 = u32::MAX;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: the place is free.
    Free,
    /// A turn is on its way.
    InFlight,
    /// The next turn is not due yet.
    Waiting,
    /// The next turn is due.
    Ready,
}

/// One session: 64 bytes and its history.
#[derive(Debug)]
pub(super) struct Session {
    /// Number in its phase.
    number: u64,
    /// When the turn that is next, or on its way, was due.
    due: Nanos,
    /// The messages so far, each with a comma behind it.
    history: Vec<u8>,
    /// Tokens of those, as far as anyone counted them.
    history_tokens: u32,
    first_image: u32,
    /// The turn that is next, or on its way.
    turn: u32,
    /// Turns that it sends.
    turns: u32,
    /// The connection that waits for its next turn.
    connection: u32,
    phase: PhaseId,
    state: State,
}

impl Session {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn phase(&self) -> PhaseId {
        self.phase
    }

    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// The image of the turn that is next, or on its way.
    pub(super) fn image(&self) -> u32 {
        self.first_image + self.turn
    }

    pub(super) fn is_last_turn(&self) -> bool {
        self.turn + 1 == self.turns
    }

    pub(super) fn history(&self) -> &[u8] {
        &self.history
    }

    /// Tokens of the history, if all are known, and its bytes.
    pub(super) fn history_size(&self) -> (Option<u32>, u32) {
        let bytes = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        (self.history_tokens(), bytes)
    }

    fn history_tokens(&self) -> Option<u32> {
        Some(self.history_tokens).filter(|&tokens| tokens != UNKNOWN)
    }

    /// Takes the connection that was kept for the next turn.
    pub(super) fn take_connection(&mut self) -> Option<u32> {
        let kept = std::mem::replace(&mut self.connection, NONE);
        (kept != NONE).then_some(kept)
    }

    pub(super) fn has_connection(&self) -> bool {
        self.connection != NONE
    }

    /// Keeps a connection for the next turn.
    pub(super) fn keep_connection(&mut self, index: u32) {
        self.connection = index;
    }

    /// The turn on its way has returned with this answer: what was said, and in how many tokens. The answer is raw JSON without quotes; an empty
    /// one leaves only the message behind. Without a message the turn said everything itself, and so will the next: there is no history.
    pub(super) fn remember(
        &mut self,
        message: &[u8],
        tokens: Option<u32>,
        (frame, answer): (AnswerFrame, &[u8]),
        answer_tokens: Option<u32>,
    ) {
        if message.is_empty() {
            return;
        }
        self.history.reserve(message.len() + answer.len() + 64);
        self.history.extend_from_slice(message);
        self.history.push(b',');
        self.count(tokens);
        if !answer.is_empty() {
            self.history.extend_from_slice(frame.before);
            self.history.extend_from_slice(answer);
            self.history.extend_from_slice(frame.behind);
            self.count(answer_tokens);
        }
    }

    fn count(&mut self, tokens: Option<u32>) {
        let sum = tokens.and_then(|tokens| self.history_tokens()?.checked_add(tokens));
        self.history_tokens = sum.unwrap_or(UNKNOWN);
    }
}

/// The sessions of a core, by place. The table grows to the most sessions that were ever under way at once.
#[derive(Debug)]
pub(super) struct Sessions {
    places: Vec<Session>,
    free: Vec<u32>,
    timers: Deadlines,
    /// By phase: places of sessions whose next turn is due, in the order in which it became so.
    ready: Vec<VecDeque<u32>>,
    /// Histories of sessions that are over, to be filled again.
    spare: Vec<Vec<u8>>,
}

impl Sessions {
    pub(super) fn new(phases: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            timers: Deadlines::new(0),
            ready: vec![VecDeque::new(); phases],
            spare: Vec::new(),
        }
    }

    /// A session begins with its first turn, which was due at `due`. `images` are those of its conversation, of which it sends the first `turns`.
    pub(super) fn begin(&mut self, phase: PhaseId, number: u64, images: Range<u32>, turns: u32, due: Nanos) -> u32 {
        let session = Session {
            number,
            due,
            history: self.spare.pop().unwrap_or_default(),
            history_tokens: 0,
            first_image: images.start,
            turn: 0,
            turns: turns.clamp(1, images.end - images.start),
            connection: NONE,
            phase,
            state: State::InFlight,
        };
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = session;
                place
            }
            None => {
                self.places.push(session);
                self.timers.grow(self.places.len());
                (self.places.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&mut self, place: u32) -> &mut Session {
        &mut self.places[place as usize]
    }

    /// Whether the session at `place` has more to send.
    pub(super) fn goes_on(&self, place: u32) -> bool {
        place != NONE && self.places[place as usize].state != State::Free
    }

    /// Whether the turn of the session at `place` that is next, or on its way, is its last.
    pub(super) fn is_at_last_turn(&self, place: u32) -> bool {
        self.places[place as usize].is_last_turn()
    }

    /// Whether any session is under way.
    pub(super) fn any(&self) -> bool {
        self.free.len() < self.places.len()
    }

    /// The next turn of a session is due at `due`.
    pub(super) fn await_turn(&mut self, place: u32, due: Nanos, now: Nanos) {
        let session = &mut self.places[place as usize];
        session.turn += 1;
        session.due = due;
        if due > now {
            session.state = State::Waiting;
            self.timers.set(place, due);
        } else {
            self.make_ready(place);
        }
    }

    /// Makes every session ready whose time has come.
    pub(super) fn wake(&mut self, now: Nanos) {
        while let Some(place) = self.timers.take_due(now) {
            self.make_ready(place);
        }
    }

    fn make_ready(&mut self, place: u32) {
        let session = &mut self.places[place as usize];
        session.state = State::Ready;
        self.ready[session.phase.index()].push_back(place);
    }

    /// When the next session wakes.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Whether a session of a phase has a turn that is due later. Looks at all of them.
    pub(super) fn any_waits(&self, phase: PhaseId) -> bool {
        let waits = |session: &Session| session.state == State::Waiting && session.phase == phase;
        self.places.iter().any(waits)
    }

    /// The session of a phase that has been ready for longest.
    pub(super) fn first_ready(&self, phase: usize) -> Option<u32> {
        self.ready[phase].front().copied()
    }

    /// Its turn starts.
    pub(super) fn take_ready(&mut self, phase: usize) {
        let place = self.ready[phase].pop_front().expect("a ready session was found before");
        self.places[place as usize].state = State::InFlight;
    }

    /// A session is over.
    pub(super) fn end(&mut self, place: u32) {
        let session = &mut self.places[place as usize];
        session.state = State::Free;
        let mut history = std::mem::take(&mut session.history);
        if history.capacity() <= SPARE_BYTES && self.spare.len() < SPARE {
            history.clear();
            self.spare.push(history);
        }
        self.free.push(place);
    }

    /// Ends the sessions of a phase that have no turn on their way; gives their number and the connections that were kept for them.
    pub(super) fn cut(&mut self, phase: PhaseId) -> (u32, Vec<u32>) {
        self.ready[phase.index()].clear();
        let (mut ended, mut connections) = (0, Vec::new());
        for place in 0..self.places.len() as u32 {
            let session = &mut self.places[place as usize];
            if session.phase != phase || matches!(session.state, State::Free | State::InFlight) {
                continue;
            }
            connections.extend(session.take_connection());
            self.timers.remove(place);
            self.end(place);
            ended += 1;
        }
        (ended, connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PhaseId = PhaseId(0);
    const B: PhaseId = PhaseId(1);

    fn text(session: &Session) -> &str {
        std::str::from_utf8(session.history()).unwrap()
    }

    #[test]
    fn a_history_is_messages_and_the_answers_that_came() {
        let mut sessions = Sessions::new(1);
        let place = sessions.begin(A, 5, 10..14, u32::MAX, Nanos(1));
        let session = sessions.get(place);
        assert_eq!((session.number(), session.image(), text(session)), (5, 10, ""));
        session.remember(b"{1}", Some(7), (AnswerFrame::PLAIN, br#"a \"b\""#), Some(3));
        sessions.await_turn(place, Nanos(2), Nanos(2));
        let session = sessions.get(place);
        assert_eq!(text(session), r#"{1},{"role":"assistant","content":"a \"b\""},"#);
        assert_eq!((session.image(), session.history_tokens()), (11, Some(10)));
        // No answer, for the turn failed.
        session.remember(b"{2}", Some(2), (AnswerFrame::PLAIN, b""), None);
        assert!(text(session).ends_with("},{2},"));
        assert_eq!(session.history_tokens(), Some(12));
        session.remember(b"{3}", Some(2), (AnswerFrame::PLAIN, b"x"), None);
        assert_eq!(session.history_tokens(), None, "an answer that nobody counted");
        let complete = sessions.begin(A, 6, 20..22, u32::MAX, Nanos(1));
        sessions
            .get(complete)
            .remember(b"", Some(2), (AnswerFrame::PLAIN, b"x"), Some(1));
        assert_eq!(
            text(sessions.get(complete)),
            "",
            "a turn that says everything itself leaves nothing behind"
        );
    }

    #[test]
    fn a_session_sends_no_more_turns_than_its_conversation_has() {
        let mut sessions = Sessions::new(1);
        let whole = sessions.begin(A, 0, 3..5, u32::MAX, Nanos::ZERO);
        let part = sessions.begin(A, 1, 3..5, 1, Nanos::ZERO);
        assert!(!sessions.get(whole).is_last_turn());
        assert!(sessions.get(part).is_last_turn());
        sessions.await_turn(whole, Nanos::ZERO, Nanos::ZERO);
        assert!(sessions.get(whole).is_last_turn());
    }

    #[test]
    fn sessions_become_ready_in_the_order_of_their_times_each_in_its_phase() {
        let mut sessions = Sessions::new(2);
        let begin = |sessions: &mut Sessions, phase| sessions.begin(phase, 0, 0..3, 3, Nanos::ZERO);
        let places = [A, A, B, A].map(|phase| begin(&mut sessions, phase));
        for (place, due) in places.into_iter().zip([30, 10, 20, 5]) {
            sessions.await_turn(place, Nanos(due), Nanos(5));
        }
        assert_eq!(
            (sessions.first_ready(0), sessions.next_due()),
            (Some(places[3]), Some(Nanos(10)))
        );
        assert!(sessions.any_waits(A) && sessions.any_waits(B));
        sessions.wake(Nanos(25));
        assert!(sessions.any_waits(A) && !sessions.any_waits(B));
        sessions.take_ready(0);
        assert_eq!(sessions.first_ready(0), Some(places[1]));
        assert_eq!(sessions.first_ready(1), Some(places[2]));
        assert_eq!(sessions.next_due(), Some(Nanos(30)));
    }

    #[test]
    fn a_cut_ends_what_waits_and_leaves_what_is_on_its_way() {
        let mut sessions = Sessions::new(2);
        let places: Vec<u32> = (0..4).map(|k| sessions.begin(A, k, 0..3, 3, Nanos::ZERO)).collect();
        let other = sessions.begin(B, 0, 0..3, 3, Nanos::ZERO);
        sessions.await_turn(places[0], Nanos(9), Nanos(1));
        sessions.await_turn(places[1], Nanos(1), Nanos(1));
        sessions.await_turn(other, Nanos(9), Nanos(1));
        sessions.get(places[1]).keep_connection(17);
        assert_eq!(sessions.cut(A), (2, vec![17]));
        assert_eq!(sessions.first_ready(0), None);
        assert!(!sessions.goes_on(places[0]) && sessions.goes_on(places[2]) && sessions.goes_on(other));
        sessions.wake(Nanos(9));
        assert_eq!(sessions.first_ready(1), Some(other));
        sessions.end(places[2]);
        sessions.end(places[3]);
        sessions.end(other);
        assert!(!sessions.any());
    }

    #[test]
    fn a_waiting_user_takes_at_most_a_hundred_bytes() {
        // Its place, its entry in the timers and where that is, and its place in the list of free ones.
        let bytes = std::mem::size_of::<Session>() + Deadlines::BYTES_EACH + std::mem::size_of::<u32>();
        assert!(bytes <= 100, "{bytes} bytes");
    }
}
