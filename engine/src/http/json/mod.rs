//! A JSON walker without allocation (RFC 8259): the caller visits what it knows and skips the rest; all of it is validated.
//!
//! A streamed token carries two strings of interest in two hundred bytes. Building a tree for that costs more than all
//! other work on the event, so values are looked at where they lie. Validation is as strict as `serde_json`'s: UTF-8,
//! escapes, paired surrogates, no control characters, no trailing bytes. Only the range of numbers is not checked.

#[cfg(test)]
mod tests;

/// Deepest nesting of arrays and objects: `serde_json`'s limit, and what fits the bits of [`Cursor::skip`]'s stack.
const MAX_DEPTH: u32 = 127;

/// The bytes are not one JSON value, or are nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Invalid;

/// The kind of the next value, told by its first byte. The value itself may still be invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A position in a JSON text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// Where the next byte is read, or the next value begins if its kind has just been asked for.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The kind of the value that comes next.
    pub(super) fn kind(&mut self) -> Result<Kind, Invalid> {
        match self.token()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b'-' | b'0'..=b'9' => Ok(Kind::Number),
            b't' => Ok(Kind::True),
            b'f' => Ok(Kind::False),
            b'n' => Ok(Kind::Null),
            _ => Err(Invalid),
        }
    }

    /// Walks an object. `member` gets each name and must consume exactly one value: the one behind the name.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'a>) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.open(b'{')?;
        let mut more = self.token()? != b'}';
        while more {
            let name = self.string()?;
            self.expect(b':')?;
            member(self, name)?;
            more = self.another(b'}')?;
        }
        self.close();
        Ok(())
    }

    /// Walks an array. `element` gets each index and must consume exactly one value.
    pub(super) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.open(b'[')?;
        let mut more = self.token()? != b']';
        let mut index = 0;
        while more {
            element(self, index)?;
            index += 1;
            more = self.another(b']')?;
        }
        self.close();
        Ok(())
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Result<Text<'a>, Invalid> {
        self.expect(b'"')?;
        let start = self.at;
        let (mut escaped, mut ascii) = (false, true);
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.bytes.get(self.at).ok_or(Invalid)? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                0x80.. => {
                    ascii = false;
                    self.at += 1;
                }
                _ => return Err(Invalid),
            }
        }
        let raw = &self.bytes[start..self.at];
        self.at += 1;
        if !ascii && std::str::from_utf8(raw).is_err() {
            return Err(Invalid);
        }
        Ok(Text { raw, escaped })
    }

    /// Consumes a value of any kind and tells whether it is a string with at least one character.
    pub(super) fn is_non_empty_string(&mut self) -> Result<bool, Invalid> {
        if self.kind()? == Kind::String {
            return Ok(!self.string()?.is_empty());
        }
        self.skip()?;
        Ok(false)
    }

    /// Consumes a value of any kind and returns it if it is an integer from 0 to 2^64 - 1, written without fraction or exponent.
    pub(super) fn unsigned(&mut self) -> Result<Option<u64>, Invalid> {
        let raw = self.skip()?;
        // Validated above, so digits only means a JSON integer.
        Ok(raw.iter().try_fold(0u64, |number, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        }))
    }

    /// Consumes a value of any kind and returns its text.
    pub(super) fn skip(&mut self) -> Result<&'a [u8], Invalid> {
        // One bit per open container, set for objects: a loop instead of recursion.
        let mut objects: u128 = 0;
        let outside = self.depth;
        self.token()?;
        let start = self.at;
        loop {
            match self.token()? {
                b'{' => {
                    self.open(b'{')?;
                    objects = objects << 1 | 1;
                    if self.token()? != b'}' {
                        self.name()?;
                        continue;
                    }
                    objects >>= 1;
                    self.close();
                }
                b'[' => {
                    self.open(b'[')?;
                    objects <<= 1;
                    if self.token()? != b']' {
                        continue;
                    }
                    objects >>= 1;
                    self.close();
                }
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return Err(Invalid),
            }
            // A value has ended; so have the containers that close right behind it.
            loop {
                if self.depth == outside {
                    return Ok(&self.bytes[start..self.at]);
                }
                let in_object = objects & 1 == 1;
                match self.token()? {
                    b',' => {
                        self.at += 1;
                        if in_object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if in_object => {}
                    b']' if !in_object => {}
                    _ => return Err(Invalid),
                }
                objects >>= 1;
                self.close();
            }
        }
    }

    /// The end of the text: only blanks may follow the value.
    pub(super) fn finish(mut self) -> Result<(), Invalid> {
        match self.token() {
            Err(Invalid) => Ok(()),
            Ok(_) => Err(Invalid),
        }
    }

    /// Skips blanks and returns the byte there without consuming it.
    fn token(&mut self) -> Result<u8, Invalid> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Invalid)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Invalid> {
        if self.token()? != byte {
            return Err(Invalid);
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<(), Invalid> {
        self.expect(bracket)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Invalid) } else { Ok(()) }
    }

    /// Consumes the closing bracket that the caller has seen.
    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// Behind a member or element: whether a comma promises another one. Otherwise `closing` comes next.
    fn another(&mut self, closing: u8) -> Result<bool, Invalid> {
        match self.token()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == closing => Ok(false),
            _ => Err(Invalid),
        }
    }

    /// A member name and its colon.
    fn name(&mut self) -> Result<(), Invalid> {
        self.string()?;
        self.expect(b':')
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Invalid> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(Invalid);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Invalid> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            // No digit may follow a leading zero; whatever does is refused as the next token.
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Invalid> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(Invalid) } else { Ok(()) }
    }

    /// What follows a backslash. A high surrogate must be followed by a low one, and a low one never stands alone.
    fn escape(&mut self) -> Result<(), Invalid> {
        let escape = *self.bytes.get(self.at).ok_or(Invalid)?;
        self.at += 1;
        match escape {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex4()? {
                0xDC00..=0xDFFF => Err(Invalid),
                0xD800..=0xDBFF => {
                    self.word(b"\\u")?;
                    matches!(self.hex4()?, 0xDC00..=0xDFFF).then_some(()).ok_or(Invalid)
                }
                _ => Ok(()),
            },
            _ => Err(Invalid),
        }
    }

    fn hex4(&mut self) -> Result<u32, Invalid> {
        let digits = self.bytes.get(self.at..self.at + 4).ok_or(Invalid)?;
        self.at += 4;
        hex(digits).ok_or(Invalid)
    }
}

