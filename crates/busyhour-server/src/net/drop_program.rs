//! What the filter of a socket does with each datagram: the program that the kernel runs, and the same as plain functions, by
//! which those that are read are judged. Whoever finds a way around the program is so counted as what he pretends to be.

use socket2::SockFilter;

/// Whether a datagram has the chance of a REGISTER: it is one, perhaps behind one empty line or two (RFC 3261 §7.5), or there are
/// more before whatever it is. No client sends those, and looking behind them has to end somewhere.
pub(super) fn is_register(datagram: &[u8]) -> bool {
    if datagram.len() < REGISTER_LEN_MIN {
        return false;
    }
    let mut rest = datagram;
    for _ in 0..LINE_ENDS {
        match rest.strip_prefix(&LINE_END.to_be_bytes()) {
            _ if rest.starts_with(&METHOD.to_be_bytes()) => return true,
            None => return false,
            Some(behind) => rest = behind,
        }
    }
    true
}

/// Whether a REGISTER shows credentials. Wherever they lie in its first [`SEARCHED_LEN`] bytes, one of the words that are looked
/// at lies in them, which has one of a few values: so there is one look for each `STRIDE` bytes. Other text may have such a word
/// in the right place, and shows credentials then.
pub(super) fn shows_credentials(datagram: &[u8]) -> bool {
    let word_at = |at: usize| datagram.get(at..)?.first_chunk::<4>();
    (0..LOOKS)
        .filter_map(|look| word_at(look * STRIDE))
        .any(|word| CREDENTIAL_WORDS.contains(&u32::from_be_bytes(*word)))
}

/// The program that drops this share of the REGISTERs by chance; with `is_searching` only of those that show no credentials.
pub(super) fn drop_program(share: f64, is_searching: bool) -> Vec<Instruction> {
    let below = (share * f64::from(u32::MAX)) as u32;
    let mut program = find_register();
    program.push(instruction(LOAD_WORD, (0, 0), RANDOM));
    program.push(instruction(JUMP_IF_AT_LEAST, (0, 1), below));
    program.push(instruction(RETURN, (0, 0), PASS));
    if is_searching {
        program.extend(find_credentials());
    }
    program.push(instruction(RETURN, (0, 0), DROP));
    program
}

/// One of the instructions of classic BPF.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    code: u16,
    /// How many instructions are left out if it is so, and if it is not.
    jumps: (u8, u8),
    operand: u32,
}

impl From<Instruction> for SockFilter {
    fn from(one: Instruction) -> Self {
        Self::new(one.code, one.jumps.0, one.jumps.1, one.operand)
    }
}

fn instruction(code: u16, jumps: (u8, u8), operand: u32) -> Instruction {
    Instruction {
        code,
        jumps,
        operand,
    }
}

/// Lets all pass but what [`is_register`], and goes on behind itself with that. A load behind the end of a datagram would drop it,
/// so its length is looked at first.
fn find_register() -> Vec<Instruction> {
    let len_min = (UDP_HEADER_LEN + REGISTER_LEN_MIN) as u32;
    let len = 2 + 4 * LINE_ENDS + 2;
    let mut program = vec![
        instruction(LOAD_LEN, (0, 0), 0),
        instruction(JUMP_IF_AT_LEAST, (0, (len - 3) as u8), len_min),
    ];
    for line_end in 0..LINE_ENDS {
        let at = (UDP_HEADER_LEN + 2 * line_end) as u32;
        // Behind this look, and behind those that are left.
        let left = 4 * (LINE_ENDS - line_end - 1);
        let (found, passes) = ((left + 4) as u8, left as u8);
        program.push(instruction(LOAD_WORD, (0, 0), at));
        program.push(instruction(JUMP_IF_EQUAL, (found, 0), METHOD));
        program.push(instruction(LOAD_HALF, (0, 0), at));
        let line_end = u32::from(LINE_END);
        program.push(instruction(JUMP_IF_EQUAL, (0, passes + 1), line_end));
    }
    program.push(instruction(JUMP, (0, 0), 1));
    program.push(instruction(RETURN, (0, 0), PASS));
    program
}

