//! The bytes that a client sends, one function for each message (Postgres manual, "Message Formats").
//! It never checks that a message makes sense: that is what tests are for.
//! `Raw`, the lying server and the suites call it.

/// A message with this tag and body, and the right length.
pub fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    with_length(tag, length(body.len() + 4), body)
}

/// A message whose length field says what it is told to say.
pub fn with_length(tag: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("tests send less than 4 GiB")
}

fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

fn count(items: usize) -> [u8; 2] {
    u16::try_from(items).expect("tests send fewer than 65536 items").to_be_bytes()
}

/// A packet of the opening, which has no tag.
fn opening(code: u32, body: &[u8]) -> Vec<u8> {
    [&length(body.len() + 8).to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

/// The startup packet of protocol 3.0.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    startup_of(3 << 16, parameters)
}

/// The startup packet of any version.
pub fn startup_of(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let pairs = parameters.iter().flat_map(|(name, value)| [text(name), text(value)]);
    opening(version, &[pairs.collect::<Vec<_>>().concat(), vec![0]].concat())
}

/// SSLRequest.
pub fn ssl_request() -> Vec<u8> {
    opening(80_877_103, &[])
}

/// GSSENCRequest.
pub fn gss_request() -> Vec<u8> {
    opening(80_877_104, &[])
}

/// CancelRequest.
pub fn cancel(key: &[u8]) -> Vec<u8> {
    opening(80_877_102, key)
}

/// PasswordMessage in clear.
pub fn password(password: &str) -> Vec<u8> {
    framed(b'p', &text(password))
}

/// Query.
pub fn query(sql: &str) -> Vec<u8> {
    framed(b'Q', &text(sql))
}

/// Parse, with no parameter types.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    framed(b'P', &[text(name), text(sql), vec![0, 0]].concat())
}

/// Bind, all in text; a missing value is null.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    let mut body = [text(portal), text(statement), vec![0, 0]].concat();
    body.extend(count(values.len()));
    for value in values {
        match value {
            Some(value) => {
                body.extend(length(value.len()).to_be_bytes());
                body.extend(value.as_bytes());
            }
            None => body.extend(u32::MAX.to_be_bytes()),
        }
    }
    body.extend([0, 0]);
    framed(b'B', &body)
}

/// Describe of a statement.
pub fn describe_statement(name: &str) -> Vec<u8> {
    framed(b'D', &[vec![b'S'], text(name)].concat())
}

/// Describe of a portal.
pub fn describe_portal(name: &str) -> Vec<u8> {
    framed(b'D', &[vec![b'P'], text(name)].concat())
}

/// Execute; 0 rows means all.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    framed(b'E', &[text(portal), rows.to_be_bytes().to_vec()].concat())
}

/// Close of a statement.
pub fn close_statement(name: &str) -> Vec<u8> {
    framed(b'C', &[vec![b'S'], text(name)].concat())
}

/// Sync.
pub fn sync() -> Vec<u8> {
    framed(b'S', &[])
}

/// Flush.
pub fn flush() -> Vec<u8> {
    framed(b'H', &[])
}

/// Terminate.
pub fn terminate() -> Vec<u8> {
    framed(b'X', &[])
}

/// CopyData.
pub fn copy_data(bytes: &[u8]) -> Vec<u8> {
    framed(b'd', bytes)
}

/// CopyDone.
pub fn copy_done() -> Vec<u8> {
    framed(b'c', &[])
}

/// CopyFail.
pub fn copy_fail(reason: &str) -> Vec<u8> {
    framed(b'f', &text(reason))
}

/// Parse, Bind, Execute and Sync of the unnamed statement.
pub fn unnamed(sql: &str, values: &[Option<&str>]) -> Vec<u8> {
    [parse("", sql), bind("", "", values), execute("", 0), sync()].concat()
}
