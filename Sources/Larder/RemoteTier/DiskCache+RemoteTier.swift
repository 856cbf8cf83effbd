import LarderFiles

/// Removing what a remote tier has something newer for.
extension DiskCache {
    /// Removes an entry whose version is not newer than `version`, or that has none. One step with respect to every
    /// other change of the key.
    ///
    /// - Returns: Whether it did.
    /// - Throws: The errors of `removeValue(forKey:)`.
    @discardableResult
    package func removeValue(
        forKey key: String, ifNotNewerThan version: RemoteVersion
    ) throws(CacheError) -> Bool {
        try remove(checked(key)) { $0.remoteStamp.map { $0.version <= version } ?? true }
    }

    /// Removes an entry that is outdated. With `isHeard`, listeners and fetches have heard of the newer change before.
    /// Returns whether it did.
    @discardableResult
    func remove(
        _ key: Key, isHeard: Bool = false, where isOutdated: @escaping @Sendable (IndexEntry) -> Bool
    ) throws(CacheError) -> Bool {
        let store = try openStore
        let permit = OutdatedCopy(
            index: store.index, event: isHeard ? nil : .changedElsewhere, isOutdated: isOutdated)
        _ = try store.remove(key, at: now, permit: permit)
        return permit.isGranted.isSet
    }
}

/// The right to remove an entry that is outdated.
private struct OutdatedCopy: WritePermit {
    let index: Index
    let event: CacheEvent.Kind?
    let isOutdated: @Sendable (IndexEntry) -> Bool
    let isGranted = Flag()

    func isValid(for key: Key) -> Bool {
        index.load(key)
        let isValid = index.entry(key).map { isOutdated($0) } ?? false
        isGranted.set(isValid)
        return isValid
    }
}

extension IndexEntry {
    /// The mark of the remote tier; nil without one.
    var remoteStamp: RemoteStamp? {
        guard let attachments, !attachments.unknown.isEmpty else { return nil }
        return RemoteStamp(in: attachments.unknown)
    }
}
