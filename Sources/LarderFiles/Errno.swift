/// An error number of the operating system.
///
/// The named values stand in `Platform.swift`, the one file that imports the C library.
package struct Errno: Error, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }
}
