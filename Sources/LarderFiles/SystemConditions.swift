import LarderFoundation

/// Observes the system's memory pressure and background notifications until it is deallocated. Only Apple platforms
/// send them.
///
/// `@unchecked Sendable`: the stored properties are never accessed between `init` and `deinit`.
package final class SystemConditions: @unchecked Sendable {
    package enum Condition: Sendable {
        case memoryPressure, background
    }

    #if canImport(Darwin)
        private let source: any DispatchSourceMemoryPressure
        private let observer: any NSObjectProtocol

        package init(_ handler: @escaping @Sendable (Condition) -> Void) {
            source = DispatchSource.makeMemoryPressureSource(
                eventMask: [.warning, .critical], queue: .global(qos: .utility))
            source.setEventHandler { handler(.memoryPressure) }
            source.activate()
            // The name of `UIApplication.didEnterBackgroundNotification`; it is never posted where there is no UIKit.
            let name = Notification.Name("UIApplicationDidEnterBackgroundNotification")
            observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
                handler(.background)
            }
        }

        deinit {
            source.cancel()
            NotificationCenter.default.removeObserver(observer)
        }
    #else
        package init(_ handler: @escaping @Sendable (Condition) -> Void) {}
    #endif
}

/// Limitations of Foundation on this platform.
package enum FoundationTraits {
    /// Whether archiving and unarchiving trap where they throw on Apple platforms.
    package static var archivingTraps: Bool {
        #if canImport(Darwin)
            false
        #else
            true
        #endif
    }
}

/// The name under which the program keeps files of its own.
package enum ProgramName {
    /// The bundle identifier on Apple platforms, where the program has one; otherwise the name of the executable, as
    /// the system knows it: whoever starts a program chooses the name in its arguments. Nil: unknown.
    package static let current: String? = {
        #if canImport(Darwin)
            if let identifier = Bundle.main.bundleIdentifier { return identifier }
            return Bundle.main.executableURL?.lastPathComponent
        #else
            guard let path = try? Platform.target(ofLink: "/proc/self/exe") else { return nil }
            return name(ofExecutable: path) { access($0, F_OK) == 0 }
        #endif
    }()

    /// The name that whoever has started the program gave to it.
    package static var inArguments: String { ProcessInfo.processInfo.processName }

    /// Linux adds a word to the path of an executable that has been deleted or replaced since.
    package static func name(ofExecutable path: String, exists: (String) -> Bool) -> String? {
        let mark = " (deleted)"
        let whole = path.hasSuffix(mark) && !exists(path) ? path.dropLast(mark.count) : path[...]
        return whole.split(separator: "/").last.map(String.init)
    }
}

/// The memory that this process may use.
package enum SystemMemory {
    /// Bytes: the memory of the machine, or the smallest limit of a control group of Linux that the process is in.
    package static let limit = limit(
        machine: Int(clamping: ProcessInfo.processInfo.physicalMemory), groups: "/sys/fs/cgroup",
        membership: Platform.text(ofFile: "/proc/self/cgroup")
    ) { Platform.text(ofFile: $0) }

    /// `membership` has a line for each hierarchy: `0::/path` in version 2, `4:memory:/path` in version 1. In a
    /// container the path may be one that only the host can see; the group at the root is then its own.
    package static func limit(
        machine: Int, groups: String, membership: String?, read: (_ path: String) -> String?
    ) -> Int {
        var limits = [machine]
        for line in (membership ?? "").split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let isUnified = fields[0] == "0"
            if !isUnified, !fields[1].split(separator: ",").contains("memory") { continue }
            let (root, file) = isUnified ? (groups, "memory.max") : (groups + "/memory", "memory.limit_in_bytes")
            var parts = fields[2].split(separator: "/")
            if parts.contains("..") { parts = [] }
            while true {
                let text = read(([root] + parts.map(String.init) + [file]).joined(separator: "/"))
                if let limit = text.flatMap({ Int($0.prefix { $0.isNumber }) }) { limits.append(limit) }
                if parts.popLast() == nil { break }
            }
        }
        return limits.min() ?? machine
    }
}
