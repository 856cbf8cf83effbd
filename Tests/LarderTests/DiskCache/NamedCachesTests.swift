import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A cache that is opened by its name", .ownCaches)
struct NamedCachesTests {
    private let manager = FileManager.default

    private var caches: URL { CachesDirectory.root! }

    private func path(_ name: String) -> String { caches.appendingPathComponent(name).path }

    private func text(_ name: String) -> String? {
        try? String(contentsOf: caches.appendingPathComponent(name), encoding: .utf8)
    }

    @Test("is in the folder of its program, so two programs have two caches")
    func programs() throws {
        let program = try #require(ProgramName.current)
        let own = try DiskCache(name: "users")
        #expect(own.directory.path == path("\(program)/users"))
        let other = try DiskCache(name: "users", program: "other")
        #expect(other.directory.path == path("other/users"))
        try own.setString("own", forKey: "k")
        #expect(other.string(forKey: "k") == nil)
        #expect(try DiskCache(name: "users", program: program).string(forKey: "k") == "own")
        let shared = try DiskCache.shared
        #expect(shared.directory.path == path("\(program)/Larder"))
        try shared.close()
        #expect(try DiskCache.shared.count == 0)
        try DiskCache.shared.close()
    }

    @Test("refuses a program that is not one path component", arguments: ["", ".", "..", "a/b", "a\u{0}"])
    func invalid(program: String) {
        #expect(code { try DiskCache(name: "users", program: program) } == .invalidName)
        #expect(manager.subpaths(atPath: caches.path) == [])
    }

    @Test("stays in the place of 0.1.0, open or closed, until it is in the new one")
    func oldPlace() throws {
        let old = caches.appendingPathComponent("users")
        do {
            let cache = try DiskCache(directory: old)
            try cache.setString("old", forKey: "k")
            let again = try DiskCache(name: "users")
            #expect(again.directory.path == old.path && again.string(forKey: "k") == "old")
            try again.close()
            #expect(cache.string(forKey: "k") == "old")
        }
        #expect(try DiskCache(name: "users", program: "one").string(forKey: "k") == "old")
        #expect(try DiskCache(name: "users", program: "two").string(forKey: "k") == "old")
        // Whoever wants the new place moves the directory.
        try manager.createDirectory(atPath: path("one"), withIntermediateDirectories: true)
        try manager.moveItem(atPath: old.path, toPath: path("one/users"))
        #expect(try DiskCache(name: "users", program: "one").string(forKey: "k") == "old")
        #expect(try DiskCache(name: "users", program: "two").string(forKey: "k") == nil)
    }

    @Test(
        "is not in the place of 0.1.0 when something else is there", arguments: ["file", "folder", "empty", "nothing"])
    func foreign(_ thing: String) throws {
        switch thing {
        case "file": try Data("precious".utf8).write(to: caches.appendingPathComponent("users"))
        case "folder":
            try manager.createDirectory(atPath: path("users"), withIntermediateDirectories: true)
            try Data("precious".utf8).write(to: caches.appendingPathComponent("users/notes"))
        case "empty": try manager.createDirectory(atPath: path("users"), withIntermediateDirectories: true)
        default: break
        }
        let before = manager.subpaths(atPath: path("users"))
        #expect(try DiskCache(name: "users", program: "p").directory.path == path("p/users"))
        #expect(manager.subpaths(atPath: path("users")) == before)
    }

    @Test("may have the name of its program, and be in a cache of 0.1.0 with that name")
    func nested() throws {
        let first = try DiskCache(name: "weather", program: "weather")
        #expect(first.directory.path == path("weather/weather"))
        try first.setString("v", forKey: "k")
        #expect(try DiskCache(name: "weather", program: "other").directory.path == path("other/weather"))

        let old = try DiskCache(directory: caches.appendingPathComponent("tool"))
        try old.setString("old", forKey: "k")
        #expect(try DiskCache(name: "tool", program: "tool").directory.path == old.directory.path)
        let inside = try DiskCache(name: "images", program: "tool")
        #expect(inside.directory.path == path("tool/images"))
        try inside.setString("inside", forKey: "k")
        try old.removeAll()
        try old.close()
        let again = try DiskCache(name: "tool", program: "tool")
        #expect(again.keys() == [] && inside.string(forKey: "k") == "inside")
        for name in ["entries", "trash", "shared", "sizeLimit"] {
            #expect(code { try DiskCache(name: name, program: "tool") } == .invalidName, "\(name) is a part of it")
            #expect(code { try DiskCache(name: name, program: "free") } == nil)
        }
    }

