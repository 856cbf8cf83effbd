import Foundation

/// A progress bar on standard error, if that is a terminal.
struct Progress {
    private static let width = 24

    private static let isShown = isatty(FileHandle.standardError.fileDescriptor) == 1

    private let total: Int
    private var done = 0

    init(total: Int) {
        self.total = total
    }

    /// Clears the bar, if there is one.
    static func clear() { write("\r\u{1B}[K") }

    func show(_ title: String, round: Int) {
        let filled = Self.width * done / total
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: Self.width - filled)
        Self.write("\r\u{1B}[K[\(bar)] \(done)/\(total) \(title)" + (round == 0 ? ", warming up" : ", round \(round)"))
    }

    /// Clears the bar, because a line of the report comes next.
    mutating func step() {
        done += 1
        Self.clear()
    }

    private static func write(_ text: String) {
        if isShown { try? FileHandle.standardError.write(contentsOf: Data(text.utf8)) }
    }
}
