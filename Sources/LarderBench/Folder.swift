import Foundation

/// A directory of a scenario's own: one part for the cache, one for what it is compared with.
struct Folder {
    let url: URL

    var cache: URL { url.appendingPathComponent("cache", isDirectory: true) }
    var floor: URL { url.appendingPathComponent("floor", isDirectory: true) }

    init(in place: URL) throws {
        url = place.appendingPathComponent("larder-bench-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        try FileManager.default.createDirectory(at: floor, withIntermediateDirectories: false)
    }

    func remove() {
        try? FileManager.default.removeItem(at: url)
    }
}
