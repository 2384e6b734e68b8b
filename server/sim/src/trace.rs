//! What happened, line by line: a digest of all of it, the last lines for whoever looks into a
//! failure, and every line as it comes for whoever asked to see them.

use std::collections::VecDeque;

/// Lines kept for a failure's report.
const LAST_LINES: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Trace {
    digest: u64,
    lines: u64,
    last: VecDeque<String>,
    aloud: bool,
}

impl Trace {
    /// Prints each line when `aloud`.
    pub(crate) fn new(aloud: bool) -> Trace {
        Trace {
            digest: 0xcbf2_9ce4_8422_2325,
            aloud,
            ..Trace::default()
        }
    }

    pub(crate) fn line(&mut self, now: u64, text: &str) {
        let (seconds, micros) = (now / 1_000_000_000, now / 1000 % 1_000_000);
        let line = format!("{seconds:3}.{micros:06} {text}");
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if self.aloud {
            println!("{line}");
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Equal traces have equal digests; others, as good as never.
    pub(crate) fn digest(&self) -> u64 {
        self.digest ^ self.lines
    }

    pub(crate) fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }
}
