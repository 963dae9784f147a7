use std::fmt;

/// Dimensions and scales of a metric's values, PMAPI(3) `pmUnits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Units {
    /// Power of space.
    pub space: i8,
    /// Power of time.
    pub time: i8,
    /// Power of the number of events.
    pub count: i8,
    /// 0 bytes, 1 KiB, 2 MiB, …
    pub space_scale: u8,
    /// 0 ns, 1 µs, 2 ms, 3 s, 4 min, 5 h.
    pub time_scale: u8,
    /// The power of ten of a count.
    pub count_scale: i8,
}

impl Units {
    /// From the packed form in which archives hold them.
    pub(crate) fn unpack(word: u32) -> Self {
        let nibble = |shift: u32| (word >> shift) as u8 & 0xf;
        let signed = |shift: u32| (nibble(shift) << 4).cast_signed() >> 4;
        Self {
            space: signed(28),
            time: signed(24),
            count: signed(20),
            space_scale: nibble(16),
            time_scale: nibble(12),
            count_scale: signed(8),
        }
    }

    /// Of the rate of a counter with these units: per second.
    pub fn per_second(self) -> String {
        match self.to_string().as_str() {
            "" => "/ sec".into(),
            units => format!("{units} / sec"),
        }
    }
}

/// As `pmUnitsStr(3)` writes them; nothing for a dimensionless value.
impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.space, name(SPACES, self.space_scale)),
            (self.time, name(TIMES, self.time_scale)),
            (self.count, count_name(self.count_scale)),
        ];
        let above: Vec<String> = parts.iter().filter_map(|part| power(part, 1)).collect();
        let below: Vec<String> = parts.iter().filter_map(|part| power(part, -1)).collect();
        write!(f, "{}", above.join(" "))?;
        if below.is_empty() {
            return Ok(());
        }
        let gap = if above.is_empty() { "" } else { " " };
        write!(f, "{gap}/ {}", below.join(" "))
    }
}

fn power((power, name): &(i8, String), sign: i8) -> Option<String> {
    match power * sign {
        1 => Some(name.clone()),
        power if power > 1 => Some(format!("{name}^{power}")),
        _ => None,
    }
}

fn name(names: &[&str], scale: u8) -> String {
    names
        .get(usize::from(scale))
        .map_or_else(|| format!("scale-{scale}"), |name| (*name).to_owned())
}

fn count_name(scale: i8) -> String {
    match scale {
        0 => "count".into(),
        1 => "count x 10".into(),
        _ => format!("count x 10^{scale}"),
    }
}

const SPACES: &[&str] = &[
    "byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "Pbyte", "Ebyte", "Zbyte", "Ybyte",
];
const TIMES: &[&str] = &["nanosec", "microsec", "millisec", "sec", "min", "hour"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_as_pcp_writes_them() {
        let expected = [
            (0x0000_0000, ""),
            (0x1001_0000, "Kbyte"),
            (0x0100_2000, "millisec"),
            (0x0010_0000, "count"),
            (0x0f10_3000, "count / sec"),
            (0x1f01_3000, "Kbyte / sec"),
            (0x0010_0300, "count x 10^3"),
            (0xf000_0000, "/ byte"),
        ];
        for (word, text) in expected {
            assert_eq!(Units::unpack(word).to_string(), text, "{word:#010x}");
        }
    }
}
