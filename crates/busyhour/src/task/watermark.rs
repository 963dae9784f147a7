/// The watermark that a queue has crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermark {
    /// The length rose to the high watermark.
    High,
    /// The length fell back to the low watermark.
    Low,
}