/// A valid string between its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

/// Room for the unescaped form of a name that the engine knows; the longest has 27 bytes.
pub(super) type NameRoom = [u8; 32];

impl<'a> Text<'a> {
    pub(super) fn is_empty(self) -> bool {
        // Every escape stands for a character.
        self.raw.is_empty()
    }

    /// The text as it is written, escapes and all.
    pub(super) fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// The text with escapes resolved, for comparison with known words. A text with escapes that does not fit `room` is
    /// none of them, and comes back as it is written.
    pub(super) fn unescaped<'r>(self, room: &'r mut NameRoom) -> &'r [u8]
    where
        'a: 'r,
    {
        if !self.escaped {
            return self.raw;
        }
        match unescape(self.raw, room) {
            Some(len) => &room[..len],
            None => self.raw,
        }
    }
}

/// Resolves the escapes of a valid string; `None` if the result does not fit.
fn unescape(raw: &[u8], room: &mut NameRoom) -> Option<usize> {
    let (mut at, mut len) = (0, 0);
    while let Some(&byte) = raw.get(at) {
        let mut utf8 = [byte, 0, 0, 0];
        let mut bytes = 1;
        at += 1;
        if byte == b'\\' {
            let escape = *raw.get(at)?;
            at += 1;
            let character = match escape {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => {
                    let mut code = hex(raw.get(at..at + 4)?)?;
                    at += 4;
                    if (0xD800..0xDC00).contains(&code) {
                        let low = hex(raw.get(at + 2..at + 6)?)?;
                        at += 6;
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    }
                    char::from_u32(code)?
                }
                other => char::from(other),
            };
            bytes = character.encode_utf8(&mut utf8).len();
        }
        room.get_mut(len..len + bytes)?.copy_from_slice(&utf8[..bytes]);
        len += bytes;
    }
    Some(len)
}

/// Value of four hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}

/// The first position at or after `at` whose byte is a quote, a backslash, a control character or not ASCII.
///
/// Eight bytes at a time with the usual zero-byte trick: `x - 0x01..` sets the top bit of the lowest zero byte of `x`,
/// and a borrow can only spoil bytes above it, so the lowest bit set is always right.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const TOPS: u64 = u64::from_le_bytes([0x80; 8]);
    const fn zero_bytes(x: u64) -> u64 {
        x.wrapping_sub(ONES) & !x
    }
    while let Some(Ok(eight)) = bytes.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let word = u64::from_le_bytes(eight);
        let quote = zero_bytes(word ^ (ONES * b'"' as u64));
        let backslash = zero_bytes(word ^ (ONES * b'\\' as u64));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let stops = (quote | backslash | control | word) & TOPS;
        if stops != 0 {
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let plain = |byte: &u8| matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'\\');
    while bytes.get(at).is_some_and(plain) {
        at += 1;
    }
    at
}
