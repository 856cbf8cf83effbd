import Foundation
import LarderFiles
import LarderTesting

@testable import Larder
@testable import LarderHTTP

/// Feeds the readers of bytes that somebody else wrote; `.ci/fuzz` links it with libFuzzer. The first byte chooses the
/// reader. A trap, a hang and an error of the address sanitizer are findings.
@_cdecl("LLVMFuzzerTestOneInput")
public func feed(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = UnsafeBufferPointer(start: start, count: count)
    guard let first = bytes.first else { return 0 }
    let rest = Array(bytes.dropFirst())
    let text = String(decoding: rest, as: UTF8.self)
    switch first % 8 {
    case 0: _ = PropertyList(Data(rest))
    case 1: _ = PropertyListManifest.content(of: Data(rest))
    case 2: rest.withUnsafeBytes { _ = RecordScanner.record(on: $0) }
    case 3:
        _ = CacheControl([HTTPField("Cache-Control", text)])
        _ = HTTPDate.seconds(text, now: 1_800_000_000)
    case 4: open(rest, as: "manifest.json")
    case 5: open(rest, as: "journal-0000000000000001.jsonl")
    case 6: open(rest, as: "entries/0000000000000001")
    default: open(rest, as: "shared")
    }
    return 0
}

/// A directory with two entries, as a killed process leaves it.
private let image: MemoryImage = {
    let files = MemoryFileSystem()
    let cache = try? DiskCache(
        directory: URL(fileURLWithPath: "/cache"), configuration: .init(), fileSystem: files, clock: ManualClock())
    for key in ["a", "b"] { try? cache?.setString("value", forKey: key, tags: ["tag"]) }
    return files.image
}()

/// Opens that directory with these bytes as one of its files: it may lose the entry there, and must go on.
private func open(_ bytes: [UInt8], as name: String) {
    var image = image
    if image.content(at: "/cache/" + name) == nil {
        image.add(bytes, at: "/cache/" + name)
    } else {
        image.setContent(bytes, at: "/cache/" + name)
    }
    guard
        let cache = try? DiskCache(
            directory: URL(fileURLWithPath: "/cache"), configuration: .init(), fileSystem: MemoryFileSystem(image),
            clock: ManualClock())
    else { return }
    _ = cache.string(forKey: "a")
    try? cache.setString("new", forKey: "b")
    guard cache.string(forKey: "b") == "new" else { fatalError("a value that was just stored is missing") }
    try? cache.close()
}
