import Foundation

/// The format of printed figures.
enum Figure {
    static func number(_ value: Double) -> String {
        String(format: value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value)
    }

    static func bytes(_ size: Int) -> String {
        size >= 1 << 20 ? "\(size >> 20) MiB" : size >= 1 << 10 ? "\(size >> 10) KiB" : "\(size) B"
    }

    /// A round number of entries.
    static func short(_ count: Int) -> String {
        count >= 1_000_000 ? "\(count / 1_000_000)M" : count >= 1_000 ? "\(count / 1_000)k" : "\(count)"
    }

    /// A power of ten.
    static func short(_ value: Double) -> String { String(format: "%g", value) }
}
