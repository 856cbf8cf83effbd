package import Foundation
package import LarderHTTP

/// A server on a port of 127.0.0.1 that answers each request with the bytes that a function returns, and then closes the
/// connection: bytes need not be an HTTP message.
package final class SocketServer: Sendable {
    /// A request that has arrived.
    package struct Request: Sendable {
        package var method: String
        package var target: String
        package var fields: [HTTPField]
        package var body: [UInt8]
    }

    private let listener: Socket

    /// Answers on a thread for each connection, which may block.
    package init(port: Int = 0, _ answer: @escaping @Sendable (Request) -> [UInt8]) throws {
        let listener = try Socket.listening(on: port)
        self.listener = listener
        Thread.detachNewThread {
            while let connection = listener.accepted() {
                Thread.detachNewThread { Self.serve(connection, answer) }
            }
        }
    }

    deinit {
        listener.shutDown()
    }

    /// The URL of a path.
    package func url(_ path: String) -> URL { URL(string: "http://127.0.0.1:\(listener.port)\(path)")! }

    private static func serve(_ connection: Socket, _ answer: @Sendable (Request) -> [UInt8]) {
        var reader = MessageReader(connection)
        guard let head = try? reader.head(), head.line.count == 3, let body = try? reader.requestBody(head.fields)
        else { return }
        let request = Request(method: head.line[0], target: head.line[1], fields: head.fields, body: body)
        try? connection.write(answer(request))
        connection.shutDown()
    }
}
