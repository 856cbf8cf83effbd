#if Redis
    import Foundation
    import LarderFiles
    import Testing

    /// A server that answers as the test wants, one answer for each command. It knows no more of the protocol than a
    /// connection needs to be made.
    final class FakeRedis: Sendable {
        /// The answer to a command; nil: the usual one.
        typealias Answer = @Sendable (_ command: String) -> Reply?

        struct Reply: Sendable {
            var start: [UInt8]
            /// Sent again and again afterwards.
            var endless: [UInt8] = []
        }

        /// A test ends when a client has taken as much as this. Bytes.
        static let enough = 64 << 20

        let port: Int
        private let listener: Int32
        private let answer: Answer
        private let counts = Lock((connections: 0, sent: 0))

        init(_ answer: @escaping Answer = { _ in nil }) throws {
            self.answer = answer
            listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let file = listener
            let isListening = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(file, $0, length) == 0 && listen(file, 20) == 0 && getsockname(file, $0, &length) == 0
                }
            }
            try #require(isListening)
            port = Int(UInt16(bigEndian: address.sin_port))
            Thread { [listener, weak self] in
                while true {
                    let client = accept(listener, nil, nil)
                    guard client >= 0 else { return }
                    guard let self else {
                        close(client)
                        return
                    }
                    Thread { self.serve(client) }.start()
                }
            }.start()
        }

        deinit {
            shutdown(listener, Int32(SHUT_RDWR))
            close(listener)
        }

        /// The connections that have ended, and the longest answer that a client has taken on one of them, in bytes.
        var ended: (connections: Int, sent: Int) { counts.withLock { $0 } }

        private func serve(_ client: Int32) {
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            var sent = 0
            var isTaken = true
            while isTaken, sent < Self.enough {
                let count = recv(client, &bytes, bytes.count, 0)
                if count <= 0 { break }
                // No argument contains the beginning of a command.
                for command in String(decoding: bytes[0..<count], as: UTF8.self).components(separatedBy: "\r\n*") {
                    let reply = answer(command) ?? Reply(start: Self.usual(command))
                    isTaken = isTaken && Self.send(reply.start, to: client, &sent)
                    while isTaken, !reply.endless.isEmpty, sent < Self.enough {
                        isTaken = Self.send(reply.endless, to: client, &sent)
                    }
                }
            }
            close(client)
            counts.withLock { counts in
                counts.connections += 1
                counts.sent = max(counts.sent, sent)
            }
        }

        /// Returns false when the client takes no more.
        private static func send(_ bytes: [UInt8], to client: Int32, _ sent: inout Int) -> Bool {
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = rest.withUnsafeBytes {
                    Foundation.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                if written <= 0 { return false }
                sent += written
                rest = rest.dropFirst(written)
            }
            return true
        }

        private static func usual(_ command: String) -> [UInt8] {
            if command.contains("\r\nEVALSHA\r\n") { return Array("*3\r\n:0\r\n:1\r\n$0\r\n\r\n".utf8) }
            if command.contains("\r\nEVAL\r\n") {
                let time = "\(Int64(Date().timeIntervalSince1970 * 1000))"
                return Array("*3\r\n$1\r\ne\r\n:\(time)\r\n$1\r\ne\r\n".utf8)
            }
            if command.contains("\r\nID\r\n") { return Array(":5\r\n".utf8) }
            if command.contains("\r\nLOAD\r\n") { return Array("$3\r\nabc\r\n".utf8) }
            if command.contains("SUBSCRIBE") { return Array("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n".utf8) }
            return Array("+OK\r\n".utf8)
        }
    }
#endif
