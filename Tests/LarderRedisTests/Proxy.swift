#if Redis
    import Foundation
    import LarderFiles
    import Testing

    /// Stands between a tier and its server, and treats the server's bytes as the test wants.
    final class Proxy: Sendable {
        enum Mode: Sendable { case passing, holding, silent, corrupting, cutting, endless }

        let port: Int
        private let listener: Int32
        private let target: Int
        /// The bytes that pass from a client in a second; nil: as many as there are.
        private let rate: Int?
        private let accepted = Lock(0)
        private let mode = Lock(Mode.passing)
        private let changed = NSCondition()
        private let files = Lock<Set<Int32>>([])

        init(to target: Int, rate: Int? = nil) throws {
            self.target = target
            self.rate = rate
            listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = Self.address(0)
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
                    guard let self else { return }
                    self.serve(client)
                }
            }.start()
        }

        deinit {
            shutdown(listener, Int32(SHUT_RDWR))
            close(listener)
            cutAll()
        }

        /// The connections so far.
        var connections: Int { accepted.withLock { $0 } }

        private static func address(_ port: Int) -> sockaddr_in {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            address.sin_port = UInt16(port).bigEndian
            return address
        }

        func set(_ new: Mode) {
            changed.lock()
            mode.withLock { $0 = new }
            changed.broadcast()
            changed.unlock()
            if new == .cutting { cutAll() }
        }

        /// Returns once answers are no longer held back.
        private func awaitRelease() {
            changed.lock()
            while mode.withLock({ $0 == .holding }) { changed.wait() }
            changed.unlock()
        }

        private func cutAll() {
            for file in files.withLock({ $0 }) { shutdown(file, Int32(SHUT_RDWR)) }
        }

        private func serve(_ client: Int32) {
            accepted.withLock { $0 += 1 }
            let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = Self.address(target)
            let isConnected = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            guard isConnected, mode.withLock({ $0 }) != .cutting else {
                close(client)
                close(server)
                return
            }
            files.withLock { $0.formUnion([client, server]) }
            let open = Lock(2)
            Thread { [weak self] in self?.copy(from: client, to: server, isAnswer: false, open) }.start()
            Thread { [weak self] in self?.copy(from: server, to: client, isAnswer: true, open) }.start()
        }

        private func copy(from source: Int32, to target: Int32, isAnswer: Bool, _ open: Lock<Int>) {
            var bytes = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = recv(source, &bytes, bytes.count, 0)
                if count <= 0 { break }
                if isAnswer { awaitRelease() }
                var part = Array(bytes[0..<count])
                switch isAnswer ? mode.withLock({ $0 }) : .passing {
                case .silent: continue
                case .corrupting: for index in part.indices where index % 7 == 3 { part[index] ^= 0x15 }
                case .endless: part = Array("$999999999\r\n".utf8) + [UInt8](repeating: 120, count: 1 << 20)
                case .passing, .holding, .cutting: break
                }
                var sent = 0
                while sent < part.count {
                    let written = part[sent...].withUnsafeBytes {
                        send(target, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                    }
                    if written <= 0 { break }
                    sent += written
                }
                if let rate, !isAnswer { usleep(UInt32(count * 1_000_000 / rate)) }
            }
            shutdown(source, Int32(SHUT_RDWR))
            shutdown(target, Int32(SHUT_RDWR))
            let isLast = open.withLock { open in
                open -= 1
                return open == 0
            }
            guard isLast else { return }
            files.withLock { $0.subtract([source, target]) }
            close(source)
            close(target)
        }
    }
#endif
