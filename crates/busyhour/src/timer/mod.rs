//! Timers: a pure queue and a service that delivers into serializers.
