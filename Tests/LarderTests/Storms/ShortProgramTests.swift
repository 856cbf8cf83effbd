import Foundation
import LarderTestSupport
import Testing

@testable import Larder

@Suite("Programs that end before the first save, without closing the cache")
struct ShortProgramTests {
    @Test("leave few journals, and lose nothing", arguments: [1, 8])
    func journals(atATime: Int) throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let count = 64
        for _ in 0..<count / atATime {
            let programs = try (1...atATime).map { number in
                try SharingProcess(number, directory: directory, logs: home.url, seed: 1, keys: 1, mode: ["leave"])
            }
            for program in programs { #expect(program.awaitEnd() == 0) }
        }
        let names = home.names(in: "cache")
        #expect(names.count { $0.hasPrefix("journal-") } <= 16, "\(names)")
        let bytes = try names.filter { $0 != "entries" && $0 != "shared" }.reduce(0) { sum, name in
            var status = stat()
            try #require(lstat(directory.appendingPathComponent(name).path, &status) == 0)
            return sum + Int(status.st_blocks) * 512
        }
        #expect(bytes <= 1 << 20)
        let cache = try DiskCache(directory: directory)
        #expect(cache.count == count)
        try cache.close()
    }
}
