#if canImport(Darwin)
    import Foundation
#endif

/// Listens to what the system asks of its programs, for as long as it lives. Only Apple's platforms ask.
///
/// `@unchecked Sendable`: what is stored is never touched between `init` and `deinit`.
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
            // The name of `UIApplication.didEnterBackgroundNotification`; nobody posts it where there is no UIKit.
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

/// What Foundation cannot do on this system.
package enum FoundationTraits {
    /// Whether archiving and unarchiving end the process where they throw on Apple platforms.
    package static var archivingTraps: Bool {
        #if canImport(Darwin)
            false
        #else
            true
        #endif
    }
}
