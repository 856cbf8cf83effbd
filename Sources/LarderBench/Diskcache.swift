import Foundation

/// The cache of Python programs that share a directory, if it is installed.
enum Diskcache {
    private static let python = URL(fileURLWithPath: "/usr/bin/env")

    static let isInstalled: Bool = {
        let process = Process()
        process.executableURL = python
        process.arguments = ["python3", "-c", "import diskcache"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    /// Starts a process with the default settings.
    static func peer(_ directory: URL) throws -> Peer {
        try Peer(python, ["python3", "-c", script, directory.path], directory)
    }

    /// A worker for values of 1 KiB that live for a day, as they do in Larder by default.
    private static let script = """
        import os, queue, sys, threading
        from diskcache import Cache
        orders = queue.SimpleQueue()
        def read():
            for line in iter(sys.stdin.readline, ""):
                orders.put(line.split())
            os._exit(1)
        threading.Thread(target=read, daemon=True).start()
        cache = Cache(sys.argv[1])
        value = os.urandom(1024)
        keys = ["\(Content.key(0).dropLast(6))%d" % (100000 + number) for number in range(\(Order.keys))]
        while True:
            os.write(1, b".")
            order, *numbers = orders.get()
            if order == "fill":
                for key in keys:
                    cache.set(key, value, expire=86400)
            elif order == "mix":
                process, pairs = map(int, numbers)
                for number in range(pairs):
                    cache.set(keys[(number * 7919 + process * 131) % len(keys)], value, expire=86400)
                    if cache.get(keys[(number * 6101 + process * 257) % len(keys)]) is None:
                        os._exit(1)
            else:
                cache.close()
                os._exit(0)
        """
}
