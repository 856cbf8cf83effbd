#if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
    import Darwin
#endif

/// Apple's data protection: which keys encrypt a file. New files have the class of their directory.
package enum DataProtection {
    /// Gives a directory a class, by its number in `sys/content_protection.h`: 1 to 4 for A to D. Does nothing on
    /// systems without data protection.
    package static func setClass(_ number: Int32, ofDirectory path: String) throws(Errno) {
        #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
            let raw = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            guard raw >= 0 else { throw Errno(rawValue: errno) }
            defer { close(raw) }
            if fcntl(raw, F_SETPROTECTIONCLASS, number) != 0 { throw Errno(rawValue: errno) }
        #endif
    }
}