/// Lets pass what [`shows_credentials`], and goes on behind itself with the rest.
fn find_credentials() -> Vec<Instruction> {
    let look_len = STRIDE + 5;
    let mut program = Vec::with_capacity(LOOKS * look_len);
    for look in 0..LOOKS {
        let at = (UDP_HEADER_LEN + look * STRIDE) as u32;
        let behind = ((LOOKS - look) * look_len - 3) as u32;
        program.push(instruction(LOAD_LEN, (0, 0), 0));
        program.push(instruction(JUMP_IF_AT_LEAST, (1, 0), at + 4));
        program.push(instruction(JUMP, (0, 0), behind));
        program.push(instruction(LOAD_WORD, (0, 0), at));
        for (index, word) in CREDENTIAL_WORDS.iter().enumerate() {
            let left = (STRIDE - index - 1) as u8;
            let jumps = (left, u8::from(left == 0));
            program.push(instruction(JUMP_IF_EQUAL, jumps, *word));
        }
        program.push(instruction(RETURN, (0, 0), PASS));
    }
    program
}

/// The words that lie in the credentials, at whatever byte they begin.
const fn credential_words() -> [u32; STRIDE] {
    let mut words = [0; STRIDE];
    let mut at = 0;
    while at < STRIDE {
        let bytes = [
            CREDENTIALS[at],
            CREDENTIALS[at + 1],
            CREDENTIALS[at + 2],
            CREDENTIALS[at + 3],
        ];
        words[at] = u32::from_be_bytes(bytes);
        at += 1;
    }
    words
}

