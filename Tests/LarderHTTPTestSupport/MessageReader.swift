package import LarderHTTP

/// Reads HTTP/1.1 messages from a connection (RFC 9112), as strictly as the tests need it.
package struct MessageReader {
    /// A message that is none, or ends before its end.
    package struct Malformed: Error, CustomStringConvertible {
        package let description: String
    }

    /// The first line and the fields.
    package struct Head {
        package var line: [String]
        package var fields: [HTTPField]
    }

    private let socket: Socket
    private var buffer: [UInt8] = []

    package init(_ socket: Socket) {
        self.socket = socket
    }

    /// Returns the next line without its end; nil when the connection ends before it.
    private mutating func line() throws -> String? {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                var line = Array(buffer[..<end])
                buffer.removeFirst(end + 1)
                if line.last == UInt8(ascii: "\r") { line.removeLast() }
                // Bytes are characters: a value need not be UTF-8 (RFC 9110, section 5.5).
                return String(String.UnicodeScalarView(line.map { Unicode.Scalar($0) }))
            }
            let bytes = try socket.read()
            if bytes.isEmpty { return nil }
            buffer += bytes
        }
    }

    /// Returns the head of the next message; nil at the end of the connection.
    package mutating func head() throws -> Head? {
        guard let first = try line() else { return nil }
        var fields: [HTTPField] = []
        while true {
            guard let line = try line() else { throw Malformed(description: "the connection ends in the fields") }
            if line.isEmpty { break }
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw Malformed(description: "not a field: \(line)") }
            fields.append(HTTPField(String(parts[0]), String(parts[1])))
        }
        return Head(
            line: first.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init),
            fields: fields)
    }

    /// Reads the body of a request (RFC 9112, section 6.3).
    package mutating func requestBody(_ fields: [HTTPField]) throws -> [UInt8] {
        if fields.members(of: "Transfer-Encoding").last?.lowercased() == "chunked" { return try chunks() }
        return try bytes(fields.value(of: "Content-Length").flatMap { Int($0) } ?? 0)
    }

    /// Reads the body of a response; `method` is that of its request (RFC 9112, section 6.3).
    package mutating func responseBody(_ fields: [HTTPField], status: Int, method: String) throws -> [UInt8] {
        if method == "HEAD" || status == 204 || status == 304 { return [] }
        if let coding = fields.members(of: "Transfer-Encoding").last {
            return coding.lowercased() == "chunked" ? try chunks() : try rest()
        }
        guard let length = fields.value(of: "Content-Length").flatMap({ Int($0) }) else { return try rest() }
        return try bytes(length)
    }

    private mutating func bytes(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            let more = try socket.read()
            if more.isEmpty { throw Malformed(description: "the connection ends in the body") }
            buffer += more
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private mutating func rest() throws -> [UInt8] {
        while true {
            let more = try socket.read()
            if more.isEmpty { return buffer }
            buffer += more
        }
    }

    private mutating func chunks() throws -> [UInt8] {
        var body: [UInt8] = []
        while true {
            guard let size = try line()?.split(separator: ";").first.flatMap({ Int($0, radix: 16) }) else {
                throw Malformed(description: "not a chunk")
            }
            if size == 0 {
                while let trailer = try line(), !trailer.isEmpty {}
                return body
            }
            body += try bytes(size)
            _ = try line()
        }
    }
}
