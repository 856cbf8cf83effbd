package import Foundation

/// The log of one child of the sharing storm. Each line is written by one call before the child continues, so a kill
/// loses nothing:
///
///     ? 17 123456789 set 3 2000017
///     ! 17 123459999 -
///     ? 18 123460000 set 2 2000018
///     - 18 123460900 the disk is full
///     x 19 123461000 Input/output error
///     ~ 0 123462000 key 3
///
/// The number of the call follows the mark, then the time. A result is `-` for none, `true`, `false`, `nil` or a value.
/// Number 0 belongs to no call. The last line says that a key was evicted shortly before.
package final class SharingLog: Sendable {
    private let descriptor: Int32

    /// Opens a log, to append to it.
    package init(path: String) throws {
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw CocoaError(.fileWriteUnknown) }
    }

    deinit { close(descriptor) }

    package func begin(_ number: Int, _ call: SharingCall) {
        write("? \(number) \(SharingSetup.now) \(call.description)\n")
    }

    package func end(_ number: Int, _ result: ObservedCall.Result, at time: UInt64) {
        let text =
            switch result {
            case .none: "-"
            case .wasDone(let wasDone): "\(wasDone)"
            case .value(let value): value.map(String.init) ?? "nil"
            }
        write("! \(number) \(time) \(text)\n")
    }

    /// Notes that a call has found the disk full. It must have changed nothing.
    package func refuse(_ number: Int) {
        write("- \(number) \(SharingSetup.now) the disk is full\n")
    }

    /// Notes that a key was evicted.
    package func evict(_ key: String) {
        write("~ 0 \(SharingSetup.now) \(key)\n")
    }

    /// Notes an error of a call, or with the number 0 another one.
    package func error(_ number: Int, _ text: String) {
        write("x \(number) \(SharingSetup.now) \(text.replacingOccurrences(of: "\n", with: " "))\n")
    }

    private func write(_ line: String) {
        var line = line
        line.withUTF8 { bytes in
            // A log that cannot be written would make a lie of the history.
            guard Foundation.write(descriptor, bytes.baseAddress, bytes.count) == bytes.count else { abort() }
        }
    }
}

/// The contents of a log.
package struct SharingHistory: Sendable {
    /// A call as its caller logged it.
    package struct Call: Sendable {
        package let process: Int
        package let call: SharingCall
        package let begin: UInt64
        /// Nil when the process was killed during the call, or the call threw.
        package fileprivate(set) var end: UInt64?
        package fileprivate(set) var result = ObservedCall.Result.none
        /// Whether the call found the disk full. It has changed nothing then, except that it may have cleared some
        /// namespaces where it was to clear them all.
        package fileprivate(set) var isRefused = false
    }

    package private(set) var calls: [Call] = []
    /// The errors, and when they happened. 0: a line that makes no sense.
    package private(set) var errors: [(time: UInt64, text: String)] = []

    /// The keys that the process has evicted, and when it said so.
    package private(set) var evictions: [(time: UInt64, key: String)] = []

    /// Reads the log of a process. A line that a kill has cut off is ignored: its call has not begun, or not returned.
    package init(_ log: Data, process: Int) {
        var places: [Int: Int] = [:]
        let text = String(decoding: log, as: UTF8.self)
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        lines.removeLast()
        for line in lines {
            let words = line.split(separator: " ", maxSplits: 3)
            guard words.count == 4, let number = Int(words[1]), let time = UInt64(words[2]) else {
                errors.append((0, "process \(process) logged \"\(line)\""))
                continue
            }
            switch words[0] {
            case "~": evictions.append((time, String(words[3])))
            case "?":
                guard let call = SharingCall(String(words[3])) else { fallthrough }
                places[number] = calls.count
                calls.append(Call(process: process, call: call, begin: time))
            case "!":
                guard let place = places[number], let result = Self.result(words[3], of: calls[place].call) else {
                    fallthrough
                }
                calls[place].end = time
                calls[place].result = result
            case "-":
                guard let place = places[number] else { fallthrough }
                calls[place].end = time
                calls[place].isRefused = true
            default:
                let call = places[number].map { " (\(calls[$0].call))" } ?? ""
                errors.append((time, "process \(process)\(call) at \(time) ns: \(words[3])"))
            }
        }
    }

    private static func result(_ text: Substring, of call: SharingCall) -> ObservedCall.Result? {
        switch text {
        case "-": ObservedCall.Result.none
        case "true": .wasDone(true)
        case "false": .wasDone(false)
        case "nil": .value(nil)
        default: Int(text).map { .value($0) }
        }
    }
}

extension SharingHistory.Call {
    /// Returns the call as each of the keys saw it that it concerns.
    ///
    /// - Parameters:
    ///   - keys: The number of keys.
    ///   - death: When the death of the process was proven.
    /// - Returns: One call for each key.
    package func observed(keys: Int, death: UInt64?) -> [ObservedCall] {
        // Clearing everything clears one namespace after another, and the disk may be full at the second.
        if isRefused, call.target != .everything { return [] }
        return call.concerned(of: keys).map { key in
            ObservedCall(
                caller: process, key: "key \(key)", call.operation, begin: begin, end: isRefused ? nil : end,
                death: isRefused ? end : death, result)
        }
    }
}
