//! Values in Postgres' binary formats.
//!
//! It owns the encoding of the few types that console columns have. It never guesses: a text that
//! is not a value of its type has no encoding. The writer of rows calls it for clients that
//! ask for binary results.

use std::borrow::Cow;

use crate::link::table::Type;

/// The binary form of a text of the type with this oid; `None` if there is none.
pub(super) fn encode(oid: u32, text: &str) -> Option<Cow<'_, [u8]>> {
    let kind = [Type::Text, Type::Int4, Type::Int8, Type::Numeric, Type::Bytes]
        .into_iter()
        .find(|kind| kind.oid() == oid)?;
    match kind {
        Type::Text => Some(Cow::Borrowed(text.as_bytes())),
        Type::Int4 => {
            let number: i32 = text.parse().ok()?;
            Some(Cow::Owned(number.to_be_bytes().to_vec()))
        }
        Type::Int8 => {
            let number: i64 = text.parse().ok()?;
            Some(Cow::Owned(number.to_be_bytes().to_vec()))
        }
        Type::Numeric => numeric(text).map(Cow::Owned),
        Type::Bytes => hex(text).map(Cow::Owned),
    }
}

/// The bytes of `\x0aff`, as bytea is written.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Decimal digits in one digit of a numeric.
const GROUP: usize = 4;
const NEGATIVE: u16 = 0x4000;

/// `numeric_send`: count of base-10000 digits, weight of the first, sign, decimal places, digits.
///
/// Takes `-12.340` and the like; no exponents, no `NaN`.
fn numeric(text: &str) -> Option<Vec<u8>> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (0, text),
    };
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && places.is_empty() || !decimal(whole) || !decimal(places) {
        return None;
    }
    // Groups are counted from the point, to both sides.
    let front = "0".repeat(whole.len().next_multiple_of(GROUP) - whole.len());
    let back = "0".repeat(places.len().next_multiple_of(GROUP) - places.len());
    let padded = [&front, whole, places, &back].concat();
    let mut groups: Vec<u16> = padded
        .as_bytes()
        .chunks(GROUP)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let mut weight = i16::try_from(whole.len().div_ceil(GROUP)).ok()? - 1;
    let leading = groups.iter().take_while(|&&group| group == 0).count();
    groups.drain(..leading);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let (weight, sign) = if groups.is_empty() {
        (0, 0)
    } else {
        weight -= i16::try_from(leading).ok()?;
        (weight, sign)
    };
    let mut out = Vec::with_capacity(8 + groups.len() * 2);
    out.extend_from_slice(&u16::try_from(groups.len()).ok()?.to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&u16::try_from(places.len()).ok()?.to_be_bytes());
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
    Some(out)
}
