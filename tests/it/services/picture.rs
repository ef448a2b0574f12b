//! A picture to upload: a valid PNG of any size, made here so that no binary file lies in the
//! repository.

use crate::harness::crc32;

/// A true-colour PNG. It is not compressed, so it takes about three bytes a pixel.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend_from_slice(&width.to_be_bytes());
    header.extend_from_slice(&height.to_be_bytes());
    // Eight bits a channel, true colour, the only compression, filter and no interlacing.
    header.extend_from_slice(&[8, 2, 0, 0, 0]);

    let mut pixels = Vec::new();
    for row in 0..height {
        pixels.push(0); // no filter for this row
        for column in 0..width {
            pixels.extend_from_slice(&[(column / 4) as u8, (row / 3) as u8, (column ^ row) as u8]);
        }
    }

    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut picture, b"IHDR", &header);
    chunk(&mut picture, b"IDAT", &stored(&pixels));
    chunk(&mut picture, b"IEND", &[]);
    picture
}

/// Width and height of a PNG.
pub fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "this is no PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

fn chunk(picture: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a small picture");
    picture.extend_from_slice(&length.to_be_bytes());
    let start = picture.len();
    picture.extend_from_slice(kind);
    picture.extend_from_slice(content);
    let check = u32::from_str_radix(&crc32(&picture[start..]), 16).expect("eight digits");
    picture.extend_from_slice(&check.to_be_bytes());
}

/// A zlib stream of stored blocks (RFC 1950, RFC 1951 section 3.2.4).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    stream.extend_from_slice(&adler32(bytes).to_be_bytes());
    stream
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    b << 16 | a
}

#[test]
fn adler32_is_the_usual_one() {
    assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
}
