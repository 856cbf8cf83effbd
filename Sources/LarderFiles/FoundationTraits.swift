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
