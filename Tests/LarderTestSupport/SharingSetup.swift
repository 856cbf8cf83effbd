package import Foundation
package import Larder

/// The agreement between the children of the sharing storm and their parent.
package enum SharingSetup {
    /// Returns the configuration of every opener of the directory.
    ///
    /// - Parameters:
    ///   - isShared: Whether several processes use the directory at a time.
    ///   - hasSegments: Whether half of the values are in segments, which are so short that many are cleaned.
    ///   - onEviction: Receives the evictions: where the disk is full, whole segments go.
    ///   - onFailure: Receives every failure and every damaged entry. A lost one is no failure: a removal deletes the
    ///     file first, and a kill may come before its record. The loss of a value shows in the history.
    /// - Returns: The configuration.
    package static func configuration(
        isShared: Bool, hasSegments: Bool = false, onEviction: @escaping @Sendable (CacheEvent) -> Void = { _ in },
        onFailure: @escaping @Sendable (CacheEvent) -> Void
    ) -> DiskCache.Configuration {
        var configuration = DiskCache.Configuration()
        configuration.sharing = isShared ? .processes : .exclusive
        configuration.saveDelay = .milliseconds(5)
        configuration.entriesPerGroup = 4
        if hasSegments {
            configuration.inlineThreshold = 1_500
            configuration.segmentLength = 16 << 10
        }
        configuration.onEvent = { event in
            if [.failed, .corrupt].contains(event.kind) { onFailure(event) }
            if event.kind == .evicted { onEviction(event) }
        }
        return configuration
    }

    /// Returns the bytes of a value: its number, and padding.
    package static func payload(of value: Int, padding: Int) -> Data {
        Data("\(value) \(padding) ".utf8) + Data(repeating: UInt8(truncatingIfNeeded: value), count: padding)
    }

    /// Returns the number of a value; nil when its bytes are not those that were stored.
    package static func value(of payload: Data) -> Int? {
        let words = payload.prefix(50).split(
            separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count == 3, let value = Int(String(decoding: words[0], as: UTF8.self)),
            let padding = Int(String(decoding: words[1], as: UTF8.self))
        else { return nil }
        return payload == Self.payload(of: value, padding: padding) ? value : nil
    }

    /// Returns the nanoseconds of the system's monotonic clock, which all processes share.
    package static var now: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
