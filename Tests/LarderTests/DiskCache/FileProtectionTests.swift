import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The data protection of files")
struct FileProtectionTests {
    @Test("has the numbers of the system's classes A to D, and does nothing where there is none")
    func numbers() throws {
        typealias Protection = DiskCache.FileProtection
        let classes: [Protection] = [
            .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .unprotected,
        ]
        #expect(classes.map(\.number) == [1, 2, 3, 4])
        var configuration = DiskCache.Configuration(fileProtection: .unprotected)
        #expect("\(configuration)".contains("fileProtection: unprotected"))
        let home = try TemporaryDirectory()
        for protection in classes {
            configuration.fileProtection = protection
            let failures = Lock(0)
            configuration.onEvent = { event in if event.error != nil { failures.withLock { $0 += 1 } } }
            let cache = try DiskCache(directory: home.appending("cache"), configuration: configuration)
            try cache.setString("v", forKey: "\(protection)")
            #expect(cache.string(forKey: "complete") == "v")
            try cache.close()
            #expect(failures.withLock { $0 } == 0)
        }
    }
}
