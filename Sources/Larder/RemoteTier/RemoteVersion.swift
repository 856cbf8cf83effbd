import LarderFiles

/// The version of a change: a time of a hybrid logical clock, and the node that made the change.
///
/// Written as 32 hexadecimal digits of fixed width, so that comparing strings compares versions: 12 digits for the
/// milliseconds since 1970 on the server's clock, 4 for a counter within one of them, 16 for the node. Servers compare
/// strings because a script's numbers are floating-point: they cannot tell adjacent 64-bit integers apart.
public struct RemoteVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 32 digits.
    public let description: String

    /// The number of digits.
    public static let length = 32

    /// Reads a version; nil unless it has exactly 32 lowercase hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        let isHex = text.utf8.allSatisfy { 48...57 ~= $0 || 97...102 ~= $0 }
        guard text.utf8.count == Self.length, isHex else { return nil }
        description = String(text)
    }

    /// The last time that fits, in the year 10889.
    static let lastTime: Int64 = 1 << 48 - 1

    init(milliseconds: Int64, counter: UInt16, node: String) {
        description = FixedHex.padded(UInt64(clamping: milliseconds), 12) + FixedHex.padded(UInt64(counter), 4) + node
    }

    /// The same change at another time.
    func moved(by milliseconds: Int64) -> RemoteVersion {
        let time = Timestamp(milliseconds: self.milliseconds).advanced(byMilliseconds: milliseconds).milliseconds
        return RemoteVersion(milliseconds: min(max(0, time), Self.lastTime), counter: counter, node: node)
    }

    /// Compares the digits.
    public static func < (left: RemoteVersion, right: RemoteVersion) -> Bool {
        left.description.utf8.lexicographicallyPrecedes(right.description.utf8)
    }

    /// The time of the version, in milliseconds since 1970.
    public var milliseconds: Int64 { Int64(description.prefix(12), radix: 16) ?? 0 }

    /// The node that made the change: 16 digits.
    public var node: String { String(description.suffix(16)) }

    var counter: UInt16 { UInt16(description.dropFirst(12).prefix(4), radix: 16) ?? 0 }
}

/// Hexadecimal digits of fixed width.
enum FixedHex {
    static func padded(_ number: UInt64, _ width: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits.suffix(width)
    }

    /// 16 random digits.
    static func random() -> String { padded(max(1, Simulation.randomNumber()), 16) }
}

/// A hybrid logical clock: it never runs backwards, follows the server's clock, and is never behind a version that it
/// has seen.
struct HybridClock: Sendable {
    /// The versions of others that are further ahead than this are not followed. Milliseconds.
    static let tolerance: Int64 = 60_000

    let node: String
    /// The server's time minus the local one, in milliseconds.
    private(set) var offset: Int64 = 0
    /// Whether the offset is known.
    private(set) var isCorrected = false
    private var last: Int64 = 0
    /// The latest local time since the clock was last set back.
    private var latest: Timestamp?
    private var counter: UInt16 = 0

    init(node: String = FixedHex.random()) {
        self.node = node
    }

    /// A local clock that was set back says nothing about the server's. Less than this is no step: callers at a time
    /// need not come in the order in which they have read the clock. Milliseconds.
    private static let shortestStep: Int64 = 2000

    private mutating func follow(_ now: Timestamp) {
        guard let latest, now < latest else {
            self.latest = now
            return
        }
        let step = latest.millisecondsSince(now)
        guard step >= Self.shortestStep else { return }
        let (sum, overflow) = offset.addingReportingOverflow(step)
        if !overflow { offset = sum }
        self.latest = now
    }

    /// Returns a version that is higher than all before.
    mutating func next(at now: Timestamp) -> RemoteVersion {
        follow(now)
        let time = now.advanced(byMilliseconds: offset).milliseconds
        if time > last {
            (last, counter) = (time, 0)
        } else if counter == .max {
            (last, counter) = (last + 1, 0)
        } else {
            counter += 1
        }
        return RemoteVersion(milliseconds: last, counter: counter, node: node)
    }

    /// Returns a version of this node on the server's clock. Before the first connection the local clock had not been
    /// compared with that, so the version is not `isTimed`.
    func timed(_ version: RemoteVersion, _ isTimed: Bool) -> RemoteVersion {
        isTimed ? version : version.moved(by: offset)
    }

    /// Follows a version that another node has given. One that is far ahead of the server's clock is not believed.
    mutating func observe(_ version: RemoteVersion, at now: Timestamp) {
        follow(now)
        let (time, other) = (version.milliseconds, version.counter)
        guard time <= now.advanced(byMilliseconds: offset + Self.tolerance).milliseconds else { return }
        if time > last || time == last && other > counter { (last, counter) = (time, other) }
    }

    /// Follows the server's clock. With `settingBack`, because the server has refused a version as too high, and at the
    /// first time, the clock is set back if it was ahead.
    mutating func correct(to time: Int64, at now: Timestamp, settingBack: Bool = false) {
        // A server that shows no time at all is not followed.
        guard (0...RemoteVersion.lastTime / 2).contains(time) else { return }
        offset = Timestamp(milliseconds: time).millisecondsSince(now)
        latest = now
        if settingBack || !isCorrected, last > time { (last, counter) = (time, 0) }
        isCorrected = true
    }
}
