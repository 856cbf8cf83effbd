import LarderFiles

/// The versions under which a shared tier knows the entries.
extension DiskCache {
    /// Returns the version of an entry, fresh or not; nil without one.
    package func sharedVersion(forKey key: String) -> SharedVersion? {
        let key = self.key(key)
        return readableStore?.recovery.knownEntry(key, at: now)?.sharedStamp?.version
    }

    /// Removes an entry whose version is not newer than `version`, or that has none. One step with respect to every
    /// other change of the key.
    ///
    /// - Returns: Whether it did.
    /// - Throws: The errors of `removeValue(forKey:)`.
    @discardableResult
    package func removeValue(
        forKey key: String, ifNotNewerThan version: SharedVersion
    ) throws(CacheError) -> Bool {
        let store = try openStore
        let permit = NotNewer(index: store.index, version: version)
        _ = try store.remove(checked(key), at: now, permit: permit)
        return permit.isGranted.isSet
    }
}

/// The right to remove an entry that is not newer than a version.
private struct NotNewer: WritePermit {
    let index: Index
    let version: SharedVersion
    let isGranted = Flag()

    func isValid(for key: Key) -> Bool {
        index.load(key)
        let entry = index.entry(key)
        let isValid = entry != nil && entry?.sharedStamp.map { $0.version <= version } ?? true
        isGranted.set(isValid)
        return isValid
    }
}

extension IndexEntry {
    /// The mark of the shared tier; nil without one.
    var sharedStamp: SharedStamp? {
        guard let attachments, !attachments.unknown.isEmpty else { return nil }
        return SharedStamp(in: attachments.unknown)
    }
}

extension AttachmentsPool {
    /// Returns attachments with a mark of the shared tier, if there is one.
    func attachments(
        _ traits: Attachments.Traits, metadata: [String: String], _ stamp: SharedStamp?
    ) -> Attachments? {
        guard let stamp else { return attachments(traits, metadata: metadata) }
        return Attachments(traits, metadata: metadata, unknown: stamp.field)
    }
}
