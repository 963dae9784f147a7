//! A tone that a telephone sends, and how loud it is in what another one hears.

use std::path::Path;

/// Writes a sound file with a minute of a tone: 16 bits, 8,000 samples a second.
pub fn write(path: &Path, hertz: u32) {
    let step = std::f64::consts::TAU * f64::from(hertz) / 8000.0;
    let sample = |index: u32| (8000.0 * (step * f64::from(index)).sin()) as i16;
    let samples: Vec<u8> = (0..60 * 8000)
        .flat_map(|index| sample(index).to_le_bytes())
        .collect();
    let len = u32::try_from(samples.len()).expect("a minute of sound");
    let mut file = Vec::new();
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + len).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16u32.to_le_bytes());
    for half in [1u16, 1] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for word in [8000u32, 16_000] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for half in [2u16, 16] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    file.extend_from_slice(b"data");
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(&samples);
    std::fs::write(path, file).expect("a writable temporary folder");
}

/// How loud a tone is in the last quarter of a second of a sound file (Goertzel's
/// algorithm), as a part of all sound.
pub fn loudness(file: &[u8], hertz: u32) -> f64 {
    let samples = file.get(44..).unwrap_or_default().chunks_exact(2);
    let samples: Vec<f64> = samples
        .map(|sample| f64::from(i16::from_le_bytes([sample[0], sample[1]])))
        .collect();
    let last = &samples[samples.len().saturating_sub(2000)..];
    let energy: f64 = last.iter().map(|sample| sample * sample).sum();
    if last.len() < 2000 || energy == 0.0 {
        return 0.0;
    }
    let coefficient = 2.0 * (2.0 * std::f64::consts::PI * f64::from(hertz) / 8000.0).cos();
    let (mut one, mut two) = (0.0, 0.0);
    for sample in last {
        (one, two) = (sample + coefficient * one - two, one);
    }
    (one * one + two * two - coefficient * one * two) / energy / 1000.0
}