    @Test("gets a limit of a tenth of the free space, at most 1 GiB, which every opening and process finds again")
    func defaultLimit() throws {
        let log = EventLog()
        let cache = try DiskCache(name: "users", program: "p", configuration: .init(onEvent: log.note))
        let limit = try #require(cache.limits.sizeLimit)
        #expect((16 << 20...1 << 30).contains(limit))
        #expect(text("p/users/sizeLimit") == "\(limit)\n")
        #expect(try DiskCache(name: "users", program: "p").limits.sizeLimit == limit)
        #expect(try DiskCache(directory: cache.directory).limits.sizeLimit == limit, "by its directory, too")
        #expect(
            code { try DiskCache(name: "users", program: "p", configuration: .unlimited) } == .differentConfiguration)
        cache.setLimits(.init(countLimit: 100))
        let other = try DiskCache(name: "users", program: "p", configuration: .init(countLimit: 100))
        #expect(other.limits == .init(countLimit: 100))
        try other.close()
        cache.setLimits(.init(sizeLimit: limit))
        try cache.setString("v", forKey: "k")
        #expect(log.events(of: cache).filter { $0.kind == .unlimited }.isEmpty)
        try cache.close()
        // The loss of the index does not lift it, and whoever wants another one writes it there.
        for name in try manager.contentsOfDirectory(atPath: path("p/users"))
        where name != "sizeLimit" && name != "entries" {
            try manager.removeItem(atPath: path("p/users/" + name))
        }
        try Data("4096\n".utf8).write(to: caches.appendingPathComponent("p/users/sizeLimit"))
        let again = try DiskCache(name: "users", program: "p")
        #expect(again.limits.sizeLimit == 4096 && again.string(forKey: "k") == "v")
        #expect(code { try again.setData(Data(count: 5000), forKey: "large") } == .tooLarge)
        try again.removeAll()
        try again.close()
        #expect(text("p/users/sizeLimit") == "4096\n")
    }

    @Test("has no limit if it says so, or the one that it asks for")
    func ownLimit() throws {
        let free = try DiskCache(name: "a", program: "p", configuration: .unlimited)
        #expect(free.limits.sizeLimit == nil && text("p/a/sizeLimit") == nil)
        let own = try DiskCache(name: "b", program: "p", configuration: .init(sizeLimit: 5000))
        #expect(own.limits.sizeLimit == 5000 && text("p/b/sizeLimit") == nil)
        let direct = try DiskCache(directory: caches.appendingPathComponent("p/c"))
        #expect(direct.limits.sizeLimit == nil && text("p/c/sizeLimit") == nil)
        let typed = try Cache<String>(name: "d")
        #expect(typed.disk?.limits.sizeLimit != nil)
    }

    @Test("of 0.1.0 has none, and says so once")
    func noLimit() async throws {
        let old = try DiskCache(directory: caches.appendingPathComponent("users"))
        try old.setString("v", forKey: "k")
        try old.close()
        for opening in 0..<3 {
            let log = EventLog()
            let cache = try DiskCache(name: "users", configuration: .init(onEvent: log.note))
            #expect(cache.limits.sizeLimit == nil && cache.string(forKey: "k") == "v")
            #expect(log.events(of: cache).filter { $0.kind == .unlimited }.count == (opening == 0 ? 1 : 0))
            try cache.close()
        }
        #expect(text("users/sizeLimit") == "none\n")
    }

    @Test("says so to the first who listens, also to a cache of values")
    func listeners() async throws {
        try DiskCache(directory: caches.appendingPathComponent("users")).setString("v", forKey: "k")
        try DiskCache(name: "users").close()
        #expect(text("users/sizeLimit") == nil, "nobody has heard it")
        let log = EventLog()
        let cache = try Cache<String>(name: "users", configuration: .init(onEvent: log.note))
        #expect(log.events(of: try #require(cache.disk)).map(\.kind) == [.unlimited])
        #expect(text("users/sizeLimit") == "none\n")
    }

    @Test("keeps its limit when the directory is deleted while it is open")
    func deleted() throws {
        let cache = try DiskCache(name: "users", program: "p")
        let limit = try #require(cache.limits.sizeLimit)
        try cache.setString("v", forKey: "k")
        try manager.removeItem(atPath: path("p"))
        try? cache.setString("v", forKey: "k")
        try cache.setString("v", forKey: "k")
        #expect(text("p/users/sizeLimit") == "\(limit)\n")
        #expect(try DiskCache(name: "users", program: "p").string(forKey: "k") == "v")
        try cache.close()
        #expect(try DiskCache(name: "users", program: "p").limits.sizeLimit == limit)
    }

    @Test(
        "is opened whatever the file of the limit says, and leaves what is not ours",
        arguments: [
            "", " ", "-5\n", "99999999999999999999999999999999999999999\n", "1 GiB", "\u{0}\u{0}", "link", "folder",
        ])
    func damaged(_ content: String) throws {
        let file = caches.appendingPathComponent("p/users/sizeLimit")
        for isNew in [true, false] {
            try? manager.removeItem(atPath: path("p"))
            if isNew {
                try manager.createDirectory(atPath: path("p/users"), withIntermediateDirectories: true)
            } else {
                let cache = try DiskCache(name: "users", program: "p")
                try cache.setString("v", forKey: "k")
                try cache.close()
                try manager.removeItem(at: file)
            }
            let outside = caches.appendingPathComponent("outside")
            try Data("7".utf8).write(to: outside)
            switch content {
            case "link": try manager.createSymbolicLink(at: file, withDestinationURL: outside)
            case "folder": try manager.createDirectory(at: file, withIntermediateDirectories: true)
            default: try Data(content.utf8).write(to: file)
            }
            let cache = try DiskCache(name: "users", program: "p")
            let limit = cache.limits.sizeLimit
            // One that is empty was being written when a process was killed or the power failed.
            if content == "" || content == "\u{0}\u{0}" {
                #expect(limit != nil && text("p/users/sizeLimit") == "\(limit!)\n")
            }
            if content == "1 GiB" { #expect(limit == 1) }
            #expect(isNew || cache.string(forKey: "k") == "v")
            if !["", "\u{0}\u{0}", "link", "folder"].contains(content) {
                #expect(text("p/users/sizeLimit") == content)
            }
            #expect(text("outside") == "7")
            try cache.close()
        }
    }

    @Test("gets the same limit in many processes that create it at once")
    func race() throws {
        let url = caches.appendingPathComponent("p/users")
        let found = Lock<[Int?]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            let limit = DefaultSizeLimit(path: url.path, PosixFileSystem()).obtain(DiskCache.Configuration().settings)
            found.withLock { $0.append(limit) }
        }
        let saved = DefaultSizeLimit(path: url.path, PosixFileSystem()).saved
        #expect(saved != nil && found.withLock { $0 }.allSatisfy { $0 == saved })
    }

    @Test("a tenth is of what is free when it is created: a disk that fills later does not shrink it")
    func fullDisk() throws {
        let files = MemoryFileSystem()
        func obtain(_ path: String, free: Int) -> Int? {
            files.setCapacity(free)
            return DefaultSizeLimit(path: path, files).obtain(DiskCache.Configuration().settings)
        }
        #expect(obtain("/cache", free: 5_000_000_000) == 500_000_000)
        #expect(obtain("/cache", free: 50) == 500_000_000)
        #expect(obtain("/small", free: 5_000) == 16 << 20 && obtain("/large", free: .max) == 1 << 30)
        #expect(obtain("/unknown", free: 0) == 1 << 30)
    }
}

