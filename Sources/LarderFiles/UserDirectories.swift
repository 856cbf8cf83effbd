import LarderFoundation

/// The directories of the user whom a process runs as.
package enum UserDirectories {
    /// The path of the directory for caches; nil: the user has none.
    package static var caches: String? {
        #if canImport(Darwin)
            FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first?.path
        #else
            caches(ProcessInfo.processInfo.environment, home: Platform.home)
        #endif
    }

    /// The same by the rules of the XDG Base Directory Specification, which ignores a path that is not absolute. Without
    /// `HOME`, the home is that of the system's list of users.
    package static func caches(_ environment: [String: String], home: String?) -> String? {
        func path(_ value: String?) -> String? { value.flatMap { $0.hasPrefix("/") ? $0 : nil } }
        if let caches = path(environment["XDG_CACHE_HOME"]) { return caches }
        guard let home = path(environment["HOME"]) ?? path(home) else { return nil }
        return home == "/" ? "/.cache" : home + "/.cache"
    }
}
