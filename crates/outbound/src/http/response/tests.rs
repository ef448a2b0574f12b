use super::*;

fn body(text: &str) -> Result<Vec<u8>, String> {
    let mut decoder = Decoder::new(false, 1000);
    decoder.take(text.as_bytes()).map_err(|fault| fault.to_string())?;
    decoder.close().map_err(|fault| fault.to_string())?;
    Ok(decoder.response.body)
}

#[test]
fn a_body_is_whole_or_refused() {
    let large = "x".repeat(1001);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(body(&format!("{chunked}1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")), Ok(b"abc".to_vec()));
    for text in [
        format!("HTTP/1.1 200 OK\r\n\r\n{large}"),
        "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".into(),
        format!("{chunked}3e9\r\n"),
        format!("{chunked}3e8\r\n{}\r\n1\r\n", &large[1..]),
    ] {
        assert!(body(&text).is_err_and(|fault| fault.contains("more than 1000 bytes")), "{text}");
    }
    for text in ["", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "SSH-2.0-x\r\n"] {
        assert!(body(text).is_err_and(|fault| fault.contains("the response is broken")), "{text}");
    }
}
