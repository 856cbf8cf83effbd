import LarderFiles

extension DiskCache {
    /// The limits of a cache, on the whole directory with all its namespaces. Nil: no limit.
    public struct Limits: Hashable, Sendable {
        /// The maximum number of entries; see ``Configuration/countLimit``. Default: nil.
        public var countLimit: Int?
        /// The maximum sum of payload bytes; see ``Configuration/sizeLimit``. Default: nil.
        public var sizeLimit: Int?
        /// The longest time that an entry may go unused; see ``Configuration/ageLimit``. Default: nil.
        public var ageLimit: Duration?
        /// The number of bytes to keep free on the disk; see ``Configuration/minimumFreeSpace``. Default: nil.
        public var minimumFreeSpace: Int?

        /// Creates limits; those that are not given do not exist. Negative ones count as zero.
        public init(
            countLimit: Int? = nil, sizeLimit: Int? = nil, ageLimit: Duration? = nil, minimumFreeSpace: Int? = nil
        ) {
            self.countLimit = countLimit
            self.sizeLimit = sizeLimit
            self.ageLimit = ageLimit
            self.minimumFreeSpace = minimumFreeSpace
        }

        init(_ settings: StoreSettings.Limits) {
            self.init(
                countLimit: settings.count, sizeLimit: settings.size,
                ageLimit: settings.age.map { Duration.milliseconds($0) }, minimumFreeSpace: settings.minimumFreeSpace)
        }

        var settings: StoreSettings.Limits {
            StoreSettings.Limits(
                count: countLimit.map { max(0, $0) }, size: sizeLimit.flatMap { $0 == .max ? nil : max(0, $0) },
                age: ageLimit.map { max(0, $0.milliseconds) }, minimumFreeSpace: minimumFreeSpace.map { max(0, $0) })
        }
    }

    /// The limits that are in force: those of the first opener, or of the last ``setLimits(_:)``. O(1).
    public var limits: Limits { Limits(store.limits.current) }

    /// Replaces the limits, for every handle on the directory. They are in force when the call returns, and entries in
    /// excess are evicted in the background, as ``Configuration/eviction`` says.
    ///
    /// An opening of the directory by another handle must ask for the new limits, or is refused with
    /// `.differentConfiguration`; in a cache with a default limit (see <doc:Limits>), it may leave the size out. The
    /// limits are not kept on disk: the next session has those of its first opener. A closed handle changes nothing.
    ///
    /// O(1), and once O(n log n) when a cache gets its first limit: to determine the order of use, which it keeps from
    /// then on.
    ///
    /// - Parameter limits: All limits; one that is nil is lifted, also the default limit.
    public func setLimits(_ limits: Limits) {
        readableStore?.setLimits(limits.settings)
    }
}

extension DiskCache.Limits: CustomStringConvertible {
    /// The limits by name; "none" when there are none.
    public var description: String { descriptions.isEmpty ? "none" : descriptions.joined(separator: ", ") }

    var descriptions: [String] {
        var parts: [String] = []
        if let countLimit { parts.append("countLimit: \(countLimit)") }
        if let sizeLimit { parts.append("sizeLimit: \(sizeLimit)") }
        if let ageLimit { parts.append("ageLimit: \(Wording.duration(ageLimit))") }
        if let minimumFreeSpace { parts.append("minimumFreeSpace: \(minimumFreeSpace)") }
        return parts
    }
}