@Suite("What a process may use")
struct SystemMemoryTests {
    private func limit(_ membership: String?, _ files: [String: String]) -> Int {
        SystemMemory.limit(machine: 1000, groups: "/g", membership: membership) { files[$0] }
    }

    @Test("is the memory of the machine, or less in a control group and the groups around it")
    func groups() {
        #expect(limit(nil, [:]) == 1000 && limit("0::/\n", [:]) == 1000)
        #expect(limit("0::/\n", ["/g/memory.max": "max\n"]) == 1000)
        #expect(limit("0::/\n", ["/g/memory.max": "300\n"]) == 300)
        #expect(limit("0::/a/b\n", ["/g/a/memory.max": "200\n", "/g/a/b/memory.max": "400\n"]) == 200)
        #expect(limit("0::/a/b\n", ["/g/a/b/memory.max": "5000\n"]) == 1000)
        #expect(limit("0::/../x\n", ["/g/memory.max": "250", "/g/../x/memory.max": "1"]) == 250)
        #expect(limit("9:cpu:/a\n4:memory:/d\n", ["/g/memory/d/memory.limit_in_bytes": "90\n"]) == 90)
        #expect(limit("4:memory:/seen/by/host\n", ["/g/memory/memory.limit_in_bytes": "90\n"]) == 90)
        #expect(limit("garbage\n::\n0:\n", ["/g/memory.max": ""]) == 1000)
    }

    @Test("bounds the memory tier beside a disk, where nobody sets a limit or a cost")
    func tier() throws {
        let usual = min(SystemMemory.limit / 8, 256 << 20)
        let disk = try World().open()
        func limit(_ change: (inout Cache<String>.Configuration) -> Void) -> Int? {
            var configuration = Cache<String>.Configuration()
            change(&configuration)
            return Cache<String>(disk: disk, namespace: "n", configuration: configuration).memory?.costLimit
        }
        #expect(limit { _ in } == usual && usual > 0)
        #expect(limit { $0.memory?.costLimit = 7 } == 7)
        #expect(limit { $0.memory?.costLimit = .max } == nil)
        #expect(limit { $0.cost = { _, _ in 1 } } == nil, "its unit is the caller's")
        #expect(limit { $0.memory?.cost = { _ in 1 } } == nil)
        #expect(Cache<String>(memoryOnly: .init()).memory?.costLimit == nil)
    }

    @Test("the name of a program is that of its executable, whatever its arguments say")
    func program() {
        func name(_ path: String, _ exists: Bool = false) -> String? {
            ProgramName.name(ofExecutable: path) { _ in exists }
        }
        #expect(name("/usr/bin/tool") == "tool" && name("/usr/bin/tool (deleted)") == "tool")
        #expect(name("/usr/bin/tool (deleted)", true) == "tool (deleted)" && name("/") == nil)
    }
}