/// How a request shows that its device was challenged. Hardly any writes the scheme otherwise; such a one has the chance of all.
pub(super) const CREDENTIALS: &[u8; 22] = b"Authorization: Digest ";
const CREDENTIAL_WORDS: [u32; STRIDE] = credential_words();
const STRIDE: usize = CREDENTIALS.len() - 3;
/// Most telephones write credentials before that; those that do not have the chance of all.
const SEARCHED_LEN: usize = 1024;
/// So many that credentials which end there are found.
const LOOKS: usize = SEARCHED_LEN.div_ceil(STRIDE);
/// No other method begins so.
const METHOD: u32 = u32::from_be_bytes(*b"REGI");
const LINE_END: u16 = u16::from_be_bytes(*b"\r\n");
/// So many of them make a REGISTER of anything.
const LINE_ENDS: usize = 3;
/// `REGISTER ` is longer than each keep-alive, and than all that is loaded to find it.
const REGISTER_LEN_MIN: usize = 9;
const _: () = assert!(REGISTER_LEN_MIN >= 2 * (LINE_ENDS - 1) + 4);
const _: () = assert!((LOOKS - 1) * STRIDE + CREDENTIALS.len() >= SEARCHED_LEN);
/// A filter of a UDP socket sees this before the bytes, over IPv4 and IPv6 alike.
const UDP_HEADER_LEN: usize = 8;
/// From linux/bpf_common.h: `BPF_LD | BPF_W | BPF_ABS`, `BPF_LD | BPF_H | BPF_ABS`, `BPF_LD | BPF_W | BPF_LEN`,
/// `BPF_JMP | BPF_JA`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_JMP | BPF_JGE | BPF_K`, `BPF_RET | BPF_K`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_LEN: u16 = 0x80;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// From linux/filter.h: `SKF_AD_OFF + SKF_AD_RANDOM`.
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
/// So many bytes of a datagram are kept.
const PASS: u32 = u32::MAX;
const DROP: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a program as the kernel does; whether the datagram passes, for this random number.
    fn passes(program: &[Instruction], datagram: &[u8], random: u32) -> bool {
        let seen = [&[0; UDP_HEADER_LEN], datagram].concat();
        let (mut accumulator, mut next) = (0, 0);
        loop {
            let Instruction {
                code,
                jumps,
                operand,
            } = program[next];
            let at = operand as usize;
            let load = |len| seen.get(at..at + len);
            let jump = |is_so| usize::from(if is_so { jumps.0 } else { jumps.1 });
            next += 1;
            match code {
                LOAD_LEN => accumulator = seen.len() as u32,
                LOAD_WORD if operand == RANDOM => accumulator = random,
                LOAD_WORD | LOAD_HALF => match load(if code == LOAD_WORD { 4 } else { 2 }) {
                    Some(bytes) => {
                        let put = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
                        accumulator = bytes.iter().fold(0, put);
                    }
                    None => return false,
                },
                JUMP => next += at,
                JUMP_IF_EQUAL => next += jump(accumulator == operand),
                JUMP_IF_AT_LEAST => next += jump(accumulator >= operand),
                RETURN => return operand == PASS,
                other => panic!("{other:#x} is no instruction"),
            }
        }
    }

    /// Text with much of what the program looks for, at any offset.
    fn datagram() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\r\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"REGISTER ".to_vec()),
            Just(b"REGI".to_vec()),
            Just(CREDENTIALS.to_vec()),
            (0..STRIDE).prop_map(|at| CREDENTIALS[at..at + 4].to_vec()),
            prop::collection::vec(any::<u8>(), 0..40),
            (0..1100_usize).prop_map(|len| vec![b'.'; len]),
        ];
        let pieces = prop::collection::vec(piece, 0..8);
        let front = prop_oneof![
            Just(&b""[..]),
            Just(&b"REGISTER sip:a SIP/2.0\r\n"[..]),
            Just(&b"\r\n\r\nREGISTER "[..]),
        ];
        (front, pieces).prop_map(|(front, pieces)| [front, &pieces.concat()].concat())
    }

    proptest! {
        #[test]
        fn the_program_does_as_the_functions_say(datagram in datagram(), random: u32) {
            let is_unlucky = random < u32::MAX / 2;
            let has_chance = is_register(&datagram);
            let of_any = drop_program(0.5, false);
            prop_assert_eq!(passes(&of_any, &datagram, random), !(has_chance && is_unlucky));
            let has_chance = has_chance && !shows_credentials(&datagram);
            let of_others = drop_program(0.5, true);
            prop_assert_eq!(passes(&of_others, &datagram, random), !(has_chance && is_unlucky));
        }
    }

    #[test]
    fn a_register_is_one_behind_empty_lines() {
        for before in 0..300 {
            let datagram = [&b"\r\n".repeat(before), &b"REGISTER sip:a"[..]].concat();
            assert!(is_register(&datagram), "{before}");
        }
    }

    #[test]
    fn keepalives_and_other_messages_are_no_registers() {
        for other in [
            &b""[..],
            b"\r\n",
            b"\r\n\r\n",
            b"\r\n\r\n\r\n\r\n",
            b"\0",
            b"REGISTER",
            b"INVITE sip:a SIP/2.0",
            b"\r\nINVITE sip:a SIP/2.0",
            b"\r\n\r\nBYE sip:a SIP/2.0",
            b"SIP/2.0 200 OK\r\nCSeq: 1 REGISTER",
        ] {
            assert!(!is_register(other), "{other:?}");
        }
    }

    #[test]
    fn credentials_are_seen_wherever_they_end_in_the_first_bytes() {
        for before in 0..=SEARCHED_LEN - CREDENTIALS.len() {
            let datagram = [&vec![b'.'; before], &CREDENTIALS[..]].concat();
            assert!(shows_credentials(&datagram), "{before}");
        }
        let behind = [&[b'.'; SEARCHED_LEN + 8], &CREDENTIALS[..]].concat();
        assert!(!shows_credentials(&behind));
        assert!(!shows_credentials(&[b'.'; 1500]) && !shows_credentials(b""));
    }
}
