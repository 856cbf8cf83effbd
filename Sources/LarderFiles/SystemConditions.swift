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
    /// The bundle identifier on Apple platforms, where the program has one; otherwise the name of the process.
    package static var current: String {
        #if canImport(Darwin)
            if let identifier = Bundle.main.bundleIdentifier { return identifier }
        #endif
        return ProcessInfo.processInfo.processName
    }
}
