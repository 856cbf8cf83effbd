import Foundation
import LarderTestSupport

/// A store that is linearizable for certain: a file for each key, replaced by renaming under a lock of all processes.
/// It shows what the storm itself does. Each wrong way to do it is one that the storm must find.
struct FileRegister {
    enum Fault: String {
        case none = "register"
        /// Reads return what this process has seen last.
        case stale = "register-stale"
        /// Changes that depend on the old value hold no lock.
        case unlocked = "register-unlocked"
        /// Removals return some calls before they remove.
        case late = "register-late"
    }

    private let directory: URL
    private let fault: Fault
    private let lock: Int32
    private var remembered: [Int: Int] = [:]
    /// The keys to remove, and the number of calls until then.
    private var lateRemovals: [(key: Int, calls: Int)] = []

    init(_ directory: URL, _ fault: Fault) throws {
        self.directory = directory
        self.fault = fault
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        lock = open(directory.appendingPathComponent("lock").path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if lock < 0 { throw CocoaError(.fileWriteUnknown) }
    }

    mutating func run(_ call: SharingCall, padding: Int, process: Int, keys: Int) throws -> ObservedCall.Result {
        if fault != .unlocked { while flock(lock, LOCK_EX) != 0 {} }
        defer { if fault != .unlocked { flock(lock, LOCK_UN) } }
        for place in lateRemovals.indices { lateRemovals[place].calls -= 1 }
        for removal in lateRemovals where removal.calls == 0 { remove(removal.key) }
        lateRemovals.removeAll { $0.calls == 0 }
        var result = ObservedCall.Result.none
        for key in call.concerned(of: keys) {
            let old = try value(of: key)
            // Others come between the reading and the change.
            if fault == .unlocked { usleep(useconds_t(padding / 20)) }
            switch call.operation {
            case .get: result = .value(old)
            case .renew: result = .wasDone(old != nil)
            case .set(let new): try store(new, key, padding, process)
            case .setIfAbsent(let new):
                result = .value(old)
                if old == nil { try store(new, key, padding, process) }
            case .modify(let new):
                result = .value(old)
                try store(new, key, padding, process)
            case .remove where fault == .late:
                result = .wasDone(old != nil)
                lateRemovals.append((key, 4))
            case .remove:
                result = .wasDone(old != nil)
                remove(key)
            case .clear: remove(key)
            }
        }
        return result
    }

    private func url(_ key: Int) -> URL { directory.appendingPathComponent("\(key)") }

    private mutating func value(of key: Int) throws -> Int? {
        if fault == .stale, let value = remembered[key] { return value }
        guard let data = FileManager.default.contents(atPath: url(key).path) else { return nil }
        guard let value = SharingSetup.value(of: data) else { throw CocoaError(.fileReadCorruptFile) }
        if fault == .stale { remembered[key] = value }
        return value
    }

    private mutating func store(_ value: Int, _ key: Int, _ padding: Int, _ process: Int) throws {
        let new = directory.appendingPathComponent("\(key).\(process)")
        try SharingSetup.payload(of: value, padding: padding).write(to: new)
        guard rename(new.path, url(key).path) == 0 else { throw CocoaError(.fileWriteUnknown) }
        if fault == .stale { remembered[key] = value }
    }

    private mutating func remove(_ key: Int) {
        unlink(url(key).path)
        remembered[key] = nil
    }
}
