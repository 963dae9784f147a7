/// How much a [`PmcdClient`](crate::PmcdClient) takes of what a `pmcd` tells. A `pmcd` that
/// lies costs this much memory and no more; what is beyond is left out and counted.
///
/// ```
/// use busyhour_pcp::{LiveLimits, PmcdClient};
///
/// let limits = LiveLimits { metrics_max: 100, ..LiveLimits::default() };
/// let client = PmcdClient::new("kernel.all", limits);
/// assert_eq!(client.left_out(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveLimits {
    /// Names of metrics; the first ones in their order are kept.
    pub metrics_max: usize,
    /// Instances of all domains together.
    pub instances_max: usize,
    /// Values of one sample.
    pub values_max: usize,
    /// Bytes of the name of a metric or of an instance.
    pub name_len_max: usize,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            metrics_max: 10_000,
            instances_max: 50_000,
            values_max: 100_000,
            name_len_max: 1024,
        }
    }
}
