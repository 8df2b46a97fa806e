//! What is written into every request: its own ids. The rest of a request is rendered once, by the plan.

/// Writes a request's own id lines to the front of `out` and returns their length.
///
/// `template` holds 36 placeholder bytes at `request_id_at` and at each of `correlation_id_at`.
///
/// # Panics
/// If the template is longer than `out`, or a place does not lie in it: the plan that rendered them is wrong.
pub fn patch_ids(
    template: &[u8],
    request_id_at: usize,
    correlation_id_at: &[usize],
    request_id: &[u8; 36],
    correlation_id: &[u8; 36],
    out: &mut [u8],
) -> usize {
    let block = &mut out[..template.len()];
    block.copy_from_slice(template);
    block[request_id_at..request_id_at + 36].copy_from_slice(request_id);
    for &at in correlation_id_at {
        block[at..at + 36].copy_from_slice(correlation_id);
    }
    template.len()
}

/// "00" to "ff".
const HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// A random UUID (RFC 9562, version 4) from 128 random bits, six of which give way to version and variant.
pub fn format_uuid(hi: u64, lo: u64) -> [u8; 36] {
    let hi = hi & !0xF000 | 0x4000;
    let lo = lo & !(0b11 << 62) | 0b10 << 62;
    // Where each byte stands: dashes after the 4th, 6th, 8th and 10th.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let bytes = (u128::from(hi) << 64 | u128::from(lo)).to_be_bytes();
    let mut text = [b'-'; 36];
    for (index, at) in PLACES.into_iter().enumerate() {
        [text[at], text[at + 1]] = HEX_PAIRS[usize::from(bytes[index])];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_replace_their_placeholders_only() {
        let placeholder = "-".repeat(36);
        let template = format!("R: {placeholder}\r\nC: {placeholder}\r\nS: {placeholder}\r\n");
        let (request, correlation) = (format_uuid(1, 2), format_uuid(3, 4));
        let mut out = [b'#'; 256];
        let len = patch_ids(template.as_bytes(), 3, &[44, 85], &request, &correlation, &mut out);
        let (request, correlation) = (
            std::str::from_utf8(&request).unwrap(),
            std::str::from_utf8(&correlation).unwrap(),
        );
        assert_eq!(
            std::str::from_utf8(&out[..len]).unwrap(),
            format!("R: {request}\r\nC: {correlation}\r\nS: {correlation}\r\n")
        );
        assert!(out[len..].iter().all(|&byte| byte == b'#'));
    }

    #[test]
    fn a_uuid_has_its_bits_in_order_and_version_and_variant_set() {
        let text = |hi, lo| String::from_utf8(format_uuid(hi, lo).to_vec()).unwrap();
        assert_eq!(
            text(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef),
            "01234567-89ab-4def-8123-456789abcdef"
        );
        assert_eq!(text(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
