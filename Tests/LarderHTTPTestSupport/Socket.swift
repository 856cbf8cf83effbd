import LarderFoundation

/// A TCP connection or listener on the loopback interface, with calls that block.
package final class Socket: Sendable {
    /// A failed call.
    package struct Failure: Error {
        package let call: String
        package let errno: Int32
    }

    private let raw: Int32

    private init(raw: Int32) {
        self.raw = raw
    }

    deinit {
        close(raw)
    }

    #if canImport(Darwin)
        private static let stream = SOCK_STREAM
        private static let sending: Int32 = 0
    #else
        private static let stream = Int32(SOCK_STREAM.rawValue)
        private static let sending = Int32(MSG_NOSIGNAL)
    #endif

    private static func make() throws -> Socket {
        let raw = socket(AF_INET, stream, 0)
        if raw < 0 { throw Failure(call: "socket", errno: errno) }
        var yes: Int32 = 1
        setsockopt(raw, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
        #if canImport(Darwin)
            setsockopt(raw, SOL_SOCKET, SO_NOSIGPIPE, &yes, 4)
        #endif
        return Socket(raw: raw)
    }

    private static func withAddress<Result>(
        _ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// Listens on a port of 127.0.0.1; 0: one that is free.
    package static func listening(on port: Int = 0) throws -> Socket {
        let socket = try make()
        guard withAddress(port, { bind(socket.raw, $0, $1) }) == 0 else { throw Failure(call: "bind", errno: errno) }
        guard listen(socket.raw, 1024) == 0 else { throw Failure(call: "listen", errno: errno) }
        return socket
    }

    /// Connects to a port of 127.0.0.1.
    package static func connected(to port: Int) throws -> Socket {
        let socket = try make()
        guard withAddress(port, { connect(socket.raw, $0, $1) }) == 0 else {
            throw Failure(call: "connect", errno: errno)
        }
        return socket
    }

    /// The port of a listener.
    package var port: Int {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(raw, $0, &size) }
        }
        return Int(in_port_t(bigEndian: address.sin_port))
    }

    /// Waits for a connection; nil once the listener has been shut down.
    package func accepted() -> Socket? {
        let connection = accept(raw, nil, nil)
        return connection < 0 ? nil : Socket(raw: connection)
    }

    /// Returns the bytes that have arrived, at least one; none at the end of the stream.
    package func read() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(raw, &buffer, buffer.count, 0)
        if count < 0 { throw Failure(call: "recv", errno: errno) }
        return Array(buffer[..<count])
    }

    package func write(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(raw, $0.baseAddress, $0.count, Self.sending) }
            if count < 0 { throw Failure(call: "send", errno: errno) }
            rest = rest.dropFirst(count)
        }
    }

    /// Ends both directions, so that calls that wait return.
    package func shutDown() {
        shutdown(raw, Int32(SHUT_RDWR))
    }
}
