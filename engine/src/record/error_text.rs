//! Texts of failures as bytes: in the blocks of a journal each stands once, before the first record that needs it.
//!
//! Records and texts begin with a length (u32). Its highest bit tells a text from a record, which is never that long. A text, little-endian: length of
//! the rest; index in the core's [`ErrorTable`](super::ErrorTable) (u32); class (u8); whether there is a code (u8); code (u16); length of the
//! type's name (u32); name; message.

use super::error_table::ErrorDetail;
use super::outcome::FailureClass;
use super::request_record::DecodeError;

const TEXT: u32 = 1 << 31;

/// Appends the text of a failure to `out`.
pub(crate) fn encode_text(index: u32, detail: &ErrorDetail, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&index.to_le_bytes());
    out.push(detail.class as u8);
    out.push(u8::from(detail.code.is_some()));
    out.extend_from_slice(&detail.code.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&(detail.type_name.len() as u32).to_le_bytes());
    out.extend_from_slice(detail.type_name.as_bytes());
    out.extend_from_slice(detail.message.as_bytes());
    let length = (out.len() - start - 4) as u32 | TEXT;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads the text at `*at` and moves `*at` behind it; `None` if a record stands there, or nothing.
///
/// # Errors
/// The bytes are not a whole text.
pub(crate) fn decode_text(bytes: &[u8], at: &mut usize) -> Result<Option<(u32, ErrorDetail)>, DecodeError> {
    let damaged = DecodeError { at: *at };
    let rest = bytes.get(*at..).ok_or(damaged)?;
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length);
    if length & TEXT == 0 {
        return Ok(None);
    }
    let length = (length & !TEXT) as usize;
    let found = rest.get(..length).and_then(text).ok_or(damaged)?;
    *at += 4 + length;
    Ok(Some(found))
}

fn text(bytes: &[u8]) -> Option<(u32, ErrorDetail)> {
    let (index, rest) = bytes.split_first_chunk::<4>()?;
    let (&[class, has_code, low, high], rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (name, message) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let detail = ErrorDetail {
        class: FailureClass::from_u8(class)?,
        code: (has_code != 0).then_some(u16::from_le_bytes([low, high])),
        type_name: owned(name)?,
        message: owned(message)?,
    };
    Some((u32::from_le_bytes(*index), detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(code: Option<u16>, message: &str) -> ErrorDetail {
        ErrorDetail {
            class: FailureClass::HttpStatus,
            code,
            type_name: "Service Unavailable".into(),
            message: message.into(),
        }
    }

    #[test]
    fn texts_come_back_whole_or_not_at_all() {
        let texts = [detail(Some(503), "é busy\n"), detail(None, "")];
        let mut bytes = Vec::new();
        for (index, text) in (7..).zip(&texts) {
            encode_text(index, text, &mut bytes);
        }
        let mut at = 0;
        for (index, text) in (7..).zip(&texts) {
            assert_eq!(decode_text(&bytes, &mut at), Ok(Some((index, text.clone()))));
        }
        assert_eq!(at, bytes.len());
        let first = bytes.len() - 4 - 12 - "Service Unavailable".len();
        for cut in 4..first {
            assert!(decode_text(&bytes[..cut], &mut 0).is_err(), "cut at {cut}");
        }
    }
}
