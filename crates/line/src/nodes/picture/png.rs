//! The picture as PNG: the same points and colours as the SVG, with small letters of its own.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::canvas::{Canvas, color};
use super::{Classes, MARGIN, Plane, SIZE, Scale, caption, color_of, legend, legend_y};

/// Pixels to a unit of the SVG.
const DENSITY: usize = 2;
/// Pixels to a point of a letter.
const LETTER_SCALE: usize = 3;

/// Writes the plane as a PNG picture of 1600 x 1600 pixels, coloured as [`super::write_svg`] does it.
///
/// # Errors
/// Those of `out`.
///
/// # Source
/// W3C, "Portable Network Graphics (PNG) Specification", third edition.
pub fn write_png(plane: &Plane, classes: Option<&Classes>, out: &mut dyn Write) -> io::Result<()> {
    let side = SIZE as usize * DENSITY;
    let density = DENSITY as f64;
    let mut canvas = Canvas::white(side);
    let scale = Scale::of(&plane.points);
    for (&node, point) in plane.nodes.iter().zip(&plane.points) {
        let [x, y] = scale.place(point).map(|at| at * density);
        let color = color(color_of(node, classes));
        canvas.dot((x, y), 2.5 * density, color, 0.7);
    }
    let left = MARGIN as usize * DENSITY;
    canvas.text((left, 14 * DENSITY), LETTER_SCALE, &caption(plane));
    for (entry, (name_color, name)) in legend(classes).into_iter().enumerate() {
        let y = legend_y(entry) * density;
        canvas.dot((left as f64, y), 4.0 * density, color(name_color), 1.0);
        let above = 5 * LETTER_SCALE / 2;
        let place = (left + 10 * DENSITY, y as usize - above);
        canvas.text(place, LETTER_SCALE, name);
    }
    encode(&canvas, side as u32, out)
}

/// Eight bits each of red, green and blue, lines as they are.
fn encode(canvas: &Canvas, side: u32, out: &mut dyn Write) -> io::Result<()> {
    const RGB8: [u8; 5] = [8, 2, 0, 0, 0];
    out.write_all(b"\x89PNG\r\n\x1a\n")?;
    let sides = [side.to_be_bytes(), side.to_be_bytes()].concat();
    chunk(*b"IHDR", &[sides.as_slice(), &RGB8].concat(), out)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in canvas.rows() {
        packed.write_all(&[0])?; // the line's filter: none
        packed.write_all(row.as_flattened())?;
    }
    chunk(*b"IDAT", &packed.finish()?, out)?;
    chunk(*b"IEND", &[], out)
}

fn chunk(kind: [u8; 4], bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut crc = Crc::new();
    crc.update(&kind);
    crc.update(bytes);
    out.write_all(&(bytes.len() as u32).to_be_bytes())?;
    out.write_all(&kind)?;
    out.write_all(bytes)?;
    out.write_all(&crc.sum().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeLabels;
    use std::io::Read;

    /// The pixels of a picture, its checksums compared.
    fn decode(file: &[u8]) -> Vec<Vec<[u8; 3]>> {
        let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap();
        let (mut head, mut packed) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            let (kind, bytes) = (&rest[4..8], &rest[8..8 + len]);
            let mut crc = Crc::new();
            crc.update(&rest[4..8 + len]);
            assert_eq!(crc.sum().to_be_bytes(), rest[8 + len..12 + len]);
            match kind {
                b"IHDR" => head = bytes.to_vec(),
                b"IDAT" => packed.extend(bytes),
                _ => assert_eq!((kind, rest.len()), (b"IEND".as_slice(), 12)),
            }
            rest = &rest[12 + len..];
        }
        let side = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        assert_eq!(head[8..], [8, 2, 0, 0, 0]);
        let mut plain = Vec::new();
        let mut input = flate2::read::ZlibDecoder::new(packed.as_slice());
        input.read_to_end(&mut plain).unwrap();
        assert_eq!(plain.len(), side * (1 + 3 * side));
        let line = |line: &[u8]| {
            assert_eq!(line[0], 0);
            line[1..].chunks(3).map(|p| [p[0], p[1], p[2]]).collect()
        };
        plain.chunks(1 + 3 * side).map(line).collect()
    }

    #[test]
    fn points_have_the_places_and_colours_of_their_classes() {
        let plane = Plane {
            nodes: vec![0, 1, 2],
            points: vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]],
            shares: [0.75, 0.25],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("classes.txt");
        std::fs::write(&path, "0 a\n1 b\n").unwrap();
        let classes = Classes::read(&path, &NodeLabels::numbers(3)).unwrap();
        let mut file = Vec::new();
        write_png(&plane, Some(&classes), &mut file).unwrap();
        let pixels = decode(&file);
        assert_eq!((pixels.len(), pixels[0].len()), (1600, 1600));
        // 7 parts of the colour and 3 of white.
        let is_mixed = |found: [u8; 3], color: [u8; 3]| {
            let mixed = color.map(|c| 0.7 * f64::from(c) + 76.5);
            let off = found
                .iter()
                .zip(mixed)
                .map(|(&a, b)| (f64::from(a) - b).abs());
            off.fold(0.0, f64::max) < 0.6
        };
        let at = |x: usize, y: usize| pixels[y][x];
        assert!(is_mixed(at(80, 1520), [0x00, 0x72, 0xb2]));
        assert!(is_mixed(at(1520, 1520), [0xe6, 0x9f, 0x00]));
        assert!(is_mixed(at(1520, 80), [0xcc; 3]), "no class");
        assert_eq!(at(800, 800), [255; 3]);
        assert_eq!(at(80, 120), [0xe6, 0x9f, 0x00], "the second of the legend");
        let mut plain = Vec::new();
        write_png(&plane, None, &mut plain).unwrap();
        assert!(is_mixed(decode(&plain)[80][1520], [0x00, 0x72, 0xb2]));
    }
}
