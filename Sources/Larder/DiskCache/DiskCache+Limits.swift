import LarderFiles

/// Eviction by hand. The limits of the configuration do the same behind every write that crosses one.
///
/// The first call in a cache without limits also costs O(n log n): it has to find out the order of use.
extension DiskCache {
    /// Evicts entries until there are at most `count`, the least recently used first. O(1) for each.
    ///
    /// What has expired goes before. The files are deleted when this returns; what fails is reported as an event.
    public func trim(toCount count: Int) {
        guard let store = readableStore else { return }
        store.trim(.count) { .entries(store.index.totals.count - max(0, count)) }
    }

    /// Evicts entries until their payloads have at most `size` bytes. See `trim(toCount:)`.
    public func trim(toSize size: Int) {
        guard let store = readableStore else { return }
        store.trim(.size) { .overSize(max(0, size), lowWaterMark: max(0, size), of: store.index.totals) }
    }

    /// Evicts the entries that have not been used, read or stored, for longer than `age`. See `trim(toCount:)`.
    public func trim(toAge age: Duration) {
        let now = now
        let time = now.advanced(byMilliseconds: -max(0, age.milliseconds))
        readableStore?.trim(.age) { .unusedSince(time, now: now) }
    }

    /// Evicts entries until `bytes` are free on the disk, as far as this cache can give: at most what is lacking when the call
    /// begins. See `trim(toCount:)`.
    public func trim(toFreeSpace bytes: Int) {
        readableStore?.trim(toFreeSpace: max(0, bytes))
    }
}
