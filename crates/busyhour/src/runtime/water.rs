//! Crossed water marks as events.

use std::sync::Arc;

use super::{Runtime, Stations};
use crate::{
    bus::{Event, Topic},
    serializer::{self, Water},
};

/// The key is the serializer's name.
impl Event for Water {
    type Key = Arc<str>;

    fn key(&self) -> &Arc<str> {
        &self.serializer
    }
}

impl Runtime {
    /// The topic `serializer.water`: every mark that a serializer of this
    /// runtime crosses, the last one of each cached under its name.
    ///
    /// ```
    /// use busyhour::{runtime::Runtime, serializer::WaterMark};
    ///
    /// let runtime = Runtime::simulated(1);
    /// let calls = runtime.serializer("calls").marks(0, 3).build().unwrap();
    /// (0..3).for_each(|_| calls.push(|| ()).unwrap());
    /// let water = runtime.water().get(&"calls".into()).unwrap();
    /// assert_eq!((water.mark, water.queued_len), (WaterMark::High, 3));
    /// ```
    pub fn water(&self) -> &Topic<Water> {
        &self.stations.water
    }

    /// Options of a new serializer named `name`. When it has
    /// [marks](serializer::Builder::marks), crossing them is an event of
    /// [`water`](Self::water).
    pub fn serializer(&self, name: &str) -> serializer::Builder {
        let stations = Arc::downgrade(&self.stations);
        let options = self.pool().serializer(name);
        options.tell_water_to(Arc::new(move |water: &Water| {
            // The topic must not be held: its subscribers hold serializers.
            if let Some(stations) = stations.upgrade() {
                publish(&stations, water);
            }
        }))
    }
}

fn publish(stations: &Stations, water: &Water) {
    let _nobody_may_listen = stations.water.publish(water.clone());
}
